//! Call sites of small traces that are built span by span. Times are in nanoseconds.

use super::super::frames::canonical;
use super::sweep::{Probe, sweep};
use super::*;
use crate::trace::{Format, GpuOp, NameId, Ns, ProcessId, Span, Spans, ThreadId, TraceBuilder};

const MODEL: &str = "/srv/vllm/model.py(10): forward";
const MODEL_SHOWN: &str = "vllm/model.py:10 forward";
const LINEAR: &str = "/srv/vllm/linear.py(20): apply";
const LINEAR_SHOWN: &str = "vllm/linear.py:20 apply";
const RUNNER: &str = "/srv/vllm/runner.py(30): replay";

/// A builder of a trace with one process and three threads. Rows must be added in order of time.
struct Program {
    trace: TraceBuilder,
    code: Code,
}

impl Program {
    fn new() -> Self {
        let mut trace = TraceBuilder::new("program", Format::TorchProfiler);
        trace.process(1, "");
        trace.device("0", "");
        (0..3).for_each(|tid| _ = trace.thread(ProcessId(0), tid));
        Self { trace, code: Code::default() }
    }

    fn frame(self, name: &str, thread: u32, time: (i64, i64)) -> Self {
        self.frame_of(name, thread, time, NONE)
    }

    fn frame_of(mut self, name: &str, thread: u32, time: (i64, i64), parent: u32) -> Self {
        push(&mut self.code.frames, name, thread, time);
        self.code.frame_parents.push(parent);
        self
    }

    fn op(mut self, name: &str, thread: u32, time: (i64, i64), id: u32) -> Self {
        push(&mut self.code.cpu_ops, name, thread, time);
        self.code.cpu_op_ids.push(id);
        self
    }

    fn call(mut self, name: &str, thread: u32, time: (i64, i64), correlation: u32) -> Self {
        let name = self.trace.trace.calls.names.intern(name);
        self.trace.add_call(span(name, thread, time), Some(correlation));
        self.code.call_kernels.push(NONE);
        self
    }

    /// A launch during a graph capture: it records its kernel, which does not run.
    fn captured(mut self, kernel: &str, thread: u32, time: (i64, i64)) -> Self {
        let name = self.code.kernel_names.intern(kernel).0;
        self = self.call("hipLaunchKernel", thread, time, 1_000_000 + time.0 as u32);
        self.code.call_kernels.pop();
        self.code.call_kernels.push(name);
        self
    }

    fn kernel(mut self, name: &str, (start, end): (i64, i64), id: u32, correlation: Option<u32>) -> Self {
        let name = self.trace.trace.names.intern(name);
        let (start, duration, device) = (Ns(start), Ns(end - start), DeviceId(0));
        let op = GpuOp { start, duration, name, device, stream: 7, process: ProcessId(0), kind: OpKind::Kernel };
        self.trace.trace.gpu_ops.push(op, correlation);
        self.code.op_ids.push(id);
        self
    }

    fn finish(self) -> Trace {
        let code = Some(Box::new(self.code));
        Trace { code, ..self.trace.finish() }
    }

    fn call_sites(self) -> Vec<CallSite> {
        call_sites(&self.finish(), &[])
    }
}

fn span(name: NameId, thread: u32, (start, end): (i64, i64)) -> Span {
    Span { start: Ns(start), duration: Ns(end - start), name, thread: ThreadId(thread) }
}

fn push(spans: &mut Spans, name: &str, thread: u32, time: (i64, i64)) {
    let name = spans.names.intern(name);
    spans.push(span(name, thread, time));
}

/// The call site of every op.
fn call_sites(trace: &Trace, mapping: &[&Trace]) -> Vec<CallSite> {
    let name = |raw: &str| KernelName { canonical: canonical(raw), category: String::new() };
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
    let call_sites = Program::new()
        .frame("threading.py(1): run", 0, (0, 1_000))
        .frame(MODEL, 0, (10, 900))
        .frame(LINEAR, 0, (20, 800))
        .frame("/srv/vllm/linear.py(21): __call__", 0, (30, 700))
        .frame("<built-in method mm>", 0, (40, 600))
        .op("aten::mm", 0, (50, 500), 7)
        .call("cudaLaunchKernel", 0, (60, 70), 1)
        .kernel("k", (2_000, 3_000), 7, Some(1))
        .call_sites();
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
    let call_sites = Program::new()
        .frame(MODEL, 0, (0, 1_000))
        .op("aten::lost", 1, (5, 6), 9)
        .call("cuLaunchKernelEx", 0, (60, 70), 1)
        .call("cudaLaunchKernel", 2, (80, 90), 2)
        .call("cudaLaunchKernel", 0, (100, 110), 3)
        .kernel("triton", (2_000, 3_000), NONE, Some(1))
        .kernel("no frames", (3_000, 4_000), NONE, Some(2))
        .kernel("op without frames", (4_000, 5_000), 9, None)
        .kernel("op without frames, launch with", (5_000, 6_000), 9, Some(3))
        .kernel("nothing", (6_000, 7_000), 77, Some(77))
        .call_sites();
    let expected = [
        (MODEL_SHOWN, "cuLaunchKernelEx", Resolution::ByLaunch),
        ("", "cudaLaunchKernel", Resolution::ByLaunch),
        ("", "aten::lost", Resolution::Exact),
        (MODEL_SHOWN, "aten::lost", Resolution::ByLaunch),
        ("", "", Resolution::Unresolved),
    ];
    assert_eq!(summaries(&call_sites), expected);
}

