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
    /// `elapsed_ns` divided by the elapsed time of the run; `None` if a row has no share.
    pub elapsed_share: Option<f64>,
}

/// The categories after the first `shown`.
pub fn of_categories(run: &Run, shown: usize) -> Rest {
    let of = |category: &Category| (category.count, category.elapsed_ns, category.elapsed_share);
    rest(run, run.categories.iter().skip(shown).map(of))
}

/// The kernels after the first `shown`.
pub fn of_kernels(run: &Run, shown: usize) -> Rest {
    let of = |kernel: &Kernel| (kernel.count, kernel.elapsed_ns, kernel.elapsed_share);
    rest(run, run.kernels.iter().skip(shown).map(of))
}

/// Time and share of the bar of all categories without a share of their own; `None` if every category has one.
pub fn without_shares(run: &Run) -> Option<(i64, f64)> {
    let elapsed =
        run.categories.iter().filter(|category| category.bar_share.is_none()).map(|category| category.elapsed_ns);
    let elapsed_ns = elapsed.reduce(i64::saturating_add)?;
    Some((elapsed_ns, elapsed_ns as f64 / run.wall.bar_ns.max(1) as f64))
}

fn rest(run: &Run, rows: impl Iterator<Item = (u64, i64, Option<f64>)>) -> Rest {
    let mut rest = Rest::default();
    let mut has_all_shares = true;
    for (count, elapsed_ns, share) in rows {
        has_all_shares &= share.is_some();
        rest.rows += 1;
        rest.count = rest.count.saturating_add(count);
        rest.elapsed_ns = rest.elapsed_ns.saturating_add(elapsed_ns);
    }
    let total_ns = run.totals.elapsed_ns.max(1);
    rest.elapsed_share = has_all_shares.then(|| rest.elapsed_ns as f64 / total_ns as f64);
    rest
}
