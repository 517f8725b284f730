//! Finds launch calls without a GPU op, in one pass over the calls: a graph was captured from them, so they ran nothing.

use crate::analysis::triage::frames::FrameRules;
use crate::rules::signals::{CallKind, Signals};
use crate::trace::{CallId, HostCode, NONE, NameId, Trace};

/// A launch call that was captured into a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Captured {
    pub(super) capture: usize,
    pub(super) call: u32,
    /// The kernel in [`HostCode::kernel_names`], if the call records it.
    pub(super) kernel: Option<NameId>,
}

/// The meaning of a call for captures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Begins,
    Ends,
    Launches,
    Other,
}

/// Finds the captured launches in order of time: calls without a GPU op that record their kernel, and all launches without a
/// GPU op between the begin and the end of a capture.
pub(super) fn find(trace: &Trace, code: &HostCode, rules: &FrameRules, signals: &Signals) -> Vec<Captured> {
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
    let has_op = calls_with_ops(trace);
    // The current capture of each thread, and whether its beginning is in the trace.
    let mut threads: Vec<(usize, bool)> = (0..trace.threads.len()).map(|thread| (thread, false)).collect();
    let (mut captures, mut found) = (threads.len(), Vec::new());
    let kernels = code.call_kernels.iter().copied().chain(std::iter::repeat(NONE));
    for ((index, call), kernel) in (0..).zip(trace.calls.iter()).zip(kernels) {
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
        if is_captured && has_op.get(index as usize) == Some(&false) {
            found.push(Captured { capture: *capture, call: index, kernel });
        }
    }
    found
}

/// For every call, whether it launched a GPU op.
fn calls_with_ops(trace: &Trace) -> Vec<bool> {
    let mut has_op = vec![false; trace.calls.len()];
    for CallId(call) in trace.gpu_ops.launches().flatten() {
        if let Some(has_op) = has_op.get_mut(call as usize) {
            *has_op = true;
        }
    }
    has_op
}
