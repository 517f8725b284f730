//! Texts of the overlap table: the basis of each row, and the limits of the table.

use super::super::definitions::{HIDDEN, ONE_TRACE, OVERLAP_SHARES};
use super::Table;
use super::idle_gaps::IdleTime;
use super::neighbours::Neighbours;
use super::rules::Class;
use super::stream_sweep::SweepRow;
use super::verdicts::Verdict;
use super::waiting::State;
use crate::analysis::host::idle_cause::IdleCause;
use crate::analysis::structure::stages::Stage;
use crate::rules::names;
use crate::rules::signals::CallKind;
use crate::trace::{Ms, Ns, Pct};
use crate::words::overlap as words;

impl Table<'_> {
    /// The evidence for a row.
    pub(super) fn basis(&self, verdict: Verdict, row: &SweepRow, neighbours: &Neighbours) -> String {
        if let Some(basis) = self.communication_basis(verdict, row) {
            return basis;
        }
        words::row(words::Row {
            launches: row.launches,
            close: neighbours.close,
            serial: neighbours.serial,
            next_to_idle: neighbours.next_to_idle,
            hidden_by: row.mostly_hidden_by().map(|name| self.sweep.names.get(name)),
        })
    }

    /// The evidence for a row of communication: how long it runs alone, and whether that is waiting.
    fn communication_basis(&self, verdict: Verdict, row: &SweepRow) -> Option<String> {
        let waiting = self.waiting.get(verdict.row).filter(|_| row.class == Class::Communication)?;
        let ms = |ns: i64| Ms(ns as f64 / 1e6);
        let is_hidden = row.hidden_ns().saturating_mul(2) >= row.duration_ns;
        let hidden_by = row.mostly_hidden_by().filter(|_| is_hidden);
        Some(words::communication(&words::Communication {
            launches: row.launches,
            time: ms(row.duration_ns),
            alone: ms(row.exposed_ns),
            waiting: match waiting.state() {
                State::Scattered => words::Waiting::Scattered(Pct(waiting.excess_pct())),
                State::Slow => {
                    let (reached, link) = waiting.bandwidth?;
                    words::Waiting::Slow { reached, link }
                }
                State::Steady => words::Waiting::Steady,
                State::Unknown => words::Waiting::Unknown,
            },
            hidden_by: hidden_by.map(|name| names::short(&names::demangle(self.sweep.names.get(name)))),
        }))
    }

    /// The stages in which graphs are replayed.
    pub(super) fn replayed_stages(&self) -> Vec<Stage> {
        let (meanings, trace) = (&self.view.context, self.view.trace);
        let mut stages = Vec::new();
        for (call, stage) in trace.gpu_ops.launches().zip(&self.view.stages) {
            let name = call.and_then(|call| trace.calls.get(call.0 as usize)).map(|call| call.name);
            let is_replay = name.is_some_and(|name| meanings.call_kind(name) == CallKind::GraphLaunch);
            stages.extend(stage.filter(|stage| is_replay && !stages.contains(stage)));
        }
        stages
    }

    /// `unpaused_ns` is the busy and idle time of the stage.
    pub(super) fn idle_basis(&self, idle: &IdleTime, unpaused_ns: i64) -> String {
        let in_time = [IdleCause::Turnaround, IdleCause::OtherStream, IdleCause::OtherGpu];
        let in_time = in_time.into_iter().fold(0_i64, |sum, cause| sum.saturating_add(idle.of_cause(cause)));
        words::idle(words::Idle {
            idle: Ns(idle.idle_ns),
            whole: Ns(unpaused_ns),
            gaps: idle.gaps,
            launched_late: Ns(idle.launched_late()),
            in_time: Ns(in_time),
            unknown: Ns(idle.of_cause(IdleCause::Unknown)),
            longest: idle
                .longest
                .map(|(length, name)| (length, self.view.name(name).map_or("", |name| name.short.as_str()))),
        })
    }

    pub(super) fn limits(&self) -> Vec<String> {
        let thresholds = &self.rules.thresholds;
        let mut limits = vec![OVERLAP_SHARES.to_owned(), HIDDEN.to_owned()];
        let (busy, same_stream) = (self.busy_ns(), self.sweep.same_stream_overlap.0);
        if same_stream as f64 > thresholds.same_stream_overlap_pct / 100.0 * busy as f64 {
            limits.push(words::same_stream(Ns(same_stream), Ns(busy)));
        }
        let pauses = self.sum_idle(|idle| idle.pauses_ns);
        if pauses > 0 {
            limits.push(words::pauses(Ns(pauses), Ms(thresholds.pause_us / 1e3)));
        }
        if self.sweep.rows.iter().any(|row| row.class == Class::Communication) {
            limits.push(words::INCLUDES_WAITING.to_owned());
        }
        if self.view.has_mapping {
            return limits;
        }
        limits.push(ONE_TRACE.to_owned());
        if self.has_graph_replays() {
            limits.push(words::HIDDEN_CODE.to_owned());
        }
        limits
    }

    fn has_graph_replays(&self) -> bool {
        !self.replayed_stages().is_empty()
    }
}
