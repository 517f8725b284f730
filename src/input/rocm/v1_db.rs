//! Reader of the SQLite database of rocprof, the predecessor of rocprofv3. `OPS` has the kernels and `COPY` the copies of a run with
//! `--hip-trace`, `HIP` the calls, `rocTX` the ranges and marks of a run with `--roctx-trace`; `KERN` has the kernels of other runs.
//! `Index` joins a call with its op. One pass per table in rowid order; 16 bytes per copying call for the sizes, which only the
//! arguments of calls say.

use super::{Import, copy_name, kernel_name, op_kind, row_times, size_in_call};
use crate::input::nsys::scanner::Cells;
use crate::input::nsys::schema::{Schema, Table};
use crate::input::torch::is_stored_call;
use crate::trace::{GpuOp, Ns, OpKind, ProblemKind, Span, TraceBuilder};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Tables of ops.
const OPS: &str = "OPS";
const COPIES: &str = "COPY";
const KERNELS: &str = "KERN";
const RANGES: &str = "rocTX";

/// The columns of ops, as [`op`] reads them. Each table has one spelling of each.
const OP_COLUMNS: &[&[&str]] = &[
    &["BeginNs"],
    &["EndNs"],
    &["Name", "KernelName"],
    &["dev-id", "gpu-id"],
    &["stream-id", "queue-id"],
    &["pid"],
    &["Index"],
];

/// Whether rocprof wrote a database with these tables.
pub(in crate::input) fn is_rocprof(schema: &Schema) -> bool {
    [OPS, COPIES, KERNELS].iter().any(|name| ops_table(schema, name).is_some())
}

/// The table of ops of this name, if it has times.
fn ops_table<'a>(schema: &'a Schema, name: &str) -> Option<&'a Table> {
    let has_times = |table: &&Table| table.column(&["BeginNs"]).is_some() && table.column(&["EndNs"]).is_some();
    schema.tables.iter().filter(|table| table.name == name).find(has_times)
}

/// Reads the database.
pub(in crate::input) fn read(import: &mut Import<'_>, schema: &Schema) {
    let calls = schema.table("HIP");
    let sizes = calls.map(|table| read_calls(import, table)).unwrap_or_default();
    if let Some(table) = ops_table(schema, RANGES) {
        read_ranges(import, table);
    }
    if let Some(table) = ops_table(schema, COPIES) {
        import.scan(table, OP_COLUMNS, &mut |builder, cells| {
            let size = cells.int(6).and_then(|index| sizes.get(&index));
            if op(builder, cells, true) {
                size.into_iter().for_each(|size| builder.set_bytes_of_last_op(*size));
            }
        });
    }
    // With `--hip-trace`, `KERN` has the same kernels without times.
    let kernels = ops_table(schema, OPS).filter(|table| import.scanner.max_rows(Some(table)) > 0);
    let is_joined = kernels.is_some();
    if let Some(table) = kernels.or_else(|| ops_table(schema, KERNELS)) {
        // The index of a row of `KERN` is that of no call.
        let columns = OP_COLUMNS.get(..if is_joined { OP_COLUMNS.len() } else { OP_COLUMNS.len() - 1 });
        import.scan(table, columns.unwrap_or_default(), &mut |builder, cells| {
            op(builder, cells, false);
        });
    }
}

