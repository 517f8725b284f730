//! Derives verdict, priority and recommendation from the rows of the sweep, and drops rows that are not worth reporting.
//!
//! Running alone does not make a kernel an opportunity: most kernels of a model need the result of the previous one.
//!
//! - Communication is exposed, waiting for other ranks, or hidden. Only exposed communication may be overlapped. The
//!   compute next to it is no opportunity.
//! - Other work has headroom if a mapping trace gives call sites (the rules of the original tool), or if it is a copy on a
//!   stream of its own.
//!
//! Compute kernels never get a better recommendation than `check deps`.

use super::neighbours::{Neighbours, Risk};
use super::rules::{Class, Rules};
use super::stream_sweep::SweepRow;
use super::waiting::{State, Waiting};
use crate::trace::{Ns, Pct};

/// Communication that runs alone.
const EXPOSED: &str = "exposed communication";
/// Communication that mostly waits for other ranks.
pub(super) const WAITING: &str = "waiting communication";
/// Small work that other streams hide.
const HIDDEN: &str = "hidden";

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
    /// Busy and idle time of the stage, without pauses.
    pub(super) unpaused_ns: i64,
    /// What the launches of each row show, if they are communication.
    pub(super) waiting: &'a [Waiting],
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
        self.communication(communication, &mut verdicts);
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

    /// Adds kernels whose exposed time reaches `min_share_pct` of the busy and idle time, and kernels that other streams
    /// hide for that long.
    fn communication(&self, rows: Vec<(usize, &SweepRow, &Neighbours)>, verdicts: &mut Verdicts) {
        for (index, row, neighbours) in rows {
            let is_material = |time_ns: i64| share_pct(time_ns, self.unpaused_ns) >= self.min_share_pct && time_ns > 0;
            let state = self.waiting.get(index).map_or(State::Unknown, Waiting::state);
            if is_material(row.exposed_ns) {
                let (priority, verdict, recommendation) = match (state, self.risk(neighbours)) {
                    (State::Scattered | State::Slow, _) => (3, WAITING, "ranks"),
                    (State::Unknown, _) => (3, EXPOSED, "ranks_first"),
                    (State::Steady, Risk::Low) => (1, EXPOSED, "overlap"),
                    (State::Steady, Risk::Unclear) => (2, EXPOSED, "check"),
                    (State::Steady, Risk::High) => (2, EXPOSED, "serial"),
                };
                verdicts.add(index, row, priority, verdict, recommendation);
            } else if is_material(row.hidden_ns()) {
                verdicts.add(index, row, 4, "hidden communication", "keep");
            } else {
                verdicts.too_small += 1;
            }
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
        // Small work that other work hides is only listed where the original tool does.
        let is_hidden = self.has_mapping && row.class.is_light() && ratio(hidden_ns) >= thresholds.hidden_ratio;
        if (row.duration_ns as f64) < thresholds.min_total_us * 1e3 || !(has_headroom || is_hidden) {
            return;
        }
        if has_headroom {
            let risk = self.risk(neighbours);
            let is_exposed =
                is_exposed && (self.has_mapping || share_pct(row.exposed_ns, self.unpaused_ns) >= self.min_share_pct);
            if !is_exposed {
                verdicts.too_small += 1;
            } else if self.has_room(row, risk) {
                let (priority, recommendation) = match risk {
                    Risk::Low if row.class != Class::Compute => (1, if row.moves_memory { "overlap" } else { "fuse" }),
                    _ if row.moves_memory && !self.has_mapping => (2, "prefetch"),
                    _ => (2, "check"),
                };
                verdicts.add(index, row, priority, "headroom", recommendation);
            } else {
                verdicts.serial += 1;
            }
        } else if share_pct(row.duration_ns, busy_ns) >= self.min_share_pct {
            verdicts.add(index, row, 4, HIDDEN, "skip");
        } else {
            verdicts.too_small += 1;
        }
    }

    fn has_room(&self, row: &SweepRow, risk: Risk) -> bool {
        let is_off_main_stream = row.off_main_stream_ns.saturating_mul(2) >= row.duration_ns;
        if self.has_mapping {
            return risk == Risk::Low || self.has_stream_overlap || (risk == Risk::Unclear && is_off_main_stream);
        }
        row.moves_memory && is_off_main_stream && risk != Risk::High
    }
}

/// The share of the stage's busy time in percent.
fn share_pct(time_ns: i64, busy_ns: i64) -> f64 {
    Pct::of(Ns(time_ns), Ns(busy_ns)).0
}
