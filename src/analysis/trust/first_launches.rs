//! `first-launches` and `start-up`: launches loaded code or initialised a device, or the program starts in the capture without a slow first
//! launch. From the first launches of the trace and the section of the start; O(first launches).

use super::row::{TrustId, TrustRow};
use crate::analysis::context::Context;
use crate::analysis::section::{Ms, Sections};
use crate::analysis::structure::start_up::SaidStart;
use crate::trace::Ns;
use crate::words::trust as words;

pub(super) fn find(context: &Context, sections: &Sections) -> Option<TrustRow> {
    let durations = first_launch_times(context);
    let longest = *durations.iter().max()?;
    let sum = durations.iter().fold(Ns::ZERO, |sum, duration| sum + *duration);
    let limit = words::first_launches(durations.len() as u64, sum, longest, start(sections));
    Some(TrustRow::new(TrustId::FirstLaunches, limit))
}

pub(super) fn start_up(context: &Context, sections: &Sections) -> Option<TrustRow> {
    let start = start(sections).filter(|_| first_launch_times(context).is_empty())?;
    Some(TrustRow::new(TrustId::StartUp, words::start_up(start)))
}

fn first_launch_times(context: &Context) -> Vec<Ns> {
    let trace = context.trace;
    let (start, end) = trace.cut.map_or((Ns(i64::MIN), Ns(i64::MAX)), |cut| (cut.window.start, cut.window.end));
    trace.first_launches.within(start, end).map(|(from, to)| to.since(from)).collect()
}

fn start(sections: &Sections) -> Option<words::Start> {
    let start = SaidStart::of(sections)?;
    Some(words::Start { length: Ms(start.length_ms), process: Ms(start.process_ms), loading: Ms(start.loading_ms) })
}
