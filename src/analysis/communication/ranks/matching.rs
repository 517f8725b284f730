//! Which calls of several ranks are one collective.
//!
//! Ranks of a group make the same calls of one operation in the same order, so that the first call of one rank meets the
//! first of the others, where they made as many. Where one rank's trace holds more, sizes of messages may tell which part
//! of the longer list is the shorter one; where they fit at several places or nowhere, nothing is matched. Of a list that a
//! log holds in part alone the first calls are matched, where the traces hold as many of all.
//!
//! All calls are matched, whatever window is picked; told is of the matched ones what lies in it.

use crate::analysis::communication::collectives::PAIRS;
use crate::analysis::communication::ranks::Seen;
use crate::analysis::communication::ranks::jobs::Group;
use crate::analysis::communication::ranks::log::{CALL, COUNT, RankLog, RankPart};
use crate::analysis::communication::ranks::rules::Rules;
use crate::digits::grouped;
use crate::ordering::StableSort;
use crate::trace::Ns;
use std::collections::BTreeMap;
use std::ops::Range;

/// One message as one rank saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    bytes: i64,
    pub(crate) start_ns: i64,
    pub(crate) duration_ns: i64,
    /// The part of what is shown in which nothing but communication runs.
    pub(crate) exposed_ns: i64,
    /// From where to where in its duration it lies in the window; `None` where it does not.
    shown: Option<(i64, i64)>,
}

impl Call {
    /// `exposed_ns` is that of the whole call.
    fn new([bytes, start_ns, duration_ns, exposed_ns]: [i64; 4]) -> Self {
        let exposed_ns = exposed_ns.clamp(0, duration_ns);
        Self { bytes, start_ns, duration_ns, exposed_ns, shown: Some((0, duration_ns)) }
    }

    /// The same call, of which a window shows a part.
    fn within(self, part: &RankPart, exposed_ns: i64) -> Self {
        let meets = part.window().meets(Ns(self.start_ns), Ns(self.end_ns()));
        let place = |time: i64| time.saturating_sub(self.start_ns).clamp(0, self.duration_ns);
        let (from, to) = (place(part.from_ns), place(part.to_ns));
        let shown = (meets && from <= to).then_some((from, to));
        Self { shown, exposed_ns: exposed_ns.clamp(0, shown.map_or(0, |(from, to)| to - from)), ..self }
    }

    pub(crate) fn end_ns(&self) -> i64 {
        self.start_ns.saturating_add(self.duration_ns)
    }

    /// How much of it is shown; `None` where it lies outside the window.
    pub(crate) fn shown_ns(&self) -> Option<i64> {
        self.shown.map(|(from, to)| to - from)
    }

    /// How much is shown of this stretch of its duration.
    fn shown_of(&self, stretch: Range<i64>) -> i64 {
        let (from, to) = self.shown.unwrap_or((0, 0));
        (to.min(stretch.end) - from.max(stretch.start)).max(0)
    }
}

/// The place of a rank in its job, and a call of it.
pub(crate) type OfRank<'a> = (usize, &'a Call);

/// By the place of a rank in its job: its calls in order.
pub(crate) type CallsOfRanks = Vec<(usize, Vec<Call>)>;

/// The calls of one operation in one process group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) operation: String,
    /// Empty where the traces do not tell.
    pub(crate) group: String,
    /// How many ranks the group has, where the traces tell.
    pub(crate) size: Option<usize>,
    pub(crate) calls: CallsOfRanks,
    /// Of each rank the call that is the first collective that all saw, and how many all saw; or why none is matched.
    pub(crate) matched: Result<(Vec<usize>, usize), Unmatched>,
    /// How many collectives are shown that all its ranks saw.
    pub(crate) meetings: usize,
    /// Calls of all ranks that are shown and were not matched.
    pub(crate) unmatched: usize,
}

/// Why calls of a group are not matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unmatched {
    /// Messages between two ranks: who meets whom is not told.
    Pairs,
    /// One rank alone has such calls.
    OneRank,
    /// Numbers of calls differ, and sizes do not tell which belong together.
    Counts,
    /// As many calls, of other sizes.
    Sizes,
    /// Numbers of calls differ, and the logs do not hold all of them.
    Cut,
}

impl Unmatched {
    pub(crate) fn why(self) -> &'static str {
        match self {
            Self::Pairs => "messages between two ranks: the traces do not tell who meets whom",
            Self::OneRank => "one open rank alone has such calls",
            Self::Counts => {
                "the ranks made different numbers of calls, and message sizes do not tell which belong together"
            }
            Self::Sizes => "the sizes of messages differ from rank to rank",
            Self::Cut => {
                "the ranks made different numbers of calls, and lists of so many are cut before they are compared"
            }
        }
    }
}

/// Operation, group and the numbers of its ranks.
type Key = (String, String, String);

/// What the ranks of a job have of one operation in one group.
#[derive(Default)]
struct Lists {
    calls: CallsOfRanks,
    /// How many calls each of these ranks' traces hold, at least as many as there are in its list.
    counts: Vec<usize>,
}

