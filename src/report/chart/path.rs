//! The critical path as one horizontal bar a run, all on one scale. GPU work has the colours of its categories; time of the host and waits
//! are hatched. Under the bar are the sums of its groups.

use super::layout::{self, EDGE, SMALL, TEXT, UNIT, hatch, line, short_text, text};
use super::{Chart, Node, first_few, glyphs};
use crate::digits::grouped_text;
use crate::report::format::duration;

/// The bar of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct PathBar {
    /// The label of the run; empty if it is the only one.
    pub label: String,
    /// In their order.
    pub groups: Vec<PathGroupBar>,
}

/// Parts of one kind, which follow each other: `GPU work`.
#[derive(Debug, Clone, PartialEq)]
pub struct PathGroupBar {
    /// What they have in common.
    pub title: String,
    /// Their time.
    pub time_ns: i64,
    /// In their order.
    pub parts: Vec<PathPart>,
}

/// A part of the path.
#[derive(Debug, Clone, PartialEq)]
pub struct PathPart {
    /// A category, a function, or the kind of a wait.
    pub name: String,
    /// What is in it, for the tooltip; may be empty.
    pub details: String,
    /// Negative times count as zero.
    pub time_ns: i64,
    /// The class of its colour.
    pub class: String,
    /// Work of the GPU is filled, anything else hatched.
    pub is_gpu_work: bool,
}

const BAR: i32 = 26 * UNIT;
/// Less room than this has no name.
const MIN_LABEL: i32 = 44 * UNIT;
/// A shorter group has no label: the tooltips of its parts name it.
const MIN_GROUP: i32 = 6 * UNIT;
const GROUP: i32 = 20 * UNIT;
/// The key of all parts: a click leads to the table.
const KEY: &str = "critical_path";

/// Draws the bars; `width` is in pixels, at least 240.
pub fn path_bars(bars: &[PathBar], width: u32) -> Chart {
    let width = layout::width(width);
    let widest = bars.iter().map(|bar| glyphs::width(&bar.label, layout::BOLD)).max().unwrap_or(0);
    let left = if widest == 0 { UNIT } else { widest.min(width / 4) + EDGE };
    let longest: i64 = bars.iter().map(PathBar::time).max().unwrap_or(0).max(1);
    let (row, right) = (BAR + GROUP, width - UNIT);
    let x =
        |ns: i64| left + i32::try_from(i128::from(right - left) * i128::from(ns) / i128::from(longest)).unwrap_or(0);
    let mut nodes = Vec::new();
    for (index, bar) in (0_i32..).zip(bars) {
        let top = index * row;
        if !bar.label.is_empty() {
            let shown = glyphs::shorten(&bar.label, layout::BOLD, left - EDGE);
            let position = (0, layout::baseline(top + BAR / 2, TEXT));
            nodes.push(short_text(&bar.label, &shown, "chart-label", position, TEXT, "start"));
        }
        let (mut from, mut label_end) = (0_i64, left);
        for group in &bar.groups {
            let start = x(from);
            for part in &group.parts {
                let to = from.saturating_add(part.time_ns.max(0));
                draw_part(part, &group.title, (x(from), x(to)), top, &mut nodes);
                from = to;
            }
            label_end = draw_group(group, (start, x(from)), (label_end, right), top + BAR, &mut nodes);
        }
    }
    let rows = i32::try_from(bars.len()).unwrap_or(1).max(1);
    layout::chart(width, rows * row, summary(bars), nodes)
}

impl PathBar {
    fn time(&self) -> i64 {
        self.groups.iter().map(PathGroupBar::length).fold(0, i64::saturating_add)
    }
}

impl PathGroupBar {
    fn length(&self) -> i64 {
        self.parts.iter().fold(0, |sum: i64, part| sum.saturating_add(part.time_ns.max(0)))
    }
}

fn draw_part(part: &PathPart, group: &str, (left, right): (i32, i32), top: i32, nodes: &mut Vec<Node>) {
    if right <= left {
        return;
    }
    let width = if right - left > 4 * UNIT { right - left - UNIT } else { right - left };
    let exact = grouped_text(&part.time_ns.to_string());
    let details = if part.details.is_empty() { String::new() } else { format!("\n{}", part.details) };
    let title = format!("{}: {} ({exact} ns), {group}{details}", part.name, duration(part.time_ns));
    let node = |tag, class: &str, attrs| Node {
        tag,
        attrs,
        class: format!("{class} {}", part.class),
        key: KEY.to_owned(),
        ..Node::default()
    };
    nodes.push(Node { title, ..node("rect", "seg", layout::rect((left, top), (width, BAR))) });
    if !part.is_gpu_work {
        nodes.push(node("path", "hatch", vec![("d", hatch((left, top), (left + width, top + BAR)))]));
    }
    let time = duration(part.time_ns);
    let room = width - 8 * UNIT;
    let short = if room > MIN_LABEL { glyphs::shorten(&part.name, TEXT, room) } else { String::new() };
    // With less than two thirds of it a name is not recognised.
    let short = if 3 * short.chars().count() < 2 * part.name.chars().count() { String::new() } else { short };
    let labels = [format!("{} {time}", part.name), part.name.clone(), short];
    if let Some(label) = labels.into_iter().find(|label| glyphs::width(label, TEXT) <= room && !label.is_empty()) {
        let position = (left + width / 2, layout::baseline(top + BAR / 2, TEXT));
        // On a hatching a text needs a ground of its own.
        if !part.is_gpu_work {
            let ground = glyphs::width(&label, TEXT) + 4 * UNIT;
            let ground = layout::rect((left + (width - ground) / 2, top + 4 * UNIT), (ground, BAR - 8 * UNIT));
            nodes.push(node("rect", "seg path-ground", ground));
        }
        let attrs = text(&label, "", position, TEXT, "middle").attrs;
        nodes.push(Node { text: label, ..node("text", "seg-label", attrs) });
    }
}

