//! A pivot that a person shapes: runs laid out by any two of category, kernel, stage, device, stream, process, run, step.

mod members;

use crate::analysis::pivot::cells::{Axis, Cube, WIDTH};
use crate::analysis::results::{Kernel, Run};
use crate::analysis::{CPU, SHARED};
use crate::json::from_json;
use crate::{Error, Result};
use members::Members;
use std::collections::{BTreeMap, HashMap};

/// One run, with its cube where its trace is at hand.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// What it is called.
    pub label: &'a str,
    /// Its results.
    pub run: &'a Run,
    /// What its trace tells; a report that was read back has none.
    pub cube: Option<&'a Cube>,
}

/// What a cell says of its ops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// The part of busy time that they own.
    Elapsed,
    /// The sum of their durations.
    Duration,
    /// The time in which one of them runs alone.
    Exclusive,
    /// How many they are.
    Count,
    /// Their mean duration.
    Mean,
}
from_json!(Measure = "elapsed" => Elapsed, "duration" => Duration, "exclusive" => Exclusive, "count" => Count,
    "mean" => Mean);

/// What per cent are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whole {
    /// The row.
    Row,
    /// The column.
    Column,
    /// The whole table.
    All,
}
from_json!(Whole = "row" => Row, "column" => Column, "all" => All);

/// What the person chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// What a row is.
    pub rows: Axis,
    /// What a column is; none: the rows' sums alone.
    pub columns: Option<Axis>,
    /// What a cell says.
    pub values: Measure,
    /// As a part of what; none: the value itself.
    pub percent: Option<Whole>,
    /// Rows beyond so many, the largest first, are summed up in one; 0 shows all.
    pub top: usize,
}
from_json!(Shape { rows, values; columns, percent, top });

impl Shape {
    /// What the cubes must tell.
    pub fn axes(&self) -> Vec<Axis> {
        [Some(self.rows), self.columns].into_iter().flatten().collect()
    }

    /// Refuses what has no meaning.
    ///
    /// # Errors
    /// Rows and columns that are the same; a part of a mean.
    pub fn check(&self) -> Result<()> {
        if self.columns == Some(self.rows) {
            return Err(Error::usage("pivot", "rows and columns are the same: choose two, or no columns"));
        }
        if self.values == Measure::Mean && self.percent.is_some() {
            return Err(Error::usage(
                "pivot",
                "a mean is no part of a sum: leave per cent out, or choose other values",
            ));
        }
        Ok(())
    }

    /// Does the time that no op owns have a place? Categories and runs have one for it, nothing else has.
    fn has_idle(&self) -> bool {
        let axes = self.axes();
        self.values == Measure::Elapsed
            && axes.contains(&Axis::Category)
            && axes.iter().all(|axis| matches!(axis, Axis::Category | Axis::Run))
    }
}

/// A value as it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// Nanoseconds.
    Ns(i64),
    /// Nanoseconds that need not be whole.
    MeanNs(f64),
    /// How many.
    Count(u64),
    /// A part of one.
    Share(f64),
}

/// A row or a column.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Member {
    /// By its name; of a kernel the full one.
    Named(String),
    /// So many together that are smaller than those with a name.
    Others(usize),
}

/// The finished pivot.
#[derive(Debug, Clone, PartialEq)]
pub struct Shaped {
    /// What was asked for.
    pub shape: Shape,
    /// Left to right, without the sums.
    pub columns: Vec<Member>,
    /// Top to bottom, without the sums.
    pub rows: Vec<ShapedRow>,
    /// Below each column, and below the sums of the rows.
    pub totals: Vec<Option<Amount>>,
    /// Runs that cannot tell what was asked for.
    pub gaps: Vec<String>,
    /// Runs whose trace has no range that marks steps, where steps or stages were asked for.
    pub without_steps: Vec<String>,
    /// Runs of which so many consecutive steps are one.
    pub grouped: Vec<(String, u64)>,
}

