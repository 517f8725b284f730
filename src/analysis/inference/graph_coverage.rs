//! Graph coverage by stage: the share of ops and of their time that replays of CUDA or HIP graphs run, the number of graph
//! launches per step, and steps that run without graphs although others of the stage use them. One pass over the ops of the
//! steps. Definitions: a replayed op is one whose launch call launches a graph.

use super::first_numbers;
use super::passes::{Pass, Passes};
use crate::analysis::context::Context;
use crate::analysis::engine::engine;
use crate::analysis::recapture::MissingData;
use crate::analysis::section::{Answer, Pct, TypedSection, section};
use crate::analysis::structure::stages::Stage;
use crate::json::{self, embedded, from_json};
use crate::rules::inference::thresholds;
use crate::rules::signals::CallKind;
use crate::trace::{GpuOp, Ns};
use std::sync::LazyLock;

section! {
    /// How much of the work of each stage replays graphs.
    pub(crate) struct GraphCoverage("graph_coverage", "Graph coverage");
    row GraphCoverageRow {
        /// Or [`OUTSIDE`], which has no steps.
        stage: String,
        steps: Option<u64>,
        mode: Option<String>,
        replayed_ops_pct: Pct = "Of the ops",
        replayed_time_pct: Pct = "Of their time",
        graph_launches_per_step: Option<i64>,
        ops_per_launch: Option<i64>,
        eager_steps: Option<u64>,
        eager_batch_sizes: Option<String> = "Batch sizes of eager steps",
        padding_pct: Option<Pct>,
        advice: Option<String>,
    }
}

/// The label of the ops that were launched in no step.
const OUTSIDE: &str = "outside steps";
/// The maximum number of batch sizes in a cell.
const MAX_BATCH_SIZES: usize = 8;

/// What changes how an engine replays graphs (`patterns/graph_flags.json`).
#[derive(Debug)]
struct EngineFlags {
    engine: String,
    eager: String,
    some_eager: String,
}
from_json!(strict EngineFlags { engine, eager, some_eager });

#[derive(Debug)]
struct GraphFlags {
    engines: Vec<EngineFlags>,
}
from_json!(GraphFlags { engines });

static FLAGS: LazyLock<GraphFlags> =
    LazyLock::new(|| embedded(json::read(include_str!("../../../patterns/graph_flags.json"))));

/// One row per stage.
pub(crate) fn graph_coverage(context: &Context) -> Answer<GraphCoverage> {
    let passes = context.passes();
    if passes.is_empty() {
        let why = "No GPU op was launched in an annotated step, and the order of the kernels shows no steps.";
        return context.lacks(why, MissingData::Ranges);
    }
    let mut answer = GraphCoverage::answer("steps, the GPU ops launched in them, and graph launch calls")
        .limit(
            "The shares are of all ops of the steps and of the sum of their durations. A step is eager if no graph is \
             launched in it.",
        )
        .limit("Launches per step and ops per launch are medians over the steps that replay graphs.")
        .limit(
            "Padding is the part of the batch that are no requests, because a graph has a fixed batch size. It is unknown \
             unless the annotations of the steps state both sizes.",
        );
    let engine = engine(context.trace);
    let flags = FLAGS.engines.iter().find(|flags| Some(&flags.engine) == engine.as_ref());
    if !context.trace.graph_replays.is_empty() {
        answer = answer
            .limit("Some graphs were traced as a whole. Their ops are not in the trace: use --cuda-graph-trace=node.");
    }
    for stage in passes.stages() {
        let coverage = StageCoverage::of(context, passes, stage);
        answer.rows.push(coverage.row(stage.label(), coverage.advice(stage, flags)));
    }
    let mut outside = StageCoverage::default();
    outside.add_ops(context, &mut passes.outside(context.trace));
    if outside.ops > 0 {
        answer.rows.push(outside.row(OUTSIDE, None));
    }
    answer
}

