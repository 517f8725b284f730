//! The `trace_view.json` of torch_npu. Processes are told apart by their names: `Ascend Hardware` has the tasks of the NPU,
//! `Communication` or `HCCL` the collectives, `CANN` the API calls, `Python` the ops of PyTorch.
//!
//! A task of an AI core or AI CPU is a kernel, and so is a collective (`hcom_allReduce_`). Tasks that record, wait or notify
//! are no work. The tasks inside a collective count as other events: the collective contains them. Flow events
//! (`HostToDevice`, otherwise `async_npu`) join a task with the call that launched it; their times agree exactly.

use super::{ChromeReader, Dialect, Event, Output};
use crate::input::Detail;
use crate::input::torch::is_stored_call;
use crate::trace::{Collective, Format, GpuOp, OpKind, Span};
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, HashMap};

pub(crate) fn reader(label: &str, detail: Detail) -> ChromeReader<Ascend> {
    ChromeReader::new(label, detail, Format::AscendTraceView, Ascend::default())
}

/// Task types that compute, and those that copy.
const KERNEL_TASKS: &[&str] =
    &["AICORE", "AI_CORE", "AIVEC", "AI_VECTOR", "MIX_AIC", "MIX_AIV", "AICPU", "AI_CPU", "DSA"];
const COPY_TASKS: &[&str] = &["MEMCPY", "PCIE_DMA"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Process {
    Hardware,
    Communication,
    Cann,
    Python,
    Other,
}

/// A place on a timeline: process, thread and start.
type Key = (Box<[u8]>, Box<[u8]>, i64);

#[derive(Debug, Default)]
pub(crate) struct Ascend {
    processes: BTreeMap<Vec<u8>, Process>,
    /// The flow that starts or ends at a place.
    flows: HashMap<Key, u32, RandomState>,
    ops: Vec<(GpuOp, Key, Option<Collective>)>,
    calls: Vec<(Span, Key)>,
    flow_ids: HashMap<(bool, Box<[u8]>), u32, RandomState>,
}

fn key(event: &Event<'_>) -> Key {
    (event.pid.into(), event.tid.into(), event.start().map_or(0, |start| start.0))
}

fn contains(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.contains(word))
}

impl Dialect for Ascend {
    fn event(&mut self, out: &mut Output, event: &Event<'_>) {
        match event.phase {
            b"M" => {
                self.metadata(event);
                out.builder.trace.events.other += 1;
            }
            b"s" | b"f" => {
                self.flow(event);
                out.builder.trace.events.other += 1;
            }
            b"X" => self.span(out, event),
            _ => out.builder.trace.events.other += 1,
        }
    }

    fn finish(&mut self, out: &mut Output) {
        for (op, key, collective) in self.ops.drain(..) {
            out.builder.trace.gpu_ops.push(op, self.flows.get(&key).copied());
            if let Some(collective) = collective {
                out.builder.set_collective_of_last_op(collective);
            }
        }
        for (call, key) in self.calls.drain(..) {
            out.builder.add_call(call, self.flows.get(&key).copied());
        }
    }
}

impl Ascend {
    fn metadata(&mut self, event: &Event<'_>) {
        if event.name() != "process_name" {
            return;
        }
        let process = match event.arg("name").unwrap_or_default().as_ref() {
            "Ascend Hardware" => Process::Hardware,
            "Communication" | "HCCL" => Process::Communication,
            "CANN" => Process::Cann,
            "Python" => Process::Python,
            _ => Process::Other,
        };
        self.processes.insert(event.pid.to_owned(), process);
    }

    /// A flow from the host to the device has two events with the same id. `HostToDevice` starts at the launching call, so it
    /// is preferred to `async_npu`, which starts at the op of PyTorch.
    fn flow(&mut self, event: &Event<'_>) {
        let is_launch = event.category == b"HostToDevice";
        if !is_launch && event.category != b"async_npu" {
            return;
        }
        let next = u32::try_from(self.flow_ids.len() + 1).unwrap_or(u32::MAX);
        let id = *self.flow_ids.entry((is_launch, event.id.into())).or_insert(next);
        if is_launch {
            self.flows.insert(key(event), id);
        } else {
            self.flows.entry(key(event)).or_insert(id);
        }
    }

