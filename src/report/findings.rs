//! What to do: the section `findings`, for people.

use super::Report;
use super::chart::Unit;
use super::format::figure;
use super::sections::table_id;
use super::table::Cell;
use crate::analysis::results::Run;
use crate::analysis::section::{Record, Value};
use crate::ordering::StableSort;
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

/// The same, each once: what several runs have alike is told of the one that it costs most, with how many others have it, none of
/// them more gravely.
pub fn merged_findings(report: &Report) -> Vec<Finding<'_>> {
    let mut told: Vec<(Finding, Vec<String>)> = Vec::new();
    for finding in findings(report) {
        let is_alike = |known: &Finding| {
            let is_as_grave =
                known.severity == finding.severity || known.severity == "high" || finding.severity == "low";
            known.run != finding.run && known.title == finding.title && is_as_grave
        };
        match told.iter_mut().find(|(known, _)| is_alike(known)) {
            Some((_, others)) if others.contains(&finding.run) => {}
            Some((_, others)) => others.push(finding.run),
            None => told.push((finding, Vec::new())),
        }
    }
    let named = told.into_iter().map(|(finding, others)| match others.len() {
        0 => finding,
        1 => Finding { run: format!("{}; alike in 1 other run", finding.run), ..finding },
        several => Finding { run: format!("{}; alike in {several} other runs", finding.run), ..finding },
    });
    named.collect()
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
    let cost = Unit::split_suffix("cost_ms").filter(|_| cost_ms(row) > 0.0);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::section::Section;
    use crate::analysis::section::Sections;
    use crate::session::{self, Choices};
    use crate::trace::{Format, TraceBuilder};

    /// A run of this label with these findings: a severity, a title and what it costs in milliseconds each.
    fn run(label: &str, found: &[(&str, &str, f64)]) -> Run {
        let mut run =
            session::run(&TraceBuilder::new(label, Format::TorchProfiler).finish(), &Choices::default()).unwrap();
        let mut section = Section::new("Findings", "", &["severity", "title", "cost_ms", "evidence"]);
        for (severity, title, cost_ms) in found {
            section.row([(*severity).into(), (*title).into(), (*cost_ms).into(), label.into()]);
        }
        run.sections = Sections::from([("findings".to_owned(), section)]);
        run
    }

    #[test]
    fn what_runs_have_in_common_is_told_once_of_the_run_that_it_costs_most() {
        let runs = vec![
            run("a", &[("high", "Idle", 2.0), ("low", "Copies", 9.0)]),
            run("b", &[("high", "Idle", 5.0)]),
            run("c", &[("medium", "Idle", 3.0), ("high", "Copies", 1.0)]),
        ];
        let report = Report::new(runs);
        let told = |it: &Finding| (it.severity.to_owned(), it.title.to_owned(), it.run.clone(), it.cost.clone());
        let owned = |of: [&str; 4]| (of[0].to_owned(), of[1].to_owned(), of[2].to_owned(), of[3].to_owned());
        let short: Vec<_> = merged_findings(&report).iter().map(told).collect();
        let wanted = [
            ["low", "Copies", "a", "9.00 ms"],
            ["high", "Idle", "b; alike in 2 other runs", "5.00 ms"],
            ["high", "Copies", "c", "1.00 ms"],
        ];
        assert_eq!(short, wanted.map(owned), "a graver one is no other's");
        assert_eq!(findings(&report).len(), 5, "files hold them all");
        let twice = Report::new(vec![run("a", &[("low", "Copies", 2.0), ("low", "Copies", 1.0)])]);
        assert_eq!(merged_findings(&twice).len(), 2, "of one run all are told");
    }
}
