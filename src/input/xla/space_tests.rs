//! XSpace files that are written here, field by field after `xplane.proto`.

use crate::input::protobuf::testing::Writer;
use crate::input::tests::{problems, read_trace};
use crate::input::{Imported, Importer};
use crate::trace::{CallId, Format, OpKind, ProblemKind, Trace};

fn message() -> Writer {
    Writer::default()
}

/// An entry of the names of events or stats.
fn named(id: i64, name: &str) -> Writer {
    message().number(1, id).message(2, message().number(1, id).bytes(2, name))
}

/// A stat with a number, and one whose value is the name of another stat.
fn number(id: i64, value: i64) -> Writer {
    message().number(1, id).number(4, value)
}

fn reference(id: i64, to: i64) -> Writer {
    message().number(1, id).number(7, to)
}

fn event(name: i64, offset_ps: i64, duration_ps: i64, stats: &[Writer]) -> Writer {
    let event = message().number(1, name).number(2, offset_ps).number(3, duration_ps);
    stats.iter().fold(event, |event, stat| event.message(4, stat.clone()))
}

fn line(id: i64, name: &str, start_ns: i64, events: &[Writer]) -> Writer {
    let line = message().number(1, id).bytes(2, name).number(3, start_ns);
    events.iter().fold(line, |line, event| line.message(4, event.clone()))
}

const CORRELATION: i64 = 1;
const KERNEL_DETAILS: i64 = 2;
const DETAILS: i64 = 3;
const HLO_OP: i64 = 4;
const DOT: i64 = 5;
const COPY_DETAILS: i64 = 6;
const COPY: i64 = 7;
const ALLOCATION: i64 = 8;
const STEP: i64 = 9;

/// Lines come before the names, as in real files.
fn plane(name: &str, lines: &[Writer], events: &[&str]) -> Writer {
    let plane = lines.iter().fold(message().bytes(2, name), |plane, line| plane.message(3, line.clone()));
    let plane = (1..).zip(events).fold(plane, |plane, (id, name)| plane.message(4, named(id, name)));
    let stats = [
        "correlation_id",
        "kernel_details",
        "grid:8,1,1 block:128,1,1",
        "hlo_op",
        "dot.1",
        "memcpy_details",
        "kind_src:pinned kind_dst:device size:64 dest:0 async:1",
        "memalloc_details",
        "step_num",
        "core_count",
    ];
    (1..).zip(stats).fold(plane, |plane, (id, name)| plane.message(5, named(id, name)))
}

fn gpu() -> Writer {
    let kernel = event(
        1,
        10_000_999,
        40_000_001,
        &[number(CORRELATION, 7), reference(KERNEL_DETAILS, DETAILS), reference(HLO_OP, DOT)],
    );
    let copy = event(2, 0, 5_000_000, &[reference(COPY_DETAILS, COPY)]);
    let allocation = event(3, 1_000_000, 5_000_000, &[reference(ALLOCATION, COPY)]);
    let aggregate = message().number(1, 1).number(5, 12).number(3, 9_000);
    let stream = line(13, "Stream #13(Kernel,MemcpyH2D)", 1_000, &[kernel, copy, allocation, aggregate]);
    let derived = line(-559_038_737, "XLA Ops", 1_000, &[event(1, 10_000_000, 40_000_000, &[])]);
    plane("/device:GPU:2", &[stream, derived], &["gemm.kd", "MemcpyH2D", "Alloc"])
        .message(6, message().number(1, 10).number(3, 132))
}

fn host() -> Writer {
    let call = event(1, 2_000_000, 3_000_000, &[number(CORRELATION, 7)]);
    let step = event(2, 0, 90_000_000, &[number(STEP, 4)]);
    let events =
        [step, event(3, 1_000_000, 50_000_000, &[]), event(4, 0, 80_000_000, &[]), event(3, 2_000_000, 0, &[])];
    plane(
        "/host:CPU",
        &[line(5, "Host Threads/4242", 1_000, &[call]), line(77, "python", 900, &events)],
        &["cuLaunchKernel", "train", "PjitFunction(step)", "$a.py:10 run"],
    )
}

