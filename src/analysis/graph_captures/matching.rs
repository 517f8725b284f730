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
use std::collections::{BTreeMap, HashMap};

/// An op of a replay. Its kernel is numbered like those of the captures, or `None` if no capture has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReplayedOp {
    pub(super) row: u32,
    pub(super) work: Work,
    pub(super) stream: i64,
}

/// By op of the replay: the index of its call in the graph, if it is known.
pub(super) type Matches = Vec<Option<usize>>;

/// A captured graph with its calls by what they do, so that a replay costs no more than its own ops.
#[derive(Debug)]
pub(super) struct IndexedGraph<'a> {
    pub(super) calls: &'a [Dispatch],
    proof: CaptureProof,
    by_work: HashMap<Work, Vec<usize>, RandomState>,
}

impl<'a> IndexedGraph<'a> {
    pub(super) fn of(calls: &'a [Dispatch], proof: CaptureProof) -> Self {
        let mut by_work: HashMap<Work, Vec<usize>, RandomState> = HashMap::default();
        for (index, call) in calls.iter().enumerate().filter(|_| proof == CaptureProof::Names) {
            by_work.entry(call.work).or_default().push(index);
        }
        Self { calls, proof, by_work }
    }

    pub(super) fn proof(&self) -> CaptureProof {
        self.proof
    }

    /// Matches the ops of a replay, in the order of their start, with the calls.
    pub(super) fn matches(&self, replay: &[ReplayedOp]) -> Result<Matches, Unjoined> {
        let first = replay.first().map(|op| op.stream);
        let is_one_stream = replay.iter().all(|op| Some(op.stream) == first);
        let by_position = || (0..replay.len()).map(Some).collect();
        match self.proof {
            CaptureProof::Names if is_one_stream && self.is_same(replay) => Ok(by_position()),
            CaptureProof::Names => self.by_name(replay),
            CaptureProof::Order if self.calls.len() != replay.len() => Err(Unjoined::CountsDiffer),
            CaptureProof::Order if is_one_stream && self.has_same_kinds(replay) => Ok(by_position()),
            CaptureProof::Order => Err(Unjoined::OrderDiffers),
        }
    }

    fn is_same(&self, replay: &[ReplayedOp]) -> bool {
        self.calls.len() == replay.len() && self.calls.iter().map(|call| call.work).eq(replay.iter().map(|op| op.work))
    }

    fn has_same_kinds(&self, replay: &[ReplayedOp]) -> bool {
        let kind = |work: Work| std::mem::discriminant(&work);
        self.calls.iter().map(|call| kind(call.work)).eq(replay.iter().map(|op| kind(op.work)))
    }

    fn by_name(&self, replay: &[ReplayedOp]) -> Result<Matches, Unjoined> {
        let mut names: BTreeMap<Work, OpsOfName> = BTreeMap::new();
        for (index, op) in replay.iter().enumerate() {
            let name = names.entry(op.work).or_default();
            name.ops.push(index);
            name.has_several_streams |= *name.stream.get_or_insert(op.stream) != op.stream;
        }
        let mut matches = vec![None; replay.len()];
        for (work, name) in &names {
            let calls = self.by_work.get(work).map_or(&[][..], Vec::as_slice);
            if name.ops.len() > calls.len() {
                return Err(Unjoined::NamesDiffer);
            }
            if name.ops.len() < calls.len() || name.has_several_streams {
                continue;
            }
            for (op, call) in name.ops.iter().zip(calls) {
                matches.get_mut(*op).into_iter().for_each(|slot| *slot = Some(*call));
            }
        }
        if matches.iter().all(Option::is_none) { Err(Unjoined::NamesDiffer) } else { Ok(matches) }
    }
}

/// The ops of a replay with one name.
#[derive(Debug, Default)]
struct OpsOfName {
    ops: Vec<usize>,
    stream: Option<i64>,
    has_several_streams: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::NameId;
    use proptest::prelude::*;

    fn graph(names: &[u32]) -> Vec<Dispatch> {
        let call = |(name, op): (&u32, u32)| Dispatch { work: Work::Kernel(Some(NameId(*name))), op };
        names.iter().zip(0..).map(call).collect()
    }

