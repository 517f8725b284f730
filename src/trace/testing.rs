//! Builds small traces for tests, one event per line.
//!
//! The builder has a current device, stream, process and thread. Each event is added there, so a trace reads from top to
//! bottom like a timeline. Times are ranges in nanoseconds, or in microseconds after [`TestTrace::in_us`].
//!
//! ```ignore
//! let trace = TestTrace::new()
//!     .range("decode", 0..50)
//!     .launch(1..3).launches("gemm", 100..104)
//!     .device(1).stream(9).kernel("ncclAllReduce", 100..120)
//!     .finish();
//! ```

#![allow(dead_code, reason = "test crates include this file and use only some of the methods")]

use super::{
    Annotation, Argument, Collective, DeviceId, DeviceProperties, Element, Format, FrameIds, GpuOp, GraphReplay,
    HostInterval, MemoryTraffic, MetricSeries, NONE, NameId, Ns, OpKind, OpShape, ProcessId, ShapedOp, Span, ThreadId,
    Trace, TraceBuilder, Window,
};
use std::ops::Range;
use std::sync::Arc;

/// A trace under construction. Starts on device 0, stream 7, process 1 and thread 1.
pub(crate) struct TestTrace {
    pub(crate) builder: TraceBuilder,
    ns_per_unit: i64,
    device: (String, String),
    stream: i64,
    process: (i64, String),
    tid: i64,
    last_call: u32,
}

impl TestTrace {
    /// An empty torch.profiler trace.
    pub(crate) fn new() -> Self {
        Self::of(Format::TorchProfiler)
    }

    /// An empty Nsight Systems export.
    pub(crate) fn nsys() -> Self {
        Self::of(Format::NsysSqlite)
    }

    /// An empty torch.profiler trace that keeps code, see [`TestTrace::with_code`].
    pub(crate) fn coded() -> Self {
        let mut trace = Self::new();
        trace.with_code();
        trace
    }

    fn of(format: Format) -> Self {
        Self {
            builder: TraceBuilder::new("t", format),
            ns_per_unit: 1,
            device: ("0".to_owned(), String::new()),
            stream: 7,
            process: (1, String::new()),
            tid: 1,
            last_call: 0,
        }
    }

    /// Sets the label of the trace.
    pub(crate) fn label(&mut self, label: &str) -> &mut Self {
        label.clone_into(&mut self.builder.trace.label);
        self
    }

    /// Times from here on are in microseconds.
    pub(crate) fn in_us(&mut self) -> &mut Self {
        self.ns_per_unit = 1_000;
        self
    }

    /// Makes this device the current one and adds it to the trace.
    pub(crate) fn device(&mut self, id: impl ToString) -> &mut Self {
        self.named_device(id, "")
    }

    /// Makes this device the current one and adds it to the trace with the name of its GPU.
    pub(crate) fn named_device(&mut self, id: impl ToString, gpu: &str) -> &mut Self {
        self.device = (id.to_string(), gpu.to_owned());
        self.device_id();
        self
    }

    /// Sets the compute capability of the current device.
    pub(crate) fn capability(&mut self, capability: u32) -> &mut Self {
        let device = self.device_id();
        self.builder.set_properties(device, DeviceProperties { capability: Some(capability), ..Default::default() });
        self
    }

    /// Makes this stream the current one.
    pub(crate) fn stream(&mut self, stream: i64) -> &mut Self {
        self.stream = stream;
        self
    }

    /// Makes this process without a name the current one.
    pub(crate) fn process(&mut self, pid: i64) -> &mut Self {
        self.named_process(pid, "")
    }

    /// Makes this process the current one.
    pub(crate) fn named_process(&mut self, pid: i64, name: &str) -> &mut Self {
        self.process = (pid, name.to_owned());
        self
    }

    /// Makes this thread of the current process the current one.
    pub(crate) fn thread(&mut self, tid: i64) -> &mut Self {
        self.tid = tid;
        self
    }

    /// Adds a GPU op without a launching call. Names that begin with `Memcpy`, `[CUDA memcpy` or `Memset` are copies and sets,
    /// all others are kernels.
    pub(crate) fn kernel(&mut self, name: &str, time: Range<i64>) -> &mut Self {
        self.op(name, kind_of(name), time, None)
    }

    /// Adds a GPU op with this correlation id.
    pub(crate) fn kernel_with_id(&mut self, name: &str, time: Range<i64>, correlation: u32) -> &mut Self {
        self.op(name, kind_of(name), time, Some(correlation))
    }

    /// Adds a GPU op that the last call launched.
    pub(crate) fn launches(&mut self, name: &str, time: Range<i64>) -> &mut Self {
        self.op(name, kind_of(name), time, Some(self.last_call))
    }

    /// Sets the number of bytes of the last GPU op, which is a copy or set.
    pub(crate) fn bytes(&mut self, bytes: u64) -> &mut Self {
        self.builder.set_bytes_of_last_op(bytes);
        self
    }

