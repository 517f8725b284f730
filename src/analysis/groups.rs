//! GPU ops summed by what they share: name, device, stream, process and kind. Most tables of sums are made of these sums, so that they
//! need no pass over millions of ops of their own.

use crate::trace::{DeviceId, NameId, Ns, OpKind, ProcessId, Trace};

/// The ops of one name on one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) name: NameId,
    pub(super) device: DeviceId,
    pub(super) process: ProcessId,
    /// The stream; -1 where the trace does not tell.
    pub(super) stream: i64,
    pub(super) kind: OpKind,
    pub(super) count: u64,
    /// Sum of durations.
    pub(super) total: Ns,
    pub(super) shortest: Ns,
    pub(super) longest: Ns,
    /// The first start.
    pub(super) first: Ns,
    /// The last end.
    pub(super) last: Ns,
}

/// All groups of a trace, in the order of their first ops.
#[derive(Debug)]
pub(super) struct Groups {
    pub(super) groups: Vec<Group>,
    /// The group of each op.
    pub(super) of_op: Vec<u32>,
}

impl Groups {
    pub(super) fn of(trace: &Trace) -> Self {
        let (first_ops, of_op) = trace.gpu_ops.grouped(trace.names.len());
        let first = |op: crate::trace::GpuOp| Group {
            name: op.name,
            device: op.device,
            process: op.process,
            stream: op.stream,
            kind: op.kind,
            count: 0,
            total: Ns::ZERO,
            shortest: op.duration,
            longest: op.duration,
            first: op.start,
            last: op.end(),
        };
        let mut groups: Vec<Group> = first_ops.into_iter().map(first).collect();
        for ((start, duration), group) in trace.gpu_ops.times().zip(&of_op) {
            let Some(group) = groups.get_mut(*group as usize) else { continue };
            group.count += 1;
            group.total += duration;
            group.shortest = group.shortest.min(duration);
            group.longest = group.longest.max(duration);
            group.last = group.last.max(start + duration);
        }
        Self { groups, of_op }
    }
}
