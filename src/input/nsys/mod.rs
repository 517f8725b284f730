//! The SQLite export of an Nsight Systems report: every table read once, in the order of its rows.
//!
//! `schema` finds the tables and columns that this file has, `scan` reads one, `gpu`, `host` and `metrics` make ops,
//! calls, ranges, waits and counters of their rows, `nccl` the messages of kernels, `owners` knows processes and GPUs,
//! `names` looks texts up at the end, only those that were seen. Rows cost no allocation. The file is data throughout:
//! no view, trigger or virtual table of it is ever used, and every name goes quoted into SQL.

#[cfg(not(target_arch = "wasm32"))]
mod describe;
mod gpu;
mod host;
mod metrics;
mod names;
mod nccl;
#[cfg(not(target_arch = "wasm32"))]
mod open;
mod packed_ids;
mod scan;
mod schema;

#[cfg(not(target_arch = "wasm32"))]
pub use open::{describe, open, open_with};

use super::Detail;
use crate::trace::{Format, NameId, Ns, ProblemKind, Trace, TraceBuilder, is_plausible};
use crate::{Error, Result};
use names::{PendingNames, Strings, look_up};
use packed_ids::{Gpus, ThreadTable};
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use scan::{Cells, Damaged, Scanner};
use schema::Schema;

/// The column by which GPU work and its launch find each other.
const CORRELATION: &[&str] = &["correlationId", "correlation_id"];

/// Annotations that are kept to guess the engine from.
const MAX_HINTS: usize = 4_096;

/// What is said of an export whose tables are all lost.
const DAMAGED_WHOLE: &str = "an Nsight Systems SQLite export that is cut or damaged before its first row: copy it again, or export again \
     with `nsys export --type sqlite`";

/// Reads an export through an open database; `progress` hears how many rows were read so far.
///
/// # Errors
/// Where the database is no Nsight Systems export, by what it is, and where nothing of it can be read.
pub fn read(connection: &Connection, label: &str, progress: &mut dyn FnMut(u64)) -> Result<Trace> {
    read_in(Detail::Host, connection, label, progress)
}

/// Like [`read`], without calls, ranges, waits and counters, whose rows are counted from their ids: for where memory is short.
///
/// # Errors
/// Those of [`read`].
pub fn read_gpu_ops(connection: &Connection, label: &str, progress: &mut dyn FnMut(u64)) -> Result<Trace> {
    read_in(Detail::GpuOps, connection, label, progress)
}

fn read_in(detail: Detail, connection: &Connection, label: &str, progress: &mut dyn FnMut(u64)) -> Result<Trace> {
    guard(connection).map_err(|error| schema::unreadable(label, &error))?;
    let mut schema = Schema::probe(connection, label)?;
    schema.check_origin(label)?;
    let mut scanner = Scanner::new(connection, schema.file_bytes, progress);
    let left_out = if detail == Detail::GpuOps { schema.take_all_but_gpu() } else { Vec::new() };
    let left_out: usize = left_out.iter().map(|table| scanner.rows_at_most(Some(table))).sum();
    let mut import = Import {
        threads: ThreadTable::read(&mut scanner, &schema),
        gpus: Gpus::read(&mut scanner, &schema),
        builder: TraceBuilder::new(label, Format::NsysSqlite),
        schema: &schema,
        scanner,
    };
    if schema.is_cut {
        import.builder.trace.problems.add(ProblemKind::Truncated, 1, schema.file_bytes);
    }
    if left_out > 0 {
        import.builder.trace.problems.add(ProblemKind::LeftOut, left_out as u64, 0);
    }
    let ops = gpu::read_ops(&mut import);
    gpu::read_graph_replays(&mut import);
    // Sorted before the next table takes memory.
    import.builder.sort_ops();
    let calls = host::read_calls(&mut import);
    import.builder.link();
    let (ranges, payloads) = host::read_ranges(&mut import);
    let waits = host::read_waits(&mut import);
    metrics::read(&mut import);
    let ids = ops.ids().chain(calls.ids()).chain(ranges.ids()).chain(waits.names.ids());
    let strings = look_up(&mut import.scanner, &schema, ids);
    let trace = &import.builder.trace;
    let read = (trace.events.cpu, trace.events.other, trace.gpu_ops.len(), trace.graph_replays.len());
    if read == (0, 0, 0, 0) && trace.problems.has(ProblemKind::DamagedTable) {
        return Err(Error::refused(label, DAMAGED_WHOLE));
    }
    import.name(ops, calls, ranges, waits, &strings);
    payloads.join(&mut import.builder.trace);
    Ok(import.builder.finish())
}

