//! Estimates how long collectives wait for other ranks. O(n log n) for n communication kernels. Findings, the section of
//! collectives and the triage all read this estimate.
//!
//! A kernel of a collective runs from the arrival of its own rank to the end of the transfer. An upper bound of the transfer
//! gives a lower bound of the waiting:
//! - If the file contains several ranks of a job, the rank that spends the least time in an operation waits least.
//! - From one rank: a call on the same stream, of the same kernel, that sends as much or more and takes less time. If sizes
//!   are not recorded, calls at the same place in each step send equally much.
//! - From one rank, for large messages: the time at the highest bandwidth that one of them reaches.
//! - From one rank, if the number of ranks is known: the time over a slow network.
//!
//! Calls of unknown size may wait or send more. The traces of all ranks decide (`gpuprism ranks`).

use super::operations::{Call, Collectives, Operations, bus_factor, each_call};
use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::structure::stages::{Step, extents_of_steps};
use crate::ordering::VecMap;
use crate::rules::signals::WaitingRules;
use crate::trace::{DeviceId, NameId, Names, Ns};

/// What is known of the size of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Size {
    Bytes(u64),
    /// Calls at one place of the step.
    Place(u64),
    Unknown,
}

/// Calls that transfer over the same links: device, stream, kernel, operation, and communicator if recorded.
type Group = (DeviceId, i64, NameId, NameId, NameId);

/// A communication kernel and how long it waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallWait {
    /// Row of its op.
    pub(crate) row: usize,
    group: Group,
    pub(crate) size: Size,
    /// Bytes over the busiest link; the bytes of the message if the number of ranks is unknown.
    pub(crate) bus_bytes: f64,
    /// The time of the transfer over a slow network; `None` if the size or the number of ranks is unknown.
    slow_transfer: Option<Ns>,
    pub(crate) duration: Ns,
    /// A lower bound. For a call of unknown size: it waits that long or sends more than others.
    pub(crate) waiting: Ns,
    /// Why it waits, if it does.
    pub(crate) reason: Option<Reason>,
    /// Enough calls of its size show how long a transfer takes.
    pub(crate) is_comparable: bool,
    /// Another call shows whether it waits.
    pub(crate) has_reference: bool,
    /// The shortest call of its size.
    pub(crate) shortest: Ns,
}

impl CallWait {
    fn device(&self) -> DeviceId {
        self.group.0
    }

    /// The operation, a number of [`Operations::names`].
    pub(crate) fn operation(&self) -> NameId {
        self.group.3
    }

    /// The part that is not waiting: an upper bound of the transfer.
    pub(crate) fn transfer(&self) -> Ns {
        self.duration.since(self.waiting)
    }

    /// A lower bound of the transfer: its bytes over the fastest link. Zero if the size or the number of ranks is unknown.
    pub(crate) fn least_transfer(&self, rules: &WaitingRules) -> Ns {
        let bus_bytes = self.slow_transfer.map_or(0.0, |_| self.bus_bytes);
        Ns((bus_bytes / rules.max_link_gb_per_s) as i64)
    }

    fn wait(&mut self, transfer: Ns, reason: Reason) {
        let waiting = self.duration.since(transfer);
        if waiting > self.waiting {
            (self.waiting, self.reason) = (waiting, Some(reason));
        }
    }
}

/// Why a call of one rank waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The shortest call that sends as much or more takes so long.
    Faster { bytes: u64, duration: Ns },
    /// At the highest bandwidth of a large message the transfer takes so long.
    Bandwidth { transfer: Ns },
    /// Over a slow network the transfer takes so long.
    SlowNetwork { transfer: Ns },
    /// The shortest call at the same place of the step, or of unknown size, takes less time.
    Shorter,
}

/// The evidence of waiting: the calls of one size that wait longest together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Evidence {
    /// The ranks in the file spend different times in the same calls.
    Ranks { shortest: Ns, longest: Ns },
    /// Calls of one size take different times.
    Calls { calls: u64, shortest: Ns, longest: Ns, size: Size },
    /// A call takes longer than one that sends more.
    Larger { bytes: u64, duration: Ns, larger_bytes: u64, larger_duration: Ns },
    /// A call takes longer than its bytes at the highest bandwidth of the operation.
    Bandwidth { bytes: u64, duration: Ns, transfer: Ns },
    /// A call takes longer than its bytes over a slow network.
    SlowNetwork { bytes: u64, duration: Ns, transfer: Ns },
}

