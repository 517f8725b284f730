//! Attribution of overlapping GPU time to kernels: first come, fair split, exclusive. One sweep line over the
//! ops sorted by start; a fixed number of additions per op.
//!
//! - *First come* is gputrc2graph's rule: the op that started first owns the overlap; if starts are equal,
//!   the first in the file.
//! - *Fair*: each of n ops that run at the same time owns 1/n of it. Shares are rounded to whole nanoseconds
//!   by the largest remainder method, ties by name, so their sum is exactly the union.
//! - *Exclusive*: an op owns only the time in which no other op runs.
//!
//! First come and fair add up to the union; exclusive <= fair and first come <= duration. A *timeline* is one
//! device, or all devices if they are merged; ops share time only within a timeline.

use crate::analysis::index::{IdMap, Merge};
use crate::analysis::measure::running::RunningOps;
use crate::analysis::measure::union::added_to_union;
use crate::analysis::results::Attribution;
use crate::ordering::sorted_indices;
use crate::trace::{GpuOp, NameId, Ns, Trace};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// The time that each name owns in nanoseconds, indexed by name id; sums over all timelines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedTime {
    /// Time owned by the first-come rule.
    pub first_come_ns: Vec<i64>,
    /// Time owned by the fair split.
    pub fair_ns: Vec<i64>,
    /// Time in which no other op runs.
    pub exclusive_ns: Vec<i64>,
    /// Time with at least one op running, one value per timeline.
    pub union_ns: Vec<i64>,
}

impl OwnedTime {
    /// The time by this attribution.
    pub(crate) fn elapsed_ns(&self, attribution: Attribution) -> &[i64] {
        match attribution {
            Attribution::FirstCome => &self.first_come_ns,
            Attribution::Fair => &self.fair_ns,
            Attribution::Exclusive => &self.exclusive_ns,
        }
    }
}

/// Attributes the time of each device separately.
pub fn share_out(trace: &Trace) -> OwnedTime {
    let mut sweep = ShareSweep::new(trace.devices.len(), trace.names.len());
    trace.gpu_ops.iter().for_each(|op| sweep.add(op.name.0 as usize, op.device.0 as usize, &op));
    sweep.finish().owned(trace)
}

/// Attributes the time of all devices as one timeline.
pub fn share_out_merged(trace: &Trace) -> OwnedTime {
    let mut sweep = ShareSweep::new(1, trace.names.len());
    trace.gpu_ops.iter().for_each(|op| sweep.add(op.name.0 as usize, 0, &op));
    sweep.finish().owned(trace)
}

/// Attributes the time to cells; a cell is a subset of the ops of one name. The times of the cells of a name
/// add up exactly to the time of the name. `cell_of_op` is the cell of each op, `name_of_cell` the name id of
/// each cell.
pub fn share_out_to_cells(trace: &Trace, merge_devices: bool, cell_of_op: &[u32], name_of_cell: &[u32]) -> OwnedTime {
    let timelines = if merge_devices { 1 } else { trace.devices.len() };
    let mut sweep = ShareSweep::new(timelines, name_of_cell.len());
    for (op, cell) in trace.gpu_ops.iter().zip(cell_of_op) {
        sweep.add(*cell as usize, if merge_devices { 0 } else { op.device.0 as usize }, &op);
    }
    let swept = sweep.finish();
    let of_names = swept.fair_ns(&swept.split.sums(trace.names.len(), name_of_cell), trace);
    let fair_ns = swept.split.fair_ns(&of_names, name_of_cell, &[]);
    let SweptShares { first_come_ns, union_ns, split } = swept;
    OwnedTime { first_come_ns, fair_ns, exclusive_ns: split.exclusive_ns, union_ns }
}

/// The result of one sweep, by owner.
pub(crate) struct SweptShares {
    first_come_ns: Vec<i64>,
    /// By timeline.
    union_ns: Vec<i64>,
    split: Split,
}

impl SweptShares {
    /// The fair shares of the names of the trace, which add up to the union. `split` is the split by name.
    fn fair_ns(&self, split: &Split, trace: &Trace) -> Vec<i64> {
        let union = self.union_ns.iter().fold(0, |sum: i64, union| sum.saturating_add(*union));
        let names: Vec<&str> = trace.names.iter().collect();
        split.fair_ns(&[union], &vec![0; names.len()], &names)
    }

