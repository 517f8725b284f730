//! [`Report`], the results of all runs, and its renderers.
//!
//! `tables`, `sections` and `groups` convert results to typed [`table::Table`]s. `format` formats their cells. The
//! renderers (`terminal`, `csv`, `markdown`, `html`, the page) differ only in the markup. `text` has the sentences,
//! [`chart`] the charts, [`redact`], [`link`] and [`mod@zip`] are for sharing. This module formats: every number shown
//! is a field of a result.

#[cfg(not(target_arch = "wasm32"))]
pub mod brief;
pub mod chart;
pub mod compare;
mod csv;
mod examples;
#[cfg(not(target_arch = "wasm32"))]
pub mod explain;
mod findings;
pub mod foreign;
pub mod format;
mod groups;
pub mod headline;
pub mod html;
pub mod link;
mod markdown;
pub mod model;
pub mod model_sentences;
pub mod palette;
mod pivot;
pub(crate) mod proton_tree;
pub mod ranks;
#[cfg(not(target_arch = "wasm32"))]
mod records;
pub mod redact;
mod row_cases;
mod sections;
mod short_names;
mod sort_filter;
pub mod source_links;
pub mod table;
mod tables;
#[cfg(not(target_arch = "wasm32"))]
pub mod terminal;
mod text;
pub mod timeline;
#[cfg(all(not(target_arch = "wasm32"), feature = "facts"))]
pub mod trend;
pub mod triage;
pub mod zip;

pub use csv::{csv, field as csv_field};
pub use examples::ExampleLink;
pub use findings::{Finding, findings, merged_findings};
pub use groups::{Tab, all_tables, groups, is_known_table, known_tables, tables_of, tabs};
pub use markdown::{group as markdown_group, markdown, table as markdown_table};
#[cfg(not(target_arch = "wasm32"))]
pub use pivot::pivot_json;
pub use pivot::{pivot_table, with_totals_row};
#[cfg(not(target_arch = "wasm32"))]
pub use records::{record_tables, records};
pub use row_cases::RowCases;
pub(crate) use sections::section_name;
pub use sections::{Group, TableChoice, displayed, section_table, shortened};
pub use sort_filter::{TableRequest, hiding_categories, narrow_names, sort_and_filter};
pub use tables::{bars, is_builtin_table, legend, severity, table};
pub use text::{Clause, clauses, facts, facts_without_rules, verdict};

use crate::analysis::compare::compare as compare_runs;
#[cfg(not(target_arch = "wasm32"))]
use crate::analysis::results::Format;
use crate::analysis::results::Run;
use crate::json::{self, FromJson, Json, from_json};
use crate::{Error, Result};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

/// The version of the report's JSON schema. A report of another version is refused.
pub const SCHEMA: &str = "gpuprism-report/1";
/// The part of [`SCHEMA`] that all versions share.
const SCHEMA_PREFIX: &str = "gpuprism-report/";

/// The results of all runs, in the order in which the files were given.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The version of this format, [`SCHEMA`]: `gpuprism-report/1`.
    pub schema: String,
    /// One run per trace.
    pub runs: Vec<Run>,
}
from_json!(Report { schema, runs });

impl Report {
    /// A report of these runs.
    pub fn new(runs: Vec<Run>) -> Self {
        Self { schema: SCHEMA.to_owned(), runs }
    }

    /// Whether this JSON text is a report of any version.
    pub fn is_report(text: &str) -> bool {
        // The substring search avoids parsing other JSON files.
        text.contains(SCHEMA_PREFIX) && Json::parse(text).is_ok_and(|json| version(json).starts_with(SCHEMA_PREFIX))
    }

    /// Parses a report.
    ///
    /// # Errors
    /// The text has another version or does not match the schema. The error names `label`.
    pub fn read(label: &str, text: &str) -> Result<Self> {
        let damaged = |why: &dyn fmt::Display| Error::refused(label, format!("a damaged gpuprism report: {why}"));
        let json = Json::parse(text).map_err(|error| damaged(&error))?;
        let version = version(json);
        if version != SCHEMA {
            let why = format!(
                "a report of version `{version}`; this gpuprism reads `{SCHEMA}`: create the report again from the trace"
            );
            return Err(Error::refused(label, why));
        }
        Self::from_json(json).map_err(|error| damaged(&error))
    }

