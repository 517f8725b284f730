//! How rows name devices, processes and kernels.

use crate::analysis::section::Value;
use crate::rules::names;
use crate::trace::{DeviceId, NameId, ProcessId, Trace};

/// The device as the trace numbers it: a number where it is one, else `[TP00] 0`.
pub(super) fn device(trace: &Trace, id: DeviceId) -> Value {
    let Some(device) = trace.devices.get(id.0 as usize) else { return Value::Null };
    device.id.parse::<i64>().map_or_else(|_| Value::from(device.id.as_str()), Value::Int)
}

/// The process as the operating system numbers it, 0 included; its name or `Null` where the trace has no number.
pub(super) fn pid(trace: &Trace, id: ProcessId) -> Value {
    match trace.processes.get(id.0 as usize) {
        Some(process) if process.pid >= 0 => Value::Int(process.pid),
        Some(process) if !process.name.is_empty() => Value::from(process.name.as_str()),
        _ => Value::Null,
    }
}

/// The whole name of a kernel, demangled.
pub(super) fn kernel(trace: &Trace, id: NameId) -> Value {
    Value::Text(names::demangle(trace.names.get(id)).into_owned())
}
