//! The sections of the replay: `critical_path`, `what_if`, `replay_trust`. The graph is built once for all three.

use super::asked::Asked;
use super::cause::{Cause, CauseId};
use super::changes::{Change, Changes, Gaps, Saving};
use super::faster_kernels::{FasterKernels, faster_kernels};
use super::path::{PathPart, Waits, before_first_op};
use super::recorded::OpRow;
use super::steady::{WindowKind, WindowStep};
use super::{NoReplay, Replay, with_replay};
use crate::analysis::context::Context;
use crate::analysis::host::blamed_code::Place;
use crate::analysis::host::load_words::LoadWords;
use crate::analysis::measure::percentiles::median;
use crate::analysis::recapture::MissingData;
use crate::analysis::section::{Answer, Ms, Pct, TypedSection, section, words};
use crate::analysis::structure::stages::Stage;
use crate::analysis::time::work::{Intervals, PrefixSums, add_interval};
use crate::ordering::{self, VecMap};
use crate::rules::names::unabridged;
use crate::trace::{Fraction, NameId, Ns};
use crate::words::replay as sentences;
use regex_lite::Regex;
use std::borrow::Cow;

section! {
    /// What a step of each stage is made of. The rows of a stage add up to its mean step in the window, without the first step if there
    /// are others: the window begins with its first op, so it lacks what is between two steps.
    pub(crate) struct CriticalPathRows("critical_path", "Critical path");
    row CriticalPathRow {
        stage: Stage,
        place: PathPlace,
        kind: PathKind,
        name: String,
        file: String,
        line: Option<u64>,
        per_step_ms: Ms,
        share_pct: Pct,
        /// In so many of the steps; `None` for several small parts.
        in_steps: Option<u64> = "In steps",
        /// The steps of which the time per step is the mean.
        steps: u64,
        /// In all steps.
        in_window_ms: Ms = "In the window",
    }
}

section! {
    /// What a step would take less if something were different.
    pub(crate) struct WhatIf("what_if", "What if");
    row WhatIfRow {
        id: CauseId,
        stage: Stage,
        change: String = "What to change",
        subject: String,
        /// Of the stage, in the window.
        steps: u64,
        saving_low_ms: Ms = "Saves at least",
        saving_high_ms: Ms = "Saves at most",
        only_this_rank_ms: Option<Ms> = "At least, if only this rank changes",
        per_step_low_ms: Ms = "Per step at least",
        per_step_high_ms: Ms = "Per step at most",
        /// The median step of the stage in the replayed window.
        median_step_ms: Ms = "Median step",
        /// What the median of the steps is shorter. Of the median, not of the mean: of uneven steps, a few may save most.
        median_saves_low_ms: Ms = "The median step saves at least",
        median_saves_high_ms: Ms = "The median step saves at most",
        /// The same without any wait for other ranks, which may arrive earlier too; `None` without communication.
        median_saves_if_no_waits_ms: Option<Ms> = "The same, if no other rank is waited for",
        share_high_pct: Pct = "Of the step",
        basis: String = "Rests on",
        confidence: Confidence,
    }
}

section! {
    /// How far the replay can be trusted.
    pub(crate) struct ReplayTrust("replay_trust", "Trust in the replay");
    row ReplayTrustRow {
        stage: String,
        steps: u64,
        window_ms: Ms,
        before_first_op_ms: Ms = "Before its first op",
        /// The time of the steps of the main stage that do not count, because records are lost in them.
        lost_records_ms: Ms = "Steps with lost records",
        first_stage: Stage = "Stage of the first step",
        unexplained_pct: Pct = "Without a known cause, known waits included",
        linked_pct: Pct = "Ops with a launch call",
        of_gpu_work_pct: Pct = "Of the GPU work, by the replayed process",
        is_part: bool = "A part of the trace",
        exactness_ns: Ns = "Largest error of the unchanged replay",
        abstains: bool,
        why: String,
    }
}

/// Where a part of the path was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum PathPlace {
    Gpu,
    Host,
    #[default]
    Between,
}

words! { PathPlace: Gpu = "GPU", Host = "host", Between = "between host and GPU" }

/// What a part of the path was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) enum PathKind {
    Kernel,
    Communication,
    RankWait,
    Copy,
    Set,
    WholeGraph,
    HostCode,
    Waiting,
    Profiler,
    Unrecorded,
    BeforeFirstOp,
    Call,
    FirstUse,
    Return,
    Queue,
    Latency,
    Turnaround,
    OtherStream,
    #[default]
    Unexplained,
    BeforeTrace,
}

words! {
    PathKind:
    Kernel = "kernel",
    Communication = "communication",
    RankWait = "wait for other ranks",
    Copy = "copy",
    Set = "memory set",
    WholeGraph = "whole graph",
    HostCode = "host code",
    Waiting = "host code that waits",
    Profiler = "pause of the profiler",
    Unrecorded = "host, work or wait",
    BeforeFirstOp = "host, before the first op",
    Call = "call",
    FirstUse = "first use",
    Return = "return of a blocking call",
    Queue = "full launch queue",
    Latency = "launch latency",
    Turnaround = "turnaround",
    OtherStream = "wait for another stream",
    Unexplained = "unexplained",
    BeforeTrace = "launched before the trace",
}

/// How sure a saving is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Confidence {
    High,
    Medium,
    #[default]
    Low,
}

