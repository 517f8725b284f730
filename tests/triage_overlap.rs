//! The overlap table against traces of real servers and models whose opportunities a person worked out from the events
//! (`data/triage_labels/overlap.json`): every row that is said must be true, and every true one said.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "helpers of tests"
)]

mod common;

use common::shared;
use gpuprism::analysis::section::{Record, Section};
use gpuprism::analysis::triage::{Options, Request, ServerArgs, Stage, triage};
use gpuprism::input::{Imported, Importer};
use gpuprism::trace::Trace;
use serde::Deserialize;
use std::path::Path;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Labels {
    #[allow(dead_code, reason = "for the reader of the file")]
    about: String,
    traces: Vec<Labelled>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Labelled {
    file: String,
    rows: Vec<TrueRow>,
    near_misses: Vec<NearMiss>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TrueRow {
    verdict: String,
    kernel: String,
    duration_us: f64,
    exclusive_us: Option<f64>,
    why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NearMiss {
    kernel: String,
    why: String,
}

fn labels() -> Labels {
    serde_json::from_str(include_str!("data/triage_labels/overlap.json")).unwrap()
}

fn read(path: &Path) -> Trace {
    let mut importer = Importer::with_code(common::file_name(path));
    importer.feed(&std::fs::read(path).unwrap()).unwrap();
    let Imported::Trace(trace) = importer.finish().unwrap() else { panic!("{} is a trace", path.display()) };
    *trace
}

fn table(trace: &Trace) -> Section {
    let (server, options) = (ServerArgs::default(), Options::default());
    let request = Request {
        trace,
        path: "",
        file_stage: Stage::All,
        mapping: &[],
        server: &server,
        framework: None,
        options: &options,
    };
    triage(&request).remove("triage_overlap").unwrap()
}

fn text<'a>(row: &'a Record, column: &str) -> &'a str {
    row.get(column).and_then(|value| value.text()).unwrap_or_default()
}

fn number(row: &Record, column: &str) -> f64 {
    row.get(column).and_then(|value| value.number()).unwrap_or(f64::NAN)
}

impl TrueRow {
    fn is(&self, row: &Record) -> bool {
        text(row, "verdict") == self.verdict && text(row, "kernel_name").contains(&self.kernel)
    }

    /// Times over all stages are those of the slow sweep, to a thousandth and what a microsecond of the file rounds.
    fn check_times(&self, file: &str, rows: &[&Record]) {
        let close = |ours: f64, slow: f64| (ours - slow).abs() <= 0.001 * slow + 0.2;
        let us = |row: &&Record| number(row, "duration_ns") / 1e3;
        let duration_us: f64 = rows.iter().map(us).sum();
        assert!(close(duration_us, self.duration_us), "{file} {}: {duration_us} us", self.kernel);
        if let Some(slow) = self.exclusive_us {
            let exclusive_us: f64 = rows.iter().map(|row| us(row) * number(row, "exclusive_pct") / 100.0).sum();
            assert!(close(exclusive_us, slow), "{file} {}: {exclusive_us} us alone", self.kernel);
        }
    }
}

/// Rows that are said and true, said in all, and true in all; and what is wrong.
#[derive(Default)]
struct Score {
    hits: usize,
    said: usize,
    truths: usize,
    wrong: Vec<String>,
}

impl Score {
    fn judge(&mut self, labelled: &Labelled, section: &Section) {
        let file = &labelled.file;
        for row in &section.rows {
            let (verdict, kernel) = (text(row, "verdict"), text(row, "kernel_name"));
            self.said += 1;
            let labels = labelled.rows.iter().filter(|label| label.is(row)).count();
            if labels == 1 {
                self.hits += 1;
                continue;
            }
            let near_miss = labelled.near_misses.iter().find(|miss| kernel.contains(&miss.kernel));
            let why = near_miss.map_or("nobody labelled it", |miss| miss.why.as_str());
            self.wrong.push(format!("{file}: false: {verdict} {kernel}: {why}"));
        }
        for label in &labelled.rows {
            let rows: Vec<&Record> = section.rows.iter().filter(|row| label.is(row)).collect();
            self.truths += 1;
            if rows.is_empty() {
                self.wrong.push(format!("{file}: missing: {} {}: {}", label.verdict, label.kernel, label.why));
            } else {
                label.check_times(file, &rows);
            }
        }
    }
}

#[test]
fn every_row_said_of_real_traces_is_true_and_every_true_one_is_said() {
    let Some(folder) = shared("traces/torch") else { return };
    let (mut score, mut found) = (Score::default(), 0);
    for labelled in labels().traces {
        let trace = read(&folder.join(&labelled.file));
        for miss in &labelled.near_misses {
            assert!(
                trace.names.iter().any(|name| name.contains(&miss.kernel)),
                "{}: no {}",
                labelled.file,
                miss.kernel
            );
        }
        let section = table(&trace);
        let labelled_rows = labelled.rows.iter().filter(|label| section.rows.iter().any(|row| label.is(row)));
        found += labelled_rows.count();
        score.judge(&labelled, &section);
    }
    let percent = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
    println!(
        "overlap rows of real traces: precision {:.1} % ({} of {}), recall {:.1} % ({found} of {})",
        percent(score.hits, score.said),
        score.hits,
        score.said,
        percent(found, score.truths),
        score.truths
    );
    assert!(score.wrong.is_empty(), "{}", score.wrong.join("\n"));
}

#[test]
fn exclusive_times_of_a_stage_are_no_more_than_its_busy_time_on_real_traces() {
    let Some(folder) = shared("traces/torch") else { return };
    for labelled in labels().traces {
        let section = table(&read(&folder.join(&labelled.file)));
        for stage in Stage::ALL {
            let rows = section.rows.iter().filter(|row| text(row, "stage") == stage.label());
            let exclusive: f64 = rows
                .filter(|row| number(row, "share_pct").is_finite())
                .map(|row| number(row, "share_pct") * number(row, "exclusive_pct") / 100.0)
                .sum();
            assert!(exclusive <= 100.0 + 1e-9, "{} {}: {exclusive} %", labelled.file, stage.label());
        }
    }
}
