//! The innermost range around each API call, and its serving phase. One sweep over ranges and calls,
//! O(n log n); six bytes per call. Computed once for a whole trace; windows of the trace look it up.

use super::open_ranges::{Event, OpenRanges, sweep_calls};
use super::phase_names::PhaseNames;
use crate::trace::{Kept, NameId, Spans, Trace};

/// No range contains the call.
pub(crate) const NONE: u32 = u32::MAX;
/// No range around the call names a phase.
const NO_PHASE: u16 = u16::MAX;

/// Returns for each call the name of the innermost selected span (range, CPU op or Python frame) around it,
/// or [`NONE`].
pub(crate) fn names_around_calls(trace: &Trace, spans: &Spans, is_selected: &dyn Fn(NameId) -> bool) -> Vec<u32> {
    let mut open = OpenRanges::new(trace);
    let mut names = Vec::with_capacity(trace.calls.len());
    sweep_calls(trace, spans, is_selected, &mut |event| match event {
        Event::Opens(_, span) => open.push(span.name.0, span),
        Event::Call(call) => names.push(open.innermost(call).unwrap_or(NONE)),
    });
    names
}

/// The range and phase of each call of a trace. They also hold for a window of the trace, for calls that
/// launched work; the window may lack ranges around other calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRanges {
    /// By call: the row of the innermost range, or [`NONE`].
    ranges: Vec<u32>,
    /// By call: the phase of the nearest range that names one, or [`NO_PHASE`].
    phases: Vec<u16>,
    /// By range name: its phase, or [`NO_PHASE`].
    phase_of_names: Vec<u16>,
}

fn phase_of_names(trace: &Trace, names: &PhaseNames) -> Vec<u16> {
    let phase = |name| names.phase(NameId(name)).and_then(|phase| u16::try_from(phase).ok()).unwrap_or(NO_PHASE);
    (0..trace.ranges.names.len() as u32).map(phase).collect()
}

impl CallRanges {
    pub(crate) fn of(trace: &Trace, names: &PhaseNames) -> Self {
        let phase_of_names = phase_of_names(trace, names);
        let phase = |range: u32| {
            let name = trace.ranges.name(range as usize);
            name.and_then(|name| phase_of_names.get(name.0 as usize)).copied().unwrap_or(NO_PHASE)
        };
        let (mut all, mut with_phase) = (OpenRanges::new(trace), OpenRanges::new(trace));
        let mut ranges = Vec::with_capacity(trace.calls.len());
        let mut phases = Vec::with_capacity(trace.calls.len());
        sweep_calls(trace, &trace.ranges, &|_| true, &mut |event| match event {
            Event::Opens(row, range) => {
                all.push(row, range);
                if phase(row) != NO_PHASE {
                    with_phase.push(row, range);
                }
            }
            Event::Call(call) => {
                ranges.push(all.innermost(call).unwrap_or(NONE));
                phases.push(with_phase.innermost(call).map_or(NO_PHASE, phase));
            }
        });
        Self { ranges, phases, phase_of_names }
    }

    /// Checks whether the range names of the window `part` have the same phases as in the whole trace. They
    /// may differ, because a weak word counts as a phase only if no other name of the trace is a clear match.
    pub(crate) fn agrees_with(&self, trace: &Trace, part: &Trace, names: &PhaseNames) -> bool {
        let phases = phase_of_names(part, names);
        part.ranges.names.iter().zip(phases).all(|(name, phase)| {
            let whole = trace.ranges.names.find(name);
            whole.and_then(|name| self.phase_of_names.get(name.0 as usize)) == Some(&phase)
        })
    }

    /// A view for calls of the trace itself.
    pub fn view(&self) -> CallRangesView<'_> {
        CallRangesView { whole: self, kept: None }
    }

    /// A view for calls of a window of the trace; only calls that launched work.
    pub fn view_of_window<'a>(&'a self, kept: &'a Kept) -> CallRangesView<'a> {
        CallRangesView { whole: self, kept: Some(kept) }
    }
}

/// The range and phase of each call of a trace, or of a window of it.
#[derive(Debug, Clone, Copy)]
pub struct CallRangesView<'a> {
    whole: &'a CallRanges,
    /// Maps rows of the window to rows of the whole trace.
    kept: Option<&'a Kept>,
}

impl CallRangesView<'_> {
    /// Returns the row of the innermost range around a call and the phase of the call, each `None` if there
    /// is none.
    pub(crate) fn range_and_phase(&self, call: u32) -> (Option<usize>, Option<usize>) {
        let whole = self.kept.map_or(Some(call), |kept| kept.whole_call(call));
        let Some(whole) = whole.map(|call| call as usize) else { return (None, None) };
        let range = self.whole.ranges.get(whole).copied().filter(|range| *range != NONE);
        let range = range.and_then(|range| self.kept.map_or(Some(range), |kept| kept.range(range)));
        let phase = self.whole.phases.get(whole).copied().filter(|phase| *phase != NO_PHASE);
        (range.map(|range| range as usize), phase.map(usize::from))
    }
}
