//! Lists the windows of a trace that a person can pick by name: engine steps, stage intervals and annotated ranges.
//!
//! Cost: linear in ranges and GPU ops, plus sorting. All lists are bounded; [`WindowGroup::more`] counts the windows
//! that are not listed.

use super::window::text;
use crate::analysis::host::launched_work::launched_windows;
use crate::analysis::inference::passes::steps_on_devices;
use crate::analysis::structure::stages::{Stage, Step, time_between};
use crate::analysis::time::long_gaps::LongGaps;
use crate::ordering::{VecMap, sorted_indices};
use crate::report::format::duration;
use crate::trace::{NameId, Ns, Span, Trace, Window};
use serde::Serialize;

/// A window with a title.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NamedWindow {
    /// For example `3: decode, batch 16, 3.21 ms to its last op`.
    pub title: String,
    /// The window as text, in the format that [`super::window`] parses.
    pub window: String,
    /// The stage of which this is the longest interval, as an address of the page names it: `prefill`, `decode`. Empty for all other
    /// windows.
    pub stage: String,
}

/// The named windows of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WindowGroup {
    /// The kind: `Steps`, `Stages` or `Range NAME`.
    pub title: String,
    /// The windows in time order.
    pub windows: Vec<NamedWindow>,
    /// The number of windows that are not listed.
    pub more: usize,
}

// Longer lists are hard to use.
const MAX_STEPS: usize = 500;
const MAX_STAGE_INTERVALS: usize = 100;
const MAX_RANGE_NAMES: usize = 20;
const MAX_RANGES_PER_NAME: usize = 20;

/// The maximum length of a range name in a title, in characters.
const MAX_NAME_CHARS: usize = 60;

/// Returns the groups of windows of a trace, without empty groups.
///
/// The steps are those of the first device. A stage interval lasts from the first to the last of consecutive steps of
/// one stage. The window of a range covers the GPU ops that were launched in the range, because the host runs ahead of
/// the GPU. If a range launched no ops, its window is its own time on the host.
pub fn named_windows(trace: &Trace) -> Vec<WindowGroup> {
    let Some(gpu_span) = trace.span() else { return Vec::new() };
    let steps = steps_on_devices(trace);
    let device = steps.iter().filter_map(|step| step.device).min();
    let device_steps: Vec<Step> = steps.iter().filter(|step| step.device == device).copied().collect();
    let unseen = LongGaps::of(trace).of_before(trace);
    let unseen = device.and_then(|device| unseen.get(device.0 as usize)).map_or(&[][..], Vec::as_slice);
    let mut groups =
        vec![step_windows(&device_steps, unseen, gpu_span), stage_windows(&device_steps, unseen, gpu_span)];
    groups.extend(range_windows(trace, &steps, gpu_span));
    groups.retain(|group| !group.windows.is_empty() || group.more > 0);
    groups
}

impl WindowGroup {
    fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// Clips a window to `gpu_span`. Adds the result unless it is empty; a full group, with `max` windows, only counts it.
    fn add(&mut self, title: impl FnOnce() -> String, Window { start, end }: Window, gpu_span: Window, max: usize) {
        let from = start.max(gpu_span.start).since(gpu_span.start);
        let to = end.min(gpu_span.end).since(gpu_span.start);
        if from >= to {
            return;
        }
        if self.windows.len() < max {
            self.windows.push(NamedWindow { title: title(), window: text(from, to), stage: String::new() });
        } else {
            self.more += 1;
        }
    }
}

/// A step from its first op to its last. In the tables it lasts until the next step, so the title names its end.
fn step_windows(steps: &[Step], unseen: &[(Ns, Ns)], gpu_span: Window) -> WindowGroup {
    let mut group = WindowGroup::new("Steps");
    for (step, number) in steps.iter().zip(1..) {
        let window = Window { start: step.start, end: step.end };
        group.add(|| step_title(step, number, &length(window, unseen, " to its last op")), window, gpu_span, MAX_STEPS);
    }
    group
}

/// `494 ms to its last op, and 493 ms not traced`: the length of a window without the time of work that the trace does not contain, and
/// that time.
fn length(window: Window, unseen: &[(Ns, Ns)], until: &str) -> String {
    let not_traced = time_between(unseen, window.start, window.end);
    let traced = duration(window.length().since(not_traced).0);
    match not_traced {
        Ns::ZERO => format!("{traced}{until}"),
        _ => format!("{traced}{until}, and {} not traced", duration(not_traced.0)),
    }
}

fn step_title(step: &Step, number: usize, length: &str) -> String {
    let mut title = format!("{number}: {}", step.info.stage.title());
    if let Some(batch) = step.info.batch_size {
        title += &format!(", batch {batch}");
    }
    if let Some(tokens) = step.info.tokens {
        title += &format!(", {tokens} tokens");
    }
    title + ", " + length
}

