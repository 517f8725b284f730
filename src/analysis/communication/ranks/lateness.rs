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
//!
//! Compute may go on during a collective, as in the backward pass with buckets of gradients. Then a rank that came late to one
//! collective is behind with its compute at the next ones, too: the others did that work while they waited. How far it is behind is
//! counted from collective to collective. Work by which it catches up is no longer work, only later work. It is carried over, with the
//! causes of the lateness at the previous collective.

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
    /// What the job takes less, at most, if this rank alone arrives with the one before it: [`Delay::alone_ns`] of one other
    /// rank, in each collective at most the time in which that rank computes nothing, where it is shortest.
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
    hidden_ns: i64,
    before: Preparation,
    matched: Option<usize>,
}

/// The delays of the job's ranks, and what waiting costs all of them together.
pub(super) struct Lateness {
    pub(super) delays: Vec<Delay>,
    pub(super) loss: Loss,
}

/// What a job loses because its ranks do not arrive in collectives together, whichever of them is late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Loss {
    /// What it gains at most if no rank arrives after the median one: the sum over the collectives. Waiting that compute hides is no loss.
    pub to_median_ns: i64,
    /// The work before each collective on the rank that works longest, summed over the collectives.
    pub longest_work_ns: i64,
    /// The same for the mean rank.
    pub mean_work_ns: i64,
}

/// Returns the delays of the job's ranks.
pub(super) fn lateness(ranks: usize, operations: &[OperationCalls]) -> Lateness {
    let histories = histories(ranks, operations);
    let excesses = excesses(operations, &histories);
    let causes = causes(&histories, &excesses);
    let mut charges = vec![Charge::default(); ranks];
    let mut first = 0;
    for operation in operations {
        operation.for_each_match(&mut |calls| {
            let own = causes.get(first..first + calls.len()).unwrap_or_default();
            first += calls.len();
            charge(calls, own, &mut charges);
        });
    }
    Lateness {
        delays: charges.into_iter().map(Charge::delay).collect(),
        loss: Loss::of(ranks, operations, &histories.preparations),
    }
}

impl Loss {
    /// By how much the longest work before each collective exceeds the mean.
    pub fn uneven_ns(&self) -> i64 {
        self.longest_work_ns.saturating_sub(self.mean_work_ns)
    }

    /// Of the rank that takes part in the largest loss: the ranks of other groups wait at the same time. `preparations` are in the order of
    /// `for_each_match`.
    fn of(ranks: usize, operations: &[OperationCalls], preparations: &[Preparation]) -> Self {
        let mut of_ranks = vec![Self::default(); ranks];
        let mut first = 0;
        for operation in operations {
            operation.for_each_match(&mut |calls| {
                let own = preparations.get(first..first + calls.len()).unwrap_or_default();
                first += calls.len();
                let loss = Self::of_collective(calls, own);
                for (rank, _) in calls {
                    of_ranks.get_mut(*rank).into_iter().for_each(|sum| sum.add(loss));
                }
            });
        }
        let most =
            |value: fn(&Self) -> i64| of_ranks.iter().max_by_key(|loss| value(loss)).copied().unwrap_or_default();
        let uneven = most(|loss| loss.longest_work_ns.saturating_sub(loss.mean_work_ns));
        Self { to_median_ns: most(|loss| loss.to_median_ns).to_median_ns, ..uneven }
    }

    fn of_collective(calls: &[RankCall], preparations: &[Preparation]) -> Self {
        let shortest_ns = calls.iter().map(|(_, call)| call.duration_ns).min().unwrap_or(0);
        // If compute hides a part of a call, it would hide the transfer when that came earlier.
        let mut waits_ns: Vec<i64> =
            calls.iter().map(|(_, call)| call.waiting_ns(shortest_ns).min(call.exposed_ns)).collect();
        waits_ns.sort_unstable();
        let work = || preparations.iter().map(|own| own.work_ns);
        let count = i64::try_from(preparations.len()).unwrap_or(1).max(1);
        Self {
            // Of an even number the one that waits longer: the job gains at most so much.
            to_median_ns: waits_ns.get(waits_ns.len() / 2).copied().unwrap_or(0),
            longest_work_ns: work().max().unwrap_or(0),
            mean_work_ns: work().fold(0_i64, i64::saturating_add) / count,
        }
    }