    fn span(&mut self, out: &mut Output, event: &Event<'_>) {
        let process = self.processes.get(event.pid).copied();
        let task_type = event.arg("Task Type");
        match (process, task_type) {
            (Some(Process::Communication), _) => self.communication(out, event),
            (Some(Process::Hardware) | None, Some(task)) => self.task(out, event, &task),
            (Some(Process::Hardware | Process::Other), _) => out.builder.trace.events.other += 1,
            (Some(Process::Cann), _) => self.call(out, event),
            _ => self.python(out, event),
        }
    }

    fn task(&mut self, out: &mut Output, event: &Event<'_>, task_type: &str) {
        let task_type = task_type.to_ascii_uppercase();
        let kind = match () {
            () if contains(&task_type, COPY_TASKS) => OpKind::Copy,
            () if contains(&task_type, KERNEL_TASKS) => OpKind::Kernel,
            () => {
                out.builder.trace.events.other += 1;
                return;
            }
        };
        let stream = event.int_arg("Physic Stream Id").or_else(|| event.int_arg("Stream Id"));
        self.op(out, event, kind, stream.or_else(|| event.tid_number()), None);
    }

    fn communication(&mut self, out: &mut Output, event: &Event<'_>) {
        let name = event.name();
        if !name.starts_with("hcom") && event.arg("alg_type").is_none() {
            out.builder.trace.events.other += 1;
            return;
        }
        let element = event.arg("data_type").unwrap_or_default();
        let bytes =
            event.int_arg("count").and_then(|count| u64::try_from(count).ok()?.checked_mul(element_bytes(&element)?));
        let operation = name.trim_start_matches("hcom_").split('_').next().unwrap_or_default().to_owned();
        let collective = Collective {
            operation,
            bytes_in: bytes,
            algorithm: event.arg("alg_type").unwrap_or_default().into_owned(),
            element: element.into_owned(),
            ..Collective::default()
        };
        // A group of ranks is no stream of the device.
        self.op(out, event, OpKind::Kernel, None, Some(collective));
    }

    fn op(
        &mut self,
        out: &mut Output,
        event: &Event<'_>,
        kind: OpKind,
        stream: Option<i64>,
        collective: Option<Collective>,
    ) {
        let Some((start, duration)) = out.op_times(event) else { return };
        let op = GpuOp {
            start,
            duration,
            name: out.builder.trace.names.intern(without_run_number(&event.name())),
            device: out.builder.device("0", ""),
            stream: stream.unwrap_or(-1),
            process: out.builder.process(-1, ""),
            kind,
        };
        self.ops.push((op, key(event), collective));
    }

    fn call(&mut self, out: &mut Output, event: &Event<'_>) {
        out.builder.trace.events.cpu += 1;
        let name = event.name();
        if is_stored_call(name.as_bytes()) {
            self.host_call(out, event, &name);
        }
    }

    fn host_call(&mut self, out: &mut Output, event: &Event<'_>, name: &str) {
        let Some((start, duration)) = out.host_times(event) else { return };
        let process = out.builder.process(-1, "");
        let thread = out.builder.thread(process, event.tid_number().unwrap_or(-1));
        let name = out.builder.trace.calls.names.intern(name);
        self.calls.push((Span { start, duration, name, thread }, key(event)));
    }

    /// Ops of PyTorch are counted. Ranges of the program have no namespace, unlike `aten::add`.
    fn python(&mut self, out: &mut Output, event: &Event<'_>) {
        out.builder.trace.events.cpu += 1;
        if event.category == b"python_function" {
            out.builder.trace.events.python_frames += 1;
            return;
        }
        let name = event.name();
        if name.starts_with("aclrt") && is_stored_call(name.as_bytes()) {
            return self.host_call(out, event, &name);
        }
        let is_range = event.category == b"user_annotation"
            || event.category == b"cpu_op"
                && !name.contains("::")
                && !name.starts_with("acl")
                && !name.contains("Backward");
        if is_range && let Some(times) = out.host_times(event) {
            out.range(event, &name, times);
        }
    }
}

/// `hcom_allReduce__123_4_1` has the number of its group and run in its name: the same kernel every time.
fn without_run_number(name: &str) -> &str {
    if name.starts_with("hcom_") {
        return name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '_' || letter == '@');
    }
    name
}

fn element_bytes(element: &str) -> Option<u64> {
    match element.trim_start_matches("HCCL_DATA_TYPE_").to_ascii_uppercase().as_str() {
        "INT8" | "UINT8" => Some(1),
        "INT16" | "UINT16" | "FP16" | "BFP16" | "BF16" => Some(2),
        "INT32" | "UINT32" | "FP32" => Some(4),
        "INT64" | "UINT64" | "FP64" => Some(8),
        _ => None,
    }
}
