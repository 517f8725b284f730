//! The sections on the layers of a step: one row per kind of layer, one per layer, and one per role of a kernel in a layer.

use super::first_numbers;
use super::fold::{label, pattern};
use super::role_rates::StageRates;
use super::stage_layers::{Kind, RoleTime, StageLayers};
use crate::analysis::context::Context;
use crate::analysis::measure::percentiles::median;
use crate::analysis::recapture::MissingData;
use crate::analysis::section::{Section, Value};
use crate::ordering;
use crate::rules::inference::thresholds;

const LAYERS_TITLE: &str = "Layers of a step";
const LAYER_COLUMNS: [&str; 13] = [
    "stage",
    "kind",
    "count",
    "pattern",
    "kernels",
    "median_us",
    "min_us",
    "max_us",
    "equal_layers",
    "outliers",
    "steps",
    "total_ns",
    "share_of_step_pct",
];
const LIST_TITLE: &str = "Layers over a step";
const LIST_COLUMNS: [&str; 5] = ["stage", "layer", "kind", "time_us", "is_outlier"];
/// The maximum number of rows of [`layer_list`]. Models have a few hundred layers at most.
const MAX_LISTED: usize = 2_000;
const ROLES_TITLE: &str = "Parts of a layer";
const ROLE_COLUMNS: [&str; 13] = [
    "stage",
    "kind",
    "role",
    "kernels",
    "median_us",
    "spread_pct",
    "total_ns",
    "share_of_step_pct",
    "tflops",
    "tb_per_s",
    "of_peak_pct",
    "basis",
    "position",
];
/// The kind of parts that belong to no layer.
const OUTSIDE: &str = "outside";

/// The maximum number of outliers in a cell.
const MAX_OUTLIERS: usize = 12;

/// One row per stage and kind of layer.
pub(crate) fn layers(context: &Context) -> Section {
    let found = context.layers();
    if found.is_empty() {
        return no_layers(context, LAYERS_TITLE, &LAYER_COLUMNS);
    }
    let mut section = Section::new(LAYERS_TITLE, "the repeated sequence of kernels in a step, by their names", &LAYER_COLUMNS)
        .limit("The time of a layer is the sum of the durations of its kernels on the busiest stream; the median is over all layers of a kind.")
        .limit(format!("Equal layers have the most frequent sequence of kernels. An outlier differs by more than {} % from the median; the first layer has number 0.", outlier_pct()))
        .limit("The total is the time of all layers of a kind in the step of median length, with the idle time before their kernels.");
    for stage in found {
        for kind in &stage.kinds {
            section.row(layer_values(stage, kind));
        }
    }
    // The figures are those of the stage with most steps.
    if let Some(main) = found.iter().rev().max_by_key(|stage| stage.steps) {
        section.figure("layers", main.order.len());
        section.figure("pattern", pattern(&main.order));
        section.figure("step_ns", main.span());
        section.figure("head_ns", main.head());
        section.figure("tail_ns", main.tail());
        section.figure("folded_pct", main.folded * 100.0);
        section.figure("lm_head_us", main.median_of_outside("lm_head"));
    }
    section
}

/// One row per stage and layer, in order of execution.
pub(crate) fn layer_list(context: &Context) -> Section {
    let found = context.layers();
    if found.is_empty() {
        return no_layers(context, LIST_TITLE, &LIST_COLUMNS);
    }
    let mut section = Section::new(LIST_TITLE, "the layers of a step, in order of execution", &LIST_COLUMNS)
        .limit("The time of a layer is the median over the steps of the sum of the durations of its kernels on the busiest stream.")
        .limit(format!("An outlier differs by more than {} % from the median of its kind. The first layer has number 0.", outlier_pct()));
    for stage in found {
        let mut layers: Vec<(&Kind, (usize, f64))> = Vec::new();
        stage.kinds.iter().for_each(|kind| layers.extend(kind.layers.iter().map(|layer| (kind, *layer))));
        ordering::sort_by_key(&mut layers, |(_, (number, _))| *number);
        for (kind, (number, duration_ns)) in layers {
            section.row([
                stage.stage.label().into(),
                number.into(),
                label(kind.number).into(),
                (duration_ns / 1e3).into(),
                kind.outliers.binary_search(&number).is_ok().into(),
            ]);
        }
    }
    section.truncate(MAX_LISTED);
    section
}

