//! Traces that are written here, field by field as each profiler writes them.

use crate::input::protobuf::testing::Writer;
use crate::input::tests::{problems, read_trace};
use crate::input::{Imported, Importer};
use crate::trace::{Format, OpKind, ProblemKind, Trace};

fn message() -> Writer {
    Writer::default()
}

fn trace_of(packets: &[Writer]) -> Vec<u8> {
    packets.iter().fold(message(), |trace, packet| trace.message(1, packet.clone())).0
}

fn read(bytes: &[u8]) -> Trace {
    read_trace(Importer::new("t.pftrace"), [bytes])
}

fn refusal(bytes: &[u8]) -> String {
    let mut importer = Importer::new("t.pftrace");
    importer.feed(bytes).and_then(|()| importer.finish().map(|_: Imported| ())).unwrap_err().to_string()
}

/// Each op as `device/stream name start+duration`.
fn ops(trace: &Trace) -> Vec<String> {
    let show = |op: crate::trace::GpuOp| {
        let device = &trace.devices[op.device.0 as usize].id;
        format!("{device}/{} {} {}+{}", op.stream, trace.names.get(op.name), op.start.0, op.duration.0)
    };
    trace.gpu_ops.iter().map(show).collect()
}

fn descriptor(id: i64, name: &str, parent: i64) -> Writer {
    message().message(60, message().number(1, id).bytes(2, name).number(5, parent))
}

fn process(id: i64, pid: i64, name: &str) -> Writer {
    message().message(60, message().number(1, id).message(3, message().number(1, pid).bytes(6, name)))
}

/// A number and a text as annotations with their names inline.
fn note(name: &str, value: i64) -> Writer {
    message().bytes(10, name).number(4, value)
}

fn text_note(name: &str, value: &str) -> Writer {
    message().bytes(10, name).bytes(6, value)
}

fn begin(time: i64, track: i64, (category, name): (&str, &str), notes: &[Writer]) -> Writer {
    let event = message().number(9, 1).number(11, track).bytes(22, category).bytes(23, name);
    let event = notes.iter().fold(event, |event, note| event.message(4, note.clone()));
    message().number(8, time).number(10, 1).message(11, event)
}

fn end(time: i64, track: i64) -> Writer {
    message().number(8, time).number(10, 1).message(11, message().number(9, 2).number(11, track))
}

/// Two kernels of two GPUs cross on one track; the times of the annotations count.
fn rocprof() -> Vec<Writer> {
    let kernel = |agent: &str, start, end| {
        [
            note("begin_ns", start),
            note("end_ns", end),
            text_note("agent", agent),
            note("stream_ID", 3),
            note("corr_id", 8),
        ]
    };
    vec![
        process(1, 50, "server"),
        descriptor(2, "THREAD 1 (50)", 1),
        descriptor(3, "STREAM [ 3 ]", 1),
        begin(10, 2, ("hip_api", "hipGraphLaunch"), &[note("begin_ns", 10), note("end_ns", 14), note("corr_id", 8)]),
        end(14, 2),
        begin(11, 2, ("hsa_api", "hsa_signal_wait"), &[]),
        end(12, 2),
        begin(5, 2, ("marker_api", "decode"), &[]),
        end(90, 2),
        begin(20, 3, ("kernel_dispatch", "a.kd"), &kernel("Agent-4", 20, 40)),
        begin(30, 3, ("kernel_dispatch", "b"), &kernel("Agent-5", 30, 50)),
        end(40, 3),
        end(50, 3),
        begin(
            60,
            3,
            ("memory_copy", "MEMORY_COPY_DEVICE_TO_HOST"),
            &[
                text_note("src_agent", "Agent-4"),
                text_note("dst_agent", "Agent-0"),
                note("copy_bytes", 64),
                note("stream_ID", 3),
            ],
        ),
        end(65, 3),
    ]
}

#[test]
fn rocprofv3_is_read_by_the_times_of_its_annotations() {
    let trace = read(&trace_of(&rocprof()));
    assert_eq!(ops(&trace), ["4/3 a 20+20", "5/3 b 30+20", "4/3 Memcpy DtoH 60+5"]);
    let launches = trace.gpu_ops.launches().map(|launch| launch.is_some()).collect::<Vec<_>>();
    assert_eq!((launches, trace.bytes.clone()), (vec![true, true, false], vec![(2, 64)]));
    assert_eq!((trace.calls.len(), trace.events.cpu, trace.format), (1, 3, Format::RocprofPerfetto));
    assert_eq!(trace.ranges.names.iter().collect::<Vec<_>>(), ["decode"]);
    assert_eq!((trace.processes[0].pid, trace.threads[0].tid, problems(&trace)), (50, 50, vec![]));
}

