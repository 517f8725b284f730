//! Compares the sections of the replay with a slow reference program (`../shared/oracles/replay`, one file for each
//! trace): the window, what the critical path is made of, the part without a known cause, and the savings.
//!
//! Both follow one specification and share no code. Where the two differ and the reference is not right, the figure is
//! in [`DEVIATIONS`] with the reason. A deviation that is listed must exist, so that the list does not grow old.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::print_stdout, reason = "tests")]

use crate::common::{file_name, files, read_json, shared};
use gpuprism::analysis::section::{Record, Section, Sections};
use gpuprism::input::{Importer, nsys};
use gpuprism::session::{self, Choices, Opened};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const WORK_OF_BEFORE: &str = "Ops without a launch that a stream runs before all others are of before the trace. The reference \
    has them in the first step, which begins while they run.";

/// Traces and figures that differ, and why.
const DEVIATIONS: &[(&str, &[&str], &str)] = &[
    (
        "hf_qwen1.5_0.5b_h100",
        &["window", "path: kernel", "path: memory set", "path: turnaround", "all_blocking"],
        WORK_OF_BEFORE,
    ),
    (
        "sglang_qwen3_30b_b300_decode",
        &["host", "between_calls"],
        "The profiler held the thread for 0.583 ms (Activity Buffer Request). The reference takes that for time of the host.",
    ),
    ("hf_qwen1.5_0.5b_mi300", &["window", "path: kernel", "all_blocking"], WORK_OF_BEFORE),
    (
        "dlrm_v100_rank1",
        &[
            "window",
            "path: host + in call",
            "host function: enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
        ],
        WORK_OF_BEFORE,
    ),
    ("dlrm_v100_rank3", &["window", "path: host + in call"], WORK_OF_BEFORE),
    (
        "a100_mpi_saxpy_s2.9",
        &["window", "path: host + in call"],
        "A call of 12 ms before the first launch is a first use: a process has nothing to wait for then.",
    ),
    (
        "t4_memcpy_heavy_s3.1",
        &[
            "window",
            "unexplained",
            "path: host + in call",
            "host",
            "between_calls",
            "host function: code without a record",
        ],
        "Long calls before the first launch are first uses, after which the window begins.",
    ),
    (
        "cuda_graph_level_s2025.5",
        &["unexplained"],
        "The reference names calls of the operating system as code; gpuprism knows the ranges of nsys exports only.",
    ),
    (
        "lm_training_short_s3.25",
        &[
            "window",
            "unexplained",
            "path: kernel",
            "path: host + in call",
            "path: unexplained",
            "host",
            "between_calls",
            "graph",
            "allocations",
            "host function: code without a record",
        ],
        "gpuprism finds the steps by their repeated kernels; the reference takes all after the start.",
    ),
    (
        "lm_training_start_up_s3.16",
        &[
            "window",
            "path: kernel",
            "path: host + in call",
            "host",
            "between_calls",
            "graph",
            "host function: code without a record",
        ],
        "gpuprism finds the steps by their repeated kernels; the reference takes all after the start.",
    ),
    (
        "gtx1060_windows_s2.9",
        &["path: first use", "path: host + in call"],
        "The first use ends before the first op. gpuprism names no cause of that time, which belongs to no step.",
    ),
    (
        "h100_nvl_small",
        &[
            "window",
            "path: host + in call",
            "host",
            "between_calls",
            "host function: torch/nn/init.py(511): kaiming_uniform_",
            "host function: torch/optim/adam.py(138): _init_group",
        ],
        "The ProfilerStep holds ten calls of the optimizer: gpuprism replays these steps, the reference the ProfilerStep.",
    ),
];

/// Window and path may differ by this share of the window, and by [`ROUNDING_MS`].
const PATH_TOLERANCE: f64 = 0.001;
/// Savings may differ by this share of the window.
const SAVING_TOLERANCE: f64 = 0.02;
/// The reference prints four decimals.
const ROUNDING_MS: f64 = 0.001;

