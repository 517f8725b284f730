//! Merges rule files and compiles the rule set of one engine and model.
//!
//! A rule is a regex and a category. Rules are ordered: the first rule that matches anywhere in a kernel name decides the
//! category. [`RuleSet::category`] runs one search per rule, so call it once per distinct name. The search itself is in
//! `matcher.rs`.
//!
//! Merge order: the rules of a file that is added later come before the earlier rules of the same engine and model. A regex
//! that is already present moves to its new position and takes its new category. A final `.*` is the exception. It always
//! stays last, because every rule file ends with one and it would hide all rules after it. A regex that occurs twice in one
//! file keeps its first position and takes its last category, as Python's `json.load` does.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use super::file::{self, ModelRules, Rule};
use super::matcher::{Matcher, Name};
use crate::{Error, Result};

/// The engine of gpuprism's own rules, which are matched against demangled names.
const GPUPRISM_ENGINE: &str = "gpuprism";

/// By convention the last rule of every list: it matches every name.
pub(super) const CATCH_ALL: &str = ".*";

pub(crate) const MISC: &str = "misc";

const EMBEDDED: [(&str, &str); 3] = [
    ("gpuprism_engine_model.json", include_str!("../../patterns/gpuprism_engine_model.json")),
    ("sglang_engine_model.json", include_str!("../../patterns/sglang_engine_model.json")),
    ("vllm_engine_model.json", include_str!("../../patterns/vllm_engine_model.json")),
];

/// All rule sets, by engine and model, in the order in which they were added.
///
/// ```
/// let mut book = gpuprism::rules::RuleBook::embedded();
/// let repeated = book.add("mine.json", r#"{"gpuprism": {"default": {"my_fused_gemm": "gemm", ".*": "misc"}}}"#)?;
/// assert!(repeated.is_empty());
/// let rules = book.select("gpuprism", "default")?;
/// assert_eq!(rules.category("my_fused_gemm_v2", "my_fused_gemm_v2"), "gemm");
/// assert_eq!(rules.category("nvjet_tst_64x8", "nvjet_tst_64x8"), "gemm");
/// # Ok::<(), gpuprism::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct RuleBook {
    sets: Vec<ModelRules>,
}

/// A regex that was defined twice for the same engine and model. The later category wins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Duplicate {
    /// The file with the second definition.
    pub file: String,
    /// The engine.
    pub engine: String,
    /// The model.
    pub model: String,
    /// The rule's regex.
    pub regex: String,
    /// The category of the first definition.
    pub was: String,
    /// The category of the second definition, which is now in force.
    pub now: String,
}

impl fmt::Display for Duplicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, engine, model, regex, was, now } = self;
        if was == now {
            write!(f, "{file}: {engine} / {model} / {regex}: defined again with the same category, {now}")
        } else {
            write!(f, "{file}: {engine} / {model} / {regex}: defined again, category {now} replaces {was}")
        }
    }
}

