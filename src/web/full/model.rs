//! The sentences and charts of the tab Model.

use super::Tools;
use crate::report::chart::dashboard::{Options, Panel, model_charts};
use crate::report::model_sentences::lines;
use crate::web::{JsResult, to_js};
use serde::Serialize;
use wasm_bindgen::prelude::*;

#[derive(Debug, Serialize)]
struct ModelView {
    /// The label of the run; empty if it is the only one.
    label: String,
    /// The sentences on all runs.
    lines: Vec<String>,
    panels: Vec<Panel>,
}

#[wasm_bindgen]
impl Tools {
    /// The sentences on the models of all runs, and the charts of one run in this width in pixels. What has a `hidden` category is faint.
    pub fn model(&self, run: usize, width: u32, hidden: Vec<String>) -> JsResult<JsValue> {
        let labels = self.report.labels();
        let label = labels.get(run).filter(|_| labels.len() > 1).cloned().unwrap_or_default();
        let options = Options { width, hidden, ..Options::default() };
        to_js(&ModelView {
            label,
            lines: lines(&self.report).into_iter().map(|line| line.text).collect(),
            panels: model_charts(&self.report, run, &options),
        })
    }
}
