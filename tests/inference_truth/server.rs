//! Plays the steps of a server on one host thread and one GPU, and records what happens.
//!
//! The host launches ops in order; an op starts when its stream is free and its launch has returned. With `bubble`, the host
//! waits for the end of each step before it prepares the next; otherwise it prepares the next step while the GPU works. All
//! times are nanoseconds of one clock.

use super::config::{Config, Launch};
use super::engine::{Engine, Kernel, LayerKind, Stage};
use super::random::Random;

/// The streams of ops.
pub(crate) const MAIN_STREAM: u32 = 7;
const SIDE_STREAM: u32 = 21;
/// Time between two ops that were launched in time.
const TURNAROUND_NS: i64 = 900;
/// Time from the return of a launch call to the start of its op on an idle GPU.
const LATENCY_NS: i64 = 2_500;
/// Time of a launch call, and of the host code after it.
const LAUNCH_NS: i64 = 3_200;
const AFTER_LAUNCH_NS: i64 = 700;
/// Time of a graph launch, and of each op in it.
const GRAPH_LAUNCH_NS: i64 = 30_000;
const GRAPH_OP_NS: i64 = 150;
/// Time of the host code before and after the launches of a step.
const SCHEDULE_NS: i64 = 60_000;

/// Where in a pass an op is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Head,
    Layer(usize),
    Tail,
}

#[derive(Debug, Clone)]
pub(crate) struct GpuOp {
    pub(crate) name: String,
    pub(crate) role: String,
    pub(crate) start: i64,
    pub(crate) duration: i64,
    pub(crate) stream: u32,
    pub(crate) correlation: usize,
    pub(crate) step: usize,
    pub(crate) place: Place,
}

impl GpuOp {
    pub(crate) fn end(&self) -> i64 {
        self.start + self.duration
    }
}

/// A named interval of the host thread.
#[derive(Debug, Clone)]
pub(crate) struct HostEvent {
    pub(crate) name: String,
    pub(crate) start: i64,
    pub(crate) end: i64,
}

/// One step as it happened.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) stage: Stage,
    pub(crate) annotation: HostEvent,
}

/// Everything that happened.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    pub(crate) ops: Vec<GpuOp>,
    /// By correlation id.
    pub(crate) calls: Vec<HostEvent>,
    pub(crate) frames: Vec<HostEvent>,
    pub(crate) steps: Vec<Step>,
}

/// Plays a configuration.
pub(crate) fn play(config: &Config, engine: &Engine, seed: u64) -> Recording {
    let random = Random::new(seed);
    let mut server = Server {
        config,
        engine,
        random,
        recording: Recording::default(),
        host: 1_000_000,
        free: [0; 2],
        pending: None,
    };
    for (number, stage) in config.stages().into_iter().enumerate() {
        server.step(number, stage);
    }
    let outer = if engine.form == "sglang" { SGLANG_LOOP } else { VLLM_LOOP };
    let end = server.host + 10_000;
    server.frame(outer, 900_000, end);
    server.recording
}

const SGLANG_LOOP: &str = "sglang/srt/managers/scheduler.py(1012): event_loop_normal";
const SGLANG_STEP: &str = "sglang/srt/managers/scheduler.py(2257): run_batch";
const VLLM_LOOP: &str = "vllm/v1/engine/core.py(680): run_busy_loop";
const VLLM_STEP: &str = "vllm/v1/worker/gpu_model_runner.py(2466): execute_model";

struct Server<'a> {
    config: &'a Config,
    engine: &'a Engine,
    random: Random,
    recording: Recording,
    /// The time of the host.
    host: i64,
    /// The time at which the main and the second stream are free.
    free: [i64; 2],
    /// The end of the step for whose tokens the host has not waited yet.
    pending: Option<i64>,
}

/// An op that a step launches.
struct Planned<'a> {
    kernel: &'a Kernel,
    name: String,
    place: Place,
}

impl<'a> Server<'a> {
    fn frame(&mut self, name: &str, start: i64, end: i64) {
        self.recording.frames.push(HostEvent { name: name.to_owned(), start, end });
    }

