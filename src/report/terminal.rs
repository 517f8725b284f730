//! Writes reports as plain text for a terminal, with columns aligned by display width.

mod fit;
pub(super) mod grid;
pub(super) mod narrow;
mod screen;

pub use fit::fit;
pub use screen::{DEFAULT_WIDTH, screen};

use super::findings::{Finding, of_run};
use super::format::{clean, headings, shown, shown_totals};
use super::table::{Kind, Table};
use super::text::{facts, figure_lines, notice_lines, verdict};
use super::{Report, groups, is_builtin_table, table};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Wider cells are shortened in the middle; in terminal columns.
const MAX_CELL_WIDTH: usize = 72;

/// Sentences are wrapped at this width, in terminal columns.
const LINE_WIDTH: usize = 110;

/// The whole report: everything of the screen in full, and all tables with rows, with at most `limit` rows each; 0 for all. Lines are
/// at most `width` columns wide; without it tables are as wide as their cells.
pub fn terminal(report: &Report, limit: usize, width: Option<usize>) -> String {
    let wrapped = |head: &str, indent: &str, sentence: &str| wrapped(width, head, indent, sentence);
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
            text += &section(&table.without_run(), if id == "kernels" { limit } else { 0 }, width);
        }
    }
    if let (Some(pivot), true) = (table(report, "pivot", None), report.runs.len() > 1) {
        text += &section(&pivot, 0, width);
    }
    text + &other_tables(report, limit, width)
}

/// The tables of the sections, then the tables without rows with the reason.
fn other_tables(report: &Report, limit: usize, width: Option<usize>) -> String {
    let wrapped = |sentence: String| wrapped(width, "  ", "    ", &sentence);
    const ABOVE: [&str; 2] = ["findings", "key_figures"];
    let ids = groups(report).into_iter().flat_map(|group| group.tables);
    let ids = ids.filter(|id| !is_builtin_table(id) && !ABOVE.contains(&id.as_str()));
    let (mut text, mut empty) = (String::new(), String::new());
    for table in ids.filter_map(|id| table(report, &id, None)) {
        if !table.rows.is_empty() {
            let table = if report.runs.len() == 1 { table.without_run() } else { table };
            text += &section(&table, limit, width);
        } else if let Some(gap) = table.gaps.first() {
            empty += &wrapped(format!("{} ({}): {}", table.title, table.id, gap.why));
        } else {
            empty += &wrapped(format!("{} ({}): no rows.", table.title, table.id));
        }
    }
    if !empty.is_empty() {
        let heading = "Empty tables; --table NAME prints the command that captures missing data";
        text += &format!("\n{heading}\n{empty}");
    }
    text
}

/// One table of all runs with at most `limit` rows; 0 for all. For `width` see [`terminal`].
pub fn one_table(report: &Report, table: Table, limit: usize, width: Option<usize>) -> String {
    let table = if report.runs.len() == 1 { table.without_run() } else { table };
    section(&table, limit, width).trim_start().to_owned()
}

/// A finding: severity, confidence, title and cost; then evidence; then the action.
fn paragraph(finding: &Finding, width: Option<usize>) -> String {
    let wrapped = |head: &str, indent: &str, sentence: &str| wrapped(width, head, indent, sentence);
    let cost = if finding.cost.is_empty() { String::new() } else { format!(" ({})", finding.cost) };
    let mut text = format!("\n{}", wrapped("  ", "  ", &format!("{}: {}{cost}", finding.grade(), finding.title)));
    finding.evidence.iter().for_each(|line| text += &wrapped("    - ", "      ", line));
    finding.action.iter().for_each(|line| text += &wrapped("    > ", "      ", line));
    text
}

/// Wraps a sentence at `width`, at most at [`LINE_WIDTH`]. The first line starts with `head`, the others with `indent`.
pub fn wrapped(width: Option<usize>, head: &str, indent: &str, sentence: &str) -> String {
    wrapped_at(width.map_or(LINE_WIDTH, |width| width.min(LINE_WIDTH)), head, indent, sentence)
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

/// A table with its title and notes, at most `limit` rows of it; 0 for all. For `width` see [`terminal`].
pub(super) fn section(table: &Table, limit: usize, width: Option<usize>) -> String {
    let left_out = if limit == 0 { 0 } else { table.rows.len().saturating_sub(limit) };
    let shown = shown(table);
    let kept = shown.len() - left_out;
    let rows = shown.into_iter().take(kept).chain(shown_totals(table));
    let rows: Vec<Vec<String>> = [headings(table)]
        .into_iter()
        .chain(rows.map(|row| row.into_iter().map(|cell| cell.text).collect()))
        .map(|row: Vec<String>| row.iter().map(|cell| shorten(&clean(cell))).collect())
        .collect();
    let mut text = wrapped(width, "", "  ", &table.title);
    text = format!("\n{text}{}", preamble(table, width));
    if table.rows.is_empty() && !is_builtin_table(&table.id) {
        return text;
    }
    let kinds: Vec<Kind> = table.columns.iter().map(|column| column.kind).collect();
    text += &narrow::lines(&kinds, &rows, width);
    if left_out > 0 {
        text += &format!("  {left_out} more rows: `--limit 0` prints all\n");
    }
    text
}

/// Note, figures and gaps of a table.
fn preamble(table: &Table, width: Option<usize>) -> String {
    let wrapped = |sentence: &str| wrapped(width, "  ", "  ", sentence);
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
        // In a file it is one line, so that the command can be copied.
        let recapture = format!("    {}\n", clean(&gap.recapture));
        text += &width.map_or_else(|| recapture.clone(), |width| fit(&recapture, width));
    }
    text
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
    fn the_whole_report_is_as_narrow_as_the_terminal_and_has_the_same_words() {
        let report = crate::report::tests_support::sample();
        let [narrow, wide, file] = [Some(80), Some(200), None].map(|width| terminal(&report, 3, width));
        assert!(narrow.lines().all(|line| line.width() <= 80), "{narrow}");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
        assert_eq!((words(&narrow), words(&wide)), (words(&file), words(&file)));
        // Cells of a table are at least two blanks apart.
        let is_sentence = |line: &&str| line.contains(' ') && !line.trim_start().contains("  ");
        let widest = |text: &str| text.lines().filter(is_sentence).map(UnicodeWidthStr::width).max().unwrap();
        assert!((81..=LINE_WIDTH).contains(&widest(&wide)), "{wide}");
    }
}
