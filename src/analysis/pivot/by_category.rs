//! Tabulates the elapsed time of each category in each run, as in `result.csv` of gputrc2graph. Cost: O(runs *
//! categories^2).

use crate::analysis::results::Run;
use crate::analysis::{CPU, SHARED};
use crate::ordering;

/// Elapsed time by category (rows) and run (columns), with sums of both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pivot {
    /// GPU categories by decreasing sum, then shared time if a run has any, then time without GPU work.
    pub rows: Vec<PivotRow>,
    /// The sum of each column, equal to `bar_ns` of the run.
    pub totals_ns: Vec<i64>,
    /// The sum of all rows and runs.
    pub total_ns: i64,
}

/// The elapsed time of one category.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PivotRow {
    /// Category name.
    pub category: String,
    /// One value per run; `None` if the run does not have the category.
    pub elapsed_ns: Vec<Option<i64>>,
    /// The sum of the row.
    pub total_ns: i64,
}

/// Builds the table with one column per run.
pub fn pivot(runs: &[Run]) -> Pivot {
    let mut names: Vec<&str> =
        runs.iter().flat_map(|run| &run.categories).map(|category| category.category.as_str()).collect();
    ordering::sort_by(&mut names, Ord::cmp);
    names.dedup();
    let elapsed_ns =
        |run: &Run, name: &str| run.categories.iter().find(|category| category.category == name).map(|c| c.elapsed_ns);
    let mut rows: Vec<PivotRow> =
        names.iter().map(|name| row(name, runs.iter().map(|run| elapsed_ns(run, name)))).collect();
    ordering::sort_by_key(&mut rows, |row| std::cmp::Reverse(row.total_ns));
    if runs.iter().any(|run| run.wall.shared_ns > 0) {
        rows.push(row(SHARED, runs.iter().map(|run| Some(run.wall.shared_ns))));
    }
    rows.push(row(CPU, runs.iter().map(|run| Some(run.wall.cpu_ns))));
    let column = |index: usize| rows.iter().filter_map(|row| *row.elapsed_ns.get(index)?).fold(0, i64::saturating_add);
    let totals_ns: Vec<i64> = (0..runs.len()).map(column).collect();
    let total_ns = totals_ns.iter().copied().fold(0, i64::saturating_add);
    Pivot { rows, totals_ns, total_ns }
}

fn row(category: &str, elapsed_ns: impl Iterator<Item = Option<i64>>) -> PivotRow {
    let elapsed_ns: Vec<Option<i64>> = elapsed_ns.collect();
    let total_ns = elapsed_ns.iter().flatten().copied().fold(0, i64::saturating_add);
    PivotRow { category: category.to_owned(), elapsed_ns, total_ns }
}
