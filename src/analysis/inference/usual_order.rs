//! Selects the sequence of layers of a stage from its passes, and rejects sequences that lost records or a cut capture may have
//! made. O(passes^2) comparisons of short lists in the worst case, with a bounded number of passes.
//!
//! A profiler may lose records. Without the record of its attention a layer joins the next one, and without another record it may
//! look like another kind of layer. Several passes with the same sequence are evidence; a single pass has to have the
//! sequence of a model: some first layers, then a repeated block.

use super::fold::{Kinds, is_periodic};
use super::folded_pass::FoldedPass;
use crate::ordering;
use crate::rules::inference::thresholds;

/// The passes with the most frequent sequence of kinds, which are renumbered by frequency. Empty if the sequence is not certain.
/// `tried` is the number of passes, with those that do not consist of layers.
pub(super) fn usual_passes(passes: Vec<FoldedPass>, tried: usize, kinds: &Kinds) -> Vec<FoldedPass> {
    let Some(order) = most_frequent(&passes) else { return Vec::new() };
    // Passes with other kernels, such as those for other batch sizes, may have the same sequence.
    let similar = passes.iter().filter(|pass| renumbered(&pass.order) == renumbered(&order)).count();
    let is_usual = |pass: &FoldedPass| pass.order == order;
    let mut passes: Vec<FoldedPass> = passes.into_iter().filter(is_usual).collect();
    let is_majority = 2 * similar > tried;
    if !is_majority || !is_certain(&order, passes.len(), kinds) {
        return Vec::new();
    }
    let numbers = by_frequency(&order);
    for kind in passes.iter_mut().flat_map(|pass| &mut pass.order) {
        *kind = numbers.iter().position(|other| other == kind).unwrap_or_default();
    }
    passes
}

/// Whether `equal` passes with this sequence prove it.
fn is_certain(order: &[usize], equal: usize, kinds: &Kinds) -> bool {
    let (present, limits) = (by_frequency(order), &thresholds().layers);
    if present.len() > limits.max_kinds.value {
        return false;
    }
    let others = |kind: usize| present.iter().copied().filter(|other| *other != kind).collect::<Vec<_>>();
    if present.iter().any(|kind| kinds.is_joined(*kind, &others(*kind))) {
        return false;
    }
    let is_rare = |kind: usize| order.iter().filter(|other| **other == kind).count() < limits.min_near_layers.value;
    let is_lost = |kind: usize| is_rare(kind) && others(kind).into_iter().any(|other| kinds.is_near(kind, other));
    equal > 1 || is_regular(order) && !present.iter().any(|kind| is_lost(*kind))
}

/// Whether a block of layers occurs at least twice, perhaps after first layers of another kind.
fn is_regular(order: &[usize]) -> bool {
    let max_block = thresholds().layers.max_block_layers.value;
    let is_repeated = |rest: &[usize]| (1..=max_block).any(|size| rest.len() >= 2 * size && is_periodic(rest, size));
    let (first, rest) = order.split_at(order.chunk_by(|a, b| a == b).next().map_or(0, <[usize]>::len));
    let has_first = first.len() <= max_block && first.iter().all(|kind| !rest.contains(kind));
    is_repeated(order) || has_first && is_repeated(rest)
}

/// The sequence that most passes have; of equally frequent ones the first.
fn most_frequent(passes: &[FoldedPass]) -> Option<Vec<usize>> {
    let count = |order: &[usize]| passes.iter().filter(|pass| pass.order == order).count();
    let mut orders: Vec<(&[usize], usize)> = Vec::new();
    for pass in passes {
        if !orders.iter().any(|(order, _)| *order == pass.order) {
            orders.push((&pass.order, count(&pass.order)));
        }
    }
    orders.into_iter().rev().max_by_key(|(_, count)| *count).map(|(order, _)| order.to_vec())
}

/// The kinds of a sequence, the most frequent first; of equally frequent ones the one that comes first.
fn by_frequency(order: &[usize]) -> Vec<usize> {
    let mut kinds = by_first(order);
    ordering::sort_by_key(&mut kinds, |kind| std::cmp::Reverse(order.iter().filter(|other| *other == kind).count()));
    kinds
}

/// The kinds of a sequence in the order of their first layers.
fn by_first(order: &[usize]) -> Vec<usize> {
    let mut kinds: Vec<usize> = Vec::new();
    for kind in order {
        if !kinds.contains(kind) {
            kinds.push(*kind);
        }
    }
    kinds
}

/// A sequence with its kinds numbered by their first layers.
fn renumbered(order: &[usize]) -> Vec<usize> {
    let kinds = by_first(order);
    order.iter().filter_map(|kind| kinds.iter().position(|other| other == kind)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_of_models_are_first_layers_and_a_repeated_block() {
        let regular =
            [vec![0; 48], [0, 1].repeat(12), [vec![1; 3], vec![0; 58]].concat(), [vec![1], vec![0; 26]].concat()];
        assert!(regular.iter().all(|order| is_regular(order)));
        // 26 layers of which every sixth has full attention.
        assert!(is_regular(&[0, 0, 0, 0, 0, 1].repeat(5)[..26]));
        let lost = [
            [vec![0; 5], vec![1], vec![0; 10]].concat(),
            [vec![0; 15], vec![1]].concat(),
            vec![0, 1, 2],
            vec![0, 0, 0, 1, 0, 1, 0],
        ];
        assert!(!lost.iter().any(|order| is_regular(order)));
    }

    #[test]
    fn kinds_are_numbered_by_frequency_then_by_their_first_layer() {
        assert_eq!(by_frequency(&[2, 0, 0, 1, 2]), [2, 0, 1]);
        assert_eq!(renumbered(&[5, 3, 5, 7]), [0, 1, 0, 2]);
    }
}
