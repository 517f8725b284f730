//! The columns of the three tables, and how a section's row fills them.

use crate::analysis::section::{Record, Value};

/// One of the three tables.
pub(super) struct Layout {
    /// Its heading, which programs look for.
    pub(super) title: &'static str,
    pub(super) section: &'static str,
    /// Heading, and whether numbers stand below it.
    pub(super) columns: &'static [(&'static str, bool)],
    /// The row where there is none.
    pub(super) placeholder: &'static [&'static str],
    pub(super) cells: fn(&Record) -> Vec<String>,
}

pub(super) static THREE: [Layout; 3] = [
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
        placeholder: &["No kernel cleared the reporting bar.", "", "", "", "", "", "", ""],
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
        placeholder: &["", "", "No rows cleared the reporting bar.", "", "", "", "", ""],
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
        placeholder: &["No source-backed fusion pattern matched this trace.", "", "", "", "", "", "", "", ""],
        cells: fuse,
    },
];

fn kernel(row: &Record) -> Vec<String> {
    vec![
        words(row, "kernel_name"),
        words(row, "category"),
        milliseconds(row, "duration_ns"),
        percent(row, "share_pct"),
        words(row, "launches"),
        words(row, "python_location"),
        words(row, "cpu_op"),
        words(row, "found"),
    ]
}

fn overlap(row: &Record) -> Vec<String> {
    let time = number(row, "duration_ns").map_or_else(String::new, |ns| format!("{:.1} us", ns / 1e3));
    // Idle time is no part of the busy time.
    let signal = match number(row, "share_pct") {
        None => format!("{time}, {} of the time without pauses", percent(row, "unpaused_share_pct")),
        Some(_) => format!(
            "{time}, share {}, excl {} / hid {}",
            percent(row, "share_pct"),
            percent(row, "exclusive_pct"),
            percent(row, "hidden_pct"),
        ),
    };
    vec![
        words(row, "priority"),
        words(row, "verdict"),
        words(row, "kernel_name"),
        words(row, "python_scope"),
        signal,
        words(row, "dep_risk"),
        words(row, "recommendation"),
        words(row, "basis"),
    ]
}

fn fuse(row: &Record) -> Vec<String> {
    vec![
        words(row, "pattern"),
        words(row, "confidence"),
        milliseconds(row, "related_ns"),
        percent(row, "share_pct"),
        words(row, "evidence"),
        words(row, "python_location"),
        words(row, "candidate_path"),
        words(row, "rationale"),
        words(row, "status"),
    ]
}

fn words(row: &Record, key: &str) -> String {
    match row.get(key) {
        Some(Value::Text(text)) => text.clone(),
        Some(Value::Int(value)) => value.to_string(),
        Some(Value::Float(value)) => value.to_string(),
        Some(Value::Bool(value)) => if *value { "yes" } else { "no" }.to_owned(),
        Some(Value::Null) | None => String::new(),
    }
}

fn number(row: &Record, key: &str) -> Option<f64> {
    row.get(key).and_then(Value::number)
}

fn milliseconds(row: &Record, key: &str) -> String {
    number(row, key).map_or_else(String::new, |ns| format!("{:.2} ms", ns / 1e6))
}

fn percent(row: &Record, key: &str) -> String {
    number(row, key).map_or_else(|| "-".to_owned(), |value| format!("{value:.1}%"))
}
