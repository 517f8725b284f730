//! Notices about a trace and its import: what limits the numbers, each with advice.

use super::graph_captures;
use super::results::{Notice, Severity, Wall, WallSource};
use crate::analysis::kernels::groups::{Group, Groups};
use crate::ordering;
use crate::rules::signals::{CallKind, Signals};
use crate::trace::{CODE_IS_BUILT, Cut, Format, ImportProblem, Ns, ProblemKind, ProcessId, Trace};
use crate::words::notices::{self as words, Doubt, Told, unrecorded};

/// All notices of a trace, most severe first.
pub(super) fn notices(trace: &Trace, groups: &Groups, wall: &Wall, given: Option<Ns>) -> Vec<Notice> {
    let mut notices = Vec::new();
    notices.extend(no_gpu_events(trace));
    notices.extend(trace.cut.map(|cut| window_notice(trace, cut)));
    notices.extend(whole_graphs(trace));
    notices.extend(trace.problems.iter().map(|problem| problem_notice(trace, problem)));
    notices.extend(wall_raised(wall, given));
    notices.extend(implausible_time_range(wall));
    notices.extend(merged_ranks(trace));
    if CODE_IS_BUILT {
        notices.extend(graph_captures::notice(trace));
    }
    notices.extend(doubtful_processes(trace, groups.as_slice()));
    notices.extend(same_stream_overlap(groups.overlapping));
    ordering::sort_by_key(&mut notices, |notice| std::cmp::Reverse(notice.severity));
    notices
}

fn notice(severity: Severity, code: &str, count: u64, Told { message, advice }: Told) -> Notice {
    Notice { count, ..Notice::new(severity, code, message, advice) }
}

/// The number of launch calls of a trace whose profiler recorded no GPU op, although it recorded that kernels were
/// launched. Zero if the launches may only have filled CUDA graphs.
pub(super) fn launches_without_ops(trace: &Trace) -> u64 {
    /// Problems with which ops may have been recorded and not read: most profilers write them after the calls.
    const HIDE_OPS: [ProblemKind; 7] = [
        ProblemKind::Unclosed,
        ProblemKind::UnreadableEvent,
        ProblemKind::EventTooLarge,
        ProblemKind::UnpairedSlice,
        ProblemKind::OpWithoutTime,
        ProblemKind::ImpossibleDuration,
        ProblemKind::UnreadableRow,
    ];
    let had_ops = trace.cut.is_some_and(|cut| cut.of_ops > 0);
    // The table of kernels of rocprofv3 is a file of its own, which may only not be open.
    let may_have_ops = trace.problems.is_cut_short()
        || HIDE_OPS.into_iter().any(|kind| trace.problems.has(kind))
        || trace.format == Format::RocprofCsv;
    let none_recorded = trace.gpu_ops.is_empty() && trace.graph_replays.is_empty() && !had_ops && !may_have_ops;
    if !none_recorded || trace.events.graph_captures > 0 {
        return 0;
    }
    let signals = Signals::embedded();
    let is_launch = |name: &str| matches!(signals.call(name), CallKind::Launch | CallKind::GraphLaunch);
    let is_launch: Vec<bool> = trace.calls.names.iter().map(is_launch).collect();
    let launches = trace.calls.iter().filter(|call| is_launch.get(call.name.0 as usize) == Some(&true));
    launches.count() as u64
}

/// Kernels were launched, but the profiler recorded none.
fn unrecorded_ops(trace: &Trace) -> Option<Notice> {
    let launches = launches_without_ops(trace);
    (launches > 0).then(|| {
        let words = unrecorded::launches_without_ops(launches, &trace.diagnostics, trace.format, trace.vendor());
        notice(Severity::Error, "no_gpu_events", launches, words)
    })
}

fn no_gpu_events(trace: &Trace) -> Option<Notice> {
    if let Some(notice) = unrecorded_ops(trace) {
        return Some(notice);
    }
    trace.gpu_ops.is_empty().then(|| {
        let events = trace.events.cpu;
        let words = unrecorded::no_gpu_events(events, &trace.diagnostics, trace.format, trace.vendor());
        notice(Severity::Error, "no_gpu_events", events, words)
    })
}

fn window_notice(trace: &Trace, cut: Cut) -> Notice {
    let kept = trace.gpu_ops.len() as u64;
    notice(Severity::Info, "window", kept, words::window(kept, cut.of_ops, cut.cut_ops, cut.host_waits > 0))
}

