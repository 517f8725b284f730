use crate::analysis::section::Value;
use crate::analysis::testing::*;
use crate::trace::Job;
use crate::trace::Trace;
use crate::trace::testing::TestTrace;

fn ids(trace: &Trace) -> Vec<String> {
    let run = analyze(trace);
    rows_of(run.sections.get("trust").unwrap(), &["id"])
}

fn text(trace: &Trace) -> String {
    let run = analyze(trace);
    words(run.sections["trust"].rows.first().unwrap(), "text").to_owned()
}

#[test]
fn a_complete_capture_has_no_rows() {
    let trace = TestTrace::new().in_us().launch(0..2).launches("k", 5..50).launch(6..8).launches("k", 50..90).finish();
    assert_eq!(ids(&trace), [""; 0]);
}

#[test]
fn an_op_that_waits_on_an_idle_device_proves_unseen_work() {
    let trace = |start: i64| {
        let mut trace = TestTrace::new();
        trace.in_us().launch(0..2).launches("k", 5..10).launch(6..8);
        trace.launches("k", start..start + 10).finish()
    };
    assert!(text(&trace(3_010)).starts_with("GPU 0 executed work that is not in the file for 3.0 ms"));
    assert_eq!(ids(&trace(1_010)), [""; 0]);
    // Before the first op.
    let first = |start: i64| TestTrace::new().in_us().launch(0..2).launches("k", start..start + 10).finish();
    assert_eq!((ids(&first(1_010)), ids(&first(1_000))), (vec!["unseen-work".to_owned()], Vec::new()));
}

#[test]
fn steps_while_no_gpu_op_runs_have_no_work_in_the_file() {
    let trace = |kernel: std::ops::Range<i64>| {
        let mut trace = TestTrace::nsys();
        trace
            .in_us()
            .kernel("k", kernel)
            .range("step[DECODE bs=2]", 1_000..1_500)
            .range("step[DECODE bs=2]", 1_500..2_000);
        trace.finish()
    };
    let before = trace(0..10);
    assert!(
        text(&before)
            .starts_with("The file contains no GPU work of the 2 marked steps: they are 990 us after the last")
    );
    let verdict = analyze(&before).verdict.text;
    assert_eq!(verdict, "Decode: 2 steps, median 500 us, mean batch 2; the file contains no GPU work of these steps.");
    assert_eq!(ids(&trace(1_200..1_210)), [""; 0]);
}

/// A kernel, a graph launch whose work is missing, and later kernels.
fn trace_with_lost_graph() -> Trace {
    let mut trace = TestTrace::nsys();
    trace.in_us().launch(0..2).launches("k", 5..10).call("cudaGraphLaunch", 20..22);
    let mut trace = trace.launch(500..502).launches("k", 505..510).launch(511..512).launches("k", 515..520).finish();
    crate::session::find_unrecorded_work(&mut trace);
    trace
}

#[test]
fn the_time_after_a_graph_launch_without_work_is_neither_idle_nor_part_of_the_window() {
    let run = analyze(&trace_with_lost_graph());
    let idle = &run.sections["gpu_idle"].rows[0];
    // The host was late until the graph launch, and for the last kernel.
    assert_eq!(["unseen_ms", "host_late_ms"].map(|name| number(idle, name)), [0.485, 0.015]);
    assert_eq!((run.wall.wall_ns, run.wall.cpu_ns), (30_000, 15_000));
    let trust = &run.sections["trust"];
    assert_eq!(rows_of(trust, &["id"]), ["graph-work-missing"]);
    let text = words(&trust.rows[0], "text");
    assert!(text.starts_with("The file contains no GPU work of 1 of 1 graph launches"), "{text}");
    assert!(text.contains("the next recorded op (485 us)") && text.contains("--cuda-graph-trace=node"), "{text}");
}

/// Two steps of four launches of 40 us each; the op of each second launch is missing.
fn trace_with_lost_records() -> Trace {
    let mut trace = TestTrace::new();
    trace.in_us();
    for start in [0, 1_000] {
        trace.range("ProfilerStep#1", start..start + 200).launch(start..start + 5);
        trace.launches("gemm", start + 10..start + 50).launch(start + 6..start + 8).launch(start + 10..start + 12);
        trace.launches("gemm", start + 100..start + 140).launch(start + 14..start + 15);
    }
    let mut trace = trace.finish();
    crate::session::find_unrecorded_work(&mut trace);
    trace
}

