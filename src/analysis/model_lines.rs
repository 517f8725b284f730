//! The sentences about the model that a server runs: what a step takes and how far it is from the hardware's limit, what a layer
//! consists of, and what the host did while the GPU waited. Read from finished sections, so that they are also made for an
//! earlier report; linear in the rows.
//!
//! A sentence is left out if its section has no rows or if the section only guesses.

use super::host::idle::{GpuIdle, GpuIdleRow};
use super::host::idle_blame::IdleBlame;
use super::inference::layers::{LayerList, LayerRoleRow, LayerRoles, LayerRow, Layers};
use super::inference::model_words::{ModelWords, role_words};
use super::inference::step_floor::StepFloorRow;
use super::key_figures::is_almost_empty;
use super::replay::cause::Cause;
use super::replay::costs::{Costs, PathGroup};
use super::results::{Run, VerdictClause};
use super::section::{MeanNs, Ms, Pct, TypedSection, Us};
use super::structure::step_budget::mean_host_late;
use super::structure::steps::{StepRow, Steps};
use super::trust::{Trust, TrustId};
use super::unit::Unit as StepUnit;
use crate::ordering;
use crate::rules::signals::Signals;
use crate::words::findings::CodeOnPath;
use crate::words::model_lines as words;

/// Stages with sentences.
const MAX_STAGES: usize = 3;
/// The role of idle time between the kernels of a layer.
pub(crate) const IDLE: &str = "idle";
/// The role of idle time before the first layer.
const HEAD_IDLE: &str = "head_idle";
/// The confidence of rows that only tables show.
const GUESS: &str = "guess";

/// One sentence per stage on its steps, one per kind of layer, and one on the host. Each names its section.
pub fn model_lines(run: &Run) -> Vec<VerdictClause> {
    let mut lines = Vec::new();
    let steps = Steps::rows(&run.sections);
    let sure = steps.iter().enumerate().filter(|(_, row)| row.confidence != GUESS);
    for (index, row) in sure.take(MAX_STAGES) {
        lines.push(line("steps", index, step_words(run, row)));
    }
    let layers = Layers::rows(&run.sections);
    let is_one_stage = layers.iter().all(|row| Some(row.stage) == layers.first().map(|row| row.stage));
    for (index, row) in layers.iter().enumerate() {
        let is_only_kind = layers.iter().filter(|other| other.stage == row.stage).count() == 1;
        lines.push(line("layers", index, layer_words(run, row, is_one_stage, is_only_kind)));
    }
    if let Some(text) = host_words(run) {
        lines.push(line("idle_blame", 0, text));
    }
    lines
}

fn line(section: &str, row: usize, text: String) -> VerdictClause {
    VerdictClause { text, section: Some(section.to_owned()), row: Some(row as u64) }
}

/// `Decode: 9 steps, median 18.9 ms (16.6 busy, 1.5 host late, 0.8 turnaround), batch 1; floor ...`
fn step_words(run: &Run, row: &StepRow) -> String {
    let positive = |mean: Option<f64>| mean.filter(|mean| *mean > 0.0);
    let batch = positive(row.batch);
    words::steps(&words::StageSteps {
        stage: row.stage.label(),
        count: Steps::count(&run.sections, row.steps),
        median: row.median_ns.unwrap_or_default(),
        parts: step_parts(run, row),
        batch,
        tokens: positive(row.tokens).filter(|tokens| batch != Some(*tokens)),
        floor: floor(run, row),
    })
}

/// The parts of the median step.
fn step_parts(run: &Run, row: &StepRow) -> Vec<(MeanNs, &'static str)> {
    let Some(MeanNs(busy)) = row.busy_median_ns else { return Vec::new() };
    let MeanNs(late) = row.host_late_median_ns.unwrap_or_default();
    let MeanNs(median) = row.median_ns.unwrap_or_default();
    let rest = row.other_idle_median_ns.map_or(median - busy - late, |rest| rest.0);
    let idle = idle_words(run, late_ms(run), "other idle");
    vec![(MeanNs(busy), "busy"), (MeanNs(late), "host late"), (MeanNs(rest), idle)]
}

