//! The table of overlap opportunities: kernels that run alone although they could run concurrently with others, kernels that are
//! already hidden by other streams, and idle time of the devices.
//!
//! `stream_sweep` measures how long each op runs alone (sweep line over all streams, O(n log n)), `neighbours` estimates
//! dependencies from the ops before and after it on its stream, `idle_gaps` sums idle time by cause, `verdicts` derives the rows,
//! and `text` explains them. Classes, thresholds and words are in `patterns/overlap.json`.

mod idle_gaps;
mod neighbours;
mod rules;
mod stream_sweep;
#[cfg(test)]
mod tests;
mod text;
mod verdicts;
mod waiting;

use super::kernels::{KernelRow, RowIndex};
use super::view::View;
use crate::analysis::host::idle_cause::IdleCause;
use crate::analysis::section::{Answer, KernelName, Pct, Place, TypedSection, section};
use crate::analysis::structure::stages::Stage;
use crate::trace::Ns;
use idle_gaps::IdleTime;
use neighbours::Neighbours;
use rules::Rules;
use stream_sweep::{Sweep, SweepRow};
use verdicts::{Judge, Verdict, Verdicts};
use waiting::Waiting;

section! {
    /// Kernels that could overlap with others, those that do, and idle time.
    pub(crate) struct TriageOverlap("triage_overlap", "Overlap opportunities");
    row TriageOverlapRow {
        stage: Stage,
        priority: String,
        verdict: String,
        /// Or [`IDLE`].
        kernel_name: KernelName = "Kernel",
        duration_ns: Ns,
        elapsed_share_pct: Option<Pct> = "Of busy time",
        share_pct: Option<Pct>,
        exclusive_pct: Option<Pct>,
        dep_risk: Option<String> = "Dependency risk",
        recommendation: String,
        python_scope: Option<Place>,
        basis: String = "Rests on",
        hidden_pct: Option<Pct>,
        hidden_by_compute_pct: Option<Pct>,
        unpaused_share_pct: Option<Pct> = "Of busy and idle time",
    }
    figures TriageOverlapFigures {
        busy_ns: Ns,
        idle_ns: Ns,
        pauses_ns: Ns,
        streams: usize,
        overlapped_ns: Ns,
        same_stream_overlap_ns: Ns,
        serial_rows: usize,
        rows_below_bar: usize = "Rows below the minimum share",
    }
}

/// The kernel name of rows about idle time.
pub(super) const IDLE: &str = "(GPU idle)";

/// Builds the table of all stages.
pub(crate) fn table(view: &View, rows: &[KernelRow]) -> Answer<TriageOverlap> {
    let rules = Rules::embedded();
    let sweep = stream_sweep::sweep(view, &rules);
    let (idle, follows_idle) = idle_gaps::idle_by_stage(view, &rules);
    let neighbours = neighbours::neighbours(view, &sweep, &rules.thresholds, &follows_idle);
    let row_index = RowIndex::new(rows);
    let waiting = waiting::by_row(view, &sweep, &rules);
    let table = Table { view, kernels: rows, row_index, rules, sweep, neighbours, waiting, idle };
    table.answer()
}

/// The inputs of the rows.
struct Table<'a> {
    view: &'a View<'a>,
    kernels: &'a [KernelRow],
    row_index: RowIndex,
    rules: Rules,
    sweep: Sweep,
    /// One entry per row of the sweep.
    neighbours: Vec<Neighbours>,
    /// One entry per row of the sweep.
    waiting: Vec<Waiting>,
    /// Indexed by [`Stage::ALL`].
    idle: [IdleTime; Stage::ALL.len()],
}