    /// The time of each name; the owners must be the names of the trace.
    fn owned(self, trace: &Trace) -> OwnedTime {
        let fair_ns = self.fair_ns(&self.split, trace);
        let Self { first_come_ns, union_ns, split } = self;
        OwnedTime { first_come_ns, fair_ns, exclusive_ns: split.exclusive_ns, union_ns }
    }
}

/// The time that one name owns in some ops.
#[derive(Debug, Clone, Copy)]
struct Share {
    name: NameId,
    first_come_ns: i64,
    exclusive_ns: i64,
    /// Fixed point, see [`FRACTION_BITS`].
    shared: i128,
}

/// The time of some ops by name, with one timeline per device. Names without time are left out.
#[derive(Debug)]
pub(crate) struct Shares {
    shares: Vec<Share>,
    /// By device.
    union_ns: Vec<i64>,
    /// The index of each name in `shares`; filled by the first merge.
    positions: HashMap<NameId, usize, RandomState>,
}

impl Shares {
    /// The shares by name of a finished sweep.
    pub(crate) fn of(swept: SweptShares) -> Self {
        let SweptShares { first_come_ns, union_ns, split } = swept;
        let columns = first_come_ns.into_iter().zip(split.exclusive_ns).zip(split.shared);
        let shares = (0..).map(NameId).zip(columns).map(|(name, ((first_come_ns, exclusive_ns), shared))| Share {
            name,
            first_come_ns,
            exclusive_ns,
            shared,
        });
        let is_used = |share: &Share| (share.first_come_ns, share.exclusive_ns, share.shared) != (0, 0, 0);
        Self { shares: shares.filter(is_used).collect(), union_ns, positions: HashMap::default() }
    }

    /// Returns the time of every name of the trace.
    pub(crate) fn owned(&self, trace: &Trace) -> OwnedTime {
        let mut split = Split::new(trace.names.len());
        let mut first_come_ns = vec![0; trace.names.len()];
        for share in &self.shares {
            let owner = share.name.0 as usize;
            add(&mut first_come_ns, owner, Ns(share.first_come_ns));
            split.add_exclusive(owner, share.exclusive_ns);
            split.add_shared(owner, share.shared);
        }
        SweptShares { first_come_ns, union_ns: self.union_ns.clone(), split }.owned(trace)
    }
}

impl Merge for Shares {
    fn merge(&mut self, later: &Self, ids: &IdMap) {
        if self.positions.is_empty() {
            self.positions = self.shares.iter().map(|share| share.name).zip(0..).collect();
        }
        for share in &later.shares {
            let share = Share { name: ids.name(share.name), ..*share };
            let position = *self.positions.entry(share.name).or_insert(self.shares.len());
            match self.shares.get_mut(position) {
                Some(sum) => {
                    sum.first_come_ns = sum.first_come_ns.saturating_add(share.first_come_ns);
                    sum.exclusive_ns = sum.exclusive_ns.wrapping_add(share.exclusive_ns);
                    sum.shared = sum.shared.wrapping_add(share.shared);
                }
                None => self.shares.push(share),
            }
        }
        (0..).zip(&later.union_ns).for_each(|(device, union)| add(&mut self.union_ns, device, Ns(*union)));
    }
}

/// The sweep that computes [`SweptShares`]; ops must arrive sorted by start.
pub(crate) struct ShareSweep {
    /// The latest end so far, by timeline.
    reach: Vec<Option<Ns>>,
    running: Vec<Running>,
    swept: SweptShares,
}

impl ShareSweep {
    pub(crate) fn new(timelines: usize, owners: usize) -> Self {
        let split = Split::new(owners);
        let swept = SweptShares { first_come_ns: vec![0; owners], union_ns: vec![0; timelines], split };
        Self { reach: vec![None; timelines], running: vec![Running::default(); timelines], swept }
    }

