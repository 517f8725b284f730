//! Writes reports as Markdown for issues, pull requests and chats. Everything from a trace passes [`escape`].

use super::format::{clean, headings, shown, shown_totals};
use super::model_sentences;
use super::table::Table;
use super::text::{facts, figure_lines, notice_lines, verdict};
use super::{Finding, Report, all_tables, findings, is_builtin_table, tables_of};
use crate::digits::grouped;

/// The maximum number of rows per section in the whole report; `--table` prints all.
const MAX_SECTION_ROWS: usize = 10;

/// The whole report.
pub fn markdown(report: &Report) -> String {
    let mut text = format!("# Where the GPU time went\n\n{}\n", escape(&verdict(report)));
    for (label, run) in report.labels().iter().zip(&report.runs) {
        text += &format!("\n- **{}**: {}", escape(label), escape(&facts(run)));
        for line in notice_lines(run) {
            text += &format!("\n  - {}", escape(&line));
        }
    }
    text.push('\n');
    let model = model_lines(report);
    if !model.is_empty() {
        text += &format!("\n## Model\n\n{model}");
    }
    let findings = findings(report);
    if !findings.is_empty() {
        text += "\n## What to do\n";
        findings.iter().for_each(|finding| text += &item(finding));
    }
    let one_run = report.runs.len() == 1;
    for table in all_tables(report) {
        if ["notices", "findings"].contains(&table.id.as_str()) {
            continue;
        }
        let limit = if is_builtin_table(&table.id) { usize::MAX } else { MAX_SECTION_ROWS };
        text += &section(&if one_run { table.without_run() } else { table }, limit);
    }
    text
}

/// The tables of one group with all rows.
pub fn group(report: &Report, id: &str) -> String {
    let mut text = String::new();
    for table in tables_of(report, id) {
        text += &section(&if report.runs.len() == 1 { table.without_run() } else { table }, usize::MAX);
    }
    text
}

/// One table with all rows.
pub fn table(table: &Table) -> String {
    section(table, usize::MAX).trim_start().to_owned()
}

fn item(finding: &Finding) -> String {
    let run = if finding.run.is_empty() { String::new() } else { format!("{}: ", escape(&finding.run)) };
    let cost = if finding.cost.is_empty() { String::new() } else { format!(", {}", escape(&finding.cost)) };
    let mut text = format!("\n- **{run}{}** ({}{cost})", escape(finding.title), escape(&finding.grade()));
    for line in &finding.evidence {
        text += &format!("\n  - {}", escape(line));
    }
    for line in &finding.action {
        text += &format!("\n  - **Do:** {}", escape(line));
    }
    text.push('\n');
    text
}

pub(super) fn section(table: &Table, limit: usize) -> String {
    let mut text = format!("\n## {}\n", escape(&table.title));
    if !table.note.is_empty() {
        text += &format!("\n{}\n", escape(&table.note));
    }
    for (run, words) in figure_lines(table) {
        let run = if run.is_empty() { String::new() } else { format!("**{}**: ", escape(run)) };
        text += &format!("\n{run}{}\n", escape(&words));
    }
    for gap in &table.gaps {
        let run = if gap.run.is_empty() { String::new() } else { format!("{}: ", gap.run) };
        text += &format!("\n{}\n", escape(&format!("Missing: {run}{} {}", gap.why, gap.recapture)));
    }
    if table.rows.is_empty() && (!table.figures.is_empty() || !table.gaps.is_empty()) {
        return text;
    }
    text.push('\n');
    text += &line(headings(table).iter().map(String::as_str));
    text += &line(table.columns.iter().map(|column| if column.kind.is_number() { "---:" } else { "---" }));
    for row in shown(table).iter().take(limit).chain(shown_totals(table).iter()) {
        text += &line(row.iter().map(|cell| cell.text.as_str()));
    }
    if let Some(more) = table.rows.len().checked_sub(limit).filter(|more| *more > 0) {
        text += &format!("\n{} more rows: --table {}\n", grouped(more as u64), escape(&table.id));
    }
    text
}

fn line<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    let cells: Vec<String> = cells.map(escape).collect();
    format!("| {} |\n", cells.join(" | "))
}

/// Escapes the characters with a meaning in Markdown or HTML, and replaces control characters.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in clean(&text.replace(['\n', '\r', '\t'], " ")).chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '@' => escaped.push_str("&#64;"),
            '\\' | '$' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '!' | '#' => escaped.extend(['\\', character]),
            plain => escaped.push(plain),
        }
    }
    // Otherwise a URL would become a link.
    escaped.replace("://", ":&#47;&#47;")
}

/// The sentences on the models of the runs as a list.
pub(super) fn model_lines(report: &Report) -> String {
    model_sentences::lines(report).iter().map(|line| format!("- {}\n", escape(&line.text))).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn markup_in_names_is_escaped() {
        let escaped = super::escape("a|b`c`<img src=x>\n[x](y) a_b *c*");
        assert_eq!(escaped, r"a\|b\`c\`&lt;img src=x&gt; \[x\](y) a\_b \*c\*");
    }
}
