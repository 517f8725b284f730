//! Finds layers of a replay by its durations, and compares their names.
//!
//! If a profiler assigns the names of a replay to its times in order and loses some names or inserts others, the durations still repeat
//! from layer to layer, and the names are shifted against them: a shifted layer has the names of its neighbouring positions. A
//! layer of another kind has other names, at the same places. O(ops * period) for a replay.

use crate::ordering;
use crate::rules::inference::thresholds;
use std::collections::BTreeMap;

/// The maximum number of ops in a layer.
pub(super) const MAX_PERIOD: usize = 512;

/// The layers whose names the others are compared with: the first ones.
const REFERENCE_LAYERS: usize = 3;

/// What layers have at one position.
struct Position {
    /// In most of the first layers.
    name: u32,
    /// The logarithm of the median duration of all layers.
    duration: f64,
}

/// The number of layers of a replay and of those whose names are shifted; `None` if the durations do not repeat.
pub(super) fn layers(names: &[u32], durations_ns: &[f64]) -> Option<(usize, usize)> {
    let logarithms: Vec<f64> = durations_ns.iter().map(|duration| duration.max(1.0).ln()).collect();
    let period = period(&logarithms)?;
    let positions: Vec<Position> = (0..period).map(|position| typical(names, &logarithms, position, period)).collect();
    let layers = || names.chunks_exact(period).zip(logarithms.chunks_exact(period));
    let shifted = layers().filter(|(names, durations)| is_shifted(names, durations, &positions)).count();
    Some((layers().count(), shifted))
}

/// The smallest distance at which the durations repeat.
fn period(logarithms: &[f64]) -> Option<usize> {
    let limits = &thresholds().shifted_durations;
    let median = median(logarithms.to_vec());
    let spread = logarithms.iter().map(|value| (value - median).abs()).sum::<f64>() / logarithms.len().max(1) as f64;
    let limit = limits.max_period_log_ratio.value.min(limits.max_period_distance_ratio.value * spread);
    if limit <= 0.0 {
        return None;
    }
    let most = (logarithms.len() / limits.min_layers.value.max(1)).min(MAX_PERIOD);
    (limits.min_layer_ops.value..=most).find(|&period| {
        // Most distances exceed the limit after a part of the ops.
        let mut rest = limit * (logarithms.len() - period) as f64;
        logarithms.iter().zip(logarithms.iter().skip(period)).all(|(now, later)| {
            rest -= (now - later).abs();
            rest >= 0.0
        })
    })
}

fn typical(names: &[u32], logarithms: &[f64], position: usize, period: usize) -> Position {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    // Until the first loss, the names are right.
    let first = names.iter().skip(position).step_by(period).take(REFERENCE_LAYERS);
    first.for_each(|name| *counts.entry(*name).or_default() += 1);
    let name = counts.into_iter().max_by_key(|(_, count)| *count).map_or(u32::MAX, |(name, _)| name);
    Position { name, duration: median(logarithms.iter().skip(position).step_by(period).copied().collect()) }
}

/// Whether the names of a layer are those of its positions at a shift, and its durations are not.
fn is_shifted(names: &[u32], durations: &[f64], positions: &[Position]) -> bool {
    let limits = &thresholds().shifted_durations;
    let period = positions.len();
    let shifted_by = |shift: usize| positions.iter().cycle().skip(shift).take(period);
    let share_of_names = |shift: usize| {
        let same = names.iter().zip(shifted_by(shift)).filter(|(name, position)| **name == position.name).count();
        same as f64 / period as f64
    };
    let distance = |shift: usize| {
        let pairs = durations.iter().zip(shifted_by(shift));
        pairs.map(|(duration, position)| (duration - position.duration).abs()).sum::<f64>() / period as f64
    };
    if share_of_names(0) > limits.max_in_place_share.value {
        return false;
    }
    let best = (1..period).map(|shift| (share_of_names(shift), shift)).max_by(|a, b| a.0.total_cmp(&b.0));
    let Some((_, shift)) = best.filter(|(share, _)| *share >= limits.min_at_shift_share.value) else { return false };
    let (in_place, at_names) = (distance(0), distance(shift));
    at_names > limits.min_different_log_ratio.value && in_place <= at_names * limits.max_shifted_distance_ratio.value
}

fn median(mut values: Vec<f64>) -> f64 {
    ordering::sort_by(&mut values, f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A layer of eleven ops: name and duration in microseconds.
    const LAYER: [(u32, f64); 11] = [
        (0, 7.0),
        (1, 60.0),
        (2, 4.0),
        (3, 5.0),
        (4, 25.0),
        (5, 40.0),
        (0, 7.0),
        (6, 9.0),
        (7, 290.0),
        (8, 12.0),
        (9, 160.0),
    ];

    /// A replay of 32 layers with noise of a few per cent. `name_of` maps the index of an op to the index of its name.
    fn replay(name_of: impl Fn(usize) -> usize) -> (Vec<u32>, Vec<f64>) {
        let ops = 0..32 * LAYER.len();
        let duration = |op: usize| LAYER[op % 11].1 * 1_000.0 * (1.0 + (op * 7 % 13) as f64 / 200.0);
        (ops.clone().map(|op| LAYER[name_of(op) % 11].0).collect(), ops.map(duration).collect())
    }

    fn found(name_of: impl Fn(usize) -> usize) -> (usize, usize) {
        let (names, durations) = replay(name_of);
        layers(&names, &durations).unwrap()
    }

    #[test]
    fn names_that_are_shifted_against_the_durations_are_found() {
        assert_eq!(found(|op| op), (32, 0));
        // From layer 12 on, one name is missing.
        assert_eq!(found(|op| if op < 132 { op } else { op + 1 }), (32, 20));
        // A further one is missing in every fourth layer after that.
        assert_eq!(found(|op| if op < 132 { op } else { op + 1 + (op - 132) / 44 }), (32, 20));
    }

    #[test]
    fn layers_of_another_kind_and_names_that_alternate_are_not_shifted() {
        let (mut names, durations) = replay(|op| op);
        for layer in names.chunks_exact_mut(11).skip(1).step_by(2) {
            layer.iter_mut().skip(4).for_each(|name| *name += 100);
        }
        assert_eq!(layers(&names, &durations), Some((32, 0)));
        // Two kernels change places in every third layer, and last equally long.
        for layer in names.chunks_exact_mut(11).step_by(3) {
            layer.swap(2, 3);
        }
        assert_eq!(layers(&names, &durations), Some((32, 0)));
    }

    #[test]
    fn durations_without_a_period_have_no_layers() {
        let durations: Vec<f64> = (0..352_u64).map(|op| ((op * op * 37 + 11) % 1_009 + 1) as f64 * 1e3).collect();
        assert_eq!(layers(&vec![0; 352], &durations), None);
        assert_eq!(layers(&[0; 352], &[5_000.0; 352]), None);
        assert_eq!(layers(&[], &[]), None);
    }
}
