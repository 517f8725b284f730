//! Writes the triage as text and as Markdown, from the sections of a report.
//!
//! Headings, columns and number formats of the three main tables are those of the earlier LLM torch-profiler triage
//! script, so that programs that parse its output work with this one. gpuprism's own columns come last, and its own tables
//! and notes follow. Text output escapes only `|` and line ends in names; Markdown output escapes all markup.

mod notes;
mod tables;
#[cfg(not(target_arch = "wasm32"))]
mod terminal;

use super::format::{Shown, figure, headings, shown};
use super::markdown::escape;
use super::table::{Cell, Figure, Table};
use super::{Report, table};
use crate::analysis::results::Run;
use crate::analysis::section::{Section, Value};
use crate::analysis::triage::Stage;
use tables::{Layout, MAIN_TABLES};
#[cfg(not(target_arch = "wasm32"))]
pub use terminal::terminal;

/// The triage as text, in the format of the triage script.
pub fn text(report: &Report) -> String {
    View { report, style: Style::Text }.all()
}

/// The triage as Markdown, for chats and issues.
pub fn markdown(report: &Report) -> String {
    View { report, style: Style::Markdown }.all()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Text,
    Markdown,
}

impl Style {
    fn heading(self, words: &str) -> String {
        match self {
            Self::Text => format!("\n{words}\n"),
            Self::Markdown => format!("\n## {}\n\n", escape(words)),
        }
    }

    fn stage(self, words: &str) -> String {
        match self {
            Self::Text => format!("##### {}\n", self.cell(words)),
            Self::Markdown => format!("### {}\n\n", self.cell(words)),
        }
    }

    fn item(self, words: &str) -> String {
        format!("- {}\n", self.cell(words))
    }

    fn fact(self, name: &str, words: &str) -> String {
        match self {
            Self::Text => format!("{name}: {}\n", self.cell(words)),
            Self::Markdown => format!("- {name}: {}\n", self.cell(words)),
        }
    }

    /// A text in one line, with `<br>` for line ends; `-` if it is empty.
    fn cell(self, text: &str) -> String {
        let line = |line: &str| match self {
            Self::Text => line.replace('|', "\\|"),
            Self::Markdown => escape(line),
        };
        if text.is_empty() {
            return "-".to_owned();
        }
        text.split('\n').map(line).collect::<Vec<String>>().join("<br>")
    }

    fn row<T: AsRef<str>>(self, cells: &[T]) -> String {
        let cells: Vec<String> = cells.iter().map(|cell| self.cell(cell.as_ref())).collect();
        format!("| {} |\n", cells.join(" | "))
    }

    fn head(self, columns: &[(&str, bool)]) -> String {
        let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
        let lines: Vec<&str> = columns.iter().map(|(_, is_number)| if *is_number { "---:" } else { "---" }).collect();
        self.row(&names) + &format!("| {} |\n", lines.join(" | "))
    }
}

struct View<'a> {
    report: &'a Report,
    style: Style,
}

