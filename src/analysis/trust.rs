//! What limits the conclusions from a trace: one row for each known defect of the capture. Reads finished sections and
//! aggregates, and the API calls once.

use super::context::Context;
use super::graph_captures::capture_times;
use super::labels;
use super::labels::format_time;
use super::recapture::{self, MissingData};
use super::results::Run;
use super::section::{Answer, Sections, TypedSection, section, words};
use crate::analysis::host::idle::{GpuIdle, GpuIdleRow};
use crate::analysis::host::unseen::{MIN_UNSEEN, unseen_after_launch};
use crate::analysis::structure::shifted_durations::ShiftedDurations;
use crate::analysis::structure::stages::Basis;
use crate::analysis::structure::start_up::SaidStart;
use crate::analysis::structure::steps::Steps;
use crate::analysis::time::gaps::{Busy, Gap};
use crate::digits::grouped;
use crate::rules::signals::CallKind;
use crate::trace::{DeviceId, Ns, ProblemKind, SLOW_FIRST_LAUNCH, Trace, USUAL_RETURN, WaitEnd};

section! {
    /// Each reason to trust some results less.
    pub(crate) struct Trust("trust", "Limits of this trace");
    row TrustRow {
        id: TrustId,
        text: String,
        /// The results that it affects.
        affects: String,
    }
}

/// A reason to trust some results less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum TrustId {
    UnseenWork,
    GraphWorkMissing,
    /// Launches of kernels, and maybe of graphs, have no op.
    LaunchWorkMissing,
    /// The last launches of kernels have no op.
    LaunchesAtEnd,
    /// Calls waited for the device for longer than its ops ran.
    WaitsOutlastWork,
    /// The capture contains launches that load kernels.
    FirstLaunches,
    /// The program starts in the capture, without such launches.
    StartUp,
    /// The program records graphs, whose work runs only when they are replayed.
    GraphsRecorded,
    /// No step has GPU work.
    StepsWithoutWork,
    DurationsShifted,
    GraphsTracedWhole,
    ClockSkew,
    /// The profiler ran the kernels one at a time.
    CounterRun,
    CaptureOverhead,
    SingleStep,
    OneRankOfMany,
    /// A word of another version.
    #[default]
    Other,
}

words!(
    TrustId:
    UnseenWork = "unseen-work",
    GraphWorkMissing = "graph-work-missing",
    LaunchWorkMissing = "launch-work-missing",
    LaunchesAtEnd = "launches-at-end",
    WaitsOutlastWork = "waits-outlast-work",
    FirstLaunches = "first-launches",
    StartUp = "start-up",
    GraphsRecorded = "graphs-recorded",
    StepsWithoutWork = "steps-without-work",
    DurationsShifted = "durations-shifted",
    GraphsTracedWhole = "graphs-traced-whole",
    ClockSkew = "clock-skew",
    CounterRun = "counter-run",
    CaptureOverhead = "capture-overhead",
    SingleStep = "single-step",
    OneRankOfMany = "one-rank-of-many",
    Other = "",
);

impl Trust {
    /// Whether the section has a row with this id.
    pub(crate) fn has(sections: &Sections, id: TrustId) -> bool {
        Self::rows(sections).iter().any(|row| row.id == id)
    }
}

impl Run {
    /// Whether durations in graph replays may belong to other kernels.
    pub(crate) fn has_shifted_durations(&self) -> bool {
        Trust::has(&self.sections, TrustId::DurationsShifted)
    }
}

/// Idle time that the host causes below this percentage of the window needs no warning about a slow host.
const MIN_HOST_PCT: f64 = 1.0;
/// Slower launch calls are slowed down by the capture.
const SLOW_LAUNCH: Ns = Ns(15_000);
/// Longer launch calls load code or upload a graph and say nothing about the usual cost of a launch.
const LOADS_CODE: Ns = Ns(1_000_000);
/// The mean over fewer launches is not reliable.
const MIN_LAUNCHES: u64 = 100;

pub(crate) fn trust(context: &Context, sections: &Sections) -> Answer<Trust> {
    let rows = [
        unseen_work(context),
        lost_graphs(context),
        lost_launches(context, sections),
        launches_at_end(context),
        outlasting_waits(context),
        first_launches(context, sections),
        start_up(context, sections),
        graphs_recorded(context),
        steps_without_work(context),
        shifted(context),
        graphs_traced_whole(context.trace),
        clock_skew(context.trace),
        counter_run(context.trace),
        capture_overhead(context, sections),
        single_step(context.trace, sections),
        one_rank_of_many(context.trace),
    ];
    Trust::answer("launch calls, Python frames, steps and metadata of the trace").with_rows(rows.into_iter().flatten())
}

fn row(id: TrustId, text: impl Into<String>, affects: &str) -> TrustRow {
    TrustRow { id, text: text.into(), affects: affects.to_owned() }
}

