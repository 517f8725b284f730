//! What every section is made from: the classified trace, and results that several sections share.
//!
//! A shared result is computed when a section first asks for it, and kept. Sections run one after another, so that each of
//! these results costs one pass however many sections read it.

use super::classified::ClassifiedTrace;
use super::communication::operations::Collectives;
use super::host::calls::HostCalls;
use super::index::WindowSegments;
use super::kernels::groups::Groups;
use super::kernels::kernel_sums::KernelSums;
use super::measure::tally::Tallies;
use super::structure::call_ranges::{CallRanges, CallRangesView};
use super::structure::phase_names::PhaseNames;
use super::structure::range_times::wall_times;
use super::summary::{DetailSource, OpDetails, Summary};
use super::time::survey::Survey;
use crate::rules::PhaseMap;
use crate::trace::{Ns, Trace};
use std::cell::OnceCell;
use std::ops::Deref;

/// The trace under analysis and the results that sections share. Dereferences to [`ClassifiedTrace`].
#[derive(Debug)]
pub struct Context<'a> {
    classified: ClassifiedTrace<'a>,
    /// Rows of the table of kernels.
    pub kernel_limit: usize,
    /// The user's own phases.
    pub phase_map: Option<&'a PhaseMap>,
    reused: Reused<'a>,
    groups: OnceCell<Groups>,
    details: OnceCell<OpDetails>,
    kernels: OnceCell<KernelSums>,
    host: OnceCell<HostCalls>,
    survey: OnceCell<Survey>,
    collectives: OnceCell<Option<Collectives>>,
    range_times: OnceCell<Tallies>,
}

/// Results that were computed before, for the same trace or for the whole trace of a window.
#[derive(Debug, Default, Clone, Copy)]
pub struct Reused<'a> {
    /// Sums of the ops of this trace.
    pub groups: Option<&'a Groups>,
    /// The ranges around the calls of this trace.
    pub call_ranges: Option<CallRangesView<'a>>,
    /// The segments of the whole trace that lie in this window.
    pub segments: Option<&'a WindowSegments<'a, Summary>>,
}

impl<'a> Deref for Context<'a> {
    type Target = ClassifiedTrace<'a>;

    fn deref(&self) -> &ClassifiedTrace<'a> {
        &self.classified
    }
}

impl<'a> Context<'a> {
    /// A context that computes everything from the trace.
    pub fn new(trace: &'a Trace, kernel_limit: usize) -> Self {
        Self::with_reused(trace, kernel_limit, Reused::default())
    }

    /// A context that takes over results computed before.
    pub fn with_reused(trace: &'a Trace, kernel_limit: usize, reused: Reused<'a>) -> Self {
        Self {
            classified: ClassifiedTrace::new(trace),
            kernel_limit,
            phase_map: None,
            reused,
            groups: OnceCell::new(),
            details: OnceCell::new(),
            kernels: OnceCell::new(),
            host: OnceCell::new(),
            survey: OnceCell::new(),
            collectives: OnceCell::new(),
            range_times: OnceCell::new(),
        }
    }

    /// Adds the user's own phases.
    pub fn with_phase_map(self, phase_map: Option<&'a PhaseMap>) -> Self {
        Self { phase_map, ..self }
    }

    /// Counts and sums of all GPU ops by name, stream, process and kind.
    pub(crate) fn groups(&self) -> &Groups {
        self.reused.groups.unwrap_or_else(|| self.groups.get_or_init(|| Groups::of_all(self.trace)))
    }

    /// Kernel counts and sums by process, device and name.
    pub(crate) fn kernels(&self) -> &KernelSums {
        self.kernels.get_or_init(|| KernelSums::of(self.groups()))
    }

    /// Sum of the durations of all GPU ops.
    pub(crate) fn duration_of_all_ops(&self) -> Ns {
        self.groups().iter().map(|group| group.total).fold(Ns::ZERO, |sum, total| sum + total)
    }

    /// What the sections need of every single GPU op: one sweep, or the segments of a window merged.
    pub(crate) fn details(&self) -> &OpDetails {
        self.details.get_or_init(|| {
            let computed;
            let ranges = match self.reused.call_ranges {
                Some(ranges) => ranges,
                None => {
                    computed = CallRanges::of(self.trace, &PhaseNames::by_words(self.trace, &self.signals));
                    computed.view()
                }
            };
            let source = DetailSource::new(&self.classified, ranges);
            match self.reused.segments {
                Some(segments) => segments.merged(&|summary| &summary.details, &mut |rows| {
                    OpDetails::of(&source, rows, &Groups::of_rows(self.trace, rows))
                }),
                None => OpDetails::of(&source, &self.trace.gpu_ops.all_rows(), self.groups()),
            }
        })
    }

    /// What the calls of the host did.
    pub(crate) fn host(&self) -> &HostCalls {
        self.host.get_or_init(|| HostCalls::of(self))
    }

    /// How each device spent its time.
    pub(crate) fn survey(&self) -> &Survey {
        self.survey.get_or_init(|| Survey::of(self, &self.details().work, &self.host().blocked))
    }

    /// Messages between GPUs; `None` if there are none.
    pub(crate) fn collectives(&self) -> Option<&Collectives> {
        self.collectives.get_or_init(|| Collectives::of(self)).as_ref()
    }

    /// Wall time of ranges by process and name.
    pub(crate) fn range_times(&self) -> &Tallies {
        self.range_times.get_or_init(|| wall_times(self.trace))
    }
}
