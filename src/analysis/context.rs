//! What every section needs to know: what names mean, and what the person chose.

use crate::analysis::communication::collectives::Collectives;
use crate::analysis::host::calls::Host;
use crate::analysis::host::launch_latency::Measured;
use crate::analysis::index;
use crate::analysis::index::Inside;
use crate::analysis::kernels::durations::{Durations, KernelTimes};
use crate::analysis::kernels::groups::Groups;
use crate::analysis::measure::tally::Tallies;
use crate::analysis::structure::launch_ranges::{AroundCalls, Attributed};
use crate::analysis::structure::phases;
use crate::analysis::structure::ranges::RangeTimes;
use crate::analysis::time::survey::Survey;
use crate::rules::signals::{CallKind, Signals};
use crate::rules::{PhaseMap, RuleBook, names};
use crate::trace::{GpuOp, NameId, Ns, Trace};
use std::cell::OnceCell;

/// The trace under analysis with the meaning of its names.
#[derive(Debug)]
pub struct Context<'a> {
    /// What is explained.
    pub trace: &'a Trace,
    /// Words and thresholds.
    pub signals: Signals,
    /// Rows of the table of kernels.
    pub kernel_limit: usize,
    /// The person's own phases.
    pub phase_map: Option<&'a PhaseMap>,
    pub(crate) groups: Option<&'a Groups>,
    pub(crate) around: Option<AroundCalls<'a>>,
    inside: Option<&'a Inside<'a>>,
    attributed: OnceCell<Attributed>,
    launched: OnceCell<Measured>,
    kernels: OnceCell<KernelTimes>,
    host: OnceCell<Host>,
    survey: OnceCell<Survey>,
    collectives: OnceCell<Option<Collectives>>,
    ranges: OnceCell<RangeTimes>,
    names: Vec<NameKind>,
    calls: Vec<CallKind>,
}

/// What somebody knows of a trace before it is explained, so that it is not found out again.
#[derive(Debug, Default)]
pub struct Known<'a> {
    /// Sums of its ops.
    pub groups: Option<&'a Groups>,
    /// What lies around its calls.
    pub around: Option<AroundCalls<'a>>,
    /// What is known of most of a window.
    pub inside: Option<&'a Inside<'a>>,
}

/// What the kernels of one name are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameKind {
    /// A kernel that computes.
    Compute,
    /// A collective or another message between GPUs: `allreduce`, `alltoall`, ..., or the kernel's short name.
    Communication(String),
}

impl<'a> Context<'a> {
    /// Looks at every distinct name once.
    pub fn new(trace: &'a Trace, kernel_limit: usize) -> Self {
        Self::of_known(trace, kernel_limit, Known::default())
    }

    /// The same, taking what is known already.
    pub fn of_known(trace: &'a Trace, kernel_limit: usize, Known { groups, around, inside }: Known<'a>) -> Self {
        let signals = Signals::embedded();
        let calls = trace.calls.names.iter().map(|name| signals.call(name)).collect();
        let names = name_kinds(trace, &signals);
        Self {
            trace,
            signals,
            kernel_limit,
            phase_map: None,
            groups,
            around,
            inside,
            attributed: OnceCell::new(),
            launched: OnceCell::new(),
            kernels: OnceCell::new(),
            host: OnceCell::new(),
            survey: OnceCell::new(),
            collectives: OnceCell::new(),
            ranges: OnceCell::new(),
            names,
            calls,
        }
    }

    /// Adds the person's own phases.
    pub fn with_phase_map(self, phase_map: Option<&'a PhaseMap>) -> Self {
        Self { phase_map, ..self }
    }

    /// What is known of most of a window.
    #[inline]
    pub(crate) fn inside(&self) -> Option<&'a Inside<'a>> {
        index::known(self.inside)
    }

    /// Kernel time by the ranges around its launch; swept once, on first use.
    pub(crate) fn attributed(&self) -> &Attributed {
        self.attributed.get_or_init(|| phases::attributed(self))
    }