/// The name of the idle time between kernels: turnaround, if almost all idle time of the devices is, apart from `known_ms` that have
/// another cause.
fn idle_words(run: &Run, known_ms: f64, otherwise: &'static str) -> &'static str {
    let idle = GpuIdle::rows(&run.sections);
    let sum = |part: fn(&GpuIdleRow) -> Ms| idle.iter().map(|row| part(row).0).sum::<f64>();
    let others: [fn(&GpuIdleRow) -> Ms; 8] = [
        |row| row.host_late_ms,
        |row| row.drained_ms,
        |row| row.other_stream_ms,
        |row| row.unknown_ms,
        |row| row.compiling_ms,
        |row| row.start_up_ms,
        |row| row.profiler_ms,
        |row| row.other_gpu_ms,
    ];
    let other = (others.iter().map(|part| sum(*part)).sum::<f64>() - known_ms).max(0.0);
    let turnaround = sum(|row| row.turnaround_ms);
    let between = turnaround + sum(|row| row.other_stream_ms) + sum(|row| row.unknown_ms);
    // No step contains the time of work that was launched before the capture.
    let unseen = Some(sum(|row| row.unrecorded_ms)).filter(|unseen| is_in_usual_step(run, between, *unseen));
    let unseen = unseen.unwrap_or(0.0);
    if unseen > turnaround + other {
        return "not recorded";
    }
    let other = other + unseen;
    let min = ModelWords::embedded().turnaround_pct;
    if turnaround > 0.0 && 100.0 * turnaround >= min * (turnaround + other) { "turnaround" } else { otherwise }
}

/// Whether the median step contains such time without recorded work as the mean step. If a few steps lost all of it, the other idle time of
/// the median step, as often as there are steps, is nearer to the time of known causes than to both together.
fn is_in_usual_step(run: &Run, known_ms: f64, unseen_ms: f64) -> bool {
    let steps = Steps::rows(&run.sections);
    let usual = |row: &StepRow| Some(Ms::from(row.other_idle_median_ns?).0 * row.steps as f64);
    steps.is_empty() || steps.iter().filter_map(usual).sum::<f64>() > known_ms + unseen_ms / 2.0
}

/// The name of the idle time between the kernels of layers.
pub(crate) fn idle_in_layers(run: &Run) -> &'static str {
    idle_words(run, head_idle_ms(run), "idle")
}

/// Late launches and drains of all devices.
fn late_ms(run: &Run) -> f64 {
    GpuIdle::rows(&run.sections).iter().map(|row| row.host_late_ms.0 + row.drained_ms.0).sum()
}

/// Idle time before the first layer, in all steps of the stages with layers.
fn head_idle_ms(run: &Run) -> f64 {
    let stages = Steps::rows(&run.sections);
    let steps =
        |head: &LayerRoleRow| stages.iter().find(|row| row.stage == head.stage).map_or(1.0, |row| row.steps as f64);
    let roles = LayerRoles::rows(&run.sections);
    let heads = roles.iter().filter(|row| row.role == HEAD_IDLE);
    heads.map(|row| row.total_ns.0 as f64 / 1e6 * steps(row)).sum()
}

/// The floor of a step, if it is sure.
fn floor(run: &Run, step: &StepRow) -> Option<words::Floor> {
    let step_ms = step.median_ns.unwrap_or_default().0 / 1e6;
    let (_, row, floor) = StepFloorRow::sure(&run.sections, step.stage, step_ms)?;
    let floor = words::Floor { floor, uniform: None, step: Ms(step_ms), read: read(&row) };
    // Which experts a step reads is not known: all those of uniform routing, or fewer.
    let uniform = row.floor_uniform_ms.filter(|uniform| floor.differs(*uniform) && uniform.0 <= step_ms);
    Some(words::Floor { uniform, ..floor })
}

