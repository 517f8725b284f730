//! The verdict on a run: what one unit of work takes, what it is bound by, and what costs most beside that. Read from the
//! results of a run, without another pass over the trace. At most two sentences.

mod path;

use super::communication::collectives::NcclOps;
use super::findings::{Confidence, FindingId, FindingRow, Findings};
use super::host::idle::{GpuIdle, GpuIdleGapRow, GpuIdleGaps, GpuIdleRow};
use super::inference::step_floor::{FloorOfSteps, StepFloorRow};
use super::key_figures::is_almost_empty;
use super::labels::format_time;
use super::labels::{capitalized, stage_words};
use super::replay::cause::Cause;
use super::replay::costs::{Costs, PathGroup};
use super::replay::sections::CriticalPathRows;
use super::results::{Category, Run, Verdict, VerdictClause, WallSource};
use super::section::{Ms, TypedSection};
use super::structure::start_up::{SaidStart, StartUpTimes};
use super::structure::steps::{StepRow, Steps};
use super::time::streams::StreamOverlap;
use super::trust::{Trust, TrustId};
use super::unit::Unit;
use crate::digits::grouped;
use crate::ordering;
use crate::rules::GRAPHS;
use crate::rules::signals::VerdictThresholds;
use crate::trace::CODE_IS_BUILT;
use std::cmp::{Ordering, Reverse};

/// Steps with less of the capture are a part of it.
const MIN_WHOLE: f64 = 0.95;
/// The category of kernels that no rule matches.
const MISC: &str = "misc";

/// States what bounds a run. Without sections it states only busy time and categories.
pub(super) fn verdict(run: &Run, thresholds: &VerdictThresholds) -> Verdict {
    let mut text = Sentences::default();
    if run.totals.gpu_ops == 0 && run.totals.union_ns == 0 {
        let extent = if run.window.is_some() { "window" } else { "trace" };
        text.push(format!("No GPU work in this {extent}."), None);
        return text.finish();
    }
    let times = Times::of(run, thresholds);
    if let Some(start) = times.start() {
        let gap = gap_of_start(run, start, &times, thresholds);
        if start.is_cold() {
            cold_start(start, gap, &mut text);
            return text.finish();
        }
        after_start(start, gap, &mut text);
    }
    unit(run, &times, thresholds, &mut text);
    let measured = Bound::of(run, &times, thresholds);
    let of_path = measured.of_path(run, thresholds);
    let bound = of_path.as_ref().map_or(measured, |(bound, _)| *bound);
    if let Some((row, gap)) = longest_gap(run, &times, thresholds).filter(|_| times.start().is_none()) {
        text.push(format!("; {}", gap.words()), Some((GpuIdleGaps::SPEC.name, Some(row))));
    }
    if let Some((_, costs)) = &of_path {
        let doubts = path::Doubts {
            is_inflated: is_inflated(run),
            may_wait: has_waits(run),
            is_after_start: times.start().is_some(),
        };
        let words = path::words(costs, bound, doubts);
        text.push(words, Some((CriticalPathRows::SPEC.name, None)));
    }
    let has_first_uses =
        of_path.as_ref().is_some_and(|(_, costs)| path::has_first_uses(costs)) && times.start().is_none();
    if of_path.is_none() || bound == Bound::Compute {
        let is_part = has_first_uses || times.start().is_some() || is_part(run, thresholds);
        bound.write(run, &times, is_part, thresholds, &mut text);
    }
    if let Some(StepsInCapture { idle_outside, .. }) = times.steps {
        text.push(
            format!("; the GPU idles for {} outside of the steps", format_time(idle_outside)),
            Some(("steps", None)),
        );
    }
    text.push(".", None);
    beside(run, &times, (bound, has_first_uses), thresholds, &mut text);
    text.finish()
}

/// The clauses so far.
#[derive(Debug, Default)]
struct Sentences {
    clauses: Vec<VerdictClause>,
}

impl Sentences {
    /// Adds words, with the section and the row of their numbers. Words without a section join the previous ones without.
    fn push(&mut self, text: impl Into<String>, source: Option<(&str, Option<usize>)>) {
        let text = text.into();
        match self.clauses.last_mut().filter(|last| last.section.is_none() && source.is_none()) {
            Some(last) => last.text += &text,
            None => self.clauses.push(VerdictClause {
                text,
                section: source.map(|(section, _)| section.to_owned()),
                row: source.and_then(|(_, row)| row).map(|row| row as u64),
            }),
        }
    }

    fn finish(self) -> Verdict {
        Verdict { text: self.clauses.iter().map(|clause| clause.text.as_str()).collect(), clauses: self.clauses }
    }
}

/// Sums over the devices, in milliseconds.
#[derive(Debug, Default)]
struct Times {
    /// Windows without the time in which work ran that the trace does not contain; zero if the sections are missing.
    window: f64,
    /// The same, with the start of the program.
    whole_window: f64,
    busy: f64,
    host_late: f64,
    /// The part of the late time in which kernels were launched for the first time.
    first_launches: f64,
    drained: f64,
    unknown: f64,
    compiling: f64,
    /// Time of work that has no record: the GPU may have been busy or idle.
    unrecorded: f64,
    /// Time in which communication runs without compute, together with compute, and compute without communication.
    exposed: f64,
    overlapped: f64,
    compute_alone: f64,
    /// Graphs were traced as a whole, so that their kernels are unknown.
    has_hidden_graphs: bool,
    /// If the capture is much longer than the steps.
    steps: Option<StepsInCapture>,
    /// If the program starts in the capture. Without `steps`, the other times are those after its start.
    start: Option<SaidStart>,
}