/// One window for consecutive steps of one stage. The longest one of a stage that is listed stands for it.
fn stage_windows(steps: &[Step], unseen: &[(Ns, Ns)], gpu_span: Window) -> WindowGroup {
    let mut group = WindowGroup::new("Stages");
    let mut numbers: VecMap<Stage, usize> = VecMap::new();
    let mut longest: VecMap<Stage, (Ns, usize)> = VecMap::new();
    for interval in steps.chunk_by(|step, next| step.info.stage == next.info.stage) {
        let Some(first) = interval.first() else { continue };
        let stage = first.info.stage;
        let number = numbers.update(stage, 0, |number| {
            *number += 1;
            *number
        });
        let window = Window { start: first.start, end: interval.iter().map(|step| step.end).fold(first.end, Ns::max) };
        let steps = if interval.len() == 1 { "1 step".to_owned() } else { format!("{} steps", interval.len()) };
        // The title of a step without a stage is that of a single step.
        let name = if stage == Stage::All { number.to_string() } else { format!("{} {number}", stage.label()) };
        let title = || format!("{name}: {steps}, {}", length(window, unseen, ""));
        let listed = group.windows.len();
        group.add(title, window, gpu_span, MAX_STAGE_INTERVALS);
        if group.windows.len() > listed {
            longest.update(stage, (Ns::ZERO, listed), |known| {
                if window.length() > known.0 {
                    *known = (window.length(), listed);
                }
            });
        }
    }
    for (stage, (_, index)) in longest.iter() {
        if let Some(window) = group.windows.get_mut(*index) {
            window.stage = name_in_address(*stage).to_owned();
        }
    }
    group
}

/// The name of a stage in an address of the page: the last word of `extend/prefill`.
fn name_in_address(stage: Stage) -> &'static str {
    stage.label().rsplit('/').next().unwrap_or_default()
}

/// Returns the names of ranges that are not steps, in order of decreasing total time.
fn range_names(trace: &Trace, steps: &[Step]) -> Vec<usize> {
    // `None` for names without ranges and for names of steps.
    let mut totals: Vec<Option<Ns>> = vec![None; trace.ranges.names.len()];
    for range in trace.ranges.iter() {
        let total = totals.get_mut(range.name.0 as usize);
        total.into_iter().for_each(|total| *total = Some(total.unwrap_or(Ns::ZERO) + range.duration));
    }
    for step in steps {
        totals.get_mut(step.name.0 as usize).into_iter().for_each(|total| *total = None);
    }
    let total = |name: usize| totals.get(name).copied().flatten();
    let mut names = sorted_indices(totals.len(), &|a, b| total(b).cmp(&total(a)));
    names.retain(|name| total(*name).is_some());
    names
}

/// One group for each of the first [`MAX_RANGE_NAMES`] names; the last group counts the other names.
fn range_windows(trace: &Trace, steps: &[Step], gpu_span: Window) -> Vec<WindowGroup> {
    let mut names = range_names(trace, steps);
    let unlisted_names = names.split_off(MAX_RANGE_NAMES.min(names.len())).len();
    let listed = ListedRanges::new(trace, &names, &Selectable::new(trace, gpu_span));
    let windows = launched_windows(trace, &listed.ranges);
    let mut groups: Vec<WindowGroup> = Vec::new();
    for &name in &names {
        let id = NameId(name as u32);
        let mut group = WindowGroup::new(format!("Range {}", shorten(trace.ranges.names.get(id))));
        let with_this_name =
            listed.ranges.iter().zip(&windows).zip(&listed.numbers).filter(|((range, _), _)| range.name == id);
        for ((range, window), number) in with_this_name {
            let (window, remark) = match window {
                Some(window) => (*window, ""),
                None => (Window { start: range.start, end: range.end() }, " on the host, no GPU work"),
            };
            let title = || format!("{number}: {}{remark}", duration(window.length().0));
            group.add(title, window, gpu_span, MAX_RANGES_PER_NAME);
        }
        group.more += listed.selectable_counts.get(name).map_or(0, |count| count.saturating_sub(MAX_RANGES_PER_NAME));
        groups.push(group);
    }
    groups.push(WindowGroup { more: unlisted_names, ..WindowGroup::new("Ranges with other names") });
    groups
}

/// Decides which ranges can be selected: ranges that overlap `gpu_span`, and earlier ranges that launched GPU ops.
struct Selectable<'a> {
    trace: &'a Trace,
    gpu_span: Window,
    /// Indices of the launching calls that start before the first GPU op, in ascending order.
    early_launches: Vec<u32>,
}

