//! Writes reports as plain text for a terminal, with columns aligned by display width.

pub(super) mod grid;
mod screen;

pub use screen::{DEFAULT_WIDTH, screen};

use super::findings::{Finding, of_run};
use super::format::{clean, headings, shown, shown_totals};
use super::table::Table;
use super::text::{facts, figure_lines, notice_lines, verdict};
use super::{Report, groups, is_builtin_table, table};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Wider cells are shortened in the middle; in terminal columns.
const MAX_CELL_WIDTH: usize = 72;

/// Sentences are wrapped at this width, in terminal columns.
const LINE_WIDTH: usize = 110;

/// The whole report: everything of the screen in full, and all tables with rows, with at most `limit` rows each; 0 for all. Sentences are
/// at most `width` columns wide.
pub fn terminal(report: &Report, limit: usize, width: usize) -> String {
    let width = width.min(LINE_WIDTH);
    let wrapped = |head: &str, indent: &str, sentence: &str| wrapped_at(width, head, indent, sentence);
    let mut text = wrapped("", "", &verdict(report));
    for (index, (label, run)) in report.labels().iter().zip(&report.runs).enumerate() {
        text += &format!("\n{}\n{}", clean(label), wrapped("  ", "  ", &facts(run)));
        if let Some(banner) = table(report, "key_figures", Some(index)) {
            figure_lines(&banner).for_each(|(_, line)| text += &wrapped("  ", "  ", &line));
        }
        for line in notice_lines(run) {
            text += &wrapped("  ", "    ", &line);
        }
        for finding in of_run(run) {
            text += &paragraph(&finding, width);
        }
        for id in ["devices", "categories", "kernels"] {
            let Some(table) = table(report, id, Some(index)).filter(|table| !table.rows.is_empty()) else { continue };
            text += &section_at(width, &table.without_run(), if id == "kernels" { limit } else { 0 });
        }
    }
    if let (Some(pivot), true) = (table(report, "pivot", None), report.runs.len() > 1) {
        text += &section_at(width, &pivot, 0);
    }
    text + &other_tables(report, limit, width)
}

/// The tables of the sections, then the tables without rows with the reason.
fn other_tables(report: &Report, limit: usize, width: usize) -> String {
    let wrapped = |sentence: String| wrapped_at(width, "  ", "    ", &sentence);
    const ABOVE: [&str; 2] = ["findings", "key_figures"];
    let ids = groups(report).into_iter().flat_map(|group| group.tables);
    let ids = ids.filter(|id| !is_builtin_table(id) && !ABOVE.contains(&id.as_str()));
    let (mut text, mut empty) = (String::new(), String::new());
    for table in ids.filter_map(|id| table(report, &id, None)) {
        if !table.rows.is_empty() {
            let table = if report.runs.len() == 1 { table.without_run() } else { table };
            text += &section_at(width, &table, limit);
        } else if let Some(gap) = table.gaps.first() {
            empty += &wrapped(format!("{} ({}): {}", table.title, table.id, gap.why));
        } else {
            empty += &wrapped(format!("{} ({}): no rows.", table.title, table.id));
        }
    }
    if !empty.is_empty() {
        text += &format!("\nEmpty tables; --table NAME prints the command that captures missing data\n{empty}");
    }
    text
}

/// One table of all runs with at most `limit` rows; 0 for all.
pub fn one_table(report: &Report, table: Table, limit: usize) -> String {
    let table = if report.runs.len() == 1 { table.without_run() } else { table };
    section(&table, limit).trim_start().to_owned()
}

/// A finding: severity, confidence, title and cost; then evidence; then the action.
fn paragraph(finding: &Finding, width: usize) -> String {
    let wrapped = |head: &str, indent: &str, sentence: &str| wrapped_at(width, head, indent, sentence);
    let cost = if finding.cost.is_empty() { String::new() } else { format!(" ({})", finding.cost) };
    let mut text = format!("\n{}", wrapped("  ", "  ", &format!("{}: {}{cost}", finding.grade(), finding.title)));
    finding.evidence.iter().for_each(|line| text += &wrapped("    - ", "      ", line));
    finding.action.iter().for_each(|line| text += &wrapped("    > ", "      ", line));
    text
}

/// Wraps a sentence at [`LINE_WIDTH`]. The first line starts with `head`, the others with `indent`.
pub fn wrapped(head: &str, indent: &str, sentence: &str) -> String {
    wrapped_at(LINE_WIDTH, head, indent, sentence)
}

