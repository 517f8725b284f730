//! The findings of a report: the rows of the sections `findings`, ready for display.

use super::Report;
use super::chart::Unit;
use super::examples::{ExampleLink, example_of_finding};
use super::format::figure;
use super::sections::table_id;
use super::table::Cell;
use crate::analysis::findings::{Confidence, FindingId, FindingRow, Findings, Severity};
use crate::analysis::results::Run;
use crate::analysis::section::{Fields, Record, TypedSection};
use crate::ordering;
use serde::Serialize;

/// One finding, formatted for display.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding<'a> {
    /// The label of its run; empty in a report of one run.
    pub run: String,
    /// The number of its run in the report, from 0.
    pub run_index: usize,
    /// Identifier of the rule, for scripts; empty in reports of other tools.
    pub id: FindingId,
    /// `high`, `medium` or `low`.
    pub severity: Severity,
    /// How certain the finding is: `high`, `medium` or `low`; empty in reports of other tools.
    pub confidence: Confidence,
    /// A short heading.
    pub title: &'a str,
    /// The time that can be saved, with its unit; empty if unknown.
    pub cost: String,
    /// Lines with the numbers that support it.
    pub evidence: Vec<&'a str>,
    /// Lines that say what to do.
    pub action: Vec<&'a str>,
    /// Id of the table with the supporting rows; may be empty.
    pub table: &'a str,
    /// One case of it in the timeline.
    pub example: Option<ExampleLink>,
}

impl Finding<'_> {
    /// Severity and confidence: `high, confidence medium`.
    pub(super) fn grade(&self) -> String {
        match self.confidence {
            Confidence::Unknown => self.severity.word().to_owned(),
            confidence => format!("{}, confidence {}", self.severity.word(), confidence.word()),
        }
    }
}

/// All findings, sorted by severity and then by their share. Those of one run stay in the order of its table.
pub fn findings(report: &Report) -> Vec<Finding<'_>> {
    let labels = report.labels();
    let mut with_shares: Vec<(f64, Finding)> = Vec::new();
    for (run_index, (label, run)) in labels.iter().zip(&report.runs).enumerate() {
        let run_name = if labels.len() > 1 { label.as_str() } else { "" };
        let named = of_run(run).map(|finding| Finding { run: run_name.to_owned(), run_index, ..finding });
        with_shares.extend(falling_shares(rows(run)).into_iter().zip(named));
    }
    // Stable.
    ordering::sort_by(&mut with_shares, |(share, finding), (other_share, other)| {
        other.severity.cmp(&finding.severity).then(other_share.total_cmp(share))
    });
    with_shares.into_iter().map(|(_, finding)| finding).collect()
}

/// The shares of findings, each at most that of the one before it in its severity.
fn falling_shares(rows: &[Record]) -> Vec<f64> {
    let mut before: Option<(Severity, f64)> = None;
    let share = |row: &Record| {
        let FindingRow { severity, share_pct, .. } = FindingRow::read(row);
        let least = before.filter(|(of, _)| *of == severity).map_or(share_pct.0, |(_, least)| least.min(share_pct.0));
        before = Some((severity, least));
        least
    };
    rows.iter().map(share).collect()
}

/// The findings with equal ones of several runs merged. The run where it is most severe, and of these the one with the
/// largest cost, is shown with the number of other runs.
pub fn merged_findings(report: &Report) -> Vec<Finding<'_>> {
    let mut merged: Vec<(Finding, Vec<String>)> = Vec::new();
    for finding in findings(report) {
        // Findings come by severity, so the one that is kept is at least as severe.
        let can_absorb = |kept: &Finding| kept.run != finding.run && kept.title == finding.title;
        match merged.iter_mut().find(|(kept, _)| can_absorb(kept)) {
            Some((_, others)) if others.contains(&finding.run) => {}
            Some((_, others)) => others.push(finding.run),
            None => merged.push((finding, Vec::new())),
        }
    }
    let named = merged.into_iter().map(|(finding, others)| match others.len() {
        0 => finding,
        1 => Finding { run: format!("{} and 1 other run", finding.run), ..finding },
        several => Finding { run: format!("{} and {several} other runs", finding.run), ..finding },
    });
    named.collect()
}

/// The findings of one run in the order of its section.
pub(super) fn of_run(run: &Run) -> impl Iterator<Item = Finding<'_>> {
    rows(run).iter().map(|row| finding(run, row))
}

fn rows(run: &Run) -> &[Record] {
    run.sections.get(Findings::SPEC.name).map_or(&[], |section| &section.rows)
}

fn finding<'a>(run: &'a Run, row: &'a Record) -> Finding<'a> {
    let read = FindingRow::read(row);
    let cost = Unit::split_suffix(FindingRow::cost_ms).filter(|_| read.cost_ms.0 > 0.0);
    Finding {
        run: String::new(),
        run_index: 0,
        id: read.id,
        severity: read.severity,
        confidence: read.confidence,
        title: row.text(FindingRow::title),
        cost: cost.map(|(_, ms)| figure(&Cell::Time(read.cost_ms.0, ms)).text).unwrap_or_default(),
        evidence: lines(row.text(FindingRow::evidence)),
        action: lines(row.text(FindingRow::action)),
        table: table_id(row.text(FindingRow::section)),
        example: example_of_finding(run, &read),
    }
}

/// The non-empty lines of a text.
fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::section::Section;
    use crate::report::tests_support::empty_run;

    /// A run of 100 ms with this label and these findings: severity, title and cost in milliseconds.
    fn run(label: &str, findings: &[(&str, &str, f64)]) -> Run {
        let mut section = Section::new("Findings", "", &["severity", "title", "cost_ms", "share_pct", "evidence"]);
        for (severity, title, cost_ms) in findings {
            section.row([(*severity).into(), (*title).into(), (*cost_ms).into(), (*cost_ms).into(), label.into()]);
        }
        Run { sections: [("findings".to_owned(), section)].into(), ..empty_run(label) }
    }

    #[test]
    fn findings_are_sorted_by_severity_then_share_and_equal_ones_of_several_runs_are_merged() {
        let runs = vec![
            run("a", &[("high", "Idle", 2.0), ("low", "Copies", 9.0)]),
            run("b", &[("high", "Idle", 5.0)]),
            run("c", &[("medium", "Idle", 3.0), ("high", "Copies", 1.0)]),
        ];
        let report = Report::new(runs);
        let texts = |finding: &Finding| {
            [finding.severity.word(), finding.title, &finding.run, &finding.cost].map(str::to_owned)
        };
        let merged: Vec<[String; 4]> = merged_findings(&report).iter().map(texts).collect();
        let wanted =
            [["high", "Idle", "b and 2 other runs", "5.00 ms"], ["high", "Copies", "c and 1 other run", "1.00 ms"]];
        assert_eq!(merged, wanted);
        assert_eq!(findings(&report).len(), 5, "the full list keeps all");
        let twice = Report::new(vec![run("a", &[("low", "Copies", 2.0), ("low", "Copies", 1.0)])]);
        assert_eq!(merged_findings(&twice).len(), 2, "findings of one run are not merged");
    }
}
