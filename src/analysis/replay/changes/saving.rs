//! What changes save: replays of their weights, compared with the measured steps.
//!
//! Each saving takes one replay for each of its ends, and again for what the trace leaves open. The pauses of the profiler are replayed once.

use super::{Change, Changes, Gaps};
use crate::analysis::replay::graph::{EdgeKind, REMOVED};
use crate::analysis::replay::ids::{Column, Id, Node};
use crate::trace::Ns;

/// What a change saves in each step of the window, or in the window without steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::analysis::replay) struct Saving {
    pub(in crate::analysis::replay) low: Vec<Ns>,
    pub(in crate::analysis::replay) high: Vec<Ns>,
    /// `None` without communication.
    pub(in crate::analysis::replay) only_this_rank: Option<Vec<Ns>>,
    /// At most, if collectives wait for no other rank. `None` without communication.
    pub(in crate::analysis::replay) if_no_waits: Option<Vec<Ns>>,
}

impl Saving {
    /// What is saved beyond the other saving.
    fn beyond(self, other: &Self) -> Self {
        let beyond =
            |own: Vec<Ns>, other: &[Ns]| own.into_iter().zip(other).map(|(own, other)| own.since(*other)).collect();
        let only_this_rank = self.only_this_rank.zip(other.only_this_rank.as_ref());
        // The waits are there without the other change too.
        let if_no_waits = self.if_no_waits.map(|own| beyond(own, &other.high));
        Self {
            low: beyond(self.low, &other.low),
            high: beyond(self.high, &other.high),
            only_this_rank: only_this_rank.map(|(own, other)| beyond(own, other)),
            if_no_waits,
        }
    }

    /// What is saved between this and a share of the way to the other saving.
    fn towards(self, other: &Self, share: f64) -> Self {
        let between = |own: Vec<Ns>, other: &[Ns], pick: fn(Ns, Ns) -> Ns| {
            let end = |own: Ns, other: Ns| own + Ns((share * other.since(own).0 as f64) as i64);
            own.into_iter().zip(other).map(|(own, other)| pick(own, end(own, *other))).collect::<Vec<_>>()
        };
        let only_this_rank = self.only_this_rank.zip(other.only_this_rank.as_ref());
        let if_no_waits = self.if_no_waits.zip(other.if_no_waits.as_ref());
        Self {
            low: between(self.low, &other.low, Ns::min),
            high: between(self.high, &other.high, Ns::max),
            only_this_rank: only_this_rank.map(|(own, other)| between(own, other, Ns::min)),
            if_no_waits: if_no_waits.map(|(own, other)| between(own, other, Ns::max)),
        }
    }
}