#[test]
fn chunks_and_descriptors_at_the_end_do_not_change_the_ops() {
    let bytes = trace_of(&rocprof());
    let whole = read(&bytes);
    for chunk in [1, 3, 16, 1_000] {
        assert_eq!(read_trace(Importer::new("t.pftrace"), bytes.chunks(chunk)), whole, "{chunk}");
    }
    let mut packets = rocprof();
    packets.rotate_left(3);
    assert_eq!(ops(&read(&trace_of(&packets))), ops(&whole));
}

/// The clocks say when a machine was started; a snapshot may come again.
#[test]
fn traces_of_two_machines_one_after_the_other_have_gpus_and_processes_of_their_own() {
    let clock = |id, time| message().number(1, id).number(2, time);
    let snapshot = |start: i64| message().message(6, message().message(1, clock(1, start + 7)).message(1, clock(6, 7)));
    let of_machine = |start: i64| [vec![snapshot(start)], rocprof(), vec![snapshot(start + 1_000)]].concat();
    let devices = |packets: &[Writer]| {
        let trace = read(&trace_of(packets));
        let processes: Vec<String> = trace.processes.iter().map(|process| process.name.clone()).collect();
        let mut devices: Vec<String> = trace.devices.iter().map(|device| device.id.clone()).collect();
        devices.sort();
        (devices, processes, trace.gpu_ops.launches().flatten().count())
    };
    let [one, other] = [1 << 60, 1 << 61];
    let two = ["[machine 1] 4", "[machine 1] 5", "[machine 2] 4", "[machine 2] 5"].map(str::to_owned).to_vec();
    let names = ["[machine 1]", "[machine 2]"].map(str::to_owned).to_vec();
    assert_eq!(devices(&[of_machine(one), of_machine(other)].concat()), (two.clone(), names.clone(), 4));
    assert_eq!(devices(&[of_machine(one), of_machine(one)].concat()).0, ["4", "5"], "two traces of one machine");
    // Without the start of the machine, the id of the trace tells.
    let id = |id| message().message(89, message().number(1, id));
    let of_trace = |number| [vec![id(number)], rocprof()].concat();
    assert_eq!(devices(&[of_trace(1), of_trace(2)].concat()), (two, names, 4));
    assert_eq!(devices(&[of_trace(1), of_trace(1)].concat()).0, ["4", "5"]);
}

#[test]
fn interned_texts_belong_to_their_sequence_until_it_is_cleared() {
    let names = |id: i64, name: &str| message().message(2, message().number(1, id).bytes(2, name));
    let categories = message().message(1, message().number(1, 1).bytes(2, "kernel_dispatch"));
    let event = || message().number(9, 1).number(11, 3).number(10, 1).number(3, 1);
    let kernel = |sequence, time| message().number(8, time).number(10, sequence).message(11, event());
    let end = |sequence, time| {
        message().number(8, time).number(10, sequence).message(11, message().number(9, 2).number(11, 3))
    };
    let setup = |sequence, name| {
        message().number(10, sequence).message(12, Writer([categories.0.clone(), names(1, name).0].concat()))
    };
    let trace = read(&trace_of(&[
        descriptor(3, "STREAM [ 0 ]", 3),
        setup(1, "one"),
        setup(2, "two"),
        kernel(1, 10),
        end(1, 11),
        kernel(2, 20),
        end(2, 21),
        message().number(10, 2).number(13, 1),
        kernel(2, 30),
        end(2, 31),
    ]));
    assert_eq!(ops(&trace), ["0/-1 one 10+1", "0/-1 two 20+1"], "after it is cleared, the category is unknown");
}

