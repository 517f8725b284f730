//! Estimates how long collectives wait for other ranks, without the traces of these ranks. Two passes over the
//! communication kernels, with memory for each distinct size.
//!
//! If the file contains several ranks, the rank that arrives last waits least: what the others take longer for the same
//! calls is waiting. From one rank, calls of one size are compared: a call that takes much longer than the shortest one
//! waits. If sizes are not recorded, calls at the same place in each step are taken as one size. If there are too few
//! steps, calls of one kernel that differ much may wait or differ in size.

use crate::analysis::communication::operations::{Call, each_call};
use crate::analysis::context::Context;
use crate::analysis::structure::stages::steps_from_ranges;
use crate::ordering::VecMap;
use crate::trace::{DeviceId, NameId, Ns};

/// Fewer steps do not show which calls repeat.
const MIN_STEPS: usize = 3;

/// The waiting of the collectives of one device.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Waits {
    /// Time of all communication kernels.
    pub(super) total_ms: f64,
    /// The part that waits for other ranks.
    pub(super) waiting_ms: f64,
    pub(super) source: WaitSource,
}

/// The evidence of waiting.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum WaitSource {
    /// The ranks in the file take different times for the same calls.
    Ranks { shortest_ms: f64, longest_ms: f64 },
    /// Calls take different times. The example is the group with the most waiting.
    Calls { calls: u64, shortest_us: f64, longest_us: f64, equal: Size },
}

/// Calls that send equally much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    device: DeviceId,
    name: NameId,
    size: Size,
}

/// The size of a call as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Size {
    Bytes(u64),
    /// Calls at one place of the step.
    Place(u64),
    /// All calls of a kernel, of any size.
    Unknown,
}

#[derive(Debug, Clone, Copy)]
struct Times {
    calls: u64,
    shortest: Ns,
    longest: Ns,
    total: Ns,
}

impl Times {
    /// The time above the shortest call. The shortest call may wait too, so this is a lower bound.
    fn waiting(&self) -> Ns {
        let shortest = self.shortest.0.saturating_mul(i64::try_from(self.calls).unwrap_or(i64::MAX));
        self.total.since(Ns(shortest))
    }
}

/// Returns the waiting by device; `None` for devices whose trace does not show any.
pub(super) fn waits(context: &Context) -> Vec<Option<Waits>> {
    let mut found = vec![None; context.trace.devices.len()];
    let Some(collectives) = context.collectives() else { return found };
    let totals: Vec<(DeviceId, Ns)> =
        collectives.by(&|_, (_, device)| device).into_iter().map(|(device, tally)| (device, tally.total)).collect();
    if totals.len() > 1 {
        // Ranks of one job make the same calls.
        let calls = collectives.by(&|operation, (_, device)| (operation, device));
        let of_device = |device: DeviceId| {
            let own = calls.iter().filter(move |((_, other), _)| *other == device);
            own.map(|((operation, _), tally)| (*operation, tally.count))
        };
        let first = totals.first().map(|(device, _)| *device);
        let is_one_job =
            first.is_some_and(|first| totals.iter().all(|(other, _)| of_device(first).eq(of_device(*other))));
        let times = || totals.iter().map(|(_, total)| *total);
        let (shortest, longest) = (times().min(), times().max());
        if let (true, Some(shortest), Some(longest)) = (is_one_job, shortest, longest) {
            let source = WaitSource::Ranks { shortest_ms: ms(shortest), longest_ms: ms(longest) };
            for (device, total) in totals {
                if let Some(slot) = found.get_mut(device.0 as usize) {
                    let waiting_ms = ms(total.since(shortest));
                    *slot = Some(Waits { total_ms: ms(total), waiting_ms, source: source.clone() });
                }
            }
        }
        return found;
    }
    let thresholds = &context.signals.thresholds;
    let min_calls = thresholds.min_calls_of_size as u64;
    let mut groups: VecMap<Group, Times> = VecMap::new();
    let places = Places::of(context);
    each_grouped(context, &places, &mut |group, duration| {
        let first = Times { calls: 0, shortest: duration, longest: duration, total: Ns::ZERO };
        groups.update(group, first, |times| {
            times.calls += 1;
            times.total += duration;
            times.shortest = times.shortest.min(duration);
            times.longest = times.longest.max(duration);
        });
    });
    groups.0.retain(|(group, times)| {
        let ratio = if group.size == Size::Unknown { thresholds.unknown_size_ratio } else { thresholds.wait_ratio };
        times.calls >= min_calls && times.longest.0 as f64 >= ratio * times.shortest.0 as f64
    });
    for (device, total) in totals {
        let of_device = || groups.0.iter().filter(|(group, _)| group.device == device);
        let waiting = of_device().fold(Ns::ZERO, |sum, (_, times)| sum + times.waiting());
        let Some((group, example)) = of_device().max_by_key(|(_, times)| times.waiting()) else { continue };
        let source = WaitSource::Calls {
            calls: example.calls,
            shortest_us: example.shortest.0 as f64 / 1e3,
            longest_us: example.longest.0 as f64 / 1e3,
            equal: group.size,
        };
        if let (Some(slot), true) = (found.get_mut(device.0 as usize), waiting > Ns::ZERO) {
            *slot = Some(Waits { total_ms: ms(total), waiting_ms: ms(waiting), source });
        }
    }
    found
}

