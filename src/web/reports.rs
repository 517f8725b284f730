//! The report of all open files, for the first results that the page shows.

use super::{JsResult, to_js, to_js_error, view};
use crate::json;
use crate::report::{Report, TableRequest, bars, chart, foreign, legend};
use wasm_bindgen::prelude::*;

/// Merges the report texts of all open files into one report.
pub(super) fn merged(texts: &[String]) -> JsResult<Report> {
    let mut runs = Vec::new();
    for text in texts {
        runs.extend(Report::read("report", text).map_err(to_js_error)?.runs);
    }
    foreign::attach_series(&mut runs);
    Ok(Report::new(runs))
}

/// A table request that JavaScript passes as an object.
pub(super) fn table_request(request: &JsValue) -> JsResult<TableRequest> {
    json::read(&String::from(js_sys::JSON::stringify(request)?)).map_err(to_js_error)
}

/// The runs of all open files. Contains no trace.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Reports {
    report: Report,
    /// The table of the last request, sorted and filtered, because the page requests long tables in parts.
    table: Option<view::PagedTable>,
}

#[wasm_bindgen]
impl Reports {
    /// No runs.
    #[wasm_bindgen(constructor)]
    #[allow(clippy::new_without_default, reason = "JavaScript has no Default")]
    pub fn new() -> Self {
        Self { report: Report::new(Vec::new()), table: None }
    }

    /// Replaces the runs by those of these report texts, one text per open file.
    ///
    /// # Errors
    /// A text is no report.
    pub fn set(&mut self, texts: Vec<String>) -> JsResult<()> {
        self.table = None;
        self.report = merged(&texts)?;
        Ok(())
    }

    /// Verdict, runs with facts and notices, legend and tabs.
    pub fn overview(&self) -> JsResult<JsValue> {
        to_js(&view::overview(&self.report))
    }

    /// The bars as a list of SVG nodes.
    pub fn chart(&self, width: u32, hidden: Vec<String>) -> JsResult<JsValue> {
        let legend = legend(&self.report);
        let legend: Vec<&str> = legend.iter().map(String::as_str).collect();
        let hidden: Vec<&str> = hidden.iter().map(String::as_str).collect();
        to_js(&chart::stacked_bars(&bars(&self.report), &legend, &hidden, width))
    }

    /// The requested rows of a table, sorted and filtered, each cell as text. Null if the requested runs have no such table.
    ///
    /// # Errors
    /// An invalid request.
    pub fn table(&mut self, request: &JsValue) -> JsResult<JsValue> {
        let request = table_request(request)?;
        let cached = self.table.take().filter(|table| table.answers(&request));
        self.table = cached.or_else(|| view::PagedTable::of(&self.report, &request));
        to_js(&self.table.as_ref().map(|table| table.view(&request)))
    }
}