fn time_words(time: Ns) -> String {
    format_time(time.0 as f64 / 1e6)
}

fn unseen_work(context: &Context) -> Option<TrustRow> {
    let trace = context.trace;
    let inside = |device: usize| Some(unseen_time(context, device)?.after_a_long_wait);
    let devices = context.survey().busy.iter().enumerate();
    let found = devices.filter_map(|(device, busy)| {
        let before_first = busy.filter(|_| trace.cut.is_none()).and_then(|busy| unseen_before(context, device, busy));
        let (inside, before) = (inside(device)?, before_first.unwrap_or(Ns::ZERO));
        (inside + before > Ns::ZERO).then_some((device, inside, before))
    });
    let (device, inside, before) = found.max_by_key(|(_, inside, before)| *inside + *before)?;
    let gpu = labels::device(trace, DeviceId(device as u32)).words();
    let text = format!(
        "GPU {gpu} executed work that is not in the file for {}, probably launched before the capture began: ops started \
         that long after their launch although nothing visible ran before them. This time counts neither as idle nor as \
         part of the window{}.",
        time_words(inside + before),
        if inside == Ns::ZERO { ", because it is before the first op" } else { "" }
    );
    Some(row(TrustId::UnseenWork, text, "idle time, blocked time of copies and calls, steps at the start"))
}

/// The time between the ops of a device in which it executed work that the trace does not contain, by what proves it.
#[derive(Default)]
struct UnseenTime {
    after_a_long_wait: Ns,
    after_a_lost_launch: Ns,
    within_a_wait: Ns,
}

fn unseen_time(context: &Context, device: usize) -> Option<UnseenTime> {
    let trace = context.trace;
    let work = &trace.unrecorded_work;
    let mut time = UnseenTime::default();
    for (start, end) in &context.survey().idle.get(device)?.unseen {
        let ops_at_end =
            trace.gpu_ops.count_starting_before(*end)..trace.gpu_ops.count_starting_before(Ns(end.0.saturating_add(1)));
        let follows_launch = ops_at_end.into_iter().any(|row| work.launches.before(row).is_some());
        let sum = match work.worked_until(DeviceId(device as u32), *start) {
            Some(_) => &mut time.within_a_wait,
            None if follows_launch => &mut time.after_a_lost_launch,
            None => &mut time.after_a_long_wait,
        };
        *sum += end.since(*start);
    }
    Some(time)
}

/// The longest of these times of all devices.
fn longest_unseen(context: &Context, time: impl Fn(UnseenTime) -> Ns) -> Ns {
    let devices = 0..context.trace.devices.len();
    devices.filter_map(|device| unseen_time(context, device).map(&time)).max().unwrap_or(Ns::ZERO)
}

/// What is said about the time after lost launches; empty if there is none.
fn lost_time_words(context: &Context) -> String {
    let longest = longest_unseen(context, |time| time.after_a_lost_launch);
    if longest == Ns::ZERO {
        return String::new();
    }
    format!(
        " The time from such a launch to the next recorded op ({}) is neither busy nor idle: it is not known.",
        time_words(longest)
    )
}

fn lost_graphs(context: &Context) -> Option<TrustRow> {
    let launches = &context.trace.unrecorded_work.launches;
    if launches.graphs == 0 || launches.kernels > 0 {
        return None;
    }
    let text = format!(
        "The file contains no GPU work of {} of {} graph launches, although it contains work that was launched later: the \
         profiler did not record these graphs, and steps that consist of them are missing.{} Capture again with a \
         profiler that is not older than the driver: {}",
        grouped(launches.graphs),
        grouped(launches.of_graphs),
        lost_time_words(context),
        recapture::command(context.trace, MissingData::Kernels),
    );
    Some(row(TrustId::GraphWorkMissing, text, "busy and idle time, steps, kernels, categories, shares, launches"))
}

fn lost_launches(context: &Context, sections: &Sections) -> Option<TrustRow> {
    let launches = &context.trace.unrecorded_work.launches;
    if launches.kernels == 0 {
        return None;
    }
    let graphs = match launches.graphs {
        0 => String::new(),
        graphs => format!(" and of {} of {} graph launches", grouped(graphs), grouped(launches.of_graphs)),
    };
    let text = format!(
        "The file contains no GPU op of {} of {} kernel launches{graphs}{}, although it contains work that was launched \
         after {} of them: the profiler lost records, because its buffer was full or the process had run for long. Times and counts of \
         kernels are too small by an unknown amount.{}{} Capture fewer steps, in a process that was started for it: {}",
        grouped(launches.kernels + launches.kernels_at_end),
        grouped(launches.of_kernels),
        lost_per_step(context),
        if launches.kernels_at_end == 0 { "all".to_owned() } else { grouped(launches.kernels) },
        lost_time_words(context),
        busy_range(sections).unwrap_or_default(),
        recapture::command(context.trace, MissingData::Kernels),
    );
    Some(row(TrustId::LaunchWorkMissing, text, "busy and idle time, steps, kernels, categories, shares, launches"))
}