    /// A call of the driver, with its correlation id.
    fn call(&mut self, name: &str, duration: i64) -> usize {
        let name = if self.engine.is_amd() { name.replacen("cuda", "hip", 1) } else { name.to_owned() };
        self.recording.calls.push(HostEvent { name, start: self.host, end: self.host + duration });
        self.host += duration;
        self.recording.calls.len() - 1
    }

    fn step(&mut self, number: usize, stage: Stage) {
        self.pause();
        let start = self.host;
        self.host += self.random.near(SCHEDULE_NS, 0.2);
        self.bubble(false);
        let annotated = self.host;
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
        self.host += 4_000;
        let (name, end) = (self.annotation(stage), self.host);
        self.recording.steps.push(Step { stage, annotation: HostEvent { name, start: annotated, end } });
        let ready = self.free[0];
        // Without a bubble the host waits for the tokens of the step before, so it is one step ahead.
        let wait = if self.config.bubble.is_some() { Some(ready) } else { self.pending.replace(ready) };
        let until = wait.unwrap_or(self.host).max(self.host) + 4_000;
        self.call("cudaEventSynchronize", until - self.host);
        let frame = if self.engine.form == "sglang" { SGLANG_STEP } else { VLLM_STEP };
        self.frame(frame, start, self.host);
        self.host += self.random.near(20_000, 0.2);
    }

    /// The server has no request.
    fn pause(&mut self) {
        if self.config.pause_us > 0 {
            let length = self.random.unit() * self.config.pause_us as f64 * 1e3;
            self.host = self.host.max(self.free[0]) + length as i64;
        }
    }

    fn bubble(&mut self, is_inside: bool) {
        let Some(bubble) = self.config.bubble.filter(|bubble| bubble.is_inside == is_inside) else { return };
        let length = self.random.near(bubble.length_us * 1_000, 0.1);
        let start = self.host + 1_000;
        self.host = start + length;
        self.frame(bubble.function, start, self.host);
        self.host += 1_000;
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
            let (name, duration) = (launch_name(&op.name), self.random.near(LAUNCH_NS, 0.2));
            let correlation = self.call(name, duration);
            self.start(number, stage, op, correlation);
            self.host += AFTER_LAUNCH_NS;
        }
    }

    /// Launches ops as one graph.
    fn replay(&mut self, number: usize, stage: Stage, plan: &[Planned]) {
        let correlation = self.call("cudaGraphLaunch", GRAPH_LAUNCH_NS + GRAPH_OP_NS * plan.len() as i64);
        plan.iter().for_each(|op| self.start(number, stage, op, correlation));
        self.host += AFTER_LAUNCH_NS;
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
        let scale = if stage.has_prefill_kernels() { 6.0 } else { 1.0 };
        let usual = (kernel.us * scale * 1e3) as i64;
        let mut duration = self.random.near(usual, 0.02 + config.faults.noise).max(500);
        if config.faults.waiting && kernel.waits && self.random.chance(0.05) {
            duration += self.random.near(2_000_000, 0.5);
        }
        let side = usize::from(kernel.side);
        let launched = self.recording.calls[correlation].end + LATENCY_NS;
        let start = launched.max(self.free[side] + self.random.near(TURNAROUND_NS, 0.3));
        self.free[side] = start + duration;
        let stream = if kernel.side { SIDE_STREAM } else { MAIN_STREAM };
        let (name, role) = (op.name.clone(), kernel.role.clone());
        let first = GpuOp { name, role, start, duration, stream, correlation, step: number, place: op.place };
        if config.faults.side_stream && kernel.role == "o_proj" {
            let name = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int> >".to_owned();
            let (start, duration) = ((start + duration / 3).max(self.free[1]), 1_500);
            self.free[1] = start + duration;
            let role = "side".to_owned();
            self.recording.ops.push(GpuOp { name, role, start, duration, stream: SIDE_STREAM, ..first.clone() });
        }
        self.recording.ops.push(first);
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

fn launch_name(op: &str) -> &'static str {
    match op.split_once(' ') {
        Some(("Memcpy", _)) => "cudaMemcpyAsync",
        Some(("Memset", _)) => "cudaMemsetAsync",
        _ => "cudaLaunchKernel",
    }
}
