//! Reading a database never panics: it gives a consistent trace that can be analysed, or an error.
//!
//! An input that starts like a database is read as one. Any other input encodes changes of a small Nsight Systems export: values,
//! types, names and numbers of rows, which flipped bits of a file seldom change.

// Beside this folder's module, because the tests have the fixtures already.
use super::super::nsys as fixture;
use gpuprism::analysis::{Options, analyze};
use gpuprism::input::nsys;
use gpuprism::rules::{RuleBook, RuleSet};
use gpuprism::trace::Trace;
use rusqlite::types::Value;
use rusqlite::{Connection, MAIN_DB};
use std::sync::LazyLock;

const MAGIC: &[u8] = b"SQLite format 3\0";
/// Limit of changes per input: more make runs slower without finding more.
const MAX_CHANGES: usize = 24;

static RULES: LazyLock<RuleSet> = LazyLock::new(|| RuleBook::embedded().select("gpuprism", "default").unwrap());

/// Ranges of NCCL around the launches of the decode loop's first process.
const CALLS: [(i64, i64, &str, &str); 4] = [
    (900, 910, "ncclGroupStart", ""),
    (920, 930, "ncclAllGather", r#"{"NCCL communicator ID": 7, "Message size [bytes]": 512, "No. of ranks": 2}"#),
    (940, 4_000, "ncclGroupEnd", ""),
    (20_000, 24_000, "ncclAllReduce", r#"{"NCCL communicator ID": 7, "Message size [bytes]": 4096}"#),
];

/// The export to change.
static EXPORT: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut connection = fixture::decode_loop(fixture::Generation::S3_25);
    let thread = fixture::global_tid(fixture::LOOP_PIDS[0], fixture::LOOP_PIDS[0]);
    for (start, end, name, json) in CALLS {
        let text = |text: &str| Value::Text(text.to_owned());
        let values = [start.into(), end.into(), 59.into(), text(name), thread.into(), text(json)];
        fixture::row(&connection, "NVTX_EVENTS", "start, end, eventType, text, globalTid, jsonText", values);
    }
    connection.execute_batch("PRAGMA page_size=1024; VACUUM").unwrap();
    connection.serialize(MAIN_DB).unwrap().to_vec()
});

/// Checks one input.
pub fn check(data: &[u8]) {
    if data.starts_with(MAGIC) {
        return read(&open(data, true));
    }
    let connection = open(&EXPORT, false);
    let mut changes = Changes(data);
    for _ in 0..MAX_CHANGES {
        if changes.0.is_empty() {
            break;
        }
        // Ignore a change that SQLite refuses.
        let _ = changes.make(&connection);
    }
    read(&connection);
}

fn open(bytes: &[u8], read_only: bool) -> Connection {
    let mut connection = Connection::open_in_memory().unwrap();
    connection.deserialize_read_exact(MAIN_DB, bytes, bytes.len(), read_only).unwrap();
    connection
}

fn read(connection: &Connection) {
    match nsys::read(connection, "fuzz.sqlite", &mut |_| {}) {
        Ok(trace) => {
            assert_consistent(&trace);
            analyze(&trace, &RULES, &Options::default());
        }
        Err(error) => assert!(error.to_string().starts_with("fuzz.sqlite: "), "{error}"),
    }
}

/// Checks that indices into other tables are valid and that sorted columns are sorted.
fn assert_consistent(trace: &Trace) {
    let ops = &trace.gpu_ops;
    assert!(ops.iter().is_sorted_by_key(|op| op.start) && ops.iter().all(|op| op.duration.0 >= 0));
    assert!(ops.iter().all(|op| (op.device.0 as usize) < trace.devices.len()));
    assert!(ops.iter().all(|op| (op.process.0 as usize) < trace.processes.len()));
    assert!(ops.launches().flatten().all(|call| (call.0 as usize) < trace.calls.len()));
    for spans in [&trace.calls, &trace.ranges] {
        assert!(spans.iter().is_sorted_by_key(|span| span.start) && spans.iter().all(|span| span.duration.0 >= 0));
        assert!(spans.iter().all(|span| (span.name.0 as usize) < spans.names.len()));
        assert!(spans.iter().all(|span| (span.thread.0 as usize) < trace.threads.len()));
    }
    let rows = trace.collectives.iter().map(|(op, _)| *op);
    assert!(rows.is_sorted_by(|a, b| a < b) && trace.collectives.iter().all(|(op, _)| (*op as usize) < ops.len()));
    assert!(trace.bytes.iter().all(|(op, _)| (*op as usize) < ops.len()));
    assert!(trace.metrics.iter().all(|series| series.samples.is_sorted_by_key(|sample| sample.0)));
}

