//! The three main tables: headings, columns, and the conversion of a section's rows.

use super::Style;
use crate::analysis::section::Record;

/// The layout of a main table.
pub(super) struct Layout {
    /// The heading; programs search for it.
    pub(super) title: &'static str,
    pub(super) section: &'static str,
    /// Heading of each column, and whether it has numbers.
    pub(super) columns: &'static [(&'static str, bool)],
    /// The column with the text of a table without rows.
    empty_column: usize,
    /// That text; in the text format it is the original's.
    empty: fn(Style) -> &'static str,
    pub(super) cells: fn(&Record, Style) -> Vec<String>,
}

impl Layout {
    /// The row of a table without rows.
    pub(super) fn placeholder(&self, style: Style) -> Vec<&'static str> {
        let cell = |column| if column == self.empty_column { (self.empty)(style) } else { "" };
        (0..self.columns.len()).map(cell).collect()
    }
}

pub(super) static MAIN_TABLES: [Layout; 3] = [
    Layout {
        title: "Kernel Table",
        section: "triage_kernels",
        columns: &[
            ("Kernel", false),
            ("Category", false),
            ("GPU time", true),
            ("Share", true),
            ("Launches", true),
            ("Python location (site share)", false),
            ("CPU op", false),
            ("Found", false),
        ],
        empty_column: 0,
        empty: |style| match style {
            Style::Markdown => "No kernel reaches the minimum share.",
            Style::Text => "No kernel cleared the reporting bar.",
        },
        cells: kernel,
    },
    Layout {
        title: "Overlap Opportunity Table",
        section: "triage_overlap",
        columns: &[
            ("Priority", false),
            ("Verdict", false),
            ("Kernel", false),
            ("Python scope", false),
            ("Formal signal", false),
            ("Dep risk", false),
            ("Recommendation", false),
            ("Basis", false),
        ],
        empty_column: 2,
        empty: |style| match style {
            Style::Markdown => "No work that could overlap reaches the minimum share.",
            Style::Text => "No rows cleared the reporting bar.",
        },
        cells: overlap,
    },
    Layout {
        title: "Fuse Opportunity Table",
        section: "triage_fuse",
        columns: &[
            ("Pattern", false),
            ("Confidence", false),
            ("Related GPU time", true),
            ("Share", true),
            ("Evidence kernels", false),
            ("Current kernel Python location", false),
            ("Candidate fused Python path", false),
            ("Rationale", false),
            ("Status", false),
        ],
        empty_column: 0,
        empty: |style| match style {
            Style::Markdown => "No known fusion matches this trace.",
            Style::Text => "No source-backed fusion pattern matched this trace.",
        },
        cells: fuse,
    },
];

/// The key of the share: of busy time with overlaps shared evenly, as everywhere, or that of the original tool.
fn share(style: Style) -> &'static str {
    match style {
        Style::Markdown => "elapsed_share_pct",
        Style::Text => "share_pct",
    }
}

fn kernel(row: &Record, style: Style) -> Vec<String> {
    vec![
        row.words("kernel_name"),
        row.words("category"),
        milliseconds(row, "duration_ns"),
        percent(row, share(style)),
        row.words("launches"),
        row.words("python_location"),
        row.words("cpu_op"),
        row.words("found"),
    ]
}

fn overlap(row: &Record, style: Style) -> Vec<String> {
    let time = row.number("duration_ns").map_or_else(String::new, |ns| format!("{:.1} us", ns / 1e3));
    // Rows of idle time have no share of the busy time, and neither have rows with shifted durations.
    let signal = match (row.number("share_pct"), style) {
        (None, _) => time,
        (Some(_), Style::Markdown) => format!(
            "{time}, {} of the busy time, {} alone, {} overlapped",
            percent(row, share(style)),
            percent(row, "exclusive_pct"),
            percent(row, "hidden_pct"),
        ),
        (Some(_), Style::Text) => format!(
            "{time}, share {}, excl {} / hid {}",
            percent(row, "share_pct"),
            percent(row, "exclusive_pct"),
            percent(row, "hidden_pct"),
        ),
    };
    let verdict = match (row.words("verdict"), style) {
        // The word of the original tool.
        (verdict, Style::Text) if verdict == "hidden" => "low-roi-hidden".to_owned(),
        (verdict, _) => verdict,
    };
    vec![
        row.words("priority"),
        verdict,
        row.words("kernel_name"),
        row.words("python_scope"),
        signal,
        row.words("dep_risk"),
        row.words("recommendation"),
        row.words("basis"),
    ]
}

fn fuse(row: &Record, style: Style) -> Vec<String> {
    vec![
        row.words("pattern"),
        row.words("confidence"),
        milliseconds(row, "related_ns"),
        percent(row, share(style)),
        row.words("evidence"),
        row.words("python_location"),
        row.words("candidate_path"),
        row.words("rationale"),
        row.words("status"),
    ]
}

fn milliseconds(row: &Record, key: &str) -> String {
    row.number(key).map_or_else(String::new, |ns| format!("{:.2} ms", ns / 1e6))
}

fn percent(row: &Record, key: &str) -> String {
    row.number(key).map_or_else(|| "-".to_owned(), |value| format!("{value:.1}%"))
}
