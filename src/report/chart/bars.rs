//! Stacked bars: one row per run; the length of a segment is the time of a category.

use super::axes::axes;
use super::axis::TimeAxis;
use super::layout::{self, AXIS, BOLD, EDGE, NARROW, SMALL, TEXT, TOP, UNIT, hatch, pixels, short_text, text};
use super::{Chart, Node, first_few, glyphs};
use crate::digits::grouped_text;
use crate::ordering;
use crate::report::format::duration;
use crate::report::palette;

/// The class of the time without GPU ops, which is drawn last and hatched.
const CPU_CLASS: &str = "cat-cpu";

/// The bar of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// The label of the run; if it does not fit it is shortened, with a tooltip.
    pub label: String,
    /// The parts, in any order.
    pub segments: Vec<Segment>,
    /// A few words below the label: `sum of 2 devices`. May be empty.
    pub note: String,
}

/// A part of a bar.
#[derive(Debug, Clone, PartialEq)]
pub struct Segment {
    /// The category.
    pub category: String,
    /// The time in nanoseconds; negative values count as zero.
    pub elapsed_ns: i64,
    /// The share of the whole bar, 0 to 1, including hidden categories.
    pub share: f64,
}

/// Sizes in hundredths of a pixel.
struct Layout {
    width: i32,
    left: i32,
    row_height: i32,
    bar_top: i32,
    is_narrow: bool,
    /// See [`common_suffix_len`].
    common_suffix_len: usize,
}

const MAX_ROWS: usize = 10_000;
const BAR: i32 = 28 * UNIT;
const RIGHT: i32 = 28 * UNIT;
const LABEL_GAP: i32 = 14 * UNIT;
/// The gap between segments that are wide enough, so that neighbours do not differ by colour alone.
const SEGMENT_GAP: i32 = UNIT;

/// Draws one horizontal stacked bar per run on a common time axis from zero.
///
/// `legend` is the order of the categories (see [`palette::order`]); other categories come after them, and CPU time last.
/// Segments of `hidden` categories are faint and keep their place, so that a bar adds up, and have neither label nor key.
/// `width` is in pixels, at least 240. The nodes of another segment have the category as key, the row in `data-row` and an entry for the legend of a saved picture in
/// `data-legend`; the tooltip has the exact time.
///
/// ```
/// use gpuprism::report::chart::{Bar, Segment, stacked_bars};
/// let segment = |category: &str, elapsed_ns, share| Segment { category: category.into(), elapsed_ns, share };
/// let bar = Bar {
///     label: "run-a".into(),
///     segments: vec![segment("CPU (non-GPU)", 40_000_000, 0.4), segment("gemm", 60_000_000, 0.6)],
///     note: String::new(),
/// };
/// let chart = stacked_bars(&[bar], &["gemm"], &[], 960);
/// assert_eq!(chart.summary, "Time by category: run-a, 100 ms: gemm 60 %, GPU idle 40 %.");
/// assert!(chart.to_svg().contains("gemm 60 %"));
/// ```
pub fn stacked_bars(bars: &[Bar], legend: &[&str], hidden: &[&str], width: u32) -> Chart {
    let rows: Vec<Vec<&Segment>> = bars.iter().map(|bar| stack(bar, legend)).collect();
    let is_hidden = |segment: &Segment| hidden.contains(&segment.category.as_str());
    let longest_ns = rows.iter().map(|row| length_ns(row)).max().unwrap_or(0);
    let layout = Layout::new(bars, width);
    let height = layout.height(bars.len());
    let time = TimeAxis::new(longest_ns, i64::from(layout.plot_width() / (70 * UNIT)).clamp(2, 10));
    let x = |time_ns: i64| time.position(time_ns, (layout.left, layout.width - RIGHT - 1));
    let mut nodes = Vec::new();
    if longest_ns > 0 {
        let ticks = time.ticks().into_iter().map(|tick| (x(tick), time.label(tick))).collect();
        let name = format!("Time ({})", time.unit().name());
        nodes = axes((layout.left, TOP), (layout.width - RIGHT, height - AXIS), &name, ticks, Vec::new());
    }
    for (index, (bar, row)) in (0_i32..).zip(bars.iter().zip(&rows)).take(MAX_ROWS) {
        let top = TOP + index * layout.row_height;
        layout.label(bar, top, &mut nodes);
        let mut from_ns = 0_i64;
        for segment in row {
            let to_ns = from_ns.saturating_add(segment.elapsed_ns.max(0));
            let legend = legend_entry(&segment.category, &rows);
            let first = nodes.len();
            draw_segment(segment, (index, legend), (x(from_ns), x(to_ns)), top + layout.bar_top, &mut nodes);
            if is_hidden(segment) {
                fade(&mut nodes, first);
            }
            from_ns = to_ns;
        }
    }
    layout::chart(layout.width, height, summary(bars, &rows, hidden), nodes)
}

