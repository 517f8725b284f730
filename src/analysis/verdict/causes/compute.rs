//! The category with most time. From the categories and kernels of the run.

use crate::analysis::results::{Category, Run};
use crate::analysis::section::Fraction;
use crate::analysis::verdict::sentences::Subject;
use crate::rules::GRAPHS;
use crate::words::verdict::causes as words;

/// The category of kernels that no rule matches.
const MISC: &str = "misc";

/// `None` without shares. `is_part`: the sentence is about a part of the capture.
pub(super) fn largest_category(subject: &Subject, is_part: bool) -> Option<String> {
    let Subject { run, times, .. } = subject;
    let first = run.categories.first().filter(|category| category.elapsed_ns > 0)?;
    let is_outside = times.has_hidden_graphs && first.category != GRAPHS;
    Some(words::largest_category(words::LargestCategory {
        category: &first.category,
        of_wall: Fraction(first.bar_share?),
        among: match (is_outside, is_part) {
            (true, _) => words::Among::OutsideOfGraphs,
            (false, true) => words::Among::WholeCapture,
            (false, false) => words::Among::All,
        },
        kernel: largest_kernel(run, first),
    }))
}

/// The largest kernel that no category describes, and its share of the category.
fn largest_kernel<'a>(run: &'a Run, category: &Category) -> Option<(&'a str, Fraction)> {
    let of_category = run.kernels.iter().filter(|kernel| kernel.category == MISC && category.category == MISC);
    let largest = of_category.max_by_key(|kernel| kernel.elapsed_ns)?;
    Some((&largest.short_name, Fraction(largest.elapsed_ns as f64 / category.elapsed_ns.max(1) as f64)))
}