/// What a step reads at least, if that decides its floor.
fn read(row: &StepFloorRow) -> Option<words::Read> {
    let weights_gb = row.weights_gb?;
    let is_read = row.bound_by.as_deref() == Some("memory bandwidth");
    is_read.then(|| words::Read { weights_gb, cache_gb: row.kv_gb.unwrap_or_default() })
}

/// `80 layers of 198 us: gate/up 62, down 45, qkv 18, o 17, communication 2 x 5, turnaround 14.`
fn layer_words(run: &Run, row: &LayerRow, is_one_stage: bool, is_only_kind: bool) -> String {
    let parts = layer_parts(run, row);
    let idle = parts.iter().find(|part| part.role == IDLE).map_or(0.0, |part| part.us);
    let Us(kernels_us) = row.median_us.unwrap_or_default();
    let (parts, other) = named_parts(parts, kernels_us, idle_in_layers(run));
    words::layers(&words::LayersOfKind {
        stage: (!is_one_stage).then(|| row.stage.label()),
        count: row.count as u64,
        kind: (!is_only_kind).then_some(row.kind.as_str()),
        time: Us(kernels_us + idle),
        with_overlap: overlapped_us(run, row).map(Us),
        parts,
        other,
        has_parts: !run.has_shifted_durations(),
    })
}

/// The median time of a role in one layer.
#[derive(Debug)]
pub(crate) struct LayerPart {
    pub(crate) role: String,
    pub(crate) us: f64,
    pub(crate) kernels: u64,
    /// The place of its first kernel in the layer, if known.
    pub(crate) position: Option<u64>,
    /// The least time at the limit of the GPU, if the work of the role is known.
    pub(crate) floor_us: Option<f64>,
}

/// The roles of a kind of layer, largest first.
pub(crate) fn layer_parts(run: &Run, layer: &LayerRow) -> Vec<LayerPart> {
    let count = layer.count.max(1) as f64;
    let own =
        LayerRoles::rows(&run.sections).into_iter().filter(|row| row.stage == layer.stage && row.kind == layer.kind);
    let part = |row: LayerRoleRow| LayerPart {
        us: match row.median_us {
            Some(Us(median)) => median,
            // Reports of earlier versions have no median of idle time: the mean.
            None if row.role == IDLE => row.total_ns.0 as f64 / 1e3 / count,
            None => 0.0,
        },
        kernels: row.kernels as u64,
        position: row.position.map(|position| position as u64),
        floor_us: row.median_us.zip(row.of_peak_pct).map(|(Us(us), Pct(share))| us * share / 100.0),
        role: row.role,
    };
    let mut parts: Vec<LayerPart> = own.map(part).collect();
    ordering::sort_by(&mut parts, |a, b| b.us.total_cmp(&a.us));
    parts
}

/// The large parts with their names, and the sum of the small ones and those after the first few.
fn named_parts(parts: Vec<LayerPart>, kernels_us: f64, idle_words: &str) -> (Vec<words::LayerPart>, Us) {
    let limits = ModelWords::embedded();
    let (mut named, mut other) = (Vec::new(), 0.0);
    for part in parts {
        let is_large = 100.0 * part.us >= limits.min_part_pct * kernels_us;
        if !is_large || named.len() >= limits.max_parts {
            other += part.us;
            continue;
        }
        named.push(words::LayerPart {
            name: if part.role == IDLE { idle_words.to_owned() } else { role_words(&part.role) },
            time: Us(part.us),
            kernels: (part.role == "comm").then_some(part.kernels),
        });
    }
    (named, Us(other))
}

