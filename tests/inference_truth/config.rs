//! What a generated server does and how its trace is captured.

use super::engine::{LayerKind, Stage};

/// How an engine launches the kernels of a decode step. It launches prefill kernel by kernel, except with piecewise graphs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Launch {
    /// One graph for the whole pass.
    Full,
    /// One graph for each part between attention kernels: one more than there are layers.
    Piecewise,
    /// Kernel by kernel.
    Eager,
}

/// What a capture contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Capture {
    /// torch.profiler with step annotations.
    Annotated,
    /// torch.profiler without annotations.
    Plain,
    /// torch.profiler without annotations, with Python frames.
    Frames,
    /// torch.profiler with step annotations and Python frames.
    AnnotatedFrames,
    /// The CSV of `nsys stats -r cuda_gpu_trace`: names and times of GPU ops, without launches.
    Names,
}

impl Capture {
    pub(crate) fn has_annotations(self) -> bool {
        matches!(self, Self::Annotated | Self::AnnotatedFrames)
    }

    pub(crate) fn has_frames(self) -> bool {
        matches!(self, Self::Frames | Self::AnnotatedFrames)
    }
}

/// The requests that the server works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Only decode steps.
    Decode,
    /// One prefill step after three decode steps.
    PrefillAndDecode,
    /// Every third step also has a chunk of a prompt.
    Chunked,
    /// Three draft steps of one layer, then one step that verifies.
    Speculation,
    /// One prefill step in the middle of decode steps.
    OnePrefill,
    /// One prefill step before all decode steps.
    PrefillFirst,
    /// No server: steps of training.
    Training,
}

/// When the server has nothing to do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Pause {
    None,
    /// Before each step, up to this time in microseconds.
    UpTo(i64),
    /// Before each step, so long that the GPU is busy for this share of the time.
    ForBusy(f64),
}

/// When the process loads the code of kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loads {
    /// Before the capture.
    None,
    /// When it launches a kernel for the first time, and it has just started.
    AtStart,
    /// When it launches a kernel for the first time, and it has run for some steps.
    Late,
}

/// Time that the host spends in a known Python function.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bubble {
    pub(crate) function: &'static str,
    pub(crate) length_us: i64,
    /// Before the first kernel of a step, or before the kernels of its middle layer.
    pub(crate) is_inside: bool,
}

/// Problems of the capture and of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Faults {
    /// Durations differ from the usual ones by up to this share.
    pub(crate) noise: f64,
    /// The share of GPU ops whose records are lost.
    pub(crate) lost: f64,
    /// Whether the capture begins and ends inside of a step.
    pub(crate) is_cut: bool,
    /// Whether one collective in twenty waits milliseconds for another rank.
    pub(crate) waiting: bool,
    /// Whether a small op runs on a second stream during each layer.
    pub(crate) side_stream: bool,
}

/// One generated trace.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) name: String,
    pub(crate) engine: &'static str,
    pub(crate) layers: Vec<LayerKind>,
    pub(crate) launch: Launch,
    pub(crate) capture: Capture,
    pub(crate) work: Work,
    pub(crate) steps: usize,
    /// The number of requests in decode, and the number for which the graph was captured.
    pub(crate) batch: u64,
    pub(crate) captured: u64,
    pub(crate) bubble: Option<Bubble>,
    pub(crate) pause: Pause,
    pub(crate) loads: Loads,
    /// The data loader waits before each step: between these multiples of the GPU time of a step.
    pub(crate) stall: Option<(f64, f64)>,
    /// GPU time of a decode step or training step; `None`: that of the usual durations of its kernels.
    pub(crate) step_us: Option<f64>,
    /// How many times as long the kernels of prefill take.
    pub(crate) prefill_ratio: f64,
    pub(crate) faults: Faults,
    /// Whether the engine decodes with prefill kernels.
    pub(crate) tensor_cores: bool,
}

impl Config {
    /// The steps of the server in order, each with its stage.
    pub(crate) fn stages(&self) -> Vec<Stage> {
        let stage = |index: usize| match self.work {
            Work::Decode => Stage::Decode,
            Work::PrefillAndDecode if index % 4 == 3 => Stage::Prefill,
            Work::Chunked if index % 3 == 2 => Stage::Mixed,
            Work::PrefillAndDecode | Work::Chunked => Stage::Decode,
            Work::OnePrefill if index == self.steps / 2 => Stage::Prefill,
            Work::PrefillFirst if index == 0 => Stage::Prefill,
            Work::OnePrefill | Work::PrefillFirst => Stage::Decode,
            Work::Training => Stage::Training,
            Work::Speculation if index % 4 == 3 => Stage::Verify,
            Work::Speculation => Stage::Draft,
        };
        (0..self.steps).map(stage).collect()
    }

    /// The layers of a step.
    pub(crate) fn layers_of(&self, stage: Stage) -> &[LayerKind] {
        if stage == Stage::Draft { &self.layers[..1] } else { &self.layers }
    }

    /// How the kernels of a step are launched.
    pub(crate) fn launch_of(&self, stage: Stage) -> Launch {
        match (self.launch, stage) {
            (Launch::Full, Stage::Prefill | Stage::Mixed) => Launch::Eager,
            (launch, _) => launch,
        }
    }
}
