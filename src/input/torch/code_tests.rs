//! Tests of reading [`HostCode`].

use crate::input::Importer;
use crate::input::tests::{read_trace, split_at};
use crate::trace::{GpuOp, HostCode, NONE, NameId, Span, Trace};
use proptest::prelude::*;

fn code(text: &str) -> (Trace, HostCode) {
    let mut trace = read_trace(Importer::with_code("t.json"), [text]);
    let code = *trace.code.take().unwrap();
    (trace, code)
}

/// Two launches of one CPU op each, their frames, a kernel of a graph, annotations; in the order of Kineto files.
const TEXT: &str = r#"{"distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8}, "traceEvents": [
    {"ph": "X", "cat": "user_annotation", "name": "step[DECODE bs=2]", "pid": 9, "tid": 9, "ts": 1, "dur": 50, "args": {"External id": 70, "Ev Idx": 0}},
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 9, "tid": 9, "ts": 20, "dur": 9.5, "args": {"External id": 7, "Input Dims": [[2, 2]]}},
    {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 9, "tid": 9, "ts": 10, "dur": 5, "args": {"External id": 6}},
    {"ph": "X", "cat": "python_function", "name": "a.py(1): inner", "pid": 9, "tid": 9, "ts": 10, "dur": 6, "args": {"Python parent id": 1, "Python id": 2}},
    {"ph": "X", "cat": "python_function", "name": "a.py(9): outer \"x\"", "pid": 9, "tid": 9, "ts": 10, "dur": 40, "args": {"Python parent id": null, "Python id": 1}},
    {"ph": "X", "cat": "python_function", "name": "b.py(2): other", "pid": 9, "tid": 8, "ts": 2, "dur": 1, "args": {"Python id": 3, "Python parent id": 77}},
    {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 90, "dur": 3, "args": {"device": 0, "stream": 7, "correlation": 2}},
    {"ph": "X", "cat": "kernel", "name": "add", "pid": 0, "tid": 7, "ts": 80, "dur": 3, "args": {"External id": 6, "device": 0, "stream": 7, "correlation": 1}},
    {"ph": "X", "cat": "kernel", "name": "lost", "pid": 0, "tid": 7, "ts": 95, "dur": 3, "args": {"device": 0, "stream": 7, "correlation": 3}},
    {"ph": "X", "cat": "gpu_user_annotation", "name": "step[DECODE bs=2]", "pid": 0, "tid": 7, "ts": 80, "dur": 18, "args": {"External id": 70}},
    {"ph": "X", "cat": "cuda_runtime", "name": "hipLaunchKernel", "pid": 9, "tid": 9, "ts": 25, "dur": 2, "args": {"External id": 7, "kernel": "gemm", "correlation": 2}},
    {"ph": "X", "cat": "cuda_runtime", "name": "hipLaunchKernel", "pid": 9, "tid": 9, "ts": 12, "dur": 2, "args": {"kernel": "captured", "correlation": 1}},
    {"ph": "X", "cat": "cuda_runtime", "name": "hipGraphLaunch", "pid": 9, "tid": 9, "ts": 30, "dur": 2, "args": {"correlation": 3}}
]}"#;

#[test]
fn ids_join_gpu_ops_with_cpu_ops_and_frames_with_callers() {
    let (trace, code) = code(TEXT);
    let names: Vec<&str> = trace.gpu_ops.iter().map(|op: GpuOp| trace.names.get(op.name)).collect();
    assert_eq!((names, &*code.op_ids), (vec!["add", "gemm", "lost"], &[6, 7, NONE][..]), "gemm has the id of its call");
    let cpu_ops: Vec<(&str, i64, i64)> =
        code.cpu_ops.iter().map(|op: Span| (code.cpu_ops.names.get(op.name), op.start.0, op.duration.0)).collect();
    assert_eq!(
        (cpu_ops, &*code.cpu_op_ids),
        (vec![("aten::add", 10_000, 5_000), ("aten::mm", 20_000, 9_500)], &[6, 7][..])
    );
    let frames: Vec<&str> = code.frames.iter().map(|frame| code.frames.names.get(frame.name)).collect();
    assert_eq!(frames, ["b.py(2): other", "a.py(9): outer \"x\"", "a.py(1): inner"], "by start, outer before inner");
    assert_eq!(code.frame_parents, [NONE, NONE, 1], "a caller outside the trace is NONE");
    let threads: Vec<u32> = code.frames.iter().map(|frame| frame.thread.0).collect();
    assert!(threads[0] != threads[1] && threads[1] == threads[2], "{threads:?}");
    assert_eq!(code.frames.get(1).unwrap().thread, code.cpu_ops.get(0).unwrap().thread);
}

