//! A person's own rule file, as the page edits it: what is wrong with it, a rule put into it, a rule set written as a file.

use super::book::{RuleBook, RuleSet};
use super::file::{self, Rule};
use super::names;
use crate::ordering::InOrder;
use crate::{Error, Result};

/// Checks a rule file that is being written: what [`RuleBook::add`] refuses, and categories that still have to be filled in.
///
/// # Errors
/// The sentence names file, engine, model and rule.
pub fn check_own(file: &str, text: &str) -> Result<()> {
    RuleBook::default().add(file, text)?;
    for set in file::parse(file, text)? {
        if let Some(rule) = set.rules.iter().find(|rule| rule.category.trim().is_empty()) {
            let place = format!("{file}: {} / {} / {}", set.engine, set.model, rule.regex);
            return Err(Error::rules(place, "the category is empty: fill it in between the quotes"));
        }
    }
    Ok(())
}

/// The file's text with this rule in front of those of its engine and model; unchanged where the regex is there already.
/// An empty text is an empty file.
///
/// # Errors
/// Where the text is no rule file.
pub fn draft(file: &str, text: &str, rules: &RuleSet, regex: &str, category: &str) -> Result<String> {
    let mut sets = if text.trim().is_empty() { Vec::new() } else { file::parse(file, text)? };
    let (engine, model) = rules.label().split_once('/').unwrap_or((rules.label(), ""));
    let new = Rule { regex: regex.to_owned(), category: category.to_owned(), file: String::new() };
    match sets.iter_mut().find(|set| set.engine == engine && set.model == model) {
        Some(set) if set.rules.iter().any(|rule| rule.regex == regex) => return Ok(text.to_owned()),
        Some(set) => set.rules.insert(0, new),
        None => {
            sets.push(file::ModelRules { engine: engine.to_owned(), model: model.to_owned(), rules: vec![new] });
        }
    }
    Ok(written(&sets))
}

impl RuleSet {
    /// The category that the rule of this regex gives.
    pub fn category_of(&self, regex: &str) -> Option<&str> {
        self.compiled().find(|(rule, _)| rule.regex == regex).map(|(rule, _)| rule.category.as_str())
    }

    /// A regex for kernels like this one: its own name without namespaces, template arguments and the sizes behind it.
    /// Where that is too short or not in the name, it is the whole name.
    pub fn stable_part(&self, raw: &str, demangled: &str) -> String {
        stable_part(self.side(raw, demangled), demangled)
    }

    /// What gputrc2graph wants a file of this set to be called.
    pub fn file_name(&self) -> String {
        let plain = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
        format!("{}_engine_model.json", self.label().chars().map(plain).collect::<String>())
    }

    /// The set as a rule file of gputrc2graph's shape, in the order in which its rules are tried.
    pub fn to_json(&self) -> String {
        let (engine, model) = self.label().split_once('/').unwrap_or((self.label(), ""));
        let rules = self.compiled().map(|(rule, _)| rule.clone()).collect();
        written(&[file::ModelRules { engine: engine.to_owned(), model: model.to_owned(), rules }])
    }
}

