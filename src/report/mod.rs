//! The Report: all results of all runs, and one renderer per output.
//!
//! `tables` lays results out as typed [`table::Table`]s, `format` writes their cells for people, and the renderers
//! (terminal, `csv`, `markdown`, `html`, the page) differ only in what they put around them. Nothing here computes.

pub mod chart;
pub mod compare;
mod csv;
#[cfg(not(target_arch = "wasm32"))]
pub mod explain;
mod findings;
pub mod foreign;
pub mod format;
mod groups;
pub mod html;
pub mod link;
mod markdown;
pub mod palette;
mod pivot;
pub mod ranks;
pub mod redact;
mod sections;
mod sort_filter;
pub mod table;
mod tables;
#[cfg(not(target_arch = "wasm32"))]
pub mod terminal;
mod text;
pub mod triage;
pub mod zip;

pub use csv::{csv, field as csv_field};
pub use findings::{Finding, findings, merged_findings};
pub use groups::{Group, all_tables, groups, groups_by_stage, is_known_table, known_tables, tables_of};
pub use markdown::{group as markdown_group, markdown, table as markdown_table};
#[cfg(not(target_arch = "wasm32"))]
pub use pivot::pivot_json;
pub use pivot::{axis_name, pivot_table, with_totals_row};
pub use sections::section_table;
pub use sort_filter::{TableRequest, sort_and_filter};
pub use tables::{bars, is_builtin_table, legend, severity, table};
pub use text::{Clause, clauses, facts, verdict};

use crate::analysis::compare::compare as compare_runs;
use crate::analysis::results::Run;
use crate::analysis::section::Section;
use crate::json::{self, FromJson, Json, from_json};
use crate::{Error, Result};
use serde::Serialize;
use std::collections::HashMap;
use std::fmt;

/// The version of the report's JSON shape; an older gpuprism refuses a newer one by name.
pub const SCHEMA: &str = "gpuprism-report/1";
/// How it begins in every version.
const KIND: &str = "gpuprism-report/";

/// All results of all runs, in the order the person gave the files.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// One a trace.
    pub runs: Vec<Run>,
}
from_json!(Report { schema, runs });

impl Report {
    /// A report of these runs.
    pub fn new(runs: Vec<Run>) -> Self {
        Self { schema: SCHEMA.to_owned(), runs }
    }

    /// Is this JSON text a report, of whatever version?
    pub fn is_one(text: &str) -> bool {
        // A text of another kind is not parsed as a whole.
        text.contains(KIND) && Json::parse(text).is_ok_and(|json| version(&json).starts_with(KIND))
    }

    /// Reads a report back.
    ///
    /// # Errors
    /// Another version, or a report that somebody changed into another shape.
    pub fn read(label: &str, text: &str) -> Result<Self> {
        let damaged =
            |why: &dyn fmt::Display| Error::refused(label, format!("a gpuprism report that is damaged: {why}"));
        let json = Json::parse(text).map_err(|error| damaged(&error))?;
        let version = version(&json);
        if version != SCHEMA {
            let why = format!(
                "a report of the version `{version}`; this gpuprism reads `{SCHEMA}`: make it again from the trace"
            );
            return Err(Error::refused(label, why));
        }
        Self::from_json(json).map_err(|error| damaged(&error))
    }

    /// The one text of this report: the same bytes natively and in the browser.
    pub fn json(&self) -> String {
        // Strings, numbers and lists under string keys always serialise.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// The same without line breaks, to be handed between the page's workers and read back.
    pub fn compact(&self) -> String {
        json::write(self)
    }

    /// What to call each run: its label, numbered where several share one.
    pub fn labels(&self) -> Vec<String> {
        let mut seen: HashMap<&str, usize> = HashMap::new();
        let mut labels = Vec::with_capacity(self.runs.len());
        for run in &self.runs {
            let times = seen.entry(&run.label).or_default();
            *times += 1;
            labels.push(if *times == 1 { run.label.clone() } else { format!("{} ({times})", run.label) });
        }
        labels
    }
}

/// One HTML file with the chart and all tables.
pub fn html_page(report: &Report, title: &str) -> String {
    let legend = legend(report);
    let legend: Vec<&str> = legend.iter().map(String::as_str).collect();
    let chart = chart::stacked_bars(&bars(report), &legend, &[], PAGE_WIDTH);
    let one_run = report.runs.len() == 1;
    let tables = all_tables(report).into_iter();
    let mut tables: Vec<table::Table> = tables.map(|table| if one_run { table.without_run() } else { table }).collect();
    if !one_run && !report.runs.is_empty() {
        tables.splice(0..0, comparison(report));
    }
    html::html(report, &tables, &[chart], &dashboard(report), title)
}

/// The panels of a single run; of several those of the second beside the first.
fn dashboard(report: &Report) -> html::Dashboard {
    let options = chart::dashboard::Options {
        width: PAGE_WIDTH,
        column_width: PAGE_COLUMN_WIDTH,
        ..chart::dashboard::Options::default()
    };
    let (run, baseline) = if report.runs.len() > 1 { (1, Some(0)) } else { (0, None) };
    let labels = report.labels();
    let heading = match (labels.as_slice(), baseline) {
        ([first, second, ..], Some(_)) => format!("Dashboard of {second}, beside {first}"),
        _ => "Dashboard".to_owned(),
    };
    html::Dashboard { heading, panels: chart::dashboard::dashboard(report, run, baseline, &options) }
}

/// The runs beside the first, as `gpuprism diff` compares them; why, where it refuses.
fn comparison(report: &Report) -> Vec<table::Table> {
    let labels = report.labels();
    let runs: Vec<(&str, &Run)> = labels.iter().map(String::as_str).zip(&report.runs).collect();
    let mut comparison = compare_runs(&runs, 0);
    let ids = ["compare_summary", "compare_categories", "compare_kernels"];
    let sections = ids.iter().filter_map(|id| Some((*id, comparison.sections.remove(*id)?)));
    let sections: Vec<(&str, Section)> = sections.collect();
    let mut tables: Vec<table::Table> = sections.iter().map(|(id, section)| section_table(id, section)).collect();
    // Refused comparisons have a sentence, and no rows by category or kernel.
    tables.retain(|table| table.id == "compare_summary" || !table.rows.is_empty());
    if let Some(first) = tables.first_mut() {
        first.note = [compare::verdict(&comparison).join(" "), std::mem::take(&mut first.note)].join(" ");
    }
    tables
}

/// The width of a chart in a file, in pixels, and of one of two side by side.
const PAGE_WIDTH: u32 = 1216;
const PAGE_COLUMN_WIDTH: u32 = 594;

fn version(json: &Json) -> &str {
    json.get_path(&["schema"]).and_then(Json::text).unwrap_or_default()
}

/// A report with kernels, sections and notices, for the tests of what is done with whole reports.
#[cfg(test)]
mod tests_support {
    use super::Report;
    use crate::input::{Imported, Importer};
    use crate::session::{self, Choices};

