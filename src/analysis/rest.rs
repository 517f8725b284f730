//! The sums of the categories and kernels after the first ones, for tables that show only the first. Linear.

use super::results::{Category, Kernel, Run};

/// The sums of the rows that a table leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Rest {
    /// The number of rows.
    pub rows: usize,
    /// The number of GPU ops.
    pub count: u64,
    /// Elapsed time.
    pub elapsed_ns: i64,
    /// `elapsed_ns` divided by the elapsed time of the run.
    pub elapsed_share: f64,
}

/// The categories after the first `shown`.
pub fn of_categories(run: &Run, shown: usize) -> Rest {
    let of = |category: &Category| (category.count, category.elapsed_ns);
    rest(run, run.categories.iter().skip(shown).map(of))
}

/// The kernels after the first `shown`.
pub fn of_kernels(run: &Run, shown: usize) -> Rest {
    let of = |kernel: &Kernel| (kernel.count, kernel.elapsed_ns);
    rest(run, run.kernels.iter().skip(shown).map(of))
}

fn rest(run: &Run, rows: impl Iterator<Item = (u64, i64)>) -> Rest {
    let mut rest = Rest::default();
    for (count, elapsed_ns) in rows {
        rest.rows += 1;
        rest.count = rest.count.saturating_add(count);
        rest.elapsed_ns = rest.elapsed_ns.saturating_add(elapsed_ns);
    }
    if run.totals.elapsed_ns > 0 {
        rest.elapsed_share = rest.elapsed_ns as f64 / run.totals.elapsed_ns as f64;
    }
    rest
}
