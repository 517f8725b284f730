//! The texts of the timeline: titles of lanes, styles, labels of bars, and the ticks of its axis.

use super::palette;
use crate::analysis::timeline::{
    Bar, Lane, LaneKind, LinkKind, Place, Style, TILE_UNITS, TileRange, Timeline, code_name,
};
use crate::digits::grouped;
use crate::report::format::{clean, digits, duration, time_like};
use crate::rules::signals::Signals;
use crate::rules::{GRAPHS, names};
use crate::trace::{ALLOCATED_MEMORY, CodeKind, DeviceId, Ns, ThreadId, Trace};
use crate::words::listed;
use serde::Serialize;

/// Ticks of the axis are at least this many units apart.
const MIN_TICK_UNITS: i64 = 256;
/// A bar gets a label from this length on.
const MIN_LABEL_UNITS: i32 = 20;
/// Longer names are cut on buttons.
const MAX_BUTTON_CHARACTERS: usize = 32;

/// A lane as the page shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LaneText {
    /// Its title: `stream 7`.
    pub title: String,
    /// The device or thread that it belongs to; lanes of one group follow each other.
    pub group: String,
    /// The number of nested rows.
    pub depth: usize,
    /// The layer that has its bars: `device`, `host`, `derived` or `code`; `counter` for a counter, whose bars differ in height.
    pub layer: &'static str,
}

/// What a style looks like.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StyleText {
    /// The class that has its colours.
    pub class: String,
    /// What it stands for.
    pub title: String,
    /// Its hatching; `None` for a filled bar.
    pub hatch: Option<Hatching>,
}

/// Names that are computed once for a trace.
#[derive(Debug)]
pub struct TimelineTexts {
    short_names: Vec<String>,
}

impl TimelineTexts {
    /// The short names of all ops.
    pub fn of(trace: &Trace) -> Self {
        let demangled: Vec<_> = trace.names.iter().map(names::demangle).collect();
        Self { short_names: names::distinct(&demangled) }
    }

    /// The label of a bar; empty if it has no room for one or is several items.
    pub fn label(&self, trace: &Trace, timeline: &Timeline, lane: &Lane, bar: &Bar<Style>) -> String {
        if bar.count > 1 || bar.end - bar.start < MIN_LABEL_UNITS {
            return String::new();
        }
        let text = match lane.kind {
            LaneKind::Stream(..) => self.short_names.get(bar.name.0 as usize).map_or("", String::as_str),
            LaneKind::Graphs(_) => GRAPHS,
            LaneKind::Counter(_, index) => return counter_label(trace, index, bar.row),
            LaneKind::Ranges(_) => trace.ranges.names.get(bar.name),
            LaneKind::Calls(_) => trace.calls.names.get(bar.name),
            LaneKind::Code(_) => {
                let kind = if bar.style == Style::Function { CodeKind::Function } else { CodeKind::Op };
                return clean(&code_label(code_name(trace, kind, bar.name)));
            }
            LaneKind::Layers(_) => timeline.layer_label(bar.row),
            LaneKind::Steps(_) | LaneKind::Idle(_) => return style(bar.style).title,
        };
        clean(text)
    }

    /// The short name of a bar and its duration, for a button that leads to it: `flash_fwd_kernel, 30.0 us`.
    pub fn button(&self, trace: &Trace, timeline: &Timeline, place: Place) -> String {
        let duration = duration(timeline.duration_of(trace, place).0);
        let name = match timeline.lanes.get(place.lane).map(|lane| lane.kind) {
            Some(LaneKind::Stream(..)) => {
                let op = trace.gpu_ops.get(place.row);
                op.and_then(|op| self.short_names.get(op.name.0 as usize)).cloned().unwrap_or_default()
            }
            Some(LaneKind::Counter(_, index)) => counter_label(trace, index, place.row),
            Some(LaneKind::Code(_)) => code_label(&timeline.name_of(trace, place)),
            _ => timeline.name_of(trace, place),
        };
        format!("{}, {duration}", cut(&clean(&name)))
    }
}

fn cut(name: &str) -> String {
    match name.char_indices().nth(MAX_BUTTON_CHARACTERS) {
        Some((end, _)) => format!("{}…", name.get(..end).unwrap_or_default().trim_end()),
        None => name.to_owned(),
    }
}

