//! The files of rocprof, unitrace, msprof and Proton: the facts of the samples in `../shared` are those that a separate program finds.

use crate::common::{reference_facts, shared, union};
use gpuprism::input::{Imported, Importer, nsys};
use gpuprism::trace::{Format, OpKind, Trace};

/// The samples and the format of each.
const SAMPLES: [(&str, Format); 11] = [
    ("more/rocm/handmade_rocprof_v1_results.json", Format::RocprofV1Json),
    ("more/rocm/handmade_rocprof_v1_hip.db", Format::RocprofV1Db),
    ("more/rocm/rocprof_v1_results.db", Format::RocprofV1Db),
    ("more/rocm/rocprof_v1_results.csv", Format::RocprofV1Csv),
    ("more/intel/handmade_unitrace.json", Format::UnitraceJson),
    ("more/ascend/handmade_msprof.db", Format::AscendDb),
    ("more/ascend/handmade_task_time.csv", Format::AscendKernelDetails),
    ("more/proton/handmade_scopes.chrome_trace", Format::ProtonTrace),
    ("more/proton/handmade_stream_lines.chrome_trace", Format::ProtonTrace),
    ("cases/data/rocprof_v1.json", Format::RocprofV1Json),
    ("cases/data/unitrace.json", Format::UnitraceJson),
];

fn read(name: &str, chunk: usize) -> Trace {
    let path = shared(name);
    if name.ends_with(".db") {
        return nsys::open(&path, name).unwrap();
    }
    let mut importer = Importer::new(name);
    for part in std::fs::read(path).unwrap().chunks(chunk) {
        importer.feed(part).unwrap();
    }
    match importer.finish().unwrap() {
        Imported::Trace(trace) => *trace,
        Imported::Document(text) => panic!("a document: {text}"),
    }
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn ops_kernels_and_busy_times_are_those_of_a_separate_program() {
    for (name, format) in SAMPLES {
        let (facts, trace) = (reference_facts(&shared(name)), read(name, usize::MAX));
        assert_eq!(trace.format, format, "{name}");
        assert_eq!(trace.problems.iter().count(), 0, "{name}: {:?}", trace.problems);
        let ops: Vec<_> = trace.gpu_ops.iter().collect();
        let kernels = || ops.iter().filter(|op| op.kind == OpKind::Kernel);
        let number = |key: &str| facts[key].as_i64().unwrap();
        assert_eq!(ops.len() as i64, number("gpu_ops"), "{name}");
        assert_eq!(kernels().count() as i64, number("kernels"), "{name}");
        assert_eq!(ops.iter().map(|op| op.duration.0).sum::<i64>(), number("duration_ns"), "{name}");
        assert_eq!(kernels().map(|op| op.duration.0).sum::<i64>(), number("kernel_duration_ns"), "{name}");
        assert_eq!(union(ops.iter().map(|op| (op.start, op.end())).collect()), number("union_all_ns"), "{name}");
        assert_eq!(trace.devices.len(), facts["devices"].as_object().unwrap().len(), "{name}");
    }
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn chunks_do_not_change_a_sample() {
    for (name, _) in SAMPLES.iter().filter(|(name, _)| !name.ends_with(".db")) {
        let whole = read(name, usize::MAX);
        for chunk in [61, 4_096] {
            assert_eq!(read(name, chunk), whole, "{name} in chunks of {chunk}");
        }
    }
}

/// Each pair of files has one run.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn the_files_of_one_run_have_the_same_ops() {
    for (one, other) in [
        ("more/rocm/handmade_rocprof_v1_results.json", "more/rocm/handmade_rocprof_v1_hip.db"),
        ("more/rocm/rocprof_v1_results.csv", "more/rocm/rocprof_v1_results.db"),
    ] {
        let ops = |name| {
            let trace = read(name, usize::MAX);
            let show = |op: gpuprism::trace::GpuOp| {
                let device = trace.devices[op.device.0 as usize].id.clone();
                (op.start, op.duration, trace.names.get(op.name).to_owned(), device, op.stream)
            };
            let mut ops: Vec<_> = trace.gpu_ops.iter().map(show).collect();
            ops.sort();
            ops
        };
        assert_eq!(ops(one), ops(other));
    }
}
