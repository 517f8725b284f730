//! Describes an export: every table with its number of rows, time range and columns, and the role it fills.

use super::schema::{self, Role, Schema, quoted};
use crate::Result;
use crate::input::database_readers;
use crate::trace::{DatabaseInfo, TableInfo};
use rusqlite::Connection;

/// Role names in the files of `gpuprism explain`.
const ROLES: [(&str, &Role); 10] = [
    ("string_table", &schema::STRINGS),
    ("kernel_table", &schema::KERNELS),
    ("runtime_table", &schema::RUNTIME),
    ("nvtx_table", &schema::NVTX),
    ("memcpy_table", &schema::COPIES),
    ("memset_table", &schema::SETS),
    ("osrt_table", &schema::OS_RUNTIME),
    ("gpu_metrics_table", &schema::METRICS),
    ("target_info_gpu_metrics_table", &schema::METRIC_NAMES),
    ("cuda_graph_table", &schema::GRAPHS),
];

pub(super) fn database_info(connection: &Connection, label: &str) -> Result<DatabaseInfo> {
    super::harden(connection).map_err(|error| schema::unreadable(label, &error))?;
    let schema = Schema::probe(connection, label)?;
    // Those of other profilers are read, too, and have none of the roles.
    if database_readers::reader(&schema).is_none() {
        schema.check_origin(label)?;
    }
    let role = |(name, role): (&'static str, &Role)| (name, schema.find(role).map(|table| table.name.clone()));
    Ok(DatabaseInfo {
        sqlite_version: rusqlite::version().to_owned(),
        roles: ROLES.into_iter().map(role).collect(),
        tables: schema.tables.iter().map(|table| table_info(connection, table)).collect(),
    })
}

fn table_info(connection: &Connection, table: &schema::Table) -> TableInfo {
    let from = format!("FROM main.{} NOT INDEXED", quoted(&table.name));
    let rows = connection.query_row(&format!("SELECT count(*) {from}"), [], |row| row.get::<_, i64>(0));
    let range = table.column(&["start", "timestamp"]).and_then(|start| {
        let (start, end) = (quoted(start), quoted(table.column(&["end"]).unwrap_or(start)));
        let query = format!("SELECT min({start}), max(max({start}), max({end})) {from}");
        connection.query_row(&query, [], |row| Ok((row.get(0)?, row.get(1)?))).ok()
    });
    TableInfo {
        name: table.name.clone(),
        rows: rows.ok().and_then(|rows| u64::try_from(rows).ok()),
        range,
        columns: table.columns.iter().map(|column| (column.name.clone(), column.declared_type.clone())).collect(),
    }
}