/// A device between its first step and its last, in milliseconds.
#[derive(Debug, Clone, Copy)]
struct StepsInCapture {
    /// Without time of unseen work.
    length: f64,
    busy: f64,
    /// Time in which the host was late, also after a blocking call.
    late: f64,
    /// Idle time of the rest of the capture.
    idle_outside: f64,
}

impl StepsInCapture {
    /// `None` if the rest of the capture is short; for a window, whose first and last steps may be cut; for several devices, whose
    /// times outside of steps differ; and for graphs that were traced as a whole, which are not linked to their steps.
    fn of(run: &Run, times: &Times, thresholds: &VerdictThresholds) -> Option<Self> {
        let figures = Steps::figures(&run.sections)?;
        let has_one_device = figures.devices == 1 && GpuIdle::rows(&run.sections).len() == 1;
        if run.window.is_some() || !has_one_device || times.has_hidden_graphs || times.is_compiling() {
            return None;
        }
        let ms = |time| Ms::from(time).0;
        let (idle_outside, busy_outside) = (ms(figures.idle_outside_ns), ms(figures.busy_outside_ns));
        (idle_outside > thresholds.min_outside_share * times.window).then(|| Self {
            length: times.window - idle_outside - busy_outside,
            busy: times.busy - busy_outside,
            late: times.host_late + times.drained - ms(figures.late_outside_ns),
            idle_outside,
        })
    }
}

impl Times {
    fn of(run: &Run, thresholds: &VerdictThresholds) -> Self {
        // The page's first module has no sections.
        if !CODE_IS_BUILT {
            return Self::default();
        }
        let Some(idle) = GpuIdle::read(&run.sections) else { return Self::default() };
        let sum = |part: fn(&GpuIdleRow) -> Ms| idle.rows.iter().fold(0.0, |sum, row| sum + part(row).0);
        let overlap = StreamOverlap::rows(&run.sections);
        let row = |label: &str| overlap.iter().find(|row| row.label == label);
        let overlapped = StreamOverlap::figures(&run.sections).map_or(0.0, |figures| figures.compute_nccl_overlap_ms.0);
        let compute = row("Compute").map_or(0.0, |row| row.total_time_ms.0);
        let window = idle.rows.iter().map(GpuIdleRow::own_window_ms).sum();
        let times = Self {
            window,
            whole_window: window,
            busy: sum(|row| row.busy_ms),
            host_late: sum(|row| row.host_late_ms),
            first_launches: sum(|row| row.first_launches_ms),
            drained: sum(|row| row.drained_ms),
            unknown: sum(|row| row.unknown_ms),
            compiling: sum(|row| row.compiling_ms),
            unrecorded: sum(|row| row.unrecorded_ms),
            exposed: NcclOps::figures(&run.sections).map_or(0.0, |figures| figures.exposed_ms.0),
            overlapped,
            compute_alone: compute - overlapped,
            has_hidden_graphs: row(GRAPHS).is_some(),
            steps: None,
            start: None,
        };
        let steps = StepsInCapture::of(run, &times, thresholds);
        let is_whole = run.window.is_none() && run.wall.source == WallSource::Window;
        let is_said = |start: &SaidStart| CODE_IS_BUILT && is_whole && (start.is_cold() || start.is_followed());
        let start = SaidStart::of(&run.sections).filter(is_said);
        let times = if steps.is_none() { times.after(start.as_ref()) } else { times };
        Self { steps, start, ..times }
    }

    /// The start of the program. The page's first module has none, and no sentences about it.
    fn start(&self) -> Option<&SaidStart> {
        self.start.as_ref().filter(|_| CODE_IS_BUILT)
    }

    /// The times after the start of the program. The start is not the workload.
    fn after(self, start: Option<&SaidStart>) -> Self {
        let Some(start) = start.filter(|_| CODE_IS_BUILT) else { return self };
        Self {
            window: start.window_after_ms,
            busy: start.busy_after_ms,
            host_late: start.host_late_after_ms,
            drained: start.drained_after_ms,
            unknown: start.unknown_after_ms,
            compiling: start.compiling_after_ms,
            ..self
        }
    }

    /// A host that is late before the first step or after the last does not delay the steps.
    fn is_host_bound(&self) -> bool {
        match self.steps {
            Some(StepsInCapture { length, busy, late, .. }) => late > busy + self.unrecorded && length > 0.0,
            None => self.host_late + self.drained > self.busy + self.unrecorded,
        }
    }

    /// Idle time without a known cause, and the busy time to compare it with: between the first step and the last, if the capture is much
    /// longer.
    fn unknown_and_busy(&self) -> (f64, f64) {
        match self.steps {
            Some(StepsInCapture { length, busy, late, .. }) => {
                ((length - busy - late).max(0.0).min(self.unknown), busy)
            }
            None => (self.unknown, self.busy),
        }
    }

    /// The share of that idle time.
    fn unknown_share(&self) -> f64 {
        let (unknown, _) = self.unknown_and_busy();
        match self.steps {
            Some(StepsInCapture { length, .. }) if length > 0.0 => unknown / length,
            _ => self.share(unknown),
        }
    }

    /// Whether first launches take most of the time: they load code, which work that runs again does not wait for.
    fn is_loading(&self) -> bool {
        let others = self.host_late + self.drained - self.first_launches;
        self.steps.is_none() && self.start.is_none() && self.first_launches > others + self.busy + self.unrecorded
    }

    /// A compilation is usually before the first step.
    fn is_compiling(&self) -> bool {
        self.compiling > self.busy.max(self.host_late + self.drained)
    }

