//! Reader of the `kernel_details.csv` of torch_npu and of the `op_summary_*.csv` and `task_time_*.csv` of msprof: one row per kernel,
//! with the op that it computes. Times are microseconds, followed by a tab. Columns differ by version and are found by title. One
//! pass.
//!
//! Of the tasks of `task_time_*.csv`, those without a name are events and waits, but for copies (`MEMCPY_ASYNC`).

use super::Detail;
use super::csv_lines::{CsvReader, Line, Output, Rows};
use super::known_formats::{Other, not_read};
use crate::Result;
use crate::trace::{Format, GpuOp, Ns, OpKind, ProblemKind, Trace, TraceBuilder, is_plausible};

/// The unit of the times as a power of ten in ns.
const MICROSECONDS: u32 = 3;

/// The rows of the table.
#[derive(Debug, Default)]
pub(super) struct AscendCsv {
    columns: Option<Columns>,
}

#[derive(Debug, Clone, Copy)]
struct Columns {
    start: usize,
    duration: usize,
    name: usize,
    op: Option<usize>,
    /// The type of a task, where tasks that are no ops have rows, too.
    task: Option<usize>,
    stream: Option<usize>,
    device: Option<usize>,
    count: usize,
}

pub(super) fn reader(label: &str, _detail: Detail) -> CsvReader<AscendCsv> {
    CsvReader::new(TraceBuilder::new(label, Format::AscendKernelDetails), AscendCsv::default())
}

impl Rows for AscendCsv {
    fn line(&mut self, out: &mut Output, line: &Line<'_>) {
        match self.columns {
            None => self.columns = header(line),
            Some(columns) if line.is_intact && line.count() == columns.count => take_row(out, line, columns),
            Some(_) => out.problem(ProblemKind::UnreadableRow),
        }
    }

    fn finish(self, label: &str, builder: TraceBuilder) -> Result<Trace> {
        if self.columns.is_none() {
            return Err(not_read(label, Other::AscendTable));
        }
        Ok(builder.finish())
    }
}

fn take_row(out: &mut Output, line: &Line<'_>, columns: Columns) {
    let field = |column: usize| line.field(column).unwrap_or_default();
    let is_copy = columns.task.is_some_and(|task| field(task).trim_ascii() == b"MEMCPY_ASYNC");
    if columns.task.is_some() && !is_copy && field(columns.name).trim_ascii() == b"N/A" {
        out.builder.trace.events.other += 1;
        return;
    }
    let time = |column: usize| Ns::from_decimal(field(column).trim_ascii(), MICROSECONDS);
    let (Some(start), Some(duration)) = (time(columns.start), time(columns.duration)) else {
        // Kernels that were never launched have `N/A`.
        return out.problem(ProblemKind::OpWithoutTime);
    };
    if !is_plausible(start, duration) {
        return out.problem(ProblemKind::ImpossibleDuration);
    }
    let text = |column: usize| String::from_utf8_lossy(&field(column)).trim().to_owned();
    let (name, op) = (text(columns.name), columns.op.map(text).unwrap_or_default());
    let name = if is_copy { "Memcpy (MEMCPY_ASYNC)".to_owned() } else { name };
    let named = if op.is_empty() || op == "N/A" || name.contains(&op) { name } else { format!("{op} ({name})") };
    let number = |column: Option<usize>| column.and_then(|column| text(column).parse::<i64>().ok());
    let op = GpuOp {
        start,
        duration,
        name: out.builder.trace.names.intern(&named),
        device: out.builder.device(&number(columns.device).unwrap_or(0).to_string(), ""),
        stream: number(columns.stream).unwrap_or(-1),
        process: out.builder.process(-1, ""),
        kind: if is_copy { OpKind::Copy } else { OpKind::Kernel },
    };
    out.builder.trace.gpu_ops.push(op, None);
}

/// Returns the columns of a header; `None` if one that is needed is missing.
fn header(line: &Line<'_>) -> Option<Columns> {
    let titles = line.titles();
    let find = |names: &[&str]| {
        names.iter().find_map(|name| titles.iter().position(|title| title.trim_ascii() == name.as_bytes()))
    };
    Some(Columns {
        start: find(&["Start Time(us)", "Task Start Time(us)", "task_start(us)"])?,
        duration: find(&["Duration(us)", "Task Duration(us)", "task_time(us)"])?,
        name: find(&["Name", "Op Name", "kernel_name"])?,
        op: find(&["Type", "OP Type"]),
        task: find(&["kernel_type"]),
        stream: find(&["Stream ID", "Stream Id", "stream_id"]),
        device: find(&["Device_id", "Device ID"]),
        count: line.count(),
    })
}

#[cfg(test)]
mod tests {
    use crate::input::Importer;
    use crate::input::tests::{problems, read_trace};
    use crate::trace::{Format, OpKind};

    #[test]
    fn named_tasks_and_copies_of_a_task_time_table_are_ops_and_others_are_not() {
        let text = "Device_id,kernel_name,kernel_type,stream_id,task_id,task_time(us),task_start(us),task_stop(us)\n\
                    0,N/A,EVENT_RECORD,2,3,0.500,\"58.000\t\",\"58.500\t\"\n\
                    0,aclnnAdd,KERNEL_AIVEC,2,2,6.000,\"52.000\t\",\"58.000\t\"\n\
                    0,N/A,MEMCPY_ASYNC,3,1,2.000,\"60.000\t\",\"62.000\t\"\n";
        let trace = read_trace(Importer::new("task_time_1.csv"), [text]);
        let ops: Vec<_> = trace
            .gpu_ops
            .iter()
            .map(|op| (trace.names.get(op.name), op.kind, op.start.0, op.duration.0, op.stream))
            .collect();
        let kernel = ("aclnnAdd", OpKind::Kernel, 52_000, 6_000, 2);
        assert_eq!(ops, [kernel, ("Memcpy (MEMCPY_ASYNC)", OpKind::Copy, 60_000, 2_000, 3)]);
        assert_eq!((trace.format, trace.events.other, problems(&trace)), (Format::AscendKernelDetails, 1, vec![]));
    }
}
