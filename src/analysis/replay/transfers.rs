//! What is known, from one rank, of the transfer in a collective. O(communication kernels).
//!
//! A kernel of a collective runs from the arrival of its own rank until the data of all ranks are there. When the last rank arrived is
//! not in the file, so only bounds are known: the transfer takes no less than its bytes over the fastest link, and no longer than another
//! call of the same operation shows ([`crate::analysis::communication::waiting`]). The rest waits for other ranks, or may.

use super::ids::Op;
use super::recorded::{OpRow, Recorded};
use crate::analysis::communication::waiting::Size;
use crate::analysis::context::Context;
use crate::trace::Ns;
use std::collections::HashMap;

/// The bounds of the transfer in a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transfer {
    pub(super) least: Ns,
    pub(super) most: Ns,
}

/// Those of the communication kernels of the replayed part, by row of the trace.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    of_rows: HashMap<u32, Transfer>,
}

impl Transfers {
    pub(super) fn of(context: &Context, recorded: &Recorded) -> Self {
        if !recorded.ops.values().iter().any(OpRow::communicates) {
            return Self::default();
        }
        let rules = &context.signals.waiting;
        let bounds = |call: &crate::analysis::communication::waiting::CallWait| {
            // Calls of unknown size may send different amounts instead of waiting.
            let most = if call.size == Size::Unknown { call.duration } else { call.transfer() };
            Some((u32::try_from(call.row).ok()?, Transfer { least: call.least_transfer(rules).min(most), most }))
        };
        Self { of_rows: context.call_waits().iter().filter_map(bounds).collect() }
    }

    /// Nothing is known of a kernel that is not listed: all of it may be a transfer, and all of it a wait.
    pub(super) fn at(&self, op: &OpRow) -> Transfer {
        let unknown = Transfer { least: Ns::ZERO, most: op.duration() };
        self.of_rows.get(&op.row).copied().unwrap_or(unknown)
    }

    /// The part of a kernel that is known to wait for other ranks; zero for other ops.
    pub(super) fn wait(&self, recorded: &Recorded, op: Op) -> Ns {
        let row = recorded.op(op);
        if row.communicates() { row.duration().since(self.at(&row).most).max(Ns::ZERO) } else { Ns::ZERO }
    }
}
