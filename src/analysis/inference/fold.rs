//! Folds one forward pass into its layers: the repeated sequence of kernels around attention. O(ops) plus a comparison of
//! each layer with at most [`MAX_SEEN`] kinds.
//!
//! Attention kernels mark the layers; several without a matrix product between them count once. Where tokens are sampled between two of
//! them, as by the passes of a draft, the LM head and the embedding belong to no layer. A layer ends after the last
//! matrix product of its MLP, before the next normalization, so it begins with its input norm, also where that norm is
//! fused with the addition of the residual. Layers are of one kind if they have the same attention and expert kernels, and
//! most of all names in common (`patterns/inference.json`).

use super::kernel_roles::{Direction, NameRole, NameRoles};
use crate::analysis::measure::mode::mode;
use crate::rules::inference::thresholds;
use crate::trace::NameId;
use crate::words::layers;
use std::ops::Range;

/// The layers of one pass, as ranges of its ops on the main stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Folded {
    /// One range per layer, in order; adjacent, but for those before and after the end of a forward pass. Ops before the first are the
    /// head of the pass, other ops its tail.
    pub(crate) layers: Vec<Range<usize>>,
    /// The direction of each layer. Those of the forward pass come first.
    pub(crate) directions: Vec<Direction>,
}

impl Folded {
    /// The number of layers of the forward pass.
    pub(super) fn forward(&self) -> usize {
        self.directions.iter().take_while(|direction| **direction == Direction::Forward).count()
    }

    /// The direction of the layer with this index.
    pub(super) fn direction(&self, layer: usize) -> Direction {
        self.directions.get(layer).copied().unwrap_or_default()
    }
}

/// Divides a pass into layers. `names` are those of its ops on the stream with most kernel time, in order. `None` if it has
/// fewer than two attention kernels with an MLP between them.
pub(crate) fn fold(names: &[NameId], roles: &NameRoles) -> Option<Folded> {
    let roles: Vec<NameRole> = names.iter().map(|name| roles.get(*name)).collect();
    let anchors = anchors(&roles);
    if anchors.len() < 2 {
        return None;
    }
    let next_anchor = |index: usize| anchors.get(index + 1).map_or(roles.len(), |next| next.start);
    let ends: Vec<Option<usize>> =
        anchors.iter().enumerate().map(|(index, anchor)| layer_end(&roles, anchor.end, next_anchor(index))).collect();
    let min_cut = thresholds().layers.min_cut_layers_share.value;
    if (ends.iter().flatten().count() as f64) < min_cut * ends.len() as f64 {
        return None;
    }
    let lead = usual_lead(&anchors, &ends);
    let mut before = 0;
    let mut layers: Vec<Range<usize>> = Vec::with_capacity(anchors.len());
    for (index, (anchor, end)) in anchors.iter().zip(&ends).enumerate() {
        let is_first = index == 0 || samples(&roles, before..anchor.start);
        let start = if is_first { first_start(&roles, before..anchor.start, lead) } else { before };
        let without_cut = || anchors.get(index + 1).map_or(roles.len(), |next| next.start.saturating_sub(lead));
        let end = end.unwrap_or_else(without_cut).max(start);
        layers.push(start..end);
        before = end;
    }
    Some(Folded { directions: vec![Direction::Forward; layers.len()], layers })
}

/// Whether tokens are sampled among these ops: a forward pass ends there, such as that of a draft.
fn samples(roles: &[NameRole], range: Range<usize>) -> bool {
    roles.get(range).unwrap_or_default().contains(&NameRole::Sampling)
}

/// The start of the first layer of a forward pass, between the ops before it and its attention: the norm nearest to the usual number of
/// ops before attention.
fn first_start(roles: &[NameRole], range: Range<usize>, lead: usize) -> usize {
    let wanted = range.end.saturating_sub(lead).max(range.start);
    let norms = range.filter(|index| roles.get(*index).is_some_and(|role| role.is_norm()));
    norms.min_by_key(|index| index.abs_diff(wanted)).unwrap_or(wanted)
}

/// The attention of each layer: from its first to after its last attention op.
pub(super) fn anchors(roles: &[NameRole]) -> Vec<Range<usize>> {
    let mut anchors: Vec<Range<usize>> = Vec::new();
    let mut has_product_since = true;
    for (index, role) in roles.iter().enumerate() {
        if role.is_attention() {
            match anchors.last_mut().filter(|_| !has_product_since) {
                Some(anchor) => anchor.end = index + 1,
                None => anchors.push(index..index + 1),
            }
            has_product_since = false;
        }
        has_product_since |= matches!(role, NameRole::Gemm | NameRole::Experts);
    }
    anchors
}

