//! A description of an SQLite export: its tables, their columns and their roles. `gpuprism explain` writes it to its files,
//! because it shows why a section is empty.

/// The tables of a database and their roles.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DatabaseInfo {
    /// Version of the SQLite library that read the file.
    pub sqlite_version: String,
    /// Role (`kernel_table`, ...) and the table that fills it, if there is one.
    pub roles: Vec<(&'static str, Option<String>)>,
    /// Sorted by name.
    pub tables: Vec<TableInfo>,
}

/// One table of a database.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableInfo {
    /// Name as the file spells it.
    pub name: String,
    /// Number of rows; `None` if they could not be counted.
    pub rows: Option<u64>,
    /// Earliest start and latest end in ns, if the table has such columns.
    pub range: Option<(i64, i64)>,
    /// Names and declared types of the columns.
    pub columns: Vec<(String, String)>,
}

impl DatabaseInfo {
    /// Returns the table that fills a role.
    pub fn table(&self, role: &str) -> Option<&str> {
        self.roles.iter().find(|(name, _)| *name == role).and_then(|(_, table)| table.as_deref())
    }
}
