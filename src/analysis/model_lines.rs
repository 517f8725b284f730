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
use super::labels::{capitalized, stage_words};
use super::results::{Run, VerdictClause};
use super::section::{MeanNs, Ms, Pct, TypedSection, Us};
use super::structure::steps::{StepRow, Steps};
use super::trust::{Trust, TrustId};
use crate::digits::grouped;
use crate::ordering;

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
        let stage =
            if is_one_stage { String::new() } else { format!("{}: ", capitalized(&stage_words(row.stage.label()))) };
        let is_only_kind = layers.iter().filter(|other| other.stage == row.stage).count() == 1;
        lines.push(line("layers", index, stage + &layer_words(run, row, is_only_kind)));
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
    let stage = stage_words(row.stage.label());
    let head = if stage.is_empty() { String::new() } else { format!("{}: ", capitalized(&stage)) };
    let MeanNs(median_ns) = row.median_ns.unwrap_or_default();
    let unit = Unit::of(median_ns);
    let count = row.steps as u64;
    let length = if count == 1 { "1 step of ".to_owned() } else { format!("{} steps, median ", grouped(count)) };
    let parts = step_parts(run, row, unit);
    let parts = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    let work = work_words(row);
    let floor = floor_words(run, row).unwrap_or_default();
    format!("{head}{length}{}{parts}{work}{floor}.", unit.text(median_ns))
}

/// The parts of the median step in the unit of its length. Parts below 0.05 of the unit are left out.
fn step_parts(run: &Run, row: &StepRow, unit: Unit) -> Vec<String> {
    let Some(MeanNs(busy)) = row.busy_median_ns else { return Vec::new() };
    let MeanNs(late) = row.host_late_median_ns.unwrap_or_default();
    let MeanNs(median) = row.median_ns.unwrap_or_default();
    let rest = row.other_idle_median_ns.map_or(median - busy - late, |rest| rest.0);
    let parts = [(busy, "busy"), (late, "host late"), (rest, idle_words(run, late_ms(run), "other idle"))];
    let shown = parts.iter().filter(|(ns, _)| unit.of_ns(*ns) >= 0.05);
    shown.map(|(ns, words)| format!("{:.1} {words}", unit.of_ns(*ns))).collect()
}