/// The end of a layer: the first norm after the last matrix product of its MLP, between its attention and `next_anchor`. If tokens are
/// sampled before that norm, the LM head and what follows belong to no layer.
pub(super) fn layer_end(roles: &[NameRole], after_attention: usize, next_anchor: usize) -> Option<usize> {
    let find = |from: usize, is: &dyn Fn(NameRole) -> bool| {
        (from..next_anchor).find(|index| roles.get(*index).is_some_and(|role| is(*role)))
    };
    let is_mlp = |role: &NameRole| matches!(role, NameRole::Activation | NameRole::Experts | NameRole::MoeFinalize);
    let mlp = after_attention + roles.get(after_attention..next_anchor)?.iter().rposition(is_mlp)?;
    let is_last = |role| matches!(role, NameRole::Gemm | NameRole::Experts | NameRole::MoeFinalize);
    let last = find(mlp, &is_last).unwrap_or(mlp);
    let norm = find(last + 1, &NameRole::is_norm);
    if !samples(roles, last + 1..norm.unwrap_or(next_anchor)) {
        return norm;
    }
    find(last + 1, &|role| matches!(role, NameRole::Gemm | NameRole::Sampling))
}

/// The most frequent number of ops between the start of a layer and its attention.
fn usual_lead(anchors: &[Range<usize>], ends: &[Option<usize>]) -> usize {
    let leads = ends.iter().zip(anchors.iter().skip(1));
    let leads = leads.filter_map(|(end, next)| Some(next.start.saturating_sub((*end)?) as i64));
    mode(leads.collect()).unwrap_or_default() as usize
}

/// The number of kinds that are told apart. Lost records make layers of kinds that the model does not have.
const MAX_SEEN: usize = 16;

/// The kinds of layers that were seen, each by the names of its first layer.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    kinds: Vec<KindKey>,
}

#[derive(Debug)]
struct KindKey {
    direction: Direction,
    /// Sorted names of all ops; of some their roles, as negative numbers.
    names: Vec<i64>,
    /// Sorted names of the attention and expert ops.
    marks: Vec<i64>,
}

impl Kinds {
    /// The number of the kind of a layer, which may be a new one. `None` if that would be more than [`MAX_SEEN`].
    pub(crate) fn kind_of(
        &mut self,
        layer: &[NameId],
        roles: &NameRoles,
        direction: Direction,
        is_training: bool,
    ) -> Option<usize> {
        let is_mark = |name: &&NameId| roles.get(**name).is_attention() || roles.get(**name) == NameRole::Experts;
        // Of a training the compiler fuses other ops into the kernels of each layer, so their roles are compared.
        let by_role = |name: &NameId| is_training && roles.is_compiled(*name);
        let key = |name: &NameId| if by_role(name) { -1 - roles.get(*name) as i64 } else { i64::from(name.0) };
        let names = sorted(layer.iter().map(key));
        let marks = sorted(layer.iter().filter(is_mark).map(|name| i64::from(name.0)));
        let min_similarity = thresholds().layers.min_common_names_share.value;
        let is_same = |kind: &KindKey| {
            kind.direction == direction && kind.marks == marks && similarity(&kind.names, &names) >= min_similarity
        };
        if let Some(index) = self.kinds.iter().position(is_same) {
            return Some(index);
        }
        if self.kinds.len() == MAX_SEEN {
            return None;
        }
        self.kinds.push(KindKey { direction, names, marks });
        Some(self.kinds.len() - 1)
    }

    /// Whether a layer of this kind is two layers of other kinds: the record of the attention between them is lost.
    pub(super) fn is_joined(&self, kind: usize, others: &[usize]) -> bool {
        let names = |kind: usize| self.kinds.get(kind).map_or(&[][..], |kind| &kind.names);
        let min_similarity = thresholds().layers.min_common_names_share.value;
        let is_sum = |first: usize, second: usize| {
            let mut both = [names(first), names(second)].concat();
            both.sort_unstable();
            similarity(names(kind), &both) >= min_similarity
        };
        others.iter().any(|first| others.iter().any(|second| is_sum(*first, *second)))
    }

    /// Whether layers of these two kinds differ by so few ops that their records may be lost.
    pub(super) fn is_near(&self, a: usize, b: usize) -> bool {
        let names = |kind: usize| self.kinds.get(kind).map_or(&[][..], |kind| &kind.names);
        let (a, b) = (names(a), names(b));
        a.len() + b.len() - 2 * common(a, b) <= thresholds().layers.max_lost_ops.value
    }
}

fn sorted(names: impl Iterator<Item = i64>) -> Vec<i64> {
    let mut names: Vec<i64> = names.collect();
    names.sort_unstable();
    names
}

/// The multiset Jaccard index of two sorted lists.
fn similarity(a: &[i64], b: &[i64]) -> f64 {
    let common = common(a, b);
    common as f64 / (a.len() + b.len() - common).max(1) as f64
}

