//! Launches that ran nothing, because a graph was captured from them.

use crate::analysis::triage::frames::FrameRules;
use crate::rules::signals::{CallKind, Signals};
use crate::trace::{CallId, Code, NONE, NameId, Trace};

/// One such launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Captured {
    /// Which of the trace's captures it belongs to.
    pub(super) capture: usize,
    /// The call.
    pub(super) call: u32,
    /// The kernel's name among the code's kernel names, where the call tells it.
    pub(super) kernel: Option<NameId>,
}

/// What the name of a call says about captures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Begins,
    Ends,
    Launches,
    Other,
}

/// Calls of which no GPU op is known, in order: those that name their kernel, and within a capture all launches.
pub(super) fn find(trace: &Trace, code: &Code, rules: &FrameRules, signals: &Signals) -> Vec<Captured> {
    let role = |name: &str| match signals.call(name) {
        _ if name.contains(&rules.capture_begins) => Role::Begins,
        _ if name.contains(&rules.capture_ends) => Role::Ends,
        CallKind::Launch => Role::Launches,
        _ => Role::Other,
    };
    let roles: Vec<Role> = trace.calls.names.iter().map(role).collect();
    if code.call_kernels.is_empty() && !roles.contains(&Role::Begins) {
        return Vec::new();
    }
    let launched = launched(trace);
    // Of each thread the capture that goes on, and whether it has begun in the trace.
    let mut threads: Vec<(usize, bool)> = (0..trace.threads.len()).map(|thread| (thread, false)).collect();
    let (mut captures, mut found) = (threads.len(), Vec::new());
    let kernels = code.call_kernels.iter().copied().chain(std::iter::repeat(NONE));
    for ((at, call), kernel) in (0..).zip(trace.calls.iter()).zip(kernels) {
        let Some((capture, is_capturing)) = threads.get_mut(call.thread.0 as usize) else { continue };
        let role = roles.get(call.name.0 as usize).copied().unwrap_or(Role::Other);
        match role {
            Role::Begins => {
                (*capture, *is_capturing) = (captures, true);
                captures += 1;
            }
            Role::Ends => *is_capturing = false,
            Role::Launches | Role::Other => {}
        }
        let kernel = (kernel != NONE).then_some(NameId(kernel));
        let is_captured = kernel.is_some() || (*is_capturing && role == Role::Launches);
        if is_captured && launched.get(at as usize) == Some(&false) {
            found.push(Captured { capture: *capture, call: at, kernel });
        }
    }
    found
}

/// By call: is an op of it known?
fn launched(trace: &Trace) -> Vec<bool> {
    let mut launched = vec![false; trace.calls.len()];
    for CallId(call) in trace.gpu_ops.launches().flatten() {
        if let Some(launched) = launched.get_mut(call as usize) {
            *launched = true;
        }
    }
    launched
}
