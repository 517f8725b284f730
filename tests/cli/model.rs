//! `gpuprism model`: sentences and tables on steps and layers, and `gpuprism diff` by role.

use crate::cli::example::write_events;
use crate::common::{directory, gpuprism, printed};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const LAYER: [(&str, u32); 8] = [
    ("rms_norm", 4),
    ("gemm_qkv", 30),
    ("flash_fwd", 20),
    ("gemm_o", 15),
    ("add_rms_norm", 4),
    ("gemm_gate_up", 60),
    ("silu_and_mul", 5),
    ("gemm_down", 40),
];

/// Writes a torch trace of two decode steps with this many layers of 178 us, 1 us between all kernels.
fn write_steps(folder: &Path, name: &str, layers: usize, head: u32) {
    let (mut events, mut now) = (Vec::new(), 10_000);
    let mut id = 0;
    for _ in 0..2 {
        let start = now;
        events.push(format!(
            r#"{{"ph": "X", "cat": "user_annotation", "name": "step[DECODE bs=4]", "pid": 9, "tid": 9, "ts": {}, "dur": 900, "args": {{}}}}"#,
            start - 1_000
        ));
        let body = LAYER.iter().cycle().take(LAYER.len() * layers);
        let tail = [("rms_norm", 4), ("gemm_head", head), ("argmax_kernel", 10)];
        let ops = [("embedding", 5)].into_iter().chain(body.copied()).chain(tail);
        for (kernel, dur) in ops {
            id += 1;
            events.push(format!(
                r#"{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": {}, "dur": 1, "args": {{"correlation": {id}}}}}"#,
                start - 990 + id % 800
            ));
            events.push(format!(
                r#"{{"ph": "X", "cat": "kernel", "name": "{kernel}", "pid": 0, "tid": 7, "ts": {now}, "dur": {dur}, "args": {{"device": 0, "stream": 7, "correlation": {id}}}}}"#
            ));
            now += dur + 1;
        }
        now += 1_000;
    }
    write_events(folder, name, &events);
}

fn example(test: &str) -> PathBuf {
    let folder = directory(test);
    write_steps(&folder, "a.json", 8, 100);
    folder
}

#[test]
fn the_sentences_are_followed_by_the_tables_behind_them() {
    let text = printed(&example("model_text"), ["model", "a.json"]);
    assert!(text.starts_with("Decode: 2 steps, median "), "{text}");
    // 178 us of kernels and 1 us of idle time before each of the 8.
    let sentence =
        "8 layers of 186 us: gate/up 60, down 40, qkv 30, attention 20, o 15, norms 8.0, idle 8.0, other 5.0";
    assert!(text.replace("\n  ", " ").contains(sentence), "{text}");
    for title in ["Steps by stage", "Layers of a step", "Parts of a layer"] {
        assert!(text.contains(&format!("\n{title}\n")), "{title} in {text}");
    }
    assert!(!text.contains("Graph coverage"), "{text}");
}

