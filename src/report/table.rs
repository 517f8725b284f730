//! [`Table`]: typed cells in typed columns. Every renderer (page, terminal, CSV, Markdown, HTML) formats this type and
//! nothing else.

use super::chart::Unit;
use serde::Serialize;

/// The type of a column's values. It decides alignment, unit and format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Plain words.
    Text,
    /// A kernel name: the short form is shown, the full name is in the tooltip.
    Kernel,
    /// A category, shown with its colour.
    Category,
    /// Places in the code, one per line.
    #[serde(rename = "place")]
    CodeLocation,
    /// A whole number.
    Count,
    /// A duration, shown in one unit for the whole column: ns, us, ms or s.
    Time,
    /// A fraction or a percentage, shown in per cent.
    Share,
    /// A point in time, shown in milliseconds with microsecond digits.
    #[serde(rename = "time")]
    Timestamp,
    /// A number that may be fractional or negative.
    #[serde(rename = "count")]
    Number,
}

impl Kind {
    /// Whether cells are numbers: aligned right and sorted by value.
    pub fn is_number(self) -> bool {
        !matches!(self, Self::Text | Self::Kernel | Self::Category | Self::CodeLocation)
    }
}

/// A column of a [`Table`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Stable name: the JSON field it comes from and the CSV header.
    pub key: String,
    /// Displayed heading, without unit.
    pub title: String,
    /// Type of the values.
    pub kind: Kind,
}

impl Column {
    /// Whether cells are differences, shown with their sign: the key contains the word `delta`.
    pub(super) fn is_change(&self) -> bool {
        self.key.split('_').any(|word| word == "delta")
    }
}

/// The value of one cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// No value, such as a category that a run does not have.
    Empty,
    /// Words, including category names.
    Text(String),
    /// The name of a kernel in both forms; in a narrow table also that of a run.
    Kernel {
        /// The form shown in tables.
        short: String,
        /// The name in the trace.
        full: String,
    },
    /// A category with a tooltip that says how it was found.
    Category {
        /// The category.
        name: String,
        /// The tooltip.
        source: String,
    },
    /// A whole number.
    Count(u64),
    /// Exact nanoseconds.
    Ns(i64),
    /// A point in time. It is shown relative to the first GPU op; exports keep the clock value.
    Timestamp {
        /// Time on the trace's clock, in nanoseconds.
        clock_ns: i64,
        /// Start of the first GPU op on the same clock, in nanoseconds.
        first_op_ns: i64,
    },
    /// Fractional nanoseconds, such as a mean.
    MeanNs(f64),
    /// A fraction, 0 to 1.
    Share(f64),
    /// A percentage, 0 to 100.
    Percent(f64),
    /// A duration in the given unit; exports keep this unit.
    Time(f64, Unit),
    /// A whole number that may be negative, or an id.
    Int(i64),
    /// Any other number.
    Number(f64),
}

impl Cell {
    /// Whether there is no value, or an empty text.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Text(text) => text.is_empty(),
            _ => false,
        }
    }
}

/// A single value shown above the rows of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The label of its run.
    pub run: String,
    /// Stable name.
    pub key: String,
    /// Displayed name.
    pub title: String,
    /// The value, shown with its unit.
    pub cell: Cell,
}

/// The reason why a run has no rows, and the command that captures the missing data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// The label of the run, or of several runs with the same reason.
    pub run: String,
    /// One sentence.
    pub why: String,
    /// The command; empty if no command helps.
    pub recapture: String,
}

/// A table for all renderers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    /// Stable name: `kernels`, `pivot`, `categories`, `devices`, `notices`, or the name of a section.
    pub id: String,
    /// Displayed heading.
    pub title: String,
    /// Text below the heading: denominators, estimates, limits. May be empty.
    pub note: String,
    /// Single values, grouped by run.
    pub figures: Vec<Figure>,
    /// Runs without data for this table.
    pub gaps: Vec<Gap>,
    /// Columns, left to right.
    pub columns: Vec<Column>,
    /// Rows; each has one cell per column.
    pub rows: Vec<Vec<Cell>>,
    /// A last row of sums, if sums make sense.
    pub totals: Option<Vec<Cell>>,
}

impl Table {
    /// Removes the labels of the runs. The columns of a pivot are kept: there a run itself may be called `run`.
    pub fn without_run(mut self) -> Self {
        self.figures.iter_mut().for_each(|figure| figure.run = String::new());
        self.gaps.iter_mut().for_each(|gap| gap.run = String::new());
        if self.id == "pivot" { self } else { self.without("run") }
    }

    /// The figures in one slice per run.
    pub fn figures_by_run(&self) -> impl Iterator<Item = &[Figure]> {
        self.figures.chunk_by(|a, b| a.run == b.run)
    }

    /// Removes the columns in which no row has a value.
    pub fn without_empty_columns(self) -> Self {
        let is_empty = |index: usize| self.rows.iter().all(|row| row.get(index).is_none_or(Cell::is_empty));
        let columns = self.columns.iter().enumerate().filter(|(index, _)| is_empty(*index));
        let empty: Vec<String> = columns.map(|(_, column)| column.key.clone()).collect();
        empty.iter().fold(self, |table, key| table.without(key))
    }

    /// Removes the column with this key, if there is one.
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