/// The launches at the end of the capture that have no op: a fact, of which the trace does not show the reason.
fn launches_at_end(context: &Context) -> Option<TrustRow> {
    let launches = &context.trace.unrecorded_work.launches;
    let from = launches.unfinished_from?;
    let last = context.trace.calls.iter().map(|call| call.end()).max()?;
    let text = format!(
        "The last {} of {} kernel launches, over {}, have no GPU op: the capture ended before they ran, or the profiler \
         lost them. Steps that they belong to are missing or too short. Synchronize the GPU before the profiler stops, and \
         capture fewer steps: {}",
        grouped(launches.unfinished),
        grouped(launches.of_kernels),
        time_words(last.since(from)),
        recapture::command(context.trace, MissingData::Kernels),
    );
    Some(row(TrustId::LaunchesAtEnd, text, "steps, kernels, launches"))
}

/// How many launches are lost in how many steps; empty without steps.
fn lost_per_step(context: &Context) -> String {
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
    let most = steps.iter().map(|(.., lost)| *lost).max().unwrap_or_default();
    match affected {
        0 => String::new(),
        _ => format!(", in {affected} of {} steps (up to {} in one)", grouped(steps.len() as u64), grouped(most)),
    }
}

/// The busy share without and with the unrecorded time, of the device with most of it. From the section of idle time.
fn busy_range(sections: &Sections) -> Option<String> {
    let rows = GpuIdle::rows(sections).into_iter().filter(|row| row.unrecorded_ms.0 > 0.0);
    let row = rows.max_by(|a, b| a.unrecorded_ms.0.total_cmp(&b.unrecorded_ms.0))?;
    let percent = |ms: f64| 100.0 * ms / row.own_window_ms();
    let (least, most) = (percent(row.busy_ms.0), percent(row.busy_ms.0 + row.unrecorded_ms.0));
    Some(format!(" The GPU was busy for {least:.1} to {most:.1} % of the time."))
}

fn outlasting_waits(context: &Context) -> Option<TrustRow> {
    let counts = [WaitEnd::CallReturned, WaitEnd::CopyBegan].map(|end| waits_words(context, end));
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    if counts.is_empty() {
        return None;
    }
    let unseen = longest_unseen(context, |time| time.within_a_wait);
    let left_out = match unseen {
        Ns::ZERO => String::new(),
        time => format!(" That time ({}) is neither busy nor idle.", time_words(time)),
    };
    let text = format!(
        "{} after the last op in the file, usual are up to {}: the GPU still worked. Bodies of while nodes in graphs, launches by \
         kernels, and lost records leave no op.{left_out} A profiler that records them decides it: {}",
        counts.join(", and "),
        time_words(USUAL_RETURN),
        recapture::command(context.trace, MissingData::Kernels),
    );
    Some(row(TrustId::WaitsOutlastWork, text, "busy and idle time, kernels, blocking calls"))
}

/// How many waits ended in this way, and how long after the last op; `None` without such.
fn waits_words(context: &Context, end: WaitEnd) -> Option<String> {
    let waits = context.trace.unrecorded_work.waits.iter().filter(|wait| wait.end == end);
    let mut delays: Vec<Ns> = waits.map(|wait| wait.until.since(wait.last_op_end)).collect();
    delays.sort_unstable();
    let median = time_words(*delays.get(delays.len() / 2)?);
    let what = match (end, delays.len()) {
        (WaitEnd::CallReturned, 1) => "call that waits for the GPU returned",
        (WaitEnd::CallReturned, _) => "calls that wait for the GPU returned",
        (WaitEnd::CopyBegan, 1) => "copy that waits for a graph began",
        (WaitEnd::CopyBegan, _) => "copies that wait for a graph began",
    };
    Some(format!("{} {what} {median} (median)", grouped(delays.len() as u64)))
}

/// Launches that loaded code or initialised a device.
fn first_launches(context: &Context, sections: &Sections) -> Option<TrustRow> {
    let durations = first_launch_times(context);
    let longest = *durations.iter().max()?;
    let text = format!(
        "{} launch call{} of kernels that had not run before took more than {} while the GPU was idle, {} in all, the longest \
         {}: first launches load code or initialise the GPU. {}",
        grouped(durations.len() as u64),
        if durations.len() == 1 { "" } else { "s" },
        time_words(SLOW_FIRST_LAUNCH),
        time_words(durations.iter().fold(Ns::ZERO, |sum, duration| sum + *duration)),
        time_words(longest),
        start_words(sections).unwrap_or_else(|| {
            "If that is not what the capture is for, run the same work several times before it.".to_owned()
        }),
    );
    Some(row(TrustId::FirstLaunches, text, "idle time, steps, launch latencies"))
}

