//! Plays the steps of a server on a [`Machine`].
//!
//! The host launches ops in order. With `bubble`, the host waits for the end of each step before it prepares the next; otherwise
//! it prepares the next step while the GPU works.

use super::config::{Config, Launch, Loads, Pause};
use super::engine::{Engine, Kernel, LayerKind, Stage};
use super::machine::{GpuOp, HostEvent, MAIN_STREAM, Machine, Place, Recording, SIDE_STREAM, Step};
use std::collections::BTreeSet;

/// Time of the host code before and after the launches of a step.
const SCHEDULE_NS: i64 = 60_000;
/// A process that starts loads code for as long as this many decode steps take.
const STEPS_TO_LOAD: f64 = 100.0;
/// The step from which a running process loads code that it needs for the first time.
const FIRST_LATE_LOAD: usize = 3;

/// Plays a configuration.
pub(crate) fn play(config: &Config, engine: &Engine, seed: u64) -> Recording {
    let machine = Machine::new(seed, engine.is_amd());
    let (loaded, scale) = (BTreeSet::new(), 1.0);
    let mut server = Server { config, engine, machine, pending: None, scale, loaded };
    let usual_us: f64 = server.plan(Stage::Decode).iter().map(|op| op.kernel.us).sum();
    server.scale = config.step_us.map_or(1.0, |step_us| step_us / usual_us);
    for (number, stage) in config.stages().into_iter().enumerate() {
        server.step(number, stage);
    }
    let outer = if engine.form == "sglang" { SGLANG_LOOP } else { VLLM_LOOP };
    let end = server.machine.host + 10_000;
    server.machine.frame(outer, 900_000, end);
    server.machine.recording
}

const SGLANG_LOOP: &str = "sglang/srt/managers/scheduler.py(1012): event_loop_normal";
const SGLANG_STEP: &str = "sglang/srt/managers/scheduler.py(2257): run_batch";
const VLLM_LOOP: &str = "vllm/v1/engine/core.py(680): run_busy_loop";
const VLLM_STEP: &str = "vllm/v1/worker/gpu_model_runner.py(2466): execute_model";

struct Server<'a> {
    config: &'a Config,
    engine: &'a Engine,
    machine: Machine,
    /// The end of the step for whose tokens the host has not waited yet.
    pending: Option<i64>,
    /// How much longer kernels take than usual.
    scale: f64,
    /// The names of the kernels whose code is loaded.
    loaded: BTreeSet<String>,
}

/// An op that a step launches.
struct Planned<'a> {
    kernel: &'a Kernel,
    name: String,
    place: Place,
}

impl<'a> Server<'a> {
    fn step(&mut self, number: usize, stage: Stage) {
        self.pause(number);
        let start = self.machine.host;
        self.machine.host += self.machine.random.near(SCHEDULE_NS, 0.2);
        self.bubble(false);
        let annotated = self.machine.host;
        let plan = self.plan(stage);
        match self.config.launch_of(stage) {
            Launch::Full => {
                let (before, graph): (Vec<_>, Vec<_>) = plan.into_iter().partition(is_prepared);
                let (graph, after): (Vec<_>, Vec<_>) = graph.into_iter().partition(|op| !is_sampled(op));
                self.eager(number, stage, &before);
                self.replay(number, stage, &graph);
                self.eager(number, stage, &after);
            }
            Launch::Eager => self.eager(number, stage, &plan),
            Launch::Piecewise => self.piecewise(number, stage, &plan),
        }
        self.machine.host += 4_000;
        let (name, end) = (self.annotation(stage), self.machine.host);
        self.machine.recording.steps.push(Step { stage, annotation: HostEvent { name, start: annotated, end } });
        let ready = self.machine.free[0];
        // Without a bubble the host waits for the tokens of the step before, so it is one step ahead.
        let wait = if self.config.bubble.is_some() { Some(ready) } else { self.pending.replace(ready) };
        self.machine.wait(wait.unwrap_or_default());
        let frame = if self.engine.form == "sglang" { SGLANG_STEP } else { VLLM_STEP };
        self.machine.frame(frame, start, self.machine.host);
        self.machine.host += self.machine.random.near(20_000, 0.2);
    }