    fn replay(names: &[(u32, i64)]) -> Vec<ReplayedOp> {
        let op = |(&(name, stream), row): (&(u32, i64), u32)| ReplayedOp {
            row,
            work: Work::Kernel(Some(NameId(name))),
            stream,
        };
        names.iter().zip(0..).map(op).collect()
    }

    fn matched(names: &[u32], ops: &[(u32, i64)]) -> Result<Matches, Unjoined> {
        let calls = graph(names);
        IndexedGraph::of(&calls, CaptureProof::Names).matches(&replay(ops))
    }

    #[test]
    fn a_name_on_several_streams_is_not_joined_because_its_order_is_unknown() {
        let all = matched(&[1, 2, 1, 3], &[(1, 7), (2, 8), (1, 7), (3, 8)]);
        assert_eq!(all, Ok(vec![Some(0), Some(1), Some(2), Some(3)]));
        let ambiguous = matched(&[1, 2, 1, 3], &[(1, 7), (2, 8), (1, 8), (3, 8)]);
        assert_eq!(ambiguous, Ok(vec![None, Some(1), None, Some(3)]));
    }

    #[test]
    fn ops_in_another_order_match_by_their_place_among_those_of_their_name() {
        assert_eq!(matched(&[1, 1, 2], &[(2, 7), (1, 7), (1, 7)]), Ok(vec![Some(2), Some(0), Some(1)]));
        assert_eq!(
            matched(&[1, 1, 2], &[(1, 7), (3, 7), (2, 7)]),
            Err(Unjoined::NamesDiffer),
            "a kernel of another graph"
        );
        assert_eq!(
            matched(&[1, 1], &[(1, 7)]),
            Err(Unjoined::NamesDiffer),
            "one of two is missing, and no name is certain"
        );
    }

    #[test]
    fn without_names_copies_and_sets_must_be_at_the_same_places() {
        let calls = [(Work::Kernel(None), 0), (Work::Copy, 1)].map(|(work, op)| Dispatch { work, op });
        let graph = IndexedGraph::of(&calls, CaptureProof::Order);
        let op = |row, work, stream| ReplayedOp { row, work, stream };
        let kernel = Work::Kernel(Some(NameId(9)));
        assert_eq!(graph.matches(&[op(0, kernel, 7), op(1, Work::Copy, 7)]), Ok(vec![Some(0), Some(1)]));
        assert_eq!(graph.matches(&[op(0, Work::Copy, 7), op(1, kernel, 7)]), Err(Unjoined::OrderDiffers));
        assert_eq!(graph.matches(&[op(0, kernel, 7), op(1, Work::Copy, 8)]), Err(Unjoined::OrderDiffers));
        assert_eq!(graph.matches(&[op(0, kernel, 7)]), Err(Unjoined::CountsDiffer));
    }

    proptest! {
        /// Whatever was lost: a joined op has the name of its call, calls are used once, and equal names keep their order.
        #[test]
        fn joined_ops_have_the_names_of_their_calls(
            names in prop::collection::vec(0_u32..4, 1..20),
            lost in prop::collection::vec(any::<bool>(), 20),
        ) {
            let kept = names.iter().zip(&lost).filter(|(_, lost)| !**lost).map(|(name, _)| (*name, 7));
            let ops: Vec<(u32, i64)> = kept.collect();
            if let Ok(matches) = matched(&names, &ops) {
                let joined: Vec<(usize, usize)> =
                    matches.iter().enumerate().filter_map(|(op, call)| Some((op, (*call)?))).collect();
                for (op, call) in &joined {
                    prop_assert_eq!(ops[*op].0, names[*call]);
                    // Without a loss among its name, it is the very call.
                    prop_assert!(!lost[*call]);
                }
                let mut calls: Vec<usize> = joined.iter().map(|(_, call)| *call).collect();
                calls.sort_unstable();
                calls.dedup();
                prop_assert_eq!(calls.len(), joined.len());
            }
        }
    }
}
