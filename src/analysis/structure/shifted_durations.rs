//! Detects durations that do not belong to their kernel names, in replays of graphs.
//!
//! ROCm can lose records of a replay; the names of the kernels after the loss are then shifted against the durations. The
//! repeated layers of a model reveal it: in most of them each position has a steady duration, and in a shifted layer the
//! durations agree with those of the neighbouring positions. Expert GEMMs and attention vary from layer to layer, but not by
//! a shift. The layers are found twice: where the names repeat, and where the durations repeat ([`shifted_names`](super::shifted_names)),
//! because a lost record may break the one or the other. From the ops of the first replays; O(ops * period), with at most [`MAX_OPS`]
//! ops and a period of at most [`MAX_PERIOD`].

use super::shifted_names::{self, MAX_PERIOD};
use crate::analysis::classified::ClassifiedTrace;
use crate::ordering;
use crate::rules::inference::thresholds;
use crate::rules::signals::CallKind;
use crate::trace::{CallId, NameId};
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, HashMap};

/// The number of replayed ops that are examined, to limit time and memory.
const MAX_OPS: usize = 65_536;

/// The note of tables that leave out the shares of such kernels.
pub(crate) const WITHHELD: &str = "The shares of some kernels are left out, because durations in graph replays do not \
     belong to their kernel names. Their times are doubtful as well; totals are right.";

/// The layers of graph replays whose durations belong to neighbouring kernels.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ShiftedDurations {
    /// Layers that were compared with the median layer.
    pub(crate) layers: usize,
    /// Layers with shifted durations; zero or at least `min_shifted_layers`.
    pub(crate) shifted: usize,
    /// The kernels of the replays with shifted layers, sorted.
    names: Vec<u32>,
}

impl ShiftedDurations {
    fn add(&mut self, (layers, shifted): (usize, usize), names: &[u32]) {
        self.layers += layers;
        self.shifted += shifted;
        if shifted > 0 {
            self.names.extend(names);
        }
    }

    /// Whether some durations under this name may belong to other kernels.
    pub(crate) fn affects(&self, name: NameId) -> bool {
        self.names.binary_search(&name.0).is_ok()
    }
}

/// The names and durations of the ops of one replay, in the order of their starts.
#[derive(Debug, Default)]
struct Replay {
    names: Vec<u32>,
    durations_ns: Vec<f64>,
}

/// Compares the layers of all replays that consist of repeated layers.
pub(crate) fn shifted_durations(classified: &ClassifiedTrace) -> ShiftedDurations {
    let replays = first_replays(classified);
    let mut by_names: BTreeMap<&[u32], Vec<&[f64]>> = BTreeMap::new();
    for replay in &replays {
        by_names.entry(&replay.names).or_default().push(&replay.durations_ns);
    }
    let mut found = ShiftedDurations::default();
    for (names, replays) in by_names {
        let by_names = period(names).map(|period| compare_layers(names, &replays, period));
        let by_durations = replays.iter().filter_map(|durations| shifted_names::layers(names, durations));
        let by_durations = by_durations.reduce(|sum, more| (sum.0 + more.0, sum.1 + more.1));
        // Layers that both find count once.
        let layers = by_names.into_iter().chain(by_durations).max_by_key(|(layers, shifted)| (*shifted, *layers));
        layers.into_iter().for_each(|layers| found.add(layers, names));
    }
    if found.shifted < thresholds().shifted_durations.min_shifted_layers.value {
        return ShiftedDurations { layers: found.layers, ..ShiftedDurations::default() };
    }
    found.names.sort_unstable();
    found.names.dedup();
    found
}

/// The replays of the first [`MAX_OPS`] replayed ops. The last replay may be incomplete.
fn first_replays(classified: &ClassifiedTrace) -> Vec<Replay> {
    let trace = classified.trace;
    let is_graph_launch = |call: CallId| {
        let name = trace.calls.get(call.0 as usize).map(|call| call.name);
        name.is_some_and(|name| classified.call_kind(name) == CallKind::GraphLaunch)
    };
    let mut indexes: HashMap<CallId, Option<usize>, RandomState> = HashMap::default();
    let mut replays: Vec<Replay> = Vec::new();
    let mut ops = 0;
    let mut call_names = (0..).map(NameId).take(trace.calls.names.len());
    if !call_names.any(|name| classified.call_kind(name) == CallKind::GraphLaunch) {
        return replays;
    }
    for (op, launch) in trace.gpu_ops.iter().zip(trace.gpu_ops.launches()) {
        let Some(launch) = launch else { continue };
        let index = *indexes.entry(launch).or_insert_with(|| {
            is_graph_launch(launch).then(|| {
                replays.push(Replay::default());
                replays.len() - 1
            })
        });
        let Some(replay) = index.and_then(|index| replays.get_mut(index)) else { continue };
        replay.names.push(op.name.0);
        replay.durations_ns.push(op.duration.0.max(1) as f64);
        ops += 1;
        if ops == MAX_OPS {
            break;
        }
    }
    replays
}