impl<'a> Selectable<'a> {
    fn new(trace: &'a Trace, gpu_span: Window) -> Self {
        let early_calls = trace.calls.count_starting_before(gpu_span.start);
        let launching = trace.gpu_ops.launches().flatten().map(|call| call.0);
        let mut early_launches: Vec<u32> = launching.filter(|call| (*call as usize) < early_calls).collect();
        early_launches.sort_unstable();
        early_launches.dedup();
        Self { trace, gpu_span, early_launches }
    }

    fn contains(&self, range: &Span) -> bool {
        range.start < self.gpu_span.end && (range.end() > self.gpu_span.start || self.has_early_launch(range))
    }

    fn has_early_launch(&self, range: &Span) -> bool {
        let first_call = self.trace.calls.count_starting_before(range.start);
        let first = self.early_launches.partition_point(|call| (*call as usize) < first_call);
        let calls = self.early_launches.iter().skip(first).map_while(|call| self.trace.calls.get(*call as usize));
        calls
            .take_while(|call| call.start <= range.end())
            .any(|call| call.thread == range.thread && call.end() <= range.end())
    }
}

/// The first selectable ranges of each name, in time order.
struct ListedRanges {
    ranges: Vec<Span>,
    /// For each range, its number among all ranges of its name, from 1.
    numbers: Vec<usize>,
    /// For each name, the number of selectable ranges, listed or not.
    selectable_counts: Vec<usize>,
}

impl ListedRanges {
    fn new(trace: &Trace, names: &[usize], selectable: &Selectable) -> Self {
        let count = trace.ranges.names.len();
        let mut listed = Self { ranges: Vec::new(), numbers: Vec::new(), selectable_counts: vec![0; count] };
        // The number of ranges so far by name; `None` for names that are not listed.
        let mut numbers = vec![None; count];
        for &name in names {
            numbers.get_mut(name).into_iter().for_each(|number| *number = Some(0));
        }
        for range in trace.ranges.iter() {
            let name = range.name.0 as usize;
            let (Some(Some(number)), Some(count)) = (numbers.get_mut(name), listed.selectable_counts.get_mut(name))
            else {
                continue;
            };
            *number += 1;
            if !selectable.contains(&range) {
                continue;
            }
            *count += 1;
            if *count <= MAX_RANGES_PER_NAME {
                listed.ranges.push(range);
                listed.numbers.push(*number);
            }
        }
        listed
    }
}

