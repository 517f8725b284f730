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
use crate::input::csv_lines::{Lines, field_text, split};
use crate::input::stream_reader::StreamReader;
use crate::input::torch::is_stored_call;
use crate::trace::{
    DeviceProperties, Format, GpuOp, NameId, Names, Ns, OpKind, ProblemKind, ProcessId, Span, Trace, TraceBuilder,
};
use crate::{Error, Result};
use foldhash::fast::RandomState;
use memchr::memmem;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

/// Reads the tables chunk by chunk.
#[derive(Debug)]
pub(crate) struct RocprofCsv {
    label: String,
    builder: TraceBuilder,
    is_gpu_only: bool,
    lines: Lines,
    table: Option<Table>,
    row: u64,
    names: HashMap<Box<[u8]>, NameId, RandomState>,
    agents: BTreeMap<String, Agent>,
    /// The process of ops, whose tables have no column for it: that of the first call.
    process: ProcessId,
    has_kernel_table: bool,
    counted: CountedKernels,
    fields: Vec<(usize, usize)>,
}

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
    fn of_header(line: &[u8], fields: &[(usize, usize)]) -> Option<Self> {
        let first = line.strip_prefix(b"\"").unwrap_or(line);
        let is_title = matches!(first, [b'A'..=b'Z', b'a'..=b'z', ..]);
        let is_header =
            is_title && (memmem::find(line, b"Timestamp").is_some() || memmem::find(line, b"_Id").is_some());
        if !is_header {
            return None;
        }
        let mut columns = [None; TITLES.len()];
        for (column, field) in fields.iter().enumerate() {
            let title = field_text(line, *field);
            let known = TITLES.iter().position(|known| known.as_bytes() == title.as_ref());
            if let Some(slot) = known.and_then(|known| columns.get_mut(known)) {
                *slot = Some(column);
            }
        }
        let mut table = Self { kind: TableKind::Other, columns, count: fields.len() };
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
    line: &'a [u8],
    fields: &'a [(usize, usize)],
    table: &'a Table,
}

impl<'a> Row<'a> {
    #[inline]
    fn raw(&self, column: usize) -> Option<Cow<'a, [u8]>> {
        self.fields.get(self.table.column(column)?).map(|field| field_text(self.line, *field))
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

impl RocprofCsv {
    pub(crate) fn new(label: &str, detail: Detail) -> Self {
        let mut builder = TraceBuilder::new(label, Format::RocprofCsv);
        let process = builder.process(-1, "");
        Self {
            label: label.to_owned(),
            builder,
            is_gpu_only: detail == Detail::GpuOps,
            lines: Lines::default(),
            table: None,
            row: 0,
            names: HashMap::default(),
            agents: BTreeMap::new(),
            process,
            has_kernel_table: false,
            counted: CountedKernels::default(),
            fields: Vec::new(),
        }
    }

    fn problem(&mut self, kind: ProblemKind) {
        self.builder.trace.problems.add(kind, 1, self.row);
    }

    /// Takes a line; `None` is one that is too long.
    fn line(&mut self, line: Option<&[u8]>) {
        self.row += 1;
        let Some(line) = line else { return self.problem(ProblemKind::UnreadableRow) };
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = if self.row == 1 { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line) } else { line };
        if line.trim_ascii().is_empty() {
            return;
        }
        let mut fields = std::mem::take(&mut self.fields);
        let is_intact = split(line, &mut fields);
        if let Some(table) = Table::of_header(line, &fields).filter(|_| is_intact) {
            self.has_kernel_table |= table.kind == TableKind::Kernels;
            self.table = Some(table);
        } else if let Some(table) = self.table.take() {
            if !is_intact || fields.len() != table.count {
                self.problem(ProblemKind::UnreadableRow);
            } else {
                self.row(&Row { line, fields: &fields, table: &table });
            }
            self.table = Some(table);
        } else {
            self.problem(ProblemKind::UnreadableRow);
        }
        self.fields = fields;
    }

    fn row(&mut self, row: &Row<'_>) {
        match row.table.kind {
            TableKind::Agents => return self.agent(row),
            TableKind::Other => {
                self.builder.trace.events.other += 1;
                return;
            }
            TableKind::Counters => self.builder.trace.events.other += 1,
            _ => {}
        }
        let is_call = row.table.kind == TableKind::Calls;
        let (Some(start), Some(end)) = (row.int(START_TIMESTAMP), row.int(END_TIMESTAMP)) else {
            return self.problem(if is_call { ProblemKind::HostRowWithoutTime } else { ProblemKind::OpWithoutTime });
        };
        let Some(time) = times(start, end) else {
            let kind = if is_call { ProblemKind::HostRowWithoutTime } else { ProblemKind::ImpossibleDuration };
            return self.problem(kind);
        };
        match row.table.kind {
            TableKind::Calls => self.call(row, time),
            TableKind::Copies => self.copy(row, time),
            TableKind::Counters => self.counter(row, time),
            _ => self.kernel(row, time),
        }
    }

