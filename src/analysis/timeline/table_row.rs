//! Which row of a table of the report has the numbers of a bar.

/// A row of a table of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableRow {
    /// The id of the table.
    pub table: &'static str,
    /// Words for the way there: `Collectives`.
    pub title: &'static str,
    /// Keys of columns and the values of the row in them, as in exports.
    pub cells: Vec<(&'static str, String)>,
}

impl TableRow {
    pub(super) fn new(table: &'static str, title: &'static str, key: &'static str, value: impl ToString) -> Self {
        Self { table, title, cells: vec![(key, value.to_string())] }
    }
}
