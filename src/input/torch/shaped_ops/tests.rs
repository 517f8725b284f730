use super::*;
use crate::input::Importer;
use crate::input::tests::{problems, read_trace, split_at};
use crate::trace::{Element, ProblemKind, Trace};
use proptest::prelude::*;

const LAUNCH: &str = r#"{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": 12, "dur": 1, "args": {"correlation": 1}}"#;
const KERNEL: &str = r#"{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 30, "dur": 5, "args": {"device": 0, "stream": 7, "correlation": 1}}"#;
const SHAPES: &str = r#""Concrete Inputs": ["", ""], "Input type": ["c10::BFloat16", "float"], "Input Strides": [[4, 1], [0, 1]], "Input Dims": [[8, 4], [4, 2]]"#;

fn op(name: &str, ts: i64, args: &str) -> String {
    format!(
        r#"{{"ph": "X", "cat": "cpu_op", "name": "{name}", "pid": 9, "tid": 9, "ts": {ts}, "dur": 5, "args": {{"External id": 7, {args}}}}}"#
    )
}

fn text(events: &[String]) -> String {
    let events = events.iter().map(String::as_str).chain([LAUNCH, KERNEL]);
    format!(r#"{{"traceEvents": [{}]}}"#, events.collect::<Vec<_>>().join(",\n"))
}

fn read(events: &[String]) -> Trace {
    read_trace(Importer::new("t.json"), [text(events)])
}

/// Start and name of each op with shapes.
fn ops(trace: &Trace) -> Vec<(i64, &str)> {
    let table = &trace.shaped_ops;
    table.ops.iter().map(|op| (op.start.0 / 1_000, table.shapes[op.shape as usize].op.as_str())).collect()
}

fn mixed() -> Vec<String> {
    let padding = |ts| op("aten::empty", ts, SHAPES);
    let mut events: Vec<String> = (0..6).map(padding).collect();
    events.extend([
        op("aten::mm", 20, SHAPES),
        op("aten::mm", 10, SHAPES),
        op("aten::mul", 11, SHAPES),
        op("aten::mm", 40, r#""Ev Idx": 3"#),
        op("aten::mm", 50, r#""Input Dims": [[8, 4], [4, 3]]"#),
        op("aten::cat", 60, r#""Input Dims": [[[8, 4], [4, 3]], []]"#),
    ]);
    events
}

#[test]
fn ops_of_the_catalog_with_shapes_are_stored_in_order_of_time_and_equal_arguments_once() {
    let trace = read(&mixed());
    assert_eq!(ops(&trace), [(10, "aten::mm"), (11, "aten::mul"), (20, "aten::mm"), (50, "aten::mm")]);
    let table = &trace.shaped_ops;
    assert_eq!((table.shapes.len(), table.longest, table.left_out), (3, Ns(5_000), 0));
    let call = trace.calls.get(0).unwrap();
    assert!(table.ops.iter().all(|op| op.thread == call.thread && op.duration == Ns(5_000)));
    let argument = |lengths: [u64; 2], elements, element| Argument {
        lengths: lengths.to_vec(),
        elements,
        element,
        value: String::new(),
    };
    let mul = &table.shapes[1].arguments;
    let (bf16, fp32) = (argument([8, 4], 32, Element::Bf16), argument([4, 2], 2, Element::Fp32));
    assert_eq!(*mul, [bf16, fp32], "a dimension with stride 0 repeats its elements");
    let unknown = &table.shapes[2].arguments;
    assert_eq!(unknown[0], argument([8, 4], 32, Element::Other), "types are not recorded");
}

#[test]
fn values_are_stored_for_the_formulas_that_need_them() {
    let args = r#""Concrete Inputs": ["", "", "", "0.", "True"], "Input type": ["c10::Half"], "Input Dims": [[2, 3, 4, 8], [2, 3, 4, 8], [2, 3, 4, 8], [], []]"#;
    let trace = read(&[op("aten::_scaled_dot_product_flash_attention", 10, args)]);
    let values: Vec<&str> = trace.shaped_ops.shapes[0].arguments.iter().map(|argument| &*argument.value).collect();
    assert_eq!(values, ["", "", "", "0.", "True"]);
}

#[test]
fn the_order_of_members_and_reading_code_do_not_matter() {
    let expected = read(&mixed());
    let sorted =
        |event: &String| serde_json::to_string(&serde_json::from_str::<serde_json::Value>(event).unwrap()).unwrap();
    let name_first = |event: &String| {
        event.replacen(r#""ph": "X", "cat": "cpu_op", "#, "", 1).replacen(
            r#""pid""#,
            r#""cat": "cpu_op", "ph": "X", "pid""#,
            1,
        )
    };
    for events in [mixed().iter().map(sorted).collect::<Vec<_>>(), mixed().iter().map(name_first).collect()] {
        assert_eq!(read(&events).shaped_ops, expected.shaped_ops, "{}", events[0]);
    }
    let with_code = read_trace(Importer::with_code("t.json"), [text(&mixed())]);
    assert_eq!((with_code.shaped_ops, with_code.events), (expected.shaped_ops, expected.events));
}

#[test]
fn ops_of_torch_1_are_read() {
    let old = op("aten::mm", 10, SHAPES).replace("cpu_op", "Operator").replace(r#""tid": 9"#, r#""tid": "9""#);
    let launch = LAUNCH.replace("cuda_runtime", "Runtime").replace(r#""tid": 9"#, r#""tid": "9""#);
    let text = format!(r#"{{"traceEvents": [{old}, {launch}, {KERNEL}]}}"#);
    assert_eq!(ops(&read_trace(Importer::new("t.json"), [text])), [(10, "aten::mm")]);
}

#[test]
fn threads_that_launch_nothing_are_neither_stored_nor_numbered() {
    let other = op("aten::mm", 5, SHAPES).replace(r#""tid": 9"#, r#""tid": 8"#);
    let trace = read(&[other, op("aten::mm", 10, SHAPES)]);
    assert_eq!(ops(&trace), [(10, "aten::mm")]);
    assert_eq!(trace.threads, read(&[]).threads);
}

#[test]
fn a_damaged_op_is_counted_as_unreadable() {
    let events = [
        op("aten::empty", 1, SHAPES),
        op("aten::mm", 10, r#""Input Dims" [[8, 4], [4, 2]]"#),
        op("aten::mm", 20, SHAPES),
    ];
    let trace = read(&events);
    assert_eq!((ops(&trace), problems(&trace)), (vec![(20, "aten::mm")], vec![(ProblemKind::UnreadableEvent, 1)]));
    let no_time = op("aten::mm", 10, SHAPES).replace(r#""dur": 5"#, r#""dur": -5"#);
    assert!(read(&[no_time]).shaped_ops.is_empty());
}

#[test]
fn arguments_beyond_the_limit_of_their_text_are_counted() {
    let long = format!(r#""Input Dims": [[{}8, 4], [4, 2]]"#, "8, ".repeat(MAX_TEXT_BYTES));
    let trace = read(&[op("aten::mm", 10, &long), op("aten::mm", 20, SHAPES)]);
    assert_eq!((ops(&trace), trace.shaped_ops.left_out), (vec![(20, "aten::mm")], 1));
}

#[test]
fn a_file_whose_first_ops_have_no_shapes_has_none() {
    let plain = |count: u32| (0..count).map(|ts| op("aten::mm", i64::from(ts), r#""Ev Idx": 3"#));
    let with_last = |count| plain(count).chain([op("aten::mm", 5_000, SHAPES)]).collect::<Vec<_>>();
    assert_eq!(ops(&read(&with_last(PROBED_OPS - 1))), [(5_000, "aten::mm")]);
    assert!(read(&with_last(PROBED_OPS)).shaped_ops.is_empty());
}

proptest! {
    #[test]
    fn chunk_boundaries_do_not_change_the_ops(cuts in prop::collection::vec(0_usize..6_000, 0..8)) {
        let text = text(&mixed());
        let read = |chunks: Vec<&[u8]>| read_trace(Importer::new("t.json"), chunks);
        prop_assert_eq!(read(split_at(text.as_bytes(), cuts)), read(vec![text.as_bytes()]));
    }

    #[test]
    fn no_arguments_panic(dims in r#"[\[\],0-9 "a-]{0,40}"#, values in r#"[\[\],0-9 "T-]{0,40}"#) {
        let args = format!(r#""Input Dims": {dims}, "Concrete Inputs": {values}, "Input Strides": {dims}, "Input type": {values}"#);
        for name in ["aten::mm", "aten::mul", "aten::convolution", "aten::_flash_attention_forward", "aiter::fused_moe_"] {
            let _ = read(&[op(name, 10, &args)]);
        }
    }
}
