//! The section of host code while the GPU waited.

use super::look_up_code;
use crate::analysis::context::Context;
use crate::analysis::host::idle_blame::idle_blame;
use crate::analysis::testing::{import, read_json, rows_of, shared};
use crate::input::Importer;
use crate::trace::Trace;
use crate::trace::testing::TestTrace;
use std::collections::HashMap;

fn with_code(bytes: &[u8]) -> Trace {
    let mut trace = import(Importer::new("t"), bytes);
    look_up_code(&mut trace);
    trace
}

fn event(class: &str, name: &str, tid: u32, start: i64, duration: i64, id: u32) -> String {
    format!(
        r#"{{"ph":"X","cat":"{class}","name":"{name}","pid":1,"tid":{tid},"ts":{start},"dur":{duration},"args":{{"correlation":{id},"device":0,"stream":7}}}}"#
    )
}

#[test]
fn the_time_of_a_late_launch_is_blamed_on_the_innermost_function() {
    let events = [
        event("python_function", "/venv/site-packages/sglang/run.py(3): loop", 9, 0, 5_000, 0),
        event("cuda_runtime", "cudaLaunchKernel", 9, 10, 5, 1),
        event("kernel", "gemm", 7, 20, 80, 1),
        event("python_function", "/venv/site-packages/sglang/batch.py(12): prepare", 9, 50, 550, 0),
        event("cpu_op", "aten::index", 9, 200, 300, 0),
        event("cuda_runtime", "cudaLaunchKernel", 9, 690, 10, 2),
        event("kernel", "gemm", 7, 705, 80, 2),
    ];
    let text = format!(r#"{{"traceEvents":[{}]}}"#, events.join(","));
    let section = idle_blame(&Context::new(&with_code(text.as_bytes()), 30));
    // The GPU waits from 100 to 705: prepare until 600, loop until the launch returned at 700, 5 us of latency.
    assert_eq!(
        rows_of(&section, &["function", "file", "line", "cpu_op", "class", "total_ms", "gaps"]),
        [
            "prepare sglang/batch.py 12 aten::index host_late 0.5 1",
            "loop sglang/run.py 3  host_late 0.1 1",
            "(launch latency)  -  host_late 0.005 1"
        ]
    );
}

#[test]
fn a_trace_without_code_says_so() {
    let section = idle_blame(&Context::new(&TestTrace::nsys().kernel("k", 0..1).finish(), 30));
    assert!(section.missing.unwrap().recapture.contains("with_stack"));
}

/// Blame in an independent program over the same files, for each of its functions with more than 20 us.
#[test]
fn blame_of_shared_traces_matches_an_independent_program() {
    for name in ["sglang_qwen3_30b_b300_decode", "sglang_qwen3_30b_mi300_decode", "vllm_b200_eager_prefill"] {
        let expected = read_json(&format!("oracles/inference/{name}.json"));
        let path = shared(&format!("traces/torch/{name}.trace.json.gz"));
        let (Some(path), Some(expected)) = (path, expected) else { return };
        let trace = with_code(&std::fs::read(path).unwrap());
        let section = idle_blame(&Context::new(&trace, 30));
        let mut found: HashMap<String, f64> = HashMap::new();
        for row in &section.rows {
            let file = row.text("file").rsplit('/').next().unwrap().to_owned();
            let key = match row.words("line").as_str() {
                "" => row.text("function").to_owned(),
                line => format!("{file}({line}): {}", row.text("function")),
            };
            *found.entry(key).or_default() += row.amount("total_ms") * 1e3;
        }
        for blamed in expected["gaps"]["blame_us"].as_array().unwrap() {
            let (function, us) = (blamed[0].as_str().unwrap(), blamed[1].as_f64().unwrap());
            let ours = found.get(function).copied().unwrap_or_default();
            assert!((ours - us).abs() <= (us * 0.01).max(0.2), "{name} {function}: {ours} instead of {us}");
        }
    }
}