/// What a bar is to the selected one: `The late call`.
pub fn link_title(kind: LinkKind) -> &'static str {
    match kind {
        LinkKind::Launch => "Its launch",
        LinkKind::FirstOp => "What it launched",
        LinkKind::OpBefore => "The op before it",
        LinkKind::LateCall => "The late call",
        LinkKind::CallOfOpAfter => "The launch of the op after it",
        LinkKind::OpAfter => "The op after it",
        LinkKind::Step => "Its step",
    }
}

/// What the timeline leaves out, in sentences.
pub fn notes(timeline: &Timeline) -> Vec<String> {
    let threads = match timeline.threads_left_out {
        0 => None,
        1 => Some("1 host thread with the fewest calls has no lane.".to_owned()),
        several => Some(format!("{} host threads with the fewest calls have no lanes.", grouped(several as u64))),
    };
    let code_threads = match timeline.code_threads_left_out {
        0 => None,
        1 => Some("1 host thread that only ran code, without API calls and ranges, has no lane.".to_owned()),
        several => Some(format!(
            "{} host threads that only ran code, without API calls and ranges, have no lanes.",
            grouped(several as u64)
        )),
    };
    let code = timeline.code_left_out.then(|| {
        "CPU ops and Python functions have no lanes, because the trace has too many of them to keep them.".to_owned()
    });
    let layers = timeline.layers_left_out.then(|| {
        "The layers have no lane, because the trace has too many GPU ops. The tables of the model have them.".to_owned()
    });
    let outer = (!timeline.outer_code.is_empty()).then(|| outer_code_note(&timeline.outer_code));
    threads.into_iter().chain(code_threads.filter(|_| code.is_none())).chain(layers).chain(code).chain(outer).collect()
}

/// Names a few of the functions without rows of the thread that has the most.
fn outer_code_note(outer_code: &[Vec<String>]) -> String {
    const MAX_NAMED: usize = 3;
    let longest = outer_code.iter().max_by_key(|names| names.len()).map_or(&[][..], Vec::as_slice);
    let function = |name: &String| clean(name.split_once("): ").map_or(name.as_str(), |(_, function)| function));
    let mut names: Vec<String> = longest.iter().take(MAX_NAMED).map(function).collect();
    if let Some(more) = longest.len().checked_sub(MAX_NAMED).filter(|more| *more > 0) {
        names.push(format!("{} more", grouped(more as u64)));
    }
    format!("Functions that run around all work have no row but the innermost: {}.", listed(&names))
}

/// The lanes of a timeline.
pub fn lanes(trace: &Trace, timeline: &Timeline) -> Vec<LaneText> {
    timeline.lanes.iter().map(|lane| lane_text(trace, lane)).collect()
}

fn lane_text(trace: &Trace, lane: &Lane) -> LaneText {
    let (title, group) = match lane.kind {
        LaneKind::Steps(device) => ("steps".to_owned(), device.map_or_else(String::new, |id| device_title(trace, id))),
        LaneKind::Layers(device) => ("layers".to_owned(), device_title(trace, device)),
        LaneKind::Idle(device) => ("idle".to_owned(), device_title(trace, device)),
        LaneKind::Stream(device, stream) if stream >= 0 => (format!("stream {stream}"), device_title(trace, device)),
        LaneKind::Stream(device, _) => ("ops".to_owned(), device_title(trace, device)),
        LaneKind::Graphs(device) => ("graphs".to_owned(), device_title(trace, device)),
        LaneKind::Counter(device, index) => (counter_title(trace, index), device_title(trace, device)),
        LaneKind::Ranges(thread) => ("ranges".to_owned(), thread_title(trace, thread)),
        LaneKind::Calls(thread) => ("API calls".to_owned(), thread_title(trace, thread)),
        LaneKind::Code(thread) => ("code".to_owned(), thread_title(trace, thread)),
    };
    let layer = if matches!(lane.kind, LaneKind::Counter(..)) { "counter" } else { lane.kind.layer().word() };
    LaneText { title, group, depth: lane.depth, layer }
}

/// A short title: `memory`, or `DRAM Read` for `DRAM Read Bandwidth [Throughput %]`. The whole name if another counter of the device
/// has the same short one.
fn counter_title(trace: &Trace, index: usize) -> String {
    let Some(series) = trace.metrics.get(index) else { return String::new() };
    if series.name == ALLOCATED_MEMORY {
        return "memory".to_owned();
    }
    let short = short_counter(&series.name);
    let of_device = trace.metrics.iter().filter(|other| other.device == series.device);
    let is_unique = of_device.filter(|other| short_counter(&other.name) == short).count() == 1;
    clean(if is_unique { short } else { &series.name })
}

