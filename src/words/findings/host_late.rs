//! `host-late`: its titles, evidence and actions.

use super::{Amount, CodeOnPath, Cost, Framework, HostCaveat, IdleGaps, code_of_host, fused_optimizer, gaps, graphs};
use crate::trace::{Ms, Ns, Vendor};
use crate::words::{or_nothing, time, time_of};

pub(crate) const TITLE: &str = "late launches by the host";
/// If first launches explain most of the cost.
pub(crate) const LOADING_TITLE: &str = "first launches that load kernels";
/// If a few long gaps are most of the time.
pub(crate) const PAUSES_TITLE: &str = "pauses of the host between GPU work";
/// If the host works between blocking calls and launches.
pub(crate) const WORK_TITLE: &str = "work of the host between GPU work";

/// What the replay of a cost assumes.
const SAVED: &str = "saved if the host takes no time";

/// Late launches, by what is known of their gaps.
#[derive(Debug)]
pub(crate) struct LateLaunches<'a> {
    pub(crate) gaps: IdleGaps,
    pub(crate) longest: Option<Ns>,
    pub(crate) long: Option<LongGaps>,
    /// The part in which kernels were launched for the first time.
    pub(crate) loading: Option<Ms>,
    pub(crate) pause: Option<Pause<'a>>,
    pub(crate) code: Option<CodeOnPath<'a>>,
    pub(crate) caveat: HostCaveat,
}

/// The long gaps, if there are several.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LongGaps {
    pub(crate) count: u64,
    /// Gaps of this length are long.
    pub(crate) limit: Ms,
    pub(crate) total: Ns,
}

/// The code in which the host spent most time of long gaps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pause<'a> {
    pub(crate) gaps: u64,
    pub(crate) code: &'a str,
    pub(crate) time: Ms,
}

pub(crate) fn late_launches(cost: Cost, late: &LateLaunches) -> String {
    format!(
        "{}the GPU idles{} in {} until the host launches the next op{}{}{}{}{}{}",
        cost.with_reason(SAVED),
        cost.measured(),
        late.gaps,
        or_nothing(late.longest, |longest| format!("; the longest gap is {}", time_of(longest))),
        or_nothing(late.long, long_gaps),
        or_nothing(late.loading, |loading| {
            format!("; in {} of that time the host launched kernels that had not run before", time(loading))
        }),
        or_nothing(late.pause, pause),
        code_of_host(late.code),
        late.caveat.words()
    )
}

fn long_gaps(long: LongGaps) -> String {
    format!("; {} of {} or more make up {}", gaps(long.count), time(long.limit), time_of(long.total))
}

fn pause(pause: Pause) -> String {
    format!(
        "; in {} the host was in {} itself, without the code that it calls, for {}",
        gaps(pause.gaps),
        pause.code,
        time(pause.time)
    )
}

/// The late time follows blocking calls that took less time than their gaps.
pub(crate) fn late_after_calls(
    cost: Cost,
    code_of_pause: Option<Pause>,
    code: Option<CodeOnPath>,
    caveat: HostCaveat,
) -> String {
    format!(
        "{}the GPU idles after blocking calls until the host launches the next op, for{} longer than the calls took, so that the \
         host is late without them too{}{}{}",
        cost.with_reason(SAVED),
        or_nothing(cost.other_time(), |longer| format!(" {longer}")),
        or_nothing(code_of_pause, pause),
        code_of_host(code),
        caveat.words()
    )
}

/// The replay shows that the host's time costs something. `longest_gap`: its clause, see [`crate::words::idle::longest_gap`].
pub(crate) fn between_gpu_work(
    amount: Amount,
    follows_calls: bool,
    longest_gap: Option<&str>,
    code: Option<CodeOnPath>,
    caveat: HostCaveat,
) -> String {
    format!(
        "{amount}: {SAVED}, for which the GPU waits{}{}{}{}",
        if follows_calls { ", also after blocking calls" } else { "" },
        or_nothing(longest_gap, |gap| format!("; {gap}")),
        code_of_host(code),
        caveat.words()
    )
}

/// `overlaps`: the engine is seen to prepare a step while the GPU works on another.
pub(crate) fn work_action(framework: Framework, overlaps: bool) -> &'static str {
    match framework {
        _ if overlaps => {
            "The engine prepares a step while the GPU works on another one; this is what that does not hide. Make the host's work shorter."
        }
        Framework::Transformers | Framework::Torch => {
            "Prepare the data of the next step while the GPU works: in the workers of a DataLoader or on another thread, with \
             the copy to the GPU ahead of its use."
        }
        Framework::Xla => {
            "Dispatch ahead: JAX returns before the work is done, until the program reads a value. Bring the next batch to the \
             device while the step runs (`jax.device_put`)."
        }
        Framework::Program => "Do the host's work for the next step while the GPU works on this one.",
        _ => "Prepare the next step while the GPU works on this one: overlap or asynchronous scheduling.",
    }
}

