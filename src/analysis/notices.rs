//! Notices about a trace and its import: what limits the numbers, each with advice.

use super::graph_captures;
use super::results::{Notice, Severity, Wall, WallSource};
use crate::analysis::kernels::groups::{Group, Groups};
use crate::digits::grouped;
use crate::ordering;
use crate::rules::signals::{CallKind, Signals};
use crate::trace::{CODE_IS_BUILT, Cut, Format, ImportProblem, Ns, ProblemKind, ProcessId, Profiler, Trace, Vendor};

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

fn notice(severity: Severity, code: &str, count: u64, message: String, advice: &str) -> Notice {
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
        let message = format!(
            "the profiler recorded no GPU op although kernels were launched ({}){}",
            counted(launches, "launch call", "launch calls"),
            said_by_profiler(trace)
        );
        notice(Severity::Error, "no_gpu_events", launches, message, causes_of_unrecorded_ops(trace))
    })
}

/// Why a profiler records launches and no GPU work, and what to do.
pub(super) fn causes_of_unrecorded_ops(trace: &Trace) -> &'static str {
    match (trace.format.profiler(), trace.vendor()) {
        (Profiler::Torch, Vendor::Intel) => {
            "Causes: activities without ProfilerActivity.XPU, or another profiler such as unitrace or VTune in the same process."
        }
        (Profiler::Torch, Vendor::Amd) => {
            "Causes: activities without ProfilerActivity.CUDA (also on AMD), another profiler such as rocprofv3 in \
             the same process, or a user who may not open /dev/kfd."
        }
        (Profiler::Torch, _) => {
            "Causes: activities without ProfilerActivity.CUDA; another profiler in the same process (CUPTI allows one \
             subscriber: nsys, DCGM, Nsight Compute); a user who may not record GPUs (the driver option \
             NVreg_RestrictProfilingToAdminUsers, or a container without CAP_SYS_ADMIN); WSL2; or a driver newer than \
             the CUPTI of this torch. If nsys records the GPU only with CuptiUseRawGpuTimestamps=false, CUPTI cannot \
             convert the times of the GPU."
        }
        (Profiler::Nsys, _) => {
            "Causes: another profiler in the same process (CUPTI allows one subscriber: torch.profiler, DCGM, Nsight \
             Compute); a user who may not record GPUs (`nsys status --environment` tells: perf_event_paranoid, \
             NVreg_RestrictProfilingToAdminUsers, a container without CAP_SYS_ADMIN); WSL2; a driver newer than this \
             nsys; or times that CUPTI cannot convert: capture with \
             NSYS_CONFIG_DIRECTIVES='CuptiUseRawGpuTimestamps=false'."
        }
        (Profiler::Rocprof, _) if trace.format.is_rocprof_v1() => {
            "Causes: another profiler in the same process, a program that ended without waiting for its kernels, or a user who may not \
             open /dev/kfd."
        }
        (Profiler::Rocprof, _) => {
            "Causes: the capture ran without `--kernel-trace`, another profiler in the same process, or a user who may not open \
             /dev/kfd."
        }
        (Profiler::Rpd, _) => {
            "Causes: the program ended before the tracer wrote the ops (call `flush()` after `stop()`), another profiler in the same \
             process, or a user who may not open /dev/kfd."
        }
        (Profiler::Ascend, _) => {
            "Causes: activities without torch_npu.profiler.ProfilerActivity.NPU, a `*_ascend_pt` folder that was not \
             analysed, or msprof in the same process."
        }
        (Profiler::Proton, _) => "Proton records no calls: another tool wrote them.",
        (Profiler::Xla, _) => {
            "Causes: another profiler in the same process (CUPTI and ROCm allow one), a user who may not record GPUs (the driver \
             option NVreg_RestrictProfilingToAdminUsers, a container without CAP_SYS_ADMIN, or /dev/kfd), or a plugin of JAX \
             without its profiler."
        }
        (Profiler::Unitrace, _) => {
            "Causes: a capture without `--chrome-kernel-logging`, or another profiler in the same process."
        }
    }
}