/// One row per stage, kind of layer and role, and rows for the parts of a step outside of layers.
pub(crate) fn layer_roles(context: &Context) -> Section {
    let found = context.layers();
    if found.is_empty() {
        return no_layers(context, ROLES_TITLE, &ROLE_COLUMNS);
    }
    let mut section = Section::new(ROLES_TITLE, "the layers of a step, with the role of each kernel by name and place", &ROLE_COLUMNS)
        .limit("Roles follow from names and order of kernels (patterns/layer_roles.json). They are inferred, not recorded.")
        .limit("The median is the time in one layer, over the layers with the most frequent sequence of kernels. The spread is (p90 - p10) / median.")
        .limit("The total is the time in the step of median length. All totals of a stage add up to that step; of overlapping kernels, the one that started first counts.")
        .limit("Rates from traced shapes are those of the ops that launched the kernels (section op_costs), over all layers with the most frequent sequence.")
        .limit("Rates from role and config are those of the work that the config of the model gives a role, with the tokens of the step, in the median time: two operations for each weight and token; weights, inputs and results once. Padding is not counted.");
    if context.model.is_none_or(|model| model.config.is_none()) {
        section = section.limit("Parts without traced shapes, as in replays of graphs, have rates only with the config.json of the model (--config).");
    }
    for stage in found {
        let rates = StageRates::of(context, stage);
        for kind in &stage.kinds {
            kind.roles.iter().for_each(|role| section.row(role_values(&rates, stage, Some(kind), role)));
        }
        stage.outside.iter().for_each(|role| section.row(role_values(&rates, stage, None, role)));
    }
    section
}

fn no_layers(context: &Context, title: &str, columns: &[&str]) -> Section {
    if context.passes().is_empty() {
        let why = "No GPU op was launched in an annotated step, and the order of the kernels shows no steps.";
        return context.missing(title, columns, why, MissingData::Ranges);
    }
    let min_folded = 100.0 * thresholds().layers.min_folded_share.value;
    let why = format!("Less than {min_folded:.0} % of a step consists of repeated layers with attention kernels.");
    Section::missing(title, columns, &why, "")
}

fn outlier_pct() -> f64 {
    (100.0 * thresholds().layers.outlier_share.value).round()
}

/// The values of a row of [`layers`].
fn layer_values(stage: &StageLayers, kind: &Kind) -> [Value; LAYER_COLUMNS.len()] {
    let us = |duration: Option<&i64>| Value::from(duration.map(|duration| *duration as f64 / 1e3));
    [
        stage.stage.label().into(),
        label(kind.number).into(),
        kind.count.into(),
        pattern(&stage.order).into(),
        kind.kernels.into(),
        median(&kind.durations_ns).map(|median| median / 1e3).into(),
        us(kind.durations_ns.first()),
        us(kind.durations_ns.last()),
        kind.equal_layers.into(),
        outlier_text(&kind.outliers),
        stage.steps.into(),
        kind.total().into(),
        Value::pct(kind.total(), stage.span()),
    ]
}

fn outlier_text(outliers: &[usize]) -> Value {
    if outliers.is_empty() { Value::Null } else { first_numbers(outliers, MAX_OUTLIERS).into() }
}

/// The values of a row of [`layer_roles`].
fn role_values(
    rates: &StageRates,
    stage: &StageLayers,
    kind: Option<&Kind>,
    role: &RoleTime,
) -> [Value; ROLE_COLUMNS.len()] {
    let rates = rates.rates(stage, kind, role);
    [
        stage.stage.label().into(),
        kind.map_or(OUTSIDE, |kind| label(kind.number)).into(),
        role.role.as_str().into(),
        role.kernels.into(),
        role.median_us.into(),
        role.spread_pct.into(),
        role.total.into(),
        Value::pct(role.total, stage.span()),
        rates.tflops.into(),
        rates.tb_per_s.into(),
        rates.of_peak_pct.into(),
        rates.basis.into(),
        role.position.into(),
    ]
}

#[cfg(test)]
mod tests;