fn space(planes: &[Writer]) -> Vec<u8> {
    let space = planes.iter().fold(message(), |space, plane| space.message(1, plane.clone()));
    space.bytes(4, "private-host").0
}

fn read(bytes: &[u8]) -> Trace {
    read_trace(Importer::new("h.xplane.pb"), [bytes])
}

#[test]
fn ops_calls_steps_and_functions_are_read_by_hand() {
    let trace = read(&space(&[gpu(), host()]));
    assert_eq!(trace.format, Format::XlaXspace);
    // 1000 ns and 10.000999 us: cut to 11000 ns; the end 51.001 us: 51001 ns.
    let ops: Vec<_> = trace
        .gpu_ops
        .iter()
        .map(|op| (trace.names.get(op.name), op.kind, op.stream, op.start.0, op.duration.0))
        .collect();
    let copy = ("Memcpy HtoD (Pinned -> Device)", OpKind::Copy, 13, 1_000, 5_000);
    assert_eq!(ops, [copy, ("gemm", OpKind::Kernel, 13, 11_000, 40_001)]);
    assert_eq!(trace.gpu_ops.launches().collect::<Vec<_>>(), [None, Some(CallId(0))]);
    assert_eq!(trace.bytes, [(0, 64)]);
    assert_eq!(trace.node_notes.of_row(1).unwrap().annotation, "dot.1");
    assert_eq!(trace.launch_configs.of_row(1).unwrap().grid, [8, 1, 1]);
    assert_eq!((trace.devices[0].id.as_str(), trace.devices[0].properties.multiprocessors), ("2", Some(132)));
    let ranges: Vec<_> = trace.ranges.iter().map(|range| (trace.ranges.names.get(range.name), range.start.0)).collect();
    assert_eq!(ranges, [("train step 4", 900), ("PjitFunction(step)", 1_900)], "an instant is no range");
    assert_eq!(trace.packed_code.as_ref().unwrap().functions.iter().collect::<Vec<_>>(), ["a.py(10): run"]);
    let tids: Vec<_> = trace.threads.iter().map(|thread| thread.tid).collect();
    assert_eq!((tids, trace.events.cpu, trace.events.python_frames), (vec![4242, 77], 5, 1));
    assert_eq!(problems(&trace), [(ProblemKind::OpWithoutTime, 1)], "an aggregate has no time");
    assert!(!format!("{trace:?}").contains("private-host"));
}

#[test]
fn profiles_of_two_machines_one_after_the_other_are_two_gpus_and_two_processes() {
    let profile = || space(&[gpu(), host()]);
    let merged = space(&[gpu(), host(), gpu(), host()]);
    for bytes in [[profile(), profile()].concat(), merged] {
        let trace = read(&bytes);
        let devices: Vec<&str> = trace.devices.iter().map(|device| device.id.as_str()).collect();
        assert_eq!(devices, ["[machine 1] 2", "[machine 2] 2"]);
        let processes: Vec<&str> = trace.processes.iter().map(|process| process.name.as_str()).collect();
        assert_eq!(processes, ["[machine 1]", "[machine 2]"]);
        let launches: Vec<CallId> = trace.gpu_ops.launches().flatten().collect();
        assert_eq!(launches, [CallId(0), CallId(1)], "each op has the call of its own machine");
    }
}

