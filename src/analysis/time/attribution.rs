//! Who owns the time when GPU ops overlap: first come, fair split, exclusive; and the union that they share out.
//!
//! - *First come* is gputrc2graph's: the op that started first owns the overlap, equal starts in file order.
//! - *Fair*: each of the n ops running at an instant owns one nth of it. Whole nanoseconds are handed out so that the
//!   sum over names is the union exactly: what rounding leaves goes to the largest remainders, ties by name.
//! - *Exclusive*: only the time in which nothing else runs.
//!
//! First come and fair sum up to the union; exclusive <= fair and first come <= duration. A *timeline* is one device,
//! or all of them when they are merged; timelines never share time with each other.

use crate::analysis::index::{Inside, Part, parts};
use crate::analysis::measure::running::Ends;
use crate::ordering::StableSort;
use crate::trace::{GpuOp, NameId, Ns, Places, Trace};
use std::cmp::Reverse;

/// What every name owns, indexed by name id; sums over all timelines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owned {
    /// See the module's head.
    pub first_come_ns: Vec<i64>,
    /// See the module's head.
    pub fair_ns: Vec<i64>,
    /// See the module's head.
    pub exclusive_ns: Vec<i64>,
    /// Time with at least one op running, a value per timeline.
    pub union_ns: Vec<i64>,
}

/// Shares out the time of a trace, with a timeline per device, or one for all devices.
pub fn share_out(trace: &Trace, merge_devices: bool, inside: Option<&Inside>) -> Owned {
    let mut sweep = Sweep::new(trace, merge_devices, trace.names.len());
    let by_name = |_, op: &GpuOp| op.name.0 as usize;
    for part in parts(trace, inside) {
        match part {
            Part::Edge(places) => sweep.see(&places, &by_name),
            Part::Piece(piece, inside, _) => sweep.add(&piece.shares, inside),
        }
    }
    let swept = sweep.finish();
    let names: Vec<&str> = trace.names.iter().collect();
    let fair_ns = swept.split.fair_ns(swept.union(), &names);
    let Swept { first_come_ns, union_ns, split } = swept;
    Owned { first_come_ns, fair_ns, exclusive_ns: split.exclusive_ns, union_ns }
}

/// Shares out the same time among cells, each a part of one name's ops: what the cells of a name own adds up to what
/// [`share_out`] gives the name, to the nanosecond. `cell_of_op` has a cell for each op, `name_of_cell` its name's id.
pub fn share_out_to_cells(trace: &Trace, merge_devices: bool, cell_of_op: &[u32], name_of_cell: &[u32]) -> Owned {
    let cell = |at: usize, _: &GpuOp| cell_of_op.get(at).map_or(usize::MAX, |cell| *cell as usize);
    let mut sweep = Sweep::new(trace, merge_devices, name_of_cell.len());
    sweep.see(&trace.gpu_ops.places(), &cell);
    let swept = sweep.finish();
    let names: Vec<&str> = trace.names.iter().collect();
    let of_names = swept.split.sums(names.len(), name_of_cell).fair_ns(swept.union(), &names);
    let fair_ns = swept.split.fair_within(&of_names, name_of_cell);
    let Swept { first_come_ns, union_ns, split } = swept;
    Owned { first_come_ns, fair_ns, exclusive_ns: split.exclusive_ns, union_ns }
}

/// What one pass over a trace finds, by owner.
struct Swept {
    first_come_ns: Vec<i64>,
    /// A value per timeline.
    union_ns: Vec<i64>,
    split: Split,
}

impl Swept {
    fn union(&self) -> i64 {
        self.union_ns.iter().fold(0, |sum, union| sum.saturating_add(*union))
    }
}

/// What the names of a piece own of each device's time, those alone that own some.
#[derive(Debug)]
pub(crate) struct Shares {
    /// First come, exclusive, shared in parts of a nanosecond.
    owners: Vec<(NameId, i64, i64, i128)>,
    union_ns: Vec<i64>,
}

