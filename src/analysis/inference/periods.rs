//! Finds the steps of a trace in which nothing marks steps, by what repeats: kernels and graphs at an even distance. O(n log n) for `n` ops,
//! times a bounded number of distances.
//!
//! A kernel, or a kernel before another, that runs once per step has the same number of ops from each of its launches to the next. Layers and piecewise graphs
//! repeat within a step, so what repeats is a step only if it holds the work of one: of a training step the optimizer, in most of the
//! repeats. Otherwise the longest distance counts, if what repeats holds a graph that was traced as a whole, a graph with several equal
//! layers, or more equal layers than a block of a hybrid model has. Copies to the host prove nothing: routers of experts copy in each
//! layer. Distances are numbers of ops, so no time decides anything. Thresholds are in `patterns/inference.json`.

use super::inferred_steps::InferredStep;
use super::kernel_roles::{NameRole, NameRoles};
use super::stage_by_kernels::AttentionStages;
use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::measure::mode::mode;
use crate::analysis::structure::stages::Form;
use crate::ordering::VecMap;
use crate::rules::inference::thresholds;
use crate::rules::is_optimizer_kernel;
use crate::rules::signals::CallKind;
use crate::trace::{CODE_IS_BUILT, CallId, DeviceId, NameId, OpKind, ProcessId, Trace};
use std::ops::Range;

/// More different distances are not tried.
const MAX_DISTANCES: usize = 32;
/// Lanes with more ops are not searched, to limit time and memory.
const MAX_OPS: usize = 1 << 22;

/// The steps of all devices, device by device, and on each process by process. Rows from the number of ops on are those of graphs that
/// were traced as a whole.
pub(super) fn periodic_steps(classified: &ClassifiedTrace, roles: &NameRoles) -> Vec<InferredStep> {
    if !CODE_IS_BUILT {
        return Vec::new();
    }
    let trace = classified.trace;
    let optimizer: Vec<bool> = trace.names.iter().map(is_optimizer_kernel).collect();
    let stages = AttentionStages::of(trace, roles);
    let lanes = lanes(trace).into_vec().into_iter().filter(|(_, rows)| rows.len() <= MAX_OPS);
    lanes.flat_map(|(_, rows)| Lane::new(classified, roles, &optimizer, rows).steps(&stages)).collect()
}

/// The rows of each process on each device, in the order of their starts.
fn lanes(trace: &Trace) -> VecMap<(DeviceId, ProcessId), Vec<u32>> {
    let mut lanes: VecMap<(DeviceId, ProcessId), Vec<u32>> = VecMap::new();
    let mut add = |lane: (DeviceId, ProcessId), row: usize| {
        lanes.update(lane, Vec::new(), |rows| rows.push(u32::try_from(row).unwrap_or(u32::MAX)));
    };
    let first_replay = trace.gpu_ops.len();
    let mut replays = trace.graph_replays.iter().enumerate().peekable();
    for (row, op) in trace.gpu_ops.iter().enumerate() {
        while let Some((index, replay)) = replays.next_if(|(_, replay)| replay.start < op.start) {
            add((replay.device, replay.process), first_replay + index);
        }
        add((op.device, op.process), row);
    }
    replays.for_each(|(index, replay)| add((replay.device, replay.process), first_replay + index));
    lanes
}

/// What runs in one place of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Symbol {
    Op(NameId),
    /// A graph that was traced as a whole, by its number.
    Graph(Option<u32>),
}

/// The places of one symbol, which have an even distance.
struct Beat {
    symbol: Symbol,
    at: Vec<usize>,
    distance: usize,
}

/// The ops and graphs of one process on one device.
struct Lane<'a> {
    classified: &'a ClassifiedTrace<'a>,
    /// By name.
    optimizer_names: &'a [bool],
    rows: Vec<u32>,
    /// Parallel to `rows`, as the following.
    symbols: Vec<Symbol>,
    roles: Vec<NameRole>,
    /// The number of kernels and graphs before each place, and after the last one.
    kernels_before: Vec<usize>,
}