/// The program starts in the capture, without a slow first launch.
fn start_up(context: &Context, sections: &Sections) -> Option<TrustRow> {
    let text = start_words(sections).filter(|_| first_launch_times(context).is_empty())?;
    Some(row(TrustId::StartUp, text, "idle time, launch latencies"))
}

/// The program records graphs: launches between the begin and the end of a stream capture run nothing.
fn graphs_recorded(context: &Context) -> Option<TrustRow> {
    let times = capture_times(context);
    let text = format!(
        "The program records {} graph{} for {} in this capture: what it launches meanwhile does not run before the graph is replayed, \
         so the GPU has no work then. To see the work, capture while requests are served.",
        grouped(times.len() as u64),
        if times.len() == 1 { "" } else { "s" },
        time_words(times.iter().fold(Ns::ZERO, |sum, time| sum + *time)),
    );
    (!times.is_empty()).then(|| row(TrustId::GraphsRecorded, text, "idle time, launches"))
}

fn first_launch_times(context: &Context) -> Vec<Ns> {
    let trace = context.trace;
    let (start, end) = trace.cut.map_or((Ns(i64::MIN), Ns(i64::MAX)), |cut| (cut.window.start, cut.window.end));
    trace.first_launches.within(start, end).map(|(from, to)| to.since(from)).collect()
}

fn start_words(sections: &Sections) -> Option<String> {
    let start = SaidStart::of(sections)?;
    Some(format!(
        "The program starts in the capture, in the first {} of {}, of which loading takes {}. Warm up before the \
         capture, then capture again.",
        labels::format_time(start.length_ms),
        labels::format_time(start.process_ms),
        labels::format_time(start.loading_ms),
    ))
}

/// Steps that are marked on the host while no GPU op of the file runs.
fn steps_without_work(context: &Context) -> Option<TrustRow> {
    let steps = &context.measured_steps().steps;
    // The work of a step may be outside of the window, or in a graph that was traced as a whole.
    if context.trace.cut.is_some() || !context.trace.graph_replays.is_empty() {
        return None;
    }
    if steps.iter().any(|measured| measured.step.basis != Basis::Host) {
        return None;
    }
    let extents = steps.iter().map(|measured| (measured.step.start, measured.step.end));
    let (first, last) = extents.reduce(|(first, last), (start, end)| (first.min(start), last.max(end)))?;
    let work = context.trace.span()?;
    if work.overlaps(first, last) {
        return None;
    }
    let (distance, side) = if work.end <= first {
        (first.since(work.end), "after the last")
    } else {
        (work.start.since(last), "before the first")
    };
    let text = format!(
        "The file contains no GPU work of the {} marked steps: they are {} {side} GPU op. The profiler did not record the GPU then, \
         or another process runs the work. Capture again with a profiler that is not older than the driver: {}",
        grouped(steps.len() as u64),
        time_words(distance),
        recapture::command(context.trace, MissingData::Kernels),
    );
    Some(row(TrustId::StepsWithoutWork, text, "busy and idle time, kernels, categories"))
}

/// The wait of the first op of a device after its launch. `None` if it is short or the launch is unknown.
fn unseen_before(context: &Context, device: usize, busy: Busy) -> Option<Ns> {
    let trace = context.trace;
    let next_row = first_row(trace, device, busy.first)?;
    let gap = Gap { device, start: Ns(i64::MIN / 4), end: busy.first, previous_row: None, next_row };
    let from = unseen_after_launch(trace, &gap, &|name| context.call_kind(name))?;
    Some(gap.end.since(from)).filter(|length| *length > MIN_UNSEEN)
}

/// The row of the first op of a device that starts at this time.
fn first_row(trace: &Trace, device: usize, start: Ns) -> Option<usize> {
    let is_first = |row: &usize| trace.gpu_ops.get(*row).is_some_and(|op| op.device.0 as usize == device);
    (trace.gpu_ops.count_starting_before(start)..trace.gpu_ops.len()).find(is_first)
}

fn shifted(context: &Context) -> Option<TrustRow> {
    let &ShiftedDurations { layers, shifted, .. } = context.shifted_durations();
    if shifted == 0 {
        return None;
    }
    let text = format!(
        "In {} of {} repeated blocks of graph replays, the durations belong to neighbouring kernels, probably because the \
         profiler lost records. Sums of a replay are right; the times of single kernels in it are not, so their \
         shares are left out.",
        grouped(shifted as u64),
        grouped(layers as u64)
    );
    Some(row(TrustId::DurationsShifted, text, "times and shares of kernels and categories, communication, triage"))
}

