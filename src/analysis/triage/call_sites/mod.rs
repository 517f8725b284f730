//! The call site of every GPU op: the source location and CPU op that launched it.
//!
//! The external id of an op identifies its CPU op, and the correlation id identifies the call that launched it. The call
//! site consists of the innermost Python frames around the CPU op, or else around the call, on the same thread. A kernel of a
//! graph replay has no launch call of its own, so it borrows a call site from a mapping trace. Cost: one sweep over the frames
//! and CPU ops, sorted by time, for all ops together.

mod captured;
mod mapping;
mod resolver;
mod stacks;
mod sweep;
#[cfg(test)]
mod tests;

use super::frames::FrameRules;
use super::kernel_names::KernelName;
use crate::analysis::structure::stages::Stage;
use crate::rules::signals::Signals;
use crate::trace::{CallId, CaptureProof, CapturedSite, DeviceId, HostCode, NONE, Names, OpKind, Trace};
use foldhash::fast::RandomState;
use mapping::{MappedCallSites, Mapping};
use resolver::Resolver;
use std::collections::HashMap;

/// The code that launches a group of ops; by default unresolved.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct CallSite {
    /// The source location of the frame with the highest priority: `python/sglang/srt/models/qwen3.py:310 forward`; empty
    /// if unknown.
    pub location: String,
    /// The source location to display: `location` if it is framework code, otherwise the frame of the stack with the highest
    /// priority.
    pub display: String,
    /// The source locations of the innermost informative frames of the stack, outermost first.
    pub stack: Vec<String>,
    /// The name of the CPU op, else of the launch call: `aten::mm`; empty if unknown.
    pub cpu_op: String,
    /// How the call site was found.
    pub resolution: Resolution,
}

/// How the call site of an op was found, from most to least reliable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Resolution {
    /// By the CPU op with the op's external id.
    Exact,
    /// By the call that launched the op.
    ByLaunch,
    /// From a mapping trace, by the kernel's exact name.
    BorrowedExact,
    /// From a mapping trace, by a similar kernel name. Also from a capture that names no kernels, by the number of launches.
    BorrowedRelaxed,
    /// By the call that replayed the graph. The call site of the kernel itself is unknown.
    Replay,
    /// Not resolved.
    #[default]
    Unresolved,
}

impl Resolution {
    /// The label in tables.
    pub fn label(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::ByLaunch => "by launch",
            Self::BorrowedExact => "borrowed, exact name",
            Self::BorrowedRelaxed => "borrowed, similar",
            Self::Replay => "graph replay",
            Self::Unresolved => "unresolved",
        }
    }
}

/// The distinct call sites of these captured calls, which are sorted, and the index of the site of each.
pub(crate) fn captured_call_sites(trace: &Trace, code: &HostCode, calls: Vec<u32>) -> (Vec<CallSite>, Vec<u32>) {
    let (rules, signals) = (FrameRules::embedded(), Signals::embedded());
    let mut resolver = Resolver::new(trace, code, (&rules, &signals), calls.clone());
    let sites = calls.into_iter().map(|call| resolver.of_captured(call)).collect();
    (resolver.distinct, sites)
}

/// The call sites of all GPU ops of a trace.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CallSites {
    /// The distinct call sites.
    pub distinct: Vec<CallSite>,
    /// Parallel to the GPU ops of the trace: an index in `distinct`, or [`NONE`].
    pub by_op: Vec<u32>,
}

impl CallSites {
    /// Resolves the call site of every op. `mapping` are the mapping traces, `names` is parallel to the names of the trace,
    /// `stages` is parallel to its ops.
    pub fn new(trace: &Trace, names: &[KernelName], stages: &[Option<Stage>], mapping: &[&Trace]) -> Self {
        let (rules, signals, no_code) = (FrameRules::embedded(), Signals::embedded(), HostCode::default());
        let mut resolver =
            Resolver::new(trace, trace.code.as_deref().unwrap_or(&no_code), (&rules, &signals), Vec::new());
        let by_op = (0..trace.gpu_ops.len()).map(|op| resolver.of_op(op)).collect();
        let mut call_sites = Self { distinct: resolver.distinct, by_op };
        call_sites.assign_joined(trace);
        if !mapping.is_empty() {
            let mapping = Mapping::new(mapping, &rules, &signals);
            CallSiteMapper::new(&mapping, &rules, names).assign(&mut call_sites, trace, stages);
        }
        call_sites
    }

