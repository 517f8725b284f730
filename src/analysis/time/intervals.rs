//! What runs on each GPU at each moment, from one pass over the ops by start: time by what runs together, idle gaps,
//! windows of communication; and the few longest of many things.
//!
//! Time on one device never mixes with time on another. Functions take visitors as `dyn`: they are compiled once.

use crate::analysis::context::Context;
use crate::analysis::measure::running::Ends;
use crate::trace::{GpuOp, Ns, OpKind, Places};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a GPU is busy with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Compute,
    Communication,
    Copy,
    Set,
    /// A CUDA graph that was traced as a whole: what its kernels do is not known.
    Replay,
}

impl Class {
    pub(crate) const ALL: [Self; 5] = [Self::Compute, Self::Communication, Self::Copy, Self::Set, Self::Replay];

    pub(crate) fn of(context: &Context, op: &GpuOp) -> Self {
        match op.kind {
            OpKind::Kernel if context.is_communication(op.name) => Self::Communication,
            OpKind::Kernel => Self::Compute,
            OpKind::Copy => Self::Copy,
            OpKind::Set => Self::Set,
        }
    }

    /// In a mask of what runs.
    pub(crate) const fn bit(self) -> usize {
        1 << self as usize
    }
}

/// Something that keeps a GPU busy: an op, or a graph that was traced as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) start: Ns,
    pub(crate) end: Ns,
    /// The device's place in the trace.
    pub(crate) device: usize,
    pub(crate) class: Class,
    /// The op's place in the trace; graphs count on from the last op.
    pub(crate) at: usize,
}

impl Work {
    fn of(context: &Context, at: usize, op: &GpuOp) -> Self {
        let class = Class::of(context, op);
        Self { start: op.start, end: op.end(), device: op.device.0 as usize, class, at }
    }
}

/// Visits all work of all devices by start.
pub(crate) fn each_work(context: &Context, visit: &mut dyn FnMut(Work)) {
    each_work_in(context, &context.trace.gpu_ops.places(), visit);
}

/// Visits the ops at these places, and all graphs that were traced as a whole: where there are some, places are those of all ops.
pub(crate) fn each_work_in(context: &Context, places: &Places, visit: &mut dyn FnMut(Work)) {
    let trace = context.trace;
    let mut replays = (trace.gpu_ops.len()..).zip(&trace.graph_replays).map(|(at, replay)| {
        let (start, end) = (replay.start, replay.start + replay.duration);
        Work { start, end, device: replay.device.0 as usize, class: Class::Replay, at }
    });
    let mut replay = replays.next();
    for (at, op) in trace.gpu_ops.iter_in(places) {
        while let Some(work) = replay.take_if(|work| work.start <= op.start) {
            visit(work);
            replay = replays.next();
        }
        visit(Work::of(context, at, &op));
    }
    replay.into_iter().chain(replays).for_each(visit);
}

/// Sets of classes.
const MASKS: usize = 1 << Class::ALL.len();

/// How the time of one device was spent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Activity {
    /// Time by the set of classes that ran in it.
    by_mask: [i64; MASKS],
    /// The most that ran at one moment.
    pub(crate) most: usize,
}

impl Activity {
    /// Adds other time.
    pub(crate) fn add(&mut self, more: &Self) {
        self.by_mask.iter_mut().zip(more.by_mask).for_each(|(sum, more)| *sum = sum.wrapping_add(more));
        self.most = self.most.max(more.most);
    }

    /// Time in which something of each of these classes ran.
    pub(crate) fn with_all(&self, bits: usize) -> i64 {
        let masks = self.by_mask.iter().enumerate().filter(|(mask, _)| mask & bits == bits);
        masks.fold(0, |sum, (_, time)| sum.wrapping_add(*time))
    }

    /// Time in which something of the class ran, and something of another.
    pub(crate) fn shared(&self, class: Class) -> i64 {
        let alone = self.by_mask.get(class.bit()).copied().unwrap_or(0);
        self.with_all(class.bit()).wrapping_sub(alone)
    }

    /// Time in which nothing but communication ran.
    pub(crate) fn exposed(&self) -> i64 {
        self.by_mask.get(Class::Communication.bit()).copied().unwrap_or(0)
    }
}

/// What runs beside the communication of one row of a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Hidden {
    /// Of the sum of its durations, the part in which the same device computes.
    pub(crate) beside_compute_ns: i64,
    /// Time in which it runs and nothing but communication does.
    pub(crate) exposed_ns: i64,
}