impl Shares {
    /// Of the ops at these places, of which none reaches over an end on its device.
    pub(crate) fn of(trace: &Trace, places: &Places) -> Self {
        let mut sweep = Sweep::new(trace, false, trace.names.len());
        sweep.see(places, &|_, op| op.name.0 as usize);
        let Swept { first_come_ns, union_ns, split } = sweep.finish();
        let columns = first_come_ns.iter().zip(&split.exclusive_ns).zip(&split.shared);
        let owners = (0..).map(NameId).zip(columns).map(|(name, ((first, own), shared))| (name, *first, *own, *shared));
        Self {
            owners: owners.filter(|(_, first, own, shared)| *first != 0 || *own != 0 || *shared != 0).collect(),
            union_ns,
        }
    }
}

/// One pass over a trace.
struct Sweep<'a> {
    trace: &'a Trace,
    merge_devices: bool,
    reach: Vec<Option<Ns>>,
    running: Vec<Running>,
    swept: Swept,
}

impl<'a> Sweep<'a> {
    fn new(trace: &'a Trace, merge_devices: bool, owners: usize) -> Self {
        let timelines = if merge_devices { 1 } else { trace.devices.len() };
        let swept = Swept { first_come_ns: vec![0; owners], union_ns: vec![0; timelines], split: Split::new(owners) };
        Self { trace, merge_devices, reach: vec![None; timelines], running: vec![Running::default(); timelines], swept }
    }

    fn see(&mut self, places: &Places, owner_of: &dyn Fn(usize, &GpuOp) -> usize) {
        let Self { trace, merge_devices, reach, running, swept: Swept { first_come_ns, union_ns, split } } = self;
        for (at, op) in trace.gpu_ops.iter_in(places) {
            let (owner, timeline) = (owner_of(at, &op), if *merge_devices { 0 } else { op.device.0 as usize });
            let (Some(reach), Some(running)) = (reach.get_mut(timeline), running.get_mut(timeline)) else { continue };
            let gained = gain(reach, op.start, op.end());
            add(first_come_ns, owner, gained);
            add(union_ns, timeline, gained);
            if op.duration > Ns::ZERO {
                running.start(op.start, op.end(), owner, split);
            }
        }
    }

    /// What was seen before on a device has ended by then.
    fn add(&mut self, shares: &Shares, inside: &Inside) {
        let Swept { first_come_ns, union_ns, split } = &mut self.swept;
        for (name, first_come, own, shared) in &shares.owners {
            let owner = inside.name(*name).0 as usize;
            add(first_come_ns, owner, Ns(*first_come));
            split.own(owner, *own);
            split.share(owner, *shared);
        }
        (0..).zip(&shares.union_ns).for_each(|(timeline, union)| add(union_ns, timeline, Ns(*union)));
    }

    fn finish(mut self) -> Swept {
        self.running.iter_mut().for_each(|running| running.end_all(&mut self.swept.split));
        self.swept
    }
}

/// Time in which at least one op runs, a value per device.
pub fn unions(trace: &Trace) -> Vec<i64> {
    let mut reach = vec![None; trace.devices.len()];
    let mut union_ns = vec![0; trace.devices.len()];
    for op in trace.gpu_ops.iter() {
        let device = op.device.0 as usize;
        if let Some(reach) = reach.get_mut(device) {
            add(&mut union_ns, device, gain(reach, op.start, op.end()));
        }
    }
    union_ns
}

/// What an op adds to the union of those before it, which reaches up to `reach`.
pub(crate) fn gain(reach: &mut Option<Ns>, start: Ns, end: Ns) -> Ns {
    let from = reach.map_or(start, |reach| reach.max(start));
    *reach = Some(reach.map_or(end, |reach| reach.max(end)));
    end.since(from).max(Ns::ZERO)
}

