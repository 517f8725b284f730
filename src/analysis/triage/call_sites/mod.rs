//! Which code launched an op: GPU op -> external id or correlation -> CPU op -> Python frames of its thread, with the
//! launching call as fallback and the mapping traces for graph replays.
//!
//! Every table is swept once, in the order of time, for all ops together; texts are made per distinct site.

mod captured;
mod chain;
mod mapping;
mod stacks;
mod sweep;
#[cfg(test)]
mod tests;

use super::frames::FrameRules;
use super::view::KernelName;
use crate::analysis::structure::stages::Stage;
use crate::rules::signals::Signals;
use crate::trace::{CallId, Code, DeviceId, NONE, Names, OpKind, Trace};
use chain::Chain;
use foldhash::fast::RandomState;
use mapping::{Loan, Mapping};
use std::collections::HashMap;

/// Where a group of ops comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallSite {
    /// The place in the code: `python/sglang/srt/models/qwen3.py:310 forward`; empty where none is known.
    pub location: String,
    /// The place to show, where the frames around tell a better one.
    pub display: String,
    /// The last frames that lead there, outermost first.
    pub stack: Vec<String>,
    /// The CPU op or call: `aten::mm`; empty where none is known.
    pub cpu_op: String,
    /// How it was found.
    pub resolution: Resolution,
}

impl CallSite {
    /// No place at all.
    pub fn unresolved() -> Self {
        let (location, display, cpu_op) = (String::new(), String::new(), String::new());
        Self { location, display, stack: Vec::new(), cpu_op, resolution: Resolution::Unresolved }
    }
}

/// How the code of an op was found, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resolution {
    /// By the CPU op with the op's external id.
    Exact,
    /// By the call that launched it.
    ByLaunch,
    /// From a mapping trace, by the kernel's exact name.
    BorrowedExact,
    /// From a mapping trace, by a name much like the kernel's, or by the number of launches of its graph alone.
    BorrowedRelaxed,
    /// By the call that replayed its graph: the kernel's own place is not known.
    Replay,
    /// Not at all.
    Unresolved,
}

impl Resolution {
    /// As tables say it.
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

/// The sites of a trace.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CallSites {
    /// Distinct sites.
    pub distinct: Vec<CallSite>,
    /// Of every GPU op, in the order of the trace's ops: its place in `sites`, or [`crate::trace::NONE`].
    pub by_op: Vec<u32>,
}

impl CallSites {
    /// Finds the site of every op. `mapping` tells where kernels come from whose own code is not known; `names` are what
    /// is known of the trace's names, `stages` runs parallel to its ops.
    pub fn new(trace: &Trace, names: &[KernelName], stages: &[Option<Stage>], mapping: &[&Trace]) -> Self {
        let (rules, signals, no_code) = (FrameRules::embedded(), Signals::embedded(), Code::default());
        let mut chain = Chain::new(trace, trace.code.as_deref().unwrap_or(&no_code), (&rules, &signals), Vec::new());
        let by_op = (0..trace.gpu_ops.len()).map(|at| chain.of_op(at)).collect();
        let mut sites = Self { distinct: chain.sites, by_op };
        if !mapping.is_empty() {
            let mapping = Mapping::new(mapping, &rules, &signals);
            Borrowing::new(&mapping, &rules, names).borrow_for(&mut sites, trace, stages);
        }
        sites
    }

    /// The site of the op at this place.
    pub fn of_op(&self, op: usize) -> Option<&CallSite> {
        self.distinct.get(*self.by_op.get(op)? as usize)
    }
}

/// Borrows sites for the ops of a trace whose own code is not known.
struct Borrowing<'a> {
    mapping: &'a Mapping,
    rules: &'a FrameRules,
    /// By name id of the trace: the canonical name's id.
    kernels: Vec<u32>,
    canonical: Names,
    loans: HashMap<(u32, Stage), Option<Loan>, RandomState>,
    /// How many ops of a kernel borrowed so far, on each device.
    borrowed: HashMap<(u32, Stage, DeviceId), usize, RandomState>,
    /// Where a borrowed site stands among the trace's own.
    places: HashMap<(u32, Resolution), u32, RandomState>,
}

impl<'a> Borrowing<'a> {
    fn new(mapping: &'a Mapping, rules: &'a FrameRules, names: &[KernelName]) -> Self {
        let mut canonical = Names::default();
        let kernels = names.iter().map(|name| canonical.intern(&name.canonical).0).collect();
        let (loans, borrowed, places) = (HashMap::default(), HashMap::default(), HashMap::default());
        Self { mapping, rules, kernels, canonical, loans, borrowed, places }
    }