/// What the profiler wrote about the capture, as the end of a sentence.
pub(super) fn said_by_profiler(trace: &Trace) -> String {
    let quoted: Vec<String> = trace.diagnostics.iter().map(|text| format!("\"{text}\"")).collect();
    if quoted.is_empty() { String::new() } else { format!("; the profiler itself says: {}", quoted.join(", ")) }
}

fn no_gpu_events(trace: &Trace) -> Option<Notice> {
    if let Some(notice) = unrecorded_ops(trace) {
        return Some(notice);
    }
    let advice = match (trace.format.profiler(), trace.vendor()) {
        (Profiler::Torch, Vendor::Intel) => {
            "Open the trace of a worker rank, captured with ProfilerActivity.XPU while requests ran."
        }
        (Profiler::Torch, _) => {
            "Open the trace of a worker rank, captured with ProfilerActivity.CUDA while requests ran. The trace of a front end or \
             of graph capture has no GPU events."
        }
        (Profiler::Rocprof, _) if trace.format == Format::RocprofCsv => {
            "Open the file of the kernels (`*_kernel_trace.csv`) together with the others, or capture again with `rocprofv3 \
             --kernel-trace`."
        }
        (Profiler::Rocprof, _) if trace.format.is_rocprof_v1() => {
            "Capture while requests run, with `rocprof --hip-trace` or with `rocprofv3 --kernel-trace`."
        }
        (Profiler::Rocprof, _) => "Capture while requests run, with `rocprofv3 --kernel-trace`.",
        (Profiler::Rpd, _) => "Capture while requests run; the database has no op that ran on a GPU.",
        (Profiler::Ascend, _) => {
            "Capture with torch_npu.profiler.ProfilerActivity.NPU while requests run, and analyse the `*_ascend_pt` folder \
             before opening its trace_view.json."
        }
        (Profiler::Proton, _) => "Capture while requests run; the file has no kernel.",
        (Profiler::Xla, _) => {
            "The program ran on the CPU (`jax.devices()` lists the accelerators that it found), or nothing ran on the accelerator \
             between `jax.profiler.start_trace` and `stop_trace`. Wait for the result with `jax.block_until_ready` before the stop."
        }
        (Profiler::Unitrace, _) => "Capture with `unitrace --chrome-kernel-logging` while requests run.",
        (Profiler::Nsys, _) => {
            "Capture with `--trace=cuda` while requests run. If there are several processes, capture all of them with \
             `--cuda-trace-scope=process-tree`."
        }
    };
    trace.gpu_ops.is_empty().then(|| {
        let none =
            if trace.format.profiler() == Profiler::Xla { "no accelerator in this profile" } else { "no GPU events" };
        let message = format!("{none}; {} CPU events{}", grouped(trace.events.cpu), said_by_profiler(trace));
        notice(Severity::Error, "no_gpu_events", trace.events.cpu, message, advice)
    })
}

fn window_notice(trace: &Trace, cut: Cut) -> Notice {
    let kept = trace.gpu_ops.len() as u64;
    let [ops, of_ops, cut_ops] = [kept, cut.of_ops, cut.cut_ops].map(grouped);
    let mut message = format!(
        "only a window of the trace is analyzed: {ops} of {of_ops} GPU ops, {cut_ops} of them clipped at its ends"
    );
    if cut.host_waits > 0 {
        message += "; waits in the operating system have no times and are excluded";
    }
    notice(Severity::Info, "window", kept, message, "Clear the window to analyze the whole trace.")
}

