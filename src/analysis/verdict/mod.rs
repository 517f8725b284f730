//! The verdict on a run: what one unit of work takes, what it is bound by, and what costs most beside that. Read from the
//! results of a run, without another pass over the trace. At most two sentences.
//!
//! Each file decides what one part says, and [`crate::words::verdict`] has its words: [`start`] of the program, [`unit`] of work,
//! [`bound`] and its [`causes`], critical [`path`], and what costs most [`beside`] the bound.

mod beside;
mod bound;
mod causes;
mod drift;
mod excess;
mod path;
mod saving;
mod sentences;
mod start;
#[cfg(test)]
mod tests;
mod times;
mod unit;

pub(crate) use saving::largest_saving;

use super::results::{Run, Verdict};
use crate::rules::signals::VerdictThresholds;
use crate::trace::Ms;
use crate::words::verdict as words;
use bound::Bound;
use sentences::{Sentences, Subject};
use times::StepsInCapture;

/// States what bounds a run. Without sections it states only busy time and categories.
pub(super) fn verdict(run: &Run, thresholds: &VerdictThresholds) -> Verdict {
    let mut text = Sentences::default();
    if run.totals.gpu_ops == 0 && run.totals.union_ns == 0 {
        text.push(words::no_work(run.window.is_some()), None);
        return text.finish();
    }
    let subject = &Subject::of(run, thresholds);
    if let Some(start) = subject.times.start() {
        let gap = start::gap_of_start(subject, start);
        if start.is_cold() {
            start::cold(start, gap, &mut text);
            return text.finish();
        }
        start::after(start, gap, &mut text);
    }
    unit::unit(subject, &mut text);
    bound_and_costs(subject, &mut text);
    text.finish()
}

/// The bound, and what costs most beside it.
fn bound_and_costs(subject: &Subject, text: &mut Sentences) {
    let times = &subject.times;
    let measured = Bound::of(subject);
    let of_path = measured.of_path(subject);
    let bound = of_path.as_ref().map_or(measured, |(bound, _)| *bound);
    if let Some(gap) = start::longest_gap(subject).filter(|_| times.start().is_none()) {
        start::push_gap(gap, text);
    }
    if let Some((_, costs)) = &of_path {
        path::path(subject, costs, bound, text);
    }
    let has_first_uses = of_path.as_ref().is_some_and(|(_, costs)| costs.has_first_uses()) && times.start().is_none();
    if of_path.is_none() || bound == Bound::Compute {
        let is_part = has_first_uses || times.start().is_some() || unit::is_part(subject);
        causes::cause(bound, subject, is_part, text);
    }
    if let Some(StepsInCapture { idle_outside, .. }) = times.steps {
        text.push(words::idle_outside(Ms(idle_outside)), Some(("steps", None)));
    }
    text.push(".", None);
    beside::beside(subject, bound, has_first_uses, text);
}
