//! Panel: the steps over time. The height of a column is the length of the step, with its busy and host-late parts. A column has
//! its window in `data-window`.

use super::super::axis::Unit;
use super::super::layout::{self, SMALL, UNIT};
use super::plot::{Mark, Plot, Scale, Shape, gap_class};
use super::{PanelResult, View, no_data};
use crate::analysis::dashboard::{StepColumn, floors, step_columns};
use crate::digits::grouped;
use crate::report::format::{counted, duration};
use crate::report::palette;

const HEIGHT: i32 = 170 * UNIT;
const RING: i32 = 3 * UNIT;
/// The number of steps that are drawn.
const MAX_STEPS: usize = 1_000;

pub(super) fn draw(view: &View) -> PanelResult {
    let section = view.section("step_list")?;
    let (mut steps, on_others) = step_columns(section);
    if steps.len() < 2 {
        return Err(no_data("A chart over time needs at least two steps."));
    }
    let left_out = steps.len().saturating_sub(MAX_STEPS);
    steps.truncate(MAX_STEPS);
    let mut stages: Vec<&str> = Vec::new();
    for step in &steps {
        if !stages.contains(&step.row.text("stage")) {
            stages.push(step.row.text("stage"));
        }
    }
    let floors: Vec<(&str, f64)> = floors(view.run).into_iter().filter(|(stage, _)| stages.contains(stage)).collect();
    let plot = plot(&steps, view.options.width);
    let mut marks: Vec<Mark> = steps.iter().flat_map(|step| column(step, &plot)).collect();
    let last = steps.iter().map(end).fold(0.0, f64::max);
    marks.extend(floors.iter().flat_map(|(stage, ms)| floor(stage, ms * 1e6, last)));
    marks.extend(steps.iter().map(target));
    let nodes = plot.draw(marks);
    let slow = steps.iter().filter(|step| step.is_slow).count();
    let summary = format!(
        "{} of {}{}.",
        counted(&grouped(steps.len() as u64), "step", "steps"),
        stages.join(", "),
        if slow > 0 { format!(", {} much longer than the median", grouped(slow as u64)) } else { String::new() }
    );
    Ok((note(&stages, !floors.is_empty(), left_out, on_others), plot.chart(summary, nodes)))
}

fn note(stages: &[&str], has_floors: bool, left_out: usize, on_others: usize) -> String {
    let mut note = "The height of a column is the length of a step. Filled: the GPU is busy. Hatched: it waits because the host is \
                    late. Ring: more than 20 % longer than the median of its stage."
        .to_owned();
    if stages.len() > 1 {
        note += &format!(" The colour is the stage: {}.", stages.join(", "));
    }
    if has_floors {
        note += " Line: the floor of a step.";
    }
    if left_out > 0 {
        note +=
            &format!(" The first {} steps are drawn, {} more are in the table.", MAX_STEPS, grouped(left_out as u64));
    }
    if on_others > 0 {
        note +=
            &format!(" {} on other devices are in the table.", counted(&grouped(on_others as u64), "step", "steps"));
    }
    note
}

fn end(step: &StepColumn) -> f64 {
    step.end_ns as f64
}

fn plot(steps: &[StepColumn], width: u32) -> Plot {
    let longest = steps.iter().map(|step| step.duration_ns as f64).fold(0.0, f64::max);
    let y = Scale::time(longest * 1.08, 4);
    let y_name = format!("Length of a step ({})", y.unit());
    let width = layout::width(width);
    let last = steps.iter().map(end).fold(0.0, f64::max);
    let x = Scale::time(last, ((width - 76 * UNIT) / (78 * UNIT)).clamp(2, 12));
    let x_name = format!("Time from the first GPU op ({})", x.unit());
    Plot { width, height: HEIGHT + 40 * UNIT, left: 48 * UNIT, right: 28 * UNIT, top: 22 * UNIT, x, y, x_name, y_name }
}

/// The parts of a step: its whole length, the busy part, and the part in which the host is late.
fn column(step: &StepColumn, plot: &Plot) -> Vec<Mark> {
    let class = palette::class(step.row.text("stage"));
    let from = step.start_ns as f64;
    let part = |low: i64, high: i64| vec![(from, high as f64), (end(step), low as f64)];
    let busy = step.busy_ns;
    let late = busy.saturating_add(step.host_late_ns).min(step.duration_ns);
    let position = |ns: f64| plot.x.position(ns, (0, plot.inner_width()));
    let gap = gap_class(position(end(step)) - position(from));
    let mut marks = vec![Mark::new(Shape::Box, part(0, step.duration_ns), &format!("strip-idle{gap}"), "")];
    marks.push(Mark::new(Shape::Box, part(0, busy), &format!("seg {class}{gap}"), ""));
    if late > busy {
        marks.push(Mark::new(
            Shape::HatchBox,
            part(busy, late),
            &format!("hatch {}", palette::class(crate::analysis::CPU)),
            "",
        ));
    }
    if step.is_slow {
        let top = vec![((from + end(step)) / 2.0, step.duration_ns as f64)];
        marks.push(Mark::new(Shape::Dot(RING), top, "dash-hollow dash-ring", ""));
    }
    marks
}

/// The shape over a step that has its tooltip and its window.
fn target(step: &StepColumn) -> Mark {
    let corners = vec![(step.start_ns as f64, step.duration_ns as f64), (end(step), 0.0)];
    let mut mark = Mark::new(Shape::Box, corners, "dash-hover", &title(step));
    mark.node.attrs.push(("data-window", window(step)));
    mark
}

fn title(step: &StepColumn) -> String {
    let row = step.row;
    let count = |key: &str, words: &str| match row.number(key) {
        Some(count) if count > 0.0 => format!(", {words} {}", grouped(count as u64)),
        _ => String::new(),
    };
    format!(
        "step {} ({}): {}, busy {}, host late {}{}{}{}",
        row.words("step"),
        row.text("stage"),
        duration(step.duration_ns),
        duration(step.busy_ns),
        duration(step.host_late_ns),
        count("batch", "batch"),
        count("tokens", "tokens"),
        count("kernels", "kernels"),
    )
}

/// The window of a step as the page takes it: seconds from the first GPU op.
fn window(step: &StepColumn) -> String {
    let seconds = |ns: i64| Unit::of(1_000_000_000).number(ns, 1);
    format!("{}-{}", seconds(step.start_ns), seconds(step.end_ns))
}

/// A line at the floor of a stage, with its name.
fn floor(stage: &str, ns: f64, last: f64) -> [Mark; 2] {
    let words = format!("floor of {stage}: {}", duration(ns.round() as i64));
    let shape = Shape::Text { offset: (-4 * UNIT, -4 * UNIT), size: SMALL, anchor: "end" };
    [
        Mark::new(Shape::Path, vec![(0.0, ns), (last, ns)], "dash-roof", &words),
        Mark::new(shape, vec![(last, ns)], "chart-note dash-halo", "").with_text(words.clone()),
    ]
}