/// Makes the nodes of a segment, from the first one on, faint. Without a key they are in no legend, and a label would be hard to read.
fn fade(nodes: &mut Vec<Node>, first: usize) {
    if nodes.len() > first {
        nodes.pop_if(|last| last.tag == "text");
    }
    for node in nodes.iter_mut().skip(first) {
        node.class += " faint";
        node.key.clear();
    }
}

/// The segments of a bar in stacking order.
fn stack<'a>(bar: &'a Bar, legend: &[&str]) -> Vec<&'a Segment> {
    let sort_key = |segment: &&Segment| {
        let listed = legend.iter().position(|name| *name == segment.category);
        (is_cpu(&segment.category), listed.unwrap_or(legend.len()))
    };
    let mut row: Vec<&Segment> = bar.segments.iter().collect();
    ordering::sort_by_key(&mut row, sort_key);
    row
}

pub(super) fn is_cpu(category: &str) -> bool {
    palette::class(category) == CPU_CLASS
}

fn length_ns(row: &[&Segment]) -> i64 {
    row.iter().fold(0, |sum: i64, segment| sum.saturating_add(segment.elapsed_ns.max(0)))
}

impl Layout {
    fn new(bars: &[Bar], width: u32) -> Self {
        let width = layout::width(width);
        let common_suffix_len = common_suffix_len(bars);
        if width < NARROW {
            let (row_height, bar_top) = (60 * UNIT, 22 * UNIT);
            return Self { width, left: EDGE, row_height, bar_top, is_narrow: true, common_suffix_len };
        }
        let texts = bars.iter().flat_map(|bar| [(&bar.label, BOLD), (&bar.note, SMALL)]);
        let widest = texts.map(|(text, size)| glyphs::width(text, size)).max().unwrap_or(0);
        let left = widest.min(width * 28 / 100) + LABEL_GAP;
        let (row_height, bar_top) = (44 * UNIT, 8 * UNIT);
        Self { width, left, row_height, bar_top, is_narrow: false, common_suffix_len }
    }

    fn height(&self, rows: usize) -> i32 {
        let rows = i32::try_from(rows.clamp(1, MAX_ROWS)).unwrap_or(1);
        TOP + rows * self.row_height + AXIS
    }

    fn plot_width(&self) -> i32 {
        self.width - self.left - RIGHT
    }

    /// Draws label and note of a bar whose row starts at `top`.
    fn label(&self, bar: &Bar, top: i32, nodes: &mut Vec<Node>) {
        let (left, plot) = (self.left, self.plot_width());
        let (position, max_width) = match (self.is_narrow, bar.note.is_empty()) {
            (true, _) => ((left, top + 15 * UNIT), plot * 3 / 5),
            (false, true) => ((0, top + 26 * UNIT), left - LABEL_GAP),
            (false, false) => ((0, top + 19 * UNIT), left - LABEL_GAP),
        };
        let shown = self.short_label(&bar.label, max_width);
        nodes.push(short_text(&bar.label, &shown, "chart-label", position, TEXT, "start"));
        if bar.note.is_empty() {
            return;
        }
        let (anchor, position, max_width) = if self.is_narrow {
            ("end", (left + plot, top + 15 * UNIT), plot * 2 / 5 - LABEL_GAP)
        } else {
            ("start", (0, top + 34 * UNIT), left - LABEL_GAP)
        };
        let shown = glyphs::shorten(&bar.note, SMALL, max_width);
        nodes.push(short_text(&bar.note, &shown, "chart-note", position, SMALL, anchor));
    }

    /// The label, shortened to `max_width`. The suffix that all labels share is removed first.
    fn short_label(&self, label: &str, max_width: i32) -> String {
        if glyphs::width(label, BOLD) <= max_width {
            return label.to_owned();
        }
        let length = label.chars().count().saturating_sub(self.common_suffix_len);
        let stem: String = label.chars().take(length).collect();
        glyphs::shorten(&stem, BOLD, max_width)
    }
}

