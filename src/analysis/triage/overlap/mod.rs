//! The overlap-opportunity table: what runs alone although something could run beside it, what is hidden already, and
//! when the device waits.
//!
//! `sweep` tells how long each op runs alone, `dependency` what its neighbours say, `idle` when nothing runs, `verdicts`
//! what that comes to; `text` puts it into words. `patterns/overlap.json` has classes, thresholds and words.

mod dependency;
mod idle;
mod rules;
mod sweep;
#[cfg(test)]
mod tests;
mod text;
mod verdicts;

use super::kernels::{KernelRow, RowIndex};
use super::serving::Framework;
use super::view::View;
use crate::analysis::host::idle::Cause;
use crate::analysis::section::{Section, Value};
use crate::analysis::structure::stages::Stage;
use crate::trace::Ns;
use dependency::Neighbours;
use idle::Idle;
use rules::Rules;
use sweep::{Row, Swept};
use verdicts::{Judge, Verdict, Verdicts};

/// The columns of the table.
pub(crate) const COLUMNS: [&str; 14] = [
    "stage",
    "priority",
    "verdict",
    "kernel_name",
    "duration_ns",
    "share_pct",
    "exclusive_pct",
    "dep_risk",
    "recommendation",
    "python_scope",
    "basis",
    "hidden_pct",
    "hidden_by_compute_pct",
    "unpaused_share_pct",
];

/// Stands for the kernel where a device waits.
pub(super) const IDLE: &str = "(GPU idle)";

/// What turns CUDA graphs off, so that a trace tells the place of each kernel.
pub(super) fn without_graphs(framework: Framework) -> String {
    Rules::embedded().without_graphs(framework).to_owned()
}

/// The table of all stages.
pub(crate) fn section(view: &View, rows: &[KernelRow]) -> Section {
    let rules = Rules::embedded();
    let swept = sweep::sweep(view, &rules);
    let (idle, dry) = idle::idle(view, &rules);
    let neighbours = dependency::neighbours(view, &swept, &rules.thresholds, &dry);
    let places = RowIndex::new(rows);
    let table = Table { view, kernels: rows, places, rules, swept, neighbours, idle };
    table.section()
}

/// All that rows are made of.
struct Table<'a> {
    view: &'a View<'a>,
    kernels: &'a [KernelRow],
    places: RowIndex,
    rules: Rules,
    swept: Swept,
    /// In the order of the sweep's rows.
    neighbours: Vec<Neighbours>,
    /// By [`Stage::ALL`].
    idle: [Idle; Stage::ALL.len()],
}