impl<'a> Lane<'a> {
    fn new(
        classified: &'a ClassifiedTrace<'a>,
        roles: &NameRoles,
        optimizer_names: &'a [bool],
        rows: Vec<u32>,
    ) -> Self {
        let trace = classified.trace;
        let op = |row: &u32| trace.gpu_ops.get(*row as usize);
        let graph = |row: &u32| trace.graph_replays.get((*row as usize).checked_sub(trace.gpu_ops.len())?)?.graph;
        let symbol = |row: &u32| op(row).map_or_else(|| Symbol::Graph(graph(row)), |op| Symbol::Op(op.name));
        let symbols: Vec<Symbol> = rows.iter().map(symbol).collect();
        let role = |symbol: &Symbol| match symbol {
            Symbol::Op(name) => roles.get(*name),
            Symbol::Graph(_) => NameRole::Elementwise,
        };
        let mut kernels_before = vec![0];
        for row in &rows {
            let is_kernel = op(row).is_none_or(|op| op.kind == OpKind::Kernel);
            kernels_before.push(kernels_before.last().copied().unwrap_or_default() + usize::from(is_kernel));
        }
        let roles = symbols.iter().map(role).collect();
        Self { classified, optimizer_names, rows, symbols, roles, kernels_before }
    }

    fn steps(&self, stages: &AttentionStages) -> Vec<InferredStep> {
        let alone = self.beats(false);
        let found = self.distance_of_steps(&alone).map(|distance| (alone, distance));
        let pairs = || {
            Some(self.beats(true)).and_then(|pairs| self.distance_of_steps(&pairs).map(|distance| (pairs, distance)))
        };
        let Some((beats, distance)) = found.or_else(pairs) else { return Vec::new() };
        let mut of_steps = beats.iter().filter(|beat| is_near(beat.distance, distance));
        let starts = match of_steps.clone().find(|beat| self.ends_like_steps(beat)) {
            Some(beat) => self.after_ends(beat),
            None => {
                of_steps.by_ref().min_by_key(|beat| self.rank_as_start(beat)).map_or(Vec::new(), |beat| beat.at.clone())
            }
        };
        let ends = starts.iter().skip(1).copied().chain([self.rows.len()]);
        let mut steps: Vec<Range<usize>> = starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect();
        // What follows the last step is no part of it, and it may be cut.
        let last = steps.pop().map(|last| last.start..last.end.min(last.start + distance));
        let min_ops = thresholds().step_kinds.min_common_launches_share.value * distance as f64;
        steps.extend(last.filter(|last| last.len() as f64 >= min_ops));
        // A window may have cut the first and the last step.
        if self.classified.trace.cut.is_some() {
            steps = steps.get(1..steps.len().saturating_sub(1)).unwrap_or_default().to_vec();
        }
        // The start of the program may run a kernel of the steps. What has room for two steps before the next one is no step.
        if steps.first().is_some_and(|first| first.len() >= 2 * distance) {
            steps.remove(0);
        }
        let has_graphs = steps.iter().all(|step| self.is_graph_start(step.start));
        let form = if has_graphs { Form::Replay } else { Form::Period };
        let rows = |step: Range<usize>| self.rows.get(step).unwrap_or_default().to_vec();
        let step = |rows: Vec<u32>| InferredStep { stage: stages.of_step(self.classified, &rows), form, rows };
        steps.into_iter().map(|range| step(rows(range))).collect()
    }