words! { Confidence: High = "high", Medium = "medium", Low = "low" }

/// Above this part of the path whose cause is open, only ranges are shown.
const MAX_UNDECIDED: f64 = 0.2;
/// With fewer ops with a launch call nothing is said of the host.
const MIN_LINKED: f64 = 0.5;
/// Code with a smaller part of the path can save no more than that, and is not tried.
const MIN_PART: f64 = 0.001;
/// A saving of which a larger part of the time is open is not of high confidence.
const MAX_INEXACT: f64 = 0.05;
/// The maximum number of rows of a stage.
const MAX_ROWS: usize = 60;

/// The three sections.
pub(crate) struct ReplaySections {
    pub(crate) path: Answer<CriticalPathRows>,
    pub(crate) what_if: Answer<WhatIf>,
    pub(crate) trust: Answer<ReplayTrust>,
}

/// Answers all three.
pub(crate) fn replay_sections(context: &Context) -> ReplaySections {
    let answered = with_replay(context, |replay| {
        let changes = replay.changes();
        let show = Show {
            context,
            replay,
            changes: &changes,
            is_host_open: is_host_open(&changes),
            recorded: recorded_steps(context, replay),
        };
        ReplaySections { path: show.path(), what_if: show.what_if(), trust: show.trust() }
    });
    answered.unwrap_or_else(|why| {
        let words = why.why();
        match why {
            NoReplay::NoLaunches => ReplaySections {
                path: context.lacks(words, MissingData::Calls),
                what_if: context.lacks(words, MissingData::Calls),
                trust: context.lacks(words, MissingData::Calls),
            },
            NoReplay::NoOps | NoReplay::Circle | NoReplay::NoWindow => ReplaySections {
                path: CriticalPathRows::missing(words, ""),
                what_if: WhatIf::missing(words, ""),
                trust: ReplayTrust::missing(words, ""),
            },
        }
    })
}

/// Turns a replay into sections.
struct Show<'a> {
    context: &'a Context<'a>,
    replay: &'a Replay<'a>,
    changes: &'a Changes<'a>,
    /// What costs most depends on whether the host works or waits where the trace does not say which.
    is_host_open: bool,
    /// By step of the window: its times count. Those of a step with lost records do not, if other steps have none.
    recorded: Vec<bool>,
}

/// The changes of the context that this trace has.
#[cfg(not(target_arch = "wasm32"))]
pub(super) fn asked_changes(context: &Context, replay: &Replay, changes: &Changes) -> Vec<Change> {
    Show { context, replay, changes, is_host_open: false, recorded: Vec::new() }.asked(changes).0
}

/// Whether another cause costs most if the host waits where the trace does not say what it does.
fn is_host_open(changes: &Changes) -> bool {
    if !changes.has_maybe_waits() {
        return false;
    }
    let share = changes.waiting_share();
    // What each cause saves at both ends of what is possible.
    let causes = [Change::WithoutHost, Change::WithoutCommunication, Change::WithoutGpuWork].map(|change| {
        let saved = |gaps| {
            if !changes.applies(&change) {
                return 0.0;
            }
            let saving = changes.saving_if(std::slice::from_ref(&change), gaps);
            saving.low.iter().map(|saved| saved.0 as f64).sum::<f64>()
        };
        let (works, waits) = (saved(Gaps::Work), saved(Gaps::Wait));
        [works, works + share * (waits - works)]
    });
    let costliest = |of: usize| {
        let saved = causes.iter().enumerate().filter_map(|(cause, saved)| Some((cause, saved.get(of)?)));
        saved.max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(cause, _)| cause)
    };
    costliest(0) != costliest(1)
}

/// By step of the window, whether its times count. Of a step in which the GPU is seen to work without a record, or whose launches the profiler
/// lost, it is not known how long the GPU worked. If all steps are such, all count.
fn recorded_steps(context: &Context, replay: &Replay) -> Vec<bool> {
    let unseen = context.survey().idle.iter().flat_map(|device| device.unseen.iter().copied());
    let mut unseen: Vec<(Ns, Ns)> = unseen.collect();
    unseen.sort_unstable();
    let mut until = Ns(i64::MIN);
    let ends: Vec<Ns> = unseen
        .iter()
        .map(|(_, end)| {
            until = until.max(*end);
            until
        })
        .collect();
    let is_whole = |start: Ns, end: Ns| {
        let before = unseen.partition_point(|(from, _)| *from < end);
        before.checked_sub(1).and_then(|last| ends.get(last)).is_none_or(|last| *last <= start)
    };
    let steps = &replay.steady.steps;
    let lost = context.trace.unrecorded_work.launches.times(context.trace).into_iter();
    let lost: Vec<(Ns, Ns)> = lost.filter(|(process, _)| *process == replay.process).map(|(_, time)| time).collect();
    let launches_all = |index: usize, step: &WindowStep| {
        let next = steps.get(index + 1).map_or(step.end, |next| next.host_start);
        let after = lost.partition_point(|(_, until)| *until <= step.host_start);
        // The steps of an engine are mostly graphs, whose loss is seen as a gap.
        step.stage.is_named() || lost.get(after).is_none_or(|(from, _)| *from >= next)
    };
    let is_recorded = |(index, step): (usize, &WindowStep)| is_whole(step.start, step.end) && launches_all(index, step);
    let recorded: Vec<bool> = steps.iter().enumerate().map(is_recorded).collect();
    if recorded.contains(&true) { recorded } else { vec![true; recorded.len()] }
}