    /// Adds a counter of a kernel.
    fn counter(&mut self, row: &Row<'_>, time: (Ns, Ns)) {
        let counter = row.raw(COUNTER_NAME).and_then(|name| Counter::named(&name));
        let value =
            row.raw(COUNTER_VALUE).and_then(|value| bytes(std::str::from_utf8(&value).ok()?.trim().parse().ok()?));
        let Some(op) = self.kernel_of(row, time).filter(|_| counter.is_none() || value.is_some()) else {
            return self.problem(ProblemKind::UnreadableRow);
        };
        let dispatch = row.int(DISPATCH_ID).and_then(|id| u64::try_from(id).ok()).unwrap_or_default();
        let traffic = self.counted.traffic(dispatch, op, row.correlation());
        if let (Some(counter), Some(bytes)) = (counter, value) {
            counter.add(bytes, traffic);
        }
    }

    fn kernel(&mut self, row: &Row<'_>, time: (Ns, Ns)) {
        let Some(op) = self.kernel_of(row, time) else { return self.problem(ProblemKind::UnreadableRow) };
        self.builder.trace.gpu_ops.push(op, row.correlation());
    }

    fn kernel_of(&mut self, row: &Row<'_>, (start, duration): (Ns, Ns)) -> Option<GpuOp> {
        let name = row.raw(KERNEL_NAME)?;
        let name = intern(&mut self.names, &mut self.builder.trace.names, &name);
        let device = row.raw(AGENT_ID).unwrap_or_default();
        Some(GpuOp {
            start,
            duration,
            name,
            device: self.builder.device(agent_number(&String::from_utf8_lossy(&device)), ""),
            stream: row.int(STREAM_ID).or_else(|| row.int(QUEUE_ID)).unwrap_or(-1),
            process: self.process,
            kind: OpKind::Kernel,
        })
    }

    fn copy(&mut self, row: &Row<'_>, (start, duration): (Ns, Ns)) {
        let direction = row.text(DIRECTION);
        let agent = if direction.ends_with("TO_HOST") { SOURCE_AGENT_ID } else { DESTINATION_AGENT_ID };
        let op = GpuOp {
            start,
            duration,
            name: self.builder.trace.names.intern(&copy_name(&direction)),
            device: self.builder.device(agent_number(&row.text(agent)), ""),
            stream: row.int(STREAM_ID).unwrap_or(-1),
            process: self.process,
            kind: OpKind::Copy,
        };
        self.builder.trace.gpu_ops.push(op, row.correlation());
    }

    fn call(&mut self, row: &Row<'_>, (start, duration): (Ns, Ns)) {
        self.builder.trace.events.cpu += 1;
        let domain = Domain::of(&row.text(DOMAIN));
        let function = row.raw(FUNCTION).unwrap_or_default();
        if domain == Domain::Inner || domain == Domain::Call && !is_stored_call(&function) {
            return;
        }
        if self.is_gpu_only {
            return self.problem(ProblemKind::LeftOut);
        }
        let process = self.process_of_call(row.int(PROCESS_ID).unwrap_or(-1));
        let thread = self.builder.thread(process, row.int(THREAD_ID).unwrap_or(-1));
        let function = String::from_utf8_lossy(&function);
        if domain == Domain::Marker {
            let name = self.builder.trace.ranges.names.intern(&function);
            self.builder.trace.engine_hints.annotations.intern(&function);
            return self.builder.trace.ranges.push(Span { start, duration, name, thread });
        }
        let name = self.builder.trace.calls.names.intern(&function);
        self.builder.add_call(Span { start, duration, name, thread }, row.correlation());
    }

    /// rocprofv3 writes one set of files per process, so the ops belong to the process of the calls.
    fn process_of_call(&mut self, pid: i64) -> ProcessId {
        let own = self.builder.trace.processes.get_mut(self.process.0 as usize);
        match own {
            Some(own) if own.pid == -1 || own.pid == pid => {
                own.pid = pid;
                self.process
            }
            _ => self.builder.process(pid, ""),
        }
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

    fn name_devices(&mut self) {
        for device in &mut self.builder.trace.devices {
            let Some(agent) = self.agents.get(&device.id).filter(|agent| agent.is_gpu) else { continue };
            device.name.clone_from(&agent.name);
            device.properties =
                DeviceProperties { multiprocessors: agent.compute_units, ..DeviceProperties::default() };
        }
    }
}

impl StreamReader for RocprofCsv {
    fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        let mut lines = std::mem::take(&mut self.lines);
        lines.feed(bytes, &mut |line| self.line(line));
        self.lines = lines;
        Ok(())
    }

    fn gpu_ops(&self) -> usize {
        self.builder.trace.gpu_ops.len() + self.counted.len()
    }

    fn finish(mut self: Box<Self>) -> Result<Trace> {
        let mut lines = std::mem::take(&mut self.lines);
        if lines.finish(&mut |line| self.line(line)) {
            self.builder.trace.problems.add(ProblemKind::OpenLastRow, 1, self.row);
        }
        std::mem::take(&mut self.counted).finish(self.has_kernel_table, &mut self.builder);
        let events = self.builder.trace.events;
        if self.builder.trace.gpu_ops.is_empty() && events.cpu == 0 && events.other == 0 {
            let why = if self.agents.is_empty() {
                "a rocprofv3 table without a readable row; copy it again"
            } else {
                "the list of agents of a rocprofv3 run: open it together with the `*_kernel_trace.csv` beside it"
            };
            return Err(Error::refused(&self.label, why));
        }
        self.name_devices();
        Ok(self.builder.finish())
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
