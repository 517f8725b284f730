//! The sections on the layers of a step: one row per kind of layer, one per layer, and one per role of a kernel in a layer.

use super::first_numbers;
use super::fold::{label, pattern};
use super::role_rates::StageRates;
use super::stage_layers::{Kind, RoleTime, StageLayers};
use crate::analysis::context::Context;
use crate::analysis::measure::percentiles::median;
use crate::analysis::recapture::MissingData;
use crate::analysis::section::{Answer, Pct, TypedSection, Us, section};
use crate::analysis::structure::stages::Stage;
use crate::ordering;
use crate::rules::inference::thresholds;
use crate::trace::{Fraction, Ns};
use crate::words::layers as words;

section! {
    /// The kinds of layers in the steps of each stage.
    pub(crate) struct Layers("layers", "Layers of a step");
    row LayerRow {
        stage: Stage,
        kind: String,
        count: usize,
        pattern: String,
        kernels: usize,
        median_us: Option<Us>,
        min_us: Option<Us> = "Shortest",
        max_us: Option<Us>,
        equal_layers: usize,
        outliers: Option<String>,
        steps: usize,
        total_ns: Ns,
        share_of_step_pct: Pct = "Of the step",
    }
    figures LayerFigures {
        layers: usize,
        pattern: String,
        step_ns: Ns,
        head_ns: Ns = "Before the layers",
        tail_ns: Ns = "After the layers",
        folded_pct: Pct = "In layers",
        lm_head_us: Option<Us> = "LM head",
    }
}

section! {
    /// Each layer of a step.
    pub(crate) struct LayerList("layer_list", "Layers over a step");
    row ListedLayerRow {
        stage: Stage,
        layer: usize,
        kind: String,
        time_us: Us,
        is_outlier: bool = "Outlier",
    }
}

section! {
    /// The time of each role in a kind of layer, and outside of the layers.
    pub(crate) struct LayerRoles("layer_roles", "Parts of a layer");
    row LayerRoleRow {
        stage: Stage,
        kind: String,
        role: String,
        kernels: usize,
        median_us: Option<Us>,
        spread_pct: Option<Pct>,
        total_ns: Ns,
        share_of_step_pct: Pct = "Of the step",
        tflops: Option<f64> = "TFLOP/s",
        tb_per_s: Option<f64> = "TB/s",
        of_peak_pct: Option<Pct> = "Of the peak",
        basis: Option<String> = "Rests on",
        position: Option<usize>,
    }
}

/// The maximum number of rows of [`layer_list`]. Models have a few hundred layers at most.
const MAX_LISTED: usize = 2_000;
/// The kind of parts that belong to no layer.
pub(crate) const OUTSIDE: &str = "outside";

/// The maximum number of outliers in a cell.
const MAX_OUTLIERS: usize = 12;

/// One row per stage and kind of layer.
pub(crate) fn layers(context: &Context) -> Answer<Layers> {
    let found = context.layers();
    // The figures are those of the stage with most steps.
    let Some(main) = found.iter().rev().max_by_key(|stage| stage.steps) else { return no_layers(context) };
    let mut answer = Layers::answer("the repeated sequence of kernels in a step, by their names")
        .limit("The time of a layer is the sum of the durations of its kernels on the busiest stream; the median is over all layers of a kind.")
        .limit(words::equal_layers(outlier_share()))
        .limit("The total is the time of all layers of a kind in the step of median length, with the idle time before their kernels.");
    if found.iter().any(StageLayers::is_training) {
        answer = answer.limit(
            "A training step runs each layer forward and, in reverse order, backward. The layers of the backward pass are kinds of their \
             own; their roles begin with backward.",
        );
    }
    answer.with_rows(found.iter().flat_map(|stage| stage.kinds.iter().map(|kind| layer_row(stage, kind)))).with_figures(
        LayerFigures {
            layers: main.forward,
            pattern: pattern(&main.order),
            step_ns: main.span(),
            head_ns: main.head(),
            tail_ns: main.tail(),
            folded_pct: Pct(main.folded * 100.0),
            lm_head_us: main.median_of_outside("lm_head").map(Us),
        },
    )
}

