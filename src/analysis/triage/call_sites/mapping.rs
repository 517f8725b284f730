//! Call sites of all kernel names in the mapping traces, for kernels of another trace whose own call site is unknown. A
//! kernel borrows by its exact name, else by a similar name, else by the aliases of `patterns/frames.json`. The mapping is
//! built in linear time; a similar name costs one pass over all kernel names.

use super::captured;
use super::resolver::Resolver;
use super::{CallSite, Resolution};
use crate::analysis::inference::passes::stages_of_ops;
use crate::analysis::structure::stages::Stage;
use crate::analysis::triage::captures::{self, Capture};
use crate::analysis::triage::frames::{Alias, FrameRules, canonical};
use crate::rules::signals::Signals;
use crate::trace::{HostCode, NONE, Names, Trace};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Kernel name -> call sites, of all mapping traces.
#[derive(Default)]
pub(super) struct Mapping {
    pub(super) distinct: Vec<CallSite>,
    /// Parallel to `names`.
    kernels: Vec<Kernel>,
    /// Canonical kernel names.
    names: Names,
    /// The launches of every graph capture.
    captures: Vec<Capture>,
    /// Parallel to `captures`: the call site of each launch, or [`NONE`].
    capture_call_sites: Vec<Vec<u32>>,
}

/// The launches of one kernel name.
#[derive(Default)]
struct Kernel {
    /// Its name with every number replaced by `#`.
    without_numbers: String,
    /// The call site of every launch in order, by stage.
    by_stage: Vec<(Stage, Vec<u32>)>,
    /// The call site of every launch in order.
    all: Vec<u32>,
}

/// The call sites that a kernel borrows, one per launch in order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MappedCallSites {
    pub(super) call_sites: Vec<u32>,
    pub(super) resolution: Resolution,
}

impl Mapping {
    pub(super) fn new(traces: &[&Trace], rules: &FrameRules, signals: &Signals) -> Self {
        let mut mapping = Self::default();
        let mut index_of_call_site = HashMap::default();
        for trace in traces {
            if let Some(code) = &trace.code {
                mapping.add_trace(trace, code, rules, signals, &mut index_of_call_site);
            }
        }
        mapping
    }

    fn add_trace(
        &mut self,
        trace: &Trace,
        code: &HostCode,
        rules: &FrameRules,
        signals: &Signals,
        index_of_call_site: &mut HashMap<CallSite, u32, RandomState>,
    ) {
        let captured = captured::find(trace, code, rules, signals);
        let calls = captured.iter().map(|captured| captured.call).collect();
        let mut resolver = Resolver::new(trace, code, (rules, signals), calls);
        let ops: Vec<u32> = (0..trace.gpu_ops.len()).map(|op| resolver.of_op(op)).collect();
        let launches: Vec<u32> = captured.iter().map(|captured| resolver.of_captured(captured.call)).collect();
        let indexes: Vec<u32> =
            resolver.distinct.into_iter().map(|site| self.add_call_site(site, index_of_call_site)).collect();
        let index = |site: u32| indexes.get(site as usize).copied().unwrap_or(NONE);
        let names: Vec<u32> = trace.names.iter().map(|name| self.intern_kernel(&canonical(name))).collect();
        for ((op, stage), site) in trace.gpu_ops.iter().zip(stages_of_ops(trace, Stage::All)).zip(ops) {
            self.add_launch(names.get(op.name.0 as usize).copied(), stage, index(site));
        }
        let names: Vec<u32> = code.kernel_names.iter().map(|name| self.intern_kernel(&canonical(name))).collect();
        let first_capture = self.captures.len();
        for (launch, site) in captured.iter().zip(launches) {
            let kernel = launch.kernel.and_then(|name| names.get(name.0 as usize).copied());
            self.add_launch(kernel, Stage::All, index(site));
            self.add_captured_launch(first_capture + launch.capture, kernel, index(site));
        }
    }

    fn add_launch(&mut self, kernel: Option<u32>, stage: Stage, call_site: u32) {
        if let Some(kernel) = kernel.and_then(|kernel| self.kernels.get_mut(kernel as usize))
            && call_site != NONE
        {
            kernel.add_launch(stage, call_site);
        }
    }