#[test]
fn of_cpu_ops_with_the_same_id_the_one_that_ends_nearest_to_the_kernel_wins() {
    let program = |kernel| {
        Program::new()
            .op("first", 0, (100, 200), 7)
            .op("second", 0, (300, 400), 7)
            .op("third", 0, (10_000, 10_100), 7)
            .kernel("k", (kernel, kernel + 10), 7, None)
            .call_sites()
    };
    for (kernel, expected) in
        [(450, "second"), (210, "first"), (299, "first"), (301, "second"), (10, "first"), (10_050, "third")]
    {
        assert_eq!(program(kernel)[0].cpu_op, expected, "a kernel at {kernel}");
    }
}

#[test]
fn frames_of_different_threads_do_not_mix() {
    let call_sites = Program::new()
        .frame(MODEL, 0, (0, 1_000))
        .frame(LINEAR, 1, (10, 990))
        .op("aten::mm", 0, (50, 60), 7)
        .op("aten::add", 1, (52, 62), 8)
        .op("aten::mul", 2, (54, 64), 9)
        .kernel("a", (100, 110), 7, None)
        .kernel("b", (200, 210), 8, None)
        .kernel("c", (300, 310), 9, None)
        .call_sites();
    let expected = [(MODEL_SHOWN, "aten::mm"), (LINEAR_SHOWN, "aten::add"), ("", "aten::mul")];
    assert_eq!(summaries(&call_sites).iter().map(|site| (site.0, site.1)).collect::<Vec<_>>(), expected);
    assert_eq!(call_sites[0].stack, [MODEL_SHOWN]);
}

#[test]
fn callers_follow_named_parents_and_enclosing_times_complete_them() {
    // The end of the first child was recorded late: by times alone it would be the caller of the second.
    let late = Program::new()
        .frame_of("/w/vllm/a.py(1): outer", 0, (0, 1_000), NONE)
        .frame_of("/w/vllm/a.py(2): first", 0, (10, 105), 0)
        .frame_of("/w/app.py(3): second", 0, (100, 200), 0)
        .op("aten::mm", 0, (110, 190), 7)
        .kernel("k", (300, 310), 7, None)
        .call_sites();
    assert_eq!(late[0].stack, ["vllm/a.py:1 outer", "w/app.py:3 second"]);
    assert_eq!(late[0].location, "vllm/a.py:1 outer");
    // Real traces sometimes name the grandparent.
    let omitted = Program::new()
        .frame_of("/w/vllm/a.py(1): outer", 0, (0, 1_000), NONE)
        .frame_of("/w/vllm/a.py(2): between", 0, (10, 900), 0)
        .frame_of("<built-in method to>", 0, (20, 800), 0)
        .op("aten::to", 0, (30, 700), 7)
        .kernel("k", (2_000, 2_010), 7, None)
        .call_sites();
    assert_eq!(omitted[0].location, "vllm/a.py:2 between");
    // A parent on another thread: a worker continues the work of its caller.
    let across = Program::new()
        .frame_of("/w/vllm/a.py(1): outer", 1, (0, 1_000), NONE)
        .frame_of("w.py(2): inner", 0, (10, 900), 0)
        .op("aten::to", 0, (30, 700), 7)
        .kernel("k", (2_000, 2_010), 7, None)
        .call_sites();
    assert_eq!(across[0].location, "vllm/a.py:1 outer");
    // A cycle of parents is ignored and ends.
    let cycle = Program::new()
        .frame_of("/w/vllm/a.py(1): outer", 0, (0, 1_000), 1)
        .frame_of("/w/vllm/a.py(2): inner", 0, (10, 900), 77)
        .op("aten::to", 0, (30, 700), 7)
        .kernel("k", (2_000, 2_010), 7, None)
        .call_sites();
    assert_eq!(cycle[0].stack, ["vllm/a.py:1 outer", "vllm/a.py:2 inner"]);
}

