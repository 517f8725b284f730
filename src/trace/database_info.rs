//! What a database of a capture holds, for a person who asks why a section is empty.

/// The tables of a database and what each is for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DatabaseInfo {
    /// The library that read it.
    pub sqlite_version: String,
    /// `kernel_table` and the like, and the table found for it.
    pub roles: Vec<(&'static str, Option<String>)>,
    /// By name.
    pub tables: Vec<TableInfo>,
}

/// One table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableInfo {
    /// As the file spells it.
    pub name: String,
    /// None where they could not be counted.
    pub rows: Option<u64>,
    /// The earliest start and the latest end, where it has such columns.
    pub range: Option<(i64, i64)>,
    /// Names and declared types.
    pub columns: Vec<(String, String)>,
}

impl DatabaseInfo {
    /// The table found for a role.
    pub fn table(&self, role: &str) -> Option<&str> {
        self.roles.iter().find(|(name, _)| *name == role).and_then(|(_, table)| table.as_deref())
    }
}
