//! Markdown, for issues and pull requests.

use super::format::{headings, shown, shown_totals};
use super::table::{Column, Kind, Table};
use super::words::{facts, notice_lines, verdict};
use super::{Report, TABLES, table};

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
    let one_run = report.runs.len() == 1;
    let tables = TABLES.iter().filter(|(id, _)| *id != "notices").filter_map(|(id, _)| table(report, id, None));
    for table in tables {
        text += &section(&if one_run { table.without_run() } else { table });
    }
    text
}

fn section(table: &Table) -> String {
    let mut text = format!("\n## {}\n\n{}\n\n", escape(&table.title), escape(&table.note));
    text += &line(headings(table).iter().map(String::as_str));
    text += &line(table.columns.iter().map(|column| if is_number(column) { "---:" } else { "---" }));
    for row in shown(table).iter().chain(shown_totals(table).iter()) {
        text += &line(row.iter().map(|cell| cell.text.as_str()));
    }
    text
}

fn is_number(column: &Column) -> bool {
    matches!(column.kind, Kind::Count | Kind::Time | Kind::Share)
}

fn line<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    let cells: Vec<String> = cells.map(escape).collect();
    format!("| {} |\n", cells.join(" | "))
}

/// Takes the meaning from everything that Markdown or its HTML would act on.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\r' | '\t' => escaped.push(' '),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '@' => escaped.push_str("&#64;"),
            '\\' | '$' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '!' | '#' => escaped.extend(['\\', character]),
            control if control.is_control() => escaped.push(char::REPLACEMENT_CHARACTER),
            plain => escaped.push(plain),
        }
    }
    // A bare address would become a link.
    escaped.replace("://", ":&#47;&#47;")
}

#[cfg(test)]
mod tests {
    #[test]
    fn nothing_in_a_name_acts() {
        let escaped = super::escape("a|b`c`<img src=x>\n[x](y) a_b *c*");
        assert_eq!(escaped, r"a\|b\`c\`&lt;img src=x&gt; \[x\](y) a\_b \*c\*");
    }
}
