//! The thresholds of the inference lens, from `patterns/inference.json`, which gives the reason for each. Read once.

use crate::json::{self, FromJson, Json, JsonError, JsonResult, Members, embedded, from_json};
use std::sync::LazyLock;

/// A threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Threshold<T> {
    pub(crate) value: T,
}

impl<T: FromJson> FromJson for Threshold<T> {
    fn from_json(json: Json<'_>) -> JsonResult<Self> {
        let members = Members::of(json)?;
        members.reject_unknown(&["value", "why"])?;
        let why: String = members.take("why")?;
        if why.is_empty() {
            return Err(JsonError::new("a threshold without a reason"));
        }
        Ok(Self { value: members.take("value")? })
    }
}

type Count = Threshold<usize>;
type Number = Threshold<f64>;

/// When ops are layers.
#[derive(Debug)]
pub(crate) struct LayerThresholds {
    /// Kinds of layers of a model.
    pub(crate) max_kinds: Count,
    /// Names that two layers of one kind have in common (multiset Jaccard index).
    pub(crate) min_common_names_share: Number,
    /// Layers that end before a norm.
    pub(crate) min_cut_layers_share: Number,
    /// Layers in a repeated block, and first layers that differ from the others.
    pub(crate) max_block_layers: Count,
    /// Ops by which two kinds differ that may be one, of which the profiler lost records.
    pub(crate) max_lost_ops: Count,
    /// Layers of a kind in a single pass that lost records could explain.
    pub(crate) min_near_layers: Count,
    /// The part of a step in repeated layers, without LM head and sampling, in which a small model spends much time.
    pub(crate) min_folded_share: Number,
    /// Layers with the same sequence of kernels that prove the others.
    pub(crate) min_equal_layers: Count,
    /// The part of a step in layers that are proven so.
    pub(crate) min_equal_share: Number,
    /// A layer that differs by more from the median of its kind is an outlier.
    pub(crate) outlier_share: Number,
}
from_json!(strict LayerThresholds {
    max_kinds, min_common_names_share, min_cut_layers_share, max_block_layers, max_lost_ops, min_near_layers,
    min_folded_share, min_equal_layers, min_equal_share, outlier_share
});

/// When the order of kernels shows steps.
#[derive(Debug)]
pub(crate) struct InferredStepThresholds {
    /// Layers of a step.
    pub(crate) min_layers: Count,
    /// Steps with the usual number of layers.
    pub(crate) min_equal_steps_share: Number,
    /// Independent signs that must agree.
    pub(crate) min_signs: Count,
    /// Gaps between layers in which a sign occurs.
    pub(crate) max_sign_gaps_share: Number,
    /// Ops after sampling among which the copy of the tokens to the host is searched.
    pub(crate) max_ops_to_copy: Count,
}
from_json!(strict InferredStepThresholds {
    min_layers, min_equal_steps_share, min_signs, max_sign_gaps_share, max_ops_to_copy
});

/// When kernels that repeat show steps.
#[derive(Debug)]
pub(crate) struct PeriodThresholds {
    /// Launches of a kernel.
    pub(crate) min_repeats: Count,
    /// Ops from one to the next, unless it is a graph.
    pub(crate) min_ops: Count,
    /// Equal distances, and repeats that end like a step.
    pub(crate) min_even_share: Number,
    /// Ops by which equal distances differ.
    pub(crate) max_uneven_share: Number,
    /// Kernels from the first launch on to a distance after the last.
    pub(crate) min_covered_share: Number,
}
from_json!(strict PeriodThresholds { min_repeats, min_ops, min_even_share, max_uneven_share, min_covered_share });

/// When steps without a stage are of one kind.
#[derive(Debug)]
pub(crate) struct KindThresholds {
    /// Launches of the same kernels, of those of two steps.
    pub(crate) min_common_launches_share: Number,
    /// The size of the next larger step from which on it is of another kind.
    pub(crate) min_size_ratio: Number,
}
from_json!(strict KindThresholds { min_common_launches_share, min_size_ratio });

