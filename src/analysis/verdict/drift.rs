//! By how much the kernels of a step take longer at the end of the capture than at its beginning, and what that looks like. From the rows
//! of the section `step_drift`.

use crate::analysis::section::{Pct, Sections, TypedSection};
use crate::analysis::structure::step_drift::{StepDrift, StepDriftRow};
use crate::analysis::structure::steps::StepRow;
use crate::ordering;
use crate::rules::inference::thresholds;
use crate::words::verdict::unit as words;

/// The categories that are named.
const MAX_CATEGORIES: usize = 3;
/// The category whose time depends on the length of the context.
const ATTENTION: &str = "attention";

/// What to say about the kernels of a stage, with the index of its first row; `None` if they hardly change.
pub(super) fn drift(sections: &Sections, stage: &StepRow) -> Option<(usize, words::Drift)> {
    let limits = &thresholds().step_drift;
    let all = StepDrift::rows(sections);
    let first_row = all.iter().position(|row| row.stage == stage.stage)?;
    let mut rows: Vec<StepDriftRow> = all.into_iter().filter(|row| row.stage == stage.stage).collect();
    let (first_ms, whole_ms) = (sum(&rows, |row| row.first_ms.0), sum(&rows, change_ms));
    let share = whole_ms / first_ms;
    if !share.is_finite() || share.abs() < limits.min_change_share.value {
        return None;
    }
    let pattern = pattern(&rows, first_ms, whole_ms, stage.batch.is_some() || stage.tokens.is_some());
    rows.retain(|row| row.change_pct.is_some());
    ordering::sort_by(&mut rows, |a, b| change_ms(b).abs().total_cmp(&change_ms(a).abs()));
    rows.truncate(MAX_CATEGORIES);
    let categories = rows.into_iter().filter_map(|row| Some((row.category.0, row.change_pct?))).collect();
    Some((first_row, words::Drift { change: Pct(100.0 * share), categories, pattern }))
}

fn sum(rows: &[StepDriftRow], of: fn(&StepDriftRow) -> f64) -> f64 {
    rows.iter().map(of).sum()
}

fn change_ms(row: &StepDriftRow) -> f64 {
    row.last_ms.0 - row.first_ms.0
}

/// What the changes of the categories look like. The trace does not have the clock, nor mostly the length of the context.
fn pattern(rows: &[StepDriftRow], first_ms: f64, whole_ms: f64, is_load_known: bool) -> Option<words::DriftPattern> {
    let limits = &thresholds().step_drift;
    let is_attention = |row: &&StepDriftRow| row.category.0 == ATTENTION;
    let of_attention: f64 = rows.iter().filter(is_attention).map(change_ms).sum();
    if of_attention / whole_ms >= limits.main_share.value {
        return Some(words::DriftPattern::Attention);
    }
    let large = rows.iter().filter(|row| row.first_ms.0 >= limits.min_category_share.value * first_ms);
    let changes: Vec<f64> =
        large.map(|row| row.change_pct.map_or(0.0, |Pct(change)| change * whole_ms.signum())).collect();
    let least = changes.iter().copied().min_by(f64::total_cmp)?;
    let most = changes.iter().copied().max_by(f64::total_cmp)?;
    let is_alike = changes.len() > 1 && least > 0.0 && most <= limits.max_alike_ratio.value * least;
    is_alike.then_some(if is_load_known { words::DriftPattern::Alike } else { words::DriftPattern::AlikeUnknownLoad })
}
