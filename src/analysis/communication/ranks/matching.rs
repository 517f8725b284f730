//! Matches communication calls of several ranks that belong to the same collective. Linear in the number of calls, except for the
//! search for an offset, which is limited to `MAX_SIZE_COMPARISONS`.
//!
//! If the traces number the collectives of a process group, calls with the same number belong together.
//!
//! Otherwise, the ranks of a process group issue the calls of one operation in the same order, so if all ranks have the same number
//! of calls, the n-th calls belong together. If the counts differ, the message sizes of the shortest list must fit every longer list at
//! exactly one offset and cover at least half of it. Times check this ([`order`]): if they show that the calls of a rank are some places
//! later, those are matched; otherwise the order counts, and the result says what it rests on ([`Basis`]). If a log dropped calls, the
//! kept ones are matched only if the traces have equal counts.
//!
//! All calls of the trace are matched, whatever window is selected. The window only limits which part of a call is visible.

use super::RankInput;
use super::call::{Call, Preparation};
use super::jobs::JobGroup;
use super::log::{BEFORE_COLUMNS, CALL_COLUMNS, COUNT_COLUMNS, RankLog, RankWindow};
use super::order::{self, Order};
use super::rules::Rules;
use crate::analysis::communication::operations::SEND_RECEIVE;
use crate::ordering;
use crate::words::ranks as words;
use std::collections::BTreeMap;

/// A rank's index in its job, and one of its calls.
pub(super) type RankCall<'a> = (usize, &'a Call);

/// The calls of each rank in order, with the rank's index in its job.
pub(super) type CallsByRank = Vec<(usize, Vec<Call>)>;

/// The calls of one operation in one process group, matched across ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OperationCalls {
    pub(super) operation: String,
    /// Name of the process group; empty if unknown.
    pub(super) group: String,
    /// The number of ranks in the group, if known.
    pub(super) group_size: Option<usize>,
    pub(super) calls: CallsByRank,
    pub(super) alignment: Result<Alignment, MatchFailure>,
    /// The number of matched collectives that are visible.
    pub(super) matched: usize,
    /// The number of visible calls of all ranks that were not matched.
    pub(super) unmatched: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Alignment {
    /// For each rank the indices of its matched calls, those of one collective at the same place.
    matched: Vec<Vec<usize>>,
    pub(super) basis: Basis,
}

/// Why calls are said to belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Basis {
    /// The traces number them.
    Numbers,
    /// They are in the same order, and ran at the same time.
    OrderAndTimes,
    /// They ran at the same time; those at the same place did not.
    Times,
    /// They are in the same order. Their times show nothing.
    Order,
}

impl Basis {
    /// A sentence about so many collectives. `None` if nothing limits the match.
    fn note(self, count: usize) -> Option<String> {
        let by = match self {
            Self::Numbers => return None,
            Self::OrderAndTimes => words::Matched::OrderAndTimes,
            Self::Times => words::Matched::Times,
            Self::Order => words::Matched::Order,
        };
        Some(words::matched(count as u64, by))
    }
}

impl Alignment {
    /// All calls, if those of each rank are so many places later than those of the shortest list, which has `count`.
    fn shifted(ranks: &CallsByRank, shifts: &[isize], count: usize, basis: Basis) -> Self {
        let length = |places: usize| isize::try_from(places).unwrap_or(isize::MAX);
        let from = shifts.iter().map(|shift| -shift).max().unwrap_or(0).max(0);
        let ends = ranks.iter().zip(shifts).map(|((_, calls), shift)| length(calls.len()) - shift);
        let to = ends.min().unwrap_or(0).min(length(count));
        let places = |shift: &isize| (from..to).filter_map(|place| usize::try_from(place + shift).ok()).collect();
        Self { matched: shifts.iter().map(places).collect(), basis }
    }