/// So many bytes of a database tell how long it is.
pub const HEADER_BYTES: usize = 100;

/// True where a database of `bytes` bytes is shorter than its first [`HEADER_BYTES`] say. SQLite notices this of whole
/// pages alone, and takes what is missing of the last one for zeros.
pub fn is_cut(header: &[u8], bytes: u64) -> bool {
    let number = |at: usize| header.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_be_bytes);
    let page_bytes = match header.get(16..18) {
        Some([0, 1]) => 1 << 16,
        Some([high, low]) => u64::from(*high) << 8 | u64::from(*low),
        _ => 0,
    };
    let (changes, changes_at_length) = (number(24), number(92));
    // Writers that are older than the field leave it as it was.
    changes == changes_at_length && bytes < page_bytes * u64::from(number(28))
}

/// The file's schema can run nothing.
fn guard(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON")?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    Ok(())
}

/// A trace while its tables are read.
struct Import<'a> {
    scanner: Scanner<'a>,
    schema: &'a Schema,
    builder: TraceBuilder,
    threads: ThreadTable,
    gpus: Gpus,
}

impl Import<'_> {
    /// Counts a table that could not be read to its end.
    fn note(&mut self, read: std::result::Result<(), Damaged>) {
        if let Err(Damaged { after }) = read {
            self.builder.trace.problems.add(ProblemKind::DamagedTable, 1, after);
        }
    }

    /// Puts texts in the place of ids.
    fn name(
        &mut self,
        ops: PendingNames,
        calls: PendingNames,
        ranges: PendingNames,
        waits: host::Waits,
        strings: &Strings,
    ) {
        let trace = &mut self.builder.trace;
        let mut missing = 0;
        let mut resolve = |names: PendingNames| {
            let (names, now, without) = names.resolve(strings);
            missing += without;
            (names, now)
        };
        let now: Vec<NameId>;
        (trace.names, now) = resolve(ops);
        trace.gpu_ops.rename(&now);
        for (spans, names) in [(&mut trace.calls, calls), (&mut trace.ranges, ranges)] {
            let now: Vec<NameId>;
            (spans.names, now) = resolve(names);
            spans.rename(&now);
        }
        let (waits, without) = waits.resolve(strings);
        trace.host_waits = waits;
        missing += without;
        if missing > 0 {
            trace.problems.add(ProblemKind::MissingName, missing, 0);
        }
        for name in trace.ranges.names.iter().take(MAX_HINTS) {
            trace.engine_hints.annotations.intern(name);
        }
    }
}

/// Why a row has no place in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Untimed {
    /// Start or end is no integer.
    Unknown,
    /// It ends before it starts, or beyond all time.
    Impossible,
}

impl Untimed {
    fn of_op(self) -> ProblemKind {
        match self {
            Self::Unknown => ProblemKind::OpWithoutTime,
            Self::Impossible => ProblemKind::ImpossibleDuration,
        }
    }

    fn of_host(self) -> ProblemKind {
        ProblemKind::HostRowWithoutTime
    }
}

/// Start and duration of a row, whose first two columns are start and end.
fn time(cells: &Cells<'_>) -> std::result::Result<(Ns, Ns), Untimed> {
    let (Some(start), Some(end)) = (cells.int(0), cells.int(1)) else { return Err(Untimed::Unknown) };
    let duration = end.checked_sub(start).map(Ns).ok_or(Untimed::Impossible)?;
    if is_plausible(Ns(start), duration) { Ok((Ns(start), duration)) } else { Err(Untimed::Impossible) }
}

/// The correlation id in a column; zero stands for none.
fn correlation(cells: &Cells<'_>, column: usize) -> Option<u32> {
    cells.int(column).and_then(|id| u32::try_from(id).ok()).filter(|id| *id != 0)
}

#[cfg(test)]
#[path = "../../../tests/common/nsys.rs"]
#[allow(dead_code, reason = "each test program uses a part of these")]
mod fixture;
#[cfg(test)]
mod tests;

/// The golden fixture with its counters, read.
#[cfg(test)]
pub(crate) fn golden_trace() -> crate::trace::Trace {
    tests::trace(&fixture::golden(true))
}