    /// The share of a time in the windows of the devices.
    fn share(&self, ms: f64) -> f64 {
        if self.window > 0.0 { ms / self.window } else { 0.0 }
    }
}

/// A capture of little but the start of the program.
fn cold_start(start: &SaidStart, gap: Option<(usize, GpuIdleGapRow)>, text: &mut Sentences) {
    let source = Some((StartUpTimes::SPEC.name, Some(start.row)));
    let words = format!(
        "This capture is a cold start: the program starts for {} of {}, of which loading takes {} ({})",
        format_time(start.length_ms),
        format_time(start.process_ms),
        format_time(start.loading_ms),
        start.largest_loads,
    );
    text.push(words, source);
    if let Some((row, gap)) = gap {
        text.push(format!("; {}", gap.words()), Some((GpuIdleGaps::SPEC.name, Some(row))));
    }
    let words = format!(
        "; {} of the ops and {} of the kernel time follow. Warm up before the capture, then capture again.",
        percent(start.followed_ops_pct / 100.0),
        percent(start.followed_kernels_pct / 100.0),
    );
    text.push(words, source);
}

/// `After the start of the program (first 3.1 s of 3.4 s, of which loading takes 0.9 s; the longest idle gap lasts 2.1 s), `.
fn after_start(start: &SaidStart, gap: Option<(usize, GpuIdleGapRow)>, text: &mut Sentences) {
    let words = format!(
        "After the start of the program (first {} of {}, of which loading takes {}",
        format_time(start.length_ms),
        format_time(start.process_ms),
        format_time(start.loading_ms),
    );
    text.push(words, Some((StartUpTimes::SPEC.name, Some(start.row))));
    if let Some((row, gap)) = gap {
        text.push(format!("; {}", gap.words()), Some((GpuIdleGaps::SPEC.name, Some(row))));
    }
    text.push("), ", None);
}

/// The longest gap, if it is of the start and longer than the loads, which do not explain it then.
fn gap_of_start(
    run: &Run,
    start: &SaidStart,
    times: &Times,
    thresholds: &VerdictThresholds,
) -> Option<(usize, GpuIdleGapRow)> {
    let is_of_start = |gap: &GpuIdleGapRow| gap.gap_end_ns <= start.steady_from_ns && gap.gap_ms.0 > start.loading_ms;
    longest_gap(run, times, thresholds).filter(|(_, gap)| is_of_start(gap))
}

/// The longest idle gap of a capture without steps, if it is a large part of the capture. Categories and the path of what follows do
/// not say what happened in it.
fn longest_gap(run: &Run, times: &Times, thresholds: &VerdictThresholds) -> Option<(usize, GpuIdleGapRow)> {
    let is_whole = run.window.is_none() && run.wall.source == WallSource::Window && run.devices.len() == 1;
    if !CODE_IS_BUILT || !is_whole || !Steps::rows(&run.sections).is_empty() {
        return None;
    }
    let (row, gap) = GpuIdleGaps::longest(&run.sections)?;
    let is_idle = !Trust::has(&run.sections, TrustId::CounterRun);
    (is_idle && gap.gap_ms.0 >= thresholds.min_longest_gap_share * times.whole_window).then_some((row, gap))
}

/// `Decode: 1 step of 10.4 ms, batch 32, floor 4.1 ms, GPU busy 93.5 %`.
fn unit(run: &Run, times: &Times, thresholds: &VerdictThresholds, text: &mut Sentences) {
    let steps = if CODE_IS_BUILT { Steps::rows(&run.sections) } else { Vec::new() };
    let mut rows: Vec<(usize, StepRow)> = steps.into_iter().enumerate().collect();
    ordering::sort_by_key(&mut rows, |(_, row)| Reverse(row.total_ns));
    rows.truncate(thresholds.max_stages);
    ordering::sort_by_key(&mut rows, |(index, _)| *index);
    for (position, (index, row)) in rows.iter().enumerate() {
        let stage = stage_words(row.stage.label());
        let separator = if position == 0 { "" } else { "; " };
        let is_first = position == 0 && times.start().is_none();
        let stage = if is_first { capitalized(&stage) } else { stage };
        let head = if stage.is_empty() { String::new() } else { format!("{stage}: ") };
        text.push(format!("{separator}{head}{}", steps_words(row, thresholds)), Some(("steps", Some(*index))));
        let step_ms = row.median_ns.unwrap_or_default().0 / 1e6;
        if let Some((index, _, Ms(floor))) = StepFloorRow::sure(&run.sections, row.stage, step_ms) {
            text.push(format!(", floor {}", format_time(floor)), Some((FloorOfSteps::SPEC.name, Some(index))));
        }
        let at_least = if times.unrecorded > 0.0 { "at least " } else { "" };
        let busy = row.busy_pct.map(|busy| format!(", GPU busy {at_least}{}", percent(busy.0 / 100.0)));
        text.push(busy.unwrap_or_default(), Some(("steps", Some(*index))));
    }
    if rows.is_empty() && run.wall.source != WallSource::Window {
        let source = if run.wall.source == WallSource::Given { "given wall time" } else { "wall time" };
        let busy = format!("GPU busy {} of the {source}", percent(run.wall.busy_share));
        text.push(busy, Some(("devices", None)));
    } else if rows.is_empty() {
        let on = match run.devices.len() {
            0 | 1 => String::new(),
            several => format!(" on the busiest of {several} GPUs"),
        };
        let longest = run.devices.iter().map(|device| device.union_ns).max().unwrap_or(0);
        let (article, work, on) = match times.start() {
            Some(start) if run.devices.len() > 1 => {
                ("the", start.busy_after_ms, format!(" on {} GPUs", run.devices.len()))
            }
            Some(start) => ("the", start.busy_after_ms, on),
            None => ("The", longest as f64 / 1e6, on),
        };
        let (work, extent) = (format_time(work), if run.window.is_some() { "window" } else { "capture" });
        text.push(format!("{article} {extent} covers {work} of GPU work{on}"), Some(("devices", None)));
        if times.window > 0.0 {
            let busy = match times.unrecorded > 0.0 {
                true => {
                    let most = percent(times.share(times.busy + times.unrecorded));
                    format!(", GPU busy for {} to {most} of the time", percent(times.share(times.busy)))
                }
                false if times.start().is_some() => format!(", GPU busy {}", percent(times.share(times.busy))),
                false if run.devices.len() > 1 => {
                    format!(", GPU busy {} on average", percent(run.wall.busy_share))
                }
                false => format!(", GPU busy {}", percent(run.wall.busy_share)),
            };
            text.push(busy, Some(("gpu_idle", None)));
        }
    }
}

