//! The usual delays of a trace: medians of what the hardware takes where nothing else can be the cause. One pass over the ops and calls.

use super::ids::{Lane, Op};
use super::recorded::Recorded;
use crate::trace::{NameId, Ns};
use std::collections::{HashMap, HashSet};

/// Fewer samples are no median.
const MIN_SAMPLES: usize = 10;
const US: i64 = 1_000;

/// The usual delays.
#[derive(Debug)]
pub(super) struct Usual {
    /// From the end of an op to the start of the next one of its stream, which was launched long before.
    pub(super) turnaround: Ns,
    /// From the launch call to the start of its op on an empty stream.
    pub(super) latency: Ns,
    /// The latency is measured from the end of the call and not from its start, because it varies less.
    pub(super) is_from_end: bool,
    /// How much the latency varies: four median deviations.
    pub(super) jitter: Ns,
    /// The time of a launch call.
    pub(super) launch: Ns,
    /// The time of the calls of each name.
    of_call: HashMap<NameId, Ns>,
    /// Its op is the first one that its call launched on its stream.
    pub(super) first_of_launch: Vec<bool>,
}

impl Usual {
    pub(super) fn of(recorded: &Recorded) -> Self {
        let samples = Samples::of(recorded);
        let Samples { turnarounds, from_start, from_end, first_of_launch } = samples;
        let has_latency = from_start.len() >= MIN_SAMPLES;
        let is_from_end = has_latency && deviation(&from_end) < deviation(&from_start);
        let latencies = if is_from_end { &from_end } else { &from_start };
        let of_call = call_times(recorded);
        let calls = recorded.calls.iter();
        let launches = calls.filter(|(id, call)| call.traits.launches && !recorded.launched.of(*id).is_empty());
        Self {
            turnaround: if turnarounds.len() >= MIN_SAMPLES { median(turnarounds) } else { Ns(1_500) },
            latency: if has_latency { median(latencies.clone()) } else { Ns(6 * US) },
            is_from_end,
            jitter: if has_latency { Ns((4 * deviation(latencies).0).max(3 * US)) } else { Ns(3 * US) },
            launch: non_empty_median(launches.map(|(_, call)| call.duration()).collect()).unwrap_or(Ns(5 * US)),
            of_call,
            first_of_launch,
        }
    }

    /// The usual time of a call of this name.
    pub(super) fn call(&self, name: NameId) -> Ns {
        self.of_call.get(&name).copied().unwrap_or_default()
    }

    /// A longer delay between two ops has a cause that the trace does not tell.
    pub(super) fn longest_turnaround(&self) -> Ns {
        Ns((3 * self.turnaround.0).max(10 * US))
    }

    /// The same for the delay after a launch.
    pub(super) fn longest_latency(&self) -> Ns {
        Ns((3 * self.latency.0).max(20 * US))
    }
}

#[derive(Default)]
struct Samples {
    turnarounds: Vec<Ns>,
    from_start: Vec<Ns>,
    from_end: Vec<Ns>,
    first_of_launch: Vec<bool>,
}

impl Samples {
    fn of(recorded: &Recorded) -> Self {
        let mut samples = Self::default();
        let mut last: HashMap<Lane, Op> = HashMap::new();
        let mut launched = HashSet::new();
        for (id, op) in recorded.ops.iter() {
            let before = last.get(&op.lane).map(|before| recorded.op(*before).end);
            let is_first = launched.insert((op.call.ok_or(id), op.lane));
            samples.first_of_launch.push(is_first);
            if let Some(call) = op.call.map(|call| recorded.call(call)).filter(|_| op.is_kernel()) {
                if let Some(before) = before
                    && call.start.0 + 20 * US < before.0
                    && (0..50 * US).contains(&op.start.since(before).0)
                {
                    samples.turnarounds.push(op.start.since(before));
                }
                let was_empty = before.is_none_or(|before| before.0 + 5 * US < call.start.0);
                if is_first && was_empty && op.start.since(call.start).0 < 100 * US {
                    samples.from_start.push(op.start.since(call.start));
                    samples.from_end.push(op.start.since(call.end));
                }
            }
            if before.is_none_or(|before| op.end > before) {
                last.insert(op.lane, id);
            }
        }
        samples
    }
}

fn call_times(recorded: &Recorded) -> HashMap<NameId, Ns> {
    let mut times: HashMap<NameId, Vec<Ns>> = HashMap::new();
    for (_, call) in recorded.calls.iter() {
        times.entry(call.name).or_default().push(call.duration());
    }
    times.into_iter().map(|(name, times)| (name, median(times))).collect()
}

/// The mean of the two middle values; zero if there are none.
pub(super) fn median(mut times: Vec<Ns>) -> Ns {
    let middle = times.len() / 2;
    if times.is_empty() {
        return Ns::ZERO;
    }
    let is_even = times.len().is_multiple_of(2);
    let (below, high, _) = times.select_nth_unstable(middle);
    let low = if is_even { below.iter().max().copied().unwrap_or(*high) } else { *high };
    Ns(low.0 + high.since(low).0 / 2)
}

fn non_empty_median(times: Vec<Ns>) -> Option<Ns> {
    (!times.is_empty()).then(|| median(times))
}

/// The median of the distances from the median.
fn deviation(times: &[Ns]) -> Ns {
    let middle = median(times.to_vec());
    median(times.iter().map(|time| Ns(time.since(middle).0.abs())).collect())
}