/// The number of values that two sorted lists have in common.
fn common(a: &[i64], b: &[i64]) -> usize {
    let (mut left, mut right) = (a.iter().peekable(), b.iter().peekable());
    let mut common = 0_usize;
    while let (Some(x), Some(y)) = (left.peek(), right.peek()) {
        match x.cmp(y) {
            std::cmp::Ordering::Less => left.next(),
            std::cmp::Ordering::Greater => right.next(),
            std::cmp::Ordering::Equal => {
                common += 1;
                left.next();
                right.next()
            }
        };
    }
    common
}

/// Writes a sequence of kinds as run lengths: `A48`, `A3M58`, and `(AB)12` if a block of a few layers repeats.
pub(crate) fn pattern(kinds: &[usize]) -> String {
    let repeats = |size: &usize| kinds.len() > *size && kinds.len().is_multiple_of(*size) && is_periodic(kinds, *size);
    match (1..=thresholds().layers.max_block_layers.value).find(repeats) {
        Some(1) | None => layers::pattern(&runs(kinds), 1),
        Some(size) => layers::pattern(&runs(kinds.get(..size).unwrap_or_default()), kinds.len() / size),
    }
}

pub(super) fn is_periodic(kinds: &[usize], period: usize) -> bool {
    kinds.iter().zip(kinds.iter().skip(period)).all(|(a, b)| a == b)
}

/// The label of each run of equal kinds, and its length.
fn runs(kinds: &[usize]) -> Vec<(&'static str, usize)> {
    let run = |run: &[usize]| (run.first().map_or("", |kind| label(*kind)), run.len());
    kinds.chunk_by(|a, b| a == b).map(run).collect()
}

/// The label of a kind: `A`, `B` or `C`.
pub(crate) fn label(kind: usize) -> &'static str {
    ["A", "B", "C"].get(kind).copied().unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::testing::TestTrace;

    const DENSE: [&str; 9] = [
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

    fn folded(names: &[&str]) -> Option<Vec<Range<usize>>> {
        let mut trace = TestTrace::new();
        names.iter().enumerate().for_each(|(index, name)| {
            trace.kernel(name, index as i64 * 10..index as i64 * 10 + 5);
        });
        let trace = trace.finish();
        let names: Vec<NameId> = trace.gpu_ops.iter().map(|op| op.name).collect();
        fold(&names, &NameRoles::of(&trace)).map(|folded| folded.layers)
    }

    #[test]
    fn a_layer_begins_with_its_input_norm_and_ends_with_the_down_projection() {
        let pass: Vec<&str> =
            ["embedding"].into_iter().chain(DENSE).chain(DENSE).chain(["rms_norm", "gemm_head"]).collect();
        assert_eq!(folded(&pass), Some(vec![1..10, 10..19]));
    }

    #[test]
    fn an_attention_kernel_and_its_reduction_are_one_layer() {
        let layer = [
            "rms_norm",
            "gemm_qkv",
            "flash_fwd",
            "flash_fwd_splitkv_combine",
            "gemm_o",
            "rms_norm",
            "gemm",
            "silu",
            "gemm",
        ];
        let pass: Vec<&str> = layer.into_iter().chain(layer).chain(["rms_norm"]).collect();
        assert_eq!(folded(&pass), Some(vec![0..9, 9..18]));
    }

    /// After the target the draft runs twice. Its head has no norm.
    #[test]
    fn heads_and_embeddings_of_several_passes_in_a_step_belong_to_no_layer() {
        let draft = [&["embedding", "gemm_fc"][..], &DENSE, &["gemm_head", "argmax"]].concat();
        let target = [&["embedding"][..], &DENSE.repeat(3), &["rms_norm", "gemm_head", "argmax"]].concat();
        let pass = [&target[..], &draft, &draft].concat();
        // 31 ops of the target; 13 of each draft.
        assert_eq!(folded(&pass), Some(vec![1..10, 10..19, 19..28, 33..42, 46..55]));
    }

    #[test]
    fn attention_without_an_mlp_is_no_layer() {
        assert_eq!(folded(&["flash_fwd", "gemm", "flash_fwd", "gemm", "flash_fwd"]), None);
        assert_eq!(folded(&DENSE), None, "one layer does not repeat");
        assert_eq!(folded(&[]), None);
    }

    #[test]
    fn patterns_are_run_lengths_of_the_shortest_block() {
        for (kinds, expected) in [
            (vec![0; 48], "A48"),
            ([0, 1].repeat(12), "(AB)12"),
            ([0, 0, 0, 1].repeat(8), "(A3B)8"),
            ([vec![1; 3], vec![0; 58]].concat(), "B3A58"),
            (vec![0], "A"),
            (vec![0, 1], "AB"),
            (vec![], ""),
        ] {
            assert_eq!(pattern(&kinds), expected);
        }
    }

    #[test]
    fn similarity_counts_names_as_often_as_they_occur() {
        // Common: 1, 1, 2; together: 1, 1, 2, 3, 4.
        assert_eq!(similarity(&[1, 1, 2, 3], &[1, 1, 2, 4]), 3.0 / 5.0);
        assert_eq!(similarity(&[], &[]), 0.0);
    }
}