/// `9 steps, median 10.4 ms, mean batch 31.5`.
fn steps_words(row: &StepRow, thresholds: &VerdictThresholds) -> String {
    let count = row.steps;
    let length = format_time(row.median_ns.unwrap_or_default().0 / 1e6);
    let mut words = match count {
        1 => format!("1 step of {length}"),
        several => format!("{} steps, median {length}", grouped(several as u64)),
    };
    // The other figures are mostly about one long step, such as a start.
    let longest_ns = row.max_ns.unwrap_or_default().0 as f64;
    if count > 2 && longest_ns > thresholds.min_longest_step_share * row.total_ns.0 as f64 {
        words += &format!(", the longest {}", format_time(longest_ns / 1e6));
    }
    let positive = |mean: Option<f64>| mean.filter(|mean| *mean > 0.0);
    let exact = |mean: f64| if mean.fract() == 0.0 { grouped(mean as u64) } else { format!("{mean:.1}") };
    let on_average = if count == 1 { "" } else { "mean " };
    if let Some(batch) = positive(row.batch) {
        words += &format!(", {on_average}batch {}", exact(batch));
    }
    // In decode, each request has one token.
    if let Some(tokens) = positive(row.tokens).filter(|tokens| row.batch != Some(*tokens)) {
        words += &format!(", {on_average}{} tokens", exact(tokens));
    }
    words
}

/// What takes most of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    /// The GPU waits for launches or for blocking calls.
    Host,
    /// Communication runs without compute.
    Communication,
    /// Communication and compute overlap too much for shares of categories.
    Overlap,
    /// The launching thread waits for another thread or process.
    Waiting,
    /// Delays between host and GPU.
    Delays,
    /// Idle time without a known cause.
    UnknownIdle,
    /// The GPU idles while code is compiled.
    Compilation,
    /// The GPU idles while kernels are launched for the first time.
    Loading,
    /// The GPU works almost never, and no steps are marked.
    Nothing,
    /// No GPU op of the file runs while the marked steps run.
    StepsWithoutWork,
    /// The durations of graph replays do not belong to their kernel names, so no category can be named.
    ShiftedDurations,
    /// Work without records may have taken more time than what is recorded.
    Unrecorded,
    Compute,
}

impl Bound {
    fn of(run: &Run, times: &Times, thresholds: &VerdictThresholds) -> Self {
        if !CODE_IS_BUILT {
            return Self::Compute;
        }
        let compute = times.busy - times.exposed;
        let (unknown, busy) = times.unknown_and_busy();
        if Trust::has(&run.sections, TrustId::StepsWithoutWork) {
            return Self::StepsWithoutWork;
        }
        if times.window == 0.0 {
            return Self::Compute;
        }
        let is_given_wall = run.wall.source != WallSource::Window;
        if times.is_compiling() && !is_given_wall {
            Self::Compilation
        } else if is_almost_empty(run) && !is_given_wall {
            Self::Nothing
        } else if times.is_loading() && !is_given_wall {
            Self::Loading
        } else if times.is_host_bound() && !is_given_wall {
            Self::Host
        } else if unknown > busy + times.unrecorded && !is_given_wall {
            Self::UnknownIdle
        } else if run.has_shifted_durations() {
            Self::ShiftedDurations
        } else if times.unrecorded > 0.0 && !leads_by(run, times.unrecorded) {
            Self::Unrecorded
        } else if times.overlapped > thresholds.communication_overlap * times.busy {
            Self::Overlap
        } else if times.exposed > compute {
            Self::Communication
        } else {
            Self::Compute
        }
    }

    /// What the critical path says instead, if the replay of the whole run says something. A part of the time, a given wall time and
    /// work without records leave it to the measured times.
    fn of_path(self, run: &Run, thresholds: &VerdictThresholds) -> Option<(Self, Costs)> {
        let is_of_path = matches!(
            self,
            Self::Host | Self::Loading | Self::Communication | Self::Overlap | Self::UnknownIdle | Self::Compute
        );
        if !CODE_IS_BUILT || !is_of_path || run.wall.source != WallSource::Window {
            return None;
        }
        let costs = Costs::of(&run.sections, Unit::of(&run.sections, thresholds))?;
        let (largest, _) = *costs.groups().first()?;
        let bound = match largest {
            PathGroup::Open => return None,
            PathGroup::Waiting => Self::Waiting,
            PathGroup::Delays => Self::Delays,
            _ => match costs.lead() {
                Cause::Host => Self::Host,
                Cause::Communication => Self::Communication,
                _ => Self::Compute,
            },
        };
        // A host that launches kernels for the first time in the replayed window loads code.
        let is_loading = self == Self::Loading && bound == Self::Host && !path::has_first_uses(&costs);
        (!is_loading).then_some((bound, costs))
    }

