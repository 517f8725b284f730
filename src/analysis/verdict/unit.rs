//! The unit of work: the steps of each stage, or the GPU work of a capture without steps. From the sections of steps and their floor, and
//! from the totals of the devices.

use super::sentences::{Sentences, Subject};
use super::{drift, excess};
use crate::analysis::communication::collectives::NcclOps;
use crate::analysis::communication::operations::SEND_RECEIVE;
use crate::analysis::host::idle::{GpuIdle, GpuIdleRow};
use crate::analysis::inference::step_floor::{FloorOfSteps, StepFloorRow};
use crate::analysis::results::WallSource;
use crate::analysis::section::{Fraction, Ms, TypedSection};
use crate::analysis::structure::step_drift::StepDrift;
use crate::analysis::structure::steps::{StepRow, Steps};
use crate::analysis::trust::{Trust, TrustId};
use crate::analysis::unit::Unit;
use crate::ordering;
use crate::trace::{CODE_IS_BUILT, Ns};
use crate::words::verdict::unit as words;
use std::cmp::Reverse;

/// Steps with less of the capture are a part of it.
const MIN_WHOLE: f64 = 0.95;

/// `Decode: 1 step of 10.4 ms, batch 32, floor 4.1 ms, GPU busy 93.5 %`.
pub(super) fn unit(subject: &Subject, text: &mut Sentences) {
    // The page's first module has no sections.
    if CODE_IS_BUILT && steps(subject, text) {
        time_of_no_step(subject, text);
        waits_between_gpus(subject, text);
        return;
    }
    match subject.run.wall.source {
        WallSource::Window => covered_work(subject, text),
        source => {
            let busy = Fraction(subject.run.wall.busy_share);
            text.push(words::busy_of_wall(busy, source == WallSource::Given), Some(("devices", None)));
        }
    }
    if CODE_IS_BUILT {
        waits_between_gpus(subject, text);
    }
}

/// Adds that GPUs wait for the work of each other: those of one process, or the stages of a pipeline.
fn waits_between_gpus(subject: &Subject, text: &mut Sentences) {
    take_turns(subject, text);
    let rows = NcclOps::rows(&subject.run.sections);
    let Some(figures) = NcclOps::figures(&subject.run.sections) else { return };
    let share = Fraction::from(figures.exposed_pct_of_window);
    let is_sent = rows.iter().all(|row| row.op_name == SEND_RECEIVE);
    if is_sent && !rows.is_empty() && share.0 >= subject.thresholds.min_outside_share {
        text.push(words::stages(share), Some(("nccl_ops", None)));
    }
}

/// Adds how long the GPUs of a process wait for each other, if it is a notable part of their time.
fn take_turns(subject: &Subject, text: &mut Sentences) {
    let idle = GpuIdle::rows(&subject.run.sections);
    let waits: Vec<&GpuIdleRow> = idle.iter().filter(|row| row.other_gpu_ms.0 > 0.0).collect();
    let share = waits.iter().map(|row| row.other_gpu_ms.0).sum::<f64>()
        / waits.iter().map(|row| row.own_window_ms()).sum::<f64>();
    let any_busy = GpuIdle::figures(&subject.run.sections).and_then(|figures| figures.any_gpu_busy_pct.0);
    if let Some(any_busy) = any_busy.filter(|_| share >= subject.thresholds.min_outside_share) {
        text.push(words::take_turns(Fraction(share), any_busy.into()), Some(("gpu_idle", None)));
    }
}

/// Adds the steps of the stages with most time, in the order of the section; false without steps.
fn steps(subject: &Subject, text: &mut Sentences) -> bool {
    let mut rows: Vec<(usize, StepRow)> = Steps::rows(&subject.run.sections).into_iter().enumerate().collect();
    ordering::sort_by_key(&mut rows, |(_, row)| Reverse(row.total_ns));
    rows.truncate(subject.thresholds.max_stages);
    ordering::sort_by_key(&mut rows, |(index, _)| *index);
    for (position, (index, row)) in rows.iter().enumerate() {
        let place = match position {
            0 if subject.times.start().is_none() => words::Place::Beginning,
            0 => words::Place::AfterStart,
            _ => words::Place::AfterStage,
        };
        steps_of_stage(subject, *index, row, place, text);
    }
    !rows.is_empty()
}

/// Adds what a notable part of the capture is, if it belongs to no step: other work of the program, or a server without requests.
fn time_of_no_step(subject: &Subject, text: &mut Sentences) {
    let idle = GpuIdle::rows(&subject.run.sections);
    let devices = idle.len().max(1) as f64;
    let window_ms = idle.iter().map(|row| row.window_ms.0).sum::<f64>() / devices;
    let is_notable = |Ms(time): &Ms| *time > 0.0 && *time >= subject.thresholds.min_outside_share * window_ms;
    let share = |Ms(time): Ms| Fraction(time / window_ms);
    let between = Steps::figures(&subject.run.sections).and_then(|figures| figures.between_phases_ns.0).map(Ms::from);
    if let Some(between) = between.filter(is_notable) {
        text.push(words::other_work(between, share(between)), Some(("steps", None)));
    }
    if let Some(before) = before_first_launch(subject) {
        text.push(words::before_first_launch(before), Some(("steps", None)));
    }
    let no_requests = Ms(idle.iter().map(|row| row.no_requests_ms.0).sum::<f64>() / devices);
    if is_notable(&no_requests) {
        text.push(words::no_requests(no_requests, share(no_requests)), Some(("gpu_idle", None)));
    }
    let profiler = Ms(idle.iter().map(|row| row.profiler_ms.0).sum::<f64>() / devices);
    if Trust::has(&subject.run.sections, TrustId::ProfilerPauses) {
        text.push(words::profiler(profiler, share(profiler)), Some(("gpu_idle", None)));
    }
}

