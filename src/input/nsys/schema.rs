//! Finds the tables and columns of a database. They are probed, because each release of nsys writes others.

use crate::input::known_formats::{Other, not_read};
use crate::{Error, Result};
use rusqlite::Connection;

/// One real table: not a view, not virtual.
#[derive(Debug, Clone)]
pub(in crate::input) struct Table {
    pub(in crate::input) name: String,
    pub(in crate::input) columns: Vec<Column>,
}

#[derive(Debug, Clone)]
pub(in crate::input) struct Column {
    pub(in crate::input) name: String,
    #[cfg_attr(target_arch = "wasm32", allow(dead_code, reason = "only `describe` reads it, which the page lacks"))]
    pub(in crate::input) declared_type: String,
    is_key: bool,
}

/// The tables of a database, sorted by name.
#[derive(Debug, Clone)]
pub(in crate::input) struct Schema {
    pub(in crate::input) tables: Vec<Table>,
    /// Names of views, which are never read: they could run SQL of the file.
    views: Vec<String>,
    /// Size of the pages that exist, in bytes.
    pub(in crate::input) file_bytes: u64,
    /// True if SQLite refused the file because it is shorter than its header says.
    pub(in crate::input) is_cut: bool,
}

#[derive(Debug)]
pub(in crate::input) struct Role {
    names: &'static [&'static str],
    /// If there is no such table, the first one whose name contains one of these (in capitals) is used.
    contains: &'static [&'static str],
    needs: &'static [&'static str],
}

/// The string table, to which other tables refer by id.
pub(in crate::input) const STRINGS: Role =
    Role { names: &["StringIds", "Strings", "StringIdsV2", "StringTable"], contains: &[], needs: &["id", "value"] };
pub(in crate::input) const KERNELS: Role = Role {
    names: &["CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL", "CUDA_GPU_KERNEL", "GPU_KERNEL"],
    contains: &["KERNEL"],
    needs: &["start", "end"],
};
pub(in crate::input) const COPIES: Role = Role {
    names: &["CUPTI_ACTIVITY_KIND_MEMCPY", "CUDA_GPU_MEMCPY", "GPU_MEMCPY"],
    contains: &["MEMCPY"],
    needs: &["start", "end"],
};
pub(in crate::input) const SETS: Role = Role {
    names: &["CUPTI_ACTIVITY_KIND_MEMSET", "CUDA_GPU_MEMSET", "GPU_MEMSET"],
    contains: &["MEMSET"],
    needs: &["start", "end"],
};
/// CUDA graphs that were traced as a whole.
pub(in crate::input) const GRAPHS: Role = Role {
    names: &["CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "CUDA_GPU_GRAPH"],
    contains: &["GRAPH_TRACE"],
    needs: &["start", "end"],
};
/// Calls of the CUDA runtime; in some releases also of the driver.
pub(in crate::input) const RUNTIME: Role = Role {
    names: &["CUPTI_ACTIVITY_KIND_RUNTIME", "CUDA_API_RUNTIME", "CUDA_RUNTIME"],
    contains: &["RUNTIME", "CUDA_API"],
    needs: &["start", "end"],
};
/// Calls of the CUDA driver, if they have their own table.
pub(in crate::input) const DRIVER: Role =
    Role { names: &["CUPTI_ACTIVITY_KIND_DRIVER"], contains: &["DRIVER"], needs: &["start", "end"] };
pub(in crate::input) const NVTX: Role =
    Role { names: &["NVTX_EVENTS", "NVTX_EVENTS_V2", "NVTX"], contains: &["NVTX"], needs: &["start"] };
pub(in crate::input) const OS_RUNTIME: Role =
    Role { names: &["OSRT_API"], contains: &["OSRT"], needs: &["start", "end"] };
pub(in crate::input) const METRICS: Role =
    Role { names: &["GPU_METRICS"], contains: &["GPU_METRICS"], needs: &["timestamp", "metricId", "value"] };
pub(in crate::input) const METRIC_NAMES: Role =
    Role { names: &["TARGET_INFO_GPU_METRICS"], contains: &["GPU_METRICS"], needs: &["metricId", "metricName"] };
/// Settings of the capture, with the command line and the environment of the program.
pub(in crate::input) const SETTINGS: Role =
    Role { names: &["META_DATA_CAPTURE"], contains: &[], needs: &["name", "value"] };
pub(in crate::input) const PROCESSES: Role = Role { names: &["PROCESSES"], contains: &[], needs: &["name"] };
pub(in crate::input) const GPUS: Role = Role { names: &["TARGET_INFO_GPU"], contains: &[], needs: &["name"] };
/// GPUs by CUDA device number, in old exports.
pub(in crate::input) const CUDA_GPUS: Role =
    Role { names: &["TARGET_INFO_CUDA_GPU"], contains: &[], needs: &["name", "deviceId"] };
/// The GPU of each CUDA device number, per process.
pub(in crate::input) const CUDA_DEVICES: Role =
    Role { names: &["TARGET_INFO_CUDA_DEVICE"], contains: &[], needs: &["gpuId", "cudaId", "pid"] };
pub(in crate::input) const COPY_KINDS: Role =
    Role { names: &["ENUM_CUDA_MEMCPY_OPER"], contains: &[], needs: &["id", "label"] };

/// What nsys says about the capture.
pub(in crate::input) const DIAGNOSTICS: Role =
    Role { names: &["DIAGNOSTIC_EVENT"], contains: &[], needs: &["severity", "text"] };

/// Prefixes of table names that only nsys writes.
const NSYS_PREFIXES: &[&str] =
    &["CUPTI_ACTIVITY_KIND_", "TARGET_INFO_", "META_DATA_", "EXPORT_META_DATA", "NVTX_EVENTS"];

impl Table {
    /// Returns the first of these columns that the table has, as the table spells it.
    pub(in crate::input) fn column(&self, names: &[&str]) -> Option<&str> {
        let find = |name: &&str| self.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name));
        names.iter().find_map(find).map(|column| column.name.as_str())
    }

    /// Returns true if this column is the primary key, so that a row is found without a full scan.
    pub(in crate::input) fn is_key(&self, name: &str) -> bool {
        let mut keys = self.columns.iter().filter(|column| column.is_key);
        keys.next().is_some_and(|key| key.name.eq_ignore_ascii_case(name)) && keys.next().is_none()
    }

    fn has(&self, names: &[&str]) -> bool {
        names.iter().all(|name| self.column(&[name]).is_some())
    }
}

