//! The time of each step: until the next step of its device starts, because the host works for a step before and after its
//! ops too. One pass over the steps, and a binary search per step for time of unseen work.

use super::{Form, Step};
use crate::rules::inference::thresholds;
use crate::trace::Ns;

/// A step with its time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimedStep<'a> {
    pub(crate) step: &'a Step,
    /// End of its time.
    pub(crate) until: Ns,
    /// Whether that is the start of the next step.
    pub(crate) reaches_next: bool,
    /// From its start to `until`, without time of unseen work.
    pub(crate) time: Ns,
    /// From its start to the start of the next step on its device, without time of unseen work.
    pub(crate) interval: Option<Ns>,
}

/// Computes the time of each step. It reaches to the start of the next step on the device. The last step reaches to its own
/// last op, and so does a step of a serving engine before a pause that is longer than the step: the engine may have had no
/// request. Steps must be sorted by start. `unseen` has for each device the intervals in which it executed work that the
/// trace does not contain because it was launched before the capture, sorted.
pub(crate) fn timed<'a>(
    steps: impl DoubleEndedIterator<Item = &'a Step>,
    unseen: &[Vec<(Ns, Ns)>],
) -> Vec<TimedStep<'a>> {
    let mut next_starts: Vec<Option<Ns>> = vec![None; unseen.len() + 1];
    let mut timed: Vec<TimedStep> = Vec::new();
    for step in steps.rev() {
        // Steps without a device are a lane of their own.
        let lane = step.device.map_or(unseen.len(), |device| device.0 as usize);
        let Some(next_start) = next_starts.get_mut(lane) else { continue };
        let unseen = unseen.get(lane).map_or(&[][..], Vec::as_slice);
        let next = next_start.replace(step.start);
        let is_pause = |next: Ns| next.since(step.end) > step.end.since(step.start) && step.info.form != Form::Profiler;
        let reached = next.filter(|next| !is_pause(*next));
        let until = reached.unwrap_or(step.end);
        let time_until = |end: Ns| end.since(step.start).since(time_between(unseen, step.start, end));
        let (time, interval) = (time_until(until), next.map(time_until));
        timed.push(TimedStep { step, until, reaches_next: reached.is_some(), time, interval });
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

/// The steps that count in medians and percentiles: those that reach to the next step if there are at least two, else all.
pub(crate) fn representative<T>(steps: &[T], reaches_next: fn(&T) -> bool) -> impl Iterator<Item = &T> {
    let min_steps = thresholds().step_times.min_steps_with_next.value;
    let needs_next = steps.iter().filter(|step| reaches_next(step)).count() >= min_steps;
    steps.iter().filter(move |step| reaches_next(step) || !needs_next)
}
