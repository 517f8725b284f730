//! When each layer of a forward pass ran, and the roles in it, for the timeline. Only of the passes that have the usual layers of
//! their stage. O(ops of these passes).

use super::fold::Kinds;
use super::folded_pass::{FoldedPass, Source};
use super::kernel_roles::{Direction, NameRole, NameRoles, roles_of_layer};
use super::passes::Passes;
use super::usual_order::usual_passes;
use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::structure::stages::Stage;
use crate::trace::{DeviceId, GpuOp, Ns, Trace};

/// One layer of one pass, on its main stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LayerSpan {
    pub(crate) device: DeviceId,
    pub(crate) start: Ns,
    /// At most the start of the next layer.
    pub(crate) end: Ns,
    /// Its place in the pass, from 1, and the number of layers of the pass.
    pub(crate) number: usize,
    pub(crate) layers: usize,
    /// Its kind, from 0, and the number of kinds.
    pub(crate) kind: usize,
    pub(crate) kinds: usize,
    pub(crate) roles: Vec<RoleSpan>,
}

/// Consecutive kernels of a layer with the same role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RoleSpan {
    pub(crate) role: String,
    pub(crate) start: Ns,
    /// At most the start of the next role.
    pub(crate) end: Ns,
    pub(crate) kernels: usize,
}

/// The layers of all passes, sorted by start.
pub(crate) fn layer_spans(trace: &Trace) -> Vec<LayerSpan> {
    let roles = NameRoles::of(trace);
    let passes = Passes::of(&ClassifiedTrace::new(trace), &roles);
    // Work that the trace does not contain changes the length of a pass, which is not used here.
    let source = Source { trace, passes: &passes, roles: &roles, unseen: &[] };
    let mut spans: Vec<LayerSpan> = passes.stages().flat_map(|stage| spans_of_stage(&source, stage)).collect();
    spans.sort_unstable_by_key(|span| (span.start, span.number));
    spans
}

fn spans_of_stage(source: &Source, stage: Stage) -> Vec<LayerSpan> {
    let (mut kinds, mut folded, mut tried) = (Kinds::default(), Vec::new(), 0);
    for pass in source.passes.of_stage(stage) {
        let found = FoldedPass::of(source, pass, &mut kinds);
        if !found.as_ref().is_some_and(|found| found.is_cut(source, pass)) {
            tried += 1;
            folded.extend(found);
        }
    }
    let mut passes = usual_passes(folded, tried, &kinds);
    passes.retain(|pass| pass.explains_step(source));
    passes.iter().flat_map(|pass| spans_of_pass(source, pass)).collect()
}

fn spans_of_pass(source: &Source, pass: &FoldedPass) -> Vec<LayerSpan> {
    let kinds = pass.order.iter().max().map_or(0, |last| last + 1);
    let layers = pass.folded.layers.iter().zip(&pass.order).zip(1..);
    let span = |((layer, kind), number): ((&std::ops::Range<usize>, &usize), usize)| {
        let ops: Vec<&GpuOp> = pass.layer(layer).collect();
        let first = ops.first()?;
        Some(LayerSpan {
            device: first.device,
            start: first.start,
            end: ops.iter().map(|op| op.end()).max()?,
            number,
            layers: pass.folded.layers.len(),
            kind: *kind,
            kinds,
            roles: roles_of(source.roles, &ops, pass.folded.direction(number - 1)),
        })
    };
    let mut spans: Vec<LayerSpan> = layers.filter_map(span).collect();
    // The first kernel of a layer may start before the last one of the layer before ends.
    let next: Vec<Ns> = spans.iter().skip(1).map(|span| span.start).collect();
    for (span, next) in spans.iter_mut().zip(next) {
        span.end = span.end.min(next);
        span.roles.iter_mut().for_each(|role| role.end = role.end.min(span.end));
    }
    spans
}

fn roles_of(names: &NameRoles, ops: &[&GpuOp], direction: Direction) -> Vec<RoleSpan> {
    let raw: Vec<NameRole> = ops.iter().map(|op| names.get(op.name)).collect();
    let mut spans: Vec<RoleSpan> = Vec::new();
    for (op, role) in ops.iter().zip(roles_of_layer(&raw, direction)) {
        match spans.last_mut().filter(|last| last.role == role) {
            Some(last) => {
                last.end = last.end.max(op.end());
                last.kernels += 1;
            }
            None => {
                spans.last_mut().into_iter().for_each(|last| last.end = last.end.min(op.start));
                spans.push(RoleSpan { role, start: op.start, end: op.end(), kernels: 1 });
            }
        }
    }
    spans
}
