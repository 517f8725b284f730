//! Events of host threads: API calls, Python functions, steps and all other ranges.
//!
//! A call has a correlation id. The name of a Python function starts with a dollar sign: `$profiler.py:101 start_trace`. A step is
//! what `StepTraceAnnotation` marks: a range with a number and a name of the user's choice.

use crate::input::Detail;
use crate::input::torch::is_stored_call;
use crate::rules::{is_numbered_step, is_step_frame};
use crate::trace::{
    CodeKind, HostInterval, NameId, Ns, PackedCode, ProblemKind, Span, ThreadId, TraceBuilder, is_plausible,
};

/// A step is named by its number, too, so each may have a name of its own: that of all steps is cut to this.
pub(super) const MAX_STEP_NAME_BYTES: usize = 1 << 10;

/// Adds events of host threads to a trace.
#[derive(Debug)]
pub(super) struct HostWriter {
    detail: Detail,
    code: PackedCode,
}

/// What an event of a host thread is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HostEvent {
    Call(NameId),
    /// A call that neither launches nor waits.
    OtherCall,
    /// A Python function, by its name in [`PackedCode::functions`]; `None` for a built-in one, which counts for its caller.
    Function(Option<NameId>),
    /// A Python function that runs one step of a serving engine.
    StepFunction(NameId, String),
    Range(NameId),
}

impl HostWriter {
    pub(super) fn new(detail: Detail) -> Self {
        let code = if detail == Detail::Host { PackedCode::default() } else { PackedCode::too_long() };
        Self { detail, code }
    }

    /// What an event with a correlation id is: the call of an API. Its name may be followed by a graph: `cuGraphLaunch (CudaGraph:9)`.
    pub(super) fn call(builder: &mut TraceBuilder, name: &str) -> HostEvent {
        let name = if is_api(name) { name.split(" (").next().unwrap_or(name) } else { name };
        if is_api(name) && !is_stored_call(name.as_bytes()) {
            return HostEvent::OtherCall;
        }
        HostEvent::Call(builder.trace.calls.names.intern(name))
    }

    /// What an event of this name is that is neither a call nor a step.
    pub(super) fn classify(&mut self, builder: &mut TraceBuilder, name: &str) -> HostEvent {
        let Some(frame) = name.strip_prefix('$') else {
            builder.trace.engine_hints.annotations.intern(name);
            return HostEvent::Range(builder.trace.ranges.names.intern(name));
        };
        let Some(function) = python_function(frame) else { return HostEvent::Function(None) };
        let id = self.code.functions.intern(&function);
        if is_step_frame(function.as_bytes()) {
            // The name in the table is no longer than names may be.
            return HostEvent::StepFunction(id, self.code.functions.get(id).to_owned());
        }
        HostEvent::Function(Some(id))
    }

    /// The range of a step.
    pub(super) fn step(builder: &mut TraceBuilder, name: &str, number: i64) -> HostEvent {
        let name = name.get(..name.floor_char_boundary(MAX_STEP_NAME_BYTES)).unwrap_or(name);
        let name = step_name(name, number);
        builder.trace.engine_hints.annotations.intern(&name);
        HostEvent::Range(builder.trace.ranges.names.intern(&name))
    }

    /// Adds an event; `at` is its offset in the file.
    pub(super) fn add(
        &mut self,
        builder: &mut TraceBuilder,
        event: &HostEvent,
        (thread, correlation): (ThreadId, Option<u32>),
        (start, duration): (Ns, Ns),
        at: u64,
    ) {
        builder.trace.events.cpu += 1;
        let is_function = matches!(event, HostEvent::Function(_) | HostEvent::StepFunction(..));
        builder.trace.events.python_frames += u64::from(is_function);
        if !is_plausible(start, duration) {
            return builder.trace.problems.add(ProblemKind::HostRowWithoutTime, 1, at);
        }
        if self.detail == Detail::GpuOps {
            return builder.trace.problems.add(ProblemKind::LeftOut, 1, at);
        }
        match event {
            HostEvent::Call(name) => builder.add_call(Span { start, duration, name: *name, thread }, correlation),
            // An instant, such as an allocation, is no range.
            HostEvent::Range(_) if duration == Ns::ZERO => {}
            HostEvent::Range(name) => builder.trace.ranges.push(Span { start, duration, name: *name, thread }),
            HostEvent::Function(None) | HostEvent::OtherCall => {}
            HostEvent::Function(Some(name)) => self.code.push(CodeKind::Function, *name, thread.0, start, duration),
            HostEvent::StepFunction(name, function) => {
                self.code.push(CodeKind::Function, *name, thread.0, start, duration);
                builder.add_step_frame(function, HostInterval { thread, start, end: start.after(duration) });
            }
        }
    }

    /// Gives the Python functions to the trace.
    pub(super) fn finish(self, builder: &mut TraceBuilder) {
        if self.detail == Detail::Host {
            builder.set_packed_code(self.code);
        }
    }
}

/// Whether this is the name of an API call. Old profilers of AMD name the call of a launch like its kernel.
fn is_api(name: &str) -> bool {
    ["cuda", "cu", "hip", "hsa_"].iter().any(|prefix| {
        let rest = name.strip_prefix(prefix).unwrap_or_default();
        rest.starts_with(|first: char| first.is_ascii_uppercase() || *prefix == "hsa_")
    })
}

/// The name of a Python function as torch.profiler writes it: `profiler.py(101): start_trace`.
fn python_function(frame: &str) -> Option<String> {
    let (place, function) = frame.split_once(' ')?;
    let (file, line) = place.rsplit_once(':')?;
    line.parse::<u32>().ok()?;
    Some(format!("{file}({line}): {function}"))
}

/// The name of a step, so that it is recognized as one: `train step 3`. Words that tell prefill from decode are kept, too.
fn step_name(name: &str, number: i64) -> String {
    let numbered = format!("{name} {number}");
    let lower = name.to_ascii_lowercase();
    if is_numbered_step(&numbered) || ["prefill", "extend", "decode"].iter().any(|word| lower.contains(word)) {
        return numbered;
    }
    let named = format!("{name} step {number}");
    if is_numbered_step(&named) { named } else { format!("step {number}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_a_name_that_is_recognized() {
        for (name, step) in
            [("train", "train step 3"), ("train_step", "train_step 3"), ("decode", "decode 3"), ("serve", "step 3")]
        {
            assert_eq!(step_name(name, 3), step);
        }
    }

    #[test]
    fn python_functions_have_a_file_and_a_line() {
        assert_eq!(python_function("profiler.py:101 start_trace").as_deref(), Some("profiler.py(101): start_trace"));
        assert_eq!(["<unknown> __exit__", "x", "a:b c"].map(python_function), [None, None, None]);
    }

    #[test]
    fn calls_named_like_their_kernel_are_kept_and_those_that_do_nothing_are_not() {
        let mut builder = TraceBuilder::default();
        let mut kept = |name| matches!(HostWriter::call(&mut builder, name), HostEvent::Call(_));
        for name in
            ["custom_call", "loop_add_fusion", "cuLaunchKernel", "hipModuleLaunchKernel", "cuGraphLaunch (CudaGraph:9)"]
        {
            assert!(kept(name), "{name}");
        }
        assert!(!kept("cuCtxGetCurrent"));
        assert!(builder.trace.calls.names.iter().any(|name| name == "cuGraphLaunch"));
    }
}
