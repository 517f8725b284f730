//! What of a trace can be looked at alone by name: steps of the engine, stretches of one stage, ranges of the program.

use super::window::text;
use crate::analysis::host::launched_work::launched_in;
use crate::analysis::structure::stages::{Stage, Step, steps_from_ranges};
use crate::ordering::{StableSort, VecMap, order};
use crate::report::format::duration;
use crate::trace::{NameId, Ns, Span, Trace, Window};
use serde::Serialize;

/// Something that can be looked at alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mark {
    /// What it is: `3: decode, batch 16, 3.21 ms`.
    pub title: String,
    /// Its window, as [`super::window`] reads it.
    pub window: String,
}

/// What can be picked of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Marks {
    /// The kind: `Steps`, or `Range NAME`.
    pub title: String,
    /// In the order of time.
    pub marks: Vec<Mark>,
    /// How many there are beside these.
    pub more: usize,
}

/// A list of any more is no help.
const STEPS: usize = 500;
const STRETCHES: usize = 100;
const RANGE_NAMES: usize = 20;
const RANGES_OF_A_NAME: usize = 20;

/// Characters of a range's name: a picker is as wide as its longest line.
const NAME_CHARS: usize = 60;

/// What can be picked, the groups without anything left out.
///
/// Steps are those of one device. A stretch of a stage reaches from its first step to its last. A range is the GPU work that
/// was launched in it, because hosts run ahead of devices; one that launched none is its own time.
pub fn marks(trace: &Trace) -> Vec<Marks> {
    let Some(whole) = trace.span() else { return Vec::new() };
    let steps = steps_from_ranges(trace, None);
    let device = steps.iter().filter_map(|step| step.device).min();
    let of_device: Vec<Step> = steps.iter().filter(|step| step.device == device).copied().collect();
    let mut groups = vec![step_marks(&of_device, whole), stretch_marks(&of_device, whole)];
    groups.extend(range_marks(trace, &steps, whole));
    groups.retain(|group| !group.marks.is_empty() || group.more > 0);
    groups
}

impl Marks {
    fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// Adds a window where it is one, and counts it where there are enough.
    fn add(&mut self, title: impl FnOnce() -> String, Window { start, end }: Window, whole: Window, most: usize) {
        let (start, end) = (start.max(whole.start).since(whole.start), end.min(whole.end).since(whole.start));
        // Beyond the work of the GPU there is nothing to look at.
        if start >= end {
            return;
        }
        if self.marks.len() < most {
            self.marks.push(Mark { title: title(), window: text(start, end) });
        } else {
            self.more += 1;
        }
    }
}

fn step_marks(steps: &[Step], whole: Window) -> Marks {
    let mut group = Marks::new("Steps");
    for (step, number) in steps.iter().zip(1..) {
        group.add(|| step_title(step, number), Window { start: step.start, end: step.end }, whole, STEPS);
    }
    group
}

fn step_title(step: &Step, number: usize) -> String {
    let mut title = format!("{number}: {}", step.info.stage.label());
    if let Some(batch) = step.info.batch_size {
        title += &format!(", batch {batch}");
    }
    if let Some(tokens) = step.info.tokens {
        title += &format!(", {tokens} tokens");
    }
    title + &format!(", {}", duration(step.end.since(step.start).0))
}

/// Steps of one stage, one after the other.
fn stretch_marks(steps: &[Step], whole: Window) -> Marks {
    let mut group = Marks::new("Stages");
    let mut numbers: VecMap<Stage, usize> = VecMap::new();
    for stretch in steps.chunk_by(|step, next| step.info.stage == next.info.stage) {
        let Some(first) = stretch.first() else { continue };
        let stage = first.info.stage;
        let number = numbers.update(stage, 0, |number| {
            *number += 1;
            *number
        });
        let window = Window { start: first.start, end: stretch.iter().map(|step| step.end).fold(first.end, Ns::max) };
        let steps = if stretch.len() == 1 { "1 step".to_owned() } else { format!("{} steps", stretch.len()) };
        let title = || format!("{} {number}: {steps}, {}", stage.label(), duration(window.end.since(window.start).0));
        group.add(title, window, whole, STRETCHES);
    }
    group
}