    /// Assigns the call sites of captures to the ops that are joined with them.
    fn assign_joined(&mut self, trace: &Trace) {
        let mut indexes: HashMap<(u32, CaptureProof), u32, RandomState> = HashMap::default();
        for (row, op) in trace.captured_graphs.iter() {
            let Some(site) = trace.captured_graphs.site(op).filter(|site| !site.location.is_empty()) else { continue };
            let index = *indexes.entry((op.site, op.proof)).or_insert_with(|| {
                self.distinct.push(captured_site(site, op.proof));
                u32::try_from(self.distinct.len() - 1).unwrap_or(NONE)
            });
            self.by_op.get_mut(row as usize).into_iter().for_each(|slot| *slot = index);
        }
    }

    /// The call site of the op with this index.
    pub fn of_op(&self, op: usize) -> Option<&CallSite> {
        self.distinct.get(*self.by_op.get(op)? as usize)
    }
}

fn captured_site(site: &CapturedSite, proof: CaptureProof) -> CallSite {
    let CapturedSite { cpu_op, location, display, stack } = site.clone();
    let resolution = match proof {
        CaptureProof::Names => Resolution::BorrowedExact,
        CaptureProof::Order => Resolution::BorrowedRelaxed,
    };
    CallSite { location, display, stack, cpu_op, resolution }
}

/// Assigns call sites of mapping traces to the ops whose own call site is not informative.
struct CallSiteMapper<'a> {
    mapping: &'a Mapping,
    rules: &'a FrameRules,
    /// Parallel to the names of the trace: the id of each in `canonical`.
    kernels: Vec<u32>,
    canonical: Names,
    /// The call sites to borrow, by kernel (id in `canonical`) and stage; `None` if the mapping has none.
    mapped: HashMap<(u32, Stage), Option<MappedCallSites>, RandomState>,
    /// Number of ops that have borrowed so far, by kernel, stage and device.
    launch_counts: HashMap<(u32, Stage, DeviceId), usize, RandomState>,
    /// The index of each borrowed call site in [`CallSites::distinct`], by its index in the mapping and its resolution.
    indexes: HashMap<(u32, Resolution), u32, RandomState>,
}

impl<'a> CallSiteMapper<'a> {
    fn new(mapping: &'a Mapping, rules: &'a FrameRules, names: &[KernelName]) -> Self {
        let mut canonical = Names::default();
        let kernels = names.iter().map(|name| canonical.intern(&name.canonical).0).collect();
        let (mapped, launch_counts, indexes) = (HashMap::default(), HashMap::default(), HashMap::default());
        Self { mapping, rules, kernels, canonical, mapped, launch_counts, indexes }
    }

    fn assign(&mut self, call_sites: &mut CallSites, trace: &Trace, stages: &[Option<Stage>]) {
        // For each call site, whether its ops keep it. Borrowed call sites are appended, and their ops keep them.
        let is_final = |site: &CallSite| is_borrowed(site) || is_informative(site, self.rules);
        let mut is_final: Vec<bool> = call_sites.distinct.iter().map(is_final).collect();
        self.assign_captured(call_sites, trace);
        is_final.resize(call_sites.distinct.len(), true);
        for ((index, op), stage) in trace.gpu_ops.iter().enumerate().zip(stages) {
            let Some(own) = call_sites.by_op.get(index).copied() else { continue };
            if is_final.get(own as usize) == Some(&true) {
                continue;
            }
            let kernel = self.kernels.get(op.name.0 as usize).copied().unwrap_or(NONE);
            let stage = stage.unwrap_or(Stage::All);
            let Some((site, resolution)) = self.next_call_site(kernel, stage, op.device) else { continue };
            let borrowed = self.add(site, resolution, call_sites);
            is_final.resize(call_sites.distinct.len(), true);
            if let Some(slot) = call_sites.by_op.get_mut(index) {
                *slot = borrowed;
            }
        }
    }