impl Table<'_> {
    fn answer(&self) -> Answer<TriageOverlap> {
        let mut answer = TriageOverlap::answer("a sweep over the streams of each device");
        let (mut serial_rows, mut rows_below_bar, mut dropped) = (0, 0, 0_usize);
        for stage in self.view.times().stages() {
            let verdicts = self.verdicts(stage);
            serial_rows += verdicts.serial;
            rows_below_bar += verdicts.too_small;
            let before = answer.rows.len();
            answer.rows.extend(self.idle_row(stage));
            answer.rows.extend(verdicts.rows.iter().filter_map(|verdict| self.row(*verdict)));
            let limit = self.view.options.overlap_table_limit;
            let count = answer.rows.len() - before;
            if limit > 0 && count > limit {
                dropped += count - limit;
                answer.rows.truncate(before + limit);
            }
        }
        answer.rows_in_all = (answer.rows.len() + dropped) as u64;
        answer.limits = self.limits();
        answer.with_figures(TriageOverlapFigures {
            busy_ns: Ns(self.busy_ns()),
            idle_ns: Ns(self.sum_idle(|idle| idle.idle_ns)),
            pauses_ns: Ns(self.sum_idle(|idle| idle.pauses_ns)),
            streams: self.sweep.streams,
            overlapped_ns: Ns(self.sweep.overlapped_ns),
            same_stream_overlap_ns: self.sweep.same_stream_overlap,
            serial_rows,
            rows_below_bar,
        })
    }

    fn verdicts(&self, stage: Stage) -> Verdicts {
        let rows: Vec<(usize, &SweepRow, &Neighbours)> = (self.sweep.rows.iter().zip(&self.neighbours).enumerate())
            .filter(|(_, (row, _))| row.stage == stage)
            .map(|(index, (row, neighbours))| (index, row, neighbours))
            .collect();
        let min_overlap_ns = self.rules.thresholds.min_stream_overlap_pct / 100.0 * self.busy_ns() as f64;
        let judge = Judge {
            rules: &self.rules,
            min_share_pct: self.view.options.min_share_pct,
            has_mapping: self.view.has_mapping,
            unpaused_ns: self.unpaused_ns(stage),
            waiting: &self.waiting,
            has_stream_overlap: self.sweep.overlapped_ns as f64 > min_overlap_ns,
        };
        judge.stage(self.sweep.busy_ns(stage), &rows)
    }

    fn row(&self, verdict: Verdict) -> Option<TriageOverlapRow> {
        let (row, neighbours) = (self.sweep.rows.get(verdict.row)?, self.neighbours.get(verdict.row)?);
        let (busy, unpaused) = (self.sweep.busy_ns(row.stage), self.unpaused_ns(row.stage));
        let elapsed = self.view.times().of_stage(row.stage).elapsed;
        let pct_of_row = |time_ns: i64| Some(Pct::of(Ns(time_ns), Ns(row.duration_ns)));
        let is_shifted = self.kernel(verdict.row).is_some_and(|row| row.has_shifted_durations);
        let share = |share: Pct| (!is_shifted).then_some(share);
        Some(TriageOverlapRow {
            stage: row.stage,
            priority: format!("P{}", verdict.priority),
            verdict: verdict.verdict.to_owned(),
            kernel_name: self.sweep.names.get(row.name).into(),
            duration_ns: Ns(row.duration_ns),
            elapsed_share_pct: share(Pct::of(Ns(row.elapsed_ns), elapsed)),
            share_pct: share(Pct::of(Ns(row.duration_ns), Ns(busy))),
            exclusive_pct: pct_of_row(row.exclusive_ns),
            dep_risk: Some(neighbours.risk(&self.rules.thresholds).label().to_owned()),
            recommendation: self.rules.recommendation(verdict.recommendation).to_owned(),
            python_scope: Some(self.call_site(verdict.row).into()),
            basis: self.basis(verdict, row, neighbours),
            hidden_pct: pct_of_row(row.hidden_ns()),
            hidden_by_compute_pct: pct_of_row(row.hidden_by_compute_ns),
            unpaused_share_pct: share(Pct::of(Ns(row.duration_ns), Ns(unpaused))),
        })
    }

    /// The kernel row of a row of the sweep.
    fn kernel(&self, row: usize) -> Option<&KernelRow> {
        let row = self.sweep.rows.get(row)?;
        self.kernels.get(self.row_index.row(row.stage, row.first)?)
    }

    /// The call site that launches most of a row of the sweep, or `unmapped`.
    fn call_site(&self, row: usize) -> &str {
        let site = self.kernel(row).and_then(|row| row.call_sites.first()).filter(|site| !site.display.is_empty());
        site.map_or("unmapped", |site| site.display.as_str())
    }

    fn idle_row(&self, stage: Stage) -> Option<TriageOverlapRow> {
        let (idle, unpaused) = (self.idle.get(stage as usize)?, self.unpaused_ns(stage));
        let thresholds = &self.rules.thresholds;
        let is_part = |time_ns: i64, min_pct: f64, whole_ns: i64| time_ns as f64 >= min_pct / 100.0 * whole_ns as f64;
        if unpaused == 0 || !is_part(idle.idle_ns, thresholds.idle_pct, unpaused) {
            return None;
        }
        let (late_ns, turnaround_ns) = (idle.launched_late(), idle.of_cause(IdleCause::Turnaround));
        let other_ns = idle.of_cause(IdleCause::OtherStream).saturating_add(idle.of_cause(IdleCause::OtherGpu));
        let is_host_late = late_ns >= turnaround_ns.max(other_ns) && late_ns > 0;
        let is_turnaround = turnaround_ns > late_ns.max(other_ns);
        // A few gaps, or one long gap, show the start of a program, not how it runs.
        let longest = idle.longest.map_or(0, |(length, _)| length.0);
        let is_steady =
            idle.gaps >= thresholds.min_idle_gaps && !is_part(longest, thresholds.max_longest_gap_pct, idle.idle_ns);
        let has_replays = self.replayed_stages().contains(&stage);
        if !is_steady && !has_replays {
            return None;
        }
        let (priority, verdict, recommendation) = match (is_host_late, has_replays) {
            (true, false) => ("P1", "host late", "launch"),
            (true, true) => ("P2", "preparation of graph replays", "prepare"),
            (false, false) if is_turnaround => ("P2", "gaps between short kernels", "turnaround"),
            (false, _) => ("P2", "idle gaps", "wait"),
        };
        Some(TriageOverlapRow {
            stage,
            priority: priority.to_owned(),
            verdict: verdict.to_owned(),
            kernel_name: IDLE.into(),
            duration_ns: Ns(idle.idle_ns),
            recommendation: self.rules.recommendation(recommendation).to_owned(),
            basis: self.idle_basis(idle, unpaused),
            unpaused_share_pct: Some(Pct::of(Ns(idle.idle_ns), Ns(unpaused))),
            ..TriageOverlapRow::default()
        })
    }

    /// Busy time plus the idle time that the stage's ops end: wall time without pauses and without other stages.
    fn unpaused_ns(&self, stage: Stage) -> i64 {
        let idle = self.idle.get(stage as usize).map_or(0, |idle| idle.idle_ns);
        self.sweep.busy_ns(stage).saturating_add(idle)
    }

    /// Busy time of all stages.
    fn busy_ns(&self) -> i64 {
        Stage::ALL.iter().fold(0, |sum, stage| sum.saturating_add(self.sweep.busy_ns(*stage)))
    }

    fn sum_idle(&self, value: fn(&IdleTime) -> i64) -> i64 {
        self.idle.iter().fold(0, |sum, idle| sum.saturating_add(value(idle)))
    }
}
