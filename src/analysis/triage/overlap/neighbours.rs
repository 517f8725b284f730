//! Estimates from the ops directly before and after it on its stream whether an op could run at another time, over all launches of
//! a row. One pass over the ops.
//!
//! A neighbour is close if the gap to it is short compared with the op. A close neighbour makes a launch serial if both come from
//! the same call site or CPU op, or if their classes suggest that one consumes what the other produces. After a longer gap the op
//! counts as independent only if other streams worked in the meantime: if the whole device was idle, the host was late and the gap
//! is no evidence.

use super::rules::{Class, Thresholds};
use super::stream_sweep::{OpInterval, Sweep};
use crate::analysis::triage::View;
use crate::analysis::triage::call_sites::{CallSite, Resolution};
use crate::trace::Ns;

/// The launches of a row, counted by the relation to their neighbours. Each launch counts in one of the first four.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Neighbours {
    /// Launches with a close neighbour that depends on them or on which they depend.
    pub(super) serial: u64,
    /// Launches with a close neighbour whose relation is unknown.
    pub(super) unclear: u64,
    /// Launches next to a gap in which the device was idle, which is no evidence.
    pub(super) next_to_idle: u64,
    /// Launches without a related close neighbour.
    pub(super) independent: u64,
    /// All launches with a close neighbour.
    pub(super) close: u64,
}

/// The risk that an op depends on its neighbours and cannot run at another time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Risk {
    Low,
    Unclear,
    High,
}

impl Risk {
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Unclear => "unclear",
            Self::High => "high",
        }
    }
}

impl Neighbours {
    /// The risk according to the shares of launches.
    pub(super) fn risk(&self, thresholds: &Thresholds) -> Risk {
        let all = (self.serial + self.unclear + self.next_to_idle + self.independent) as f64;
        if self.serial as f64 >= thresholds.high_risk_ratio * all && self.serial > 0 {
            Risk::High
        } else if self.independent as f64 >= thresholds.low_risk_ratio * all {
            Risk::Low
        } else {
            Risk::Unclear
        }
    }

    fn add(&mut self, launch: Launch) {
        self.close += u64::from(launch.has_close_neighbour);
        match launch.relation {
            Relation::Independent => self.independent += 1,
            Relation::NextToIdle => self.next_to_idle += 1,
            Relation::Unclear => self.unclear += 1,
            Relation::Serial => self.serial += 1,
        }
    }
}

/// The relation of a launch to a neighbour, in ascending strength: the stronger one of two neighbours counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Relation {
    Independent,
    NextToIdle,
    Unclear,
    Serial,
}

#[derive(Debug, Clone, Copy)]
struct Launch {
    relation: Relation,
    has_close_neighbour: bool,
}

/// Counts the neighbours of each row of the sweep. `follows_idle` is true for each op before which its device was idle.
pub(super) fn neighbours(
    view: &View,
    sweep: &Sweep,
    thresholds: &Thresholds,
    follows_idle: &[bool],
) -> Vec<Neighbours> {
    let mut rows = vec![Neighbours::default(); sweep.rows.len()];
    let streams = sweep.ops.iter().map(|op| op.stream + 1).max().unwrap_or(0);
    let mut previous: Vec<Option<(OpInterval, Launch)>> = vec![None; streams];
    let mut count = |op: OpInterval, launch: Launch| {
        if let Some(row) = rows.get_mut(op.row) {
            row.add(launch);
        }
    };
    for op in &sweep.ops {
        let Some(previous) = previous.get_mut(op.stream) else { continue };
        let mut launch = Launch { relation: Relation::Independent, has_close_neighbour: false };
        if let Some((before, mut launch_before)) = previous.take() {
            let was_idle = follows_idle.get(op.index).copied().unwrap_or(false);
            let gap = op.start.since(before.end).max(Ns::ZERO);
            let is_serial = are_serial(view, sweep, &before, op);
            for (op, launch) in [(&before, &mut launch_before), (op, &mut launch)] {
                let is_close = gap <= max_close_gap(thresholds, op.end.since(op.start));
                launch.relation = launch.relation.max(relation(is_close, was_idle, is_serial));
                launch.has_close_neighbour |= is_close;
            }
            count(before, launch_before);
        }
        *previous = Some((*op, launch));
    }
    previous.into_iter().flatten().for_each(|(op, launch)| count(op, launch));
    rows
}

fn relation(is_close: bool, was_idle: bool, is_serial: Option<bool>) -> Relation {
    match (is_close, is_serial) {
        (true, Some(true)) => Relation::Serial,
        (true, None) => Relation::Unclear,
        (true, Some(false)) => Relation::Independent,
        (false, _) if was_idle => Relation::NextToIdle,
        (false, _) => Relation::Independent,
    }
}

/// The longest gap to a close neighbour of an op with this duration.
fn max_close_gap(thresholds: &Thresholds, duration: Ns) -> Ns {
    let gap = (duration.0 as f64 * thresholds.close_gap_ratio).min(thresholds.max_close_gap_us * 1e3);
    Ns(gap.max(thresholds.min_close_gap_us * 1e3) as i64)
}

/// True if one of two neighbours probably depends on the other; `None` if unknown.
fn are_serial(view: &View, sweep: &Sweep, one: &OpInterval, other: &OpInterval) -> Option<bool> {
    let class = |op: &OpInterval| sweep.rows.get(op.row).map_or(Class::Other, |row| row.class);
    if classes_depend(class(one), class(other)) {
        return Some(true);
    }
    let (one, other) = (view.call_sites.of_op(one.index)?, view.call_sites.of_op(other.index)?);
    if is_same_cpu_op(one, other) || is_same_location(one, other) {
        return Some(true);
    }
    (!one.location.is_empty() && !other.location.is_empty()).then_some(false)
}

/// Elementwise and memory ops usually consume or produce data of their neighbours, and so does communication.
fn classes_depend(one: Class, other: Class) -> bool {
    use Class::{Communication, Other};
    match (one, other) {
        (Communication, Communication) => false,
        (Communication, _) | (_, Communication) => true,
        (Other, _) | (_, Other) => false,
        _ => one.is_light() || other.is_light(),
    }
}

fn is_same_cpu_op(one: &CallSite, other: &CallSite) -> bool {
    // All ops of a graph share the call that replays it, so the CPU op is no evidence.
    one.resolution != Resolution::Replay && !one.cpu_op.is_empty() && one.cpu_op == other.cpu_op
}

/// True for the same file, or the same function name in another file: `python/sglang/srt/models/qwen3.py:310 forward`.
fn is_same_location(one: &CallSite, other: &CallSite) -> bool {
    let same = |one: &str, other: &str| !one.is_empty() && one == other;
    let ((file_a, function_a), (file_b, function_b)) = (split(&one.location), split(&other.location));
    same(file_a, file_b) || same(function_a, function_b)
}

/// Splits a location into file and function.
fn split(location: &str) -> (&str, &str) {
    let (place, function) = location.split_once(' ').unwrap_or((location, ""));
    (place.rsplit_once(':').map_or(place, |(path, _)| path), function)
}
