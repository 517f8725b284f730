//! What mapping traces tell: the sites of every kernel name, and which of those names a kernel may borrow from.

use super::captured;
use super::chain::Chain;
use super::{CallSite, Resolution};
use crate::analysis::structure::stages;
use crate::analysis::structure::stages::Stage;
use crate::analysis::triage::captures::{self, Capture};
use crate::analysis::triage::frames::{Alias, FrameRules, canonical};
use crate::rules::signals::Signals;
use crate::trace::{Code, NONE, Names, Trace};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Kernel name -> sites, of all mapping traces.
#[derive(Default)]
pub(super) struct Mapping {
    /// Distinct sites.
    pub(super) sites: Vec<CallSite>,
    /// By the id of a kernel's name in `names`.
    kernels: Vec<Kernel>,
    /// Canonical kernel names.
    names: Names,
    /// The launches of every graph that was captured, and parallel, their sites or [`NONE`].
    captures: Vec<Capture>,
    captured_sites: Vec<Vec<u32>>,
}

/// The launches of one kernel name.
#[derive(Default)]
struct Kernel {
    /// Its name, every number as `#`.
    without_numbers: String,
    /// The stages it was launched in, and the site of every launch in order.
    stages: Vec<(Stage, Vec<u32>)>,
    /// Those of all stages.
    all: Vec<u32>,
}

/// What a kernel borrows: the sites of the launches of its name in order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Loan {
    pub(super) sites: Vec<u32>,
    pub(super) resolution: Resolution,
}

impl Mapping {
    pub(super) fn new(traces: &[&Trace], rules: &FrameRules, signals: &Signals) -> Self {
        let mut mapping = Self::default();
        let mut known = HashMap::default();
        for trace in traces {
            if let Some(code) = &trace.code {
                mapping.learn(trace, code, rules, signals, &mut known);
            }
        }
        mapping
    }

    fn learn(
        &mut self,
        trace: &Trace,
        code: &Code,
        rules: &FrameRules,
        signals: &Signals,
        known: &mut HashMap<CallSite, u32, RandomState>,
    ) {
        let captured = captured::find(trace, code, rules, signals);
        let calls = captured.iter().map(|captured| captured.call).collect();
        let mut chain = Chain::new(trace, code, (rules, signals), calls);
        let ops: Vec<u32> = (0..trace.gpu_ops.len()).map(|at| chain.of_op(at)).collect();
        let launches: Vec<u32> = captured.iter().map(|captured| chain.of_captured(captured.call)).collect();
        let places: Vec<u32> = chain.sites.into_iter().map(|site| self.place(site, known)).collect();
        let place = |site: u32| places.get(site as usize).copied().unwrap_or(NONE);
        let names: Vec<u32> = trace.names.iter().map(|name| self.kernel(&canonical(name))).collect();
        for ((op, stage), site) in trace.gpu_ops.iter().zip(stages::of_ops(trace, Stage::All)).zip(ops) {
            self.launched(names.get(op.name.0 as usize).copied(), stage, place(site));
        }
        let names: Vec<u32> = code.kernel_names.iter().map(|name| self.kernel(&canonical(name))).collect();
        let first_capture = self.captures.len();
        for (launch, site) in captured.iter().zip(launches) {
            let kernel = launch.kernel.and_then(|name| names.get(name.0 as usize).copied());
            self.launched(kernel, Stage::All, place(site));
            self.captured(first_capture + launch.capture, kernel, place(site));
        }
    }

    fn launched(&mut self, kernel: Option<u32>, stage: Stage, place: u32) {
        if let Some(kernel) = kernel.and_then(|kernel| self.kernels.get_mut(kernel as usize))
            && place != NONE
        {
            kernel.launched(stage, place);
        }
    }