/// Reads the calls. Returns the bytes that they move, by index.
fn read_calls(import: &mut Import<'_>, table: &Table) -> HashMap<i64, u64, RandomState> {
    let is_gpu_only = import.is_gpu_only;
    let mut sizes = HashMap::default();
    let columns: &[&[&str]] = &[&["BeginNs"], &["EndNs"], &["Name"], &["pid"], &["tid"], &["Index"], &["args"]];
    import.scan(table, columns, &mut |builder, cells| {
        builder.trace.events.cpu += 1;
        let index = cells.int(5);
        let size = cells.text(6).and_then(|arguments| size_in_call(&arguments));
        sizes.extend(index.zip(size));
        let name = cells.text(2).unwrap_or_default();
        if !is_stored_call(name.as_bytes()) {
            return;
        }
        if is_gpu_only {
            return builder.trace.problems.add(ProblemKind::LeftOut, 1, cells.at);
        }
        let Some((start, duration)) = row_times(builder, cells, false) else { return };
        let process = builder.process(cells.int(3).unwrap_or(-1), "");
        let thread = builder.thread(process, cells.int(4).unwrap_or(-1));
        let name = builder.trace.calls.names.intern(&name);
        builder.add_call(Span { start, duration, name, thread }, correlation(index));
    });
    sizes
}

fn read_ranges(import: &mut Import<'_>, table: &Table) {
    /// A mark has no end; rocprof lets it last as long.
    const MARK: Ns = Ns(1);
    let is_gpu_only = import.is_gpu_only;
    import.scan(table, &[&["BeginNs"], &["EndNs"], &["Name"], &["pid"], &["tid"]], &mut |builder, cells| {
        builder.trace.events.cpu += 1;
        if is_gpu_only {
            return builder.trace.problems.add(ProblemKind::LeftOut, 1, cells.at);
        }
        let Some((start, duration)) = row_times(builder, cells, false) else { return };
        if duration <= MARK {
            return;
        }
        let process = builder.process(cells.int(3).unwrap_or(-1), "");
        let thread = builder.thread(process, cells.int(4).unwrap_or(-1));
        builder.add_range(&cells.text(2).unwrap_or_default(), (thread, start, duration));
    });
}

/// Adds an op; returns false for one without usable times, which is counted.
fn op(builder: &mut TraceBuilder, cells: &Cells<'_>, is_copy: bool) -> bool {
    let Some((start, duration)) = row_times(builder, cells, true) else { return false };
    let text = cells.text(2).unwrap_or_default();
    let text = text.trim_matches('"');
    let kind = match op_kind(text) {
        Some(OpKind::Set) if is_copy => OpKind::Set,
        _ if is_copy => OpKind::Copy,
        _ => OpKind::Kernel,
    };
    let name = if kind == OpKind::Copy { copy_name(text) } else { kernel_name(text).to_owned() };
    let op = GpuOp {
        start,
        duration,
        name: builder.trace.names.intern(&name),
        device: builder.device(&cells.int(3).unwrap_or_default().to_string(), ""),
        stream: cells.int(4).unwrap_or(-1),
        process: builder.process(cells.int(5).unwrap_or(-1), ""),
        kind,
    };
    builder.trace.gpu_ops.push(op, correlation(cells.int(6)));
    true
}

/// The index of a call as correlation id: indices start at 0, which is none.
fn correlation(index: Option<i64>) -> Option<u32> {
    u32::try_from(index?.checked_add(1)?).ok().filter(|id| *id != 0)
}

#[cfg(test)]
mod tests {
    use crate::input::nsys;
    use crate::trace::{Format, OpKind, Trace};
    use rusqlite::Connection;

    fn read(tables: &str) -> Trace {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(tables).unwrap();
        nsys::read(&connection, "results.db", &mut |_| {}).unwrap()
    }

