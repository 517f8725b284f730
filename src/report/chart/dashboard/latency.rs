//! How long kernels wait for their start after the call that launched them, with percentiles.

use super::super::backend::UNIT;
use super::super::layout::{self, SMALL};
use super::super::{Chart, Node};
use super::plot::{AXIS, Mark, Plot, Scale, Shape, wide};
use super::{Drawn, Time, View, WORK, exact, time};
use crate::analysis::dashboard::number;
use crate::analysis::results::Run;
use crate::analysis::section::Record;
use crate::digits::grouped;
use crate::report::format;
use plotters::coord::ranged1d::Ranged;

const HEIGHT: i32 = 260 * UNIT;
const LINE: i32 = 15 * UNIT;
const PERCENTILES: [(&str, &str, &str); 3] = [
    ("p50", "p50_us", "without_communication_p50_us"),
    ("p95", "p95_us", "without_communication_p95_us"),
    ("p99", "p99_us", "without_communication_p99_us"),
];

pub(super) fn draw(view: &View) -> Drawn {
    let section = view.section("launch_latency_histogram")?;
    let without = !view.options.communication;
    let bins: Vec<Bin> = section.rows.iter().filter_map(|row| Bin::of(row, without)).collect();
    if bins.iter().all(|bin| bin.count <= 0.0) {
        return Err(("No launch is left to show.".to_owned(), String::new()));
    }
    let percentiles = percentiles_of(view.run, without);
    let base = view.baseline.map(|run| percentiles_of(run, without));
    let plot = plot(&bins, base.as_deref().unwrap_or_default(), view.options.width);
    let mut marks = columns(&bins);
    for (line, (name, at)) in (0..).zip(&percentiles) {
        marks.extend(upright(&plot, line, name, at, "chart-mark"));
    }
    for (line, (name, at)) in (3..).zip(base.iter().flatten()) {
        marks.extend(upright(&plot, line, &format!("baseline {name}"), at, "chart-mark dash-mark-base"));
    }
    let nodes = plot.draw(marks);
    let told: Vec<String> = percentiles.iter().map(|(name, at)| format!("{name} {}", at.told)).collect();
    let launches = bins.iter().fold(0.0_f64, |sum, bin| sum + bin.count);
    let told = if told.is_empty() { String::new() } else { format!(": {}", told.join(", ")) };
    let summary = format!("Launch latency of {} kernels{told}.", grouped(launches as u64));
    let off = if without { " Communication is switched off." } else { "" };
    let baseline = match (view.baseline, &base) {
        (Some(run), Some(base)) if !base.is_empty() => format!(" Dotted: percentiles of {}.", run.label),
        _ => String::new(),
    };
    let note = format!(
        "From the end of the call to the start of its kernel; a long wait behind a busy stream is no fault.{off}{baseline}"
    );
    Ok((note, Chart { width: layout::whole(plot.width), height: layout::whole(plot.height), summary, nodes }))
}

struct Bin {
    from: Time,
    to: Time,
    count: f64,
    told: String,
}

impl Bin {
    fn of(row: &Record, without_communication: bool) -> Option<Self> {
        let key = if without_communication { "without_communication" } else { "count" };
        let key = if row.get(key).is_some() { key } else { "count" };
        let (from, to) = (time(row, "bin_start_us")?, time(row, "bin_end_us")?);
        Some(Self { from, to, count: number(row, key)?.max(0.0), told: exact(row, key) })
    }
}

/// The percentiles of a run, which stand with its longest latencies.
fn percentiles_of(run: &Run, without: bool) -> Vec<(&'static str, Time)> {
    let rows = run.sections.get("launch_latency_rows");
    let of = |(name, all, some): &(&'static str, &'static str, &'static str)| {
        let some = if without { time(&rows?.summary, some) } else { None };
        Some((*name, some.or_else(|| time(&rows?.summary, all))?))
    };
    PERCENTILES.iter().filter_map(of).collect()
}

fn plot(bins: &[Bin], base: &[(&str, Time)], width: u32) -> Plot {
    let width = layout::width(width);
    let last = bins.iter().map(|bin| bin.to.ns).chain(base.iter().map(|(_, at)| at.ns));
    let last = last.fold(0.0_f64, f64::max);
    let most = bins.iter().fold(0.0_f64, |most, bin| most.max(bin.count));
    let (left, right) = (64 * UNIT, 36 * UNIT);
    let x = Scale::time(last, ((width - left - right) / (78 * UNIT)).clamp(2, 10));
    let x_name = format!("Latency ({})", x.unit());
    let lines = 3 + i32::try_from(base.len()).unwrap_or(0);
    let top = LINE * lines + 20 * UNIT;
    Plot {
        width,
        height: HEIGHT + top,
        left,
        right,
        top,
        bottom: AXIS,
        x,
        y: Scale::linear(0.0, most, 4),
        x_name,
        y_name: "Launches".to_owned(),
    }
}

fn columns(bins: &[Bin]) -> Vec<Mark> {
    let shown = bins.iter().filter(|bin| bin.count > 0.0);
    let mark = |bin: &Bin| {
        let title =
            format!("{} to {}: {}", bin.from.exact, bin.to.exact, format::counted(&bin.told, "launch", "launches"));
        let node = Node { class: format!("{WORK} dash-column"), title, ..Node::default() };
        Mark { at: vec![(bin.from.ns, bin.count), (bin.to.ns, 0.0)], shape: Shape::Box, node }
    };
    shown.map(mark).collect()
}

/// A line across the plot at a percentile, with its words above, a line each so that they never meet.
fn upright(plot: &Plot, line: i32, name: &str, at: &Time, class: &str) -> [Mark; 2] {
    let top = plot.y.range().end;
    let text = format!("{name} {}", at.told);
    let place = plot.x.map(&at.ns, (0, plot.inner_width()));
    let fits = place + wide(&text, SMALL) + 8 * UNIT < plot.inner_width() + plot.right;
    let (by, aligned) = if fits { (4 * UNIT, "start") } else { (-4 * UNIT, "end") };
    let title = format!("{name}: {}", at.exact);
    let node = Node { class: class.to_owned(), title, ..Node::default() };
    let words = Node { class: "delta-name dash-halo".to_owned(), text, ..Node::default() };
    let up = plot.top - 28 * UNIT - line * LINE;
    [
        Mark { at: vec![(at.ns, 0.0), (at.ns, top)], shape: Shape::Upright(up + 8 * UNIT), node },
        Mark { at: vec![(at.ns, top)], shape: Shape::Words { by: (by, -up), size: SMALL, aligned }, node: words },
    ]
}