/// The length of the common suffix of all labels in characters, shorter than every label; 0 for a single bar.
fn common_suffix_len(bars: &[Bar]) -> usize {
    let (Some(first), [_, others @ ..]) = (bars.first(), bars) else { return 0 };
    let shared = |other: &Bar| {
        let equal = first.label.chars().rev().zip(other.label.chars().rev()).take_while(|(one, other)| one == other);
        equal.count().min(other.label.chars().count().saturating_sub(1))
    };
    let length = others.iter().map(shared).min().unwrap_or(0).min(first.label.chars().count().saturating_sub(1));
    // Start the suffix at a separator, so that it does not split a number or a word.
    let suffix: Vec<char> = first.label.chars().rev().take(length).collect();
    suffix.iter().rposition(|character| !character.is_alphanumeric()).map_or(0, |index| index + 1)
}

/// What the legend of a saved picture says of a category: its title and, of a few runs, its time in each.
fn legend_entry(category: &str, rows: &[Vec<&Segment>]) -> String {
    const MAX_RUNS: usize = 3;
    let mut entry = palette::title(category).to_owned();
    if rows.len() > MAX_RUNS {
        return entry;
    }
    for (index, row) in rows.iter().enumerate() {
        let own = row.iter().find(|segment| segment.category == category);
        entry += if index == 0 { " " } else { " / " };
        entry += &duration(own.map_or(0, |own| own.elapsed_ns));
    }
    entry
}

/// Draws one segment of a row between two positions; `top` is that of its bar.
fn draw_segment(
    segment: &Segment,
    (row, legend): (i32, String),
    (left, right): (i32, i32),
    top: i32,
    nodes: &mut Vec<Node>,
) {
    if right <= left {
        return;
    }
    let Segment { category, elapsed_ns, share } = segment;
    let node = |tag: &'static str, class: &str, mut attrs: Vec<(&'static str, String)>| {
        attrs.push(("data-row", row.to_string()));
        let class = format!("{class} {}", palette::class(category));
        Node { tag, attrs, class, key: category.clone(), ..Node::default() }
    };
    let span = right - left;
    let width = if span > 4 * SEGMENT_GAP { span - SEGMENT_GAP } else { span };
    let mut attrs = layout::rect((left, top), (width, BAR));
    attrs.extend([("data-span", pixels(span)), ("data-legend", legend)]);
    let share = percent(*share).map(|share| format!(", {share} of the bar")).unwrap_or_default();
    let title = format!(
        "{}: {} ({} ns){share}",
        palette::title(category),
        duration(*elapsed_ns),
        grouped_text(&elapsed_ns.to_string())
    );
    nodes.push(Node { title, ..node("rect", "seg", attrs) });
    if is_cpu(category) {
        nodes.push(node("path", "hatch", vec![("d", hatch((left, top), (left + width, top + BAR)))]));
    }
    if let Some(label) = segment.label(width - 10 * UNIT) {
        let position = (left + width / 2, layout::baseline(top + BAR / 2, TEXT));
        let attrs = text(&label, "", position, TEXT, "middle").attrs;
        nodes.push(Node { text: label, ..node("text", "seg-label", attrs) });
    }
}

impl Segment {
    /// The longest label that fits: category and share, category, or one word of the category: the first, of `GPU idle` the last.
    fn label(&self, max_width: i32) -> Option<String> {
        let category = palette::title(&self.category);
        let mut words = category.split(' ');
        let word = if category == "GPU idle" { words.next_back() } else { words.next() }.unwrap_or(category);
        let share = percent(self.share).unwrap_or_default();
        let labels = [format!("{category} {share}"), format!("{word} {share}"), category.to_owned(), word.to_owned()];
        labels.into_iter().find(|text| glyphs::width(text, TEXT) <= max_width)
    }
}

/// A share in per cent, `41 %`, with one decimal below ten per cent.
fn percent(share: f64) -> Option<String> {
    let percent = share * 100.0;
    match percent {
        percent if !percent.is_finite() => None,
        percent if percent > 0.0 && percent < 0.05 => Some("< 0.1 %".to_owned()),
        percent if percent < 9.95 => Some(format!("{percent:.1} %")),
        percent => Some(format!("{percent:.0} %")),
    }
}

fn summary(bars: &[Bar], rows: &[Vec<&Segment>], hidden: &[&str]) -> String {
    const MAX_RUNS: usize = 6;
    if bars.is_empty() {
        return "Time by category: no runs.".to_owned();
    }
    let mut runs: Vec<String> =
        bars.iter().zip(rows).take(MAX_RUNS).map(|(bar, row)| row_summary(bar, row, hidden)).collect();
    if let Some(more) = bars.len().checked_sub(MAX_RUNS).filter(|more| *more > 0) {
        runs.push(format!("and {more} more runs"));
    }
    format!("Time by category: {}.", runs.join("; "))
}