fn whole_graphs(trace: &Trace) -> Option<Notice> {
    let count = trace.graph_replays.len() as u64;
    (count > 0).then(|| notice(Severity::Warning, "graphs_traced_whole", count, words::whole_graphs(count)))
}

fn problem_notice(trace: &Trace, problem: ImportProblem) -> Notice {
    let severity = match problem.kind {
        ProblemKind::NoTimes => Severity::Error,
        ProblemKind::Unclosed | ProblemKind::OpenLastRow | ProblemKind::GraphNode | ProblemKind::UnknownCategory => {
            Severity::Info
        }
        _ => Severity::Warning,
    };
    let words = words::import::problem(&problem, trace.gpu_ops.len() as u64, trace.format);
    notice(severity, problem.kind.code(), problem.count, words)
}

fn wall_raised(wall: &Wall, given: Option<Ns>) -> Option<Notice> {
    let given = given.filter(|_| wall.source == WallSource::RaisedToBusy)?;
    Some(notice(Severity::Warning, "wall_below_busy", 1, words::wall_raised(given, Ns(wall.wall_ns))))
}

/// A profile takes seconds or minutes. A single op with time zero extends the time range to decades.
fn implausible_time_range(wall: &Wall) -> Option<Notice> {
    const DAY_NS: i64 = 86_400_000_000_000;
    let days = wall.wall_ns / DAY_NS;
    let is_endless = wall.source == WallSource::Window && days > 0;
    is_endless.then(|| notice(Severity::Warning, "endless_window", 1, words::endless_window(days.unsigned_abs())))
}

fn merged_ranks(trace: &Trace) -> Option<Notice> {
    let labelled = trace.devices.iter().filter(|device| device.id.starts_with('[')).count();
    let ranks = labelled.max(trace.merged_ranks());
    (ranks > 1).then(|| notice(Severity::Info, "merged_ranks", ranks as u64, words::merged_ranks(ranks)))
}

/// An export may lack the process of its kernels, or store it in an unknown encoding.
fn doubtful_processes(trace: &Trace, groups: &[Group]) -> Option<Notice> {
    /// Larger numbers are not process ids of an operating system but an unknown packed encoding.
    const MAX_PID: i64 = 10_000_000;
    const MIN_SHARE: f64 = 0.8;
    if trace.format != Format::NsysSqlite || trace.gpu_ops.is_empty() {
        return None;
    }
    let pid = |process: ProcessId| trace.processes.get(process.0 as usize).map_or(0, |process| process.pid);
    let mut ops = vec![0_u64; trace.processes.len()];
    for group in groups {
        ops.get_mut(group.process.0 as usize).into_iter().for_each(|count| *count += group.count);
    }
    let count_ops = |predicate: &dyn Fn(i64) -> bool| -> u64 {
        let processes = trace.processes.iter().zip(&ops);
        processes.filter(|(process, _)| predicate(process.pid)).map(|(_, count)| count).sum()
    };
    let (unknown, packed) = (count_ops(&|pid| pid <= 0), count_ops(&|pid| pid > MAX_PID));
    let with_ops = ops.iter().filter(|count| **count > 0).count();
    let mut callers: Vec<i64> = trace.threads.iter().map(|thread| pid(thread.process)).collect();
    callers.sort_unstable();
    callers.dedup();
    let share = (unknown + packed) as f64 / trace.gpu_ops.len() as f64;
    let doubt = if share >= MIN_SHARE {
        Doubt::Implausible { ops: unknown + packed }
    } else if with_ops == 1 && callers.len() > 1 && trace.gpu_ops.launches().all(|launch| launch.is_none()) {
        Doubt::OneOfSeveral { callers: callers.len() }
    } else {
        return None;
    };
    Some(notice(Severity::Warning, "doubtful_processes", unknown + packed, words::doubtful_processes(doubt)))
}

/// Kernels that overlap on one stream come from programmatic dependent launch or from clock artefacts. Viewers that nest slices drop
/// them; gpuprism counts them.
fn same_stream_overlap(count: u64) -> Option<Notice> {
    (count > 0).then(|| notice(Severity::Info, "overlap_on_a_stream", count, words::same_stream_overlap(count)))
}