#[test]
fn render_stages_of_pytorch_are_ops_unless_their_stage_is_none() {
    let interned =
        |field, id, name_field, name: &str| message().message(field, message().number(1, id).bytes(name_field, name));
    let tables = [
        interned(24, 1, 2, "Kernel"),
        interned(24, 2, 2, "Memcpy"),
        interned(24, 4, 2, "Annotation"),
        interned(24, 5, 2, "Vertex"),
        interned(1000, 1, 3, "gemm"),
    ];
    let extra = |name: &str, value: &str| message().bytes(1, name).bytes(2, value);
    let stage = |time, fields: Writer| message().number(8, time).number(10, 1).message(53, fields);
    let size = |x| message().number(1, x).number(2, 1).number(3, 1);
    let trace = read(&trace_of(&[
        message().number(10, 1).message(12, Writer(tables.map(|table| table.0).concat())),
        process(1, 9, "python"),
        message().message(60, message().number(1, 2).number(5, 1).message(4, message().number(1, 9).number(2, 9))),
        begin(5, 2, ("cuda_runtime", "cudaLaunchKernel"), &[note("correlation", 7)]),
        end(6, 2),
        begin(1, 2, ("cpu_op", "aten::mm"), &[]),
        end(7, 2),
        stage(
            10,
            message()
                .number(1, 1)
                .number(2, 20)
                .number(11, 1)
                .number(14, 1)
                .number(19, 1)
                .message(21, message().message(1, size(132)).message(2, size(128)))
                .message(6, extra("stream id", "7"))
                .message(6, extra("correlation", "7"))
                .message(6, extra("process_id", "9")),
        ),
        stage(40, message().number(2, 4).number(11, 1).number(14, 2).message(6, extra("bytes", "64"))),
        stage(10, message().number(2, 90).number(11, 1).number(14, 4)),
        stage(10, message().number(2, 90).number(11, 1).number(14, 5)),
    ]));
    assert_eq!(ops(&trace), ["1/7 gemm 10+20", "1/-1 Memcpy 40+4"]);
    assert_eq!(trace.gpu_ops.iter().map(|op| op.kind).collect::<Vec<_>>(), [OpKind::Kernel, OpKind::Copy]);
    assert_eq!((trace.gpu_ops.launch(0).is_some(), trace.bytes.clone()), (true, vec![(1, 64)]));
    assert_eq!((problems(&trace), trace.events.other), (vec![(ProblemKind::UnknownCategory, 1)], 2));
    assert_eq!(trace.launch_configs.of_row(0).unwrap().grid, [132, 1, 1]);
    assert_eq!(trace.packed_code.unwrap().ops.iter().collect::<Vec<_>>(), ["aten::mm"]);
    assert_eq!(trace.format, Format::TorchPerfetto);
}

#[test]
fn engines_of_unitrace_are_streams_and_its_flows_join_calls_with_ops() {
    let call = message()
        .number(9, 1)
        .number(11, 2)
        .bytes(22, "cpu_op")
        .bytes(23, "zeCommandListAppendLaunchKernel")
        .fixed(47, 7);
    let op = message()
        .number(9, 1)
        .number(11, 4)
        .bytes(22, "gpu_op")
        .bytes(23, "gemm[SIMD16 {56; 1; 1} {64; 8; 1}]")
        .fixed(47, 7);
    let trace = read(&trace_of(&[
        process(1, 50, "HOST<hidden-host>"),
        message().message(60, message().number(1, 2).number(5, 1).message(4, message().number(1, 50).number(2, 51))),
        process(3, 2_147_483_647, "DEVICE<hidden-host>29:0:0 #1"),
        descriptor(4, "Thread 51 L0 Engine<0,0>", 3),
        message().number(8, 5).number(10, 1).message(11, call),
        end(6, 2),
        message().number(8, 10).number(10, 1).message(11, op),
        end(30, 4),
        begin(40, 4, ("gpu_op", "zeCommandListAppendMemoryCopy(M2D)[1048576]"), &[]),
        end(44, 4),
    ]));
    assert_eq!(ops(&trace), ["1/0 gemm 10+20", "1/0 zeCommandListAppendMemoryCopy(M2D) 40+4"]);
    assert_eq!((trace.bytes.clone(), trace.gpu_ops.launch(0).is_some()), (vec![(1, 1_048_576)], true));
    assert_eq!((trace.processes.len(), trace.format), (1, Format::UnitracePerfetto));
    assert!(!format!("{trace:?}").contains("hidden-host"));
}

#[test]
fn kernels_of_proton_have_the_scopes_of_their_call_stack() {
    let stack = [text_note("call_stack", "ROOT->step-><captured_at>->layer0->matmul")];
    let trace = read(&trace_of(&[
        descriptor(1, "GPU Stream 7", 1),
        descriptor(2, "Graph: Stream 7", 2),
        descriptor(3, "CPU Thread 0", 3),
        begin(0, 3, ("scope", "step"), &[]),
        end(50, 3),
        begin(5, 2, ("scope", "layer0"), &[]),
        end(40, 2),
        begin(10, 1, ("kernel", "matmul"), &stack),
        end(30, 1),
        begin(31, 1, ("kernel", "<metric>"), &stack),
        end(32, 1),
    ]));
    assert_eq!(ops(&trace), ["0/7 matmul 10+20"]);
    assert_eq!(trace.node_notes.of_row(0).unwrap().annotation, "step/layer0");
    assert_eq!(trace.ranges.names.iter().collect::<Vec<_>>(), ["step"]);
    assert_eq!(trace.format, Format::ProtonPerfetto);
}

