//! The profiler command that captures the data missing from a trace.

use crate::trace::Trace;
use crate::words;
pub(crate) use crate::words::recapture::MissingData;

/// Returns the command or code that records the missing data in a new trace like this one.
pub(crate) fn command(trace: &Trace, data: MissingData) -> String {
    words::recapture::command(trace.format, trace.vendor(), data)
}