fn graphs_traced_whole(trace: &Trace) -> Option<TrustRow> {
    let replays = trace.graph_replays.len();
    if replays == 0 {
        return None;
    }
    let total = trace.graph_replays.iter().fold(Ns::ZERO, |sum, replay| sum + replay.duration);
    let text = format!(
        "{} CUDA graph replay{} ({}) {} recorded as a whole, so their kernels are missing. Capture again with \
         `--cuda-graph-trace=node`.",
        grouped(replays as u64),
        if replays == 1 { "" } else { "s" },
        time_words(total),
        if replays == 1 { "was" } else { "were" },
    );
    Some(row(TrustId::GraphsTracedWhole, text, "kernels, categories, shares, launches"))
}

fn clock_skew(trace: &Trace) -> Option<TrustRow> {
    let (device, lead) = trace.worst_clock_lead()?;
    let early = trace.clock_leads.iter().map(|lead| lead.ops).sum::<u64>();
    let gpu = if trace.devices.len() > 1 {
        format!(" of GPU {}", labels::device(trace, device).words())
    } else {
        String::new()
    };
    let text = format!(
        "{} GPU op{} before the launch call begins, by up to {}, so the clock of the host is ahead of that{} by at least this. \
         Launch latencies are unreliable. A launch counts as late only as far as it is later than twice that time: the cause of other \
         idle time is unknown.",
        grouped(early),
        if early == 1 { " starts" } else { "s start" },
        time_words(lead.longest),
        if gpu.is_empty() { " of the GPU" } else { gpu.as_str() },
    );
    Some(row(TrustId::ClockSkew, text, "launch latency, causes of idle time"))
}

fn counter_run(trace: &Trace) -> Option<TrustRow> {
    let kernels = trace.problems.count(ProblemKind::KernelOfCounterRun);
    let text = format!(
        "{} of a run that counts hardware events, for which the profiler runs them one at a time: the time between them is the \
         profiler's.",
        if kernels == 1 { "One kernel is".to_owned() } else { format!("{} kernels are", grouped(kernels)) }
    );
    (kernels > 0).then(|| row(TrustId::CounterRun, text, "idle time, steps, overlap"))
}

fn capture_overhead(context: &Context, sections: &Sections) -> Option<TrustRow> {
    let host_pct = |row: &GpuIdleRow| {
        let window = row.window_ms.0 - row.unseen_ms.0;
        if window > 0.0 { 100.0 * (row.host_late_ms.0 + row.drained_ms.0) / window } else { 0.0 }
    };
    if GpuIdle::rows(sections).iter().map(host_pct).fold(0.0, f64::max) < MIN_HOST_PCT {
        return None;
    }
    let frames = context.trace.events.python_frames;
    let reason = if frames > 0 {
        format!("Python stacks were recorded ({} frames)", grouped(frames))
    } else {
        format!("A launch call takes {} us on average", grouped((slow_launch(context)?.0 as f64 / 1e3).round() as u64))
    };
    let text = format!(
        "{reason}, which slows the host down. Idle time caused by the host is an upper bound; capture again without \
         stacks to measure it."
    );
    Some(row(TrustId::CaptureOverhead, text, "idle time caused by the host, length of steps"))
}

/// The mean duration of a launch call, if it is unusually long.
fn slow_launch(context: &Context) -> Option<Ns> {
    let (mut count, mut total) = (0_u64, Ns::ZERO);
    let launches = context.trace.calls.iter().filter(|call| context.call_kind(call.name) == CallKind::Launch);
    for call in launches.filter(|call| call.duration < LOADS_CODE) {
        count += 1;
        total += call.duration;
    }
    let mean = Ns(total.0 / i64::try_from(count.max(1)).unwrap_or(i64::MAX));
    (count >= MIN_LAUNCHES && mean > SLOW_LAUNCH).then_some(mean)
}

fn single_step(trace: &Trace, sections: &Sections) -> Option<TrustRow> {
    let count: usize = Steps::rows(sections).iter().map(|row| row.steps).sum();
    let (text, affects) = if trace.cut.is_some() {
        ("The window contains one step, so the spread over steps is unknown.", "percentiles of steps")
    } else {
        (
            "The trace contains one step, so the spread over steps is unknown. Its first gaps may be those of the \
             capture, because the queue of the GPU was empty when it began.",
            "percentiles of steps, idle time at the start of the step",
        )
    };
    (count == 1).then(|| row(TrustId::SingleStep, text, affects))
}

