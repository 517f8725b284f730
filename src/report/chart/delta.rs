//! Diverging bars: what changed from a baseline, a row a category, less time to the left of zero and more to the right.

use super::axis::TimeAxis;
use super::backend::UNIT;
use super::bars::is_cpu;
use super::layout::{self, BOLD, EDGE, NARROW, SMALL, TEXT, TOP, hatch, word};
use super::{Chart, Node, glyphs};
use crate::report::format::{change, duration};
use crate::report::palette;
use plotters::coord::ranged1d::ValueFormatter;

/// The changes of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deltas {
    /// What the run is called.
    pub label: String,
    /// Its whole change in words: `+12.0 ms per step (+7.0 %)`.
    pub note: String,
    /// By category, in the order of the rows.
    pub parts: Vec<Delta>,
}

/// The change of one category.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delta {
    /// The category, as the legend names it.
    pub category: String,
    /// Its time in the baseline.
    pub baseline_ns: i64,
    /// Its time in the run.
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
/// Between a bar and the words beside it.
const GAP: i32 = 6 * UNIT;
/// Between two groups.
const GROUP_GAP: i32 = 10 * UNIT;

/// Draws a group of bars a run, all on one axis; categories in `hidden` and those that did not change have no row.
///
/// `what` names the axis: `Change per step`. `width` is in pixels, at least 240. Each bar carries its category as key and its
/// group in `data-row`; the tooltip holds the exact change.
///
/// ```
/// use gpuprism::report::chart::{Delta, Deltas, diverging_bars};
/// let part = |category: &str, baseline_ns, time_ns| Delta { category: category.into(), baseline_ns, time_ns };
/// let parts = vec![part("attention", 20_000_000, 32_000_000), part("gemm", 50_000_000, 45_000_000)];
/// let run = Deltas { label: "B".into(), note: "+7.00 ms".into(), parts };
/// let chart = diverging_bars(&[run], "Change", &[], 960);
/// assert_eq!(chart.summary, "Change by category: B, +7.00 ms: attention +12.0 ms, gemm -5.00 ms.");
/// ```
pub fn diverging_bars(groups: &[Deltas], what: &str, hidden: &[&str], width: u32) -> Chart {
    let is_shown = |part: &&Delta| part.ns() != 0 && !hidden.contains(&part.category.as_str());
    let rows: Vec<Vec<&Delta>> = groups.iter().map(|group| group.parts.iter().filter(is_shown).collect()).collect();
    let layout = Layout::new(&rows, width);
    let mut nodes = Vec::new();
    let mut top = TOP;
    for (at, (group, rows)) in groups.iter().zip(&rows).enumerate() {
        top = layout.group(group, rows, at, top, &mut nodes);
    }
    if rows.iter().any(|rows| !rows.is_empty()) {
        layout.axis(what, top - GROUP_GAP, &mut nodes);
        top += AXIS;
    }
    Chart {
        width: layout::whole(layout.width),
        height: layout::whole(top),
        summary: summary(groups, &rows, what),
        nodes,
    }
}

struct Layout {
    width: i32,
    /// Where the plot begins and ends.
    plot: (i32, i32),
    /// The times there: none above zero and none below it.
    range_ns: (i64, i64),
    /// Room for the names of categories beside the bars.
    names: i32,
    row: i32,
    narrow: bool,
}

