//! Compares the verdict, the findings and the trust rows of real traces with labels.
//!
//! `tests/advice` contains one label file per trace. Its author read the raw events, not the report of gpuprism; `seen` states what
//! they show. Entries of `must` count for recall: a label is met if the report contains it. Every printed finding and trust row
//! counts for precision: it is right if `must` or `may` contains it, with a cost in the stated range. A sentence that a label
//! forbids counts as a wrong statement. The traces are outside the project in `../shared`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::print_stdout, reason = "tests")]

use crate::common;
use common::{directory, file_name, files, gpuprism, shared};
use regex::Regex;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

/// The lowest precision: no wrong statement is allowed. Those that are found are printed.
const MIN_PRECISION: f64 = 1.0;

/// The least share of the labels that the reports must contain.
const MIN_RECALL: f64 = 0.9;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Label {
    /// Path of the trace in `../shared/traces`.
    trace: String,
    /// What the raw events show, with the numbers that the entries rely on.
    seen: String,
    #[serde(default)]
    verdict: Verdict,
    #[serde(default)]
    findings: Rows,
    #[serde(default)]
    trust: Rows,
    /// Words that neither the verdict nor a finding may contain.
    #[serde(default)]
    must_not_say: Vec<Forbidden>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Verdict {
    #[serde(default)]
    must: Vec<Fact>,
    #[serde(default)]
    must_not: Vec<Forbidden>,
}

/// A statement of the verdict: a time in the range, or one of the words.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fact {
    ms: Option<[f64; 2]>,
    #[serde(default)]
    any_words: Vec<String>,
    why: String,
}

/// Words that a text must not contain, in any case.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Forbidden {
    words: Vec<String>,
    why: String,
}

/// The rows of one section. A row that neither `must` nor `may` contains is wrong; `must_not` states why for rows that one could
/// expect.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Rows {
    #[serde(default)]
    must: Vec<Row>,
    #[serde(default)]
    may: Vec<Row>,
    #[serde(default)]
    must_not: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    id: Ids,
    /// Range of the cost in milliseconds.
    cost_ms: Option<[f64; 2]>,
    /// A confidence that the trace does not allow.
    confidence_not: Option<String>,
    why: String,
}

/// The id of a row. If there are several, one of them is enough.
#[derive(Deserialize)]
#[serde(untagged)]
enum Ids {
    One(String),
    AnyOf(Vec<String>),
}

/// A row of the findings or the trust section of a report.
#[derive(Debug)]
struct Printed {
    id: String,
    cost_ms: Option<f64>,
    confidence: String,
    text: String,
}

