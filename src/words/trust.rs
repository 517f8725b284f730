//! The limits of a trace: a function for each, from the counts and times that prove it. Each states the limit and names the results that
//! it affects.

use crate::digits::grouped;
use crate::trace::{Ms, Ns, Pct, SLOW_FIRST_LAUNCH, USUAL_RETURN, WaitEnd};
use crate::words::numbers::percents_1;
use crate::words::{counted, noun, or_nothing, time, time_of};

/// The words of one limit.
#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) text: String,
    /// The results that it affects.
    pub(crate) affects: &'static str,
}

fn limit(text: String, affects: &'static str) -> Limit {
    Limit { text, affects }
}

/// The GPU executed work that was launched before the capture.
pub(crate) fn unseen_work(gpu: &str, length: Ns, is_before_first_op: bool) -> Limit {
    let text = format!(
        "GPU {gpu} executed work that is not in the file for {}, probably launched before the capture began: ops started \
         that long after their launch although nothing visible ran before them. This time counts neither as idle nor as \
         part of the window{}.",
        time_of(length),
        if is_before_first_op { ", because it is before the first op" } else { "" }
    );
    limit(text, "idle time, blocked time of copies and calls, steps at the start")
}

/// Nothing was recorded between two captures.
pub(crate) fn recording_holes(left_out: Ns) -> Limit {
    let text = format!(
        "The file has times without an event of any kind, also without the functions that run or wait: it has several captures. The time \
         until the first op of the next one ({}) is neither busy nor idle and belongs to no step.",
        time_of(left_out),
    );
    limit(text, "busy and idle time, steps at the start of a capture")
}

/// The profiler did not record graphs.
pub(crate) fn graph_work_missing(lost: u64, all: u64, unknown: Option<Ns>, command: &str) -> Limit {
    let text = format!(
        "The file contains no GPU work of {} of {} graph launches, although it contains work that was launched later: the \
         profiler did not record these graphs, and steps that consist of them are missing.{} Capture again with a \
         profiler that is not older than the driver: {command}",
        grouped(lost),
        grouped(all),
        or_nothing(unknown, unknown_time),
    );
    limit(text, "busy and idle time, steps, kernels, categories, shares, launches")
}

/// Launches of kernels, and maybe of graphs, that have no op.
#[derive(Debug)]
pub(crate) struct LostLaunches<'a> {
    pub(crate) kernels: u64,
    pub(crate) of_kernels: u64,
    /// Lost graph launches of all; `None` if none is lost.
    pub(crate) graphs: Option<(u64, u64)>,
    pub(crate) steps: Option<LostInSteps>,
    /// The lost launches after which other work was launched; `None` for all of them.
    pub(crate) inside: Option<u64>,
    /// The longest time after a lost launch.
    pub(crate) unknown: Option<Ns>,
    /// The busy share of the GPU, at least and at most.
    pub(crate) busy: Option<(Pct, Pct)>,
    pub(crate) command: &'a str,
}

/// How many steps have lost launches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LostInSteps {
    pub(crate) affected: usize,
    pub(crate) steps: usize,
    pub(crate) most_in_one: u64,
}

/// The profiler lost records.
pub(crate) fn launch_work_missing(lost: &LostLaunches) -> Limit {
    let graphs = |(lost, all): (u64, u64)| format!(" and of {} of {} graph launches", grouped(lost), grouped(all));
    let text = format!(
        "The file contains no GPU op of {} of {} kernel launches{}{}, although it contains work that was launched \
         after {} of them: the profiler lost records, because its buffer was full or the process had run for long. Times and counts of \
         kernels are too small by an unknown amount.{}{} Capture fewer steps, in a process that was started for it: {}",
        grouped(lost.kernels),
        grouped(lost.of_kernels),
        or_nothing(lost.graphs, graphs),
        or_nothing(lost.steps, lost_in_steps),
        lost.inside.map_or_else(|| "all".to_owned(), grouped),
        or_nothing(lost.unknown, unknown_time),
        or_nothing(lost.busy, |(least, most)| format!(
            " The GPU was busy for {} of the time.",
            percents_1(least, most)
        )),
        lost.command,
    );
    limit(text, "busy and idle time, steps, kernels, categories, shares, launches")
}

fn lost_in_steps(LostInSteps { affected, steps, most_in_one }: LostInSteps) -> String {
    format!(", in {affected} of {} steps (up to {} in one)", grouped(steps as u64), grouped(most_in_one))
}

/// The time after lost launches.
fn unknown_time(longest: Ns) -> String {
    format!(
        " The time from such a launch to the next recorded op ({}) is neither busy nor idle: it is not known.",
        time_of(longest)
    )
}

