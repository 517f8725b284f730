//! Reader of the CSV of rocprof and rocprofv2, the predecessors of rocprofv3: one kernel a row. Columns are found by title; the two
//! tools spell them in their own ways. Times are nanoseconds of the monotonic clock. One pass, no allocation per row but for names.
//!
//! A run with counters (`pmc`) runs its kernels one at a time: such a table counts its rows as kernels of a counter run, and is
//! refused without times.

use super::{kernel_name, times};
use crate::Result;
use crate::input::Detail;
use crate::input::csv_lines::{CsvReader, Line, Output, Rows};
use crate::input::known_formats::{Other, not_read};
use crate::trace::{Format, GpuOp, Ns, OpKind, ProblemKind, Trace, TraceBuilder};

/// The rows of the table.
#[derive(Debug, Default)]
pub(crate) struct RocprofV1Csv {
    columns: Option<Columns>,
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

pub(crate) fn reader(label: &str, _detail: Detail) -> CsvReader<RocprofV1Csv> {
    CsvReader::new(TraceBuilder::new(label, Format::RocprofV1Csv), RocprofV1Csv::default())
}

impl Rows for RocprofV1Csv {
    fn line(&mut self, out: &mut Output, line: &Line<'_>) {
        match self.columns {
            None => self.columns = header(line),
            Some(columns) if line.is_intact && line.count() == columns.count => take_row(out, line, columns),
            Some(_) => out.problem(ProblemKind::UnreadableRow),
        }
    }

    fn finish(self, label: &str, builder: TraceBuilder) -> Result<Trace> {
        if self.columns.is_none() {
            return Err(not_read(label, Other::RocprofCounters));
        }
        Ok(builder.finish())
    }
}

fn take_row(out: &mut Output, line: &Line<'_>, columns: Columns) {
    let field = |column: usize| line.field(column).unwrap_or_default();
    let integer = |column: usize| Ns::from_decimal(field(column).trim_ascii(), 0).map(|number| number.0);
    let (Some(begin), Some(end)) = (integer(columns.begin), integer(columns.end)) else {
        return out.problem(ProblemKind::OpWithoutTime);
    };
    let Some((start, duration)) = times(begin, end) else { return out.problem(ProblemKind::ImpossibleDuration) };
    let device = columns.device.map(field).unwrap_or_default();
    let device = String::from_utf8_lossy(&device);
    let op = GpuOp {
        start,
        duration,
        name: out.builder.trace.names.intern(kernel_name(&String::from_utf8_lossy(&field(columns.name)))),
        device: out.builder.device(if device.is_empty() { "0" } else { device.as_ref() }, ""),
        stream: columns.queue.and_then(integer).unwrap_or(-1),
        process: out.builder.process(columns.pid.and_then(integer).unwrap_or(-1), ""),
        kind: OpKind::Kernel,
    };
    out.builder.trace.gpu_ops.push(op, None);
    if columns.has_counters {
        out.problem(ProblemKind::KernelOfCounterRun);
    }
}

/// Returns the columns of a header; `None` if one that is needed is missing.
fn header(line: &Line<'_>) -> Option<Columns> {
    let titles = line.titles();
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
        count: line.count(),
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