/// The replays in the passes of a stage.
#[derive(Debug, Default)]
struct StageCoverage {
    steps: u64,
    ops: u64,
    replayed_ops: u64,
    time: Ns,
    replayed_time: Ns,
    /// By pass with replays: the number of graph launches.
    launches: Vec<i64>,
    /// By launch: the number of its ops.
    ops_per_launch: Vec<i64>,
    /// Passes in which one launch holds more than half of the ops.
    full_steps: u64,
    eager_steps: u64,
    /// Batch sizes of eager steps, sorted.
    eager_batch_sizes: Vec<i64>,
    /// Sums over the steps whose annotations state both: the size of the batch, and the requests in it.
    padded: (u64, u64),
}

impl StageCoverage {
    fn of(context: &Context, passes: &Passes, stage: Stage) -> Self {
        let mut coverage = Self::default();
        for pass in passes.of_stage(stage) {
            coverage.add(context, passes, pass);
        }
        coverage.ops_per_launch.sort_unstable();
        coverage.launches.sort_unstable();
        coverage.eager_batch_sizes.sort_unstable();
        coverage.eager_batch_sizes.dedup();
        coverage
    }

    fn add(&mut self, context: &Context, passes: &Passes, pass: &Pass) {
        let ops_before = self.ops;
        let of_launches = self.add_ops(context, &mut passes.ops(context.trace, pass));
        let ops = self.ops - ops_before;
        self.steps += 1;
        if let Some((padded, unpadded)) = pass.step.batch_size.zip(pass.step.unpadded_batch) {
            self.padded = (self.padded.0.saturating_add(padded), self.padded.1.saturating_add(unpadded));
        }
        let min_full = thresholds().work.min_full_graph_share.value;
        self.full_steps += u64::from(of_launches.iter().any(|count| *count as f64 > min_full * ops as f64));
        if of_launches.is_empty() {
            self.eager_steps += 1;
            self.eager_batch_sizes.extend(pass.step.batch_size.map(|size| size as i64));
        } else {
            self.launches.push(of_launches.len() as i64);
        }
        self.ops_per_launch.extend(of_launches);
    }

    /// Adds ops and returns the number of ops of each graph launch among them.
    fn add_ops(&mut self, context: &Context, ops: &mut dyn Iterator<Item = (usize, GpuOp)>) -> Vec<i64> {
        let trace = context.trace;
        let mut launches: Vec<i64> = Vec::new();
        for (row, op) in ops {
            self.ops += 1;
            self.time += op.duration;
            let launch = trace.gpu_ops.launch(row);
            let call = launch.and_then(|launch| trace.calls.name(launch.0 as usize));
            if call.is_some_and(|name| context.call_kind(name) == CallKind::GraphLaunch) {
                self.replayed_ops += 1;
                self.replayed_time += op.duration;
                launches.extend(launch.map(|call| i64::from(call.0)));
            }
        }
        launches.sort_unstable();
        launches.chunk_by(|a, b| a == b).map(|launch| launch.len() as i64).collect()
    }

