//! The call site of every GPU op: the source location and CPU op that launched it.
//!
//! An op leads by its external id to a CPU op, or by its correlation id to a call, and from there to the innermost Python
//! frames of that thread. Kernels of graph replays have no such chain; they borrow call sites from mapping traces. The
//! frames and CPU ops of a trace are swept once, in order of time, for all ops together.

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
use crate::trace::{CallId, DeviceId, HostCode, NONE, Names, OpKind, Trace};
use foldhash::fast::RandomState;
use mapping::{Loan, Mapping};
use resolver::Resolver;
use std::collections::HashMap;

/// The code that launches a group of ops; by default unresolved.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct CallSite {
    /// The source location of the frame with the highest priority: `python/sglang/srt/models/qwen3.py:310 forward`; empty
    /// if unknown.
    pub location: String,
    /// The source location to display: `location`, or a better one of the stack (`FrameRules::display`).
    pub display: String,
    /// The source locations of the innermost informative frames of the stack, outermost first.
    pub stack: Vec<String>,
    /// The name of the CPU op, else of the launch call: `aten::mm`; empty if unknown.
    pub cpu_op: String,
    /// How it was resolved.
    pub resolution: Resolution,
}

/// How a call site was resolved, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Resolution {
    /// By the CPU op with the op's external id.
    Exact,
    /// By the call that launched it.
    ByLaunch,
    /// From a mapping trace, by the kernel's exact name.
    BorrowedExact,
    /// From a mapping trace, by a similar kernel name, or by the number of launches of the graph alone.
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
        if !mapping.is_empty() {
            let mapping = Mapping::new(mapping, &rules, &signals);
            Borrowing::new(&mapping, &rules, names).assign(&mut call_sites, trace, stages);
        }
        call_sites
    }

    /// The call site of the op with this index.
    pub fn of_op(&self, op: usize) -> Option<&CallSite> {
        self.distinct.get(*self.by_op.get(op)? as usize)
    }
}

/// Assigns call sites of mapping traces to the ops of a trace whose own call site is unknown.
struct Borrowing<'a> {
    mapping: &'a Mapping,
    rules: &'a FrameRules,
    /// Parallel to the names of the trace: the id of each in `canonical`.
    kernels: Vec<u32>,
    canonical: Names,
    loans: HashMap<(u32, Stage), Option<Loan>, RandomState>,
    /// Number of ops of a kernel that borrowed so far, by device.
    borrow_counts: HashMap<(u32, Stage, DeviceId), usize, RandomState>,
    /// The index of each borrowed call site among the call sites of the trace.
    indexes: HashMap<(u32, Resolution), u32, RandomState>,
}

impl<'a> Borrowing<'a> {
    fn new(mapping: &'a Mapping, rules: &'a FrameRules, names: &[KernelName]) -> Self {
        let mut canonical = Names::default();
        let kernels = names.iter().map(|name| canonical.intern(&name.canonical).0).collect();
        let (loans, borrow_counts, indexes) = (HashMap::default(), HashMap::default(), HashMap::default());
        Self { mapping, rules, kernels, canonical, loans, borrow_counts, indexes }
    }

    fn assign(&mut self, call_sites: &mut CallSites, trace: &Trace, stages: &[Option<Stage>]) {
        let mut is_final: Vec<bool> = call_sites.distinct.iter().map(|site| is_informative(site, self.rules)).collect();
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

    /// Assigns to the kernels of every graph replay the call sites of the captured launches.
    fn assign_captured(&mut self, call_sites: &mut CallSites, trace: &Trace) {
        let ids: Vec<u32> = self.canonical.iter().map(|name| self.mapping.id(name)).collect();
        let mut loans: HashMap<Vec<u32>, Option<Loan>, RandomState> = HashMap::default();
        for replay in replays(call_sites, trace) {
            let id = |op: &u32| {
                let kernel = trace.gpu_ops.get(*op as usize).and_then(|op| self.kernels.get(op.name.0 as usize));
                kernel.and_then(|kernel| ids.get(*kernel as usize)).copied().unwrap_or(NONE)
            };
            let kernels: Vec<u32> = replay.iter().map(id).collect();
            let loan = loans.entry(kernels).or_insert_with_key(|kernels| self.mapping.match_replay(kernels)).clone();
            let Some(loan) = loan else { continue };
            for (op, site) in replay.iter().zip(loan.call_sites).filter(|(_, site)| *site != NONE) {
                let borrowed = self.add(site, loan.resolution, call_sites);
                if let Some(slot) = call_sites.by_op.get_mut(*op as usize) {
                    *slot = borrowed;
                }
            }
        }
    }

    /// The call site of the next op of a kernel. A workload launches its kernels in the same order in every iteration, so
    /// ops take the call sites of the mapped launches in order, and start again after the last.
    fn next_call_site(&mut self, kernel: u32, stage: Stage, device: DeviceId) -> Option<(u32, Resolution)> {
        let loan = self.loans.entry((kernel, stage)).or_insert_with(|| {
            let name = self.canonical.get(crate::trace::NameId(kernel));
            self.mapping.lend(name, stage, self.rules)
        });
        let loan = loan.as_ref()?;
        let count = self.borrow_counts.entry((kernel, stage, device)).or_default();
        let call_site = *loan.call_sites.get(count.checked_rem(loan.call_sites.len())?)?;
        *count += 1;
        Some((call_site, loan.resolution))
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

/// Whether an op's own call site identifies its code well enough that it does not need to borrow one.
fn is_informative(site: &CallSite, rules: &FrameRules) -> bool {
    matches!(site.resolution, Resolution::Exact | Resolution::ByLaunch)
        && (rules.is_framework(&site.display) || site.display.contains(".py:"))
        && !rules.is_low_signal(&site.display)
}

/// The kernels of every graph replay and device, in order of start.
fn replays(call_sites: &CallSites, trace: &Trace) -> Vec<Vec<u32>> {
    let is_replayed = |op: &usize| call_sites.of_op(*op).is_some_and(|site| site.resolution == Resolution::Replay);
    let ops = trace.gpu_ops.iter().enumerate().filter(|(index, op)| op.kind == OpKind::Kernel && is_replayed(index));
    let mut kernels: Vec<(Option<CallId>, DeviceId, u32)> =
        ops.map(|(index, op)| (trace.gpu_ops.launch(index), op.device, u32::try_from(index).unwrap_or(NONE))).collect();
    kernels.sort_unstable();
    let replays = kernels.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1));
    replays.map(|replay| replay.iter().map(|(.., op)| *op).collect()).collect()
}
