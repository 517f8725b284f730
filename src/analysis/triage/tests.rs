//! Tests of the whole triage: merged ranks do not mix, and no trace causes a panic.

use super::*;
use crate::analysis::section::Record;
use crate::analysis::testing::{import, words};
use crate::input::Importer;
use crate::trace::testing::TestTrace;
use crate::trace::{FrameIds, NONE};
use proptest::prelude::*;

fn sections(trace: &Trace, mapping: &[&Trace]) -> Sections {
    let (server, options) = (ServerArgs::default(), Options { min_share_pct: 0.0, ..Options::default() });
    let (path, file_stage, framework) = ("", Stage::All, None);
    triage(&Request { trace, path, file_stage, mapping, server: &server, framework, options: &options })
}

/// The events of one rank in a merged file. All ranks use the same ids and work at about the same time.
fn rank(label: &str, step: &str, file: &str, kernel: &str, offset: u32) -> String {
    let event = |category: &str, name: &str, thread: &str, start: u32, duration: u32, args: &str| {
        let start = offset + start;
        format!(
            r#"{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": "{label} {thread}, "ts": {start}, "dur": {duration}, "args": {{{args}}}}}"#
        )
    };
    let host = r#"9", "tid": 9"#;
    let gpu = r#"0", "tid": 7"#;
    [
        event("user_annotation", step, host, 0, 90, r#""External id": 70"#),
        event(
            "python_function",
            &format!("/w/sglang/{file}(5): forward"),
            host,
            1,
            80,
            r#""Python id": 1, "Python parent id": null"#,
        ),
        event(
            "python_function",
            "/w/torch/nn/linear.py(9): forward",
            host,
            2,
            60,
            r#""Python id": 2, "Python parent id": 1"#,
        ),
        event("cpu_op", &format!("aten::{kernel}"), host, 10, 20, r#""External id": 6"#),
        event("cuda_runtime", "cudaLaunchKernel", host, 12, 2, r#""External id": 6, "correlation": 3"#),
        event("kernel", kernel, gpu, 200, 40, r#""External id": 6, "device": 0, "stream": 7, "correlation": 3"#),
    ]
    .join(",\n")
}

#[test]
fn merged_ranks_keep_their_own_steps_and_call_sites() {
    let ranks = [
        rank("[TP00]", "step[EXTEND bs=1 toks=9]", "reader.py", "reads", 1_000),
        rank("[TP01]", "step[DECODE bs=1]", "writer.py", "writes", 1_001),
    ];
    let text = format!(r#"{{"traceEvents": [{}]}}"#, ranks.join(","));
    let trace = import(Importer::with_code("merged.json"), text.as_bytes());
    let callers = &trace.code.as_ref().unwrap().frame_parents;
    assert_eq!(*callers, [NONE, NONE, 0, 1], "the frames of the ranks alternate");
    let sections = sections(&trace, &[]);
    let cells =
        |row: &Record| ["stage", "kernel_name", "python_location", "cpu_op"].map(|key| words(row, key).to_owned());
    let rows: Vec<_> = sections["triage_kernels"].rows.iter().map(cells).collect();
    let [reader, writer] = ["python/sglang/reader.py:5 forward", "python/sglang/writer.py:5 forward"];
    assert_eq!(
        rows,
        [["extend/prefill", "reads", reader, "aten::reads"], ["decode", "writes", writer, "aten::writes"]]
    );
    let steps: Vec<_> = sections["triage_steps"].rows.iter().map(|row| words(row, "stage")).collect();
    assert_eq!(steps, ["extend/prefill", "decode"]);
}

/// Common start times, and times so large that the sum of a few exceeds 64 bits.
fn start() -> impl Strategy<Value = i64> {
    prop_oneof![0_i64..50, prop::sample::select(vec![-(1_i64 << 60), 1 << 60, (1 << 61) - 1])]
}

fn length() -> impl Strategy<Value = i64> {
    prop_oneof![0_i64..20, prop::sample::select(vec![0, 1 << 59, (1 << 61) - 1])]
}

/// Name, device, stream, start and duration of an op, and the id of its call and CPU op.
type RandomOp = (usize, u8, i64, i64, i64, u32);

fn random_trace(ops: &[RandomOp], annotations: &[(usize, i64, i64, Option<u8>)]) -> Trace {
    const NAMES: [&str; 5] = ["nvjet_tst_64x8", "ncclDevKernel_AllReduce(int)", "void add<4>(int)", "Memcpy HtoD", ""];
    const ANNOTATIONS: [&str; 4] = ["step[EXTEND bs=1 toks=9]", "step[DECODE bs=1]", "ProfilerStep#3", "decode"];
    let mut trace = TestTrace::coded();
    for &(name, device, stream, start, duration, id) in ops {
        let time = start..start + duration;
        trace.call_with_id(if id == 0 { "cudaGraphLaunch" } else { "cudaLaunchKernel" }, time.clone(), id);
        trace.cpu_op("aten::mm", time.clone(), id);
        trace.frame_with_ids("/w/vllm/a.py(1): f", time.clone(), FrameIds { id, parent: id / 2 });
        trace.device(device).stream(stream).launches(NAMES[name], time).external_id(id);
    }
    for &(name, start, duration, device) in annotations {
        let (text, time, id) = (ANNOTATIONS[name], start..start + duration, name as u32);
        match device {
            Some(device) => trace.device(device).device_annotation(text, time, id),
            None => trace.annotation_with_id(text, time, id),
        };
    }
    trace.finish()
}

proptest! {
    #[test]
    fn no_trace_causes_a_panic_and_every_number_is_finite(
        ops in prop::collection::vec((0..5_usize, 0..2_u8, -1_i64..3, start(), length(), 0..4_u32), 0..12),
        annotations in prop::collection::vec((0..4_usize, start(), length(), prop::option::of(0..2_u8)), 0..4),
    ) {
        let trace = random_trace(&ops, &annotations);
        let tables = sections(&trace, &[]);
        prop_assert_eq!(&tables, &sections(&trace, &[]), "the tables are deterministic");
        sections(&trace, &[&trace]);
        let values = tables.values().flat_map(|section| section.rows.iter().flat_map(|row| row.0.iter().map(|cell| &cell.1)));
        for value in values {
            prop_assert!(value.number().is_none_or(f64::is_finite), "{:?}", value);
        }
    }
}