#[test]
fn annotations_captured_kernels_and_the_rank_are_read() {
    let (trace, code) = code(TEXT);
    let annotations: Vec<_> = code
        .annotations
        .iter()
        .map(|row| (code.annotation_names.get(row.name), row.start.0, row.id, row.device.map(|device| device.0)))
        .collect();
    let name = "step[DECODE bs=2]";
    assert_eq!(annotations, [(name, 1_000, 70, None), (name, 80_000, 70, Some(0))]);
    let launched: Vec<&str> = code.call_kernels.iter().map(|name| code.kernel_names.get(NameId(*name))).collect();
    assert_eq!(launched, ["captured", "gemm", ""], "parallel to the calls, which are sorted by start");
    assert_eq!(trace.names.len(), 3, "only names of GPU ops");
    assert_eq!(trace.job.as_ref().map(|job| (job.rank, job.world_size)), Some((3, 8)));
}

#[test]
fn gpu_ops_and_counts_do_not_depend_on_reading_code() {
    let (with, _) = code(TEXT);
    let without = read_trace(Importer::new("t.json"), [TEXT]);
    assert_eq!(without.code, None);
    let parts = |trace: Trace| (trace.names, trace.gpu_ops, trace.devices, trace.calls, trace.ranges, trace.events);
    assert_eq!(parts(with), parts(without));
}

proptest! {
    #[test]
    fn chunk_boundaries_do_not_change_the_code(cuts in prop::collection::vec(0_usize..4_000, 0..8)) {
        let read = |chunks: Vec<&[u8]>| read_trace(Importer::with_code("t.json"), chunks);
        prop_assert_eq!(read(split_at(TEXT.as_bytes(), cuts)), read(vec![TEXT.as_bytes()]));
    }
}

/// Returns frames and ops that match a template, mixed with unusual ones.
fn regular_and_unusual_events() -> Vec<String> {
    let frame = |name: &str, ts: &str, parent: &str, id: &str| {
        format!(
            r#"{{"ph": "X", "cat": "python_function", "name": "{name}", "pid": 9, "tid": 9, "ts": {ts}, "dur": 5, "args": {{"Python parent id": {parent}, "Python id": {id}, "Ev Idx": 3}}}}"#
        )
    };
    let plain = (0..4).map(|at| frame("a.py(1): f", &format!("{at}.25"), "null", &at.to_string()));
    let odd = [
        frame(r#"say \"x\", \\ {"#, "10", "1", "4"),
        frame("é", "1e1", "1", "5"),
        frame("late", "\"11.5\"", "1", "6"),
        frame("no time", "NaN", "1", "7"),
        frame("blanks", " 12 ", " 1", "8 "),
        frame("deep", "13", "{\"a\": [1, 2]}", "9"),
        frame("text", "14", "\"2\"", "\"10\""),
        frame("", "-15", "4294967296", "99999999999"),
        frame("thread", "16", "1", "11").replace("\"tid\": 9", "\"tid\": \"thread 9 (python)\""),
        frame("order", "17", "1", "12")
            .replace("\"ph\": \"X\", ", "")
            .replace("\"dur\": 5", "\"dur\": 5, \"ph\": \"X\""),
        frame("missing", "18", "1", "13").replace(", \"dur\": 5", ""),
        frame("other", "19", "1", "14").replace("python_function", "cpu_op"),
    ];
    plain.chain(odd).collect()
}

#[test]
fn templates_give_the_same_events_as_parsing_each_member() {
    let frames_of = |events: &[String]| {
        let (_, code) = code(&format!("{{\"traceEvents\": [{}]}}", events.join(",\n")));
        let spans = code.frames.iter().chain(code.cpu_ops.iter());
        let times: Vec<(i64, i64)> = spans.map(|span| (span.start.0, span.duration.0)).collect();
        let names: Vec<String> = code.frames.names.iter().chain(code.cpu_ops.names.iter()).map(str::to_owned).collect();
        (times, names)
    };
    let (mut alone_times, mut alone_names) = (Vec::new(), Vec::new());
    for event in regular_and_unusual_events() {
        let (times, names) = frames_of(&[event]);
        alone_times.extend(times);
        alone_names.extend(names);
    }
    let (mut times, mut names) = frames_of(&regular_and_unusual_events());
    times.sort();
    alone_times.sort();
    names.sort();
    alone_names.sort();
    alone_names.dedup();
    assert_eq!((times, names), (alone_times, alone_names));
}
