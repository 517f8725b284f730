//! What limits the conclusions from a trace: one row for each known defect of the capture. Reads finished sections and
//! aggregates, and the API calls once.
//!
//! Each row is a file with its condition; [`crate::words::trust`] has its words.

mod capture_overhead;
mod clock_skew;
mod counter_run;
mod first_launches;
mod graph_work_missing;
mod graphs_recorded;
mod graphs_traced_whole;
mod launch_work_missing;
mod launches_at_end;
mod one_rank_of_many;
mod profiler_pauses;
mod recording_holes;
mod row;
mod shifted_durations;
mod single_step;
mod steps_without_work;
#[cfg(test)]
mod tests;
mod unseen_time;
mod unseen_work;
mod waits_outlast_work;

pub(crate) use row::{Trust, TrustId};

use super::context::Context;
use super::results::Run;
use super::section::{Answer, Sections, TypedSection};

impl Run {
    /// Whether durations in graph replays may belong to other kernels.
    pub(crate) fn has_shifted_durations(&self) -> bool {
        Trust::has(&self.sections, TrustId::DurationsShifted)
    }
}

pub(crate) fn trust(context: &Context, sections: &Sections) -> Answer<Trust> {
    let rows = [
        unseen_work::find(context),
        recording_holes::find(context),
        graph_work_missing::find(context),
        launch_work_missing::find(context, sections),
        launches_at_end::find(context),
        waits_outlast_work::find(context),
        first_launches::find(context, sections),
        first_launches::start_up(context, sections),
        graphs_recorded::find(context),
        steps_without_work::find(context),
        shifted_durations::find(context),
        graphs_traced_whole::find(context.trace),
        clock_skew::find(context.trace),
        counter_run::find(context.trace),
        capture_overhead::find(context, sections),
        profiler_pauses::find(context, sections),
        single_step::find(context.trace, sections),
        one_rank_of_many::find(context.trace),
    ];
    Trust::answer("launch calls, Python frames, steps and metadata of the trace").with_rows(rows.into_iter().flatten())
}