/// The time of the host before the first launch of the first step, if it is a notable share of the time of the steps.
fn before_first_launch(subject: &Subject) -> Option<Ms> {
    let figures = Steps::figures(&subject.run.sections)?;
    let steps_ns: i64 = Steps::rows(&subject.run.sections).iter().map(|row| row.total_ns.0).sum();
    let Ns(before_ns) = figures.before_first_launch_ns.0?;
    let share = before_ns as f64 * figures.devices.max(1) as f64 / steps_ns.max(1) as f64;
    (share >= subject.thresholds.min_before_first_launch_share).then(|| Ms::from(Ns(before_ns)))
}

fn steps_of_stage(subject: &Subject, index: usize, row: &StepRow, place: words::Place, text: &mut Sentences) {
    let source = Some(("steps", Some(index)));
    text.push(words::steps(&stage_steps(subject, row, place)), source);
    let step_ms = row.median_ns.unwrap_or_default().0 / 1e6;
    if let Some((index, floor_row, floor)) = StepFloorRow::sure(&subject.run.sections, row.stage, step_ms) {
        text.push(words::floor(floor, floor_row.floor_uniform_ms), Some((FloorOfSteps::SPEC.name, Some(index))));
    }
    let is_least = subject.times.unrecorded > 0.0;
    let busy = row.busy_pct.map(|busy| words::busy_of_steps(busy.into(), is_least));
    text.push(busy.unwrap_or_default(), source);
    if let Some((row, drift)) = drift::drift(&subject.run.sections, row) {
        text.push(words::drift(&drift), Some((StepDrift::SPEC.name, Some(row))));
    }
}

fn stage_steps(subject: &Subject, row: &StepRow, place: words::Place) -> words::StageSteps<'static> {
    let (thresholds, sections) = (subject.thresholds, &subject.run.sections);
    let lacks_work = subject.times.unrecorded > 0.0;
    // The other figures are mostly about one long step, such as a start.
    let longest_ns = row.max_ns.unwrap_or_default();
    let is_long = row.steps > 2 && longest_ns.0 as f64 > thresholds.min_longest_step_share * row.total_ns.0 as f64;
    let long_share = row.long_ns.0 as f64 / row.total_ns.0.max(1) as f64;
    let long =
        (row.long_steps > 0 && !is_long && long_share >= thresholds.min_long_steps_share).then(|| words::LongSteps {
            count: row.long_steps as u64,
            mean: Ms(row.long_ns.0 as f64 / 1e6 / row.long_steps as f64),
            share: Fraction(long_share),
            excess: excess::of_long(sections, row, lacks_work),
        });
    let positive = |mean: Option<f64>| mean.filter(|mean| *mean > 0.0);
    words::StageSteps {
        stage: row.stage.label(),
        place,
        count: Steps::count(sections, row.steps),
        median: row.median_ns.unwrap_or_default().into(),
        long,
        longest: is_long.then(|| (longest_ns.into(), excess::of_longest(sections, row, lacks_work))),
        mean_batch: positive(row.batch),
        mean_tokens: positive(row.tokens).filter(|tokens| row.batch != Some(*tokens)),
    }
}

/// The GPU work of a capture without steps.
fn covered_work(subject: &Subject, text: &mut Sentences) {
    let Subject { run, times, .. } = subject;
    let longest_ns = run.devices.iter().map(|device| device.union_ns).max().unwrap_or(0);
    let covered = words::CoveredWork {
        work: times.start().map_or_else(|| Ns(longest_ns).into(), |start| Ms(start.busy_after_ms)),
        devices: run.devices.len(),
        is_window: run.window.is_some(),
        is_after_start: times.start().is_some(),
    };
    text.push(words::covered(covered), Some(("devices", None)));
    if times.window > 0.0 {
        let of_wall = Fraction(run.wall.busy_share);
        let busy = match times.unrecorded > 0.0 {
            true => words::Busy::Between(times.share(times.busy), times.share(times.busy + times.unrecorded)),
            false if times.start().is_some() => words::Busy::Exactly(times.share(times.busy)),
            false if run.devices.len() > 1 => words::Busy::OnAverage(of_wall),
            false => words::Busy::Exactly(of_wall),
        };
        text.push(words::busy(busy), Some(("gpu_idle", None)));
    }
}

/// Whether the steps are only a part of the time that the categories are shares of.
pub(super) fn is_part(subject: &Subject) -> bool {
    if !CODE_IS_BUILT {
        return false;
    }
    let unit = Unit::of(&subject.run.sections, subject.thresholds);
    unit.steps > 0 && unit.ms * 1e6 < MIN_WHOLE * subject.run.wall.wall_ns as f64
}
