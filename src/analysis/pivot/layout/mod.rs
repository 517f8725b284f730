//! Builds a pivot table of several runs from their aggregated cells: O(cells * log(table cells)).
//!
//! The rows beyond the maximum number are summed into one row, and so are the columns, so the totals cover all ops.

mod members;

use crate::analysis::pivot::cells::{Axis, CELL_WIDTH, PivotCells, TRACE_AXES};
use crate::analysis::results::{Kernel, Run};
use crate::analysis::{CPU, SHARED};
use crate::json::from_json;
use crate::{Error, Result};
use members::{Arrangement, Members};
use std::collections::{BTreeMap, HashMap};

/// One run, with its cells if its trace is available.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// Label of the run.
    pub label: &'a str,
    /// Results of the run.
    pub run: &'a Run,
    /// Cells of the trace; `None` for a run from a report.
    pub cells: Option<&'a PivotCells>,
}

/// The value of a table cell, computed from the ops of the cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// The busy time attributed to the ops.
    Elapsed,
    /// The sum of the durations.
    Duration,
    /// The time in which an op of the cell is the only op running.
    Exclusive,
    /// The number of ops.
    Count,
    /// The mean duration.
    Mean,
}
from_json!(Measure = "elapsed" => Elapsed, "duration" => Duration, "exclusive" => Exclusive, "count" => Count,
    "mean" => Mean);

/// The sum that percentages refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PercentBase {
    /// The sum of the row.
    Row,
    /// The sum of the column.
    Column,
    /// The sum of the table.
    All,
}
from_json!(PercentBase = "row" => Row, "column" => Column, "all" => All);

/// The rows, columns and values that the user chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PivotLayout {
    /// The axis of the rows.
    pub rows: Axis,
    /// The axis of the columns; `None` for one column with the sum of each row.
    pub columns: Option<Axis>,
    /// The value of a cell.
    pub values: Measure,
    /// The sum that percentages refer to; `None` for absolute values.
    pub percent: Option<PercentBase>,
    /// Maximum number of rows. The largest are shown and the others are summed into one row; 0 shows all rows.
    pub top: usize,
}
from_json!(PivotLayout { rows, values; columns, percent, top });

impl PivotLayout {
    /// The axes of the rows and columns.
    pub fn axes(&self) -> Vec<Axis> {
        [Some(self.rows), self.columns].into_iter().flatten().collect()
    }

    /// Checks that the combination is meaningful.
    ///
    /// # Errors
    /// Rows and columns are the same axis, or percentages of means are requested.
    pub fn check(&self) -> Result<()> {
        if self.columns == Some(self.rows) {
            return Err(Error::usage("pivot", "rows and columns are the same axis: choose two, or no columns"));
        }
        if self.values == Measure::Mean && self.percent.is_some() {
            return Err(Error::usage("pivot", "means do not add up to a total: choose no percentage, or other values"));
        }
        Ok(())
    }

    /// Whether the table also covers the shared time and the time without GPU work, which are attributed to no op. Both
    /// are members of the category axis and are known for whole runs only.
    fn has_unowned_time(&self) -> bool {
        let axes = self.axes();
        self.values == Measure::Elapsed
            && axes.contains(&Axis::Category)
            && axes.iter().all(|axis| matches!(axis, Axis::Category | Axis::Run))
    }
}

/// The value of a table cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CellValue {
    /// Nanoseconds.
    Ns(i64),
    /// Mean in nanoseconds.
    MeanNs(f64),
    /// A number of ops.
    Count(u64),
    /// A fraction of 1.
    Share(f64),
}

/// A row or column of the table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Member {
    /// One member by its label; for a kernel the full name.
    Named(String),
    /// The sum of this many smaller members.
    Others(usize),
}

/// A pivot table.
#[derive(Debug, Clone, PartialEq)]
pub struct PivotTable {
    /// The layout of the table.
    pub layout: PivotLayout,
    /// Columns from left to right, without the sums.
    pub columns: Vec<Member>,
    /// Rows from top to bottom, without the totals.
    pub rows: Vec<PivotTableRow>,
    /// The sum of each column, and the sum of the table as the last value.
    pub totals: Vec<Option<CellValue>>,
    /// Runs without cells, if the layout needs the trace.
    pub runs_without_cells: Vec<String>,
    /// Runs whose trace has no ranges that mark steps, if the layout has steps or stages.
    pub runs_without_steps: Vec<String>,
    /// Runs whose steps are grouped, with the number of steps per group, if the layout has steps.
    pub grouped_steps: Vec<(String, u64)>,
}