#[test]
fn packets_that_the_service_compressed_are_read() {
    use std::io::Write;
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&trace_of(&rocprof())).unwrap();
    let compressed = encoder.finish().unwrap();
    let whole = read(&trace_of(&rocprof()));
    assert_eq!(ops(&read(&trace_of(&[message().number(10, 3), message().bytes(50, &compressed)]))), ops(&whole));
    let cut = &compressed[..compressed.len() / 2];
    let mut packets = vec![message().bytes(50, cut)];
    packets.extend(rocprof());
    assert!(problems(&read(&trace_of(&packets))).contains(&(ProblemKind::UnreadableEvent, 1)));
}

#[test]
fn packets_that_need_a_lost_state_are_counted_and_not_placed() {
    const CLEARED: i64 = 1;
    const NEEDS: i64 = 2;
    let kernel = |time: i64, flags: i64, dropped: i64| {
        let begin = begin(time, 1, ("kernel", "k"), &[]).number(13, flags).number(42, dropped);
        [begin, end(time + 5, 1).number(13, NEEDS)]
    };
    let kernels = [
        kernel(10, NEEDS, 0),
        kernel(20, CLEARED, 0),
        kernel(30, NEEDS, 0),
        kernel(40, NEEDS, 1),
        kernel(50, NEEDS | CLEARED, 1),
    ];
    let mut packets = vec![descriptor(1, "GPU Stream 7", 1)];
    packets.extend(kernels.concat());
    let trace = read(&trace_of(&packets));
    assert_eq!(ops(&trace), ["0/7 k 20+5", "0/7 k 30+5", "0/7 k 50+5"]);
    // Two packets before the first state; two after a loss, and both losses.
    assert_eq!(problems(&trace), [(ProblemKind::UnreadableEvent, 6)]);
}

#[test]
fn what_cannot_be_read_is_counted() {
    let kernel = |track: i64| [begin(10, track, ("kernel", "k"), &[]), end(15, track)];
    let mut packets = vec![descriptor(1, "GPU Stream 7", 1), descriptor(2, &"long ".repeat(1_000), 2)];
    packets.extend([kernel(1), kernel(2)].concat());
    packets.push(message().bytes(133, "zstd"));
    let trace = read(&trace_of(&packets));
    assert_eq!(ops(&trace), ["0/7 k 10+5"]);
    assert_eq!(problems(&trace), [(ProblemKind::UnreadableEvent, 1), (ProblemKind::UnknownCategory, 1)]);
}

#[test]
fn a_cut_damaged_or_foreign_trace_is_told() {
    let bytes = trace_of(&rocprof());
    let cut = read(&bytes[..bytes.len() - 3]);
    assert_eq!(problems(&cut), [(ProblemKind::Truncated, 1), (ProblemKind::UnpairedSlice, 1)]);
    let mut packets = rocprof();
    packets.insert(9, Writer(vec![0x08, 0x01, 0x0b]));
    assert_eq!(problems(&read(&trace_of(&packets))), [(ProblemKind::UnreadableEvent, 1)]);
    let damaged = read(&[bytes.clone(), vec![0x0f]].concat());
    assert_eq!(problems(&damaged), [(ProblemKind::Damaged, 1)]);
    let dropped = message().number(42, 1).number(10, 1);
    assert_eq!(problems(&read(&[bytes, trace_of(&[dropped])].concat())), [(ProblemKind::UnreadableEvent, 1)]);
    let system = message().number(8, 1).number(10, 1).message(1, message().number(1, 0));
    assert!(refusal(&trace_of(&[system])).contains("without GPU work"));
    assert!(refusal(&trace_of(&rocprof())[..7]).contains("before its first packet ends"));
}

#[test]
fn texts_that_begin_with_an_empty_line_are_no_protobuf() {
    for text in ["\n{\"traceEvents\":[]}", "\nb\x0c", "\nAbc", "\n\n\n", "\nStart (ns),Duration (ns)\n"] {
        assert!(!super::is_perfetto(text.as_bytes()), "{text:?}");
    }
}
