//! The rule book: all rule files merged, ready to pick one engine's rules for one model.

use std::fmt;
use std::sync::LazyLock;

use super::file::{self, ModelRules, Rule};
use super::matcher::{Matcher, Name};
use crate::{Error, Result};

/// The engine of the project's own rules; they are written for demangled names.
const OWN_ENGINE: &str = "gpuprism";

/// By convention the last rule of every list, so that each name finds a category.
pub(super) const CATCH_ALL: &str = ".*";

/// What a name is called that no rule hits.
pub(crate) const MISC: &str = "misc";

const EMBEDDED: [(&str, &str); 3] = [
    ("gpuprism_engine_model.json", include_str!("../../patterns/gpuprism_engine_model.json")),
    ("sglang_engine_model.json", include_str!("../../patterns/sglang_engine_model.json")),
    ("vllm_engine_model.json", include_str!("../../patterns/vllm_engine_model.json")),
];

/// Every known rule set, by engine and model.
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
    sets: Vec<BookSet>,
}

#[derive(Debug, Clone)]
struct BookSet {
    engine: String,
    model: String,
    rules: Vec<Rule>,
}

/// A regex that was given twice for the same engine and model; the later category holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Duplicate {
    /// The file that gave it again.
    pub file: String,
    /// The engine.
    pub engine: String,
    /// The model.
    pub model: String,
    /// The rule's regex.
    pub regex: String,
    /// The category before.
    pub was: String,
    /// The category from now on.
    pub now: String,
}

impl fmt::Display for Duplicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, engine, model, regex, was, now } = self;
        if was == now {
            write!(f, "{file}: {engine} / {model} / {regex}: given again with the same category, {now}")
        } else {
            write!(f, "{file}: {engine} / {model} / {regex}: given again, now {now} instead of {was}")
        }
    }
}

impl RuleBook {
    /// gpuprism's own rules; compiled once, as that takes longer than most of an analysis.
    pub fn own() -> Option<&'static RuleSet> {
        static OWN: LazyLock<Option<RuleSet>> =
            LazyLock::new(|| RuleBook::embedded().select("gpuprism", "default").ok());
        OWN.as_ref()
    }

    /// The rule files of `patterns/`, built in: `gpuprism/default` and those of gputrc2graph.
    pub fn embedded() -> Self {
        let mut book = Self::default();
        for (file, text) in EMBEDDED {
            // A test holds that each of them parses and compiles.
            for set in file::parse(file, text).unwrap_or_default() {
                book.merge(file, set);
            }
        }
        book
    }

    /// Merges a rule file deeply and says which regexes were known before.
    ///
    /// The file's rules stand before those that its engine and model already have, and a regex given again takes its new
    /// place and category. Only a closing `.*` goes to the very end, or it would hide all earlier rules.
    ///
    /// # Errors
    /// Invalid JSON, another shape, a category that is not a string, a regex that does not compile: all named by file, engine,
    /// model and rule. The book is unchanged then.
    pub fn add(&mut self, file: &str, text: &str) -> Result<Vec<Duplicate>> {
        let sets = file::parse(file, text)?;
        for set in &sets {
            let place = format!("{file}: {} / {}", set.engine, set.model);
            for rule in &set.rules {
                file::compile(&place, rule)?;
            }
        }
        Ok(sets.into_iter().flat_map(|set| self.merge(file, set)).collect())
    }

    /// Engine and model of every rule set, in the order in which they were first met.
    pub fn sets(&self) -> impl Iterator<Item = (&str, &str)> {
        self.sets.iter().map(|set| (set.engine.as_str(), set.model.as_str()))
    }

    /// Compiles the rules of one engine and model.
    ///
    /// # Errors
    /// A usage error that names the known engines and models.
    pub fn select(&self, engine: &str, model: &str) -> Result<RuleSet> {
        let Some(set) = self.sets.iter().find(|set| set.engine == engine && set.model == model) else {
            let what = if self.sets.iter().any(|set| set.engine == engine) { "model" } else { "engine" };
            return Err(Error::usage(
                format!("{engine}/{model}"),
                format!("unknown {what}; known are {}", self.known()),
            ));
        };
        let place = format!("{engine} / {model}");
        let compiled = |rule: &Rule| Ok((rule.clone(), file::compile(&place, rule)?));
        Ok(RuleSet {
            label: format!("{engine}/{model}"),
            demangled: engine == OWN_ENGINE,
            rules: set.rules.iter().map(compiled).collect::<Result<_>>()?,
        })
    }

    /// The regex of the rule that gives a kernel its category under a set that this book selected; `None` where no rule does.
    pub fn rule_of(&self, rules: &RuleSet, raw: &str, demangled: &str) -> Option<&str> {
        let set = self.set(&rules.label)?;
        set.rules.get(rules.hit(raw, demangled)?).map(|rule| rule.regex.as_str())
    }

    /// Has the set `engine/model` a rule of this regex?
    pub fn has_rule(&self, label: &str, regex: &str) -> bool {
        self.set(label).is_some_and(|set| set.rules.iter().any(|rule| rule.regex == regex))
    }

    fn set(&self, label: &str) -> Option<&BookSet> {
        self.sets.iter().find(|set| label.strip_prefix(set.engine.as_str()) == Some(&format!("/{}", set.model)))
    }

    fn known(&self) -> String {
        let mut engines: Vec<(&str, Vec<&str>)> = Vec::new();
        for (engine, model) in self.sets() {
            match engines.iter_mut().find(|(known, _)| *known == engine) {
                Some((_, models)) => models.push(model),
                None => engines.push((engine, vec![model])),
            }
        }
        let listed: Vec<String> =
            engines.iter().map(|(engine, models)| format!("{engine}:[{}]", models.join(", "))).collect();
        listed.join(", ")
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
            Some(set) => put_before(&mut set.rules, rules, &mut report),
            None => {
                rules.shrink_to_fit();
                self.sets.push(BookSet { engine: engine.clone(), model: model.clone(), rules });
            }
        }
        duplicates
    }
}