impl Evidence {
    /// True if the calls may send different amounts instead of waiting.
    pub(crate) fn is_undecided(&self) -> bool {
        matches!(self, Self::Calls { size: Size::Unknown, .. })
    }
}

/// The waiting of the collectives of one device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct DeviceWaiting {
    /// Time of all communication kernels of the device.
    pub(crate) whole: Ns,
    /// Time of those that count: between the first and the last step of a single rank, if there are steps.
    pub(crate) total: Ns,
    /// The part of it that waits for other ranks.
    pub(crate) waiting: Ns,
    pub(crate) evidence: Evidence,
}

/// The waiting in a trace.
#[derive(Debug, Default)]
pub(crate) struct WaitingTimes {
    /// By operation, summed over devices. Operations whose calls cannot be compared are left out.
    operations: VecMap<NameId, Ns>,
    /// By device; `None` if its trace does not show any waiting.
    pub(crate) devices: Vec<Option<DeviceWaiting>>,
}

impl WaitingTimes {
    /// `calls` are those of [`call_waits`]. With one rank, the calls from its first step to its last one count, because start and
    /// end of a program wait longest.
    pub(crate) fn of(
        classified: &ClassifiedTrace,
        collectives: Option<&Collectives>,
        calls: &[CallWait],
        steps: &[Step],
    ) -> Self {
        let mut found = Self { devices: vec![None; classified.trace.devices.len()], ..Self::default() };
        let Some(collectives) = collectives else { return found };
        let totals: Vec<(DeviceId, Ns)> =
            collectives.by(&|_, (_, device)| device).into_iter().map(|(device, tally)| (device, tally.total)).collect();
        if totals.len() > 1 {
            found.add_ranks(collectives, &totals);
        } else {
            let extents = extents_of_steps(classified.trace.devices.len(), steps.iter());
            let is_in_steps = |call: &CallWait| {
                let extent = extents.get(call.device().0 as usize).copied().flatten();
                let start = classified.trace.gpu_ops.get(call.row).map(|op| op.start);
                extent.zip(start).is_none_or(|((first, last), start)| (first..last).contains(&start))
            };
            found.add_calls(calls, &totals, &is_in_steps);
        }
        found
    }

    /// The waiting in an operation; `None` if its calls cannot be compared.
    pub(crate) fn of_operation(&self, operation: NameId) -> Option<Ns> {
        self.operations.get(&operation).copied()
    }

    fn set_device(&mut self, device: DeviceId, waiting: DeviceWaiting) {
        self.devices.get_mut(device.0 as usize).into_iter().for_each(|slot| *slot = Some(waiting));
    }

    /// Compares the devices, if they make the same calls.
    fn add_ranks(&mut self, collectives: &Collectives, totals: &[(DeviceId, Ns)]) {
        let calls = collectives.by(&|operation, (_, device)| (operation, device));
        let is_one_job = calls.chunk_by(|a, b| a.0.0 == b.0.0).all(|ranks| {
            let counts = || ranks.iter().map(|(_, tally)| tally.count);
            ranks.len() == totals.len() && counts().min() == counts().max()
        });
        if !is_one_job {
            return;
        }
        let mut waiting_of: VecMap<DeviceId, Ns> = VecMap::new();
        for ranks in calls.chunk_by(|a, b| a.0.0 == b.0.0) {
            let shortest = ranks.iter().map(|(_, tally)| tally.total).min().unwrap_or(Ns::ZERO);
            for ((operation, device), tally) in ranks {
                let waiting = tally.total.since(shortest);
                self.operations.update(*operation, Ns::ZERO, |sum| *sum += waiting);
                waiting_of.update(*device, Ns::ZERO, |sum| *sum += waiting);
            }
        }
        let times = || totals.iter().map(|(_, total)| *total);
        let (shortest, longest) = (times().min().unwrap_or(Ns::ZERO), times().max().unwrap_or(Ns::ZERO));
        for (device, total) in totals {
            let waiting = waiting_of.get(device).copied().unwrap_or(Ns::ZERO);
            let evidence = Evidence::Ranks { shortest, longest };
            self.set_device(*device, DeviceWaiting { whole: *total, total: *total, waiting, evidence });
        }
    }

