//! The notices about a trace, each with advice: a function for each, from counts and the format of the trace. [`import`] has those about
//! what could not be read, [`unrecorded`] those about a profiler that recorded no GPU work.

pub(crate) mod import;
pub(crate) mod unrecorded;

use crate::digits::grouped;
use crate::trace::Ns;
use crate::words::counted;

/// The words of one notice.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) message: String,
    pub(crate) advice: &'static str,
}

fn told(message: String, advice: &'static str) -> Told {
    Told { message, advice }
}

/// Only a window is analyzed.
pub(crate) fn window(ops: u64, of_ops: u64, cut_ops: u64, has_host_waits: bool) -> Told {
    let [ops, of_ops, cut_ops] = [ops, of_ops, cut_ops].map(grouped);
    let waits = if has_host_waits { "; waits in the operating system have no times and are excluded" } else { "" };
    let message = format!(
        "only a window of the trace is analyzed: {ops} of {of_ops} GPU ops, {cut_ops} of them clipped at its ends{waits}"
    );
    told(message, "Clear the window to analyze the whole trace.")
}

/// Graphs were traced as a whole.
pub(crate) fn whole_graphs(runs: u64) -> Told {
    let message = format!(
        "{} of CUDA graphs traced as a whole: their time counts as busy time, but the kernels inside are not known",
        counted(runs, "run", "runs")
    );
    told(message, "Capture again with `--cuda-graph-trace=node`.")
}

/// A given wall time is too short.
pub(crate) fn wall_raised(given: Ns, busy: Ns) -> Told {
    let message = format!(
        "the given wall time ({} ns) is shorter than the busy time of the GPU ({} ns), which is used instead",
        grouped(given.0.unsigned_abs()),
        grouped(busy.0.unsigned_abs())
    );
    told(message, "Profiling slows a run down, so how long the GPU is idle is unknown here, not zero.")
}

/// The time range is too long for a profile.
pub(crate) fn endless_window(days: u64) -> Told {
    let message = format!("the first and the last GPU op are {} apart", counted(days, "day", "days"));
    told(
        message,
        "Profiles are shorter: an op has a wrong time. Busy shares and the CPU part are wrong; give the wall time.",
    )
}

/// The file has several ranks.
pub(crate) fn merged_ranks(ranks: usize) -> Told {
    let message = format!("a file of {ranks} merged ranks; each one is counted as a separate device");
    told(message, "The clocks of ranks differ: compare only their totals.")
}

/// Why the processes of ops are doubtful.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Doubt {
    /// This many ops have none that an operating system could have.
    Implausible { ops: u64 },
    /// All ops are of one process, the calls of several, and nothing links them.
    OneOfSeveral { callers: usize },
}

/// The processes of ops are doubtful.
pub(crate) fn doubtful_processes(doubt: Doubt) -> Told {
    let message = match doubt {
        Doubt::Implausible { ops } => format!("{} without a plausible process", counted(ops, "GPU op", "GPU ops")),
        Doubt::OneOfSeveral { callers } => {
            format!("all GPU ops belong to one process, API calls to {callers}, and no call launched an op")
        }
    };
    told(message, "Values by process and links from calls to ops are unreliable. Export again with a newer nsys.")
}

/// Ops of one stream overlap.
pub(crate) fn same_stream_overlap(ops: u64) -> Told {
    let message = format!(
        "{} before the previous one on the same stream has ended",
        counted(ops, "GPU op starts", "GPU ops start")
    );
    told(
        message,
        "Programmatic dependent launch (NVIDIA GPUs) or clock artifacts cause this. All ops count; busy time counts overlaps once.",
    )
}