/// Counts over all traces, and a line for each disagreement.
#[derive(Default)]
struct Score {
    right: usize,
    wrong: Vec<String>,
    met: usize,
    missed: Vec<String>,
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn conclusions_of_real_traces_match_their_labels() {
    let traces = shared("traces");
    let labels = labels();
    let folder = directory("advice");
    let mut score = Score::default();
    std::thread::scope(|scope| {
        let halves: Vec<_> = labels
            .chunks(labels.len().div_ceil(2))
            .map(|part| scope.spawn(|| scores(part, &traces, &folder)))
            .collect();
        halves.into_iter().for_each(|half| score.merge(half.join().unwrap()));
    });
    let (precision, recall) = (score.precision(), score.recall());
    score.wrong.iter().for_each(|line| println!("wrong: {line}"));
    score.missed.iter().for_each(|line| println!("missed: {line}"));
    println!(
        "{} traces: precision {:.1} % ({} of {}), recall {:.1} % ({} of {})",
        labels.len(),
        precision * 100.0,
        score.right,
        score.right + score.wrong.len(),
        recall * 100.0,
        score.met,
        score.met + score.missed.len()
    );
    assert!(precision >= MIN_PRECISION, "precision is {:.1} %: {:#?}", precision * 100.0, score.wrong);
    assert!(recall >= MIN_RECALL, "recall is {:.1} %: {:#?}", recall * 100.0, score.missed);
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn every_torch_and_nsys_trace_has_one_label_file() {
    let traces = shared("traces");
    let mut labelled: Vec<String> = labels().into_iter().map(|label| label.trace).collect();
    labelled.sort();
    let mut found: Vec<String> = Vec::new();
    for (folder, end) in [("torch", ".json.gz"), ("torch/dlrm_v100_8ranks", ".json.gz"), ("nsys", ".sqlite")] {
        found.extend(files(&traces.join(folder), end).iter().map(|path| format!("{folder}/{}", file_name(path))));
    }
    found.sort();
    assert_eq!(labelled, found);
}

#[test]
fn labels_state_their_reasons_and_do_not_contradict_themselves() {
    for label in labels() {
        assert!(label.seen.len() > 40, "{}: what the raw events show", label.trace);
        for rows in [&label.findings, &label.trust] {
            let allowed: BTreeSet<&String> = rows.must.iter().chain(&rows.may).flat_map(|row| row.id.all()).collect();
            let denied: BTreeSet<&String> = rows.must_not.iter().flat_map(|row| row.id.all()).collect();
            assert!(allowed.is_disjoint(&denied), "{}: {:?}", label.trace, allowed.intersection(&denied));
            for row in [&rows.must, &rows.may, &rows.must_not].into_iter().flatten() {
                assert!(!row.why.is_empty(), "{}: {:?}", label.trace, row.id.all());
                assert!(row.cost_ms.is_none_or(|[low, high]| low < high), "{}: {:?}", label.trace, row.id.all());
            }
        }
        for fact in &label.verdict.must {
            assert!(fact.ms.is_some() == fact.any_words.is_empty(), "{}: {}", label.trace, fact.why);
        }
        let forbidden = label.verdict.must_not.iter().chain(&label.must_not_say);
        forbidden.for_each(|entry| assert!(!entry.words.is_empty() && !entry.why.is_empty(), "{}", label.trace));
    }
}

fn labels() -> Vec<Label> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/advice");
    files(&folder, ".json")
        .iter()
        .map(|path| {
            let parsed = serde_json::from_str(&std::fs::read_to_string(path).unwrap());
            parsed.map_err(|error| format!("{}: {error}", path.display())).unwrap()
        })
        .collect()
}

fn scores(labels: &[Label], traces: &Path, folder: &Path) -> Score {
    let mut score = Score::default();
    for label in labels {
        let path = traces.join(&label.trace);
        let output = gpuprism(folder, ["report", "--format", "json", path.to_str().unwrap()]);
        assert_eq!(output.status, 0, "{}: {}", label.trace, output.stderr);
        let report: Value = serde_json::from_str(&output.stdout).unwrap();
        compare(label, report.pointer("/runs/0").unwrap(), &mut score);
    }
    score
}

fn compare(label: &Label, run: &Value, score: &mut Score) {
    let verdict = run.pointer("/verdict/text").and_then(Value::as_str).unwrap_or_default();
    for fact in &label.verdict.must {
        let expected = fact.ms.map_or_else(|| fact.any_words.join(" or "), |[low, high]| format!("{low} to {high} ms"));
        let line = || format!("{}: verdict {expected}: {} Verdict: {verdict}", label.trace, fact.why);
        score.require(fact.is_in(verdict), line);
    }
    let (findings, trust) = (printed(run, "findings"), printed(run, "trust"));
    for (name, rows, printed) in [("finding", &label.findings, &findings), ("trust", &label.trust, &trust)] {
        for row in &rows.must {
            let line = || format!("{}: {name} {:?} {:?}: {}", label.trace, row.id.all(), row.cost_ms, row.why);
            score.require(printed.iter().any(|printed| row.allows(printed)), line);
        }
        for printed in printed {
            if rows.must.iter().chain(&rows.may).any(|row| row.allows(printed)) {
                score.right += 1;
            } else {
                let reasons = rows.must_not.iter().chain(&rows.must).chain(&rows.may);
                let why = reasons.filter(|row| row.id.all().contains(&printed.id)).map(|row| row.why.as_str());
                let why: Vec<&str> = why.collect();
                score.wrong.push(format!("{}: {name} {printed:?}. Label: {}", label.trace, why.join(" ")));
            }
        }
    }
    let findings: String = findings.iter().map(|row| row.text.as_str()).collect::<Vec<_>>().join("\n");
    let texts = label.verdict.must_not.iter().map(|entry| (entry, verdict.to_owned()));
    for (entry, text) in texts.chain(label.must_not_say.iter().map(|entry| (entry, format!("{verdict}\n{findings}")))) {
        // A file name of the program, such as `cuda_graph_runner.py(276)`, is no claim.
        let is_own = |word: &&str| !word.contains(".py(");
        let own_words = text.to_lowercase().split(' ').filter(is_own).collect::<Vec<_>>().join(" ");
        if let Some(word) = entry.words.iter().find(|word| own_words.contains(&word.to_lowercase())) {
            score.wrong.push(format!("{}: says \"{word}\", but: {} Text: {text}", label.trace, entry.why));
        }
    }
}

/// The rows of a section, each with all its texts.
fn printed(run: &Value, section: &str) -> Vec<Printed> {
    let rows = run.pointer(&format!("/sections/{section}/rows")).and_then(Value::as_array);
    let text_of = |row: &Value, key: &str| row.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let printed = |row: &Value| Printed {
        id: text_of(row, "id"),
        cost_ms: row.get("cost_ms").and_then(Value::as_f64),
        confidence: text_of(row, "confidence"),
        text: ["title", "evidence", "action"].map(|key| text_of(row, key)).join("\n"),
    };
    rows.into_iter().flatten().map(printed).collect()
}

impl Fact {
    fn is_in(&self, verdict: &str) -> bool {
        let lower = verdict.to_lowercase();
        match self.ms {
            Some([low, high]) => times_ms(verdict).iter().any(|ms| (low..=high).contains(ms)),
            None => self.any_words.iter().any(|word| lower.contains(&word.to_lowercase())),
        }
    }
}

/// All times of a text in milliseconds.
fn times_ms(text: &str) -> Vec<f64> {
    static TIME: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"([0-9][0-9,]*(?:\.[0-9]+)?) ?(us|ms|s)(?-u:\b)").unwrap());
    let times = TIME.captures_iter(text).map(|found| {
        let [number, unit] = found.extract().1;
        let scale = match unit {
            "us" => 0.001,
            "ms" => 1.0,
            _ => 1000.0,
        };
        number.replace(',', "").parse::<f64>().unwrap() * scale
    });
    times.collect()
}