/// One row per stage and layer, in order of execution.
pub(crate) fn layer_list(context: &Context) -> Answer<LayerList> {
    let found = context.layers();
    if found.is_empty() {
        return no_layers(context);
    }
    let mut answer = LayerList::answer("the layers of a step, in order of execution")
        .limit("The time of a layer is the median over the steps of the sum of the durations of its kernels on the busiest stream.")
        .limit(words::outliers(outlier_share()));
    for stage in found {
        let mut layers: Vec<(&Kind, (usize, f64))> = Vec::new();
        stage.kinds.iter().for_each(|kind| layers.extend(kind.layers.iter().map(|layer| (kind, *layer))));
        ordering::sort_by_key(&mut layers, |(_, (number, _))| *number);
        answer.rows.extend(layers.into_iter().map(|(kind, (number, duration_ns))| ListedLayerRow {
            stage: stage.stage,
            layer: number,
            kind: label(kind.number).to_owned(),
            time_us: Us(duration_ns / 1e3),
            is_outlier: kind.outliers.binary_search(&number).is_ok(),
        }));
    }
    answer.truncate(MAX_LISTED);
    answer
}

/// One row per stage, kind of layer and role, and rows for the parts of a step outside of layers.
pub(crate) fn layer_roles(context: &Context) -> Answer<LayerRoles> {
    let found = context.layers();
    if found.is_empty() {
        return no_layers(context);
    }
    let mut answer = LayerRoles::answer("the layers of a step, with the role of each kernel by name and place")
        .limit("Roles follow from names and order of kernels (patterns/layer_roles.json). They are inferred, not recorded.")
        .limit("The median is the time in one layer, over the layers with the most frequent sequence of kernels. The spread is (p90 - p10) / median.")
        .limit("The total is the time in the step of median length. All totals of a stage add up to that step; of overlapping kernels, the one that started first counts.")
        .limit("Rates from traced shapes are those of the ops that launched the kernels (section op_costs), over all layers with the most frequent sequence.")
        .limit("Rates from role and config are those of the work that the config of the model gives a role, with the tokens of the step, in the median time: two operations for each weight and token; weights, inputs and results once. Padding is not counted.");
    if context.model.is_none_or(|model| model.config.is_none()) {
        answer = answer.limit("Parts without traced shapes, as in replays of graphs, have rates only with the config.json of the model (--config).");
    }
    for stage in found {
        let rates = StageRates::of(context, stage);
        for kind in &stage.kinds {
            answer.rows.extend(kind.roles.iter().map(|role| role_row(&rates, stage, Some(kind), role)));
        }
        answer.rows.extend(stage.outside.iter().map(|role| role_row(&rates, stage, None, role)));
    }
    answer
}

fn no_layers<S: TypedSection>(context: &Context) -> Answer<S> {
    if context.passes().is_empty() {
        let why = "No GPU op was launched in an annotated step, and the order of the kernels shows no steps.";
        return context.lacks(why, MissingData::Ranges);
    }
    S::missing(words::no_layers(Fraction(thresholds().layers.min_folded_share.value)), "")
}

fn outlier_share() -> Fraction {
    Fraction(thresholds().layers.outlier_share.value)
}

fn layer_row(stage: &StageLayers, kind: &Kind) -> LayerRow {
    let us = |duration: Option<&i64>| duration.map(|duration| Ns(*duration).into());
    LayerRow {
        stage: stage.stage,
        kind: label(kind.number).to_owned(),
        count: kind.count,
        pattern: pattern(&stage.order),
        kernels: kind.kernels,
        median_us: median(&kind.durations_ns).map(|median| Us(median / 1e3)),
        min_us: us(kind.durations_ns.first()),
        max_us: us(kind.durations_ns.last()),
        equal_layers: kind.equal_layers,
        outliers: (!kind.outliers.is_empty()).then(|| first_numbers(&kind.outliers, MAX_OUTLIERS)),
        steps: stage.steps,
        total_ns: kind.total(),
        share_of_step_pct: Pct::of(kind.total(), stage.span()),
    }
}

fn role_row(rates: &StageRates, stage: &StageLayers, kind: Option<&Kind>, role: &RoleTime) -> LayerRoleRow {
    let rates = rates.rates(stage, kind, role);
    LayerRoleRow {
        stage: stage.stage,
        kind: kind.map_or(OUTSIDE, |kind| label(kind.number)).to_owned(),
        role: role.role.clone(),
        kernels: role.kernels,
        median_us: role.median_us.map(Us),
        spread_pct: role.spread_pct.map(Pct),
        total_ns: role.total,
        share_of_step_pct: Pct::of(role.total, stage.span()),
        tflops: rates.tflops,
        tb_per_s: rates.tb_per_s,
        of_peak_pct: rates.of_peak_pct.map(Pct),
        basis: rates.basis,
        position: role.position,
    }
}

#[cfg(test)]
mod tests;