impl Schema {
    /// The table of this name.
    pub(in crate::input) fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }

    pub(in crate::input) fn probe(connection: &Connection, label: &str) -> Result<Self> {
        let (tables, is_cut) = match tables(connection) {
            Ok(tables) => (tables, false),
            // SQLite refuses a database that is shorter than its header says, unless `writable_schema` is on.
            Err(_) => {
                let tables = connection.execute_batch("PRAGMA writable_schema=ON").and_then(|()| tables(connection));
                (tables.map_err(|error| unreadable(label, &error))?, true)
            }
        };
        // Without the list of views only a better error message is lost.
        let views = names(connection, "type = 'view'").unwrap_or_default();
        let pragma = |name: &str| -> u64 {
            let number = connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0));
            number.ok().and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
        };
        let file_bytes = pragma("page_count").saturating_mul(pragma("page_size"));
        Ok(Self { tables, views, file_bytes, is_cut })
    }

    /// Checks that this is an nsys export.
    ///
    /// # Errors
    /// If it is not; the error says what the file is.
    pub(in crate::input) fn check_origin(&self, label: &str) -> Result<()> {
        let any = |test: &dyn Fn(&Table) -> bool| self.tables.iter().any(test);
        if any(&|table| table.name.starts_with("rocpd_")) {
            return Err(not_read(label, Other::RocmWithoutOps));
        }
        if any(&|table| table.name.starts_with("CUPTI_ACTIVITY_KIND_") && table.column(&["_id_"]).is_some()) {
            return Err(not_read(label, Other::Nvprof));
        }
        // If there is a table of kernels, other views may be the user's own.
        let roles: &[&Role] = if self.find(&KERNELS).is_none() { &[&KERNELS, &COPIES, &SETS] } else { &[] };
        let mut gpu = roles.iter().filter(|role| self.find(role).is_none()).flat_map(|role| role.names);
        if let Some(view) = gpu.find(|name| self.views.iter().any(|view| view.eq_ignore_ascii_case(name))) {
            let why = format!(
                "an Nsight Systems export in which {view} is a view, and gpuprism does not run SQL from a file: \
                 convert it to a table with `CREATE TABLE t AS SELECT * FROM {view}; DROP VIEW {view}; ALTER TABLE t \
                 RENAME TO {view}`, or export again with `nsys export --type sqlite`"
            );
            return Err(Error::refused(label, why));
        }
        let roles = [&STRINGS, &KERNELS, &COPIES, &SETS, &RUNTIME, &NVTX, &OS_RUNTIME, &METRICS];
        let is_nsys_table = |table: &Table| {
            NSYS_PREFIXES.iter().any(|start| table.name.starts_with(start))
                || roles.iter().any(|role| role.names.contains(&table.name.as_str()) && table.has(role.needs))
        };
        if any(&is_nsys_table) { Ok(()) } else { Err(not_read(label, Other::Database)) }
    }

    /// Removes and returns the tables of host events and counters.
    pub(in crate::input) fn take_all_but_gpu(&mut self) -> Vec<Table> {
        let mut taken = Vec::new();
        for role in [RUNTIME, DRIVER, NVTX, OS_RUNTIME, METRICS] {
            while let Some(at) =
                self.find(&role).and_then(|found| self.tables.iter().position(|table| table.name == found.name))
            {
                taken.push(self.tables.remove(at));
            }
        }
        taken
    }

    pub(in crate::input) fn find(&self, role: &Role) -> Option<&Table> {
        let named = |name: &&str| self.tables.iter().find(|table| table.name == *name && table.has(role.needs));
        let is_substitute = |table: &&Table| {
            let upper = table.name.to_ascii_uppercase();
            role.contains.iter().any(|part| upper.contains(part)) && table.has(role.needs)
        };
        role.names.iter().find_map(named).or_else(|| self.tables.iter().find(is_substitute))
    }

    /// Returns the tables that have a name of this role but lack a needed column.
    pub(in crate::input) fn incomplete_tables(&self, role: &'static Role) -> impl Iterator<Item = &Table> {
        self.tables.iter().filter(|table| role.names.contains(&table.name.as_str()) && !table.has(role.needs))
    }
}