impl RuleBook {
    /// gpuprism's own rules, `gpuprism/default`. They are compiled once per process, because compiling them takes longer
    /// than most analyses.
    pub fn gpuprism_default() -> Option<&'static RuleSet> {
        static RULES: LazyLock<Option<RuleSet>> =
            LazyLock::new(|| RuleBook::embedded().select("gpuprism", "default").ok());
        RULES.as_ref()
    }

    /// The built-in rule files of `patterns/`: `gpuprism/default` and the rules of gputrc2graph.
    pub fn embedded() -> Self {
        let mut book = Self::default();
        for (file, text) in EMBEDDED {
            // A test checks that each of them parses and compiles.
            for mut set in file::parse(file, text).unwrap_or_default() {
                set.rules.iter_mut().for_each(|rule| rule.is_built_in = true);
                book.merge(file, set);
            }
        }
        book
    }

    /// Merges a rule file and returns the regexes that were already defined.
    ///
    /// The file's rules go before the existing rules of the same engine and model; the module documentation has the details.
    ///
    /// # Errors
    /// Invalid JSON, an unexpected structure, a category that is not a string, or a regex that does not compile. The message
    /// names file, engine, model and rule. The book is unchanged after an error.
    pub fn add(&mut self, file: &str, text: &str) -> Result<Vec<Duplicate>> {
        let sets = file::parse(file, text)?;
        for set in &sets {
            let location = format!("{file}: {} / {}", set.engine, set.model);
            for rule in &set.rules {
                file::compile(&location, rule)?;
            }
        }
        Ok(sets.into_iter().flat_map(|set| self.merge(file, set)).collect())
    }

    /// Engine and model of every rule set, in the order in which they were first added.
    pub fn sets(&self) -> impl Iterator<Item = (&str, &str)> {
        self.sets.iter().map(|set| (set.engine.as_str(), set.model.as_str()))
    }

    /// Compiles the rules of one engine and model.
    ///
    /// # Errors
    /// A usage error that lists the available engines and models, if there is no such set.
    pub fn select(&self, engine: &str, model: &str) -> Result<RuleSet> {
        let Some(set) = self.sets.iter().find(|set| set.engine == engine && set.model == model) else {
            let unknown = if self.sets.iter().any(|set| set.engine == engine) { "model" } else { "engine" };
            let why = format!("unknown {unknown}; available: {}", self.available());
            return Err(Error::usage(format!("{engine}/{model}"), why));
        };
        let location = format!("{engine} / {model}");
        let compiled = |rule: &Rule| Ok((rule.clone(), file::compile(&location, rule)?));
        Ok(RuleSet {
            label: format!("{engine}/{model}"),
            demangled: engine == GPUPRISM_ENGINE,
            rules: set.rules.iter().map(compiled).collect::<Result<_>>()?,
        })
    }

    /// The regex of the rule that decides the category of a kernel. `rules` must be a set that this book selected. `None` if
    /// no rule matches.
    pub fn rule_of(&self, rules: &RuleSet, raw: &str, demangled: &str) -> Option<&str> {
        let set = self.set(&rules.label)?;
        set.rules.get(rules.first_match(raw, demangled)?).map(|rule| rule.regex.as_str())
    }

    /// Returns true if the set `engine/model` has a rule with exactly this regex.
    pub fn has_rule(&self, label: &str, regex: &str) -> bool {
        self.set(label).is_some_and(|set| set.rules.iter().any(|rule| rule.regex == regex))
    }

    fn set(&self, label: &str) -> Option<&ModelRules> {
        self.sets.iter().find(|set| label.strip_prefix(set.engine.as_str()) == Some(&format!("/{}", set.model)))
    }

    /// All sets as text, for example `sglang:[llama, ds], vllm:[llama]`.
    fn available(&self) -> String {
        let mut engines: Vec<(&str, Vec<&str>)> = Vec::new();
        for (engine, model) in self.sets() {
            match engines.iter_mut().find(|(name, _)| *name == engine) {
                Some((_, models)) => models.push(model),
                None => engines.push((engine, vec![model])),
            }
        }
        let listed = engines.iter().map(|(engine, models)| format!("{engine}:[{}]", models.join(", ")));
        listed.collect::<Vec<_>>().join(", ")
    }

    fn merge(&mut self, file: &str, new: ModelRules) -> Vec<Duplicate> {
        let ModelRules { engine, model, rules } = new;
        let mut duplicates = Vec::new();
        let mut report = |regex: &str, was: &str, now: &str| {
            if regex != CATCH_ALL || was != now {
                let [file, engine, model, regex, was, now] =
                    [file, &engine, &model, regex, was, now].map(str::to_owned);
                duplicates.push(Duplicate { file, engine, model, regex, was, now });
            }
        };
        let mut rules = unique(rules, &mut report);
        rules.iter_mut().for_each(|rule| file.clone_into(&mut rule.file));
        match self.sets.iter_mut().find(|set| set.engine == engine && set.model == model) {
            Some(set) => prepend(&mut set.rules, rules, &mut report),
            None => self.sets.push(ModelRules { engine: engine.clone(), model: model.clone(), rules }),
        }
        duplicates
    }
}