impl Table<'_> {
    fn section(&self) -> Section {
        let mut section = Section::new("Overlap opportunities", "a sweep over the streams of each device", &COLUMNS);
        let (mut serial, mut below_bar, mut cut) = (0, 0, 0_usize);
        for stage in self.view.times().stages() {
            let verdicts = self.verdicts(stage);
            serial += verdicts.serial;
            below_bar += verdicts.below_bar;
            let before = section.rows.len();
            self.idle_row(stage, &mut section);
            verdicts.said.iter().for_each(|verdict| self.row(*verdict, &mut section));
            let limit = self.view.options.overlap_table_limit;
            let said = section.rows.len() - before;
            if limit > 0 && said > limit {
                cut += said - limit;
                section.rows.truncate(before + limit);
            }
        }
        section.rows_in_all = (section.rows.len() + cut) as u64;
        self.figures(&mut section, serial, below_bar);
        section.limits = self.limits();
        section
    }

    fn verdicts(&self, stage: Stage) -> Verdicts {
        let rows: Vec<(usize, &Row, &Neighbours)> = (self.swept.rows.iter().zip(&self.neighbours).enumerate())
            .filter(|(_, (row, _))| row.stage == stage)
            .map(|(at, (row, neighbours))| (at, row, neighbours))
            .collect();
        let meeting_ns = self.rules.thresholds.streams_meet_pct / 100.0 * self.busy_ns() as f64;
        let judge = Judge {
            rules: &self.rules,
            bar_pct: self.view.options.min_share_pct,
            is_pair: self.view.has_mapping,
            streams_meet: self.swept.overlapped_ns as f64 > meeting_ns,
        };
        judge.stage(self.swept.busy_ns(stage), &rows)
    }

    fn row(&self, verdict: Verdict, section: &mut Section) {
        let (Some(row), Some(neighbours)) = (self.swept.rows.get(verdict.row), self.neighbours.get(verdict.row)) else {
            return;
        };
        let (busy, unpaused) = (self.swept.busy_ns(row.stage), self.unpaused_ns(row.stage));
        let of_row = |time_ns: i64| Value::pct(Ns(time_ns), Ns(row.duration_ns));
        let name = self.swept.names.get(row.name);
        section.row([
            row.stage.label().into(),
            format!("P{}", verdict.priority).into(),
            verdict.verdict.into(),
            name.into(),
            row.duration_ns.into(),
            Value::pct(Ns(row.duration_ns), Ns(busy)),
            of_row(row.exclusive_ns),
            neighbours.risk(&self.rules.thresholds).label().into(),
            self.rules.recommendation(verdict.recommendation).into(),
            self.scope(verdict.row).into(),
            self.basis(row, neighbours).into(),
            of_row(row.hidden_ns()),
            of_row(row.hidden_by_compute_ns),
            Value::pct(Ns(row.duration_ns), Ns(unpaused)),
        ]);
    }

    /// The place that launches most of a row of the sweep, where one is known.
    fn scope(&self, row: usize) -> &str {
        let row = self.swept.rows.get(row).and_then(|row| self.places.row(row.stage, row.first));
        let row = row.and_then(|row| self.kernels.get(row));
        let site = row.and_then(|row| row.call_sites.first()).filter(|site| !site.display.is_empty());
        site.map_or("unmapped", |site| site.display.as_str())
    }

    fn idle_row(&self, stage: Stage, section: &mut Section) {
        let (Some(idle), unpaused) = (self.idle.get(stage as usize), self.unpaused_ns(stage)) else { return };
        if unpaused == 0 || (idle.idle_ns as f64) < self.rules.thresholds.idle_pct / 100.0 * unpaused as f64 {
            return;
        }
        let host_late = idle.of(Cause::HostWait).saturating_mul(2) >= idle.idle_ns;
        let (priority, verdict, recommendation) =
            if host_late { ("P1", "launch-bound", "launch") } else { ("P2", "idle gaps", "wait") };
        section.row([
            stage.label().into(),
            priority.into(),
            verdict.into(),
            IDLE.into(),
            idle.idle_ns.into(),
            Value::Null,
            Value::Null,
            Value::Null,
            self.rules.recommendation(recommendation).into(),
            Value::Null,
            self.idle_basis(idle).into(),
            Value::Null,
            Value::Null,
            Value::pct(Ns(idle.idle_ns), Ns(unpaused)),
        ]);
    }

    /// Busy time and the gaps that the stage's ops end: its wall time without pauses and without other stages.
    fn unpaused_ns(&self, stage: Stage) -> i64 {
        let idle = self.idle.get(stage as usize).map_or(0, |idle| idle.idle_ns);
        self.swept.busy_ns(stage).saturating_add(idle)
    }

    /// Of all stages.
    fn busy_ns(&self) -> i64 {
        Stage::ALL.iter().fold(0, |sum, stage| sum.saturating_add(self.swept.busy_ns(*stage)))
    }

    fn sum(&self, of: fn(&Idle) -> i64) -> i64 {
        self.idle.iter().fold(0, |sum, idle| sum.saturating_add(of(idle)))
    }

    fn figures(&self, section: &mut Section, serial: usize, below_bar: usize) {
        section.figure("busy_ns", self.busy_ns());
        section.figure("idle_ns", self.sum(|idle| idle.idle_ns));
        section.figure("pauses_ns", self.sum(|idle| idle.pauses_ns));
        section.figure("streams", self.swept.streams);
        section.figure("overlapped_ns", self.swept.overlapped_ns);
        section.figure("same_stream_overlap_ns", self.swept.same_stream);
        section.figure("serial_rows", serial);
        section.figure("rows_below_bar", below_bar);
    }
}