    /// `calls` are sorted by group and size.
    fn add_calls(&mut self, calls: &[CallWait], totals: &[(DeviceId, Ns)], is_in_steps: &dyn Fn(&CallWait) -> bool) {
        for call in calls.iter().filter(|call| call.has_reference && call.size != Size::Unknown) {
            self.operations.update(call.operation(), Ns::ZERO, |sum| *sum += call.waiting);
        }
        for (device, whole) in totals {
            let of_device = calls.iter().filter(|call| call.device() == *device && is_in_steps(call));
            let total = of_device.fold(Ns::ZERO, |sum, call| sum + call.duration);
            // Known waiting comes first.
            for is_unknown in [false, true] {
                let mut waiting = Ns::ZERO;
                let mut example: Option<(Ns, Evidence)> = None;
                for equal in calls.chunk_by(|a, b| (a.group, a.size) == (b.group, b.size)) {
                    let own = |call: &&CallWait| {
                        call.device() == *device && (call.size == Size::Unknown) == is_unknown && is_in_steps(call)
                    };
                    let own: Vec<&CallWait> = equal.iter().filter(own).collect();
                    let sum = own.iter().fold(Ns::ZERO, |sum, call| sum + call.waiting);
                    waiting += sum;
                    if sum > example.map_or(Ns::ZERO, |(largest, _)| largest) {
                        example = evidence(&own).map(|evidence| (sum, evidence));
                    }
                }
                if let Some((_, evidence)) = example {
                    self.set_device(*device, DeviceWaiting { whole: *whole, total, waiting, evidence });
                    break;
                }
            }
        }
    }
}

/// Returns why calls of one size wait, from the call that waits longest.
fn evidence(calls: &[&CallWait]) -> Option<Evidence> {
    let worst = calls.iter().max_by_key(|call| call.waiting)?;
    let own_bytes = if let Size::Bytes(bytes) = worst.size { bytes } else { 0 };
    Some(match worst.reason? {
        Reason::Faster { bytes, duration } if bytes > own_bytes => Evidence::Larger {
            bytes: own_bytes,
            duration: worst.duration,
            larger_bytes: bytes,
            larger_duration: duration,
        },
        Reason::Bandwidth { transfer } => Evidence::Bandwidth { bytes: own_bytes, duration: worst.duration, transfer },
        Reason::SlowNetwork { transfer } => {
            Evidence::SlowNetwork { bytes: own_bytes, duration: worst.duration, transfer }
        }
        Reason::Faster { .. } | Reason::Shorter => Evidence::Calls {
            calls: calls.len() as u64,
            shortest: worst.shortest,
            longest: calls.iter().map(|call| call.duration).max()?,
            size: worst.size,
        },
    })
}

/// Returns the communication kernels of all devices, sorted by group and size, with the waiting that the calls of the same
/// device show. `steps` are the steps of the trace.
pub(crate) fn call_waits(classified: &ClassifiedTrace, steps: &[Step]) -> Vec<CallWait> {
    let rules = &classified.signals.waiting;
    let mut calls = collected(classified, steps);
    calls.sort_unstable_by_key(|call| (call.group, call.size, call.row));
    for group in calls.chunk_by_mut(|a, b| a.group == b.group) {
        compare(group, rules);
    }
    calls
}