/// Which steps count, and what belongs to them.
#[derive(Debug)]
pub(crate) struct StepTimeThresholds {
    /// With this number of steps that reach to the next step, the others do not count in a median.
    pub(crate) min_steps_with_next: Count,
    /// An op this close to a step still belongs to it.
    pub(crate) max_annotation_distance_ms: Count,
}
from_json!(strict StepTimeThresholds { min_steps_with_next, max_annotation_distance_ms });

/// When a line through step times is drawn.
#[derive(Debug)]
pub(crate) struct LineThresholds {
    pub(crate) min_steps: Count,
    pub(crate) min_batch_sizes: Count,
    /// The part of the variance of batch and context that is not common to both.
    pub(crate) min_independent_share: Number,
}
from_json!(strict LineThresholds { min_steps, min_batch_sizes, min_independent_share });

/// When kernels take longer from step to step.
#[derive(Debug)]
pub(crate) struct DriftThresholds {
    /// Steps of the same load.
    pub(crate) min_steps: Count,
    /// Steps that launch a kernel as often as most do.
    pub(crate) min_equal_steps_share: Number,
    /// Standard deviations of the rank test from a random order.
    pub(crate) min_sigmas: Number,
    /// The change of the kernel time of a step from which the verdict states it.
    pub(crate) min_change_share: Number,
    /// The part of the change that a category has that drifts alone.
    pub(crate) main_share: Number,
    /// The part of the kernel time of a category whose change is compared with others.
    pub(crate) min_category_share: Number,
    /// By how much the changes of categories that drift alike differ.
    pub(crate) max_alike_ratio: Number,
}
from_json!(strict DriftThresholds {
    min_steps, min_equal_steps_share, min_sigmas, min_change_share, main_share, min_category_share, max_alike_ratio
});

/// Speculative decoding.
#[derive(Debug)]
pub(crate) struct SpeculationThresholds {
    /// Batch sizes whose steps are compared.
    pub(crate) max_batch_ratio: Number,
}
from_json!(strict SpeculationThresholds { max_batch_ratio });

/// When the work of kernels counts as known.
#[derive(Debug)]
pub(crate) struct WorkThresholds {
    /// Time of kernels that belongs to ops with known cost.
    pub(crate) min_owned_time_share: Number,
    /// Difference of the loads of steps from their mean.
    pub(crate) max_load_spread_share: Number,
    /// The most bytes over the least.
    pub(crate) max_known_bytes_ratio: Number,
    /// Ops of a step in one launch that is its whole graph.
    pub(crate) min_full_graph_share: Number,
    /// Products of a step with the same number of rows, of all.
    pub(crate) min_equal_rows_share: Number,
    /// The same as a number.
    pub(crate) min_products: Count,
}
from_json!(strict WorkThresholds {
    min_owned_time_share, max_load_spread_share, max_known_bytes_ratio, min_full_graph_share,
    min_equal_rows_share, min_products
});

/// When durations in replays belong to other kernels.
#[derive(Debug)]
pub(crate) struct ShiftThresholds {
    /// Ops in a layer.
    pub(crate) min_layer_ops: Count,
    /// Layers of a replay.
    pub(crate) min_layers: Count,
    /// Names that repeat at the distance of a layer.
    pub(crate) min_repeated_share: Number,
    /// The largest shift that is tried.
    pub(crate) max_shift_ops: Count,
    /// The mean logarithm of the ratios of durations from which on a layer differs from the median layer.
    pub(crate) min_different_log_ratio: Number,
    /// The distance of a shifted layer at its shift over the distance without a shift.
    pub(crate) max_shifted_distance_ratio: Number,
    /// Shifted layers from which on the durations are reported.
    pub(crate) min_shifted_layers: Count,
    /// The mean logarithm of the ratios of durations at the distance of a layer, at most.
    pub(crate) max_period_log_ratio: Number,
    /// That mean over the one to the median of all durations, at most.
    pub(crate) max_period_distance_ratio: Number,
    /// The share of names of a shifted layer that are at their place, at most.
    pub(crate) max_in_place_share: Number,
    /// The share that are at the place of its shift, at least.
    pub(crate) min_at_shift_share: Number,
}
from_json!(strict ShiftThresholds {
    min_layer_ops, min_layers, min_repeated_share, max_shift_ops, min_different_log_ratio, max_shifted_distance_ratio,
    min_shifted_layers, max_period_log_ratio, max_period_distance_ratio, max_in_place_share, min_at_shift_share
});