pub(crate) fn loading_action(vendor: Vendor) -> &'static str {
    match vendor {
        Vendor::Nvidia => {
            "Run the same work several times before the capture: code is loaded once. To load all of it at the start, set \
             `CUDA_MODULE_LOADING=EAGER`."
        }
        Vendor::Amd | Vendor::Intel | Vendor::Huawei | Vendor::Google => {
            "Run the same work several times before the capture: code is loaded once."
        }
    }
}

pub(crate) fn pause_action(framework: Framework) -> String {
    let causes = match framework {
        Framework::Xla => "data loading, tracing and compilation for shapes that are new, or warm-up",
        Framework::Program => "file or network access, compilation, or initialization",
        Framework::Training => "data loading, logging, checkpoints, compilation, or warm-up",
        Framework::Transformers | Framework::Torch => "data loading, compilation, or warm-up",
        _ => "compilation, graph capture, or a lack of requests",
    };
    format!("Find out what the host does during the longest gaps: {causes}. If it is warm-up, capture after it.")
}

/// What advice about late launches depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program {
    pub(crate) framework: Framework,
    pub(crate) vendor: Vendor,
    pub(crate) caveat: HostCaveat,
    /// Graphs launch a part of the work already.
    pub(crate) has_replays: bool,
    pub(crate) has_fused_optimizer: bool,
}

/// What to do about late launches.
pub(crate) fn action(program: Program) -> String {
    let first = match program.caveat {
        HostCaveat::FewStepsInWindowWithStacks => {
            "First capture without Python stacks, and look at more steps than this window has. If the delay remains: "
        }
        HostCaveat::FewStepsWithStacks => {
            "First capture at least three consecutive steps without Python stacks. If the delay remains: "
        }
        _ => "",
    };
    format!("{first}{}", fewer_launches(program))
}

fn fewer_launches(program: Program) -> String {
    let graphs = graphs(program.vendor);
    match program.framework {
        Framework::SgLang => format!(
            "Check that {graphs} are on for this stage: {}For prefill, use larger chunks (`--chunked-prefill-size`).",
            graph_flags(program.vendor)
        ),
        Framework::Vllm if program.has_replays => format!(
            "{graphs} launch a part of the work already. Include the batch sizes of the other steps in \
             `cudagraph_capture_sizes` of `--compilation-config`."
        ),
        Framework::Vllm => format!(
            "Remove `--enforce-eager`, so that {graphs} replay the step, and include this batch size in \
             `cudagraph_capture_sizes` of `--compilation-config`."
        ),
        Framework::TensorRtLlm => {
            format!("Enable {graphs} with `cuda_graph_config: {{max_batch_size: ..., enable_padding: true}}`.")
        }
        Framework::OtherEngine => format!("Check that the engine replays this stage with {graphs}."),
        Framework::Transformers | Framework::Training | Framework::Torch if program.has_replays => format!(
            "{graphs} launch a part of the work already; these launches are outside of them. Reduce their number with {}, \
             use larger batches, and move other work off the launching thread.",
            compile_mode(program.vendor)
        ),
        Framework::Transformers => {
            let mode = compile_mode(program.vendor);
            format!(
                "Compile the model with {mode}. To generate text, serve it with an engine that replays decode steps as {graphs}."
            )
        }
        Framework::Training => format!(
            "To launch less often, compile the model with {}, {}and use larger batches. Move logging and data loading off the \
             launching thread.",
            compile_mode(program.vendor),
            fused_optimizer(program.has_fused_optimizer)
        ),
        Framework::Torch => format!(
            "Reduce the number of launches with {}, use larger batches, and move other work off the launching thread.",
            compile_mode(program.vendor)
        ),
        Framework::Xla if program.vendor == Vendor::Google => {
            "Put more of the step into one `jax.jit`, use larger batches, and move other work off the launching thread."
                .to_owned()
        }
        Framework::Xla => format!(
            "Put more of the step into one `jax.jit`, let XLA replay it with {graphs} (`--xla_gpu_enable_command_buffer` in \
             `XLA_FLAGS`), and use larger batches."
        ),
        Framework::Program => format!(
            "Launch the next ops before the previous ones end: issue work asynchronously, and replay a fixed sequence \
             of ops with {graphs}."
        ),
    }
}

/// SGLang calls its flags for graphs the same on NVIDIA, AMD and Ascend. It has none on Intel.
fn graph_flags(vendor: Vendor) -> &'static str {
    match vendor {
        Vendor::Nvidia | Vendor::Amd | Vendor::Huawei => {
            "remove `--disable-cuda-graph`, and set `--cuda-graph-max-bs` to the largest batch. "
        }
        Vendor::Intel | Vendor::Google => "",
    }
}

fn compile_mode(vendor: Vendor) -> &'static str {
    match vendor {
        // `reduce-overhead` uses CUDA or HIP graphs.
        Vendor::Nvidia | Vendor::Amd => "`torch.compile(mode=\"reduce-overhead\")`",
        Vendor::Intel | Vendor::Google => "`torch.compile`",
        Vendor::Huawei => "`torch.compile` with the backend of torchair",
    }
}
