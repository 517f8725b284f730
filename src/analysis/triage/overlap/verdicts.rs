//! Derives verdict, priority and recommendation from the rows of the sweep, and drops rows that are not worth reporting.
//!
//! Running alone does not make a kernel an opportunity: most kernels of a model need the result of the previous one. A row counts
//! as headroom
//! - with low dependency risk, if it is elementwise or memory work, or mostly off the busiest stream, or if a mapping trace gives
//!   call sites,
//! - with unclear risk, if it is mostly off the busiest stream,
//! - with any risk, if there is a mapping trace and streams do overlap, as in the original tool.
//!
//! Compute kernels never get a better recommendation than `check deps`.

use super::neighbours::{Neighbours, Risk};
use super::rules::{Class, Rules};
use super::stream_sweep::SweepRow;
use crate::analysis::triage::times::percent;
use crate::trace::Ns;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Verdict {
    /// Index of the row in the sweep.
    pub(super) row: usize,
    /// 1 to 4; rows of priority 5 in the original tool are dropped.
    pub(super) priority: u8,
    pub(super) verdict: &'static str,
    /// Key of the text in `patterns/overlap.json`.
    pub(super) recommendation: &'static str,
    /// [`SweepRow::exposed_ns`], the second sort key after the priority.
    exposed_ns: i64,
}

/// The conditions of the verdicts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judge<'a> {
    pub(super) rules: &'a Rules,
    /// Rows with a smaller share of the busy time are dropped; in percent.
    pub(super) min_share_pct: f64,
    /// True if a mapping trace gives call sites.
    pub(super) has_mapping: bool,
    /// True if streams overlap for more than `min_stream_overlap_pct` of the busy time.
    pub(super) has_stream_overlap: bool,
}

/// The rows of one stage, and the number of dropped rows by reason.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    pub(super) rows: Vec<Verdict>,
    /// Rows that run alone for long enough but seem to depend on their neighbours.
    pub(super) serial: usize,
    /// Rows dropped because their share is too small.
    pub(super) too_small: usize,
}

impl Verdicts {
    fn add(&mut self, index: usize, row: &SweepRow, priority: u8, verdict: &'static str, recommendation: &'static str) {
        self.rows.push(Verdict { row: index, priority, verdict, recommendation, exposed_ns: row.exposed_ns });
    }
}

impl Judge<'_> {
    /// Judges the rows of one stage, given with their indices.
    pub(super) fn stage(&self, busy_ns: i64, rows: &[(usize, &SweepRow, &Neighbours)]) -> Verdicts {
        let mut verdicts = Verdicts::default();
        let (communication, others): (Vec<_>, Vec<_>) =
            rows.iter().copied().partition(|(_, row, _)| row.class == Class::Communication);
        self.communication(busy_ns, communication, &mut verdicts);
        for (index, row, neighbours) in others {
            self.other(busy_ns, index, row, neighbours, &mut verdicts);
        }
        verdicts.rows.sort_by(|a, b| {
            a.priority.cmp(&b.priority).then_with(|| b.exposed_ns.cmp(&a.exposed_ns).then(a.row.cmp(&b.row)))
        });
        verdicts
    }

    fn risk(&self, neighbours: &Neighbours) -> Risk {
        neighbours.risk(&self.rules.thresholds)
    }

    /// Adds kernels whose exposed time reaches `min_share_pct`; smaller ones, largest first, as long as the remaining ones reach
    /// it together; and the largest one in any case if it reaches `largest_exposure_pct`. Others get a row if they are hidden.
    fn communication(&self, busy_ns: i64, mut rows: Vec<(usize, &SweepRow, &Neighbours)>, verdicts: &mut Verdicts) {
        rows.sort_by(|a, b| b.1.exposed_ns.cmp(&a.1.exposed_ns).then(a.0.cmp(&b.0)));
        let mut remaining_ns = rows.iter().fold(0_i64, |sum, (_, row, _)| sum.saturating_add(row.exposed_ns));
        for (rank, (index, row, neighbours)) in rows.into_iter().enumerate() {
            let reaches = |time_ns: i64, min_pct: f64| share_pct(time_ns, busy_ns) >= min_pct && time_ns > 0;
            let is_largest = rank == 0 && reaches(row.exposed_ns, self.rules.thresholds.largest_exposure_pct);
            let is_material = reaches(row.exposed_ns, self.min_share_pct);
            let (priority, recommendation) = match self.risk(neighbours) {
                _ if !is_material => (3, "check"),
                Risk::Low => (1, "overlap"),
                Risk::Unclear | Risk::High => (2, "check"),
            };
            if is_material || is_largest || (reaches(remaining_ns, self.min_share_pct) && row.exposed_ns > 0) {
                verdicts.add(index, row, priority, "exposed communication", recommendation);
            } else if reaches(row.hidden_ns(), self.min_share_pct) {
                verdicts.add(index, row, 4, "hidden communication", "skip");
            } else {
                verdicts.too_small += 1;
            }
            remaining_ns = remaining_ns.saturating_sub(row.exposed_ns);
        }
    }

    fn other(&self, busy_ns: i64, index: usize, row: &SweepRow, neighbours: &Neighbours, verdicts: &mut Verdicts) {
        let thresholds = &self.rules.thresholds;
        let ratio = |time_ns: i64| time_ns as f64 / row.duration_ns.max(1) as f64;
        let is_exposed = share_pct(row.exposed_ns, busy_ns) >= self.min_share_pct;
        // A copy that is mostly hidden but still exposed for long enough is an opportunity.
        let has_headroom = ratio(row.exclusive_ns) >= thresholds.headroom_ratio || (row.moves_memory && is_exposed);
        // A kernel hides a concurrent copy, not the other way round.
        let by_copies_ns = if row.moves_memory { 0 } else { row.hidden_by_copies_ns };
        let hidden_ns = row.hidden_ns().saturating_sub(by_copies_ns);
        let is_hidden = row.class.is_light() && ratio(hidden_ns) >= thresholds.hidden_ratio;
        if (row.duration_ns as f64) < thresholds.min_total_us * 1e3 || !(has_headroom || is_hidden) {
            return;
        }
        if has_headroom {
            let risk = self.risk(neighbours);
            if !is_exposed {
                verdicts.too_small += 1;
            } else if self.has_room(row, risk) {
                let (priority, recommendation) = match risk {
                    Risk::Low if row.class != Class::Compute => (1, if row.moves_memory { "overlap" } else { "fuse" }),
                    _ => (2, "check"),
                };
                verdicts.add(index, row, priority, "headroom", recommendation);
            } else {
                verdicts.serial += 1;
            }
        } else if share_pct(row.duration_ns, busy_ns) >= self.min_share_pct {
            verdicts.add(index, row, 4, "low-roi-hidden", "skip");
        } else {
            verdicts.too_small += 1;
        }
    }

    fn has_room(&self, row: &SweepRow, risk: Risk) -> bool {
        let is_off_main_stream = row.off_main_stream_ns.saturating_mul(2) >= row.duration_ns;
        match risk {
            Risk::Low if self.has_mapping || is_off_main_stream || row.class.is_light() => true,
            Risk::Unclear if is_off_main_stream => true,
            _ => self.has_mapping && self.has_stream_overlap,
        }
    }
}

/// The share of the stage's busy time in percent.
fn share_pct(time_ns: i64, busy_ns: i64) -> f64 {
    percent(Ns(time_ns), Ns(busy_ns))
}
