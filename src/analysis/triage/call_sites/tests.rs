//! Call sites of small traces. Times are in nanoseconds.

use super::super::frames::canonical;
use super::sweep::{Probe, sweep};
use super::*;
use crate::trace::testing::TestTrace;
use crate::trace::{FrameIds, Span};
use std::ops::Range;

const MODEL: &str = "/srv/vllm/model.py(10): forward";
const MODEL_SHOWN: &str = "vllm/model.py:10 forward";
const LINEAR: &str = "/srv/vllm/linear.py(20): apply";
const LINEAR_SHOWN: &str = "vllm/linear.py:20 apply";
const RUNNER: &str = "/srv/vllm/runner.py(30): replay";

/// The call site of every op.
fn call_sites(trace: &Trace, mapping: &[&Trace]) -> Vec<CallSite> {
    let name = |raw: &str| KernelName { canonical: canonical(raw), short: String::new(), category: String::new() };
    let names: Vec<KernelName> = trace.names.iter().map(name).collect();
    let stages = vec![Some(Stage::All); trace.gpu_ops.len()];
    let call_sites = CallSites::new(trace, &names, &stages, mapping);
    (0..trace.gpu_ops.len()).map(|op| call_sites.of_op(op).unwrap().clone()).collect()
}

fn summaries(call_sites: &[CallSite]) -> Vec<(&str, &str, Resolution)> {
    call_sites.iter().map(|site| (site.location.as_str(), site.cpu_op.as_str(), site.resolution)).collect()
}

#[test]
fn an_op_resolves_to_the_frames_around_its_cpu_op() {
    let trace = TestTrace::coded()
        .frame("threading.py(1): run", 0..1_000)
        .frame(MODEL, 10..900)
        .frame(LINEAR, 20..800)
        .frame("/srv/vllm/linear.py(21): __call__", 30..700)
        .frame("<built-in method mm>", 40..600)
        .cpu_op("aten::mm", 50..500, 7)
        .call("cudaLaunchKernel", 60..70)
        .launches("k", 2_000..3_000)
        .external_id(7)
        .finish();
    let call_sites = call_sites(&trace, &[]);
    assert_eq!(
        summaries(&call_sites),
        [(LINEAR_SHOWN, "aten::mm", Resolution::Exact)],
        "the innermost frame of the highest priority"
    );
    assert_eq!(
        call_sites[0].stack,
        [MODEL_SHOWN, LINEAR_SHOWN, "vllm/linear.py:21 __call__"],
        "noise is omitted, outermost first"
    );
    assert_eq!(call_sites[0].display, LINEAR_SHOWN);
}

#[test]
fn an_op_without_a_cpu_op_resolves_by_its_launch_call() {
    let mut trace = TestTrace::coded();
    trace.thread(1).cpu_op("aten::lost", 5..6, 9);
    trace.thread(0).frame(MODEL, 0..1_000).call("cuLaunchKernelEx", 60..70).launches("triton", 2_000..3_000);
    trace.thread(2).call("cudaLaunchKernel", 80..90).launches("no frames", 3_000..4_000);
    trace.kernel_of_cpu_op("op without frames", 4_000..5_000, 9);
    trace.thread(0).call("cudaLaunchKernel", 100..110);
    trace.launches("op without frames, launch with", 5_000..6_000).external_id(9);
    trace.kernel_with_id("nothing", 6_000..7_000, 77).external_id(77);
    let expected = [
        (MODEL_SHOWN, "cuLaunchKernelEx", Resolution::ByLaunch),
        ("", "cudaLaunchKernel", Resolution::ByLaunch),
        ("", "aten::lost", Resolution::Exact),
        (MODEL_SHOWN, "aten::lost", Resolution::ByLaunch),
        ("", "", Resolution::Unresolved),
    ];
    assert_eq!(summaries(&call_sites(&trace.finish(), &[])), expected);
}

#[test]
fn of_cpu_ops_with_the_same_id_the_one_that_ends_nearest_to_the_kernel_wins() {
    for (kernel, expected) in
        [(450, "second"), (210, "first"), (299, "first"), (301, "second"), (10, "first"), (10_050, "third")]
    {
        let mut trace = TestTrace::coded();
        trace.cpu_op("first", 100..200, 7).cpu_op("second", 300..400, 7).cpu_op("third", 10_000..10_100, 7);
        let trace = trace.kernel_of_cpu_op("k", kernel..kernel + 10, 7).finish();
        assert_eq!(call_sites(&trace, &[])[0].cpu_op, expected, "a kernel at {kernel}");
    }
}