/// When a range marks the repeated unit of work.
#[derive(Debug)]
pub(crate) struct RangeThresholds {
    /// Ranges of one name.
    pub(crate) min_repeats: Threshold<u64>,
    /// GPU ops launched in ranges with plain names, of those launched between the first and the last.
    pub(crate) min_covered_launches_share: Number,
}
from_json!(strict RangeThresholds { min_repeats, min_covered_launches_share });

/// `patterns/inference.json`.
#[derive(Debug)]
pub(crate) struct Thresholds {
    pub(crate) layers: LayerThresholds,
    pub(crate) steps_by_kernels: InferredStepThresholds,
    pub(crate) steps_by_period: PeriodThresholds,
    pub(crate) step_kinds: KindThresholds,
    pub(crate) step_times: StepTimeThresholds,
    pub(crate) step_time_line: LineThresholds,
    pub(crate) step_drift: DriftThresholds,
    pub(crate) speculation: SpeculationThresholds,
    pub(crate) work: WorkThresholds,
    pub(crate) shifted_durations: ShiftThresholds,
    pub(crate) ranges: RangeThresholds,
}
from_json!(Thresholds {
    layers,
    steps_by_kernels,
    steps_by_period,
    step_kinds,
    step_times,
    step_time_line,
    step_drift,
    speculation,
    work,
    shifted_durations,
    ranges
});

static THRESHOLDS: LazyLock<Thresholds> = LazyLock::new(|| embedded(json::read(TEXT)));
const TEXT: &str = include_str!("../../patterns/inference.json");

/// The thresholds.
pub(crate) fn thresholds() -> &'static Thresholds {
    &THRESHOLDS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_threshold_has_a_unit_in_its_range_and_a_reason() {
        let json = Json::parse(TEXT).unwrap();
        assert_eq!(json.members().count(), 12, "an explanation, and the groups of the struct");
        for (group, thresholds) in json.members().filter(|(group, _)| *group != "about") {
            for (name, threshold) in thresholds.members() {
                let value = threshold.get_path(&["value"]).and_then(Json::number).unwrap();
                let why = threshold.get_path(&["why"]).and_then(Json::text).unwrap();
                let is_plausible = match name.rsplit('_').next() {
                    Some("share") => value > 0.0 && value < 1.0,
                    Some("ratio") => value > 0.0 && value < 10.0,
                    _ => value >= 1.0 && value.fract() == 0.0,
                };
                assert!(is_plausible, "{group} {name} {value}");
                assert!(why.ends_with('.') && why.len() < 120, "{group} {name}: {why}");
            }
        }
    }

    #[test]
    fn a_threshold_without_a_reason_or_with_an_unknown_member_is_refused() {
        let read = |text: &str| json::read::<Threshold<usize>>(text).map(|threshold| threshold.value).ok();
        assert_eq!(read(r#"{"value": 3, "why": "Because."}"#), Some(3));
        for text in [r#"{"value": 3}"#, r#"{"value": 3, "why": ""}"#, r#"{"value": 0.5, "why": "x"}"#] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(read(r#"{"value": 3, "why": "x", "unit": "layers"}"#), None);
    }
}