/// The kinds of the path in the words of the reference. Host code and the time in calls are one: gpuprism does not
/// store calls of torch traces that neither launch nor wait, so that their time is host code.
const KINDS: &[(&str, &[&str])] = &[
    ("kernel", &["kernel"]),
    // The reference does not divide it.
    ("communication", &["communication", "wait for other ranks"]),
    ("copy", &["copy"]),
    ("memory set", &["memory set"]),
    ("graph (whole)", &["whole graph"]),
    (
        "host + in call",
        &["host code", "host code that waits", "host, work or wait", "host, before the first op", "call"],
    ),
    ("first use", &["first use"]),
    ("blocking-call return", &["return of a blocking call"]),
    ("full launch queue", &["full launch queue"]),
    ("launch latency", &["launch latency"]),
    ("turnaround", &["turnaround"]),
    ("other-stream wait", &["wait for another stream"]),
    ("unexplained", &["unexplained"]),
    ("work launched before the trace", &["launched before the trace"]),
];

/// The changes without a subject, and those with one, in the words of the reference.
const CHANGES: &[(&str, &str)] = &[
    ("all host time zero", "host"),
    ("host code between calls zero", "between_calls"),
    ("all blocking calls removed", "all_blocking"),
    ("launches replaced by graph launches", "graph"),
    ("communication zero", "communication"),
    ("copies pinned and asynchronous", "pinned"),
    ("allocation calls free", "allocations"),
    ("start-up work done before", "start_up"),
    ("turnaround zero", "turnaround"),
];
const CHANGES_OF_A_SUBJECT: &[(&str, &[&str])] = &[
    ("host function: ", &["code:", "wait:"]),
    ("kernel twice as fast: ", &["kernel:"]),
    ("blocking calls removed: ", &["blocking:"]),
];

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn replays_match_the_reference() {
    let oracles = files(&shared("oracles/replay"), ".json");
    let traces = traces();
    let (first, second) = oracles.split_at(oracles.len() / 2);
    let compared: Vec<Compared> = std::thread::scope(|scope| {
        let traces = &traces;
        let compare_all =
            |part| scope.spawn(move || Vec::from_iter(<[PathBuf]>::iter(part).map(|path| compare(path, traces))));
        [first, second].map(compare_all).into_iter().flat_map(|part| part.join().unwrap()).collect()
    });
    let figures: usize = compared.iter().map(|compared| compared.figures).sum();
    let other_kernels: usize = compared.iter().map(|compared| compared.other_kernels).sum();
    println!("{} traces and {figures} figures compared; {other_kernels} groups of kernels are others", compared.len());
    for difference in compared.iter().flat_map(|compared| &compared.differences) {
        println!("{}: {}: {}", difference.trace, difference.figure, difference.text);
    }
    let found: BTreeSet<(&str, &str)> =
        compared.iter().flat_map(|compared| &compared.differences).map(|one| (&*one.trace, &*one.figure)).collect();
    let listed: BTreeSet<(&str, &str)> =
        DEVIATIONS.iter().flat_map(|(trace, figures, _)| figures.iter().map(|figure| (*trace, *figure))).collect();
    assert_eq!(found.difference(&listed).collect::<Vec<_>>(), [] as [&(&str, &str); 0], "not listed");
    assert_eq!(listed.difference(&found).collect::<Vec<_>>(), [] as [&(&str, &str); 0], "listed, but equal");
    assert!(compared.len() > 30 && figures > 500, "{} traces, {figures} figures", compared.len());
}

/// Trace files by name.
fn traces() -> BTreeMap<String, PathBuf> {
    let mut folders = vec![shared("traces"), shared("more")];
    let mut traces = BTreeMap::new();
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else {
                traces.insert(file_name(&path).to_owned(), path);
            }
        }
    }
    traces
}

/// Analyses a trace as the command line does.
fn sections_of(path: &Path) -> Sections {
    let label = file_name(path);
    let imported = if label.ends_with(".sqlite") {
        gpuprism::input::Imported::Trace(Box::new(nsys::open(path, label).unwrap()))
    } else {
        let mut importer = Importer::new(label);
        importer.feed(&std::fs::read(path).unwrap()).unwrap();
        importer.finish().unwrap()
    };
    let Opened::Trace(trace) = session::open(label, imported).unwrap() else { panic!("{label} is no trace") };
    session::run(&trace, &Choices::default()).unwrap().sections
}

