//! The one shape of every table: typed cells under typed columns. Renderers format these and nothing else.

use super::chart::Unit;
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
    /// Places in the code, one per line.
    #[serde(rename = "place")]
    CodeLocation,
    /// A whole number.
    Count,
    /// Nanoseconds; people see one of ns, us, ms, s, chosen for the column.
    Time,
    /// A part of one or of a hundred; people see per cent.
    Share,
    /// A point in time: people see milliseconds to the microsecond.
    #[serde(rename = "time")]
    Timestamp,
    /// A measure that need not be whole and may be negative.
    #[serde(rename = "count")]
    Number,
}

impl Kind {
    /// Do its cells hold numbers, to be aligned and sorted as such?
    pub fn is_number(self) -> bool {
        !matches!(self, Self::Text | Self::Kernel | Self::Category | Self::CodeLocation)
    }
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

impl Column {
    /// Do its cells say how much something changed, so that they show their sign?
    pub(super) fn is_change(&self) -> bool {
        self.key.split('_').any(|word| word == "delta")
    }
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
    /// A point in time of a trace whose first GPU op starts at `first_op`, from which people count; both exact nanoseconds.
    Timestamp {
        /// Time on the trace's clock, in nanoseconds.
        clock_ns: i64,
        /// Start of the first GPU op on the same clock, in nanoseconds.
        first_op_ns: i64,
    },
    /// Nanoseconds that need not be whole, such as a mean.
    MeanNs(f64),
    /// A part of one.
    Share(f64),
    /// A part of a hundred.
    Percent(f64),
    /// A time in a unit of its own, which exact outputs keep.
    Time(f64, Unit),
    /// A whole number that may be negative, or an id.
    Int(i64),
    /// Any other measure.
    Number(f64),
}

/// A single figure beside the rows of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Whose it is.
    pub run: String,
    /// Stable name.
    pub key: String,
    /// Words for people.
    pub title: String,
    /// Its value, which people see with its unit.
    pub cell: Cell,
}

/// Why a run has no rows, and the command that would capture what they are made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// Whose it is.
    pub run: String,
    /// A sentence.
    pub why: String,
    /// Empty where no command helps.
    pub recapture: String,
}

/// A table, ready for any renderer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    /// Stable name: `kernels`, `pivot`, `categories`, `devices`, `notices`, or a section's.
    pub id: String,
    /// Heading for people.
    pub title: String,
    /// What stands under the heading: denominators, device-seconds, estimates, limits. May be empty.
    pub note: String,
    /// Single figures, by run.
    pub figures: Vec<Figure>,
    /// Runs that have nothing here.
    pub gaps: Vec<Gap>,
    /// Left to right.
    pub columns: Vec<Column>,
    /// Each as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
    /// A last row of sums, where sums make sense.
    pub totals: Option<Vec<Cell>>,
}

impl Table {
    /// The table without the names of its runs; a pivot has them in its head, where a run may be called `run`.
    pub fn without_run(mut self) -> Self {
        self.figures.iter_mut().for_each(|figure| figure.run = String::new());
        self.gaps.iter_mut().for_each(|gap| gap.run = String::new());
        if self.id == "pivot" { self } else { self.without("run") }
    }

    /// The figures, run by run.
    pub fn figures_by_run(&self) -> impl Iterator<Item = &[Figure]> {
        self.figures.chunk_by(|a, b| a.run == b.run)
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