    pub(crate) fn add(&mut self, owner: usize, timeline: usize, op: &GpuOp) {
        let Self { reach, running, swept: SweptShares { first_come_ns, union_ns, split } } = self;
        let (Some(reach), Some(running)) = (reach.get_mut(timeline), running.get_mut(timeline)) else { return };
        let gained = added_to_union(reach, op.start, op.end());
        add(first_come_ns, owner, gained);
        add(union_ns, timeline, gained);
        if op.duration > Ns::ZERO {
            running.start(op.start, op.end(), owner, split);
        }
    }

    pub(crate) fn finish(mut self) -> SweptShares {
        self.running.iter_mut().for_each(|running| running.end_all(&mut self.swept.split));
        self.swept
    }
}

/// Returns the time in which at least one op runs, one value per device.
pub fn unions(trace: &Trace) -> Vec<i64> {
    let mut reach = vec![None; trace.devices.len()];
    let mut union_ns = vec![0; trace.devices.len()];
    for op in trace.gpu_ops.iter() {
        let device = op.device.0 as usize;
        if let Some(reach) = reach.get_mut(device) {
            add(&mut union_ns, device, added_to_union(reach, op.start, op.end()));
        }
    }
    union_ns
}

fn add(sums: &mut [i64], index: usize, gained: Ns) {
    if let Some(sum) = sums.get_mut(index) {
        *sum = sum.saturating_add(gained.0);
    }
}

/// Shares are fixed-point numbers with 64 fractional bits: precise enough for any trace, and identical on any
/// machine.
const FRACTION_BITS: u32 = 64;

/// The ops that run at the current time of the sweep on one timeline.
///
/// While one op runs, it owns the time. While several run, a running total grows by the share of each (a
/// prefix sum): an op owns the difference of the total between its end and its start, so it costs two
/// additions however many others run.
///
/// Most ops run alone from start to end. Such an op is kept apart, and joins the others when a second one starts.
#[derive(Debug, Clone, Default)]
struct Running {
    /// The only op that runs, if no other has run since it started.
    alone: Option<Alone>,
    /// Payload: zero and the owner.
    ops: RunningOps,
    now: Ns,
    /// Running total of the share of each op while several run.
    share_of_each: i128,
}

#[derive(Debug, Clone, Copy)]
struct Alone {
    start: Ns,
    end: Ns,
    owner: u32,
}

impl Running {
    fn start(&mut self, start: Ns, end: Ns, owner: usize, split: &mut Split) {
        self.end_alone(start, split);
        self.end_until(start, split);
        match self.ops.len() {
            0 => self.alone = Some(Alone { start, end, owner: owner as u32 }),
            running => {
                self.advance_to(start, running, self.ops.only(), split);
                split.add_shared(owner, -self.share_of_each);
                self.ops.push(end, [0, owner as u32]);
            }
        }
    }

    /// Ends the op that runs alone, or lets it join the others if it runs beyond `time`.
    fn end_alone(&mut self, time: Ns, split: &mut Split) {
        let Some(Alone { start, end, owner }) = self.alone.take() else { return };
        if end <= time {
            split.add_exclusive(owner as usize, end.since(start).0);
            return;
        }
        // No running op uses the old total.
        (self.now, self.share_of_each) = (start, 0);
        self.ops.push(end, [0, owner]);
    }

    fn end_all(&mut self, split: &mut Split) {
        self.end_alone(Ns(i64::MAX), split);
        self.end_until(Ns(i64::MAX), split);
    }

    fn end_until(&mut self, time: Ns, split: &mut Split) {
        while let Some((end, payload)) = self.ops.pop_until(time) {
            self.advance_to(end, self.ops.len() + 1, Some(payload), split);
            split.add_shared(payload[1] as usize, self.share_of_each);
        }
    }

    /// Advances to `time` while `running` ops run; `only` is the payload of the op if it is the only one.
    fn advance_to(&mut self, time: Ns, running: usize, only: Option<[u32; 2]>, split: &mut Split) {
        let passed = time.since(self.now).0;
        match (running, only) {
            (1, Some([_, owner])) => split.add_exclusive(owner as usize, passed),
            _ => self.share_of_each = self.share_of_each.wrapping_add(fixed_point_quotient(passed, running as i128)),
        }
        self.now = time;
    }
}