    /// The places after the ends of steps, one per repeat of the beat. The first step may begin before the first end.
    fn after_ends(&self, beat: &Beat) -> Vec<usize> {
        let (Some(first), Some(last)) = (beat.at.first().copied(), beat.at.last().copied()) else { return Vec::new() };
        let before = first.saturating_sub(beat.distance)..first;
        let after = last..self.rows.len().min(last + beat.distance);
        let units = beat.at.windows(2).filter_map(|pair| Some(*pair.first()?..*pair.last()?));
        let units = [before].into_iter().chain(units).chain([after]);
        let mut starts: Vec<usize> = units.filter_map(|unit| self.last_end(unit)).map(|end| end + 1).collect();
        if let Some(start) = starts.first() {
            // An end within the start-up is none of a step.
            let begins_early = *start >= beat.distance || is_near(*start, beat.distance);
            starts.splice(0..0, begins_early.then_some(start.saturating_sub(beat.distance)));
        }
        starts.dedup();
        starts.retain(|start| *start < self.rows.len());
        starts
    }

    /// The symbols whose places have an even distance and cover most of the kernels; or the pairs of a symbol and the next one, because
    /// each kernel may run several times per step.
    fn beats(&self, are_pairs: bool) -> Vec<Beat> {
        let key = |at: &usize| (self.symbols.get(*at), self.symbols.get(at + 1).filter(|_| are_pairs));
        let mut order: Vec<usize> = (0..self.symbols.len()).collect();
        order.sort_by_key(key);
        let of_one_symbol = order.chunk_by(|a, b| key(a) == key(b));
        of_one_symbol.filter_map(|at| self.beat(at)).collect()
    }

    fn beat(&self, at: &[usize]) -> Option<Beat> {
        let limits = &thresholds().steps_by_period;
        let symbol = *self.symbols.get(*at.first()?)?;
        if at.len() < limits.min_repeats.value || symbol == Symbol::Graph(None) {
            return None;
        }
        let mut distances: Vec<usize> = at.windows(2).filter_map(|pair| Some(pair.last()? - pair.first()?)).collect();
        distances.sort_unstable();
        let distance = *distances.get((distances.len() - 1) / 2)?;
        let even = distances.iter().filter(|other| is_near(**other, distance)).count();
        let is_even = even as f64 >= limits.min_even_share.value * distances.len() as f64;
        let covered = self.kernels(*at.first()?..(*at.last()? + distance).min(self.rows.len()));
        let is_covering = covered as f64 >= limits.min_covered_share.value * self.kernels(0..self.rows.len()) as f64;
        (is_even && is_covering).then(|| Beat { symbol, at: at.to_vec(), distance })
    }

    fn kernels(&self, range: Range<usize>) -> usize {
        let before = |at: usize| self.kernels_before.get(at).copied().unwrap_or_default();
        before(range.end).saturating_sub(before(range.start))
    }

    /// The distance at which steps repeat: the shortest at which most repeats end like a step, or else the longest whose repeats hold the
    /// work of one.
    fn distance_of_steps(&self, beats: &[Beat]) -> Option<usize> {
        let mut tried: Vec<&Beat> = Vec::new();
        let mut sorted: Vec<&Beat> = beats.iter().collect();
        sorted.sort_by_key(|beat| beat.distance);
        for beat in sorted {
            if tried.last().is_none_or(|last| last.distance != beat.distance) {
                tried.push(beat);
            }
        }
        let ends =
            tried.iter().take(MAX_DISTANCES).find(|beat| self.is_long_enough(beat) && self.ends_like_steps(beat));
        let longest = || tried.last().filter(|beat| self.is_long_enough(beat) && self.holds_a_step(beat));
        ends.or_else(longest).map(|beat| beat.distance)
    }

    fn is_long_enough(&self, beat: &Beat) -> bool {
        beat.distance >= thresholds().steps_by_period.min_ops.value || matches!(beat.symbol, Symbol::Graph(_))
    }

    fn ends_like_steps(&self, beat: &Beat) -> bool {
        let units = beat.at.windows(2).filter_map(|pair| Some(*pair.first()?..*pair.last()?));
        let ending = units.filter(|unit| self.last_end(unit.clone()).is_some()).count();
        ending as f64 >= thresholds().steps_by_period.min_even_share.value * (beat.at.len() - 1) as f64
    }

