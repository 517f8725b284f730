//! Estimates from the trace of one rank how much of the communication is waiting for other ranks. One pass over the
//! communication kernels, plus sorting them.
//!
//! Launches of one kernel are comparable if they transfer the same number of bytes, or, if sizes are unknown, if they have
//! the same position in every step. Their shortest launch bounds the transfer from above, so the excess over it is
//! waiting. If even the shortest launch is far slower than the link of the device allows, all of it counts as slow. The
//! trace of one rank cannot show which rank is late.

use super::rules::Rules;
use super::stream_sweep::Sweep;
use crate::analysis::communication::operations::{bus_factor, each_call};
use crate::analysis::structure::stages::steps;
use crate::analysis::triage::View;
use crate::ordering::VecMap;
use crate::trace::{DeviceId, Ns};

/// Launches are comparable in groups of at least this size.
const MIN_GROUP: usize = 3;
/// So many launches without sizes are comparable if their durations scatter little.
const MIN_UNIFORM: usize = 20;
/// A launch that takes this many times the transfer time of the link is implausibly slow.
const MAX_SLOWDOWN: f64 = 3.0;
/// The part of a link's bandwidth that collectives reach.
const REACHABLE: f64 = 0.7;
/// Latency of a collective.
const LATENCY_NS: f64 = 10e3;
/// Smaller messages do not show the bandwidth.
const MIN_BYTES: u64 = 1 << 20;

/// What the launches of one row show.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Waiting {
    /// Duration of all launches.
    total_ns: f64,
    /// Duration of the launches that belong to a group.
    comparable_ns: f64,
    /// Duration beyond the shortest launch of each group.
    excess_ns: f64,
    /// Duration of the groups whose shortest launch is too slow for the link.
    slow_ns: f64,
    /// Highest bus bandwidth among these groups, and bandwidth of the link, in GB/s.
    pub(super) bandwidth: Option<(f64, f64)>,
}

/// The state of the communication of one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Most of the time is waiting for other ranks.
    Scattered,
    /// Most of the time is far slower than the link.
    Slow,
    /// Comparable launches take similar time.
    Steady,
    /// The launches are not comparable.
    Unknown,
}

impl Waiting {
    pub(super) fn state(&self) -> State {
        let is_most = |part: f64| part >= 0.5 * self.total_ns && part > 0.0;
        if is_most(self.excess_ns) {
            State::Scattered
        } else if is_most(self.slow_ns) {
            State::Slow
        } else if is_most(self.comparable_ns) {
            State::Steady
        } else {
            State::Unknown
        }
    }

    /// The part of the time beyond the shortest comparable launches, in percent.
    pub(super) fn excess_pct(&self) -> f64 {
        if self.total_ns > 0.0 { 100.0 * self.excess_ns / self.total_ns } else { 0.0 }
    }

    fn add_group(&mut self, group: &Group, durations: &[f64], link: Option<f64>) {
        let sum: f64 = durations.iter().sum();
        self.total_ns += sum;
        if durations.len() < MIN_GROUP {
            return;
        }
        let shortest = durations.iter().copied().fold(f64::INFINITY, f64::min);
        self.comparable_ns += sum;
        self.excess_ns += durations.iter().map(|duration| duration - shortest).sum::<f64>();
        let Group::Bytes { bytes, bus_bytes, .. } = *group else { return };
        let Some(link) = link.filter(|_| bytes >= MIN_BYTES) else { return };
        // Bytes per nanosecond are GB/s.
        let expected = bus_bytes as f64 / (REACHABLE * link) + LATENCY_NS;
        if shortest > MAX_SLOWDOWN * expected {
            self.slow_ns += sum;
            let reached = bus_bytes as f64 / shortest;
            self.bandwidth = Some((self.bandwidth.map_or(reached, |(best, _)| best.max(reached)), link));
        }
    }
}

/// Launches that transfer the same amount of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    /// Messages of the same size; `bus_bytes` is the size times the bus factor of the operation.
    Bytes { device: DeviceId, bytes: u64, bus_bytes: u64 },
    /// The same position in each step.
    Position { device: DeviceId, position: usize },
    /// Launches without size in a trace without repeated steps.
    Single(usize),
}

/// Evaluates the rows of the sweep that are communication.
pub(super) fn by_row(view: &View, sweep: &Sweep, rules: &Rules) -> Vec<Waiting> {
    let mut row_of = vec![None; view.trace.gpu_ops.len()];
    for op in &sweep.ops {
        row_of.get_mut(op.index).into_iter().for_each(|row| *row = Some(op.row));
    }
    let (mut sized, mut unsized_calls) = (VecMap::new(), VecMap::new());
    each_call(&view.context, &mut |call| {
        let Some(row) = row_of.get(call.row).copied().flatten() else { return };
        let duration = call.op.duration.0 as f64;
        let factor = bus_factor(call.operation, call.message.and_then(|message| message.ranks));
        match call.bytes.zip(factor) {
            Some((bytes, factor)) => {
                let group =
                    Group::Bytes { device: call.op.device, bytes, bus_bytes: (bytes as f64 * factor).round() as u64 };
                sized.update((row, group), Vec::new(), |durations: &mut Vec<f64>| durations.push(duration));
            }
            None => unsized_calls
                .update((row, call.op.device), Vec::new(), |durations: &mut Vec<f64>| durations.push(duration)),
        }
    });
    let step_count = steps(view.trace).iter().filter(|step| step.end.since(step.start) > Ns::ZERO).count();
    for ((row, device), durations) in unsized_calls.0 {
        for (group, durations) in by_position(device, &durations, step_count) {
            sized.update((row, group), Vec::new(), |all: &mut Vec<f64>| all.extend(durations));
        }
    }
    let mut rows = vec![Waiting::default(); sweep.rows.len()];
    for ((row, group), durations) in &sized.0 {
        let device = match group {
            Group::Bytes { device, .. } | Group::Position { device, .. } => view.trace.devices.get(device.0 as usize),
            Group::Single(_) => None,
        };
        let link = device.and_then(|device| rules.link_gb_per_s(&device.name));
        rows.get_mut(*row).into_iter().for_each(|row| row.add_group(group, durations, link));
    }
    rows
}

/// Groups launches without sizes. Launches whose durations scatter little are one group, whatever their sizes.
fn by_position(device: DeviceId, durations: &[f64], steps: usize) -> Vec<(Group, Vec<f64>)> {
    let shortest = durations.iter().copied().fold(f64::INFINITY, f64::min);
    let sum: f64 = durations.iter().sum();
    let is_uniform = sum - shortest * (durations.len() as f64) < 0.5 * sum;
    let per_step =
        if steps >= MIN_GROUP && durations.len().is_multiple_of(steps) { durations.len() / steps } else { 0 };
    if per_step == 0 && durations.len() >= MIN_UNIFORM && is_uniform {
        return vec![(Group::Position { device, position: 0 }, durations.to_vec())];
    }
    if per_step == 0 {
        let single = |(index, duration): (usize, &f64)| (Group::Single(index), vec![*duration]);
        return durations.iter().enumerate().map(single).collect();
    }
    let of_position = |position: usize| {
        let durations = durations.iter().skip(position).step_by(per_step).copied().collect();
        (Group::Position { device, position }, durations)
    };
    (0..per_step).map(of_position).collect()
}
