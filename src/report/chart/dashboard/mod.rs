//! The dashboard: nine panels, each a chart of one section of a run, with an optional baseline.
//!
//! | panel | section, and table | shows |
//! |---|---|---|
//! | `kernels` | `kernels` (`top_kernels`) | the 20 longest rows above a threshold, in the colour of their category |
//! | `timeline` | `timeline_events` | one lane per stream or thread; idle gaps and blocking calls are hatched |
//! | `roofline` | `roofline`, `op_costs` | points from counters or shapes, below the ceilings of a hardware preset |
//! | `nvlink` | `nvlink_timeseries` | at most 3,000 points; shaded while collectives run |
//! | `collectives`, `streams` | `nccl_ops`, `stream_overlap` | time; the part that overlaps other work is hatched |
//! | `latency` | `launch_latency_histogram` | bins, p50, p95, p99 |
//! | `phases`, `skew` | `phase_split`, `nccl_rank_skew` | time by phase; the 16 rows farthest from the median rank |
//!
//! A panel states what it leaves out and which table has the same numbers. A panel without data states the reason and the
//! command that captures it. Tooltips show exact values. Bars start at zero; a logarithmic axis is labelled as such.
//!
//! [`model_charts`] are the charts of the tab Model, drawn in the same way.
//!
//! The baseline is drawn as an outline around the bar with the same canonical name and device. Without communication,
//! panels leave out communication kernels, shading, and their part of latencies and phases (columns
//! `without_communication`). What has a hidden category is left out, or faint if it is part of an order in time. Values that are not in a section come from [`crate::analysis::dashboard`].

mod collectives;
mod kernels;
mod latency;
mod layer_list;
mod layers;
mod nvlink;
mod phases;
mod plot;
mod roofline;
mod rows;
mod skew;
mod step_list;
mod streams;
mod timeline;

use super::axis::Unit;
use super::{Chart, glyphs};
use crate::analysis::dashboard::{number, points_section, preset};
use crate::analysis::results::Run;
use crate::analysis::section::{Record, Section, Value};
use crate::digits::{grouped, grouped_text};
use crate::report::Report;
use crate::report::format::{counted, duration};
use crate::report::palette;
use crate::report::short_names::ShortNames;
use serde::Serialize;

/// The stylesheet of the dashboard, used together with [`super::CSS`].
pub const CSS: &str = include_str!("dashboard.css");

/// The choices for a dashboard.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The id of a preset of [`crate::analysis::dashboard::presets`]; `None` to find it by the name of the device.
    pub hardware: Option<String>,
    /// The minimum total time of a kernel with a bar, in milliseconds.
    pub threshold_ms: f64,
    /// Whether panels include communication between GPUs.
    pub communication: bool,
    /// The categories that the reader has hidden.
    pub hidden: Vec<String>,
    /// Width of wide panels in pixels.
    pub width: u32,
    /// Width of all other panels in pixels.
    pub column_width: u32,
}

impl Options {
    /// The maximum of [`Options::threshold_ms`].
    pub const MAX_THRESHOLD_MS: f64 = 50.0;
}

impl Default for Options {
    /// No threshold. nsys-llm-explainer's default of one millisecond would leave short traces empty.
    fn default() -> Self {
        Self {
            hardware: None,
            threshold_ms: 0.0,
            communication: true,
            hidden: Vec::new(),
            width: 960,
            column_width: 960,
        }
    }
}

/// One chart with its texts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Panel {
    /// Stable name: `kernels`, `roofline`, ...
    pub id: &'static str,
    /// Displayed heading.
    pub title: &'static str,
    /// Sentences about what the chart shows and leaves out.
    pub note: String,
    /// The chart; `None` if there is no data.
    pub chart: Option<Chart>,
    /// The reason for missing data, and the command that captures it (may be empty).
    pub gap: Option<(String, String)>,
    /// Id of the table with the same numbers.
    pub table: &'static str,
    /// Whether the panel needs the full width.
    pub is_wide: bool,
}

/// The input of a panel.
struct View<'a> {
    run: &'a Run,
    baseline: Option<&'a Run>,
    options: &'a Options,
    short_names: &'a ShortNames<'a>,
}

