//! A call that waited for the device for long. O(1).

use super::super::{Ns, ProcessId};

/// Calls return within this time after the end of the work for which they waited. In recorded traces of CUDA and HIP on Linux the
/// longest such delay was 72 us, on Windows 195 us.
pub const USUAL_RETURN: Ns = Ns(200_000);

/// The end of a wait for the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitEnd {
    /// The call returned.
    CallReturned,
    /// The copy began that the call issued.
    CopyBegan,
}

/// A call that waited longer than [`USUAL_RETURN`].
pub(super) struct LongWait {
    pub(super) start: Ns,
    pub(super) until: Ns,
    pub(super) end: WaitEnd,
    pub(super) process: ProcessId,
    /// The start of the last call of the process before it that launched work.
    pub(super) last_launch: Option<Ns>,
}