    /// How long kernels waited after their launch; measured once, on first use.
    pub(crate) fn launched(&self) -> &Measured {
        self.launched.get_or_init(|| Measured::of(self))
    }

    /// How long kernels ran; summed once, on first use.
    pub(crate) fn kernels(&self) -> &KernelTimes {
        self.kernels.get_or_init(|| KernelTimes::of(self.trace, self.groups))
    }

    /// The durations behind these sums, made anew.
    pub(crate) fn durations(&self) -> Durations<'a> {
        Durations::of(self, &self.kernels().cells)
    }

    /// Sum of the durations of all GPU ops.
    pub(crate) fn time_of_ops(&self) -> Ns {
        let sum = |sum, more| sum + more;
        match self.groups {
            Some(known) => known.groups.iter().map(|group| group.total).fold(Ns::ZERO, sum),
            None => self.trace.gpu_ops.times().map(|(_, duration)| duration).fold(Ns::ZERO, sum),
        }
    }

    /// What the calls of the host did; swept once, on first use.
    pub(crate) fn host(&self) -> &Host {
        self.host.get_or_init(|| Host::of(self))
    }

    /// When a thread is blocked.
    pub(crate) fn blocked(&self) -> &[(Ns, Ns)] {
        &self.host().blocked
    }

    /// What the devices did; swept once, on first use.
    pub(crate) fn survey(&self) -> &Survey {
        self.survey.get_or_init(|| Survey::of(self))
    }

    /// Messages between GPUs; counted once, on first use. `None` where there are none.
    pub(crate) fn collectives(&self) -> Option<&Collectives> {
        self.collectives.get_or_init(|| Collectives::of(self)).as_ref()
    }

    /// Wall time of ranges by process and name; summed once, on first use.
    pub(crate) fn ranges(&self) -> &Tallies {
        &self.ranges.get_or_init(|| RangeTimes::of_all(self)).0
    }

    /// Visits the ops that are so, with their places; `listed` are their places in the whole trace.
    pub(crate) fn each_listed(
        &self,
        listed: &dyn Fn(&Inside<'a>) -> &'a [u32],
        is_so: &dyn Fn(&GpuOp) -> bool,
        visit: &mut dyn FnMut(usize, GpuOp),
    ) {
        let ops = &self.trace.gpu_ops;
        let unlisted = self.inside().map_or(ops.len(), Inside::begun);
        ops.iter_in(&(0..unlisted).into()).filter(|(_, op)| is_so(op)).for_each(|(at, op)| visit(at, op));
        if let Some(inside) = self.inside() {
            let places = listed(inside).iter().map(|at| inside.place(*at as usize));
            places.filter_map(|at| Some((at, ops.get(at)?))).for_each(|(at, op)| visit(at, op));
        }
    }

    /// What the kernels of this name are.
    pub fn name_kind(&self, name: NameId) -> &NameKind {
        self.names.get(name.0 as usize).unwrap_or(&NameKind::Compute)
    }

    /// Do kernels of this name carry messages between GPUs?
    pub fn is_communication(&self, name: NameId) -> bool {
        matches!(self.name_kind(name), NameKind::Communication(_))
    }

    /// What calls of this name do.
    pub fn call_kind(&self, name: NameId) -> CallKind {
        self.calls.get(name.0 as usize).copied().unwrap_or(CallKind::Other)
    }
}

/// gpuprism's own rules say what communicates, whatever rules the person picked for categories.
fn name_kinds(trace: &Trace, signals: &Signals) -> Vec<NameKind> {
    let rules = RuleBook::gpuprism_default();
    trace
        .names
        .iter()
        .map(|name| {
            let demangled = names::demangle(name);
            let communicates = rules.is_some_and(|rules| rules.category(name, &demangled) == "communication");
            if !communicates {
                return NameKind::Compute;
            }
            let operation = signals.collective(&demangled).map(str::to_owned);
            NameKind::Communication(operation.unwrap_or_else(|| names::short(&demangled)))
        })
        .collect()
}
