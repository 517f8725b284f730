//! Every output has the same steps: the tables of the report, the verdict, the brief, the model, the triage, the pivot and the facts.

use crate::common::{csv_rows, directory, gpuprism, json_runs, printed, shared};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// What an output says of the steps of a stage.
#[derive(Debug, Clone, Copy, PartialEq)]
struct OfStage {
    steps: u64,
    median_ns: f64,
}

type Stages = BTreeMap<String, OfStage>;

/// Two ranks in one file: each has a prefill of 900 us, and decode steps of 400 us of which the GPU works 150 us.
fn merged_ranks(folder: &Path) {
    let mut events = Vec::new();
    for rank in 0..2_u32 {
        let (mut at, mut id) = (1_000 + 37 * rank, 0);
        let decodes = std::iter::repeat_n(("step[DECODE bs=8]", 400, 150), 7);
        for (name, length, busy) in std::iter::once(("step[EXTEND bs=1 toks=64]", 900, 800)).chain(decodes) {
            id += 1;
            let mut add = |cat: &str, name: &str, pid: u32, start: u32, duration: u32, args: String| {
                events.push(format!(
                    r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":"[TP0{rank}] {pid}","tid":7,"ts":{start},"dur":{duration},"args":{{{args}}}}}"#
                ));
            };
            add("user_annotation", name, 9, at, 30, String::new());
            add("cuda_runtime", "cudaLaunchKernel", 9, at + 2, 2, format!(r#""correlation":{id}"#));
            let of_kernel = format!(r#""device":{rank},"stream":7,"correlation":{id}"#);
            add("kernel", "nvjet_tst_64x8", rank, at + 5, busy, of_kernel);
            at += length;
        }
    }
    std::fs::write(folder.join("merged.json"), format!(r#"{{"traceEvents":[{}]}}"#, events.join(","))).unwrap();
}

fn rows(run: &Value, section: &str) -> Vec<Value> {
    run["sections"][section]["rows"].as_array().unwrap_or_else(|| panic!("no rows in {section}")).clone()
}

fn stages(rows: &[Value], median: impl Fn(&Value) -> f64) -> Stages {
    let of_stage = |row: &Value| OfStage { steps: row["steps"].as_u64().unwrap(), median_ns: median(row) };
    rows.iter().map(|row| (row["stage"].as_str().unwrap().to_owned(), of_stage(row))).collect()
}

/// Computed from the list of steps. The last step of a device counts in no median if two others remain.
fn from_list(rows: &[Value]) -> Stages {
    let is_last = |index: usize| rows[index + 1..].iter().all(|later| later["device_id"] != rows[index]["device_id"]);
    let mut times: BTreeMap<String, [Vec<f64>; 2]> = BTreeMap::new();
    for (index, row) in rows.iter().enumerate() {
        let [whole, all] = times.entry(row["stage"].as_str().unwrap().to_owned()).or_default();
        let time = row["duration_ns"].as_f64().unwrap();
        all.push(time);
        if !is_last(index) {
            whole.push(time);
        }
    }
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        (times[(times.len() - 1) / 2] + times[times.len() / 2]) / 2.0
    };
    let of_stage = |[whole, all]: [Vec<f64>; 2]| OfStage {
        steps: all.len() as u64,
        median_ns: median(if whole.len() < 2 { all } else { whole }),
    };
    times.into_iter().map(|(stage, times)| (stage, of_stage(times))).collect()
}

fn triage_run(folder: &Path, file: &str) -> Value {
    let text = printed(folder, ["triage", "--format", "json", file]);
    serde_json::from_str::<Value>(&text).unwrap()["runs"][0].clone()
}

/// The number of steps with work in the pivot table. It numbers the steps of each process.
fn pivot_steps(folder: &Path, file: &str) -> usize {
    let axes = ["--rows", "process", "--columns", "step", "--values", "count", "--top", "0"];
    let text = printed(folder, [&["pivot", "--format", "csv"], &axes[..], &[file]].concat());
    let table = csv_rows(&text);
    let is_step = |column: &usize| table[0][*column].starts_with("step ");
    let columns: Vec<usize> = (0..table[0].len()).filter(is_step).collect();
    let of_processes = table[1..].iter().filter(|row| row[0] != "total");
    let has_work = |cell: &String| cell.parse::<f64>().is_ok_and(|count| count > 0.0);
    of_processes.map(|row| columns.iter().filter(|column| has_work(&row[**column])).count()).sum()
}

fn assert_agree(folder: &Path, file: &str) {
    let run = &json_runs(folder, &[file])[0];
    let expected = stages(&rows(run, "steps"), |row| row["median_ns"].as_f64().unwrap());
    assert!(!expected.is_empty());
    assert_eq!(from_list(&rows(run, "step_list")), expected, "step_list of {file}");

    let triage = triage_run(folder, file);
    let found = stages(&rows(&triage, "triage_steps"), |row| (row["median_us"].as_f64().unwrap() * 1e3).round());
    let rounded = expected
        .iter()
        .map(|(stage, of_stage)| (stage.clone(), OfStage { median_ns: of_stage.median_ns.round(), ..*of_stage }));
    assert_eq!(found, rounded.collect::<Stages>(), "triage of {file}");
    for (of_report, of_triage) in rows(run, "steps").iter().zip(rows(&triage, "triage_steps")) {
        let busy = |row: &Value, key: &str| row[key].as_f64().unwrap();
        let difference = busy(of_report, "busy_pct") - busy(&of_triage, "gpu_busy_pct");
        assert!(difference.abs() < 0.01, "busy share in {file}: {of_report} {of_triage}");
    }

    let all = expected.values().map(|of_stage| of_stage.steps).sum::<u64>();
    assert_eq!(pivot_steps(folder, file) as u64, all, "pivot of {file}");

    let model: Value = serde_json::from_str(&printed(folder, ["model", "--format", "json", file])).unwrap();
    let brief = gpuprism(folder, ["brief", file]).stdout;
    let verdict = run["verdict"]["text"].as_str().or(run["verdict"].as_str()).unwrap();
    let lines = model["runs"][0]["lines"].to_string();
    for of_stage in expected.values() {
        let words = said_as(of_stage.steps);
        for (name, text) in [("verdict", verdict), ("brief", &brief), ("model", &lines)] {
            assert!(words.iter().any(|words| text.contains(words)), "{words:?} in the {name} of {file}: {text}");
        }
    }
}

/// The words for a number of steps in sentences: of one GPU, of several together, or as many on each.
fn said_as(steps: u64) -> Vec<String> {
    let of_one = if steps == 1 { "1 step of ".to_owned() } else { format!("{steps} steps, median ") };
    let on_each = |gpus: u64| {
        let each = steps / gpus;
        format!("{each} step{} on each of {gpus} GPUs, median ", if each == 1 { "" } else { "s" })
    };
    let several = (2..=8).filter(|gpus| steps.is_multiple_of(*gpus));
    let together = (2..=8).map(|gpus| format!("{steps} steps of {gpus} GPUs together, median "));
    std::iter::once(of_one).chain(several.map(on_each)).chain(together).collect()
}

/// The points of the trend of one run.
#[cfg(feature = "facts")]
#[test]
fn facts_have_the_same_steps() {
    let folder = directory("steps_agree_facts");
    merged_ranks(&folder);
    let tags = ["--tag", "model=M", "--tag", "date=2026-01-01"];
    assert_eq!(gpuprism(&folder, [&["facts", "merged.json", "--out", "facts"], &tags[..]].concat()).status, 0);
    let trend: Value = serde_json::from_str(&printed(&folder, ["trend", "facts", "--format", "json"])).unwrap();
    let found: Stages = trend["series"]
        .as_array()
        .unwrap()
        .iter()
        .map(|series| {
            let run = &series["runs"][0];
            let (steps, median_ns) = (run["steps"].as_u64().unwrap(), run["median_ns"].as_f64().unwrap());
            (series["stage"].as_str().unwrap().to_owned(), OfStage { steps, median_ns })
        })
        .collect();
    let run = &json_runs(&folder, &["merged.json"])[0];
    assert_eq!(found, stages(&rows(run, "steps"), |row| row["median_ns"].as_f64().unwrap()));
}

#[test]
fn outputs_have_the_same_steps_of_merged_ranks_with_two_stages() {
    let folder = directory("steps_agree");
    merged_ranks(&folder);
    assert_agree(&folder, "merged.json");
    let run = &json_runs(&folder, &["merged.json"])[0];
    let by_hand = [
        ("decode".to_owned(), OfStage { steps: 14, median_ns: 400_000.0 }),
        ("extend/prefill".to_owned(), OfStage { steps: 2, median_ns: 900_000.0 }),
    ];
    assert_eq!(stages(&rows(run, "steps"), |row| row["median_ns"].as_f64().unwrap()), BTreeMap::from(by_hand));
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn outputs_have_the_same_steps_of_recorded_traces() {
    for path in [
        "cases/data/ranks_in_one_file.json.gz",
        "cases/data/step_before_a_pause.json.gz",
        "traces/torch/train_a100_rank3of8.trace.json.gz",
        "traces/torch/vllm_b200_eager_prefill.trace.json.gz",
        "traces/torch/sglang_qwen3_30b_b300_decode.trace.json.gz",
        "traces/torch/hf_qwen1.5_0.5b_h100.trace.json.gz",
    ] {
        let path = shared(path);
        assert_agree(path.parent().unwrap(), crate::common::file_name(&path));
    }
}