    /// Sets the memory traffic of the last GPU op by hardware counters.
    pub(crate) fn traffic(&mut self, read: Option<u64>, written: Option<u64>) -> &mut Self {
        let row = self.builder.trace.gpu_ops.len() as u32 - 1;
        self.builder.trace.memory_traffic.push((row, MemoryTraffic { read, written }));
        self
    }

    /// Adds a call of `cudaLaunchKernel`.
    pub(crate) fn launch(&mut self, time: Range<i64>) -> &mut Self {
        self.call("cudaLaunchKernel", time)
    }

    /// Adds a Python frame of the current thread that runs a step.
    pub(crate) fn step_frame(&mut self, name: &str, time: Range<i64>) -> &mut Self {
        let (start, duration) = self.start_and_duration(&time);
        let time = HostInterval { thread: self.thread_id(), start, end: start.after(duration) };
        self.builder.add_step_frame(name, time);
        self
    }

    /// Adds a call of the current thread with the next free correlation id.
    pub(crate) fn call(&mut self, name: &str, time: Range<i64>) -> &mut Self {
        self.call_with_id(name, time, self.last_call + 1)
    }

    /// Adds a call of the current thread with this correlation id.
    pub(crate) fn call_with_id(&mut self, name: &str, time: Range<i64>, correlation: u32) -> &mut Self {
        let name = self.builder.trace.calls.names.intern(name);
        let call = self.span(name, &time);
        self.builder.add_call(call, Some(correlation));
        self.last_call = correlation;
        self
    }

    /// Adds a range of the current thread.
    pub(crate) fn range(&mut self, name: &str, time: Range<i64>) -> &mut Self {
        let name = self.builder.trace.ranges.names.intern(name);
        let range = self.span(name, &time);
        self.builder.trace.ranges.push(range);
        self
    }

    /// Adds a replay of a CUDA graph on the current device, without a launching call.
    pub(crate) fn replay(&mut self, time: Range<i64>) -> &mut Self {
        self.replay_with_id(time, None)
    }

    /// Adds a replay of a CUDA graph that the last call launched.
    pub(crate) fn launches_replay(&mut self, time: Range<i64>) -> &mut Self {
        self.replay_with_id(time, Some(self.last_call))
    }

    fn replay_with_id(&mut self, time: Range<i64>, correlation: Option<u32>) -> &mut Self {
        let (start, duration) = self.start_and_duration(&time);
        let (device, (pid, name)) = (self.device_id(), self.process.clone());
        let process = self.builder.process(pid, &name);
        let replay = GraphReplay { start, duration, device, process, graph: Some(1), launch: None };
        self.builder.add_graph_replay(replay, correlation);
        self
    }

    /// Adds a counter of the current device, as (time, value).
    pub(crate) fn metric(&mut self, name: &str, samples: &[(i64, f64)]) -> &mut Self {
        let device = self.device_id();
        self.metric_of(Some(device), name, samples)
    }

    /// Adds a counter of this device, or of an unknown device, as (time, value).
    pub(crate) fn metric_of(&mut self, device: Option<DeviceId>, name: &str, samples: &[(i64, f64)]) -> &mut Self {
        let samples = samples.iter().map(|&(time, value)| (Ns(time * self.ns_per_unit), value)).collect();
        self.builder.trace.metrics.push(MetricSeries { source: 0, device, name: name.to_owned(), samples });
        self
    }

    /// Keeps code: CPU ops, Python frames and annotations. Call it before the first event.
    pub(crate) fn with_code(&mut self) -> &mut Self {
        self.builder.keep_code();
        self
    }

    /// Adds a CPU op of the current thread with this external id, which is part of the code.
    pub(crate) fn cpu_op(&mut self, name: &str, time: Range<i64>, id: u32) -> &mut Self {
        let name = self.builder.code().map_or(NameId(0), |code| code.cpu_ops.names.intern(name));
        let op = self.span(name, &time);
        self.builder.add_cpu_op(op, id);
        self
    }

    /// Adds an op of the current thread with the shapes of its tensors.
    pub(crate) fn shaped_op(&mut self, op: &str, tensors: &[(&[u64], Element)], time: Range<i64>) -> &mut Self {
        let argument = |(lengths, element): &(&[u64], Element)| Argument {
            lengths: lengths.to_vec(),
            elements: lengths.iter().product(),
            element: *element,
            value: String::new(),
        };
        let arguments = tensors.iter().map(argument).collect();
        self.op_with_arguments(OpShape { op: op.to_owned(), arguments }, time)
    }

    /// Adds an op of the current thread with these arguments.
    pub(crate) fn op_with_arguments(&mut self, op: OpShape, time: Range<i64>) -> &mut Self {
        let Span { start, duration, thread, .. } = self.span(NameId(0), &time);
        let table = Arc::make_mut(&mut self.builder.trace.shaped_ops);
        let shape = table.shapes.iter().position(|other| *other == op).unwrap_or(table.shapes.len());
        if shape == table.shapes.len() {
            table.shapes.push(op);
        }
        table.push(ShapedOp { start, duration, thread, shape: shape as u32 });
        table.sort();
        self
    }