/// Rule sets as the text of a file; sets of one engine stand together.
fn written(sets: &[file::ModelRules]) -> String {
    let mut sets: Vec<&file::ModelRules> = sets.iter().collect();
    let engines: Vec<&str> = sets.iter().map(|set| set.engine.as_str()).collect();
    let first = |engine: &str| engines.iter().position(|known| *known == engine);
    sets.order_by_key(|set| first(&set.engine));
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

fn stable_part(seen: &str, demangled: &str) -> String {
    let short = names::short(demangled);
    let name = short.split(['<', '(', '\u{2026}']).next().unwrap_or_default();
    let sizes = name.as_bytes().windows(2).position(|pair| matches!(pair, [b'_', digit] if digit.is_ascii_digit()));
    let stem = sizes.and_then(|at| name.get(..at)).filter(|stem| stem.len() >= SHORTEST_STEM).unwrap_or(name).trim();
    escaped(if stem.len() >= SHORTEST_STEM && seen.contains(stem) { stem } else { seen })
}

/// Fewer letters than these would take kernels of all kinds.
const SHORTEST_STEM: usize = 6;

/// The text as a regex that matches it alone.
fn escaped(text: &str) -> String {
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

    fn embedded() -> RuleSet {
        RuleBook::embedded().select("gpuprism", "default").unwrap()
    }

    #[test]
    fn a_rule_for_a_kernel_takes_its_own_name_and_the_siblings_of_other_sizes() {
        let own = embedded();
        for (kernel, regex) in [
            ("void vllm::rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, int)", "rms_norm_kernel"),
            ("my_scan_kernel_128x64_warp4", "my_scan_kernel"),
            ("Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD"),
            ("a.b+c", r"a\.b\+c"),
        ] {
            assert_eq!(own.stable_part(kernel, kernel), regex);
        }
        let raw = RuleBook::embedded()
            .sets()
            .find(|(engine, _)| *engine != "gpuprism")
            .map(|(e, m)| (e.to_owned(), m.to_owned()));
        let (engine, model) = raw.unwrap();
        let raw = RuleBook::embedded().select(&engine, &model).unwrap();
        let mangled = "_ZN4vllm15rms_norm_kernelIN3c108BFloat16EEEvPT_i";
        assert_eq!(raw.stable_part(mangled, &names::demangle(mangled)), "rms_norm_kernel");
    }

    #[test]
    fn a_draft_stands_in_front_of_its_set_and_keeps_the_others() {
        let rules = embedded();
        let first = draft("a.json", "", &rules, "my\\.gemm", "").unwrap();
        assert_eq!(first, "{\n  \"gpuprism\": {\n    \"default\": {\n      \"my\\\\.gemm\": \"\"\n    }\n  }\n}\n");
        let said = check_own("a.json", &first).unwrap_err().to_string();
        assert_eq!(
            said,
            "a.json: gpuprism / default / my\\.gemm: the category is empty: fill it in between the quotes"
        );
        let text = r#"{"vllm": {"llama": {"x": "y"}}, "gpuprism": {"default": {"a": "b"}}}"#;
        let second = draft("a.json", text, &rules, "new", "cat").unwrap();
        let sets = file::parse("a.json", &second).unwrap();
        let listed: Vec<(&str, Vec<&str>)> = sets
            .iter()
            .map(|set| (set.model.as_str(), set.rules.iter().map(|rule| rule.regex.as_str()).collect()))
            .collect();
        assert_eq!(listed, [("llama", vec!["x"]), ("default", vec!["new", "a"])]);
        assert_eq!(
            draft("a.json", &second, &rules, "a", "other").unwrap(),
            second,
            "a rule that is there stays as it is"
        );
        assert!(draft("a.json", "{", &rules, "a", "b").is_err());
    }

    #[test]
    fn what_is_wrong_is_named_by_file_engine_model_and_rule() {
        let said = check_own("own.json", r#"{"e": {"m": {"ge(mm": "x"}}}"#).unwrap_err().to_string();
        assert!(said.starts_with("own.json: e / m / ge(mm: not a regex that can be used: "), "{said}");
    }

    proptest! {
        #[test]
        fn an_exported_set_read_back_gives_every_name_the_same_category(
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
        fn the_regex_for_a_kernel_always_takes_that_kernel(name in "\\PC{1,40}|[a-z_0-9:<>(]{1,40}") {
            let rules = embedded();
            let regex = rules.stable_part(&name, &name);
            let text = draft("a.json", "", &rules, &regex, "mine").unwrap();
            let mut book = RuleBook::embedded();
            book.add("a.json", &text).unwrap();
            let changed = book.select("gpuprism", "default").unwrap();
            prop_assert_eq!(changed.category(&name, &name), "mine", "{}", regex);
        }
    }
}