    /// `is_part`: the sentence is about a part of the capture.
    fn write(self, run: &Run, times: &Times, is_part: bool, thresholds: &VerdictThresholds, text: &mut Sentences) {
        match self {
            Self::Host => {
                let (share, extent) = match times.steps {
                    Some(steps) => (steps.late / steps.length, "time from the first step to the last"),
                    None if times.start().is_some() => {
                        (times.share(times.host_late + times.drained), "time after the start")
                    }
                    None => (times.share(times.host_late + times.drained), "time"),
                };
                let share = percent(share);
                // One step that is captured alone with Python stacks proves no bound.
                let words = if is_inflated(run) {
                    format!(
                        "; the GPU waits for the host {share} of the {extent}, inflated by a short capture with Python stacks"
                    )
                } else {
                    format!("; bound by the host, which delays the GPU for {share} of the {extent}")
                };
                text.push(words, Some(("gpu_idle", None)));
            }
            Self::UnknownIdle => {
                let idle = percent(times.unknown_share());
                let extent = if times.steps.is_some() { "time from the first step to the last" } else { "time" };
                let why = match Trust::has(&run.sections, TrustId::CounterRun) {
                    true => "while the profiler counts hardware events between the kernels",
                    false => "and the trace does not show why",
                };
                text.push(format!("; the GPU idles for {idle} of the {extent}, {why}"), Some(("gpu_idle", None)));
            }
            Self::Compilation => {
                let words = format!(
                    "; torch.compile keeps the GPU idle for {} of the time",
                    percent(times.share(times.compiling))
                );
                text.push(words, Some(("gpu_idle", None)));
            }
            Self::Loading => {
                let words = format!(
                    "; for {} of the time the GPU waits for first launches of kernels, which load code: this is no steady state",
                    percent(times.share(times.first_launches))
                );
                text.push(words, Some(("gpu_idle", None)));
            }
            Self::StepsWithoutWork => {
                text.push("; the file contains no GPU work of these steps", Some(("trust", None)));
            }
            Self::Nothing => {
                let idle = format_time(times.window - times.busy);
                let why = match Trust::has(&run.sections, TrustId::GraphsRecorded) {
                    true => " while the program records graphs",
                    false => "",
                };
                let words =
                    format!("; for the other {idle} it has no work{why}, so the capture says little about the GPU");
                text.push(words, Some(("gpu_idle", None)));
            }
            Self::ShiftedDurations => {
                let words = "; the trace does not show what costs most, because durations in graph replays do not \
                             belong to their kernel names";
                text.push(words, Some(("trust", None)));
            }
            Self::Unrecorded => {
                let share = percent(times.share(times.unrecorded));
                let words = format!("; what the GPU did for {share} of the time is not in the file");
                text.push(words, Some(("trust", None)));
            }
            Self::Waiting | Self::Delays => {}
            Self::Communication => {
                let exposed = percent(times.exposed / times.busy);
                let words = if has_waits(run) {
                    format!("; communication runs alone for {exposed} of the busy time and may wait for other ranks")
                } else {
                    format!("; bound by communication, which runs alone for {exposed} of the busy time")
                };
                text.push(words, Some(("nccl_ops", None)));
            }
            Self::Overlap => {
                let of_busy = |ms: f64| percent(if times.busy > 0.0 { ms / times.busy } else { 0.0 });
                let words = format!(
                    "; of busy time, {} is compute alone, {} communication alone, {} both together{}",
                    of_busy(times.compute_alone),
                    of_busy(times.exposed),
                    of_busy(times.overlapped),
                    others_words(times, thresholds).unwrap_or_default()
                );
                text.push(words, Some(("stream_overlap", None)));
            }
            Self::Compute => {
                let first = run.categories.first().filter(|category| category.elapsed_ns > 0);
                if let Some((first, share)) = first.and_then(|first| Some((first, first.bar_share?))) {
                    let is_outside = times.has_hidden_graphs && first.category != GRAPHS;
                    let head = match (is_outside, is_part) {
                        (true, _) => "; outside of graphs the",
                        (false, true) => "; of the whole capture, the",
                        (false, false) => "; the",
                    };
                    let words = format!(
                        "{head} largest category is {} ({} of wall time{})",
                        category_words(&first.category),
                        percent(share),
                        largest_kernel(run, first).unwrap_or_default()
                    );
                    text.push(words, Some(("categories", Some(0))));
                }
            }
        }
    }
}

/// `, of which test2 takes 99.4 %`: the largest kernel that no category describes.
fn largest_kernel(run: &Run, category: &Category) -> Option<String> {
    let of_category = run.kernels.iter().filter(|kernel| kernel.category == MISC && category.category == MISC);
    let largest = of_category.max_by_key(|kernel| kernel.elapsed_ns)?;
    let share = largest.elapsed_ns as f64 / category.elapsed_ns.max(1) as f64;
    Some(format!(", of which {} takes {}", largest.short_name, percent(share)))
}

/// Whether the steps are only a part of the time that the categories are shares of.
fn is_part(run: &Run, thresholds: &VerdictThresholds) -> bool {
    if !CODE_IS_BUILT {
        return false;
    }
    let unit = Unit::of(&run.sections, thresholds);
    unit.steps > 0 && unit.ms * 1e6 < MIN_WHOLE * run.wall.wall_ns as f64
}

