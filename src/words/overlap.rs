//! The texts of the overlap table: the basis of each row, and the limits of the table. From counts and times.

use super::percent_0;
use crate::digits::grouped;
use crate::trace::{Ms, Ns, Pct, Us};

/// `1 launch`, `31905 launches`: without groups of digits.
pub(super) fn launches(count: u64) -> String {
    if count == 1 { "1 launch".to_owned() } else { format!("{count} launches") }
}

/// A part of a whole that may be zero.
fn part(part: f64, whole: f64) -> Pct {
    Pct(if whole > 0.0 { 100.0 * part / whole } else { 0.0 })
}

/// The launches of a row, and how many of them have neighbours.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row<'a> {
    pub(crate) launches: u64,
    /// Close to another op on the same stream.
    pub(crate) close: u64,
    /// In series with it.
    pub(crate) serial: u64,
    /// Next to a gap in which the device was idle.
    pub(crate) next_to_idle: u64,
    /// The kernel that runs at the same time for the most part.
    pub(crate) hidden_by: Option<&'a str>,
}

/// The evidence for a row.
pub(crate) fn row(row: Row) -> String {
    let of_launches = |count: u64| percent_0(part(count as f64, row.launches as f64));
    let mut parts = vec![format!(
        "{}: {} close to another op on the same stream, {} in series with it",
        launches(row.launches),
        of_launches(row.close),
        of_launches(row.serial),
    )];
    if row.next_to_idle > 0 {
        parts.push(format!("{} next to a gap in which the device was idle", of_launches(row.next_to_idle)));
    }
    parts.extend(row.hidden_by.map(|name| format!("mostly hidden by {name}")));
    parts.join("; ")
}

/// Whether communication waits for other ranks.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Waiting {
    /// Transfers of one size differ: this part of the time is probably waiting.
    Scattered(Pct),
    /// The fastest transfer reaches less than the links carry, both in GB/s.
    Slow { reached: f64, link: f64 },
    /// Comparable launches take similar time.
    Steady,
    /// The trace has no sizes.
    Unknown,
}

/// A row of communication.
#[derive(Debug, Clone)]
pub(crate) struct Communication {
    pub(crate) launches: u64,
    pub(crate) time: Ms,
    /// Without other work on the device.
    pub(crate) alone: Ms,
    pub(crate) waiting: Waiting,
    /// The kernel that runs at the same time for the most part, if that hides at least half of the time.
    pub(crate) hidden_by: Option<String>,
}

/// The evidence for a row of communication: how long it runs alone, and whether that is waiting.
pub(crate) fn communication(row: &Communication) -> String {
    let waiting = match row.waiting {
        Waiting::Scattered(excess) => format!(
            "transfers of one size differ so much that {} of the time is probably waiting for other ranks",
            percent_0(excess)
        ),
        Waiting::Slow { reached, link } => format!(
            "the fastest transfer reaches {reached:.0} GB/s where the links of the device carry {link:.0}: it \
             probably waits for other ranks or takes a slower path"
        ),
        Waiting::Steady => "comparable launches take similar time".to_owned(),
        Waiting::Unknown => "the trace has no sizes to tell transfer from waiting".to_owned(),
    };
    let hidden = row.hidden_by.as_ref().map_or_else(String::new, |name| format!("; mostly hidden by {name}"));
    format!(
        "{}, {:.1} ms in total, {:.1} ms of it without other work on the device; {waiting}{hidden}",
        launches(row.launches),
        row.time.0,
        row.alone.0
    )
}

/// The idle time of a stage.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Idle<'a> {
    pub(crate) idle: Ns,
    /// Busy and idle time.
    pub(crate) whole: Ns,
    pub(crate) gaps: u64,
    pub(crate) launched_late: Ns,
    pub(crate) in_time: Ns,
    pub(crate) unknown: Ns,
    /// The longest gap, and the op at its end.
    pub(crate) longest: Option<(Ns, &'a str)>,
}

/// The evidence for the row of idle time.
pub(crate) fn idle(idle: Idle) -> String {
    let of_idle = |time: Ns| part(time.0 as f64, idle.idle.0 as f64);
    let mut basis = format!(
        "{} of busy and idle time, in {} gaps; for {} of the time the host launched late, for {} it launched in time",
        percent_0(part(idle.idle.0 as f64, idle.whole.0 as f64)),
        idle.gaps,
        percent_0(of_idle(idle.launched_late)),
        percent_0(of_idle(idle.in_time)),
    );
    let unknown = percent_0(of_idle(idle.unknown));
    if unknown != "0 %" {
        basis += &format!(", for {unknown} the launch time is unknown");
    }
    if let Some((length, name)) = idle.longest {
        basis += &format!("; the longest one, {:.1} us, ends with {name}", Us::from(length).0);
    }
    basis
}

/// Kernels that start before the previous one on their stream ended.
pub(crate) fn same_stream(overlap: Ns, busy: Ns) -> String {
    format!(
        "Kernels started before the previous kernel on their stream ended (programmatic dependent launch), for {} of \
         the busy time: their durations include waiting and add up to more than the busy time.",
        percent_0(part(overlap.0 as f64, busy.0 as f64))
    )
}

/// Gaps that are no idle time.
pub(crate) fn pauses(pauses: Ns, shortest: Ms) -> String {
    format!(
        "The devices paused for {} ms in total: gaps of at least {} ms count only as wall time.",
        grouped((pauses.0 as f64 / 1e6).round() as u64),
        shortest.0
    )
}

/// Durations of communication.
pub(crate) const INCLUDES_WAITING: &str = "The duration of communication includes waiting for the slowest rank; the trace of one rank \
     does not show how much.";

/// A trace with graphs and no second one without.
pub(crate) const HIDDEN_CODE: &str = "Graph replays hide which code launched their kernels; a mapping trace of the same work would \
     clarify the dependency risk and show the call sites.";
