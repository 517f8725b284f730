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
use crate::digits::grouped;
use crate::rules::names;
use crate::rules::signals::CallKind;
use crate::trace::Ns;

impl Table<'_> {
    /// The evidence for a row.
    pub(super) fn basis(&self, verdict: Verdict, row: &SweepRow, neighbours: &Neighbours) -> String {
        if let Some(basis) = self.communication_basis(verdict, row) {
            return basis;
        }
        let of_launches = |count: u64| percent(count as f64, row.launches as f64);
        let mut parts = vec![format!(
            "{}: {} close to another op on the same stream, {} in series with it",
            counted(row.launches),
            of_launches(neighbours.close),
            of_launches(neighbours.serial),
        )];
        if neighbours.next_to_idle > 0 {
            parts.push(format!("{} next to a gap in which the device was idle", of_launches(neighbours.next_to_idle)));
        }
        if let Some(name) = row.mostly_hidden_by() {
            parts.push(format!("mostly hidden by {}", self.sweep.names.get(name)));
        }
        parts.join("; ")
    }

    /// The evidence for a row of communication: how long it runs alone, and whether that is waiting.
    fn communication_basis(&self, verdict: Verdict, row: &SweepRow) -> Option<String> {
        let waiting = self.waiting.get(verdict.row).filter(|_| row.class == Class::Communication)?;
        let alone = format!(
            "{}, {:.1} ms in total, {:.1} ms of it without other work on the device",
            counted(row.launches),
            row.duration_ns as f64 / 1e6,
            row.exposed_ns as f64 / 1e6
        );
        let why = match waiting.state() {
            State::Scattered => format!(
                "transfers of one size differ so much that {:.0} % of the time is probably waiting for other ranks",
                waiting.excess_pct()
            ),
            State::Slow => {
                let (reached, link) = waiting.bandwidth?;
                format!(
                    "the fastest transfer reaches {reached:.0} GB/s where the links of the device carry {link:.0}: it \
                     probably waits for other ranks or takes a slower path"
                )
            }
            State::Steady => "comparable launches take similar time".to_owned(),
            State::Unknown => "the trace has no sizes to tell transfer from waiting".to_owned(),
        };
        let is_hidden = row.hidden_ns().saturating_mul(2) >= row.duration_ns;
        let hidden_by = row.mostly_hidden_by().filter(|_| is_hidden).map_or_else(String::new, |name| {
            format!("; mostly hidden by {}", names::short(&names::demangle(self.sweep.names.get(name))))
        });
        Some(format!("{alone}; {why}{hidden_by}"))
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
        let of_idle = |time: i64| percent(time as f64, idle.idle_ns as f64);
        let mut basis = format!(
            "{} of busy and idle time, in {} gaps; for {} of the time the host launched late, for {} it launched in time",
            percent(idle.idle_ns as f64, unpaused_ns as f64),
            idle.gaps,
            of_idle(idle.launched_late()),
            of_idle(idle.of_cause(IdleCause::Turnaround).saturating_add(idle.of_cause(IdleCause::OtherStream))),
        );
        let unknown = of_idle(idle.of_cause(IdleCause::Unknown));
        if unknown != "0 %" {
            basis.push_str(&format!(", for {unknown} the launch time is unknown"));
        }
        if let Some((length, name)) = idle.longest {
            let name = self.view.name(name).map_or("", |name| &name.short);
            basis.push_str(&format!("; the longest one, {}, ends with {name}", microseconds(length)));
        }
        basis
    }

    pub(super) fn limits(&self) -> Vec<String> {
        let thresholds = &self.rules.thresholds;
        let mut limits = vec![OVERLAP_SHARES.to_owned(), HIDDEN.to_owned()];
        let (busy, same_stream) = (self.busy_ns(), self.sweep.same_stream_overlap.0);
        if same_stream as f64 > thresholds.same_stream_overlap_pct / 100.0 * busy as f64 {
            limits.push(format!(
                "Kernels started before the previous kernel on their stream ended (programmatic dependent launch), for {} of \
                 the busy time: their durations include waiting and add up to more than the busy time.",
                percent(same_stream as f64, busy as f64)
            ));
        }
        let pauses = self.sum_idle(|idle| idle.pauses_ns);
        if pauses > 0 {
            limits.push(format!(
                "The devices paused for {} ms in total: gaps of at least {} ms count only as wall time.",
                grouped((pauses as f64 / 1e6).round() as u64),
                thresholds.pause_us / 1e3
            ));
        }
        if self.sweep.rows.iter().any(|row| row.class == Class::Communication) {
            limits.push(
                "The duration of communication includes waiting for the slowest rank; the trace of one rank does not show how \
                 much."
                    .to_owned(),
            );
        }
        if self.view.has_mapping {
            return limits;
        }
        limits.push(ONE_TRACE.to_owned());
        if self.has_graph_replays() {
            limits.push(
                "Graph replays hide which code launched their kernels; a mapping trace of the same work would clarify the \
                 dependency risk and show the call sites."
                    .to_owned(),
            );
        }
        limits
    }

    fn has_graph_replays(&self) -> bool {
        !self.replayed_stages().is_empty()
    }
}

fn counted(launches: u64) -> String {
    if launches == 1 { "1 launch".to_owned() } else { format!("{launches} launches") }
}

fn percent(part: f64, whole: f64) -> String {
    format!("{:.0} %", if whole > 0.0 { 100.0 * part / whole } else { 0.0 })
}

fn microseconds(time: Ns) -> String {
    format!("{:.1} us", time.0 as f64 / 1e3)
}
