//! One host thread that calls the driver, one GPU with two streams, and the recording of what they do.
//!
//! An op starts when its stream is free and its launch has returned. All times are nanoseconds of one clock.

use super::engine::Stage;
use super::random::Random;

/// The streams of ops.
pub(crate) const MAIN_STREAM: u32 = 7;
pub(crate) const SIDE_STREAM: u32 = 21;
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
/// Time of a launch call before and after it loads code.
const AROUND_LOAD_NS: i64 = 40_000;

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
    /// Other ranges of the host.
    pub(crate) ranges: Vec<HostEvent>,
    /// The launch calls that load the code of their kernel, each with its step.
    pub(crate) loads: Vec<(usize, usize)>,
}

impl Recording {
    /// Moves everything to a later time.
    pub(crate) fn delay(&mut self, time: i64) {
        self.ops.iter_mut().for_each(|op| op.start += time);
        let annotations = self.steps.iter_mut().map(|step| &mut step.annotation);
        let events = self.calls.iter_mut().chain(&mut self.frames).chain(&mut self.ranges).chain(annotations);
        events.for_each(|event| (event.start, event.end) = (event.start + time, event.end + time));
    }
}

/// The host thread, the GPU and their recording.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) random: Random,
    pub(crate) recording: Recording,
    /// The time of the host.
    pub(crate) host: i64,
    /// The time at which the main and the second stream are free.
    pub(crate) free: [i64; 2],
    is_amd: bool,
}

impl Machine {
    pub(crate) fn new(seed: u64, is_amd: bool) -> Self {
        let (random, recording) = (Random::new(seed), Recording::default());
        Self { random, recording, host: 1_000_000, free: [0; 2], is_amd }
    }

    pub(crate) fn frame(&mut self, name: &str, start: i64, end: i64) {
        self.recording.frames.push(HostEvent { name: name.to_owned(), start, end });
    }

    /// A call of the driver, with its correlation id.
    pub(crate) fn call(&mut self, name: &str, duration: i64) -> usize {
        let start = self.host;
        self.host += duration;
        self.add_call(name, start)
    }

    fn add_call(&mut self, name: &str, start: i64) -> usize {
        let name = if self.is_amd { name.replacen("cuda", "hip", 1) } else { name.to_owned() };
        self.recording.calls.push(HostEvent { name, start, end: self.host });
        self.recording.calls.len() - 1
    }

    /// Waits until a time at which the GPU is done.
    pub(crate) fn wait(&mut self, until: i64) {
        let until = until.max(self.host) + 4_000;
        self.call("cudaEventSynchronize", until - self.host);
    }

    /// Launches one op with this name.
    pub(crate) fn launch(&mut self, op: &str) -> usize {
        let duration = self.random.near(LAUNCH_NS, 0.2);
        self.call(launch_name(op), duration)
    }

    /// The same, but the call loads the code of the kernel first.
    pub(crate) fn load_and_launch(&mut self, op: &str, step: usize, load: i64) -> usize {
        let start = self.host;
        self.host += AROUND_LOAD_NS;
        let is_library = self.random.chance(0.5);
        let name = match (self.is_amd, is_library) {
            (true, _) => "hipModuleLoadData",
            (false, true) => "cuLibraryLoadData",
            (false, false) => "cuModuleLoadData",
        };
        self.call(name, load);
        self.host += AROUND_LOAD_NS;
        let call = self.add_call(launch_name(op), start);
        self.recording.loads.push((step, call));
        call
    }

    /// The host code after a launch.
    pub(crate) fn after_launch(&mut self) {
        self.host += AFTER_LAUNCH_NS;
    }

    /// Launches a graph of this many ops.
    pub(crate) fn launch_graph(&mut self, ops: usize) -> usize {
        self.call("cudaGraphLaunch", GRAPH_LAUNCH_NS + GRAPH_OP_NS * ops as i64)
    }

    /// Runs an op, which gets its start here.
    pub(crate) fn run(&mut self, op: GpuOp) -> GpuOp {
        let side = usize::from(op.stream == SIDE_STREAM);
        let launched = self.recording.calls[op.correlation].end + LATENCY_NS;
        let start = launched.max(self.free[side] + self.random.near(TURNAROUND_NS, 0.3));
        let op = GpuOp { start, ..op };
        self.free[side] = op.end();
        self.recording.ops.push(op.clone());
        op
    }
}

fn launch_name(op: &str) -> &'static str {
    match op.split_once(' ') {
        Some(("Memcpy", _)) => "cudaMemcpyAsync",
        Some(("Memset", _)) => "cudaMemsetAsync",
        _ => "cudaLaunchKernel",
    }
}