impl Layout {
    fn new(groups: &[Vec<&Delta>], width: u32) -> Self {
        let width = layout::width(width);
        let narrow = width < NARROW;
        let parts = || groups.iter().flatten();
        let range_ns = parts().fold((0, 0), |(low, high): (i64, i64), part| (low.min(part.ns()), high.max(part.ns())));
        let longest = |texts: &mut dyn Iterator<Item = i64>| i32::try_from(texts.max().unwrap_or(0)).unwrap_or(width);
        let names = longest(&mut parts().map(|part| wide(&part.category))).min(width * 28 / 100);
        let beside = |is_there: fn(i64) -> bool| {
            let told = longest(&mut parts().filter(|part| is_there(part.ns())).map(|part| wide(&change(part.ns()))));
            if told > 0 { told + GAP } else { 0 }
        };
        if narrow {
            Self { width, plot: (EDGE, width - EDGE), range_ns, names: 0, row: 40 * UNIT, narrow }
        } else {
            let (left, right) = (beside(|ns| ns < 0), beside(|ns| ns > 0));
            let plot = (names + 2 * EDGE + left, width - EDGE - right);
            Self { width, plot, range_ns, names, row: 24 * UNIT, narrow }
        }
    }

    /// The heading and the bars of one run; gives where the next begins.
    fn group(&self, group: &Deltas, rows: &[&Delta], at: usize, top: i32, nodes: &mut Vec<Node>) -> i32 {
        self.heading(group, rows.is_empty(), top, nodes);
        let first = top.saturating_add(if self.narrow { 40 * UNIT } else { 26 * UNIT });
        let count = i32::try_from(rows.len()).unwrap_or(0);
        let bottom = first.saturating_add(count.saturating_mul(self.row));
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
            self.row(part, at, first.saturating_add(row.saturating_mul(self.row)), nodes);
        }
        bottom.saturating_add(GROUP_GAP)
    }

    /// Where a change ends.
    fn x(&self, ns: i64) -> i32 {
        let ((from, to), (low, high)) = (self.plot, self.range_ns);
        let span = (i128::from(high) - i128::from(low)).max(1);
        let along = (i128::from(ns) - i128::from(low)) * i128::from(to - from);
        i32::try_from(i128::from(from) + (along * 2 + span) / (span * 2)).unwrap_or(to)
    }

    /// An axis as long as the plot, from whose ticks those of the plot follow.
    fn time(&self) -> TimeAxis {
        let (low, high) = self.range_ns;
        let most = i64::from((self.plot.1 - self.plot.0) / (80 * UNIT)).clamp(2, 8);
        TimeAxis::new(high.saturating_sub(low), most)
    }

    /// Round times from zero to either side.
    fn ticks(&self, time: &TimeAxis) -> Vec<i64> {
        let ((low, high), sizes) = (self.range_ns, time.ticks());
        let below = sizes.iter().skip(1).rev().map(|tick| tick.saturating_neg()).filter(|tick| *tick >= low);
        below.chain(sizes.iter().copied().filter(|tick| *tick <= high)).collect()
    }

    fn axis(&self, what: &str, bottom: i32, nodes: &mut Vec<Node>) {
        let ((low, high), (left, right)) = (self.range_ns, self.plot);
        let time = self.time();
        for tick in self.ticks(&time) {
            let size = time.format_ext(&tick.saturating_abs());
            let told = match tick {
                ..0 => format!("-{size}"),
                0 => "0".to_owned(),
                1.. => format!("+{size}"),
            };
            let half = i32::try_from(glyphs::width(&told, i64::from(SMALL)) / 2).unwrap_or(0);
            let x = self.x(tick).clamp(half.min(self.width / 2), (self.width - half).max(self.width / 2));
            nodes.push(word(&told, "chart-tick", (x, bottom + 14 * UNIT), SMALL, "middle"));
        }
        let baseline = bottom + 32 * UNIT;
        let name = format!("{what} ({})", time.unit().name());
        nodes.push(word(&name, "chart-axis", (left + (right - left) / 2, baseline), SMALL, "middle"));
        if low < 0 {
            nodes.push(word("\u{2190} less time", "chart-axis", (left, baseline), SMALL, "start"));
        }
        if high > 0 {
            nodes.push(word("more time \u{2192}", "chart-axis", (right, baseline), SMALL, "end"));
        }
    }

    /// The run and its whole change: beside each other, or one above the other where it is narrow.
    fn heading(&self, group: &Deltas, is_empty: bool, top: i32, nodes: &mut Vec<Node>) {
        let nothing = if is_empty { "; no category to show" } else { "" };
        let note = format!("{}{nothing}", group.note);
        let bold = i64::from(BOLD);
        let note_wide = i32::try_from(glyphs::width(&note, i64::from(SMALL))).unwrap_or(self.width).min(self.width / 2);
        let room = if self.narrow { self.width - 2 * EDGE } else { self.width - note_wide - 3 * EDGE };
        let left = if self.narrow { EDGE } else { 0 };
        let label = glyphs::shorten(&group.label, bold, i64::from(room));
        let label_wide = i32::try_from(glyphs::width(&label, bold)).unwrap_or(0);
        let title = if label == group.label { String::new() } else { group.label.clone() };
        nodes.push(Node { title, ..word(&label, "chart-label", (left, top + 15 * UNIT), TEXT, "start") });
        let at = if self.narrow { (left, top + 31 * UNIT) } else { (label_wide + 2 * EDGE, top + 15 * UNIT) };
        nodes.push(word(&note, "chart-note", at, SMALL, "start"));
    }

    fn row(&self, part: &Delta, group: usize, top: i32, nodes: &mut Vec<Node>) {
        let (zero, end) = (self.x(0), self.x(part.ns()));
        let (left, right) = (zero.min(end), zero.max(end));
        let bar_top = if self.narrow { top + 18 * UNIT } else { top + 4 * UNIT };
        let baseline = if self.narrow { top + 13 * UNIT } else { layout::baseline(bar_top + BAR / 2, TEXT) };
        let of_category = |tag: &'static str, class: &str, mut attrs: Vec<(&'static str, String)>| {
            attrs.push(("data-row", group.to_string()));
            let class = format!("{class} {}", palette::class(&part.category));
            Node { tag, attrs, class, key: part.category.clone(), ..Node::default() }
        };
        let place = layout::rect((left, bar_top), (right - left, BAR));
        nodes.push(Node { title: tooltip(part), ..of_category("rect", "seg", place) });
        if is_cpu(&part.category) {
            let strokes = hatch((left, bar_top), (right, bar_top + BAR));
            nodes.push(of_category("path", "hatch", vec![("d", strokes)]));
        }
        let room = if self.narrow { self.width * 6 / 10 } else { self.names };
        let name = glyphs::shorten(&part.category, i64::from(TEXT), i64::from(room));
        let at = if self.narrow { EDGE } else { 0 };
        nodes.push(Node { title: tooltip(part), ..word(&name, "delta-name", (at, baseline), TEXT, "start") });
        let (x, aligned) = match (self.narrow, part.ns() < 0) {
            (true, _) => (self.width - EDGE, "end"),
            (false, true) => (left - GAP, "end"),
            (false, false) => (right + GAP, "start"),
        };
        nodes.push(word(&change(part.ns()), "delta-change", (x, baseline), TEXT, aligned));
    }
}

