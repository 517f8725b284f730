//! What findings cost: which saves most, and the words for it. From the rows of the findings.

use super::times::Times;
use crate::analysis::findings::{FindingId, FindingRow, Findings};
use crate::analysis::replay::costs::Costs;
use crate::analysis::results::Run;
use crate::analysis::section::{Ms, TypedSection};
use crate::analysis::unit::Unit;
use crate::rules::signals::VerdictThresholds;
use crate::words::verdict::beside as words;
use std::cmp::Ordering;

/// A cost of which less is open is told without its range.
const MIN_OPEN: f64 = 0.05;

/// The finding that saves most: its row, and what it saves in words. The start of a program is no cost of the workload.
pub(crate) fn largest_saving(run: &Run, thresholds: &VerdictThresholds) -> Option<(FindingRow, String)> {
    let unit = Unit::of(&run.sections, thresholds);
    let rows =
        Findings::rows(&run.sections).into_iter().filter(|row| row.id != FindingId::StartUp && !row.is_same_time());
    let row = rows.rev().max_by(|a, b| by_cost(unit, a, b)).filter(|row| row.cost_ms.0 > 0.0)?;
    let is_start_said = Times::of(run, thresholds).start().is_some();
    let has_first_uses = Costs::of(&run.sections, unit).is_some_and(|costs| costs.has_first_uses());
    let words = cost(&row, unit, has_first_uses && !is_start_said);
    Some((row, words))
}

/// `up to 2.1 ms a step, 27.6 % of the time`: what a finding may save.
pub(super) fn cost(row: &FindingRow, unit: Unit, has_first_uses: bool) -> String {
    let cost = row.cost_ms.0;
    let is_open = row
        .proven_ms
        .is_some_and(|proven| proven.0 <= 0.0 || row.share_pct.0 / 100.0 * (1.0 - proven.0 / cost) >= MIN_OPEN);
    let unit = if row.id.is_of_whole_steps(row.what_if.is_some()) { unit.whole() } else { unit };
    words::cost(words::Cost {
        time: unit.per_step(cost).map_or(words::CostTime::InAll(Ms(cost)), |ms| words::CostTime::PerStep(Ms(ms))),
        share: (unit.ms > 0.0).then(|| row.share_pct.into()),
        is_after_first_uses: has_first_uses && row.what_if.is_some(),
        is_most: is_open,
    })
}

/// Orders findings by the middle of what they cost at least and at most, as their table is sorted.
pub(super) fn by_cost(unit: Unit, a: &FindingRow, b: &FindingRow) -> Ordering {
    a.middle_part(unit).total_cmp(&b.middle_part(unit))
}