#[test]
fn frames_of_different_threads_do_not_mix() {
    let mut trace = TestTrace::coded();
    trace.thread(0).frame(MODEL, 0..1_000).cpu_op("aten::mm", 50..60, 7);
    trace.thread(1).frame(LINEAR, 10..990).cpu_op("aten::add", 52..62, 8);
    trace.thread(2).cpu_op("aten::mul", 54..64, 9);
    (7..10).for_each(|id| _ = trace.kernel_of_cpu_op("k", i64::from(id) * 100..i64::from(id) * 100 + 10, id));
    let call_sites = call_sites(&trace.finish(), &[]);
    let expected = [(MODEL_SHOWN, "aten::mm"), (LINEAR_SHOWN, "aten::add"), ("", "aten::mul")];
    assert_eq!(summaries(&call_sites).iter().map(|site| (site.0, site.1)).collect::<Vec<_>>(), expected);
    assert_eq!(call_sites[0].stack, [MODEL_SHOWN]);
}

#[test]
fn callers_follow_named_parents_and_enclosing_times_complete_them() {
    let outer = ("/w/vllm/a.py(1): outer", 0..1_000);
    // The call site of a kernel below `outer` and two more frames, each given with the id of its parent.
    let stack = |thread_of_outer, frames: [(&str, Range<i64>, u32); 2], parent_of_outer| {
        let mut trace = TestTrace::coded();
        let ids = |id, parent| FrameIds { id, parent };
        trace.thread(thread_of_outer).frame_with_ids(outer.0, outer.1.clone(), ids(0, parent_of_outer)).thread(1);
        for (id, (name, time, parent)) in (1..).zip(frames) {
            trace.frame_with_ids(name, time, ids(id, parent));
        }
        let trace = trace.cpu_op("aten::mm", 110..190, 7).kernel_of_cpu_op("k", 300..310, 7).finish();
        call_sites(&trace, &[]).remove(0)
    };
    let between = "/w/vllm/a.py(2): between";
    // The end of the first child was recorded late: by times alone it would be the caller of the second.
    let late = stack(1, [("/w/vllm/a.py(2): first", 10..105, 0), ("/w/app.py(3): second", 100..200, 0)], NONE);
    assert_eq!(late.stack, ["vllm/a.py:1 outer", "w/app.py:3 second"]);
    assert_eq!(late.location, "vllm/a.py:1 outer");
    // Real traces sometimes name the grandparent.
    let omitted = stack(1, [(between, 10..900, 0), ("<built-in method to>", 20..800, 0)], NONE);
    assert_eq!(omitted.location, "vllm/a.py:2 between");
    // A parent on another thread: a worker continues the work of its caller.
    let across = stack(2, [("w.py(2): inner", 10..900, 0), ("w.py(3): innermost", 20..800, 1)], NONE);
    assert_eq!(across.location, "vllm/a.py:1 outer");
    // A cycle of parents is ignored and ends.
    let cycle = stack(1, [(between, 10..900, 77), ("w.py(3): innermost", 20..800, 1)], 1);
    assert_eq!(cycle.stack, ["vllm/a.py:1 outer", "vllm/a.py:2 between", "w.py:3 innermost"]);
}

/// A trace with one replay of a graph of these kernels.
fn replay(kernels: &[&str]) -> Trace {
    let mut trace = TestTrace::coded();
    trace.frame(RUNNER, 0..1_000).call("cudaGraphLaunch_v10000", 60..70);
    for (start, kernel) in (2_000..).step_by(100).zip(kernels) {
        trace.launches(kernel, start..start + 50);
    }
    trace.finish()
}

/// The same workload without a graph. `add` has two call sites.
fn eager() -> Trace {
    TestTrace::coded()
        .frame(MODEL, 0..1_000)
        .cpu_op("aten::add", 10..20, 1)
        .frame(LINEAR, 100..400)
        .cpu_op("aten::mm", 110..120, 2)
        .cpu_op("aten::add", 200..210, 3)
        .kernel_of_cpu_op("void add<float>(int)", 2_000..2_010, 1)
        .kernel_of_cpu_op("nvjet_tst_64x8_v_bz_bias_TNT_kernel", 2_100..2_200, 2)
        .kernel_of_cpu_op("void add<float>(int)", 2_300..2_310, 3)
        .finish()
}

