//! Labels of devices, processes, kernels and streams in table rows.

use crate::analysis::section::{KernelName, Plain, Value};
use crate::rules::names;
use crate::trace::{DeviceId, GpuOp, NameId, ProcessId, Trace};
use crate::words;

/// The device id of the trace: an integer if it is one, otherwise text such as `[TP00] 0`.
pub(crate) fn device(trace: &Trace, id: DeviceId) -> Value {
    let Some(device) = trace.devices.get(id.0 as usize) else { return Value::Null };
    device.id.parse::<i64>().map_or_else(|_| Value::from(device.id.as_str()), Value::Int)
}

/// The process id of the operating system, which may be 0. Without an id the name of the process; `Null` if
/// there is no name either.
pub(crate) fn pid(trace: &Trace, id: ProcessId) -> Value {
    match trace.processes.get(id.0 as usize) {
        Some(process) if process.pid >= 0 => Value::Int(process.pid),
        Some(process) if !process.name.is_empty() => Value::from(process.name.as_str()),
        _ => Value::Null,
    }
}

/// The full kernel name, demangled.
pub(crate) fn kernel_name(trace: &Trace, id: NameId) -> KernelName {
    KernelName(names::demangle(trace.names.get(id)).into_owned())
}

/// The full kernel name, demangled.
pub(crate) fn kernel(trace: &Trace, id: NameId) -> Value {
    kernel_name(trace, id).value()
}

/// `Copy stream 7` for the head `Copy`; with the device if the trace has several. If the stream is unknown,
/// only the device.
pub(crate) fn lane(trace: &Trace, head: &str, op: &GpuOp) -> String {
    let device = trace.devices.get(op.device.0 as usize).map_or("", |device| device.id.as_str());
    words::labels::lane(head, device, trace.devices.len() > 1, (op.stream >= 0).then_some(op.stream))
}

/// The stream number; `Null` if it is unknown.
pub(crate) fn stream(op: &GpuOp) -> Value {
    Value::from((op.stream >= 0).then_some(op.stream))
}
