//! Writes what a profiler records of the server: the JSON of torch.profiler, or the CSV of `nsys stats -r cuda_gpu_trace`. Cut
//! captures and lost records are made here, so that the truth has no part in them.

use super::config::{Capture, Config};
use super::engine::Engine;
use super::random::Random;
use super::server::{GpuOp, HostEvent, Recording};
use serde_json::{Value, json};
use std::ops::Range;

/// The process and thread of the host code.
const HOST: u32 = 4_242;

/// What the capture has of a recording.
#[derive(Debug)]
pub(crate) struct Captured {
    pub(crate) text: String,
    /// Parallel to the ops of the recording: whether the capture has the op.
    pub(crate) has_op: Vec<bool>,
    /// The time of the capture.
    pub(crate) window: Range<i64>,
}

/// Captures a recording.
pub(crate) fn capture(config: &Config, engine: &Engine, recording: &Recording, seed: u64) -> Captured {
    let mut random = Random::new(seed ^ 0xFACE);
    let window = window(config, recording, &mut random);
    let is_inside = |start: i64, end: i64| window.start <= start && end <= window.end;
    let mut has = |op: &GpuOp| is_inside(op.start, op.end()) && !random.chance(config.faults.lost);
    let has_op: Vec<bool> = recording.ops.iter().map(&mut has).collect();
    let ops: Vec<&GpuOp> = recording.ops.iter().zip(&has_op).filter(|(_, has)| **has).map(|(op, _)| op).collect();
    let text = match config.capture {
        Capture::Names => csv(&ops, engine),
        _ => torch(config, engine, recording, &ops, &window),
    };
    Captured { text, has_op, window }
}

/// A cut capture begins in the second step and ends in the last but one.
fn window(config: &Config, recording: &Recording, random: &mut Random) -> Range<i64> {
    if !config.faults.is_cut {
        return 0..i64::MAX;
    }
    let mut inside_of = |step: usize| {
        let ops = || recording.ops.iter().filter(|op| op.step == step);
        let (start, end) = (ops().map(|op| op.start).min().unwrap(), ops().map(GpuOp::end).max().unwrap());
        start + ((end - start) as f64 * (0.1 + 0.8 * random.unit())) as i64
    };
    inside_of(1)..inside_of(recording.steps.len() - 2)
}

fn csv(ops: &[&GpuOp], engine: &Engine) -> String {
    let mut text = "Start (ns),Duration (ns),CorrId,Device,Ctx,Strm,Name\n".to_owned();
    for op in ops {
        let device = format!("{} (0)", engine.device);
        let name = nsys_name(&op.name).replace('"', "\"\"");
        text += &format!("{},{},{},{device},1,{},\"{name}\"\n", op.start, op.duration, op.correlation, op.stream);
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

fn torch(config: &Config, engine: &Engine, recording: &Recording, ops: &[&GpuOp], window: &Range<i64>) -> String {
    let whole = |event: &&HostEvent| window.start <= event.start && event.end <= window.end;
    let mut events: Vec<Value> = Vec::new();
    if config.capture == Capture::Annotated {
        let annotations = recording.steps.iter().map(|step| &step.annotation);
        events.extend(annotations.filter(whole).map(|event| host_event("user_annotation", event, json!({}))));
    }
    if config.capture == Capture::Frames {
        // A frame that is open when the capture begins or ends is recorded as far as the capture goes.
        let cut = |event: &HostEvent| HostEvent {
            name: event.name.clone(),
            start: event.start.max(window.start),
            end: event.end.min(window.end),
        };
        let frames = recording.frames.iter().map(cut).filter(|event| event.start < event.end).enumerate();
        events.extend(frames.map(|(id, event)| host_event("python_function", &event, json!({"Python id": id + 1}))));
    }
    for (id, call) in recording.calls.iter().enumerate().filter(|(_, call)| whole(call)) {
        events.push(host_event("cuda_runtime", call, json!({"correlation": id + 1})));
    }
    events.extend(ops.iter().map(|op| gpu_event(op, config)));
    let events: Vec<String> = events.iter().map(Value::to_string).collect();
    let device = json!({"id": 0, "name": engine.device, "computeMajor": 9, "computeMinor": 0, "numSms": 132});
    format!(
        "{{\"schemaVersion\":1,\"deviceProperties\":[{device}],\"baseTimeNanoseconds\":0,\"traceEvents\":[\n{}\n]}}\n",
        events.join(",\n")
    )
}

/// Microseconds with all digits.
fn us(ns: i64) -> Value {
    json!(ns as f64 / 1e3)
}

fn host_event(class: &str, event: &HostEvent, args: Value) -> Value {
    json!({
        "ph": "X", "cat": class, "name": event.name, "pid": HOST, "tid": HOST,
        "ts": us(event.start), "dur": us(event.end - event.start), "args": args,
    })
}

fn gpu_event(op: &GpuOp, config: &Config) -> Value {
    let class = match op.name.split_once(' ') {
        Some(("Memcpy", _)) => "gpu_memcpy",
        Some(("Memset", _)) => "gpu_memset",
        _ => "kernel",
    };
    // Engines start one block per token of the captured batch in a norm.
    let grid = if op.role == "norm" { config.captured } else { 64 };
    json!({
        "ph": "X", "cat": class, "name": op.name, "pid": 0, "tid": op.stream,
        "ts": us(op.start), "dur": us(op.duration),
        "args": {"device": 0, "stream": op.stream, "correlation": op.correlation + 1, "grid": [grid, 1, 1]},
    })
}
