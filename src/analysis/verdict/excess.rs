//! What the time of long steps beyond the median is: GPU work, waiting for the host, or other idle time. From the rows of the sections
//! `steps` and `step_list`; linear in their rows.

use crate::analysis::section::{Sections, TypedSection};
use crate::analysis::structure::listed_steps::{StepList, StepListRow};
use crate::analysis::structure::steps::{LONG, StepRow};
use crate::trace::{Fraction, Ms, Ns};
use crate::words::verdict::unit as words;

/// The excess of the longest step of a stage.
pub(super) fn of_longest(sections: &Sections, stage: &StepRow, lacks_work: bool) -> Option<words::Excess> {
    let rows = long_steps(sections, stage)?;
    let longest = rows.iter().rev().max_by_key(|row| row.duration_ns)?;
    excess(stage, std::slice::from_ref(longest), longest.step, lacks_work)
}

/// The excess of all steps of a stage that are longer than twice the median.
pub(super) fn of_long(sections: &Sections, stage: &StepRow, lacks_work: bool) -> Option<words::Excess> {
    let rows = long_steps(sections, stage)?;
    let longest = rows.iter().rev().max_by_key(|row| row.duration_ns)?;
    excess(stage, &rows, longest.step, lacks_work)
}

/// `None` if the list of steps lacks some of them.
fn long_steps(sections: &Sections, stage: &StepRow) -> Option<Vec<StepListRow>> {
    let least_ns = LONG * stage.median_ns?.0;
    let is_long = |row: &StepListRow| row.stage == stage.stage && row.duration_ns.0 as f64 > least_ns;
    let mut rows = StepList::rows(sections);
    rows.retain(|row| is_long(row) && row.in_start_up != Some(true));
    (rows.len() == stage.long_steps).then_some(rows)
}

fn excess(stage: &StepRow, rows: &[StepListRow], longest_step: usize, lacks_work: bool) -> Option<words::Excess> {
    let beyond = |time: fn(&StepListRow) -> Option<Ns>, median_ns: f64| {
        rows.iter().try_fold(0.0, |sum, row| Some(sum + time(row)?.0 as f64 - median_ns))
    };
    let whole_ns = beyond(|row| Some(row.duration_ns), stage.median_ns?.0).filter(|excess| *excess > 0.0)?;
    let busy_ns = beyond(|row| row.busy_ns, stage.busy_median_ns?.0)?;
    let late_ns = beyond(|row| row.host_late_ns, stage.host_late_median_ns?.0)?;
    let idle = if lacks_work { words::ExcessPart::IdleOrNotRecorded } else { words::ExcessPart::OtherIdle };
    let parts = [
        (words::ExcessPart::Busy, busy_ns),
        (words::ExcessPart::HostLate, late_ns),
        (idle, whole_ns - busy_ns - late_ns),
    ];
    let (part, part_ns) = parts.into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    let share = Fraction((part_ns / whole_ns).min(1.0));
    Some(words::Excess { longest_step, time: Ms(whole_ns / 1e6), part, share })
}
