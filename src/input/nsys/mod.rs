//! Reader of the SQLite export of an Nsight Systems report. It reads each table once, in rowid order: O(rows) time, no allocation
//! per row, about 25 bytes per row at the peak.
//!
//! - `schema` finds the tables and columns, which differ between releases of nsys; `scanner` reads the rows of one table.
//! - `gpu`, `host` and `metrics` convert rows to GPU ops, calls, ranges, waits and counters; `launch_configs` reads how kernels were
//!   launched.
//! - `packed_ids` unpacks ids of processes, threads and GPUs. `nccl` matches messages of collectives with kernels.
//! - `names` stores string ids while rows are read, and looks up at the end only the texts that are used.
//!
//! # Tables and columns
//!
//! Each role (kernels, calls, ranges, ...) has candidate table names and a pattern for others. Each column has candidate names:
//! the first that exists is read, and a missing column reads as NULL. Scans are `NOT INDEXED`, because a covering index would
//! change the row order. Two string ids with the same text become one name. PyTorch's `emit_nvtx` numbers its ranges (`aten::mm,
//! seq = 3, op_id = 7`); the numbers are removed, otherwise every range would have a name of its own.
//!
//! # Memory
//!
//! GPU ops and calls are read and joined (`TraceBuilder::link`) before the ranges, because joining frees the correlation ids.
//! Columns of times are permuted 32 bits at a time for the same reason.
//!
//! # Security and damage
//!
//! The file is untrusted. Only real tables are read (`rootpage > 0`); views and triggers are disabled, `trusted_schema` is off,
//! and all names are quoted in SQL. If a GPU table is a view, the file is refused with the SQL that makes it a table.
//! A file shorter than its header says is opened with `writable_schema` (on a read-only connection), because SQLite would
//! refuse it otherwise. SQLite reads the missing part of the last page as zeros, so [`is_cut`] compares the lengths.
//! A WAL-mode file without its log is opened as immutable.

#[cfg(not(target_arch = "wasm32"))]
mod describe;
pub(in crate::input) mod diagnostics;
pub(in crate::input) mod environment;
mod gpu;
mod host;
mod launch_configs;
mod metrics;
mod names;
mod nccl;
#[cfg(not(target_arch = "wasm32"))]
mod open;
mod packed_ids;
pub(in crate::input) mod scanner;
pub(in crate::input) mod schema;

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use open::connection;
#[cfg(not(target_arch = "wasm32"))]
pub use open::{describe, open, open_with};

use super::Detail;
use super::database;
use super::torch::begins_capture;
use crate::trace::{Format, NameId, Ns, ProblemKind, Trace, TraceBuilder, is_plausible};
use crate::{Error, Result};
use names::{PendingNames, Strings, look_up};
use packed_ids::{Gpus, ThreadTable};
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use scanner::{Cells, Damaged, Scanner};
use schema::{Schema, Table};

/// The column that joins GPU work with the API call that launched it.
const CORRELATION: &[&str] = &["correlationId", "correlation_id"];

const MAX_HINTS: usize = 4_096;

/// The error for an export without a single readable row.
const DAMAGED_WHOLE: &str = "an Nsight Systems SQLite export that is cut or damaged before its first row: copy it again, or export again \
     with `nsys export --type sqlite`";

/// Reads an export from an open database. `progress` is called from time to time with the number of rows read so far.
///
/// # Errors
/// If the database is not an Nsight Systems export, or if nothing of it can be read.
pub fn read(connection: &Connection, label: &str, progress: &mut dyn FnMut(u64)) -> Result<Trace> {
    read_in(Detail::Host, connection, label, progress)
}

/// Like [`read`], but without calls, ranges, waits and counters, to save memory. Their rows are estimated from the largest rowid.
///
/// # Errors
/// Those of [`read`].
pub fn read_gpu_ops(connection: &Connection, label: &str, progress: &mut dyn FnMut(u64)) -> Result<Trace> {
    read_in(Detail::GpuOps, connection, label, progress)
}

fn read_in(detail: Detail, connection: &Connection, label: &str, progress: &mut dyn FnMut(u64)) -> Result<Trace> {
    harden(connection).map_err(|error| schema::unreadable(label, &error))?;
    let mut schema = Schema::probe(connection, label)?;
    if let Some((format, read)) = super::database_readers::reader(&schema) {
        let mut import = database::Import::new((detail, format), connection, &schema, label, progress);
        read(&mut import, &schema);
        return Ok(import.builder.finish());
    }
    schema.check_origin(label)?;
    let mut scanner = Scanner::new(connection, schema.file_bytes, progress);
    let details = schema.tables.iter().find(|table| table.name == "ANALYSIS_DETAILS").cloned();
    let left_out = if detail == Detail::GpuOps { schema.take_all_but_gpu() } else { Vec::new() };
    let left_out: usize = left_out.iter().map(|table| scanner.max_rows(Some(table))).sum();
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
    details.into_iter().for_each(|table| import.read_recorded(&table));
    let ops = gpu::read_ops(&mut import);
    gpu::read_graph_replays(&mut import);
    // Sort before the next table takes memory.
    import.builder.sort_ops();
    let calls = host::read_calls(&mut import);
    import.builder.link();
    let (ranges, payloads) = host::read_ranges(&mut import);
    let waits = host::read_waits(&mut import);
    metrics::read(&mut import);
    diagnostics::read(&mut import);
    environment::read(&mut import);
    let ids = ops.ids().chain(calls.ids()).chain(ranges.ids()).chain(waits.names.ids());
    let (strings, repeated) = look_up(&mut import.scanner, &schema, ids);
    if repeated > 0 {
        import.builder.trace.problems.add(ProblemKind::RepeatedName, repeated, 0);
    }
    let trace = &import.builder.trace;
    let read = (trace.events.cpu, trace.events.other, trace.gpu_ops.len(), trace.graph_replays.len());
    if read == (0, 0, 0, 0) && trace.problems.has(ProblemKind::DamagedTable) {
        return Err(Error::refused(label, DAMAGED_WHOLE));
    }
    import.resolve_names(ops, calls, ranges, waits, &strings);
    payloads.join(&mut import.builder.trace);
    import.threads.name_machines(&mut import.builder);
    import.gpus.name_machines(&mut import.builder);
    Ok(import.builder.finish())
}