    /// The calls whose numbers all ranks have, each as often. `None` unless all calls are numbered.
    fn by_sequence(ranks: &CallsByRank) -> Option<Self> {
        let mut indices: BTreeMap<i64, Vec<Vec<usize>>> = BTreeMap::new();
        for (rank, (_, calls)) in ranks.iter().enumerate() {
            for (index, call) in calls.iter().enumerate() {
                let of_ranks = indices.entry(call.sequence?).or_insert_with(|| vec![Vec::new(); ranks.len()]);
                of_ranks.get_mut(rank).into_iter().for_each(|own| own.push(index));
            }
        }
        let mut matched = vec![Vec::new(); ranks.len()];
        let is_common =
            |of_ranks: &Vec<Vec<usize>>| of_ranks.iter().all(|own| Some(own.len()) == of_ranks.first().map(Vec::len));
        for of_ranks in indices.into_values().filter(is_common) {
            matched.iter_mut().zip(of_ranks).for_each(|(matched, own)| matched.extend(own));
        }
        Some(Self { matched, basis: Basis::Numbers })
    }

    /// The calls of each matched collective.
    fn collectives<'a>(&'a self, calls: &'a CallsByRank) -> impl Iterator<Item = Vec<RankCall<'a>>> {
        let count = self.matched.first().map_or(0, Vec::len);
        (0..count).map(move |at| {
            let ranks = calls.iter().zip(&self.matched);
            ranks.filter_map(|((rank, calls), own)| Some((*rank, calls.get(*own.get(at)?)?))).collect()
        })
    }
}

/// Why the calls of an operation are not matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MatchFailure {
    /// Messages between two ranks; the peers are unknown.
    PointToPoint,
    /// Only one rank has such calls.
    OneRank,
    /// The numbers of calls differ, and message sizes do not determine which calls belong together.
    Counts,
    /// The numbers of calls are equal, but the message sizes differ.
    Sizes,
    /// Calls that would belong together by their order have different numbers.
    Sequences,
    /// A rank may leave before the others have the data, so durations do not show who waited.
    Rooted,
    /// The numbers of calls differ, and a log dropped some of them.
    DroppedCalls,
}

impl MatchFailure {
    /// The reason as a clause without a period.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::PointToPoint => "point-to-point messages: the traces do not name the peers",
            Self::OneRank => "only one open rank has such calls",
            Self::Counts => {
                "the ranks made different numbers of calls, and message sizes do not determine which belong together"
            }
            Self::Sizes => "message sizes differ between the ranks",
            Self::Sequences => "the numbers of the calls contradict their order",
            Self::Rooted => {
                "in a broadcast, reduce, gather or scatter a rank may leave before the others have the data, so durations do not show \
                 who waited"
            }
            Self::DroppedCalls => {
                "the ranks made different numbers of calls, and the lists are too long to be compared in full"
            }
        }
    }
}

/// Operation, group name and rank numbers of the group.
type Key = (String, String, String);

/// The calls of one operation in one group by rank, and the number of calls in the rank's trace; a log that dropped calls has
/// fewer in its list.
type CallLists = BTreeMap<usize, (Vec<Call>, usize)>;

/// Matches all calls of a job's ranks, sorted by operation and group. Operations without a visible call are left out.
pub(super) fn match_calls(group: &JobGroup, inputs: &[RankInput], rules: &Rules) -> Vec<OperationCalls> {
    let mut lists: BTreeMap<Key, CallLists> = BTreeMap::new();
    for (number, rank_of) in &group.ranks_by_log() {
        let Some(RankInput { log, window }) = inputs.get(*number) else { continue };
        for (index, call) in log.calls.chunks_exact(CALL_COLUMNS).enumerate() {
            let &[device, operation, group, bytes, start_ns, duration_ns, exposed_ns] = call else { continue };
            let Some(&rank) = rank_of.get(&device).filter(|_| duration_ns >= 0) else { continue };
            let sequence = log.sequences.get(index).copied().filter(|sequence| *sequence >= 0);
            let call = Call::new([bytes, start_ns, duration_ns, exposed_ns], sequence, preparation(log, index));
            let in_window = |window: &RankWindow| call.within(window, window.exposed.get(index).copied().unwrap_or(0));
            let call = window.map_or(call, in_window);
            let (calls, count) = lists.entry(key(log, operation, group)).or_default().entry(rank).or_default();
            calls.push(call);
            *count += 1;
        }
        for row in log.counts.chunks_exact(COUNT_COLUMNS) {
            let &[device, operation, group, total] = row else { continue };
            let Some(&rank) = rank_of.get(&device) else { continue };
            let (_, count) = lists.entry(key(log, operation, group)).or_default().entry(rank).or_default();
            *count = usize::try_from(total).unwrap_or(0).max(*count);
        }
    }
    let operations = lists.into_iter().map(|((operation, group, ranks), lists)| {
        let (calls, counts): (CallsByRank, Vec<usize>) =
            lists.into_iter().map(|(rank, (calls, count))| ((rank, calls), count)).unzip();
        let alignment = align(&operation, &calls, &counts, rules);
        let group_size = (!ranks.is_empty()).then(|| ranks.split(' ').count());
        OperationCalls { operation, group, group_size, calls, alignment, matched: 0, unmatched: 0 }.counted()
    });
    operations.filter(OperationCalls::is_visible).collect()
}