/// The mean time of a layer of this kind in the step of median length, if its kernels overlap so much that it is notably shorter
/// than their sum.
fn overlapped_us(run: &Run, layer: &LayerRow) -> Option<f64> {
    let list = LayerList::read(&run.sections).filter(|list| list.rows.len() as u64 == list.rows_in_all)?;
    let own = list.rows.iter().filter(|row| row.stage == layer.stage && row.kind == layer.kind);
    let kernels_us: f64 = own.map(|row| row.time_us.0).sum();
    let total_us = layer.total_ns.0 as f64 / 1e3;
    let roles = LayerRoles::rows(&run.sections);
    let idle = roles.iter().filter(|row| row.stage == layer.stage && row.kind == layer.kind && row.role == IDLE);
    let idle_us: f64 = idle.map(|row| row.total_ns.0 as f64 / 1e3).sum();
    let overlap_us = kernels_us - (total_us - idle_us);
    let is_notable = 100.0 * overlap_us >= ModelWords::embedded().min_overlap_pct * kernels_us.max(1.0);
    is_notable.then(|| total_us / layer.count.max(1) as f64)
}

/// `Host: 1.5 ms a step before the first layer; of its time on the critical path most is in _prepare_inputs (gpu_model_runner.py:120), 450 us a step.`
fn host_words(run: &Run) -> Option<String> {
    let blame = IdleBlame::read(&run.sections).filter(|blame| !blame.rows.is_empty() && !is_almost_empty(run))?;
    let figures = blame.figures.unwrap_or_default();
    let steps = figures.steps as f64;
    let (all_ms, in_steps_ms) = (figures.late_ms.0, figures.late_in_steps_ms.0);
    // If much of the late time is outside of the steps, a time per step would be too long.
    let is_per_step = steps > 0.0 && 100.0 * in_steps_ms >= ModelWords::embedded().min_in_steps_pct * all_ms;
    let late_ms =
        if is_per_step { mean_host_late(&run.sections).map_or(in_steps_ms / steps, |late| late.0) } else { all_ms };
    let divisor = if is_per_step { steps } else { 1.0 };
    let place: String;
    let code = match Costs::of(&run.sections, StepUnit::of(&run.sections, &Signals::embedded().verdict)) {
        Some(costs) => match costs.largest_code(&PathGroup::OF_HOST, Some(Cause::Host)) {
            Some(code) => {
                place = code.place();
                let (time, steps, kind, is_most) = (code.row.per_step_ms, code.steps, code.kind(), code.is_most);
                Some(words::HostCode::OnPath(CodeOnPath { place: &place, time, steps, kind, is_most }))
            }
            None => None,
        },
        // Without a replay nobody knows which of the late code decides, only which took most of the late time.
        None => blame.rows.iter().find(|row| !row.file.is_empty()).map(|row| words::HostCode::Late {
            function: &row.function,
            file: row.file.rsplit('/').next().unwrap_or_default(),
            time: Ms(row.total_ms.0 / divisor),
        }),
    };
    Some(words::host(&words::Host {
        late: Ms(late_ms),
        extent: match run.window {
            _ if is_per_step && steps > 1.0 => words::Extent::MeanStep,
            _ if is_per_step => words::Extent::Step,
            Some(_) => words::Extent::Window,
            None => words::Extent::WholeCapture,
        },
        is_before_layers: is_before_layers(run, late_ms),
        code,
        is_upper_bound: Trust::has(&run.sections, TrustId::CaptureOverhead),
    }))
}

/// Whether almost all of the late time of a step is before its first layer. Known only if the steps have one stage.
fn is_before_layers(run: &Run, late_ms: f64) -> bool {
    let one_stage = Steps::rows(&run.sections).len() == 1;
    let roles = LayerRoles::rows(&run.sections);
    let head_idle = roles.iter().find(|row| row.role == HEAD_IDLE);
    let head_ms = head_idle.map_or(0.0, |row| row.total_ns.0 as f64 / 1e6);
    one_stage && late_ms > 0.0 && 100.0 * head_ms.min(late_ms) >= ModelWords::embedded().min_head_idle_pct * late_ms
}

#[cfg(test)]
mod tests;
