//! One forward pass divided into its layers: which op belongs to which layer, with which role. O(ops).

use super::floor::Load;
use super::fold::{Folded, Kinds, fold};
use super::fold_training::{Backward, fold_training};
use super::kernel_roles::{Direction, NameRole, NameRoles, roles_in_layer, roles_of_layer};
use super::passes::{Pass, Passes};
use crate::analysis::structure::stages::time_between;
use crate::ordering::VecMap;
use crate::rules::inference::thresholds;
use crate::trace::{GpuOp, HostTimes, NameId, Ns, OpKind, Trace};
use std::ops::Range;

/// The number of layers with which the head and the tail of a pass are compared.
const MAX_COMPARED: usize = 8;

/// The data that passes are divided by.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) trace: &'a Trace,
    pub(super) passes: &'a Passes,
    pub(super) roles: &'a NameRoles,
    /// By device: the intervals in which it executed work that the trace does not contain, sorted.
    pub(super) unseen: &'a [Vec<(Ns, Ns)>],
}

impl Source<'_> {
    /// The intervals of unseen work on the device of a pass.
    pub(super) fn unseen_of(&self, ops: &[GpuOp]) -> &[(Ns, Ns)] {
        let of_device = ops.first().and_then(|op| self.unseen.get(op.device.0 as usize));
        of_device.map_or(&[], Vec::as_slice)
    }
}

/// One pass with its layers.
pub(super) struct FoldedPass {
    /// The ops of all streams, sorted by start.
    pub(super) ops: Vec<GpuOp>,
    /// The rows of the ops in the trace, parallel to `ops`.
    pub(super) rows: Vec<u32>,
    /// The indices in `ops` of the ops of the main stream.
    main: Vec<usize>,
    pub(super) folded: Folded,
    /// The kind of each layer.
    pub(super) order: Vec<usize>,
    /// The time from the first start to the last end, without unseen work.
    pub(super) span: Ns,
    /// What it computes, as far as its step states it.
    pub(super) load: Load,
}

impl FoldedPass {
    /// Divides a pass into layers. `None` if it does not consist of layers.
    pub(super) fn of(source: &Source, pass: &Pass, kinds: &mut Kinds) -> Option<Self> {
        let (rows, ops): (Vec<u32>, Vec<GpuOp>) =
            source.passes.ops(source.trace, pass).map(|(row, op)| (row as u32, op)).unzip();
        let stream = main_stream(&ops)?;
        let on_main = ops.iter().enumerate().filter(|(_, op)| op.stream == stream);
        let (main, names): (Vec<usize>, Vec<NameId>) = on_main.map(|(index, op)| (index, op.name)).unzip();
        let backward = backward_ops(source.trace, main.iter().filter_map(|index| rows.get(*index).copied()));
        let folded = match backward {
            Some(backward) => fold_training(&names, &backward, source.roles)?,
            None => fold(&names, source.roles)?,
        };
        let is_training = folded.directions.contains(&Direction::Backward);
        let kind = |(layer, direction): (&Range<usize>, &Direction)| {
            kinds.kind_of(names.get(layer.clone())?, source.roles, *direction, is_training)
        };
        let order: Option<Vec<usize>> = folded.layers.iter().zip(&folded.directions).map(kind).collect();
        let (start, end) = (ops.first()?.start, ops.iter().map(GpuOp::end).max()?);
        let span = end.since(start).since(time_between(source.unseen_of(&ops), start, end));
        let load = Load::of(&pass.step.info());
        Some(Self { ops, rows, main, folded, order: order?, span, load })
    }

