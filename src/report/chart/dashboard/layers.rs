//! Panel: the layer as a drawing, one bar per kind of layer with a segment per role in order of execution.

use super::super::layout::{self, AXIS, BOLD, EDGE, NARROW, SMALL, TEXT, TOP, UNIT, baseline, short_text};
use super::super::{first_few, glyphs};
use super::plot::{Mark, Plot, Scale, Shape};
use super::{FAINT, PanelResult, View};
use crate::analysis::dashboard::{LayerBar, LayerSegment, layer_bars, layer_stage};
use crate::analysis::structure::stages::Stage;
use crate::report::format::{counted, duration, percent};
use crate::report::palette;

const ROW: i32 = 44 * UNIT;
const BAR: i32 = 30 * UNIT;
/// The gap between a segment and the line of its floor.
const FLOOR_GAP: i32 = 3 * UNIT;
/// The gap between segments, so that neighbours of one colour stay apart.
const GAP_NS_PER_PLOT: f64 = 0.0015;

pub(super) fn draw(view: &View) -> PanelResult {
    view.section("layers")?;
    let roles = view.section("layer_roles")?;
    let bars = layer_bars(view.run);
    let longest_ns = bars.iter().map(total_ns).fold(0.0, f64::max);
    let (plot, names) = plot(&bars, longest_ns, view.options.width);
    let mut marks = Vec::new();
    for (row, bar) in (0..).zip(&bars) {
        draw_bar(view, bar, row, longest_ns, &plot, &mut marks);
    }
    let mut nodes = plot.draw(marks);
    for (row, bar) in (0..).zip(&bars) {
        let top = TOP + ROW * row;
        let (label, note) = (label(bar, bars.len() > 1), duration((bar.us * 1e3).round() as i64));
        let shown = glyphs::shorten(&label, BOLD, names);
        nodes.push(short_text(&label, &shown, "chart-label", (0, baseline(top + ROW * 3 / 8, TEXT)), TEXT, "start"));
        nodes.push(layout::text(&note, "chart-note", (0, baseline(top + ROW * 3 / 4, SMALL)), SMALL, "start"));
    }
    let summary: Vec<String> = bars.iter().map(|bar| summary(bar, bars.len() > 1)).collect();
    let in_stage = match layer_stage(view.run) {
        None | Some(Stage::All) => String::new(),
        Some(stage) => format!(" of {}", stage.label()),
    };
    let note = format!(
        "One layer{in_stage}: each part is a role of kernels, in order of its first kernel; its length is the median of their time in \
         one layer. Kernels that overlap are drawn one after the other. Hatched: idle time between kernels.{}{}",
        if bars.iter().any(has_floor) {
            " Line under a part: its floor, the least time at the limit of the GPU."
        } else {
            ""
        },
        if roles.limits.is_empty() { "" } else { " Roles are inferred from names and order of kernels." }
    );
    Ok((note, plot.chart(format!("{}.", summary.join("; ")), nodes)))
}

fn has_floor(bar: &LayerBar) -> bool {
    bar.segments.iter().any(|segment| segment.floor_us.is_some())
}

/// The sum of the parts, which is close to the median of their sums.
fn total_ns(bar: &LayerBar) -> f64 {
    bar.segments.iter().map(|segment| segment.us * 1e3).sum()
}

/// `48 layers`, or `A, 12 layers` if there are several kinds.
fn label(bar: &LayerBar, has_kinds: bool) -> String {
    let layers = counted(&bar.count.to_string(), "layer", "layers");
    if has_kinds { format!("{}, {layers}", bar.kind) } else { layers }
}

/// The plot, and the width of the names of the rows.
fn plot(bars: &[LayerBar], longest_ns: f64, width: u32) -> (Plot, i32) {
    let width = layout::width(width);
    let max_width = if width < NARROW { width * 30 / 100 } else { width * 20 / 100 };
    let labels = bars.iter().map(|bar| glyphs::width(&label(bar, bars.len() > 1), BOLD));
    let names = labels.max().unwrap_or(0).max(48 * UNIT).min(max_width);
    let height = ROW * i32::try_from(bars.len()).unwrap_or(1);
    let left = names + EDGE;
    let x = Scale::time(longest_ns, ((width - left - 28 * UNIT) / (76 * UNIT)).clamp(2, 12));
    let x_name = format!("Time in one layer ({})", x.unit());
    let plot = Plot {
        width,
        height: TOP + height + AXIS,
        left,
        right: 28 * UNIT,
        top: TOP,
        x,
        y: Scale::Rows(height),
        x_name,
        y_name: String::new(),
    };
    (plot, names)
}