#[test]
fn flags_choose_tables_in_every_format() {
    let folder = example("model_flags");
    let idle = printed(&folder, ["model", "a.json", "--idle"]);
    assert!(idle.contains("\nGraph coverage\n") && !idle.contains("Parts of a layer"), "{idle}");
    let json = printed(&folder, ["model", "a.json", "--layers", "--format", "json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["schema"], "gpuprism-model/1");
    let run = &json["runs"][0];
    let names: Vec<&str> = run["sections"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, ["layer_list", "layer_roles", "layers"]);
    assert_eq!(run["sections"]["layer_list"]["rows"].as_array().unwrap().len(), 8);
    assert_eq!(run["lines"][1]["section"], "layers");
    let csv = printed(&folder, ["model", "a.json", "--layers", "--format", "csv"]);
    assert!(csv.lines().any(|line| line.contains(",gate_up,1,60")), "{csv}");
    let markdown = printed(&folder, ["model", "a.json", "--format", "markdown"]);
    assert!(
        markdown.starts_with("# Model\n\n- Decode: 2 steps") && markdown.contains("## Parts of a layer"),
        "{markdown}"
    );
}

#[test]
fn an_earlier_report_has_the_same_sentences() {
    let folder = example("model_report");
    std::fs::write(folder.join("r.json"), printed(&folder, ["report", "a.json", "--format", "json"])).unwrap();
    assert_eq!(printed(&folder, ["model", "r.json"]), printed(&folder, ["model", "a.json"]));
}

#[test]
fn diff_compares_the_parts_of_a_layer_by_role() {
    let folder = example("model_diff");
    write_steps(&folder, "b.json", 6, 130);
    let output = gpuprism(&folder, ["diff", "a.json", "b.json", "--format", "csv", "--table", "compare_roles"]);
    let row = |role: &str| output.stdout.lines().find(|line| line.contains(role)).unwrap().to_owned();
    assert_eq!(row("gate_up"), "b.json,decode,A,gate_up,1,1,60,60,0,,", "6 and 8 layers: per layer only");
    assert_eq!(row("lm_head"), "b.json,decode,outside,lm_head,1,1,100,130,30,,0.03");
    let text = gpuprism(&folder, ["diff", "a.json", "b.json"]).stdout.replace("\n  ", " ");
    assert!(text.contains("8 and 6 layers of kind A in decode: times are per layer only."), "{text}");
    let refused = gpuprism(&folder, ["diff", "a.json", "b.json", "--table", "kernels"]);
    assert_eq!(refused.status, 2, "{refused:?}");
}

/// A trace of decode steps with one batch size. A step takes 2 ms, 30 us for each sequence and 2 us for each token of context.
fn write_batch(folder: &Path, name: &str, gpu: &str, batch: i64, contexts: [i64; 4]) {
    let mut events = Vec::new();
    for (context, number) in contexts.iter().zip(0..) {
        let at = number * 10_000;
        let busy = 2_000 + 30 * batch + 2 * context;
        let annotation = format!("step[DECODE bs={batch} g_sq={batch} g_sk={context}]");
        for (class, name, start, duration) in [
            ("user_annotation", annotation.as_str(), at, 50),
            ("cuda_runtime", "cudaLaunchKernel", at + 1, 1),
            ("kernel", "k", at + 100, busy),
        ] {
            let (pid, tid) = if class == "kernel" { (0, 7) } else { (1, 1) };
            events.push(
                json!({"ph": "X", "cat": class, "name": name, "pid": pid, "tid": tid, "ts": start, "dur": duration,
                "args": {"device": 0, "stream": 7, "correlation": number + 1}}),
            );
        }
    }
    let trace = json!({"deviceProperties": [{"id": 0, "name": gpu}], "traceEvents": events});
    std::fs::write(folder.join(name), trace.to_string()).unwrap();
}

#[test]
fn a_line_goes_through_the_steps_of_several_traces_of_one_batch_size_each() {
    let folder = directory("model_step_times");
    write_batch(&folder, "a.json", "NVIDIA H100 80GB HBM3", 1, [100, 400, 700, 9]);
    write_batch(&folder, "b.json", "NVIDIA H100 80GB HBM3", 4, [100, 900, 300, 9]);
    write_batch(&folder, "c.json", "NVIDIA H100 80GB HBM3", 8, [800, 100, 500, 9]);
    write_batch(&folder, "other.json", "NVIDIA A100-SXM4-80GB", 8, [800, 100, 500, 9]);
    let row = |files: &[&str]| -> Value {
        let output = printed(&folder, [&["model"], files, &["--format", "json"]].concat());
        let output: Value = serde_json::from_str(&output).unwrap();
        output["compare_step_times"]["rows"][0].clone()
    };
    let line = row(&["a.json", "b.json", "c.json"]);
    let figures = ["fixed_ms", "per_sequence_us", "per_context_token_ns", "residual_pct"];
    let found = figures.map(|key| line[key].as_f64().unwrap());
    assert!(found.iter().zip([2.0, 30.0, 2_000.0, 0.0]).all(|(a, b)| (a - b).abs() < 1e-6), "{line}");
    assert_eq!((&line["steps"], &line["batch_sizes"]), (&json!(9), &json!(3)));
    let refused = row(&["a.json", "b.json", "other.json"]);
    assert!(refused["fixed_ms"].is_null(), "{refused}");
    let why = refused["basis"].as_str().unwrap();
    assert!(why.starts_with("no line: the GPU differs: NVIDIA H100 80GB HBM3 in a.json, NVIDIA A100"), "{why}");
    assert!(row(&["a.json"]).is_null(), "one trace has its own line");
    // Other batch sizes are another load, so that diff compares nothing else.
    for command in ["model", "diff"] {
        let text = gpuprism(&folder, [command, "a.json", "b.json", "c.json"]).stdout;
        assert!(text.contains("Step time by batch and context over all runs"), "{text}");
    }
    let page = printed(&folder, ["report", "a.json", "b.json", "c.json", "--format", "html"]);
    assert!(page.contains("Step time by batch and context over all runs"));
}