fn row_summary(bar: &Bar, row: &[&Segment], hidden: &[&str]) -> String {
    let label = glyphs::shorten(&bar.label, TEXT, 400 * UNIT);
    let is_told = |segment: &&&Segment| segment.elapsed_ns > 0 && !hidden.contains(&segment.category.as_str());
    let mut parts: Vec<&&Segment> = row.iter().filter(is_told).collect();
    if parts.is_empty() {
        return format!("{label}, no time to show");
    }
    ordering::sort_by_key(&mut parts, |segment| std::cmp::Reverse(segment.elapsed_ns));
    let words = parts
        .iter()
        .map(|segment| format!("{} {}", palette::title(&segment.category), percent(segment.share).unwrap_or_default()));
    let words: Vec<String> = words.collect();
    format!("{label}, {}: {}", duration(length_ns(row)), first_few(&words, ", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn segment(category: &str, elapsed_ns: i64, share: f64) -> Segment {
        Segment { category: category.into(), elapsed_ns, share }
    }

    fn bar(label: &str) -> Bar {
        let segments = vec![
            segment("CPU (non-GPU)", 40_000_000, 0.4),
            segment("norm", 1_000_000, 0.01),
            segment("gemm", 59_000_000, 0.59),
        ];
        Bar { label: label.into(), segments, note: "sum of 2 devices, given wall time".into() }
    }

    fn rects(chart: &Chart) -> Vec<(&str, f64, f64)> {
        let rects = chart.nodes.iter().filter(|node| node.tag == "rect");
        rects.map(|node| (node.key.as_str(), node.number("x"), node.number("data-span"))).collect()
    }

    #[test]
    fn long_labels_lose_their_common_suffix_first() {
        let names = ["sglang_qwen3_8b_mi300_extend", "sglang_qwen3_8b_mi300_decode"]
            .map(|name| format!("{name}.trace.json.gz"));
        let chart = stacked_bars(&names.each_ref().map(|name| bar(name)), &[], &[], 900);
        let shown = chart.texts("chart-label");
        assert!(
            matches!(shown[..], [one, other] if one.ends_with("_extend") && other.ends_with("_decode")),
            "{shown:?}"
        );
        let counted = ["1", "2"].map(|count| format!("sglang_qwen3_30b_mi300_decode_bs{count}0.trace.json.gz"));
        let chart = stacked_bars(&counted.each_ref().map(|name| bar(name)), &[], &[], 900);
        assert!(chart.texts("chart-label")[0].ends_with("_bs10"), "numbers are not split");
        let alone = stacked_bars(&[bar(&names[0])], &[], &[], 900);
        assert!(alone.texts("chart-label")[0].ends_with(".gz"));
    }

    #[test]
    fn lengths_are_proportional_to_time_and_cpu_time_is_last() {
        let chart = stacked_bars(&[bar("a")], &["norm", "gemm"], &[], 960);
        let rects = rects(&chart);
        assert_eq!(rects.iter().map(|r| r.0).collect::<Vec<_>>(), ["norm", "gemm", "CPU (non-GPU)"]);
        let whole: f64 = rects.iter().map(|r| r.2).sum();
        for ((_, _, span), share) in rects.iter().zip([0.01, 0.59, 0.4]) {
            assert!((span / whole - share).abs() < 1e-4, "{span} of {whole}");
        }
        for pair in rects.windows(2) {
            assert!((pair[0].1 + pair[0].2 - pair[1].1).abs() < 0.006);
        }
        assert!(chart.nodes.iter().any(|node| node.class == "hatch cat-cpu" && node.tag == "path"));
    }

    #[test]
    fn hidden_categories_are_faint_and_keep_their_place() {
        let all = stacked_bars(&[bar("a")], &["norm", "gemm"], &[], 960);
        let some = stacked_bars(&[bar("a")], &["norm", "gemm"], &["norm", "CPU (non-GPU)"], 960);
        assert_eq!(rects(&some).iter().map(|r| r.0).collect::<Vec<_>>(), ["", "gemm", ""]);
        let places = |chart| rects(chart).into_iter().map(|(_, x, span)| (x, span)).collect::<Vec<_>>();
        assert_eq!(places(&some), places(&all), "the bar adds up");
        let faint: Vec<&str> =
            some.nodes.iter().map(|node| node.class.as_str()).filter(|c| c.ends_with(" faint")).collect();
        assert_eq!(faint, ["seg cat-norm faint", "seg cat-cpu faint", "hatch cat-cpu faint"]);
        assert!(!some.nodes.iter().any(|node| node.text.contains("idle")), "no label");
        assert!(some.summary.contains("gemm 59 %"), "shares are of the whole bar: {}", some.summary);
    }

    #[test]
    fn tooltips_have_the_exact_time_and_the_share_of_the_bar() {
        let chart = stacked_bars(&[bar("a")], &["gemm"], &[], 960);
        let title =
            chart.nodes.iter().find(|node| node.key == "gemm" && node.tag == "rect").map(|node| node.title.as_str());
        assert_eq!(title, Some("gemm: 59.0 ms (59,000,000 ns), 59 % of the bar"));
    }

    #[test]
    fn the_legend_of_a_picture_says_what_the_page_says_with_the_time_of_each_run() {
        let entries = |bars: &[Bar]| {
            let chart = stacked_bars(bars, &["gemm"], &[], 960);
            let legend = |node: &Node| Some(node.attrs.iter().find(|(name, _)| *name == "data-legend")?.1.clone());
            chart.nodes.iter().filter(|node| node.tag == "rect").filter_map(legend).collect::<BTreeSet<_>>()
        };
        let of = |texts: [&str; 3]| texts.map(String::from).into_iter().collect::<BTreeSet<_>>();
        assert_eq!(entries(&[bar("a")]), of(["GPU idle 40.0 ms", "gemm 59.0 ms", "norm 1.00 ms"]));
        let other = Bar { segments: vec![segment("gemm", 7_000_000, 1.0)], ..bar("b") };
        let both = of(["GPU idle 40.0 ms / 0 ns", "gemm 59.0 ms / 7.00 ms", "norm 1.00 ms / 0 ns"]);
        assert_eq!(entries(&[bar("a"), other]), both);
        assert_eq!(entries(&["a", "b", "c", "d"].map(bar)), of(["GPU idle", "gemm", "norm"]), "too many to read");
    }

    #[test]
    fn only_segments_that_are_wide_enough_have_labels() {
        let chart = stacked_bars(&[bar("a")], &["gemm"], &[], 960);
        let labels: Vec<&str> =
            chart.nodes.iter().filter(|n| n.class.starts_with("seg-label")).map(|n| n.text.as_str()).collect();
        assert_eq!(labels, ["gemm 59 %", "GPU idle 40 %"]);
    }

    #[test]
    fn the_axis_starts_at_zero_and_names_its_unit() {
        let chart = stacked_bars(&[bar("a")], &["gemm"], &[], 960);
        assert_eq!(chart.texts("chart-tick"), ["0", "10", "20", "30", "40", "50", "60", "70", "80", "90", "100"]);
        assert_eq!(chart.texts("chart-axis"), ["Time (ms)"]);
    }

    #[test]
    fn empty_and_extreme_bars_give_a_chart() {
        let none = stacked_bars(&[], &[], &[], 960);
        assert_eq!(none.summary, "Time by category: no runs.");
        let zero = Bar { label: "z".into(), segments: vec![segment("gemm", 0, f64::NAN)], note: String::new() };
        let chart = stacked_bars(&[zero], &["gemm"], &[], 960);
        assert_eq!(chart.summary, "Time by category: z, no time to show.");
        assert!(chart.height >= 44 && !chart.nodes.iter().any(|node| node.tag == "rect"));
        let odd = Bar {
            label: "o".into(),
            segments: vec![segment("gemm", i64::MAX, 1e300), segment("x", i64::MIN, -1.0)],
            note: String::new(),
        };
        for width in [0, 1, 400, u32::MAX] {
            stacked_bars(&[odd.clone(), odd.clone()], &[], &[], width);
        }
    }

    #[test]
    fn names_from_a_trace_are_escaped_in_the_svg() {
        let hostile = "</svg><script>alert(1)</script>\"'&\u{1}";
        let bar = Bar { label: hostile.into(), segments: vec![segment(hostile, 10, 1.0)], note: hostile.into() };
        let svg = stacked_bars(&[bar], &[hostile], &[], 960).to_svg();
        assert!(!svg.contains("<script") && !svg.contains('\u{1}') && svg.matches("</svg>").count() == 1, "{svg}");
    }

    #[test]
    fn every_node_has_a_tag_and_attributes_that_the_page_accepts() {
        let chart = stacked_bars(&[bar("a"), bar("b")], &["gemm"], &[], 400);
        for node in &chart.nodes {
            assert!(["rect", "text", "line", "path", "polyline"].contains(&node.tag));
            assert!(node.attrs.iter().all(|(name, _)| *name != "style" && !name.starts_with("on")));
            assert!(!node.class.is_empty(), "{node:?}");
        }
    }
}