/// A trace with one replay of a graph of these kernels.
fn replay(kernels: &[&str]) -> Trace {
    let program = Program::new().frame(RUNNER, 0, (0, 1_000)).call("cudaGraphLaunch_v10000", 0, (60, 70), 1);
    let add = |program: Program, (index, kernel): (usize, &&str)| {
        let start = 2_000 + 100 * index as i64;
        program.kernel(kernel, (start, start + 50), NONE, Some(1))
    };
    kernels.iter().enumerate().fold(program, add).finish()
}

/// The same workload without a graph. `add` has two call sites.
fn eager() -> Trace {
    let program = Program::new()
        .frame(MODEL, 0, (0, 1_000))
        .op("aten::add", 0, (10, 20), 1)
        .frame(LINEAR, 0, (100, 400))
        .op("aten::mm", 0, (110, 120), 2)
        .op("aten::add", 0, (200, 210), 3);
    program
        .kernel("void add<float>(int)", (2_000, 2_010), 1, None)
        .kernel("nvjet_tst_64x8_v_bz_bias_TNT_kernel", (2_100, 2_200), 2, None)
        .kernel("void add<float>(int)", (2_300, 2_310), 3, None)
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
    let disagreeing = Program::new()
        .frame(MODEL, 0, (0, 1_000))
        .op("aten::mm", 0, (10, 20), 1)
        .frame(LINEAR, 0, (100, 400))
        .op("aten::mm", 0, (110, 120), 2)
        .kernel("nvjet_tst_64x8_v_bz_bias_TNT_kernel", (2_000, 2_010), 1, None)
        .kernel("nvjet_tst_64x9_v_bz_bias_TNT_kernel", (2_100, 2_200), 2, None)
        .finish();
    assert_eq!(found(&disagreeing), [Resolution::Replay, Resolution::Replay], "no location is better than a wrong one");
}

#[test]
fn a_kernel_with_another_name_in_the_mapping_trace_borrows_by_alias() {
    let eager = Program::new()
        .frame("/w/vllm/fa.py(7): flash_attn_varlen_func", 0, (0, 1_000))
        .op("_vllm_fa3_C::fwd", 0, (10, 20), 1)
        .kernel("device_kernel<FlashAttnFwdSm90>", (2_000, 2_010), 1, None)
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
    let own = Program::new()
        .frame("/srv/vllm/own.py(1): f", 0, (0, 1_000))
        .op("aten::mm", 0, (10, 20), 1)
        .op("aten::mm", 1, (30, 40), 2)
        .kernel("void add<float>(int)", (2_000, 2_010), 1, None)
        .kernel("void add<float>(int)", (2_100, 2_110), 2, None)
        .finish();
    let expected =
        [("vllm/own.py:1 f", "aten::mm", Resolution::Exact), (MODEL_SHOWN, "aten::add", Resolution::BorrowedExact)];
    assert_eq!(summaries(&call_sites(&own, &[&eager()])), expected, "the second op has a CPU op but no location");
}

#[test]
fn a_graph_capture_provides_locations_for_the_kernels_of_its_replays() {
    let capture = Program::new()
        .frame(MODEL, 0, (0, 1_000))
        .op("aten::linear", 0, (10, 500), 1)
        .op("aten::mm", 0, (20, 100), 2)
        .captured("gemm", 0, (30, 40))
        .captured("bias", 0, (200, 210))
        .captured("elsewhere", 1, (300, 310))
        .finish();
    let graph = replay(&["gemm", "bias", "elsewhere"]);
    let expected = [
        (MODEL_SHOWN, "aten::mm", Resolution::BorrowedExact),
        (MODEL_SHOWN, "aten::linear", Resolution::BorrowedExact),
        ("vllm/runner.py:30 replay", "cudaGraphLaunch_v10000", Resolution::Replay),
    ];
    assert_eq!(summaries(&call_sites(&graph, &[&capture])), expected);
}

#[test]
fn kernels_of_the_same_name_are_matched_by_capture_order() {
    let capture = |kernels: [&str; 4]| {
        let program = Program::new().frame(MODEL, 0, (0, 1_000)).captured(kernels[0], 0, (10, 20));
        let program = program.call("hipStreamBeginCapture", 0, (21, 22), 900).captured(kernels[1], 0, (30, 40));
        let program = program.frame(LINEAR, 0, (50, 400)).captured(kernels[2], 0, (60, 70));
        program.captured(kernels[3], 0, (500, 510)).call("hipStreamEndCapture", 0, (600, 610), 901).finish()
    };
    let locations = |kernels, replayed: &[&str]| {
        let call_sites = call_sites(&replay(replayed), &[&capture(kernels)]);
        call_sites.into_iter().map(|site| site.location).collect::<Vec<_>>()
    };
    assert_eq!(locations(["a", "a", "a", "b"], &["a", "a", "b"]), [MODEL_SHOWN, LINEAR_SHOWN, MODEL_SHOWN]);
    assert_eq!(locations(["x", "b", "a", "a"], &["b", "a", "a"]), [MODEL_SHOWN, LINEAR_SHOWN, MODEL_SHOWN]);
}