fn ms(time: Ns) -> f64 {
    time.0 as f64 / 1e6
}

/// The starts of the steps of each device, and the kernels whose number of calls is equal in all steps.
struct Places {
    /// By device, sorted.
    starts: Vec<Vec<Ns>>,
    regular: Vec<(DeviceId, NameId)>,
}

impl Places {
    fn of(context: &Context) -> Self {
        let trace = context.trace;
        let mut starts = vec![Vec::new(); trace.devices.len()];
        for step in steps_from_ranges(trace) {
            let starts = step.device.and_then(|device| starts.get_mut(device.0 as usize));
            starts.into_iter().for_each(|starts| starts.push(step.start));
        }
        let mut places = Self { starts, regular: Vec::new() };
        let mut counts: VecMap<(DeviceId, NameId), Vec<u64>> = VecMap::new();
        each_call(context, &mut |call| {
            let Some(step) = places.step(&call) else { return };
            counts.update((call.op.device, call.op.name), Vec::new(), |counts| {
                counts.resize(counts.len().max(step + 1), 0);
                counts.get_mut(step).into_iter().for_each(|count| *count += 1);
            });
        });
        let is_regular = |(device, counts): (DeviceId, &Vec<u64>)| {
            let steps = places.starts.get(device.0 as usize).map_or(0, Vec::len);
            steps >= MIN_STEPS && counts.len() == steps && counts.iter().zip(counts.iter().skip(1)).all(|(a, b)| a == b)
        };
        let regular = counts.0.iter().filter(|((device, _), counts)| is_regular((*device, counts)));
        let regular = regular.map(|(key, _)| *key).collect();
        places.regular = regular;
        places
    }

    /// The number of the step in which the call runs; `None` before the first step.
    fn step(&self, call: &Call) -> Option<usize> {
        let starts = self.starts.get(call.op.device.0 as usize)?;
        starts.partition_point(|start| *start <= call.op.start).checked_sub(1)
    }
}

/// Visits the calls with their group.
fn each_grouped(context: &Context, places: &Places, visit: &mut dyn FnMut(Group, Ns)) {
    // The step of the last call and the number of calls in it.
    let mut last: VecMap<(DeviceId, NameId), (usize, u64)> = VecMap::new();
    each_call(context, &mut |call| {
        let (device, name) = (call.op.device, call.op.name);
        if let Some(bytes) = call.bytes {
            visit(Group { device, name, size: Size::Bytes(bytes) }, call.op.duration);
        } else if places.regular.contains(&(device, name))
            && let Some(step) = places.step(&call)
        {
            let place = last.update((device, name), (step, 0), |last| {
                *last = if last.0 == step { (step, last.1 + 1) } else { (step, 1) };
                last.1
            });
            visit(Group { device, name, size: Size::Place(place) }, call.op.duration);
        } else {
            visit(Group { device, name, size: Size::Unknown }, call.op.duration);
        }
    });
}