impl View<'_> {
    fn all(&self) -> String {
        let mut text = self.facts();
        for layout in &MAIN_TABLES {
            text += &self.style.heading(layout.title);
            text += &self.stages(layout);
        }
        for (id, title) in [("triage_summary", "Summary"), ("triage_steps", ""), ("triage_catalog", "")] {
            text += &self.own_table(id, title);
        }
        let captured = self.captured();
        if !captured.is_empty() {
            text += &self.style.heading("Capture");
            text.extend(captured.iter().map(|line| self.style.item(line)));
        }
        text += &self.notes();
        text.trim_start().to_owned()
    }

    fn sections(&self, name: &'static str) -> impl Iterator<Item = &Section> {
        self.report.runs.iter().filter_map(move |run| run.sections.get(name))
    }

    /// The distinct lines of this figure over all runs.
    fn figure(&self, name: &'static str) -> String {
        let mut texts: Vec<&str> = Vec::new();
        let figures = self.sections("triage_summary").filter_map(|summary| summary.summary.get(name));
        for line in figures.filter_map(Value::text).flat_map(str::lines) {
            if !texts.contains(&line) {
                texts.push(line);
            }
        }
        texts.join(", ")
    }

    /// Mode, framework, traces and model, one line each.
    fn facts(&self) -> String {
        let (style, mapping) = (self.style, self.figure("mapping_traces"));
        let labels = self.report.labels().join(", ");
        let mut text = style.heading("Triage View");
        text += &style.fact("Mode", if mapping.is_empty() { "single-trace" } else { "mapping-formal" });
        text += &style.fact("Framework", &self.figure("framework"));
        if mapping.is_empty() {
            text += &style.fact("Input traces", &labels);
        } else {
            text += &style.fact("Mapping traces", &mapping);
            text += &style.fact("Formal traces", &labels);
        }
        let model = self.figure("model");
        if !model.is_empty() {
            text += &style.fact("Model", &model);
        }
        text
    }

    /// One of the main tables, split by stage. Without stages there is one table and no heading.
    fn stages(&self, layout: &Layout) -> String {
        let groups = self.groups(layout.section);
        let has_rows = groups.iter().any(|group| !group.rows.is_empty());
        if !has_rows {
            return self.style.head(layout.columns) + &self.style.row(&layout.placeholder(self.style));
        }
        let is_plain = matches!(groups.as_slice(), [only] if only.stage == Stage::All.label());
        let mut parts = Vec::new();
        for group in &groups {
            let heading = if is_plain { String::new() } else { self.style.stage(&group.title(&groups)) };
            let rows = group.rows.iter().map(|row| self.style.row(&(layout.cells)(row, self.style)));
            let mut rows: String = rows.collect();
            if rows.is_empty() {
                rows = self.style.row(&layout.placeholder(self.style));
            }
            parts.push(heading + &self.style.head(layout.columns) + &rows);
        }
        parts.join("\n")
    }

    /// The rows of a section by stage, then by run. A stage that only other tables of the triage have gets a group without
    /// rows.
    fn groups(&self, section: &'static str) -> Vec<Group<'_>> {
        let mut stages: Vec<&str> = Stage::ALL.iter().map(|stage| stage.label()).collect();
        // A report that was edited by hand may have other stages.
        stages.extend(
            self.sections(section).flat_map(stages_of).filter(|stage| !stages.contains(stage)).collect::<Vec<_>>(),
        );
        let labels = self.report.labels();
        let mut groups: Vec<Group> = Vec::new();
        for stage in stages {
            for (run, label) in self.report.runs.iter().zip(&labels) {
                let all = run.sections.get(section).into_iter().flat_map(|section| &section.rows);
                let rows: Vec<_> = all.filter(|row| row.get("stage").and_then(Value::text) == Some(stage)).collect();
                let is_new = !groups.iter().any(|group| group.stage == stage && group.run == *label);
                if is_new && (!rows.is_empty() || has_stage(run, stage)) {
                    groups.push(Group { stage, run: label.clone(), rows });
                }
            }
        }
        groups
    }

    /// A table of gpuprism's own, with its figures.
    fn own_table(&self, id: &str, title: &str) -> String {
        let Some(mut table) = table(self.report, id, None) else { return String::new() };
        if self.report.runs.len() == 1 {
            table = table.without_run();
        }
        let mut text = self.style.heading(if title.is_empty() { &table.title } else { title });
        let before = text.len();
        table.figures.retain(is_no_fact);
        text += &self.figures(&table.figures);
        for gap in &table.gaps {
            text += &self.style.item(&format!("missing: {} {}", gap.why, gap.recapture));
        }
        table = table.without_empty_columns();
        if !table.rows.is_empty() {
            if text.len() > before {
                text.push('\n');
            }
            text += &self.rows(&table);
        }
        if text.len() == before { String::new() } else { text }
    }

    /// How the traces were captured: what `capture.json` beside them says.
    fn captured(&self) -> Vec<String> {
        let Some(mut table) = table(self.report, "capture", None) else { return Vec::new() };
        if self.report.runs.len() == 1 {
            table = table.without_run();
        }
        table.figures.retain(|figure| !figure.cell.is_empty());
        self.figure_lines(&table.figures)
    }

    /// The figures of the summary that the facts do not show.
    #[cfg(not(target_arch = "wasm32"))]
    fn summary_figures(&self) -> Vec<String> {
        let Some(mut summary) = table(self.report, "triage_summary", None) else { return Vec::new() };
        if self.report.runs.len() == 1 {
            summary = summary.without_run();
        }
        summary.figures.retain(is_no_fact);
        self.figure_lines(&summary.figures)
    }

    fn figures(&self, figures: &[Figure]) -> String {
        self.figure_lines(figures).iter().map(|line| self.style.item(line)).collect()
    }

    /// The figures, one line each. A figure with the same value in all runs has one line.
    fn figure_lines(&self, figures: &[Figure]) -> Vec<String> {
        let runs = self.report.runs.len();
        let words = |shown: &Figure| format!("{}: {}", shown.title, with_reason(shown, figures));
        let mut lines: Vec<String> = Vec::new();
        let mut shown: Vec<&Figure> =
            figures.iter().filter(|figure| REASONS.iter().all(|(_, reason)| *reason != figure.key)).collect();
        shown.sort_by_key(|figure| figures.iter().position(|other| other.key == figure.key));
        for figure in shown {
            let line = words(figure);
            let is_in_all_runs =
                figures.iter().filter(|other| other.key == figure.key && words(other) == line).count() == runs;
            let line = if is_in_all_runs || figure.run.is_empty() { line } else { format!("{}: {line}", figure.run) };
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        lines
    }

    fn rows(&self, table: &Table) -> String {
        let headings = headings(table);
        let columns: Vec<(&str, bool)> = headings
            .iter()
            .map(String::as_str)
            .zip(table.columns.iter().map(|column| column.kind.is_number()))
            .collect();
        let rows = table.rows.iter().zip(shown(table)).map(|(row, shown)| {
            let cell = |(cell, shown): (&Cell, Shown)| match cell {
                // Unformatted, so that the lines of a list become `<br>`.
                Cell::Text(text) => text.clone(),
                _ => shown.text,
            };
            let cells: Vec<String> = row.iter().zip(shown).map(cell).collect();
            self.style.row(&cells)
        });
        self.style.head(&columns) + &rows.collect::<String>()
    }
}

/// Whether a figure has a value and is not one of the facts at the top.
fn is_no_fact(figure: &Figure) -> bool {
    const SHOWN_IN_FACTS: [&str; 4] = ["mode", "framework", "model", "mapping_traces"];
    !SHOWN_IN_FACTS.contains(&figure.key.as_str()) && !figure.cell.is_empty()
}

/// Figures, and the figures that state their reason.
const REASONS: [(&str, &str); 2] = [("tp_size", "tp_size_from"), ("similarity_level", "similarity_why")];

fn with_reason(shown: &Figure, figures: &[Figure]) -> String {
    let text = figure(&shown.cell).text;
    let is_reason =
        |other: &&Figure| other.run == shown.run && REASONS.contains(&(shown.key.as_str(), other.key.as_str()));
    match figures.iter().find(is_reason) {
        Some(reason) => format!("{text} ({})", figure(&reason.cell).text),
        None => text,
    }
}

/// The rows of one stage of one run.
struct Group<'a> {
    stage: &'a str,
    run: String,
    rows: Vec<&'a crate::analysis::section::Record>,
}

impl Group<'_> {
    /// The stage, with the label of the run if several runs have it.
    fn title(&self, all: &[Group]) -> String {
        let same = all.iter().filter(|group| group.stage == self.stage).count();
        if same > 1 { format!("{}: {}", self.stage, self.run) } else { self.stage.to_owned() }
    }
}

fn stages_of(section: &Section) -> impl Iterator<Item = &str> {
    section.rows.iter().filter_map(|row| row.get("stage").and_then(Value::text))
}

/// Whether any table of the run has rows for this stage.
fn has_stage(run: &Run, stage: &str) -> bool {
    let tables = MAIN_TABLES.iter().map(|layout| layout.section).chain(["triage_summary"]);
    tables.filter_map(|name| run.sections.get(name)).any(|section| stages_of(section).any(|other| other == stage))
}

#[cfg(test)]
mod tests;