/// The name without its unit and without a word for what every such counter measures.
fn short_counter(name: &str) -> &str {
    let name = name.split_once(" [").map_or(name, |(name, _)| name);
    let endings = &Signals::embedded().counter_endings;
    endings.iter().find_map(|ending| name.strip_suffix(ending.as_str())).unwrap_or(name)
}

/// `5.44 GB` for memory, else the number with the unit of the name: `38.0 %`.
fn counter_label(trace: &Trace, index: usize, row: usize) -> String {
    let Some(series) = trace.metrics.get(index) else { return String::new() };
    let value = series.samples.get(row).map_or(0.0, |(_, value)| *value);
    if series.name == ALLOCATED_MEMORY {
        return format!("{:.2} GB", value / 1e9);
    }
    let unit = series.name.rsplit_once(" [").and_then(|(_, unit)| unit.strip_suffix(']')).unwrap_or_default();
    let unit = if series.is_per_cent() { "%" } else { unit };
    clean(format!("{} {unit}", digits(value)).trim_end())
}

/// `event_loop (scheduler.py:812)` for `sglang/srt/managers/scheduler.py(812): event_loop`: the function, then the place.
fn code_label(name: &str) -> String {
    let Some((place, function)) = name.split_once("): ") else { return name.to_owned() };
    let Some((file, line)) = place.rsplit_once('(') else { return name.to_owned() };
    let file = file.rsplit(['/', '\\']).next().unwrap_or(file);
    format!("{function} ({file}:{line})")
}

fn device_title(trace: &Trace, id: DeviceId) -> String {
    let device = trace.devices.get(id.0 as usize);
    device.map(|device| clean(format!("GPU {} {}", device.id, device.name).trim_end())).unwrap_or_default()
}

fn thread_title(trace: &Trace, id: ThreadId) -> String {
    let Some(thread) = trace.threads.get(id.0 as usize) else { return String::new() };
    let process = trace.processes.get(thread.process.0 as usize);
    let name = process.map(|process| clean(&process.name)).unwrap_or_default();
    match (thread.tid >= 0, name.is_empty()) {
        (true, true) => format!("thread {}", thread.tid),
        (true, false) => format!("thread {} {name}", thread.tid),
        (false, true) => "host".to_owned(),
        (false, false) => name,
    }
}

/// The lines of idle time, which tell its causes apart without colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Hatching {
    /// `/`
    Rising,
    /// `\`
    Falling,
    /// `|`
    Vertical,
    /// `-`
    Horizontal,
    /// `+`
    Squared,
    /// `x`
    Crossed,
    /// Short dashes.
    Dashed,
    /// Short vertical dashes.
    Broken,
    /// Corners, as of a staircase.
    Stepped,
    /// Dots.
    Dotted,
}

impl Hatching {
    /// That of a cause, by its word in the section `gpu_idle`. The delay between two ops has no bars.
    fn of_cause(word: &str) -> Self {
        match word {
            "host_late" => Self::Rising,
            "drained" => Self::Falling,
            "other_stream" => Self::Vertical,
            "compiling" => Self::Horizontal,
            "start_up" => Self::Squared,
            "unseen" => Self::Crossed,
            "no_requests" => Self::Dashed,
            "profiler" => Self::Broken,
            "other_gpu" => Self::Stepped,
            _ => Self::Dotted,
        }
    }
}

/// What a style looks like.
fn style(style: Style) -> StyleText {
    let filled = |class: &str, title: &str| StyleText { class: class.to_owned(), title: title.to_owned(), hatch: None };
    match style {
        // Categories are in front of these; see `styles`.
        Style::Category(_) | Style::Graph => filled(&palette::class(GRAPHS), GRAPHS),
        Style::Stage(stage) => filled(&palette::class(stage.label()), stage.title()),
        Style::Idle(cause) => StyleText {
            class: palette::class("idle"),
            title: cause.title(),
            hatch: Some(Hatching::of_cause(cause.word())),
        },
        Style::Counter => filled("tl-counter", "counter"),
        Style::Layer => filled("tl-layer", "layer of the model"),
        Style::Range => filled("tl-range", "marked range"),
        Style::Launch => filled("tl-launch", "launches GPU work"),
        Style::Wait => filled("tl-wait", "waits for the GPU"),
        Style::Call => filled("tl-call", "other API call"),
        Style::Function => filled("tl-function", "Python function"),
        Style::CpuOp => filled("tl-op", "CPU op"),
    }
}