fn shorten(name: &str) -> String {
    match name.char_indices().nth(MAX_NAME_CHARS) {
        Some((end, _)) => format!("{}...", name.get(..end).unwrap_or_default()),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Choices, run};
    use crate::trace::testing::TestTrace;

    /// The GPU runs 100 us behind the host. Thread 1 executes two prefill, three decode and one prefill step, each
    /// with one op of 4 us. The range `generate` contains the decode steps. The range `schedule` of thread 2
    /// launches nothing.
    fn served_trace() -> Trace {
        let mut trace = TestTrace::new();
        trace.in_us().range("generate", 19..50).thread(2).range("schedule", 25..135).thread(1);
        for (index, stage) in (0..).zip(["EXTEND", "EXTEND", "DECODE", "DECODE", "DECODE", "EXTEND"]) {
            let start = 10 * index;
            trace
                .range(&format!("step[{stage} bs=4]"), start..start + 8)
                .call("cudaLaunchKernel", start + 1..start + 3)
                .launches(&format!("kernel {index}"), 100 + start..104 + start);
        }
        trace.finish()
    }

    /// Each group as one line: title, windows, number of unlisted windows.
    fn as_lines(trace: &Trace) -> Vec<String> {
        let line = |group: &WindowGroup| {
            let windows = group.windows.iter().map(|window| format!("{} @{}", window.title, window.window));
            format!("{} | {} | {}", group.title, windows.collect::<Vec<_>>().join(" | "), group.more)
        };
        named_windows(trace).iter().map(line).collect()
    }

    #[test]
    fn steps_stage_intervals_and_ranges_are_listed() {
        let lines = as_lines(&served_trace());
        assert_eq!(lines.len(), 4, "{lines:#?}");
        assert!(
            lines[0].starts_with("Steps | 1: extend/prefill, batch 4, 4.00 us to its last op @0-0.000004 | 2: "),
            "{lines:#?}"
        );
        assert_eq!(
            lines[1..],
            [
                "Stages | extend/prefill 1: 2 steps, 14.0 us @0-0.000014 | decode 1: 3 steps, 24.0 us @0.00002-0.000044 | \
                 extend/prefill 2: 1 step, 4.00 us @0.00005-0.000054 | 0",
                // It launches nothing: the window is its own time, from the first GPU op on.
                "Range schedule | 1: 110 us on the host, no GPU work @0-0.000035 | 0",
                "Range generate | 1: 24.0 us @0.00002-0.000044 | 0",
            ][..],
        );
    }

    #[test]
    fn the_longest_interval_of_each_stage_stands_for_it_in_an_address() {
        let groups = named_windows(&served_trace());
        let named = groups.iter().flat_map(|group| &group.windows).filter(|window| !window.stage.is_empty());
        let named: Vec<(&str, &str)> = named.map(|window| (&*window.stage, &*window.window)).collect();
        assert_eq!(named, [("prefill", "0-0.000014"), ("decode", "0.00002-0.000044")]);
    }

    /// The ops run at 0..1 ms and at 10..11 ms. The second was launched until 2 ms, so the 8 ms before it are work that the trace lacks.
    #[test]
    fn the_length_of_a_step_leaves_out_work_that_is_not_traced() {
        let mut trace = TestTrace::new();
        trace.in_us().range("step[EXTEND bs=4]", 0..2_100).launch(0..0).launches("gemm_kernel", 0..1_000);
        trace.launch(1_900..2_000).launches("gemm_kernel", 10_000..11_000);
        let lines = as_lines(&trace.finish());
        assert_eq!(
            lines,
            [
                "Steps | 1: extend/prefill, batch 4, 3.00 ms to its last op, and 8.00 ms not traced @0-0.011 | 0",
                "Stages | extend/prefill 1: 1 step, 3.00 ms, and 8.00 ms not traced @0-0.011 | 0",
            ]
        );
    }

    #[test]
    fn every_window_contains_the_work_that_its_title_names() {
        let trace = served_trace();
        for group in named_windows(&trace) {
            for NamedWindow { title, window, .. } in &group.windows {
                let choices = Choices { window: Some(window.clone()), ..Choices::default() };
                let run = run(&trace, &choices).unwrap();
                let names: Vec<&str> = run.kernels.iter().map(|kernel| &*kernel.name).collect();
                let expected: &[usize] = match (&*group.title, title.split([':', ',']).next().unwrap()) {
                    ("Steps", number) => &[number.parse::<usize>().unwrap() - 1],
                    ("Stages", "extend/prefill 1") => &[0, 1],
                    ("Stages", "extend/prefill 2") => &[5],
                    (_, "decode 1") | ("Range generate", _) => &[2, 3, 4],
                    (_, _) => &[0, 1, 2, 3],
                };
                let expected: Vec<String> = expected.iter().map(|index| format!("kernel {index}")).collect();
                assert_eq!(names, expected, "{}: {title}", group.title);
            }
        }
    }

    #[test]
    fn ranges_without_gpu_work_before_the_first_gpu_op_are_not_listed() {
        let mut trace = TestTrace::new();
        trace.in_us();
        // 25 ranges before the first launch, 26 with one launch each, 5 after the last op.
        for index in 0..56 {
            trace.range("batch", 10 * index..10 * index + 5);
        }
        for index in 0..26 {
            let (call, op) = (251 + 10 * index, 400 + 4 * index);
            trace.call("cudaLaunchKernel", call..call + 2).launches("kernel", op..op + 4);
        }
        // A thread that launches nothing: 30 ranges between the first launch and the first op, 2 while the GPU is busy.
        trace.thread(2);
        for start in (0..30).map(|index| 255 + 4 * index).chain([410, 450]) {
            trace.range("schedule", start..start + 3);
        }
        let groups = named_windows(&trace.finish());
        let [batch, schedule] = &groups[..] else { panic!("{groups:#?}") };
        let titles: Vec<&str> = schedule.windows.iter().map(|window| &*window.title).collect();
        let on_host = |number| format!("{number}: 3.00 us on the host, no GPU work");
        assert_eq!((titles, schedule.more), (vec![&*on_host(31), &*on_host(32)], 0));
        assert_eq!((batch.windows.len(), batch.more), (20, 6), "26 are selectable");
        assert_eq!(batch.windows[0].title, "26: 4.00 us");
        assert_eq!(batch.windows[19].title, "45: 4.00 us");
    }

    #[test]
    fn lists_are_bounded_and_count_the_unlisted_windows() {
        let mut trace = TestTrace::new();
        trace.in_us();
        for index in 0..1_000 {
            let name = if index < 25 { "again".to_owned() } else { format!("request {index} {}", "x".repeat(100)) };
            trace.kernel("kernel", 10 * index..10 * index + 9).range(&name, 10 * index..10 * index + 5);
        }
        let groups = named_windows(&trace.finish());
        assert_eq!(groups.len(), 21);
        assert_eq!((&*groups[0].title, groups[0].windows.len(), groups[0].more), ("Range again", 20, 5));
        assert!(groups.iter().all(|group| group.title.chars().count() < 80));
        let last = &groups[20];
        assert_eq!((&*last.title, last.windows.len(), last.more), ("Ranges with other names", 0, 956));
    }
}