/// One rule a regex: as in a Python dict, the first place and the last category.
fn unique(rules: Vec<Rule>, report: &mut impl FnMut(&str, &str, &str)) -> Vec<Rule> {
    let mut places = std::collections::HashMap::new();
    let mut kept: Vec<Rule> = Vec::with_capacity(rules.len());
    for rule in rules {
        let place = *places.entry(rule.regex.clone()).or_insert(kept.len());
        match kept.get_mut(place) {
            Some(known) => {
                report(&rule.regex, &known.category, &rule.category);
                known.category = rule.category;
            }
            None => kept.push(rule),
        }
    }
    kept
}

fn put_before(old: &mut Vec<Rule>, mut new: Vec<Rule>, report: &mut impl FnMut(&str, &str, &str)) {
    let now: std::collections::HashMap<&str, &str> =
        new.iter().map(|rule| (rule.regex.as_str(), rule.category.as_str())).collect();
    let mut rest = Vec::new();
    for rule in old.drain(..) {
        match now.get(rule.regex.as_str()) {
            Some(category) => report(&rule.regex, &rule.category, category),
            None => rest.push(rule),
        }
    }
    let catch_all = new.pop_if(|rule| rule.regex == CATCH_ALL);
    old.extend(new.into_iter().chain(rest).chain(catch_all));
}

/// The rules of one engine and model, compiled: the first that is found anywhere in a name gives its category.
#[derive(Debug, Clone)]
pub struct RuleSet {
    label: String,
    demangled: bool,
    rules: Vec<(Rule, Matcher)>,
}

impl RuleSet {
    /// The category of a kernel. The project's own rules look at the demangled name, all others at the raw one, as
    /// gputrc2graph does. A name that no rule hits is `misc`.
    ///
    /// Costs a search per rule: ask once for each distinct name.
    pub fn category(&self, raw: &str, demangled: &str) -> &str {
        let rule = self.hit(raw, demangled).and_then(|place| self.rules.get(place));
        rule.map_or(MISC, |(rule, _)| &rule.category)
    }