#[test]
fn lost_records_are_counted_and_their_time_is_neither_idle_nor_late() {
    let run = analyze(&trace_with_lost_records());
    let text = words(&run.sections["trust"].rows[0], "text");
    assert!(text.starts_with("The file contains no GPU op of 4 of 8 kernel launches, in 2 of 2 steps"), "{text}");
    assert!(text.contains("work that was launched after 3 of them"), "{text}");
    // Ops of 10..50, 100..140, 1010..1050 and 1100..1140 us: 160 us of 1,130 us.
    assert!(text.contains("busy for 14.2 to 100.0 % of the time"), "{text}");
    let idle = &run.sections["gpu_idle"].rows[0];
    let times = ["idle_ms", "host_late_ms", "unrecorded_ms", "idle_pct_of_window"];
    assert_eq!(times.map(|name| number(idle, name)), [0.0, 0.0, 0.97, 0.0]);
    assert!(run.verdict.text.contains("GPU busy at least 14.2 %"), "{}", run.verdict.text);
    assert!(!run.verdict.text.contains("largest category"), "{}", run.verdict.text);
}

#[test]
fn calls_that_wait_longer_than_the_ops_run_are_stated_and_no_blocking_calls_are_blamed() {
    let mut trace = TestTrace::new();
    trace.in_us();
    for start in [0, 3_000, 6_000] {
        trace.call("cudaGraphLaunch", start..start + 20).launches("gemm", start + 30..start + 330);
        trace.call("cudaStreamSynchronize", start + 25..start + 2_990);
    }
    let mut trace = trace.finish();
    crate::session::find_unrecorded_work(&mut trace);
    let run = analyze(&trace);
    let text = words(&run.sections["trust"].rows[0], "text");
    assert!(
        text.starts_with("3 calls that wait for the GPU returned 2.7 ms (median) after the end of the last op before"),
        "{text}"
    );
    let findings: Vec<String> = rows_of(&run.sections["findings"], &["id"]);
    assert_eq!(findings, [""; 0]);
}

#[test]
fn copies_that_wait_for_more_than_the_graph_has_ops_are_stated_and_their_time_is_not_idle() {
    let mut trace = TestTrace::new();
    trace.in_us();
    for start in [0, 3_000, 6_000] {
        trace.call("cudaGraphLaunch", start..start + 20).launches("gemm", start + 30..start + 330);
        trace.call("cudaMemcpyAsync", start + 25..start + 2_990);
        trace.launches("Memcpy DtoH (Device -> Pageable)", start + 2_970..start + 2_975);
    }
    let mut trace = trace.finish();
    crate::session::find_unrecorded_work(&mut trace);
    let run = analyze(&trace);
    let text = words(&run.sections["trust"].rows[0], "text");
    assert!(
        text.starts_with("3 copies that wait for a graph began 2.6 ms (median) after the end of the last op before"),
        "{text}"
    );
    assert!(text.contains("That time (7.9 ms) is neither busy nor idle."), "{text}");
}

#[test]
fn a_cold_start_claims_no_work_from_before_the_capture() {
    let mut trace = TestTrace::new();
    trace.in_us().launch(0..300_000).launches("a", 300_010..300_020).launch(300_100..323_000);
    trace.launches("b", 325_400..325_420);
    for start in (326_000..327_000).step_by(100) {
        trace.launch(start..start + 5).launches("c", start + 10..start + 70);
    }
    let mut trace = trace.finish();
    crate::session::find_unrecorded_work(&mut trace);
    assert_eq!(ids(&trace), ["first-launches"]);
    assert!(text(&trace).contains("2 launch calls of kernels that had not run before took more than 1.0 ms"));
    let run = analyze(&trace);
    assert_eq!(rows_of(&run.sections["findings"], &["id"])[0], "start-up");
}

#[test]
fn the_wall_time_leaves_out_unseen_work() {
    let mut trace = TestTrace::new();
    trace.in_us().launch(0..2).launches("k", 5..10).launch(6..8).launches("k", 3_010..3_020);
    let run = analyze(&trace.finish());
    assert_eq!((run.wall.wall_ns, run.wall.bar_ns, run.wall.cpu_ns), (15_000, 15_000, 0));
    assert_eq!((run.devices[0].idle_ns, run.devices[0].busy_share), (0, 1.0));
    let idle = &run.sections["gpu_idle"].rows[0];
    assert_eq!(["idle_pct_of_window", "unseen_ms"].map(|name| number(idle, name)), [0.0, 3.0]);
}