/// One row of the table.
#[derive(Debug, Clone, PartialEq)]
pub struct PivotTableRow {
    /// The label.
    pub member: Member,
    /// One value per column, then the sum of the row; `None` for a cell without ops.
    pub cells: Vec<Option<CellValue>>,
}

/// Maximum number of columns. More would be unreadable and cost memory on the page.
pub const MAX_COLUMNS: usize = 60;

/// The label for a member that is unknown without the trace.
const NOT_IN_REPORT: &str = "(not in the report)";

/// Sums over the ops of one table cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Sums {
    count: i64,
    duration_ns: i64,
    elapsed_ns: i64,
    exclusive_ns: i64,
}

impl Sums {
    fn add(&mut self, more: Self) {
        self.count = self.count.saturating_add(more.count);
        self.duration_ns = self.duration_ns.saturating_add(more.duration_ns);
        self.elapsed_ns = self.elapsed_ns.saturating_add(more.elapsed_ns);
        self.exclusive_ns = self.exclusive_ns.saturating_add(more.exclusive_ns);
    }

    /// The number that ranks members and that percentages are computed from. Means cannot be summed, so they are ranked
    /// by duration.
    fn total(self, values: Measure) -> i64 {
        match values {
            Measure::Elapsed => self.elapsed_ns,
            Measure::Duration | Measure::Mean => self.duration_ns,
            Measure::Exclusive => self.exclusive_ns,
            Measure::Count => self.count,
        }
    }

    fn value(self, values: Measure) -> CellValue {
        match values {
            Measure::Count => CellValue::Count(u64::try_from(self.count).unwrap_or(0)),
            Measure::Mean => CellValue::MeanNs(self.duration_ns as f64 / self.count.max(1) as f64),
            _ => CellValue::Ns(self.total(values)),
        }
    }
}

/// Builds the pivot table of these runs.
///
/// # Errors
/// Those of [`PivotLayout::check`].
pub fn build_pivot(sources: &[Source], layout: PivotLayout) -> Result<PivotTable> {
    layout.check()?;
    let mut grid = Grid::new(layout);
    for source in sources {
        grid.add(source);
    }
    Ok(grid.finish(sources))
}

/// Sums by row and column. The members are in order of appearance until [`Grid::finish`] arranges them.
struct Grid {
    layout: PivotLayout,
    rows: Members,
    columns: Members,
    cells: BTreeMap<(usize, usize), Sums>,
}

impl Grid {
    fn new(layout: PivotLayout) -> Self {
        let columns = Members::new(layout.columns.unwrap_or(Axis::Run));
        Self { layout, rows: Members::new(layout.rows), columns, cells: BTreeMap::new() }
    }

    fn add(&mut self, source: &Source) {
        match source.cells {
            Some(cells) => self.add_cells(source, cells),
            None => self.add_kernels(source),
        }
        if self.layout.has_unowned_time() {
            self.add_unowned_time(source);
        }
    }

    fn add_cells(&mut self, source: &Source, cells: &PivotCells) {
        let kernels: HashMap<&str, &Kernel> =
            source.run.kernels.iter().map(|kernel| (kernel.name.as_str(), kernel)).collect();
        for cell in cells.cells.chunks_exact(CELL_WIDTH) {
            let name = cell.first().and_then(|name| cells.names.get(usize::try_from(*name).ok()?));
            let Some(kernel) = name.and_then(|name| kernels.get(name.as_str())) else { continue };
            if let [.., count, duration_ns, elapsed_ns, exclusive_ns] = *cell {
                let sums = Sums { count, duration_ns, elapsed_ns, exclusive_ns };
                self.add_sums(&|axis| members::label(axis, source, kernel, Some((cells, cell))), sums);
            }
        }
    }

    fn add_kernels(&mut self, source: &Source) {
        for kernel in &source.run.kernels {
            let count = i64::try_from(kernel.count).unwrap_or(i64::MAX);
            let Kernel { duration_ns, elapsed_ns, exclusive_ns, .. } = *kernel;
            let sums = Sums { count, duration_ns, elapsed_ns, exclusive_ns };
            self.add_sums(&|axis| members::label(axis, source, kernel, None), sums);
        }
    }

    fn add_unowned_time(&mut self, source: &Source) {
        let wall = &source.run.wall;
        let shared = (wall.shared_ns > 0).then_some((SHARED, wall.shared_ns));
        for (name, elapsed_ns) in shared.into_iter().chain([(CPU, wall.cpu_ns)]) {
            let label = |axis| if axis == Axis::Run { source.label } else { name };
            self.add_sums(&|axis| label(axis).to_owned(), Sums { elapsed_ns, ..Sums::default() });
        }
    }