fn add(sums: &mut [i64], index: usize, gained: Ns) {
    if let Some(sum) = sums.get_mut(index) {
        *sum = sum.saturating_add(gained.0);
    }
}

/// Parts of a nanosecond: fixed point with 64 binary places, exact enough for any trace and the same on any machine.
const PLACES: u32 = 64;

/// The ops that run at one point of a timeline, while it is swept by start.
///
/// Time in which one op runs is its own. Of time that several share, a running total grows by what each of them gains: an op
/// owns how much it grew from its start to its end, so each op costs two additions however many others run beside it. Kept are
/// the ops that run, not those that ran.
#[derive(Debug, Clone, Default)]
struct Running {
    /// By name.
    ends: Ends,
    now: Ns,
    each: i128,
}

impl Running {
    fn start(&mut self, start: Ns, end: Ns, name: usize, split: &mut Split) {
        self.end_until(start, split);
        match self.ends.len() {
            // Nobody remembers what it was; most ops run alone, and then it stays zero.
            0 => self.each = 0,
            running => self.pass_to(start, running, self.ends.only(), split),
        }
        self.now = start;
        split.share(name, -self.each);
        self.ends.push(end, [0, name as u32]);
    }

    fn end_all(&mut self, split: &mut Split) {
        self.end_until(Ns(i64::MAX), split);
    }

    fn end_until(&mut self, time: Ns, split: &mut Split) {
        while let Some((end, what)) = self.ends.pop_until(time) {
            self.pass_to(end, self.ends.len() + 1, Some(what), split);
            split.share(what[1] as usize, self.each);
        }
    }

    /// Lets time pass for so many ops that run, or for the only one.
    fn pass_to(&mut self, time: Ns, running: usize, only: Option<[u32; 2]>, split: &mut Split) {
        let passed = time.since(self.now).0;
        match (running, only) {
            (1, Some([_, name])) => split.own(name as usize, passed),
            _ => self.each = self.each.wrapping_add(part_of(passed, running as i128)),
        }
        self.now = time;
    }
}

/// `(time << 64) / several`, rounded down. Most often two run, and a half needs no division. Divided by halves where the divisor
/// allows it: processors and WebAssembly have no division of 128 bits.
fn part_of(time: i64, several: i128) -> i128 {
    const HALF: u32 = PLACES / 2;
    if several == 2 {
        return i128::from(time) << (PLACES - 1);
    }
    let (Ok(time), Ok(by)) = (u64::try_from(time), u32::try_from(several).map(u64::from)) else {
        return (i128::from(time) << PLACES) / several;
    };
    let (whole, rest) = (time / by, (time % by) << HALF);
    let (high, rest) = (rest / by, (rest % by) << HALF);
    (i128::from(whole) << PLACES) | i128::from((high << HALF) | (rest / by))
}

/// Sums per name.
struct Split {
    exclusive_ns: Vec<i64>,
    shared: Vec<i128>,
}

impl Split {
    fn new(names: usize) -> Self {
        Self { exclusive_ns: vec![0; names], shared: vec![0; names] }
    }

    fn own(&mut self, name: usize, time: i64) {
        self.exclusive_ns.get_mut(name).into_iter().for_each(|own| *own = own.wrapping_add(time));
    }

    fn share(&mut self, name: usize, time: i128) {
        if time != 0 {
            self.shared.get_mut(name).into_iter().for_each(|shared| *shared = shared.wrapping_add(time));
        }
    }

    /// Whole nanoseconds of one owner.
    fn whole((sole, shared): (&i64, &i128)) -> i64 {
        sole.saturating_add(i64::try_from(shared >> PLACES).unwrap_or(i64::MAX))
    }

    /// The same by name.
    fn sums(&self, names: usize, name_of_owner: &[u32]) -> Self {
        let mut sums = Self::new(names);
        for ((sole, shared), name) in self.exclusive_ns.iter().zip(&self.shared).zip(name_of_owner) {
            sums.own(*name as usize, *sole);
            sums.share(*name as usize, *shared);
        }
        sums
    }