/// Whether the first category leads by more than this time of all devices.
fn leads_by(run: &Run, ms: f64) -> bool {
    let mut times = run.categories.iter().map(|category| category.elapsed_ns as f64 / 1e6);
    let (first, second) = (times.next().unwrap_or_default(), times.next().unwrap_or_default());
    first - second > ms
}

/// `, 5.0 % other work such as copies`: what is neither compute nor communication.
fn others_words(times: &Times, thresholds: &VerdictThresholds) -> Option<String> {
    let others = times.busy - times.compute_alone - times.exposed - times.overlapped;
    let share = if times.busy > 0.0 { others / times.busy } else { 0.0 };
    (share >= thresholds.min_other_work_share).then(|| format!(", {} other work such as copies", percent(share)))
}

/// True if the findings about the host are uncertain.
fn is_inflated(run: &Run) -> bool {
    let is_low = |row: &FindingRow| {
        matches!(row.id, FindingId::HostLate | FindingId::ReplayPreparation) && row.confidence == Confidence::Low
    };
    Findings::rows(&run.sections).iter().any(is_low)
}

/// Whether communication may wait for other ranks.
fn has_waits(run: &Run) -> bool {
    Findings::rows(&run.sections).iter().any(|row| row.id == FindingId::CommunicationWaits)
}

fn category_words(category: &str) -> &str {
    match category {
        MISC => "kernels without a category",
        GRAPHS => "CUDA graphs traced as a whole",
        _ => category,
    }
}

/// The second sentence, unless it would be about other work than the steps: the finding with the largest cost that the bound
/// does not include; else the next categories.
fn beside(
    run: &Run,
    times: &Times,
    (bound, has_first_uses): (Bound, bool),
    thresholds: &VerdictThresholds,
    text: &mut Sentences,
) {
    if bound == Bound::StepsWithoutWork {
        return;
    }
    let rows = if CODE_IS_BUILT { Findings::rows(&run.sections) } else { Vec::new() };
    // The start of a program is no cost of the workload.
    let is_said = |row: &FindingRow| match bound {
        _ if row.id == FindingId::StartUp => true,
        Bound::Host | Bound::Loading => {
            matches!(row.id, FindingId::HostLate | FindingId::ReplayPreparation | FindingId::SyncDrain)
        }
        Bound::Communication => row.id == FindingId::ExposedCommunication,
        Bound::Compilation => row.id == FindingId::Compilation,
        Bound::StepsWithoutWork
        | Bound::Overlap
        | Bound::Waiting
        | Bound::Delays
        | Bound::UnknownIdle
        | Bound::Nothing
        | Bound::ShiftedDurations
        | Bound::Unrecorded
        | Bound::Compute => false,
    };
    // Rows come by severity. Of equal costs the first counts.
    let others = rows.iter().enumerate().filter(|(_, row)| !is_said(row));
    let next = others.rev().max_by(|(_, a), (_, b)| by_cost(a, b));
    if let Some((index, row)) = next.filter(|_| CODE_IS_BUILT) {
        let costs_more = |said: &FindingRow| by_cost(said, row) == Ordering::Greater;
        let is_largest = !rows.iter().any(|said| is_said(said) && said.id != FindingId::StartUp && costs_more(said));
        text.push(if is_largest { " Largest recoverable cost: " } else { " Largest other recoverable cost: " }, None);
        let words = format!(
            "{} ({})",
            uncapitalized(&row.title),
            cost_words(row, Unit::of(&run.sections, thresholds), has_first_uses)
        );
        text.push(words, Some(("findings", Some(index))));
        text.push(".", None);
        return;
    }
    if times.has_hidden_graphs {
        text.push(" The kernels inside of CUDA graphs are not in the trace.", None);
        return;
    }
    let unknown = times.unknown_share();
    if bound == Bound::Compute && unknown >= thresholds.min_unknown_share && run.wall.source == WallSource::Window {
        let words = format!(" The GPU idles for {} of the time; the trace does not show why.", percent(unknown));
        text.push(words, Some(("gpu_idle", None)));
        return;
    }
    // The kernels of a compilation are mostly those of its autotuning.
    if run.has_shifted_durations() || matches!(bound, Bound::Compilation | Bound::Loading | Bound::Unrecorded) {
        return;
    }
    // The bound names the first category only if compute is the bound.
    let (skipped, head) = if bound == Bound::Compute { (1, " Next: ") } else { (0, " Largest by GPU time: ") };
    let categories = run.categories.iter().enumerate().skip(skipped);
    let shares = categories.filter_map(|(index, category)| Some((index, category, category.bar_share?)));
    let large = shares.filter(|(.., share)| *share >= thresholds.min_other_category_share);
    for (position, (index, category, share)) in large.take(thresholds.max_other_categories).enumerate() {
        text.push(if position == 0 { head } else { " and " }, None);
        let words = format!("{} ({} of wall time)", category_words(&category.category), percent(share));
        text.push(words, Some(("categories", Some(index))));
    }
    if text.clauses.last().is_some_and(|last| last.section.as_deref() == Some("categories")) {
        text.push(".", None);
    }
}

/// `up to 2.1 ms a step, 27.6 % of the time`: what a finding may save.
fn cost_words(row: &FindingRow, unit: Unit, has_first_uses: bool) -> String {
    let cost = row.cost_ms.0;
    let of_what = if has_first_uses && row.what_if.is_some() { "the time after first uses" } else { "the time" };
    let share = percent(row.share_pct.0 / 100.0);
    let share = if unit.ms > 0.0 { format!(", {share} of {of_what}") } else { String::new() };
    let time = unit.per_step(cost).map_or_else(|| format_time(cost), |ms| format!("{} a step", format_time(ms)));
    let is_open = row
        .proven_ms
        .is_some_and(|proven| proven.0 <= 0.0 || row.share_pct.0 / 100.0 * (1.0 - proven.0 / cost) >= MIN_OPEN);
    format!("{}{time}{share}", if is_open { "up to " } else { "" })
}