    fn add_captured_launch(&mut self, capture: usize, kernel: Option<u32>, call_site: u32) {
        if self.captures.len() <= capture {
            self.captures.resize(capture + 1, Capture::new());
            self.capture_call_sites.resize(capture + 1, Vec::new());
        }
        if let (Some(kernels), Some(call_sites)) =
            (self.captures.get_mut(capture), self.capture_call_sites.get_mut(capture))
        {
            kernels.push(kernel);
            call_sites.push(call_site);
        }
    }

    /// The id of a canonical kernel name, or [`NONE`] if no mapping trace has it.
    pub(super) fn id(&self, name: &str) -> u32 {
        let index = self.names.iter().position(|own| own == name);
        index.and_then(|index| u32::try_from(index).ok()).unwrap_or(NONE)
    }

    /// The call sites of the kernels of a graph replay, matched with a capture by order ([`captures::find`]). `replay` has
    /// the ids of the kernels. The call site of a kernel is [`NONE`] if it is unknown.
    pub(super) fn match_replay(&self, replay: &[u32]) -> Option<MappedCallSites> {
        let (capture, first) = captures::find(&self.captures, replay)?;
        let is_named = self.captures.get(capture).is_some_and(|capture| capture.iter().any(Option::is_some));
        let call_sites = self.capture_call_sites.get(capture)?.get(first..first.checked_add(replay.len())?)?.to_vec();
        Some(MappedCallSites {
            call_sites,
            resolution: if is_named { Resolution::BorrowedExact } else { Resolution::BorrowedRelaxed },
        })
    }

    /// The id of a canonical kernel name, which is added if it is new.
    fn intern_kernel(&mut self, name: &str) -> u32 {
        let id = self.names.intern(name).0;
        if self.kernels.len() < self.names.len() {
            self.kernels.push(Kernel { without_numbers: without_numbers(name), ..Kernel::default() });
        }
        id
    }

    /// The index of a call site in `distinct`, or [`NONE`] for one without a location of its own.
    fn add_call_site(&mut self, site: CallSite, index_of_call_site: &mut HashMap<CallSite, u32, RandomState>) -> u32 {
        if site.location.is_empty() || matches!(site.resolution, Resolution::Replay | Resolution::Unresolved) {
            return NONE;
        }
        let next = u32::try_from(self.distinct.len()).unwrap_or(NONE);
        let index = *index_of_call_site.entry(site.clone()).or_insert(next);
        if index == next {
            self.distinct.push(site);
        }
        index
    }

    /// The call sites that a kernel may borrow in a stage, by its exact canonical name or else by a similar one.
    pub(super) fn call_sites_of(&self, name: &str, stage: Stage, rules: &FrameRules) -> Option<MappedCallSites> {
        if let Some((_, own)) = self.launched_kernels().find(|(other, _)| *other == name) {
            return Some(MappedCallSites {
                call_sites: own.in_stage(stage).to_vec(),
                resolution: Resolution::BorrowedExact,
            });
        }
        let similar = self.similar(name, stage, rules)?;
        Some(MappedCallSites { call_sites: similar, resolution: Resolution::BorrowedRelaxed })
    }

    /// Names and kernels that were launched from known call sites.
    fn launched_kernels(&self) -> impl Iterator<Item = (&str, &Kernel)> {
        self.names.iter().zip(&self.kernels).filter(|(_, kernel)| !kernel.all.is_empty())
    }

    /// The call sites of a kernel with a similar name. All kernels of the same degree of similarity must have the same
    /// location: no location is better than a wrong one.
    fn similar(&self, name: &str, stage: Stage, rules: &FrameRules) -> Option<Vec<u32>> {
        let plain_name = without_numbers(name);
        let letters = plain_name.bytes().filter(u8::is_ascii_alphabetic).count();
        let is_long = letters >= rules.min_similar_letters / 2;
        let is_same = |_: &str, kernel: &Kernel| is_long && kernel.without_numbers == plain_name;
        let is_contained =
            |other: &str, _: &Kernel| contains_words(name, other, rules) || contains_words(other, name, rules);
        let common = |is_similar: &dyn Fn(&str, &Kernel) -> bool| {
            let similar = self.launched_kernels().filter(|(other, kernel)| is_similar(other, kernel));
            self.common_location(similar.map(|(_, kernel)| kernel.in_stage(stage)))
        };
        common(&is_same).or_else(|| common(&is_contained)).or_else(|| self.aliased(name, stage, rules))
    }