    /// Assigns the call sites of captured launches to the kernels of every graph replay.
    fn assign_captured(&mut self, call_sites: &mut CallSites, trace: &Trace) {
        let ids: Vec<u32> = self.canonical.iter().map(|name| self.mapping.id(name)).collect();
        let mut mapped: HashMap<Vec<u32>, Option<MappedCallSites>, RandomState> = HashMap::default();
        for replay in replays(call_sites, trace) {
            let id = |op: &u32| {
                let kernel = trace.gpu_ops.get(*op as usize).and_then(|op| self.kernels.get(op.name.0 as usize));
                kernel.and_then(|kernel| ids.get(*kernel as usize)).copied().unwrap_or(NONE)
            };
            let kernels: Vec<u32> = replay.iter().map(id).collect();
            let entry = mapped.entry(kernels).or_insert_with_key(|kernels| self.mapping.match_replay(kernels));
            let Some(MappedCallSites { call_sites: sites, resolution }) = entry.clone() else { continue };
            for (op, site) in replay.iter().zip(sites).filter(|(_, site)| *site != NONE) {
                let borrowed = self.add(site, resolution, call_sites);
                if let Some(slot) = call_sites.by_op.get_mut(*op as usize) {
                    *slot = borrowed;
                }
            }
        }
    }

    /// Returns the call site to borrow for the next op of a kernel. A workload launches its kernels in the same order in
    /// every iteration, so the ops take the call sites of the mapped launches in turn.
    fn next_call_site(&mut self, kernel: u32, stage: Stage, device: DeviceId) -> Option<(u32, Resolution)> {
        let mapped = self.mapped.entry((kernel, stage)).or_insert_with(|| {
            let name = self.canonical.get(crate::trace::NameId(kernel));
            self.mapping.call_sites_of(name, stage, self.rules)
        });
        let mapped = mapped.as_ref()?;
        let count = self.launch_counts.entry((kernel, stage, device)).or_default();
        let call_site = *mapped.call_sites.get(count.checked_rem(mapped.call_sites.len())?)?;
        *count += 1;
        Some((call_site, mapped.resolution))
    }

    /// Adds a call site of the mapping to those of the trace and returns its index there.
    fn add(&mut self, site: u32, resolution: Resolution, call_sites: &mut CallSites) -> u32 {
        *self.indexes.entry((site, resolution)).or_insert_with(|| {
            let borrowed = self.mapping.distinct.get(site as usize).cloned();
            call_sites.distinct.extend(borrowed.map(|borrowed| CallSite { resolution, ..borrowed }));
            u32::try_from(call_sites.distinct.len().saturating_sub(1)).unwrap_or(NONE)
        })
    }
}

/// Whether a call site is that of a capture.
fn is_borrowed(site: &CallSite) -> bool {
    matches!(site.resolution, Resolution::BorrowedExact | Resolution::BorrowedRelaxed)
}

/// Whether an op's own call site identifies its code well enough that it does not need to borrow one.
fn is_informative(site: &CallSite, rules: &FrameRules) -> bool {
    matches!(site.resolution, Resolution::Exact | Resolution::ByLaunch)
        && (rules.is_framework(&site.display) || site.display.contains(".py:"))
        && !rules.is_low_signal(&site.display)
}

/// One list per graph replay and device: the indices of its kernels, in order of start.
fn replays(call_sites: &CallSites, trace: &Trace) -> Vec<Vec<u32>> {
    let is_replayed = |op: &usize| call_sites.of_op(*op).is_some_and(|site| site.resolution == Resolution::Replay);
    let ops = trace.gpu_ops.iter().enumerate().filter(|(index, op)| op.kind == OpKind::Kernel && is_replayed(index));
    let mut kernels: Vec<(Option<CallId>, DeviceId, u32)> =
        ops.map(|(index, op)| (trace.gpu_ops.launch(index), op.device, u32::try_from(index).unwrap_or(NONE))).collect();
    kernels.sort_unstable();
    let replays = kernels.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1));
    replays.map(|replay| replay.iter().map(|(.., op)| *op).collect()).collect()
}
