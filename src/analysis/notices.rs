//! What the reader should know before believing the numbers: one sentence and one piece of advice a problem.

use super::results::{Notice, Severity, Wall, WallSource};
use crate::analysis::kernels::groups::{Group, Groups};
use crate::digits::grouped;
use crate::ordering::StableSort;
use crate::trace::{Cut, Format, ImportProblem, Ns, ProblemKind, ProcessId, Trace};

/// All notices of a trace, most severe first.
pub(super) fn of(trace: &Trace, groups: &Groups, wall: &Wall, given: Option<Ns>) -> Vec<Notice> {
    let mut notices = Vec::new();
    notices.extend(no_gpu_events(trace));
    notices.extend(trace.cut.map(|cut| window(trace, cut)));
    notices.extend(whole_graphs(trace));
    notices.extend(trace.problems.iter().map(|problem| of_problem(trace, problem)));
    notices.extend(wall_raised(wall, given));
    notices.extend(endless_window(wall));
    notices.extend(merged_ranks(trace));
    notices.extend(doubtful_processes(trace, groups.as_slice()));
    notices.extend(overlap_on_a_stream(groups.overlapping));
    notices.order_by_key(|notice| std::cmp::Reverse(notice.severity));
    notices
}

fn notice(severity: Severity, code: &str, count: u64, message: String, advice: &str) -> Notice {
    Notice { severity, code: code.to_owned(), message, count, advice: advice.to_owned() }
}

fn no_gpu_events(trace: &Trace) -> Option<Notice> {
    let advice = match trace.format {
        Format::TorchProfiler => {
            "Was ProfilerActivity.CUDA on? Is this the front end's own trace, or one of graph capture? \
             Open the trace of a worker rank, taken while requests ran."
        }
        Format::NsysGpuTraceCsv | Format::NsysSqlite | Format::NsysLlmExplainer => {
            "Was `--trace=cuda` on, and did requests run while nsys collected? With several processes, capture all of them: \
             `--cuda-trace-scope=process-tree`."
        }
    };
    trace.gpu_ops.is_empty().then(|| {
        let message = format!("no GPU events; {} CPU events", grouped(trace.events.cpu));
        notice(Severity::Error, "no_gpu_events", trace.events.cpu, message, advice)
    })
}

/// Every number is one of the window.
fn window(trace: &Trace, cut: Cut) -> Notice {
    let kept = trace.gpu_ops.len() as u64;
    let [ops, of_ops, cut_ops] = [kept, cut.of_ops, cut.cut_ops].map(grouped);
    let mut message = format!("a window of the trace: {ops} of {of_ops} GPU ops, {cut_ops} of them cut at its ends");
    if cut.host_waits > 0 {
        message += "; waits in the operating system have no times and are left out";
    }
    notice(Severity::Info, "window", kept, message, "Clear the window to count all of the trace.")
}

/// Kernels inside such graphs are in no number.
fn whole_graphs(trace: &Trace) -> Option<Notice> {
    let count = trace.graph_replays.len() as u64;
    (count > 0).then(|| {
        notice(
            Severity::Warning,
            "graphs_traced_whole",
            count,
            format!(
                "{} of CUDA graphs traced as a whole: their kernels are in no number",
                counted(count, "run", "runs")
            ),
            "Capture again with `--cuda-graph-trace=node`.",
        )
    })
}