    /// The call sites of the kernel with an alias of this name. If several match, the longest matching word decides.
    fn aliased(&self, name: &str, stage: Stage, rules: &FrameRules) -> Option<Vec<u32>> {
        let name = compact(name);
        let aliases: Vec<&Alias> = rules.aliases.iter().filter(|alias| name.contains(&alias.when)).collect();
        if aliases.is_empty() {
            return None;
        }
        let longest_word = |(other, kernel): (&str, &'_ Kernel)| -> Option<usize> {
            let site = kernel.all.first().and_then(|site| self.distinct.get(*site as usize))?;
            let text = compact(other) + "\n" + &compact(&site.location) + "\n" + &compact(&site.cpu_op);
            let words = aliases.iter().flat_map(|alias| &alias.tokens).filter(|word| text.contains(word.as_str()));
            words.map(String::len).max()
        };
        let kernels = self.names.iter().zip(&self.kernels).filter_map(|entry| Some((longest_word(entry)?, entry.1)));
        let (_, kernel) = kernels.max_by_key(|(length, _)| *length)?;
        Some(kernel.in_stage(stage).to_vec())
    }

    /// The first of several lists of call sites, if all call sites of all lists have the same displayed location.
    fn common_location<'a>(&'a self, mut similar: impl Iterator<Item = &'a [u32]>) -> Option<Vec<u32>> {
        let display = |site: &u32| self.distinct.get(*site as usize).map(|site| site.display.as_str());
        let first = similar.next()?;
        let location = first.first().and_then(display)?;
        let is_there = |call_sites: &[u32]| call_sites.iter().all(|site| display(site) == Some(location));
        (is_there(first) && similar.all(is_there)).then(|| first.to_vec())
    }
}

impl Kernel {
    fn add_launch(&mut self, stage: Stage, call_site: u32) {
        self.all.push(call_site);
        match self.by_stage.iter_mut().find(|(own, _)| *own == stage) {
            Some((_, call_sites)) => call_sites.push(call_site),
            None => self.by_stage.push((stage, vec![call_site])),
        }
    }

    /// The call sites of its launches in a stage, else outside of known stages, else of all launches.
    fn in_stage(&self, stage: Stage) -> &[u32] {
        let find =
            |stage| self.by_stage.iter().find(|(own, _)| *own == stage).map(|(_, call_sites)| call_sites.as_slice());
        find(stage).or_else(|| find(Stage::All)).unwrap_or(&self.all)
    }
}

/// Only the letters and digits of a text, in lower case.
fn compact(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

/// Replaces every number by `#`, because tile sizes and counts differ between variants of a kernel.
fn without_numbers(name: &str) -> String {
    let mut plain = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter {
            '0'..='9' if plain.ends_with('#') => {}
            '0'..='9' => plain.push('#'),
            other => plain.push(other),
        }
    }
    plain
}

/// Whether a name contains another at word boundaries, and the other is long enough to identify a kernel.
fn contains_words(name: &str, other: &str, rules: &FrameRules) -> bool {
    let is_boundary = |byte: Option<&u8>| byte.is_none_or(|byte| !byte.is_ascii_alphanumeric());
    let bytes = name.as_bytes();
    let is_long = other.bytes().filter(u8::is_ascii_alphanumeric).count() >= rules.min_similar_letters;
    is_long
        && name.match_indices(other).any(|(start, _)| {
            is_boundary(start.checked_sub(1).and_then(|before| bytes.get(before)))
                && is_boundary(bytes.get(start + other.len()))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_differ_in_numbers_only_or_contain_each_other_at_word_boundaries() {
        let rules = FrameRules::embedded();
        assert_eq!(without_numbers("nvjet_tst_64x8_v_bz"), without_numbers("nvjet_tst_128x256_v_bz"));
        assert_ne!(without_numbers("nvjet_tst_64x8_v_bz"), without_numbers("nvjet_tst_64x8_h_bz"));
        assert!(contains_words("_matmul_ogs_NNT_bf16xbf16xmxfp4_swiglu", "_matmul_ogs_NNT_bf16xbf16xmxfp4", &rules));
        assert!(
            !contains_words("_matmul_ogs_NNT_bf16xbf16xmxfp4x", "_matmul_ogs_NNT_bf16xbf16xmxfp4", &rules),
            "not at a word boundary"
        );
        assert!(!contains_words("rms_norm_kernel", "rms_norm", &rules), "too short to identify a kernel");
    }
}