impl Hidden {
    /// Adds other time.
    pub(crate) fn add(&mut self, more: &Self) {
        self.beside_compute_ns = self.beside_compute_ns.wrapping_add(more.beside_compute_ns);
        self.exposed_ns = self.exposed_ns.wrapping_add(more.exposed_ns);
    }
}

/// The passing of time on one device.
#[derive(Debug)]
struct Lane {
    /// By class and row.
    ends: Ends,
    running: [u32; Class::ALL.len()],
    running_by_row: Vec<u32>,
    mask: usize,
    now: Ns,
    /// Time in which something computed, so far.
    computing: i64,
    activity: Activity,
}

/// How each device spends its time, and what runs beside each row's communication; work is to be seen by start.
#[derive(Debug)]
pub(crate) struct Sweep {
    lanes: Vec<Lane>,
    hidden: Vec<Hidden>,
}

impl Sweep {
    /// For so many rows.
    pub(crate) fn new(context: &Context, rows: usize) -> Self {
        let lanes = context.trace.devices.iter().map(|_| Lane::new(rows)).collect();
        Self { lanes, hidden: vec![Hidden::default(); rows] }
    }

    /// `row` is that of a piece of communication, of other work any.
    pub(crate) fn see(&mut self, work: &Work, row: usize) {
        let lane = self.lanes.get_mut(work.device).filter(|_| work.end > work.start);
        lane.into_iter().for_each(|lane| lane.start(work, row as u32, &mut self.hidden));
    }

    /// By device and by row.
    pub(crate) fn finish(mut self) -> (Vec<Activity>, Vec<Hidden>) {
        self.lanes.iter_mut().for_each(|lane| lane.end_until(Ns(i64::MAX), &mut self.hidden));
        (self.lanes.into_iter().map(|lane| lane.activity).collect(), self.hidden)
    }
}

impl Lane {
    fn new(rows: usize) -> Self {
        Self {
            ends: Ends::default(),
            running: [0; Class::ALL.len()],
            running_by_row: vec![0; rows],
            mask: 0,
            now: Ns::ZERO,
            computing: 0,
            activity: Activity { by_mask: [0; MASKS], most: 0 },
        }
    }

    fn start(&mut self, work: &Work, row: u32, hidden: &mut [Hidden]) {
        self.end_until(work.start, hidden);
        self.pass_to(work.start);
        if work.class == Class::Communication {
            self.count(row, false, hidden);
        }
        if let Some(running) = self.running.get_mut(work.class as usize) {
            *running += 1;
        }
        self.mask |= work.class.bit();
        self.ends.push(work.end, [work.class as u32, row]);
        self.activity.most = self.activity.most.max(self.ends.len());
    }

    /// What ends at a moment is gone before something else starts in it.
    fn end_until(&mut self, time: Ns, hidden: &mut [Hidden]) {
        while let Some((end, [class, row])) = self.ends.pop_until(time) {
            self.pass_to(end);
            if class == Class::Communication as u32 {
                self.count(row, true, hidden);
            }
            if let Some(running) = self.running.get_mut(class as usize) {
                *running -= 1;
                self.mask &= if *running == 0 { !(1 << class) } else { !0 };
            }
        }
    }

    fn pass_to(&mut self, time: Ns) {
        let passed = time.since(self.now).0;
        if let Some(time) = self.activity.by_mask.get_mut(self.mask) {
            *time = time.wrapping_add(passed);
        }
        if self.mask & Class::Compute.bit() != 0 {
            self.computing = self.computing.wrapping_add(passed);
        }
        self.now = time;
    }

    /// Running totals at the end minus those at the start are what passed in between.
    fn count(&mut self, row: u32, ends: bool, hidden: &mut [Hidden]) {
        let (Some(hidden), Some(running)) = (hidden.get_mut(row as usize), self.running_by_row.get_mut(row as usize))
        else {
            return;
        };
        let (beside_compute, exposed) = (self.computing, self.activity.exposed());
        if ends {
            *running -= 1;
            hidden.beside_compute_ns = hidden.beside_compute_ns.wrapping_add(beside_compute);
        } else {
            hidden.beside_compute_ns = hidden.beside_compute_ns.wrapping_sub(beside_compute);
        }
        if *running == 0 {
            hidden.exposed_ns = hidden.exposed_ns.wrapping_add(if ends { exposed } else { -exposed });
        }
        *running += u32::from(!ends);
    }
}

/// Time in which a device ran nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) device: usize,
    pub(crate) start: Ns,
    pub(crate) end: Ns,
    /// [`Work::at`] of what ended it.
    pub(crate) next: usize,
}