/// All styles of a timeline. [`StyleIndex`] has the index of a style.
pub fn styles(timeline: &Timeline) -> Vec<StyleText> {
    let category = |name: &String| StyleText { class: palette::class(name), title: clean(name), hatch: None };
    let categories = timeline.categories.iter().map(category);
    categories.chain(Style::others().into_iter().map(style)).collect()
}

/// The indices of the styles in [`styles`].
#[derive(Debug)]
pub struct StyleIndex {
    categories: usize,
    others: Vec<Style>,
}

impl StyleIndex {
    /// Those of a timeline.
    pub fn of(timeline: &Timeline) -> Self {
        Self { categories: timeline.categories.len(), others: Style::others() }
    }

    /// The index of a style.
    pub fn get(&self, style: Style) -> usize {
        match style {
            Style::Category(index) => index,
            other => self.categories + self.others.iter().position(|known| *known == other).unwrap_or(0),
        }
    }
}

/// A mark that a person set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MarkText {
    /// Nanoseconds since the first GPU op.
    pub at: i64,
    /// Its number in the order of time.
    pub name: String,
    /// The time, with the digits that tell it from the nearest mark.
    pub text: String,
    /// The time in nanoseconds.
    pub exact: String,
    /// The distance from the mark before it; empty for the first.
    pub distance: String,
    /// All of it in words, for screen readers.
    pub spoken: String,
}

/// The texts of marks at these times since the first GPU op, in the order of time.
pub fn marks(mut times: Vec<i64>) -> Vec<MarkText> {
    times.sort_unstable();
    times.dedup();
    let distances: Vec<i64> = times.iter().zip(times.iter().skip(1)).map(|(a, b)| b.saturating_sub(*a)).collect();
    let mark = |(index, &at): (usize, &i64)| {
        let before = index.checked_sub(1).and_then(|before| distances.get(before).copied());
        let nearest = before.into_iter().chain(distances.get(index).copied()).min();
        let text = nearest.map_or_else(|| duration(at), |nearest| time_like(at, nearest));
        let distance = before.map(duration).unwrap_or_default();
        let since = before.map_or(String::new(), |_| format!(", {distance} after mark {index}"));
        let name = grouped(index as u64 + 1);
        MarkText {
            at,
            exact: format!("{} ns since the first GPU op", grouped_signed(at)),
            spoken: format!("mark {name} at {text}{since}"),
            name,
            text,
            distance,
        }
    };
    times.iter().enumerate().map(mark).collect()
}

fn grouped_signed(number: i64) -> String {
    format!("{}{}", if number < 0 { "-" } else { "" }, grouped(number.unsigned_abs()))
}

/// A tick of the axis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tick {
    /// Its unit in the tile.
    pub unit: i32,
    /// The time since the first GPU op: `1,250 us`.
    pub text: String,
}

/// The ticks in a tile. Tiles of one level have ticks at the same distance.
pub fn ticks(timeline: &Timeline, range: TileRange) -> Vec<Tick> {
    let step = tick_step_ns(range);
    let first = range.start().since(timeline.zero).0;
    let mut at = first.div_euclid(step).saturating_mul(step);
    let mut ticks = Vec::new();
    while let Some(time) = timeline.zero.0.checked_add(at).map(Ns).filter(|time| *time < range.end()) {
        if at >= first {
            ticks.push(Tick { unit: range.unit_of(time), text: time_text(at, step) });
        }
        let Some(next) = at.checked_add(step) else { break };
        at = next;
    }
    ticks
}

/// 1, 2 or 5 times a power of ten.
fn tick_step_ns(range: TileRange) -> i64 {
    let least = range.unit_ns().saturating_mul(MIN_TICK_UNITS).min(range.unit_ns().saturating_mul(TILE_UNITS));
    let mut power: i64 = 1;
    loop {
        if let Some(step) =
            [1, 2, 5].into_iter().filter_map(|digit| power.checked_mul(digit)).find(|step| *step >= least)
        {
            return step;
        }
        match power.checked_mul(10) {
            Some(next) => power = next,
            None => return i64::MAX,
        }
    }
}

