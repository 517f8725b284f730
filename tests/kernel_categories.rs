//! Compares the default rules with a corpus of real kernel names that were categorized by hand.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use gpuprism::rules::{RuleBook, names};
use serde::Deserialize;

const CORPUS: &str = include_str!("data/kernel_categories.json");
const DEFAULT_SET: &str = include_str!("../patterns/gpuprism_engine_model.json");

/// All categories. A fused kernel has the first of these categories that one of its parts has.
const CATEGORIES: [&str; 19] = [
    "communication",
    "optimizer",
    "lora",
    "attention",
    "moe_gemm",
    "gemm",
    "moe",
    "conv",
    "norm",
    "rope",
    "softmax",
    "sampling",
    "quantize",
    "activation",
    "kv_cache",
    "reduce",
    "elementwise",
    "memory",
    "misc",
];

#[derive(Deserialize)]
struct Kernel {
    name: String,
    category: String,
    /// The trace that contains it, or the library that launches it.
    source: String,
}

fn corpus() -> Vec<Kernel> {
    serde_json::from_str(CORPUS).unwrap()
}

#[test]
fn every_kernel_of_the_corpus_gets_its_expected_category() {
    let rules = RuleBook::embedded().select("gpuprism", "default").unwrap();
    let mut wrong = Vec::new();
    for Kernel { name, category, source } in corpus() {
        let demangled = names::demangle(&name);
        let got = rules.category(&name, &demangled);
        if got != category {
            wrong.push(format!("{category}, not {got}: {} ({source})", names::short(&demangled)));
        }
    }
    assert!(wrong.is_empty(), "{} kernels:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_corpus_covers_every_category_and_has_no_duplicates() {
    let corpus = corpus();
    for category in CATEGORIES {
        assert!(corpus.iter().any(|kernel| kernel.category == category), "no kernel for {category}");
    }
    for kernel in &corpus {
        assert!(CATEGORIES.contains(&kernel.category.as_str()), "{}: {}", kernel.category, kernel.name);
    }
    let names: std::collections::HashSet<&str> = corpus.iter().map(|kernel| kernel.name.as_str()).collect();
    assert_eq!(names.len(), corpus.len());
}

#[test]
fn every_default_rule_matches_a_kernel_and_the_last_rule_is_misc() {
    let rules = default_rules();
    let mut dead: Vec<&str> = rules.iter().map(|(regex, _)| regex.as_str()).collect();
    let compiled: Vec<regex::Regex> = dead.iter().map(|regex| regex::Regex::new(regex).unwrap()).collect();
    for kernel in corpus() {
        let name = names::demangle(&kernel.name);
        let hit = compiled.iter().find(|regex| regex.is_match(&name)).unwrap();
        dead.retain(|regex| *regex != hit.as_str());
    }
    assert!(dead.is_empty(), "hit by no kernel of the corpus: {dead:#?}");
    assert_eq!(rules.last().unwrap(), &(".*".to_owned(), "misc".to_owned()));
    for (regex, category) in &rules {
        assert!(CATEGORIES.contains(&category.as_str()), "{regex}: {category}");
    }
}

/// Parses the file line by line (one rule per line), because a JSON map would lose the order.
fn default_rules() -> Vec<(String, String)> {
    let rule = |line: &str| {
        let (regex, value) = line.trim().trim_end_matches(',').split_once("\": ")?;
        let value: serde_json::Value = serde_json::from_str(value).ok()?;
        let category = value.as_str().or_else(|| value.get("category")?.as_str())?.to_owned();
        Some((serde_json::from_str(&format!("{regex}\"")).ok()?, category))
    };
    DEFAULT_SET.lines().filter_map(rule).collect()
}