impl Row {
    fn allows(&self, printed: &Printed) -> bool {
        let cost_fits =
            self.cost_ms.is_none_or(|[low, high]| printed.cost_ms.is_some_and(|ms| (low..=high).contains(&ms)));
        let confidence_fits = self.confidence_not.as_ref().is_none_or(|denied| *denied != printed.confidence);
        self.id.all().contains(&printed.id) && cost_fits && confidence_fits
    }
}

impl Ids {
    fn all(&self) -> &[String] {
        match self {
            Self::One(id) => std::slice::from_ref(id),
            Self::AnyOf(ids) => ids,
        }
    }
}

impl Score {
    fn require(&mut self, met: bool, line: impl FnOnce() -> String) {
        if met {
            self.met += 1;
        } else {
            self.missed.push(line());
        }
    }

    fn merge(&mut self, other: Self) {
        self.right += other.right;
        self.met += other.met;
        self.wrong.extend(other.wrong);
        self.missed.extend(other.missed);
    }

    fn precision(&self) -> f64 {
        share(self.right, self.wrong.len())
    }

    fn recall(&self) -> f64 {
        share(self.met, self.missed.len())
    }
}

fn share(part: usize, rest: usize) -> f64 {
    if part + rest == 0 { 1.0 } else { part as f64 / (part + rest) as f64 }
}