    /// Whether the capture may have begun or ended inside of this pass: it has the first or the last op of its device, and
    /// what is before its first layer is the end of a layer, or what is after its last layer the beginning of one. A norm alone
    /// after the last layer is the final norm of a model without LM head.
    pub(super) fn is_cut(&self, source: &Source, pass: &Pass) -> bool {
        let rows = source.passes.rows(pass);
        let (Some(first), Some(last)) = (rows.first().copied(), rows.last().copied()) else { return false };
        let device = self.ops.first().map(|op| op.device);
        let is_same = |row: u32| source.trace.gpu_ops.get(row as usize).map(|op| op.device) == device;
        let all = source.trace.gpu_ops.len() as u32;
        let name = |index: usize| self.main_op(index).map(|op| op.name);
        let names = |range: Range<usize>| range.map(name).collect::<Vec<_>>();
        let layers = || self.folded.layers.iter().take(MAX_COMPARED).map(|layer| names(layer.clone()));
        let start = self.folded.layers.first().map_or(0, |layer| layer.start);
        let end = self.folded.layers.last().map_or(0, |layer| layer.end);
        let (head, tail) = (names(0..start), names(end..self.main.len()));
        let is_product = |name: &Option<NameId>| name.is_some_and(|name| source.roles.get(name) == NameRole::Gemm);
        let is_final_norm = !tail.is_empty() && !tail.iter().any(is_product);
        let is_end = layers().any(|layer| layer.ends_with(&head));
        let is_beginning = !is_final_norm && layers().any(|layer| layer.starts_with(&tail));
        is_end && !(0..first).rev().any(is_same) || is_beginning && !(last + 1..all).any(is_same)
    }

    fn main_op(&self, index: usize) -> Option<&GpuOp> {
        self.ops.get(*self.main.get(index)?)
    }

    /// The ops of a layer on the main stream.
    pub(super) fn layer(&self, layer: &Range<usize>) -> impl Iterator<Item = &GpuOp> + Clone {
        self.main.get(layer.clone()).unwrap_or_default().iter().filter_map(|index| self.ops.get(*index))
    }

    /// The rows in the trace of the ops of a layer on the main stream.
    pub(super) fn rows_of_layer(&self, layer: &Range<usize>) -> Vec<u32> {
        let main = self.main.get(layer.clone()).unwrap_or_default();
        main.iter().filter_map(|index| self.rows.get(*index).copied()).collect()
    }

    pub(super) fn duration(&self, layer: &Range<usize>) -> Ns {
        self.layer(layer).fold(Ns::ZERO, |sum, op| sum + op.duration)
    }

    /// The layers of one kind, with their numbers.
    pub(super) fn layers_of(&self, kind: usize) -> impl Iterator<Item = (usize, &Range<usize>)> {
        let layers = self.folded.layers.iter().zip(&self.order).enumerate();
        layers.filter(move |(_, (_, other))| **other == kind).map(|(number, (layer, _))| (number, layer))
    }

    /// The direction of the layers of a kind.
    pub(super) fn direction_of(&self, kind: usize) -> Direction {
        self.order
            .iter()
            .position(|other| *other == kind)
            .map_or(Direction::Forward, |first| self.folded.direction(first))
    }

    /// Whether the layers explain the step: they are nearly all of it, or they are most of it and the same sequence of kernels in
    /// several proves them.
    pub(super) fn explains_step(&self, source: &Source) -> bool {
        let limits = &thresholds().layers;
        let sequence = |layer: &Range<usize>| self.layer(layer).map(|op| op.name).collect::<Vec<_>>();
        let mut sequences: Vec<Vec<NameId>> = self.folded.layers.iter().map(sequence).collect();
        sequences.sort_unstable();
        let min_ops = thresholds().shifted_durations.min_layer_ops.value;
        let is_proof = |equal: &[Vec<NameId>]| {
            equal.len() >= limits.min_equal_layers.value && equal.first().is_some_and(|layer| layer.len() >= min_ops)
        };
        let share = self.folded_share(source);
        share >= limits.min_folded_share.value
            || share >= limits.min_equal_share.value && sequences.chunk_by(|a, b| a == b).any(is_proof)
    }

