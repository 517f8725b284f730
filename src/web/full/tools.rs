//! Exports and the comparison of runs. [`Tools`] has further methods for the dashboard, sharing and rules, in their own files.

use crate::analysis::compare::{Comparison, Outcome, compare};
use crate::analysis::results::Run;
use crate::json;
use crate::report::html::Overview;
use crate::report::{self, Report, RowCases, chart, compare as words};
use crate::session;
use crate::web::reports::{merged, table_request};
use crate::web::{JsResult, to_js, to_js_error, view};
use serde::Serialize;
use wasm_bindgen::prelude::*;

/// The runs of all open files. Contains no trace.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Tools {
    pub(super) report: Report,
    /// The last comparison of these runs, as a cache.
    compared: Option<Comparison>,
}

/// The comparison of all runs with a baseline, as sentences.
#[derive(Debug, Serialize)]
struct ComparisonView {
    baseline: usize,
    runs: Vec<ComparedView>,
}

#[derive(Debug, Serialize)]
struct ComparedView {
    label: String,
    outcome: &'static str,
    /// Such as `+7.0 % per step`.
    in_short: String,
    /// Empty for the baseline.
    verdict: String,
    warnings: Vec<String>,
}

impl Tools {
    /// The strips of each run from those of each file, which [`Imported::html_strips`](crate::web::Imported::html_strips) gives; an empty text for a
    /// file without a trace. As on the command line, there are none unless each file has one run.
    pub(super) fn overviews(&self, strips: &[String]) -> JsResult<Vec<Option<Overview>>> {
        if strips.len() != self.report.runs.len() {
            return Ok(Vec::new());
        }
        let read = |text: &String| if text.is_empty() { Ok(None) } else { json::read(text).map(Some) };
        strips.iter().map(read).collect::<Result<_, _>>().map_err(to_js_error)
    }

    /// The comparison with the run at index `baseline`, or with the first run if there is no such index.
    fn comparison(&mut self, baseline: usize) -> &Comparison {
        let labels = self.report.labels();
        let baseline = if baseline < labels.len() { baseline } else { 0 };
        let cached = self.compared.take().filter(|cached| cached.baseline == baseline);
        self.compared.insert(cached.unwrap_or_else(|| {
            let runs: Vec<(&str, &Run)> = labels.iter().map(String::as_str).zip(&self.report.runs).collect();
            compare(&runs, baseline)
        }))
    }
}

#[wasm_bindgen]
impl Tools {
    /// No runs.
    #[wasm_bindgen(constructor)]
    #[allow(clippy::new_without_default, reason = "JavaScript has no Default")]
    pub fn new() -> Self {
        Self { report: Report::new(Vec::new()), compared: None }
    }

    /// Replaces the runs by those of these report texts, one text per open file.
    ///
    /// # Errors
    /// A text is no report.
    pub fn set(&mut self, texts: Vec<String>) -> JsResult<()> {
        self.report = merged(&texts)?;
        self.compared = None;
        Ok(())
    }

    /// The comparison of the runs with the one at index `baseline`, as sentences.
    pub fn compare(&mut self, baseline: usize) -> JsResult<JsValue> {
        let comparison = self.comparison(baseline);
        let mut verdicts = words::verdict(comparison).into_iter();
        let trust = |index: usize| {
            let rows = comparison.trust.iter().filter(move |row| row.run == index);
            rows.map(|row| row.text.clone())
        };
        let runs = comparison.runs.iter().zip(words::short_verdicts(comparison)).enumerate();
        let runs = runs.map(|(index, (run, in_short))| ComparedView {
            label: run.label.clone(),
            outcome: run.outcome.word(),
            in_short,
            verdict: if run.outcome == Outcome::Baseline { None } else { verdicts.next() }.unwrap_or_default(),
            warnings: run.warnings.iter().cloned().chain(trust(index)).collect(),
        });
        to_js(&ComparisonView { baseline: comparison.baseline, runs: runs.collect() })
    }

    /// The changes as diverging bars, a list of SVG nodes.
    pub fn chart(&mut self, baseline: usize, width: u32, hidden: Vec<String>) -> JsResult<JsValue> {
        let hidden: Vec<&str> = hidden.iter().map(String::as_str).collect();
        let (deltas, title) = words::deltas(self.comparison(baseline));
        to_js(&chart::diverging_bars(&deltas, &title, &hidden, width))
    }

    /// A table of the comparison, like [`Reports::table`](crate::web::Reports::table).
    ///
    /// # Errors
    /// An invalid request.
    pub fn table(&mut self, baseline: usize, request: &JsValue) -> JsResult<JsValue> {
        let request = table_request(request)?;
        let comparison = self.comparison(baseline);
        let table = words::table(comparison, &request.id, request.run);
        let cases = || RowCases::of_comparison(comparison, &request.id, request.run);
        let paged = |table| view::PagedTable::new(table, &request, false).with_cases(cases()).view(&request);
        to_js(&table.map(paged))
    }

    /// Translates the report of another tool into a report text.
    ///
    /// # Errors
    /// The input is invalid.
    pub fn translate(&self, label: &str, text: &str) -> JsResult<String> {
        Ok(session::translate(label, text).map_err(to_js_error)?.compact())
    }

    /// The text of a file to save: the same bytes that the command line prints. For CSV, `table` is the id of the table. For
    /// Markdown it is a group of tables, `compare`, or empty for the whole report. `baseline` is used by tables of a comparison. HTML begins with
    /// `strips`, see [`Imported::html_strips`](crate::web::Imported::html_strips): one text per open file, or none.
    ///
    /// # Errors
    /// An unknown format or table, or invalid strips.
    pub fn export(&mut self, format: &str, table: &str, baseline: usize, strips: Vec<String>) -> JsResult<String> {
        match format {
            "csv" if words::TABLES.contains(&table) => Ok(words::full_table(self.comparison(baseline), table)
                .map(|table| report::csv(&table))
                .unwrap_or_default()),
            "markdown" if table == "compare" => Ok(words::markdown(self.comparison(baseline))),
            "markdown" if !table.is_empty() => Ok(report::markdown_group(&self.report, table)),
            "csv" => report::table(&self.report, table, None)
                .map(|table| report::csv(&table))
                .ok_or_else(|| to_js_error(format!("unknown table `{table}`"))),
            _ => text(&self.report, format, &self.overviews(&strips)?),
        }
    }
}

/// The whole report in this format. HTML begins with the strips of the runs.
pub(super) fn text(report: &Report, format: &str, overviews: &[Option<Overview>]) -> JsResult<String> {
    match format {
        "html" => Ok(report::html_page_with_timelines(report, overviews, "gpuprism report")),
        "json" => Ok(report.json()),
        "markdown" => Ok(report::markdown(report)),
        other => Err(to_js_error(format!("unknown format `{other}`"))),
    }
}
