//! The dashboard in the page: panels as nodes, and what can be chosen for them.

use super::{Desk, Thrown, thrown, to_js};
use crate::analysis::dashboard::{preset, presets};
use crate::json::{self, from_json};
use crate::report::chart::dashboard::{CSS, Options, Panel, dashboard};
use serde::Serialize;
use wasm_bindgen::prelude::*;

/// The page's request: the run, its baseline, and the options of the panels. Widths are in pixels.
struct Wish {
    run: Option<usize>,
    baseline: usize,
    hardware: Option<String>,
    threshold_ms: f64,
    communication: bool,
    width: usize,
    column_width: usize,
}
from_json!(Wish { run, baseline, hardware, threshold_ms, communication, width, column_width });

/// The panels, and the values of the form above them.
#[derive(Debug, Serialize)]
struct DashboardView {
    /// The run that is shown, and the one behind it; empty where there is none.
    label: String,
    baseline: String,
    panels: Vec<Panel>,
    hardware: Vec<PresetView>,
    /// What the device's name says the hardware is; empty where it says nothing.
    by_name: &'static str,
    /// For people.
    threshold: String,
    threshold_ms: f64,
    highest_threshold_ms: f64,
}

#[derive(Debug, Serialize)]
struct PresetView {
    id: &'static str,
    title: &'static str,
}

#[wasm_bindgen]
impl Desk {
    /// The panels of a run beside a baseline; where no run is chosen, of the first that is not the baseline.
    ///
    /// # Errors
    /// A wish of another shape.
    pub fn dashboard(&self, wish: &str) -> Thrown<JsValue> {
        let wish: Wish = json::read(wish).map_err(thrown)?;
        let labels = self.report.labels();
        let baseline = (labels.len() > 1).then_some(wish.baseline.min(labels.len().saturating_sub(1)));
        let first_other = usize::from(baseline == Some(0));
        let run = wish.run.filter(|run| *run < labels.len()).unwrap_or(first_other);
        let baseline = baseline.filter(|baseline| *baseline != run);
        let pixels = |width: usize| u32::try_from(width).unwrap_or(u32::MAX);
        let options = Options {
            hardware: wish.hardware,
            threshold_ms: wish.threshold_ms.clamp(0.0, Options::MAX_THRESHOLD_MS),
            communication: wish.communication,
            width: pixels(wish.width),
            column_width: pixels(wish.column_width),
        };
        let label = |at: Option<usize>| at.and_then(|at| labels.get(at)).cloned().unwrap_or_default();
        let known =
            |preset: &'static crate::analysis::dashboard::Preset| PresetView { id: &preset.id, title: &preset.title };
        let of_device = self.report.runs.get(run).and_then(|run| preset(run, None));
        to_js(&DashboardView {
            label: label(Some(run)),
            baseline: label(baseline),
            panels: dashboard(&self.report, run, baseline, &options),
            hardware: presets().iter().map(known).collect(),
            by_name: of_device.map_or("", |preset| &preset.title),
            threshold: format!("{} ms", options.threshold_ms),
            threshold_ms: options.threshold_ms,
            highest_threshold_ms: Options::MAX_THRESHOLD_MS,
        })
    }

    /// The style sheet of what only these charts have.
    pub fn dashboard_css() -> String {
        CSS.to_owned()
    }
}