/// The last launches have no op: a fact, of which the trace does not show the reason.
pub(crate) fn launches_at_end(unfinished: u64, all: u64, length: Ns, command: &str) -> Limit {
    let text = format!(
        "The last {} of {} kernel launches, over {}, have no GPU op: the capture ended before they ran, or the profiler \
         lost them. Steps that they belong to are missing or too short. Synchronize the GPU before the profiler stops, and \
         capture fewer steps: {command}",
        grouped(unfinished),
        grouped(all),
        time_of(length),
    );
    limit(text, "steps, kernels, launches")
}

/// Waits of one kind that ended later than the ops in the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LateWaits {
    pub(crate) end: WaitEnd,
    pub(crate) count: u64,
    /// The median time from the last op to the end of the wait.
    pub(crate) median: Ns,
}

/// Calls waited for the device for longer than its ops ran.
pub(crate) fn waits_outlast_work(waits: &[LateWaits], left_out: Option<Ns>, command: &str) -> Limit {
    let waits: Vec<String> = waits.iter().map(late_waits).collect();
    let left_out = or_nothing(left_out, |time| format!(" That time ({}) is neither busy nor idle.", time_of(time)));
    let text = format!(
        "{} after the end of the last op before, usual are up to {}: the GPU still worked. Bodies of while nodes in graphs, launches by \
         kernels, and lost records leave no op.{left_out} A profiler that records them decides it: {command}",
        waits.join(", and "),
        time_of(USUAL_RETURN),
    );
    limit(text, "busy and idle time, kernels, blocking calls")
}

fn late_waits(waits: &LateWaits) -> String {
    let what = match (waits.end, waits.count) {
        (WaitEnd::CallReturned, 1) => "call that waits for the GPU returned",
        (WaitEnd::CallReturned, _) => "calls that wait for the GPU returned",
        (WaitEnd::CopyBegan, 1) => "copy that waits for a graph began",
        (WaitEnd::CopyBegan, _) => "copies that wait for a graph began",
    };
    format!("{} {what} {} (median)", grouped(waits.count), time_of(waits.median))
}

/// The start of the program in the capture.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start {
    pub(crate) length: Ms,
    pub(crate) process: Ms,
    pub(crate) loading: Ms,
}

fn start(start: Start) -> String {
    format!(
        "The program starts in the capture, in the first {} of {}, of which loading takes {}. Warm up before the \
         capture, then capture again.",
        time(start.length),
        time(start.process),
        time(start.loading),
    )
}

/// Launches that loaded code or initialised a device. `program`: the start of the program that they belong to.
pub(crate) fn first_launches(count: u64, sum: Ns, longest: Ns, program: Option<Start>) -> Limit {
    let usual = "If that is not what the capture is for, run the same work several times before it.";
    let text = format!(
        "{} of kernels that had not run before took more than {} while the GPU was idle, {} in all, the longest \
         {}: first launches load code or initialise the GPU. {}",
        counted(count, "launch call", "launch calls"),
        time_of(SLOW_FIRST_LAUNCH),
        time_of(sum),
        time_of(longest),
        program.map_or_else(|| usual.to_owned(), start),
    );
    limit(text, "idle time, steps, launch latencies")
}

/// The program starts in the capture, without a slow first launch.
pub(crate) fn start_up(program: Start) -> Limit {
    limit(start(program), "idle time, launch latencies")
}

/// Launches between the begin and the end of a stream capture run nothing.
pub(crate) fn graphs_recorded(graphs: u64, time: Ns) -> Limit {
    let text = format!(
        "The program records {} for {} in this capture: what it launches meanwhile does not run before the graph is replayed, \
         so the GPU has no work then. To see the work, capture while requests are served.",
        counted(graphs, "graph", "graphs"),
        time_of(time),
    );
    limit(text, "idle time, launches")
}

/// The side of the GPU work on which steps lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    AfterTheLast,
    BeforeTheFirst,
}

/// Steps are marked on the host while no GPU op of the file runs.
pub(crate) fn steps_without_work(steps: u64, distance: Ns, side: Side, command: &str) -> Limit {
    let side = match side {
        Side::AfterTheLast => "after the last",
        Side::BeforeTheFirst => "before the first",
    };
    let text = format!(
        "The file contains no GPU work of the {} marked steps: they are {} {side} GPU op. The profiler did not record the GPU then, \
         or another process runs the work. Capture again with a profiler that is not older than the driver: {command}",
        grouped(steps),
        time_of(distance),
    );
    limit(text, "busy and idle time, kernels, categories")
}