/// Size of the header of an SQLite database.
pub const HEADER_BYTES: usize = 100;

/// Returns true if a database of `size_bytes` is shorter than its header says. SQLite detects only missing pages, and reads the
/// missing part of the last page as zeros. See section 1.3 of the SQLite file format.
pub fn is_cut(header: &[u8], size_bytes: u64) -> bool {
    let number = |at: usize| header.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_be_bytes);
    let page_bytes = match header.get(16..18) {
        Some([0, 1]) => 1 << 16,
        Some([high, low]) => u64::from(*high) << 8 | u64::from(*low),
        _ => 0,
    };
    let (change_counter, valid_for) = (number(24), number(92));
    // The page count (28) is valid only if these are equal: old versions of SQLite do not write it.
    change_counter == valid_for && size_bytes < page_bytes * u64::from(number(28))
}

/// Prevents SQL in the file's schema from running.
fn harden(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON")?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    Ok(())
}

struct Import<'a> {
    scanner: Scanner<'a>,
    schema: &'a Schema,
    builder: TraceBuilder,
    threads: ThreadTable,
    gpus: Gpus,
}

impl Import<'_> {
    /// Adds a problem if a table could not be read to its end.
    fn count_damage(&mut self, read: std::result::Result<(), Damaged>) {
        if let Err(Damaged { after_rows }) = read {
            self.builder.trace.problems.add(ProblemKind::DamagedTable, 1, after_rows);
        }
    }

    /// Reads how long the session was. Times count from its start.
    fn read_recorded(&mut self, table: &Table) {
        let builder = &mut self.builder;
        let read = self.scanner.scan(table, &[&["duration"]], &mut |cells| {
            builder.add_recorded(Ns::ZERO, Ns(cells.int(0).unwrap_or_default()));
        });
        self.count_damage(read);
    }

    fn resolve_names(
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
            let (names, new_ids, missing_names) = names.resolve(strings);
            missing += missing_names;
            (names, new_ids)
        };
        let new_ids: Vec<NameId>;
        (trace.names, new_ids) = resolve(ops);
        trace.gpu_ops.rename(&new_ids);
        for (spans, names) in [(&mut trace.calls, calls), (&mut trace.ranges, ranges)] {
            let new_ids: Vec<NameId>;
            (spans.names, new_ids) = resolve(names);
            spans.rename(&new_ids);
        }
        trace.events.graph_captures =
            trace.calls.names.iter().filter(|name| begins_capture(name.as_bytes())).count() as u64;
        let (waits, missing_names) = waits.resolve(strings);
        trace.host_waits = waits;
        missing += missing_names;
        if missing > 0 {
            trace.problems.add(ProblemKind::MissingName, missing, 0);
        }
        for name in trace.ranges.names.iter().take(MAX_HINTS) {
            trace.engine_hints.annotations.intern(name);
        }
    }
}

/// Returns start and duration of a row whose first two columns are start and end; otherwise the kind of problem in a GPU table.
fn times(cells: &Cells<'_>) -> std::result::Result<(Ns, Ns), ProblemKind> {
    let (Some(start), Some(end)) = (cells.int(0), cells.int(1)) else { return Err(ProblemKind::OpWithoutTime) };
    let duration = end.checked_sub(start).map(Ns).filter(|duration| is_plausible(Ns(start), *duration));
    duration.map(|duration| (Ns(start), duration)).ok_or(ProblemKind::ImpossibleDuration)
}

/// Returns the correlation id in a column; zero means none.
fn correlation(cells: &Cells<'_>, column: usize) -> Option<u32> {
    cells.int(column).and_then(|id| u32::try_from(id).ok()).filter(|id| *id != 0)
}

#[cfg(test)]
#[path = "../../../tests/common/nsys.rs"]
#[allow(dead_code, reason = "each test program uses a part of these")]
mod fixture;
#[cfg(test)]
mod tests;

/// Reads the golden fixture, including its counters.
#[cfg(test)]
pub(crate) fn golden_trace() -> crate::trace::Trace {
    tests::trace(&fixture::golden(true))
}
