//! Finds the reader of a SQLite database of another profiler than Nsight Systems, by its tables.

use super::ascend_db;
use super::database::Import;
use super::nsys::schema::{Schema, Table};
use super::rocm::{rocpd, rpd, v1_db};
use crate::trace::Format;

/// Reads the tables of a database into the trace.
type ReadDatabase = fn(&mut Import<'_>, &Schema);

/// Returns the format and the reader of a database with these tables, if a profiler of the list wrote it.
pub(super) fn reader(schema: &Schema) -> Option<(Format, ReadDatabase)> {
    let has_times = |table: &&Table| table.column(&["start"]).is_some() && table.column(&["end"]).is_some();
    let has = |test: &dyn Fn(&str) -> bool| schema.tables.iter().filter(has_times).any(|table| test(&table.name));
    if has(&|name| name.starts_with(rocpd::KERNELS)) {
        Some((Format::Rocpd, rocpd::read))
    } else if has(&|name| name == rpd::OPS) {
        Some((Format::Rpd, rpd::read))
    } else if v1_db::is_rocprof(schema) {
        Some((Format::RocprofV1Db, v1_db::read))
    } else if ascend_db::is_msprof(schema) {
        Some((Format::AscendDb, ascend_db::read))
    } else {
        None
    }
}