/// The steps of a stage in the window.
#[derive(Debug, Clone, Copy, Default)]
struct OfStage {
    steps: u64,
    time: Ns,
    /// The part of the time that is before the first op and belongs to no step.
    before_first_op: Ns,
    /// The steps that figures of one step are of; see [`Show::counts`].
    counted: u64,
    /// Their time.
    counted_time: Ns,
}

/// The time of a part of the path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct PathTime {
    /// In the steps that figures of one step are of.
    counted: Ns,
    /// In all steps whose times count.
    all: Ns,
}

impl PathTime {
    fn add(&mut self, other: Self) {
        self.counted += other.counted;
        self.all += other.all;
    }
}

const SOURCE: &str = "the dependency graph of calls and GPU ops, replayed";

impl Show<'_> {
    /// The stages of the window in the order of their time, the largest first.
    fn stages(&self) -> Vec<(Stage, OfStage)> {
        let steady = &self.replay.steady;
        let mut stages: VecMap<Stage, OfStage> = VecMap::new();
        for (index, step) in steady.steps.iter().enumerate().filter(|(index, _)| self.is_recorded(*index)) {
            stages.update(step.stage, OfStage::default(), |stage| {
                stage.steps += 1;
                stage.time += step.end.since(step.start);
                if self.counts(index) {
                    stage.counted += 1;
                    stage.counted_time += step.end.since(step.start);
                }
            });
        }
        let lead = before_first_op(self.replay.parts.recorded, steady);
        if let Some(first) = steady.steps.first().filter(|_| self.is_recorded(0)) {
            stages.update(first.stage, OfStage::default(), |stage| stage.before_first_op = lead);
        }
        let mut stages = stages.into_vec();
        // Steps without time of their own, because other streams still work for the steps before.
        stages.retain(|(_, of_stage)| of_stage.time > Ns::ZERO);
        if stages.is_empty() {
            let time = steady.end.since(steady.start);
            let of_stage = OfStage { steps: 1, time, before_first_op: lead, counted: 1, counted_time: time };
            stages.push((Stage::All, of_stage));
        }
        ordering::sort_by_key(&mut stages, |(stage, of_stage)| (std::cmp::Reverse(of_stage.time), *stage));
        stages
    }

    /// Whether all of a step is recorded, so that its times count; those of a window without steps do.
    fn is_recorded(&self, step: usize) -> bool {
        self.recorded.get(step) != Some(&false)
    }

    /// Whether figures of one step are of this step too. The first step of the window is not like the others: the host time before its
    /// first op is cut off, and what a replay changes before the window begins stays. It counts only if its stage has no other.
    fn counts(&self, step: usize) -> bool {
        let is_other = |other: usize| self.is_recorded(other) && self.stage_of(other) == self.stage_of(step);
        self.is_recorded(step) && (step > 0 || !(1..self.replay.steady.steps.len()).any(is_other))
    }

    fn stage_of(&self, step: usize) -> Stage {
        self.replay.steady.steps.get(step).map_or(Stage::All, |step| step.stage)
    }

    /// The parts of the path in the steps of a stage that count, the largest first.
    fn parts(&self, stage: Stage, counts: impl Fn(usize) -> bool) -> Vec<(PathPart, Ns)> {
        let mut sums: VecMap<PathPart, Ns> = VecMap::new();
        for ((step, part), time) in &self.replay.path.parts {
            if self.stage_of(*step) == stage && counts(*step) {
                sums.update(*part, Ns::ZERO, |sum| *sum += *time);
            }
        }
        let mut parts = sums.into_vec();
        ordering::sort_by_key(&mut parts, |(_, time)| std::cmp::Reverse(*time));
        parts
    }

    fn path(&self) -> Answer<CriticalPathRows> {
        let mut rows = Vec::new();
        for (stage, of_stage) in self.stages() {
            rows.extend(self.rows_of_stage(stage, of_stage));
        }
        CriticalPathRows::answer(SOURCE)
            .limit("The path is the chain of dependencies that decides how long the window takes. Its parts add up to the mean step.")
            .with_rows(rows)
    }

    /// Rows of equal meaning are one.
    fn rows_of_stage(&self, stage: Stage, of_stage: OfStage) -> Vec<CriticalPathRow> {
        let mut named: Vec<(CriticalPathRow, PathTime)> = Vec::new();
        let mut index = std::collections::HashMap::new();
        let mut row_of_part = VecMap::new();
        // Where the steps that count take no time, all do.
        let is_counted = of_stage.counted_time > Ns::ZERO;
        let counted = self.parts(stage, |step| self.counts(step)).into_iter();
        let counted = counted.map(|(part, time)| (part, PathTime { counted: time, all: Ns::ZERO }));
        let all = self.parts(stage, |step| self.is_recorded(step)).into_iter();
        let all = all.map(|(part, time)| (part, PathTime { counted: Ns::ZERO, all: time }));
        for (part, time) in counted.chain(all) {
            let row = self.row(part);
            let key = (row.kind, row.file.clone(), row.name.clone(), row.line);
            let at = *index.entry(key).or_insert(named.len());
            row_of_part.update(part, at, |_| ());
            match named.get_mut(at) {
                Some((_, sum)) => sum.add(time),
                None => named.push((row, time)),
            }
        }
        let in_step = |step: usize| if is_counted { self.counts(step) } else { self.is_recorded(step) };
        let in_steps =
            self.steps_of_rows(|step| self.stage_of(step) == stage && in_step(step), &row_of_part, named.len());
        named.iter_mut().zip(in_steps).for_each(|((row, _), steps)| row.in_steps = Some(steps));
        ordering::sort_by_key(&mut named, |(_, time)| std::cmp::Reverse(*time));
        let named = fold_small(named);
        let (steps, stage_time) = match is_counted {
            true => (of_stage.counted, of_stage.counted_time),
            false => (of_stage.steps, of_stage.time),
        };
        let finish = |(row, PathTime { counted, all }): (CriticalPathRow, PathTime)| {
            let time = if is_counted { counted } else { all };
            let share_pct = Pct::of(time, stage_time);
            let (per_step_ms, in_window_ms) = (per_step(time, steps), all.into());
            CriticalPathRow { stage, per_step_ms, share_pct, steps, in_window_ms, ..row }
        };
        named.into_iter().map(finish).collect()
    }

    /// In how many of some steps each row has a part. The parts of the path are in the order of their steps.
    fn steps_of_rows(
        &self,
        is_in: impl Fn(usize) -> bool,
        row_of_part: &VecMap<PathPart, usize>,
        rows: usize,
    ) -> Vec<u64> {
        let mut seen: Vec<(u64, Option<usize>)> = vec![(0, None); rows];
        for ((step, part), _) in self.replay.path.parts.iter().filter(|((step, _), _)| is_in(*step)) {
            let row = row_of_part.get(part).and_then(|row| seen.get_mut(*row));
            if let Some((count, last)) = row.filter(|(_, last)| *last != Some(*step)) {
                (*count, *last) = (*count + 1, Some(*step));
            }
        }
        seen.into_iter().map(|(count, _)| count).collect()
    }

    fn row(&self, part: PathPart) -> CriticalPathRow {
        let trace = self.context.trace;
        let op = |name: NameId| unabridged(trace.names.get(name));
        let call = |name: NameId| trace.calls.names.get(name).to_owned();
        let (place, kind, name) = match part {
            PathPart::Kernel(name) => (PathPlace::Gpu, PathKind::Kernel, op(name)),
            PathPart::Communication(name) => (PathPlace::Gpu, PathKind::Communication, op(name)),
            PathPart::RankWait(name) => (PathPlace::Gpu, PathKind::RankWait, op(name)),
            PathPart::Copy(name) => (PathPlace::Gpu, PathKind::Copy, op(name)),
            PathPart::Set(name) => (PathPlace::Gpu, PathKind::Set, op(name)),
            PathPart::WholeGraph => (PathPlace::Gpu, PathKind::WholeGraph, String::new()),
            PathPart::Host(function, waits) => return self.code_row(function, waits),
            PathPart::Unrecorded => (PathPlace::Host, PathKind::Unrecorded, UNKNOWN_CODE.to_owned()),
            PathPart::BeforeFirstOp(function) => {
                return CriticalPathRow { kind: PathKind::BeforeFirstOp, ..self.code_row(function, Waits::No) };
            }
            PathPart::Call(name) => (PathPlace::Host, PathKind::Call, call(name)),
            PathPart::FirstUse(name) => (PathPlace::Host, PathKind::FirstUse, call(name)),
            PathPart::NewKernel => (PathPlace::Gpu, PathKind::FirstUse, "late start of a new kernel".to_owned()),
            PathPart::Return => (PathPlace::Between, PathKind::Return, String::new()),
            PathPart::Queue => (PathPlace::Between, PathKind::Queue, String::new()),
            PathPart::Latency => (PathPlace::Between, PathKind::Latency, String::new()),
            PathPart::Turnaround => (PathPlace::Gpu, PathKind::Turnaround, String::new()),
            PathPart::OtherStream => (PathPlace::Gpu, PathKind::OtherStream, String::new()),
            PathPart::UnexplainedOp => (PathPlace::Gpu, PathKind::Unexplained, "a GPU op starts late".to_owned()),
            PathPart::UnexplainedInGraph => {
                (PathPlace::Gpu, PathKind::Unexplained, "an op within a graph starts late".to_owned())
            }
            PathPart::UnexplainedReturn => (PathPlace::Host, PathKind::Unexplained, "a call returns late".to_owned()),
            PathPart::BeforeTrace => (PathPlace::Between, PathKind::BeforeTrace, String::new()),
        };
        CriticalPathRow { place, kind, name, ..CriticalPathRow::default() }
    }

    fn code_row(&self, name: Option<NameId>, waits: Waits) -> CriticalPathRow {
        let kind = match waits {
            Waits::Yes => PathKind::Waiting,
            Waits::No if name.is_some() && name == self.replay.parts.gap_code.profiler() => PathKind::Profiler,
            Waits::No => PathKind::HostCode,
        };
        let Place { function, file, line } = Place::parse(self.code_name(name));
        // A range says when, and not what runs; but one that waits does nothing else.
        let is_range = waits == Waits::No && name.is_some_and(|name| self.replay.parts.unrecorded.is_range(name));
        let name = if is_range { sentences::in_range(function) } else { function.to_owned() };
        let file = file.to_owned();
        CriticalPathRow { place: PathPlace::Host, kind, name, file, line, ..CriticalPathRow::default() }
    }

    fn code_name(&self, function: Option<NameId>) -> &str {
        let timelines = self.context.trace.code_timelines.as_deref();
        let name = function.and_then(|name| Some(timelines?.names.get(name)));
        name.unwrap_or(UNKNOWN_CODE)
    }

    fn what_if(&self) -> Answer<WhatIf> {
        let changes = self.changes;
        let stages = self.stages();
        let main = stages.first().map_or(Stage::All, |(stage, _)| *stage);
        let mut rows = Vec::new();
        let steady = &self.replay.steady;
        let least = Ns((MIN_PART * steady.end.since(steady.start).0 as f64) as i64);
        let parts = self.parts(main, |step| self.is_recorded(step)).into_iter().filter(|(_, time)| *time >= least);
        let mut candidates = changes.candidates(&parts.collect::<Vec<_>>());
        if self.replay.steady.kind == WindowKind::ColdStart {
            candidates.retain(|change| *change == Change::WarmedUp);
        }
        for change in candidates {
            let saving = changes.saving(std::slice::from_ref(&change));
            rows.extend(stages.iter().map(|(stage, of_stage)| {
                self.what_if_row(self.describe(changes, &change), &saving, *stage, *of_stage)
            }));
        }
        rows.extend(self.suggested(changes, &stages));
        rows.retain(|row| row.saving_high_ms.0 > 0.0);
        let (together, unknown) = self.asked(changes);
        // The other side of a wait has its own pace, so what it may save at most says nothing.
        let rank = |row: &WhatIfRow| if row.id.cause == Cause::Wait { row.saving_low_ms } else { row.saving_high_ms };
        ordering::sort_by_key(&mut rows, |row| {
            (row.stage != main, row.stage, std::cmp::Reverse((rank(row).0 * 1e6) as i64))
        });
        if !together.is_empty() {
            let saving = changes.saving(&together);
            let subject = self.context.asked.iter().map(Asked::name).collect::<Vec<_>>().join(", ");
            let words = Words {
                cause: Cause::Together,
                change: Cause::Together.word(),
                subject,
                basis: "replayed together".into(),
            };
            let row =
                |(stage, of_stage): &(Stage, OfStage)| self.what_if_row(words.clone(), &saving, *stage, *of_stage);
            rows.splice(0..0, stages.iter().map(row).collect::<Vec<_>>());
        }
        let mut answer = WhatIf::answer(SOURCE)
            .limit("Savings overlap and must not be added. The lower figure keeps delays without a known cause where they were, as far as their length can hide; the higher one moves them.")
            .limit("Figures of one step leave out the first step of the window, if its stage has others: the host time before it is not in the window.")
            .limit("Waits for other ranks stay in low and high savings, as if the others arrived as much earlier. Without communication, only the transfer is certain.")
            .limit("Times of kernels are those of the trace: sharing of memory bandwidth, clocks and other shapes are not predicted.");
        for id in unknown {
            answer = answer.limit(sentences::nothing_to_change(&id.to_string()));
        }
        match self.abstains() {
            Some((Abstains::Host, why)) => WhatIf::missing(why, ""),
            _ => answer.with_rows(rows),
        }
    }

    /// Kernels for which others are known to take less time.
    fn suggested(&self, changes: &Changes, stages: &[(Stage, OfStage)]) -> Vec<WhatIfRow> {
        if self.replay.steady.kind == WindowKind::ColdStart {
            return Vec::new();
        }
        let mut rows = Vec::new();
        for FasterKernels { cause, change, subject, remains, basis } in faster_kernels(self.context) {
            let saving = changes.saving(&[Change::Faster(remains)]);
            let words = Words { cause, change, subject, basis };
            let row =
                |(stage, of_stage): &(Stage, OfStage)| self.what_if_row(words.clone(), &saving, *stage, *of_stage);
            rows.extend(stages.iter().map(row));
        }
        rows
    }

    fn what_if_row(&self, words: Words, saving: &Saving, stage: Stage, of: OfStage) -> WhatIfRow {
        let measured = of.time.since(of.before_first_op);
        let lengths = self.lengths_of(stage, of);
        let counted = lengths.iter().fold(Ns::ZERO, |sum, (_, length)| sum + *length);
        let sum = |savings: &[Ns]| {
            let of_stage =
                savings.iter().enumerate().filter(|(step, _)| self.stage_of(*step) == stage && self.is_recorded(*step));
            of_stage.fold(Ns::ZERO, |sum, (_, saved)| sum + *saved).max(Ns::ZERO).min(measured)
        };
        let sum_of_counted = |savings: &[Ns]| {
            let saved = lengths.iter().filter_map(|(step, _)| savings.get(*step));
            saved.fold(Ns::ZERO, |sum, saved| sum + *saved).max(Ns::ZERO).min(counted)
        };
        let high = sum(&saving.high);
        let low = sum(&saving.low).min(high);
        let high_counted = sum_of_counted(&saving.high);
        let low_counted = sum_of_counted(&saving.low).min(high_counted);
        let is_exact = high.since(low).0 as f64 <= MAX_INEXACT * measured.0 as f64;
        let median_step = median_of_steps(lengths.iter().map(|(_, length)| *length));
        let median_saves = |savings: &[Ns]| {
            let left =
                lengths.iter().map(|(step, length)| length.since(savings.get(*step).copied().unwrap_or_default()));
            median_step.since(median_of_steps(left)).max(Ns::ZERO).min(median_step)
        };
        let median_high = median_saves(&saving.high);
        let median_if_no_waits =
            saving.if_no_waits.as_ref().map(|if_no_waits| median_saves(if_no_waits).max(median_high));
        // How much the other ranks decide, in the median step.
        let depends_on_ranks = median_if_no_waits
            .is_some_and(|if_no_waits| if_no_waits.since(median_high).0 as f64 > MAX_INEXACT * median_step.0 as f64);
        let confidence = match self.abstains() {
            Some(_) => Confidence::Low,
            None if is_exact && (self.has_lost_records() || depends_on_ranks) => Confidence::Medium,
            None if is_exact => Confidence::High,
            None if self.changes.has_open_events => Confidence::Low,
            None => Confidence::Medium,
        };
        WhatIfRow {
            id: words.id(),
            stage,
            change: words.change.to_owned(),
            subject: words.subject,
            steps: of.steps,
            saving_low_ms: low.into(),
            saving_high_ms: high.into(),
            only_this_rank_ms: saving.only_this_rank.as_ref().map(|alone| sum(alone).min(low).into()),
            per_step_low_ms: per_step(low_counted, of.counted),
            per_step_high_ms: per_step(high_counted, of.counted),
            median_step_ms: median_step.into(),
            median_saves_low_ms: median_saves(&saving.low).min(median_high).into(),
            median_saves_high_ms: median_high.into(),
            median_saves_if_no_waits_ms: median_if_no_waits.map(Ms::from),
            share_high_pct: Pct::of(high_counted, counted),
            basis: words.basis.into_owned(),
            confidence,
        }
    }

    /// Whether launches of the file have no op: then no figure is certain, also not where nothing is seen to be missing.
    fn has_lost_records(&self) -> bool {
        let launches = &self.context.trace.unrecorded_work.launches;
        launches.graphs + launches.kernels > 0
    }

    /// The steps of a stage in the window that count, with their lengths; the window without steps. The time before the first op belongs to
    /// no step.
    fn lengths_of(&self, stage: Stage, of: OfStage) -> Vec<(usize, Ns)> {
        let steps = &self.replay.steady.steps;
        if steps.is_empty() {
            return vec![(0, of.time.since(of.before_first_op))];
        }
        let of_stage = steps.iter().enumerate().filter(|(index, step)| step.stage == stage && self.counts(*index));
        let before = |step: usize| if step == 0 { of.before_first_op } else { Ns::ZERO };
        of_stage.map(|(index, step)| (index, step.end.since(step.start).since(before(index)))).collect()
    }

    /// The changes that the user asks for, and those that the trace does not have.
    fn asked(&self, changes: &Changes) -> (Vec<Change>, Vec<String>) {
        let (mut found, mut unknown) = (Vec::new(), Vec::new());
        let known = if self.context.asked.is_empty() { Vec::new() } else { self.all_changes(changes) };
        for asked in self.context.asked {
            let change = match asked {
                Asked::Without(id) => {
                    known.iter().find(|change| self.describe(changes, change).id().to_string() == *id).cloned()
                }
                Asked::Speed { pattern, factor, .. } => self.kernels_of(pattern).map(|kernels| {
                    Change::Faster(
                        kernels.iter().map(|is_faster| if *is_faster { 1.0 / factor } else { 1.0 }).collect(),
                    )
                }),
                Asked::Graph(stage) => Some(Change::GraphsOf(*stage)).filter(|change| changes.applies(change)),
            };
            match change {
                Some(change) => found.push(change),
                None => unknown.push(asked.name()),
            }
        }
        (found, unknown)
    }

    /// All changes that have an id, also those that are too small for the table.
    fn all_changes(&self, changes: &Changes) -> Vec<Change> {
        let mut parts: VecMap<PathPart, Ns> = VecMap::new();
        for ((_, part), time) in &self.replay.path.parts {
            parts.update(*part, Ns::ZERO, |sum| *sum += *time);
        }
        changes.all(&parts.into_vec())
    }

    /// By name of an op, whether its short or full name matches; `None` if none does.
    fn kernels_of(&self, pattern: &Regex) -> Option<Vec<bool>> {
        let names = self.context.trace.names.iter();
        let matches: Vec<bool> =
            names.map(|name| pattern.is_match(name) || pattern.is_match(&unabridged(name))).collect();
        matches.contains(&true).then_some(matches)
    }

    fn describe(&self, changes: &Changes, change: &Change) -> Words {
        let plain = |cause, change, basis: &'static str| Words {
            cause,
            change,
            subject: String::new(),
            basis: Cow::Borrowed(basis),
        };
        match change {
            Change::WithoutCode(function, waits) => {
                let (cause, change) =
                    if *waits == Waits::Yes { (Cause::Wait, WAITS) } else { (Cause::Code, "without this code") };
                let subject = self.code_name(*function).to_owned();
                Words { cause, change, subject, basis: "its own time between calls is zero".into() }
            }
            Change::WithoutHost => plain(Cause::Host, "without host time", "code and calls take no time"),
            Change::WithoutGpuWork => plain(
                Cause::GpuWork,
                "without GPU work",
                "kernels, copies and memory sets take no time: what the host alone needs",
            ),
            Change::WithoutCodeBetweenCalls => {
                plain(Cause::BetweenCalls, "without code between calls", "calls keep their time")
            }
            Change::WithoutBlockingAt(site) => {
                let subject = self.site_name(*site);
                let basis = "its value is then not read: the upper limit of reading it later";
                Words { cause: Cause::Blocking, change: "the call does not block", subject, basis: basis.into() }
            }
            Change::WithoutBlocking => plain(
                Cause::AllBlocking,
                "no call blocks",
                "values are then not read: the upper limit of reading them later",
            ),
            Change::OneGraphLaunch | Change::GraphsOf(_) => {
                plain(Cause::Graph, "launches as graphs", "eight or more launches in a row become one of 10 us")
            }
            Change::KernelsTwiceAsFast(group) => {
                let subject = self.group_name(changes, *group);
                Words {
                    cause: Cause::Kernel,
                    change: "kernels twice as fast",
                    subject,
                    basis: "their times are halved".into(),
                }
            }
            Change::Fused => Words {
                cause: Cause::Unfused,
                change: "runs of elementwise kernels fused",
                subject: String::new(),
                basis: self.replay.unfused.basis().into(),
            },
            Change::Faster(_) => plain(Cause::Speed, "faster kernels", "their times are divided"),
            Change::WithoutCommunication => {
                plain(Cause::Communication, "without communication", "communication kernels take no time")
            }
            Change::PinnedCopies => plain(
                Cause::Pinned,
                "pinned, asynchronous copies",
                "the calls return at once, the copies keep their time",
            ),
            Change::FreeAllocations => plain(Cause::Allocations, "allocations for free", "their calls take no time"),
            Change::WarmedUp => {
                plain(Cause::StartUp, "first uses done before", "first uses take the time of later ones")
            }
            Change::WithoutProfiler => plain(
                Cause::Profiler,
                "without pauses of the profiler",
                "it holds no thread; no other row includes this",
            ),
            Change::WithoutTurnaround => {
                plain(Cause::Turnaround, "without turnaround", "ops follow each other without delay")
            }
        }
    }

    /// The function and the op of a blocking call.
    fn site_name(&self, site: super::changes::Site) -> String {
        let names = [site.0, site.1].into_iter().flatten().map(|name| self.code_name(Some(name)));
        let site = names.collect::<Vec<_>>().join(" / ");
        if site.is_empty() { UNKNOWN_CODE.to_owned() } else { site }
    }

    fn group_name(&self, changes: &Changes, group: u32) -> String {
        let index = changes.groups.iter().position(|other| *other == group).unwrap_or_default();
        let name = NameId(u32::try_from(index).unwrap_or(u32::MAX));
        unabridged(self.context.trace.names.get(name))
    }

    fn trust(&self) -> Answer<ReplayTrust> {
        let (replay, steady) = (self.replay, &self.replay.steady);
        let window = steady.end.since(steady.start);
        let stages = self.stages();
        let stage = stages.iter().map(|(stage, _)| stage.label()).collect::<Vec<_>>().join(", ");
        let abstains = self.abstains();
        let row = ReplayTrustRow {
            stage,
            steps: steady.steps.len() as u64,
            window_ms: window.into(),
            before_first_op_ms: before_first_op(self.replay.parts.recorded, steady).into(),
            lost_records_ms: self.lost_time(stages.first().map_or(Stage::All, |(stage, _)| *stage)).into(),
            first_stage: self.stage_of(0),
            unexplained_pct: Pct::of(replay.unexplained(), window),
            linked_pct: Pct(100.0 * replay.linked()),
            of_gpu_work_pct: Pct(100.0 * self.share_of_process()),
            is_part: replay.is_cut,
            exactness_ns: replay.exactness(),
            abstains: abstains.is_some(),
            why: abstains.map_or_else(|| self.window_words().to_owned(), |(_, why)| why),
        };
        let mut answer = ReplayTrust::answer(SOURCE).with_rows([row]);
        if replay.is_cut {
            answer = answer.limit("Only a part in the middle of the trace is replayed, because the trace is large.");
        }
        answer
    }

    /// The part of the GPU work that the replayed process launched.
    fn share_of_process(&self) -> f64 {
        let groups = self.context.groups().iter();
        let (mut of_process, mut all) = (0.0, 0.0);
        for group in groups {
            all += group.total.0 as f64;
            of_process += if group.process == self.replay.process { group.total.0 as f64 } else { 0.0 };
        }
        if all > 0.0 { of_process / all } else { 1.0 }
    }

    /// The part of the replayed ops' time that is in the window.
    fn share_of_window(&self) -> f64 {
        let (steady, ops) = (&self.replay.steady, self.replay.parts.recorded.ops.values());
        let in_window = |op: &OpRow| op.end.min(steady.end).since(op.start.max(steady.start)).max(Ns::ZERO);
        let sum = |time: &dyn Fn(&OpRow) -> Ns| ops.iter().fold(Ns::ZERO, |sum, op| sum + time(op)).0 as f64;
        sum(&in_window) / sum(&OpRow::duration).max(1.0)
    }

    /// The part of the window in which the busiest device executed work that the trace does not contain, or may have.
    fn unrecorded_share(&self) -> f64 {
        // A step that counts has no such time, if there are others.
        if self.recorded.contains(&false) {
            return 0.0;
        }
        let steady = &self.replay.steady;
        let inside =
            |(start, end): &(Ns, Ns)| end.0.min(steady.end.0).saturating_sub(start.0.max(steady.start.0)).max(0);
        let devices = self.context.survey().idle.iter();
        let longest = devices.map(|device| device.unseen.iter().map(inside).fold(0, i64::saturating_add)).max();
        longest.unwrap_or(0) as f64 / steady.end.since(steady.start).0.max(1) as f64
    }

    /// The time of the steps of a stage that do not count, without that of work of before the capture, which no step contains.
    fn lost_time(&self, stage: Stage) -> Ns {
        let of_before = self.context.survey().idle.iter().flat_map(|device| device.of_before.iter().copied());
        let mut sorted: Vec<(Ns, Ns)> = of_before.collect();
        sorted.sort_unstable();
        let mut of_before = Intervals::new();
        sorted.into_iter().for_each(|interval| add_interval(&mut of_before, interval));
        let of_before = PrefixSums::of(&of_before);
        let steps = self.replay.steady.steps.iter().enumerate();
        let lost = steps.filter(|(index, step)| step.stage == stage && !self.is_recorded(*index));
        lost.fold(Ns::ZERO, |sum, (_, step)| {
            sum + step.end.since(step.start).since(of_before.between(step.start, step.end))
        })
    }

    /// The time of the steps that count; of the window without steps.
    fn counted_time(&self) -> Ns {
        let steady = &self.replay.steady;
        let steps = steady.steps.iter().enumerate().filter(|(index, _)| self.is_recorded(*index));
        let time = steps.fold(Ns::ZERO, |sum, (_, step)| sum + step.end.since(step.start));
        if steady.steps.is_empty() { steady.end.since(steady.start) } else { time }
    }

    fn window_words(&self) -> &'static str {
        match self.replay.steady.kind {
            WindowKind::Steps => "steady steps",
            WindowKind::AfterStart => "after the first uses",
            WindowKind::Whole => "the whole trace",
            WindowKind::ColdStart => "the whole trace, first uses included",
        }
    }

    fn abstains(&self) -> Option<(Abstains, String)> {
        let (replay, steady) = (self.replay, &self.replay.steady);
        let undecided =
            replay.path.parts.iter().filter(|((step, part), _)| part.is_undecided() && self.is_recorded(*step));
        let undecided = undecided.fold(Ns::ZERO, |sum, (_, time)| sum + *time);
        let undecided = undecided.0 as f64 / self.counted_time().0.max(1) as f64;
        if replay.linked() < MIN_LINKED {
            return Some((Abstains::Host, sentences::few_launches(Fraction(replay.linked()))));
        }
        if steady.kind == WindowKind::ColdStart {
            return Some((Abstains::ColdStart, sentences::COLD_START.to_owned()));
        }
        let followed_pct = 100.0 * self.share_of_window();
        if steady.kind == WindowKind::AfterStart && followed_pct < LoadWords::embedded().thresholds.max_followed_pct {
            return Some((Abstains::ColdStart, sentences::little_work_follows(Pct(followed_pct))));
        }
        if self.is_host_open {
            return Some((Abstains::Undecided, sentences::HOST_IS_OPEN.to_owned()));
        }
        let unrecorded = self.unrecorded_share();
        if unrecorded > MAX_UNDECIDED {
            return Some((Abstains::Undecided, sentences::unrecorded(Fraction(unrecorded))));
        }
        (undecided > MAX_UNDECIDED).then(|| (Abstains::Undecided, sentences::undecided(Fraction(undecided))))
    }
}

