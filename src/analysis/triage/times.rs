//! How long the stages take: the one place where durations, busy time and wall time are summed.

use super::view::View;
use crate::analysis::structure::stages::Stage;
use crate::analysis::time::attribution::gain;
use crate::ordering::VecMap;
use crate::trace::{DeviceId, Ns};

/// The time of a stage; of several devices the sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct StageTime {
    /// Sum of durations.
    pub(super) duration: Ns,
    /// Time with at least one op of the stage, per device.
    pub(super) busy: Ns,
    /// From the first start to the last end of its ops, per device: pauses and work of other stages are in it.
    pub(super) wall: Ns,
    /// How many ops.
    pub(super) launches: u64,
}

/// The times of all stages.
#[derive(Debug, Clone, Default)]
pub(super) struct Times {
    /// By [`Stage::ALL`].
    stages: [StageTime; Stage::ALL.len()],
    /// Of each device with ops, by device and stage.
    devices: VecMap<(DeviceId, Stage), OnDevice>,
}

/// A stage on one device.
#[derive(Debug, Clone, Copy, Default)]
struct OnDevice {
    duration: Ns,
    first: Option<Ns>,
    reach: Option<Ns>,
}

impl Times {
    /// One pass over the ops.
    pub(super) fn new(view: &View) -> Self {
        let mut times = Self::default();
        for (_, stage, op) in view.ops() {
            let gained = times.devices.update((op.device, stage), OnDevice::default(), |device| {
                device.duration += op.duration;
                device.first.get_or_insert(op.start);
                gain(&mut device.reach, op.start, op.end())
            });
            if let Some(time) = times.stages.get_mut(stage as usize) {
                time.duration += op.duration;
                time.busy += gained;
                time.launches += 1;
            }
        }
        for ((_, stage), device) in &times.devices.0 {
            if let Some(time) = times.stages.get_mut(*stage as usize) {
                time.wall += device.first.zip(device.reach).map_or(Ns::ZERO, |(first, last)| last.since(first));
            }
        }
        times
    }

    /// The time of this stage.
    pub(super) fn of_stage(&self, stage: Stage) -> StageTime {
        self.stages.get(stage as usize).copied().unwrap_or_default()
    }

    /// The sum of durations of all stages.
    pub(super) fn total_duration(&self) -> Ns {
        self.stages.iter().fold(Ns::ZERO, |sum, time| sum + time.duration)
    }

    /// The stages that have ops, in the order of tables.
    pub(super) fn stages(&self) -> Vec<Stage> {
        Stage::ALL.into_iter().filter(|stage| self.of_stage(*stage).launches > 0).collect()
    }

    /// The sum of durations on this device in stages that are wanted.
    pub(super) fn of_device(&self, device: DeviceId, is_wanted: impl Fn(Stage) -> bool) -> Ns {
        let wanted = self.devices.0.iter().filter(|((of, stage), _)| *of == device && is_wanted(*stage));
        wanted.fold(Ns::ZERO, |sum, (_, time)| sum + time.duration)
    }

    /// The devices that have ops.
    pub(super) fn devices(&self) -> Vec<DeviceId> {
        let mut devices: Vec<DeviceId> = self.devices.0.iter().map(|((device, _), _)| *device).collect();
        devices.dedup();
        devices
    }
}

/// A part of a hundred; zero of nothing.
pub(super) fn percent(part: Ns, whole: Ns) -> f64 {
    if whole == Ns::ZERO { 0.0 } else { 100.0 * part.0 as f64 / whole.0 as f64 }
}

/// When each device works.
pub(super) struct BusyTime {
    /// By device: start and end of times with work, by start, none touching the next, and the work before each.
    windows: Vec<Vec<(Ns, Ns, Ns)>>,
}

impl BusyTime {
    /// With those ops of the view that count, by their place in the trace.
    pub(super) fn new(view: &View, counts: impl Fn(usize) -> bool) -> Self {
        let mut windows: Vec<Vec<(Ns, Ns, Ns)>> = vec![Vec::new(); view.trace.devices.len()];
        for (_, _, op) in view.ops().filter(|(at, ..)| counts(*at)) {
            let Some(windows) = windows.get_mut(op.device.0 as usize) else { continue };
            match windows.last_mut() {
                Some(last) if op.start <= last.1 => last.1 = last.1.max(op.end()),
                last => {
                    let before = last.map_or(Ns::ZERO, |&mut (start, end, before)| before + (end - start));
                    windows.push((op.start, op.end(), before));
                }
            }
        }
        Self { windows }
    }

    /// Work on this device between two times.
    pub(super) fn between(&self, device: DeviceId, start: Ns, end: Ns) -> Ns {
        self.until(device, end) - self.until(device, start)
    }

    fn until(&self, device: DeviceId, time: Ns) -> Ns {
        let Some(windows) = self.windows.get(device.0 as usize) else { return Ns::ZERO };
        let next = windows.partition_point(|window| window.0 < time);
        let last = next.checked_sub(1).and_then(|at| windows.get(at));
        last.map_or(Ns::ZERO, |&(start, end, before)| before + (end.min(time) - start))
    }
}