#[test]
fn ops_of_a_tpu_contain_others_and_have_the_category_of_their_name() {
    let category = named(1, "hlo_category");
    let value = named(2, "convolution fusion");
    let metadata = message()
        .number(1, 1)
        .bytes(2, "%fusion.1 = bf16[8] fusion(%p)")
        .bytes(4, "fusion.1")
        .message(5, reference(1, 2));
    let outer = event(2, 0, 30_000, &[]);
    let plane = message()
        .bytes(2, "/device:TPU:0")
        .message(3, line(2, "XLA Ops", 5, &[outer, event(1, 5_250, 10_333, &[])]))
        .message(3, line(3, "Async XLA Ops", 5, &[event(1, 0, 90_000, &[])]))
        .message(4, message().number(1, 1).message(2, metadata))
        .message(4, named(2, "while.7"))
        .message(5, category)
        .message(5, value);
    let trace = read(&space(&[plane]));
    let ops: Vec<_> = trace.gpu_ops.iter().map(|op| (trace.names.get(op.name), op.start.0, op.duration.0)).collect();
    assert_eq!(ops, [("while.7", 5, 30), ("fusion.1", 10, 10)]);
    assert_eq!(trace.node_notes.of_row(1).unwrap().annotation, "convolution fusion");
    assert_eq!((trace.devices[0].id.as_str(), trace.events.other), ("TPU 0", 1));
}

#[test]
fn stats_of_a_name_hold_for_its_events_unless_they_have_their_own() {
    let metadata = message()
        .number(1, 1)
        .bytes(2, "fusion")
        .message(5, reference(KERNEL_DETAILS, DETAILS))
        .message(5, reference(HLO_OP, DOT));
    let own = message().number(1, HLO_OP).bytes(5, "add.2");
    // No writer is known that has the stats before the name.
    let name_last = message().message(4, own.clone()).number(2, 18_000).number(3, 5_000).number(1, 1);
    let empty = message().number(1, HLO_OP).bytes(5, "");
    let events =
        [event(1, 0, 5_000, &[]), event(1, 9_000, 5_000, &[own]), name_last, event(1, 27_000, 5_000, &[empty])];
    let plane = plane("/device:GPU:0", &[line(1, "Stream #1", 0, &events)], &[])
        .message(4, message().number(1, 1).message(2, metadata));
    let trace = read(&space(&[plane]));
    let notes = [0, 1, 2, 3].map(|row| trace.node_notes.of_row(row).unwrap().annotation.clone());
    assert_eq!(notes, ["dot.1", "add.2", "add.2", "dot.1"]);
    assert!((0..4).all(|row| trace.launch_configs.of_row(row).unwrap().grid == [8, 1, 1]));
}

#[test]
fn chunks_do_not_change_the_trace() {
    let bytes = space(&[gpu(), host()]);
    let whole = read(&bytes);
    for chunk in [1, 2, 7, 64, 1_000] {
        assert_eq!(read_trace(Importer::new("h.xplane.pb"), bytes.chunks(chunk)), whole, "{chunk}");
    }
}

#[test]
fn a_cut_file_keeps_the_planes_before_the_cut_and_says_where() {
    let bytes = space(&[gpu(), host()]);
    let cut = &bytes[..bytes.len() - 40];
    let trace = read(cut);
    assert_eq!((trace.gpu_ops.len(), trace.calls.len()), (2, 0));
    let truncated = trace.problems.iter().find(|problem| problem.kind == ProblemKind::Truncated).unwrap();
    assert_eq!((truncated.count, truncated.first_at), (1, cut.len() as u64));
    let mut importer = Importer::new("h.xplane.pb");
    importer.feed(&bytes[..60]).unwrap();
    let refusal = importer.finish().unwrap_err().to_string();
    assert!(
        refusal.contains("cut short in its first plane, which starts at byte 0: copy or capture it again"),
        "{refusal}"
    );
}

