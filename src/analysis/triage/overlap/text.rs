//! The words of the overlap table: what each row rests on, and what the table does not say.

use super::super::definitions::{HIDDEN, ONE_TRACE, OVERLAP_SHARES};
use super::dependency::Neighbours;
use super::idle::Idle;
use super::rules::Class;
use super::sweep::Row;
use super::{Cause, Table};
use crate::rules::names;
use crate::rules::signals::CallKind;
use crate::trace::Ns;

impl Table<'_> {
    /// What a row rests on.
    pub(super) fn basis(&self, row: &Row, neighbours: &Neighbours) -> String {
        let of_launches = |count: u64| percent(count as f64, row.launches as f64);
        let mut parts = vec![format!(
            "{} {}: {} close to a neighbour on the same stream, {} in series with it",
            row.launches,
            if row.launches == 1 { "launch" } else { "launches" },
            of_launches(neighbours.close),
            of_launches(neighbours.serial),
        )];
        if neighbours.dry > 0 {
            parts.push(format!("{} beside a gap in which the device ran dry", of_launches(neighbours.dry)));
        }
        if let Some(name) = row.mostly_beside() {
            parts.push(format!("hidden mostly beside {}", self.swept.names.get(name)));
        }
        parts.join("; ")
    }

    pub(super) fn idle_basis(&self, idle: &Idle) -> String {
        let of_idle = |cause| percent(idle.of(cause) as f64, idle.idle_ns as f64);
        let mut basis = format!(
            "{} gaps; {} of the time the host launched late, {} the launch was made in time",
            idle.gaps,
            of_idle(Cause::HostWait),
            percent(idle.of(Cause::KernelWait) as f64 + idle.of(Cause::Other) as f64, idle.idle_ns as f64),
        );
        let unknown = of_idle(Cause::Unknown);
        if unknown != "0 %" {
            basis.push_str(&format!(", {unknown} no launch is known"));
        }
        if let Some((length, name)) = idle.longest {
            let name =
                self.view.name(name).map_or_else(String::new, |name| names::short(&names::demangle(&name.canonical)));
            basis.push_str(&format!("; the longest, {}, before {name}", microseconds(length)));
        }
        basis
    }

    pub(super) fn limits(&self) -> Vec<String> {
        let thresholds = &self.rules.thresholds;
        let mut limits = vec![OVERLAP_SHARES.to_owned(), HIDDEN.to_owned()];
        let (busy, same_stream) = (self.busy_ns(), self.swept.same_stream.0);
        if same_stream as f64 > thresholds.same_stream_overlap_pct / 100.0 * busy as f64 {
            limits.push(format!(
                "Kernels began before those ahead of them on their stream had ended, by {} of the busy time \
                 (programmatic dependent launch): their durations hold waiting, and sum to more than the busy time.",
                percent(same_stream as f64, busy as f64)
            ));
        }
        let pauses = self.sum(|idle| idle.pauses_ns);
        if pauses > 0 {
            limits.push(format!(
                "The devices paused for {:.0} ms in all: gaps of {} ms and more count as wall time alone.",
                pauses as f64 / 1e6,
                thresholds.pause_us / 1e3
            ));
        }
        if self.swept.rows.iter().any(|row| row.class == Class::Communication) {
            limits.push(
                "Communication lasts as long as it waits for the slowest rank: one rank's trace does not tell how much of \
                 it is that."
                    .to_owned(),
            );
        }
        if self.view.has_mapping {
            return limits;
        }
        limits.push(ONE_TRACE.to_owned());
        if self.replays_graphs() {
            limits.push(
                "Graph replays hide which code launched their kernels; a mapping trace of the same work would settle the \
                 dependency risk and name the places."
                    .to_owned(),
            );
        }
        limits
    }

    fn replays_graphs(&self) -> bool {
        let (meanings, trace) = (&self.view.context, self.view.trace);
        let replays = |name| meanings.call_kind(name) == CallKind::GraphLaunch;
        let mut calls = trace.gpu_ops.launches().flatten().filter_map(|call| trace.calls.get(call.0 as usize));
        calls.any(|call| replays(call.name))
    }
}

fn percent(part: f64, whole: f64) -> String {
    format!("{:.0} %", if whole > 0.0 { 100.0 * part / whole } else { 0.0 })
}

fn microseconds(time: Ns) -> String {
    format!("{:.1} us", time.0 as f64 / 1e3)
}