    fn add(&mut self, more: Self) {
        self.to_median_ns = self.to_median_ns.saturating_add(more.to_median_ns);
        self.longest_work_ns = self.longest_work_ns.saturating_add(more.longest_work_ns);
        self.mean_work_ns = self.mean_work_ns.saturating_add(more.mean_work_ns);
    }
}

/// What the ranks did before their matched calls. Positions are those of `for_each_match`.
struct Histories {
    /// The matched calls of each rank, the first one first.
    of_ranks: Vec<Vec<usize>>,
    /// For each matched call: its rank's time since the previous one.
    preparations: Vec<Preparation>,
}

fn histories(ranks: usize, operations: &[OperationCalls]) -> Histories {
    let mut events: Vec<Vec<Event>> = (0..ranks).map(|_| Vec::new()).collect();
    let mut matched = 0;
    let mut push = |rank: usize, call: &Call, matched: Option<usize>| {
        let &Call { start_ns, duration_ns, hidden_ns, before, .. } = call;
        let event = Event { start_ns, duration_ns, hidden_ns, before, matched };
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
        prepare(events, &mut preparations);
    }
    let matched_of = |events: &Vec<Event>| events.iter().filter_map(|event| event.matched).collect();
    Histories { of_ranks: events.iter().map(matched_of).collect(), preparations }
}

/// Adds up what a rank did from one matched call to the next.
fn prepare(events: &[Event], preparations: &mut [Preparation]) {
    let mut since = Preparation::default();
    for event in events {
        since.add(&event.before);
        match event.matched {
            Some(index) => {
                preparations.get_mut(index).into_iter().for_each(|own| *own = since);
                since = Preparation { hidden_ns: event.hidden_ns, ..Preparation::default() };
            }
            None => since.communication_ns = since.communication_ns.saturating_add(event.duration_ns),
        }
    }
}

/// By how much a rank came later to a collective than the mean of the others, and what it did longer before.
#[derive(Debug, Clone, Copy, Default)]
struct Excess {
    late_ns: f64,
    /// By cause: the time since the previous collective.
    longer_ns: [f64; CAUSES],
    /// Work during the previous collective; negative if the others did more.
    hidden_ns: f64,
}

/// The excess of each matched call.
fn excesses(operations: &[OperationCalls], histories: &Histories) -> Vec<Excess> {
    let mut excesses = Vec::with_capacity(histories.preparations.len());
    for operation in operations {
        operation.for_each_match(&mut |calls| {
            let first = excesses.len();
            let own = histories.preparations.get(first..first + calls.len()).unwrap_or_default();
            let (mut all, mut all_ns) = (Preparation::default(), 0_i64);
            own.iter().for_each(|own| all.add(own));
            calls.iter().for_each(|(_, call)| all_ns = all_ns.saturating_add(call.duration_ns));
            let others = calls.len().saturating_sub(1).max(1) as f64;
            excesses.extend(calls.iter().zip(own).map(|((_, call), own)| {
                let late_ns = all_ns.saturating_sub(call.duration_ns) as f64 / others - call.duration_ns as f64;
                Excess::of(own, &all, others, late_ns)
            }));
        });
    }
    excesses
}

impl Excess {
    /// `all` is the sum of the rank itself and of so many `others`.
    fn of(own: &Preparation, all: &Preparation, others: f64, late_ns: f64) -> Self {
        let excess = |value: fn(&Preparation) -> i64| {
            let own_ns = value(own);
            own_ns as f64 - value(all).saturating_sub(own_ns) as f64 / others
        };
        let longer_ns = [
            excess(|own| own.host_late_ns),
            excess(|own| own.work_ns),
            excess(|own| own.communication_ns),
            excess(|own| own.other_idle_ns),
        ];
        Self { late_ns, longer_ns, hidden_ns: excess(|own| own.hidden_ns) }
    }