fn preparation(log: &RankLog, call: usize) -> Preparation {
    let numbers = log.before.get(call * BEFORE_COLUMNS..).and_then(|rest| rest.first_chunk::<BEFORE_COLUMNS>());
    let [host_late_ns, other_idle_ns, work_ns] = numbers.copied().unwrap_or_default().map(|ns| ns.max(0));
    Preparation { host_late_ns, work_ns, other_idle_ns, ..Preparation::default() }
}

fn key(log: &RankLog, operation: i64, group: i64) -> Key {
    let text = |texts: &[String], index: i64| {
        usize::try_from(index).ok().and_then(|index| texts.get(index)).cloned().unwrap_or_default()
    };
    (text(&log.operations, operation), text(&log.groups, group), text(&log.group_ranks, group))
}

fn align(operation: &str, ranks: &CallsByRank, counts: &[usize], rules: &Rules) -> Result<Alignment, MatchFailure> {
    if operation == SEND_RECEIVE {
        return Err(MatchFailure::PointToPoint);
    }
    if ranks.len() < 2 {
        return Err(MatchFailure::OneRank);
    }
    if rules.rooted_operations.iter().any(|name| name == operation) {
        return Err(MatchFailure::Rooted);
    }
    let has_equal_sizes = rules.equal_size_operations.iter().any(|name| name == operation);
    if let Some(alignment) = Alignment::by_sequence(ranks) {
        let sizes_agree = |calls: Vec<RankCall>| {
            let mut sizes = calls.iter().map(|(_, call)| call.bytes).filter(|bytes| *bytes >= 0);
            sizes.next().is_none_or(|first| sizes.all(|bytes| bytes == first))
        };
        let is_plausible = !has_equal_sizes || alignment.collectives(ranks).all(sizes_agree);
        return is_plausible.then_some(alignment).ok_or(MatchFailure::Sizes);
    }
    let shortest = ranks.iter().map(|(_, calls)| calls.as_slice()).min_by_key(|calls| calls.len()).unwrap_or_default();
    let mut budget = MAX_SIZE_COMPARISONS;
    let same_counts = counts.iter().all(|count| Some(count) == counts.first());
    let has_dropped = ranks.iter().zip(counts).any(|((_, calls), count)| calls.len() != *count);
    if has_dropped && !same_counts {
        return Err(MatchFailure::DroppedCalls);
    }
    let (mut shifts, mut basis) = (Vec::new(), Basis::OrderAndTimes);
    for (_, calls) in ranks {
        let offset = if same_counts {
            sizes_match(shortest, calls, has_equal_sizes, &mut budget).then_some(0).ok_or(MatchFailure::Sizes)
        } else {
            unique_offset(shortest, calls, has_equal_sizes, &mut budget).ok_or(MatchFailure::Counts)
        };
        let by_order = offset.ok().and_then(|offset| isize::try_from(offset).ok());
        let sizes_agree =
            &mut |shift| !has_equal_sizes || order::pairs(shortest, calls, shift).all(has_same_size(&mut budget));
        match order::check(shortest, calls, by_order, sizes_agree) {
            Order::Agrees => {}
            Order::Shifted(shift) => {
                shifts.push(shift);
                basis = basis.max(Basis::Times);
                continue;
            }
            Order::Unknown => basis = Basis::Order,
        }
        offset?;
        shifts.extend(by_order);
    }
    let alignment = Alignment::shifted(ranks, &shifts, shortest.len(), basis);
    let sequences_agree = |calls: Vec<RankCall>| {
        let mut sequences = calls.iter().filter_map(|(_, call)| call.sequence);
        sequences.next().is_none_or(|first| sequences.all(|sequence| sequence == first))
    };
    let is_plausible = alignment.collectives(ranks).all(sequences_agree);
    is_plausible.then_some(alignment).ok_or(MatchFailure::Sequences)
}

