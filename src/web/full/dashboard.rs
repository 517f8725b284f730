//! The dashboard: its panels as SVG and HTML nodes, and the options of its form.

use super::Tools;
use crate::analysis::dashboard::{preset, presets};
use crate::json::{self, from_json};
use crate::report::chart::dashboard::{CSS, Options, Panel, dashboard};
use crate::web::{JsResult, to_js, to_js_error};
use serde::Serialize;
use wasm_bindgen::prelude::*;

/// The page's request: the run, its baseline, and the options of the panels. Widths are in pixels.
struct DashboardRequest {
    run: Option<usize>,
    baseline: usize,
    hardware: Option<String>,
    threshold_ms: f64,
    communication: bool,
    /// The hidden categories.
    hidden: Vec<String>,
    width: usize,
    column_width: usize,
}
from_json!(DashboardRequest { run, baseline, hardware, threshold_ms, communication, hidden, width, column_width });

/// The panels, and the values of the form above them.
#[derive(Debug, Serialize)]
struct DashboardView {
    /// The labels of the shown run and of its baseline. Empty if there is none.
    label: String,
    baseline: String,
    panels: Vec<Panel>,
    hardware: Vec<PresetView>,
    /// The hardware preset detected from the device's name. Empty if none was detected.
    by_name: &'static str,
    /// With its unit.
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
impl Tools {
    /// The panels of a run and of its baseline. Without a chosen run, the first one that is not the baseline.
    ///
    /// # Errors
    /// An invalid request.
    pub fn dashboard(&self, request: &str) -> JsResult<JsValue> {
        let request: DashboardRequest = json::read(request).map_err(to_js_error)?;
        let labels = self.report.labels();
        let baseline = (labels.len() > 1).then_some(request.baseline.min(labels.len().saturating_sub(1)));
        let first_other = usize::from(baseline == Some(0));
        let run = request.run.filter(|run| *run < labels.len()).unwrap_or(first_other);
        let baseline = baseline.filter(|baseline| *baseline != run);
        let pixels = |width: usize| u32::try_from(width).unwrap_or(u32::MAX);
        let options = Options {
            hardware: request.hardware,
            threshold_ms: request.threshold_ms.clamp(0.0, Options::MAX_THRESHOLD_MS),
            communication: request.communication,
            hidden: request.hidden,
            width: pixels(request.width),
            column_width: pixels(request.column_width),
        };
        let label = |index: Option<usize>| index.and_then(|index| labels.get(index)).cloned().unwrap_or_default();
        let view =
            |preset: &'static crate::analysis::dashboard::Preset| PresetView { id: &preset.id, title: &preset.title };
        let detected = self.report.runs.get(run).and_then(|run| preset(run, None));
        to_js(&DashboardView {
            label: label(Some(run)),
            baseline: label(baseline),
            panels: dashboard(&self.report, run, baseline, &options),
            hardware: presets().iter().map(view).collect(),
            by_name: detected.map_or("", |preset| &preset.title),
            threshold: format!("{} ms", options.threshold_ms),
            threshold_ms: options.threshold_ms,
            highest_threshold_ms: Options::MAX_THRESHOLD_MS,
        })
    }

    /// The style sheet of the charts that only the dashboard has.
    pub fn dashboard_css() -> String {
        CSS.to_owned()
    }
}