/// Returns `(time << 64) / count`, rounded down. For two ops, the usual case, a shift is enough. Otherwise
/// two 64-bit divisions if the divisor fits into 32 bits, because processors and WebAssembly have no 128-bit
/// division.
fn fixed_point_quotient(time: i64, count: i128) -> i128 {
    const HALF: u32 = FRACTION_BITS / 2;
    if count == 2 {
        return i128::from(time) << (FRACTION_BITS - 1);
    }
    let (Ok(time), Ok(divisor)) = (u64::try_from(time), u32::try_from(count).map(u64::from)) else {
        return (i128::from(time) << FRACTION_BITS) / count;
    };
    let (whole, rest) = (time / divisor, (time % divisor) << HALF);
    let (high, rest) = (rest / divisor, (rest % divisor) << HALF);
    (i128::from(whole) << FRACTION_BITS) | i128::from((high << HALF) | (rest / divisor))
}

/// Exclusive and shared time by owner.
struct Split {
    exclusive_ns: Vec<i64>,
    /// Fixed point, see [`FRACTION_BITS`].
    shared: Vec<i128>,
}

impl Split {
    fn new(owners: usize) -> Self {
        Self { exclusive_ns: vec![0; owners], shared: vec![0; owners] }
    }

    fn add_exclusive(&mut self, owner: usize, time: i64) {
        self.exclusive_ns.get_mut(owner).into_iter().for_each(|own| *own = own.wrapping_add(time));
    }

    fn add_shared(&mut self, owner: usize, time: i128) {
        if time != 0 {
            self.shared.get_mut(owner).into_iter().for_each(|shared| *shared = shared.wrapping_add(time));
        }
    }

    /// Returns the time of one owner in whole nanoseconds, rounded down.
    fn whole_ns((exclusive, shared): (&i64, &i128)) -> i64 {
        exclusive.saturating_add(i64::try_from(shared >> FRACTION_BITS).unwrap_or(i64::MAX))
    }

    /// Returns the sums over the owners of each name.
    fn sums(&self, names: usize, name_of_owner: &[u32]) -> Self {
        let mut sums = Self::new(names);
        for ((exclusive, shared), name) in self.exclusive_ns.iter().zip(&self.shared).zip(name_of_owner) {
            sums.add_exclusive(*name as usize, *exclusive);
            sums.add_shared(*name as usize, *shared);
        }
        sums
    }

