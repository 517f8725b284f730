//! Finds the code around blocking calls: [`crate::trace::BlockingSites`].
//!
//! Cost: O(log n) for each CPU op and Python frame, with n calls, O(1) if it begins near the event before it, plus O(1) for each
//! call that it contains.

use crate::ordering::partition_point_near;
use crate::trace::{BlockingSite, BlockingSites, CodeEvent, CodeKind, HostInterval, NameId, Names, Ns};

/// Finds the innermost CPU op and Python frame around each of some calls. Events may arrive in any order.
#[derive(Debug)]
pub(super) struct BlockingSiteSearch {
    /// Sorted by thread and start.
    calls: Vec<Found>,
    op_roles: Vec<Option<Role>>,
    function_roles: Vec<Option<Role>>,
    /// The first call that the event before could contain. Events mostly arrive in the order of time.
    first: usize,
}

/// What an op or frame around a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Op,
    /// An op whose name begins with an underscore.
    InternalOp,
    Frame,
    /// A frame of PyTorch itself.
    TorchFrame,
}

impl Role {
    fn of_op(name: &str) -> Self {
        if name.contains("::_") { Self::InternalOp } else { Self::Op }
    }

    /// `None` for a frame without a file, such as a built-in method.
    fn of_function(name: &str) -> Option<Self> {
        let is_in_torch = name.starts_with("torch/") || name.contains("/torch/") || name.contains("\\torch\\");
        let role = if is_in_torch { Self::TorchFrame } else { Self::Frame };
        name.contains(".py(").then_some(role)
    }
}

/// What was found around one call.
#[derive(Debug)]
struct Found {
    call: HostInterval,
    op: Option<Enclosing>,
    internal_op: Option<Enclosing>,
    frame: Option<Enclosing>,
    torch_frame: Option<Enclosing>,
}

/// An event around a call.
#[derive(Debug, Clone, Copy)]
struct Enclosing {
    start: Ns,
    end: Ns,
    name: NameId,
}

impl Found {
    fn of(call: &HostInterval) -> Self {
        Self { call: *call, op: None, internal_op: None, frame: None, torch_frame: None }
    }

    fn slot(&mut self, role: Role) -> &mut Option<Enclosing> {
        match role {
            Role::Op => &mut self.op,
            Role::InternalOp => &mut self.internal_op,
            Role::Frame => &mut self.frame,
            Role::TorchFrame => &mut self.torch_frame,
        }
    }
}

impl BlockingSiteSearch {
    /// `calls` are sorted.
    pub(super) fn new(calls: &[HostInterval], functions: &Names, ops: &Names) -> Self {
        Self {
            calls: calls.iter().map(Found::of).collect(),
            op_roles: ops.iter().map(|name| Some(Role::of_op(name))).collect(),
            function_roles: functions.iter().map(Role::of_function).collect(),
            first: 0,
        }
    }

    /// Adds a CPU op or Python frame. It contains a call if the call begins in it: some traces round the ends of events to
    /// microseconds.
    pub(super) fn add(&mut self, event: CodeEvent) {
        let roles = if event.kind == CodeKind::Op { &self.op_roles } else { &self.function_roles };
        let Some(Some(role)) = roles.get(event.name.0 as usize).copied() else { return };
        let HostInterval { thread, start, end } = event.time;
        self.first = partition_point_near(&self.calls, self.first, |found| {
            (found.call.thread, found.call.start) < (thread, start)
        });
        let calls = self.calls.iter_mut().skip(self.first);
        for found in calls.take_while(|found| found.call.thread == thread && found.call.start < end) {
            let slot = found.slot(role);
            if slot.is_none_or(|known| (start, known.end) >= (known.start, end)) {
                *slot = Some(Enclosing { start, end, name: event.name });
            }
        }
    }

    /// Returns the sites of the calls around which something was found.
    pub(super) fn finish(self, functions: &Names, ops: &Names) -> BlockingSites {
        let mut sites = BlockingSites::default();
        let text = |names: &Names, event: Option<Enclosing>| {
            event.map_or_else(String::new, |event| names.get(event.name).to_owned())
        };
        for Found { call, op, internal_op, frame, torch_frame } in self.calls {
            let site =
                BlockingSite { op: text(ops, op.or(internal_op)), frame: text(functions, frame.or(torch_frame)) };
            if site != BlockingSite::default() {
                sites.add(call, site);
            }
        }
        sites
    }
}