fn whole_graphs(trace: &Trace) -> Option<Notice> {
    let count = trace.graph_replays.len() as u64;
    (count > 0).then(|| {
        notice(
            Severity::Warning,
            "graphs_traced_whole",
            count,
            format!(
                "{} of CUDA graphs traced as a whole: their time counts as busy time, but the kernels inside are not known",
                counted(count, "run", "runs")
            ),
            "Capture again with `--cuda-graph-trace=node`.",
        )
    })
}

fn problem_notice(trace: &Trace, ImportProblem { kind, count, first_at }: ImportProblem) -> Notice {
    let place = if first_at == ImportProblem::UNKNOWN_PLACE {
        String::new()
    } else {
        let unit = if trace.format.has_byte_offsets() { "byte" } else { "row" };
        format!(", the first at {unit} {}", grouped(first_at))
    };
    let first_at = grouped(first_at);
    let ops_before = format!("{} GPU ops were read before that", grouped(trace.gpu_ops.len() as u64));
    let severity = match kind {
        ProblemKind::NoTimes => Severity::Error,
        ProblemKind::Unclosed | ProblemKind::OpenLastRow | ProblemKind::GraphNode | ProblemKind::UnknownCategory => {
            Severity::Info
        }
        _ => Severity::Warning,
    };
    let (message, advice) = match kind {
        ProblemKind::Truncated => (
            format!("the file is cut short at byte {first_at}; {ops_before}"),
            "The profiler was killed or the copy was interrupted: all numbers cover only the part that could be read.",
        ),
        ProblemKind::Unclosed => (
            format!("the event list has no closing bracket at byte {first_at}; {ops_before}"),
            "The format allows this. If the file was cut, the numbers cover only the part that could be read.",
        ),
        ProblemKind::Damaged => (
            format!("the file is damaged at byte {first_at}; {ops_before}"),
            "What follows in the same part of the file is not read. Copy the file again, in binary mode: all numbers cover only \
             the part that could be read.",
        ),
        ProblemKind::DamagedGzip => (
            format!("the compressed data is damaged after byte {first_at}; {ops_before}"),
            "Copy the file again; all numbers cover only the part that could be decompressed.",
        ),
        ProblemKind::UnreadableEvent => (
            format!("{} could not be read, the first at byte {first_at}", counted(count, "event", "events")),
            "The file is damaged there, or contains something other than events. Unreadable events are not included in any number.",
        ),
        ProblemKind::EventTooLarge => (
            format!("{} too large to be read{place}", counted(count, "event is", "events are")),
            "No profiler writes events of more than 64 MiB. Such events are not included in any number, nor is what follows them up to \
             the next event that can be found.",
        ),
        ProblemKind::UnpairedSlice => (
            format!(
                "{} without the other end, the first at byte {first_at}",
                counted(count, "beginning or end of a slice", "beginnings or ends of slices")
            ),
            "Their GPU ops, calls and ranges have no duration and are in no number. They were running when the \
             capture started or stopped, or the file lacks a part.",
        ),
        ProblemKind::UnreadableMember => (
            format!(
                "{} beside the event list could not be read: deviceProperties or distributedInfo",
                counted(count, "member", "members")
            ),
            "The names and figures of the GPUs, or the rank, are unknown. All times are complete.",
        ),
        ProblemKind::OpWithoutTime => (
            format!("{} without a recorded time{place}", counted(count, "GPU op", "GPU ops")),
            "The profiler wrote no start or duration, or zero for both: it lost the times. They are excluded from all numbers, so \
             sums are too small. Capture a shorter time, or with a profiler that is not older than the driver.",
        ),
        ProblemKind::ImpossibleDuration => (
            format!("{} with an impossible time{place}", counted(count, "GPU op", "GPU ops")),
            "They end before they start, last for years, or contradict their launch, the order of their stream or the recorded time, \
             a known defect of profilers. They are excluded from all numbers, so sums are too small. Capture again with a newer \
             profiler and driver.",
        ),
        ProblemKind::AmbiguousLaunch => (
            format!(
                "{} with a correlation id that several calls have, in other numbers than ops",
                counted(count, "GPU op", "GPU ops")
            ),
            "Each counts as launched by the last such call before it, which is not certain: steps, phases, causes of idle time and \
             launch latencies may be wrong. Times of kernels are not affected. Capture again with one profiler at a time.",
        ),
        ProblemKind::UnreadableRow => (
            format!("{} of the table could not be read, the first at row {first_at}", counted(count, "row", "rows")),
            if trace.format == Format::NsysGpuTraceCsv {
                "They are excluded from all numbers. Write one report per file: `nsys stats -r cuda_gpu_trace --format csv`."
            } else {
                "They are excluded from all numbers. Copy the file again, or write it again with the profiler."
            },
        ),
        ProblemKind::OpenLastRow => (
            format!("the last row, {first_at}, has no line end"),
            "If the file was cut, the numbers cover only the part that could be read, and the last name may be incomplete.",
        ),
        ProblemKind::HostRowWithoutTime => (
            format!(
                "{} of calls, ranges, waits or counters without a usable time{}",
                counted(count, "row", "rows"),
                if place.is_empty() { String::new() } else { format!(", the first at row {first_at} of its table") }
            ),
            "They are excluded from the sections about launches, synchronization, ranges and counters; GPU times are not affected.",
        ),
        ProblemKind::UnknownCounter => (
            format!(
                "{} of counters without a known name or GPU, the first at row {first_at} of its table",
                counted(count, "sample", "samples")
            ),
            if trace.format == Format::NsysSqlite {
                "They are excluded from the sections about counters. Export again with `nsys export --type sqlite --lazy=false`."
            } else {
                "They are excluded from the sections about counters."
            },
        ),
        ProblemKind::CounterOfOtherRun => (
            format!(
                "{} with hardware counters {} not in the table of kernels",
                counted(count, "kernel", "kernels"),
                if count == 1 { "is" } else { "are" }
            ),
            "No kernel has their name and times: they were counted in another run, or the table is cut. They are excluded from all \
             numbers. Open the table of counters alone: it has its own kernels with their times.",
        ),
        ProblemKind::DamagedTable => (
            format!("{} could be read only partly, the first up to row {first_at}", counted(count, "table", "tables")),
            "The database is damaged or cut: all numbers cover only the rows that could be read. Copy or export it again.",
        ),
        #[cfg(not(target_arch = "wasm32"))]
        ProblemKind::UnreadColumn => (
            format!("{} with lists, decimals or groups, which are not read", counted(count, "column", "columns")),
            "Nsight Systems writes none: another program wrote these tables. If numbers are missing, export the .nsys-rep again with \
             `nsys export --type parquetdir`.",
        ),
        ProblemKind::NoTimes => (
            format!(
                "a table of kernels, copies or memsets has no column `start` or `end`: up to {} excluded",
                counted(count, "row is", "rows are")
            ),
            "They are not included in any number. Export the .nsys-rep again with `nsys export --type sqlite`.",
        ),
        ProblemKind::NoDevices => (
            format!(
                "a table of kernels, copies or memsets has no column `deviceId`: the GPU of up to {} is unknown",
                counted(count, "row", "rows")
            ),
            "They count as work of a single GPU. Export the .nsys-rep again with `nsys export --type sqlite`.",
        ),
        ProblemKind::MissingName => (
            format!("the file has no text for {}", counted(count, "name", "names")),
            "They are listed by number. Export again with `nsys export --type sqlite --lazy=false`.",
        ),
        ProblemKind::RepeatedName => (
            format!("the file has a second text for {}", counted(count, "name", "names")),
            "The first text counts, so that ops may have a wrong name and category. Export again with `nsys export \
             --type sqlite --force-overwrite=true`.",
        ),
        ProblemKind::LongName => (
            format!("{} of more than 64 KiB, shortened to that", counted(count, "name", "names")),
            "Rules and tables see the beginning of these names. Their times are complete.",
        ),
        ProblemKind::GraphNode => (
            format!("{} of CUDA graphs that run on the host or only signal", counted(count, "node", "nodes")),
            "They are no GPU work and in no number; a host function may be why the GPU waits within a graph.",
        ),
        ProblemKind::KernelOfCounterRun => (
            format!("{} of a run that counts hardware events", counted(count, "kernel is", "kernels are")),
            "The profiler runs such kernels one at a time, so the time between them is its own. For that time open *_kernel_trace.csv of a \
             run without counters.",
        ),
        ProblemKind::UnknownCategory => (
            format!("{} of categories that are not read", counted(count, "event is", "events are")),
            "They are in no number: events of the program itself, or of an accelerator that is no GPU.",
        ),
        ProblemKind::LeftOut => (
            format!("only GPU events were read: {} excluded", counted(count, "host event is", "host events are")),
            "GPU times are complete; sections that need host events, such as launches, synchronization and ranges, are missing.",
        ),
        ProblemKind::TrailingData => (
            format!("{} after the end of the trace are not read", counted(count, "byte", "bytes")),
            "The file may contain two traces. If several ranks wrote to the same path, give each rank its own path.",
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
            "the given wall time ({} ns) is shorter than the busy time of the GPU ({} ns), which is used instead",
            grouped(given.0.unsigned_abs()),
            grouped(wall.wall_ns.unsigned_abs())
        ),
        "Profiling slows a run down, so how long the GPU is idle is unknown here, not zero.",
    ))
}