fn one_rank_of_many(trace: &Trace) -> Option<TrustRow> {
    let job = trace.job.as_deref().filter(|job| job.world_size > 1)?;
    // A file of merged ranks has one named process for each rank.
    let labelled = trace.processes.iter().filter(|process| !process.name.is_empty()).count();
    let ranks = labelled.max(trace.merged_ranks());
    let text = format!(
        "The file contains rank {} of {}. It does not show whether communication transfers data or waits for another \
         rank; `gpuprism ranks` decides with the files of all ranks.",
        job.rank, job.world_size
    );
    (ranks <= 1).then(|| row(TrustId::OneRankOfMany, text, "communication"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::section::Value;
    use crate::analysis::testing::*;
    use crate::trace::Job;
    use crate::trace::testing::TestTrace;

    fn ids(trace: &Trace) -> Vec<String> {
        let run = analyze(trace);
        rows_of(run.sections.get("trust").unwrap(), &["id"])
    }

    fn text(trace: &Trace) -> String {
        let run = analyze(trace);
        words(run.sections["trust"].rows.first().unwrap(), "text").to_owned()
    }

    #[test]
    fn a_complete_capture_has_no_rows() {
        let trace =
            TestTrace::new().in_us().launch(0..2).launches("k", 5..50).launch(6..8).launches("k", 50..90).finish();
        assert_eq!(ids(&trace), [""; 0]);
    }

    #[test]
    fn an_op_that_waits_on_an_idle_device_proves_unseen_work() {
        let trace = |start: i64| {
            let mut trace = TestTrace::new();
            trace.in_us().launch(0..2).launches("k", 5..10).launch(6..8);
            trace.launches("k", start..start + 10).finish()
        };
        assert!(text(&trace(3_010)).starts_with("GPU 0 executed work that is not in the file for 3.0 ms"));
        assert_eq!(ids(&trace(1_010)), [""; 0]);
        // Before the first op.
        let first = |start: i64| TestTrace::new().in_us().launch(0..2).launches("k", start..start + 10).finish();
        assert_eq!((ids(&first(1_010)), ids(&first(1_000))), (vec!["unseen-work".to_owned()], Vec::new()));
    }

    #[test]
    fn steps_while_no_gpu_op_runs_have_no_work_in_the_file() {
        let trace = |kernel: std::ops::Range<i64>| {
            let mut trace = TestTrace::nsys();
            trace
                .in_us()
                .kernel("k", kernel)
                .range("step[DECODE bs=2]", 1_000..1_500)
                .range("step[DECODE bs=2]", 1_500..2_000);
            trace.finish()
        };
        let before = trace(0..10);
        assert!(
            text(&before)
                .starts_with("The file contains no GPU work of the 2 marked steps: they are 990 us after the last")
        );
        let verdict = analyze(&before).verdict.text;
        assert_eq!(
            verdict,
            "Decode: 2 steps, median 500 us, mean batch 2; the file contains no GPU work of these steps."
        );
        assert_eq!(ids(&trace(1_200..1_210)), [""; 0]);
    }

    /// A kernel, a graph launch whose work is missing, and later kernels.
    fn trace_with_lost_graph() -> Trace {
        let mut trace = TestTrace::nsys();
        trace.in_us().launch(0..2).launches("k", 5..10).call("cudaGraphLaunch", 20..22);
        let mut trace =
            trace.launch(500..502).launches("k", 505..510).launch(511..512).launches("k", 515..520).finish();
        crate::session::find_unrecorded_work(&mut trace);
        trace
    }

    #[test]
    fn the_time_after_a_graph_launch_without_work_is_neither_idle_nor_part_of_the_window() {
        let run = analyze(&trace_with_lost_graph());
        let idle = &run.sections["gpu_idle"].rows[0];
        // The host was late until the graph launch, and for the last kernel.
        assert_eq!(["unseen_ms", "host_late_ms"].map(|name| number(idle, name)), [0.485, 0.015]);
        assert_eq!((run.wall.wall_ns, run.wall.cpu_ns), (30_000, 15_000));
        let trust = &run.sections["trust"];
        assert_eq!(rows_of(trust, &["id"]), ["graph-work-missing"]);
        let text = words(&trust.rows[0], "text");
        assert!(text.starts_with("The file contains no GPU work of 1 of 1 graph launches"), "{text}");
        assert!(text.contains("the next recorded op (485 us)") && text.contains("--cuda-graph-trace=node"), "{text}");
    }

    /// Two steps of four launches of 40 us each; the op of each second launch is missing.
    fn trace_with_lost_records() -> Trace {
        let mut trace = TestTrace::new();
        trace.in_us();
        for start in [0, 1_000] {
            trace.range("ProfilerStep#1", start..start + 200).launch(start..start + 5);
            trace.launches("gemm", start + 10..start + 50).launch(start + 6..start + 8).launch(start + 10..start + 12);
            trace.launches("gemm", start + 100..start + 140).launch(start + 14..start + 15);
        }
        let mut trace = trace.finish();
        crate::session::find_unrecorded_work(&mut trace);
        trace
    }

    #[test]
    fn lost_records_are_counted_and_their_time_is_neither_idle_nor_late() {
        let run = analyze(&trace_with_lost_records());
        let text = words(&run.sections["trust"].rows[0], "text");
        assert!(text.starts_with("The file contains no GPU op of 4 of 8 kernel launches, in 2 of 2 steps"), "{text}");
        assert!(text.contains("work that was launched after 3 of them"), "{text}");
        // Ops of 10..50, 100..140, 1010..1050 and 1100..1140 us: 160 us of 1,130 us.
        assert!(text.contains("busy for 14.2 to 100.0 % of the time"), "{text}");
        let idle = &run.sections["gpu_idle"].rows[0];
        let times = ["idle_ms", "host_late_ms", "unrecorded_ms", "idle_pct_of_window"];
        assert_eq!(times.map(|name| number(idle, name)), [0.0, 0.0, 0.97, 0.0]);
        assert!(run.verdict.text.contains("GPU busy at least 14.2 %"), "{}", run.verdict.text);
        assert!(!run.verdict.text.contains("largest category"), "{}", run.verdict.text);
    }

    #[test]
    fn calls_that_wait_longer_than_the_ops_run_are_stated_and_no_blocking_calls_are_blamed() {
        let mut trace = TestTrace::new();
        trace.in_us();
        for start in [0, 3_000, 6_000] {
            trace.call("cudaGraphLaunch", start..start + 20).launches("gemm", start + 30..start + 330);
            trace.call("cudaStreamSynchronize", start + 25..start + 2_990);
        }
        let mut trace = trace.finish();
        crate::session::find_unrecorded_work(&mut trace);
        let run = analyze(&trace);
        let text = words(&run.sections["trust"].rows[0], "text");
        assert!(text.starts_with("3 calls that wait for the GPU returned 2.7 ms (median) after the last op"), "{text}");
        let findings: Vec<String> = rows_of(&run.sections["findings"], &["id"]);
        assert_eq!(findings, [""; 0]);
    }

    #[test]
    fn copies_that_wait_for_more_than_the_graph_has_ops_are_stated_and_their_time_is_not_idle() {
        let mut trace = TestTrace::new();
        trace.in_us();
        for start in [0, 3_000, 6_000] {
            trace.call("cudaGraphLaunch", start..start + 20).launches("gemm", start + 30..start + 330);
            trace.call("cudaMemcpyAsync", start + 25..start + 2_990);
            trace.launches("Memcpy DtoH (Device -> Pageable)", start + 2_970..start + 2_975);
        }
        let mut trace = trace.finish();
        crate::session::find_unrecorded_work(&mut trace);
        let run = analyze(&trace);
        let text = words(&run.sections["trust"].rows[0], "text");
        assert!(text.starts_with("3 copies that wait for a graph began 2.6 ms (median) after the last op"), "{text}");
        assert!(text.contains("That time (7.9 ms) is neither busy nor idle."), "{text}");
    }

    #[test]
    fn a_cold_start_claims_no_work_from_before_the_capture() {
        let mut trace = TestTrace::new();
        trace.in_us().launch(0..300_000).launches("a", 300_010..300_020).launch(300_100..323_000);
        trace.launches("b", 325_400..325_420);
        for start in (326_000..327_000).step_by(100) {
            trace.launch(start..start + 5).launches("c", start + 10..start + 70);
        }
        let mut trace = trace.finish();
        crate::session::find_unrecorded_work(&mut trace);
        assert_eq!(ids(&trace), ["first-launches"]);
        assert!(text(&trace).contains("2 launch calls of kernels that had not run before took more than 1.0 ms"));
        let run = analyze(&trace);
        assert_eq!(rows_of(&run.sections["findings"], &["id"])[0], "start-up");
    }

    #[test]
    fn the_wall_time_leaves_out_unseen_work() {
        let mut trace = TestTrace::new();
        trace.in_us().launch(0..2).launches("k", 5..10).launch(6..8).launches("k", 3_010..3_020);
        let run = analyze(&trace.finish());
        assert_eq!((run.wall.wall_ns, run.wall.bar_ns, run.wall.cpu_ns), (15_000, 15_000, 0));
        assert_eq!((run.devices[0].idle_ns, run.devices[0].busy_share), (0, 1.0));
        let idle = &run.sections["gpu_idle"].rows[0];
        assert_eq!(["idle_pct_of_window", "unseen_ms"].map(|name| number(idle, name)), [0.0, 3.0]);
    }

    #[test]
    fn every_idle_share_leaves_out_unseen_work() {
        let mut trace = TestTrace::new();
        trace.in_us().launch(0..2).launches("k", 5..10).launch(6..8).launches("k", 12..20);
        trace.launch(15..17).launches("k", 3_012..3_022);
        let run = analyze(&trace.finish());
        // Busy 23 us, idle 2 us, unseen 2,992 us.
        assert_eq!((run.wall.wall_ns, run.wall.cpu_ns), (25_000, 2_000));
        assert_eq!(number(&run.sections["gpu_idle"].rows[0], "idle_pct_of_window"), 8.0);
        let head = &run.sections["key_figures"].summary;
        assert_eq!(head.get("gpu_idle_pct").and_then(Value::number), Some(8.0));
        assert_eq!(head.get("idle_cause").and_then(Value::text), Some("turnaround between kernels"));
        assert_eq!(head.get("bottleneck").and_then(Value::text), Some("misc, 92.0 % of wall time"));
    }

    #[test]
    fn python_frames_or_slow_launches_make_host_idle_time_an_upper_bound() {
        let trace = |frames: u64, gap: i64, launch: i64| {
            let mut trace = TestTrace::new();
            for index in 0..120 {
                let start = index * 1_000;
                trace.in_us().launch(start - launch..start).launches("k", start..start + 1_000 - gap);
            }
            trace.builder.trace.events.python_frames = frames;
            ids(&trace.finish())
        };
        assert_eq!(trace(100, 50, 5), ["capture-overhead"]);
        assert_eq!(trace(0, 50, 16), ["capture-overhead"]);
        assert_eq!(trace(0, 50, 15), [""; 0]);
        assert_eq!(trace(100, 5, 5), [""; 0], "the host causes 0.5 % idle time");
    }

    #[test]
    fn ops_that_start_before_their_launch_show_different_clocks() {
        let early = |call: i64| ids(&TestTrace::new().launch(call..call + 10).launches("k", 5_000..9_000).finish());
        assert_eq!((early(6_001), early(6_000)), (vec!["clock-skew".to_owned()], Vec::new()));
    }

    #[test]
    fn one_step_has_no_spread() {
        let steps = |count: i64| {
            let mut trace = TestTrace::new();
            for index in 0..count {
                let start = 1_000 * index;
                trace.range("step[DECODE bs=4]", start..start + 90);
                trace.launch(start + 10..start + 20).launches("k", start + 30..start + 999);
            }
            ids(&trace.finish())
        };
        assert_eq!((steps(1), steps(2)), (vec!["single-step".to_owned()], Vec::new()));
    }

    #[test]
    fn a_window_of_one_step_says_nothing_about_the_capture() {
        let mut trace = TestTrace::new();
        for start in [0, 1_000, 2_000] {
            trace.range("step[DECODE bs=4]", start..start + 90);
            trace.launch(start + 10..start + 20).launches("k", start + 30..start + 999);
        }
        let trace = trace.window(1_000..2_000);
        assert_eq!(ids(&trace), ["single-step"]);
        assert!(text(&trace).starts_with("The window contains one step") && !text(&trace).contains("capture"));
    }

    #[test]
    fn a_file_of_one_rank_of_a_job_is_named() {
        let rank = |world_size: u32| {
            let mut trace = TestTrace::new();
            trace.launch(0..2).launches("k", 5..50);
            trace.builder.trace.job = Some(Box::new(Job { rank: 3, world_size, ..Job::default() }));
            trace.finish()
        };
        assert!(text(&rank(8)).starts_with("The file contains rank 3 of 8."));
        assert_eq!(ids(&rank(1)), [""; 0]);
    }

    #[test]
    fn graphs_traced_as_a_whole_hide_their_kernels() {
        let trace = TestTrace::nsys().in_us().kernel("k", 0..5).replay(10..2_010).finish();
        assert!(text(&trace).starts_with("1 CUDA graph replay (2.0 ms) was recorded as a whole"));
    }

    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn rows_of_shared_traces() {
        let step = |ids: &[&'static str]| [ids, &["single-step"]].concat();
        for (file, expected) in [
            ("sglang_qwen3_30b_b300_decode", step(&["capture-overhead"])),
            ("sglang_qwen3_8b_mi300_decode", step(&["unseen-work", "capture-overhead"])),
            ("sglang_qwen3_8b_mi300_extend", step(&["unseen-work"])),
            ("vllm_mi300_decode_full_graph", step(&["unseen-work"])),
            ("vllm_b200_eager_prefill", vec!["capture-overhead", "single-step", "one-rank-of-many"]),
        ] {
            let trace = torch(&format!("{file}.trace.json.gz"));
            assert_eq!(ids(&trace), expected, "{file}");
        }
    }

    /// One step of 10.44 ms, busy for 93.5 %, after 463 ms of work that the file does not contain.
    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn idle_time_of_a_shared_trace_leaves_out_unseen_work() {
        let trace = torch("sglang_qwen3_8b_mi300_decode.trace.json.gz");
        let run = analyze(&trace);
        assert_eq!(run.wall.wall_ns / 10_000, 1_049);
        assert_eq!((run.wall.busy_share * 1_000.0).round(), 931.0);
    }
}