/// Limit for comparisons of message sizes per operation; real jobs stay far below it.
const MAX_SIZE_COMPARISONS: usize = 50_000_000;

/// The only offset at which the sizes of `shortest` fit into `calls`. `None` if there are several or none, or if `shortest` has
/// less than half as many calls.
fn unique_offset(shortest: &[Call], calls: &[Call], has_equal_sizes: bool, budget: &mut usize) -> Option<usize> {
    if shortest.len() == calls.len() {
        return sizes_match(shortest, calls, has_equal_sizes, budget).then_some(0);
    }
    if shortest.len() * 2 < calls.len() || !has_equal_sizes {
        return None;
    }
    let windows = calls.windows(shortest.len()).enumerate();
    let mut offsets = windows.filter(|(_, window)| sizes_match(shortest, window, has_equal_sizes, budget));
    let (offset, _) = offsets.next()?;
    let is_unique = offsets.next().is_none();
    (is_unique && *budget > 0).then_some(offset)
}

/// True if all known sizes are equal, or if sizes of this operation may differ between ranks. False once the budget is used up.
fn sizes_match(a: &[Call], b: &[Call], has_equal_sizes: bool, budget: &mut usize) -> bool {
    if !has_equal_sizes {
        return true;
    }
    a.iter().zip(b).all(has_same_size(budget))
}

/// Whether two known sizes are equal. False once the budget is used up.
fn has_same_size(budget: &mut usize) -> impl FnMut((&Call, &Call)) -> bool {
    |(a, b)| {
        *budget = budget.saturating_sub(1);
        *budget > 0 && (a.bytes == b.bytes || a.bytes < 0 || b.bytes < 0)
    }
}

/// One matched collective that is visible on at least one rank.
#[derive(Debug)]
pub(super) struct MatchedCollective<'a> {
    pub(super) participants: Vec<Participant<'a>>,
    /// The visible part of the shortest duration. Once the last rank has arrived, only the transfer remains.
    pub(super) transfer_ns: i64,
    /// The rank with the shortest duration, which arrived last; `None` if several have it.
    pub(super) last: Option<usize>,
}

/// One rank in a matched collective. Its call begins with waiting for the last rank and ends with the transfer.
#[derive(Debug)]
pub(super) struct Participant<'a> {
    pub(super) rank: usize,
    pub(super) call: &'a Call,
    /// The visible part of the waiting.
    pub(super) wait_ns: i64,
    /// The visible part of the transfer.
    pub(super) transfer_ns: i64,
}

impl MatchedCollective<'_> {
    /// The visible waiting of all ranks.
    pub(super) fn total_wait_ns(&self) -> i64 {
        self.participants.iter().fold(0, |sum, participant| sum.saturating_add(participant.wait_ns))
    }
}

impl OperationCalls {
    /// Visits the matched collectives that are visible, in order.
    pub(super) fn for_each_collective(&self, visit: &mut dyn FnMut(&MatchedCollective)) {
        self.for_each_match(&mut |calls| {
            let transfer_ns = calls.iter().map(|(_, call)| call.duration_ns).min().unwrap_or(0);
            let last = last_of(calls).and_then(|index| calls.get(index)).map(|(rank, _)| *rank);
            if calls.iter().any(|(_, call)| call.visible.is_some()) {
                let participants: Vec<Participant> =
                    calls.iter().map(|(rank, call)| Participant::new(*rank, call, transfer_ns)).collect();
                let transfer_ns = participants.iter().map(|own| own.transfer_ns).max().unwrap_or(0);
                visit(&MatchedCollective { participants, transfer_ns, last });
            }
        });
    }