    const COLUMNS: &str = r#"(BeginNs INTEGER, EndNs INTEGER, "dev-id" INTEGER, "queue-id" INTEGER, Name TEXT,
        pid INTEGER, tid INTEGER, "stream-id" INTEGER, "Index" INTEGER)"#;

    /// A copy of 8 us with its call, which says its size, and two kernels on two GPUs.
    #[test]
    fn ops_copies_and_calls_of_a_hip_trace_are_read_and_joined_by_index() {
        let trace = read(&format!(
            r#"CREATE TABLE HIP (BeginNs INTEGER, EndNs INTEGER, pid INTEGER, tid INTEGER, Name TEXT, args TEXT, "Index" INTEGER);
            INSERT INTO HIP VALUES (1000, 9000, 47, 48, 'hipMemcpyAsync', '( dst(0x1) sizeBytes(4096) kind(1))', 0),
                (10000, 14000, 47, 48, 'hipLaunchKernel', '( )', 1);
            CREATE TABLE OPS {COLUMNS};
            INSERT INTO OPS VALUES (16000, 56000, 2, 0, 'k(float*)', 47, 48, 5, 1), (18000, 48000, 3, 0, 'n.kd', 47, 48, 6, 9);
            CREATE TABLE COPY {COLUMNS};
            INSERT INTO COPY VALUES (4000, 12000, 2, 0, 'CopyHostToDevice', 47, 48, 5, 0);
            CREATE TABLE KERN ("Index" INTEGER, KernelName TEXT);"#
        ));
        assert_eq!(trace.format, Format::RocprofV1Db);
        let ops: Vec<_> = trace
            .gpu_ops
            .iter()
            .map(|op| {
                let device = trace.devices[op.device.0 as usize].id.as_str();
                (trace.names.get(op.name), op.kind, op.start.0, op.duration.0, device, op.stream)
            })
            .collect();
        let copy = ("Memcpy HtoD", OpKind::Copy, 4_000, 8_000, "2", 5);
        let kernels =
            [("k(float*)", OpKind::Kernel, 16_000, 40_000, "2", 5), ("n", OpKind::Kernel, 18_000, 30_000, "3", 6)];
        assert_eq!(ops, [copy, kernels[0], kernels[1]]);
        let launches: Vec<_> = trace.gpu_ops.launches().map(|call| call.map(|call| call.0)).collect();
        assert_eq!((launches, trace.bytes.as_slice()), (vec![Some(0), Some(1), None], &[(0, 4_096)][..]));
        assert_eq!((trace.processes[0].pid, trace.threads[0].tid), (47, 48));
    }

    #[test]
    fn ranges_of_roctx_are_read_and_marks_are_none() {
        let trace = read(&format!(
            r#"CREATE TABLE OPS {COLUMNS};
            INSERT INTO OPS VALUES (16000, 56000, 2, 0, 'k', 47, 48, 5, 1);
            CREATE TABLE rocTX (BeginNs INTEGER, EndNs INTEGER, pid INTEGER, tid INTEGER, Name TEXT, "Index" INTEGER,
                __section INTEGER, __lane INTEGER);
            INSERT INTO rocTX VALUES (1000, 90000, 47, 48, 'decode step 3', 0, 3, 48), (2000, 2001, 47, 48, 'mark', 1, 3, 48);"#
        ));
        let ranges: Vec<_> = trace
            .ranges
            .iter()
            .map(|range| (trace.ranges.names.get(range.name), range.start.0, range.duration.0))
            .collect();
        assert_eq!((ranges, trace.events.cpu), (vec![("decode step 3", 1_000, 89_000)], 2));
        assert_eq!((trace.processes[0].pid, trace.threads[0].tid), (47, 48));
    }

    #[test]
    fn kernels_of_a_run_without_hip_trace_are_read() {
        let trace = read(
            r#"CREATE TABLE KERN ("Index" INTEGER, KernelName TEXT, "gpu-id" INTEGER, "queue-id" INTEGER, pid INTEGER,
                BeginNs INTEGER, EndNs INTEGER);
            INSERT INTO KERN VALUES (0, '"void k() [clone .kd]"', 8, 0, 47, 100, 130), (1, '"k2.kd"', 8, 0, 47, 140, 120);"#,
        );
        let op = trace.gpu_ops.iter().next().unwrap();
        assert_eq!((trace.gpu_ops.len(), trace.names.get(op.name), op.duration.0), (1, "void k()", 30));
        assert_eq!(trace.problems.count(crate::trace::ProblemKind::ImpossibleDuration), 1);
    }
}
