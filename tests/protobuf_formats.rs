//! Profiles of XLA and traces of Perfetto: the facts of the samples in `../shared` are those that a separate program finds, and the
//! report of each fits the profiler that wrote it.

use crate::common;
use common::{directory, gpuprism, reference_facts, shared, union};
use gpuprism::input::{Imported, Importer};
use gpuprism::trace::{Format, OpKind, Trace};
use serde_json::Value;
use std::collections::BTreeMap;

/// The samples with accelerators and the format of each.
const SAMPLES: [(&str, Format); 11] = [
    ("xla/gpu_multiworker.xplane.pb", Format::XlaXspace),
    ("xla/handmade_h100_tpu.xplane.pb", Format::XlaXspace),
    ("xla/jax_mi300x_8gpu.xplane.pb", Format::XlaXspace),
    ("xla/jax_mi300x_roctracer.xplane.pb", Format::XlaXspace),
    ("xla/jax_mi350x_attention.xplane.pb", Format::XlaXspace),
    ("xla/jax_mi350x_attention.trace.json.gz", Format::XlaTraceViewer),
    ("perfetto/handmade_rocprofv3.pftrace", Format::RocprofPerfetto),
    ("perfetto/handmade_torch_cupti.pftrace", Format::TorchPerfetto),
    ("perfetto/handmade_torch_cupti.pftrace.gz", Format::TorchPerfetto),
    ("perfetto/handmade_unitrace.pftrace", Format::UnitracePerfetto),
    ("perfetto/handmade_proton.pftrace", Format::ProtonPerfetto),
];

fn sample(name: &str) -> std::path::PathBuf {
    shared("more").join(name)
}

fn read_in_chunks(name: &str, chunk: usize) -> Trace {
    let mut importer = Importer::new(name);
    for part in std::fs::read(sample(name)).unwrap().chunks(chunk) {
        importer.feed(part).unwrap();
    }
    match importer.finish().unwrap() {
        Imported::Trace(trace) => *trace,
        Imported::Document(text) => panic!("a document: {text}"),
    }
}

/// The id of a device as the separate program writes it.
fn reference_device(format: Format, id: &str) -> String {
    match format {
        Format::XlaXspace | Format::XlaTraceViewer => match id.strip_prefix("TPU ") {
            Some(tpu) => format!("/device:TPU:{tpu}"),
            None => format!("/device:GPU:{id}"),
        },
        Format::RocprofPerfetto => format!("Agent-{id}"),
        Format::UnitracePerfetto => format!("DEVICE<host>29:0:0 #{id}"),
        Format::ProtonPerfetto => "all".to_owned(),
        _ => id.to_owned(),
    }
}

