//! Tests of files that no profiler of the list wrote: hostile nesting, slices in two events, other tools, captures
//! without GPU ops.

use super::tests::{problems, read_trace};
use super::*;
use crate::trace::{DeviceProperties, OpKind};

fn read(text: &str) -> Result<Imported> {
    let mut importer = Importer::new("t.json");
    importer.feed(text.as_bytes())?;
    importer.finish()
}

fn trace(text: &str) -> Trace {
    read_trace(Importer::new("t.json"), [text])
}

fn refusal(text: &str) -> String {
    read(text).map(|_| ()).unwrap_err().to_string()
}

const KERNEL: &str =
    r#"{"ph":"X","cat":"kernel","name":"g","pid":0,"tid":7,"ts":1,"dur":2,"args":{"device":0,"stream":7}}"#;

#[test]
fn nested_damage_costs_a_bounded_number_of_restarts_and_not_one_for_each_level() {
    let levels = r#"[{},{"a":"#.repeat(20_000);
    for end in ["", "!"] {
        let text = format!(r#"{{"traceEvents":[{KERNEL},{levels}{end},{KERNEL}]}}"#);
        for chunk_bytes in [text.len(), 1 << 16, 4_099] {
            let chunks = text.as_bytes().chunks(chunk_bytes);
            let trace = read_trace(Importer::new("t.json"), chunks);
            let unreadable: u64 = problems(&trace).iter().map(|problem| problem.1).sum();
            assert!((1..200).contains(&unreadable), "{unreadable} in chunks of {chunk_bytes}");
            assert!(!trace.gpu_ops.is_empty());
        }
    }
}

#[test]
fn an_event_after_white_space_after_damage_is_read() {
    let spaces = " ".repeat(200_000);
    let trace = trace(&format!(r#"{{"traceEvents":[{KERNEL},{{"a" 1}}{spaces},{spaces}{KERNEL}]}}"#));
    assert_eq!((trace.gpu_ops.len(), problems(&trace)), (2, vec![(ProblemKind::UnreadableEvent, 1)]));
}

#[test]
fn an_event_that_is_too_large_is_said_to_be_so_and_the_file_not_to_be_cut() {
    let large = |before: &str, after: &str| {
        let mut importer = Importer::new("t.json");
        importer.feed(format!(r#"{{"traceEvents":[{before}{{"ph":"X","name":""#).as_bytes()).unwrap();
        (0..65).for_each(|_| importer.feed(&vec![b'a'; 1 << 20]).unwrap());
        importer.feed(format!(r#""}}{after}]}}"#).as_bytes()).unwrap();
        importer.finish()
    };
    let problems_of = |read: Result<Imported>| match read {
        Ok(Imported::Trace(trace)) => (trace.gpu_ops.len(), problems(&trace)),
        other => panic!("{other:?}"),
    };
    let too_large = vec![(ProblemKind::EventTooLarge, 1)];
    assert_eq!(problems_of(large(&format!("{KERNEL},"), "")), (1, too_large.clone()));
    assert_eq!(problems_of(large("", &format!(",{KERNEL}"))), (1, too_large), "what follows is read");
    let refusal = large("", "").map(|_| ()).unwrap_err().to_string();
    assert!(refusal.contains("at byte 16, is longer than 64 MiB") && !refusal.contains("cut"), "{refusal}");
}

#[test]
fn kernels_as_beginnings_and_ends_are_read() {
    let event = |phase: &str, ts: &str, rest: &str| {
        format!(r#"{{"ph":"{phase}","cat":"kernel","name":"k","pid":0,"tid":7,"ts":{ts}{rest}}}"#)
    };
    let begin = |ts| event("B", ts, r#","args":{"device":3,"stream":7,"correlation":9}"#);
    let call = r#"{"ph":"B","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":0,"args":{"correlation":9}},
        {"ph":"E","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":1}"#;
    let events = [begin("1"), event("E", "1.5", ""), begin("2"), event("E", "5", ""), call.to_owned()].join(",");
    let whole = trace(&format!(r#"{{"traceEvents":[{events}]}}"#));
    let ops: Vec<_> = whole.gpu_ops.iter().map(|op| (op.start.0, op.duration.0, op.stream, op.kind)).collect();
    assert_eq!(ops, [(1_000, 500, 7, OpKind::Kernel), (2_000, 3_000, 7, OpKind::Kernel)]);
    assert_eq!((whole.devices[0].id.as_str(), problems(&whole)), ("3", vec![]));
    assert!(whole.gpu_ops.launches().all(|launch| launch.is_some()), "arguments of the beginning count");
    let open = [begin("1"), begin("2"), event("E", "3", "")].join(",");
    let cut = trace(&format!(r#"{{"traceEvents":[{open},{}]}}"#, event("E", "9", "").replace("\"k\"", "\"other\"")));
    assert_eq!((cut.gpu_ops.len(), problems(&cut)), (1, vec![(ProblemKind::UnpairedSlice, 2)]));
}

/// The second slice begins before the first one ends: their ids tell them apart.
#[test]
fn kernels_as_asynchronous_slices_are_read() {
    let event = |phase: &str, id: u8, ts: u8| {
        format!(r#"{{"ph":"{phase}","cat":"kernel","name":"k","id":{id},"pid":0,"tid":7,"ts":{ts}}}"#)
    };
    let events = [event("b", 1, 1), event("b", 2, 3), event("e", 1, 5), event("e", 2, 9), event("b", 3, 9)].join(",");
    let trace = trace(&format!(r#"{{"traceEvents":[{events}]}}"#));
    let ops: Vec<_> = trace.gpu_ops.iter().map(|op| (op.start.0, op.duration.0)).collect();
    assert_eq!((ops, problems(&trace)), (vec![(1_000, 4_000), (3_000, 6_000)], vec![(ProblemKind::UnpairedSlice, 1)]));
}

/// The format says that the reader sorts. Kernels of 50 us begin every 100 us.
#[test]
fn beginnings_and_ends_in_any_order_of_the_file_give_the_same_kernels() {
    let event = |phase: &str, ts: usize| {
        format!(
            r#"{{"ph":"{phase}","cat":"kernel","name":"k","pid":0,"tid":7,"ts":{ts},"args":{{"device":0,"stream":7}}}}"#
        )
    };
    const KERNELS: usize = 300;
    let slices: Vec<(&str, usize)> =
        (0..KERNELS).flat_map(|slice| [("B", 100 * slice), ("E", 100 * slice + 50)]).collect();
    let text = |order: &dyn Fn(usize) -> usize| {
        let events: Vec<String> = (0..2 * KERNELS).map(|at| event(slices[order(at)].0, slices[order(at)].1)).collect();
        trace(&format!(r#"{{"traceEvents":[{}]}}"#, events.join(",")))
    };
    let sorted = text(&|at| at);
    assert_eq!((sorted.gpu_ops.len(), problems(&sorted)), (KERNELS, vec![]));
    // 7 has no divisor in common with 600, so each event has one place.
    let shuffled = |at: usize| (7 * at + 3) % (2 * KERNELS);
    let beginnings_first = |at: usize| if at < KERNELS { 2 * at } else { 2 * (at - KERNELS) + 1 };
    let backwards = |at: usize| 2 * KERNELS - 1 - at;
    for order in [&shuffled as &dyn Fn(usize) -> usize, &beginnings_first, &backwards] {
        let other = text(order);
        assert_eq!(problems(&other), []);
        assert!(other.gpu_ops.iter().eq(sorted.gpu_ops.iter()));
    }
}

#[test]
fn a_row_of_a_table_is_not_kept_beyond_a_limit() {
    let header = "Start (ns),Duration (ns),Device,Strm,Name\n";
    for hostile in [",".repeat(3 << 20), format!("\"{}\"", "x".repeat(40 << 20))] {
        let text = format!("{header}1,2,0,7,a\n{hostile}\n3,4,0,7,b\n");
        let trace = read_trace(Importer::new("t.csv"), text.as_bytes().chunks(1 << 16));
        assert_eq!((trace.gpu_ops.len(), problems(&trace)), (2, vec![(ProblemKind::UnreadableRow, 1)]));
    }
}

#[test]
fn slices_of_other_chrome_traces_are_read_too() {
    let text = r#"{"traceEvents":[
        {"ph":"B","cat":"cuda","name":"k","pid":"Device 1","tid":"Stream 7","ts":1,"args":{}},
        {"ph":"E","cat":"cuda","name":"k","pid":"Device 1","tid":"Stream 7","ts":3}]}"#;
    let trace = trace(text);
    let ops: Vec<_> = trace.gpu_ops.iter().map(|op| (op.start.0, op.duration.0, op.stream)).collect();
    assert_eq!((trace.format, ops), (crate::trace::Format::NsysChromeJson, vec![(1_000, 2_000, 7)]));
}

#[test]
fn device_properties_are_read_whatever_else_they_contain() {
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let properties = format!(r#"[{{"x":{},"id":0,"name":"H100","numSms":132}}]"#, deep(1_000));
    let trace_with =
        |properties: &str| trace(&format!(r#"{{"deviceProperties":{properties},"traceEvents":[{KERNEL}]}}"#));
    let read = trace_with(&properties);
    assert_eq!((read.devices[0].name.as_str(), problems(&read)), ("H100", vec![]));
    assert_eq!(
        read.devices[0].properties,
        DeviceProperties { multiprocessors: Some(132), ..DeviceProperties::default() }
    );
    assert_eq!(problems(&trace_with(r#"[{"id" 0}]"#)), [(ProblemKind::UnreadableMember, 1)]);
}

#[test]
fn an_empty_object_in_the_list_is_no_damage() {
    assert_eq!(problems(&trace(&format!(r#"{{"traceEvents":[{{}},{KERNEL},{{ }}]}}"#))), []);
}

#[test]
fn traces_of_other_tools_are_refused_by_the_name_of_the_tool() {
    let process = |name: &str| format!(r#"{{"ph":"M","pid":1,"name":"process_name","args":{{"name":"{name}"}}}}"#);
    let op = r#"{"ph":"X","pid":1,"tid":2,"ts":1.5,"dur":2,"name":"fusion","args":{"hlo_op":"fusion.1"}}"#;
    let call = r#"{"ph":"X","pid":1,"tid":2,"ts":1,"dur":2,"name":"zeInit","args":{"id":"1"}}"#;
    for (text, want) in [
        (
            format!(r#"{{"traceEvents":[{}{op},{}]}}"#, format!("{op},").repeat(300), process("/host:CPU")),
            "`.xplane.pb`",
        ),
        (format!(r#"{{"traceEvents":[{call}]}}"#), "onetrace"),
    ] {
        let refusal = refusal(&text);
        assert!(refusal.contains(want) && !refusal.contains("ProfilerActivity.CUDA"), "{refusal}");
    }
    let mixed = trace(&format!(r#"{{"traceEvents":[{},{KERNEL}]}}"#, process("/host:CPU")));
    assert_eq!(mixed.gpu_ops.len(), 1, "a trace of torch may contain a process of that name");
}
