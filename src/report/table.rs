//! The one shape of every table: typed cells under typed columns. Renderers format these and nothing else.

use serde::Serialize;

/// What a column holds; it decides alignment, unit and how a cell is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Plain words.
    Text,
    /// A kernel name: short form in tables, full name on demand.
    Kernel,
    /// A category: drawn with its swatch.
    Category,
    /// A whole number.
    Count,
    /// Nanoseconds; people see one of ns, us, ms, s, chosen for the column.
    Time,
    /// A part of one; people see per cent.
    Share,
}

/// A column: `key` is stable (the JSON field it comes from), `title` is for people and carries no unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Stable name, also the CSV header.
    pub key: String,
    /// Heading for people, without unit.
    pub title: String,
    /// What its cells hold.
    pub kind: Kind,
}

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Nothing to say, such as a category that a run does not have.
    Empty,
    /// Words (also categories).
    Text(String),
    /// A kernel name in both forms.
    Kernel {
        /// The form for tables.
        short: String,
        /// As in the file.
        full: String,
    },
    /// A whole number.
    Count(u64),
    /// Exact nanoseconds.
    Ns(i64),
    /// Nanoseconds that need not be whole, such as a mean.
    MeanNs(f64),
    /// A part of one.
    Share(f64),
}

/// A table, ready for any renderer.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Stable name: `kernels`, `pivot`, `categories`, `devices`, `notices`, `runs`.
    pub id: &'static str,
    /// Heading for people.
    pub title: String,
    /// One sentence under the heading: denominators, device-seconds, estimates. May be empty.
    pub note: String,
    /// Left to right.
    pub columns: Vec<Column>,
    /// Each as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
    /// A last row of sums, where sums make sense.
    pub totals: Option<Vec<Cell>>,
}

impl Table {
    /// The table without the column that names the run; a pivot has none, though a run may be called `run`.
    pub fn without_run(self) -> Self {
        if self.id == "pivot" { self } else { self.without("run") }
    }

    /// The table without the column of this key.
    pub fn without(mut self, key: &str) -> Self {
        let Some(index) = self.columns.iter().position(|column| column.key == key) else { return self };
        self.columns.remove(index);
        for row in self.rows.iter_mut().chain(&mut self.totals) {
            if index < row.len() {
                row.remove(index);
            }
        }
        self
    }
}
