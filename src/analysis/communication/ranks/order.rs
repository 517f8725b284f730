//! Checks with times whether calls that are matched by their order belong together. All ranks are in a collective when it ends. So on
//! one clock, calls that belong together overlap; on two clocks, their ends differ by the same offset.
//!
//! A rank whose capture began one collective later has its calls one place earlier. [`check`] finds such a shift. It compares at most
//! [`MAX_PAIRS`] calls for each of a few shifts.

use super::call::Call;
use crate::analysis::measure::percentiles::median;

/// Calls that are compared for a shift.
const MAX_PAIRS: usize = 2_000;
/// Fewer calls show no other shift than that of their order.
const MIN_PAIRS: usize = 4;
/// Shifts of so many places are tried in each direction, besides those at which ends are nearest.
const NEAR: isize = 8;
/// The share of calls that overlap if they belong together.
const MIN_TOGETHER: f64 = 0.9;
/// Ends of one collective differ by so much between ranks.
const USUAL_SPREAD_NS: i64 = 20_000;

/// What the times of the calls of two ranks say about their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Calls at the same place ran at the same time.
    Agrees,
    /// The calls of the second rank are so many places later in its list.
    Shifted(isize),
    /// Neither.
    Unknown,
}

/// How well calls fit at a shift.
#[derive(Debug, Clone, Copy)]
struct Fit {
    shift: isize,
    /// The share of calls that overlap.
    together: f64,
    /// Between the differences of ends of most calls.
    spread_ns: i64,
}

impl Fit {
    fn is_together(&self) -> bool {
        self.together >= MIN_TOGETHER
    }

    /// Whether this shift fits, and the one by order does not.
    fn is_better_than(&self, by_order: Option<&Self>, usual_ns: i64) -> bool {
        let Some(other) = by_order else { return self.is_together() };
        let is_as_even = self.spread_ns <= other.spread_ns + other.spread_ns / 4 + USUAL_SPREAD_NS;
        let is_even = self.spread_ns <= usual_ns && self.spread_ns.saturating_mul(4) < other.spread_ns;
        (self.is_together() && is_as_even) || is_even
    }
}

/// Checks the calls of a rank against those of the first. `by_order` is the shift by order, if that determines one; `has_equal_sizes`
/// tells whether all message sizes agree at a shift.
pub(super) fn check(
    first: &[Call],
    calls: &[Call],
    by_order: Option<isize>,
    has_equal_sizes: &mut dyn FnMut(isize) -> bool,
) -> Order {
    let fit_by_order = by_order.and_then(|shift| fit(first, calls, shift));
    if fit_by_order.is_some_and(|fit| fit.is_together()) {
        return Order::Agrees;
    }
    let min_pairs = (first.len().min(calls.len()) / 2).max(MIN_PAIRS);
    let mut durations_ns: Vec<i64> = first.iter().map(|call| call.duration_ns).collect();
    durations_ns.sort_unstable();
    let usual_ns = median(&durations_ns).map_or(0, |median_ns| median_ns as i64);
    let candidates = shifts(first, calls, by_order.unwrap_or(0));
    let candidates = candidates.into_iter().filter(|shift| Some(*shift) != by_order);
    let better: Vec<isize> = candidates
        .filter(|shift| pairs(first, calls, *shift).count() >= min_pairs)
        .filter_map(|shift| fit(first, calls, shift))
        .filter(|fit| fit.is_better_than(fit_by_order.as_ref(), usual_ns))
        .map(|fit| fit.shift)
        .filter(|shift| has_equal_sizes(*shift))
        .collect();
    match better.as_slice() {
        [shift] => Order::Shifted(*shift),
        _ => Order::Unknown,
    }
}

/// The calls at the same place, if those of the second list are `shift` places later.
pub(super) fn pairs<'a>(
    first: &'a [Call],
    calls: &'a [Call],
    shift: isize,
) -> impl Iterator<Item = (&'a Call, &'a Call)> {
    let skipped = |places: isize| usize::try_from(places).unwrap_or(0);
    first.iter().skip(skipped(-shift)).zip(calls.iter().skip(skipped(shift)))
}

/// Shifts that may fit, each once: those near the one by order, and those at which the ends of some calls are nearest.
fn shifts(first: &[Call], calls: &[Call], by_order: isize) -> Vec<isize> {
    let nearest = [1, 2, 3].into_iter().filter_map(|quarter| {
        let place = first.len() * quarter / 4;
        let end_ns = first.get(place)?.end_ns();
        let other =
            (0..calls.len()).min_by_key(|other| calls.get(*other).map(|call| call.end_ns().abs_diff(end_ns)))?;
        Some(isize::try_from(other).ok()? - isize::try_from(place).ok()?)
    });
    let mut shifts: Vec<isize> = (by_order - NEAR..=by_order + NEAR).chain(nearest).collect();
    shifts.sort_unstable();
    shifts.dedup();
    shifts
}

fn fit(first: &[Call], calls: &[Call], shift: isize) -> Option<Fit> {
    let step = first.len().min(calls.len()) / MAX_PAIRS + 1;
    let pairs: Vec<(&Call, &Call)> = pairs(first, calls, shift).step_by(step).collect();
    if pairs.is_empty() {
        return None;
    }
    let overlaps = |(a, b): &&(&Call, &Call)| a.start_ns <= b.end_ns() && b.start_ns <= a.end_ns();
    let together = pairs.iter().filter(overlaps).count() as f64 / pairs.len() as f64;
    let mut differences: Vec<i64> = pairs.iter().map(|(a, b)| a.end_ns().saturating_sub(b.end_ns())).collect();
    differences.sort_unstable();
    let at = |tenths: usize| differences.get((differences.len() - 1) * tenths / 10).copied().unwrap_or(0);
    Some(Fit { shift, together, spread_ns: at(9).saturating_sub(at(1)) })
}
