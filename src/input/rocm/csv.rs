//! Reader of the CSV files of rocprofv3: kernels, copies, API calls, markers, counters and agents of one run.
//!
//! The files of a run come one after the other in one stream; each starts with its header. A row is one line, because names
//! have no line ends, so a lost quote damages one row only. Columns are found by title; unknown tables are counted. One pass,
//! no allocation per row.
//!
//! Kernels of a graph replay have the correlation id of its `hipGraphLaunch`. Counters have a row per counter and kernel; see
//! `counted`.

use super::counted::{CountedKernels, Counter, bytes};
use super::{Domain, copy_name, times};
use crate::input::Detail;
use crate::input::csv_lines::{CsvReader, Line, Output, Rows};
use crate::input::torch::is_stored_call;
use crate::trace::{
    DeviceProperties, Format, GpuOp, NameId, Names, Ns, OpKind, ProblemKind, ProcessId, Span, Trace, TraceBuilder,
};
use crate::{Error, Result};
use foldhash::fast::RandomState;
use memchr::memmem;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

/// The rows of the tables.
#[derive(Debug)]
pub(crate) struct RocprofCsv {
    is_gpu_only: bool,
    table: Option<Table>,
    names: HashMap<Box<[u8]>, NameId, RandomState>,
    agents: BTreeMap<String, Agent>,
    has_kernel_table: bool,
    counted: CountedKernels,
}

/// The process of ops, whose tables have no column for it: that of the first call.
const PROCESS: ProcessId = ProcessId(0);

#[derive(Debug)]
struct Agent {
    is_gpu: bool,
    name: String,
    compute_units: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TableKind {
    Kernels,
    Counters,
    Copies,
    Calls,
    Agents,
    Other,
}

/// The table that the last header started.
#[derive(Debug, Clone)]
struct Table {
    kind: TableKind,
    columns: [Option<usize>; TITLES.len()],
    count: usize,
}

/// Titles of the columns that are read.
const TITLES: [&str; 21] = [
    "Start_Timestamp",
    "End_Timestamp",
    "Kernel_Name",
    "Agent_Id",
    "Queue_Id",
    "Stream_Id",
    "Correlation_Id",
    "Thread_Id",
    "Process_Id",
    "Dispatch_Id",
    "Direction",
    "Source_Agent_Id",
    "Destination_Agent_Id",
    "Domain",
    "Function",
    "Node_Id",
    "Agent_Type",
    "Cu_Count",
    "Product_Name",
    "Counter_Name",
    "Counter_Value",
];

/// Indices in [`TITLES`].
const START_TIMESTAMP: usize = 0;
const END_TIMESTAMP: usize = 1;
const KERNEL_NAME: usize = 2;
const AGENT_ID: usize = 3;
const QUEUE_ID: usize = 4;
const STREAM_ID: usize = 5;
const CORRELATION_ID: usize = 6;
const THREAD_ID: usize = 7;
const PROCESS_ID: usize = 8;
const DISPATCH_ID: usize = 9;
const DIRECTION: usize = 10;
const SOURCE_AGENT_ID: usize = 11;
const DESTINATION_AGENT_ID: usize = 12;
const DOMAIN: usize = 13;
const FUNCTION: usize = 14;
const NODE_ID: usize = 15;
const AGENT_TYPE: usize = 16;
const CU_COUNT: usize = 17;
const PRODUCT_NAME: usize = 18;
const COUNTER_NAME: usize = 19;
const COUNTER_VALUE: usize = 20;

impl Table {
    /// Returns the table of a header; `None` if the line is a row. A header starts with a capital and a small letter
    /// (`"Kind"`), a row with a number or a word in capitals.
    fn of_header(line: &Line<'_>) -> Option<Self> {
        let text = line.text;
        let first = text.strip_prefix(b"\"").unwrap_or(text);
        let is_title = matches!(first, [b'A'..=b'Z', b'a'..=b'z', ..]);
        let is_header =
            is_title && (memmem::find(text, b"Timestamp").is_some() || memmem::find(text, b"_Id").is_some());
        if !is_header {
            return None;
        }
        let mut columns = [None; TITLES.len()];
        for (column, title) in line.titles().into_iter().enumerate() {
            let known = TITLES.iter().position(|known| known.as_bytes() == title.as_ref());
            if let Some(slot) = known.and_then(|known| columns.get_mut(known)) {
                *slot = Some(column);
            }
        }
        let mut table = Self { kind: TableKind::Other, columns, count: line.count() };
        let has = |column: usize| table.column(column).is_some();
        let has_times = has(START_TIMESTAMP) && has(END_TIMESTAMP);
        table.kind = match has_times {
            true if has(KERNEL_NAME) && has(COUNTER_NAME) => TableKind::Counters,
            true if has(KERNEL_NAME) => TableKind::Kernels,
            true if has(DIRECTION) => TableKind::Copies,
            true if has(FUNCTION) => TableKind::Calls,
            false if has(AGENT_TYPE) && has(NODE_ID) => TableKind::Agents,
            _ => TableKind::Other,
        };
        Some(table)
    }

