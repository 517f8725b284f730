//! Idle time: the longest gap, and what limits the causes. From times and commands.

use crate::trace::{Ms, Ns};
use crate::words::{time, time_of};

/// What the host did in a gap for the larger part of it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum InGap<'a> {
    /// The trace has no calls.
    Unknown,
    /// This long in one call of this name.
    OneCall(Ms, &'a str),
    /// This long outside of calls.
    OutsideOfCalls(Ms),
}

/// `the longest idle gap lasts 2.74 s, 2.70 s of it outside of recorded API calls`
pub(crate) fn longest_gap(length: Ms, host: InGap) -> String {
    let length = format!("the longest idle gap lasts {}", time(length));
    match host {
        InGap::Unknown => length,
        InGap::OneCall(in_one, call) => format!("{length}, {} of it in one call of {call}", time(in_one)),
        InGap::OutsideOfCalls(outside) => format!("{length}, {} of it outside of recorded API calls", time(outside)),
    }
}

/// The clocks of host and GPU differ by at least this.
pub(crate) fn clocks_differ(lead: Ns) -> String {
    format!(
        "Ops start up to {} before their launch, so the clocks of host and GPU differ. host_late, drained and compiling count \
         only as far as a launch is later than twice that time; the rest of these gaps is unknown.",
        time_of(lead)
    )
}

/// The trace has no calls.
pub(crate) fn no_calls(command: &str) -> String {
    format!("The trace contains no API calls, so the causes are unknown. To capture them: {command}")
}