/// Ranges by name, those of the most time first; names of steps left out.
fn range_marks(trace: &Trace, steps: &[Step], whole: Window) -> Vec<Marks> {
    let count = trace.ranges.names.len();
    let mut of_name = vec![(0_usize, Ns::ZERO); count];
    for range in trace.ranges.iter() {
        if let Some((count, time)) = of_name.get_mut(range.name.0 as usize) {
            (*count, *time) = (*count + 1, *time + range.duration);
        }
    }
    for step in steps {
        of_name.get_mut(step.name.0 as usize).into_iter().for_each(|it| it.0 = 0);
    }
    let found = |at: usize| of_name.get(at).copied().unwrap_or_default();
    let mut names = order(count, &|a, b| found(b).1.cmp(&found(a).1));
    names.retain(|at| found(*at).0 > 0);
    let left_out = names.split_off(RANGE_NAMES.min(names.len())).len();
    let listed = Listed::of(trace, &names, &Reach::of(trace, whole));
    let windows = launched_in(trace, &listed.ranges);
    let mut groups: Vec<Marks> = Vec::new();
    for &name in &names {
        let id = NameId(name as u32);
        let mut group = Marks::new(format!("Range {}", cut_short(trace.ranges.names.get(id))));
        let of_name =
            listed.ranges.iter().zip(&windows).zip(&listed.numbers).filter(|((range, _), _)| range.name == id);
        for ((range, window), number) in of_name {
            let (window, host) = match window {
                Some(window) => (*window, ""),
                None => (Window { start: range.start, end: range.end() }, " on the host, no GPU work"),
            };
            let title = || format!("{number}: {}{host}", duration(window.length().0));
            group.add(title, window, whole, RANGES_OF_A_NAME);
        }
        group.more += listed.within.get(name).map_or(0, |within| within.saturating_sub(RANGES_OF_A_NAME));
        groups.push(group);
    }
    groups.push(Marks { more: left_out, ..Marks::new("Ranges of other names") });
    groups
}

/// Which ranges can be looked at: those of the time in which the GPU worked, and those that launched its work before.
struct Reach<'a> {
    trace: &'a Trace,
    whole: Window,
    /// The calls before the first GPU op that launched some, by their places.
    early: Vec<u32>,
}

impl<'a> Reach<'a> {
    fn of(trace: &'a Trace, whole: Window) -> Self {
        let before = trace.calls.count_starting_before(whole.start);
        let launching = trace.gpu_ops.launches().flatten().map(|call| call.0);
        let mut early: Vec<u32> = launching.filter(|call| (*call as usize) < before).collect();
        early.order_by(|a, b| a.cmp(b));
        early.dedup();
        Self { trace, whole, early }
    }

    fn holds(&self, range: &Span) -> bool {
        range.start < self.whole.end && (range.end() > self.whole.start || self.launches_early(range))
    }

    fn launches_early(&self, range: &Span) -> bool {
        let from = self.trace.calls.count_starting_before(range.start);
        let behind = self.early.partition_point(|call| (*call as usize) < from);
        let calls = self.early.iter().skip(behind).map_while(|call| self.trace.calls.get(*call as usize));
        calls
            .take_while(|call| call.start <= range.end())
            .any(|call| call.thread == range.thread && call.end() <= range.end())
    }
}

/// The first ranges of some names, by start.
struct Listed {
    ranges: Vec<Span>,
    /// Beside each range: which it is of all of its name.
    numbers: Vec<usize>,
    /// By name: how many lie within reach.
    within: Vec<usize>,
}

impl Listed {
    fn of(trace: &Trace, names: &[usize], reach: &Reach) -> Self {
        let count = trace.ranges.names.len();
        let mut listed = Self { ranges: Vec::new(), numbers: Vec::new(), within: vec![0; count] };
        let mut seen = vec![None; count];
        for &name in names {
            seen.get_mut(name).into_iter().for_each(|seen| *seen = Some(0));
        }
        for range in trace.ranges.iter() {
            let at = range.name.0 as usize;
            let (Some(Some(seen)), Some(within)) = (seen.get_mut(at), listed.within.get_mut(at)) else { continue };
            *seen += 1;
            if !reach.holds(&range) {
                continue;
            }
            *within += 1;
            if *within <= RANGES_OF_A_NAME {
                listed.ranges.push(range);
                listed.numbers.push(*seen);
            }
        }
        listed
    }
}