/// Names in exports, and some with SQL syntax.
const WORDS: &[&str] = &[
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "NVTX_EVENTS",
    "StringIds",
    "GPU_METRICS",
    "TARGET_INFO_CUDA_DEVICE",
    "OSRT_API",
    "start",
    "end",
    "deviceId",
    "globalPid",
    "globalTid",
    "pid",
    "correlationId",
    "nameId",
    "name",
    "text",
    "textId",
    "jsonText",
    "jsonTextId",
    "id",
    "value",
    "typeId",
    "a \"quoted\"; name --",
    "",
];
const TYPES: &[&str] = &["TEXT", "INTEGER", "REAL", "BLOB", "INTEGER PRIMARY KEY"];
const TEXTS: &[&str] = &[
    "ncclAllReduce",
    "ncclGroupStart",
    "ncclGroupEnd",
    r#"{"NCCL communicator ID": 1, "Message size [bytes]": 18446744073709551615, "No. of ranks": 9}"#,
    r#"{"size": "1,000", "comm": 77}"#,
    "aten::mm, seq = 1, op_id = 2",
    "NVLink TX [bytes]",
    "prefill",
];

/// Decodes changes from the bytes of an input.
struct Changes<'a>(&'a [u8]);

impl Changes<'_> {
    fn byte(&mut self) -> usize {
        let Some((byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*byte)
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> Option<T> {
        of.get(self.byte() % of.len().max(1)).cloned()
    }

    fn value(&mut self) -> Value {
        match self.byte() % 8 {
            0 => Value::Null,
            1 => Value::Integer(i64::MIN + self.byte() as i64),
            2 => Value::Integer(i64::MAX - self.byte() as i64),
            3 => Value::Integer((self.byte() as i64) << (self.byte() % 64)),
            4 => Value::Real(self.byte() as f64 * 1e300 * 1e10_f64.powi(self.byte() as i32 % 2)),
            5 => Value::Text(self.pick(TEXTS).unwrap_or_default().to_owned()),
            6 => {
                let length = self.byte().min(self.0.len());
                let (text, rest) = self.0.split_at(length);
                self.0 = rest;
                Value::Text(String::from_utf8_lossy(text).into_owned())
            }
            _ => Value::Integer(self.byte() as i64 * 1_000),
        }
    }

    fn make(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let tables = texts(connection, "SELECT name FROM sqlite_master WHERE type = ?1", "table")?;
        let Some(name) = self.pick(&tables) else { return Ok(()) };
        let columns = texts(connection, "SELECT name FROM pragma_table_info(?1)", &name)?;
        let (table, column) = (quoted(&name), quoted(&self.pick(&columns).unwrap_or_default()));
        let word = quoted(self.pick(WORDS).unwrap_or_default());
        match self.byte() % 10 {
            0 => connection.execute_batch(&format!("ALTER TABLE {table} RENAME TO {word}")),
            1 => connection.execute_batch(&format!("ALTER TABLE {table} RENAME COLUMN {column} TO {word}")),
            2 => connection.execute_batch(&format!("ALTER TABLE {table} DROP COLUMN {column}")),
            3 => connection.execute_batch(&format!("DROP TABLE {table}")),
            4 => self.retype(connection, &table, &columns),
            5 => connection.execute_batch(&format!("INSERT INTO {table} SELECT * FROM {table} LIMIT 20")),
            _ => {
                let (rows, row, value) = (1 + self.byte() % 4, self.byte() % 4, self.value());
                let update = format!("UPDATE {table} SET {column} = ?1 WHERE rowid % {rows} = {row}");
                connection.execute(&update, [value]).map(drop)
            }
        }
    }

    /// Copies a table with other column types.
    fn retype(&mut self, connection: &Connection, table: &str, columns: &[String]) -> rusqlite::Result<()> {
        let typed: Vec<String> =
            columns.iter().map(|name| format!("{} {}", quoted(name), self.pick(TYPES).unwrap_or_default())).collect();
        let typed = typed.join(",");
        connection.execute_batch(&format!(
            "CREATE TABLE other ({typed}); INSERT OR IGNORE INTO other SELECT * FROM {table}; DROP TABLE {table}; \
             ALTER TABLE other RENAME TO {table}"
        ))
    }
}

fn texts(connection: &Connection, query: &str, of: &str) -> rusqlite::Result<Vec<String>> {
    connection.prepare(query)?.query_map([of], |row| row.get(0))?.collect()
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
