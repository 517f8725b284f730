//! Why a rank arrives late in collectives: charges the waiting of each rank to the ranks that have not arrived yet, and splits
//! the charge by what the late rank did since its previous matched collective. O(n log n) in the number of calls.
//!
//! All ranks leave a collective together, so the time from its end to the start of the next one is comparable between ranks
//! without a common clock. A rank that arrives late spent more of this time on work, in other communication, or idle before
//! its host launched. If these differences do not add up to the lateness, such as in the first collective of traces that begin
//! at different moments, the traces do not show the cause of the rest.

use super::matching::{Call, OperationCalls, Preparation};
use crate::ordering;

/// Waiting of other ranks for one rank, by cause. Sums over the waiting ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Delay {
    /// All waiting for the rank.
    pub total_ns: i64,
    /// The rank's GPU was idle longer than those of the waiting ranks, because its host had not launched the next op.
    pub host_late_ns: i64,
    /// The rank's GPU worked longer.
    pub work_ns: i64,
    /// The rank was longer in communication that could not be matched.
    pub communication_ns: i64,
    /// The traces do not show the cause.
    pub unknown_ns: i64,
}

/// A call of one rank, matched (with its position among all matched calls) or not.
struct Event {
    start_ns: i64,
    duration_ns: i64,
    before: Preparation,
    matched: Option<usize>,
}

/// Returns the delays of the job's ranks.
pub(super) fn delays(ranks: usize, operations: &[OperationCalls]) -> Vec<Delay> {
    let preparations = preparations(ranks, operations);
    let mut sums = vec![[0.0_f64; CAUSES]; ranks];
    let mut first = 0;
    for operation in operations {
        operation.for_each_match(&mut |calls| {
            let own = preparations.get(first..first + calls.len()).unwrap_or_default();
            first += calls.len();
            let arrivals = calls.iter().zip(own).map(|((rank, call), preparation)| (*rank, *call, *preparation));
            charge(arrivals.collect(), &mut sums);
        });
    }
    sums.into_iter().map(Delay::from_sums).collect()
}

/// The preparation of each matched call since the previous matched call of its rank, in the order of `for_each_match`.
fn preparations(ranks: usize, operations: &[OperationCalls]) -> Vec<Preparation> {
    let mut events: Vec<Vec<Event>> = (0..ranks).map(|_| Vec::new()).collect();
    let mut matched = 0;
    let mut push = |rank: usize, call: &Call, matched: Option<usize>| {
        let event = Event { start_ns: call.start_ns, duration_ns: call.duration_ns, before: call.before, matched };
        if let Some(events) = events.get_mut(rank) {
            events.push(event);
        }
    };
    for operation in operations {
        operation.for_each_match(&mut |calls| {
            for (rank, call) in calls {
                push(*rank, call, Some(matched));
                matched += 1;
            }
        });
        operation.for_each_unmatched(&mut |rank, call| push(rank, call, None));
    }
    let mut preparations = vec![Preparation::default(); matched];
    for events in &mut events {
        ordering::sort_by_key(events, |event| event.start_ns);
        let mut since = Preparation::default();
        for event in events {
            since.add(&event.before);
            match event.matched {
                Some(index) => {
                    preparations.get_mut(index).into_iter().for_each(|own| *own = since);
                    since = Preparation::default();
                }
                None => since.communication_ns = since.communication_ns.saturating_add(event.duration_ns),
            }
        }
    }
    preparations
}

/// The number of causes: host, work, communication, unknown.
const CAUSES: usize = 4;

/// Charges the waiting in one collective to the late ranks.
///
/// Between two arrivals, the ranks that are there wait for those that are not, which share the charge equally.
fn charge(mut arrivals: Vec<(usize, &Call, Preparation)>, sums: &mut [[f64; CAUSES]]) {
    ordering::sort_by_key(&mut arrivals, |(_, call, _)| std::cmp::Reverse(call.duration_ns));
    let ranks = arrivals.len();
    let transfer_ns = arrivals.last().map_or(0, |(_, call, _)| call.duration_ns);
    // Sums over the ranks that are already there: the visible shares of their waiting, their durations and preparations.
    let (mut waiting, mut durations, mut prepared) = (0.0, 0.0, Preparation::default());
    let (mut charged, mut previous_ns) = (0.0, None);
    for (index, (rank, call, own)) in arrivals.iter().enumerate() {
        if let (Some(previous_ns), late) = (previous_ns, (ranks - index) as f64) {
            charged += call.duration_ns.abs_diff(previous_ns) as f64 * waiting / late;
        }
        previous_ns = Some(call.duration_ns);
        if index > 0
            && charged > 0.0
            && let Some(sums) = sums.get_mut(*rank)
        {
            let there = index as f64;
            let late_ns = durations / there - call.duration_ns as f64;
            let shares = own.shares_of_excess(&prepared, there, late_ns);
            sums.iter_mut().zip(shares).for_each(|(sum, share)| *sum += charged * share);
        }
        waiting += call.visible_share(transfer_ns);
        durations += call.duration_ns as f64;
        prepared.add(own);
    }
}

impl Preparation {
    /// Splits a lateness into the causes; the shares add up to 1. `others` is the sum of `count` ranks that arrived earlier.
    fn shares_of_excess(&self, others: &Self, count: f64, late_ns: f64) -> [f64; CAUSES] {
        let excess = |value: fn(&Self) -> i64| value(self) as f64 - value(others) as f64 / count;
        let parts = [
            excess(|own| own.host_late_ns),
            excess(|own| own.work_ns),
            excess(|own| own.communication_ns),
            excess(|own| own.other_idle_ns),
        ];
        let longer = parts.iter().fold(0.0, |sum, part| sum + part);
        let positive = parts.iter().fold(0.0, |sum, part| sum + part.max(0.0));
        if late_ns <= 0.0 || longer <= 0.0 || positive <= 0.0 {
            return [0.0, 0.0, 0.0, 1.0];
        }
        let explained = (longer / late_ns).min(1.0);
        let mut shares = parts.map(|part| explained * part.max(0.0) / positive);
        let [_, _, _, unknown] = &mut shares;
        *unknown += 1.0 - explained;
        shares
    }

    fn add(&mut self, more: &Self) {
        self.host_late_ns = self.host_late_ns.saturating_add(more.host_late_ns);
        self.work_ns = self.work_ns.saturating_add(more.work_ns);
        self.communication_ns = self.communication_ns.saturating_add(more.communication_ns);
        self.other_idle_ns = self.other_idle_ns.saturating_add(more.other_idle_ns);
    }
}

impl Delay {
    fn from_sums(sums: [f64; CAUSES]) -> Self {
        // Rounded down, except for errors of floating point, so that the sum over ranks does not exceed the waiting.
        let [host_late_ns, work_ns, communication_ns, _] = sums.map(|sum| (sum + 1e-3) as i64);
        let total_ns = (sums.iter().fold(0.0, |sum, part| sum + part) + 1e-3) as i64;
        let known = host_late_ns.saturating_add(work_ns).saturating_add(communication_ns);
        Self { total_ns, host_late_ns, work_ns, communication_ns, unknown_ns: total_ns.saturating_sub(known) }
    }
}
