//! Edits a person's rule file as text: validates it, inserts a rule, suggests a regex for a kernel, and exports a rule set.

use super::book::{RuleBook, RuleSet};
use super::file::{self, ModelRules, Rule};
use super::names;
use crate::ordering;
use crate::{Error, Result};
use std::collections::BTreeSet;

/// Checks a rule file during editing: [`RuleBook::add`] must accept it, and no category may be empty.
///
/// # Errors
/// The message names file, engine, model and rule.
pub fn check_user_file(file: &str, text: &str) -> Result<()> {
    RuleBook::default().add(file, text)?;
    for set in file::parse(file, text)? {
        if let Some(rule) = set.rules.iter().find(|rule| rule.category.trim().is_empty()) {
            let location = format!("{file}: {} / {} / {}", set.engine, set.model, rule.regex);
            return Err(Error::rules(location, "the category is empty: enter a category between the quotes"));
        }
    }
    Ok(())
}

/// Returns the file's text with this rule added as the first of the engine and model of `rules`. The text is returned
/// unchanged if it has the regex already. Empty text counts as an empty file.
///
/// # Errors
/// Text that is not a rule file.
pub fn add_rule(file: &str, text: &str, rules: &RuleSet, regex: &str, category: &str) -> Result<String> {
    let mut sets = if text.trim().is_empty() { Vec::new() } else { file::parse(file, text)? };
    let (engine, model) = rules.engine_and_model();
    let new = Rule::new(regex.to_owned(), category.to_owned());
    match sets.iter_mut().find(|set| set.engine == engine && set.model == model) {
        Some(set) if set.rules.iter().any(|rule| rule.regex == regex) => return Ok(text.to_owned()),
        Some(set) => set.rules.insert(0, new),
        None => sets.push(ModelRules { engine: engine.to_owned(), model: model.to_owned(), rules: vec![new] }),
    }
    Ok(to_text(&sets))
}

/// Like [`add_rule`], but a rule with this regex moves to the first place and gets the new category.
///
/// # Errors
/// Those of [`add_rule`].
pub fn put_rule(file: &str, text: &str, rules: &RuleSet, regex: &str, category: &str) -> Result<String> {
    let mut sets = if text.trim().is_empty() { Vec::new() } else { file::parse(file, text)? };
    let (engine, model) = rules.engine_and_model();
    for set in sets.iter_mut().filter(|set| set.engine == engine && set.model == model) {
        set.rules.retain(|rule| rule.regex != regex);
    }
    sets.retain(|set| !set.rules.is_empty());
    add_rule(file, &if sets.is_empty() { String::new() } else { to_text(&sets) }, rules, regex, category)
}

impl RuleSet {
    /// The regex of the rule that takes a kernel; `None` if no rule matches.
    pub fn regex_of(&self, raw: &str, demangled: &str) -> Option<&str> {
        let rule = self.first_match(raw, demangled).and_then(|index| self.compiled().nth(index));
        rule.map(|(rule, _)| rule.regex.as_str())
    }

    /// Every category that a rule assigns, each once, in alphabetical order.
    pub fn categories(&self) -> BTreeSet<&str> {
        self.compiled().map(|(rule, _)| rule.category.as_str()).collect()
    }

    /// The category of the rule with exactly this regex.
    pub fn category_of(&self, regex: &str) -> Option<&str> {
        self.compiled().find(|(rule, _)| rule.regex == regex).map(|(rule, _)| rule.category.as_str())
    }

    /// Suggests a regex for this kernel and its variants: its short name without namespaces, template arguments and trailing
    /// sizes. Falls back to the whole name if the short one has fewer than 6 bytes or does not occur in the matched name.
    pub fn suggest_regex(&self, raw: &str, demangled: &str) -> String {
        suggest_regex(self.matched_name(raw, demangled), demangled)
    }