fn cut_short(name: &str) -> String {
    match name.char_indices().nth(NAME_CHARS) {
        Some((at, _)) => format!("{}...", name.get(..at).unwrap_or_default()),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Choices, run};
    use crate::trace::{DeviceId, Format, GpuOp, OpKind, ProcessId, ThreadId, TraceBuilder};

    /// Two threads; the GPU works 100 us behind the host. Thread 1 prefills twice, decodes three times and prefills again, an op
    /// of 4 us a step; around the decode steps lies a range, and one on thread 2 meanwhile, which launches nothing.
    fn served() -> Trace {
        let mut builder = TraceBuilder::new("t", Format::TorchProfiler);
        builder.device("0", "");
        let process = builder.process(1, "");
        let (thread, other) = (builder.thread(process, 1), builder.thread(process, 2));
        let launch = builder.trace.calls.names.intern("cudaLaunchKernel");
        let mut range = |name: &str, from: i64, to: i64, thread: ThreadId| {
            let name = builder.trace.ranges.names.intern(name);
            builder.trace.ranges.push(Span { start: us(from), duration: us(to - from), name, thread });
        };
        range("generate", 19, 50, thread);
        range("schedule", 25, 135, other);
        for (at, stage) in (0..).zip(["EXTEND", "EXTEND", "DECODE", "DECODE", "DECODE", "EXTEND"]) {
            range(&format!("step[{stage} bs=4]"), 10 * at, 10 * at + 8, thread);
        }
        for at in 0..6 {
            let name = builder.trace.names.intern(&format!("kernel {at}"));
            let (device, duration) = (DeviceId(0), us(4));
            let start = us(100 + 10 * at);
            let op = GpuOp { start, duration, name, device, stream: 7, process: ProcessId(0), kind: OpKind::Kernel };
            builder.trace.gpu_ops.push(op, Some(at as u32));
            builder.call(Span { start: us(10 * at + 1), duration: us(2), name: launch, thread }, Some(at as u32));
        }
        builder.finish()
    }

    fn us(time: i64) -> Ns {
        Ns(1_000 * time)
    }

    fn told(trace: &Trace) -> Vec<String> {
        let line = |group: &Marks| {
            let marks = group.marks.iter().map(|mark| format!("{} @{}", mark.title, mark.window));
            format!("{} | {} | {}", group.title, marks.collect::<Vec<_>>().join(" | "), group.more)
        };
        marks(trace).iter().map(line).collect()
    }

    #[test]
    fn steps_stretches_of_a_stage_and_ranges_can_be_picked() {
        let found = told(&served());
        assert_eq!(found.len(), 4, "{found:#?}");
        assert!(found[0].starts_with("Steps | 1: extend/prefill, batch 4, 4.00 us @0-0.000004 | 2: "), "{found:#?}");
        assert_eq!(
            found[1..],
            [
                "Stages | extend/prefill 1: 2 steps, 14.0 us @0-0.000014 | decode 1: 3 steps, 24.0 us @0.00002-0.000044 | \
                 extend/prefill 2: 1 step, 4.00 us @0.00005-0.000054 | 0",
                // It launches nothing: its own time, as far as the GPU works in it.
                "Range schedule | 1: 110 us on the host, no GPU work @0-0.000035 | 0",
                "Range generate | 1: 24.0 us @0.00002-0.000044 | 0",
            ][..],
        );
    }

    #[test]
    fn the_window_of_every_mark_holds_the_work_that_it_names() {
        let trace = served();
        for group in marks(&trace) {
            for Mark { title, window } in &group.marks {
                let choices = Choices { window: Some(window.clone()), ..Choices::default() };
                let run = run(&trace, &choices).unwrap();
                let names: Vec<&str> = run.kernels.iter().map(|kernel| &*kernel.name).collect();
                let wanted: &[usize] = match (&*group.title, title.split([':', ',']).next().unwrap()) {
                    ("Steps", number) => &[number.parse::<usize>().unwrap() - 1],
                    ("Stages", "extend/prefill 1") => &[0, 1],
                    ("Stages", "extend/prefill 2") => &[5],
                    (_, "decode 1") | ("Range generate", _) => &[2, 3, 4],
                    (_, _) => &[0, 1, 2, 3],
                };
                let wanted: Vec<String> = wanted.iter().map(|at| format!("kernel {at}")).collect();
                assert_eq!(names, wanted, "{}: {title}", group.title);
            }
        }
    }

    #[test]
    fn ranges_of_before_the_gpu_worked_leave_the_places_to_those_that_can_be_looked_at() {
        let mut builder = TraceBuilder::new("t", Format::TorchProfiler);
        builder.device("0", "");
        let process = builder.process(1, "");
        let (thread, other) = (builder.thread(process, 1), builder.thread(process, 2));
        let launch = builder.trace.calls.names.intern("cudaLaunchKernel");
        let name = builder.trace.ranges.names.intern("batch");
        let idle = builder.trace.ranges.names.intern("schedule");
        let kernel = builder.trace.names.intern("kernel");
        // 25 before the first launch, 26 with a launch each, 5 after the last op.
        for at in 0..56 {
            builder.trace.ranges.push(Span { start: us(10 * at), duration: us(5), name, thread });
        }
        for at in 0..26_i64 {
            let (start, device) = (us(400 + 4 * at), DeviceId(0));
            let op = GpuOp { start, duration: us(4), name: kernel, device, stream: 7, process, kind: OpKind::Kernel };
            builder.trace.gpu_ops.push(op, Some(at as u32));
            builder.call(Span { start: us(251 + 10 * at), duration: us(2), name: launch, thread }, Some(at as u32));
        }
        // Of a thread that launches nothing: 30 between the first launch and the first op, 2 while the GPU works.
        for at in (0..30).map(|at| 255 + 4 * at).chain([410, 450]) {
            builder.trace.ranges.push(Span { start: us(at), duration: us(3), name: idle, thread: other });
        }
        let groups = marks(&builder.finish());
        let [group, schedule] = &groups[..] else { panic!("{groups:#?}") };
        let titles: Vec<&str> = schedule.marks.iter().map(|mark| &*mark.title).collect();
        let on_host = |number| format!("{number}: 3.00 us on the host, no GPU work");
        assert_eq!((titles, schedule.more), (vec![&*on_host(31), &*on_host(32)], 0));
        assert_eq!((group.marks.len(), group.more), (20, 6), "26 lie within reach");
        assert_eq!(group.marks[0].title, "26: 4.00 us");
        assert_eq!(group.marks[19].title, "45: 4.00 us");
    }

    #[test]
    fn lists_are_bounded_and_say_what_they_leave_out() {
        let mut builder = TraceBuilder::new("t", Format::TorchProfiler);
        builder.device("0", "");
        let process = builder.process(1, "");
        let thread = builder.thread(process, 1);
        for at in 0..1_000_i64 {
            let name = builder.trace.names.intern("kernel");
            let (start, device) = (us(10 * at), DeviceId(0));
            let op = GpuOp { start, duration: us(9), name, device, stream: 7, process, kind: OpKind::Kernel };
            builder.trace.gpu_ops.push(op, None);
            let name = if at < 25 { "again".to_owned() } else { format!("request {at} {}", "x".repeat(100)) };
            let name = builder.trace.ranges.names.intern(&name);
            builder.trace.ranges.push(Span { start, duration: us(5), name, thread });
        }
        let groups = marks(&builder.finish());
        assert_eq!(groups.len(), 21);
        assert_eq!((&*groups[0].title, groups[0].marks.len(), groups[0].more), ("Range again", 20, 5));
        assert!(groups.iter().all(|group| group.title.chars().count() < 80));
        let last = &groups[20];
        assert_eq!((&*last.title, last.marks.len(), last.more), ("Ranges of other names", 0, 956));
    }
}
