//! Writes the triage for a terminal: tables that fit its width, with short kernel names and the last parts of paths.
//! Definitions of columns are printed only on request.

use super::tables::MAIN_TABLES;
use super::{Group, Style, View};
use crate::analysis::section::Record;
use crate::report::format::{clean, headings, shown};
use crate::report::sections::kernel_and_share;
use crate::report::short_names::ShortNames;
use crate::report::table::Kind;
use crate::report::terminal::grid::{Fit, Heading, lines, wrap};
use crate::report::terminal::narrow::divided;
use crate::report::{Report, table};
use unicode_width::UnicodeWidthStr;

/// The parts of a path that are shown.
const PATH_PARTS: usize = 2;
/// Lines narrower than this are not readable.
const MIN_WIDTH: usize = 80;
/// Longer lines are hard to read.
const MAX_WIDTH: usize = 200;

/// The triage as tables of at most `width` columns; with the definitions of their columns if `explain` is set.
pub fn terminal(report: &Report, width: usize, explain: bool) -> String {
    let view = View { report, style: Style::Text };
    let width = width.clamp(MIN_WIDTH, MAX_WIDTH);
    let mut parts = vec![view.head(width), view.own_rows("triage_summary", "Stages", width)];
    parts.push(view.own_rows("triage_steps", "Steps", width));
    let mut empty = Vec::new();
    let sections = MAIN_TABLES.iter().map(|layout| layout.section).chain(["triage_catalog"]);
    for (table, section) in TABLES.iter().zip(sections) {
        let part = view.main_table(table, section, width);
        if part.is_empty() {
            empty.push(table.title.to_lowercase());
        }
        parts.push(part);
    }
    parts.push(list("Capture", view.captured(), width));
    let (notes, definitions) = view.sentences();
    parts.push(list("Notes", notes, width));
    if explain {
        parts.push(list("Definitions", definitions, width));
    }
    let mut last = Vec::new();
    if !empty.is_empty() {
        last.extend(wrap(&format!("Nothing to show: {}.", empty.join(", ")), width));
    }
    if !explain {
        let hint = "--explain adds definitions of the columns; --format text, markdown, csv and json have full names and paths.";
        last.extend(wrap(hint, width));
    }
    parts.push(last);
    parts.retain(|part| !part.is_empty());
    parts.join(&String::new()).into_iter().map(|line| line + "\n").collect()
}

/// A list of sentences with a heading.
fn list(heading: &str, sentences: Vec<String>, width: usize) -> Vec<String> {
    if sentences.is_empty() {
        return Vec::new();
    }
    let items = sentences.iter().flat_map(|sentence| {
        let text = wrap(&clean(sentence), width.saturating_sub(4));
        text.into_iter()
            .enumerate()
            .map(|(index, line)| if index == 0 { format!("  - {line}") } else { format!("    {line}") })
    });
    std::iter::once(heading.to_owned()).chain(items).collect()
}

/// A main table on a terminal.
struct TerminalTable {
    title: &'static str,
    columns: &'static [(&'static str, Fit)],
    cells: fn(&Record, &ShortNames) -> Vec<String>,
}

static TABLES: [TerminalTable; 4] = [
    TerminalTable {
        title: "Kernels",
        columns: &[
            ("Kernel", Fit::Wrap),
            ("Category", Fit::Shorten),
            ("Count", Fit::Number),
            ("Time (ms)", Fit::Number),
            ("Of busy (%)", Fit::Number),
            ("Launched from", Fit::Wrap),
        ],
        cells: kernel,
    },
    TerminalTable {
        title: "Overlap opportunities",
        columns: &[
            ("", Fit::Number),
            ("Verdict", Fit::WrapAt(20)),
            ("Kernel", Fit::WrapAt(32)),
            ("Time (ms)", Fit::Number),
            ("Alone (%)", Fit::Number),
            ("What to do, and why", Fit::Wrap),
        ],
        cells: overlap,
    },
    TerminalTable {
        title: "Fusions",
        columns: &[
            ("Pattern", Fit::WrapAt(24)),
            ("Status", Fit::WrapAt(15)),
            ("Time (ms)", Fit::Number),
            ("Kernels now", Fit::WrapAt(28)),
            ("Fused path, and why", Fit::Wrap),
        ],
        cells: fuse,
    },
    TerminalTable {
        title: "Known fusions and overlaps",
        columns: &[
            ("Family", Fit::WrapAt(28)),
            ("Finding", Fit::WrapAt(16)),
            ("Advice, evidence and switches", Fit::Wrap),
        ],
        cells: family,
    },
];