fn of_problem(trace: &Trace, ImportProblem { kind, count, first_at }: ImportProblem) -> Notice {
    let first_at = grouped(first_at);
    let whole = format!("{} GPU ops were read before that", grouped(trace.gpu_ops.len() as u64));
    let unit = if trace.format == Format::TorchProfiler { "byte" } else { "row" };
    let (severity, message, advice) = match kind {
        ProblemKind::Truncated => (
            Severity::Warning,
            format!("the file is cut short at byte {first_at}; {whole}"),
            "The profiler was killed or the copy was interrupted: all numbers cover only the part that is there.",
        ),
        ProblemKind::Unclosed => (
            Severity::Info,
            format!("the event list has no closing bracket at byte {first_at}; {whole}"),
            "The format allows this; if the file may have been cut, the numbers cover only the part that is there.",
        ),
        ProblemKind::DamagedGzip => (
            Severity::Warning,
            format!("the compressed data is damaged in the part that begins at byte {first_at}; {whole}"),
            "Copy the file again; all numbers cover only the part that could be unpacked.",
        ),
        ProblemKind::UnreadableEvent => (
            Severity::Warning,
            format!("{} could not be read, the first at byte {first_at}", counted(count, "event", "events")),
            "The file is damaged there, or holds what is no event. What could be read is counted; times of lost events are missing.",
        ),
        ProblemKind::OpWithoutTime => (
            Severity::Warning,
            format!(
                "{} without start or duration, the first at {unit} {first_at}",
                counted(count, "GPU op", "GPU ops")
            ),
            "They are left out of all numbers; a newer profiler writes both.",
        ),
        ProblemKind::ImpossibleDuration => (
            Severity::Warning,
            format!("{} with an impossible time, the first at {unit} {first_at}", counted(count, "GPU op", "GPU ops")),
            "A negative duration or one of decades: a known fault of profilers. They are left out of all numbers.",
        ),
        ProblemKind::UnreadableRow => (
            Severity::Warning,
            format!("{} of the table could not be read, the first at row {first_at}", counted(count, "row", "rows")),
            "They are left out of all numbers. Print one report a file: `nsys stats -r cuda_gpu_trace --format csv`.",
        ),
        ProblemKind::OpenLastRow => (
            Severity::Info,
            format!("the last row, {first_at}, has no line end"),
            "If the file may have been cut, the numbers cover only the part that is there, and the last name may be short.",
        ),
        ProblemKind::HostRowWithoutTime => (
            Severity::Warning,
            format!(
                "{} of calls, ranges, waits or counters without a usable time, the first at row {first_at} of its table",
                counted(count, "row", "rows")
            ),
            "They are left out of what is said about launches, synchronization, ranges and counters; GPU times are not affected.",
        ),
        ProblemKind::UnknownCounter => (
            Severity::Warning,
            format!(
                "{} of counters whose name or GPU the file does not tell, the first at row {first_at} of its table",
                counted(count, "sample", "samples")
            ),
            "They are left out of what is said about counters. Export again with `nsys export --type sqlite --lazy=false`.",
        ),
        ProblemKind::DamagedTable => (
            Severity::Warning,
            format!("{} could be read only in part, the first up to row {first_at}", counted(count, "table", "tables")),
            "The database is damaged or cut: all numbers cover only the rows that are there. Copy or export it again.",
        ),
        ProblemKind::NoTimes => (
            Severity::Error,
            format!(
                "a table of kernels, copies or sets has no column `start` or `end`: up to {} left out",
                counted(count, "row is", "rows are")
            ),
            "They are in no number. Export the .nsys-rep again with `nsys export --type sqlite`.",
        ),
        ProblemKind::NoDevices => (
            Severity::Warning,
            format!(
                "a table of kernels, copies or sets has no column `deviceId`: up to {} of nobody knows which GPU",
                counted(count, "row is", "rows are")
            ),
            "They count as the work of one GPU. Export the .nsys-rep again with `nsys export --type sqlite`.",
        ),
        ProblemKind::MissingName => (
            Severity::Warning,
            format!("the file does not hold the text of {}", counted(count, "name", "names")),
            "They count under a number in place of their name. Export again with `nsys export --type sqlite --lazy=false`.",
        ),
        ProblemKind::LeftOut => (
            Severity::Warning,
            format!(
                "GPU events alone were read: {} left out",
                counted(count, "event of the host is", "events of the host are")
            ),
            "GPU times are whole; what needs the host, such as launches, synchronization and ranges, is missing.",
        ),
        ProblemKind::TrailingData => (
            Severity::Warning,
            format!("{} after the end of the trace are not read", counted(count, "byte", "bytes")),
            "Two traces in one file? Several ranks may have written to the same path: give each its own.",
        ),
    };
    notice(severity, kind.code(), count, message, advice)
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { many })
}

