//! Why a rank arrives late in collectives: charges the waiting in each collective to the rank that arrives last, and splits the
//! charge by what that rank did since its previous matched collective. O(n log n) in the number of calls.
//!
//! A rank that arrives before the last one delays nobody: had it come earlier, the others would have waited as long. So only the
//! last rank is charged, and how much later it came than the one before it is kept apart.
//!
//! All ranks leave a collective together, so the time from its end to the start of the next one is comparable between ranks
//! without a common clock. A rank that arrives late spent more of this time on work, in other communication, or idle before
//! its host launched. If these differences do not add up to the lateness, such as in the first collective of traces that begin
//! at different moments, the traces do not show the cause of the rest.

use super::call::{Call, Preparation};
use super::matching::{OperationCalls, RankCall, last_of};
use crate::ordering;

/// Waiting of other ranks for one rank, by cause. Sums over the waiting ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Delay {
    /// All waiting in collectives in which the rank arrived last.
    pub total_ns: i64,
    /// The part in which all other ranks had arrived.
    pub alone_ns: i64,
    /// The rank's GPU was idle longer than those of the waiting ranks, because its host had not launched the next op.
    pub host_late_ns: i64,
    /// The rank's GPU worked longer.
    pub work_ns: i64,
    /// The rank was longer in communication that could not be matched.
    pub communication_ns: i64,
    /// The traces do not show the cause.
    pub unknown_ns: i64,
    /// What the job takes less, at most, if this rank alone arrives with the one before it: the part of [`Delay::alone_ns`] of one
    /// other rank in which that rank computes nothing, where it is shortest.
    pub gain_ns: i64,
    /// The part of it by [`Delay::host_late_ns`].
    pub gain_host_ns: i64,
    /// The part of it by [`Delay::work_ns`].
    pub gain_work_ns: i64,
}

impl Delay {
    /// Collectives on several streams may wait for a rank at the same time, and a job gains no more than it takes.
    pub(super) fn limit_gain(&mut self, job_ns: i64) {
        for gain in [&mut self.gain_ns, &mut self.gain_host_ns, &mut self.gain_work_ns] {
            *gain = (*gain).min(job_ns);
        }
    }
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
    let mut charges = vec![Charge::default(); ranks];
    let mut first = 0;
    for operation in operations {
        operation.for_each_match(&mut |calls| {
            let own = preparations.get(first..first + calls.len()).unwrap_or_default();
            first += calls.len();
            charge(calls, own, &mut charges);
        });
    }
    charges.into_iter().map(Charge::delay).collect()
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

/// What one rank is charged with.
#[derive(Debug, Clone, Copy, Default)]
struct Charge {
    total_ns: i64,
    alone_ns: i64,
    /// The total by cause. Fractions, so that many small charges lose no time.
    causes_ns: [f64; CAUSES],
    /// What the job gains by cause.
    gains_ns: [f64; CAUSES],
}

/// Charges the waiting in one collective to the rank that arrives last; to none if several arrive last together.
fn charge(calls: &[RankCall], preparations: &[Preparation], charges: &mut [Charge]) {
    let Some(last) = last_of(calls) else { return };
    let Some(((rank, call), own)) = calls.get(last).zip(preparations.get(last)) else { return };
    let others = || calls.iter().zip(preparations).enumerate().filter(|(index, _)| *index != last);
    let Some(next_ns) = others().map(|(_, ((_, call), _))| call.duration_ns).min() else { return };
    let (mut total_ns, mut alone_ns, mut late_ns) = (0_i64, 0_i64, 0.0);
    let (mut count, mut prepared, mut gain_ns) = (0.0, Preparation::default(), f64::INFINITY);
    for (_, ((_, other), preparation)) in others() {
        total_ns = total_ns.saturating_add(other.waiting_ns(call.duration_ns));
        let for_all_ns = other.waiting_ns(call.duration_ns).saturating_sub(other.waiting_ns(next_ns));
        alone_ns = alone_ns.saturating_add(for_all_ns);
        gain_ns = gain_ns.min(for_all_ns as f64 * other.exposed_share());
        late_ns += other.duration_ns.saturating_sub(call.duration_ns) as f64;
        count += 1.0;
        prepared.add(preparation);
    }
    let Some(charge) = charges.get_mut(*rank) else { return };
    charge.total_ns = charge.total_ns.saturating_add(total_ns);
    charge.alone_ns = charge.alone_ns.saturating_add(alone_ns);
    let shares = own.shares_of_excess(&prepared, count, late_ns / count);
    charge.causes_ns.iter_mut().zip(shares).for_each(|(sum, share)| *sum += total_ns as f64 * share);
    charge.gains_ns.iter_mut().zip(shares).for_each(|(sum, share)| *sum += gain_ns * share);
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

impl Charge {
    fn delay(self) -> Delay {
        // Rounded down, except for errors of floating point, so that the parts do not exceed the whole.
        let [host_late_ns, work_ns, communication_ns, _] = self.causes_ns.map(|sum| (sum + 1e-3) as i64);
        let known_ns = host_late_ns.saturating_add(work_ns).saturating_add(communication_ns);
        let unknown_ns = self.total_ns.saturating_sub(known_ns).max(0);
        let Self { total_ns, alone_ns, gains_ns, .. } = self;
        let gain_ns = (gains_ns.iter().sum::<f64>() + 1e-3) as i64;
        let [gain_host_ns, gain_work_ns, ..] = gains_ns.map(|sum| (sum + 1e-3) as i64);
        Delay {
            total_ns,
            alone_ns,
            host_late_ns,
            work_ns,
            communication_ns,
            unknown_ns,
            gain_ns,
            gain_host_ns,
            gain_work_ns,
        }
    }
}