    /// The place of the last op with which a step ends.
    fn last_end(&self, unit: Range<usize>) -> Option<usize> {
        unit.rev().find(|at| self.is_optimizer(*at))
    }

    /// Whether what repeats holds layers, or a graph that was traced as a whole.
    fn holds_a_step(&self, beat: &Beat) -> bool {
        let pair =
            beat.at.windows(2).find(|pair| pair.last().zip(pair.first()).is_some_and(|(b, a)| b - a == beat.distance));
        let Some((start, end)) = pair.and_then(|pair| pair.first().copied().zip(pair.last().copied())) else {
            return false;
        };
        let symbols = self.symbols.get(start..end).unwrap_or_default();
        let graphs = (start..end).collect::<Vec<usize>>();
        let graphs = graphs.chunk_by(|a, b| self.graph_launch(*a) == self.graph_launch(*b));
        let of_graphs = graphs.filter(|ops| ops.first().is_some_and(|at| self.graph_launch(*at).is_some()));
        let mut layered = of_graphs.filter_map(|ops| self.symbols.get(*ops.first()?..=*ops.last()?));
        let limits = thresholds();
        let min_layers = limits.steps_by_kernels.min_layers.value;
        symbols.iter().any(|symbol| matches!(symbol, Symbol::Graph(_)))
            || layered.any(|graph| has_repeats(graph, min_layers))
            || has_repeats(symbols, limits.layers.max_block_layers.value + 1)
    }

    /// Sorts the beats by how likely a step begins with them: with a graph, with an embedding, or early.
    fn rank_as_start(&self, beat: &Beat) -> (usize, usize) {
        let first = beat.at.first().copied().unwrap_or_default();
        let middle = beat.at.get(beat.at.len() / 2).copied().unwrap_or_default();
        if self.is_graph_start(middle) {
            (0, first)
        } else if self.role(middle) == NameRole::Embedding {
            (1, first)
        } else {
            (2, first)
        }
    }

    /// Whether a graph begins in this place.
    fn is_graph_start(&self, at: usize) -> bool {
        let launch = self.graph_launch(at);
        let begins = || launch.is_some() && at.checked_sub(1).is_none_or(|before| self.graph_launch(before) != launch);
        matches!(self.symbols.get(at), Some(Symbol::Graph(_))) || begins()
    }

    /// The call that launched the graph of an op.
    fn graph_launch(&self, at: usize) -> Option<CallId> {
        let trace = self.classified.trace;
        let call = trace.gpu_ops.launch(*self.rows.get(at)? as usize)?;
        let name = trace.calls.get(call.0 as usize)?.name;
        (self.classified.call_kind(name) == CallKind::GraphLaunch).then_some(call)
    }

    fn role(&self, at: usize) -> NameRole {
        self.roles.get(at).copied().unwrap_or(NameRole::Elementwise)
    }

    fn is_optimizer(&self, at: usize) -> bool {
        let is_optimizer = |name: &NameId| self.optimizer_names.get(name.0 as usize) == Some(&true);
        matches!(self.symbols.get(at), Some(Symbol::Op(name)) if is_optimizer(name))
    }
}

/// Whether two distances are equal but for a few ops: streams run side by side, and a step may have a copy more.
fn is_near(a: usize, b: usize) -> bool {
    let max_difference = thresholds().steps_by_period.max_uneven_share.value * b as f64;
    a.abs_diff(b) as f64 <= max_difference.max(1.0)
}

