//! The rules of categories: what each takes, and what the lists leave out. From places, names and counts.

use super::noun;

/// What the rules in force are taken from.
pub(crate) fn in_force(rules: &str) -> String {
    format!("the rules {rules} in the order in which they are tried, and the kernel names of the runs shown")
}

/// Only some names were tried with all rules.
pub(crate) fn shadowing_of_some(tested: usize, names: usize) -> String {
    format!(
        "Shadowing is computed for the {tested} most expensive names of {names}; the names that rules take are complete"
    )
}

/// The rule at a place, from 1, and the names that it takes from another: `rule 1 (gemm): 3 names`.
pub(crate) fn shadowing(place: usize, category: &str, names: usize) -> String {
    format!("rule {place} ({category}): {names} {}", noun(names as u64, "name", "names"))
}

/// The rules that are not listed.
pub(crate) fn more_rules(more: usize) -> String {
    format!("and {more} more")
}

/// `rule 4: .*`
pub(crate) fn rule(place: usize, regex: &str) -> String {
    format!("rule {place}: {regex}")
}

/// Runs whose categories are those of other rules.
pub(crate) fn other_rules(runs: &[&str]) -> String {
    format!("The categories of {} come from other rules: an earlier report keeps its categories", runs.join(", "))
}

/// The kernels of a rule that is being written.
pub(crate) fn draft(max_rows: usize) -> String {
    format!("The category is the one so far. At most {max_rows} kernels are listed; the figures count all.")
}