/// A kernel's name of the separate program as gpuprism shows it: without the marks of symbols and sizes of launches.
fn shown(name: &str) -> &str {
    let name = name.strip_suffix(" [clone .kd]").or_else(|| name.strip_suffix(".kd")).unwrap_or(name);
    let name = name.split("[SIMD").next().unwrap();
    // TPU ops are lines of HLO: `%fusion.1 = bf16[8] fusion(...)`.
    name.strip_prefix('%').and_then(|name| name.split(" = ").next()).unwrap_or(name)
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn ops_kernels_devices_and_busy_times_are_those_of_a_separate_program() {
    for (name, format) in SAMPLES {
        let (facts, trace) = (reference_facts(&sample(name)), read_in_chunks(name, usize::MAX));
        assert_eq!(trace.format, format, "{name}");
        assert_eq!(trace.problems.iter().count(), 0, "{name}: {:?}", trace.problems);
        let number = |value: &Value| value.as_i64().unwrap();
        let ops: Vec<_> = trace.gpu_ops.iter().collect();
        let kernels = || ops.iter().filter(|op| op.kind == OpKind::Kernel);
        assert_eq!(ops.len() as i64, number(&facts["gpu_ops"]), "{name}");
        assert_eq!(kernels().count() as i64, number(&facts["kernels"]), "{name}");
        assert_eq!(ops.iter().map(|op| op.duration.0).sum::<i64>(), number(&facts["duration_ns"]), "{name}");
        assert_eq!(kernels().map(|op| op.duration.0).sum::<i64>(), number(&facts["kernel_duration_ns"]), "{name}");
        assert_eq!(
            union(ops.iter().map(|op| (op.start, op.end())).collect()),
            number(&facts["union_all_ns"]),
            "{name}"
        );
        let mut devices = BTreeMap::new();
        for (index, device) in trace.devices.iter().enumerate() {
            let own: Vec<_> = ops.iter().filter(|op| op.device.0 as usize == index).collect();
            let window =
                own.iter().map(|op| op.end()).max().unwrap().since(own.iter().map(|op| op.start).min().unwrap());
            let busy = union(own.iter().map(|op| (op.start, op.end())).collect());
            devices.insert(reference_device(format, &device.id), (own.len() as i64, busy, window.0));
        }
        let expected: BTreeMap<String, _> = facts["devices"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(id, device)| {
                (id.clone(), (number(&device["gpu_ops"]), number(&device["union_ns"]), number(&device["window_ns"])))
            })
            .collect();
        assert_eq!(devices, expected, "{name}");
        let mut by_name: BTreeMap<String, (i64, i64)> = BTreeMap::new();
        for op in kernels() {
            let sum = by_name.entry(trace.names.get(op.name).to_owned()).or_default();
            *sum = (sum.0 + 1, sum.1 + op.duration.0);
        }
        let rows = facts["by_name"].as_array().unwrap().iter();
        let expected: BTreeMap<String, (i64, i64)> = rows
            .map(|row| {
                (shown(row["name"].as_str().unwrap()).to_owned(), (number(&row["count"]), number(&row["duration_ns"])))
            })
            .filter(|(name, _)| by_name.contains_key(name))
            .collect();
        assert_eq!(by_name, expected, "{name}");
    }
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn chunks_do_not_change_a_sample() {
    for (name, _) in SAMPLES {
        let whole = read_in_chunks(name, usize::MAX);
        let bytes = std::fs::metadata(sample(name)).unwrap().len();
        for chunk in [1, 61, 4_096] {
            // A byte at a time is slow for the largest.
            if chunk > 1 || bytes < 1 << 18 {
                assert_eq!(read_in_chunks(name, chunk), whole, "{name} in chunks of {chunk}");
            }
        }
    }
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn calls_with_the_correlation_id_of_an_op_are_its_launch() {
    for (name, launched) in [
        ("xla/jax_mi350x_attention.xplane.pb", 150),
        ("xla/jax_mi350x_attention.trace.json.gz", 150),
        ("xla/handmade_h100_tpu.xplane.pb", 8),
        ("perfetto/handmade_rocprofv3.pftrace", 5),
        ("perfetto/handmade_torch_cupti.pftrace", 4),
        ("perfetto/handmade_unitrace.pftrace", 2),
    ] {
        let trace = read_in_chunks(name, usize::MAX);
        assert_eq!(trace.gpu_ops.launches().flatten().count(), launched, "{name}");
    }
}

/// Both files of one profile have the same ops, to the nanosecond.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn the_json_for_trace_viewer_has_the_ops_of_the_protobuf() {
    let ops = |name| {
        let trace = read_in_chunks(name, usize::MAX);
        let first = trace.gpu_ops.iter().next().unwrap().start;
        let show = |op: gpuprism::trace::GpuOp| {
            (trace.names.get(op.name).to_owned(), op.start.since(first), op.duration, op.stream)
        };
        trace.gpu_ops.iter().map(show).collect::<Vec<_>>()
    };
    assert_eq!(ops("xla/jax_mi350x_attention.xplane.pb"), ops("xla/jax_mi350x_attention.trace.json.gz"));
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn a_profile_without_an_accelerator_says_so_in_the_words_of_jax() {
    let folder = directory("jax_cpu");
    for name in ["jax_cpu.xplane.pb", "jax_cpu.trace.json.gz", "jax_cpu.perfetto_trace.json.gz"] {
        let path = sample("xla").join(name).display().to_string();
        let output = gpuprism(&folder, ["report", path.as_str(), "--all"]);
        let text = [output.stdout, output.stderr].concat();
        assert!(text.contains("no accelerator in this profile") && text.contains("jax.devices()"), "{text}");
        for word in ["ProfilerActivity", "torch.profiler", "nsys", "CUDA"] {
            assert!(!text.contains(word), "{name} speaks of {word}: {text}");
        }
        let trace = read_in_chunks(&format!("xla/{name}"), usize::MAX);
        let has_range = |name: &&str| trace.ranges.names.iter().any(|range| range == *name);
        assert!(["train step 0", "train step 1", "train step 2"].iter().all(has_range), "{name}");
    }
}

/// What a report of a sample says fits the profiler: no other is recommended where its own can help.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn advice_about_a_profile_of_jax_is_about_jax() {
    let folder = directory("jax_advice");
    for name in ["jax_mi350x_attention.xplane.pb", "jax_mi300x_8gpu.xplane.pb", "handmade_h100_tpu.xplane.pb"] {
        let path = sample("xla").join(name).display().to_string();
        let text = gpuprism(&folder, ["report", path.as_str(), "--all"]).stdout;
        for word in ["ProfilerActivity", "torch.profiler", "record_function"] {
            let line = text.lines().find(|line| line.contains(word));
            assert_eq!(line, None, "{name} speaks of {word}");
        }
    }
}
