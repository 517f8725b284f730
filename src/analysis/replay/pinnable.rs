//! Blocking copies that pinned memory would let return at once. O(calls).

use super::graph::Parts;
use super::ids::Call;
use crate::trace::{Ns, ThreadId};
use std::collections::{HashMap, HashSet};

/// A synchronisation this soon after a copy reads what was copied.
const READS: Ns = Ns(50_000);

/// Blocking copies whose data the host does not need at once: those to the device, and those from it that a synchronisation follows.
pub(super) fn pinnable(parts: &Parts) -> HashSet<Call> {
    let (recorded, mut found) = (parts.recorded, HashSet::new());
    let mut next: HashMap<ThreadId, Call> = HashMap::new();
    for (id, call) in recorded.calls.iter().rev() {
        let first = recorded.launched.of(id).first().filter(|_| parts.waits.at(id).blocks && call.traits.copies);
        if let Some(first) = first {
            let after = next.get(&call.thread).map(|next| recorded.call(*next));
            let is_read = after.is_some_and(|next| next.traits.synchronizes && next.start.since(call.end) < READS);
            if recorded.op(*first).copy.to_device || is_read {
                found.insert(id);
            }
        }
        next.insert(call.thread, id);
    }
    found
}
