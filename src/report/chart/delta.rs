//! Diverging bars: changes from a baseline, one row per category; less time to the left of zero, more time to the right.

use super::axis::{TimeAxis, position};
use super::bars::is_cpu;
use super::layout::{self, BOLD, EDGE, NARROW, SMALL, TEXT, TOP, UNIT, hatch, short_text, text};
use super::{Chart, Node, first_few, glyphs};
use crate::digits::grouped_text;
use crate::report::format::{change, duration};
use crate::report::palette;

/// The changes of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deltas {
    /// The label of the run.
    pub label: String,
    /// The total change in words: `+12.0 ms per step (+7.0 %)`.
    pub note: String,
    /// Changes by category, in the order of the rows.
    pub parts: Vec<Delta>,
}

/// The change of one category.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delta {
    /// The category.
    pub category: String,
    /// Time in the baseline.
    pub baseline_ns: i64,
    /// Time in the run.
    pub time_ns: i64,
}

impl Delta {
    fn ns(&self) -> i64 {
        self.time_ns.saturating_sub(self.baseline_ns)
    }
}

// Sizes in hundredths of a pixel.
const BAR: i32 = 16 * UNIT;
const AXIS: i32 = 44 * UNIT;
/// The gap between a bar and its text.
const GAP: i32 = 6 * UNIT;
/// The gap between two groups.
const GROUP_GAP: i32 = 10 * UNIT;

/// Draws a group of bars per run on a common axis. Hidden and unchanged categories have no row.
///
/// `axis_name` is for example `Change per step`. `width` is in pixels, at least 240. A bar has the category as key and the
/// index of its group in `data-row`; the tooltip has the exact change.
///
/// ```
/// use gpuprism::report::chart::{Delta, Deltas, diverging_bars};
/// let part = |category: &str, baseline_ns, time_ns| Delta { category: category.into(), baseline_ns, time_ns };
/// let parts = vec![part("attention", 20_000_000, 32_000_000), part("gemm", 50_000_000, 45_000_000)];
/// let run = Deltas { label: "B".into(), note: "+7.00 ms".into(), parts };
/// let chart = diverging_bars(&[run], "Change", &[], 960);
/// assert_eq!(chart.summary, "Change by category: B, +7.00 ms: attention +12.0 ms, gemm -5.00 ms.");
/// ```
pub fn diverging_bars(groups: &[Deltas], axis_name: &str, hidden: &[&str], width: u32) -> Chart {
    let is_shown = |part: &&Delta| part.ns() != 0 && !hidden.contains(&part.category.as_str());
    let rows: Vec<Vec<&Delta>> = groups.iter().map(|group| group.parts.iter().filter(is_shown).collect()).collect();
    let layout = Layout::new(&rows, width);
    let mut nodes = Vec::new();
    let mut top = TOP;
    for (index, (group, rows)) in groups.iter().zip(&rows).enumerate() {
        top = layout.group(group, rows, index, top, &mut nodes);
    }
    if rows.iter().any(|rows| !rows.is_empty()) {
        layout.axis(axis_name, top - GROUP_GAP, &mut nodes);
        top += AXIS;
    }
    layout::chart(layout.width, top, summary(groups, &rows, axis_name), nodes)
}

struct Layout {
    width: i32,
    /// Left and right end of the plot.
    plot: (i32, i32),
    /// The changes at both ends; the range includes zero.
    range_ns: (i64, i64),
    /// Width of the names of categories; 0 if they are above the bars.
    name_width: i32,
    row_height: i32,
    is_narrow: bool,
}

impl Layout {
    fn new(groups: &[Vec<&Delta>], width: u32) -> Self {
        let width = layout::width(width);
        let parts = || groups.iter().flatten();
        let range_ns = parts().fold((0, 0), |(low, high): (i64, i64), part| (low.min(part.ns()), high.max(part.ns())));
        if width < NARROW {
            let plot = (EDGE, width - EDGE);
            return Self { width, plot, range_ns, name_width: 0, row_height: 40 * UNIT, is_narrow: true };
        }
        let name_width = parts().map(|part| glyphs::width(palette::title(&part.category), TEXT)).max().unwrap_or(0);
        let name_width = name_width.min(width * 28 / 100);
        let text_margin = |is_on_side: fn(i64) -> bool| {
            let changes = parts().map(|part| part.ns()).filter(|ns| is_on_side(*ns));
            let widest = changes.map(|ns| glyphs::width(&change(ns), TEXT)).max().unwrap_or(0);
            if widest > 0 { widest + GAP } else { 0 }
        };
        let plot = (name_width + 2 * EDGE + text_margin(|ns| ns < 0), width - EDGE - text_margin(|ns| ns > 0));
        Self { width, plot, range_ns, name_width, row_height: 24 * UNIT, is_narrow: false }
    }