#[test]
fn a_replayed_kernel_has_the_call_site_of_the_replay_unless_it_borrows_one() {
    let graph = replay(&["void add<float>(int)", "void add<float>(int)", "unheard_of"]);
    let alone = call_sites(&graph, &[]);
    assert_eq!(summaries(&alone)[0], ("vllm/runner.py:30 replay", "cudaGraphLaunch_v10000", Resolution::Replay));
    let mapped = call_sites(&graph, &[&eager()]);
    let expected = [
        (MODEL_SHOWN, "aten::add", Resolution::BorrowedExact),
        (LINEAR_SHOWN, "aten::add", Resolution::BorrowedExact),
        ("vllm/runner.py:30 replay", "cudaGraphLaunch_v10000", Resolution::Replay),
    ];
    assert_eq!(summaries(&mapped), expected, "in the order of launches");
}

#[test]
fn a_kernel_borrows_from_similar_names_only_if_they_have_one_location() {
    let graph = replay(&["nvjet_tst_128x16_v_bz_bias_TNT_kernel", "nvjet_tst_64x8_h_bz_bias_TNT_kernel"]);
    let found = |mapping: &Trace| call_sites(&graph, &[mapping]).iter().map(|site| site.resolution).collect::<Vec<_>>();
    assert_eq!(
        found(&eager()),
        [Resolution::BorrowedRelaxed, Resolution::Replay],
        "names that differ in a letter are not similar"
    );
    let mut disagreeing = TestTrace::coded();
    disagreeing.frame(MODEL, 0..1_000).cpu_op("aten::mm", 10..20, 1);
    disagreeing.frame(LINEAR, 100..400).cpu_op("aten::mm", 110..120, 2);
    disagreeing.kernel_of_cpu_op("nvjet_tst_64x8_v_bz_bias_TNT_kernel", 2_000..2_010, 1);
    disagreeing.kernel_of_cpu_op("nvjet_tst_64x9_v_bz_bias_TNT_kernel", 2_100..2_200, 2);
    let expected = [Resolution::Replay, Resolution::Replay];
    assert_eq!(found(&disagreeing.finish()), expected, "no location is better than a wrong one");
}

#[test]
fn a_kernel_with_another_name_in_the_mapping_trace_borrows_by_alias() {
    let eager = TestTrace::coded()
        .frame("/w/vllm/fa.py(7): flash_attn_varlen_func", 0..1_000)
        .cpu_op("_vllm_fa3_C::fwd", 10..20, 1)
        .kernel_of_cpu_op("device_kernel<FlashAttnFwdSm90>", 2_000..2_010, 1)
        .finish();
    let graph = replay(&["void flash::FlashAttnFwdCombine<64>(int)", "flash::prepare_varlen"]);
    let call_sites = call_sites(&graph, &[&eager]);
    assert_eq!(
        summaries(&call_sites)[0],
        ("vllm/fa.py:7 flash_attn_varlen_func", "_vllm_fa3_C::fwd", Resolution::BorrowedRelaxed)
    );
    assert_eq!(call_sites[1].resolution, Resolution::Replay);
}

#[test]
fn an_own_location_is_preferred_to_a_borrowed_one() {
    let mut own = TestTrace::coded();
    own.thread(0).frame("/srv/vllm/own.py(1): f", 0..1_000).cpu_op("aten::mm", 10..20, 1);
    own.thread(1).cpu_op("aten::mm", 30..40, 2);
    own.kernel_of_cpu_op("void add<float>(int)", 2_000..2_010, 1);
    own.kernel_of_cpu_op("void add<float>(int)", 2_100..2_110, 2);
    let expected =
        [("vllm/own.py:1 f", "aten::mm", Resolution::Exact), (MODEL_SHOWN, "aten::add", Resolution::BorrowedExact)];
    let call_sites = call_sites(&own.finish(), &[&eager()]);
    assert_eq!(summaries(&call_sites), expected, "the second op has a CPU op but no location");
}

#[test]
fn a_graph_capture_provides_locations_for_the_kernels_of_its_replays() {
    let mut capture = TestTrace::coded();
    capture.thread(0).frame(MODEL, 0..1_000).cpu_op("aten::linear", 10..500, 1).cpu_op("aten::mm", 20..100, 2);
    capture.captured_launch("gemm", 30..40).captured_launch("bias", 200..210);
    capture.thread(1).captured_launch("elsewhere", 300..310);
    let expected = [
        (MODEL_SHOWN, "aten::mm", Resolution::BorrowedExact),
        (MODEL_SHOWN, "aten::linear", Resolution::BorrowedExact),
        ("vllm/runner.py:30 replay", "cudaGraphLaunch_v10000", Resolution::Replay),
    ];
    let graph = replay(&["gemm", "bias", "elsewhere"]);
    assert_eq!(summaries(&call_sites(&graph, &[&capture.finish()])), expected);
}