    /// Visits the calls of each matched collective, visible or not.
    pub(super) fn for_each_match(&self, visit: &mut dyn FnMut(&[RankCall])) {
        let Ok(alignment) = &self.alignment else { return };
        alignment.collectives(&self.calls).for_each(|calls| visit(&calls));
    }

    fn is_visible(&self) -> bool {
        self.calls.iter().flat_map(|(_, calls)| calls).any(|call| call.visible.is_some())
    }

    fn counted(mut self) -> Self {
        let (mut matched, mut unmatched) = (0, 0);
        self.for_each_collective(&mut |_| matched += 1);
        self.for_each_unmatched(&mut |_, call| unmatched += usize::from(call.visible.is_some()));
        (self.matched, self.unmatched) = (matched, unmatched);
        self
    }

    /// Visits each rank index and call that was not matched, visible or not.
    pub(super) fn for_each_unmatched(&self, visit: &mut dyn FnMut(usize, &Call)) {
        for (list, (rank, calls)) in self.calls.iter().enumerate() {
            let matched = self.alignment.as_ref().ok().and_then(|alignment| alignment.matched.get(list));
            let mut matched = matched.cloned().unwrap_or_default();
            matched.sort_unstable();
            let is_matched = |index: usize| matched.binary_search(&index).is_ok();
            let unmatched = calls.iter().enumerate().filter(|(index, _)| !is_matched(*index));
            unmatched.for_each(|(_, call)| visit(*rank, call));
        }
    }
}

impl<'a> Participant<'a> {
    fn new(rank: usize, call: &'a Call, transfer_ns: i64) -> Self {
        let last_arrival = call.duration_ns.saturating_sub(transfer_ns);
        let wait_ns = call.waiting_ns(transfer_ns);
        let transfer_ns = call.visible_part_ns(last_arrival..call.duration_ns);
        Self { rank, call, wait_ns, transfer_ns }
    }
}

/// One sentence per reason why calls were not matched, with their number, largest first.
pub(super) fn unmatched_notes(operations: &[OperationCalls]) -> Vec<String> {
    let mut counts: Vec<(&'static str, usize)> = Vec::new();
    let mut beyond_overlap = 0;
    for operation in operations {
        match &operation.alignment {
            Ok(_) => beyond_overlap += operation.unmatched,
            Err(failure) => match counts.iter_mut().find(|(reason, _)| *reason == failure.reason()) {
                Some((_, count)) => *count += operation.unmatched,
                None => counts.push((failure.reason(), operation.unmatched)),
            },
        }
    }
    if beyond_overlap > 0 {
        counts.push(("they are before or after the calls that all traces contain", beyond_overlap));
    }
    ordering::sort_by_key(&mut counts, |(_, count)| std::cmp::Reverse(*count));
    counts.into_iter().map(|(reason, count)| words::unmatched(count as u64, reason)).collect()
}

/// One sentence per reason why calls were matched, unless the traces number them.
pub(super) fn match_notes(operations: &[OperationCalls]) -> Vec<String> {
    let mut counts: BTreeMap<Basis, usize> = BTreeMap::new();
    for (operation, alignment) in operations.iter().filter_map(|own| Some((own, own.alignment.as_ref().ok()?))) {
        *counts.entry(alignment.basis).or_default() += operation.matched;
    }
    let matched = counts.into_iter().filter(|(_, count)| *count > 0);
    matched.filter_map(|(basis, count)| basis.note(count)).collect()
}

/// The index of the call that alone is the shortest, whose rank arrives last.
pub(super) fn last_of(calls: &[RankCall]) -> Option<usize> {
    let shortest_ns = calls.iter().map(|(_, call)| call.duration_ns).min()?;
    let mut shortest = calls.iter().enumerate().filter(|(_, (_, call))| call.duration_ns == shortest_ns);
    let (index, _) = shortest.next()?;
    shortest.next().is_none().then_some(index)
}