    /// Returns the fair share of each owner, rounded so that the owners of a group add up to its entry in `totals`
    /// (largest remainder method). Equal remainders are sorted by name, and without names by owner.
    fn fair_ns(&self, totals: &[i64], group_of_owner: &[u32], names: &[&str]) -> Vec<i64> {
        let mut fair: Vec<i64> = self.exclusive_ns.iter().zip(&self.shared).map(Self::whole_ns).collect();
        let mut left = totals.to_vec();
        for (part, group) in fair.iter().zip(group_of_owner) {
            add(&mut left, *group as usize, Ns(-part));
        }
        let remainder = |owner: usize| self.shared.get(owner).map(|shared| *shared as u64);
        let compare =
            |a: usize, b: usize| remainder(b).cmp(&remainder(a)).then_with(|| names.get(a).cmp(&names.get(b)));
        for owner in sorted_indices(fair.len(), &compare) {
            let group = group_of_owner.get(owner).map_or(usize::MAX, |group| *group as usize);
            if left.get(group).is_some_and(|left| *left > 0) {
                add(&mut left, group, Ns(-1));
                add(&mut fair, owner, Ns(1));
            }
        }
        fair
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::summary::OpTotals;
    use crate::analysis::time::busy::busy_on_any_device;
    use crate::trace::testing::TestTrace;
    use proptest::prelude::*;

    /// (start, duration, name, device)
    type Op = (i64, i64, u8, u8);

    fn trace(ops: &[Op]) -> Trace {
        let mut trace = TestTrace::new();
        for &(start, duration, name, device) in ops {
            let name = char::from(b'a' + name).to_string();
            trace.device(device).kernel(&name, start..start + duration);
        }
        trace.finish()
    }

    fn attributed(trace: &Trace, merge_devices: bool) -> OwnedTime {
        if merge_devices { share_out_merged(trace) } else { OpTotals::of_all(trace).shares.owned(trace) }
    }

    /// Values by name, sorted by name, to compare traces whose names appear in different orders.
    fn by_name(trace: &Trace, values: &[i64]) -> Vec<(String, i64)> {
        let mut named: Vec<_> = trace.names.iter().map(str::to_owned).zip(values.iter().copied()).collect();
        named.sort();
        named
    }

    #[test]
    fn attribution_matches_the_example_of_gputrc2graph() {
        let trace = trace(&[(0, 10, 0, 0), (5, 10, 1, 0), (8, 4, 2, 0), (20, 5, 0, 0), (25, 5, 1, 0)]);
        let owned = attributed(&trace, true);
        assert_eq!(owned.first_come_ns, [15, 10, 0]);
        assert_eq!(owned.union_ns, [25]);
        // Exclusive: a 0-5 and 20-25, b 12-15 and 25-30.
        // Shared: a and b 5-8, b and c 10-12 (one half each), a, b and c 8-10 (one third each).
        assert_eq!(owned.exclusive_ns, [10, 8, 0]);
        // Fair: a 10 + 1.5 + 0.667, b 8 + 1.5 + 0.667 + 1, c 0.667 + 1. After rounding down, two nanoseconds
        // remain for the largest remainders.
        assert_eq!(owned.fair_ns, [12, 11, 2]);
    }

    #[test]
    fn devices_share_time_only_if_merged() {
        let trace = trace(&[(0, 10, 0, 0), (0, 10, 1, 1)]);
        let apart = attributed(&trace, false);
        assert_eq!(
            (apart.first_come_ns, apart.exclusive_ns, apart.union_ns),
            (vec![10, 10], vec![10, 10], vec![10, 10])
        );
        let merged = attributed(&trace, true);
        assert_eq!((merged.first_come_ns, merged.exclusive_ns, merged.fair_ns), (vec![10, 0], vec![0, 0], vec![5, 5]));
        assert_eq!(busy_on_any_device(&trace), Ns(10));
    }

    /// Computes fair shares, exclusive time and the union by checking every nanosecond. Fair shares are in
    /// 60ths of a nanosecond, which up to six ops divide evenly.
    fn tick_by_tick(ops: &[Op], names: usize) -> (Vec<i64>, Vec<i64>, i64) {
        let (mut sixtieths, mut alone, mut union) = (vec![0; names], vec![0; names], 0);
        for now in 0..200 {
            for device in 0..3 {
                let running: Vec<&Op> =
                    ops.iter().filter(|op| op.3 == device && op.0 <= now && now < op.0 + op.1).collect();
                union += i64::from(!running.is_empty());
                for op in &running {
                    sixtieths[usize::from(op.2)] += 60 / running.len() as i64;
                    alone[usize::from(op.2)] += i64::from(running.len() == 1);
                }
            }
        }
        (sixtieths, alone, union)
    }

    fn some_ops() -> impl Strategy<Value = Vec<Op>> {
        prop::collection::vec((0_i64..100, 0_i64..60, 0_u8..4, 0_u8..3), 1..7)
    }

    proptest! {
        #[test]
        fn the_fixed_point_quotient_is_exact_and_rounded_down(time in 0_i64.., several in 2_i128..1 << 40) {
            prop_assert_eq!(fixed_point_quotient(time, several), (i128::from(time) << FRACTION_BITS) / several);
            prop_assert_eq!(fixed_point_quotient(time, several % 1_000 + 2), (i128::from(time) << FRACTION_BITS) / (several % 1_000 + 2));
        }
    }

    proptest! {
        #[test]
        fn shares_equal_a_count_of_every_tick(ops in some_ops()) {
            let trace = trace(&ops);
            let owned = attributed(&trace, false);
            let (sixtieths, alone, union) = tick_by_tick(&ops, 4);
            prop_assert_eq!(owned.union_ns.iter().sum::<i64>(), union);
            prop_assert_eq!(&unions(&trace), &owned.union_ns);
            for (index, name) in trace.names.iter().enumerate() {
                let letter = usize::from(name.as_bytes()[0] - b'a');
                prop_assert_eq!(owned.exclusive_ns[index], alone[letter]);
                prop_assert!((owned.fair_ns[index] * 60 - sixtieths[letter]).abs() < 60, "the fair share is off by a nanosecond or more");
            }
        }

        #[test]
        fn shares_add_up_to_the_union_and_stay_within_the_duration(ops in prop::collection::vec((0_i64..1000, 0_i64..300, 0_u8..6, 0_u8..3), 0..60), merge in any::<bool>()) {
            let trace = trace(&ops);
            let owned = attributed(&trace, merge);
            let union: i64 = owned.union_ns.iter().sum();
            prop_assert_eq!(owned.first_come_ns.iter().sum::<i64>(), union);
            prop_assert_eq!(owned.fair_ns.iter().sum::<i64>(), union);
            let mut durations = vec![0; trace.names.len()];
            trace.gpu_ops.iter().for_each(|op| durations[op.name.0 as usize] += op.duration.0);
            for (index, duration) in durations.iter().enumerate() {
                for elapsed in [owned.first_come_ns[index], owned.fair_ns[index]] {
                    prop_assert!(owned.exclusive_ns[index] <= elapsed && elapsed <= *duration);
                }
            }
            if merge {
                prop_assert_eq!(busy_on_any_device(&trace).0, union);
            }
        }

        #[test]
        fn the_times_of_cells_add_up_to_the_time_of_their_name(ops in prop::collection::vec((0_i64..1000, 0_i64..300, 0_u8..4, 0_u8..3), 0..60), parts in 1_usize..7, merge in any::<bool>()) {
            let trace = trace(&ops);
            let owned = attributed(&trace, merge);
            let cell_of_op: Vec<u32> = trace.gpu_ops.iter().enumerate().map(|(row, op)| op.name.0 * parts as u32 + (row % parts) as u32).collect();
            let name_of_cell: Vec<u32> = (0..trace.names.len() * parts).map(|cell| (cell / parts) as u32).collect();
            let cells = share_out_to_cells(&trace, merge, &cell_of_op, &name_of_cell);
            let sums = |of: &[i64]| of.chunks(parts).map(|cells| cells.iter().sum()).collect::<Vec<i64>>();
            prop_assert_eq!(sums(&cells.first_come_ns), owned.first_come_ns);
            prop_assert_eq!(sums(&cells.fair_ns), owned.fair_ns);
            prop_assert_eq!(sums(&cells.exclusive_ns), owned.exclusive_ns);
            prop_assert!(cells.fair_ns.iter().zip(&cells.exclusive_ns).all(|(fair, exclusive)| fair >= exclusive));
            prop_assert_eq!(cells.union_ns, owned.union_ns);
        }

        #[test]
        fn file_order_affects_only_first_come_with_equal_starts(
            (ops, shuffled) in prop::collection::vec((0_i64..1000, 0_i64..300, 0_u8..6, 0_u8..3), 0..40)
                .prop_flat_map(|ops| (Just(ops.clone()), Just(ops).prop_shuffle()))
        ) {
            let (one, other) = (trace(&ops), trace(&shuffled));
            let (a, b) = (attributed(&one, false), attributed(&other, false));
            prop_assert_eq!(by_name(&one, &a.fair_ns), by_name(&other, &b.fair_ns));
            prop_assert_eq!(by_name(&one, &a.exclusive_ns), by_name(&other, &b.exclusive_ns));
            prop_assert_eq!(a.union_ns, b.union_ns);
            let mut starts: Vec<_> = ops.iter().map(|op| (op.3, op.0)).collect();
            starts.sort_unstable();
            if starts.windows(2).all(|pair| pair[0] != pair[1]) {
                prop_assert_eq!(by_name(&one, &a.first_come_ns), by_name(&other, &b.first_come_ns));
            }
        }
    }

    #[test]
    fn extreme_times_do_not_overflow() {
        let far = 1_i64 << 61;
        let trace =
            trace(&[(-far, far - 1, 0, 0), (-far, far - 1, 1, 0), (far, far - 1, 2, 0), (2 * far - 1, far - 1, 3, 0)]);
        let owned = attributed(&trace, false);
        assert_eq!(owned.fair_ns.iter().sum::<i64>(), owned.union_ns[0]);
    }
}