fn wrapped_at(width: usize, head: &str, indent: &str, sentence: &str) -> String {
    let (mut text, mut line) = (String::new(), head.to_owned());
    for word in grid::unbreakable(&clean(sentence)) {
        let begins = line == head || line == indent;
        if !begins && line.width() + 1 + word.width() > width {
            text += &format!("{}\n", line.trim_end());
            line = indent.to_owned();
        } else if !begins {
            line.push(' ');
        }
        line += word;
    }
    format!("{text}{}\n", line.trim_end())
}

pub(super) fn section(table: &Table, limit: usize) -> String {
    section_at(LINE_WIDTH, table, limit)
}

fn section_at(line_width: usize, table: &Table, limit: usize) -> String {
    let left_out = if limit == 0 { 0 } else { table.rows.len().saturating_sub(limit) };
    let mut rows: Vec<Vec<String>> = vec![headings(table)];
    let shown = shown(table);
    let kept = shown.len() - left_out;
    rows.extend(
        shown
            .into_iter()
            .take(kept)
            .chain(shown_totals(table))
            .map(|row| row.into_iter().map(|cell| cell.text).collect()),
    );
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| shorten(&clean(cell))).collect()).collect();
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..table.columns.len()).map(width).collect();
    let mut text = format!("\n{}\n{}", clean(&table.title), preamble(table, line_width));
    if table.rows.is_empty() && !is_builtin_table(&table.id) {
        return text;
    }
    for row in &rows {
        let cells =
            row.iter().zip(&table.columns).zip(&widths).map(|((cell, column), width)| match column.kind.is_number() {
                true => format!("{}{cell}", blanks(cell, *width)),
                false => format!("{cell}{}", blanks(cell, *width)),
            });
        let line: Vec<String> = cells.collect();
        text += &format!("  {}\n", line.join("  ").trim_end());
    }
    if left_out > 0 {
        text += &format!("  {left_out} more rows: `--limit 0` prints all\n");
    }
    text
}

/// Note, figures and gaps of a table.
fn preamble(table: &Table, width: usize) -> String {
    let wrapped = |sentence: &str| wrapped_at(width, "  ", "  ", sentence);
    let mut text = String::new();
    let named = |run: &str| if run.is_empty() { String::new() } else { format!("{run}: ") };
    if !is_builtin_table(&table.id) && !table.note.is_empty() {
        text += &wrapped(&table.note);
    }
    for (run, words) in figure_lines(table) {
        text += &wrapped(&format!("{}{words}", named(run)));
    }
    for gap in &table.gaps {
        text += &wrapped(&format!("missing: {}{}", named(&gap.run), gap.why));
        // Not wrapped, so that the command can be copied.
        text += &format!("    {}\n", clean(&gap.recapture));
    }
    text
}

fn blanks(cell: &str, width: usize) -> String {
    " ".repeat(width.saturating_sub(cell.width()))
}

/// Shortens a wide text in the middle. East Asian wide characters count as two columns.
fn shorten(text: &str) -> String {
    shorten_to(text, MAX_CELL_WIDTH)
}

fn shorten_to(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let tail = width.saturating_sub(1) * 2 / 5;
    let head: String = fitting(text.chars(), width.saturating_sub(tail + 1));
    let tail: String = fitting(text.chars().rev(), tail).chars().rev().collect();
    format!("{head}…{tail}")
}

/// The longest prefix that fits the width.
fn fitting(characters: impl Iterator<Item = char>, width: usize) -> String {
    let mut left = width;
    let fits = |character: &char| {
        let needed = character.width().unwrap_or(0);
        let fits = needed <= left;
        left = left.saturating_sub(needed);
        fits
    };
    characters.take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_of_the_whole_report_are_as_narrow_as_the_terminal_and_the_same_words_at_any_width() {
        let report = crate::report::tests_support::sample();
        let [narrow, wide] = [80, 200].map(|width| terminal(&report, 3, width));
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&narrow), words(&wide));
        // Cells of a table are at least two blanks apart.
        let is_sentence = |line: &&str| line.contains(' ') && !line.trim_start().contains("  ");
        let widest = |text: &str| text.lines().filter(is_sentence).map(UnicodeWidthStr::width).max().unwrap();
        assert!(widest(&narrow) <= 80, "{narrow}");
        assert!((81..=LINE_WIDTH).contains(&widest(&wide)), "{wide}");
    }
}