fn wide(text: &str) -> i64 {
    glyphs::width(text, i64::from(TEXT))
}

fn tooltip(part: &Delta) -> String {
    let Delta { category, baseline_ns, time_ns } = part;
    let (delta, sign) = (part.ns(), if part.ns() > 0 { "+" } else { "" });
    format!(
        "{category}: {} ({sign}{delta} ns): {} instead of {} ({time_ns} ns, {baseline_ns} ns)",
        change(delta),
        duration(*time_ns),
        duration(*baseline_ns)
    )
}

fn summary(groups: &[Deltas], rows: &[Vec<&Delta>], what: &str) -> String {
    const PARTS: usize = 4;
    let told = groups.iter().zip(rows).map(|(group, rows)| {
        let mut words: Vec<String> =
            rows.iter().take(PARTS).map(|part| format!("{} {}", part.category, change(part.ns()))).collect();
        if let Some(more) = rows.len().checked_sub(PARTS).filter(|more| *more > 0) {
            words.push(format!("{more} more"));
        }
        let words = if words.is_empty() { "no category".to_owned() } else { words.join(", ") };
        format!("{}, {}: {words}", group.label, group.note)
    });
    let told: Vec<String> = told.collect();
    if told.is_empty() {
        format!("{what} by category: no runs.")
    } else {
        format!("{what} by category: {}.", told.join("; "))
    }
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

    fn number(node: &Node, name: &str) -> f64 {
        node.attrs.iter().find(|(key, _)| *key == name).unwrap().1.parse().unwrap()
    }

    /// Left and right end of each bar, by category.
    fn bars(chart: &Chart) -> Vec<(&str, f64, f64)> {
        let rects = chart.nodes.iter().filter(|node| node.tag == "rect");
        rects.map(|n| (n.key.as_str(), number(n, "x"), number(n, "x") + number(n, "width"))).collect()
    }

    fn zero(chart: &Chart) -> f64 {
        number(chart.nodes.iter().find(|node| node.class == "chart-zero").unwrap(), "x1")
    }

    #[test]
    fn bars_begin_at_zero_and_are_as_long_as_their_change_on_either_side_in_every_group() {
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
    fn every_change_is_written_with_its_sign_and_the_tooltip_has_it_exactly() {
        let chart = diverging_bars(&[run("b", &[("gemm", 50_001, 44_000), ("norm", 1, 12_001)])], "Change", &[], 960);
        let told: Vec<&str> =
            chart.nodes.iter().filter(|node| node.class == "delta-change").map(|node| node.text.as_str()).collect();
        assert_eq!(told, ["-6.00 us", "+12.0 us"]);
        let titles: Vec<&str> =
            chart.nodes.iter().filter(|node| node.tag == "rect").map(|node| node.title.as_str()).collect();
        assert!(titles[0].contains("(-6001 ns)") && titles[1].contains("(+12000 ns)"), "{titles:?}");
    }

    #[test]
    fn words_stay_inside_of_the_drawing() {
        let parts = [("a category of a very long name indeed, so it is", 0, i64::MAX), ("gemm", i64::MAX, 0)];
        for width in [240, 400, 1280] {
            let chart = diverging_bars(&[run(&"long".repeat(99), &parts)], "Change per step", &[], width);
            for node in chart.nodes.iter().filter(|node| node.tag == "text") {
                let wide = glyphs::width(&node.text, i64::from(TEXT)) as f64 / 100.0;
                let anchor =
                    node.attrs.iter().find(|(key, _)| *key == "text-anchor").map_or("start", |(_, v)| v.as_str());
                let (left, right) = match anchor {
                    "start" => (number(node, "x"), number(node, "x") + wide),
                    "end" => (number(node, "x") - wide, number(node, "x")),
                    _ => continue,
                };
                assert!(left >= -1.0 && right <= f64::from(width) * 1.12, "{width}: {} {left} {right}", node.text);
            }
        }
    }

    #[test]
    fn without_changes_there_is_no_axis_and_it_is_said() {
        let chart = diverging_bars(&[run("b", &[("gemm", 5, 5)])], "Change", &[], 960);
        assert!(!chart.nodes.iter().any(|node| node.tag == "line" || node.tag == "rect"));
        assert!(chart.nodes.iter().any(|node| node.text.contains("no category to show")));
        assert!(diverging_bars(&[], "Change", &[], 960).summary.contains("no runs"));
    }

    #[test]
    fn a_hidden_category_has_no_row() {
        let parts = [("attention", 20_000, 32_000), ("gemm", 50_000, 44_000)];
        let chart = diverging_bars(&[run("b", &parts)], "Change", &["attention"], 960);
        assert_eq!(bars(&chart).iter().map(|bar| bar.0).collect::<Vec<_>>(), ["gemm"]);
    }
}