#[test]
fn launches_without_kernel_names_match_by_count_and_count_as_similar() {
    let program = Program::new().frame(MODEL, 0, (0, 1_000)).call("cudaStreamBeginCapture", 0, (21, 22), 900);
    let program = program.call("cudaLaunchKernel", 0, (30, 40), 901).frame(LINEAR, 0, (50, 400));
    let program = program.call("cudaLaunchKernelExC_v11060", 0, (60, 70), 902).call("cudaMalloc", 0, (71, 72), 903);
    let capture = program.call("cudaStreamEndCapture", 0, (600, 610), 904).finish();
    let expected = [(MODEL_SHOWN, Resolution::BorrowedRelaxed), (LINEAR_SHOWN, Resolution::BorrowedRelaxed)];
    let replayed = call_sites(&replay(&["a", "b"]), &[&capture]);
    assert_eq!(replayed.iter().map(|site| (site.location.as_str(), site.resolution)).collect::<Vec<_>>(), expected);
    let longer = call_sites(&replay(&["a", "b", "c"]), &[&capture]);
    assert!(longer.iter().all(|site| site.resolution == Resolution::Replay));
}

#[test]
fn a_trace_without_code_resolves_to_launch_calls() {
    let trace = Program::new().call("cudaLaunchKernel", 0, (60, 70), 1).kernel("k", (100, 110), NONE, Some(1)).finish();
    let trace = Trace { code: None, ..trace };
    assert_eq!(trace.gpu_ops.launch(0), Some(CallId(0)));
    assert_eq!(summaries(&call_sites(&trace, &[])), [("", "cudaLaunchKernel", Resolution::ByLaunch)]);
}

#[test]
fn deep_and_wide_stacks_have_linear_cost() {
    const FRAMES: i64 = 100_000;
    let probe = |time| Probe { time: Ns(time), thread: ThreadId(0) };
    let stack_ops = |time_of: &dyn Fn(i64) -> (i64, i64)| {
        let mut frames = Spans::default();
        (0..FRAMES).for_each(|index| push(&mut frames, MODEL, 0, time_of(index)));
        let probes: Vec<Probe> = (0..FRAMES).map(|index| probe(time_of(index).0)).collect();
        let swept = sweep(&frames, 1, &probes);
        assert!(
            swept.innermost.iter().zip(0..).all(|(innermost, index)| *innermost == index),
            "each probe finds its own frame"
        );
        swept.stack_ops
    };
    let deep = stack_ops(&|index| (index * 10, 10 * FRAMES * 10 - index));
    let wide = stack_ops(&|index| (index * 10, index * 10 + 5));
    assert!(deep.max(wide) <= 2 * FRAMES as usize, "deep {deep}, wide {wide}");
    // A deep stack resolves too.
    let mut program = Program::new();
    for depth in 0..2_000 {
        program = program.frame(if depth == 0 { LINEAR } else { "x.py(1): f" }, 0, (depth, 10_000 - depth));
    }
    let call_sites = program.op("aten::mm", 0, (3_000, 3_010), 7).kernel("k", (20_000, 20_001), 7, None).call_sites();
    assert_eq!((call_sites[0].location.as_str(), call_sites[0].stack.len()), (LINEAR_SHOWN, 4));
}

#[test]
fn an_external_id_matches_ops_of_the_same_rank_only() {
    let event = |rank: &str, category: &str, name: &str, thread: u32, ts: u32, args: &str| {
        format!(
            r#"{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": "[{rank}] 0", "tid": {thread}, "ts": {ts}, "dur": 4, "args": {{{args}}}}}"#
        )
    };
    let of_rank = |rank: &str, op: &str, frame: &str| {
        [
            event(rank, "python_function", frame, 1, 10, r#""Python id": 1, "Python parent id": null"#),
            event(rank, "cpu_op", op, 1, 10, r#""External id": 7"#),
            event(rank, "kernel", "gemm", 9, 20, r#""External id": 7, "device": 0, "stream": 9"#),
        ]
    };
    let events = [of_rank("TP00", "aten::mm", MODEL), of_rank("TP01", "aten::addmm", LINEAR)].concat().join(",");
    let mut importer = crate::input::Importer::with_code("merged.json");
    importer.feed(format!("{{\"traceEvents\": [{events}]}}").as_bytes()).unwrap();
    let crate::input::Imported::Trace(trace) = importer.finish().unwrap() else { panic!("no trace") };
    let call_sites = call_sites(&trace, &[]);
    let found: Vec<(&str, &str)> = call_sites.iter().map(|site| (&*site.location, &*site.cpu_op)).collect();
    assert_eq!(found, [(MODEL_SHOWN, "aten::mm"), (LINEAR_SHOWN, "aten::addmm")]);
}
