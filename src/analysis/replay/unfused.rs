//! Runs of elementwise kernels that one kernel could compute. From the names and the order of the kernels of each stream; O(names + ops).
//!
//! A run is two or more of the kernels of `patterns/unfused_kernels.json`, one after the other on one stream within one step, without
//! another op between them. A kernel that computes the whole run takes at least about as long as the longest of them, so the others, with
//! their launches, are what fusing them saves at most. The trace does not show which tensors they read and write, so nothing is certain
//! to be saved. Runs that take little of the time of the GPU are not worth it: what they cost is mostly the host's time.

use super::ids::{Call, Id, Lane, Op};
use super::recorded::Recorded;
use super::steady::Steady;
use crate::json::{self, embedded, from_json};
use crate::trace::{Names, Ns};
use crate::words::replay as words;
use std::collections::HashSet;
use std::sync::LazyLock;

/// The words of `patterns/unfused_kernels.json`.
#[derive(Debug)]
struct UnfusedWords {
    library: String,
    kernels: Vec<String>,
}
from_json!(UnfusedWords { library, kernels });

static WORDS: LazyLock<UnfusedWords> =
    LazyLock::new(|| embedded(json::read(include_str!("../../../patterns/unfused_kernels.json"))));

impl UnfusedWords {
    fn matches(&self, name: &str) -> bool {
        name.contains(&self.library) && self.kernels.iter().any(|word| name.contains(word))
    }
}

/// The runs in the window of steady steps.
#[derive(Debug, Default)]
pub(super) struct Unfused {
    /// All kernels but the longest of each run.
    pub(super) ops: HashSet<Op>,
    /// The calls that launch nothing else.
    pub(super) calls: HashSet<Call>,
    runs: u64,
    kernels: u64,
    time: Ns,
}

impl Unfused {
    /// Empty if the kernels of [`Self::ops`] take less than `min_share` of the window.
    pub(super) fn of(names: &Names, recorded: &Recorded, steady: &Steady, min_share: f64) -> Self {
        let is_elementwise: Vec<bool> = names.iter().map(|name| WORDS.matches(name)).collect();
        let mut found = Self::default();
        if !is_elementwise.contains(&true) {
            return found;
        }
        for lane in (0..recorded.lanes).map(Lane::of) {
            // The step of the run, and its kernels.
            let mut run: (usize, Vec<Op>) = (0, Vec::new());
            for id in recorded.on_lane.of(lane).iter().copied() {
                let op = recorded.op(id);
                let is_in_run = op.is_kernel()
                    && op.start >= steady.start
                    && op.end <= steady.end
                    && is_elementwise.get(op.name.0 as usize) == Some(&true);
                let step = steady.steps.partition_point(|step| step.start <= op.start);
                if !is_in_run || step != run.0 {
                    found.add(recorded, &run.1);
                    run = (step, Vec::new());
                }
                if is_in_run {
                    run.1.push(id);
                }
            }
            found.add(recorded, &run.1);
        }
        let saved = found.ops.iter().fold(Ns::ZERO, |sum, op| sum + recorded.op(*op).duration());
        if (saved.0 as f64) < min_share * steady.end.since(steady.start).0 as f64 {
            return Self::default();
        }
        let is_gone = |call: &Call| recorded.launched.of(*call).iter().all(|op| found.ops.contains(op));
        found.calls = found.ops.iter().filter_map(|op| recorded.op(*op).call).filter(is_gone).collect();
        found
    }

    /// Adds a run. A kernel alone is none.
    fn add(&mut self, recorded: &Recorded, run: &[Op]) {
        let Some(longest) = run.iter().max_by_key(|op| recorded.op(**op).duration()).filter(|_| run.len() > 1) else {
            return;
        };
        self.runs += 1;
        self.kernels += run.len() as u64;
        self.time += run.iter().fold(Ns::ZERO, |sum, op| sum + recorded.op(*op).duration());
        self.ops.extend(run.iter().filter(|op| *op != longest));
    }

    /// What the saving rests on.
    pub(super) fn basis(&self) -> String {
        words::unfused(self.kernels, self.runs, self.time)
    }
}