/// Keeps the largest rows. The others are one row for each kind.
fn fold_small(mut named: Vec<(CriticalPathRow, PathTime)>) -> Vec<(CriticalPathRow, PathTime)> {
    let small = named.split_off(MAX_ROWS.min(named.len()));
    let mut kinds: VecMap<(PathPlace, PathKind), (u64, PathTime)> = VecMap::new();
    for (row, time) in small {
        kinds.update((row.place, row.kind), (0, PathTime::default()), |(rows, sum)| {
            *rows += 1;
            sum.add(time);
        });
    }
    named.extend(kinds.into_vec().into_iter().map(|((place, kind), (rows, time))| {
        let name = sentences::shorter_parts(rows);
        (CriticalPathRow { place, kind, name, ..CriticalPathRow::default() }, time)
    }));
    named
}

/// Why no headline is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Abstains {
    /// Too few ops are linked to the host.
    Host,
    ColdStart,
    /// The cause of too much of the path is open.
    Undecided,
}

/// The words of a change.
#[derive(Debug, Clone)]
struct Words {
    cause: Cause,
    change: &'static str,
    subject: String,
    basis: Cow<'static, str>,
}

impl Words {
    fn id(&self) -> CauseId {
        let subject = if self.cause == Cause::Together { String::new() } else { self.subject.clone() };
        CauseId { cause: self.cause, subject }
    }
}

const UNKNOWN_CODE: &str = "(no code found)";
const WAITS: &str = "without this wait";

fn median_of_steps(lengths: impl Iterator<Item = Ns>) -> Ns {
    let mut lengths_ns: Vec<i64> = lengths.map(|length| length.0).collect();
    lengths_ns.sort_unstable();
    Ns(median(&lengths_ns).map_or(0, |median_ns| median_ns as i64))
}

fn per_step(time: Ns, steps: u64) -> Ms {
    Ms(time.0 as f64 / 1e6 / steps.max(1) as f64)
}
