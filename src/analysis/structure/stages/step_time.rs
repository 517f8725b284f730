//! The time of each step: until the next step of its process on its device starts, because the host works for a step before and
//! after its ops too. Pauses count: whether a step works or waits for more of its time changes nothing. One pass over the steps,
//! and two binary searches per step for time that belongs to no step.

use super::Step;
use crate::ordering::VecMap;
use crate::rules::inference::thresholds;
use crate::trace::{DeviceId, Ns, ProcessId};

/// A step with its time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimedStep<'a> {
    pub(crate) step: &'a Step,
    /// End of its time.
    pub(crate) until: Ns,
    /// Whether that is the start of the next step.
    pub(crate) reaches_next: bool,
    /// From its start to `until`, without the time that belongs to no step.
    pub(crate) time: Ns,
}

/// Computes the time of each step. It reaches to the start of the next step of the same process on the same device; steps without a
/// device are a lane of their process. The last step of a lane, and one that ends a phase of the program,
/// reaches to its own last op. Steps must be sorted by start. `left_out`
/// has for each device the intervals that belong to no step, sorted: it executed work that the trace does not contain because it was
/// launched before the capture, or a serving engine had no request.
pub(crate) fn timed<'a>(
    steps: impl DoubleEndedIterator<Item = &'a Step>,
    left_out: &[Vec<(Ns, Ns)>],
) -> Vec<TimedStep<'a>> {
    let mut next_starts: VecMap<(ProcessId, Option<DeviceId>), Option<Ns>> = VecMap::new();
    let mut timed: Vec<TimedStep> = Vec::new();
    for step in steps.rev() {
        let next = next_starts.update((step.process, step.device), None, |next| next.replace(step.start));
        let next = next.filter(|_| !step.ends_phase);
        let left_out = step.device.and_then(|device| left_out.get(device.0 as usize)).map_or(&[][..], Vec::as_slice);
        let until = next.unwrap_or(step.end);
        let time = until.since(step.start).since(time_between(left_out, step.start, until));
        timed.push(TimedStep { step, until, reaches_next: next.is_some(), time });
    }
    timed.reverse();
    timed
}

/// Returns the time of disjoint sorted intervals between two times.
pub(crate) fn time_between(intervals: &[(Ns, Ns)], start: Ns, end: Ns) -> Ns {
    let first = intervals.partition_point(|interval| interval.1 <= start);
    let intervals = intervals.iter().skip(first).take_while(|interval| interval.0 < end);
    intervals.fold(Ns::ZERO, |sum, interval| sum + interval.1.min(end).since(interval.0.max(start)))
}

/// By device: from the start of its first step to the end of its last one; `None` without steps.
pub(crate) fn extents_of_steps<'a>(devices: usize, steps: impl Iterator<Item = &'a Step>) -> Vec<Option<(Ns, Ns)>> {
    let mut extents: Vec<Option<(Ns, Ns)>> = vec![None; devices];
    for step in steps {
        if let Some(extent) = step.device.and_then(|device| extents.get_mut(device.0 as usize)) {
            let (first, last) = extent.unwrap_or((step.start, step.end));
            *extent = Some((first.min(step.start), last.max(step.end)));
        }
    }
    extents
}

/// The steps that count in medians and percentiles: those that reach to the next step if there are at least two, else all.
pub(crate) fn representative<T>(steps: &[T], reaches_next: fn(&T) -> bool) -> impl Iterator<Item = &T> {
    let min_steps = thresholds().step_times.min_steps_with_next.value;
    let needs_next = steps.iter().filter(|step| reaches_next(step)).count() >= min_steps;
    steps.iter().filter(move |step| reaches_next(step) || !needs_next)
}
