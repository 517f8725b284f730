//! Ops, the calls that launched them, and the flows that join both. A flow ends where its op starts, and begins at a moment
//! within the call, which is seldom the start of the call. O(n log n) for n calls, ops and flows; all are kept to the end.

use super::{Event, Output};
use crate::ordering;
use crate::trace::{GpuOp, OpKind, Span};
use std::collections::BTreeMap;
use std::mem;

/// Process, thread and time in nanoseconds, as the file writes the first two.
pub(super) type Key = (Vec<u8>, Vec<u8>, i64);

/// The place of an event.
pub(super) fn key(event: &Event<'_>) -> Key {
    (event.pid.to_owned(), event.tid.to_owned(), event.start().map_or(0, |start| start.0))
}

/// An op and what joins it with its call.
#[derive(Debug)]
pub(super) struct JoinedOp {
    pub(super) op: GpuOp,
    pub(super) key: Key,
    /// The id of its flow if the op says it. Else the flow that ends at its place counts.
    pub(super) flow: Option<i64>,
    /// The rank that it belongs to, if the file has several.
    pub(super) rank: Option<i64>,
    /// What it moves. Else the size that its call says counts.
    pub(super) bytes: Option<u64>,
}

/// A call of the host.
#[derive(Debug)]
pub(super) struct JoinedCall {
    pub(super) key: Key,
    pub(super) span: Span,
    /// The bytes that its arguments say.
    pub(super) bytes: Option<u64>,
}

/// The id of a flow, and the rank that counts its flows so: the last number of its category, `Flow_H2D_7_3`.
type FlowId = (i64, i64);

/// The rows of a trace until its flows are known.
#[derive(Debug, Default)]
pub(super) struct Flows {
    /// The id of the flow that ends at a row and a time.
    ends: BTreeMap<Key, FlowId>,
    /// Row and time at which each flow begins, by its id.
    starts: BTreeMap<FlowId, Key>,
    pub(super) ops: Vec<JoinedOp>,
    pub(super) calls: Vec<JoinedCall>,
}

impl Flows {
    /// Takes the beginning or, otherwise, the end of a flow.
    pub(super) fn flow(&mut self, event: &Event<'_>, is_beginning: bool) {
        let rank = super::number(event.category).unwrap_or(0);
        match super::number(event.id).map(|id| (id, rank)) {
            Some(id) if is_beginning => drop(self.starts.insert(id, key(event))),
            Some(id) => drop(self.ends.insert(key(event), id)),
            None => {}
        }
    }

    /// Adds all ops and calls to the trace. An op and its call have the number of the call in common.
    pub(super) fn finish(&mut self, out: &mut Output) {
        // A call comes before those nested in it.
        ordering::sort_by(&mut self.calls, |a, b| (&a.key, b.span.duration).cmp(&(&b.key, a.span.duration)));
        for joined in mem::take(&mut self.ops) {
            let own = joined.flow.map(|id| (id, joined.rank.unwrap_or(0)));
            let flow = self.ends.get(&joined.key).copied().or(own);
            let call = flow.and_then(|id| self.call_of(self.starts.get(&id)?));
            let of_call = call.and_then(|call| self.calls.get(call as usize)?.bytes);
            out.builder.trace.gpu_ops.push(joined.op, call);
            if let Some(bytes) = joined.bytes.or(of_call).filter(|_| joined.op.kind != OpKind::Kernel) {
                out.builder.set_bytes_of_last_op(bytes);
            }
        }
        for (number, call) in (0..).zip(self.calls.drain(..)) {
            out.builder.add_call(call.span, Some(number));
        }
    }

    /// The number of the call that began last before a flow, if the flow begins in it. Takes calls sorted by thread and start.
    fn call_of(&self, flow: &Key) -> Option<u32> {
        let number = self.calls.partition_point(|call| call.key <= *flow).checked_sub(1)?;
        let call = self.calls.get(number)?;
        let is_in_call = (&call.key.0, &call.key.1) == (&flow.0, &flow.1) && flow.2 <= call.span.end().0;
        is_in_call.then(|| u32::try_from(number).ok()).flatten()
    }
}
