//! Divides a training step into the layers of its forward and its backward pass, and those that the backward pass computes again
//! before it computes their gradients (activation checkpointing). O(ops) plus the costs of [`fold`].
//!
//! A backward pass runs the layers in reverse order, and each of them backwards. Recomputed layers run forwards. They are told apart if
//! whole layers are recomputed; of a part of a layer the ops stay in the layer of the backward pass.

use super::fold::{Folded, fold};
use super::kernel_roles::{Direction, NameRoles};
use crate::analysis::measure::mode::mode;
use crate::trace::NameId;
use std::ops::Range;

/// The ops of a backward pass.
pub(super) struct Backward {
    /// Their indices.
    pub(super) range: Range<usize>,
    /// Whether each of them belongs to a forward pass that runs again.
    pub(super) recomputed: Vec<bool>,
}

/// A layer with its direction.
type Layer = (Range<usize>, Direction);

/// The layers of a training step. `None` if a pass does not consist of layers.
pub(super) fn fold_training(names: &[NameId], backward: &Backward, roles: &NameRoles) -> Option<Folded> {
    let forward = trimmed(fold(names.get(..backward.range.start)?, roles)?.layers);
    let usual = mode(forward.iter().map(|layer| layer.len() as i64).collect())?;
    let runs = runs(names, backward, roles, usual as usize);
    let later = match runs.as_slice() {
        [(only, Direction::Backward)] => {
            backward_layers(names, only, roles)?.into_iter().map(|layer| (layer, Direction::Backward)).collect()
        }
        runs => layers_of_runs(names, runs, roles),
    };
    let (layers, directions) = forward.into_iter().map(|layer| (layer, Direction::Forward)).chain(later).unzip();
    Some(Folded { layers, directions })
}

/// The backward pass as runs of ops of one direction. `usual` is the number of ops of a layer: fewer than half of it are no layer.
fn runs(names: &[NameId], backward: &Backward, roles: &NameRoles, usual: usize) -> Vec<Layer> {
    let mut runs: Vec<Layer> = Vec::new();
    let mut start = backward.range.start;
    for chunk in backward.recomputed.chunk_by(|a, b| a == b) {
        let run = start..start + chunk.len();
        start = run.end;
        let is_layer = chunk.first() == Some(&true) && 2 * run.len() >= usual && has_attention(names, &run, roles);
        let direction = if is_layer { Direction::Recomputed } else { Direction::Backward };
        match runs.last_mut().filter(|(_, last)| *last == direction) {
            Some((last, _)) => last.end = run.end,
            None => runs.push((run, direction)),
        }
    }
    runs
}

/// The layers of each run: several, or the run itself if it has attention.
fn layers_of_runs(names: &[NameId], runs: &[Layer], roles: &NameRoles) -> Vec<Layer> {
    let mut layers: Vec<Layer> = Vec::new();
    for (run, direction) in runs {
        let several = match direction {
            Direction::Backward => backward_layers(names, run, roles),
            Direction::Recomputed | Direction::Forward => forward_layers(names, run, roles),
        };
        let one = || has_attention(names, run, roles).then(|| run.clone()).into_iter().collect();
        layers.extend(several.unwrap_or_else(one).into_iter().map(|layer| (layer, *direction)));
    }
    // What follows the gradients of the first layer belongs to no layer.
    let backward = layers.iter_mut().map(|(layer, direction)| (layer, *direction));
    let mut backward: Vec<&mut Range<usize>> =
        backward.filter(|(_, direction)| *direction == Direction::Backward).map(|(layer, _)| layer).collect();
    if let Some(last) = backward.pop()
        && let Some(usual) = mode(backward.iter().map(|layer| layer.len() as i64).collect())
    {
        last.end = last.end.min(last.start + usual as usize);
    }
    layers
}

fn has_attention(names: &[NameId], run: &Range<usize>, roles: &NameRoles) -> bool {
    names.get(run.clone()).unwrap_or_default().iter().any(|name| roles.get(*name).is_attention())
}