/// A figure that differs.
struct Difference {
    trace: String,
    figure: String,
    text: String,
}

/// What the comparison of one trace found.
struct Compared {
    trace: String,
    figures: usize,
    /// Groups of kernels of the reference that gpuprism does not have.
    other_kernels: usize,
    differences: Vec<Difference>,
}

impl Compared {
    fn check(&mut self, figure: &str, is_equal: bool, text: impl FnOnce() -> String) {
        self.figures += 1;
        if !is_equal {
            let (trace, figure) = (self.trace.clone(), figure.to_owned());
            self.differences.push(Difference { trace, figure, text: text() });
        }
    }

    fn check_amount(&mut self, figure: &str, ours: f64, theirs: f64, tolerance: f64) {
        self.check(figure, (ours - theirs).abs() <= tolerance, || format!("{ours:.4}, reference {theirs:.4}"));
    }
}

fn compare(oracle: &Path, traces: &BTreeMap<String, PathBuf>) -> Compared {
    let reference = read_json(oracle);
    let trace = file_name(oracle).trim_end_matches(".json").to_owned();
    let sections = sections_of(&traces[reference["file"].as_str().unwrap()]);
    let mut compared = Compared { trace, figures: 0, other_kernels: 0, differences: Vec::new() };
    let Some(trust) = sections["replay_trust"].rows.first() else {
        compared.check("replay", false, || format!("{:?}", sections["replay_trust"].missing));
        return compared;
    };
    let window_ms = trust.amount("window_ms");
    let their_window_ms = reference["window"]["length_ms"].as_f64().unwrap();
    compared.check("exactness", trust.amount("exactness_ns") == 0.0, || trust.words("exactness_ns"));
    check_sums(&mut compared, &sections, trust);
    compared.check_amount("window", window_ms, their_window_ms, PATH_TOLERANCE * their_window_ms + ROUNDING_MS);
    let their_unexplained_pct = 100.0 * reference["unexplained_ms"].as_f64().unwrap() / their_window_ms;
    compared.check_amount(
        "unexplained",
        trust.amount("unexplained_pct"),
        their_unexplained_pct,
        100.0 * PATH_TOLERANCE,
    );
    let their_linked_pct = 100.0 * reference["linked"].as_f64().unwrap();
    compared.check_amount("linked", trust.amount("linked_pct"), their_linked_pct, 0.1);
    check_path(&mut compared, &sections, &reference);
    check_savings(&mut compared, &sections["what_if"], trust.amount("before_first_op_ms"), &reference);
    compared
}

/// The time of each kind on the path of the window.
fn time_by_kind(sections: &Sections) -> BTreeMap<String, f64> {
    let mut kinds = BTreeMap::new();
    for row in &sections["critical_path"].rows {
        *kinds.entry(row.text("kind").to_owned()).or_insert(0.0) += row.amount("in_window_ms");
    }
    kinds
}

/// The rows of each stage add up to its mean step, and those of all stages to the window.
fn check_sums(compared: &mut Compared, sections: &Sections, trust: &Record) {
    let rows = &sections["critical_path"].rows;
    let mut shares: BTreeMap<&str, f64> = BTreeMap::new();
    for row in rows {
        *shares.entry(row.text("stage")).or_default() += row.amount("share_pct");
    }
    for (stage, share) in shares {
        compared.check("sum of a stage", (share - 100.0).abs() < 1e-6, || format!("{stage}: {share} %"));
    }
    let sum: f64 = time_by_kind(sections).values().sum();
    let ns = 1e-6 * rows.len() as f64;
    compared.check_amount("sum of the path", sum, trust.amount("window_ms"), ns);
}