    /// What the file of this report is, with its article, for a sentence that refuses it.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn kind(&self) -> &'static str {
        match self.runs.first().map(|run| run.format) {
            Some(Format::ProtonTree) => "a Proton tree, which has totals of kernels and no events",
            Some(Format::NsysLlmExplainer) => "a report of nsys-llm-explainer",
            _ => "an earlier report",
        }
    }

    /// The report as indented JSON: the same bytes natively and in the browser.
    pub fn json(&self) -> String {
        json::write_indented(self)
    }

    /// The report as compact JSON, for messages between the page's workers and for links.
    pub fn compact(&self) -> String {
        json::write(self)
    }

    /// The labels of the runs; duplicates get a number.
    pub fn labels(&self) -> Vec<String> {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        let mut labels = Vec::with_capacity(self.runs.len());
        for run in &self.runs {
            let count = counts.entry(&run.label).or_default();
            *count += 1;
            labels.push(if *count == 1 { run.label.clone() } else { format!("{} ({count})", run.label) });
        }
        labels
    }
}

/// The report as one HTML file with charts and all tables.
pub fn html_page(report: &Report, title: &str) -> String {
    html_page_with_timelines(report, &[], title)
}

/// Like [`html_page`], with the strips of the traces, in the order of the runs.
pub fn html_page_with_timelines(report: &Report, overviews: &[Option<html::Overview>], title: &str) -> String {
    let legend = legend(report);
    let legend: Vec<&str> = legend.iter().map(String::as_str).collect();
    let bars = bars(report);
    let draw = |width| chart::stacked_bars(&bars, &legend, &[], width);
    let bars = html::Drawings { wide: draw(html::PAGE_WIDTH), narrow: Some(draw(html::NARROW_WIDTH)) };
    let one_run = report.runs.len() == 1;
    let tables = all_tables(report).into_iter().map(displayed);
    let mut tables: Vec<table::Table> = tables.map(|table| if one_run { table.without_run() } else { table }).collect();
    if !one_run && !report.runs.is_empty() {
        tables.splice(0..0, comparison(report));
    }
    html::html(report, &tables, &bars, overviews, &[model_dashboard(report), dashboard(report)], title)
}

/// The charts and sentences on the model of the run that the dashboard shows.
fn model_dashboard(report: &Report) -> html::Dashboard {
    let run = usize::from(report.runs.len() > 1);
    let heading = match report.labels().get(run) {
        Some(label) if report.runs.len() > 1 => format!("Model of {label}"),
        _ => "Model".to_owned(),
    };
    let lines = model_sentences::lines(report).into_iter().map(|line| line.text).collect();
    let draw = |width| chart::dashboard::model_charts(report, run, &widths(width, width));
    html::Dashboard {
        heading,
        lines,
        panels: draw(html::PAGE_WIDTH),
        narrow: draw(html::NARROW_WIDTH),
        zoomed: Vec::new(),
    }
}

/// The dashboard of a single run. With several runs: the second run with the first as baseline.
fn dashboard(report: &Report) -> html::Dashboard {
    let (run, baseline) = if report.runs.len() > 1 { (1, Some(0)) } else { (0, None) };
    let labels = report.labels();
    let heading = match (labels.as_slice(), baseline) {
        ([first, second, ..], Some(_)) => format!("Dashboard of {second} with the baseline {first}"),
        _ => "Dashboard".to_owned(),
    };
    let draw = |width, column_width| chart::dashboard::dashboard(report, run, baseline, &widths(width, column_width));
    html::Dashboard {
        heading,
        lines: Vec::new(),
        panels: draw(html::PAGE_WIDTH, PAGE_COLUMN_WIDTH),
        narrow: draw(html::NARROW_WIDTH, html::NARROW_WIDTH),
        zoomed: draw(ZOOM * html::PAGE_WIDTH, PAGE_COLUMN_WIDTH),
    }
}

/// The choices for charts of these widths.
fn widths(width: u32, column_width: u32) -> chart::dashboard::Options {
    chart::dashboard::Options { width, column_width, ..chart::dashboard::Options::default() }
}

