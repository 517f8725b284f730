//! What the launches of each row of communication show: transfer or waiting for other ranks. From the estimate of
//! [`crate::analysis::communication::waiting`], and the bandwidth of the links of the device: if even the shortest launch of
//! a size is far slower than the link allows, all of them count as slow.

use super::rules::Rules;
use super::stream_sweep::Sweep;
use crate::analysis::communication::waiting::{CallWait, Size, call_waits};
use crate::analysis::inference::passes::steps_on_devices;
use crate::analysis::structure::stages::steps;
use crate::analysis::triage::View;
use crate::rules::signals::WaitingRules;
use crate::trace::Ns;

/// What the launches of one row show.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Waiting {
    /// Duration of all launches.
    total_ns: f64,
    /// Duration of the launches that others of their size show to be usual.
    comparable_ns: f64,
    /// Duration that is waiting.
    excess_ns: f64,
    /// Duration of the launches of sizes whose shortest launch is too slow for the link.
    slow_ns: f64,
    /// Highest bus bandwidth among these launches, and bandwidth of the link, in GB/s.
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

    /// The part of the time that is waiting, in percent.
    pub(super) fn excess_pct(&self) -> f64 {
        if self.total_ns > 0.0 { 100.0 * self.excess_ns / self.total_ns } else { 0.0 }
    }

    fn add(&mut self, call: &CallWait, link: Option<f64>, rules: &WaitingRules) {
        let duration = call.duration.0 as f64;
        self.total_ns += duration;
        if call.is_comparable {
            self.comparable_ns += duration;
        }
        if call.size != Size::Unknown {
            self.excess_ns += call.waiting.0 as f64;
        }
        let Some(link) = link.filter(|_| call.is_comparable && call.bus_bytes >= rules.min_bytes) else { return };
        // Bytes per nanosecond are GB/s.
        let expected = call.bus_bytes / (rules.reachable_share * link) + 1e3 * rules.latency_us;
        let shortest = call.shortest.0 as f64;
        if shortest > rules.slow_factor * expected {
            self.slow_ns += duration;
            let reached = call.bus_bytes / shortest;
            self.bandwidth = Some((self.bandwidth.map_or(reached, |(best, _)| best.max(reached)), link));
        }
    }
}

/// Evaluates the rows of the sweep that are communication.
pub(super) fn by_row(view: &View, sweep: &Sweep, rules: &Rules) -> Vec<Waiting> {
    let mut row_of = vec![None; view.trace.gpu_ops.len()];
    for op in &sweep.ops {
        row_of.get_mut(op.index).into_iter().for_each(|row| *row = Some(op.row));
    }
    let mut found = steps_on_devices(view.trace);
    if found.is_empty() {
        found = steps(view.trace);
    }
    found.retain(|step| step.end.since(step.start) > Ns::ZERO);
    let mut rows = vec![Waiting::default(); sweep.rows.len()];
    for call in call_waits(&view.context, &found) {
        let device = view.trace.gpu_ops.get(call.row).and_then(|op| view.trace.devices.get(op.device.0 as usize));
        let link = device.and_then(|device| rules.link_gb_per_s(&device.name));
        let row = row_of.get(call.row).copied().flatten().and_then(|row| rows.get_mut(row));
        row.into_iter().for_each(|row| row.add(&call, link, &view.context.signals.waiting));
    }
    rows
}
