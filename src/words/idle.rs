//! Idle time: the longest gap, and what limits the causes. From times and commands.

use crate::digits::grouped_text;
use crate::trace::{Ms, Ns, Us};
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

/// What a launcher gap is, from the shortest and the longest.
pub(crate) fn launcher_gaps(Us(shortest): Us, Us(longest): Us) -> String {
    let [shortest, longest] = [shortest, longest].map(|us| grouped_text(&us.to_string()));
    format!(
        "A launcher gap is an estimate: {shortest} to {longest} us in which a thread neither launched work nor was blocked in a \
         call. The trace does not show what the thread did, and the GPU may have been busy. Longer gaps count as idle gaps, \
         because the program probably had no work."
    )
}
