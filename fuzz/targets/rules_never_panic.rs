//! Whatever a rule file says and however kernels are called: a category or a sentence, never a panic.
//!
//! The input is the rule file's text, then a NUL, then kernel names, one a line.

#![no_main]

use gpuprism::rules::{RuleBook, RuleSet, looks_like_rules, names};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static EMBEDDED: LazyLock<Vec<RuleSet>> = LazyLock::new(|| sets(&RuleBook::embedded()));

fuzz_target!(|data: &[u8]| {
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
});

/// What was taken into a book can be picked from it.
fn sets(book: &RuleBook) -> Vec<RuleSet> {
    book.sets().map(|(engine, model)| book.select(engine, model).unwrap()).collect()
}