    #[inline]
    fn column(&self, column: usize) -> Option<usize> {
        self.columns.get(column).copied().flatten()
    }
}

/// One row of the current table.
struct Row<'a> {
    line: &'a Line<'a>,
    table: &'a Table,
}

impl<'a> Row<'a> {
    #[inline]
    fn raw(&self, column: usize) -> Option<Cow<'a, [u8]>> {
        self.line.field(self.table.column(column)?)
    }

    fn text(&self, column: usize) -> String {
        self.raw(column).map(|raw| String::from_utf8_lossy(&raw).into_owned()).unwrap_or_default()
    }

    #[inline]
    fn int(&self, column: usize) -> Option<i64> {
        integer(&self.raw(column)?)
    }

    fn correlation(&self) -> Option<u32> {
        self.int(CORRELATION_ID).and_then(|id| u32::try_from(id).ok()).filter(|id| *id != 0)
    }
}

/// Parses a whole number with at most 19 digits.
fn integer(text: &[u8]) -> Option<i64> {
    Ns::from_decimal(text, 0).map(|number| number.0)
}

pub(crate) fn reader(label: &str, detail: Detail) -> CsvReader<RocprofCsv> {
    let rows = RocprofCsv {
        is_gpu_only: detail == Detail::GpuOps,
        table: None,
        names: HashMap::default(),
        agents: BTreeMap::new(),
        has_kernel_table: false,
        counted: CountedKernels::default(),
    };
    let mut builder = TraceBuilder::new(label, Format::RocprofCsv);
    builder.process(-1, "");
    CsvReader::new(builder, rows)
}

impl RocprofCsv {
    fn row(&mut self, out: &mut Output, row: &Row<'_>) {
        match row.table.kind {
            TableKind::Agents => return self.agent(row),
            TableKind::Other => {
                out.builder.trace.events.other += 1;
                return;
            }
            TableKind::Counters => out.builder.trace.events.other += 1,
            _ => {}
        }
        let is_call = row.table.kind == TableKind::Calls;
        let (Some(start), Some(end)) = (row.int(START_TIMESTAMP), row.int(END_TIMESTAMP)) else {
            return out.problem(if is_call { ProblemKind::HostRowWithoutTime } else { ProblemKind::OpWithoutTime });
        };
        let Some(time) = times(start, end) else {
            let kind = if is_call { ProblemKind::HostRowWithoutTime } else { ProblemKind::ImpossibleDuration };
            return out.problem(kind);
        };
        match row.table.kind {
            TableKind::Calls => self.call(out, row, time),
            TableKind::Copies => self.copy(out, row, time),
            TableKind::Counters => self.counter(out, row, time),
            _ => self.kernel(out, row, time),
        }
    }

    /// Adds a counter of a kernel.
    fn counter(&mut self, out: &mut Output, row: &Row<'_>, time: (Ns, Ns)) {
        let counter = row.raw(COUNTER_NAME).and_then(|name| Counter::named(&name));
        let value =
            row.raw(COUNTER_VALUE).and_then(|value| bytes(std::str::from_utf8(&value).ok()?.trim().parse().ok()?));
        let Some(op) = self.kernel_of(out, row, time).filter(|_| counter.is_none() || value.is_some()) else {
            return out.problem(ProblemKind::UnreadableRow);
        };
        let dispatch = row.int(DISPATCH_ID).and_then(|id| u64::try_from(id).ok()).unwrap_or_default();
        let traffic = self.counted.traffic(dispatch, op, row.correlation());
        if let (Some(counter), Some(bytes)) = (counter, value) {
            counter.add(bytes, traffic);
        }
    }

    fn kernel(&mut self, out: &mut Output, row: &Row<'_>, time: (Ns, Ns)) {
        let Some(op) = self.kernel_of(out, row, time) else { return out.problem(ProblemKind::UnreadableRow) };
        out.builder.trace.gpu_ops.push(op, row.correlation());
    }

    fn kernel_of(&mut self, out: &mut Output, row: &Row<'_>, (start, duration): (Ns, Ns)) -> Option<GpuOp> {
        let name = row.raw(KERNEL_NAME)?;
        let name = intern(&mut self.names, &mut out.builder.trace.names, &name);
        let device = row.raw(AGENT_ID).unwrap_or_default();
        Some(GpuOp {
            start,
            duration,
            name,
            device: out.builder.device(agent_number(&String::from_utf8_lossy(&device)), ""),
            stream: row.int(STREAM_ID).or_else(|| row.int(QUEUE_ID)).unwrap_or(-1),
            process: PROCESS,
            kind: OpKind::Kernel,
        })
    }