/// A line under the parts of a group, with its sum if there is room right of the label before. Returns the end of its label.
fn draw_group(
    group: &PathGroupBar,
    (left, right): (i32, i32),
    (label_end, edge): (i32, i32),
    top: i32,
    nodes: &mut Vec<Node>,
) -> i32 {
    if right <= left {
        return label_end;
    }
    let y = top + 3 * UNIT;
    nodes.push(line("chart-grid", (left, y), ((right - UNIT).max(left + UNIT), y)));
    if right - left < MIN_GROUP {
        return label_end;
    }
    let label = format!("{} {}", group.title, duration(group.time_ns));
    let wide = glyphs::width(&label, SMALL);
    let start = left.max(label_end).min(edge - wide);
    if start < label_end {
        return label_end;
    }
    nodes.push(text(&label, "chart-note", (start, top + 15 * UNIT), SMALL, "start"));
    start + wide + 10 * UNIT
}

fn summary(bars: &[PathBar]) -> String {
    let of_bar = |bar: &PathBar| {
        let groups = bar.groups.iter().map(|group| {
            let parts: Vec<String> =
                group.parts.iter().map(|part| format!("{} {}", part.name, duration(part.time_ns))).collect();
            format!("{} {} ({})", group.title, duration(group.time_ns), first_few(&parts, ", "))
        });
        let label = if bar.label.is_empty() { String::new() } else { format!("{}: ", bar.label) };
        format!("{label}{}", groups.collect::<Vec<_>>().join("; "))
    };
    format!("Critical path: {}.", bars.iter().map(of_bar).collect::<Vec<_>>().join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, time_ns: i64, is_gpu_work: bool) -> PathPart {
        PathPart { name: name.into(), details: String::new(), time_ns, class: "cat-gemm".into(), is_gpu_work }
    }

    fn bar(label: &str, scale: i64) -> PathBar {
        let gpu = vec![part("gemm", 6_000_000 * scale, true), part("norm", 1_000_000 * scale, true)];
        let host = vec![part("_prepare_inputs", 3_000_000 * scale, false)];
        let group = |title: &str, parts: Vec<PathPart>| PathGroupBar {
            title: title.into(),
            time_ns: parts.iter().map(|part| part.time_ns).sum(),
            parts,
        };
        PathBar { label: label.into(), groups: vec![group("GPU work", gpu), group("host", host)] }
    }

    #[test]
    fn parts_are_as_long_as_their_time_and_labelled_where_they_fit() {
        let chart = path_bars(&[bar("", 1)], 1000);
        let rects: Vec<f64> =
            chart.nodes.iter().filter(|node| node.class == "seg cat-gemm").map(|node| node.number("width")).collect();
        assert!((rects[0] / rects[2] - 2.0).abs() < 0.01, "{rects:?}");
        let labels: Vec<&str> = chart.texts("seg-label cat-gemm");
        assert_eq!(labels, ["gemm 6.00 ms", "norm 1.00 ms", "_prepare_inputs 3.00 ms"]);
        assert_eq!(chart.texts("chart-note"), ["GPU work 7.00 ms", "host 3.00 ms"]);
        assert_eq!(chart.nodes.iter().filter(|node| node.class.starts_with("hatch")).count(), 1);
        assert_eq!(
            chart.summary,
            "Critical path: GPU work 7.00 ms (gemm 6.00 ms, norm 1.00 ms); host 3.00 ms (_prepare_inputs 3.00 ms)."
        );
    }

    #[test]
    fn bars_of_several_runs_have_one_scale() {
        let chart = path_bars(&[bar("before", 2), bar("after", 1)], 1000);
        let rects: Vec<f64> =
            chart.nodes.iter().filter(|node| node.class == "seg cat-gemm").map(|node| node.number("width")).collect();
        assert!((rects[0] / rects[3] - 2.0).abs() < 0.02, "{rects:?}");
        assert_eq!(chart.texts("chart-label"), ["before", "after"]);
    }

    #[test]
    fn odd_times_give_a_chart() {
        let odd = PathBar {
            label: "o".repeat(500),
            groups: vec![PathGroupBar {
                title: "</svg>".into(),
                time_ns: i64::MAX,
                parts: vec![part("x", i64::MAX, false), part("y", i64::MIN, true), part("z", i64::MAX, true)],
            }],
        };
        for width in [0, 390, u32::MAX] {
            path_bars(&[odd.clone(), odd.clone()], width).to_svg();
        }
        assert_eq!(path_bars(&[], 500).summary, "Critical path: .");
    }
}
