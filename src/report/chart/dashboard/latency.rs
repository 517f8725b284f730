//! Panel: histogram of launch latencies (from the end of the launching call to the start of the kernel) with percentiles.

use super::super::glyphs;
use super::super::layout::{self, SMALL, UNIT};
use super::plot::{Mark, Plot, Scale, Shape};
use super::{PanelResult, Time, View, WORK, exact, no_data, time};
use crate::analysis::dashboard::number;
use crate::analysis::results::Run;
use crate::analysis::section::Record;
use crate::digits::grouped;
use crate::report::format;

const HEIGHT: i32 = 260 * UNIT;
const LINE: i32 = 15 * UNIT;
const PERCENTILES: [(&str, &str, &str); 3] = [
    ("p50", "p50_us", "without_communication_p50_us"),
    ("p95", "p95_us", "without_communication_p95_us"),
    ("p99", "p99_us", "without_communication_p99_us"),
];

pub(super) fn draw(view: &View) -> PanelResult {
    let section = view.section("launch_latency_histogram")?;
    let without = !view.options.communication;
    let bins: Vec<Bin> = section.rows.iter().filter_map(|row| Bin::of(row, without)).collect();
    if bins.iter().all(|bin| bin.count <= 0.0) {
        return Err(no_data("No launches to show."));
    }
    let percentiles = percentiles_of(view.run, without);
    let base = view.baseline.map(|run| percentiles_of(run, without));
    let plot = plot(&bins, base.as_deref().unwrap_or_default(), view.options.width);
    let mut marks = columns(&bins);
    for (line, (name, latency)) in (0..).zip(&percentiles) {
        marks.extend(percentile_line(&plot, line, name, latency, "chart-mark"));
    }
    for (line, (name, latency)) in (3..).zip(base.iter().flatten()) {
        marks.extend(percentile_line(&plot, line, &format!("baseline {name}"), latency, "chart-mark dash-mark-base"));
    }
    let nodes = plot.draw(marks);
    let parts: Vec<String> = percentiles.iter().map(|(name, latency)| format!("{name} {}", latency.text)).collect();
    let launches = bins.iter().fold(0.0_f64, |sum, bin| sum + bin.count);
    let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
    let summary = format!("Launch latency of {} kernels{parts}.", grouped(launches as u64));
    let off = if without { " Communication is switched off." } else { "" };
    let baseline = match (view.baseline, &base) {
        (Some(run), Some(base)) if !base.is_empty() => format!(" Dotted: percentiles of {}.", run.label),
        _ => String::new(),
    };
    let note = format!(
        "From the end of the launch call to the start of the kernel. A long latency on a busy stream is not a \
         problem.{off}{baseline}"
    );
    Ok((note, plot.chart(summary, nodes)))
}

struct Bin {
    from: Time,
    to: Time,
    count: f64,
    count_text: String,
}

impl Bin {
    fn of(row: &Record, without_communication: bool) -> Option<Self> {
        let key = if without_communication { "without_communication" } else { "count" };
        let key = if row.get(key).is_some() { key } else { "count" };
        let (from, to) = (time(row, "bin_start_us")?, time(row, "bin_end_us")?);
        Some(Self { from, to, count: number(row, key)?.max(0.0), count_text: exact(row, key) })
    }
}

/// The percentiles of a run, which are figures of the section `launch_latency_rows`.
fn percentiles_of(run: &Run, without: bool) -> Vec<(&'static str, Time)> {
    let rows = run.sections.get("launch_latency_rows");
    let percentile = |(name, key, key_without): &(&'static str, &'static str, &'static str)| {
        let latency = if without { time(&rows?.summary, key_without) } else { None };
        Some((*name, latency.or_else(|| time(&rows?.summary, key))?))
    };
    PERCENTILES.iter().filter_map(percentile).collect()
}

fn plot(bins: &[Bin], base: &[(&str, Time)], width: u32) -> Plot {
    let width = layout::width(width);
    let last = bins.iter().map(|bin| bin.to.ns).chain(base.iter().map(|(_, latency)| latency.ns));
    let last = last.fold(0.0_f64, f64::max);
    let max_count = bins.iter().fold(0.0_f64, |max, bin| max.max(bin.count));
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
        x,
        y: Scale::linear(0.0, max_count, 4),
        x_name,
        y_name: "Launches".to_owned(),
    }
}

fn columns(bins: &[Bin]) -> Vec<Mark> {
    let shown = bins.iter().filter(|bin| bin.count > 0.0);
    let mark = |bin: &Bin| {
        let title = format!(
            "{} to {}: {}",
            bin.from.exact,
            bin.to.exact,
            format::counted(&bin.count_text, "launch", "launches")
        );
        let corners = vec![(bin.from.ns, bin.count), (bin.to.ns, 0.0)];
        Mark::new(Shape::Box, corners, &format!("{WORK} dash-column"), &title)
    };
    shown.map(mark).collect()
}

/// A vertical line at a percentile with a label above the plot. Each label has its own text line, so that labels do not
/// overlap.
fn percentile_line(plot: &Plot, line: i32, name: &str, latency: &Time, class: &str) -> [Mark; 2] {
    let top = plot.y.range().end;
    let text = format!("{name} {}", latency.text);
    let x = plot.x.position(latency.ns, (0, plot.inner_width()));
    let fits = x + glyphs::width(&text, SMALL) + 8 * UNIT < plot.inner_width() + plot.right;
    let (offset_x, anchor) = if fits { (4 * UNIT, "start") } else { (-4 * UNIT, "end") };
    let title = format!("{name}: {}", latency.exact);
    let up = plot.top - 28 * UNIT - line * LINE;
    let label = Shape::Text { offset: (offset_x, -up), size: SMALL, anchor };
    [
        Mark::new(Shape::VerticalLine(up + 8 * UNIT), vec![(latency.ns, 0.0), (latency.ns, top)], class, &title),
        Mark::new(label, vec![(latency.ns, top)], "delta-name dash-halo", "").with_text(text),
    ]
}
