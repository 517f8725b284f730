//! The section of host code while the GPU waited.

use super::look_up_code;
use crate::analysis::context::Context;
use crate::analysis::host::between_steps::between_steps;
use crate::analysis::host::idle_blame::idle_blame;
use crate::analysis::structure::steps::steps;
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
    let section = idle_blame(&Context::new(&with_code(text.as_bytes()), 30)).section();
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
fn the_time_between_two_steps_is_split_by_the_code_of_the_launching_thread() {
    let (mut events, mut id) = (Vec::new(), 0);
    // Each step: 200 us between the steps, of which prepare takes 150 us, a launch of 10 us at its end, two kernels of 100 us with 20 us between
    // them. A step begins each 420 us.
    for start in [0, 420, 840] {
        events.push(event("python_function", "/venv/site-packages/vllm/runner.py(7): prepare", 9, start, 150, 0));
        events.push(event("user_annotation", "step[DECODE bs=4]", 9, start + 180, 60, 0));
        for (launch, kernel) in [(start + 190, start + 200), (start + 220, start + 320)] {
            id += 1;
            events.push(event("cuda_runtime", "cudaLaunchKernel", 9, launch, 10, id));
            events.push(event("kernel", "gemm", 7, kernel, 100, id));
        }
    }
    let text = format!(r#"{{"traceEvents":[{}]}}"#, events.join(","));
    let trace = with_code(text.as_bytes());
    let context = Context::new(&trace, 30);
    let columns = ["stage", "function", "cpu_op", "total_ms", "ms_per_step", "share_pct", "gaps"];
    assert_eq!(
        rows_of(&between_steps(&context).section(), &columns),
        ["decode prepare  0.3 0.15 75 2", "decode (no code found)  0.1 0.05 25 2",],
        "the last step reaches no next one"
    );
    let blame = rows_of(&idle_blame(&context).section(), &["function", "total_ms", "between_steps_ms"]);
    assert_eq!(blame, ["prepare 0.3 0.3", "(no code found) 0.1 0.1"]);
    assert_eq!(rows_of(&steps(&context).section(), &["steps", "median_ns", "between_median_ns"]), ["3 420000 200000"]);
}

#[test]
fn functions_that_an_engine_can_overlap_are_told_from_those_that_must_stay() {
    let function = |name: &str, start: i64, duration: i64| event("python_function", name, 9, start, duration, 0);
    let events = [
        event("cuda_runtime", "cudaLaunchKernel", 9, 0, 5, 1),
        event("kernel", "gemm", 7, 10, 90, 1),
        function("/x/sglang/srt/managers/scheduler.py(812): process_batch_result", 100, 300),
        function("/x/sglang/srt/model_executor/forward_batch_info.py(443): init_new", 400, 200),
        function("/usr/lib/python3.12/logging/__init__.py(1010): emit", 600, 50),
        function("my_server.py(3): think", 650, 40),
        event("cuda_runtime", "cudaLaunchKernel", 9, 690, 10, 2),
        event("kernel", "gemm", 7, 705, 80, 2),
    ];
    let text = format!(r#"{{"traceEvents":[{}]}}"#, events.join(","));
    let section = idle_blame(&Context::new(&with_code(text.as_bytes()), 30)).section();
    assert_eq!(
        rows_of(&section, &["function", "placement", "total_ms"]),
        [
            "process_batch_result can overlap 0.3",
            "init_new must stay 0.2",
            "emit can move 0.05",
            "think - 0.04",
            "(no code found) - 0.01",
            "(launch latency) - 0.005",
        ]
    );
    let change = section.rows[0].text("change");
    assert!(change.contains("--disable-overlap-schedule"), "{change}");
}

/// Two processes run the same loop: launch, synchronize, next launch. Each gap takes 900 us. The first waits 50 us for its GPU,
/// so that it was ahead; the second only 48 us, so that it is late with or without the synchronization.
#[test]
fn each_gpu_decides_whether_its_host_was_late_or_drained_it() {
    let mut events: Vec<String> = Vec::new();
    for (device, tid, wait) in [(0, 9, 50), (1, 8, 48)] {
        events.push(event("python_function", "my_server.py(3): loop", tid, 0, 20_000, 0));
        for index in 0..20 {
            let (start, id) = (index * 1_000, 1 + 100 * device + u32::try_from(index).unwrap());
            events.push(event("cuda_runtime", "cudaLaunchKernel", tid, start, 0, id));
            let kernel = event("kernel", "gemm", 7, start, 100, id);
            events.push(kernel.replace(r#""device":0"#, &format!(r#""device":{device}"#)));
            events.push(event("cuda_runtime", "cudaStreamSynchronize", tid, start + 100 - wait, wait + 1, 0));
        }
    }
    let text = format!(r#"{{"traceEvents":[{}]}}"#, events.join(","));
    let section = idle_blame(&Context::new(&with_code(text.as_bytes()), 30)).section();
    assert_eq!(
        rows_of(&section, &["function", "class", "total_ms", "gaps"]),
        ["loop host_late 17.1 19", "loop drained 17.1 19"]
    );
}

#[test]
fn a_function_in_a_drained_gap_has_only_modes_that_wait_elsewhere() {
    let function = |name: &str, start: i64, duration: i64| event("python_function", name, 9, start, duration, 0);
    let mut events = Vec::new();
    // The host is ahead for 20 kernels, then waits until the GPU is empty.
    for index in 0..20_u32 {
        events.push(event("cuda_runtime", "cudaLaunchKernel", 9, index.into(), 1, index + 1));
        events.push(event("kernel", "gemm", 7, 30 + 100 * i64::from(index), 100, index + 1));
    }
    events.push(event("cuda_runtime", "cudaStreamSynchronize", 9, 25, 2_005, 90));
    events.push(function("vllm/v1/core/sched/scheduler.py(900): update_from_output", 2_031, 300));
    events.push(function("vllm/v1/worker/gpu_model_runner.py(88): _prepare_inputs", 2_331, 300));
    events.push(event("cuda_runtime", "cudaLaunchKernel", 9, 2_640, 10, 50));
    events.push(event("kernel", "gemm", 7, 2_655, 80, 50));
    let text = format!(r#"{{"traceEvents":[{}]}}"#, events.join(","));
    let section = idle_blame(&Context::new(&with_code(text.as_bytes()), 30)).section();
    let rows = rows_of(&section, &["function", "class", "placement"]);
    assert!(rows.contains(&"update_from_output drained can overlap".to_owned()), "{rows:?}");
    assert!(rows.contains(&"_prepare_inputs drained -".to_owned()), "{rows:?}");
}

#[test]
fn a_trace_without_code_says_so() {
    let section = idle_blame(&Context::new(&TestTrace::nsys().kernel("k", 0..1).finish(), 30)).section();
    assert!(section.missing.unwrap().recapture.contains("with_stack"));
}

/// Blame in an independent program over the same files, for each of its functions with more than 20 us.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn blame_of_shared_traces_matches_an_independent_program() {
    for name in ["sglang_qwen3_30b_b300_decode", "sglang_qwen3_30b_mi300_decode", "vllm_b200_eager_prefill"] {
        let expected = read_json(&format!("oracles/inference/{name}.json"));
        let path = shared(&format!("traces/torch/{name}.trace.json.gz"));
        let trace = with_code(&std::fs::read(path).unwrap());
        let section = idle_blame(&Context::new(&trace, 30)).section();
        let mut found: HashMap<String, f64> = HashMap::new();
        for row in &section.rows {
            let file = row.text("file").rsplit('/').next().unwrap().to_owned();
            let key = match row.words("line").as_str() {
                "" => row.text("function").to_owned(),
                line => format!("{file}({line}): {}", row.text("function")),
            };
            *found.entry(key).or_default() += row.amount("total_ms") * 1e3;
        }
        let blamed = expected["gaps"]["blame_us"].as_array().unwrap();
        assert!(!blamed.is_empty(), "{name}");
        for blamed in blamed {
            let (function, us) = (blamed[0].as_str().unwrap(), blamed[1].as_f64().unwrap());
            let ours = found.get(function).copied().unwrap_or_default();
            assert!((ours - us).abs() <= (us * 0.01).max(0.2), "{name} {function}: {ours} instead of {us}");
        }
    }
}