/// One rule per regex, with the first position and the last category, as in a Python dict.
fn unique(rules: Vec<Rule>, report: &mut impl FnMut(&str, &str, &str)) -> Vec<Rule> {
    let mut positions = HashMap::new();
    let mut kept: Vec<Rule> = Vec::with_capacity(rules.len());
    for rule in rules {
        let position = *positions.entry(rule.regex.clone()).or_insert(kept.len());
        match kept.get_mut(position) {
            Some(first) => {
                report(&rule.regex, &first.category, &rule.category);
                first.category = rule.category;
            }
            None => kept.push(rule),
        }
    }
    kept
}

/// Puts `new` before `old`, replaces rules that are in both, and keeps a final `.*` of `new` last.
fn prepend(old: &mut Vec<Rule>, mut new: Vec<Rule>, report: &mut impl FnMut(&str, &str, &str)) {
    let new_categories: HashMap<&str, &str> = new.iter().map(|rule| (&*rule.regex, &*rule.category)).collect();
    let mut rest = Vec::new();
    for rule in old.drain(..) {
        match new_categories.get(rule.regex.as_str()) {
            Some(category) => report(&rule.regex, &rule.category, category),
            None => rest.push(rule),
        }
    }
    let catch_all = new.pop_if(|rule| rule.regex == CATCH_ALL);
    old.extend(new.into_iter().chain(rest).chain(catch_all));
}

/// The result of matching one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameMatch<'a> {
    /// The category; `misc` if no rule matches.
    pub category: &'a str,
    /// How reliable the category is.
    pub certainty: Certainty,
    /// The rule is not built in.
    pub is_user_rule: bool,
}

/// How reliable the category of a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certainty {
    /// A rule matches names of this category only.
    Specific,
    /// A rule matches that is marked as generic: the name alone does not decide.
    Generic,
    /// No rule matches, or only the final `.*` with the category `misc`.
    NoMatch,
}

/// The compiled rules of one engine and model. The first rule that matches anywhere in a name decides its category.
#[derive(Debug, Clone)]
pub struct RuleSet {
    label: String,
    demangled: bool,
    rules: Vec<(Rule, Matcher)>,
}

impl RuleSet {
    /// The category of a kernel, `misc` if no rule matches. gpuprism's own rules match the demangled name; all others match
    /// the raw name, as gputrc2graph does.
    ///
    /// Runs one search per rule: call it once per distinct name.
    pub fn category(&self, raw: &str, demangled: &str) -> &str {
        let rule = self.first_match(raw, demangled).and_then(|index| self.rules.get(index));
        rule.map_or(MISC, |(rule, _)| &rule.category)
    }