/// The name of the idle time between kernels: turnaround, if almost all idle time of the devices is, apart from `known_ms` that have
/// another cause.
fn idle_words(run: &Run, known_ms: f64, otherwise: &'static str) -> &'static str {
    let idle = GpuIdle::rows(&run.sections);
    let sum = |part: fn(&GpuIdleRow) -> Ms| idle.iter().map(|row| part(row).0).sum::<f64>();
    let others: [fn(&GpuIdleRow) -> Ms; 6] = [
        |row| row.host_late_ms,
        |row| row.drained_ms,
        |row| row.other_stream_ms,
        |row| row.unknown_ms,
        |row| row.compiling_ms,
        |row| row.start_up_ms,
    ];
    let other = (others.iter().map(|part| sum(*part)).sum::<f64>() - known_ms).max(0.0);
    let turnaround = sum(|row| row.turnaround_ms);
    let unseen = sum(|row| row.unseen_ms);
    if unseen > turnaround + other {
        return "not recorded";
    }
    let other = other + unseen;
    let min = ModelWords::embedded().turnaround_pct;
    if turnaround > 0.0 && 100.0 * turnaround >= min * (turnaround + other) { "turnaround" } else { otherwise }
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

/// `, batch 32, 8,192 tokens`. In decode each request has one token, so that tokens are left out.
fn work_words(row: &StepRow) -> String {
    let positive = |mean: Option<f64>| mean.filter(|mean| *mean > 0.0);
    let exact = |amount: f64| if amount.fract() == 0.0 { grouped(amount as u64) } else { format!("{amount:.1}") };
    let batch = positive(row.batch);
    let tokens = positive(row.tokens).filter(|tokens| batch != Some(*tokens));
    let batch = batch.map(|batch| format!(", batch {}", exact(batch))).unwrap_or_default();
    batch + &tokens.map(|tokens| format!(", {} tokens", exact(tokens))).unwrap_or_default()
}

/// `; floor 10.6 ms (35.3 GB of weights at 3.35 TB/s): 56 % of the hardware`. `None` without a floor that is sure.
fn floor_words(run: &Run, step: &StepRow) -> Option<String> {
    let step_ms = step.median_ns.unwrap_or_default().0 / 1e6;
    let (_, row, Ms(floor)) = StepFloorRow::sure(&run.sections, step.stage, step_ms)?;
    let share = |ms: f64| format!("{:.0}", 100.0 * ms / step_ms);
    let text = |ms: f64| Unit::of(ms * 1e6).text(ms * 1e6);
    // Which experts a step reads is not known: all those of uniform routing, or fewer.
    let uniform = row.floor_uniform_ms.map(|uniform| uniform.0);
    let uniform = uniform.filter(|uniform| share(*uniform) != share(floor) && *uniform <= step_ms);
    let uniform_text = uniform.map(|uniform| format!(", {} with uniform routing", text(uniform))).unwrap_or_default();
    let shares = uniform.map_or_else(|| share(floor), |uniform| format!("{} to {}", share(floor), share(uniform)));
    let read = read_words(&row, floor).unwrap_or_default();
    Some(format!("; floor {}{read}{uniform_text}: {shares} % of the hardware", text(floor)))
}

/// ` (35.3 GB of weights at 3.35 TB/s)`: what a step reads at least, if that decides its floor.
fn read_words(row: &StepFloorRow, floor_ms: f64) -> Option<String> {
    let weights = row.weights_gb?;
    let cache = row.kv_gb.unwrap_or_default();
    let cache_text = if cache >= 0.05 { format!(" and {cache:.1} GB of KV cache") } else { String::new() };
    // Gigabytes in a millisecond are terabytes in a second.
    let rate = trimmed((weights + cache) / floor_ms);
    let is_read = row.bound_by.as_deref() == Some("memory bandwidth");
    is_read.then(|| format!(" ({weights:.1} GB of weights{cache_text} at {rate} TB/s)"))
}

/// `80 layers of 198 us: gate/up 62, down 45, qkv 18, o 17, communication 2 x 5, turnaround 14.`
fn layer_words(run: &Run, row: &LayerRow, is_only_kind: bool) -> String {
    let kind_words = if is_only_kind { String::new() } else { format!(" of kind {}", row.kind) };
    let parts = layer_parts(run, row);
    let idle = parts.iter().find(|part| part.role == IDLE).map_or(0.0, |part| part.us);
    let Us(kernels_us) = row.median_us.unwrap_or_default();
    let layer_us = kernels_us + idle;
    let noun = if row.count == 1 { "layer" } else { "layers" };
    let unit = Unit::of_layer(layer_us * 1e3);
    let overlap = overlapped_us(run, row).map(|us| format!(", {} with overlap", unit.text(us * 1e3)));
    let head = format!(
        "{} {noun}{kind_words} of {}{}",
        grouped(row.count as u64),
        unit.text(layer_us * 1e3),
        overlap.unwrap_or_default()
    );
    let words = part_words(parts, kernels_us, unit, idle_in_layers(run));
    if words.is_empty() || run.has_shifted_durations() {
        format!("{head}.")
    } else {
        format!("{head}: {}.", words.join(", "))
    }
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

/// The parts in words. Small parts and those after the first few are summed.
fn part_words(parts: Vec<LayerPart>, kernels_us: f64, unit: Unit, idle_words: &str) -> Vec<String> {
    let words = ModelWords::embedded();
    let (mut shown, mut other) = (Vec::new(), 0.0);
    for part in parts {
        let is_large = 100.0 * part.us >= words.min_part_pct * kernels_us;
        if !is_large || shown.len() >= words.max_parts {
            other += part.us;
            continue;
        }
        let amount = |us: f64| short(unit.of_ns(us * 1e3));
        let name = if part.role == IDLE { idle_words.to_owned() } else { role_words(&part.role) };
        shown.push(match part.kernels {
            several @ 2.. if part.role == "comm" => format!("{name} {several} x {}", amount(part.us / several as f64)),
            _ => format!("{name} {}", amount(part.us)),
        });
    }
    let other_text = short(unit.of_ns(other * 1e3));
    if !["0", "0.0"].contains(&other_text.as_str()) {
        shown.push(format!("other {other_text}"));
    }
    shown
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

/// `Host: 1.5 ms a step before the first layer, 0.45 of it in _prepare_inputs (gpu_model_runner.py).`
fn host_words(run: &Run) -> Option<String> {
    let blame = IdleBlame::read(&run.sections).filter(|blame| !blame.rows.is_empty() && !is_almost_empty(run))?;
    let figures = blame.figures.unwrap_or_default();
    let steps = figures.steps as f64;
    let (all_ms, in_steps_ms) = (figures.late_ms.0, figures.late_in_steps_ms.0);
    // If much of the late time is outside of the steps, a time per step would be too long.
    let is_per_step = steps > 0.0 && 100.0 * in_steps_ms >= ModelWords::embedded().min_in_steps_pct * all_ms;
    let (late_ms, per_step) = if is_per_step { (in_steps_ms / steps, " a step") } else { (all_ms, "") };
    // The sentence on the steps has the times of the median step.
    let on_average = if is_per_step && steps > 1.0 { "on average " } else { "" };
    // The start of a program and first uses are in the capture, if it has no steps.
    let extent = match run.window {
        _ if is_per_step => "",
        Some(_) => " in the window",
        None => " in the whole capture",
    };
    let divisor = if is_per_step { steps } else { 1.0 };
    let unit = Unit::of(late_ms * 1e6);
    let place = if is_before_layers(run, late_ms) { "before the first layer" } else { "of late launches" };
    let function = blame.rows.iter().find(|row| !row.file.is_empty()).map(|row| {
        let ms = row.total_ms.0 / divisor;
        let file = row.file.rsplit('/').next().unwrap_or_default();
        format!(", {} of it in {} ({file})", short_part(unit.of_ns(ms * 1e6)), row.function)
    });
    let stacks = Trust::has(&run.sections, TrustId::CaptureOverhead);
    let stacks = if stacks { "; the profiler slows the host, so this is an upper bound" } else { "" };
    let function = function.unwrap_or_default();
    Some(format!("Host: {on_average}{}{per_step} {place}{extent}{function}{stacks}.", unit.text(late_ms * 1e6)))
}

/// Whether almost all of the late time of a step is before its first layer. Known only if the steps have one stage.
fn is_before_layers(run: &Run, late_ms: f64) -> bool {
    let one_stage = Steps::rows(&run.sections).len() == 1;
    let roles = LayerRoles::rows(&run.sections);
    let head_idle = roles.iter().find(|row| row.role == HEAD_IDLE);
    let head_ms = head_idle.map_or(0.0, |row| row.total_ns.0 as f64 / 1e6);
    one_stage && late_ms > 0.0 && 100.0 * head_ms.min(late_ms) >= ModelWords::embedded().min_head_idle_pct * late_ms
}

/// The unit of a sentence. All its numbers have the unit of the first.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Unit {
    name: &'static str,
    ns: f64,
}

impl Unit {
    fn of(ns: f64) -> Self {
        match ns {
            ns if ns >= 1e9 => Self { name: "s", ns: 1e9 },
            ns if ns >= 1e6 => Self { name: "ms", ns: 1e6 },
            _ => Self { name: "us", ns: 1e3 },
        }
    }

    /// Parts of a layer are short: microseconds up to 10 ms.
    fn of_layer(ns: f64) -> Self {
        if ns < 1e7 { Self { name: "us", ns: 1e3 } } else { Self::of(ns) }
    }

    fn of_ns(self, ns: f64) -> f64 {
        ns / self.ns
    }

    fn text(self, ns: f64) -> String {
        match self.name {
            "us" => format!("{} us", short(self.of_ns(ns))),
            name => format!("{:.1} {name}", self.of_ns(ns)),
        }
    }
}

/// A number with one decimal below 10, else without.
fn short(value: f64) -> String {
    if value < 9.95 { format!("{value:.1}") } else { grouped(value.round() as u64) }
}

/// A part of a time: two decimals below 1, else one.
fn short_part(value: f64) -> String {
    if value < 0.995 { format!("{value:.2}") } else { format!("{value:.1}") }
}

/// A number with at most two decimals, without trailing zeros: `3.35`, `8`.
fn trimmed(value: f64) -> String {
    format!("{value:.2}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests;