/// A profile takes seconds or minutes. A single op with time zero extends the time range to decades.
fn implausible_time_range(wall: &Wall) -> Option<Notice> {
    const DAY_NS: i64 = 86_400_000_000_000;
    let days = wall.wall_ns / DAY_NS;
    (wall.source == WallSource::Window && days > 0).then(|| {
        notice(
            Severity::Warning,
            "endless_window",
            1,
            format!("the first and the last GPU op are {} apart", counted(days.unsigned_abs(), "day", "days")),
            "Profiles are shorter: an op has a wrong time. Busy shares and the CPU part are wrong; give the wall time.",
        )
    })
}

fn merged_ranks(trace: &Trace) -> Option<Notice> {
    let labelled = trace.devices.iter().filter(|device| device.id.starts_with('[')).count();
    let ranks = labelled.max(trace.merged_ranks());
    (ranks > 1).then(|| {
        notice(
            Severity::Info,
            "merged_ranks",
            ranks as u64,
            format!("a file of {ranks} merged ranks; each one is counted as a separate device"),
            "The clocks of ranks differ: compare only their totals.",
        )
    })
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
    let message = if share >= MIN_SHARE {
        format!("{} without a plausible process", counted(unknown + packed, "GPU op", "GPU ops"))
    } else if with_ops == 1 && callers.len() > 1 && trace.gpu_ops.launches().all(|launch| launch.is_none()) {
        format!("all GPU ops belong to one process, API calls to {}, and no call launched an op", callers.len())
    } else {
        return None;
    };
    Some(notice(
        Severity::Warning,
        "doubtful_processes",
        unknown + packed,
        message,
        "Values by process and links from calls to ops are unreliable. Export again with a newer nsys.",
    ))
}

/// Kernels that overlap on one stream come from programmatic dependent launch or from clock artefacts. Viewers that nest slices drop
/// them; gpuprism counts them.
fn same_stream_overlap(count: u64) -> Option<Notice> {
    (count > 0).then(|| {
        notice(
            Severity::Info,
            "overlap_on_a_stream",
            count,
            format!("{} before the previous one on the same stream has ended", counted(count, "GPU op starts", "GPU ops start")),
            "Programmatic dependent launch (NVIDIA GPUs) or clock artifacts cause this. All ops count; busy time counts overlaps once.",
        )
    })
}