    /// The server has no request.
    fn pause(&mut self, number: usize) {
        let length = match self.config.pause {
            Pause::None => return,
            Pause::UpTo(longest_us) => self.machine.random.unit() * longest_us as f64 * 1e3,
            Pause::ForBusy(share) => {
                let before = self.machine.recording.ops.iter().filter(|op| op.step + 1 == number);
                let work: i64 = before.map(|op| op.duration).sum();
                self.machine.random.near((work as f64 * (1.0 / share - 1.0)) as i64, 0.1) as f64
            }
        };
        self.machine.host = self.machine.host.max(self.machine.free[0]) + length as i64;
    }

    fn bubble(&mut self, is_inside: bool) {
        let Some(bubble) = self.config.bubble.filter(|bubble| bubble.is_inside == is_inside) else { return };
        let length = self.machine.random.near(bubble.length_us * 1_000, 0.1);
        let start = self.machine.host + 1_000;
        self.machine.host = start + length;
        self.machine.frame(bubble.function, start, self.machine.host);
        self.machine.host += 1_000;
    }

    fn annotation(&self, stage: Stage) -> String {
        let batch = self.config.batch;
        match (self.engine.form.as_str(), stage) {
            ("sglang", Stage::Decode) => format!("step[DECODE bs={batch}]"),
            ("sglang", Stage::Prefill) => "step[EXTEND bs=2 toks=2048]".to_owned(),
            ("sglang", Stage::Mixed) => format!("step[MIXED bs={} toks={}]", batch + 1, batch + 512),
            ("sglang", Stage::Draft) => format!("step[DRAFT bs={batch}]"),
            ("sglang", Stage::Verify) => format!("step[TARGET_VERIFY bs={batch} toks={}]", batch * 4),
            (_, Stage::Prefill) => "execute_context_2(2048)_generation_0(0)".to_owned(),
            (_, Stage::Mixed) => format!("execute_context_1(512)_generation_{batch}({batch})"),
            _ => format!("execute_context_0(0)_generation_{batch}({batch})"),
        }
    }

