//! `launch-work-missing`: launches of kernels, and maybe of graphs, have no op, although later ones have. From the launches without ops and
//! the section of idle time; O((launches + steps) log steps).

use super::row::{TrustId, TrustRow};
use super::unseen_time::longest_unseen;
use crate::analysis::context::Context;
use crate::analysis::host::idle::GpuIdle;
use crate::analysis::recapture::{self, MissingData};
use crate::analysis::section::{Pct, Sections, TypedSection};
use crate::trace::Ns;
use crate::words::trust as words;

pub(super) fn find(context: &Context, sections: &Sections) -> Option<TrustRow> {
    let launches = &context.trace.unrecorded_work.launches;
    if launches.kernels == 0 {
        return None;
    }
    let limit = words::launch_work_missing(&words::LostLaunches {
        kernels: launches.kernels + launches.kernels_at_end,
        of_kernels: launches.of_kernels,
        graphs: (launches.graphs > 0).then_some((launches.graphs, launches.of_graphs)),
        steps: lost_in_steps(context),
        inside: (launches.kernels_at_end > 0).then_some(launches.kernels),
        unknown: longest_unseen(context, |time| time.after_a_lost_launch),
        busy: busy_range(sections),
        command: &recapture::command(context.trace, MissingData::Kernels),
    });
    Some(TrustRow::new(TrustId::LaunchWorkMissing, limit))
}

/// How many launches are lost in how many steps; `None` if no step has lost any.
fn lost_in_steps(context: &Context) -> Option<words::LostInSteps> {
    let trace = context.trace;
    let mut steps: Vec<(Ns, Ns, u64)> = context
        .measured_steps()
        .steps
        .iter()
        .map(|measured| (measured.step.annotation_range.0.min(measured.step.start), measured.until, 0))
        .collect();
    steps.sort_unstable();
    for (time, launches) in trace.unrecorded_work.launches.lost_kernels() {
        let next = steps.partition_point(|(start, ..)| *start <= time);
        if let Some((_, end, lost)) = next.checked_sub(1).and_then(|index| steps.get_mut(index))
            && *end > time
        {
            *lost += launches;
        }
    }
    let affected = steps.iter().filter(|(.., lost)| *lost > 0).count();
    let most_in_one = steps.iter().map(|(.., lost)| *lost).max().unwrap_or_default();
    (affected > 0).then_some(words::LostInSteps { affected, steps: steps.len(), most_in_one })
}

/// The busy share without and with the unrecorded time, of the device with most of it. From the section of idle time.
fn busy_range(sections: &Sections) -> Option<(Pct, Pct)> {
    let rows = GpuIdle::rows(sections).into_iter().filter(|row| row.unrecorded_ms.0 > 0.0);
    let row = rows.max_by(|a, b| a.unrecorded_ms.0.total_cmp(&b.unrecorded_ms.0))?;
    let percent = |ms: f64| Pct(100.0 * ms / row.own_window_ms());
    Some((percent(row.busy_ms.0), percent(row.busy_ms.0 + row.unrecorded_ms.0)))
}