fn draw_bar(view: &View, bar: &LayerBar, row: i32, longest_ns: f64, plot: &Plot, marks: &mut Vec<Mark>) {
    let whole_ns = total_ns(bar);
    let top = f64::from(ROW * row + (ROW - BAR) / 2);
    let mut from = 0.0;
    for segment in &bar.segments {
        let to = from + segment.us * 1e3;
        let gap = (longest_ns * GAP_NS_PER_PLOT).min((to - from) / 4.0);
        let points = vec![(from, top), (to - gap, top)];
        let is_hidden = view.is_kind_hidden(segment.category);
        let class = palette::class(segment.category);
        let faint = if is_hidden { FAINT } else { "" };
        marks.push(Mark::new(
            Shape::Bar(BAR),
            points.clone(),
            &format!("seg {class}{faint}"),
            &title(segment, whole_ns),
        ));
        if segment.is_idle {
            marks.push(Mark::new(Shape::Hatch(BAR), points.clone(), &format!("hatch {class}{faint}"), ""));
        }
        let start = std::mem::replace(&mut from, to);
        // A hidden part has neither label nor floor.
        if is_hidden {
            continue;
        }
        marks.extend(segment_label(segment, &class, &points, plot));
        marks.extend(segment.floor_us.map(|floor| {
            let under = top + f64::from(BAR + FLOOR_GAP);
            Mark::new(
                Shape::Path,
                vec![(start, under), (start + floor * 1e3, under)],
                "dash-roof",
                &floor_words(segment, floor),
            )
        }));
    }
}

/// `gate/up (gate_up): 62.1 us in a layer, 31.4 %, 1 kernel`.
fn title(segment: &LayerSegment, whole_ns: f64) -> String {
    let name = if segment.words == segment.role {
        segment.role.clone()
    } else {
        format!("{} ({})", segment.words, segment.role)
    };
    let time = duration((segment.us * 1e3).round() as i64);
    let share = percent(segment.us * 1e3 / whole_ns.max(1.0));
    let kernels = match segment.kernels {
        0 => String::new(),
        count => format!(", {}", counted(&count.to_string(), "kernel", "kernels")),
    };
    format!("{name}: {time} in a layer, {share}{kernels}")
}

/// `floor of gate/up: 40.1 us, 64.6 % of its time`.
fn floor_words(segment: &LayerSegment, floor_us: f64) -> String {
    let time = duration((floor_us * 1e3).round() as i64);
    format!("floor of {}: {time}, {} of its time", segment.words, percent(floor_us / segment.us))
}

/// The longest label that fits: words and time, the time without its unit, or only words.
fn segment_label(segment: &LayerSegment, class: &str, points: &[(f64, f64)], plot: &Plot) -> Option<Mark> {
    let (from, to) = (points.first()?, points.last()?);
    let x = |value: f64| plot.x.position(value, (0, plot.inner_width()));
    let width = x(to.0) - x(from.0);
    let time = duration((segment.us * 1e3).round() as i64);
    let number = time.split(' ').next().unwrap_or_default();
    let labels = [format!("{} {time}", segment.words), format!("{} {number}", segment.words), segment.words.clone()];
    let text = labels.into_iter().find(|text| glyphs::width(text, SMALL) <= width - 6 * UNIT)?;
    let shape = Shape::Text { offset: (width / 2, baseline(BAR / 2, SMALL)), size: SMALL, anchor: "middle" };
    Some(Mark::new(shape, vec![*from], &format!("seg-label {class}"), "").with_text(text))
}

fn summary(bar: &LayerBar, has_kinds: bool) -> String {
    let time = |segment: &LayerSegment| duration((segment.us * 1e3).round() as i64);
    let parts: Vec<String> =
        bar.segments.iter().map(|segment| format!("{} {}", segment.words, time(segment))).collect();
    format!("{} of {}: {}", label(bar, has_kinds), duration((bar.us * 1e3).round() as i64), first_few(&parts, ", "))
}