fn wall_raised(wall: &Wall, given: Option<Ns>) -> Option<Notice> {
    let given = given.filter(|_| wall.source == WallSource::RaisedToBusy)?;
    Some(notice(
        Severity::Warning,
        "wall_below_busy",
        1,
        format!(
            "the wall time given ({} ns) is shorter than the GPU was busy ({} ns), which stands in for it",
            grouped(given.0.unsigned_abs()),
            grouped(wall.wall_ns.unsigned_abs())
        ),
        "Profiling slows a run down: the CPU (non-GPU) slice is unknown here, not zero.",
    ))
}

/// A profile takes seconds or minutes. One op at time zero makes a window of decades, in which all shares are nothing.
fn endless_window(wall: &Wall) -> Option<Notice> {
    const DAY_NS: i64 = 86_400_000_000_000;
    let days = wall.wall_ns / DAY_NS;
    (wall.source == WallSource::Window && days > 0).then(|| {
        notice(
            Severity::Warning,
            "endless_window",
            1,
            format!("the first and the last GPU op are {} apart", counted(days.unsigned_abs(), "day", "days")),
            "A profile is shorter: some op has a wrong time, so busy shares and the CPU slice mean nothing. Give the wall time.",
        )
    })
}

fn merged_ranks(trace: &Trace) -> Option<Notice> {
    let ranks = trace.devices.iter().filter(|device| device.id.starts_with('[')).count();
    (ranks > 1).then(|| {
        notice(
            Severity::Info,
            "merged_ranks",
            ranks as u64,
            format!("a file of {ranks} merged ranks; each counts as a device of its own"),
            "Clocks of ranks differ: compare ranks by their own totals.",
        )
    })
}

/// An export may lack the process of its kernels, or hold it in a form that no version is known to write.
fn doubtful_processes(trace: &Trace, groups: &[Group]) -> Option<Notice> {
    /// Beyond what an operating system gives out: a packed number that was not unpacked.
    const LARGEST_PID: i64 = 10_000_000;
    const MOST: f64 = 0.8;
    if trace.format != Format::NsysSqlite || trace.gpu_ops.is_empty() {
        return None;
    }
    let pid = |process: ProcessId| trace.processes.get(process.0 as usize).map_or(0, |process| process.pid);
    let mut ops = vec![0_u64; trace.processes.len()];
    for group in groups {
        ops.get_mut(group.process.0 as usize).into_iter().for_each(|count| *count += group.count);
    }
    let of = |wanted: &dyn Fn(i64) -> bool| -> u64 {
        let processes = trace.processes.iter().zip(&ops);
        processes.filter(|(process, _)| wanted(process.pid)).map(|(_, count)| count).sum()
    };
    let (unknown, packed) = (of(&|pid| pid <= 0), of(&|pid| pid > LARGEST_PID));
    let with_ops = ops.iter().filter(|count| **count > 0).count();
    let mut callers: Vec<i64> = trace.threads.iter().map(|thread| pid(thread.process)).collect();
    callers.order_by(|a, b| a.cmp(b));
    callers.dedup();
    let share = (unknown + packed) as f64 / trace.gpu_ops.len() as f64;
    let why = if share >= MOST {
        format!("{} without a plausible process", counted(unknown + packed, "GPU op", "GPU ops"))
    } else if with_ops == 1 && callers.len() > 1 && trace.gpu_ops.launches().all(|launch| launch.is_none()) {
        format!("all GPU ops belong to one process, the calls to {}, and none launched an op", callers.len())
    } else {
        return None;
    };
    Some(notice(
        Severity::Warning,
        "doubtful_processes",
        unknown + packed,
        why,
        "What is said by process, and which call launched which op, is not to be relied on. Export again with a newer nsys.",
    ))
}

/// Kernels that overlap on their own stream are real (programmatic dependent launch) or clock artefacts; viewers that
/// nest slices drop them, gpuprism counts them.
fn overlap_on_a_stream(count: u64) -> Option<Notice> {
    (count > 0).then(|| {
        notice(
            Severity::Info,
            "overlap_on_a_stream",
            count,
            format!("{} before the one ahead on the same stream has ended", counted(count, "GPU op starts", "GPU ops start")),
            "Programmatic dependent launch does this, and so do clock artefacts. All are counted; the union counts shared time once.",
        )
    })
}
