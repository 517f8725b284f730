//! What a row of the sweep comes to: verdict, priority, recommendation; and which rows are not worth saying.
//!
//! A kernel that runs alone is no opportunity by that: in a model most kernels need what the one before them made. With
//! one trace alone a row of small math or copies is headroom only if its neighbours leave room, and any row only if it is
//! not on the busiest stream and nothing says that it must wait. A mapping trace tells places in the code: then whatever
//! has room is said, and where several streams work side by side every kernel that runs alone, as by the tool that this
//! replaces; compute never better than `check deps`.

use super::dependency::{Neighbours, Risk};
use super::rules::{Class, Rules};
use super::sweep::Row;
use crate::analysis::triage::times::percent;
use crate::ordering::StableSort;
use crate::trace::Ns;

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Verdict {
    /// Its place among the rows of the sweep.
    pub(super) row: usize,
    /// 1 to 4; what the original calls 5 is not said.
    pub(super) priority: u8,
    pub(super) verdict: &'static str,
    /// Key of the sentence in `patterns/overlap.json`.
    pub(super) recommendation: &'static str,
    /// [`Row::exposed_ns`]: among equal priorities the longest comes first.
    exposed_ns: i64,
}

/// What is judged by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judge<'a> {
    pub(super) rules: &'a Rules,
    /// Rows with a smaller share of the busy time are not said; a part of a hundred.
    pub(super) bar_pct: f64,
    /// Does a trace beside this one tell places in the code?
    pub(super) is_pair: bool,
    /// Do streams work side by side for long enough that there is something to overlap with?
    pub(super) streams_meet: bool,
}

/// The verdicts on the rows of one stage, and what was left out.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    pub(super) said: Vec<Verdict>,
    /// Rows that run alone for longer than the bar, whose neighbours speak against moving them.
    pub(super) serial: usize,
    /// Rows below the bar that would have a verdict otherwise.
    pub(super) below_bar: usize,
}

impl Verdicts {
    fn say(&mut self, at: usize, row: &Row, priority: u8, verdict: &'static str, recommendation: &'static str) {
        self.said.push(Verdict { row: at, priority, verdict, recommendation, exposed_ns: row.exposed_ns });
    }
}

impl Judge<'_> {
    /// Judges the rows of one stage of so much busy time, given by their places.
    pub(super) fn stage(&self, busy_ns: i64, rows: &[(usize, &Row, &Neighbours)]) -> Verdicts {
        let mut verdicts = Verdicts::default();
        let (communication, others): (Vec<_>, Vec<_>) =
            rows.iter().copied().partition(|(_, row, _)| row.class == Class::Communication);
        self.communication(busy_ns, communication, &mut verdicts);
        for (at, row, neighbours) in others {
            self.other(busy_ns, at, row, neighbours, &mut verdicts);
        }
        verdicts.said.order_by(|a, b| {
            a.priority.cmp(&b.priority).then_with(|| b.exposed_ns.cmp(&a.exposed_ns).then(a.row.cmp(&b.row)))
        });
        verdicts
    }

    fn risk(&self, neighbours: &Neighbours) -> Risk {
        neighbours.risk(&self.rules.thresholds)
    }

    /// Every kernel that is exposed for longer than the bar; smaller ones, largest first, as long as those not yet said are
    /// together above it; and the largest of all even below the bar. Of the rest, what other streams hide.
    fn communication(&self, busy_ns: i64, mut rows: Vec<(usize, &Row, &Neighbours)>, verdicts: &mut Verdicts) {
        rows.order_by(|a, b| b.1.exposed_ns.cmp(&a.1.exposed_ns).then(a.0.cmp(&b.0)));
        let mut left_ns = rows.iter().fold(0_i64, |sum, (_, row, _)| sum.saturating_add(row.exposed_ns));
        for (place, (at, row, neighbours)) in rows.into_iter().enumerate() {
            let reaches = |time_ns: i64, bar_pct: f64| share(time_ns, busy_ns) >= bar_pct && time_ns > 0;
            let largest = place == 0 && reaches(row.exposed_ns, self.rules.thresholds.largest_exposure_pct);
            let is_material = reaches(row.exposed_ns, self.bar_pct);
            let (priority, recommendation) = match self.risk(neighbours) {
                _ if !is_material => (3, "check"),
                Risk::Low => (1, "overlap"),
                Risk::Unclear | Risk::High => (2, "check"),
            };
            if is_material || largest || (reaches(left_ns, self.bar_pct) && row.exposed_ns > 0) {
                verdicts.say(at, row, priority, "exposed communication", recommendation);
            } else if reaches(row.hidden_ns(), self.bar_pct) {
                verdicts.say(at, row, 4, "hidden communication", "skip");
            } else {
                verdicts.below_bar += 1;
            }
            left_ns = left_ns.saturating_sub(row.exposed_ns);
        }
    }

    fn other(&self, busy_ns: i64, at: usize, row: &Row, neighbours: &Neighbours, verdicts: &mut Verdicts) {
        let thresholds = &self.rules.thresholds;
        let part = |time_ns: i64| time_ns as f64 / row.duration_ns.max(1) as f64;
        let is_exposed = share(row.exposed_ns, busy_ns) >= self.bar_pct;
        // A copy that mostly hides and still holds the device up is worth more than a note that it hides.
        let has_headroom = part(row.exclusive_ns) >= thresholds.headroom_ratio || (row.moves_memory && is_exposed);
        // A copy beside a kernel is hidden by it, not the other way round.
        let hidden_ns = row.hidden_ns().saturating_sub(if row.moves_memory { 0 } else { row.beside_copies_ns });
        let hides = row.class.is_light() && part(hidden_ns) >= thresholds.hidden_ratio;
        if (row.duration_ns as f64) < thresholds.least_total_us * 1e3 || !(has_headroom || hides) {
            return;
        }
        if has_headroom {
            let risk = self.risk(neighbours);
            if !is_exposed {
                verdicts.below_bar += 1;
            } else if self.leaves_room(row, risk) {
                let (priority, recommendation) = match risk {
                    Risk::Low if row.class != Class::Compute => (1, if row.moves_memory { "overlap" } else { "fuse" }),
                    _ => (2, "check"),
                };
                verdicts.say(at, row, priority, "headroom", recommendation);
            } else {
                verdicts.serial += 1;
            }
        } else if share(row.duration_ns, busy_ns) >= self.bar_pct {
            verdicts.say(at, row, 4, "low-roi-hidden", "skip");
        } else {
            verdicts.below_bar += 1;
        }
    }

    fn leaves_room(&self, row: &Row, risk: Risk) -> bool {
        let is_beside_main = row.beside_main_ns.saturating_mul(2) >= row.duration_ns;
        match risk {
            Risk::Low if self.is_pair || is_beside_main || row.class.is_light() => true,
            Risk::Unclear if is_beside_main => true,
            _ => self.is_pair && self.streams_meet,
        }
    }
}

/// Of the stage's busy time, a part of a hundred.
fn share(time_ns: i64, busy_ns: i64) -> f64 {
    percent(Ns(time_ns), Ns(busy_ns))
}
