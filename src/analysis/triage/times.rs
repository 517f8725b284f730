//! Kernel time, busy time and wall time of every stage, from one pass over the ops in order of start. [`BusyTime`] returns
//! the busy time of a device between two times in O(log n), by prefix sums over its merged busy intervals.

use crate::analysis::measure::union::added_to_union;
use crate::analysis::structure::stages::Stage;
use crate::ordering::VecMap;
use crate::trace::{DeviceId, GpuOp, Ns, Trace};

/// The times of a stage, each summed over devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct StageTime {
    /// Sum of the durations of its ops.
    pub(super) duration: Ns,
    /// Time in which at least one of its ops runs (the union of the ops of a device).
    pub(super) busy: Ns,
    /// Sum of [`super::View::elapsed`]. It is less than `busy` if ops of other stages run at the same time.
    pub(super) elapsed: Ns,
    /// Time from the first start to the last end of its ops. It includes pauses and work of other stages.
    pub(super) wall: Ns,
    pub(super) launches: u64,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Times {
    /// In the order of [`Stage::ALL`].
    stages: [StageTime; Stage::ALL.len()],
    /// Only devices that have ops.
    devices: VecMap<(DeviceId, Stage), DeviceTime>,
}

#[derive(Debug, Clone, Copy, Default)]
struct DeviceTime {
    duration: Ns,
    first_start: Option<Ns>,
    last_end: Option<Ns>,
}

impl Times {
    /// Sums up ops in order of start, each with its stage and its part of the busy time.
    pub(super) fn new(ops: impl Iterator<Item = (Stage, GpuOp, Ns)>) -> Self {
        let mut times = Self::default();
        for (stage, op, elapsed) in ops {
            let gained = times.devices.update((op.device, stage), DeviceTime::default(), |device| {
                device.duration += op.duration;
                device.first_start.get_or_insert(op.start);
                added_to_union(&mut device.last_end, op.start, op.end())
            });
            if let Some(time) = times.stages.get_mut(stage as usize) {
                time.duration += op.duration;
                time.busy += gained;
                time.elapsed += elapsed;
                time.launches += 1;
            }
        }
        for ((_, stage), device) in times.devices.iter() {
            if let Some(time) = times.stages.get_mut(*stage as usize) {
                time.wall +=
                    device.first_start.zip(device.last_end).map_or(Ns::ZERO, |(first, last)| last.since(first));
            }
        }
        times
    }

    pub(super) fn of_stage(&self, stage: Stage) -> StageTime {
        self.stages.get(stage as usize).copied().unwrap_or_default()
    }

    pub(super) fn total_duration(&self) -> Ns {
        self.stages.iter().fold(Ns::ZERO, |sum, time| sum + time.duration)
    }

    pub(super) fn total_elapsed(&self) -> Ns {
        self.stages.iter().fold(Ns::ZERO, |sum, time| sum + time.elapsed)
    }

    /// The stages that have ops, in the order of [`Stage::ALL`].
    pub(super) fn stages(&self) -> Vec<Stage> {
        Stage::ALL.into_iter().filter(|stage| self.of_stage(*stage).launches > 0).collect()
    }

    /// The sum of durations on a device, over the stages that the predicate accepts.
    pub(super) fn of_device(&self, device: DeviceId, predicate: impl Fn(Stage) -> bool) -> Ns {
        let selected = Stage::ALL.into_iter().filter(|stage| predicate(*stage));
        let times = selected.filter_map(|stage| self.devices.get(&(device, stage)));
        times.fold(Ns::ZERO, |sum, time| sum + time.duration)
    }

    pub(super) fn devices(&self) -> Vec<DeviceId> {
        let mut devices: Vec<DeviceId> = self.devices.iter().map(|((device, _), _)| *device).collect();
        devices.dedup();
        devices
    }
}

pub(super) struct BusyTime {
    /// By device: disjoint intervals in order of start.
    intervals: Vec<Vec<BusyInterval>>,
}

/// A time in which a device works without a pause.
#[derive(Debug, Clone, Copy)]
struct BusyInterval {
    start: Ns,
    end: Ns,
    /// Busy time of the device before `start`.
    busy_before: Ns,
}

impl BusyTime {
    /// Merges ops, which must arrive sorted by start.
    pub(super) fn new(trace: &Trace, ops: impl Iterator<Item = GpuOp>) -> Self {
        let mut intervals: Vec<Vec<BusyInterval>> = vec![Vec::new(); trace.devices.len()];
        for op in ops {
            let Some(intervals) = intervals.get_mut(op.device.0 as usize) else { continue };
            match intervals.last_mut() {
                Some(last) if op.start <= last.end => last.end = last.end.max(op.end()),
                last => {
                    let busy_before = last.map_or(Ns::ZERO, |last| last.busy_before + (last.end - last.start));
                    intervals.push(BusyInterval { start: op.start, end: op.end(), busy_before });
                }
            }
        }
        Self { intervals }
    }

    pub(super) fn between(&self, device: DeviceId, start: Ns, end: Ns) -> Ns {
        self.until(device, end) - self.until(device, start)
    }

    /// The busy time of a device before `time`.
    fn until(&self, device: DeviceId, time: Ns) -> Ns {
        let Some(intervals) = self.intervals.get(device.0 as usize) else { return Ns::ZERO };
        let next = intervals.partition_point(|interval| interval.start < time);
        let last = next.checked_sub(1).and_then(|index| intervals.get(index));
        last.map_or(Ns::ZERO, |last| last.busy_before + (last.end.min(time) - last.start))
    }
}