    /// The file name under which gputrc2graph looks for this set.
    pub fn file_name(&self) -> String {
        let plain = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
        format!("{}_engine_model.json", self.label().chars().map(plain).collect::<String>())
    }

    /// The set as the text of a rule file in gputrc2graph's format, in the order in which its rules are tried.
    pub fn to_json(&self) -> String {
        let (engine, model) = self.engine_and_model();
        let rules = self.compiled().map(|(rule, _)| rule.clone()).collect();
        to_text(&[ModelRules { engine: engine.to_owned(), model: model.to_owned(), rules }])
    }
}

/// Rule sets as the text of a rule file, grouped by engine.
fn to_text(sets: &[ModelRules]) -> String {
    let mut sets: Vec<&ModelRules> = sets.iter().collect();
    let engines: Vec<&str> = sets.iter().map(|set| set.engine.as_str()).collect();
    let first = |engine: &str| engines.iter().position(|known| *known == engine);
    ordering::sort_by_key(&mut sets, |set| first(&set.engine));
    let engines = sets.chunk_by(|a, b| a.engine == b.engine).map(|sets| {
        let models = sets.iter().map(|set| {
            let rules =
                set.rules.iter().map(|rule| format!("      {}: {}", quoted(&rule.regex), quoted(&rule.category)));
            member("    ", &set.model, rules)
        });
        let engine = sets.first().map(|set| set.engine.as_str()).unwrap_or_default();
        member("  ", engine, models)
    });
    format!("{{\n{}\n}}\n", engines.collect::<Vec<_>>().join(",\n"))
}

fn member(indent: &str, name: &str, members: impl Iterator<Item = String>) -> String {
    format!("{indent}{}: {{\n{}\n{indent}}}", quoted(name), members.collect::<Vec<_>>().join(",\n"))
}

fn quoted(text: &str) -> String {
    crate::json::write(&text)
}

fn suggest_regex(matched_name: &str, demangled: &str) -> String {
    let short = names::short(demangled);
    let name = short.split(['<', '(', '\u{2026}']).next().unwrap_or_default();
    let sizes = name.as_bytes().windows(2).position(|pair| matches!(pair, [b'_', digit] if digit.is_ascii_digit()));
    let stem = sizes.and_then(|end| name.get(..end)).filter(|stem| stem.len() >= MIN_STEM_BYTES).unwrap_or(name).trim();
    escape(if stem.len() >= MIN_STEM_BYTES && matched_name.contains(stem) { stem } else { matched_name })
}

/// A shorter stem would match unrelated kernels.
const MIN_STEM_BYTES: usize = 6;

