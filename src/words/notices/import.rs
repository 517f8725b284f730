//! What could not be read of a file, by kind of problem.

use super::{Told, told};
use crate::digits::grouped;
use crate::trace::{Format, ImportProblem, ProblemKind};
use crate::words::counted;

/// The notice of a kind of problem. `gpu_ops`: the ops that were read.
pub(crate) fn problem(problem: &ImportProblem, gpu_ops: u64, format: Format) -> Told {
    let &ImportProblem { kind, count, first_at } = problem;
    let place = if first_at == ImportProblem::UNKNOWN_PLACE {
        String::new()
    } else {
        let unit = if format.has_byte_offsets() { "byte" } else { "row" };
        format!(", the first at {unit} {}", grouped(first_at))
    };
    let first_at = grouped(first_at);
    let ops_before = format!("{} GPU ops were read before that", grouped(gpu_ops));
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
            if format == Format::NsysGpuTraceCsv {
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
            if format == Format::NsysSqlite {
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
        ProblemKind::RepeatedEvent => (
            format!(
                "{} twice in the file and counted once",
                counted(count, "GPU op or call is", "GPU ops and calls are")
            ),
            "The same capture was probably merged twice.",
        ),
        ProblemKind::TrailingData => (
            format!("{} after the end of the trace are not read", counted(count, "byte", "bytes")),
            "The file may contain two traces. If several ranks wrote to the same path, give each rank its own path.",
        ),
    };
    told(message, advice)
}
