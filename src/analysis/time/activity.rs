//! Overlap of work classes on each device, and how much communication is hidden. One sweep line over the work
//! sorted by start: O(n) while few ops run at the same time.
//!
//! The sweep keeps the set of classes that currently run and adds the time between two events to the total of
//! that set. Each device has its own sweep, so work on different devices never counts as overlap.

use super::work::{Class, Work};
use crate::analysis::measure::running::RunningOps;
use crate::trace::{Ns, Trace};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// How the time of one device was spent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Activity {
    /// Time by the set of classes that ran, a bit mask. Most devices have few of the sets.
    by_mask: Vec<(u8, i64)>,
    /// The largest number of ops that ran at the same time.
    pub(crate) max_concurrent: usize,
}

impl Activity {
    /// Adds the activity of other ops of the device.
    pub(crate) fn merge(&mut self, more: &Self) {
        more.by_mask.iter().for_each(|(mask, time)| self.add(usize::from(*mask), *time));
        self.max_concurrent = self.max_concurrent.max(more.max_concurrent);
    }

    fn add(&mut self, mask: usize, time: i64) {
        match self.by_mask.iter_mut().find(|(known, _)| usize::from(*known) == mask) {
            Some((_, sum)) => *sum = sum.wrapping_add(time),
            None if time != 0 => self.by_mask.push((mask as u8, time)),
            None => {}
        }
    }

    /// Time in which exactly these classes ran.
    fn with_only(&self, mask: usize) -> i64 {
        self.by_mask.iter().find(|(known, _)| usize::from(*known) == mask).map_or(0, |(_, time)| *time)
    }

    /// Time in which all of these classes ran at the same time.
    pub(crate) fn with_all(&self, bits: usize) -> i64 {
        let masks = self.by_mask.iter().filter(|(mask, _)| usize::from(*mask) & bits == bits);
        masks.fold(0, |sum, (_, time)| sum.wrapping_add(*time))
    }

    /// Time in which the class ran together with another class.
    pub(crate) fn shared(&self, class: Class) -> i64 {
        self.with_all(class.bit()).wrapping_sub(self.with_only(class.bit()))
    }

    /// Time in which only copies ran.
    pub(crate) fn only_copies(&self) -> i64 {
        self.with_only(Class::Copy.bit())
    }

    /// Time in which communication ran and no other kernel. Copies and sets do not hide communication; a graph whose kernels
    /// are unknown does.
    pub(crate) fn exposed(&self) -> i64 {
        const BESIDE: [usize; 4] = [0, Class::Copy.bit(), Class::Set.bit(), Class::Copy.bit() | Class::Set.bit()];
        let time = |beside| self.with_only(Class::Communication.bit() | beside);
        BESIDE.into_iter().fold(0, |sum, beside| sum.wrapping_add(time(beside)))
    }
}

/// Overlap of communication with other work on the same device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Hidden {
    /// The part of the summed durations in which the device also computes.
    pub(crate) compute_overlap_ns: i64,
    /// Time in which it runs and the device runs no kernel that computes; see [`Activity::exposed`].
    pub(crate) exposed_ns: i64,
}

impl Hidden {
    /// Adds the times of other ops.
    pub(crate) fn merge(&mut self, more: &Self) {
        self.compute_overlap_ns = self.compute_overlap_ns.wrapping_add(more.compute_overlap_ns);
        self.exposed_ns = self.exposed_ns.wrapping_add(more.exposed_ns);
    }
}

/// The state of the sweep on one device.
#[derive(Debug, Default)]
struct Lane {
    /// Payload: class and row.
    running_ops: RunningOps,
    /// Number of running ops by class.
    running: [u32; Class::ALL.len()],
    /// Number of running communication ops by row, without rows of which none runs: a list of all rows for each device would be
    /// quadratic in a trace with many of both.
    running_by_row: HashMap<u32, u32, RandomState>,
    /// The classes that currently run.
    mask: usize,
    now: Ns,
    /// Time so far in which a kernel computed.
    computing: i64,
    activity: Activity,
}

/// The sweep that computes [`Activity`] by device and [`Hidden`] by row. Work must arrive sorted by start.
#[derive(Debug)]
pub(crate) struct ActivitySweep {
    lanes: Vec<Lane>,
    hidden: Vec<Hidden>,
}

impl ActivitySweep {
    /// A sweep with `rows` rows of hidden communication; the caller chooses their meaning.
    pub(crate) fn new(trace: &Trace, rows: usize) -> Self {
        let lanes = trace.devices.iter().map(|_| Lane::default()).collect();
        Self { lanes, hidden: vec![Hidden::default(); rows] }
    }

    /// Adds the next work. `row` is the row of communication; it is ignored for other work.
    pub(crate) fn add(&mut self, work: &Work, row: usize) {
        let lane = self.lanes.get_mut(work.device).filter(|_| work.end > work.start);
        lane.into_iter().for_each(|lane| lane.start(work, row as u32, &mut self.hidden));
    }

    /// Returns the activity by device and the hidden communication by row.
    pub(crate) fn finish(mut self) -> (Vec<Activity>, Vec<Hidden>) {
        self.lanes.iter_mut().for_each(|lane| lane.end_until(Ns(i64::MAX), &mut self.hidden));
        // In a list of its own: `collect` would keep the memory of the lanes.
        let mut activities = Vec::with_capacity(self.lanes.len());
        activities.extend(self.lanes.into_iter().map(|lane| lane.activity));
        (activities, self.hidden)
    }
}