    /// The causes of the lateness, as shares that add up to 1. `before` and its causes belong to the rank's previous collective. Of the
    /// longer work, `later_work_ns` was done later than by the others.
    fn causes(&self, later_work_ns: f64, before: Excess, causes_before: [f64; CAUSES]) -> [f64; CAUSES] {
        let carried_ns = later_work_ns.min(before.late_ns).max(0.0);
        // The rest is work that the rank could have done during the collective, to which it did not come late.
        let [host_ns, work_ns, communication_ns, other_idle_ns] = self.longer_ns;
        let unknown_ns = other_idle_ns + later_work_ns - carried_ns;
        let parts = [host_ns, work_ns - later_work_ns, communication_ns, unknown_ns];
        let longer = parts.iter().fold(carried_ns, |sum, part| sum + part);
        let positive = parts.iter().fold(carried_ns, |sum, part| sum + part.max(0.0));
        if self.late_ns <= 0.0 || longer <= 0.0 || positive <= 0.0 {
            return UNKNOWN;
        }
        let explained = (longer / self.late_ns).min(1.0);
        let mut shares = UNKNOWN.map(|unknown| unknown * (1.0 - explained));
        for ((share, part), before) in shares.iter_mut().zip(parts).zip(causes_before) {
            *share += explained * (part.max(0.0) + carried_ns * before) / positive;
        }
        shares
    }
}

/// The causes of each matched call: those of its rank's calls one after the other, because lateness is carried over.
fn causes(histories: &Histories, excesses: &[Excess]) -> Vec<[f64; CAUSES]> {
    let mut causes = vec![UNKNOWN; excesses.len()];
    for calls in &histories.of_ranks {
        let (mut before, mut causes_before, mut behind_ns) = (Excess::default(), UNKNOWN, 0.0_f64);
        for (excess, own) in calls.iter().filter_map(|call| Some((*excesses.get(*call)?, *call))) {
            let [_, longer_work_ns, ..] = excess.longer_ns;
            behind_ns = (behind_ns - excess.hidden_ns).max(0.0);
            let later_work_ns = longer_work_ns.clamp(0.0, behind_ns);
            behind_ns = (behind_ns - longer_work_ns).max(0.0);
            causes_before = excess.causes(later_work_ns, before, causes_before);
            before = excess;
            causes.get_mut(own).into_iter().for_each(|own| *own = causes_before);
        }
    }
    causes
}

/// The number of causes: host, work, communication, unknown.
const CAUSES: usize = 4;

/// The shares if the traces show no cause.
const UNKNOWN: [f64; CAUSES] = [0.0, 0.0, 0.0, 1.0];

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

/// Charges the waiting in one collective to the rank that arrives last; to none if several arrive last together. `causes` are
/// those of each call.
fn charge(calls: &[RankCall], causes: &[[f64; CAUSES]], charges: &mut [Charge]) {
    let Some(last) = last_of(calls) else { return };
    let Some(((rank, call), shares)) = calls.get(last).zip(causes.get(last)) else { return };
    let others = || calls.iter().enumerate().filter(|(index, _)| *index != last).map(|(_, (_, call))| *call);
    let Some(next_ns) = others().map(|call| call.duration_ns).min() else { return };
    let (mut total_ns, mut alone_ns, mut gain_ns) = (0_i64, 0_i64, i64::MAX);
    for other in others() {
        total_ns = total_ns.saturating_add(other.waiting_ns(call.duration_ns));
        let for_all_ns = other.waiting_ns(call.duration_ns).saturating_sub(other.waiting_ns(next_ns));
        alone_ns = alone_ns.saturating_add(for_all_ns);
        // If compute hides a part of the call, it would hide the transfer when that came earlier.
        gain_ns = gain_ns.min(for_all_ns.min(other.exposed_ns));
    }
    let Some(charge) = charges.get_mut(*rank) else { return };
    charge.total_ns = charge.total_ns.saturating_add(total_ns);
    charge.alone_ns = charge.alone_ns.saturating_add(alone_ns);
    charge.causes_ns.iter_mut().zip(shares).for_each(|(sum, share)| *sum += total_ns as f64 * share);
    charge.gains_ns.iter_mut().zip(shares).for_each(|(sum, share)| *sum += gain_ns as f64 * share);
}

impl Preparation {
    fn add(&mut self, more: &Self) {
        self.host_late_ns = self.host_late_ns.saturating_add(more.host_late_ns);
        self.work_ns = self.work_ns.saturating_add(more.work_ns);
        self.communication_ns = self.communication_ns.saturating_add(more.communication_ns);
        self.other_idle_ns = self.other_idle_ns.saturating_add(more.other_idle_ns);
        self.hidden_ns = self.hidden_ns.saturating_add(more.hidden_ns);
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