#[test]
fn damage_costs_its_part_only() {
    // A group, which nobody writes any more, in an event; then in a plane; then between planes.
    let broken_event = Writer(vec![0x0b, 0x08]);
    let stream = line(1, "Stream #1", 0, &[event(1, 0, 5_000, &[]), broken_event.clone(), event(1, 9_000, 5_000, &[])]);
    let trace = read(&space(&[plane("/device:GPU:0", &[stream], &["k"])]));
    assert_eq!((trace.gpu_ops.len(), problems(&trace)), (2, vec![(ProblemKind::UnreadableEvent, 1)]));
    let mut broken_plane = gpu();
    broken_plane.0.push(0x0b);
    let trace = read(&space(&[gpu(), broken_plane]));
    assert_eq!(trace.gpu_ops.len(), 2);
    assert!(trace.problems.has(ProblemKind::Damaged) && trace.problems.is_cut_short());
    let trace = read(&[space(&[gpu()]), vec![0x0b], space(&[gpu()])].concat());
    assert_eq!((trace.gpu_ops.len(), trace.problems.has(ProblemKind::Damaged)), (2, true));
}

#[test]
fn ops_without_a_name_are_counted_and_times_beyond_the_clock_are_left_out() {
    let far = event(1, i64::MAX, i64::MAX, &[]);
    let negative = event(1, 0, -5_000, &[]);
    let stream = line(1, "Stream #1", 0, &[event(99, 0, 5_000, &[]), far, negative]);
    let trace = read(&space(&[plane("/device:GPU:0", &[stream], &["k"])]));
    assert_eq!(trace.names.iter().collect::<Vec<_>>(), ["(a name is missing)"]);
    assert_eq!(problems(&trace), [(ProblemKind::ImpossibleDuration, 2), (ProblemKind::MissingName, 1)]);
}

#[test]
fn a_profile_of_a_cpu_has_no_op_and_messages_of_the_profiler_are_kept_in_part() {
    let trace = read(&space(&[host()]));
    assert_eq!((trace.gpu_ops.len(), trace.ranges.len(), trace.diagnostics.len()), (0, 2, 0));
    let idle = message().message(1, message().bytes(2, "/device:GPU:0"));
    let trace = read(&(0..9).fold(idle, |space, index| space.bytes(2, format!("{index}{}", "x".repeat(999)))).0);
    assert_eq!((trace.devices.len(), trace.diagnostics.len()), (0, 6));
    assert!(trace.diagnostics.iter().all(|text| text.len() == 200));
}

/// A text that all events share is read once.
#[test]
fn events_with_a_long_name_cost_no_more_than_others() {
    const EVENTS: i64 = 20_000;
    let long = "\u{e9}".repeat(500_000);
    let kernel = |index: i64| event(1, index * 10_000, 5_000, &[reference(HLO_OP, 11), reference(COPY_DETAILS, 11)]);
    let step = |index: i64| event(1, index * 10_000, 5_000, &[number(STEP, index)]);
    let stream = line(1, "Stream #1", 0, &(0..EVENTS).map(kernel).collect::<Vec<_>>());
    let steps = line(1, "python", 0, &(0..EVENTS).map(step).collect::<Vec<_>>());
    let gpu = plane("/device:GPU:0", &[stream], &[&long]).message(5, named(11, &long));
    let trace = read(&space(&[gpu, plane("/host:CPU", &[steps], &[&long])]));
    assert_eq!((trace.gpu_ops.len(), trace.ranges.len(), trace.names.len()), (20_000, 20_000, 1));
    assert_eq!(problems(&trace), [(ProblemKind::LongName, 1)]);
    assert!(trace.names.iter().all(|name| name.len() <= 64 << 10));
    assert!(trace.ranges.names.iter().all(|name| name.len() <= 2 << 10));
    assert_eq!(trace.node_notes.of_row(19_999).unwrap().annotation, "\u{e9}".repeat(2 << 10));
    assert_eq!(trace.node_notes.of_row(0), trace.node_notes.of_row(19_999));
}

#[test]
fn a_file_that_went_through_a_text_conversion_is_refused_as_such() {
    let text = String::from_utf8_lossy(&space(&[gpu()])).into_owned();
    let mut importer = Importer::new("x.xplane.pb");
    let refusal = importer.feed(text.as_bytes()).and_then(|()| importer.finish().map(|_: Imported| ())).unwrap_err();
    assert!(refusal.to_string().contains("converted to text"), "{refusal}");
}