impl Lane {
    fn start(&mut self, work: &Work, row: u32, hidden: &mut [Hidden]) {
        self.end_until(work.start, hidden);
        self.advance_to(work.start);
        if work.class == Class::Communication {
            self.add_totals(row, false, hidden);
        }
        if let Some(running) = self.running.get_mut(work.class as usize) {
            *running += 1;
        }
        self.mask |= work.class.bit();
        self.running_ops.push(work.end, [work.class as u32, row]);
        self.activity.max_concurrent = self.activity.max_concurrent.max(self.running_ops.len());
    }

    /// Removes the ops that end at `time` or before: an op that ends when another starts does not overlap it.
    fn end_until(&mut self, time: Ns, hidden: &mut [Hidden]) {
        while let Some((end, [class, row])) = self.running_ops.pop_until(time) {
            self.advance_to(end);
            if class == Class::Communication as u32 {
                self.add_totals(row, true, hidden);
            }
            if let Some(running) = self.running.get_mut(class as usize) {
                *running -= 1;
                self.mask &= if *running == 0 { !(1 << class) } else { !0 };
            }
        }
    }

    fn advance_to(&mut self, time: Ns) {
        let passed = time.since(self.now).0;
        self.activity.add(self.mask, passed);
        if self.mask & Class::Compute.bit() != 0 {
            self.computing = self.computing.wrapping_add(passed);
        }
        self.now = time;
    }

    /// Adds the running totals at the end of an op and subtracts those at its start (a prefix sum).
    fn add_totals(&mut self, row: u32, ends: bool, hidden: &mut [Hidden]) {
        let Some(hidden) = hidden.get_mut(row as usize) else { return };
        let running = self.running_by_row.entry(row).or_default();
        let (computing, exposed) = (self.computing, self.activity.exposed());
        if ends {
            *running -= 1;
            hidden.compute_overlap_ns = hidden.compute_overlap_ns.wrapping_add(computing);
        } else {
            hidden.compute_overlap_ns = hidden.compute_overlap_ns.wrapping_sub(computing);
        }
        if *running == 0 {
            hidden.exposed_ns = hidden.exposed_ns.wrapping_add(if ends { exposed } else { -exposed });
        }
        *running += u32::from(!ends);
        if *running == 0 {
            self.running_by_row.remove(&row);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::analysis::context::Context;
    use crate::analysis::sections::explain;
    use crate::analysis::testing::*;

    /// Expected values of real traces, computed by an independent program that intersects lists of intervals. Times are
    /// in nanoseconds. Exposed communication is the part that overlaps no compute.
    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn results_for_real_traces_match_an_independent_program() {
        check(
            "nccl_metadata_a100.trace.json.gz",
            Expected {
                overlap: [46_876_493, 39_559_468, 7_317_025, 338_658],
                idle: [660_551_005, 157_500_014, 501_849_852],
                latencies: [2_700, 88_533_581, 964_931],
                copied_device_to_device: 307_323_096,
            },
        );
        check(
            "train_a100_rank3of8.trace.json.gz",
            Expected {
                overlap: [163_535_000, 87_921_000, 75_614_000, 9_676_000],
                idle: [464_594_000, 388_587_000, 40_234_000],
                latencies: [8_568, 17_670_572_000, 11_684_000],
                copied_device_to_device: 1_821_299_360,
            },
        );
        check(
            "dlrm_v100_8ranks/rank0.pt.trace.json.gz",
            Expected {
                overlap: [5_798_000, 5_537_000, 261_000, 0],
                idle: [13_009_000, 6_590_000, 4_786_000],
                latencies: [245, 14_722_000, 1_482_000],
                copied_device_to_device: 46_656,
            },
        );
    }

    struct Expected {
        /// Communication, exposed communication, its overlap with compute, its overlap with copies.
        overlap: [i64; 4],
        /// Window, busy time, time in which the host launched late without a drain.
        idle: [i64; 3],
        /// Number, sum and maximum of the launch latencies.
        latencies: [i64; 3],
        /// Bytes.
        copied_device_to_device: i64,
    }

    fn check(file: &str, expected: Expected) {
        let trace = torch(file);
        let sections = explain(&Context::new(&trace, 30));
        let figure = |section: &str, name: &str| figure(&sections, section, name);
        let ns = |ms: f64| (ms * 1e6).round() as i64;
        let overlap = [
            figure("nccl_ops", "total_time_ms"),
            figure("nccl_ops", "exposed_ms"),
            figure("stream_overlap", "compute_nccl_overlap_ms"),
            figure("stream_overlap", "nccl_memcpy_overlap_ms"),
        ];
        assert_eq!(overlap.map(ns), expected.overlap, "{file}");
        let idle = ["window_ms", "busy_ms", "host_late_ms"].map(|name| number(&sections["gpu_idle"].rows[0], name));
        assert_eq!(idle.map(ns), expected.idle, "{file}");
        let [count, sum_ns, max_ns] = expected.latencies.map(|number| number as f64);
        let latency = |name: &str| figure("launch_latency_rows", name);
        assert_eq!((latency("count"), latency("max_us")), (count, max_ns / 1e3), "{file}");
        assert!((latency("mean_us") - sum_ns / count / 1e3).abs() < 1e-6, "{file}");
        let copied = figure("copy_engine_events", "d2d_bytes");
        assert_eq!(copied, expected.copied_device_to_device as f64, "{file}");
    }
}
