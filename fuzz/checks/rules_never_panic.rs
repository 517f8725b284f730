//! Rule files and kernel names never cause a panic: each name gets a category, or the file an error.
//!
//! The input is the text of a rule file, a NUL, and kernel names, one per line.

use gpuprism::rules::{RuleBook, RuleSet, looks_like_rules, names};
use std::sync::LazyLock;

static EMBEDDED: LazyLock<Vec<RuleSet>> = LazyLock::new(|| sets(&RuleBook::embedded()));

/// Checks one input.
pub fn check(data: &[u8]) {
    let data = String::from_utf8_lossy(data);
    let (text, kernels) = data.split_once('\0').unwrap_or((&data, &data));
    looks_like_rules(text);
    let mut book = RuleBook::default();
    let own = book.add("fuzz.json", text).map(|_| sets(&book)).unwrap_or_default();
    for kernel in kernels.lines().take(20) {
        let demangled = names::demangle(kernel);
        names::short(&demangled);
        for rules in own.iter().chain(EMBEDDED.iter()) {
            rules.category(kernel, &demangled);
        }
    }
}

/// Returns all rule sets of a book.
fn sets(book: &RuleBook) -> Vec<RuleSet> {
    book.sets().map(|(engine, model)| book.select(engine, model).unwrap()).collect()
}