impl Lists {
    /// The list of this rank; ranks come in their order.
    fn of(&mut self, rank: usize) -> Option<(&mut Vec<Call>, &mut usize)> {
        if self.calls.last().is_none_or(|(last, _)| *last != rank) {
            self.calls.push((rank, Vec::new()));
            self.counts.push(0);
        }
        self.calls.last_mut().map(|(_, calls)| calls).zip(self.counts.last_mut())
    }
}

/// All calls of a job's ranks, matched where that can be told; by operation, then by group. Of a window those of which something
/// is shown.
pub(crate) fn streams(group: &Group, seen: &[Seen], rules: &Rules) -> Vec<Stream> {
    let mut streams: BTreeMap<Key, Lists> = BTreeMap::new();
    for (rank, member) in group.members.iter().enumerate() {
        let Some(Seen { log, part }) = seen.get(member.log) else { continue };
        for (at, call) in log.calls.chunks_exact(CALL).enumerate() {
            let &[device, operation, group, bytes, start_ns, duration_ns, exposed_ns] = call else { continue };
            if usize::try_from(device) != Ok(member.device) || duration_ns < 0 {
                continue;
            }
            let call = Call::new([bytes, start_ns, duration_ns, exposed_ns]);
            let in_part = |part: &RankPart| call.within(part, part.exposed.get(at).copied().unwrap_or(0));
            let call = part.map_or(call, in_part);
            if let Some((calls, count)) = streams.entry(key(log, operation, group)).or_default().of(rank) {
                calls.push(call);
                *count += 1;
            }
        }
        for row in log.counts.chunks_exact(COUNT) {
            let &[device, operation, group, told] = row else { continue };
            if usize::try_from(device) != Ok(member.device) {
                continue;
            }
            if let Some((_, count)) = streams.entry(key(log, operation, group)).or_default().of(rank) {
                *count = usize::try_from(told).unwrap_or(0).max(*count);
            }
        }
    }
    let streams = streams.into_iter().map(|((operation, group, ranks), Lists { calls, counts })| {
        let matched = matched(&operation, &calls, &counts, rules);
        let size = (!ranks.is_empty()).then(|| ranks.split(' ').count());
        Stream { operation, group, size, calls, matched, meetings: 0, unmatched: 0 }.counted()
    });
    streams.filter(Stream::is_shown).collect()
}

fn key(log: &RankLog, operation: i64, group: i64) -> Key {
    let text =
        |texts: &[String], at: i64| usize::try_from(at).ok().and_then(|at| texts.get(at)).cloned().unwrap_or_default();
    (text(&log.operations, operation), text(&log.groups, group), text(&log.group_ranks, group))
}

fn matched(
    operation: &str,
    ranks: &[(usize, Vec<Call>)],
    counts: &[usize],
    rules: &Rules,
) -> Result<(Vec<usize>, usize), Unmatched> {
    if operation == PAIRS {
        return Err(Unmatched::Pairs);
    }
    if ranks.len() < 2 {
        return Err(Unmatched::OneRank);
    }
    let has_size = rules.same_size.iter().any(|known| known == operation);
    let shortest = ranks.iter().map(|(_, calls)| calls.as_slice()).min_by_key(|calls| calls.len()).unwrap_or_default();
    let mut effort = MOST_COMPARED;
    let same_counts = counts.iter().all(|count| Some(count) == counts.first());
    let is_cut = ranks.iter().zip(counts).any(|((_, calls), count)| calls.len() != *count);
    if is_cut && !same_counts {
        return Err(Unmatched::Cut);
    }
    let mut offsets = Vec::new();
    for (_, calls) in ranks {
        let offset = if same_counts {
            fits(shortest, calls, has_size, &mut effort).then_some(0).ok_or(Unmatched::Sizes)
        } else {
            only_place(shortest, calls, has_size, &mut effort).ok_or(Unmatched::Counts)
        };
        offsets.push(offset?);
    }
    Ok((offsets, shortest.len()))
}

/// More comparisons of sizes are not worth the time: nobody's job needs them.
const MOST_COMPARED: usize = 50_000_000;

/// The only place in `calls` that the sizes of `part` fit, if it is at least half of them.
fn only_place(part: &[Call], calls: &[Call], has_size: bool, effort: &mut usize) -> Option<usize> {
    if part.len() == calls.len() {
        return fits(part, calls, has_size, effort).then_some(0);
    }
    if part.len() * 2 < calls.len() || !has_size {
        return None;
    }
    let mut places = calls.windows(part.len()).enumerate().filter(|(_, window)| fits(part, window, has_size, effort));
    let (place, _) = places.next()?;
    let is_only = places.next().is_none();
    (is_only && *effort > 0).then_some(place)
}

/// Are the sizes, as far as they are told, the same in order? Also no, where that was asked too often.
fn fits(a: &[Call], b: &[Call], has_size: bool, effort: &mut usize) -> bool {
    if !has_size {
        return true;
    }
    a.iter().zip(b).all(|(a, b)| {
        *effort = effort.saturating_sub(1);
        *effort > 0 && (a.bytes == b.bytes || a.bytes < 0 || b.bytes < 0)
    })
}

