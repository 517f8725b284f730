//! The notes after the tables, most important first: warnings about the input, limits of the tables, hidden rows, other
//! notices. The last list defines the figures, which is the same for every trace.

use super::super::text::notice_lines;
use super::View;
use super::tables::MAIN_TABLES;
use crate::analysis::results::{Run, Severity};
use crate::analysis::section::Value;
use crate::analysis::triage::definitions::is_definition;

/// gpuprism's own tables; the summary with its warnings is first.
const OWN_TABLES: [&str; 3] = ["triage_summary", "triage_steps", "triage_catalog"];

/// Distinct sentences with the labels of their runs.
#[derive(Default)]
struct Lines(Vec<(String, Vec<String>)>);

impl Lines {
    fn add(&mut self, run: &str, line: String) {
        match self.0.iter_mut().find(|(other, _)| *other == line) {
            Some((_, runs)) if runs.iter().any(|other| other == run) => {}
            Some((_, runs)) => runs.push(run.to_owned()),
            None => self.0.push((line, vec![run.to_owned()])),
        }
    }

    /// The sentences. One that does not apply to all runs starts with the labels of its runs.
    fn sentences(&self, run_count: usize) -> Vec<String> {
        let sentence = |(line, runs): &(String, Vec<String>)| {
            let line = line.trim_end();
            if runs.len() < run_count { format!("{}: {line}", runs.join(", ")) } else { line.to_owned() }
        };
        self.0.iter().map(sentence).collect()
    }
}

impl View<'_> {
    pub(super) fn notes(&self) -> String {
        let list = |heading: &str, sentences: Vec<String>| match sentences.is_empty() {
            true => String::new(),
            false => {
                let items = sentences.iter().map(|sentence| self.style.item(sentence));
                self.style.heading(heading) + &items.collect::<String>()
            }
        };
        let (notes, definitions) = self.sentences();
        list("Notes", notes) + &list("Definitions", definitions)
    }

    /// The notes and the definitions.
    pub(super) fn sentences(&self) -> (Vec<String>, Vec<String>) {
        let (mut notes, mut definitions) = (Lines::default(), Lines::default());
        let labels = self.report.labels();
        let runs: Vec<(&str, &Run)> = labels.iter().map(String::as_str).zip(&self.report.runs).collect();
        let notices = |notes: &mut Lines, is_wanted: fn(Severity) -> bool| {
            for (label, run) in &runs {
                let lines = run.notices.iter().zip(notice_lines(run));
                lines.filter(|(notice, _)| is_wanted(notice.severity)).for_each(|(_, line)| notes.add(label, line));
            }
        };
        notices(&mut notes, |severity| severity != Severity::Info);
        for (prefix, name) in sections_in_order() {
            for (label, section) in runs.iter().filter_map(|(label, run)| Some((label, run.sections.get(name)?))) {
                let (defining, limits): (Vec<&String>, Vec<&String>) =
                    section.limits.iter().partition(|limit| is_definition(limit));
                limits.into_iter().for_each(|limit| notes.add(label, format!("{prefix}{limit}")));
                // Definitions are equal for all runs, and a table without rows needs none.
                let defining = defining.into_iter().filter(|_| !section.rows.is_empty());
                defining.for_each(|limit| definitions.add("", format!("{prefix}{limit}")));
                if let Some(missing) = section.missing.as_ref().filter(|_| !prefix.is_empty()) {
                    notes.add(label, format!("{prefix}{} {}", missing.why, missing.recapture));
                }
            }
        }
        runs.iter().for_each(|(label, run)| hidden(run).into_iter().for_each(|line| notes.add(label, line)));
        notices(&mut notes, |severity| severity == Severity::Info);
        (notes.sentences(runs.len()), definitions.sentences(0))
    }
}

/// The sections with the prefix of their sentences. gpuprism's own tables have none, and show missing data themselves.
fn sections_in_order() -> impl Iterator<Item = (String, &'static str)> {
    let main_tables = MAIN_TABLES.iter().map(|layout| (format!("{}: ", layout.title), layout.section));
    OWN_TABLES.iter().map(|name| (String::new(), *name)).chain(main_tables)
}

/// Sentences about rows that are not shown.
fn hidden(run: &Run) -> Vec<String> {
    let number = |section: &str, figure: &str| {
        let section = run.sections.get(section)?;
        section.summary.get(figure).and_then(Value::number).filter(|number| *number > 0.0)
    };
    let (mut below, mut lines) = (Vec::new(), Vec::new());
    if let Some(kernels) = number("triage_kernels", "hidden_rows") {
        let all = run.sections.get("triage_kernels").map_or(0, |section| section.rows_in_all);
        let share = number("triage_kernels", "hidden_share_pct").unwrap_or_default();
        below.push(format!("{kernels} of {all} kernels ({share:.1} % of the GPU time)"));
    }
    for (section, figure, what) in
        [("triage_overlap", "rows_below_bar", "overlap row"), ("triage_fuse", "under_the_bar", "fuse pattern")]
    {
        below.extend(number(section, figure).map(|rows| counted(rows, what)));
    }
    if !below.is_empty() {
        lines.push(format!(
            "Hidden because their share is below the minimum: {}; --min-share 0 shows them.",
            below.join(", ")
        ));
    }
    if let Some(serial) = number("triage_overlap", "serial_rows") {
        lines.push(format!(
            "Left out of the overlap opportunities: {} running alone, because the work before and after on the same stream \
             makes it unlikely that it can be moved.",
            counted(serial, "kernel"),
        ));
    }
    lines
}

fn counted(count: f64, what: &str) -> String {
    if count == 1.0 { format!("{count} {what}") } else { format!("{count} {what}s") }
}
