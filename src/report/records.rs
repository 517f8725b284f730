//! Tables for programs: the keys and plain values of the JSON report, without units, short names or display order.

use super::Report;
use super::groups::groups;
use super::sections::{section_name, table_id};
use crate::analysis::results::Run;
use crate::analysis::section::{Record, Section, Value};
use crate::json;
use serde::Serialize;

/// The lists of a run that are no sections, with their keys in JSON.
const LISTS: [(&str, &str, &[&str]); 4] = [
    (
        "kernels",
        "Kernels",
        &[
            "name",
            "short_name",
            "category",
            "category_source",
            "count",
            "duration_ns",
            "elapsed_ns",
            "exclusive_ns",
            "fair_ns",
            "elapsed_share",
            "mean_ns",
            "min_ns",
            "max_ns",
        ],
    ),
    (
        "categories",
        "Categories",
        &["category", "count", "duration_ns", "elapsed_ns", "exclusive_ns", "fair_ns", "elapsed_share", "bar_share"],
    ),
    ("devices", "Devices", &["id", "name", "gpu_ops", "duration_ns", "union_ns", "window_ns", "idle_ns", "busy_share"]),
    ("notices", "Notices", &["severity", "code", "message", "count", "advice"]),
];

/// The key of the column with the label of the run, in tables of several runs.
const RUN: &str = "run";

/// The ids of the tables that [`records`] has for this report, as `gpuprism report --table` names them.
pub fn record_tables(report: &Report) -> Vec<String> {
    let ids = groups(report).into_iter().flat_map(|group| group.tables);
    ids.filter(|id| list(id).is_some() || report.runs.iter().any(|run| run.sections.contains_key(section_name(id))))
        .collect()
}

/// The table of this id with the values of the JSON report. With several runs, the first column is the label of the run, and the
/// title, figures and limits are those of the first run that has the table. `None` if no run has it.
pub fn records(report: &Report, id: &str) -> Option<Section> {
    if let [run] = report.runs.as_slice() {
        return of_run(run, id);
    }
    let labels = report.labels();
    let parts = labels.into_iter().zip(&report.runs).filter_map(|(label, run)| Some((label, of_run(run, id)?)));
    let mut parts: Vec<(String, Section)> = parts.collect();
    let mut columns = vec![RUN.to_owned()];
    for key in parts.iter().flat_map(|(_, part)| &part.columns) {
        if !columns.contains(key) {
            columns.push(key.clone());
        }
    }
    let mut rows = Vec::new();
    for (label, part) in &mut parts {
        for Record(mut members) in std::mem::take(&mut part.rows) {
            members.insert(0, (RUN.into(), Value::Text(label.clone())));
            rows.push(Record(members));
        }
    }
    let rows_in_all = parts.iter().map(|(_, part)| part.rows_in_all).sum();
    let first = parts.iter().position(|(_, part)| part.missing.is_none()).unwrap_or(0);
    let (_, first) = parts.into_iter().nth(first)?;
    Some(Section { columns, rows, rows_in_all, ..first })
}

fn of_run(run: &Run, id: &str) -> Option<Section> {
    let Some((_, title, columns)) = list(id) else {
        let name = section_name(id);
        return run.sections.get(name).filter(|_| table_id(name) == id).cloned();
    };
    let rows = match id {
        "kernels" => rows(&run.kernels),
        "categories" => rows(&run.categories),
        "devices" => rows(&run.devices),
        _ => rows(&run.notices),
    };
    let rows_in_all = rows.len() as u64;
    Some(Section { rows, rows_in_all, ..Section::new(title, "", columns) })
}

fn list(id: &str) -> Option<&'static (&'static str, &'static str, &'static [&'static str])> {
    LISTS.iter().find(|(list, ..)| *list == id)
}

/// The items as in the JSON report: the same keys in the same order.
fn rows<T: Serialize>(items: &[T]) -> Vec<Record> {
    // Serialising plain structs cannot fail, and they contain plain values only.
    let text = serde_json::to_string(items).unwrap_or_default();
    json::read(&text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests_support::sample;

    #[test]
    fn the_lists_have_the_keys_and_values_of_the_json_report() {
        let mut report = sample();
        report.runs[0].notices.push(crate::analysis::results::Notice::new(
            crate::analysis::results::Severity::Info,
            "code",
            "message",
            "advice",
        ));
        let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
        for (id, _, columns) in LISTS {
            let table = records(&report, id).unwrap();
            let expected = json["runs"][0][id].as_array().unwrap();
            assert!(!expected.is_empty() && table.rows.len() == expected.len(), "{id}");
            for (row, expected) in table.rows.iter().zip(expected) {
                let keys: Vec<&str> = row.0.iter().map(|(key, _)| key.as_ref()).collect();
                assert_eq!(keys, columns, "{id}");
                assert_eq!(serde_json::to_value(row).unwrap(), *expected, "{id}");
            }
        }
    }

    #[test]
    fn every_section_is_a_table_and_several_runs_are_told_apart_by_their_label() {
        let one = sample();
        for name in one.runs[0].sections.keys() {
            let id = table_id(name);
            assert!(record_tables(&one).contains(&id.to_owned()), "{id}");
            assert_eq!(records(&one, id).as_ref(), one.runs[0].sections.get(name), "{id}");
        }
        assert_eq!(records(&one, "nonsense"), None);
        let two = Report::new(vec![one.runs[0].clone(), one.runs[0].clone()]);
        let kernels = records(&two, "kernels").unwrap();
        assert_eq!((kernels.rows.len(), kernels.columns[0].as_str()), (80, "run"));
        assert_eq!((kernels.rows[0].text("run"), kernels.rows[79].text("run")), ("sample.json", "sample.json (2)"));
        assert_eq!(records(&two, "nonsense"), None);
    }
}