/// Escapes the text so that the regex matches exactly this text.
fn escape(text: &str) -> String {
    let mut regex = String::with_capacity(text.len());
    for letter in text.chars() {
        if "\\.+*?()|[]{}^$".contains(letter) {
            regex.push('\\');
        }
        regex.push(letter);
    }
    regex
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn gpuprism_rules() -> RuleSet {
        RuleBook::embedded().select("gpuprism", "default").unwrap()
    }

    #[test]
    fn a_suggested_regex_matches_the_kernel_and_its_variants_of_other_sizes() {
        let rules = gpuprism_rules();
        for (kernel, regex) in [
            ("void vllm::rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, int)", "rms_norm_kernel"),
            ("my_scan_kernel_128x64_warp4", "my_scan_kernel"),
            ("Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD"),
            ("a.b+c", r"a\.b\+c"),
        ] {
            assert_eq!(rules.suggest_regex(kernel, kernel), regex);
        }
        let raw = RuleBook::embedded().select("vllm", "llama").unwrap();
        let mangled = "_ZN4vllm15rms_norm_kernelIN3c108BFloat16EEEvPT_i";
        assert_eq!(raw.suggest_regex(mangled, &names::demangle(mangled)), "rms_norm_kernel");
    }

    #[test]
    fn an_added_rule_comes_first_in_its_set_and_other_rules_are_kept() {
        let rules = gpuprism_rules();
        let first = add_rule("a.json", "", &rules, "my\\.gemm", "").unwrap();
        assert_eq!(first, "{\n  \"gpuprism\": {\n    \"default\": {\n      \"my\\\\.gemm\": \"\"\n    }\n  }\n}\n");
        let message = check_user_file("a.json", &first).unwrap_err().to_string();
        let rule = "a.json: gpuprism / default / my\\.gemm";
        assert_eq!(message, format!("{rule}: the category is empty: enter a category between the quotes"));
        let text = r#"{"vllm": {"llama": {"x": "y"}}, "gpuprism": {"default": {"a": "b"}}}"#;
        let second = add_rule("a.json", text, &rules, "new", "cat").unwrap();
        let sets = file::parse("a.json", &second).unwrap();
        let listed: Vec<(&str, Vec<&str>)> = sets
            .iter()
            .map(|set| (set.model.as_str(), set.rules.iter().map(|rule| rule.regex.as_str()).collect()))
            .collect();
        assert_eq!(listed, [("llama", vec!["x"]), ("default", vec!["new", "a"])]);
        let third = add_rule("a.json", &second, &rules, "a", "other").unwrap();
        assert_eq!(third, second, "an existing rule is not changed");
        assert!(add_rule("a.json", "{", &rules, "a", "b").is_err());
    }

    #[test]
    fn a_rule_that_is_put_again_is_first_and_has_the_new_category() {
        let rules = gpuprism_rules();
        let text = r#"{"gpuprism": {"default": {"a": "b", "c": "d"}}, "vllm": {"llama": {"c": "y"}}}"#;
        let put = put_rule("a.json", text, &rules, "c", "new").unwrap();
        let sets = file::parse("a.json", &put).unwrap();
        let listed = |set: &ModelRules| {
            set.rules.iter().map(|rule| (rule.regex.clone(), rule.category.clone())).collect::<Vec<_>>()
        };
        let pair = |regex: &str, category: &str| (regex.to_owned(), category.to_owned());
        assert_eq!(listed(&sets[0]), [pair("c", "new"), pair("a", "b")]);
        assert_eq!(listed(&sets[1]), [pair("c", "y")], "rules of another engine stay");
        assert_eq!(
            put_rule("a.json", "", &rules, "c", "d").unwrap(),
            add_rule("a.json", "", &rules, "c", "d").unwrap()
        );
    }

    proptest! {
        #[test]
        fn an_exported_set_gives_every_name_the_same_category_when_read_back(
            regexes in prop::collection::vec("[ab\"\\u{e9}]{1,3}|a.b|\\\\.", 1..6),
            names in prop::collection::vec("[ab\".]{0,4}", 0..8),
        ) {
            let text = regexes.iter().fold("{\"e\":{\"m\":{".to_owned(), |text, regex| {
                format!("{text}{}{}:\"c{}\"", if text.ends_with('{') { "" } else { "," }, quoted(regex), text.len())
            }) + "}}}";
            let mut book = RuleBook::default();
            prop_assume!(book.add("a.json", &text).is_ok());
            let rules = book.select("e", "m").unwrap();
            let mut again = RuleBook::default();
            again.add("b.json", &rules.to_json()).unwrap();
            let again = again.select("e", "m").unwrap();
            for name in &names {
                prop_assert_eq!(rules.category(name, name), again.category(name, name));
            }
        }

        #[test]
        fn a_suggested_regex_always_matches_its_kernel(name in "\\PC{1,40}|[a-z_0-9:<>(]{1,40}") {
            let rules = gpuprism_rules();
            let regex = rules.suggest_regex(&name, &name);
            let text = add_rule("a.json", "", &rules, &regex, "mine").unwrap();
            let mut book = RuleBook::embedded();
            book.add("a.json", &text).unwrap();
            let changed = book.select("gpuprism", "default").unwrap();
            prop_assert_eq!(changed.category(&name, &name), "mine", "{}", regex);
        }
    }
}