/// Compares the calls of one group, which are sorted by size.
fn compare(group: &mut [CallWait], rules: &WaitingRules) {
    let is_large = |call: &CallWait| matches!(call.size, Size::Bytes(_)) && call.bus_bytes >= rules.min_bytes;
    let bandwidth = |call: &CallWait| call.bus_bytes / call.duration.0 as f64;
    let is_plausible = |call: &CallWait| bandwidth(call) <= rules.max_link_gb_per_s;
    let large = || group.iter().filter(|call| is_large(call) && is_plausible(call));
    let best = large().map(bandwidth).fold(0.0, f64::max);
    let has_bandwidth = large().count() as u64 >= rules.min_messages;
    let sized = group.iter().filter(|call| matches!(call.size, Size::Bytes(_))).count();
    // The fastest call so far. Larger messages come first.
    let mut faster: Option<(u64, Ns)> = None;
    for equal in group.chunk_by_mut(|a, b| a.size == b.size).rev() {
        let count = equal.len() as u64;
        let plausible = equal.iter().filter(|call| is_plausible(call));
        let Some(shortest) = plausible.map(|call| call.duration).min() else { continue };
        let excess = equal.iter().fold(Ns::ZERO, |sum, call| sum + call.duration.since(shortest).max(Ns::ZERO));
        let total = equal.iter().fold(Ns::ZERO, |sum, call| sum + call.duration);
        for call in equal.iter_mut() {
            call.shortest = shortest;
        }
        let Some(Size::Bytes(bytes)) = equal.first().map(|call| call.size) else {
            let is_unknown = equal.first().is_some_and(|call| call.size == Size::Unknown);
            let (ratio, min_calls) = match is_unknown {
                true => (rules.unknown_size_ratio, rules.min_calls_of_unknown_size),
                false => (rules.ratio, rules.min_calls),
            };
            let is_steady = count >= rules.min_steady_calls && 2 * excess.0 < total.0;
            for call in equal.iter_mut().filter(|_| count >= min_calls) {
                call.has_reference = true;
                call.is_comparable = !is_unknown || is_steady;
                if call.duration.0 as f64 >= ratio * shortest.0 as f64 {
                    call.wait(shortest, Reason::Shorter);
                }
            }
            continue;
        };
        if faster.is_none_or(|(_, duration)| shortest <= duration) {
            faster = Some((bytes, shortest));
        }
        for call in equal.iter_mut() {
            call.has_reference = sized > 1 || call.slow_transfer.is_some();
            call.is_comparable = count >= rules.min_calls;
            if let Some((bytes, duration)) = faster
                && call.duration.0 as f64 >= rules.ratio * duration.0 as f64
            {
                call.wait(duration, Reason::Faster { bytes, duration });
            }
            let transfer_ns = call.bus_bytes / best + 1e3 * rules.latency_us;
            if has_bandwidth && is_large(call) && call.duration.0 as f64 > rules.slow_factor * transfer_ns {
                let transfer = Ns(transfer_ns as i64);
                call.wait(transfer, Reason::Bandwidth { transfer });
            }
            if let Some(transfer) = call.slow_transfer
                && call.duration.0 as f64 > rules.slow_factor * transfer.0 as f64
            {
                call.wait(transfer, Reason::SlowNetwork { transfer });
            }
        }
    }
}

/// Returns the communication kernels with the sizes that are known.
fn collected(classified: &ClassifiedTrace, steps: &[Step]) -> Vec<CallWait> {
    let operations = Operations::new(classified);
    let rules = &classified.signals.waiting;
    let world_size = classified.trace.job.as_deref().map(|job| u64::from(job.world_size));
    let mut communicators = Names::default();
    let places = Places::of(classified, steps);
    let mut last: VecMap<(DeviceId, NameId), (usize, u64)> = VecMap::new();
    // Counted first: a trace can have a hundred thousand, and a vector that grows leaves half of its size in holes.
    let mut count = 0;
    each_call(classified, &mut |_| count += 1);
    let mut calls = Vec::with_capacity(count);
    each_call(classified, &mut |call| {
        if call.op.duration <= Ns::ZERO {
            return;
        }
        let message = call.message;
        let communicator = communicators.intern(message.map_or("", |message| message.communicator.as_str()));
        let operation = operations.names().find(call.operation).unwrap_or(NameId(0));
        let (device, name) = (call.op.device, call.op.name);
        let size = match (call.bytes, places.place(&call, &mut last)) {
            (Some(bytes), _) => Size::Bytes(bytes),
            (None, Some(place)) => Size::Place(place),
            (None, None) => Size::Unknown,
        };
        // The job has at least as many ranks as the communicator.
        let ranks = message.and_then(|message| message.ranks).or(world_size);
        let factor = bus_factor(call.operation, ranks).unwrap_or(1.0);
        let bus_bytes = call.bytes.map_or(0.0, |bytes| bytes as f64 * factor);
        let slow_us =
            |ranks| bus_bytes / (1e3 * rules.slow_network_gb_per_s) + rules.slow_latency_us_per_rank * ranks as f64;
        calls.push(CallWait {
            row: call.row,
            group: (device, call.op.stream, name, operation, communicator),
            size,
            bus_bytes,
            slow_transfer: call.bytes.and(ranks).map(|ranks| Ns((1e3 * slow_us(ranks)) as i64)),
            duration: call.op.duration,
            waiting: Ns::ZERO,
            reason: None,
            is_comparable: false,
            has_reference: false,
            shortest: call.op.duration,
        });
    });
    calls
}

