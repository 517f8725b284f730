//! The data of the charts on the model that a server runs: the parts of a layer, the layers of a step, the steps over time.

use crate::analysis::inference::layers::{LayerList, LayerRow, Layers, ListedLayerRow};
use crate::analysis::inference::model_words::{ModelWords, role_category, role_words};
use crate::analysis::inference::step_floor::{FloorOfSteps, StepFloorRow};
use crate::analysis::measure::percentiles::median;
use crate::analysis::model_lines::{IDLE, LayerPart, idle_in_layers, layer_parts};
use crate::analysis::results::Run;
use crate::analysis::section::{FIRST_OP, Record, Section, TypedSection, Value};
use crate::analysis::structure::stages::Stage;
use crate::ordering;

/// The bar of one kind of layer.
#[derive(Debug)]
pub struct LayerBar {
    /// `A`, `B`, ...
    pub kind: String,
    /// The number of layers in a step.
    pub count: u64,
    /// The time of a layer: the median of the sums of its kernels, and the mean of its idle time.
    pub us: f64,
    /// In order of execution, idle time last.
    pub segments: Vec<LayerSegment>,
}

/// The time of one role in a layer.
#[derive(Debug)]
pub struct LayerSegment {
    /// The role as in tables.
    pub role: String,
    /// The role in words.
    pub words: String,
    /// The category whose colour it has.
    pub category: &'static str,
    /// Idle time between the kernels.
    pub is_idle: bool,
    /// The median in one layer; for idle time the mean.
    pub us: f64,
    /// The number of kernels.
    pub kernels: u64,
    /// The least time at the limit of the GPU, if the work of the role is known.
    pub floor_us: Option<f64>,
}

/// The stage whose layers are drawn: the one with most steps. `None` without layers.
pub fn layer_stage(run: &Run) -> Option<Stage> {
    Layers::rows(&run.sections).into_iter().rev().max_by_key(|row| row.steps).map(|row| row.stage)
}

/// One bar per kind of layer of [`layer_stage`].
pub fn layer_bars(run: &Run) -> Vec<LayerBar> {
    let stage = layer_stage(run);
    let kinds = Layers::rows(&run.sections).into_iter().filter(|row| Some(row.stage) == stage);
    let bar = |row: LayerRow| {
        let segments = segments(run, &row);
        let idle = segments.iter().find(|segment| segment.is_idle).map_or(0.0, |segment| segment.us);
        let us = row.median_us.unwrap_or_default().0 + idle;
        LayerBar { kind: row.kind, count: row.count as u64, us, segments }
    };
    kinds.map(bar).collect()
}

fn segments(run: &Run, layer: &LayerRow) -> Vec<LayerSegment> {
    let mut parts: Vec<LayerPart> = layer_parts(run, layer).into_iter().filter(|part| part.us > 0.0).collect();
    ordering::sort_by_key(&mut parts, |part| (part.role == IDLE, part.position.unwrap_or(u64::MAX)));
    let segment = |part: LayerPart| LayerSegment {
        is_idle: part.role == IDLE,
        words: if part.role == IDLE { idle_in_layers(run).to_owned() } else { role_words(&part.role) },
        category: role_category(&part.role),
        us: part.us,
        kernels: part.kernels,
        floor_us: part.floor_us.filter(|floor| *floor > 0.0 && *floor <= part.us),
        role: part.role,
    };
    parts.into_iter().map(segment).collect()
}

/// One layer of a step.
#[derive(Debug)]
pub struct LayerColumn {
    /// The number in the step, from 0.
    pub layer: f64,
    /// `A`, `B`, ...
    pub kind: String,
    /// The median over the steps.
    pub us: f64,
    /// Differs much from the median of its kind.
    pub is_outlier: bool,
}

/// The layers of a step of [`layer_stage`], in order of execution.
pub fn layer_columns(run: &Run) -> Vec<LayerColumn> {
    let stage = layer_stage(run);
    let own = LayerList::rows(&run.sections).into_iter().filter(|row| Some(row.stage) == stage);
    let column = |row: ListedLayerRow| LayerColumn {
        layer: row.layer as f64,
        kind: row.kind,
        us: row.time_us.0.max(0.0),
        is_outlier: row.is_outlier,
    };
    own.map(column).collect()
}

/// One step over time. Times are in nanoseconds.
#[derive(Debug)]
pub struct StepColumn<'a> {
    /// Its row in the section.
    pub row: &'a Record,
    /// Since the first GPU op.
    pub start_ns: i64,
    /// Where the next step begins; later than the start and the length together if the trace lacks ops of the step.
    pub end_ns: i64,
    /// The length of the step.
    pub duration_ns: i64,
    /// Time in which ops run.
    pub busy_ns: i64,
    /// Idle time that the host caused.
    pub host_late_ns: i64,
    /// Longer than the median of its stage by more than `slow_step_pct`.
    pub is_slow: bool,
}