    /// The ops of a step in the order of their launches.
    fn plan(&self, stage: Stage) -> Vec<Planned<'a>> {
        let engine: &'a Engine = self.engine;
        let cores = self.config.tensor_cores;
        let outside = |kernels: &'a [Kernel], place: Place| {
            let named = kernels.iter().filter_map(move |kernel| Some((kernel, kernel.name_in(stage, false, cores)?)));
            named.map(move |(kernel, name)| Planned { kernel, name: name.to_owned(), place })
        };
        let layer = |(number, kind): (usize, &LayerKind)| {
            let kernels = engine.layer(*kind);
            let named = kernels.filter_map(|kernel| Some((kernel, kernel.name_in(stage, number == 0, cores)?)));
            let place = Place::Layer(number);
            named.map(|(kernel, name)| Planned { kernel, name: name.to_owned(), place }).collect::<Vec<_>>()
        };
        let layers = self.config.layers_of(stage).iter().enumerate().flat_map(layer);
        let head = outside(&engine.prologue, Place::Head);
        head.chain(layers).chain(outside(&engine.tail, Place::Tail)).collect()
    }

    /// Launches ops one by one.
    fn eager(&mut self, number: usize, stage: Stage, plan: &[Planned]) {
        let middle = Place::Layer(self.config.layers_of(stage).len() / 2);
        let mut is_before = true;
        for op in plan {
            if is_before && op.place == middle {
                is_before = false;
                self.bubble(true);
            }
            let correlation = match self.load_ns(number, op) {
                Some(load) => self.machine.load_and_launch(&op.name, number, load),
                None => self.machine.launch(&op.name),
            };
            self.start(number, stage, op, correlation);
            self.machine.after_launch();
        }
    }

    /// How long the launch of an op loads code; `None` if it loads none.
    fn load_ns(&mut self, number: usize, op: &Planned) -> Option<i64> {
        let is_new = !op.name.starts_with("Mem") && self.loaded.insert(op.name.clone());
        let loads = match self.config.loads {
            Loads::None => false,
            Loads::AtStart => true,
            Loads::Late => number >= FIRST_LATE_LOAD,
        };
        if !(is_new && loads) {
            return None;
        }
        let decode = self.plan(Stage::Decode);
        let names: BTreeSet<&str> = decode.iter().map(|op| op.name.as_str()).collect();
        let decode_us = decode.iter().map(|op| op.kernel.us).sum::<f64>() * self.scale;
        let load = decode_us * 1e3 * STEPS_TO_LOAD / names.len() as f64;
        Some(self.machine.random.near(load as i64, 0.6))
    }

    /// Launches ops as one graph.
    fn replay(&mut self, number: usize, stage: Stage, plan: &[Planned]) {
        let correlation = self.machine.launch_graph(plan.len());
        for op in plan {
            self.loaded.insert(op.name.clone());
            self.start(number, stage, op, correlation);
        }
        self.machine.after_launch();
    }

    /// Launches the parts between attention kernels as graphs.
    fn piecewise(&mut self, number: usize, stage: Stage, plan: &[Planned]) {
        let middle = self.config.layers_of(stage).len() / 2;
        let in_graph = |op: &Planned| !(op.kernel.eager || is_prepared(op) || is_sampled(op));
        for part in plan.chunk_by(|a, b| in_graph(a) == in_graph(b)) {
            if !in_graph(&part[0]) {
                self.eager(number, stage, part);
                continue;
            }
            if part[0].place == Place::Layer(middle) {
                self.bubble(true);
            }
            self.replay(number, stage, part);
        }
    }

    /// Runs an op on the GPU.
    fn start(&mut self, number: usize, stage: Stage, op: &Planned, correlation: usize) {
        let (kernel, config) = (op.kernel, self.config);
        // Prefill has more tokens.
        let ratio = if stage.has_prefill_kernels() { config.prefill_ratio } else { 1.0 };
        let usual = (kernel.us * ratio * self.scale * 1e3) as i64;
        let mut duration = self.machine.random.near(usual, 0.02 + config.faults.noise).max(500);
        if config.faults.waiting && kernel.waits && self.machine.random.chance(0.05) {
            duration += self.machine.random.near(2_000_000, 0.5);
        }
        let stream = if kernel.side { SIDE_STREAM } else { MAIN_STREAM };
        let (name, role) = (op.name.clone(), kernel.role.clone());
        let first = GpuOp { name, role, start: 0, duration, stream, correlation, step: number, place: op.place };
        let first = self.machine.run(first);
        if config.faults.side_stream && kernel.role == "o_proj" {
            let name = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int> >".to_owned();
            let (start, duration) = ((first.start + duration / 3).max(self.machine.free[1]), 1_500);
            self.machine.free[1] = start + duration;
            let role = "side".to_owned();
            self.machine.recording.ops.push(GpuOp { name, role, start, duration, stream: SIDE_STREAM, ..first });
        }
    }
}

/// Ops that engines launch before a graph: everything before the embedding.
fn is_prepared(op: &Planned) -> bool {
    let is_embedding = ["indexSelect", "gather", "triton_poi_fused_0"].iter().any(|word| op.name.contains(word));
    op.place == Place::Head && !is_embedding && !op.kernel.waits
}

/// Ops that engines launch after a graph: sampling and the copies of the tokens.
fn is_sampled(op: &Planned) -> bool {
    op.kernel.role == "sampling" || op.place == Place::Tail && op.name.starts_with("Mem")
}