    fn captured(&mut self, capture: usize, kernel: Option<u32>, place: u32) {
        if self.captures.len() <= capture {
            self.captures.resize(capture + 1, Capture::new());
            self.captured_sites.resize(capture + 1, Vec::new());
        }
        if let (Some(kernels), Some(sites)) = (self.captures.get_mut(capture), self.captured_sites.get_mut(capture)) {
            kernels.push(kernel);
            sites.push(place);
        }
    }

    /// The id of a canonical kernel name, [`NONE`] for one of no mapping trace.
    pub(super) fn id(&self, name: &str) -> u32 {
        let at = self.names.iter().position(|known| known == name);
        at.and_then(|at| u32::try_from(at).ok()).unwrap_or(NONE)
    }

    /// The sites of the kernels of a graph replay, [`NONE`] where one is not known, by the order in which the graph was
    /// captured; `replay` are the kernels' ids.
    pub(super) fn captured_as(&self, replay: &[u32]) -> Option<Loan> {
        let (capture, first) = captures::find(&self.captures, replay)?;
        let is_named = self.captures.get(capture).is_some_and(|capture| capture.iter().any(Option::is_some));
        let sites = self.captured_sites.get(capture)?.get(first..first.checked_add(replay.len())?)?.to_vec();
        Some(Loan { sites, resolution: if is_named { Resolution::BorrowedExact } else { Resolution::BorrowedRelaxed } })
    }

    /// The id of a canonical kernel name.
    fn kernel(&mut self, name: &str) -> u32 {
        let id = self.names.intern(name).0;
        if self.kernels.len() < self.names.len() {
            self.kernels.push(Kernel { without_numbers: without_numbers(name), ..Kernel::default() });
        }
        id
    }

    /// The place of a site, [`NONE`] for one that tells nothing to a borrower.
    fn place(&mut self, site: CallSite, known: &mut HashMap<CallSite, u32, RandomState>) -> u32 {
        if site.location.is_empty() || matches!(site.resolution, Resolution::Replay | Resolution::Unresolved) {
            return NONE;
        }
        let next = u32::try_from(self.sites.len()).unwrap_or(NONE);
        let place = *known.entry(site.clone()).or_insert(next);
        if place == next {
            self.sites.push(site);
        }
        place
    }

    /// What a kernel of this canonical name may borrow in this stage: by its own name before a similar one.
    pub(super) fn lend(&self, name: &str, stage: Stage, rules: &FrameRules) -> Option<Loan> {
        let mut known = self.names.iter().zip(&self.kernels).filter(|(_, kernel)| !kernel.all.is_empty());
        if let Some((_, own)) = known.find(|(known, _)| *known == name) {
            return Some(Loan { sites: own.in_stage(stage).to_vec(), resolution: Resolution::BorrowedExact });
        }
        let similar = self.similar(name, stage, rules)?;
        Some(Loan { sites: similar, resolution: Resolution::BorrowedRelaxed })
    }

    /// The sites of a kernel whose name is much like this one. All kernels that are as similar must agree on one place: a
    /// wrong place is worse than none.
    fn similar(&self, name: &str, stage: Stage, rules: &FrameRules) -> Option<Vec<u32>> {
        let known = || self.names.iter().zip(&self.kernels).filter(|(_, kernel)| !kernel.all.is_empty());
        let numbers_apart = without_numbers(name);
        let letters = numbers_apart.bytes().filter(u8::is_ascii_alphabetic).count();
        let is_long = letters >= rules.least_similar_letters / 2;
        let same = |_: &str, kernel: &Kernel| is_long && kernel.without_numbers == numbers_apart;
        let inside = |other: &str, _: &Kernel| holds(name, other, rules) || holds(other, name, rules);
        let agreed = |is_similar: &dyn Fn(&str, &Kernel) -> bool| {
            let similar = known().filter(|(other, kernel)| is_similar(other, kernel));
            self.agreed(similar.map(|(_, kernel)| kernel.in_stage(stage)))
        };
        agreed(&same).or_else(|| agreed(&inside)).or_else(|| self.aliased(name, stage, rules))
    }

