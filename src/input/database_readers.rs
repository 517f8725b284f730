//! Finds the reader of a SQLite database of another profiler than Nsight Systems, by its tables.

use super::nsys::schema::{Schema, Table};
use super::rocm::{rocpd, rpd, v1_db};
use super::{Detail, ascend_db};
use crate::Result;
use crate::trace::Trace;
use rusqlite::Connection;

/// Reads a database of one format.
type ReadDatabase = fn(Detail, &Connection, &Schema, &str, &mut dyn FnMut(u64)) -> Result<Trace>;

/// Returns the reader of a database with these tables, if a profiler of the list wrote it.
pub(super) fn reader(schema: &Schema) -> Option<ReadDatabase> {
    let has_times = |table: &&Table| table.column(&["start"]).is_some() && table.column(&["end"]).is_some();
    let has = |test: &dyn Fn(&str) -> bool| schema.tables.iter().filter(has_times).any(|table| test(&table.name));
    if has(&|name| name.starts_with(rocpd::KERNELS)) {
        Some(rocpd::read)
    } else if has(&|name| name == rpd::OPS) {
        Some(rpd::read)
    } else if v1_db::is_rocprof(schema) {
        Some(v1_db::read)
    } else if ascend_db::is_msprof(schema) {
        Some(ascend_db::read)
    } else {
        None
    }
}
