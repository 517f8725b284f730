//! Writes what a profiler records: the JSON of torch.profiler, or the CSV of `nsys stats -r cuda_gpu_trace`. Cut captures and lost
//! records are made here, so that the truth has no part in them.

use super::config::{Capture, Config, Loads};
use super::machine::{GpuOp, HostEvent, Recording};
use super::random::Random;
use serde_json::{Value, json};
use std::ops::Range;

/// How a file names a process and its GPU.
#[derive(Debug, Clone)]
pub(crate) struct Ids {
    pub(crate) host_pid: Value,
    pub(crate) gpu_pid: Value,
    pub(crate) device: u32,
    /// The correlation id of the first call.
    pub(crate) first: usize,
}

impl Ids {
    /// The ids of a program alone in its file.
    pub(crate) fn alone() -> Self {
        Self { host_pid: json!(4_242), gpu_pid: json!(0), device: 0, first: 1 }
    }
}

/// What the capture has of a recording.
#[derive(Debug)]
pub(crate) struct Captured {
    /// The events of torch.profiler; empty for a CSV.
    pub(crate) events: Vec<Value>,
    /// The CSV, or empty.
    pub(crate) csv: String,
    /// Parallel to the ops of the recording: whether the capture has the op.
    pub(crate) has_op: Vec<bool>,
    /// The time of the capture.
    pub(crate) window: Range<i64>,
}

impl Captured {
    /// The file of a program that is alone in it.
    pub(crate) fn text(&self, device: &str) -> String {
        if self.csv.is_empty() { file(&self.events, device) } else { self.csv.clone() }
    }
}

/// Captures a recording.
pub(crate) fn capture(config: &Config, device: &str, recording: &Recording, ids: &Ids, seed: u64) -> Captured {
    let mut random = Random::new(seed ^ 0xFACE);
    let window = window(config, recording, &mut random);
    let is_inside = |start: i64, end: i64| window.start <= start && end <= window.end;
    let mut has = |op: &GpuOp| is_inside(op.start, op.end()) && !random.chance(config.faults.lost);
    let has_op: Vec<bool> = recording.ops.iter().map(&mut has).collect();
    let ops: Vec<&GpuOp> = recording.ops.iter().zip(&has_op).filter(|(_, has)| **has).map(|(op, _)| op).collect();
    let (events, csv) = match config.capture {
        Capture::Names => (Vec::new(), csv(&ops, device)),
        _ => (torch(config, recording, &ops, &window, ids), String::new()),
    };
    Captured { events, csv, has_op, window }
}

/// A cut capture begins in the second step and ends in the last but one. That of a running process that loads code begins with the load.
fn window(config: &Config, recording: &Recording, random: &mut Random) -> Range<i64> {
    if !config.faults.is_cut {
        return 0..i64::MAX;
    }
    let mut inside_of = |step: usize| {
        let ops = || recording.ops.iter().filter(|op| op.step == step);
        let (start, end) = (ops().map(|op| op.start).min().unwrap(), ops().map(GpuOp::end).max().unwrap());
        start + ((end - start) as f64 * (0.1 + 0.8 * random.unit())) as i64
    };
    let end = inside_of(recording.steps.len() - 2);
    let load = recording.loads.first().filter(|_| config.loads == Loads::Late);
    load.map_or_else(|| inside_of(1), |(_, call)| recording.calls[*call].start - 1_000)..end
}

fn csv(ops: &[&GpuOp], device: &str) -> String {
    let mut text = "Start (ns),Duration (ns),CorrId,Device,Ctx,Strm,Name\n".to_owned();
    for op in ops {
        let name = nsys_name(&op.name).replace('"', "\"\"");
        text += &format!("{},{},{},{device} (0),1,{},\"{name}\"\n", op.start, op.duration, op.correlation, op.stream);
    }
    text
}

/// The name of a copy in nsys.
fn nsys_name(name: &str) -> String {
    for (torch, nsys) in [
        ("Memcpy DtoD", "[CUDA memcpy Device-to-Device]"),
        ("Memcpy DtoH", "[CUDA memcpy Device-to-Host]"),
        ("Memcpy HtoD", "[CUDA memcpy Host-to-Device]"),
        ("Memset", "[CUDA memset]"),
    ] {
        if name.starts_with(torch) {
            return nsys.to_owned();
        }
    }
    name.to_owned()
}

fn torch(config: &Config, recording: &Recording, ops: &[&GpuOp], window: &Range<i64>, ids: &Ids) -> Vec<Value> {
    let whole = |event: &&HostEvent| window.start <= event.start && event.end <= window.end;
    let mut events: Vec<Value> = Vec::new();
    if config.capture.has_annotations() {
        let annotations = recording.steps.iter().map(|step| &step.annotation).chain(&recording.ranges);
        events.extend(annotations.filter(whole).map(|event| host_event("user_annotation", event, json!({}), ids)));
    }
    if config.capture.has_frames() {
        // A frame that is open when the capture begins or ends is recorded as far as the capture goes.
        let cut = |event: &HostEvent| HostEvent {
            name: event.name.clone(),
            start: event.start.max(window.start),
            end: event.end.min(window.end),
        };
        let frames = recording.frames.iter().map(cut).filter(|event| event.start < event.end).enumerate();
        let frame = |(id, event)| host_event("python_function", &event, json!({"Python id": id + 1}), ids);
        events.extend(frames.map(frame));
    }
    for (id, call) in recording.calls.iter().enumerate().filter(|(_, call)| whole(call)) {
        let is_driver = ["cuLibrary", "cuModule", "hipModule"].iter().any(|word| call.name.starts_with(word));
        let class = if is_driver { "cuda_driver" } else { "cuda_runtime" };
        events.push(host_event(class, call, json!({"correlation": id + ids.first}), ids));
    }
    events.extend(ops.iter().map(|op| gpu_event(op, config, ids)));
    events
}

/// A file with these events.
pub(crate) fn file(events: &[Value], device: &str) -> String {
    let events: Vec<String> = events.iter().map(Value::to_string).collect();
    let device = json!({"id": 0, "name": device, "computeMajor": 9, "computeMinor": 0, "numSms": 132});
    format!(
        "{{\"schemaVersion\":1,\"deviceProperties\":[{device}],\"baseTimeNanoseconds\":0,\"traceEvents\":[\n{}\n]}}\n",
        events.join(",\n")
    )
}

/// Microseconds with all digits.
fn us(ns: i64) -> Value {
    json!(ns as f64 / 1e3)
}

fn host_event(class: &str, event: &HostEvent, args: Value, ids: &Ids) -> Value {
    json!({
        "ph": "X", "cat": class, "name": event.name, "pid": ids.host_pid, "tid": 4_242,
        "ts": us(event.start), "dur": us(event.end - event.start), "args": args,
    })
}

fn gpu_event(op: &GpuOp, config: &Config, ids: &Ids) -> Value {
    let class = match op.name.split_once(' ') {
        Some(("Memcpy", _)) => "gpu_memcpy",
        Some(("Memset", _)) => "gpu_memset",
        _ => "kernel",
    };
    // Engines start one block per token of the captured batch in a norm.
    let grid = if op.role == "norm" { config.captured } else { 64 };
    json!({
        "ph": "X", "cat": class, "name": op.name, "pid": ids.gpu_pid, "tid": op.stream,
        "ts": us(op.start), "dur": us(op.duration),
        "args": {
            "device": ids.device, "stream": op.stream, "correlation": op.correlation + ids.first, "grid": [grid, 1, 1],
        },
    })
}
