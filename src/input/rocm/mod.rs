//! Readers of AMD's own profilers: rocprofv3 (`csv`, `json`, `rocpd`) and rocmProfileData (`rpd`; its Chrome JSON is in
//! `input::chrome::rpd`).

mod counted;
pub(super) mod csv;
pub(super) mod json;
mod rocpd;
mod rocpd_places;
mod rpd;

use super::Detail;
use super::nsys::scanner::{Cells, Damaged, Scanner};
use super::nsys::schema::{Schema, Table};
use crate::Result;
use rusqlite::Connection;
use std::collections::BTreeMap;

use crate::trace::{Format, NameId, Names, Ns, OpKind, ProblemKind, Trace, TraceBuilder, is_plausible};

/// Reads a database of one format.
type ReadDatabase = fn(Detail, &Connection, &Schema, &str, &mut dyn FnMut(u64)) -> Result<Trace>;

/// Returns the reader of a database with these tables, if a ROCm profiler wrote it.
pub(super) fn database_reader(schema: &Schema) -> Option<ReadDatabase> {
    let has_times = |table: &&Table| table.column(&["start"]).is_some() && table.column(&["end"]).is_some();
    let has = |test: &dyn Fn(&str) -> bool| schema.tables.iter().filter(has_times).any(|table| test(&table.name));
    if has(&|name| name.starts_with(rocpd::KERNELS)) {
        Some(rocpd::read)
    } else if has(&|name| name == rpd::OPS) {
        Some(rpd::read)
    } else {
        None
    }
}

/// A database that is read into a trace.
struct Import<'a> {
    scanner: Scanner<'a>,
    builder: TraceBuilder,
    is_gpu_only: bool,
}

impl<'a> Import<'a> {
    fn new(
        (detail, format): (Detail, Format),
        connection: &'a Connection,
        schema: &Schema,
        label: &str,
        progress: &'a mut dyn FnMut(u64),
    ) -> Self {
        let mut builder = TraceBuilder::new(label, format);
        if schema.is_cut {
            builder.trace.problems.add(ProblemKind::Truncated, 1, schema.file_bytes);
        }
        let scanner = Scanner::new(connection, schema.file_bytes, progress);
        Self { scanner, builder, is_gpu_only: detail == Detail::GpuOps }
    }

    /// Reads the rows of a table; a damaged one is counted.
    fn scan(&mut self, table: &Table, columns: &[&[&str]], each: &mut dyn FnMut(&mut TraceBuilder, &Cells<'_>)) {
        let builder = &mut self.builder;
        let read = self.scanner.scan(table, columns, &mut |cells| each(builder, cells));
        if let Err(Damaged { after_rows }) = read {
            self.builder.trace.problems.add(ProblemKind::DamagedTable, 1, after_rows);
        }
    }
}

/// Start and duration of a row whose first two columns are start and end; counts one without.
fn row_times(builder: &mut TraceBuilder, cells: &Cells<'_>, is_op: bool) -> Option<(Ns, Ns)> {
    let time = cells.int(0).zip(cells.int(1));
    let found = time.and_then(|(start, end)| times(start, end));
    if found.is_none() {
        let kind = match (is_op, time) {
            (false, _) => ProblemKind::HostRowWithoutTime,
            (true, None) => ProblemKind::OpWithoutTime,
            (true, Some(_)) => ProblemKind::ImpossibleDuration,
        };
        builder.trace.problems.add(kind, 1, cells.at);
    }
    found
}

/// Names of rows by the id of their text, looked up once per id.
struct TextNames<'a> {
    lookup: Option<super::nsys::scanner::Lookup<'a>>,
    names: BTreeMap<i64, NameId>,
    missing: u64,
}

impl<'a> TextNames<'a> {
    fn new(scanner: &Scanner<'a>, table: Option<&Table>, value: &[&str]) -> Self {
        let lookup = table.and_then(|table| scanner.lookup(table, table.column(&["id"])?, table.column(value)?));
        Self { lookup, names: BTreeMap::new(), missing: 0 }
    }

    fn text(&mut self, id: i64) -> Option<String> {
        self.lookup.as_mut().and_then(|lookup| lookup.text(id))
    }

    /// The name with this id, in `names`.
    fn name(&mut self, names: &mut Names, id: i64) -> NameId {
        if let Some(known) = self.names.get(&id) {
            return *known;
        }
        let text = self.text(id).unwrap_or_else(|| {
            self.missing += 1;
            format!("(name {id} is missing)")
        });
        let name = names.intern(&text);
        self.names.insert(id, name);
        name
    }
}

/// Returns start and duration; `None` if the times are impossible.
fn times(start: i64, end: i64) -> Option<(Ns, Ns)> {
    let duration = Ns(end.checked_sub(start)?);
    is_plausible(Ns(start), duration).then_some((Ns(start), duration))
}

/// Returns the name of a copy as other profilers write it. ROCm calls it `MEMORY_COPY_HOST_TO_DEVICE` or `HOST_TO_DEVICE`.
pub(super) fn copy_name(direction: &str) -> String {
    let direction = direction.trim_start_matches("MEMORY_COPY_");
    match direction {
        "HOST_TO_DEVICE" => "Memcpy HtoD".to_owned(),
        "DEVICE_TO_HOST" => "Memcpy DtoH".to_owned(),
        "DEVICE_TO_DEVICE" => "Memcpy DtoD".to_owned(),
        "HOST_TO_HOST" => "Memcpy HtoH".to_owned(),
        other => format!("Memcpy ({other})"),
    }
}

/// The name of a kernel without the mark that AMD's compiler gives the symbol of a kernel: `k.kd`, `void k() [clone .kd]`.
pub(super) fn kernel_name(name: &str) -> &str {
    let symbol = name.strip_suffix(" [clone .kd]").or_else(|| name.strip_suffix(".kd"));
    symbol.filter(|symbol| !symbol.is_empty()).unwrap_or(name)
}

/// The kind of an op of rocmProfileData by its type; `None` for barriers and markers, which are no work.
pub(super) fn op_kind(op_type: &str) -> Option<OpKind> {
    match op_type {
        _ if op_type.starts_with("Copy") => Some(OpKind::Copy),
        _ if op_type.starts_with("Fill") => Some(OpKind::Set),
        "KernelExecution" | "Task" | "" => Some(OpKind::Kernel),
        _ => None,
    }
}

/// What the domain of an API call says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Domain {
    /// A range that the program marked.
    Marker,
    /// A call of the HIP API or of RCCL.
    Call,
    /// A call of the HSA API, which a HIP call makes; it would count twice.
    Inner,
}

impl Domain {
    fn of(name: &str) -> Self {
        if name.contains("MARKER") || name.contains("ROCTX") {
            Self::Marker
        } else if name.contains("HSA") {
            Self::Inner
        } else {
            Self::Call
        }
    }
}