#[test]
fn kernels_of_the_same_name_are_matched_by_capture_order() {
    let locations = |captured: [&str; 4], replayed: &[&str]| {
        let mut capture = TestTrace::coded();
        capture.frame(MODEL, 0..1_000).captured_launch(captured[0], 10..20);
        capture.call("hipStreamBeginCapture", 21..22).captured_launch(captured[1], 30..40);
        capture.frame(LINEAR, 50..400).captured_launch(captured[2], 60..70);
        capture.captured_launch(captured[3], 500..510).call("hipStreamEndCapture", 600..610);
        let call_sites = call_sites(&replay(replayed), &[&capture.finish()]);
        call_sites.into_iter().map(|site| site.location).collect::<Vec<_>>()
    };
    assert_eq!(locations(["a", "a", "a", "b"], &["a", "a", "b"]), [MODEL_SHOWN, LINEAR_SHOWN, MODEL_SHOWN]);
    assert_eq!(locations(["x", "b", "a", "a"], &["b", "a", "a"]), [MODEL_SHOWN, LINEAR_SHOWN, MODEL_SHOWN]);
}

#[test]
fn launches_without_kernel_names_match_by_count_and_count_as_similar() {
    let mut capture = TestTrace::coded();
    capture.frame(MODEL, 0..1_000).call("cudaStreamBeginCapture", 21..22).call("cudaLaunchKernel", 30..40);
    capture.frame(LINEAR, 50..400).call("cudaLaunchKernelExC_v11060", 60..70).call("cudaMalloc", 71..72);
    let capture = capture.call("cudaStreamEndCapture", 600..610).finish();
    let expected = [(MODEL_SHOWN, Resolution::BorrowedRelaxed), (LINEAR_SHOWN, Resolution::BorrowedRelaxed)];
    let replayed = call_sites(&replay(&["a", "b"]), &[&capture]);
    assert_eq!(replayed.iter().map(|site| (site.location.as_str(), site.resolution)).collect::<Vec<_>>(), expected);
    let longer = call_sites(&replay(&["a", "b", "c"]), &[&capture]);
    assert_eq!(longer.iter().map(|site| site.resolution).collect::<Vec<_>>(), [Resolution::Replay; 3]);
}

#[test]
fn a_trace_without_code_resolves_to_launch_calls() {
    let trace = TestTrace::new().call("cudaLaunchKernel", 60..70).launches("k", 100..110).finish();
    assert_eq!(trace.gpu_ops.launch(0), Some(CallId(0)));
    assert_eq!(summaries(&call_sites(&trace, &[])), [("", "cudaLaunchKernel", Resolution::ByLaunch)]);
}

#[test]
fn deep_and_wide_stacks_have_linear_cost() {
    const FRAMES: i64 = 100_000;
    let stack_ops = |time_of: &dyn Fn(i64) -> Range<i64>| {
        let mut frames = TestTrace::coded();
        (0..FRAMES).for_each(|index| _ = frames.frame(MODEL, time_of(index)));
        let frames = frames.finish().code.unwrap().frames;
        let probe = |frame: Span| Probe { time: frame.start, thread: frame.thread };
        let swept = sweep(&frames, 1, &frames.iter().map(probe).collect::<Vec<_>>());
        let is_own = |(innermost, index): (&u32, u32)| *innermost == index;
        assert!(swept.innermost.iter().zip(0..).all(is_own), "each probe finds its own frame");
        swept.stack_ops
    };
    let deep = stack_ops(&|index| index * 10..10 * FRAMES * 10 - index);
    let wide = stack_ops(&|index| index * 10..index * 10 + 5);
    assert!(deep.max(wide) <= 2 * FRAMES as usize, "deep {deep}, wide {wide}");
    // A deep stack resolves too.
    let mut trace = TestTrace::coded();
    for depth in 0..2_000 {
        trace.frame(if depth == 0 { LINEAR } else { "x.py(1): f" }, depth..10_000 - depth);
    }
    let trace = trace.cpu_op("aten::mm", 3_000..3_010, 7).kernel_of_cpu_op("k", 20_000..20_001, 7).finish();
    let call_sites = call_sites(&trace, &[]);
    assert_eq!((call_sites[0].location.as_str(), call_sites[0].stack.len()), (LINEAR_SHOWN, 4));
}
