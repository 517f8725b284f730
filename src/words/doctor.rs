//! What the checks of a capture found: a function for each check, from counts.

use super::notices::unrecorded::said_by_profiler;
use super::{counted, noun, percent_0, time_of};
use crate::digits::grouped;
use crate::trace::{Ns, Pct};

/// `31,905 kernels of 8 GPUs.`
pub(crate) fn kernels(kernels: u64, devices: usize) -> String {
    format!("{} kernels of {devices} {}.", grouped(kernels), noun(devices as u64, "GPU", "GPUs"))
}

/// Events of categories that are not read.
pub(crate) fn other_accelerator(events: u64) -> String {
    format!(
        "The file has no GPU kernels: it is of a process that runs no GPU work, or the profiler did not record the GPU. {} of categories \
         that are not read may be those of another accelerator.",
        counted(events, "event", "events")
    )
}

/// The remedy for another accelerator, and that for a GPU.
pub(crate) fn either_remedy(other_accelerator: &str, gpu: &str) -> String {
    format!("{other_accelerator} Else: {gpu}")
}

/// Only events of the host.
pub(crate) fn only_host_events(events: u64, diagnostics: &[String]) -> String {
    format!(
        "The file has no GPU kernels, only {} events of the host: it is of a process that runs no GPU work, such as the front \
         end of a server, or the profiler did not record the GPU{}.",
        grouped(events),
        said_by_profiler(diagnostics).trim_end_matches('.')
    )
}

/// Launches without any GPU op.
pub(crate) fn no_gpu_records(launches: u64, diagnostics: &[String]) -> String {
    format!(
        "The profiler recorded no GPU op although kernels were launched ({}){}.",
        counted(launches, "launch call", "launch calls"),
        said_by_profiler(diagnostics).trim_end_matches('.')
    )
}

/// The environment of the machine is in the file.
pub(crate) fn environment(variables: u64, like_secrets: u64) -> String {
    let secrets = match like_secrets {
        0 => String::new(),
        count => format!(", {} named like secrets", grouped(count)),
    };
    format!("The file holds the environment of the machine: {}{secrets}.", counted(variables, "variable", "variables"))
}

/// Ops with times that cannot be used.
pub(crate) fn op_times(ops: u64) -> String {
    format!(
        "{} no usable time, or one that cannot be true: left out of all numbers, so sums are too small.",
        counted(ops, "GPU op has", "GPU ops have")
    )
}

/// Ops whose launch is not certain.
pub(crate) fn ambiguous_launches(ops: u64) -> String {
    format!(
        "{} a correlation id that several calls have: their launches, and with them steps and causes of idle time, are not \
         certain.",
        counted(ops, "GPU op has", "GPU ops have")
    )
}

/// Calls were recorded.
pub(crate) fn calls(calls: u64) -> String {
    format!("{} calls of the GPU API.", grouped(calls))
}

/// Steps with annotations.
pub(crate) fn marked_steps(steps: u64) -> String {
    format!("{} marked by annotations.", counted(steps, "step", "steps"))
}

/// Steps without annotations.
pub(crate) fn inferred_steps(steps: u64) -> String {
    format!("{} inferred, because no annotation marks them; batch sizes are unknown.", counted(steps, "step", "steps"))
}

/// So few steps that they may be unusual.
pub(crate) fn few_steps(steps: u64) -> String {
    format!(
        "Only {steps} {}: the trace does not show whether other steps are like {}.",
        noun(steps, "step", "steps"),
        noun(steps, "it", "them")
    )
}

/// Enough steps.
pub(crate) fn steps(steps: u64) -> String {
    format!("{} steps.", grouped(steps))
}

/// Stacks were recorded.
pub(crate) fn frames(frames: u64) -> String {
    format!("{} Python frames.", grouped(frames))
}

/// Shapes were recorded.
pub(crate) fn shapes(ops: u64) -> String {
    format!("{} ops with shapes.", grouped(ops))
}

/// Graphs were recorded as a whole. `has_kernels`: there are other kernels.
pub(crate) fn whole_graphs(replays: u64, has_kernels: bool) -> String {
    format!(
        "{} of CUDA graphs recorded as a whole, without their kernels{}",
        counted(replays, "replay", "replays"),
        if has_kernels { ": which kernels take their time is not known." } else { "." }
    )
}

/// Graph launches without work.
pub(crate) fn lost_graphs(lost: u64, all: u64) -> String {
    format!(
        "The file contains no GPU work of {} of {} graph launches: the profiler did not record these graphs.",
        grouped(lost),
        grouped(all)
    )
}

/// The last launches have no op.
pub(crate) fn launches_at_end(unfinished: u64, all: u64) -> String {
    format!(
        "The last {} of {} kernel launches have no GPU op: the capture ended before they ran, or the profiler lost them.",
        grouped(unfinished),
        grouped(all)
    )
}

/// Kernel launches without an op.
pub(crate) fn lost_launches(lost: u64, all: u64) -> String {
    format!(
        "The file contains no GPU op of {} of {} kernel launches: the profiler lost them.",
        grouped(lost),
        grouped(all)
    )
}

/// A wait that is longer than the ops in the file.
pub(crate) fn long_wait(longest: Ns) -> String {
    format!(
        "A call waited for the GPU until {} after the end of the last op before: the GPU executed work that the file does not \
         contain.",
        time_of(longest)
    )
}

/// Kernels in graphs have no stack.
pub(crate) fn code_of_graphs(replayed: Pct) -> String {
    format!(
        "Graphs replay {} of the kernel time of a stage. Kernels in a graph have no stack: the triage needs a second \
         trace without graphs to name their code.",
        percent_0(replayed)
    )
}

/// Ranks were merged.
pub(crate) fn merged_ranks(ranks: usize) -> String {
    format!("The file contains {ranks} merged ranks: a triage needs the file of a single rank.")
}

/// A notice as a sentence.
pub(crate) fn of_notice(message: &str) -> String {
    format!("{}.", super::capitalize(message.to_owned()))
}