/// Whether a block of a few ops occurs at least `times` times in a row.
fn has_repeats(symbols: &[Symbol], times: usize) -> bool {
    let min_ops = thresholds().shifted_durations.min_layer_ops.value;
    let mut order: Vec<usize> = (0..symbols.len()).collect();
    order.sort_by_key(|at| symbols.get(*at));
    let usual_distance =
        |at: &[usize]| mode(at.windows(2).filter_map(|pair| Some((pair.last()? - pair.first()?) as i64)).collect());
    let of_one_symbol = order.chunk_by(|a, b| symbols.get(*a) == symbols.get(*b)).filter(|at| at.len() >= times);
    let mut sizes: Vec<usize> = of_one_symbol.filter_map(usual_distance).map(|size| size as usize).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let repeats = |size: &usize| {
        let mut equal = 0;
        symbols.iter().zip(symbols.iter().skip(*size)).any(|(a, b)| {
            equal = if a == b { equal + 1 } else { 0 };
            equal >= size * (times - 1)
        })
    };
    sizes.iter().filter(|size| **size >= min_ops).take(MAX_DISTANCES).any(repeats)
}

#[cfg(test)]
mod tests {
    use crate::analysis::classified::ClassifiedTrace;
    use crate::analysis::inference::kernel_roles::NameRoles;
    use crate::analysis::inference::passes::steps_on_devices;
    use crate::analysis::structure::stages::Form;
    use crate::analysis::testing::{rows, torch};
    use crate::trace::Trace;
    use crate::trace::testing::TestTrace;
    use proptest::prelude::*;

    /// The starts of the steps that were found, and what shows the first.
    fn found(trace: &Trace) -> (Vec<i64>, Option<Form>) {
        let steps = steps_on_devices(trace);
        (steps.iter().map(|step| step.start.0).collect(), steps.first().map(|step| step.info.form))
    }

    /// The kernels, each 5 ns long, one every 10 ns.
    fn kernels(names: &[&str]) -> Trace {
        let mut trace = TestTrace::new();
        for (name, start) in names.iter().zip((0..).step_by(10)) {
            trace.kernel(name, start..start + 5);
        }
        trace.finish()
    }

    const FORWARD: [&str; 6] = ["conv_a", "relu", "conv_a", "relu", "gemm", "loss"];
    const BACKWARD: [&str; 5] = ["loss_back", "gemm", "relu_back", "dgrad", "wgrad"];
    const ADAM: &str = "multi_tensor_apply_kernel<FusedAdamMathFunctor<float>>";