    /// Draws heading and bars of one run; returns the top of the next group.
    fn group(&self, group: &Deltas, rows: &[&Delta], index: usize, top: i32, nodes: &mut Vec<Node>) -> i32 {
        self.heading(group, rows.is_empty(), top, nodes);
        let first = top.saturating_add(if self.is_narrow { 40 * UNIT } else { 26 * UNIT });
        let count = i32::try_from(rows.len()).unwrap_or(0);
        let bottom = first.saturating_add(count.saturating_mul(self.row_height));
        if !rows.is_empty() {
            let time = self.time();
            let line = |tick: i64| if tick == 0 { "chart-zero" } else { "chart-grid" };
            nodes.extend(
                self.ticks(&time)
                    .into_iter()
                    .map(|tick| layout::line(line(tick), (self.x(tick), first), (self.x(tick), bottom))),
            );
        }
        for (row, part) in (0_i32..).zip(rows) {
            self.row(part, index, first.saturating_add(row.saturating_mul(self.row_height)), nodes);
        }
        bottom.saturating_add(GROUP_GAP)
    }

    /// The x position of a change.
    fn x(&self, ns: i64) -> i32 {
        let (low, high) = (i128::from(self.range_ns.0), i128::from(self.range_ns.1));
        position(i128::from(ns) - low, (high - low).max(1), self.plot)
    }

    /// A time axis as long as the plot, for its step and unit.
    fn time(&self) -> TimeAxis {
        let (low, high) = self.range_ns;
        let max_steps = i64::from((self.plot.1 - self.plot.0) / (80 * UNIT)).clamp(2, 8);
        TimeAxis::new(high.saturating_sub(low), max_steps)
    }

    /// Round times on both sides of zero.
    fn ticks(&self, time: &TimeAxis) -> Vec<i64> {
        let ((low, high), sizes) = (self.range_ns, time.ticks());
        let below = sizes.iter().skip(1).rev().map(|tick| tick.saturating_neg()).filter(|tick| *tick >= low);
        below.chain(sizes.iter().copied().filter(|tick| *tick <= high)).collect()
    }

    fn axis(&self, name: &str, bottom: i32, nodes: &mut Vec<Node>) {
        let ((low, high), (left, right)) = (self.range_ns, self.plot);
        let time = self.time();
        for tick in self.ticks(&time) {
            let size = time.label(tick.saturating_abs());
            let label = match tick {
                ..0 => format!("-{size}"),
                0 => "0".to_owned(),
                1.. => format!("+{size}"),
            };
            let half = glyphs::width(&label, SMALL) / 2;
            let x = self.x(tick).clamp(half.min(self.width / 2), (self.width - half).max(self.width / 2));
            nodes.push(text(&label, "chart-tick", (x, bottom + 14 * UNIT), SMALL, "middle"));
        }
        let baseline = bottom + 32 * UNIT;
        let name = format!("{name} ({})", time.unit().name());
        nodes.push(text(&name, "chart-axis", (left + (right - left) / 2, baseline), SMALL, "middle"));
        if low < 0 {
            nodes.push(text("\u{2190} less time", "chart-axis", (left, baseline), SMALL, "start"));
        }
        if high > 0 {
            nodes.push(text("more time \u{2192}", "chart-axis", (right, baseline), SMALL, "end"));
        }
    }