    /// How graphs are used: one graph for a step, one for each part between attention kernels, or none.
    fn mode(&self) -> &'static str {
        let replayed = self.steps - self.eager_steps;
        match (replayed, self.full_steps) {
            (0, _) => "eager",
            (all, full) if full == all && self.eager_steps == 0 => "full",
            (all, full) if full == all => "full, some steps eager",
            (_, 0) if self.eager_steps == 0 => "piecewise",
            (_, 0) => "piecewise, some steps eager",
            _ => "full and piecewise",
        }
    }

    /// The share of the batch that are no requests.
    fn padding_pct(&self) -> Option<Pct> {
        let (padded, unpadded) = self.padded;
        (padded > 0 && unpadded <= padded).then(|| Pct(100.0 * (padded - unpadded) as f64 / padded as f64))
    }

    /// What changes the replays of a stage with few tokens. Prefill is not advised to use graphs, because the GPU is its limit.
    fn advice<'a>(&self, stage: Stage, flags: Option<&'a EngineFlags>) -> Option<&'a str> {
        let flags = flags.filter(|_| matches!(stage, Stage::Decode | Stage::Draft | Stage::Verify))?;
        match self.eager_steps {
            0 => None,
            eager if eager == self.steps => Some(&flags.eager),
            _ => Some(&flags.some_eager),
        }
    }

    fn row(&self, label: &str, advice: Option<&str>) -> GraphCoverageRow {
        let median = |sorted: &[i64]| sorted.get(sorted.len().saturating_sub(1) / 2).copied();
        let has_steps = self.steps > 0;
        // In a stage that never uses graphs, eager steps are no exception.
        let is_exception = self.eager_steps < self.steps;
        let sizes = &self.eager_batch_sizes;
        GraphCoverageRow {
            stage: label.to_owned(),
            steps: has_steps.then_some(self.steps),
            mode: has_steps.then(|| self.mode().to_owned()),
            replayed_ops_pct: Pct(100.0 * self.replayed_ops as f64 / self.ops.max(1) as f64),
            replayed_time_pct: Pct::of(self.replayed_time, self.time),
            graph_launches_per_step: has_steps.then(|| median(&self.launches).unwrap_or_default()),
            ops_per_launch: median(&self.ops_per_launch),
            eager_steps: has_steps.then_some(self.eager_steps),
            eager_batch_sizes: (is_exception && !sizes.is_empty()).then(|| first_numbers(sizes, MAX_BATCH_SIZES)),
            padding_pct: self.padding_pct(),
            advice: advice.map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::testing::{keys, read_json, rows_of, torch};
    use crate::trace::testing::TestTrace;

    /// A step of eight ops of 1 us; `graphs` are the ops of each graph launch, the others are launched one by one.
    fn add_step(trace: &mut TestTrace, name: &str, at: i64, graphs: &[i64]) {
        trace.range(name, at..at + 20);
        let (mut now, mut left) = (at, 8);
        for ops in graphs {
            trace.call("cudaGraphLaunch", now..now + 1);
            (0..*ops).for_each(|index| {
                trace.launches("k", now + 100 + index..now + 101 + index);
            });
            (now, left) = (now + ops, left - ops);
        }
        for _ in 0..left {
            trace.launch(now..now + 1).launches("k", now + 100..now + 101);
            now += 1;
        }
    }

    fn row_of(steps: &[(&str, &[i64])]) -> String {
        let mut trace = TestTrace::new();
        for (index, (name, graphs)) in steps.iter().enumerate() {
            add_step(&mut trace, name, index as i64 * 1_000, graphs);
        }
        rows_of(&trace.section(graph_coverage), &keys::<GraphCoverage>()[..9]).join("; ")
    }

    #[test]
    fn a_step_is_full_if_one_graph_has_most_of_its_ops_and_piecewise_if_none_has() {
        let decode = "step[DECODE bs=4]";
        assert_eq!(row_of(&[(decode, &[6])]), "decode 1 full 75 75 1 6 0 -");
        assert_eq!(row_of(&[(decode, &[2, 2, 2])]), "decode 1 piecewise 75 75 3 2 0 -");
        assert_eq!(row_of(&[(decode, &[])]), "decode 1 eager 0 0 0 - 1 -");
        assert_eq!(row_of(&[(decode, &[6]), (decode, &[2, 2])]), "decode 2 full and piecewise 62.5 62.5 1 2 0 -");
    }

    #[test]
    fn steps_without_graphs_are_named_with_their_batch_sizes() {
        let steps: [(&str, &[i64]); 4] = [
            ("step[DECODE bs=4]", &[8]),
            ("step[DECODE bs=600]", &[]),
            ("step[DECODE bs=512]", &[]),
            ("step[DECODE bs=4]", &[8]),
        ];
        assert_eq!(row_of(&steps), "decode 4 full, some steps eager 50 50 1 8 2 512, 600");
    }

    #[test]
    fn the_advice_for_eager_decode_steps_is_that_of_the_engine() {
        let advice = |engine: &str, steps: &[(&str, &[i64])]| {
            let mut trace = TestTrace::new();
            for (index, (name, graphs)) in steps.iter().enumerate() {
                add_step(&mut trace, name, index as i64 * 1_000, graphs);
            }
            let mut trace = trace.finish();
            trace.engine_hints.python_frames.intern(engine);
            graph_coverage(&Context::new(&trace, 30)).rows.remove(0).advice.unwrap_or_default()
        };
        let (sglang, vllm) = ("sglang/srt/managers/scheduler.py(1): x", "vllm/v1/worker/gpu_worker.py(1): x");
        let decode = "step[DECODE bs=4]";
        assert!(advice(sglang, &[(decode, &[])]).contains("--disable-cuda-graph"));
        assert!(advice(vllm, &[(decode, &[])]).contains("--enforce-eager"));
        assert!(advice(vllm, &[(decode, &[8]), (decode, &[])]).contains("cudagraph_capture_sizes"));
        for (engine, steps) in [
            (vllm, &[(decode, &[8][..])][..]),
            (vllm, &[("step[EXTEND bs=1 toks=99]", &[][..])]),
            ("x.py(1): y", &[(decode, &[][..])]),
        ] {
            assert_eq!(advice(engine, steps), "", "{engine} {steps:?}");
        }
    }

    #[test]
    fn padding_is_known_if_the_annotations_state_both_sizes() {
        let padding = |names: [&str; 2]| {
            let mut trace = TestTrace::new();
            names.iter().zip([0, 1_000]).for_each(|(name, at)| add_step(&mut trace, name, at, &[8]));
            rows_of(&trace.section(graph_coverage), &["padding_pct"]).join(";")
        };
        assert_eq!(padding(["step[DRAFT_LOOP raw_bs=3 bs=4]", "step[DRAFT_LOOP raw_bs=6 bs=8]"]), "25");
        assert_eq!(padding(["step[DECODE bs=3]", "step[DECODE bs=4]"]), "-");
    }

    #[test]
    fn without_steps_the_section_says_what_to_capture() {
        let section = TestTrace::new().kernel("k", 0..1).section(graph_coverage);
        assert!(section.missing.is_some_and(|missing| missing.recapture.contains("record_function")));
    }

    /// Numbers of an independent program over the same files.
    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn coverage_of_shared_traces_matches_an_independent_program() {
        for trace in [
            "hf_qwen1.5_0.5b_h100",
            "hf_qwen1.5_0.5b_mi300",
            "sglang_qwen3_30b_b300_decode",
            "sglang_qwen3_30b_mi300_decode",
            "sglang_qwen3_8b_mi300_decode",
            "sglang_qwen3_8b_mi300_extend",
            "vllm_b200_eager_prefill",
            "vllm_mi300_decode_full_graph",
            "vllm_mi300_piecewise_graph",
        ] {
            let expected = read_json(&format!("oracles/inference/{trace}.json"));
            let trace = torch(&format!("{trace}.trace.json.gz"));
            let graphs = &expected["graphs"];
            let context = Context::new(&trace, 30);
            let step = graph_coverage(&context).rows.remove(0);
            assert_eq!(step.graph_launches_per_step, graphs["graph_launches"].as_i64(), "{graphs}");
            if graphs["graph_launches"] != 0 {
                let of_launches = graphs["ops_per_launch_min_median_max"].as_array().unwrap();
                assert_eq!(step.ops_per_launch.map(|ops| ops as f64), of_launches[1].as_f64(), "{graphs}");
            }
            let mut whole = StageCoverage::default();
            whole.add_ops(&context, &mut trace.gpu_ops.iter().enumerate());
            assert_eq!(whole.replayed_ops, graphs["ops_replayed"].as_u64().unwrap(), "{graphs}");
            assert_eq!(whole.ops, graphs["gpu_ops"].as_u64().unwrap(), "{graphs}");
            let share = whole.replayed_time.0 as f64 / whole.time.0 as f64;
            assert!((share - graphs["share_of_time"].as_f64().unwrap()).abs() < 1e-4, "{share} {graphs}");
        }
    }
}