    /// Fair parts that add up to those of the names.
    fn fair_within(&self, of_names: &[i64], name_of_owner: &[u32]) -> Vec<i64> {
        let mut fair: Vec<i64> = self.exclusive_ns.iter().zip(&self.shared).map(Self::whole).collect();
        let mut left = of_names.to_vec();
        let mut by_remainder: Vec<(u64, usize, usize)> = Vec::with_capacity(fair.len());
        for (at, ((part, shared), name)) in fair.iter().zip(&self.shared).zip(name_of_owner).enumerate() {
            add(&mut left, *name as usize, Ns(-part));
            by_remainder.push((*shared as u64, *name as usize, at));
        }
        by_remainder.order_by_key(|(remainder, ..)| Reverse(*remainder));
        for (_, name, at) in by_remainder {
            if left.get(name).is_some_and(|left| *left > 0) {
                add(&mut left, name, Ns(-1));
                add(&mut fair, at, Ns(1));
            }
        }
        fair
    }

    fn fair_ns(&self, union_ns: i64, names: &[&str]) -> Vec<i64> {
        let mut fair: Vec<i64> = self.exclusive_ns.iter().zip(&self.shared).map(Self::whole).collect();
        let handed_out = fair.iter().fold(0_i64, |sum, part| sum.saturating_add(*part));
        let left = usize::try_from(union_ns.saturating_sub(handed_out)).unwrap_or(0);
        let mut by_remainder: Vec<(u64, &str, usize)> = self
            .shared
            .iter()
            .zip(names)
            .enumerate()
            .map(|(index, (shared, name))| (*shared as u64, *name, index))
            .collect();
        by_remainder.order_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
        for (_, _, index) in by_remainder.into_iter().take(left) {
            add(&mut fair, index, Ns(1));
        }
        fair
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::time::busy::working;
    use crate::trace::{Format, GpuOp, OpKind, TraceBuilder};
    use proptest::prelude::*;

    /// (start, duration, name, device)
    type Op = (i64, i64, u8, u8);

    fn trace(ops: &[Op]) -> Trace {
        let mut builder = TraceBuilder::new("t", Format::TorchProfiler);
        for &(start, duration, name, device) in ops {
            let op = GpuOp {
                start: Ns(start),
                duration: Ns(duration),
                name: builder.trace.names.intern(&char::from(b'a' + name).to_string()),
                device: builder.device(&device.to_string(), ""),
                stream: 0,
                process: builder.process(-1, ""),
                kind: OpKind::Kernel,
            };
            builder.trace.gpu_ops.push(op, None);
        }
        builder.finish()
    }

    /// By name, in the order of the alphabet, so that traces with other orders of appearance compare.
    fn by_name(trace: &Trace, values: &[i64]) -> Vec<(String, i64)> {
        let mut named: Vec<_> = trace.names.iter().map(str::to_owned).zip(values.iter().copied()).collect();
        named.sort();
        named
    }

    #[test]
    fn the_worked_example_of_gputrc2graph() {
        let trace = trace(&[(0, 10, 0, 0), (5, 10, 1, 0), (8, 4, 2, 0), (20, 5, 0, 0), (25, 5, 1, 0)]);
        let owned = share_out(&trace, true, None);
        assert_eq!(owned.first_come_ns, [15, 10, 0]);
        assert_eq!(owned.union_ns, [25]);
        // Alone: a 0-5 and 20-25, b 12-15 and 25-30. Together: a, b 5-8 and b, c 10-12 in halves, a, b, c 8-10 in thirds.
        assert_eq!(owned.exclusive_ns, [10, 8, 0]);
        // a 10 + 1.5 + 0.667, b 8 + 1.5 + 0.667 + 1, c 0.667 + 1: two nanoseconds are left for the largest remainders.
        assert_eq!(owned.fair_ns, [12, 11, 2]);
    }

    #[test]
    fn devices_share_nothing_unless_merged() {
        let trace = trace(&[(0, 10, 0, 0), (0, 10, 1, 1)]);
        let apart = share_out(&trace, false, None);
        assert_eq!(
            (apart.first_come_ns, apart.exclusive_ns, apart.union_ns),
            (vec![10, 10], vec![10, 10], vec![10, 10])
        );
        let merged = share_out(&trace, true, None);
        assert_eq!((merged.first_come_ns, merged.exclusive_ns, merged.fair_ns), (vec![10, 0], vec![0, 0], vec![5, 5]));
        assert_eq!(working(&trace, None), Ns(10));
    }

    /// Nanosecond by nanosecond: the definition itself, in 60ths so that up to six ops split evenly.
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
        fn a_part_of_a_time_is_the_exact_quotient_rounded_down(time in 0_i64.., several in 2_i128..1 << 40) {
            prop_assert_eq!(part_of(time, several), (i128::from(time) << PLACES) / several);
            prop_assert_eq!(part_of(time, several % 1_000 + 2), (i128::from(time) << PLACES) / (several % 1_000 + 2));
        }
    }