#[test]
fn every_idle_share_leaves_out_unseen_work() {
    let mut trace = TestTrace::new();
    trace.in_us().launch(0..2).launches("k", 5..10).launch(6..8).launches("k", 12..20);
    trace.launch(15..17).launches("k", 3_012..3_022);
    let run = analyze(&trace.finish());
    // Busy 23 us, idle 2 us, unseen 2,992 us.
    assert_eq!((run.wall.wall_ns, run.wall.cpu_ns), (25_000, 2_000));
    assert_eq!(number(&run.sections["gpu_idle"].rows[0], "idle_pct_of_window"), 8.0);
    let head = &run.sections["key_figures"].summary;
    assert_eq!(head.get("gpu_idle_pct").and_then(Value::number), Some(8.0));
    assert_eq!(head.get("idle_cause").and_then(Value::text), Some("turnaround between kernels"));
    assert_eq!(head.get("bottleneck").and_then(Value::text), Some("misc, 92.0 % of wall time"));
}

#[test]
fn python_frames_or_slow_launches_make_host_idle_time_an_upper_bound() {
    let trace = |frames: u64, gap: i64, launch: i64| {
        let mut trace = TestTrace::new();
        for index in 0..120 {
            let start = index * 1_000;
            trace.in_us().launch(start - launch..start).launches("k", start..start + 1_000 - gap);
        }
        trace.builder.trace.events.python_frames = frames;
        ids(&trace.finish())
    };
    assert_eq!(trace(100, 50, 5), ["capture-overhead"]);
    assert_eq!(trace(0, 50, 16), ["capture-overhead"]);
    assert_eq!(trace(0, 50, 15), [""; 0]);
    assert_eq!(trace(100, 5, 5), [""; 0], "the host causes 0.5 % idle time");
}

#[test]
fn ops_that_start_before_their_launch_show_different_clocks() {
    let early = |call: i64| ids(&TestTrace::new().launch(call..call + 10).launches("k", 5_000..9_000).finish());
    assert_eq!((early(6_001), early(6_000)), (vec!["clock-skew".to_owned()], Vec::new()));
}

#[test]
fn one_step_has_no_spread() {
    let steps = |count: i64| {
        let mut trace = TestTrace::new();
        for index in 0..count {
            let start = 1_000 * index;
            trace.range("step[DECODE bs=4]", start..start + 90);
            trace.launch(start + 10..start + 20).launches("k", start + 30..start + 999);
        }
        ids(&trace.finish())
    };
    assert_eq!((steps(1), steps(2)), (vec!["single-step".to_owned()], Vec::new()));
}

#[test]
fn a_window_of_one_step_says_nothing_about_the_capture() {
    let mut trace = TestTrace::new();
    for start in [0, 1_000, 2_000] {
        trace.range("step[DECODE bs=4]", start..start + 90);
        trace.launch(start + 10..start + 20).launches("k", start + 30..start + 999);
    }
    let trace = trace.window(1_000..2_000);
    assert_eq!(ids(&trace), ["single-step"]);
    assert!(text(&trace).starts_with("The window contains one step") && !text(&trace).contains("capture"));
}

#[test]
fn a_file_of_one_rank_of_a_job_is_named() {
    let rank = |world_size: u32| {
        let mut trace = TestTrace::new();
        trace.launch(0..2).launches("k", 5..50);
        trace.builder.trace.job = Some(Box::new(Job { rank: 3, world_size, ..Job::default() }));
        trace.finish()
    };
    assert!(text(&rank(8)).starts_with("The file contains rank 3 of 8."));
    assert_eq!(ids(&rank(1)), [""; 0]);
}

#[test]
fn graphs_traced_as_a_whole_hide_their_kernels() {
    let trace = TestTrace::nsys().in_us().kernel("k", 0..5).replay(10..2_010).finish();
    assert!(text(&trace).starts_with("1 CUDA graph replay (2.0 ms) was recorded as a whole"));
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn rows_of_shared_traces() {
    let step = |ids: &[&'static str]| [ids, &["single-step"]].concat();
    for (file, expected) in [
        ("sglang_qwen3_30b_b300_decode", step(&["capture-overhead"])),
        ("sglang_qwen3_8b_mi300_decode", step(&["unseen-work", "capture-overhead"])),
        ("sglang_qwen3_8b_mi300_extend", step(&["unseen-work"])),
        ("vllm_mi300_decode_full_graph", step(&["unseen-work"])),
        ("vllm_b200_eager_prefill", vec!["capture-overhead", "single-step", "one-rank-of-many"]),
    ] {
        let trace = torch(&format!("{file}.trace.json.gz"));
        assert_eq!(ids(&trace), expected, "{file}");
    }
}

/// One step of 10.44 ms, busy for 93.5 %, after 463 ms of work that the file does not contain.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn idle_time_of_a_shared_trace_leaves_out_unseen_work() {
    let trace = torch("sglang_qwen3_8b_mi300_decode.trace.json.gz");
    let run = analyze(&trace);
    assert_eq!(run.wall.wall_ns / 10_000, 1_049);
    assert_eq!((run.wall.busy_share * 1_000.0).round(), 931.0);
}