    /// The sites of the kernel that stands for this one under another name: of several the one by the longest word.
    fn aliased(&self, name: &str, stage: Stage, rules: &FrameRules) -> Option<Vec<u32>> {
        let name = compact(name);
        let aliases: Vec<&Alias> = rules.aliases.iter().filter(|alias| name.contains(&alias.when)).collect();
        if aliases.is_empty() {
            return None;
        }
        let word = |(other, kernel): (&str, &'_ Kernel)| -> Option<usize> {
            let site = kernel.all.first().and_then(|site| self.sites.get(*site as usize))?;
            let about = compact(other) + "\n" + &compact(&site.location) + "\n" + &compact(&site.cpu_op);
            let words = aliases.iter().flat_map(|alias| &alias.tokens).filter(|word| about.contains(word.as_str()));
            words.map(String::len).max()
        };
        let kernels = self.names.iter().zip(&self.kernels).filter_map(|entry| Some((word(entry)?, entry.1)));
        let (_, kernel) = kernels.max_by_key(|(length, _)| *length)?;
        Some(kernel.in_stage(stage).to_vec())
    }

    /// The sites of the first kernel, where all sites of all of them show one place.
    fn agreed<'a>(&'a self, mut similar: impl Iterator<Item = &'a [u32]>) -> Option<Vec<u32>> {
        let display = |site: &u32| self.sites.get(*site as usize).map(|site| site.display.as_str());
        let first = similar.next()?;
        let place = first.first().and_then(display)?;
        let is_there = |sites: &[u32]| sites.iter().all(|site| display(site) == Some(place));
        (is_there(first) && similar.all(is_there)).then(|| first.to_vec())
    }
}

impl Kernel {
    fn launched(&mut self, stage: Stage, site: u32) {
        self.all.push(site);
        match self.stages.iter_mut().find(|(known, _)| *known == stage) {
            Some((_, sites)) => sites.push(site),
            None => self.stages.push((stage, vec![site])),
        }
    }

    /// Its launches in this stage, else in steps of no known stage, else in any.
    fn in_stage(&self, stage: Stage) -> &[u32] {
        let of =
            |stage: Stage| self.stages.iter().find(|(known, _)| *known == stage).map(|(_, sites)| sites.as_slice());
        of(stage).or_else(|| of(Stage::All)).unwrap_or(&self.all)
    }
}

/// Letters and digits alone, in lower case.
fn compact(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

/// The name with every number as `#`: tiles and counts differ between two builds of a kernel.
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

/// Does the name hold this other, long enough to mean something, and whole words of it?
fn holds(name: &str, other: &str, rules: &FrameRules) -> bool {
    let is_boundary = |byte: Option<&u8>| byte.is_none_or(|byte| !byte.is_ascii_alphanumeric());
    let bytes = name.as_bytes();
    let is_long = other.bytes().filter(u8::is_ascii_alphanumeric).count() >= rules.least_similar_letters;
    is_long
        && name.match_indices(other).any(|(at, _)| {
            is_boundary(at.checked_sub(1).and_then(|before| bytes.get(before)))
                && is_boundary(bytes.get(at + other.len()))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_similar_name_is_one_that_differs_by_numbers_or_holds_the_other_in_whole_words() {
        let rules = FrameRules::embedded();
        assert_eq!(without_numbers("nvjet_tst_64x8_v_bz"), without_numbers("nvjet_tst_128x256_v_bz"));
        assert_ne!(without_numbers("nvjet_tst_64x8_v_bz"), without_numbers("nvjet_tst_64x8_h_bz"));
        assert!(holds("_matmul_ogs_NNT_bf16xbf16xmxfp4_swiglu", "_matmul_ogs_NNT_bf16xbf16xmxfp4", &rules));
        assert!(!holds("_matmul_ogs_NNT_bf16xbf16xmxfp4x", "_matmul_ogs_NNT_bf16xbf16xmxfp4", &rules), "half a word");
        assert!(!holds("rms_norm_kernel", "rms_norm", &rules), "too short to mean this kernel");
    }
}
