//! Runs of launches that one launch of a graph could replace: launches of a thread within a step, without a call that blocks between
//! them. O(calls).

use super::graph::Parts;
use super::ids::Call;
use super::recorded::Recorded;
use super::steady::Steady;
use crate::trace::ThreadId;
use std::collections::{HashMap, HashSet};

/// Fewer launches in a row are no graph.
const MIN_LAUNCHES: usize = 8;

/// The calls of launches that become launches of graphs.
#[derive(Debug, Default)]
pub(super) struct GraphLaunches {
    /// The first call of each run.
    pub(super) first: HashSet<Call>,
    /// The others.
    pub(super) gone: HashSet<Call>,
}

impl GraphLaunches {
    pub(super) fn of(parts: &Parts, steady: &Steady) -> Self {
        let (recorded, mut found) = (parts.recorded, Self::default());
        let mut runs: HashMap<ThreadId, (usize, Vec<Call>)> = HashMap::new();
        for (id, call) in recorded.calls.iter() {
            if call.end <= steady.start || call.end > steady.end {
                continue;
            }
            let step = steady.steps.partition_point(|step| step.host_start <= call.start);
            let (run_step, run) = runs.entry(call.thread).or_insert((step, Vec::new()));
            if *run_step != step {
                found.close(recorded, run);
                *run_step = step;
            }
            if parts.waits.at(id).blocks || call.traits.synchronizes || call.traits.launches_graph {
                found.close(recorded, run);
            } else {
                run.push(id);
            }
        }
        runs.values_mut().for_each(|(_, run)| found.close(recorded, run));
        found
    }

    /// Ends a run, and keeps its calls from the first launch to the last one if they are enough.
    fn close(&mut self, recorded: &Recorded, run: &mut Vec<Call>) {
        let launches = |call: &Call| !recorded.launched.of(*call).is_empty();
        if run.iter().filter(|call| launches(call)).count() >= MIN_LAUNCHES
            && let (Some(first), Some(last)) = (run.iter().position(launches), run.iter().rposition(launches))
        {
            let calls = run.get(first..=last).unwrap_or_default();
            self.first.extend(calls.first());
            self.gone.extend(calls.iter().skip(1));
        }
        run.clear();
    }
}