fn kernel(row: &Record, names: &ShortNames) -> Vec<String> {
    let location = match row.words("python_location") {
        location if location.is_empty() || location == "unresolved" => row.words("cpu_op"),
        location => location.lines().map(short_path).collect::<Vec<_>>().join("\n"),
    };
    vec![
        names.short(&row.words("kernel_name")),
        row.words("category"),
        row.words("launches"),
        milliseconds(row, "elapsed_ns"),
        percent(row, "elapsed_share_pct"),
        location,
    ]
}

fn overlap(row: &Record, names: &ShortNames) -> Vec<String> {
    let mut advice = vec![sentence(&row.words("recommendation"))];
    let risk = row.words("dep_risk");
    if !risk.is_empty() && risk != "-" {
        advice.push(format!("Dependency risk: {risk}."));
    }
    advice.push(sentence(&row.words("basis")));
    let scope = row.words("python_scope");
    let scope = if scope.is_empty() { String::new() } else { format!("\n{}", short_path(&scope)) };
    vec![
        row.words("priority"),
        row.words("verdict"),
        names.short(&row.words("kernel_name")) + &scope,
        milliseconds(row, "duration_ns"),
        percent(row, "exclusive_pct"),
        advice.join("\n"),
    ]
}

fn fuse(row: &Record, names: &ShortNames) -> Vec<String> {
    let evidence = row.words("evidence");
    let kernels = evidence.lines().map(|line| names.short(kernel_and_share(line).map_or(line, |(name, _)| name)));
    let paths = row.words("candidate_path");
    let paths = paths.lines().map(short_path);
    let why = [sentence(&row.words("rationale"))].into_iter().chain(paths).filter(|line| !line.is_empty());
    let status = [row.words("status"), row.words("confidence")].into_iter().filter(|word| !word.is_empty());
    vec![
        row.words("pattern"),
        status.collect::<Vec<_>>().join(", "),
        milliseconds(row, "related_ns"),
        kernels.collect::<Vec<_>>().join("\n"),
        why.collect::<Vec<_>>().join("\n"),
    ]
}

fn family(row: &Record, _: &ShortNames) -> Vec<String> {
    let switches = row.words("switches");
    let switches = if switches.is_empty() { switches } else { format!("Switches: {}", switches.replace('\n', "; ")) };
    let text = [sentence(&row.words("advice")), sentence(&row.words("evidence")), switches];
    let text: Vec<String> = text.into_iter().filter(|line| !line.is_empty()).collect();
    vec![row.words("family"), row.words("finding"), text.join("\n")]
}

/// Capitalized and with a full stop.
fn sentence(text: &str) -> String {
    let text = crate::words::capitalize(text.trim().replace('\n', "; "));
    if text.is_empty() || text.ends_with('.') { text } else { text + "." }
}

fn milliseconds(row: &Record, key: &str) -> String {
    row.number(key).map_or_else(String::new, |ns| format!("{:.3}", ns / 1e6))
}

fn percent(row: &Record, key: &str) -> String {
    row.number(key).map_or_else(String::new, |value| format!("{value:.1}"))
}

/// The words of a line, with the last parts of paths: `distributed/symm_mem.py:127 all_reduce`.
fn short_path(line: &str) -> String {
    let short = |word: &str| {
        let parts: Vec<&str> = word.split('/').collect();
        match parts.len().checked_sub(PATH_PARTS) {
            Some(first @ 1..) => parts.iter().skip(first).copied().collect::<Vec<_>>().join("/"),
            _ => word.to_owned(),
        }
    };
    line.split(' ').map(short).collect::<Vec<_>>().join(" ")
}