    /// The place of the first rule that is found in the name.
    fn hit(&self, raw: &str, demangled: &str) -> Option<usize> {
        let name = Name::new(self.side(raw, demangled));
        self.rules.iter().position(|(_, matcher)| matcher.is_match(&name))
    }

    /// The form of a name that these rules look at.
    pub(super) fn side<'a>(&self, raw: &'a str, demangled: &'a str) -> &'a str {
        if self.demangled { demangled } else { raw }
    }

    /// Every rule in the order in which they are tried.
    pub(super) fn compiled(&self) -> impl Iterator<Item = &(Rule, Matcher)> {
        self.rules.iter()
    }

    /// `engine/model`, for example `gpuprism/default`.
    pub fn label(&self) -> &str {
        &self.label
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

    fn category(book: &RuleBook, engine: &str, name: &str) -> String {
        book.select(engine, "m").unwrap().category(name, name).to_owned()
    }

    #[test]
    fn the_first_rule_in_the_order_of_the_file_wins() {
        let (book, _) = book(&[(
            "a.json",
            r#"{"z": {"m": {"gemm": "first", "fused_gemm": "never", ".*": "misc"}}, "y": {"m": {"fused_gemm": "first", "gemm": "later"}}}"#,
        )]);
        assert_eq!(category(&book, "z", "fused_gemm_kernel"), "first");
        assert_eq!(category(&book, "y", "fused_gemm_kernel"), "first");
        assert_eq!(category(&book, "y", "plain_gemm"), "later");
        assert_eq!(book.sets().collect::<Vec<_>>(), [("z", "m"), ("y", "m")]);
    }

    #[test]
    fn a_name_that_no_rule_hits_is_misc_and_any_text_is_a_name() {
        let (book, _) =
            book(&[("a.json", r#"{"e": {"m": {"\u6f22+": "han", "b$": "end"}}, "all": {"m": {".*": "rest"}}}"#)]);
        assert_eq!(category(&book, "e", "x"), "misc");
        assert_eq!(category(&book, "e", "kernel_\u{6f22}\u{6f22}"), "han");
        for name in ["", "\n", "a\nb", "\u{1f600}", "\0"] {
            assert_eq!(category(&book, "all", name), "rest");
        }
    }

    #[test]
    fn two_files_of_one_engine_are_merged_and_the_later_one_stands_in_front() {
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
        let said: Vec<String> = duplicates.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "b.json: e / m / gemm: given again, now matmul instead of gemm",
                "b.json: e / m / .*: given again, now other instead of misc"
            ]
        );
    }

    #[test]
    fn the_closing_catch_all_that_every_file_has_is_no_duplicate() {
        let (_, duplicates) = book(&[
            ("a.json", r#"{"e": {"m": {"a": "a", ".*": "misc"}}}"#),
            ("b.json", r#"{"e": {"m": {"b": "b", ".*": "misc"}}}"#),
        ]);
        assert_eq!(duplicates, []);
    }

    #[test]
    fn a_key_given_twice_in_one_file_is_reported_and_takes_the_last_value() {
        let (book, duplicates) =
            book(&[("a.json", r#"{"e": {"m": {"a": "one", "ab": "two", "a": "three"}}, "e": {"n": {"x": "y"}}}"#)]);
        assert_eq!(category(&book, "e", "ab"), "three");
        assert_eq!(duplicates.len(), 1);
        assert_eq!((duplicates[0].was.as_str(), duplicates[0].now.as_str()), ("one", "three"));
        assert_eq!(book.sets().count(), 2);
    }

    #[test]
    fn own_rules_look_at_the_demangled_name_and_all_others_at_the_raw_one() {
        let (book, _) =
            book(&[("a.json", r#"{"gpuprism": {"m": {"a::b": "hit"}}, "sglang": {"m": {"a::b": "hit"}}}"#)]);
        assert_eq!(book.select("gpuprism", "m").unwrap().category("_ZN1a1bEv", "a::b()"), "hit");
        assert_eq!(book.select("sglang", "m").unwrap().category("_ZN1a1bEv", "a::b()"), "misc");
    }

    #[test]
    fn an_unknown_engine_or_model_is_answered_with_the_known_ones() {
        let (book, _) = book(&[("a.json", r#"{"e": {"m": {"a": "b"}, "n": {"a": "b"}}, "f": {"m": {"a": "b"}}}"#)]);
        let error = book.select("e", "llama").unwrap_err();
        assert!(error.is_usage());
        assert_eq!(error.to_string(), "e/llama: unknown model; known are e:[m, n], f:[m]");
        assert_eq!(book.select("g", "m").unwrap_err().to_string(), "g/m: unknown engine; known are e:[m, n], f:[m]");
    }

    #[test]
    fn a_refused_file_leaves_the_book_as_it_was() {
        let mut book = RuleBook::default();
        book.add("a.json", r#"{"e": {"m": {"a": "one"}}}"#).unwrap();
        let error = book.add("b.json", r#"{"e": {"m": {"a": "two"}, "n": {"(": "x"}}}"#).unwrap_err();
        assert!(
            error.to_string().starts_with("b.json: e / n / (: not a regex that can be used: unclosed group"),
            "{error}"
        );
        assert_eq!(category(&book, "e", "a"), "one");
        assert_eq!(book.sets().count(), 1);
    }

    #[test]
    fn a_regex_too_large_or_with_look_around_is_named() {
        let mut book = RuleBook::default();
        for (regex, why) in [("(?=a)", "look-around"), ("a{1000}{1000}", "size limit")] {
            let error =
                book.add("b.json", &format!(r#"{{"e": {{"m": {{"{regex}": "x"}}}}}}"#)).unwrap_err().to_string();
            assert!(error.starts_with("b.json: e / m / ") && error.contains(why), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn every_embedded_file_can_be_loaded_and_ends_with_the_catch_all() {
        let embedded = RuleBook::embedded();
        for (file, text) in EMBEDDED {
            let sets = file::parse(file, text).unwrap();
            RuleBook::default().add(file, text).unwrap();
            for set in sets {
                assert_eq!(
                    set.rules.last().unwrap(),
                    &Rule { regex: CATCH_ALL.into(), category: MISC.into(), file: String::new() },
                    "{file}: {}",
                    set.model
                );
                let rules = embedded.select(&set.engine, &set.model).unwrap();
                assert_eq!(rules.label(), format!("{}/{}", set.engine, set.model));
                assert_eq!(rules.category("\n", "\n"), MISC);
            }
        }
        let sets: Vec<String> = embedded.sets().map(|(engine, model)| format!("{engine}/{model}")).collect();
        let expected = "gpuprism/default sglang/llama sglang/ds sglang/gpt-oss sglang/zimage sglang/diffusion vllm/llama vllm/ds vllm/gpt-oss";
        assert_eq!(sets.join(" "), expected);
    }

    // Hand-worked from the order of the rules that gputrc2graph ships.
    #[test]
    fn the_rules_of_gputrc2graph_keep_their_surprises() {
        let book = RuleBook::embedded();
        let grouped = "void group_gemm_starts<float>(int)";
        let ask = |engine, model, name: &str| book.select(engine, model).unwrap().category(name, name).to_owned();
        assert_eq!(ask("sglang", "llama", grouped), "gemm");
        assert_eq!(ask("vllm", "llama", grouped), "moe_gemm");
        assert_eq!(ask("sglang", "llama", "allreduce_fusion_kernel_oneshot_lamport"), "misc");
        assert_eq!(ask("sglang", "llama", "rotary_embedding_kernel"), "misc");
        assert_eq!(ask("vllm", "llama", "[CUDA memcpy Host-to-Device]"), "non-gpu-H_D_memops");
    }
}