/// Note and chart of a panel, or the reason for missing data and the command that captures it.
type PanelResult = Result<(String, Chart), (String, String)>;

/// Id, title, table and drawing function of a panel.
type PanelSpec = (&'static str, &'static str, &'static str, fn(&View) -> PanelResult);

/// The panels of the run with this index, in display order; empty if there is no such run.
pub fn dashboard(report: &Report, run: usize, baseline: Option<usize>, options: &Options) -> Vec<Panel> {
    let baseline = baseline.filter(|baseline| *baseline != run).and_then(|baseline| report.runs.get(baseline));
    let Some(run) = report.runs.get(run) else { return Vec::new() };
    let panels: [PanelSpec; 9] = [
        ("kernels", "Kernels with the most time", "top_kernels", kernels::draw),
        ("timeline", "Longest events over time", "timeline_events", timeline::draw),
        ("roofline", "Roofline", points_section(run), roofline::draw),
        ("nvlink", "NVLink over time", "nvlink_timeseries", nvlink::draw),
        ("collectives", "Collectives", "nccl_ops", collectives::draw),
        ("streams", "Work at the same time", "stream_overlap", streams::draw),
        ("latency", "Launch latency", "launch_latency_histogram", latency::draw),
        ("phases", "Phases", "phase_split", phases::draw),
        ("skew", "Ranks compared with the median rank", "nccl_rank_skew", skew::draw),
    ];
    draw_panels(&panels, run, baseline, options)
}

/// The charts of the model that the run with this index executes: a layer with its parts, the layers of a step, the steps over
/// time. Without those whose data are missing: the tables next to them say why.
pub fn model_charts(report: &Report, run: usize, options: &Options) -> Vec<Panel> {
    let Some(run) = report.runs.get(run) else { return Vec::new() };
    let panels: [PanelSpec; 3] = [
        ("layers", "Parts of a layer", "layer_roles", layers::draw),
        ("layer_list", "Layers over a step", "layer_list", layer_list::draw),
        ("step_list", "Steps over time", "step_list", step_list::draw),
    ];
    let mut panels = draw_panels(&panels, run, None, options);
    panels.retain(|panel| panel.chart.is_some());
    panels
}

fn draw_panels(panels: &[PanelSpec], run: &Run, baseline: Option<&Run>, options: &Options) -> Vec<Panel> {
    let short_names = ShortNames::of(run);
    let column_options = Options { width: options.column_width, ..options.clone() };
    let view = |is_wide: bool| View {
        run,
        baseline,
        options: if is_wide { options } else { &column_options },
        short_names: &short_names,
    };
    let panel = |&(id, title, table, draw): &PanelSpec| {
        let is_wide = WIDE.contains(&id);
        let (note, chart, gap) = match draw(&view(is_wide)) {
            Ok((note, chart)) => (note, Some(chart), None),
            Err(gap) => (String::new(), None, Some(gap)),
        };
        Panel { id, title, note, chart, gap, table, is_wide }
    };
    panels.iter().map(panel).collect()
}

/// A sentence about the hardware preset of the roofline, or how to choose one.
pub fn ceilings(run: &Run, options: &Options) -> String {
    let Some(preset) = preset(run, options.hardware.as_deref()) else {
        return "No ceilings: no preset matches the name of this device; pick the hardware.".to_owned();
    };
    let how = if options.hardware.is_some() { "as selected" } else { "from the device name" };
    format!(
        "Ceilings of {} ({how}): {} TB/s, {} TFLOP/s {} ({}).",
        preset.title, preset.memory_tb_per_s, preset.peak_tflops, preset.precision, preset.source
    )
}

impl<'a> View<'a> {
    /// A section with rows, or the reason for missing data.
    fn section(&self, name: &str) -> Result<&'a Section, (String, String)> {
        let Some(section) = self.run.sections.get(name) else {
            return Err(no_data(
                "This run does not have this section: its file does not contain it, or the analysis is not finished.",
            ));
        };
        match &section.missing {
            Some(missing) => Err((missing.why.clone(), missing.recapture.clone())),
            None if section.rows.is_empty() => Err(no_data("The trace has no such data.")),
            None => Ok(section),
        }
    }

    fn baseline_section(&self, name: &str) -> Option<&'a Section> {
        self.baseline?.sections.get(name).filter(|section| section.missing.is_none())
    }

    /// An error if the panel shows communication and this is switched off.
    fn require_communication(&self) -> Result<(), (String, String)> {
        if !self.options.communication {
            return Err(no_data("Communication is switched off."));
        }
        if self.is_kind_hidden(COMMUNICATION) { Err(no_data("Communication is hidden.")) } else { Ok(()) }
    }

    /// Whether the reader has hidden this category.
    fn is_hidden(&self, category: &str) -> bool {
        self.options.hidden.iter().any(|hidden| hidden == category)
    }

    /// Whether the reader has hidden a category with the colour of `kind`. A section that tells work by kind, such as collectives, has the
    /// name of the category only under the default rules.
    fn is_kind_hidden(&self, kind: &str) -> bool {
        let class = palette::class(kind);
        self.options.hidden.iter().any(|hidden| palette::class(hidden) == class)
    }

    /// A sentence that names the baseline.
    fn baseline_note(&self) -> String {
        let Some(baseline) = self.baseline else { return String::new() };
        format!(" Outlined: {}.", baseline.label)
    }
}

