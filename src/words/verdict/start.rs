//! The clauses of the verdict about the start of the program, from its times.

use crate::trace::{Fraction, Ms};
use crate::words::{percent_1, time};

/// The start of the program in the capture.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start {
    /// From the first event of the process.
    pub(crate) length: Ms,
    /// From the first event of the process to its last.
    pub(crate) process: Ms,
    /// The part in which a thread loads.
    pub(crate) loading: Ms,
}

/// A capture of little but the start. Its end is [`what_follows`].
pub(crate) fn cold(start: Start, largest_loads: &str) -> String {
    format!(
        "This capture is a cold start: the program starts for {} of {}, of which loading takes {} ({largest_loads})",
        time(start.length),
        time(start.process),
        time(start.loading),
    )
}

/// The shares of ops and of kernel time after a cold start, and the remedy.
pub(crate) fn what_follows(ops: Fraction, kernels: Fraction) -> String {
    format!(
        "; {} of the ops and {} of the kernel time follow. Warm up before the capture, then capture again.",
        percent_1(ops),
        percent_1(kernels),
    )
}

/// `After the start of the program (first 3.1 s of 3.4 s, of which loading takes 0.9 s`: the bracket is closed by [`END`].
pub(crate) fn after(start: Start) -> String {
    format!(
        "After the start of the program (first {} of {}, of which loading takes {}",
        time(start.length),
        time(start.process),
        time(start.loading),
    )
}

/// Ends [`after`], and the clause of a gap in it.
pub(crate) const END: &str = "), ";
