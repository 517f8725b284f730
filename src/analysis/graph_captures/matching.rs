//! Which op of a captured graph is each op of its replay? O(n log n).
//!
//! - The calls name their kernels: if the replay ran on one stream and its kernels have the names of the calls in the same order, the
//!   ops match by position. Otherwise the n-th op of a name matches the n-th call of this name, if both have the name equally often
//!   and all ops of it ran on one stream: the order within a stream is that of the capture. A kernel that the capture lacks shows
//!   another graph, so that nothing matches.
//! - The calls name no kernels: the ops match by position, if there are as many, all ran on one stream, and copies and sets are at the
//!   same places.

use super::capture::{Dispatch, Work};
use crate::trace::{CaptureProof, Unjoined};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// An op of a replay. Its kernel is numbered like those of the captures, or `None` if no capture has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReplayedOp {
    pub(super) row: u32,
    pub(super) work: Work,
    pub(super) stream: i64,
}

/// By op of the replay: the index of its call in the graph, if it is known.
pub(super) type Matches = Vec<Option<usize>>;

/// Matches the ops of a replay, in the order of their start, with the calls of a captured graph.
pub(super) fn matches(graph: &[Dispatch], replay: &[ReplayedOp], proof: CaptureProof) -> Result<Matches, Unjoined> {
    let first = replay.first().map(|op| op.stream);
    let is_one_stream = replay.iter().all(|op| Some(op.stream) == first);
    match proof {
        CaptureProof::Names if is_one_stream && is_same(graph, replay) => Ok((0..graph.len()).map(Some).collect()),
        CaptureProof::Names => by_name(graph, replay),
        CaptureProof::Order if graph.len() != replay.len() => Err(Unjoined::CountsDiffer),
        CaptureProof::Order if is_one_stream && has_same_kinds(graph, replay) => {
            Ok((0..graph.len()).map(Some).collect())
        }
        CaptureProof::Order => Err(Unjoined::OrderDiffers),
    }
}

fn is_same(graph: &[Dispatch], replay: &[ReplayedOp]) -> bool {
    graph.iter().map(|call| call.work).eq(replay.iter().map(|op| op.work))
}

fn has_same_kinds(graph: &[Dispatch], replay: &[ReplayedOp]) -> bool {
    let kind = |work: Work| std::mem::discriminant(&work);
    graph.iter().map(|call| kind(call.work)).eq(replay.iter().map(|op| kind(op.work)))
}

/// The calls and the ops of one name.
#[derive(Debug, Default)]
struct OfName {
    calls: Vec<usize>,
    ops: Vec<usize>,
    stream: Option<i64>,
    has_several_streams: bool,
}

fn by_name(graph: &[Dispatch], replay: &[ReplayedOp]) -> Result<Matches, Unjoined> {
    let mut names: HashMap<Work, OfName, RandomState> = HashMap::default();
    for (index, call) in graph.iter().enumerate() {
        names.entry(call.work).or_default().calls.push(index);
    }
    for (index, op) in replay.iter().enumerate() {
        let name = names.entry(op.work).or_default();
        name.ops.push(index);
        name.has_several_streams |= *name.stream.get_or_insert(op.stream) != op.stream;
    }
    if names.values().any(|name| name.ops.len() > name.calls.len()) {
        return Err(Unjoined::NamesDiffer);
    }
    let mut matches = vec![None; replay.len()];
    let certain = names.values().filter(|name| name.ops.len() == name.calls.len() && !name.has_several_streams);
    for (op, call) in certain.flat_map(|name| name.ops.iter().zip(&name.calls)) {
        matches.get_mut(*op).into_iter().for_each(|slot| *slot = Some(*call));
    }
    if matches.iter().all(Option::is_none) { Err(Unjoined::NamesDiffer) } else { Ok(matches) }
}