    fn copy(&mut self, out: &mut Output, row: &Row<'_>, (start, duration): (Ns, Ns)) {
        let direction = row.text(DIRECTION);
        let agent = if direction.ends_with("TO_HOST") { SOURCE_AGENT_ID } else { DESTINATION_AGENT_ID };
        let op = GpuOp {
            start,
            duration,
            name: out.builder.trace.names.intern(&copy_name(&direction)),
            device: out.builder.device(agent_number(&row.text(agent)), ""),
            stream: row.int(STREAM_ID).unwrap_or(-1),
            process: PROCESS,
            kind: OpKind::Copy,
        };
        out.builder.trace.gpu_ops.push(op, row.correlation());
    }

    fn call(&mut self, out: &mut Output, row: &Row<'_>, (start, duration): (Ns, Ns)) {
        out.builder.trace.events.cpu += 1;
        let domain = Domain::of(&row.text(DOMAIN));
        let function = row.raw(FUNCTION).unwrap_or_default();
        if domain == Domain::Inner || domain == Domain::Call && !is_stored_call(&function) {
            return;
        }
        if self.is_gpu_only {
            return out.problem(ProblemKind::LeftOut);
        }
        let process = process_of_call(out, row.int(PROCESS_ID).unwrap_or(-1));
        let thread = out.builder.thread(process, row.int(THREAD_ID).unwrap_or(-1));
        let function = String::from_utf8_lossy(&function);
        if domain == Domain::Marker {
            return out.builder.add_range(&function, (thread, start, duration));
        }
        let name = out.builder.trace.calls.names.intern(&function);
        out.builder.add_call(Span { start, duration, name, thread }, row.correlation());
    }

    fn agent(&mut self, row: &Row<'_>) {
        let product = row.text(PRODUCT_NAME);
        let agent = Agent {
            is_gpu: row.text(AGENT_TYPE) == "GPU",
            name: product,
            compute_units: row.int(CU_COUNT).and_then(|count| u32::try_from(count).ok()),
        };
        self.agents.insert(row.text(NODE_ID), agent);
    }

    fn name_devices(&self, builder: &mut TraceBuilder) {
        for device in &mut builder.trace.devices {
            let Some(agent) = self.agents.get(&device.id).filter(|agent| agent.is_gpu) else { continue };
            device.name.clone_from(&agent.name);
            device.properties =
                DeviceProperties { multiprocessors: agent.compute_units, ..DeviceProperties::default() };
        }
    }
}

impl Rows for RocprofCsv {
    fn line(&mut self, out: &mut Output, line: &Line<'_>) {
        if let Some(table) = Table::of_header(line).filter(|_| line.is_intact) {
            self.has_kernel_table |= table.kind == TableKind::Kernels;
            self.table = Some(table);
        } else if let Some(table) = self.table.take() {
            if !line.is_intact || line.count() != table.count {
                out.problem(ProblemKind::UnreadableRow);
            } else {
                self.row(out, &Row { line, table: &table });
            }
            self.table = Some(table);
        } else {
            out.problem(ProblemKind::UnreadableRow);
        }
    }

    fn waiting_ops(&self) -> usize {
        self.counted.len()
    }

    fn finish(mut self, label: &str, mut builder: TraceBuilder) -> Result<Trace> {
        std::mem::take(&mut self.counted).finish(self.has_kernel_table, &mut builder);
        let events = builder.trace.events;
        if builder.trace.gpu_ops.is_empty() && events.cpu == 0 && events.other == 0 {
            let why = if self.agents.is_empty() {
                "a rocprofv3 table without a readable row; copy it again"
            } else {
                "the list of agents of a rocprofv3 run: open it together with the `*_kernel_trace.csv` beside it"
            };
            return Err(Error::refused(label, why));
        }
        self.name_devices(&mut builder);
        Ok(builder.finish())
    }
}

/// rocprofv3 writes one set of files per process, so the ops belong to the process of the calls.
fn process_of_call(out: &mut Output, pid: i64) -> ProcessId {
    let own = out.builder.trace.processes.get_mut(PROCESS.0 as usize);
    match own {
        Some(own) if own.pid == -1 || own.pid == pid => {
            own.pid = pid;
            PROCESS
        }
        _ => out.builder.process(pid, ""),
    }
}

/// `Agent 1` and `1` are the same agent.
fn agent_number(agent: &str) -> &str {
    let number = agent.trim().trim_start_matches("Agent ");
    if number.is_empty() { "0" } else { number }
}

fn intern(known: &mut HashMap<Box<[u8]>, NameId, RandomState>, names: &mut Names, raw: &[u8]) -> NameId {
    if let Some(&id) = known.get(raw) {
        return id;
    }
    let id = names.intern(&String::from_utf8_lossy(raw));
    known.insert(raw.into(), id);
    id
}
