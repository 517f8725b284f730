//! What to do: the section `findings`, for people.

use super::Report;
use super::chart::Unit;
use super::format::figure;
use super::sections::table_id;
use super::table::Cell;
use crate::analysis::results::Run;
use crate::analysis::section::{Record, Value};
use crate::ordering::InOrder;
use serde::Serialize;

/// One finding, ready to be written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding<'a> {
    /// The run it is about; empty in a report of one run.
    pub run: String,
    /// `high`, `medium` or `low`.
    pub severity: &'a str,
    /// What it is, in a few words.
    pub title: &'a str,
    /// The time at stake, with its unit; empty where none is known.
    pub cost: String,
    /// The numbers it is made of.
    pub evidence: Vec<&'a str>,
    /// What to do.
    pub recommendation: Vec<&'a str>,
    /// Stable name of the table whose rows prove it; empty where none is named.
    pub table: &'a str,
}

/// All findings, those of several runs by what they cost.
pub fn findings(report: &Report) -> Vec<Finding<'_>> {
    let labels = report.labels();
    let mut found: Vec<(f64, Finding)> = Vec::new();
    for (label, run) in labels.iter().zip(&report.runs) {
        let run_name = if labels.len() > 1 { label.as_str() } else { "" };
        let named = of_run(run).map(|finding| Finding { run: run_name.to_owned(), ..finding });
        found.extend(rows(run).iter().map(cost_ms).zip(named));
    }
    if labels.len() > 1 {
        found.order_by(|a, b| b.0.total_cmp(&a.0));
    }
    found.into_iter().map(|(_, finding)| finding).collect()
}

/// The findings of one run, in the order of its section.
pub(super) fn of_run(run: &Run) -> impl Iterator<Item = Finding<'_>> {
    rows(run).iter().map(finding)
}

fn rows(run: &Run) -> &[Record] {
    run.sections.get("findings").map_or(&[], |section| &section.rows)
}

fn cost_ms(row: &Record) -> f64 {
    row.get("cost_ms").and_then(Value::number).unwrap_or_default()
}

fn finding(row: &Record) -> Finding<'_> {
    let text = |key: &str| row.get(key).and_then(Value::text).unwrap_or_default();
    let cost = Unit::at_end_of("cost_ms").filter(|_| cost_ms(row) > 0.0);
    Finding {
        run: String::new(),
        severity: text("severity"),
        title: text("title"),
        cost: cost.map(|(_, ms)| figure(&Cell::Time(cost_ms(row), ms)).text).unwrap_or_default(),
        evidence: lines(text("evidence")),
        recommendation: lines(text("recommendation")),
        table: table_id(text("section")),
    }
}

/// A line is an item.
fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
}