fn forward_layers(names: &[NameId], run: &Range<usize>, roles: &NameRoles) -> Option<Vec<Range<usize>>> {
    let layers = trimmed(fold(names.get(run.clone())?, roles)?.layers);
    Some(layers.into_iter().map(|layer| run.start + layer.start..run.start + layer.end).collect())
}

fn backward_layers(names: &[NameId], run: &Range<usize>, roles: &NameRoles) -> Option<Vec<Range<usize>>> {
    let reversed: Vec<NameId> = names.get(run.clone())?.iter().rev().copied().collect();
    let layers = trimmed(fold(&reversed, roles)?.layers);
    Some(layers.into_iter().rev().map(|layer| run.end - layer.end..run.end - layer.start).collect())
}

/// The layers, of which the last has at most as many ops as most others: without a final norm it would hold the LM head and the loss.
fn trimmed(mut layers: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let others = layers.iter().rev().skip(1).map(|layer| layer.len() as i64).collect();
    if let (Some(usual), Some(last)) = (mode(others), layers.last_mut()) {
        last.end = last.end.min(last.start + usual as usize);
    }
    layers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::testing::TestTrace;

    const LAYER: [&str; 9] = [
        "rms_norm",
        "gemm_qkv",
        "rope",
        "flash_fwd",
        "gemm_o",
        "add_rms_norm",
        "gemm_gate_up",
        "silu_and_mul",
        "gemm_down",
    ];
    const HEAD: [&str; 3] = ["loss_backward", "gemm_head_backward", "rms_norm_backward"];

    fn backward_layer() -> Vec<String> {
        LAYER.iter().rev().map(|name| format!("{name}_backward")).collect()
    }

    /// Folds an embedding, three layers and the LM head, and then these ops of the backward pass.
    fn folded(backward: &[&str], recomputed: &[bool]) -> Folded {
        let forward: Vec<&str> =
            ["embedding"].into_iter().chain(LAYER.repeat(3)).chain(["rms_norm", "gemm_head", "loss"]).collect();
        let mut trace = TestTrace::new();
        for (name, start) in forward.iter().chain(backward).zip((0..).step_by(10)) {
            trace.kernel(name, start..start + 5);
        }
        let trace = trace.finish();
        let ids: Vec<NameId> = trace.gpu_ops.iter().map(|op| op.name).collect();
        let backward = Backward { range: 31..31 + recomputed.len(), recomputed: recomputed.to_vec() };
        fold_training(&ids, &backward, &NameRoles::of(&trace)).unwrap()
    }

    /// The backward pass of a layer runs its ops in reverse order; the LM head and the loss are between the two passes.
    #[test]
    fn a_training_step_has_the_layers_of_both_passes() {
        let layer = backward_layer();
        let layer: Vec<&str> = layer.iter().map(String::as_str).collect();
        let backward = [&HEAD[..], &layer.repeat(3), &["embedding_backward", "adam"]].concat();
        let found = folded(&backward, &[false; 31]);
        // 1 op before the layers of 9 ops; 3 ops of the head in each direction; the embedding last.
        assert_eq!(found.layers, [1..10, 10..19, 19..28, 34..43, 43..52, 52..61]);
        assert_eq!(found.directions, [[Direction::Forward; 3], [Direction::Backward; 3]].concat());
    }

    /// Each layer is computed again before its gradients. Of the last op of a layer no result is needed.
    #[test]
    fn layers_that_the_backward_pass_computes_again_are_layers_of_their_own() {
        let layer = backward_layer();
        let layer: Vec<&str> = layer.iter().map(String::as_str).collect();
        let again = [&LAYER[..8], &layer].concat();
        let backward = [&HEAD[..], &again.repeat(3), &["embedding_backward"]].concat();
        let flags = [[true; 8].as_slice(), &[false; 9]].concat();
        let recomputed = [&[false; 3][..], &flags.repeat(3), &[false]].concat();
        let found = folded(&backward, &recomputed);
        assert_eq!(found.layers.get(3..), Some(&[34..42, 42..51, 51..59, 59..68, 68..76, 76..85][..]));
        let pair = [Direction::Recomputed, Direction::Backward];
        assert_eq!(found.directions, [&[Direction::Forward; 3][..], &pair.repeat(3)].concat());
    }
}