    /// The category of a kernel and how reliable it is. Costs as much as [`RuleSet::category`].
    pub fn classify(&self, raw: &str, demangled: &str) -> NameMatch<'_> {
        let rule = self.first_match(raw, demangled).and_then(|index| self.rules.get(index)).map(|(rule, _)| rule);
        let Some(rule) = rule else {
            return NameMatch { category: MISC, certainty: Certainty::NoMatch, is_user_rule: false };
        };
        let certainty = match rule {
            Rule { regex, category, .. } if regex == CATCH_ALL && category == MISC => Certainty::NoMatch,
            Rule { is_generic: true, .. } => Certainty::Generic,
            _ => Certainty::Specific,
        };
        NameMatch { category: &rule.category, certainty, is_user_rule: !rule.is_built_in }
    }

    /// True for rules with gpuprism's own categories. Only their categories may be replaced by other evidence.
    pub fn has_own_categories(&self) -> bool {
        self.demangled
    }

    pub(super) fn first_match(&self, raw: &str, demangled: &str) -> Option<usize> {
        let name = Name::new(self.matched_name(raw, demangled));
        self.rules.iter().position(|(_, matcher)| matcher.is_match(&name))
    }

    /// The form of the name that these rules are matched against.
    pub(super) fn matched_name<'a>(&self, raw: &'a str, demangled: &'a str) -> &'a str {
        if self.demangled { demangled } else { raw }
    }

    pub(super) fn compiled(&self) -> impl Iterator<Item = &(Rule, Matcher)> {
        self.rules.iter()
    }

    /// `engine/model`, for example `gpuprism/default`.
    pub fn label(&self) -> &str {
        &self.label
    }

    pub(super) fn engine_and_model(&self) -> (&str, &str) {
        self.label.split_once('/').unwrap_or((&self.label, ""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book(files: &[(&str, &str)]) -> (RuleBook, Vec<Duplicate>) {
        let mut book = RuleBook::default();
        let duplicates = files.iter().flat_map(|(file, text)| book.add(file, text).unwrap()).collect();
        (book, duplicates)
    }

    fn single(text: &str) -> RuleBook {
        book(&[("a.json", text)]).0
    }

    fn category(book: &RuleBook, engine: &str, name: &str) -> String {
        book.select(engine, "m").unwrap().category(name, name).to_owned()
    }

    #[test]
    fn the_first_matching_rule_in_file_order_wins() {
        let book = single(
            r#"{"z": {"m": {"gemm": "first", "fused_gemm": "never"}}, "y": {"m": {"fused_gemm": "first", "gemm": "later"}}}"#,
        );
        assert_eq!(category(&book, "z", "fused_gemm_kernel"), "first");
        assert_eq!(category(&book, "y", "fused_gemm_kernel"), "first");
        assert_eq!(category(&book, "y", "plain_gemm"), "later");
        assert_eq!(book.sets().collect::<Vec<_>>(), [("z", "m"), ("y", "m")]);
    }

    #[test]
    fn a_name_without_a_matching_rule_is_misc_and_any_text_is_a_valid_name() {
        let book = single(r#"{"e": {"m": {"\u6f22+": "han", "b$": "end"}}, "all": {"m": {".*": "rest"}}}"#);
        assert_eq!(category(&book, "e", "x"), "misc");
        assert_eq!(category(&book, "e", "kernel_\u{6f22}\u{6f22}"), "han");
        for name in ["", "\n", "a\nb", "\u{1f600}", "\0"] {
            assert_eq!(category(&book, "all", name), "rest");
        }
    }

    #[test]
    fn rules_of_a_later_file_come_before_rules_of_an_earlier_file() {
        let (book, duplicates) = book(&[
            ("a.json", r#"{"e": {"m": {"norm": "norm", "gemm": "gemm", ".*": "misc"}, "only_a": {".*": "a"}}}"#),
            (
                "b.json",
                r#"{"e": {"m": {"fused_norm": "mine", "gemm": "matmul", ".*": "other"}, "only_b": {".*": "b"}}}"#,
            ),
        ]);
        assert_eq!(book.sets().collect::<Vec<_>>(), [("e", "m"), ("e", "only_a"), ("e", "only_b")]);
        assert_eq!(category(&book, "e", "fused_norm"), "mine");
        assert_eq!(category(&book, "e", "norm"), "norm");
        assert_eq!(category(&book, "e", "norm_gemm"), "matmul");
        assert_eq!(category(&book, "e", "x"), "other");
        let messages: Vec<String> = duplicates.iter().map(ToString::to_string).collect();
        let expected = [
            "b.json: e / m / gemm: defined again, category matmul replaces gemm",
            "b.json: e / m / .*: defined again, category other replaces misc",
        ];
        assert_eq!(messages, expected);
    }

    #[test]
    fn a_repeated_final_catch_all_is_not_reported_as_a_duplicate() {
        let (_, duplicates) = book(&[
            ("a.json", r#"{"e": {"m": {"a": "a", ".*": "misc"}}}"#),
            ("b.json", r#"{"e": {"m": {"b": "b", ".*": "misc"}}}"#),
        ]);
        assert_eq!(duplicates, []);
    }

    #[test]
    fn a_regex_repeated_in_one_file_is_reported_and_takes_the_last_category() {
        let (book, duplicates) =
            book(&[("a.json", r#"{"e": {"m": {"a": "one", "ab": "two", "a": "three"}}, "e": {"n": {"x": "y"}}}"#)]);
        assert_eq!(category(&book, "e", "ab"), "three");
        assert_eq!(duplicates.len(), 1);
        assert_eq!((duplicates[0].was.as_str(), duplicates[0].now.as_str()), ("one", "three"));
        assert_eq!(book.sets().count(), 2);
    }

    #[test]
    fn gpuprism_rules_match_the_demangled_name_and_other_rules_the_raw_name() {
        let book = single(r#"{"gpuprism": {"m": {"a::b": "hit"}}, "sglang": {"m": {"a::b": "hit"}}}"#);
        assert_eq!(book.select("gpuprism", "m").unwrap().category("_ZN1a1bEv", "a::b()"), "hit");
        assert_eq!(book.select("sglang", "m").unwrap().category("_ZN1a1bEv", "a::b()"), "misc");
    }

    #[test]
    fn an_unknown_engine_or_model_is_an_error_that_lists_the_available_ones() {
        let book = single(r#"{"e": {"m": {"a": "b"}, "n": {"a": "b"}}, "f": {"m": {"a": "b"}}}"#);
        let error = book.select("e", "llama").unwrap_err();
        assert!(error.is_usage());
        assert_eq!(error.to_string(), "e/llama: unknown model; available: e:[m, n], f:[m]");
        assert_eq!(book.select("g", "m").unwrap_err().to_string(), "g/m: unknown engine; available: e:[m, n], f:[m]");
    }

    #[test]
    fn an_invalid_file_leaves_the_book_unchanged() {
        let mut book = RuleBook::default();
        book.add("a.json", r#"{"e": {"m": {"a": "one"}}}"#).unwrap();
        let error = book.add("b.json", r#"{"e": {"m": {"a": "two"}, "n": {"(": "x"}}}"#).unwrap_err();
        assert!(
            error.to_string().starts_with("b.json: e / n / (: unusable regex: found open group without closing ')'"),
            "{error}"
        );
        assert_eq!(category(&book, "e", "a"), "one");
        assert_eq!(book.sets().count(), 1);
    }

    #[test]
    fn an_unusable_regex_is_an_error_that_names_the_rule_and_the_reason() {
        let mut book = RuleBook::default();
        for (regex, why) in [("(?=a)", "look-around"), ("a{1000}{1000}", "size limit")] {
            let file = format!(r#"{{"e": {{"m": {{"{regex}": "x"}}}}}}"#);
            let error = book.add("b.json", &file).unwrap_err().to_string();
            assert!(error.starts_with("b.json: e / m / ") && error.contains(why), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn every_embedded_file_compiles_and_ends_with_the_catch_all() {
        let embedded = RuleBook::embedded();
        for (file, text) in EMBEDDED {
            let sets = file::parse(file, text).unwrap();
            RuleBook::default().add(file, text).unwrap();
            for set in sets {
                let last = set.rules.last().unwrap();
                assert_eq!((&*last.regex, &*last.category), (CATCH_ALL, MISC), "{file}: {}", set.model);
                let rules = embedded.select(&set.engine, &set.model).unwrap();
                assert_eq!(rules.label(), format!("{}/{}", set.engine, set.model));
                assert_eq!(rules.category("\n", "\n"), MISC);
            }
        }
        let sets: Vec<String> = embedded.sets().map(|(engine, model)| format!("{engine}/{model}")).collect();
        let expected = "gpuprism/default sglang/llama sglang/ds sglang/gpt-oss sglang/zimage sglang/diffusion vllm/llama vllm/ds vllm/gpt-oss";
        assert_eq!(sets.join(" "), expected);
    }

    // Expected values derived by hand from the rule order that gputrc2graph ships.
    #[test]
    fn embedded_gputrc2graph_rules_keep_the_order_and_gaps_of_the_original() {
        let book = RuleBook::embedded();
        let grouped = "void group_gemm_starts<float>(int)";
        let category = |engine, model, name: &str| book.select(engine, model).unwrap().category(name, name).to_owned();
        assert_eq!(category("sglang", "llama", grouped), "gemm");
        assert_eq!(category("vllm", "llama", grouped), "moe_gemm");
        assert_eq!(category("sglang", "llama", "allreduce_fusion_kernel_oneshot_lamport"), "misc");
        assert_eq!(category("sglang", "llama", "rotary_embedding_kernel"), "misc");
        assert_eq!(category("vllm", "llama", "[CUDA memcpy Host-to-Device]"), "non-gpu-H_D_memops");
        let pageable = "[CUDA memcpy Host-to-Device] (Pageable -> Device)";
        assert_eq!(category("vllm", "llama", pageable), "non-gpu-H_D_memops");
    }
}
