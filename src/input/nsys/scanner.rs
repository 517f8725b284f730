//! Reads the rows of one table in rowid order.

use super::schema::{Table, quoted};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, Statement};
use std::borrow::Cow;

const ROWS_PER_PROGRESS: u64 = 1 << 16;
/// The minimum size of a row, to limit how much memory a large rowid can reserve.
const MIN_RESERVED_ROW_BYTES: u64 = 8;
/// The minimum size of a row in the file format. If a scan returns more rows than fit the file, a damaged page refers back to
/// earlier pages, and the scan would not end.
const MIN_ROW_BYTES: u64 = 4;

pub(in crate::input) struct Scanner<'a> {
    connection: &'a Connection,
    progress: &'a mut dyn FnMut(u64),
    rows: u64,
    file_bytes: u64,
}

/// The values of one row, in the order of the requested columns.
pub(in crate::input) struct Cells<'a> {
    row: &'a Row<'a>,
    /// Number of the row in the table, from one.
    pub(in crate::input) at: u64,
}

/// A table is damaged after this many rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::input) struct Damaged {
    pub(in crate::input) after_rows: u64,
}

impl<'a> Scanner<'a> {
    pub(in crate::input) fn new(connection: &'a Connection, file_bytes: u64, progress: &'a mut dyn FnMut(u64)) -> Self {
        Self { connection, progress, rows: 0, file_bytes }
    }

    /// Returns an upper bound of the number of rows, from the largest rowid, without reading the table.
    pub(in crate::input) fn max_rows(&self, table: Option<&Table>) -> usize {
        let Some(table) = table else { return 0 };
        let query = format!("SELECT max(rowid) FROM main.{} NOT INDEXED", quoted(&table.name));
        let last = self.connection.query_row(&query, [], |row| row.get::<_, i64>(0));
        let last = last.ok().and_then(|last| u64::try_from(last).ok()).unwrap_or(0);
        usize::try_from(last.min(self.file_bytes / MIN_RESERVED_ROW_BYTES)).unwrap_or(0)
    }

    /// Calls `each` for every row. Each of `columns` is a list of candidate names; a column that the table lacks is NULL.
    pub(in crate::input) fn scan(
        &mut self,
        table: &Table,
        columns: &[&[&str]],
        each: &mut dyn FnMut(&Cells<'_>),
    ) -> Result<(), Damaged> {
        let column = |names: &&[&str]| table.column(names).map_or_else(|| "NULL".to_owned(), quoted);
        let wanted: Vec<String> = columns.iter().map(column).collect();
        // A covering index would change the row order.
        let query = format!("SELECT {} FROM main.{} NOT INDEXED", wanted.join(","), quoted(&table.name));
        let mut at = 0;
        match self.run(&query, &mut at, each) {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(Damaged { after_rows: at }),
        }
    }

    /// Runs a query; returns false if there are more rows than the file can have.
    fn run(&mut self, query: &str, at: &mut u64, each: &mut dyn FnMut(&Cells<'_>)) -> rusqlite::Result<bool> {
        let mut statement = self.connection.prepare(query)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if *at >= self.file_bytes / MIN_ROW_BYTES {
                return Ok(false);
            }
            *at += 1;
            self.rows += 1;
            each(&Cells { row, at: *at });
            if self.rows.is_multiple_of(ROWS_PER_PROGRESS) {
                (self.progress)(self.rows);
            }
        }
        Ok(true)
    }

    /// Prepares a lookup of texts by key; `None` if the query cannot be prepared.
    pub(in crate::input) fn lookup(&self, table: &Table, key: &str, value: &str) -> Option<Lookup<'a>> {
        let query = format!("SELECT {} FROM main.{} WHERE {} = ?1", quoted(value), quoted(&table.name), quoted(key));
        self.connection.prepare(&query).ok().map(Lookup)
    }
}

/// Looks up texts by key. Other tables can be read meanwhile.
pub(in crate::input) struct Lookup<'a>(Statement<'a>);

impl Lookup<'_> {
    pub(in crate::input) fn text(&mut self, id: i64) -> Option<String> {
        self.0.query_row([id], |row| Ok(text(row.get_ref(0)?).map(Cow::into_owned))).ok()?
    }
}

impl Cells<'_> {
    pub(in crate::input) fn value(&self, column: usize) -> ValueRef<'_> {
        self.row.get_ref(column).unwrap_or(ValueRef::Null)
    }

    /// Returns the integer in this column; `None` for any other type.
    pub(in crate::input) fn int(&self, column: usize) -> Option<i64> {
        match self.value(column) {
            ValueRef::Integer(value) => Some(value),
            _ => None,
        }
    }

    /// Returns the integer or finite real number in this column.
    pub(in crate::input) fn number(&self, column: usize) -> Option<f64> {
        match self.value(column) {
            ValueRef::Integer(value) => Some(value as f64),
            ValueRef::Real(value) if value.is_finite() => Some(value),
            _ => None,
        }
    }

    /// Returns the text in this column; invalid UTF-8 becomes replacement characters.
    pub(in crate::input) fn text(&self, column: usize) -> Option<Cow<'_, str>> {
        text(self.value(column))
    }
}

fn text(value: ValueRef<'_>) -> Option<Cow<'_, str>> {
    match value {
        ValueRef::Text(bytes) => Some(lossy(bytes)),
        _ => None,
    }
}

/// Converts bytes to text. Checks for valid UTF-8 first, which is faster than `from_utf8_lossy`.
pub(in crate::input) fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}
