//! The notice about the captures of graphs beside a trace: what was joined, what it rests on, and what was not joined.

use crate::analysis::results::{Notice, Severity};
use crate::trace::Trace;
use crate::words::graph_captures as words;

/// The notice; `None` for a trace without captures.
pub(crate) fn notice(trace: &Trace) -> Option<Notice> {
    let outcome = trace.captured_graphs.outcome()?;
    let severity = if outcome.joined.is_empty() { Severity::Warning } else { Severity::Info };
    let told = words::notice(outcome);
    let notice = Notice::new(severity, "graph_captures", told.message, told.advice);
    Some(Notice { count: outcome.joined.iter().map(|joined| joined.joined_ops).sum::<u64>().max(1), ..notice })
}
