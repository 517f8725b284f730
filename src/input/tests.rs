//! Tests of all stream formats: dialects, chunk boundaries, damaged and hostile files.

use super::gunzip::tests::gzip;
use super::*;
use crate::trace::{DeviceProperties, GpuOp, Ns, OpKind};
use proptest::prelude::*;

fn import(mut importer: Importer, chunks: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<Imported> {
    chunks.into_iter().try_for_each(|chunk| importer.feed(chunk.as_ref()))?;
    importer.finish()
}

fn import_chunks(chunks: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<Imported> {
    import(Importer::new("t.json"), chunks)
}

/// Reads chunks that must be a trace.
pub(super) fn read_trace(importer: Importer, chunks: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Trace {
    match import(importer, chunks) {
        Ok(Imported::Trace(trace)) => *trace,
        other => panic!("no trace: {other:?}"),
    }
}

fn read_chunks(chunks: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Trace {
    read_trace(Importer::new("t.json"), chunks)
}

fn trace(text: &str) -> Trace {
    read_chunks([text])
}

/// Returns name, start, duration, device and kind of every op.
fn ops(trace: &Trace) -> Vec<(&str, i64, i64, &str, OpKind)> {
    let device = |op: &GpuOp| trace.devices[op.device.0 as usize].id.as_str();
    let ops = trace.gpu_ops.iter();
    ops.map(|op| (trace.names.get(op.name), op.start.0, op.duration.0, device(&op), op.kind)).collect()
}

/// Returns kind and count of all problems.
pub(super) fn problems(trace: &Trace) -> Vec<(ProblemKind, u64)> {
    trace.problems.iter().map(|problem| (problem.kind, problem.count)).collect()
}

/// An event with a duration.
fn complete_event(members: &str) -> String {
    format!(r#"{{"ph": "X", {members}}}"#)
}

fn kernel_at(name: &str, ts: &str, dur: &str) -> String {
    let args = r#"{"device": 0, "stream": 7, "grid": [1, 1, 1]}"#;
    let times = format!(r#""ts": {ts}, "dur": {dur}"#);
    complete_event(&format!(r#""cat": "kernel", "name": "{name}", "pid": 0, "tid": 7, {times}, "args": {args}"#))
}

fn kernel(name: &str) -> String {
    kernel_at(name, "1", "1")
}

/// Kernels `k0`, `k1`, ..., one per microsecond.
fn kernels(count: usize) -> Vec<String> {
    (0..count).map(|index| kernel_at(&format!("k{index}"), &index.to_string(), "1")).collect()
}

fn with_events(events: &[String]) -> String {
    let properties = r#""schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}]"#;
    let name = r#""traceName": "/tmp/a]b{.json""#;
    format!("{{\n  {properties},\n  \"traceEvents\": [\n  {}\n  ],\n  {name}\n}}\n", events.join(",\n  "))
}

#[test]
fn an_op_far_outside_of_the_profile_is_left_out_and_collectives_have_their_numbers() {
    let kernel_at = |ts: &str| kernel_at("k", ts, "5");
    let collective =
        r#""args": {"device": 0, "stream": 7, "correlation": 3, "Collective name": "allreduce", "Seq": 12}"#;
    let collective = complete_event(&format!(
        r#""cat": "kernel", "name": "ncclDevKernel", "pid": 0, "tid": 7, "ts": 30, "dur": 5, {collective}"#
    ));
    let profile = complete_event(
        r#""cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "t", "ts": 5, "dur": 50"#,
    );
    let events = [kernel_at("10"), kernel_at("20"), collective, kernel_at("9000"), profile].join(", ");
    let trace = trace(&format!(r#"{{"traceEvents": [{events}]}}"#));
    assert_eq!((trace.gpu_ops.len(), problems(&trace)), (3, vec![(ProblemKind::ImpossibleDuration, 1)]));
    assert_eq!(trace.collectives.iter().map(|(row, call)| (*row, call.sequence)).collect::<Vec<_>>(), [(2, Some(12))]);
}

#[test]
fn devices_have_the_figures_of_their_hardware() {
    let read = |entry: &str| {
        let text = format!(r#"{{"deviceProperties": [{entry}], "traceEvents": [{}]}}"#, kernel("k"));
        trace(&text).devices[0].properties
    };
    let figures = r#""id": 0, "totalGlobalMem": 206141652992, "computeMajor": 9, "computeMinor": 4, "numSms": 304"#;
    let (multiprocessors, memory_bytes) = (Some(304), Some(206_141_652_992));
    let nvidia = read(&format!(r#"{{{figures}, "name": "", "warpSize": 32}}"#));
    assert_eq!(nvidia, DeviceProperties { capability: Some(94), multiprocessors, memory_bytes });
    let amd = read(&format!(r#"{{{figures}, "name": "", "warpSize": 64}}"#));
    assert_eq!(amd, DeviceProperties { capability: None, multiprocessors, memory_bytes }, "gfx942 is no capability");
    let without_warp = |name: &str| read(&format!(r#"{{{figures}, "name": "{name}"}}"#)).capability;
    assert_eq!(["NVIDIA H100", "Tesla V100", "AMD Instinct", ""].map(without_warp), [Some(94), Some(94), None, None]);
    assert_eq!(read(r#"{"id": 0, "name": "NVIDIA H100"}"#), DeviceProperties::default());
    assert_eq!(read(r#"{"id": 0, "computeMajor": -1, "numSms": 1e99}"#), DeviceProperties::default(), "absurd");
}

/// Twice, so that the second frame begins like an event that was skipped before.
#[test]
fn functions_that_run_a_step_are_read_with_and_without_other_code() {
    let frame = |name: &str, ts: i64| {
        let times = format!(r#""pid": 9, "tid": 9, "ts": {ts}, "dur": 5"#);
        complete_event(&format!(r#""cat": "python_function", "name": "{name}", {times}, "args": {{"Python id": 1}}"#))
    };
    let names = ["vllm/v1/worker/gpu_model_runner.py(12): execute_model", "a/gpu_model_runner.py(7): _prepare_inputs"];
    let mut events = vec![kernel("k")];
    for round in 0..3 {
        events.extend(names.iter().zip(0..).map(|(name, index)| frame(name, 100 * round + index)));
    }
    // Members in another order, and one without a duration.
    let early = format!(
        r#"{{"name": "{}", "ts": 50, "dur": 1, "tid": 9, "pid": 9, "cat": "python_function", "ph": "X"}}"#,
        names[0]
    );
    let broken =
        complete_event(&format!(r#""cat": "python_function", "name": "{}", "ts": 1, "pid": 9, "tid": 9"#, names[0]));
    events.extend([early, broken]);
    let text = with_events(&events);
    let frames = |trace: &Trace| -> Vec<(i64, i64, String)> {
        let frames = &trace.step_frames;
        frames.iter().map(|frame| (frame.start.0, frame.duration.0, frames.names.get(frame.name).to_owned())).collect()
    };
    let expected: Vec<(i64, i64, String)> = [(0, 5_000), (50_000, 1_000), (100_000, 5_000), (200_000, 5_000)]
        .map(|(start, duration)| (start, duration, names[0].to_owned()))
        .into();
    for importer in [Importer::new("t.json"), Importer::with_code("t.json")] {
        assert_eq!(frames(&read_trace(importer, [text.as_str()])), expected);
    }
}

#[test]
fn gpus_of_one_kind_are_known_although_rocm_numbers_them_differently() {
    let name = |entries: &str| {
        let op = kernel("k").replace(r#""device": 0"#, r#""device": 9"#);
        let text = format!(r#"{{"deviceProperties": [{entries}], "traceEvents": [{op}]}}"#);
        trace(&text).devices[0].name.clone()
    };
    let mi300 = |id: u32| format!(r#"{{"id": {id}, "name": "AMD Instinct MI300X", "warpSize": 64}}"#);
    let other = r#"{"id": 1, "name": "AMD Instinct MI210", "warpSize": 64}"#;
    assert_eq!(name(&mi300(0)), "AMD Instinct MI300X");
    assert_eq!(name(&format!("{}, {}", mi300(0), mi300(1))), "AMD Instinct MI300X");
    assert_eq!(name(&format!("{}, {other}", mi300(0))), "", "of two kinds, either is possible");
    assert_eq!(name(r#"{"id": 0, "name": "NVIDIA H100", "warpSize": 32}"#), "", "CUDA uses one numbering");
}

#[test]
fn events_may_have_their_keys_in_any_order() {
    let plain = r#""ph": "X", "cat": "kernel", "name": "k", "pid": 3, "tid": 7, "ts": 10.5, "dur": 2.25"#;
    let args = r#""args": {"a": {"device": 9}, "device": 1, "b": [{"device": 8}], "stream": 20}"#;
    let members: Vec<&str> = plain.split(", ").collect();
    let reversed: Vec<&str> = members.iter().rev().copied().collect();
    for event in [
        format!("{{{plain}, {args}}}"),
        format!("{{{args}, {plain}}}"),
        format!("{{{}, {args}}}", reversed.join(",")),
        format!("{{\n{}\n,{args}\n}}", reversed.join("\n ,\n ")),
    ] {
        let expected = [("k", 10_500, 2_250, "1", OpKind::Kernel)];
        assert_eq!(ops(&trace(&with_events(std::slice::from_ref(&event)))), expected, "{event}");
    }
}

#[test]
fn old_and_new_dialects_give_the_same_ops() {
    let text = r#"{"baseTimeNanoseconds": 5, "traceEvents": [
        {"ph": "X", "cat": "Kernel", "name": "a", "pid": 0, "tid": "stream 7", "ts": 1623143093553659, "dur": 2, "args": {"external id": 1}},
        {"ph": "X", "cat": "Memcpy", "name": "b", "pid": "1", "tid": "stream 7", "ts": "1623143093553660.001", "dur": "1.5"},
        {"ph": "X", "cat": "Memset", "name": "c", "pid": 0, "tid": 7, "ts": 1623143093553661, "dur": 0, "args": {"device": 0}},
        {"ph": "X", "cat": "gpu_memset", "name": "d", "pid": "[TP01-EP00] 4", "ts": 1.623143093553662e15, "dur": 1, "args": {"device": 4}},
        {"ph": "X", "cat": "gpu_memcpy", "name": "e\u0041\"", "pid": 0, "ts": 1623143093553663, "dur": 1, "args": {"device": "0"}}
    ], "displayTimeUnit": "ms", "schemaVersion": 1}"#;
    let base = 1_623_143_093_553_659_000;
    let expected = [
        ("a", base, 2_000, "0", OpKind::Kernel),
        ("b", base + 1_001, 1_500, "1", OpKind::Copy),
        ("c", base + 2_000, 0, "0", OpKind::Set),
        ("d", base + 3_000, 1_000, "[TP01-EP00] 4", OpKind::Set),
        ("eA\"", base + 4_000, 1_000, "0", OpKind::Copy),
    ];
    assert_eq!(ops(&trace(text)), expected);
    let events = &text[text.find('[').unwrap()..=text.rfind(']').unwrap()];
    assert_eq!(ops(&trace(events)), expected, "as a bare array");
}

#[test]
fn events_other_than_gpu_ops_are_counted_but_not_stored() {
    let host = |category: &str| {
        complete_event(&format!(r#""cat": "{category}", "name": "x", "ts": 1, "dur": 2, "pid": 1, "tid": 1"#))
    };
    let categories = ["cpu_op", "python_function", "cuda_runtime", "user_annotation", "gpu_user_annotation", "ac2g"];
    let mut events: Vec<String> = categories.map(host).into();
    events.push(r#"{"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}}"#.to_owned());
    events.push(r#"{"ph": "s", "cat": "kernel", "name": "flow", "pid": 0, "ts": 1}"#.to_owned());
    let trace = trace(&with_events(&events));
    assert_eq!((trace.gpu_ops.len(), trace.events.cpu, trace.events.python_frames, trace.events.other), (0, 4, 1, 4));
}

#[test]
fn correlation_ids_are_matched_within_a_rank() {
    let text = r#"{"traceEvents": [
        {"ph": "X", "cat": "kernel", "name": "k", "pid": "[TP01] 1", "tid": 7, "ts": 20, "dur": 2, "args": {"device": 1, "stream": 7, "correlation": 5}},
        {"ph": "X", "cat": "gpu_memcpy", "name": "c", "pid": "[TP00] 0", "tid": 7, "ts": 12, "dur": 2, "args": {"device": 0, "stream": 7, "correlation": 5, "bytes": 4096}},
        {"ph": "X", "cat": "kernel", "name": "graph", "pid": "[TP00] 0", "ts": 30, "dur": 2, "args": {"device": 0, "stream": 7, "correlation": 4000000000}},
        {"ph": "X", "cat": "kernel", "name": "lost", "pid": "[TP00] 0", "ts": 40, "dur": 2, "args": {"device": 0, "stream": 7, "correlation": 6}},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": "[TP01] 900", "tid": 901, "ts": 15, "dur": 3, "args": {"correlation": 5}},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaMemcpyAsync", "pid": "[TP00] 800", "tid": 801, "ts": 10, "dur": 1, "args": {"correlation": 5}},
        {"ph": "X", "cat": "cuda_driver", "name": "cuGraphLaunch", "pid": "[TP00] 800", "tid": 801, "ts": 25, "dur": 1, "args": {"correlation": 4000000000}},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaGetDevice", "pid": "[TP00] 800", "tid": 801, "ts": 26, "dur": 1, "args": {"correlation": 6}},
        {"ph": "X", "cat": "user_annotation", "name": "step", "pid": "[TP00] 800", "tid": "801", "ts": 1, "dur": 90}
    ]}"#;
    let trace = trace(text);
    let launched: Vec<_> = trace
        .gpu_ops
        .iter()
        .zip(trace.gpu_ops.launches())
        .map(|(op, call)| {
            let call = call.and_then(|call| trace.calls.get(call.0 as usize));
            (trace.names.get(op.name), call.map_or("", |call| trace.calls.names.get(call.name)))
        })
        .collect();
    assert_eq!(
        launched,
        [("c", "cudaMemcpyAsync"), ("k", "cudaLaunchKernel"), ("graph", "cuGraphLaunch"), ("lost", "")]
    );
    assert_eq!(trace.bytes, [(0, 4096)]);
    let processes: Vec<_> = trace.processes.iter().map(|process| (process.pid, &*process.name)).collect();
    assert_eq!(processes, [(900, "[TP01]"), (800, "[TP00]")]);
    let step = trace.ranges.get(0).unwrap();
    let thread = trace.threads[step.thread.0 as usize];
    assert_eq!((trace.ranges.names.get(step.name), thread.tid, step.duration), ("step", 801, Ns(90_000)));
    assert_eq!(trace.events.cpu, 5, "calls and annotations count as CPU events even if they are not stored");
}

#[test]
fn collectives_have_their_message_sizes() {
    let text = with_events(&[r#"{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "pid": 0, "tid": 3, "ts": 1, "dur": 2, "args": {"device": 0, "stream": 3, "correlation": 1, "Collective name": "allreduce", "In msg nelems": 100, "Out msg nelems": 50, "Group size": 2, "dtype": "BFloat16", "Process Group Name": "0"}}"#.to_owned()]);
    let trace = trace(&text);
    let (op, collective) = &trace.collectives[0];
    assert_eq!((*op, &*collective.operation, &*collective.communicator), (0, "allreduce", "0"));
    assert_eq!((collective.bytes_in, collective.bytes_out, collective.ranks), (Some(200), Some(100), Some(2)));
}

/// The kernel of an old torch version does not have its message; the annotation around its launch has the tensors.
#[test]
fn collectives_have_the_sizes_of_the_annotation_around_their_launch() {
    let range = |cat: &str, name: &str, tid: u32, dims: &str| {
        let times = r#""ts": 10, "dur": 20"#;
        format!(
            r#"{{"ph": "X", "cat": "{cat}", "name": "{name}", "pid": 7, "tid": {tid}, {times}, "args": {{"External id": 1, "Input Dims": {dims}, "Input type": ["float"]}}}}"#
        )
    };
    let call = |id: u32, start: u32| {
        format!(
            r#"{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 8, "ts": {start}, "dur": 2, "args": {{"correlation": {id}}}}}"#
        )
    };
    let kernel = |name: &str, id: u32, args: &str| {
        format!(
            r#"{{"ph": "X", "cat": "kernel", "name": "{name}", "pid": 0, "tid": 3, "ts": 5{id}, "dur": 1, "args": {{"device": 0, "stream": 3, "correlation": {id}{args}}}}}"#
        )
    };
    let sizes = |events: &[String]| {
        let sizes = trace(&with_events(events)).collectives.into_iter();
        sizes.map(|(row, message)| (row, message.operation, message.bytes_in)).collect::<Vec<_>>()
    };
    let annotation = range("user_annotation", "nccl:all_to_all", 8, "[[24, 2]]");
    let nccl = "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)";
    let one = [annotation.clone(), call(1, 12), kernel("copy", 1, ""), call(2, 16), kernel(nccl, 2, "")];
    assert_eq!(sizes(&one), [(1, "nccl:all_to_all".to_owned(), Some(192))]);
    // Recorded with the kernel.
    let recorded = r#", "Collective name": "all_to_all", "In msg nelems": 5, "dtype": "Float""#;
    let kernel_with_message = [annotation.clone(), call(2, 16), kernel(nccl, 2, recorded)];
    assert_eq!(sizes(&kernel_with_message), [(0, "all_to_all".to_owned(), Some(20))]);
    // Launched after the annotation; another thread; two kernels; no tensor; not a collective; not on the host.
    let after = [annotation.clone(), call(2, 29), kernel(nccl, 2, "")];
    let two = [annotation, call(1, 12), kernel(nccl, 1, ""), call(2, 16), kernel(nccl, 2, "")];
    let around = |range: String| [range, call(2, 16), kernel(nccl, 2, "")];
    let thread = around(range("user_annotation", "nccl:all_to_all", 9, "[[24]]"));
    let scalar = around(range("user_annotation", "nccl:all_to_all", 8, "7"));
    let other = around(range("user_annotation", "step", 8, "[[24]]"));
    let on_gpu = around(range("gpu_user_annotation", "nccl:all_to_all", 8, "[[24]]"));
    for events in [&after[..], &two, &thread, &scalar, &other, &on_gpu] {
        assert_eq!(sizes(events), [], "{events:?}");
    }
}

#[test]
fn distributed_info_is_read_and_invalid_info_ignored() {
    let job = |info: &str| trace(&format!(r#"{{"distributedInfo": {info}, "traceEvents": [{}]}}"#, kernel("a"))).job;
    let group = r#"{"pg_name": "1", "pg_desc": "tp", "ranks": [2, 3, -1, "x"]}"#;
    let valid =
        job(&format!(r#"{{"backend": "nccl", "rank": 3, "world_size": 8, "pg_config": [{group}, 7]}}"#)).unwrap();
    assert_eq!((valid.rank, valid.world_size, valid.backend.as_str()), (3, 8, "nccl"));
    let groups: Vec<(&str, &[u32])> = valid.groups.iter().map(|group| (&*group.name, &*group.ranks)).collect();
    assert_eq!(groups, [("1", &[2, 3][..]), ("", &[][..])]);
    for invalid in [
        "{}",
        "7",
        "[]",
        r#"{"rank": 1}"#,
        r#"{"rank": -1, "world_size": 8}"#,
        r#"{"rank": 1, "world_size": 1e30}"#,
        r#"{"rank": "1", "world_size": 99999999999}"#,
    ] {
        assert_eq!(job(invalid), None, "{invalid}");
    }
}

#[test]
fn devices_have_their_names_and_sort_by_number() {
    let events = [10, 2, 0].map(|device| kernel("k").replace(r#""device": 0"#, &format!(r#""device": {device}"#)));
    let devices = trace(&with_events(&events)).devices;
    let devices: Vec<_> = devices.iter().map(|device| (&*device.id, &*device.name)).collect();
    assert_eq!(devices, [("0", "NVIDIA H100"), ("2", ""), ("10", "")]);
}

#[test]
fn ops_with_unusable_times_are_counted_and_skipped() {
    let without_duration = complete_event(r#""cat": "kernel", "name": "k", "pid": 0, "ts": 1"#);
    let times = [("\"soon\"", "1"), ("1", "-1"), ("1", "9000000000000000"), ("1", "NaN")];
    let mut events: Vec<String> = times.map(|(start, duration)| kernel_at("k", start, duration)).into();
    events.extend([without_duration, kernel("good")]);
    let trace = trace(&with_events(&events));
    assert_eq!(ops(&trace).len(), 1);
    assert_eq!(trace.names.len(), 1, "a name without an op is not in the trace");
    assert_eq!(problems(&trace), [(ProblemKind::OpWithoutTime, 3), (ProblemKind::ImpossibleDuration, 2)]);
}

/// Returns fifty events with quotes, brackets and escapes in awkward places.
fn tricky() -> String {
    let names = [r#"a\\"#, r#"}], {\""#, r#"\\\"{"#, "plain", r#"\u007b\ud83d\ude00"#, "ünïcode"];
    let event = |index: usize| match index % 3 {
        0 => kernel_at(names[index % names.len()], &format!("{index}.{index:03}"), "1.5"),
        1 => format!(
            r#"{{"ph":"X","cat":"cpu_op","name":"{}","args":{{"d":[[],[[1,{{}}]]]}}}}"#,
            names[index % names.len()]
        ),
        _ => format!(r#"{{"name":"{}","ph":"M","args":{{"x":"]"}}}}"#, names[index % names.len()]),
    };
    with_events(&(0..50).map(event).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn chunk_boundaries_do_not_change_the_trace(cuts in prop::collection::vec(0_usize..12_000, 0..20), packed in any::<bool>()) {
        let text = tricky();
        let whole = trace(&text);
        let bytes = if packed { gzip(text.as_bytes()) } else { text.into_bytes() };
        prop_assert_eq!(read_chunks(split_at(&bytes, cuts)), whole);
    }

    #[test]
    fn chunk_boundaries_do_not_change_the_trace_of_a_damaged_file(
        cuts in prop::collection::vec(0_usize..12_000, 0..6),
        damage in prop::collection::vec((0_usize..12_000, any::<u8>()), 1..4),
    ) {
        let mut bytes = tricky().into_bytes();
        for (at, byte) in damage {
            let length = bytes.len();
            bytes[at % length] = byte;
        }
        let whole = import_chunks([&bytes]).map(comparable);
        let cut = import_chunks(split_at(&bytes, cuts)).map(comparable);
        prop_assert_eq!(cut, whole);
    }

    #[test]
    fn no_input_panics(bytes in prop::collection::vec(any::<u8>(), 0..400), open in any::<bool>()) {
        let head: &[u8] = if open { b"{\"traceEvents\": [{" } else { b"" };
        let _ = import_chunks([head, &bytes]);
    }
}

fn comparable(imported: Imported) -> std::result::Result<Trace, String> {
    match imported {
        Imported::Trace(trace) => Ok(*trace),
        Imported::Document(text) => Err(text),
    }
}

pub(super) fn split_at(bytes: &[u8], cuts: impl IntoIterator<Item = usize>) -> Vec<&[u8]> {
    let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut % (bytes.len() + 1)).chain([0, bytes.len()]).collect();
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

#[test]
fn events_may_span_several_chunks() {
    let lengths = [3, 6_000, 20, 30_000, 5_000, 9, 60_000, 4_000, 1];
    let events = lengths.map(|length| kernel(&"n".repeat(length))).join(",\n");
    let text = format!(r#"{{"a": "{}", "traceEvents": [{events}], "b": 1}}"#, "x".repeat(9_000));
    for size in [500, 777, 4_095, 4_096, 4_097, 5_003, 9_001, 20_011, 40_009, 200_000] {
        let read = read_chunks(text.as_bytes().chunks(size));
        let found: Vec<usize> = ops(&read).iter().map(|(name, ..)| name.len()).collect();
        assert_eq!((found, read.problems.iter().count()), (lengths.to_vec(), 0), "in chunks of {size}");
    }
}

#[test]
fn a_cut_file_gives_all_complete_events_and_a_problem() {
    let events = kernels(6);
    let text = with_events(&events);
    let ends: Vec<usize> = events.iter().map(|event| text.find(event.as_str()).unwrap() + event.len()).collect();
    let complete = text.trim_end().len();
    for cut in 0..complete {
        let part = &text[..cut];
        let whole_events = ends.iter().filter(|end| **end <= cut).count();
        match import_chunks([part]) {
            Ok(Imported::Trace(trace)) => {
                assert_eq!(trace.gpu_ops.len(), whole_events, "cut at {cut}");
                assert!(trace.problems.has(ProblemKind::Truncated), "cut at {cut}");
            }
            Err(error) => {
                assert_eq!(whole_events, 0, "cut at {cut}: {error}");
                assert!(error.to_string().contains("cut short") || error.to_string().contains("empty"), "{error}");
            }
            Ok(Imported::Document(text)) => panic!("a document: {text}"),
        }
    }
}

#[test]
fn a_lost_character_loses_at_most_two_events() {
    let events = kernels(20);
    let text = with_events(&events);
    let (from, to) = (text.find(&events[8]).unwrap(), text.find(&events[9]).unwrap());
    for at in from..to {
        if !matches!(text.as_bytes()[at], b'"' | b'{' | b'}' | b'[' | b']') {
            continue;
        }
        let mut bytes = text.clone().into_bytes();
        bytes[at] = b'~';
        let trace = read_chunks([bytes]);
        assert!(trace.gpu_ops.len() >= 18, "{} ops with byte {} lost", trace.gpu_ops.len(), at - from);
        let names: Vec<&str> = trace.names.iter().collect();
        assert!(names.contains(&"k0") && names.contains(&"k19"));
        if trace.gpu_ops.len() < 20 {
            assert!(trace.problems.has(ProblemKind::UnreadableEvent), "byte {} lost without a problem", at - from);
        }
    }
}

#[test]
fn recovery_after_damage_does_not_depend_on_chunk_boundaries() {
    let ok = kernel("k");
    let text = format!(r#"{{"traceEvents": [{ok}}},[{{"ts,0"t0 , {{"ph"tr: "x  ,, {{"ph":p h"@, {ok}, {ok}]}}"#);
    let whole = import_chunks([&text]).map(comparable);
    for first in 0..text.len() {
        // Every seventh second cut: over all first cuts, each distance and each place has been tried.
        for second in (first..text.len()).step_by(7) {
            let cut = import_chunks([&text[..first], &text[first..second], &text[second..]]).map(comparable);
            assert_eq!(cut, whole, "cut at {first} and {second}");
        }
    }
}

#[test]
fn events_may_have_megabytes_and_nest_deeply() {
    let long = format!("{{\"note\": \"{}\",", "x".repeat(3 << 20));
    let nested = format!("{{\"x\": {}{},", "[".repeat(9_000), "]".repeat(9_000));
    let events = [kernel("a").replacen('{', &long, 1), kernel("b"), kernel("c").replacen('{', &nested, 1)];
    let trace = trace(&with_events(&events));
    assert_eq!(trace.names.iter().collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!((trace.gpu_ops.len(), problems(&trace)), (3, vec![]));
}

#[test]
fn an_empty_missing_or_unclosed_event_list_is_handled() {
    assert_eq!(trace(r#"{"traceEvents": []}"#).gpu_ops.len(), 0);
    assert!(matches!(import_chunks([r#"{"a": 1}"#]), Ok(Imported::Document(_))));
    assert!(import_chunks(["[1, 2]"]).is_err());
    assert!(import_chunks(["[]"]).unwrap_err().to_string().contains("an empty JSON list"));
    assert!(import_chunks([r#"[{"a": 1}, {"b": 2}]"#]).unwrap_err().to_string().contains("`ph`"));
    let open = trace(&format!("[\n{},\n{}\n", kernel("a"), kernel("b")));
    assert_eq!(open.gpu_ops.len(), 2);
    assert!(open.problems.has(ProblemKind::Unclosed) && !open.problems.has(ProblemKind::Truncated));
    let twice = trace(&(with_events(&[kernel("a")]) + &with_events(&[kernel("b")])));
    assert!(twice.problems.has(ProblemKind::TrailingData));
}

const ROWS: &str = "0,10,1,,,,,,,,,,,,,,NVIDIA H100 (0),1,,7,a\n5,10,2,,,,,,,,,,,,,,NVIDIA H100 (1),1,,7,\"void b<int, 2>(\"\"x\"\")\"\n20,5,3,,,,,,,,,,0.1,2.5,Pageable,Device,NVIDIA H100 (0),1,,7,[CUDA memcpy Host-to-Device]\n30,5,4,,,,,,,,,,0.1,,,,NVIDIA H100 (0),1,,7,[CUDA memset]\n";
const HEADER: &str = "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name\n";

#[test]
fn csv_tables_are_read_with_any_header_version_and_console_lines() {
    let expected = [
        ("a", 0, 10, "0", OpKind::Kernel),
        ("void b<int, 2>(\"x\")", 5, 10, "1", OpKind::Kernel),
        ("[CUDA memcpy Host-to-Device]", 20, 5, "0", OpKind::Copy),
        ("[CUDA memset]", 30, 5, "0", OpKind::Set),
    ];
    let console = "Generating SQLite file x.sqlite from x.nsys-rep\n[1/1] Executing 'cuda_gpu_trace' stats report\n\n";
    let older = HEADER.replace("(MB/s)", "(MBps)").replace("GreenCtx,", "");
    let older_rows = ROWS.replace(",1,,7,", ",1,7,");
    for text in [
        format!("{HEADER}{ROWS}"),
        format!("{older}{older_rows}"),
        format!("{console}{HEADER}{ROWS}"),
        format!("\u{feff}{HEADER}{ROWS}").replace('\n', "\r\n"),
        format!("[1/1] Executing\n{HEADER}{}", ROWS.trim_end()),
    ] {
        assert_eq!(ops(&trace(&text)), expected, "{text}");
        assert_eq!(read_chunks(split_at(text.as_bytes(), (0..text.len()).step_by(7))), trace(&text));
    }
    let device = &trace(&format!("{HEADER}{ROWS}")).devices[0];
    assert_eq!((device.id.as_str(), device.name.as_str()), ("0", "NVIDIA H100"));
}

#[test]
fn time_units_of_the_header_are_used_or_refused() {
    for (start, duration, row, expected) in [
        ("Start (us)", "Duration (us)", "1.5,0.25", (1_500, 250)),
        ("Start (sec)", "Duration (sec)", "0.000001,2", (1_000, 2_000_000_000)),
        ("Start:ts_us", "Duration:dur_us", "1.5,3", (1_500, 3_000)),
        ("Start (ms)", "Duration (ns)", "1,3", (1_000_000, 3)),
    ] {
        let trace = trace(&format!("{start},{duration},Device,Strm,Name\n{row},GPU (0),7,k\n"));
        let op = trace.gpu_ops.iter().next().unwrap();
        assert_eq!((op.start, op.duration), (Ns(expected.0), Ns(expected.1)), "{start}");
    }
    let error = import_chunks(["Start (min),Duration (min),Device,Strm,Name\n1,2,GPU (0),7,k\n"]).unwrap_err();
    assert!(error.to_string().contains("`Start (min)`") && error.to_string().contains("--timeunit"), "{error}");
}

#[test]
fn unreadable_csv_rows_are_counted() {
    let trace = trace(&format!("{HEADER}{ROWS}\nnonsense\n,,,\n-,1\n"));
    assert_eq!(trace.gpu_ops.len(), 4);
    assert_eq!(problems(&trace), [(ProblemKind::UnreadableRow, 3)]);
}

#[test]
fn errors_name_other_tables_of_nsys() {
    for (text, expected) in [
        ("Time (%),Total Time (ns),Instances,Avg (ns),Name\n1,2,3,4,k\n", "a cuda_gpu_kern_sum table"),
        ("Time (%),Total Time (ns),Num Calls,Avg (ns),Name\n1,2,3,4,k\n", "summary table"),
        ("Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid\n1,2,cudaLaunchKernel,0,1,1,1\n", "host calls"),
        (
            "API Start (ns),API Dur (ns),Queue Start (ns),Kernel Start (ns),Kernel Name\n1,2,3,4,k\n",
            "open the SQLite export",
        ),
        (
            "Name,Projected Start (ns),Projected Duration (ns),Orig Start (ns),Style\na,1,2,3,x\n",
            "open the SQLite export",
        ),
        ("Name,streamId,type,bytes,Timestamp (ns)\nk,7,kernel,,1\n", "without the header"),
        ("just some words", "without the header"),
    ] {
        let error = import_chunks([text]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn damage_between_events_is_counted() {
    let (a, b, c) = (kernel("a"), kernel("b"), kernel("c"));
    for (text, min_ops) in [
        (format!(r#"{{"traceEvents": [{a}],{b},{c}}}"#), 3),
        (format!(r#"{{"traceEvents": [{a},"{b},{c},{a},{b}]}}"#), 3),
        (format!("[{a}, null, {b}, 1, 2, {c}]"), 3),
        (format!(r#"{{"traceEvents": [{a},{}{b}}},{c}]}}"#, a.trim_end_matches('}')), 2),
    ] {
        let trace = trace(&text);
        assert!(trace.gpu_ops.len() >= min_ops, "{} ops of {text}", trace.gpu_ops.len());
        assert!(trace.problems.has(ProblemKind::UnreadableEvent), "{text}");
        assert_eq!(read_chunks(split_at(text.as_bytes(), 0..text.len())), trace);
    }
}

#[test]
fn list_elements_that_are_not_events_are_counted() {
    let nested = ["[".repeat(9_000), "]".repeat(9_000)].concat();
    for odd in ["null", "\"text\"", "-1.5e3", "[]", "[1, [2, {\"a\": 3}]]", &nested] {
        for position in 0..3 {
            let mut events = kernels(2);
            events.insert(position, odd.to_owned());
            let trace = trace(&with_events(&events));
            let found = (trace.gpu_ops.len(), problems(&trace));
            assert_eq!(found, (2, vec![(ProblemKind::UnreadableEvent, 1)]), "{odd:.30} at {position}");
        }
    }
}

#[test]
fn a_stray_quote_loses_at_most_two_events() {
    let text = with_events(&kernels(2_000)).replacen("},\n  {", "},\"\n  {", 1);
    let trace = trace(&text);
    assert!(trace.gpu_ops.len() >= 1_998, "{} ops", trace.gpu_ops.len());
    assert!(trace.problems.has(ProblemKind::UnreadableEvent));
}

#[test]
fn a_csv_row_without_its_quote_or_line_end_is_a_problem() {
    let lost = trace(&format!("{HEADER}{}{ROWS}", ROWS.replace(",7,a\n", ",7,\"a\n")));
    assert!(lost.problems.has(ProblemKind::UnreadableRow));
    assert!(lost.names.iter().all(|name| !name.contains('\n')), "no name spans two rows");
    let cut = trace(&format!("{HEADER}{}", ROWS.trim_end()));
    assert!(cut.problems.has(ProblemKind::OpenLastRow));
}

#[test]
fn gpu_ops_only_counts_calls_and_ranges_without_storing_them() {
    let span = |cat: &str, name: &str, at: u32| {
        let thread = r#""pid": 9, "tid": 9, "dur": 1, "args": {"correlation": 5}"#;
        complete_event(&format!(r#""cat": "{cat}", "name": "{name}", "ts": {at}, {thread}"#))
    };
    let (call, range) = (span("cuda_runtime", "cudaLaunchKernel", 1), span("user_annotation", "step", 0));
    let text = with_events(&[range, call, kernel("k")]);
    let (whole, alone) = (trace(&text), read_trace(Importer::gpu_ops_only("t.json"), [&text]));
    assert_eq!(ops(&alone), ops(&whole));
    assert_eq!((whole.calls.len(), whole.ranges.len()), (1, 1));
    assert_eq!((alone.calls.len(), alone.ranges.len()), (0, 0));
    assert_eq!(problems(&alone), [(ProblemKind::LeftOut, 2)]);
}

#[test]
fn without_code_keeps_calls_and_states_that_code_is_missing() {
    let thread = r#""pid": 9, "tid": 9, "dur": 9, "args": {"correlation": 5}"#;
    let span =
        |cat: &str, name: &str| complete_event(&format!(r#""cat": "{cat}", "name": "{name}", "ts": 1, {thread}"#));
    let code = [span("cpu_op", "aten::mm"), span("python_function", "a.py(9): main")];
    let text = with_events(&[&code[..], &[span("cuda_runtime", "cudaLaunchKernel"), kernel("k")]].concat());
    let (whole, without) = (trace(&text), read_trace(Importer::without_code("t.json"), [&text]));
    let code_of = |trace: &Trace| trace.packed_code.as_ref().map(|code| (code.is_empty(), code.is_too_long()));
    assert_eq!(code_of(&whole), Some((false, false)));
    assert_eq!(code_of(&without), Some((true, true)));
    assert_eq!((without.calls.len(), ops(&without)), (whole.calls.len(), ops(&whole)));
}

#[test]
fn profiler_steps_of_old_torch_are_ranges_and_its_operators_are_not() {
    let operator = |name: &str| {
        let thread = r#""pid": 9, "tid": 9, "ts": 1, "dur": 5, "args": {"External id": 5}"#;
        complete_event(&format!(r#""cat": "Operator", "name": "{name}", {thread}"#))
    };
    let names = ["aten::add", "ProfilerStep#16", "aten::add", "ProfilerStep#17", "ProfilerStep"];
    let text = with_events(&names.map(operator));
    for importer in [Importer::new("t.json"), Importer::with_code("t.json")] {
        let trace = read_trace(importer, [&text]);
        let ranges: Vec<&str> = trace.ranges.names.iter().collect();
        assert_eq!(ranges, ["ProfilerStep#16", "ProfilerStep#17"]);
        assert_eq!(trace.events.cpu, 5);
    }
}