    fn add_sums(&mut self, label: &dyn Fn(Axis) -> String, sums: Sums) {
        let row = self.rows.index_of(label(self.layout.rows));
        let column = self.columns.index_of(self.layout.columns.map(label).unwrap_or_default());
        self.cells.entry((row, column)).or_default().add(sums);
    }

    fn finish(self, sources: &[Source]) -> PivotTable {
        let Self { layout, rows, columns, cells } = self;
        let totals_by = |count: usize, index: &dyn Fn((usize, usize)) -> usize| {
            let mut totals = vec![0_i64; count];
            for (cell, sums) in &cells {
                let total = totals.get_mut(index(*cell));
                total.into_iter().for_each(|total| *total = total.saturating_add(sums.total(layout.values)));
            }
            totals
        };
        let max_rows = if layout.top == 0 { usize::MAX } else { layout.top };
        let rows = rows.arrange(&totals_by(rows.len(), &|(row, _)| row), max_rows);
        let columns = columns.arrange(&totals_by(columns.len(), &|(_, column)| column), MAX_COLUMNS);
        let table = table_with_totals(&cells, &rows, &columns);
        let mut values = cell_values(&table, &layout);
        let totals = values.pop().unwrap_or_default();
        // Without a column axis, the only column equals the sums of the rows, so it is removed.
        let visible = |cells: Vec<Option<CellValue>>| {
            if layout.columns.is_none() { cells.into_iter().skip(1).collect() } else { cells }
        };
        let members = rows.shown.into_iter().zip(values);
        let axes = layout.axes();
        let has_steps_or_stages = axes.iter().any(|axis| matches!(axis, Axis::Step | Axis::Stage));
        let needs_trace = axes.iter().any(|axis| TRACE_AXES.contains(axis));
        let labels_if = |predicate: &dyn Fn(Option<&PivotCells>) -> bool| {
            let selected = sources.iter().filter(|source| predicate(source.cells));
            selected.map(|source| source.label.to_owned()).collect()
        };
        let group_sizes =
            sources.iter().filter_map(|source| Some((source.label.to_owned(), source.cells?.steps_per_member)));
        PivotTable {
            layout,
            columns: if layout.columns.is_none() { Vec::new() } else { columns.shown },
            rows: members.map(|(member, cells)| PivotTableRow { member, cells: visible(cells) }).collect(),
            totals: visible(totals),
            runs_without_cells: labels_if(&|cells| needs_trace && cells.is_none()),
            runs_without_steps: labels_if(&|cells| {
                has_steps_or_stages && cells.is_some_and(|cells| cells.steps_per_member == 0)
            }),
            grouped_steps: group_sizes.filter(|(_, size)| axes.contains(&Axis::Step) && *size > 1).collect(),
        }
    }
}

/// Lays out the sums of the cells. The last column contains the sums of the rows, and the last row the sums of the columns.
fn table_with_totals(
    cells: &BTreeMap<(usize, usize), Sums>,
    rows: &Arrangement,
    columns: &Arrangement,
) -> Vec<Vec<Option<Sums>>> {
    let (row_count, column_count) = (rows.shown.len(), columns.shown.len());
    let mut table = vec![vec![None; column_count + 1]; row_count + 1];
    for ((row, column), sums) in cells {
        let (row, column) = (rows.position(*row), columns.position(*column));
        for (row, column) in [(row, column), (row, column_count), (row_count, column), (row_count, column_count)] {
            let cell = table.get_mut(row).and_then(|cells: &mut Vec<Option<Sums>>| cells.get_mut(column));
            cell.into_iter().for_each(|cell| cell.get_or_insert_default().add(*sums));
        }
    }
    table
}

/// Converts sums to absolute values, or to fractions of the sums in the last row and column.
fn cell_values(table: &[Vec<Option<Sums>>], layout: &PivotLayout) -> Vec<Vec<Option<CellValue>>> {
    let total = |sums: Option<&Option<Sums>>| sums.copied().flatten().map_or(0, |sums| sums.total(layout.values));
    let totals_row = table.last();
    let table_total = total(totals_row.and_then(|row| row.last()));
    let value = |row: &[Option<Sums>], column: usize, sums: Sums| {
        let base = match layout.percent {
            None => return sums.value(layout.values),
            Some(PercentBase::All) => table_total,
            Some(PercentBase::Row) => total(row.last()),
            Some(PercentBase::Column) => total(totals_row.and_then(|row| row.get(column))),
        };
        CellValue::Share(if base == 0 { 0.0 } else { sums.total(layout.values) as f64 / base as f64 })
    };
    let row = |cells: &Vec<Option<Sums>>| {
        cells.iter().enumerate().map(|(column, sums)| sums.map(|sums| value(cells, column, sums))).collect()
    };
    table.iter().map(row).collect()
}

#[cfg(test)]
mod tests;
