//! Compares the overlap table of real traces with manually labelled opportunities (`data/triage_labels/overlap.json`): every
//! reported row must be labelled, and every label must be reported.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "helpers of tests"
)]

use crate::common;
use common::{import_with_code, shared};
use gpuprism::analysis::section::{Record, Section};
use gpuprism::analysis::triage::{Options, Request, ServerArgs, Stage, triage};
use gpuprism::trace::Trace;
use serde::Deserialize;

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

impl TrueRow {
    fn matches(&self, row: &Record) -> bool {
        row.text("verdict") == self.verdict && row.text("kernel_name").contains(&self.kernel)
    }

    /// The sums over all stages must equal the labelled times within 0.1 % plus the rounding of the file to microseconds.
    fn check_times(&self, file: &str, rows: &[&Record]) {
        let is_close = |ours: f64, expected: f64| (ours - expected).abs() <= 0.001 * expected + 0.2;
        let us = |row: &&Record| row.amount("duration_ns") / 1e3;
        let duration_us: f64 = rows.iter().map(us).sum();
        assert!(is_close(duration_us, self.duration_us), "{file} {}: {duration_us} us", self.kernel);
        if let Some(expected) = self.exclusive_us {
            let exclusive_us: f64 = rows.iter().map(|row| us(row) * row.amount("exclusive_pct") / 100.0).sum();
            assert!(is_close(exclusive_us, expected), "{file} {}: {exclusive_us} us alone", self.kernel);
        }
    }
}

/// Counts of correct, reported and labelled rows, and descriptions of the errors.
#[derive(Default)]
struct Score {
    correct: usize,
    reported: usize,
    labelled: usize,
    errors: Vec<String>,
}

impl Score {
    fn judge(&mut self, labelled: &Labelled, section: &Section) {
        let file = &labelled.file;
        for row in &section.rows {
            let (verdict, kernel) = (row.text("verdict"), row.text("kernel_name"));
            self.reported += 1;
            let labels = labelled.rows.iter().filter(|label| label.matches(row)).count();
            if labels == 1 {
                self.correct += 1;
                continue;
            }
            let near_miss = labelled.near_misses.iter().find(|miss| kernel.contains(&miss.kernel));
            let why = near_miss.map_or("not labelled", |miss| miss.why.as_str());
            self.errors.push(format!("{file}: false: {verdict} {kernel}: {why}"));
        }
        for label in &labelled.rows {
            let rows: Vec<&Record> = section.rows.iter().filter(|row| label.matches(row)).collect();
            self.labelled += 1;
            if rows.is_empty() {
                self.errors.push(format!("{file}: missing: {} {}: {}", label.verdict, label.kernel, label.why));
            } else {
                label.check_times(file, &rows);
            }
        }
    }
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn rows_of_real_traces_are_exactly_the_labelled_ones() {
    let folder = shared("traces/torch");
    let (mut score, mut found) = (Score::default(), 0);
    for labelled in labels().traces {
        let trace = import_with_code(&folder.join(&labelled.file));
        for miss in &labelled.near_misses {
            assert!(
                trace.names.iter().any(|name| name.contains(&miss.kernel)),
                "{}: no {}",
                labelled.file,
                miss.kernel
            );
        }
        let section = table(&trace);
        let labelled_rows = labelled.rows.iter().filter(|label| section.rows.iter().any(|row| label.matches(row)));
        found += labelled_rows.count();
        score.judge(&labelled, &section);
    }
    let percent = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
    println!(
        "overlap rows of real traces: precision {:.1} % ({} of {}), recall {:.1} % ({found} of {})",
        percent(score.correct, score.reported),
        score.correct,
        score.reported,
        percent(found, score.labelled),
        score.labelled
    );
    assert!(score.errors.is_empty(), "{}", score.errors.join("\n"));
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn exclusive_time_of_a_stage_does_not_exceed_its_busy_time() {
    let folder = shared("traces/torch");
    for labelled in labels().traces {
        let section = table(&import_with_code(&folder.join(&labelled.file)));
        for stage in Stage::ALL {
            let rows = section.rows.iter().filter(|row| row.text("stage") == stage.label());
            let exclusive: f64 = rows.map(|row| row.amount("share_pct") * row.amount("exclusive_pct") / 100.0).sum();
            assert!(exclusive <= 100.0 + 1e-9, "{} {}: {exclusive} %", labelled.file, stage.label());
        }
    }
}