/// One collective as all ranks of its group saw it: of which a window shows something, if not of every rank.
#[derive(Debug)]
pub(crate) struct Meeting<'a> {
    pub(crate) calls: Vec<Met<'a>>,
    /// The shortest duration, as far as it is shown: when the last rank has arrived, nothing but the transfer is left.
    pub(crate) transfer_ns: i64,
    /// The only rank with that duration, which arrived last.
    pub(crate) last: Option<usize>,
}

/// One rank's part in a collective.
#[derive(Debug)]
pub(crate) struct Met<'a> {
    /// The place of the rank in the job.
    pub(crate) rank: usize,
    pub(crate) call: &'a Call,
    /// A call begins with waiting for the last rank,
    pub(crate) wait_ns: i64,
    /// and ends with the transfer.
    pub(crate) transfer_ns: i64,
}

impl Meeting<'_> {
    /// What all ranks together waited.
    pub(crate) fn waited_ns(&self) -> i64 {
        self.calls.iter().fold(0, |sum, met| sum.saturating_add(met.wait_ns))
    }
}

impl Stream {
    /// Visits what was matched and is shown, in order.
    pub(crate) fn each_meeting(&self, visit: &mut dyn FnMut(&Meeting)) {
        self.each_matched(&mut |calls| {
            let transfer_ns = calls.iter().map(|(_, call)| call.duration_ns).min().unwrap_or(0);
            let mut shortest = calls.iter().filter(|(_, call)| call.duration_ns == transfer_ns);
            let last = shortest.next().map(|(rank, _)| *rank).filter(|_| shortest.next().is_none());
            if calls.iter().any(|(_, call)| call.shown.is_some()) {
                let calls: Vec<Met> = calls.iter().map(|(rank, call)| Met::of(*rank, call, transfer_ns)).collect();
                let transfer_ns = calls.iter().map(|met| met.transfer_ns).max().unwrap_or(0);
                visit(&Meeting { calls, transfer_ns, last });
            }
        });
    }

    /// Visits all that was matched, shown or not: the place of each rank in the job, and its call.
    pub(crate) fn each_matched(&self, visit: &mut dyn FnMut(&[OfRank])) {
        let Ok((offsets, count)) = &self.matched else { return };
        let mut matched = Vec::with_capacity(offsets.len());
        for at in 0..*count {
            let ranks = self.calls.iter().zip(offsets);
            matched.extend(ranks.filter_map(|((rank, calls), offset)| Some((*rank, calls.get(offset + at)?))));
            visit(&matched);
            matched.clear();
        }
    }

    /// Is there anything to tell?
    fn is_shown(&self) -> bool {
        self.calls.iter().flat_map(|(_, calls)| calls).any(|call| call.shown.is_some())
    }

    fn counted(mut self) -> Self {
        let (mut meetings, mut unmatched) = (0, 0);
        self.each_meeting(&mut |_| meetings += 1);
        self.each_unmatched(&mut |_, call| unmatched += usize::from(call.shown.is_some()));
        (self.meetings, self.unmatched) = (meetings, unmatched);
        self
    }

    /// The calls of a rank that were not matched.
    pub(crate) fn each_unmatched(&self, visit: &mut dyn FnMut(usize, &Call)) {
        for (at, (rank, calls)) in self.calls.iter().enumerate() {
            let (from, count) = match &self.matched {
                Ok((offsets, count)) => (offsets.get(at).copied().unwrap_or(0), *count),
                Err(_) => (0, 0),
            };
            let outside = calls.iter().enumerate().filter(|(place, _)| *place < from || *place >= from + count);
            outside.for_each(|(_, call)| visit(*rank, call));
        }
    }
}

impl<'a> Met<'a> {
    fn of(rank: usize, call: &'a Call, transfer_ns: i64) -> Self {
        let arrived = call.duration_ns.saturating_sub(transfer_ns);
        let (wait_ns, transfer_ns) = (call.shown_of(0..arrived), call.shown_of(arrived..call.duration_ns));
        Self { rank, call, wait_ns, transfer_ns }
    }
}

/// Sentences on what could not be matched, with how much it is.
pub(crate) fn said_of_unmatched(streams: &[Stream]) -> Vec<String> {
    let mut counts: Vec<(&'static str, usize)> = Vec::new();
    let mut partly = 0;
    for stream in streams {
        match &stream.matched {
            Ok(_) => partly += stream.unmatched,
            Err(why) => match counts.iter_mut().find(|(known, _)| *known == why.why()) {
                Some((_, count)) => *count += stream.unmatched,
                None => counts.push((why.why(), stream.unmatched)),
            },
        }
    }
    if partly > 0 {
        counts.push(("calls that only some ranks' traces hold, beside those that all hold", partly));
    }
    counts.order_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts.into_iter().map(|(why, count)| format!("{} calls are not matched: {why}.", grouped(count as u64))).collect()
}