/// Durations in graph replays belong to other kernels.
pub(crate) fn durations_shifted(shifted: u64, blocks: u64) -> Limit {
    let text = format!(
        "In {} of {} repeated blocks of graph replays, the durations belong to neighbouring kernels, probably because the \
         profiler lost records. Sums of a replay are right; the times of single kernels in it are not, so their \
         shares are left out.",
        grouped(shifted),
        grouped(blocks)
    );
    limit(text, "times and shares of kernels and categories, communication, triage")
}

/// The kernels of graphs are missing.
pub(crate) fn graphs_traced_whole(replays: u64, total: Ns) -> Limit {
    let text = format!(
        "{} ({}) {} recorded as a whole, so their kernels are missing. Capture again with \
         `--cuda-graph-trace=node`.",
        counted(replays, "CUDA graph replay", "CUDA graph replays"),
        time_of(total),
        noun(replays, "was", "were"),
    );
    limit(text, "kernels, categories, shares, launches")
}

/// Ops start before their launches. `gpu`: the device with the largest lead, if there are several.
pub(crate) fn clock_skew(early: u64, longest: Ns, gpu: Option<&str>) -> Limit {
    let text = format!(
        "{} before the launch call begins, by up to {}, so the clock of the host is ahead of that of {} by at least this. \
         Launch latencies are unreliable. A launch counts as late only as far as it is later than twice that time: the cause of other \
         idle time is unknown.",
        counted(early, "GPU op starts", "GPU ops start"),
        time_of(longest),
        gpu.map_or_else(|| "the GPU".to_owned(), |gpu| format!("GPU {gpu}")),
    );
    limit(text, "launch latency, causes of idle time")
}

/// Ops end after the calls that waited for them.
pub(crate) fn clock_lag(lag: Ns) -> Limit {
    let text = format!(
        "GPU ops end {} (median) after the synchronisations that waited for them returned, so the clock of the GPU is late against \
         that of the host. All times of GPU ops are moved back by this. What is left of the error makes launches seem late or in \
         time that are not.",
        time_of(lag),
    );
    limit(text, "launch latency, causes of idle time")
}

/// The profiler ran the kernels one at a time.
pub(crate) fn counter_run(kernels: u64) -> Limit {
    let text = format!(
        "{} of a run that counts hardware events, for which the profiler runs them one at a time: the time between them is the \
         profiler's.",
        if kernels == 1 { "One kernel is".to_owned() } else { format!("{} kernels are", grouped(kernels)) }
    );
    limit(text, "idle time, steps, overlap")
}

/// What shows that the capture slows the host down.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Overhead {
    PythonFrames(u64),
    /// The mean time of a launch call in whole microseconds.
    SlowLaunches(u64),
}

/// The capture slows the host down.
pub(crate) fn capture_overhead(overhead: Overhead) -> Limit {
    let reason = match overhead {
        Overhead::PythonFrames(frames) => format!("Python stacks were recorded ({} frames)", grouped(frames)),
        Overhead::SlowLaunches(us) => format!("A launch call takes {} us on average", grouped(us)),
    };
    let text = format!(
        "{reason}, which slows the host down. Idle time caused by the host is an upper bound; capture again without \
         stacks to measure it."
    );
    limit(text, "idle time caused by the host, length of steps")
}

/// The profiler held host threads. `idle`: how long the GPU idled for it.
pub(crate) fn profiler_pauses(count: u64, held: Ns, idle: Ms) -> Limit {
    let text = format!(
        "The profiler held the host {} for {} in all, to get buffers for its records. The GPU idled for {} of it. No function is \
         blamed for that time, and no saving includes it; without the profiler it does not exist.",
        counted(count, "time", "times"),
        time_of(held),
        time(idle),
    );
    limit(text, "length of steps, GPU busy")
}

/// One step has no spread.
pub(crate) fn single_step(is_window: bool) -> Limit {
    if is_window {
        let text = "The window contains one step, so the spread over steps is unknown.";
        return limit(text.to_owned(), "percentiles of steps");
    }
    let text = "The trace contains one step, so the spread over steps is unknown. Its first gaps may be those of the \
                capture, because the queue of the GPU was empty when it began.";
    limit(text.to_owned(), "percentiles of steps, idle time at the start of the step")
}

/// The file has one rank of a job.
pub(crate) fn one_rank_of_many(rank: u32, world_size: u32) -> Limit {
    let text = format!(
        "The file contains rank {rank} of {world_size}. It does not show whether communication transfers data or waits for another \
         rank; `gpuprism ranks` decides with the files of all ranks."
    );
    limit(text, "communication")
}