/// A time in a row.
#[derive(Debug, Clone, PartialEq)]
struct Time {
    ns: f64,
    /// Rounded: `31.9 ms`.
    text: String,
    /// Exact, in the unit of the row: `31.905483 ms`.
    exact: String,
}

/// The time with this key; the suffix of the key is its unit. `None` if it is missing or negative.
fn time(row: &Record, key: &str) -> Option<Time> {
    let (value, (_, unit)) = (number(row, key)?, Unit::split_suffix(key)?);
    let ns = value * unit.ns() as f64;
    let exact = format!("{} {}", exact(row, key), unit.name());
    (ns >= 0.0).then(|| Time { ns, text: duration(ns.round() as i64), exact })
}

/// The exact value with this key as text, with grouped digits unless it is an id.
fn exact(row: &Record, key: &str) -> String {
    match row.get(key) {
        Some(Value::Int(value)) if key.ends_with("_id") => value.to_string(),
        Some(Value::Int(value)) => grouped_text(&value.to_string()),
        Some(Value::Float(value)) if value.is_finite() => grouped_text(&value.to_string()),
        Some(Value::Text(text)) => text.clone(),
        Some(Value::Bool(value)) => value.to_string(),
        Some(Value::Float(_) | Value::Null) | None => String::new(),
    }
}

/// The percentage with this key: `61.2 %`.
fn percent(row: &Record, key: &str) -> Option<String> {
    number(row, key).map(|value| crate::report::format::percent(value / 100.0))
}

/// Tooltip text about the baseline, and length and tooltip of its outline, from a row of the baseline.
fn outline(name: &str, row: Option<&Record>, key: &str) -> (String, Option<(f64, String)>) {
    let Some(Time { ns, exact, .. }) = row.and_then(|row| time(row, key)) else { return (String::new(), None) };
    (format!("; baseline {exact}"), Some((ns, format!("Baseline: {name}: {exact}"))))
}

/// A name, shortened for a sentence.
fn short(name: &str) -> String {
    glyphs::shorten(name, 1_000, 40_000)
}

/// The reason for missing data, if no command helps.
fn no_data(why: impl Into<String>) -> (String, String) {
    (why.into(), String::new())
}

/// Panels that need the full width for their names and lanes.
const WIDE: [&str; 5] = ["kernels", "timeline", "layers", "layer_list", "step_list"];

/// The kind of work, and category of the default rules, that collectives have.
const COMMUNICATION: &str = "communication";

/// The class, after a blank, of what has a hidden category and keeps its place.
const FAINT: &str = " faint";

/// A sentence on what is left out with hidden categories; empty if nothing is.
fn hidden_note(count: usize, one: &str, several: &str) -> String {
    match count {
        0 => String::new(),
        count => format!(" Left out with hidden categories: {}.", counted(&grouped(count as u64), one, several)),
    }
}

/// The classes of shapes without a category.
const WORK: &str = "seg dash-work";

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;