/// The starts of the steps of each device, and the kernels whose number of calls is equal in all steps.
struct Places {
    /// By device, sorted.
    starts: Vec<Vec<Ns>>,
    /// Sorted.
    regular: Vec<(DeviceId, NameId)>,
}

impl Places {
    fn of(classified: &ClassifiedTrace, steps: &[Step]) -> Self {
        let min_steps = classified.signals.waiting.min_calls as usize;
        let mut starts = vec![Vec::new(); classified.trace.devices.len()];
        for step in steps {
            let starts = step.device.and_then(|device| starts.get_mut(device.0 as usize));
            starts.into_iter().for_each(|starts| starts.push(step.start));
        }
        let mut places = Self { starts, regular: Vec::new() };
        if places.starts.iter().all(|starts| starts.len() < min_steps) {
            return places;
        }
        let mut counts: VecMap<(DeviceId, NameId), CountPerStep> = VecMap::new();
        each_call(classified, &mut |call| {
            let Some(step) = places.step(&call) else { return };
            counts.update((call.op.device, call.op.name), CountPerStep::default(), |count| count.add(step));
        });
        let is_regular = |device: DeviceId, count: &CountPerStep| {
            let steps = places.starts.get(device.0 as usize).map_or(0, Vec::len);
            steps >= min_steps && count.is_same_in_all(steps)
        };
        let regular = counts.iter().filter(|((device, _), count)| is_regular(*device, count));
        let regular = regular.map(|(key, _)| *key).collect();
        places.regular = regular;
        places
    }

    /// The number of the step in which the call runs; `None` before the first step.
    fn step(&self, call: &Call) -> Option<usize> {
        let starts = self.starts.get(call.op.device.0 as usize)?;
        starts.partition_point(|start| *start <= call.op.start).checked_sub(1)
    }

    /// The number of the call among those of its kernel in the step. `last` is the previous step and number by kernel.
    fn place(&self, call: &Call, last: &mut VecMap<(DeviceId, NameId), (usize, u64)>) -> Option<u64> {
        let kernel = (call.op.device, call.op.name);
        let step = self.step(call).filter(|_| self.regular.binary_search(&kernel).is_ok())?;
        Some(last.update(kernel, (step, 0), |last| {
            *last = if last.0 == step { (step, last.1 + 1) } else { (step, 1) };
            last.1
        }))
    }
}

/// Whether a kernel is called equally often in each step. Calls are counted in the order of the steps, so that a kernel needs no
/// count for each step.
#[derive(Debug, Clone, Copy, Default)]
struct CountPerStep {
    /// The calls of each finished step, if there is one.
    of_each: Option<u64>,
    finished_steps: usize,
    in_open_step: u64,
    is_irregular: bool,
}

impl CountPerStep {
    fn add(&mut self, step: usize) {
        if step > self.finished_steps {
            self.finish_step();
            self.is_irregular |= step != self.finished_steps;
        }
        self.in_open_step += 1;
    }

    fn finish_step(&mut self) {
        let own = std::mem::take(&mut self.in_open_step);
        self.is_irregular |= own != *self.of_each.get_or_insert(own);
        self.finished_steps += 1;
    }

