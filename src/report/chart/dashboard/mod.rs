//! The dashboard: a panel a question, each a chart of one section of a run, beside a baseline where one is chosen.
//!
//! A panel says what it leaves out, which table holds the same numbers, and what to capture where the trace lacks what it
//! needs. What is drawn beyond the sections' own rows comes from [`crate::analysis::dashboard`].

mod collectives;
mod kernels;
mod latency;
mod nvlink;
mod phases;
mod plot;
mod roofline;
mod rows;
mod skew;
mod streams;
mod timeline;

use super::axis::Unit;
use super::{Chart, glyphs};
use crate::analysis::dashboard::{number, preset};
use crate::analysis::results::Run;
use crate::analysis::section::{Record, Section, Value};
use crate::report::Report;
use crate::report::format::duration;
use serde::Serialize;

/// The look of what only these charts have; belongs beside [`super::CSS`].
pub const CSS: &str = include_str!("dashboard.css");

/// What the person chose.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// A preset of [`crate::analysis::dashboard::presets`]; `None`: by the name of the device.
    pub hardware: Option<String>,
    /// Kernels that take less in all have no bar, in milliseconds.
    pub threshold_ms: f64,
    /// False: without messages between GPUs, in all panels.
    pub communication: bool,
    /// Of panels that need all of it, in pixels.
    pub width: u32,
    /// Of all other panels, in pixels.
    pub column_width: u32,
}

impl Options {
    /// The threshold goes from zero to this, in milliseconds.
    pub const MAX_THRESHOLD_MS: f64 = 50.0;
}

impl Default for Options {
    /// No threshold: that of the original, a millisecond, leaves short traces empty, and 20 bars are no crowd.
    fn default() -> Self {
        Self { hardware: None, threshold_ms: 0.0, communication: true, width: 960, column_width: 960 }
    }
}

/// One chart with what belongs to it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Panel {
    /// Stable: `kernels`, `roofline`, ...
    pub id: &'static str,
    /// Heading for people.
    pub title: &'static str,
    /// What it shows and leaves out; sentences.
    pub note: String,
    /// The drawing; `None` where there is nothing to draw.
    pub chart: Option<Chart>,
    /// Why something is missing, and the command that captures it, empty where none does.
    pub gap: Option<(String, String)>,
    /// The table of the same numbers.
    pub table: &'static str,
    /// Is it drawn in the whole width?
    pub is_wide: bool,
}

/// What a panel is made from.
struct View<'a> {
    run: &'a Run,
    baseline: Option<&'a Run>,
    options: &'a Options,
}

/// What a panel says and draws; else why there is nothing and how to capture it.
type Drawn = Result<(String, Chart), (String, String)>;