impl Gap {
    /// From here on [`Gap::next`] are devices: what ended the gap lies behind the window.
    pub(crate) fn last_of_window(context: &Context) -> usize {
        context.trace.gpu_ops.len() + context.trace.graph_replays.len()
    }
}

/// First start and last end on one device, and the time with work in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Busy {
    pub(crate) first: Ns,
    pub(crate) last: Ns,
    pub(crate) busy: Ns,
}

/// The gaps of all devices, and how busy each was; work is to be seen by start.
#[derive(Debug)]
pub(crate) struct Gaps {
    /// `None` for a device without work.
    pub(crate) devices: Vec<Option<Busy>>,
}

impl Gaps {
    pub(crate) fn new(context: &Context) -> Self {
        Self { devices: vec![None; context.trace.devices.len()] }
    }

    /// The gap that this work ends.
    pub(crate) fn see(&mut self, work: &Work) -> Option<Gap> {
        let device = self.devices.get_mut(work.device)?;
        let device = device.get_or_insert(Busy { first: work.start, last: work.start, busy: Ns::ZERO });
        let gap = Gap { device: work.device, start: device.last, end: work.start, next: work.at };
        device.busy += work.end.since(work.start.max(device.last)).max(Ns::ZERO);
        device.last = device.last.max(work.end);
        (gap.end > gap.start).then_some(gap)
    }
}

/// Visits the gaps of all devices and tells how busy each was; `None` for one without work.
pub(crate) fn each_gap(context: &Context, visit: &mut dyn FnMut(Gap)) -> Vec<Option<Busy>> {
    let mut gaps = Gaps::new(context);
    each_work(context, &mut |work| gaps.see(&work).into_iter().for_each(&mut *visit));
    gaps.devices
}

/// Start and end of the times in which something runs, in order, none touching the next.
pub(crate) type Windows = Vec<(Ns, Ns)>;

/// When each device communicates; one more entry says when any does.
pub(crate) fn communication_windows(context: &Context) -> Vec<Windows> {
    let any = context.trace.devices.len();
    let mut windows: Vec<Windows> = vec![Windows::new(); any + 1];
    each_work(context, &mut |work| {
        if work.class != Class::Communication || work.end <= work.start {
            return;
        }
        for device in [work.device, any] {
            let Some(windows) = windows.get_mut(device) else { continue };
            match windows.last_mut() {
                Some(last) if work.start <= last.1 => last.1 = last.1.max(work.end),
                _ => windows.push((work.start, work.end)),
            }
        }
    });
    windows
}

/// One of the longest things: longer ones first, then earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Long {
    pub(crate) duration: Ns,
    start: Reverse<Ns>,
    place: Reverse<(u8, u32)>,
}

impl Long {
    pub(crate) fn start(&self) -> Ns {
        self.start.0
    }

    /// What sort of thing it is, as the caller numbers them.
    pub(crate) fn sort(&self) -> u8 {
        self.place.0.0
    }

    /// Its place among things of its sort.
    pub(crate) fn at(&self) -> usize {
        self.place.0.1 as usize
    }
}

/// Keeps the longest of many things.
#[derive(Debug, Clone)]
pub(crate) struct Longest {
    keep: usize,
    kept: BinaryHeap<Reverse<Long>>,
    /// How many there were.
    pub(crate) seen: u64,
}

impl Longest {
    pub(crate) fn new(keep: usize) -> Self {
        Self { keep, kept: BinaryHeap::with_capacity(keep + 1), seen: 0 }
    }

    pub(crate) fn offer(&mut self, duration: Ns, start: Ns, sort: u8, at: usize) {
        self.seen += 1;
        let full = self.kept.len() >= self.keep;
        if full && self.kept.peek().is_none_or(|Reverse(shortest)| duration < shortest.duration) {
            return;
        }
        let long = Long { duration, start: Reverse(start), place: Reverse((sort, at as u32)) };
        // Where many are equally long, the first ones stay.
        if full && self.kept.peek().is_none_or(|Reverse(shortest)| long < *shortest) {
            return;
        }
        self.kept.push(Reverse(long));
        if full {
            self.kept.pop();
        }
    }

    /// Adds the longest of others, of which as many were kept.
    pub(crate) fn merge(&mut self, others: &Self) {
        self.merge_from(others, &|at| at);
    }