impl Changes<'_> {
    /// Whether the host may wait for the GPU in gaps of which the trace does not say what it does.
    pub(in crate::analysis::replay) fn has_maybe_waits(&self) -> bool {
        self.waiting_share() >= self.thresholds.min_possible_wait_share
    }

    /// What several changes together save. Where the profiler held threads, what they save of a run without that: its pauses are no part of
    /// the program, and whoever changes the code does not save them.
    pub(in crate::analysis::replay) fn saving(&self, changes: &[Change]) -> Saving {
        if self.profiler.is_none() || changes.contains(&Change::WithoutProfiler) {
            return self.saving_of(changes);
        }
        let both: Vec<Change> = changes.iter().cloned().chain([Change::WithoutProfiler]).collect();
        let of_profiler = self.saving_of_profiler.get_or_init(|| self.saving_of(&[Change::WithoutProfiler]));
        self.saving_of(&both).beyond(of_profiler)
    }

    /// What they save of the run as it was, with the pauses of the profiler, whether the host works or waits where the trace does not say
    /// which.
    fn saving_of(&self, changes: &[Change]) -> Saving {
        let mut saving = self.saving_if(changes, Gaps::Work);
        for (gaps, share) in [(Gaps::KnownWait, self.known_share()), (Gaps::Wait, self.waiting_share())] {
            if share >= self.thresholds.min_possible_wait_share {
                saving = saving.towards(&self.saving_if(changes, gaps), share);
            }
        }
        saving
    }

    /// How far the truth can be from 0, where code that is known to wait keeps its length, to 1, where it waits for the GPU.
    fn known_share(&self) -> f64 {
        (self.likely_share(true) / self.thresholds.full_known_wait_share).min(1.0)
    }

    /// The share of the window in which the host probably waits, in code that is known to wait or in other code.
    fn likely_share(&self, is_known: bool) -> f64 {
        let waits = self.maybe_waits.iter().filter(|wait| wait.is_known == is_known);
        let likely = waits.map(|wait| wait.likely.0 as f64).sum::<f64>();
        likely / self.steady.end.since(self.steady.start).0.max(1) as f64
    }

    /// How far the truth can be from 0, where the host works, to 1, where it waits for the GPU. Possible waits that are a small part of the
    /// window change little.
    pub(in crate::analysis::replay) fn waiting_share(&self) -> f64 {
        (2.0 * self.likely_share(false)).min(1.0)
    }

    /// What changes save if the host does this in gaps.
    pub(in crate::analysis::replay) fn saving_if(&self, changes: &[Change], gaps: Gaps) -> Saving {
        let weights = self.weights(changes, false, gaps);
        let high = self.saved(&self.all_moved(&weights));
        let if_no_waits =
            self.longer_alone.as_ref().map(|_| self.saved(&self.all_moved(&self.without_rank_waits(&weights))));
        let certain: Vec<Change> = changes.iter().filter(|change| change.is_certain()).cloned().collect();
        let careful = match certain.len() < changes.len() || certain.iter().any(Change::has_careful_weights) {
            true => self.weights(&certain, true, gaps),
            false => weights,
        };
        let low = self.saved(&self.graph.replay(&careful, self.steady.start, Some(&self.longer)));
        let low: Vec<Ns> = low.into_iter().zip(&high).map(|(low, high)| low.min(*high)).collect();
        let only_this_rank = self.longer_alone.as_ref().map(|longer| {
            let alone = self.saved(&self.graph.replay(&careful, self.steady.start, Some(longer)));
            alone.into_iter().zip(&low).map(|(alone, low)| alone.min(*low)).collect()
        });
        Saving { low, high, only_this_rank, if_no_waits }
    }

    /// The times of all nodes after these changes, where each node moves with what is before it: the run that saves most. The host works
    /// where the trace does not say whether it works or waits.
    pub(in crate::analysis::replay) fn times(&self, changes: &[Change]) -> Column<Node, Ns> {
        self.all_moved(&self.weights(changes, false, Gaps::Work))
    }

    fn all_moved(&self, weights: &[Ns]) -> Column<Node, Ns> {
        self.graph.replay(&self.without_possible(weights), self.steady.start, self.first_op.as_deref())
    }

    /// Weights in which no possible wait counts.
    fn without_possible(&self, weights: &[Ns]) -> Vec<Ns> {
        let mut weights = weights.to_vec();
        for edge in &self.possible {
            weights.get_mut(edge.index()).into_iter().for_each(|weight| *weight = REMOVED);
        }
        weights
    }

    /// Weights in which collectives take only the time that is known to be a transfer: they wait for no other rank.
    fn without_rank_waits(&self, weights: &[Ns]) -> Vec<Ns> {
        let mut weights = weights.to_vec();
        for (op, row) in self.parts.recorded.ops.iter().filter(|(_, op)| op.communicates()) {
            let least = self.parts.transfers.at(row).least;
            for (edge, _) in self.graph.edges_to(self.graph.end_of_op(op)).filter(|(_, edge)| edge.kind == EdgeKind::Op)
            {
                weights.get_mut(edge.index()).into_iter().for_each(|weight| *weight = least.min(*weight));
            }
        }
        weights
    }

    /// What each step saves: its measured length minus its replayed one.
    fn saved(&self, times: &Column<Node, Ns>) -> Vec<Ns> {
        let window = [(self.steady.start, self.steady.end)];
        let steps: Vec<(Ns, Ns)> = self.steady.steps.iter().map(|step| (step.start, step.end)).collect();
        let steps = if steps.is_empty() { &window[..] } else { &steps[..] };
        let mut ended = self.parts.recorded.by_end.iter().skip_while(|(end, _)| *end <= self.steady.start).peekable();
        let (mut replayed, mut before) = (self.steady.start, self.steady.start);
        let mut saved = Vec::with_capacity(steps.len());
        for (start, end) in steps {
            while let Some((_, op)) = ended.next_if(|(ended, _)| ended <= end) {
                replayed = replayed.max(times.at(self.graph.end_of_op(*op)));
            }
            saved.push(end.since(*start).since(replayed.since(before)));
            before = replayed;
        }
        saved
    }
}