/// The tables of a comparison of all runs with the first, as in `gpuprism diff`.
fn comparison(report: &Report) -> Vec<table::Table> {
    let labels = report.labels();
    let runs: Vec<(&str, &Run)> = labels.iter().map(String::as_str).zip(&report.runs).collect();
    let comparison = compare_runs(&runs, 0);
    let mut tables: Vec<table::Table> =
        compare::TABLES.iter().filter_map(|id| compare::full_table(&comparison, id)).collect();
    // If nothing could be compared, only the summary has rows: the reasons.
    tables.retain(|table| table.id == "compare_summary" || !table.rows.is_empty());
    if let Some(first) = tables.first_mut() {
        let trust = comparison.trust.iter().map(|row| row.text.clone());
        let sentences = compare::verdict(&comparison).into_iter().chain(trust).chain([std::mem::take(&mut first.note)]);
        first.note = sentences.collect::<Vec<_>>().join(" ");
    }
    tables
}

/// The width of one of two charts in a row, in pixels.
const PAGE_COLUMN_WIDTH: u32 = 594;
/// How much wider the events are when zoomed in.
const ZOOM: u32 = 8;

fn version<'a>(json: Json<'a>) -> Cow<'a, str> {
    json.get_path(&["schema"]).and_then(Json::text).unwrap_or_default()
}

/// Runs and reports for tests.
#[cfg(test)]
mod tests_support {
    use super::{Report, Run};
    use crate::session::{self, Choices};
    use crate::trace::testing::TestTrace;

    /// The run of a trace without events.
    pub(super) fn empty_run(label: &str) -> Run {
        session::run(&TestTrace::new().label(label).finish(), &Choices::default()).unwrap()
    }

    /// A report with 40 kernels, sections and notices.
    pub(super) fn sample() -> Report {
        let mut trace = TestTrace::new();
        trace.label("sample.json");
        for index in 0..40 {
            let start = index * 10_000;
            trace.kernel(&format!("kernel_{index}<float, {index}>(int)"), start..start + 7_500);
        }
        Report::new(vec![session::run(&trace.finish(), &Choices::default()).unwrap()])
    }
}

#[cfg(test)]
mod tests {
    use super::tests_support::{empty_run, sample};
    use super::*;
    use crate::analysis::results::Wall;

    #[test]
    fn reading_a_report_back_restores_every_bit() {
        let mut run = empty_run("\u{202e}=a,\"b\"\n");
        run.sections.clear();
        run.wall.wall_ns = i64::MAX;
        let shares = (1..2000).map(|part| f64::from(part) / 1999.0 / 3.0);
        let with_share = |share| Run { wall: Wall { cpu_share: share, ..run.wall.clone() }, ..run.clone() };
        let text = Report::new(shares.map(with_share).collect()).json();
        assert_eq!(Report::read("r.json", &text).unwrap().json(), text);
    }

    #[test]
    fn a_report_of_another_version_is_refused_with_its_version() {
        let text = Report::new(Vec::new()).json().replace("report/1", "report/7");
        assert!(Report::is_report(&text));
        let error = Report::read("r.json", &text).unwrap_err().to_string();
        assert!(error.contains("gpuprism-report/7") && error.contains(SCHEMA), "{error}");
        assert!(
            !Report::is_report(r#"{"schema": "other/1"}"#)
                && !Report::is_report("{}")
                && !Report::is_report("nonsense")
        );
    }

    #[test]
    fn a_page_of_several_runs_compares_them_with_the_first() {
        let sample = sample();
        let mut other = sample.runs[0].clone();
        other.label = "other.json".into();
        let both = html_page(&Report::new(vec![sample.runs[0].clone(), other]), "t");
        assert!(both.contains("other.json takes exactly as long as sample.json"), "the verdict");
        assert!(both.contains("id=\"compare_summary\""), "its table");
        assert!(!html_page(&sample, "t").contains("compare_summary"), "a single run has no comparison");
        let mut slower = sample.runs[0].clone();
        slower.label = "slower.json".into();
        slower.kernels[0].elapsed_ns += 100_000;
        slower.wall.bar_ns += 100_000;
        slower.wall.wall_ns += 100_000;
        let page = html_page(&Report::new(vec![sample.runs[0].clone(), slower]), "t");
        assert!(page.contains("Largest kernel change: +100 us in kernel_"), "the sentence needs the table of kernels");
    }

    #[test]
    fn duplicate_labels_are_numbered() {
        let report = Report::new(["a", "b", "a"].map(empty_run).into());
        assert_eq!(report.labels(), ["a", "b", "a (2)"]);
    }
}
