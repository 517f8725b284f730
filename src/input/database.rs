//! What the readers of SQLite databases of other profilers than Nsight Systems share. Each table is read once, in rowid order.

use super::Detail;
use super::nsys::scanner::{Cells, Damaged, Lookup, Scanner};
use super::nsys::schema::{Schema, Table};
use crate::trace::{Format, NameId, Names, Ns, ProblemKind, TraceBuilder, is_plausible};
use rusqlite::Connection;
use std::collections::BTreeMap;

/// A database that is read into a trace.
pub(super) struct Import<'a> {
    pub(super) scanner: Scanner<'a>,
    pub(super) builder: TraceBuilder,
    pub(super) detail: Detail,
    pub(super) is_gpu_only: bool,
}

impl<'a> Import<'a> {
    pub(super) fn new(
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
        Self { scanner, builder, detail, is_gpu_only: detail == Detail::GpuOps }
    }

    /// Counts rows whose names are ids without a text.
    pub(super) fn count_missing_names(&mut self, count: u64) {
        if count > 0 {
            self.builder.trace.problems.add(ProblemKind::MissingName, count, 0);
        }
    }

    /// Reads the rows of a table; a damaged one is counted.
    pub(super) fn scan(
        &mut self,
        table: &Table,
        columns: &[&[&str]],
        each: &mut dyn FnMut(&mut TraceBuilder, &Cells<'_>),
    ) {
        let builder = &mut self.builder;
        let read = self.scanner.scan(table, columns, &mut |cells| each(builder, cells));
        if let Err(Damaged { after_rows }) = read {
            self.builder.trace.problems.add(ProblemKind::DamagedTable, 1, after_rows);
        }
    }
}

/// Start and duration of a row whose first two columns are start and end, as numbers or text; counts one without.
pub(super) fn row_times(builder: &mut TraceBuilder, cells: &Cells<'_>, is_op: bool) -> Option<(Ns, Ns)> {
    let column = |column: usize| {
        let text = || Ns::from_decimal(cells.text(column)?.trim().as_bytes(), 0).map(|time| time.0);
        cells.int(column).or_else(text)
    };
    let time = column(0).zip(column(1));
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
pub(super) struct TextNames<'a> {
    lookup: Option<Lookup<'a>>,
    pub(super) names: BTreeMap<i64, NameId>,
    pub(super) missing: u64,
}

impl<'a> TextNames<'a> {
    pub(super) fn new(scanner: &Scanner<'a>, table: Option<&Table>, value: &[&str]) -> Self {
        let lookup = table.and_then(|table| scanner.lookup(table, table.column(&["id"])?, table.column(value)?));
        Self { lookup, names: BTreeMap::new(), missing: 0 }
    }

    pub(super) fn text(&mut self, id: i64) -> Option<String> {
        self.lookup.as_mut().and_then(|lookup| lookup.text(id))
    }

    /// The name with this id, in `names`.
    pub(super) fn name(&mut self, names: &mut Names, id: i64) -> NameId {
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
pub(super) fn times(start: i64, end: i64) -> Option<(Ns, Ns)> {
    let duration = Ns(end.checked_sub(start)?);
    is_plausible(Ns(start), duration).then_some((Ns(start), duration))
}