    /// The same where what stands at one place there stands at `place` of it here.
    pub(crate) fn merge_from(&mut self, others: &Self, place: &dyn Fn(usize) -> usize) {
        self.seen += others.seen;
        for &Reverse(Long { duration, start, place: Reverse((sort, at)) }) in &others.kept {
            let long = Long { duration, start, place: Reverse((sort, place(at as usize) as u32)) };
            if self.kept.len() < self.keep || self.kept.peek().is_some_and(|Reverse(shortest)| long > *shortest) {
                self.kept.push(Reverse(long));
            }
            if self.kept.len() > self.keep {
                self.kept.pop();
            }
        }
    }

    /// The longest first.
    pub(crate) fn ranked(self) -> impl Iterator<Item = Long> {
        self.kept.into_sorted_vec().into_iter().map(|Reverse(long)| long)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::communication::collectives;
    use crate::analysis::host::{idle, launch_latency};
    use crate::analysis::kernels::copies;
    use crate::analysis::section::Section;
    use crate::analysis::testing::*;
    use crate::analysis::time::streams;

    /// Nanoseconds and counts of real traces, found by a separate program that marks and intersects lists of intervals.
    struct Facts {
        file: &'static str,
        communication: i64,
        beside_compute: i64,
        beside_copies: i64,
        exposed: i64,
        window: i64,
        busy: i64,
        host_wait: i64,
        latencies: i64,
        latency_sum: i64,
        latency_max: i64,
        copied_device_to_device: i64,
    }

    #[test]
    fn real_traces_give_what_a_separate_program_found() {
        let facts = [
            Facts {
                file: "nccl_metadata_a100.trace.json.gz",
                communication: 46_876_493,
                beside_compute: 7_317_025,
                beside_copies: 338_658,
                exposed: 39_190_669,
                window: 660_551_005,
                busy: 157_500_014,
                host_wait: 488_928_960,
                latencies: 2_700,
                latency_sum: 88_533_581,
                latency_max: 964_931,
                copied_device_to_device: 307_323_096,
            },
            Facts {
                file: "train_a100_rank3of8.trace.json.gz",
                communication: 163_535_000,
                beside_compute: 75_614_000,
                beside_copies: 9_676_000,
                exposed: 86_554_000,
                window: 464_594_000,
                busy: 388_587_000,
                host_wait: 64_308_000,
                latencies: 8_568,
                latency_sum: 17_670_572_000,
                latency_max: 11_684_000,
                copied_device_to_device: 1_821_299_360,
            },
            Facts {
                file: "dlrm_v100_8ranks/rank0.pt.trace.json.gz",
                communication: 5_798_000,
                beside_compute: 261_000,
                beside_copies: 0,
                exposed: 5_537_000,
                window: 13_009_000,
                busy: 6_590_000,
                host_wait: 5_932_000,
                latencies: 245,
                latency_sum: 14_722_000,
                latency_max: 1_482_000,
                copied_device_to_device: 46_656,
            },
        ];
        facts.iter().for_each(check);
    }

    fn check(facts: &Facts) {
        let Some(trace) = torch(facts.file) else { return };
        let context = Context::new(&trace, 30);
        let ns = |section: &Section, name: &str| (number(&section.summary, name) * 1e6).round() as i64;
        let (ops, overlap) = (collectives::nccl_ops(&context), streams::stream_overlap(&context));
        assert_eq!(ns(&ops, "total_time_ms"), facts.communication, "{}", facts.file);
        assert_eq!(ns(&ops, "exposed_ms"), facts.exposed, "{}", facts.file);
        assert_eq!(ns(&overlap, "compute_nccl_overlap_ms"), facts.beside_compute, "{}", facts.file);
        assert_eq!(ns(&overlap, "nccl_memcpy_overlap_ms"), facts.beside_copies, "{}", facts.file);
        let idle = &idle::gpu_idle(&context).rows[0];
        let idle = ["window_ms", "busy_ms", "host_wait_ms"].map(|name| (number(idle, name) * 1e6).round() as i64);
        assert_eq!(idle, [facts.window, facts.busy, facts.host_wait], "{}", facts.file);
        let (latencies, copied) = (launch_latency::launch_latency_rows(&context), copies::copy_engine_events(&context));
        assert_eq!(number(&latencies.summary, "count"), facts.latencies as f64, "{}", facts.file);
        let mean = facts.latency_sum as f64 / facts.latencies as f64 / 1e3;
        assert!((number(&latencies.summary, "mean_us") - mean).abs() < 1e-6, "{}", facts.file);
        assert_eq!(number(&latencies.summary, "max_us"), facts.latency_max as f64 / 1e3, "{}", facts.file);
        assert_eq!(number(&copied.summary, "d2d_bytes"), facts.copied_device_to_device as f64, "{}", facts.file);
    }
}