pub(in crate::input) fn unreadable(label: &str, error: &rusqlite::Error) -> Error {
    let why = format!(
        "an SQLite database that cannot be read ({error}): was the copy or the export interrupted? Copy it again, or \
         export again with `nsys export --type sqlite`"
    );
    Error::refused(label, why)
}

/// Returns the real tables. Views and virtual tables, which could run SQL of the file, have no root page.
fn tables(connection: &Connection) -> rusqlite::Result<Vec<Table>> {
    let names = names(connection, "type = 'table' AND rootpage > 0")?;
    names.into_iter().map(|name| columns(connection, &name).map(|columns| Table { name, columns })).collect()
}

/// Returns the names of the catalogue entries that match an SQL condition, sorted.
fn names(connection: &Connection, condition: &str) -> rusqlite::Result<Vec<String>> {
    let catalogue = format!("SELECT name FROM main.sqlite_master WHERE {condition} ORDER BY name");
    let mut statement = connection.prepare(&catalogue)?;
    let names = statement.query_map([], |row| Ok(row.get_ref(0)?.as_str().ok().map(str::to_owned)))?;
    let names = names.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().flatten();
    Ok(names.filter(|name| !name.starts_with("sqlite_")).collect())
}

fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<Column>> {
    let mut statement = connection.prepare(&format!("PRAGMA main.table_info({})", quoted(table)))?;
    let columns = statement.query_map([], |row| {
        let (name, declared_type, key) = (row.get_ref(1)?.as_str(), row.get_ref(2)?.as_str(), row.get_ref(5)?.as_i64());
        let declared_type = declared_type.unwrap_or_default().to_owned();
        let column = |name: &str| Column { name: name.to_owned(), declared_type, is_key: key.is_ok_and(|key| key > 0) };
        Ok(name.ok().map(column))
    })?;
    Ok(columns.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// Quotes a name from the file as an SQL identifier.
pub(in crate::input) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
