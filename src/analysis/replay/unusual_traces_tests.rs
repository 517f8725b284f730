//! Large traces of unusual shape: the replay answers in time, because no rule compares all events with all others.

use super::sections::replay_sections;
use crate::analysis::context::Context;
use crate::analysis::host::code_search::look_up_code;
use crate::analysis::section::Section;
use crate::trace::testing::TestTrace;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A debug build needs two to four seconds for each shape, and several times as much on a busy machine.
const MAX_TIME: Duration = Duration::from_secs(20);
const MANY: i64 = 50_000;

/// Replays the trace in time: the unchanged replay is exact and the path adds up.
fn check(shape: &str, mut trace: TestTrace) {
    let mut trace = trace.finish();
    look_up_code(&mut trace);
    let context = Context::new(&trace, 30);
    context.measured_steps();
    let started = Instant::now();
    let answer = replay_sections(&context);
    let time = started.elapsed();
    println!("{shape}: {time:.1?}");
    assert!(time < MAX_TIME, "{shape}: {time:?}");
    let (trust, path): (Section, Section) = (answer.trust.into(), answer.path.into());
    let row = trust.rows.first().unwrap_or_else(|| panic!("{shape}: {:?}", trust.missing));
    assert_eq!(row.amount("exactness_ns"), 0.0, "{shape}");
    let mut stages: BTreeMap<&str, f64> = BTreeMap::new();
    for row in &path.rows {
        *stages.entry(row.text("stage")).or_default() += row.amount("share_pct");
    }
    assert!(stages.values().all(|sum| (sum - 100.0).abs() < 1e-6), "{shape}: {stages:?}");
}

// One test, so that the shapes do not slow each other down.
#[test]
fn large_traces_of_any_shape_are_replayed_in_seconds() {
    check("each op on a stream of its own", streams());
    check("waits for events of 64 streams", waits_for_events());
    check("threads that launch once", threads());
    check("ops at the same time", equal_times());
    check("calls within calls", nested());
    check("ops that all overlap", overlapping());
    check("many collectives before one kernel", collectives());
    check("short steps", short_steps());
}

fn streams() -> TestTrace {
    let mut trace = TestTrace::new();
    for index in 0..MANY {
        let start = 1_000 * index;
        trace.launch(start..start + 500).stream(index).launches("gemm", start + 5_000..start + 90_000);
    }
    trace
}

/// The cost grows with the number of streams, up to 64.
fn waits_for_events() -> TestTrace {
    let mut trace = TestTrace::new();
    for index in 0..MANY / 10 {
        let start = 4_000 * index;
        trace.call("cudaStreamWaitEvent", start..start + 300).launch(start + 500..start + 1_500).stream(index % 64);
        trace.launches("gemm", start + 5_000..start + 90_000);
    }
    trace
}

fn threads() -> TestTrace {
    let mut trace = TestTrace::new();
    for thread in 0..20_000 {
        let start = 10_000 * thread;
        trace.thread(thread).launch(start..start + 2_000).launches("gemm", start + 5_000..start + 9_000);
        trace.call("cudaFree", start + 3_000..start + 9_900);
        trace.call("cudaStreamSynchronize", start + 9_920..start + 9_950);
    }
    trace
}

fn equal_times() -> TestTrace {
    let mut trace = TestTrace::new();
    for index in 0..MANY {
        trace.launch(10 * index..10 * index + 5).launches("gemm", 1_000_000..1_100_000);
    }
    trace
}

fn nested() -> TestTrace {
    const DEPTH: i64 = 10_000;
    let mut trace = TestTrace::coded();
    for index in 0..DEPTH {
        let (time, start) = (index..4 * DEPTH - index, 4 * DEPTH + 10 * index);
        trace.frame("model.py(1): forward", time.clone()).call("cudaLaunchKernel", time);
        trace.launches("gemm", start..start + 9);
    }
    trace
}

fn overlapping() -> TestTrace {
    let mut trace = TestTrace::new();
    for index in 0..MANY {
        trace.launch(100 * index..100 * index + 50).stream(index % 8);
        trace.launches("gemm", 100 * index + 60..200_000_000 - 10 * index);
    }
    trace
}

fn collectives() -> TestTrace {
    let mut trace = TestTrace::new();
    for index in 0..=MANY {
        let start = 10_000 * index;
        let (stream, name) = if index < MANY { (20, "ncclDevKernel_AllReduce") } else { (7, "gemm") };
        trace.launch(start..start + 2_000).stream(stream).launches(name, start + 5_000..start + 9_000);
    }
    trace
}

fn short_steps() -> TestTrace {
    let mut trace = TestTrace::new();
    for step in 0..20_000 {
        let start = 20_000 * step;
        trace.range(&format!("ProfilerStep#{step}"), start..start + 20_000);
        trace.launch(start + 1_000..start + 3_000).launches("gemm", start + 8_000..start + 15_000);
        trace.call("cudaStreamSynchronize", start + 4_000..start + 16_000);
    }
    trace
}