/// The smallest distance at which most names repeat, if it fits at least `min_layers` times.
fn period(names: &[u32]) -> Option<usize> {
    let limits = &thresholds().shifted_durations;
    let most = (names.len() / limits.min_layers.value.max(1)).min(MAX_PERIOD);
    (limits.min_layer_ops.value..=most).find(|&period| {
        let compared = names.len() - period;
        let equal = names.iter().zip(names.iter().skip(period)).filter(|(a, b)| a == b).count();
        equal as f64 >= limits.min_repeated_share.value * compared as f64
    })
}

/// Compares each layer of replays with equal names with the median layer. Returns the number of layers and of shifted ones.
fn compare_layers(names: &[u32], replays: &[&[f64]], period: usize) -> (usize, usize) {
    let medians: Vec<f64> = (0..period).map(|position| median_at(replays, position, period)).collect();
    let limits = &thresholds().shifted_durations;
    let (min_different, max_shifted) = (limits.min_different_log_ratio.value, limits.max_shifted_distance_ratio.value);
    let (mut compared, mut shifted) = (0, 0);
    for replay in replays {
        for start in (0..=names.len() - period).step_by(period) {
            let distance = |shift: isize| {
                let first = start.checked_add_signed(shift)?;
                let layer = replay.get(first..first.checked_add(period)?)?;
                let logarithms = layer.iter().zip(&medians).map(|(duration, median)| (duration / median).ln().abs());
                Some(logarithms.sum::<f64>() / period as f64)
            };
            let Some(unshifted) = distance(0) else { continue };
            compared += 1;
            let max_shift = limits.max_shift_ops.value as isize;
            let shifts = (-max_shift..=max_shift).filter(|shift| *shift != 0);
            let best = shifts.filter_map(distance).fold(f64::INFINITY, f64::min);
            shifted += usize::from(unshifted > min_different && best <= unshifted * max_shifted);
        }
    }
    (compared, shifted)
}

/// The median duration at one position of the layers of all replays.
fn median_at(replays: &[&[f64]], position: usize, period: usize) -> f64 {
    let layers = replays.iter().flat_map(|replay| replay.iter().skip(position).step_by(period));
    let mut durations: Vec<f64> = layers.copied().collect();
    ordering::sort_by(&mut durations, f64::total_cmp);
    durations.get(durations.len() / 2).copied().unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::testing::TestTrace;

    const LAYER: [(&str, i64); 6] =
        [("norm", 4), ("gemm", 60), ("rope", 3), ("attention", 25), ("gemm", 40), ("allreduce", 9)];

    /// Replays of ten layers of `LAYER`. `duration` returns the duration of the op at an index of a replay.
    fn shifted_in(replays: usize, duration: impl Fn(usize, usize) -> i64) -> ShiftedDurations {
        let mut trace = TestTrace::new();
        let mut now = 0;
        for replay in 0..replays {
            trace.call("hipGraphLaunch", now..now + 1);
            for index in 0..LAYER.len() * 10 {
                let length = duration(replay, index);
                now += 5_000;
                trace.launches(LAYER[index % LAYER.len()].0, now..now + length);
            }
        }
        shifted_durations(&ClassifiedTrace::new(&trace.finish()))
    }

    fn intact(index: usize) -> i64 {
        LAYER[index % LAYER.len()].1 * 10 + index as i64 % 3
    }

    #[test]
    fn durations_after_a_lost_record_are_detected() {
        // From the seventh layer on, the record of one kernel is lost, so names belong to the next duration.
        let found = shifted_in(1, |_, index| intact(if index < 36 { index } else { index + 1 }));
        assert_eq!((found.layers, found.shifted), (10, 4));
        // In the second of three replays.
        let found = shifted_in(3, |replay, index| intact(if replay == 1 { index + 2 } else { index }));
        assert!(found.shifted >= 9, "{found:?}");
    }

    #[test]
    fn layers_that_vary_without_a_shift_are_intact() {
        let uneven_experts =
            |_: usize, index: usize| intact(index) * if index % 6 == 1 { 1 + index as i64 / 6 } else { 1 };
        assert_eq!(shifted_in(2, uneven_experts).shifted, 0, "expert GEMMs vary by a factor of ten");
        let slow_layers = |_: usize, index: usize| intact(index) * if index / 6 % 2 == 1 { 3 } else { 1 };
        assert_eq!(shifted_in(2, slow_layers).shifted, 0, "every other layer takes three times as long");
        let one_lost = |_: usize, index: usize| intact(if index < 48 { index } else { index + 1 });
        assert_eq!(shifted_in(1, one_lost).shifted, 0, "two layers are too few to be certain");
    }

    #[test]
    fn kernels_that_were_launched_one_by_one_are_not_examined() {
        let mut trace = TestTrace::new();
        for index in 0..60 {
            let start = 5_000 * index as i64;
            trace
                .launch(start..start + 1)
                .launches(LAYER[index % 6].0, start + 9..start + 9 + intact(index + index / 36));
        }
        assert_eq!(shifted_durations(&ClassifiedTrace::new(&trace.finish())), ShiftedDurations::default());
    }
}