impl View<'_> {
    /// Traces, framework and model, and the figures of the summary.
    fn head(&self, width: usize) -> Vec<String> {
        let mapping = self.figure("mapping_traces");
        let mapped = if mapping.is_empty() { String::new() } else { format!(", with the code of {mapping}") };
        let facts = [self.figure("framework"), self.figure("model")].into_iter().filter(|fact| !fact.is_empty());
        let facts: Vec<String> = facts.collect();
        let facts = if facts.is_empty() { String::new() } else { format!(": {}", facts.join(", ")) };
        let mut lines = wrap(&clean(&format!("Triage of {}{mapped}{facts}", self.report.labels().join(", "))), width);
        for (line, indent) in self.summary_figures().iter().zip(std::iter::repeat("  ")) {
            lines.extend(wrap(&clean(line), width.saturating_sub(2)).into_iter().map(|line| format!("{indent}{line}")));
        }
        lines
    }

    /// A main table by stage; empty without rows.
    fn main_table(&self, table: &TerminalTable, section: &'static str, width: usize) -> Vec<String> {
        let headings: Vec<Heading> =
            table.columns.iter().map(|(title, fit)| Heading { title: (*title).to_owned(), fit: *fit }).collect();
        let groups: Vec<Group> = self.groups(section);
        let mut all = Vec::new();
        for group in groups.iter().filter(|group| !group.rows.is_empty()) {
            let label = self.report.labels().iter().position(|label| *label == group.run);
            let names = label.and_then(|index| self.report.runs.get(index)).map(ShortNames::of).unwrap_or_default();
            let rows: Vec<Vec<String>> = group.rows.iter().map(|row| (table.cells)(row, &names)).collect();
            if !all.is_empty() {
                all.push(String::new());
            }
            all.push(format!("{}: {}", table.title, clean(&group.title(&groups))));
            all.extend(lines(&headings, &rows, 2, width));
        }
        all
    }

    /// The rows of one of gpuprism's own tables; empty without rows.
    fn own_rows(&self, id: &str, title: &str, width: usize) -> Vec<String> {
        let Some(table) = table(self.report, id, None) else { return Vec::new() };
        let table = if self.report.runs.len() == 1 { table.without_run() } else { table };
        let table = table.without("example").without_empty_columns();
        if table.rows.is_empty() {
            return Vec::new();
        }
        let columns = table.columns.iter().zip(headings(&table));
        let headings: Vec<Heading> = columns
            .map(|(column, title)| {
                let fit = match column.kind {
                    kind if kind.is_number() => Fit::Number,
                    Kind::Category => Fit::Shorten,
                    _ => Fit::Wrap,
                };
                Heading { title, fit }
            })
            .collect();
        let rows: Vec<Vec<String>> =
            shown(&table).into_iter().map(|row| row.into_iter().map(|cell| cell.text).collect()).collect();
        let mut lines = lines(&headings, &rows, 2, width);
        if lines.iter().any(|line| line.width() > width) {
            lines = divided(&headings, &rows, width);
        }
        std::iter::once(title.to_owned()).chain(lines).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_keep_their_last_parts() {
        assert_eq!(short_path("vllm/distributed/symm_mem.py:127 all_reduce"), "distributed/symm_mem.py:127 all_reduce");
        assert_eq!(short_path("a.py:1 f (site share 69%)"), "a.py:1 f (site share 69%)");
        assert_eq!((short_path(""), short_path("/")), (String::new(), "/".to_owned()));
    }

    #[test]
    fn a_sentence_starts_with_a_capital_and_ends_with_a_full_stop() {
        assert_eq!(
            (sentence("check deps"), sentence(""), sentence("Done.")),
            ("Check deps.".into(), "".into(), "Done.".into())
        );
    }
}
