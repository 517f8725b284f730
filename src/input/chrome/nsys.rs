//! The Chrome JSON that nsys2json and similar scripts make of an Nsight Systems export: `cat` is `cuda` for ops of the GPU
//! (process `Device 0`, thread `Stream 7`), `nvtx` for ranges of the host, `cuda_api` for calls.

use super::{ChromeReader, Dialect, Event, Output};
use crate::input::Detail;
use crate::input::torch::is_stored_call;
use crate::trace::{Format, GpuOp, OpKind, ProcessId, Span};
use gpuprism_scan::json::unescape;

pub(crate) fn reader(label: &str, detail: Detail) -> ChromeReader<Nsys> {
    ChromeReader::new(label, detail, Format::NsysChromeJson, Nsys)
}

#[derive(Debug)]
pub(crate) struct Nsys;

impl Dialect for Nsys {
    fn event(&mut self, out: &mut Output, event: &Event<'_>) {
        let is_call = event.category.starts_with(b"cuda_api") || event.category.starts_with(b"cuda-api");
        match (event.phase, event.category) {
            (b"X", b"cuda") => op(out, event),
            (b"X", b"nvtx") => {
                out.builder.trace.events.cpu += 1;
                if let Some(times) = out.host_times(event) {
                    let process = process(out, event);
                    out.range_in(process, event, &event.name(), times);
                }
            }
            (b"X", _) if is_call => call(out, event),
            // Also `nvtx-kernel`: the ranges again, moved to the times of their kernels.
            _ => out.builder.trace.events.other += 1,
        }
    }
}

/// The process of an event, by its `pid`. The scripts write the same `pid` for the kernels, calls and ranges of a process: `Device 0`, or
/// `a.sqlite Device 0` for one of several exports. Correlation ids are those of one process.
fn process(out: &mut Output, event: &Event<'_>) -> ProcessId {
    out.builder.process(event.pid_number(), &unescape(event.pid))
}

/// `1` for `Device 1`, 0 without a `pid`; other texts as they are.
fn device_id(pid: &str) -> &str {
    let id = pid.strip_prefix("Device ").unwrap_or(pid);
    if id.is_empty() { "0" } else { id }
}

fn op(out: &mut Output, event: &Event<'_>) {
    let Some((start, duration)) = out.op_times(event) else { return };
    let name = event.name();
    let lower = name.to_ascii_lowercase();
    let kind = match () {
        () if lower.contains("memcpy") => OpKind::Copy,
        () if lower.contains("memset") => OpKind::Set,
        () => OpKind::Kernel,
    };
    let process = process(out, event);
    let op = GpuOp {
        start,
        duration,
        name: out.builder.trace.names.intern(&name),
        device: out.builder.device(device_id(&unescape(event.pid)), ""),
        stream: event.tid_number().unwrap_or(-1),
        process,
        kind,
    };
    let correlation = event.int_arg("correlationId").or_else(|| event.int_arg("correlation"));
    out.builder.trace.gpu_ops.push(op, correlation.and_then(|id| u32::try_from(id).ok()));
}

fn call(out: &mut Output, event: &Event<'_>) {
    out.builder.trace.events.cpu += 1;
    let name = event.name();
    if !is_stored_call(name.as_bytes()) {
        return;
    }
    let Some((start, duration)) = out.host_times(event) else { return };
    let process = process(out, event);
    let thread = out.builder.thread(process, event.tid_number().unwrap_or(-1));
    let name = out.builder.trace.calls.names.intern(&name);
    let correlation = event.int_arg("correlationId").or_else(|| event.int_arg("correlation"));
    out.builder.add_call(Span { start, duration, name, thread }, correlation.and_then(|id| u32::try_from(id).ok()));
}