    /// Where each op belongs, parallel to `ops`: a layer, or before the first or after the last. Ops of other streams belong
    /// to the layer in which they start.
    pub(super) fn places(&self) -> Vec<Place> {
        let start = |index: usize| self.main_op(index).map(|op| op.start);
        let starts: Vec<Ns> = self.folded.layers.iter().filter_map(|layer| start(layer.start)).collect();
        let tail = self.folded.layers.last().and_then(|layer| start(layer.end));
        let mut places: Vec<Place> = self.ops.iter().map(|op| place_at(op.start, &starts, tail)).collect();
        // Between the layers of a forward and a backward pass.
        for pair in self.folded.layers.windows(2) {
            let between =
                pair.first().zip(pair.last()).and_then(|(before, after)| self.main.get(before.end..after.start));
            for index in between.unwrap_or_default() {
                places.get_mut(*index).into_iter().for_each(|place| *place = Place::Tail);
            }
        }
        for (number, layer) in self.folded.layers.iter().enumerate() {
            for index in self.main.get(layer.clone()).unwrap_or_default() {
                places.get_mut(*index).into_iter().for_each(|place| *place = Place::Layer(number));
            }
        }
        places
    }

    /// The role of each op, parallel to `ops`. Ops of other streams have the role of their name.
    pub(super) fn roles(&self, source: &Source) -> Vec<String> {
        let raw = |op: &GpuOp| source.roles.get(op.name);
        let mut roles: Vec<String> = self.ops.iter().map(|op| roles_in_layer(&[raw(op)]).concat()).collect();
        for (number, layer) in self.folded.layers.iter().enumerate() {
            let in_layer: Vec<NameRole> = self.layer(layer).map(raw).collect();
            let rows = self.main.get(layer.clone()).unwrap_or_default();
            for (index, role) in rows.iter().zip(roles_of_layer(&in_layer, self.folded.direction(number))) {
                roles.get_mut(*index).into_iter().for_each(|slot| *slot = role.clone());
            }
        }
        roles
    }

    /// The share of the time of the ops that is in layers of a kind with at least two layers.
    pub(super) fn folded_share(&self, source: &Source) -> f64 {
        let count = |kind: &usize| self.order.iter().filter(|other| *other == kind).count();
        let repeats: Vec<bool> = self.order.iter().map(|kind| count(kind) > 1).collect();
        let (mut inside, mut all) = (0, 0);
        for (op, place) in self.ops.iter().zip(self.places()) {
            let role = source.roles.get(op.name);
            if place == Place::Tail && matches!(role, NameRole::Gemm | NameRole::Sampling | NameRole::Softmax) {
                continue;
            }
            all += op.duration.0;
            let is_inside = matches!(place, Place::Layer(number) if repeats.get(number) == Some(&true));
            inside += if is_inside { op.duration.0 } else { 0 };
        }
        inside as f64 / all.max(1) as f64
    }
}

/// The part of a pass to which an op belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Head,
    Layer(usize),
    Tail,
}

fn place_at(time: Ns, layer_starts: &[Ns], tail: Option<Ns>) -> Place {
    if tail.is_some_and(|tail| time >= tail) {
        return Place::Tail;
    }
    layer_starts.partition_point(|start| *start <= time).checked_sub(1).map_or(Place::Head, Place::Layer)
}

/// Which of some ops functions of autograd launched. `None` if they launched none.
fn backward_ops(trace: &Trace, rows: impl Iterator<Item = u32>) -> Option<Backward> {
    let training = &trace.training;
    if training.backward.is_empty() {
        return None;
    }
    let runs_in = |times: &HostTimes, row: u32| {
        let call = trace.gpu_ops.launch(row as usize).and_then(|call| trace.calls.get(call.0 as usize));
        call.is_some_and(|call| times.contains(call.thread, call.start))
    };
    let rows: Vec<u32> = rows.collect();
    let is_backward = |row: &u32| runs_in(&training.backward, *row);
    let range = rows.iter().position(is_backward)?..rows.iter().rposition(is_backward)? + 1;
    let of_backward = rows.get(range.clone()).unwrap_or_default().iter();
    let recomputed = of_backward.map(|row| runs_in(&training.recomputed, *row)).collect();
    Some(Backward { range, recomputed })
}

/// The stream with most kernel time.
fn main_stream(ops: &[GpuOp]) -> Option<i64> {
    let mut streams: VecMap<i64, Ns> = VecMap::new();
    for op in ops.iter().filter(|op| op.kind == OpKind::Kernel) {
        streams.update(op.stream, Ns::ZERO, |sum| *sum += op.duration);
    }
    streams.into_vec().into_iter().rev().max_by_key(|(_, time)| *time).map(|(stream, _)| stream)
}