    fn is_same_in_all(mut self, steps: usize) -> bool {
        self.finish_step();
        !self.is_irregular && self.finished_steps == steps && self.of_each > Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::CountPerStep;
    use crate::analysis::communication::collectives::nccl_ops;
    use crate::analysis::context::Context;
    use crate::analysis::section::Value;
    use crate::analysis::testing::{number, row, torch};
    use crate::trace::testing::TestTrace;
    use crate::trace::{Collective, Trace};
    use proptest::prelude::*;

    const ALL_REDUCE: &str = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL";

    proptest! {
        #[test]
        fn a_kernel_is_regular_if_each_step_calls_it_equally_often(counts in prop::collection::vec(0_u64..3, 0..5), steps in 0_usize..6) {
            let mut found = CountPerStep::default();
            let calls = counts.iter().enumerate().flat_map(|(step, count)| (0..*count).map(move |_| step));
            calls.for_each(|step| found.add(step));
            // Steps after the last call are not seen.
            let seen = counts.iter().rposition(|count| *count > 0).map_or(&[][..], |last| &counts[..=last]);
            let is_regular = !seen.is_empty() && seen.len() == steps && seen.iter().all(|count| *count == seen[0]);
            prop_assert_eq!(found.is_same_in_all(steps), is_regular);
        }
    }

    fn message(bytes: u64) -> Collective {
        let (bytes_in, bytes_out) = (Some(bytes), Some(bytes));
        Collective { operation: "allreduce".to_owned(), bytes_in, bytes_out, ranks: Some(2), ..Collective::default() }
    }

    fn value(trace: &mut TestTrace) -> Option<f64> {
        trace.section(nccl_ops).rows[0].get("waiting_estimate_ms").and_then(Value::number)
    }

    /// All-reduces of two ranks, each with its size in bytes and its duration in microseconds.
    fn waiting_ms(messages: &[(u64, i64)]) -> Option<f64> {
        let mut trace = TestTrace::new();
        trace.in_us();
        for (index, (bytes, us)) in (0..).zip(messages) {
            let start = index * 100_000;
            trace.kernel(ALL_REDUCE, start..start + us).message(message(*bytes));
        }
        value(&mut trace)
    }

    #[test]
    fn a_call_that_takes_longer_than_one_that_sends_as_much_or_more_waits() {
        // 1 MB is sent in 100 us, so 0.4 MB need no more.
        assert_eq!(waiting_ms(&[(1_000_000, 100), (400_000, 500)]), Some(0.4));
        assert_eq!(waiting_ms(&[(1_000_000, 100), (1_000_000, 500)]), Some(0.4));
        // Less than twice as long, or more data.
        assert_eq!(waiting_ms(&[(1_000_000, 100), (400_000, 199)]), Some(0.0));
        assert_eq!(waiting_ms(&[(1_000_000, 500), (400_000, 100)]), Some(0.0));
    }

    #[test]
    fn a_call_that_takes_longer_than_over_a_slow_network_waits() {
        // 1 GB/s and 10 us for each of two ranks.
        assert_eq!(waiting_ms(&[(100_000, 370)]), Some(0.25));
        assert_eq!(waiting_ms(&[(100_000, 360)]), Some(0.0), "not more than three times as long");
        assert_eq!(waiting_ms(&[(0, 500), (0, 500)]), Some(0.96), "a barrier sends nothing");
        let mut unknown_ranks = TestTrace::new();
        unknown_ranks.in_us().kernel(ALL_REDUCE, 0..370).message(Collective { ranks: None, ..message(100_000) });
        assert_eq!(value(&mut unknown_ranks), None, "large jobs need more time");
    }

    #[test]
    fn a_large_message_far_below_the_bandwidth_of_others_waits() {
        const MB: u64 = 1_000_000;
        // 10 MB in 1,000 us are 10 GB/s. 20 MB need 2,000 us and the latency of 10 us.
        let even = [(10 * MB, 1_000), (10 * MB, 1_100), (10 * MB, 1_200), (10 * MB, 1_900)];
        assert_eq!(waiting_ms(&[&even[..], &[(20 * MB, 8_010)]].concat()), Some(6.0));
        assert_eq!(waiting_ms(&[&even[..], &[(20 * MB, 6_000)]].concat()), Some(0.0), "less than three times as long");
        assert_eq!(waiting_ms(&[(10 * MB, 1_000), (20 * MB, 8_010)]), Some(0.0), "two messages show no bandwidth");
        // A duration that no link allows is no reference.
        assert_eq!(waiting_ms(&[&even[..], &[(10 * MB, 1)]].concat()), Some(0.0));
    }

    #[test]
    fn kernels_of_other_streams_and_communicators_are_no_reference() {
        let waiting = |stream: i64, communicator: &str| {
            let mut trace = TestTrace::new();
            for (start, duration, stream, communicator) in [(0, 100, 7, "tp"), (1_000, 500, stream, communicator)] {
                trace.in_us().stream(stream).kernel(ALL_REDUCE, start..start + duration);
                trace.message(Collective { communicator: communicator.to_owned(), ..message(1_000_000) });
            }
            value(&mut trace)
        };
        assert_eq!(waiting(7, "tp"), Some(0.4));
        assert_eq!(waiting(8, "tp"), Some(0.0));
        assert_eq!(waiting(7, "dp"), Some(0.0));
    }

    #[test]
    fn an_operation_of_several_ranks_waits_where_another_rank_takes_less_time() {
        let mut trace = TestTrace::nsys();
        trace.in_us();
        for (device, [all_reduce, all_gather]) in [(0, [500, 2_000]), (1, [2_500, 100])] {
            trace.device(device).process(10 + device).kernel(ALL_REDUCE, 0..all_reduce);
            trace.kernel("ncclDevKernel_AllGather_RING_LL", 3_000..3_000 + all_gather);
        }
        let section = trace.section(nccl_ops);
        let waiting = |operation| number(row(&section, "op_name", operation), "waiting_estimate_ms");
        assert_eq!((waiting("allreduce"), waiting("allgather")), (2.0, 1.9));
    }

    /// 15 all-reduces of five sizes: 8.2 MB take 2.5 to 6.0 ms, 31.5 MB 2.4 ms. An independent program computes the same sum.
    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn waiting_in_a_real_trace_is_estimated() {
        let trace = torch("nccl_metadata_a100.trace.json.gz");
        let section = nccl_ops(&Context::new(&trace, 30)).section();
        let waiting = |operation| number(row(&section, "op_name", operation), "waiting_estimate_ms");
        assert!((waiting("allreduce") - 17.104_369).abs() < 1e-3, "{}", waiting("allreduce"));
        assert_eq!(waiting("broadcast"), 0.0);
    }

    /// The ranks of one job: a rank waits at least as long as its own trace shows, because the last rank to arrive does not
    /// wait. Durations are whole microseconds.
    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn one_rank_never_shows_more_waiting_than_all_ranks_together() {
        let traces =
            [0, 1, 2, 3, 4, 5, 6, 7].map(|rank| torch(&format!("dlrm_v100_8ranks/rank{rank}.pt.trace.json.gz")));
        let durations = |trace: &Trace| -> Vec<i64> {
            let kernels = trace.gpu_ops.iter().filter(|op| trace.names.get(op.name).starts_with("nccl"));
            kernels.map(|op| op.duration.0 / 1_000).collect()
        };
        let ranks: Vec<Vec<i64>> = traces.iter().map(durations).collect();
        let fastest: Vec<i64> = (0..8).map(|call| ranks.iter().map(|rank| rank[call]).min().unwrap()).collect();
        let expected = [4_635, 10_057, 2_428, 8_521, 6_048, 6_006, 2_462, 1_451];
        for ((trace, durations), expected) in traces.iter().zip(&ranks).zip(expected) {
            let context = Context::new(trace, 30);
            let found = context.waiting().devices[0].unwrap();
            assert_eq!(found.waiting.0 / 1_000, expected, "an independent program computes the same");
            let shown_by_all: i64 = durations.iter().zip(&fastest).map(|(own, fastest)| own - fastest).sum();
            assert!(expected <= shown_by_all, "{expected} {shown_by_all}");
            assert_eq!(found.total.0 / 1_000, durations.iter().sum::<i64>());
        }
    }
}
