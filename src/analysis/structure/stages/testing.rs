//! A builder of small traces with ops, launches and annotations for tests.

use crate::analysis::triage::{Options, Request, ServerArgs, Stage, View};
use crate::trace::{
    Annotation, DeviceId, Format, GpuOp, NONE, Ns, OpKind, ProcessId, Span, ThreadId, Trace, TraceBuilder,
};

/// A trace with its code. Times are starts and ends in nanoseconds.
pub(crate) struct Made(pub(crate) TraceBuilder, ProcessId, ThreadId);

impl Made {
    pub(crate) fn new() -> Self {
        let mut builder = TraceBuilder::new("made", Format::TorchProfiler);
        builder.keep_code();
        let process = builder.process(10, "");
        let thread = builder.thread(process, 11);
        Self(builder, process, thread)
    }

    /// Adds an op without launch and id.
    pub(crate) fn op(&mut self, device: &str, start: i64, end: i64) -> &mut Self {
        self.op_of(device, "kernel", start, end, None, NONE)
    }

    /// Adds an op and the call that launched it.
    pub(crate) fn launched(&mut self, device: &str, launch: i64, start: i64, end: i64) -> &mut Self {
        let correlation = 1000 + u32::try_from(self.0.trace.calls.len()).unwrap();
        let name = self.0.trace.calls.names.intern("cudaLaunchKernel");
        self.0.add_call(Span { start: Ns(launch), duration: Ns(1), name, thread: self.2 }, Some(correlation));
        self.op_of(device, "kernel", start, end, Some(correlation), NONE)
    }

    pub(crate) fn op_of(
        &mut self,
        device: &str,
        name: &str,
        start: i64,
        end: i64,
        correlation: Option<u32>,
        id: u32,
    ) -> &mut Self {
        let (device, name) = (self.0.device(device, ""), self.0.trace.names.intern(name));
        let (start, duration, kind) = (Ns(start), Ns(end - start), OpKind::Kernel);
        self.0
            .trace
            .gpu_ops
            .push(GpuOp { start, duration, name, device, stream: 7, process: self.1, kind }, correlation);
        self.0.set_external_id_of_last_op(id);
        self
    }

    /// Adds a host annotation.
    pub(crate) fn host(&mut self, text: &str, start: i64, end: i64, id: u32) -> &mut Self {
        self.annotation(text, start, end, id, None)
    }

    /// Adds a device annotation.
    pub(crate) fn twin(&mut self, device: &str, text: &str, start: i64, end: i64, id: u32) -> &mut Self {
        let device = self.0.device(device, "");
        self.annotation(text, start, end, id, Some(device))
    }

    fn annotation(&mut self, text: &str, start: i64, end: i64, id: u32, device: Option<DeviceId>) -> &mut Self {
        let process = self.1;
        let code = self.0.code().unwrap();
        let (name, start, duration) = (code.annotation_names.intern(text), Ns(start), Ns(end - start));
        code.annotations.push(Annotation { start, duration, name, id, device, process });
        self
    }

    /// Returns the trace and starts a new one.
    pub(crate) fn finish(&mut self) -> Trace {
        std::mem::replace(self, Self::new()).0.finish()
    }
}

/// Calls `test` with the view of a trace.
pub(crate) fn with_view<R>(
    trace: &Trace,
    file_stage: Stage,
    server: &ServerArgs,
    options: &Options,
    test: impl FnOnce(&mut View) -> R,
) -> R {
    let request = Request { trace, path: "", file_stage, mapping: &[], server, framework: None, options };
    test(&mut View::new(&request))
}

/// Parses server arguments from JSON.
pub(crate) fn arguments(json: &str) -> ServerArgs {
    ServerArgs(serde_json::from_str(json).unwrap())
}
