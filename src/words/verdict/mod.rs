//! The sentences of the verdict: one file for each thing that it says, in the order in which they stand.

pub(crate) mod beside;
pub(crate) mod causes;
pub(crate) mod path;
pub(crate) mod start;
pub(crate) mod unit;

/// A category in a sentence.
pub(crate) fn category(category: &str) -> &str {
    match category {
        "misc" => "kernels without a category",
        crate::rules::GRAPHS => "CUDA graphs traced as a whole",
        _ => category,
    }
}

/// `No GPU work in this trace.`
pub(crate) fn no_work(is_window: bool) -> String {
    format!("No GPU work in this {}.", if is_window { "window" } else { "trace" })
}

/// `; the longest idle gap lasts 2.1 s`: a clause after another.
pub(crate) fn beside_it(clause: &str) -> String {
    format!("; {clause}")
}

/// `; the GPU idles for 9.0 ms outside of the steps`
pub(crate) fn idle_outside(idle: crate::trace::Ms) -> String {
    format!("; the GPU idles for {} outside of the steps", super::time(idle))
}
