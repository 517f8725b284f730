//! The second sentence: the finding with the largest cost that the bound does not include; else the next categories. From the rows of the
//! findings and the categories.

use super::bound::Bound;
use super::saving::{by_cost, cost};
use super::sentences::{Sentences, Subject};
use crate::analysis::findings::{FindingId, FindingRow, Findings};
use crate::analysis::results::WallSource;
use crate::analysis::section::{Fraction, TypedSection};
use crate::analysis::unit::Unit;
use crate::trace::CODE_IS_BUILT;
use crate::words::findings::title_in_sentence;
use crate::words::verdict::beside as words;
use std::cmp::Ordering;

/// Adds the sentence, unless it would be about other work than the steps.
pub(super) fn beside(subject: &Subject, bound: Bound, has_first_uses: bool, text: &mut Sentences) {
    let Subject { run, thresholds, times } = subject;
    if bound == Bound::StepsWithoutWork || finding(subject, bound, has_first_uses, text) {
        return;
    }
    if times.has_hidden_graphs {
        text.push(words::HIDDEN_GRAPHS, None);
        return;
    }
    let unknown = times.unknown_share();
    let is_notable = unknown.0 >= thresholds.min_unknown_share;
    if bound == Bound::Compute && is_notable && run.wall.source == WallSource::Window {
        text.push(words::unknown_idle(unknown), Some(("gpu_idle", None)));
        return;
    }
    // The kernels of a compilation are mostly those of its autotuning.
    if run.has_shifted_durations() || matches!(bound, Bound::Compilation | Bound::Loading | Bound::Unrecorded) {
        return;
    }
    next_categories(subject, bound, text);
}

/// Whether a finding is what the bound says already. The start of a program is no cost of the workload.
fn is_said(row: &FindingRow, bound: Bound) -> bool {
    match bound {
        _ if row.id == FindingId::StartUp => true,
        Bound::Host | Bound::Loading => {
            matches!(row.id, FindingId::HostLate | FindingId::ReplayPreparation | FindingId::SyncDrain)
        }
        Bound::Communication => row.id == FindingId::ExposedCommunication,
        Bound::Compilation => row.id == FindingId::Compilation,
        Bound::StepsWithoutWork
        | Bound::Overlap
        | Bound::Waiting
        | Bound::Delays
        | Bound::Uneven
        | Bound::UnknownIdle
        | Bound::Nothing
        | Bound::ShiftedDurations
        | Bound::Unrecorded
        | Bound::Compute => false,
    }
}

/// Adds the finding with the largest cost; false if there is none.
fn finding(subject: &Subject, bound: Bound, has_first_uses: bool, text: &mut Sentences) -> bool {
    if !CODE_IS_BUILT {
        return false;
    }
    let sections = &subject.run.sections;
    let rows = Findings::rows(sections);
    let unit = Unit::of(sections, subject.thresholds);
    // Rows come by severity. Of equal costs the first counts.
    let others = rows.iter().enumerate().filter(|(_, row)| !is_said(row, bound) && !row.is_same_time());
    let Some((index, row)) = others.rev().max_by(|(_, a), (_, b)| by_cost(unit, a, b)) else { return false };
    let costs_more = |said: &FindingRow| by_cost(unit, said, row) == Ordering::Greater;
    let is_beaten = rows.iter().any(|said| is_said(said, bound) && said.id != FindingId::StartUp && costs_more(said));
    text.push(words::largest_cost(!is_beaten), None);
    let cost = cost(row, unit, has_first_uses);
    text.push(words::finding(title_in_sentence(&row.title), &cost), Some(("findings", Some(index))));
    text.push(".", None);
    true
}

/// Adds the next large categories. The bound names the first category only if compute is the bound.
fn next_categories(subject: &Subject, bound: Bound, text: &mut Sentences) {
    let Subject { run, thresholds, .. } = subject;
    let first_is_said = bound == Bound::Compute;
    let categories = run.categories.iter().enumerate().skip(usize::from(first_is_said));
    let shares = categories.filter_map(|(index, category)| Some((index, category, category.bar_share?)));
    let large = shares.filter(|(.., share)| *share >= thresholds.min_other_category_share);
    for (position, (index, category, share)) in large.take(thresholds.max_other_categories).enumerate() {
        text.push(if position == 0 { words::next_categories(first_is_said) } else { " and " }, None);
        text.push(words::category(&category.category, Fraction(share)), Some(("categories", Some(index))));
    }
    if text.ends_with("categories") {
        text.push(".", None);
    }
}