/// One row.
#[derive(Debug, Clone, PartialEq)]
pub struct ShapedRow {
    /// What it is.
    pub member: Member,
    /// A value a column, and their sum as the last; `None` where no op is.
    pub cells: Vec<Option<Amount>>,
}

/// More columns are not read, and cost memory on a page.
pub const COLUMNS: usize = 60;

/// What stands for a member that a report does not hold.
const NOT_HELD: &str = "(not in the report)";

/// Sums of one cell.
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

    /// What is summed up; a mean is none and stands for its durations.
    fn whole(self, values: Measure) -> i64 {
        match values {
            Measure::Elapsed => self.elapsed_ns,
            Measure::Duration | Measure::Mean => self.duration_ns,
            Measure::Exclusive => self.exclusive_ns,
            Measure::Count => self.count,
        }
    }

    fn amount(self, values: Measure) -> Amount {
        match values {
            Measure::Count => Amount::Count(u64::try_from(self.count).unwrap_or(0)),
            Measure::Mean => Amount::MeanNs(self.duration_ns as f64 / self.count.max(1) as f64),
            _ => Amount::Ns(self.whole(values)),
        }
    }
}

/// Lays the runs out.
///
/// # Errors
/// Those of [`Shape::check`].
pub fn shape(sources: &[Source], shape: Shape) -> Result<Shaped> {
    shape.check()?;
    let mut grid = Grid::new(shape);
    for source in sources {
        grid.add(source);
    }
    Ok(grid.finish(sources))
}

/// The pivot while runs are added.
struct Grid {
    shape: Shape,
    rows: Members,
    columns: Members,
    cells: BTreeMap<(usize, usize), Sums>,
}

impl Grid {
    fn new(shape: Shape) -> Self {
        let columns = Members::new(shape.columns.unwrap_or(Axis::Run));
        Self { shape, rows: Members::new(shape.rows), columns, cells: BTreeMap::new() }
    }

    fn add(&mut self, source: &Source) {
        let kernels: HashMap<&str, &Kernel> =
            source.run.kernels.iter().map(|kernel| (kernel.name.as_str(), kernel)).collect();
        match source.cube {
            Some(cube) => {
                for cell in cube.cells.chunks_exact(WIDTH) {
                    let name = cell.first().and_then(|name| cube.names.get(usize::try_from(*name).ok()?));
                    let Some(kernel) = name.and_then(|name| kernels.get(name.as_str())) else { continue };
                    if let [.., count, duration_ns, elapsed_ns, exclusive_ns] = *cell {
                        let sums = Sums { count, duration_ns, elapsed_ns, exclusive_ns };
                        self.put(&|axis| members::of_cell(axis, source, kernel, Some((cube, cell))), sums);
                    }
                }
            }
            None => source.run.kernels.iter().for_each(|kernel| {
                let sums = Sums {
                    count: i64::try_from(kernel.count).unwrap_or(i64::MAX),
                    duration_ns: kernel.duration_ns,
                    elapsed_ns: kernel.elapsed_ns,
                    exclusive_ns: kernel.exclusive_ns,
                };
                self.put(&|axis| members::of_cell(axis, source, kernel, None), sums);
            }),
        }
        if self.shape.has_idle() {
            let wall = &source.run.wall;
            for (name, ns) in [(SHARED, wall.shared_ns), (CPU, wall.cpu_ns)] {
                if ns > 0 || name == CPU {
                    let sums = Sums { elapsed_ns: ns, ..Sums::default() };
                    self.put(&|axis| if axis == Axis::Run { source.label.to_owned() } else { name.to_owned() }, sums);
                }
            }
        }
    }

    fn put(&mut self, member: &dyn Fn(Axis) -> String, sums: Sums) {
        let row = self.rows.place(member(self.shape.rows));
        let column = self.columns.place(self.shape.columns.map(member).unwrap_or_default());
        self.cells.entry((row, column)).or_default().add(sums);
    }