    pub(super) fn sample() -> Report {
        let events: Vec<String> = (0..40)
            .map(|at| {
                let (kernel, start) = (format!("kernel_{at}<float, {at}>(int)"), at * 10);
                format!(
                    r#"{{"ph": "X", "cat": "kernel", "name": "{kernel}", "pid": 0, "tid": 7, "ts": {start}, "dur": 7.5,
                    "args": {{"device": 0, "stream": 7, "correlation": {at}}}}}"#
                )
            })
            .collect();
        let mut importer = Importer::new("sample.json");
        importer.feed(format!(r#"{{"traceEvents": [{}]}}"#, events.join(",")).as_bytes()).unwrap();
        let Imported::Trace(trace) = importer.finish().unwrap() else { panic!("a trace") };
        Report::new(vec![session::run(&trace, &Choices::default()).unwrap()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::results::{Attribution, Category, Format, Sections, Totals, Wall, WallSource};

    fn run(label: &str, share: f64) -> Run {
        let category = Category {
            category: "gemm".into(),
            count: 1,
            duration_ns: 1,
            elapsed_ns: i64::MAX,
            exclusive_ns: 0,
            fair_ns: 0,
            elapsed_share: share,
            bar_share: share,
        };
        let wall = Wall {
            wall_ns: 1,
            source: WallSource::Window,
            bar_ns: 1,
            cpu_ns: 0,
            cpu_share: share,
            busy_share: share,
            shared_ns: 0,
            shared_share: share,
        };
        Run {
            label: label.into(),
            format: Format::TorchProfiler,
            engine: None,
            rules: "gpuprism/default".into(),
            attribution: Attribution::FirstCome,
            devices_merged: false,
            window: None,
            totals: Totals::default(),
            wall,
            devices: Vec::new(),
            categories: vec![category],
            kernels: Vec::new(),
            notices: Vec::new(),
            sections: Sections::new(),
        }
    }

    #[test]
    fn a_report_read_back_is_the_same_report_to_the_last_bit() {
        let shares = (1..2000).map(|part| f64::from(part) / 1999.0 / 3.0);
        let report = Report::new(shares.map(|share| run("\u{202e}=a,\"b\"\n", share)).collect());
        let text = report.json();
        assert_eq!(Report::read("r.json", &text).unwrap().json(), text);
    }

    #[test]
    fn a_report_of_another_version_is_refused_by_name() {
        let text = Report::new(Vec::new()).json().replace("report/1", "report/7");
        assert!(Report::is_one(&text));
        let error = Report::read("r.json", &text).unwrap_err().to_string();
        assert!(error.contains("gpuprism-report/7") && error.contains(SCHEMA), "{error}");
        assert!(!Report::is_one(r#"{"schema": "other/1"}"#) && !Report::is_one("{}") && !Report::is_one("nonsense"));
    }

    #[test]
    fn a_page_of_several_runs_compares_them_with_the_first() {
        let sample = tests_support::sample();
        let mut other = sample.runs[0].clone();
        other.label = "other.json".into();
        let both = html_page(&Report::new(vec![sample.runs[0].clone(), other]), "t");
        assert!(both.contains("other.json takes exactly as long as sample.json"), "the verdict");
        assert!(both.contains("id=\"compare_summary\""), "its table");
        assert!(!html_page(&sample, "t").contains("compare_summary"), "one run has nothing beside it");
    }

    #[test]
    fn runs_of_one_name_are_numbered() {
        let report = Report::new(vec![run("a", 0.0), run("b", 0.0), run("a", 0.0)]);
        assert_eq!(report.labels(), ["a", "b", "a (2)"]);
    }
}