fn check_path(compared: &mut Compared, sections: &Sections, reference: &Value) {
    let mut theirs: BTreeMap<&str, f64> = BTreeMap::new();
    for (kind, ms) in reference["composition_ms"].as_object().unwrap() {
        let kind = match kind.as_str() {
            "host" | "in call" => "host + in call",
            kind if kind.starts_with("unexplained") => "unexplained",
            kind => kind,
        };
        assert!(KINDS.iter().any(|(known, _)| *known == kind), "{kind}");
        *theirs.entry(kind).or_default() += ms.as_f64().unwrap();
    }
    let ours = time_by_kind(sections);
    let tolerance = PATH_TOLERANCE * reference["window"]["length_ms"].as_f64().unwrap() + ROUNDING_MS;
    for (kind, words) in KINDS {
        let ours: f64 = words.iter().filter_map(|word| ours.get(*word)).sum();
        let theirs = theirs.get(kind).copied().unwrap_or_default();
        if ours != 0.0 || theirs != 0.0 {
            compared.check_amount(&format!("path: {kind}"), ours, theirs, tolerance);
        }
    }
}

/// Savings of the window, at least and at most, by id.
fn savings(what_if: &Section) -> BTreeMap<&str, [f64; 2]> {
    let mut savings = BTreeMap::new();
    for row in &what_if.rows {
        let sums = savings.entry(row.text("id")).or_insert([0.0, 0.0]);
        sums[0] += row.amount("saving_low_ms");
        sums[1] += row.amount("saving_high_ms");
    }
    savings
}

/// The reference counts what is saved of the time before the first op, which belongs to no step in a report: up to `lead_ms`.
fn check_savings(compared: &mut Compared, what_if: &Section, lead_ms: f64, reference: &Value) {
    let ours = savings(what_if);
    let tolerance = SAVING_TOLERANCE * reference["window"]["length_ms"].as_f64().unwrap();
    let theirs = reference["savings_ms"].as_object().unwrap();
    let is_cold = reference["abstain"].as_array().unwrap().iter().any(|why| why.as_str().unwrap().contains("start-up"));
    let check = |compared: &mut Compared, figure: &str, ours: Option<[f64; 2]>, theirs: Option<&Value>| {
        let ours = ours.unwrap_or_default();
        let theirs = theirs.map_or([0.0, 0.0], |saving| ["low", "high"].map(|end| saving[end].as_f64().unwrap()));
        let is_equal = ours.iter().zip(theirs).enumerate().all(|(end, (ours, theirs))| {
            let missing = theirs - ours;
            // The reference saves the waits in collectives for certain.
            let may_be_less = figure == "communication" && end == 0;
            missing >= -tolerance && (may_be_less || missing <= tolerance + lead_ms)
        });
        compared.check(figure, is_equal, || format!("{ours:.4?}, reference {theirs:.4?}, tolerance {tolerance:.4}"));
    };
    // Of a cold start gpuprism says only what its first uses cost, because the specification abstains from all else.
    let changes = CHANGES.iter().filter(|(_, id)| !is_cold || *id == "start_up");
    for (their_words, id) in changes {
        if theirs.contains_key(*their_words) || ours.contains_key(id) {
            check(compared, id, ours.get(id).copied(), theirs.get(*their_words));
        }
    }
    for (their_words, saving) in theirs.iter().filter(|_| !is_cold) {
        let of_a_subject =
            CHANGES_OF_A_SUBJECT.iter().find_map(|(begin, ids)| Some((their_words.strip_prefix(begin)?, *ids)));
        let Some((subject, ids)) = of_a_subject else {
            assert!(CHANGES.iter().any(|(known, _)| known == their_words), "{their_words}");
            continue;
        };
        let is_it =
            |id: &str| ids.iter().filter_map(|begin| id.strip_prefix(begin)).any(|ours| same_subject(ours, subject));
        let of_subject = ours.iter().find(|(id, _)| is_it(id)).map(|(_, saving)| *saving);
        if of_subject.is_some() || ids != ["kernel:"] {
            check(compared, their_words, of_subject, Some(saving));
        } else {
            compared.other_kernels += 1;
        }
    }
}

/// Whether both name the same code or kernel. Other groups of kernels are not compared: the reference groups them by
/// another rule.
fn same_subject(ours: &str, theirs: &str) -> bool {
    let is_unknown = matches!(theirs, "code without a record" | "unknown code");
    ours == if is_unknown { "(no code found)" } else { theirs.trim_end_matches(" [waits]") }
}
