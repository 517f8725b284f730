//! Reader of the CSV of rocprof and rocprofv2, the predecessors of rocprofv3: one kernel a row. Columns are found by title; the two
//! tools spell them in their own ways. Times are nanoseconds of the monotonic clock. One pass, no allocation per row but for names.
//!
//! A run with counters (`pmc`) runs its kernels one at a time: such a table counts its rows as kernels of a counter run, and is
//! refused without times.

use super::{kernel_name, times};
use crate::Result;
use crate::input::Detail;
use crate::input::csv_lines::{Lines, field_text, split};
use crate::input::known_formats::{Other, not_read};
use crate::input::stream_reader::StreamReader;
use crate::trace::{Format, GpuOp, Ns, OpKind, ProblemKind, Trace, TraceBuilder};
use std::borrow::Cow;

/// Reads the table chunk by chunk.
#[derive(Debug)]
pub(crate) struct RocprofV1Csv {
    label: String,
    builder: TraceBuilder,
    lines: Lines,
    columns: Option<Columns>,
    row: u64,
    fields: Vec<(usize, usize)>,
}

#[derive(Debug, Clone, Copy)]
struct Columns {
    name: usize,
    begin: usize,
    end: usize,
    device: Option<usize>,
    queue: Option<usize>,
    pid: Option<usize>,
    has_counters: bool,
    count: usize,
}

impl RocprofV1Csv {
    pub(crate) fn new(label: &str, _detail: Detail) -> Self {
        let builder = TraceBuilder::new(label, Format::RocprofV1Csv);
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
        let integer = |column: usize| Ns::from_decimal(field(column).trim_ascii(), 0).map(|number| number.0);
        let (Some(begin), Some(end)) = (integer(columns.begin), integer(columns.end)) else {
            return self.problem(ProblemKind::OpWithoutTime);
        };
        let Some((start, duration)) = times(begin, end) else { return self.problem(ProblemKind::ImpossibleDuration) };
        let device = columns.device.map(field).unwrap_or_default();
        let device = String::from_utf8_lossy(&device);
        let op = GpuOp {
            start,
            duration,
            name: self.builder.trace.names.intern(kernel_name(&String::from_utf8_lossy(&field(columns.name)))),
            device: self.builder.device(if device.is_empty() { "0" } else { device.as_ref() }, ""),
            stream: columns.queue.and_then(integer).unwrap_or(-1),
            process: self.builder.process(columns.pid.and_then(integer).unwrap_or(-1), ""),
            kind: OpKind::Kernel,
        };
        self.builder.trace.gpu_ops.push(op, None);
        if columns.has_counters {
            self.problem(ProblemKind::KernelOfCounterRun);
        }
    }
}

/// Returns the columns of a header; `None` if one that is needed is missing.
fn header(line: &[u8], fields: &[(usize, usize)]) -> Option<Columns> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let titles: Vec<Cow<'_, [u8]>> = fields.iter().map(|field| field_text(line, *field)).collect();
    let find = |names: &[&str]| {
        names.iter().find_map(|name| titles.iter().position(|title| title.as_ref() == name.as_bytes()))
    };
    Some(Columns {
        name: find(&["KernelName", "Kernel_Name"])?,
        begin: find(&["BeginNs", "Start_Timestamp"])?,
        end: find(&["EndNs", "End_Timestamp"])?,
        device: find(&["gpu-id", "GPU_ID", "dev-id"]),
        queue: find(&["queue-id", "Queue_ID"]),
        pid: find(&["pid", "PID"]),
        has_counters: titles.iter().any(|title| is_counter(title)),
        count: fields.len(),
    })
}

/// Whether a column with this title has a hardware counter: those have the name of a block of the GPU before them.
pub(in crate::input) fn is_counter(title: &[u8]) -> bool {
    const BLOCKS: [&str; 14] = [
        "SQ_",
        "SQC_",
        "TCC_",
        "TCP_",
        "TA_",
        "TD_",
        "TCA_",
        "GRBM_",
        "CPC_",
        "CPF_",
        "SPI_",
        "GDS_",
        "FETCH_SIZE",
        "WRITE_SIZE",
    ];
    BLOCKS.iter().any(|block| title.starts_with(block.as_bytes()))
}

impl StreamReader for RocprofV1Csv {
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
            return Err(not_read(&self.label, Other::RocprofCounters));
        }
        Ok(self.builder.finish())
    }
}

#[cfg(test)]
mod tests {
    use crate::input::Importer;
    use crate::input::tests::{problems, read_trace};
    use crate::trace::{Format, ProblemKind, Trace};

    fn read(text: &str) -> Trace {
        read_trace(Importer::new("results.csv"), [text])
    }

    #[test]
    fn kernels_have_the_times_devices_queues_and_processes_of_their_rows() {
        let trace = read(
            "\"Index\",\"KernelName\",\"gpu-id\",\"queue-id\",\"pid\",\"tid\",\"DispatchNs\",\"BeginNs\",\"EndNs\",\"CompleteNs\"\n\
             0,\"void k<double>(double*, int) [clone .kd]\",8,2,47,48,50,100,130,140\n\
             1,\"f.kd\",8,2,47,48,50,130,120,140\n1,\"f.kd\",8\n",
        );
        let op = trace.gpu_ops.iter().next().unwrap();
        assert_eq!((trace.format, trace.gpu_ops.len()), (Format::RocprofV1Csv, 1));
        assert_eq!(
            (trace.names.get(op.name), op.start.0, op.duration.0, op.stream),
            ("void k<double>(double*, int)", 100, 30, 2)
        );
        assert_eq!((trace.devices[0].id.as_str(), trace.processes[0].pid), ("8", 47));
        let mut found = problems(&trace);
        found.sort();
        assert_eq!(found, [(ProblemKind::ImpossibleDuration, 1), (ProblemKind::UnreadableRow, 1)]);
    }

    #[test]
    fn the_table_of_rocprofv2_has_the_same_kernels() {
        let trace = read(
            "Dispatch_ID,GPU_ID,Queue_ID,PID,TID,Grid_Size,Kernel_Name,Start_Timestamp,End_Timestamp,Correlation_ID\n\
             0,4,1,47,48,256,\"k(int, int)\",100,130,0\n",
        );
        let op = trace.gpu_ops.iter().next().unwrap();
        assert_eq!((trace.format, trace.names.get(op.name), op.duration.0), (Format::RocprofV1Csv, "k(int, int)", 30));
        assert_eq!((trace.devices[0].id.as_str(), op.stream, trace.processes[0].pid), ("4", 1, 47));
    }

    #[test]
    fn kernels_beside_counters_are_those_of_a_counter_run() {
        let trace = read("Index,KernelName,gpu-id,SQ_WAVES,BeginNs,EndNs\n0,k,8,64,100,130\n");
        assert_eq!(problems(&trace), [(ProblemKind::KernelOfCounterRun, 1)]);
    }
}