    /// Label and note of the run: in one line, or in two if the chart is narrow.
    fn heading(&self, group: &Deltas, is_empty: bool, top: i32, nodes: &mut Vec<Node>) {
        let note = format!("{}{}", group.note, if is_empty { "; no category to show" } else { "" });
        let note_width = glyphs::width(&note, SMALL).min(self.width / 2);
        let max_width = if self.is_narrow { self.width - 2 * EDGE } else { self.width - note_width - 3 * EDGE };
        let left = if self.is_narrow { EDGE } else { 0 };
        let label = glyphs::shorten(&group.label, BOLD, max_width);
        let label_width = glyphs::width(&label, BOLD);
        nodes.push(short_text(&group.label, &label, "chart-label", (left, top + 15 * UNIT), TEXT, "start"));
        let note_position =
            if self.is_narrow { (left, top + 31 * UNIT) } else { (label_width + 2 * EDGE, top + 15 * UNIT) };
        nodes.push(text(&note, "chart-note", note_position, SMALL, "start"));
    }

    fn row(&self, part: &Delta, group: usize, top: i32, nodes: &mut Vec<Node>) {
        let (zero, end) = (self.x(0), self.x(part.ns()));
        let (left, right) = (zero.min(end), zero.max(end));
        let bar_top = if self.is_narrow { top + 18 * UNIT } else { top + 4 * UNIT };
        let baseline = if self.is_narrow { top + 13 * UNIT } else { layout::baseline(bar_top + BAR / 2, TEXT) };
        let category_node = |tag: &'static str, class: &str, mut attrs: Vec<(&'static str, String)>| {
            attrs.push(("data-row", group.to_string()));
            let class = format!("{class} {}", palette::class(&part.category));
            Node { tag, attrs, class, key: part.category.clone(), ..Node::default() }
        };
        let rect = layout::rect((left, bar_top), (right - left, BAR));
        nodes.push(Node { title: tooltip(part), ..category_node("rect", "seg", rect) });
        if is_cpu(&part.category) {
            let strokes = hatch((left, bar_top), (right, bar_top + BAR));
            nodes.push(category_node("path", "hatch", vec![("d", strokes)]));
        }
        let max_width = if self.is_narrow { self.width * 6 / 10 } else { self.name_width };
        let name = glyphs::shorten(palette::title(&part.category), TEXT, max_width);
        let name_left = if self.is_narrow { EDGE } else { 0 };
        nodes.push(Node { title: tooltip(part), ..text(&name, "delta-name", (name_left, baseline), TEXT, "start") });
        let (x, anchor) = match (self.is_narrow, part.ns() < 0) {
            (true, _) => (self.width - EDGE, "end"),
            (false, true) => (left - GAP, "end"),
            (false, false) => (right + GAP, "start"),
        };
        nodes.push(text(&change(part.ns()), "delta-change", (x, baseline), TEXT, anchor));
    }
}

fn tooltip(part: &Delta) -> String {
    let Delta { category, baseline_ns, time_ns } = part;
    let category = palette::title(category);
    let (delta, sign) = (part.ns(), if part.ns() > 0 { "+" } else { "" });
    format!(
        "{category}: {} ({sign}{} ns): {} instead of {} ({} ns, {} ns)",
        change(delta),
        grouped_text(&delta.to_string()),
        duration(*time_ns),
        duration(*baseline_ns),
        grouped_text(&time_ns.to_string()),
        grouped_text(&baseline_ns.to_string())
    )
}