/// The steps of the device of the first step, and the number of steps on other devices.
pub fn step_columns(section: &Section) -> (Vec<StepColumn<'_>>, usize) {
    let first_op = int(&section.summary, FIRST_OP).unwrap_or(0);
    let device = section.rows.first().and_then(|row| row.get("device_id"));
    let own = || section.rows.iter().filter(|row| row.get("device_id") == device);
    let limits = slow_from(own());
    let column = |row| {
        let duration_ns = int(row, "duration_ns").filter(|duration| *duration > 0)?;
        let limit = limits.iter().find(|(stage, _)| *stage == row.text("stage")).map_or(f64::MAX, |(_, limit)| *limit);
        let start_ns = int(row, "start_ns")?.saturating_sub(first_op).max(0);
        let not_traced_ns = int(row, "not_traced_ns").unwrap_or(0).max(0);
        Some(StepColumn {
            row,
            start_ns,
            end_ns: start_ns.saturating_add(duration_ns).saturating_add(not_traced_ns),
            duration_ns,
            busy_ns: int(row, "busy_ns").unwrap_or(0).clamp(0, duration_ns),
            host_late_ns: int(row, "host_late_ns").unwrap_or(0).clamp(0, duration_ns),
            is_slow: duration_ns as f64 > limit,
        })
    };
    (own().filter_map(column).collect(), section.rows.len() - own().count())
}

/// By stage, the length from which on a step is marked. A stage with fewer than three steps has no median to compare with.
fn slow_from<'a>(rows: impl Iterator<Item = &'a Record>) -> Vec<(&'a str, f64)> {
    let mut by_stage: Vec<(&str, Vec<i64>)> = Vec::new();
    for row in rows {
        let Some(duration) = int(row, "duration_ns") else { continue };
        match by_stage.iter_mut().find(|(stage, _)| *stage == row.text("stage")) {
            Some((_, durations)) => durations.push(duration),
            None => by_stage.push((row.text("stage"), vec![duration])),
        }
    }
    let factor = 1.0 + ModelWords::embedded().slow_step_pct / 100.0;
    let limit = |(stage, mut durations): (&'a str, Vec<i64>)| {
        durations.sort_unstable();
        let median = median(&durations)?;
        (durations.len() > 2).then_some((stage, median * factor))
    };
    by_stage.into_iter().filter_map(limit).collect()
}

/// The floors of stages that are not guessed, in milliseconds.
pub fn floors(run: &Run) -> Vec<(&'static str, f64)> {
    let sure = FloorOfSteps::rows(&run.sections).into_iter().filter(StepFloorRow::is_sure);
    sure.filter_map(|row| Some((row.stage.label(), row.floor_ms.filter(|floor| floor.0 > 0.0)?.0))).collect()
}

fn int(row: &Record, key: &str) -> Option<i64> {
    match row.get(key)? {
        Value::Int(value) => Some(*value),
        Value::Float(value) if value.is_finite() => Some(*value as i64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::dashboard::testing::section;

    #[test]
    fn a_step_is_slow_compared_with_its_own_stage_and_device() {
        let row = |stage: &str, device: i64, start: i64, duration: i64| {
            [stage.into(), device.into(), start.into(), duration.into()]
        };
        let mut section = section(
            ["stage", "device_id", "start_ns", "duration_ns"],
            &[
                row("decode", 0, 1_000, 100),
                row("decode", 0, 1_100, 120),
                row("decode", 0, 1_300, 100),
                row("decode", 0, 1_400, 130),
                row("extend/prefill", 0, 1_600, 900),
                row("decode", 1, 1_000, 999),
            ],
        );
        section.figure(FIRST_OP, 1_000_i64);
        let (columns, others) = step_columns(&section);
        let slow: Vec<(i64, bool)> = columns.iter().map(|column| (column.start_ns, column.is_slow)).collect();
        // The median of the decode steps is 110: more than 132 is slow.
        assert_eq!(slow, [(0, false), (100, false), (300, false), (400, false), (600, false)]);
        assert_eq!(others, 1);
        section.rows[3].0[3].1 = 140_i64.into();
        assert!(step_columns(&section).0[3].is_slow);
    }

    #[test]
    fn a_step_ends_after_the_time_that_the_trace_lacks() {
        let row = [1_000_i64, 400, 50].map(Into::into);
        let mut section = section(["start_ns", "duration_ns", "not_traced_ns"], &[row]);
        section.figure(FIRST_OP, 1_000_i64);
        let [step] = &step_columns(&section).0[..] else { panic!("one step") };
        assert_eq!((step.start_ns, step.duration_ns, step.end_ns), (0, 400, 450));
    }
}