    fn finish(self, sources: &[Source]) -> Shaped {
        let Self { shape, rows, columns, cells } = self;
        let wholes = |count: usize, of: &dyn Fn((usize, usize)) -> usize| {
            let mut wholes = vec![0_i64; count];
            for (at, sums) in &cells {
                let whole = wholes.get_mut(of(*at));
                whole.into_iter().for_each(|whole| *whole = whole.saturating_add(sums.whole(shape.values)));
            }
            wholes
        };
        let rows = rows.order(&wholes(rows.len(), &|at| at.0), if shape.top == 0 { usize::MAX } else { shape.top });
        let columns = columns.order(&wholes(columns.len(), &|at| at.1), COLUMNS);
        let (across, down) = (columns.shown.len(), rows.shown.len());
        // With the sums of rows as a last column, and those of columns as a last row.
        let mut table: Vec<Vec<Option<Sums>>> = vec![vec![None; across + 1]; down + 1];
        for ((row, column), sums) in &cells {
            let (row, column) = (rows.now(*row), columns.now(*column));
            for (row, column) in [(row, column), (row, across), (down, column), (down, across)] {
                let cell = table.get_mut(row).and_then(|cells| cells.get_mut(column));
                cell.into_iter().for_each(|cell| cell.get_or_insert_default().add(*sums));
            }
        }
        let mut amounts = amounts(&table, &shape);
        let totals = amounts.pop().unwrap_or_default();
        let alone = |cells: Vec<Option<Amount>>| {
            if shape.columns.is_none() { cells.into_iter().skip(1).collect() } else { cells }
        };
        let members = rows.shown.into_iter().zip(amounts);
        let told = |wanted: &dyn Fn(&Cube) -> bool| {
            let told = sources.iter().filter(|source| source.cube.is_some_and(wanted));
            told.map(|source| source.label.to_owned()).collect()
        };
        let asks_steps = shape.axes().iter().any(|axis| matches!(axis, Axis::Step | Axis::Stage));
        let asks_places = shape.axes().iter().any(|axis| crate::analysis::pivot::cells::PLACES.contains(axis));
        let lacking = sources.iter().filter(|source| asks_places && source.cube.is_none());
        let grouped = sources.iter().filter_map(|source| Some((source.label.to_owned(), source.cube?.steps_together)));
        Shaped {
            shape,
            columns: if shape.columns.is_none() { Vec::new() } else { columns.shown },
            rows: members.map(|(member, cells)| ShapedRow { member, cells: alone(cells) }).collect(),
            totals: alone(totals),
            gaps: lacking.map(|source| source.label.to_owned()).collect(),
            without_steps: told(&|cube| asks_steps && cube.steps_together == 0),
            grouped: grouped.filter(|(_, size)| shape.axes().contains(&Axis::Step) && *size > 1).collect(),
        }
    }
}

/// Values, or parts of the sums that stand in the last row and column.
fn amounts(table: &[Vec<Option<Sums>>], shape: &Shape) -> Vec<Vec<Option<Amount>>> {
    let whole = |sums: Option<&Option<Sums>>| sums.copied().flatten().map_or(0, |sums| sums.whole(shape.values));
    let last = table.last();
    let all = whole(last.and_then(|row| row.last()));
    let amount = |row: &[Option<Sums>], at: usize, sums: Sums| {
        let of = match shape.percent {
            None => return sums.amount(shape.values),
            Some(Whole::All) => all,
            Some(Whole::Row) => whole(row.last()),
            Some(Whole::Column) => whole(last.and_then(|row| row.get(at))),
        };
        Amount::Share(if of == 0 { 0.0 } else { sums.whole(shape.values) as f64 / of as f64 })
    };
    let row = |cells: &Vec<Option<Sums>>| {
        cells.iter().enumerate().map(|(at, sums)| sums.map(|sums| amount(cells, at, sums))).collect()
    };
    table.iter().map(row).collect()
}

#[cfg(test)]
mod tests;
