//! A job of several ranks, played: what it saves in truth without a cause lies in the range that the file of each rank gives.

use super::sections::{WhatIf, WhatIfRow};
use crate::analysis::section::TypedSection;
use crate::trace::testing::TestTrace;
use proptest::prelude::*;

/// Times in us.
#[derive(Debug, Clone)]
struct Job {
    /// Of the host before the first launch of a step, on each rank.
    host: i64,
    /// Of a collective, from the arrival of the last rank.
    transfer: i64,
    /// By rank and layer.
    compute: Vec<Vec<i64>>,
}

const STEPS: usize = 6;
const LAUNCH: i64 = 4;
const LATENCY: i64 = 5;
const RETURN: i64 = 2;

/// What a rank did in a step.
#[derive(Debug, Clone, Default)]
struct Played {
    /// When the host began, and when its call for the end of the GPU work returned.
    host: (i64, i64),
    /// The kernels of the layers and the collectives after them, in turn.
    ops: Vec<(i64, i64)>,
}

impl Job {
    /// Each rank prepares on the host, launches all layers with a collective after each, and waits for the GPU.
    fn play(&self) -> Vec<Vec<Played>> {
        let mut now = vec![0; self.compute.len()];
        let mut steps = Vec::new();
        for _ in 0..STEPS {
            let mut of_ranks: Vec<Played> =
                now.iter().map(|start| Played { host: (*start, 0), ops: Vec::new() }).collect();
            let mut free = vec![0; now.len()];
            for layer in 0..self.compute[0].len() {
                let launched = |rank: usize, op: usize| now[rank] + self.host + (2 * layer + op + 1) as i64 * LAUNCH;
                let arrived: Vec<i64> = (0..now.len())
                    .map(|rank| {
                        let start = free[rank].max(launched(rank, 0) + LATENCY);
                        of_ranks[rank].ops.push((start, start + self.compute[rank][layer]));
                        (start + self.compute[rank][layer]).max(launched(rank, 1) + LATENCY)
                    })
                    .collect();
                let end = arrived.iter().max().unwrap() + self.transfer;
                for (rank, start) in arrived.into_iter().enumerate() {
                    of_ranks[rank].ops.push((start, end));
                    free[rank] = end;
                }
            }
            for (rank, played) in of_ranks.iter_mut().enumerate() {
                now[rank] = free[rank] + RETURN;
                played.host.1 = now[rank];
            }
            steps.push(of_ranks);
        }
        steps
    }

    /// From the first op of a step to that of the next one, once the ranks are in step.
    fn step(&self) -> i64 {
        let steps = self.play();
        steps[STEPS - 1][0].ops[0].0 - steps[STEPS - 2][0].ops[0].0
    }

    fn trace(&self, rank: usize) -> TestTrace {
        let mut trace = TestTrace::coded();
        trace.in_us();
        for played in self.play().iter().map(|step| &step[rank]) {
            let (start, end) = played.host;
            trace.range("step[DECODE bs=2]", start..end);
            trace.frame("server.py(1): prepare", start..start + self.host);
            let mut at = start + self.host;
            for (index, (from, to)) in played.ops.iter().enumerate() {
                trace.launch(at..at + LAUNCH);
                trace.launches(if index % 2 == 0 { "gemm" } else { "ncclDevKernel_AllReduce_Sum" }, *from..*to);
                at += LAUNCH;
            }
            trace.call("cudaStreamSynchronize", at..end);
        }
        trace
    }
}

fn jobs() -> impl Strategy<Value = Job> {
    (2_usize..5, 1_usize..5).prop_flat_map(|(ranks, layers)| {
        let compute = prop::collection::vec(prop::collection::vec(30_i64..300, layers), ranks);
        (50_i64..400, 5_i64..40, compute).prop_map(|(host, transfer, compute)| Job { host, transfer, compute })
    })
}

/// What the median step saves at least, and at most without waits for other ranks; `None` if the cause has no row, because it is small.
fn range_us(rows: &[WhatIfRow], id: &str) -> Option<(f64, f64)> {
    let row = rows.iter().find(|row| row.id.to_string() == id)?;
    Some((1e3 * row.median_saves_low_ms.0, 1e3 * row.median_saves_if_no_waits_ms.unwrap().0))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]
    #[test]
    fn what_a_job_saves_lies_in_the_range_of_each_of_its_ranks(job in jobs()) {
        let step = job.step();
        let without_host = step - Job { host: 0, ..job.clone() }.step();
        let without_transfer = step - Job { transfer: 0, ..job.clone() }.step();
        let idle: Vec<Vec<i64>> = job.compute.iter().map(|layers| vec![0; layers.len()]).collect();
        let without_compute = step - Job { compute: idle, ..job.clone() }.step();
        for rank in 0..job.compute.len() {
            let rows = WhatIf::rows(&job.trace(rank).sections());
            let causes = [
                ("code:server.py(1): prepare", without_host),
                ("communication", without_transfer),
                ("gpu", without_compute),
            ];
            for (id, saved) in causes {
                let Some((low, high)) = range_us(&rows, id) else {
                    prop_assert!(id.starts_with("code:"), "no row {id}");
                    continue;
                };
                let is_inside = low - 1.0 <= saved as f64 && saved as f64 <= high + 1.0;
                prop_assert!(is_inside, "rank {rank}, {id}: saves {saved} of {step} us, predicted {low} to {high}");
            }
        }
    }
}
