//! Reads one table at a time, in the order in which its rows were written.

use super::schema::{Table, quoted};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, Statement};
use std::borrow::Cow;

/// After so many rows the caller hears of it.
const ROWS_A_REPORT: u64 = 1 << 16;
/// A row takes at least so many bytes of the file, whatever its highest number says.
const ROW_BYTES: u64 = 8;
/// The least that the format allows a row to take. A table that says it has more rows than its file has room for goes
/// through the same pages again and again, more often than there is time for.
const LEAST_ROW_BYTES: u64 = 4;

/// Reads tables and says how far it is.
pub(super) struct Scanner<'a> {
    connection: &'a Connection,
    progress: &'a mut dyn FnMut(u64),
    rows: u64,
    file_bytes: u64,
}

/// The values of one row, in the order in which the columns were asked for.
pub(super) struct Cells<'a> {
    row: &'a Row<'a>,
    /// Its place in the table, from one.
    pub(super) at: u64,
}

/// The table is damaged after so many rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Damaged {
    pub(super) after: u64,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(connection: &'a Connection, file_bytes: u64, progress: &'a mut dyn FnMut(u64)) -> Self {
        Self { connection, progress, rows: 0, file_bytes }
    }

    /// How many rows a table has at most; found without reading it.
    pub(super) fn rows_at_most(&self, table: Option<&Table>) -> usize {
        let Some(table) = table else { return 0 };
        let query = format!("SELECT max(rowid) FROM main.{} NOT INDEXED", quoted(&table.name));
        let last = self.connection.query_row(&query, [], |row| row.get::<_, i64>(0));
        let last = last.ok().and_then(|last| u64::try_from(last).ok()).unwrap_or(0);
        usize::try_from(last.min(self.file_bytes / ROW_BYTES)).unwrap_or(0)
    }

    /// Hands over every row. Each of `columns` is a list of names that it goes by; one that the table lacks is NULL.
    pub(super) fn scan(
        &mut self,
        table: &Table,
        columns: &[&[&str]],
        each: &mut dyn FnMut(&Cells<'_>),
    ) -> Result<(), Damaged> {
        let column = |names: &&[&str]| table.column(names).map_or_else(|| "NULL".to_owned(), quoted);
        let wanted: Vec<String> = columns.iter().map(column).collect();
        // An index that covers the columns would hand the rows over in its own order.
        let query = format!("SELECT {} FROM main.{} NOT INDEXED", wanted.join(","), quoted(&table.name));
        let mut at = 0;
        match self.run(&query, &mut at, each) {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(Damaged { after: at }),
        }
    }

    /// False where the rows do not end.
    fn run(&mut self, query: &str, at: &mut u64, each: &mut dyn FnMut(&Cells<'_>)) -> rusqlite::Result<bool> {
        let mut statement = self.connection.prepare(query)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if *at >= self.file_bytes / LEAST_ROW_BYTES {
                return Ok(false);
            }
            *at += 1;
            self.rows += 1;
            each(&Cells { row, at: *at });
            if self.rows.is_multiple_of(ROWS_A_REPORT) {
                (self.progress)(self.rows);
            }
        }
        Ok(true)
    }

    /// Finds texts by a key of their table; `None` where they cannot be looked up.
    pub(super) fn lookup(&self, table: &Table, key: &str, value: &str) -> Option<Lookup<'a>> {
        let query = format!("SELECT {} FROM main.{} WHERE {} = ?1", quoted(value), quoted(&table.name), quoted(key));
        self.connection.prepare(&query).ok().map(Lookup)
    }
}

/// Texts by key, while other tables may be read.
pub(super) struct Lookup<'a>(Statement<'a>);

impl Lookup<'_> {
    /// The text of the row whose key is `id`; `None` where there is none.
    pub(super) fn text(&mut self, id: i64) -> Option<String> {
        self.0.query_row([id], |row| Ok(text(row.get_ref(0)?).map(Cow::into_owned))).ok()?
    }
}

impl Cells<'_> {
    pub(super) fn value(&self, column: usize) -> ValueRef<'_> {
        self.row.get_ref(column).unwrap_or(ValueRef::Null)
    }

    /// The integer in this column; nothing else counts as one.
    pub(super) fn int(&self, column: usize) -> Option<i64> {
        match self.value(column) {
            ValueRef::Integer(value) => Some(value),
            _ => None,
        }
    }

    /// The number in this column, with or without a point.
    pub(super) fn number(&self, column: usize) -> Option<f64> {
        match self.value(column) {
            ValueRef::Integer(value) => Some(value as f64),
            ValueRef::Real(value) if value.is_finite() => Some(value),
            _ => None,
        }
    }

    /// The text in this column; bytes that are no UTF-8 become replacement characters.
    pub(super) fn text(&self, column: usize) -> Option<Cow<'_, str>> {
        text(self.value(column))
    }
}

fn text(value: ValueRef<'_>) -> Option<Cow<'_, str>> {
    match value {
        ValueRef::Text(bytes) => Some(lossy(bytes)),
        _ => None,
    }
}

/// Text as it is where it is UTF-8, which is faster to check than to repair.
pub(super) fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}