fn summary(groups: &[Deltas], rows: &[Vec<&Delta>], axis_name: &str) -> String {
    let summaries = groups.iter().zip(rows).map(|(group, rows)| {
        let words: Vec<String> =
            rows.iter().map(|part| format!("{} {}", palette::title(&part.category), change(part.ns()))).collect();
        let words = if words.is_empty() { "no category".to_owned() } else { first_few(&words, ", ") };
        format!("{}, {}: {words}", group.label, group.note)
    });
    let summaries: Vec<String> = summaries.collect();
    let all = if summaries.is_empty() { "no runs".to_owned() } else { summaries.join("; ") };
    format!("{axis_name} by category: {all}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(label: &str, parts: &[(&str, i64, i64)]) -> Deltas {
        let part = |(category, baseline_ns, time_ns): &(&str, i64, i64)| Delta {
            category: (*category).to_owned(),
            baseline_ns: *baseline_ns,
            time_ns: *time_ns,
        };
        Deltas { label: label.to_owned(), note: String::new(), parts: parts.iter().map(part).collect() }
    }

    /// Left and right end of each bar, by category.
    fn bars(chart: &Chart) -> Vec<(&str, f64, f64)> {
        let rects = chart.nodes.iter().filter(|node| node.tag == "rect");
        rects.map(|n| (n.key.as_str(), n.number("x"), n.number("x") + n.number("width"))).collect()
    }

    fn zero(chart: &Chart) -> f64 {
        chart.nodes.iter().find(|node| node.class == "chart-zero").unwrap().number("x1")
    }

    #[test]
    fn bars_start_at_zero_with_lengths_proportional_to_the_change() {
        let parts = [("attention", 20_000, 32_000), ("gemm", 50_000, 44_000), ("norm", 7, 7)];
        for width in [240, 360, 960] {
            let chart =
                diverging_bars(&[run("b", &parts), run("c", &[("gemm", 50_000, 47_000)])], "Change", &[], width);
            let zero = zero(&chart);
            let bars = bars(&chart);
            let lengths: Vec<f64> = bars.iter().map(|(_, left, right)| right - left).collect();
            assert_eq!(bars.iter().map(|bar| bar.0).collect::<Vec<_>>(), ["attention", "gemm", "gemm"]);
            assert!(
                (bars[0].1 - zero).abs() < 0.02 && (bars[1].2 - zero).abs() < 0.02 && (bars[2].2 - zero).abs() < 0.02
            );
            let (long, half, quarter) = (lengths[0], lengths[1], lengths[2]);
            assert!((long - half * 2.0).abs() < 0.1 && (long - quarter * 4.0).abs() < 0.1, "{lengths:?}");
        }
    }

    #[test]
    fn changes_have_a_sign_and_an_exact_tooltip() {
        let chart = diverging_bars(&[run("b", &[("gemm", 50_001, 44_000), ("norm", 1, 12_001)])], "Change", &[], 960);
        assert_eq!(chart.texts("delta-change"), ["-6.00 us", "+12.0 us"]);
        let titles: Vec<&str> =
            chart.nodes.iter().filter(|node| node.tag == "rect").map(|node| node.title.as_str()).collect();
        assert!(titles[0].contains("(-6,001 ns)") && titles[1].contains("(+12,000 ns)"), "{titles:?}");
    }

    #[test]
    fn texts_are_inside_the_chart() {
        let parts = [("a category with a very long name, longer than others", 0, i64::MAX), ("gemm", i64::MAX, 0)];
        for width in [240, 400, 1280] {
            let chart = diverging_bars(&[run(&"long".repeat(99), &parts)], "Change per step", &[], width);
            for node in chart.nodes.iter().filter(|node| node.tag == "text") {
                let wide = f64::from(glyphs::width(&node.text, TEXT)) / 100.0;
                let anchor =
                    node.attrs.iter().find(|(key, _)| *key == "text-anchor").map_or("start", |(_, v)| v.as_str());
                let (left, right) = match anchor {
                    "start" => (node.number("x"), node.number("x") + wide),
                    "end" => (node.number("x") - wide, node.number("x")),
                    _ => continue,
                };
                assert!(left >= -1.0 && right <= f64::from(width) * 1.12, "{width}: {} {left} {right}", node.text);
            }
        }
    }

    #[test]
    fn without_changes_there_is_a_note_and_no_axis() {
        let chart = diverging_bars(&[run("b", &[("gemm", 5, 5)])], "Change", &[], 960);
        assert!(!chart.nodes.iter().any(|node| node.tag == "line" || node.tag == "rect"));
        assert!(chart.nodes.iter().any(|node| node.text.contains("no category to show")));
        assert!(diverging_bars(&[], "Change", &[], 960).summary.contains("no runs"));
    }

    #[test]
    fn idle_time_has_the_name_that_it_has_on_the_page() {
        let chart = diverging_bars(&[run("B", &[("CPU (non-GPU)", 10, 4_000_010)])], "Change", &[], 960);
        assert!(chart.nodes.iter().any(|node| node.text == "GPU idle"));
        assert!(chart.summary.contains("GPU idle +4.00 ms"), "{}", chart.summary);
    }

    #[test]
    fn a_hidden_category_has_no_row() {
        let parts = [("attention", 20_000, 32_000), ("gemm", 50_000, 44_000)];
        let chart = diverging_bars(&[run("b", &parts)], "Change", &["attention"], 960);
        assert_eq!(bars(&chart).iter().map(|bar| bar.0).collect::<Vec<_>>(), ["gemm"]);
    }
}
