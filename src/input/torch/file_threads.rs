//! Numbers threads by their pid and tid as the file writes them, for CPU ops, Python functions and ops with shapes.
//!
//! Those are most of a file and come first. If they added threads to the trace, its threads would include those that launch
//! nothing, in another order. So their threads get numbers of their own until the file is read.

use super::{RawIds, RawKey};
use crate::trace::ThreadId;

/// The threads seen so far.
#[derive(Debug, Default)]
pub(super) struct FileThreads {
    keys: Vec<RawKey>,
    numbers: RawIds<u32>,
}

impl FileThreads {
    /// The number of a thread.
    pub(super) fn number(&mut self, pid: &[u8], tid: &[u8]) -> u32 {
        self.numbers.find(pid, tid).unwrap_or_else(|| {
            let number = u32::try_from(self.keys.len()).unwrap_or(u32::MAX);
            self.keys.push((pid.into(), tid.into()));
            self.numbers.insert(pid, tid, number);
            number
        })
    }

    /// Pid and tid of a thread.
    pub(super) fn key(&self, number: u32) -> Option<RawKey> {
        self.keys.get(number as usize).cloned()
    }

    /// The threads of the trace by number; `None` for a thread without a stored call or range.
    pub(super) fn resolve(&self, known: &mut RawIds<ThreadId>) -> Vec<Option<ThreadId>> {
        self.keys.iter().map(|(pid, tid)| known.find(pid, tid)).collect()
    }
}