/// The finding that saves most: its row, and what it saves in words. The start of a program is no cost of the workload.
pub(crate) fn largest_saving(run: &Run, thresholds: &VerdictThresholds) -> Option<(FindingRow, String)> {
    let rows = Findings::rows(&run.sections).into_iter().filter(|row| row.id != FindingId::StartUp);
    let row = rows.rev().max_by(by_cost).filter(|row| row.cost_ms.0 > 0.0)?;
    let unit = Unit::of(&run.sections, thresholds);
    let is_start_said = Times::of(run, thresholds).start().is_some();
    let has_first_uses = Costs::of(&run.sections, unit).is_some_and(|costs| path::has_first_uses(&costs));
    let has_first_uses = has_first_uses && !is_start_said;
    let words = cost_words(&row, unit, has_first_uses);
    Some((row, words))
}

/// Orders findings by what they cost at least, and those that may cost nothing by what they cost at most.
fn by_cost(a: &FindingRow, b: &FindingRow) -> Ordering {
    let certain_ms = |row: &FindingRow| row.proven_ms.map_or(row.cost_ms.0, |proven| proven.0);
    certain_ms(a).total_cmp(&certain_ms(b)).then(a.cost_ms.0.total_cmp(&b.cost_ms.0))
}

/// A cost of which less is open is told without its range.
const MIN_OPEN: f64 = 0.05;