    proptest! {
        #[test]
        fn shares_equal_the_definition(ops in some_ops()) {
            let trace = trace(&ops);
            let owned = share_out(&trace, false, None);
            let (sixtieths, alone, union) = tick_by_tick(&ops, 4);
            prop_assert_eq!(owned.union_ns.iter().sum::<i64>(), union);
            prop_assert_eq!(&unions(&trace), &owned.union_ns);
            for (index, name) in trace.names.iter().enumerate() {
                let letter = usize::from(name.as_bytes()[0] - b'a');
                prop_assert_eq!(owned.exclusive_ns[index], alone[letter]);
                prop_assert!((owned.fair_ns[index] * 60 - sixtieths[letter]).abs() < 60, "fair is off by a nanosecond or more");
            }
        }

        #[test]
        fn the_algebra_holds(ops in prop::collection::vec((0_i64..1000, 0_i64..300, 0_u8..6, 0_u8..3), 0..60), merge in any::<bool>()) {
            let trace = trace(&ops);
            let owned = share_out(&trace, merge, None);
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
                prop_assert_eq!(working(&trace, None).0, union);
            }
        }

        #[test]
        fn cells_of_a_name_own_what_the_name_owns(ops in prop::collection::vec((0_i64..1000, 0_i64..300, 0_u8..4, 0_u8..3), 0..60), parts in 1_usize..7, merge in any::<bool>()) {
            let trace = trace(&ops);
            let owned = share_out(&trace, merge, None);
            let cell_of_op: Vec<u32> = trace.gpu_ops.iter().enumerate().map(|(at, op)| op.name.0 * parts as u32 + (at % parts) as u32).collect();
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
        fn order_matters_only_to_first_come_and_only_among_equal_starts(
            (ops, shuffled) in prop::collection::vec((0_i64..1000, 0_i64..300, 0_u8..6, 0_u8..3), 0..40)
                .prop_flat_map(|ops| (Just(ops.clone()), Just(ops).prop_shuffle()))
        ) {
            let (one, other) = (trace(&ops), trace(&shuffled));
            let (a, b) = (share_out(&one, false, None), share_out(&other, false, None));
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
    fn times_at_the_edge_of_64_bits_do_not_overflow() {
        let far = 1_i64 << 61;
        let trace =
            trace(&[(-far, far - 1, 0, 0), (-far, far - 1, 1, 0), (far, far - 1, 2, 0), (2 * far - 1, far - 1, 3, 0)]);
        let owned = share_out(&trace, false, None);
        assert_eq!(owned.fair_ns.iter().sum::<i64>(), owned.union_ns[0]);
    }
}
