//! How rows name devices, processes and kernels.

use crate::analysis::section::Value;
use crate::rules::names;
use crate::trace::{DeviceId, GpuOp, NameId, ProcessId, Trace};

/// The device as the trace numbers it: a number where it is one, else `[TP00] 0`.
pub(crate) fn device(trace: &Trace, id: DeviceId) -> Value {
    let Some(device) = trace.devices.get(id.0 as usize) else { return Value::Null };
    device.id.parse::<i64>().map_or_else(|_| Value::from(device.id.as_str()), Value::Int)
}

/// The process as the operating system numbers it, 0 included; its name or `Null` where the trace has no number.
pub(crate) fn pid(trace: &Trace, id: ProcessId) -> Value {
    match trace.processes.get(id.0 as usize) {
        Some(process) if process.pid >= 0 => Value::Int(process.pid),
        Some(process) if !process.name.is_empty() => Value::from(process.name.as_str()),
        _ => Value::Null,
    }
}

/// The whole name of a kernel, demangled.
pub(crate) fn kernel(trace: &Trace, id: NameId) -> Value {
    Value::Text(names::demangle(trace.names.get(id)).into_owned())
}

/// `Copy stream 7`, with the device where there are several, and the device alone where the stream is not known.
pub(crate) fn lane(trace: &Trace, head: &str, op: &GpuOp) -> String {
    let device = trace.devices.get(op.device.0 as usize).map_or("", |device| device.id.as_str());
    match (trace.devices.len() > 1, op.stream >= 0) {
        (false, true) => format!("{head} stream {}", op.stream),
        (true, true) => format!("{head} {device} stream {}", op.stream),
        (_, false) => format!("{head} device {device}"),
    }
}

/// The stream's number; `Null` where the trace does not tell.
pub(crate) fn stream(op: &GpuOp) -> Value {
    Value::from((op.stream >= 0).then_some(op.stream))
}