/// A fraction in per cent with one decimal: `61.2 %`.
fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// A title within a sentence. A first word with other capitals or digits, such as `FP32`, stays as it is.
fn uncapitalized(text: &str) -> String {
    let mut text = text.to_owned();
    let first_word = text.split(' ').next().unwrap_or_default();
    let is_a_name = first_word.chars().skip(1).any(|letter| letter.is_uppercase() || letter.is_ascii_digit());
    if let Some(first) = text.get_mut(..1).filter(|_| !is_a_name) {
        first.make_ascii_lowercase();
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::analysis::inference::served_model::ServedModel;
    use crate::analysis::results::VerdictClause;
    use crate::analysis::testing::replay_of_layers;
    use crate::analysis::{Options, analyze};
    use crate::rules::RuleBook;
    use crate::trace::testing::TestTrace;

    fn verdict(trace: &mut TestTrace) -> String {
        let verdict = trace.run().verdict;
        let joined: String = verdict.clauses.iter().map(|clause| clause.text.as_str()).collect();
        assert_eq!(verdict.text, joined);
        verdict.text
    }

    #[test]
    fn a_step_that_keeps_the_gpu_busy_is_stated_with_its_largest_category() {
        let mut trace = TestTrace::new();
        trace.in_us().range("step[DECODE bs=32]", 0..100).launch(0..1).launches("gemm_kernel", 2..8_002);
        trace.launch(1..2).launches("flash_fwd_kernel", 8_002..10_002);
        let text = verdict(&mut trace);
        assert_eq!(
            text,
            "Decode: 1 step of 10.0 ms, batch 32, GPU busy 100.0 %; the critical path is 100.0 % GPU work; the largest category is gemm \
             (80.0 % of wall time). Next: attention (20.0 % of wall time)."
        );
    }

    /// 4.8 GB of weights at the 4.8 TB/s of an H200 are 1 ms; 48 GB cannot be read in a step of 2 ms.
    #[test]
    fn the_floor_of_a_step_is_stated_if_the_weights_are_known_and_fit() {
        let floor_of = |weights_gb: f64| {
            let mut trace = TestTrace::new();
            trace.in_us().named_device(0, "NVIDIA H200");
            for start in (0..20_000).step_by(2_000) {
                trace.range("step[DECODE bs=32]", start..start + 100).launch(start..start + 1);
                trace.launches("gemm_kernel", start + 2..start + 1_902);
            }
            let model = ServedModel { weights_gb: Some(weights_gb), ..ServedModel::default() };
            let options = Options { model, ..Options::default() };
            analyze(&trace.finish(), RuleBook::gpuprism_default().unwrap(), &options).verdict.text
        };
        let text = floor_of(4.8);
        assert!(
            text.starts_with("Decode: 10 steps, median 2.0 ms, mean batch 32, floor 1.0 ms, GPU busy 95.0 %"),
            "{text}"
        );
        assert!(!floor_of(48.0).contains("floor"), "{}", floor_of(48.0));
    }

    #[test]
    fn a_trace_without_steps_states_its_gpu_work() {
        let mut trace = TestTrace::nsys();
        trace.in_us().kernel("gemm_kernel", 0..8_000);
        assert_eq!(
            verdict(&mut trace),
            "The capture covers 8.0 ms of GPU work, GPU busy 100.0 %; the largest category is gemm (100.0 % of wall time)."
        );
        assert_eq!(verdict(&mut TestTrace::nsys()), "No GPU work in this trace.");
    }

    #[test]
    fn a_host_that_launches_late_is_the_bound_and_clauses_name_their_rows() {
        let mut trace = TestTrace::new();
        trace.in_us();
        (0..100).for_each(|i| {
            trace.launch(1_000 * i..1_000 * i).launches("gemm_kernel", 1_000 * i..1_000 * i + 200);
        });
        let run = trace.run();
        let text = &run.verdict.text;
        // 99 gaps of 800 us, and 100 kernels of 200 us.
        let expected =
            "; bound by the host, without which the work is 79.7 % shorter: the critical path is 95.8 % host";
        assert!(text.contains(expected), "{text}");
        let last: &VerdictClause = run.verdict.clauses.iter().rev().find(|clause| clause.section.is_some()).unwrap();
        assert_eq!((last.section.as_deref(), last.row), (Some("categories"), Some(0)));
    }

    #[test]
    fn a_host_that_was_late_before_the_first_step_is_no_bound_of_the_steps() {
        let mut trace = TestTrace::new();
        // The program starts for 9 ms. Each step waits 10 us for its launch and runs for 90 us.
        trace.in_us().launch(0..1).launches("warm_up", 5..10);
        for start in (9_000..10_000).step_by(100) {
            trace.range("step[DECODE bs=2]", start..start + 20).launch(start..start + 10);
            trace.launches("gemm_kernel", start + 10..start + 100);
        }
        assert_eq!(
            verdict(&mut trace),
            "Decode: 10 steps, median 100 us, mean batch 2, GPU busy 90.0 %; host and GPU are about equally fast: a step is at most \
             35.6 % shorter without GPU work, and at most 7.7 % without the host; of the whole capture, the largest category is gemm (9.0 % of wall time); the GPU \
             idles for 9.0 ms outside of the steps."
        );
    }

    /// A step of 10 ms: two kernels of 100 us, the second of which is launched for the first time in a call of 9 ms.
    #[test]
    fn a_step_that_waits_for_first_launches_is_not_bound_by_its_host() {
        let mut trace = TestTrace::new();
        trace.in_us().range("step 1", 0..10_000).launch(0..10).launches("gemm_kernel", 10..110);
        trace.launch(500..9_800).launches("norm_kernel", 9_800..9_900);
        let mut trace = trace.finish();
        crate::session::find_unrecorded_work(&mut trace);
        let text = crate::analysis::testing::analyze(&trace).verdict.text;
        assert!(text.contains("the GPU waits for first launches of kernels, which load code"), "{text}");
        assert!(!text.contains("bound by the host"), "{text}");
    }

    #[test]
    fn steps_are_not_judged_alone_in_windows_on_several_devices_and_with_whole_graphs() {
        let capture = || {
            let mut trace = TestTrace::new();
            trace.in_us().launch(0..1).launches("warm_up", 5..10);
            for start in (9_000..10_000).step_by(100) {
                trace.range("step[DECODE bs=2]", start..start + 20).launch(start..start + 10);
                trace.launches("gemm_kernel", start + 10..start + 100);
            }
            trace
        };
        let is_outside = |text: &str| text.contains("outside of the steps");
        assert!(is_outside(&verdict(&mut capture())));
        assert!(!is_outside(&verdict(capture().device(1).kernel("copy", 9_500..9_900))));
        assert!(!is_outside(&verdict(capture().replay(20..8_000))));
        let part = capture().window(1_000_000..9_450_000);
        assert!(!is_outside(&crate::analysis::testing::analyze(&part).verdict.text));
    }

    #[test]
    fn overlapping_communication_is_stated_as_alone_and_together() {
        let mut trace = TestTrace::nsys();
        trace.in_us().kernel("gemm_kernel", 0..6_000);
        trace.stream(8).kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 4_000..8_000);
        let text = verdict(&mut trace);
        let expected = "of busy time, 50.0 % is compute alone, 25.0 % communication alone, 25.0 % both together";
        assert!(text.contains(expected), "{text}");
        assert!(
            text.contains("Largest recoverable cost: communication without compute (2.0 ms, 25.0 % of the time)"),
            "{text}"
        );
    }

    #[test]
    fn the_largest_cost_is_stated_for_one_step() {
        let mut trace = TestTrace::new();
        trace.in_us();
        // Four steps of 1 ms: the kernel of each is launched 300 us after the previous one ended.
        for start in [0, 1_000, 2_000, 3_000] {
            trace
                .range("step[DECODE bs=2]", start..start + 700)
                .launch(start..start)
                .launches("gemm", start..start + 700);
        }
        let run = trace.run();
        let text = &run.verdict.text;
        assert!(text.starts_with("Decode: 4 steps, median 1.0 ms, mean batch 2, GPU busy 70.0 %;"), "{text}");
        assert!(text.contains("late launches by the host (225 us a step, 24.3 % of the time)"), "{text}");
        let evidence = run.sections["findings"].rows[0].text("evidence");
        assert!(evidence.starts_with("900 us in 4 steps (225 us a step), 24.3 % of the step time"), "{evidence}");
    }

    #[test]
    fn idle_time_without_launches_has_no_cause() {
        let mut trace = TestTrace::nsys();
        trace.in_us().kernel("gemm_kernel", 0..1_000).kernel("gemm_kernel", 9_000..10_000);
        let text = verdict(&mut trace);
        assert!(text.contains("the GPU idles for 80.0 % of the time, and the trace does not show why"), "{text}");
    }

    #[test]
    fn with_shifted_durations_no_category_and_no_communication_is_named() {
        let text = |lost_at: usize| verdict(&mut replay_of_layers(lost_at));
        let intact = text(usize::MAX);
        assert!(intact.contains("bound by communication, without which the work is 66.0 % shorter"), "{intact}");
        let shifted = text(30);
        assert!(shifted.contains("durations in graph replays do not belong to their kernel names"), "{shifted}");
        assert!(!shifted.contains("communication") && !shifted.contains("gemm"), "{shifted}");
    }
}
