//! A serving engine that has no request for a while, from hand-made traces.

use crate::analysis::results::Run;
use crate::analysis::testing::{analyze, rows_of};
use crate::session::look_up_code;
use crate::trace::testing::TestTrace;

/// Ten decode steps of 100 us, 80 us of them busy. After the fifth, the thread is in `function` for 10 ms, and in `inner` within it.
fn bursts(function: &str, inner: &str) -> Run {
    let mut trace = TestTrace::coded();
    trace.in_us();
    for step in 0..10 {
        let start = 100 * step + if step < 5 { 0 } else { 10_000 };
        trace.range("step[DECODE bs=2]", start..start + 20).launch(start + 5..start + 10);
        trace.launches("decode_kernel", start + 15..start + 95);
        if step == 4 {
            trace.frame(function, start + 99..start + 10_099).frame(inner, start + 100..start + 10_098);
        }
    }
    let mut trace = trace.finish();
    look_up_code(&mut trace);
    analyze(&trace)
}

const QUEUE: &str = "vllm/v1/engine/core.py(860): _process_input_queue";
const ACQUIRE: &str = "<built-in method acquire of _thread.lock object at 0x7f>";

#[test]
fn time_without_requests_belongs_to_no_step_and_is_no_late_launch() {
    let run = bursts(QUEUE, ACQUIRE);
    assert_eq!(rows_of(&run.sections["steps"], &["steps", "median_ns"]), ["10 100000"]);
    let longest_us = run.sections["steps"].rows[0].amount("max_ns") / 1e3;
    assert!((100.0..105.0).contains(&longest_us), "{longest_us}");
    assert_eq!(rows_of(&run.sections["gpu_idle"], &["no_requests_ms"]), ["9.998"]);
    assert!(
        run.verdict.text.contains("; the server had no batch to run for 10.0 ms, 91.1 % of the capture"),
        "{}",
        run.verdict.text
    );
}

#[test]
fn other_code_of_the_engine_and_other_waits_are_no_time_without_requests() {
    for (function, inner) in [("vllm/v1/engine/core.py(320): step", ACQUIRE), (QUEUE, "<built-in method len>")] {
        let run = bursts(function, inner);
        assert_eq!(rows_of(&run.sections["gpu_idle"], &["no_requests_ms"]), ["0"], "{function} {inner}");
        assert!(!run.verdict.text.contains("no batch to run"), "{}", run.verdict.text);
    }
}