    #[test]
    fn a_training_step_begins_after_the_optimizer_and_holds_all_micro_batches() {
        let micro_batch = [&FORWARD[..], &BACKWARD].concat();
        let step = [micro_batch.repeat(2), vec![ADAM]].concat();
        // 23 kernels a step; the start of the first cannot be told from its end, so it begins with the trace.
        let (starts, form) = found(&kernels(&step.repeat(4)));
        assert_eq!((starts.len(), form), (4, Some(Form::Period)), "{starts:?}");
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] == 230), "{starts:?}");
    }

    /// The start of the program computes a loss too, with 40 kernels from there to the first step.
    #[test]
    fn a_start_with_a_kernel_of_the_steps_is_no_step() {
        let step = [&FORWARD[..], &BACKWARD, &[ADAM]].concat();
        let names = [&["loss"][..], &["copy"; 40], &step.repeat(8)].concat();
        let (starts, _) = found(&kernels(&names));
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] == 120), "{starts:?}");
        assert!(starts.len() >= 7 && starts[0] >= 410, "{starts:?}");
    }

    #[test]
    fn what_repeats_without_the_work_of_a_step_is_none() {
        let micro_batch = [&FORWARD[..], &BACKWARD].concat();
        assert_eq!(found(&kernels(&micro_batch.repeat(6))).0, [0_i64; 0], "blocks of a network look the same");
        let copies = "multi_tensor_apply_kernel<Copy<float>>";
        let step = [&micro_batch[..], &[copies]].concat();
        assert_eq!(found(&kernels(&step.repeat(6))).0, [0_i64; 0], "foreach copies are no optimizer");
        let step = [&micro_batch[..], &[ADAM]].concat();
        assert_eq!(found(&kernels(&step.repeat(2))).0, [0_i64; 0], "two are no repetition");
    }

    /// A step has twelve equal layers; each of its kernels runs in every layer, but for the first.
    #[test]
    fn many_equal_layers_prove_a_forward_pass() {
        let layer = ["norm_a", "gemm_q", "exp", "gemm_o", "norm_b", "gemm_up"];
        let step = [&["embedding"][..], &layer.repeat(12), &["norm_a", "gemm_head"]].concat();
        assert_eq!(found(&kernels(&step.repeat(5))).0, [0, 750, 1500, 2250, 3000]);
        let few = [&["embedding"][..], &layer.repeat(3), &["norm_a", "gemm_head"]].concat();
        assert_eq!(found(&kernels(&few.repeat(5))).0, [0_i64; 0], "three layers may be a block of a hybrid model");
    }

    #[test]
    fn graphs_that_were_traced_as_a_whole_are_steps_if_they_repeat() {
        let mut trace = TestTrace::nsys();
        for start in (0..10).map(|step| step * 800) {
            trace.call("cudaGraphLaunch", start..start + 5).launches_replay(start + 10..start + 791);
        }
        let found = rows(&trace.sections(), "steps", &["stage", "steps", "median_ns", "busy_median_ns", "found_by"]);
        assert_eq!(found, ["all 10 800 781 graph replays"]);
        let mut two = TestTrace::nsys();
        two.replay(0..781).replay(800..1581);
        assert_eq!(rows(&two.sections(), "steps", &["steps"]), [""; 0]);
    }

    /// The forward and the backward pass of a step are a graph each, the optimizer runs without one.
    #[test]
    fn a_step_of_several_graphs_begins_with_the_first_op_of_the_first_one() {
        let mut trace = TestTrace::new();
        let mut at = 0;
        for _ in 0..4 {
            for names in [&FORWARD[..], &BACKWARD[..]] {
                trace.call("cudaGraphLaunch", at..at + 1);
                for name in names {
                    trace.launches(name, at + 2..at + 7);
                    at += 10;
                }
            }
            trace.launch(at..at + 1).launches(ADAM, at + 2..at + 7);
            at += 50;
        }
        assert_eq!(found(&trace.finish()), (vec![2, 162, 322, 482], Some(Form::Replay)));
    }

    proptest! {
        /// The starts of steps follow an op by no more than it moves, and their number does not change.
        #[test]
        fn an_op_that_moves_by_a_microsecond_changes_no_step(moved in 0_usize..48, by in -1_000_i64..1_000) {
            let step = [&FORWARD[..], &BACKWARD, &[ADAM]].concat();
            let mut trace = TestTrace::new();
            for (index, name) in step.repeat(4).iter().enumerate() {
                let start = 100_000 + index as i64 * 10_000 + if index == moved { by } else { 0 };
                trace.kernel(name, start..start + 5_000);
            }
            let (starts, _) = found(&trace.finish());
            prop_assert_eq!(starts.len(), 4);
            for (step, start) in starts.iter().enumerate() {
                prop_assert!((start - starts[0] - 120_000 * step as i64).abs() <= 1_000, "{:?}", starts);
            }
        }
    }

    /// The steps of shared traces without their annotations: none where one pass or a block repeats, and the five steps of a training.
    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn recorded_blocks_and_routers_are_no_steps() {
        for name in [
            "particle_transformer_a100.pt",
            "vllm_mi300_piecewise_graph",
            "hf_qwen1.5_0.5b_h100",
            "sglang_qwen3_8b_mi300_extend",
        ] {
            let trace = torch(&format!("{name}.trace.json.gz"));
            let steps = super::periodic_steps(&ClassifiedTrace::new(&trace), &NameRoles::of(&trace));
            assert_eq!(steps.len(), 0, "{name}");
        }
        let trace = torch("train_a100_rank3of8.trace.json.gz");
        assert_eq!(
            super::periodic_steps(&ClassifiedTrace::new(&trace), &NameRoles::of(&trace)).len(),
            6,
            "ProfilerStep# says 6"
        );
    }
}