/// A time in the largest unit that divides the step, or if it has five digits in it, in the next one with the digits that tell ticks apart:
/// `14.45 ms`.
fn time_text(ns: i64, step_ns: i64) -> String {
    const MAX_WHOLE: u64 = 10_000;
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
    let (unit_ns, unit) = units.into_iter().find(|(unit_ns, _)| step_ns % unit_ns == 0).unwrap_or((1, "ns"));
    let larger = units.into_iter().find(|(larger_ns, _)| *larger_ns == unit_ns.saturating_mul(1_000));
    let Some((larger_ns, larger)) = larger.filter(|_| (ns / unit_ns).unsigned_abs() >= MAX_WHOLE) else {
        return format!("{} {unit}", grouped_signed(ns / unit_ns));
    };
    let digits = format!("{:03}", (ns % larger_ns / unit_ns).unsigned_abs());
    let zeros = format!("{}", step_ns / unit_ns).chars().rev().take_while(|digit| *digit == '0').count();
    let digits = digits.get(..digits.len().saturating_sub(zeros)).unwrap_or_default();
    format!("{}.{digits} {larger}", grouped_signed(ns / larger_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::RuleBook;
    use crate::trace::testing::TestTrace;

    fn timeline(trace: &Trace) -> Timeline {
        Timeline::of(trace, RuleBook::gpuprism_default().unwrap()).unwrap()
    }

    #[test]
    fn each_cause_of_idle_time_has_its_own_hatching() {
        let mut trace = TestTrace::nsys();
        let timeline = timeline(&trace.kernel("gemm", 0..1_000).finish());
        let styles = styles(&timeline).into_iter().filter(|style| !style.title.contains("turnaround"));
        let hatchings: Vec<Hatching> = styles.filter_map(|style| style.hatch).collect();
        assert_eq!(hatchings.len(), 10);
        let is_twice = |index: usize| hatchings[index + 1..].contains(&hatchings[index]);
        assert!(!(0..hatchings.len()).any(is_twice), "{hatchings:?}");
    }

    #[test]
    fn lanes_of_counters_have_short_titles_and_bars_with_units() {
        let mut trace = TestTrace::nsys();
        trace.kernel("gemm", 0..1_000);
        for name in ["DRAM Read Bandwidth [Throughput %]", "GPC Clock Frequency [MHz]", "Warps [Avg]", "Warps [%]"] {
            trace.metric(name, &[(0, 38.0), (500, 1_980.0)]);
        }
        let trace = trace.finish();
        let timeline = timeline(&trace);
        let titles: Vec<String> = lanes(&trace, &timeline).into_iter().map(|lane| lane.title).collect();
        assert_eq!(titles[2..], ["DRAM Read", "GPC Clock", "Warps [Avg]", "Warps [%]"]);
        let labels = [(0, 0), (1, 1), (2, 0)].map(|(index, row)| counter_label(&trace, index, row));
        assert_eq!(labels, ["38.0 %", "1,980 MHz", "38.0 Avg"]);
    }

    #[test]
    fn ticks_are_round_times_since_the_first_op_and_never_closer_than_a_label_is_wide() {
        let trace = TestTrace::new().kernel("gemm", 1_000_003..3_000_003).finish();
        let timeline = timeline(&trace);
        // Units of 1,024 ns: the step is 500 us, 488 units; the tile is 1.05 ms long.
        let texts = |index: i64| {
            let range = TileRange::new(timeline.zero, 10, index).unwrap();
            ticks(&timeline, range).into_iter().map(|tick| (tick.unit, tick.text)).collect::<Vec<_>>()
        };
        let tick = |unit: i32, text: &str| (unit, text.to_owned());
        assert_eq!(texts(0), [tick(0, "0 us"), tick(488, "500 us"), tick(976, "1,000 us")]);
        assert_eq!(texts(1), [tick(440, "1,500 us"), tick(929, "2,000 us")]);
        assert_eq!(texts(-1), [tick(47, "-1,000 us"), tick(535, "-500 us")]);
        for level in 0..=50 {
            let Some(range) = TileRange::new(timeline.zero, level, 3) else { continue };
            let ticks = ticks(&timeline, range);
            assert!(ticks.is_sorted_by(|a, b| b.unit - a.unit >= 255), "level {level}: {ticks:?}");
        }
    }

    #[test]
    fn ticks_far_from_the_first_op_have_a_few_digits_in_a_larger_unit() {
        assert_eq!(time_text(14_450_000, 50_000), "14.45 ms");
        assert_eq!(time_text(-14_400_000, 200_000), "-14.4 ms");
        assert_eq!(time_text(12_345_678_000_000, 2_000_000), "12,345.678 s");
        assert_eq!(time_text(14_005_000, 5_000), "14.005 ms");
        assert_eq!(time_text(9_950_000, 50_000), "9,950 us", "few digits, and ticks near it have them");
        assert_eq!(time_text(40_000_000_000, 1_000_000_000), "40 s");
    }

    #[test]
    fn marks_are_in_the_order_of_time_with_their_distances_and_enough_digits_to_tell_them_apart() {
        let texts = |times: &[i64]| -> Vec<[String; 3]> {
            let texts = marks(times.to_vec()).into_iter();
            texts.map(|mark| [mark.name, mark.text, mark.distance]).collect()
        };
        assert_eq!(texts(&[70_000]), [["1", "70.0 us", ""]]);
        // 1.2 s, and 400 us later; set in the other order, one of them twice.
        let two = texts(&[1_203_857_120, 1_203_457_120, 1_203_857_120]);
        assert_eq!(two, [["1", "1,203,457 us", ""], ["2", "1,203,857 us", "400 us"]]);
        assert_eq!(marks(vec![20, -5])[1].spoken, "mark 2 at 20 ns, 25.0 ns after mark 1");
        assert_eq!(marks(vec![-1_500])[0].exact, "-1,500 ns since the first GPU op");
        assert!(marks(vec![]).is_empty());
    }

    #[test]
    fn every_style_has_one_place_in_the_list() {
        let trace = TestTrace::new().kernel("gemm", 0..10).kernel("softmax", 10..20).finish();
        let timeline = timeline(&trace);
        let all = styles(&timeline);
        assert_eq!(all[StyleIndex::of(&timeline).get(Style::Category(1))].class, "cat-softmax");
        for style in Style::others() {
            assert_eq!(all[StyleIndex::of(&timeline).get(style)], super::style(style));
        }
    }

    #[test]
    fn labels_of_code_begin_with_the_function() {
        assert_eq!(code_label("sglang/srt/scheduler.py(812): event_loop"), "event_loop (scheduler.py:812)");
        assert_eq!(code_label("<built-in method run of Runner>"), "<built-in method run of Runner>");
    }

    #[test]
    fn the_notes_say_what_has_no_lane() {
        let trace = TestTrace::new().kernel("gemm", 0..10).finish();
        let mut timeline = timeline(&trace);
        assert!(notes(&timeline).is_empty());
        timeline.code_threads_left_out = 2;
        assert_eq!(
            notes(&timeline),
            ["2 host threads that only ran code, without API calls and ranges, have no lanes."]
        );
        timeline.code_left_out = true;
        let [note] = &notes(&timeline)[..] else { panic!("{:?}", notes(&timeline)) };
        assert!(note.contains("too many of them"));
    }

    #[test]
    fn a_button_has_the_short_name_and_the_duration_of_its_bar() {
        let mut trace = TestTrace::new();
        trace.in_us().range("a range with a name of more than thirty characters", 0..20);
        let trace = trace.launch(5..9).launches("void at::native::gemm_kernel<float>(int)", 10..40).finish();
        let (timeline, texts) = (timeline(&trace), TimelineTexts::of(&trace));
        let button = |is_wanted: fn(LaneKind) -> bool| {
            let lane = timeline.lanes.iter().position(|lane| is_wanted(lane.kind)).unwrap();
            texts.button(&trace, &timeline, timeline.place(&trace, lane, 0).unwrap())
        };
        assert_eq!(button(|kind| matches!(kind, LaneKind::Stream(..))), "gemm_kernel, 30.0 us");
        assert_eq!(button(|kind| matches!(kind, LaneKind::Calls(_))), "cudaLaunchKernel, 4.00 us");
        assert_eq!(button(|kind| matches!(kind, LaneKind::Ranges(_))), "a range with a name of more than…, 20.0 us");
    }

    #[test]
    fn labels_are_for_single_bars_with_room() {
        let trace = TestTrace::new().kernel("void at::native::gemm_kernel<float>(int)", 0..10).finish();
        let (timeline, texts) = (timeline(&trace), TimelineTexts::of(&trace));
        let lane = timeline.lanes.iter().find(|lane| matches!(lane.kind, LaneKind::Stream(..))).unwrap();
        let label = |end: i32, count: u32| {
            let bar = Bar {
                start: 0,
                end,
                depth: 0,
                style: Style::Category(0),
                row: 0,
                name: crate::trace::NameId(0),
                count,
                filled: 255,
            };
            texts.label(&trace, &timeline, lane, &bar)
        };
        assert_eq!(
            (label(20, 1), label(19, 1), label(20, 2)),
            ("gemm_kernel".to_owned(), String::new(), String::new())
        );
    }
}