    fn borrow_for(&mut self, sites: &mut CallSites, trace: &Trace, stages: &[Option<Stage>]) {
        let mut is_own: Vec<bool> = sites.distinct.iter().map(|site| tells(site, self.rules)).collect();
        self.follow_captures(sites, trace);
        is_own.resize(sites.distinct.len(), true);
        for ((at, op), stage) in trace.gpu_ops.iter().enumerate().zip(stages) {
            let Some(own) = sites.by_op.get(at).copied() else { continue };
            if is_own.get(own as usize) == Some(&true) {
                continue;
            }
            let kernel = self.kernels.get(op.name.0 as usize).copied().unwrap_or(NONE);
            let stage = stage.unwrap_or(Stage::All);
            let Some((site, resolution)) = self.next_site(kernel, stage, op.device) else { continue };
            let place = self.place(site, resolution, sites);
            is_own.resize(sites.distinct.len(), true);
            if let Some(slot) = sites.by_op.get_mut(at) {
                *slot = place;
            }
        }
    }

    /// Gives the kernels of every replay the places of the launches that its graph was captured from.
    fn follow_captures(&mut self, sites: &mut CallSites, trace: &Trace) {
        let ids: Vec<u32> = self.canonical.iter().map(|name| self.mapping.id(name)).collect();
        let mut known: HashMap<Vec<u32>, Option<Loan>, RandomState> = HashMap::default();
        for replay in replays(sites, trace) {
            let id = |at: &u32| {
                let kernel = trace.gpu_ops.get(*at as usize).and_then(|op| self.kernels.get(op.name.0 as usize));
                kernel.and_then(|kernel| ids.get(*kernel as usize)).copied().unwrap_or(NONE)
            };
            let kernels: Vec<u32> = replay.iter().map(id).collect();
            let loan = known.entry(kernels).or_insert_with_key(|kernels| self.mapping.captured_as(kernels)).clone();
            let Some(loan) = loan else { continue };
            for (at, site) in replay.iter().zip(loan.sites).filter(|(_, site)| *site != NONE) {
                let place = self.place(site, loan.resolution, sites);
                if let Some(slot) = sites.by_op.get_mut(*at as usize) {
                    *slot = place;
                }
            }
        }
    }

    /// The site of the next op of this kernel: a run launches its kernels in the same order every time, so the first op
    /// takes the first launch's site, and after the last launch it begins again.
    fn next_site(&mut self, kernel: u32, stage: Stage, device: DeviceId) -> Option<(u32, Resolution)> {
        let loan = self.loans.entry((kernel, stage)).or_insert_with(|| {
            let name = self.canonical.get(crate::trace::NameId(kernel));
            self.mapping.lend(name, stage, self.rules)
        });
        let loan = loan.as_ref()?;
        let borrowed = self.borrowed.entry((kernel, stage, device)).or_default();
        let site = *loan.sites.get(borrowed.checked_rem(loan.sites.len())?)?;
        *borrowed += 1;
        Some((site, loan.resolution))
    }

    fn place(&mut self, site: u32, resolution: Resolution, sites: &mut CallSites) -> u32 {
        *self.places.entry((site, resolution)).or_insert_with(|| {
            let lent = self.mapping.sites.get(site as usize).cloned();
            sites.distinct.extend(lent.map(|lent| CallSite { resolution, ..lent }));
            u32::try_from(sites.distinct.len().saturating_sub(1)).unwrap_or(NONE)
        })
    }
}

/// Does an op's own site say where it comes from, so that it need not borrow?
fn tells(site: &CallSite, rules: &FrameRules) -> bool {
    matches!(site.resolution, Resolution::Exact | Resolution::ByLaunch)
        && (rules.is_framework(&site.display) || site.display.contains(".py:"))
        && !rules.is_low_signal(&site.display)
}

/// The kernels of every graph replay, on each device in the order in which they ran.
fn replays(sites: &CallSites, trace: &Trace) -> Vec<Vec<u32>> {
    let is_replayed = |at: &usize| sites.of_op(*at).is_some_and(|site| site.resolution == Resolution::Replay);
    let ops = trace.gpu_ops.iter().enumerate().filter(|(at, op)| op.kind == OpKind::Kernel && is_replayed(at));
    let mut kernels: Vec<(Option<CallId>, DeviceId, u32)> =
        ops.map(|(at, op)| (trace.gpu_ops.launch(at), op.device, u32::try_from(at).unwrap_or(NONE))).collect();
    kernels.sort_unstable();
    let replays = kernels.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1));
    replays.map(|replay| replay.iter().map(|(.., at)| *at).collect()).collect()
}