/// Id, title and table of a panel, and what makes it.
type Made = (&'static str, &'static str, &'static str, fn(&View) -> Drawn);

/// The panels of the run at this place, in the order in which people read them; none where there is no such run.
pub fn dashboard(report: &Report, run: usize, baseline: Option<usize>, options: &Options) -> Vec<Panel> {
    let Some(shown) = report.runs.get(run) else { return Vec::new() };
    let baseline = baseline.filter(|baseline| *baseline != run).and_then(|baseline| report.runs.get(baseline));
    let column = Options { width: options.column_width, ..options.clone() };
    let view = |is_wide: bool| View { run: shown, baseline, options: if is_wide { options } else { &column } };
    let panels: [Made; 9] = [
        ("kernels", "Kernels with the most time", "top_kernels", kernels::draw),
        ("timeline", "Longest events over time", "timeline_events", timeline::draw),
        ("roofline", "Roofline", "roofline", roofline::draw),
        ("nvlink", "NVLink over time", "nvlink_timeseries", nvlink::draw),
        ("collectives", "Collectives", "nccl_ops", collectives::draw),
        ("streams", "Work at the same time", "stream_overlap", streams::draw),
        ("latency", "Launch latency", "launch_latency_histogram", latency::draw),
        ("phases", "Phases", "phase_split", phases::draw),
        ("skew", "Ranks beside the median rank", "nccl_rank_skew", skew::draw),
    ];
    let panel = |(id, title, table, draw): Made| {
        let is_wide = WIDE.contains(&id);
        let (note, chart, gap) = match draw(&view(is_wide)) {
            Ok((note, chart)) => (note, Some(chart), None),
            Err(gap) => (String::new(), None, Some(gap)),
        };
        Panel { id, title, note, chart, gap, table, is_wide }
    };
    panels.into_iter().map(panel).collect()
}

/// What the roofline's ceilings are of, in words; what to do where there are none.
pub fn ceilings(run: &Run, options: &Options) -> String {
    let Some(preset) = preset(run, options.hardware.as_deref()) else {
        return "No ceilings: pick the hardware, as no preset has this device's name.".to_owned();
    };
    let how = if options.hardware.is_some() { "as you chose" } else { "by the device's name" };
    format!(
        "Ceilings of {}, {how}: {} TB/s, {} TFLOP/s {} ({}).",
        preset.title, preset.memory_tb_per_s, preset.peak_tflops, preset.precision, preset.source
    )
}

impl<'a> View<'a> {
    /// A section with rows, or what the person should know instead.
    fn section(&self, name: &str) -> Result<&'a Section, (String, String)> {
        let none = |why: &str| (why.to_owned(), String::new());
        let Some(section) = self.run.sections.get(name) else {
            return Err(none("This run holds no such section: its file has none, or is still being analysed."));
        };
        match &section.missing {
            Some(missing) => Err((missing.why.clone(), missing.recapture.clone())),
            None if section.rows.is_empty() => Err(none("There is nothing of this kind in the trace.")),
            None => Ok(section),
        }
    }

    fn of_baseline(&self, name: &str) -> Option<&'a Section> {
        self.baseline?.sections.get(name).filter(|section| section.missing.is_none())
    }

    /// The panel is about messages between GPUs, and these were switched off.
    fn needs_communication(&self) -> Result<(), (String, String)> {
        let off = || ("Communication is switched off.".to_owned(), String::new());
        if self.options.communication { Ok(()) } else { Err(off()) }
    }

    /// The sentence on what stands behind the bars.
    fn outlined(&self) -> String {
        let Some(baseline) = self.baseline else { return String::new() };
        format!(" Outlined: {}.", baseline.label)
    }
}

/// A time of a row.
#[derive(Debug, Clone, PartialEq)]
struct Time {
    ns: f64,
    /// `31.9 ms`.
    told: String,
    /// As the row has it: `31.905483 ms`.
    exact: String,
}

/// The time under a key, by the unit at the key's end; `None` where there is none, or one below zero.
fn time(row: &Record, key: &str) -> Option<Time> {
    let (value, (_, unit)) = (number(row, key)?, Unit::split_suffix(key)?);
    let ns = value * unit.ns() as f64;
    let exact = format!("{} {}", exact(row, key), unit.name());
    (ns >= 0.0).then(|| Time { ns, told: duration(ns.round() as i64), exact })
}

/// The value under a key as the row has it.
fn exact(row: &Record, key: &str) -> String {
    match row.get(key) {
        Some(Value::Int(value)) => value.to_string(),
        Some(Value::Float(value)) if value.is_finite() => value.to_string(),
        Some(Value::Text(text)) => text.clone(),
        Some(Value::Bool(value)) => value.to_string(),
        Some(Value::Float(_) | Value::Null) | None => String::new(),
    }
}

/// A part of a hundred under a key: `61.2 %`.
fn percent(row: &Record, key: &str) -> Option<String> {
    number(row, key).map(|value| crate::report::format::percent(value / 100.0))
}

/// What a sentence names of a list: the first ones.
fn first_few(parts: &[String]) -> String {
    const FEW: usize = 4;
    let mut words: Vec<String> = parts.iter().take(FEW).cloned().collect();
    if let Some(more) = parts.len().checked_sub(FEW).filter(|more| *more > 0) {
        words.push(format!("{more} more"));
    }
    words.join("; ")
}

/// A name of any length, as far as a sentence has room.
fn short(name: &str) -> String {
    glyphs::shorten(name, 1_000, 40_000)
}

/// Panels whose names and lanes need all the width there is.
const WIDE: [&str; 2] = ["kernels", "timeline"];

/// The look of what belongs to no category.
const WORK: &str = "seg dash-work";

#[cfg(test)]
mod tests;