    /// Adds a Python frame of the current thread without ids, which is part of the code.
    pub(crate) fn frame(&mut self, name: &str, time: Range<i64>) -> &mut Self {
        self.frame_with_ids(name, time, FrameIds { id: NONE, parent: NONE })
    }

    /// Adds a Python frame of the current thread, which is part of the code.
    pub(crate) fn frame_with_ids(&mut self, name: &str, time: Range<i64>, ids: FrameIds) -> &mut Self {
        let name = self.builder.code().map_or(NameId(0), |code| code.frames.names.intern(name));
        let frame = self.span(name, &time);
        self.builder.add_frame(frame, ids);
        self
    }

    /// Adds a launch call during a graph capture: it names its kernel, which does not run.
    pub(crate) fn captured_launch(&mut self, kernel: &str, time: Range<i64>) -> &mut Self {
        let kernel = self.builder.code().map(|code| code.kernel_names.intern(kernel));
        self.call("hipLaunchKernel", time);
        self.builder.set_code_of_last_call(NONE, kernel);
        self
    }

    /// Adds a GPU op with this external id, without a launching call.
    pub(crate) fn kernel_of_cpu_op(&mut self, name: &str, time: Range<i64>, id: u32) -> &mut Self {
        self.kernel(name, time).external_id(id)
    }

    /// Sets the external id of the last GPU op, which is part of the code.
    pub(crate) fn external_id(&mut self, id: u32) -> &mut Self {
        self.builder.set_external_id_of_last_op(id);
        self
    }

    /// Sets the message of the last GPU op, which is the kernel of a collective.
    pub(crate) fn message(&mut self, message: Collective) -> &mut Self {
        self.builder.set_collective_of_last_op(message);
        self
    }

    /// Adds an annotation of the host, which is part of the code.
    pub(crate) fn annotation(&mut self, text: &str, time: Range<i64>) -> &mut Self {
        self.annotation_with_id(text, time, NONE)
    }

    /// Adds an annotation of the host with this external id.
    pub(crate) fn annotation_with_id(&mut self, text: &str, time: Range<i64>, id: u32) -> &mut Self {
        self.add_annotation(None, text, &time, id)
    }

    /// Adds an annotation of the current device with this external id.
    pub(crate) fn device_annotation(&mut self, text: &str, time: Range<i64>, id: u32) -> &mut Self {
        let device = self.device_id();
        self.add_annotation(Some(device), text, &time, id)
    }

    fn add_annotation(&mut self, device: Option<DeviceId>, text: &str, time: &Range<i64>, id: u32) -> &mut Self {
        let (start, duration) = self.start_and_duration(time);
        let process = self.process_id();
        if let Some(code) = self.builder.code() {
            let name = code.annotation_names.intern(text);
            code.annotations.push(Annotation { start, duration, name, id, device, process });
        }
        self
    }

    /// The finished trace. The builder is empty again afterwards; format and code stay as they are.
    pub(crate) fn finish(&mut self) -> Trace {
        let mut next = Self::of(self.builder.trace.format);
        if self.builder.code().is_some() {
            next.with_code();
        }
        std::mem::replace(self, next).builder.finish()
    }

    /// The part of the finished trace in this window, in nanoseconds.
    pub(crate) fn window(&mut self, time: Range<i64>) -> Trace {
        self.finish().within(Window { start: Ns(time.start), end: Ns(time.end) })
    }

    /// Adds a GPU op to the current device, stream and process.
    pub(crate) fn op(&mut self, name: &str, kind: OpKind, time: Range<i64>, correlation: Option<u32>) -> &mut Self {
        let (start, duration) = self.start_and_duration(&time);
        let (name, device) = (self.builder.trace.names.intern(name), self.device_id());
        let (stream, process) = (self.stream, self.process_id());
        let op = GpuOp { start, duration, name, device, stream, process, kind };
        self.builder.trace.gpu_ops.push(op, correlation);
        self
    }

    pub(crate) fn device_id(&mut self) -> DeviceId {
        let (id, gpu) = &self.device;
        self.builder.device(id, gpu)
    }

    pub(crate) fn process_id(&mut self) -> ProcessId {
        self.builder.process(self.process.0, &self.process.1)
    }

    pub(crate) fn thread_id(&mut self) -> ThreadId {
        let process = self.process_id();
        self.builder.thread(process, self.tid)
    }

    fn span(&mut self, name: NameId, time: &Range<i64>) -> Span {
        let (start, duration) = self.start_and_duration(time);
        Span { start, duration, name, thread: self.thread_id() }
    }

    fn start_and_duration(&self, time: &Range<i64>) -> (Ns, Ns) {
        (Ns(time.start * self.ns_per_unit), Ns((time.end - time.start) * self.ns_per_unit))
    }
}

fn kind_of(name: &str) -> OpKind {
    match name {
        _ if name.starts_with("Memcpy") || name.starts_with("[CUDA memcpy") => OpKind::Copy,
        _ if name.starts_with("Memset") => OpKind::Set,
        _ => OpKind::Kernel,
    }
}
