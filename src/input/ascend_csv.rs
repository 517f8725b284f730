//! Reader of the `kernel_details.csv` of torch_npu and of the `op_summary_*.csv` and `task_time_*.csv` of msprof: one row per kernel,
//! with the op that it computes. Times are microseconds, followed by a tab. Columns differ by version and are found by title. One
//! pass.
//!
//! Of the tasks of `task_time_*.csv`, those without a name are events and waits, but for copies (`MEMCPY_ASYNC`).

use super::Detail;
use super::csv_lines::{Lines, field_text, split};
use super::known_formats::{Other, not_read};
use super::stream_reader::StreamReader;
use crate::Result;
use crate::trace::{Format, GpuOp, Ns, OpKind, ProblemKind, Trace, TraceBuilder, is_plausible};
use std::borrow::Cow;

/// The unit of the times as a power of ten in ns.
const MICROSECONDS: u32 = 3;

#[derive(Debug)]
pub(super) struct AscendCsv {
    label: String,
    builder: TraceBuilder,
    lines: Lines,
    columns: Option<Columns>,
    row: u64,
    fields: Vec<(usize, usize)>,
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

impl AscendCsv {
    pub(super) fn new(label: &str, _detail: Detail) -> Self {
        let builder = TraceBuilder::new(label, Format::AscendKernelDetails);
        Self { label: label.to_owned(), builder, lines: Lines::default(), columns: None, row: 0, fields: Vec::new() }
    }

    fn problem(&mut self, kind: ProblemKind) {
        self.builder.trace.problems.add(kind, 1, self.row);
    }

    fn line(&mut self, line: Option<&[u8]>) {
        self.row += 1;
        let Some(line) = line else { return self.problem(ProblemKind::UnreadableRow) };
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.trim_ascii().is_empty() {
            return;
        }
        let mut fields = std::mem::take(&mut self.fields);
        let is_intact = split(line, &mut fields);
        match self.columns {
            None => self.columns = header(line, &fields),
            Some(columns) if is_intact && fields.len() == columns.count => self.take_row(line, &fields, columns),
            Some(_) => self.problem(ProblemKind::UnreadableRow),
        }
        self.fields = fields;
    }

    fn take_row(&mut self, line: &[u8], fields: &[(usize, usize)], columns: Columns) {
        let field = |column: usize| fields.get(column).map(|field| field_text(line, *field)).unwrap_or_default();
        let is_copy = columns.task.is_some_and(|task| field(task).trim_ascii() == b"MEMCPY_ASYNC");
        if columns.task.is_some() && !is_copy && field(columns.name).trim_ascii() == b"N/A" {
            self.builder.trace.events.other += 1;
            return;
        }
        let time = |column: usize| Ns::from_decimal(field(column).trim_ascii(), MICROSECONDS);
        let (Some(start), Some(duration)) = (time(columns.start), time(columns.duration)) else {
            // Kernels that were never launched have `N/A`.
            return self.problem(ProblemKind::OpWithoutTime);
        };
        if !is_plausible(start, duration) {
            return self.problem(ProblemKind::ImpossibleDuration);
        }
        let text = |column: usize| String::from_utf8_lossy(&field(column)).trim().to_owned();
        let (name, op) = (text(columns.name), columns.op.map(text).unwrap_or_default());
        let name = if is_copy { "Memcpy (MEMCPY_ASYNC)".to_owned() } else { name };
        let named = if op.is_empty() || op == "N/A" || name.contains(&op) { name } else { format!("{op} ({name})") };
        let number = |column: Option<usize>| column.and_then(|column| text(column).parse::<i64>().ok());
        let op = GpuOp {
            start,
            duration,
            name: self.builder.trace.names.intern(&named),
            device: self.builder.device(&number(columns.device).unwrap_or(0).to_string(), ""),
            stream: number(columns.stream).unwrap_or(-1),
            process: self.builder.process(-1, ""),
            kind: if is_copy { OpKind::Copy } else { OpKind::Kernel },
        };
        self.builder.trace.gpu_ops.push(op, None);
    }
}

/// Returns the columns of a header; `None` if one that is needed is missing.
fn header(line: &[u8], fields: &[(usize, usize)]) -> Option<Columns> {
    let titles: Vec<Cow<'_, [u8]>> = fields.iter().map(|field| field_text(line, *field)).collect();
    let find = |names: &[&str]| {
        names.iter().find_map(|name| {
            let is_title = |title: &Cow<'_, [u8]>| {
                title.trim_ascii().strip_prefix(b"\xef\xbb\xbf").unwrap_or(title.trim_ascii()) == name.as_bytes()
            };
            titles.iter().position(is_title)
        })
    };
    Some(Columns {
        start: find(&["Start Time(us)", "Task Start Time(us)", "task_start(us)"])?,
        duration: find(&["Duration(us)", "Task Duration(us)", "task_time(us)"])?,
        name: find(&["Name", "Op Name", "kernel_name"])?,
        op: find(&["Type", "OP Type"]),
        task: find(&["kernel_type"]),
        stream: find(&["Stream ID", "Stream Id", "stream_id"]),
        device: find(&["Device_id", "Device ID"]),
        count: fields.len(),
    })
}

impl StreamReader for AscendCsv {
    fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        let mut lines = std::mem::take(&mut self.lines);
        lines.feed(bytes, &mut |line| self.line(line));
        self.lines = lines;
        Ok(())
    }

    fn gpu_ops(&self) -> usize {
        self.builder.trace.gpu_ops.len()
    }

    fn finish(mut self: Box<Self>) -> Result<Trace> {
        let mut lines = std::mem::take(&mut self.lines);
        if lines.finish(&mut |line| self.line(line)) {
            self.builder.trace.problems.add(ProblemKind::OpenLastRow, 1, self.row);
        }
        if self.columns.is_none() {
            return Err(not_read(&self.label, Other::AscendTable));
        }
        Ok(self.builder.finish())
    }
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
