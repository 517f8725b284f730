//! What a person wants after the first results, but for the triage. Only the module `gpuprism_full` has it: it is fetched
//! when something first asks for it.

use super::{Thrown, merged, thrown, to_js, view};
use crate::analysis::compare::{Comparison, Outcome, compare};
use crate::analysis::results::Run;
use crate::json;
use crate::report::{self, Report, TableRequest, chart, compare as words};
use crate::session;
use serde::Serialize;
use wasm_bindgen::prelude::*;

/// The runs of all open files, merged, for everything but the first look at them. Holds no trace.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Desk {
    pub(super) report: Report,
    /// The last comparison of these runs.
    compared: Option<Comparison>,
}

/// How runs stand to a baseline, in words.
#[derive(Debug, Serialize)]
struct ComparisonView {
    baseline: usize,
    runs: Vec<ComparedView>,
}

#[derive(Debug, Serialize)]
struct ComparedView {
    label: String,
    outcome: &'static str,
    /// `+7.0 % per step against A`.
    in_short: String,
    /// Empty for the baseline.
    verdict: String,
    warnings: Vec<String>,
}

impl Desk {
    /// The runs beside the one at `baseline`; the first, where there is none there.
    fn comparison(&mut self, baseline: usize) -> &Comparison {
        let labels = self.report.labels();
        let baseline = if baseline < labels.len() { baseline } else { 0 };
        let known = self.compared.take().filter(|known| known.baseline == baseline);
        self.compared.insert(known.unwrap_or_else(|| {
            let runs: Vec<(&str, &Run)> = labels.iter().map(String::as_str).zip(&self.report.runs).collect();
            compare(&runs, baseline)
        }))
    }
}

#[wasm_bindgen]
impl Desk {
    /// Without runs.
    #[wasm_bindgen(constructor)]
    #[allow(clippy::new_without_default, reason = "JavaScript has no Default")]
    pub fn new() -> Self {
        Self { report: Report::new(Vec::new()), compared: None }
    }

    /// Takes the report texts of all open files, in the order of the files.
    ///
    /// # Errors
    /// A text that is no report.
    pub fn set(&mut self, texts: Vec<String>) -> Thrown<()> {
        self.report = merged(&texts)?;
        self.compared = None;
        Ok(())
    }

    /// How the runs stand to the one at `baseline`, in words.
    ///
    /// # Errors
    /// Never in practice: the view is strings.
    pub fn compare(&mut self, baseline: usize) -> Thrown<JsValue> {
        let comparison = self.comparison(baseline);
        let mut verdicts = words::verdict(comparison).into_iter();
        let runs = comparison.runs.iter().zip(words::short_verdicts(comparison)).map(|(run, in_short)| ComparedView {
            label: run.label.clone(),
            outcome: run.outcome.word(),
            in_short,
            verdict: if run.outcome == Outcome::Baseline { None } else { verdicts.next() }.unwrap_or_default(),
            warnings: run.warnings.clone(),
        });
        to_js(&ComparisonView { baseline: comparison.baseline, runs: runs.collect() })
    }

    /// The changes as diverging bars, a list of SVG nodes as `Reports.chart` gives it.
    ///
    /// # Errors
    /// Never in practice: the nodes are strings.
    pub fn chart(&mut self, baseline: usize, width: u32, hidden: Vec<String>) -> Thrown<JsValue> {
        let hidden: Vec<&str> = hidden.iter().map(String::as_str).collect();
        let (deltas, what) = words::deltas(self.comparison(baseline));
        to_js(&chart::diverging_bars(&deltas, &what, &hidden, width))
    }

    /// A table of the comparison, as `Reports.table` gives those of the runs.
    ///
    /// # Errors
    /// A request of another shape.
    pub fn table(&mut self, baseline: usize, request: &JsValue) -> Thrown<JsValue> {
        let request: TableRequest = json::read(&String::from(js_sys::JSON::stringify(request)?)).map_err(thrown)?;
        let whole = words::table(self.comparison(baseline), &request.id, request.run);
        to_js(&whole.map(|whole| view::Arranged::table(whole, &request, false).view(&request)))
    }

    /// The report text of a file of another tool.
    ///
    /// # Errors
    /// The sentence of a refused input.
    pub fn translate(&self, label: &str, text: &str) -> Thrown<String> {
        Ok(session::translate(label, text).map_err(thrown)?.compact())
    }

    /// The text of a file to save: the same bytes that the command line prints. `table` is the table of a CSV; of Markdown
    /// it is a group of tables, `compare`, or empty for the whole report. `baseline` is that of the tables of a comparison.
    ///
    /// # Errors
    /// An unknown format or table.
    pub fn export(&mut self, format: &str, table: &str, baseline: usize) -> Thrown<String> {
        match format {
            "csv" if words::TABLES.contains(&table) => Ok(words::full_table(self.comparison(baseline), table)
                .map(|table| report::csv(&table))
                .unwrap_or_default()),
            "markdown" if table == "compare" => Ok(words::markdown(self.comparison(baseline))),
            "markdown" if !table.is_empty() => Ok(report::markdown_group(&self.report, table)),
            "csv" => report::table(&self.report, table, None)
                .map(|table| report::csv(&table))
                .ok_or_else(|| thrown(format!("no table `{table}`"))),
            _ => text(&self.report, format),
        }
    }
}

/// The whole report as a text in this format.
pub(super) fn text(report: &Report, format: &str) -> Thrown<String> {
    match format {
        "html" => Ok(report::html_page(report, "gpuprism report")),
        "json" => Ok(report.json()),
        "markdown" => Ok(report::markdown(report)),
        other => Err(thrown(format!("no format `{other}`"))),
    }
}
