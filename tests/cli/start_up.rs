//! The start of a program is told from its workload: a small case made by hand, and recorded traces.

use crate::common::{directory, json_runs, shared};
use serde_json::Value;

fn run(test: &str, path: &str) -> Value {
    let path = shared(path);
    json_runs(&directory(test), &[path.to_str().unwrap()]).remove(0)
}

/// A row of a section as texts of its columns.
fn row<'a>(run: &'a Value, section: &str) -> &'a Value {
    &run["sections"][section]["rows"][0]
}

/// Two launches of 347 and 23 ms load kernels; 50 short kernels follow.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn gaps_of_a_cold_start_are_loading_and_no_unseen_work() {
    let run = run("start_up_case", "cases/data/cold_start.json.gz");
    let idle = row(&run, "gpu_idle");
    assert_eq!((&idle["start_up_ms"], &idle["unseen_ms"]), (&Value::from(23.0), &Value::from(0.0)));
    let causes = ["turnaround", "host_late", "drained", "other_stream", "unseen", "unknown", "compiling", "start_up"];
    let sum: f64 = causes.iter().map(|cause| idle[format!("{cause}_ms")].as_f64().unwrap()).sum();
    assert!((sum - idle["idle_ms"].as_f64().unwrap()).abs() < 1e-9);
    let start = row(&run, "start_up");
    assert_eq!((&start["loading_ms"], &start["ops_after"]), (&Value::from(370.0), &Value::from(51)));
    let verdict = run["verdict"]["text"].as_str().unwrap();
    let begin =
        "After the start of the program (first 370.1 ms of 378.0 ms, of which loading takes 370.0 ms), the capture";
    assert!(verdict.starts_with(begin), "{verdict}");
    for section in ["findings", "trust"] {
        let advice = run["sections"][section]["rows"].to_string();
        assert!(advice.contains("Warm up before the capture"), "{advice}");
    }
}

/// 91 to 96 % of the ops follow the start, so the capture is no cold start. The programs run five and four forward passes (counted
/// by the kernels that look up the embeddings, and by those before a pass), of which the first loads the kernels.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn a_training_with_its_start_is_judged_by_what_follows() {
    for (file, passes) in [("lm_training_short_s3.25", 5), ("lm_training_start_up_s3.16", 4)] {
        let run = run(&format!("start_up_{file}"), &format!("more/nsys/{file}.sqlite"));
        let verdict = run["verdict"]["text"].as_str().unwrap();
        assert!(verdict.starts_with("After the start of the program (first "), "{verdict}");
        assert!(!verdict.contains("cold start"), "{verdict}");
        let start = row(&run, "start_up");
        let [before, after] = ["ops_before", "ops_after"].map(|ops| start[ops].as_f64().unwrap());
        assert!(after / (before + after) > 0.9, "{start}");
        let steps = &run["sections"]["steps"];
        let counts = ["steps", "steps_in_start_up"].map(|figure| steps["summary"][figure].as_u64());
        assert_eq!(counts, [Some(passes - 1), Some(1)], "{file}");
        assert_eq!(row(&run, "steps")["found_by"], "repeated kernels");
    }
}

/// The ranges of compiled graphs have the word in their names, but they run the graphs.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn a_running_program_has_no_start() {
    for file in ["more/torch/gpt_training_rtx3060_graphs", "traces/torch/vllm_mi300_piecewise_graph"] {
        let run = run("start_up_none", &format!("{file}.trace.json.gz"));
        assert!(run["sections"].get("start_up").is_none(), "{file}");
    }
}

/// Of 2.96 s, in which one copy of 157 ms and the first launches run, the last 1.3 ms repeat them: 54 ops of 5 us, 0.1 % of the kernel
/// time. Between 157.9 and 2,895.4 ms no op runs:
/// a program that adds up the HIP calls of this gap finds 38 ms.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn a_start_that_only_tiny_ops_follow_is_a_cold_start() {
    let run = run("start_up_rest", "traces/rocm/rpd_matmul.rpd");
    let verdict = run["verdict"]["text"].as_str().unwrap();
    let words = "the longest idle gap lasts 2.74 s, 2.70 s of it outside of recorded API calls; ";
    assert!(verdict.starts_with("This capture is a cold start: ") && verdict.contains(words), "{verdict}");
    assert!(!verdict.contains("from then on"), "{verdict}");
}
