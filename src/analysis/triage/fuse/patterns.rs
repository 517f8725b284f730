//! The schema of `patterns/fuse_patterns.json`, and its needles prepared for search.

use super::super::serving::{Framework, Vendor};
use crate::json::embedded;
use crate::rules::needle::{Haystack, Needle};
use serde::Deserialize;

/// The contents of the file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Patterns {
    /// Description, for readers of the file.
    pub about: String,
    /// The kinds of launches of which chains consist.
    pub kinds: Vec<Kind>,
    /// The patterns in table order.
    pub patterns: Vec<Pattern>,
}

/// A kind of launches.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    /// Name used in chains.
    pub name: String,
    /// A launch is of this kind if any needle matches.
    pub needles: Vec<FieldedNeedle>,
}

/// A known fusion.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pattern {
    /// Unique id.
    pub id: String,
    /// Display name.
    pub name: String,
    /// State of development.
    pub origin: Origin,
    /// Frameworks that have it.
    pub frameworks: Vec<Framework>,
    /// Supported hardware; empty for any.
    #[serde(default)]
    pub hardware: Vec<Vendor>,
    /// Words of models that it supports; empty for all.
    #[serde(default)]
    pub model_include: Vec<String>,
    /// Words of models that it does not support.
    #[serde(default)]
    pub model_exclude: Vec<String>,
    /// Minimum tensor-parallel size.
    #[serde(default = "one")]
    pub min_tp_size: u64,
    /// Token limit of its kernel per step; larger steps run the separate parts.
    #[serde(default)]
    pub max_tokens: Option<u64>,
    /// Words of the names of the devices that it supports; empty for any of the supported hardware.
    #[serde(default)]
    pub devices: Vec<String>,
    /// The largest messages that its kernel takes; larger ones run the separate parts.
    #[serde(default)]
    pub message_limits: Vec<MessageLimit>,
    /// Fewer occurrences of its chains in a stage are ignored.
    #[serde(default = "one")]
    pub min_occurrences: u64,
    /// The fused form runs if any needle matches.
    #[serde(default)]
    pub active: Vec<FieldedNeedle>,
    /// The split forms: kinds of consecutive launches. `a|b` is either kind, `a?` is optional, `a*` is any number up to
    /// eight; a kind in parentheses must be present but would not be fused.
    #[serde(default)]
    pub chains: Vec<Vec<String>>,
    /// Ids of less specific patterns that match the same launches.
    #[serde(default)]
    pub subsumes: Vec<String>,
    /// Locations of its code.
    pub candidate_paths: Vec<String>,
    /// Pull requests.
    #[serde(default)]
    pub prs: Vec<u64>,
    /// Its purpose in one sentence.
    pub note: String,
}

/// The largest message of a kernel on some devices.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageLimit {
    /// Words of the names of the devices.
    pub devices: Vec<String>,
    /// Number of ranks.
    pub ranks: u64,
    /// Size in MiB.
    pub mib: f64,
}

fn one() -> u64 {
    1
}

/// The state of development of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// In the framework, from its own list.
    Mainline,
    /// In the framework; listed as a reference for other frameworks.
    Upstream,
    /// Proposed but not merged.
    InFlight,
    /// A way to do it in any of the frameworks, not a path that one of them has.
    General,
}

/// Words with the fields in which they are searched. All given fields must match.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldedNeedle {
    /// Words in the kernel's demangled name.
    pub kernel: Option<String>,
    /// Words in the CPU op's name.
    pub op: Option<String>,
    /// The whole name of a function on the stack; underscores and case are ignored.
    pub function: Option<String>,
    /// The category that gpuprism's own rules give the kernel.
    pub category: Option<String>,
    /// Further words that must occur in the kernel name.
    #[serde(default)]
    pub with: Vec<String>,
    /// Words that must not occur in the kernel name.
    #[serde(default)]
    pub without: Vec<String>,
}

impl Patterns {
    /// The embedded patterns.
    pub fn embedded() -> Self {
        embedded(serde_json::from_str(include_str!("../../../../patterns/fuse_patterns.json")))
    }
}

#[derive(Debug, Clone)]
pub(super) struct Test {
    kernel: Vec<Needle>,
    without: Vec<Needle>,
    category: Option<String>,
    op: Option<Needle>,
    function: Option<Needle>,
    /// True if the kernel name is part of the condition.
    pub(super) names_kernel: bool,
}

impl Test {
    pub(super) fn new(needle: &FieldedNeedle) -> Self {
        let words = |texts: &[String]| texts.iter().filter_map(|text| Needle::new(text)).collect();
        let mut kernel: Vec<Needle> = words(&needle.with);
        kernel.extend(needle.kernel.as_deref().and_then(Needle::new));
        Self {
            kernel,
            without: words(&needle.without),
            category: needle.category.clone(),
            op: needle.op.as_deref().and_then(Needle::new),
            function: needle.function.as_deref().and_then(Needle::new),
            names_kernel: needle.kernel.is_some(),
        }
    }

    /// True if the kernel name and category match.
    pub(super) fn matches_kernel(&self, name: &Haystack, category: &str) -> bool {
        self.category.as_deref().is_none_or(|wanted| wanted == category)
            && self.kernel.iter().all(|needle| needle.is_in(name))
            && !self.without.iter().any(|needle| needle.is_in(name))
    }

    /// True if the CPU op and the functions of a call site match.
    pub(super) fn matches_site(&self, op: &Haystack, functions: &[Needle]) -> bool {
        self.op.as_ref().is_none_or(|needle| needle.is_in(op))
            && self.function.as_ref().is_none_or(|wanted| functions.contains(wanted))
    }
}

/// A sequence of kinds of launches.
#[derive(Debug, Clone)]
pub(super) struct Chain {
    pub(super) pattern: usize,
    pub(super) links: Vec<Link>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Link {
    /// Bit mask of the accepted kinds.
    pub(super) kinds: u128,
    /// True if the launch must be present but would not be fused.
    pub(super) is_context: bool,
    pub(super) repeat: Repeat,
}

/// How many launches a link stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    One,
    /// None or one.
    Optional,
    /// From none to eight.
    Many,
}

impl Repeat {
    pub(super) fn max(self) -> usize {
        match self {
            Self::One | Self::Optional => 1,
            Self::Many => 8,
        }
    }
}

/// The patterns that are searched in a trace, with all their tests.
pub(super) struct SearchPlan {
    /// The tests of all kinds and active needles.
    pub(super) tests: Vec<Test>,
    /// Test indices of every kind; the index of the kind is its bit.
    pub(super) kinds: Vec<Vec<usize>>,
    /// Bit mask of the kind that may lie between the links of a chain.
    pub(super) filler: u128,
    /// Index of the pattern and of the test, for each needle of an active form.
    pub(super) active: Vec<(usize, usize)>,
    pub(super) chains: Vec<Chain>,
    /// [`Pattern::min_occurrences`] of every pattern.
    min_occurrences: Vec<u64>,
}

/// Name of the kind that may lie between two links.
const FILLER: &str = "filler";

impl SearchPlan {
    /// Selects the patterns whose active form and split form are searched.
    pub(super) fn new(all: &Patterns, active: &dyn Fn(&Pattern) -> bool, split: &dyn Fn(&Pattern) -> bool) -> Self {
        let mut plan = Self {
            tests: Vec::new(),
            kinds: Vec::new(),
            filler: 0,
            active: Vec::new(),
            chains: Vec::new(),
            min_occurrences: Vec::new(),
        };
        plan.min_occurrences = all.patterns.iter().map(|pattern| pattern.min_occurrences).collect();
        for (index, kind) in all.kinds.iter().enumerate() {
            let first = plan.tests.len();
            plan.tests.extend(kind.needles.iter().map(Test::new));
            plan.kinds.push((first..plan.tests.len()).collect());
            if kind.name == FILLER {
                plan.filler = bit(index);
            }
        }
        for (index, pattern) in all.patterns.iter().enumerate() {
            if active(pattern) {
                let first = plan.tests.len();
                plan.tests.extend(pattern.active.iter().map(Test::new));
                plan.active.extend((first..plan.tests.len()).map(|test| (index, test)));
            }
            if split(pattern) {
                let chains = pattern.chains.iter().filter_map(|chain| parse_links(chain, &all.kinds));
                plan.chains.extend(chains.map(|links| Chain { pattern: index, links }));
            }
        }
        plan
    }

    /// The smallest number of chains of this pattern that counts.
    pub(super) fn min_occurrences(&self, pattern: usize) -> u64 {
        self.min_occurrences.get(pattern).copied().unwrap_or(1)
    }
}

fn bit(index: usize) -> u128 {
    u32::try_from(index).ok().and_then(|index| 1_u128.checked_shl(index)).unwrap_or(0)
}

/// Parses a chain; `None` if it is empty, has an unknown kind, or does not have to start with its first kind.
fn parse_links(chain: &[String], kinds: &[Kind]) -> Option<Vec<Link>> {
    let link = |text: &String| {
        let (text, repeat) = match (text.strip_suffix('?'), text.strip_suffix('*')) {
            (Some(text), _) => (text, Repeat::Optional),
            (_, Some(text)) => (text, Repeat::Many),
            _ => (text.as_str(), Repeat::One),
        };
        let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
        let mut mask = 0;
        for name in inner.unwrap_or(text).split('|') {
            mask |= bit(kinds.iter().position(|kind| kind.name == name)?);
        }
        (mask != 0).then_some(Link { kinds: mask, is_context: inner.is_some(), repeat })
    };
    let links: Vec<Link> = chain.iter().map(link).collect::<Option<_>>()?;
    links.first().is_some_and(|first| first.repeat == Repeat::One).then_some(links)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words that are too short or too common to identify a kernel.
    const RISKY: [&str; 28] = [
        "ada", "add", "cat", "fmha", "fp4", "fp8", "gate", "gelu", "gemm", "k_pe", "kv", "mla", "moe", "mul", "mxfp",
        "pack", "rope", "sfc", "silu", "tanh", "top_k", "top_p", "topk", "topp", "v", "wk", "quant", "cache",
    ];

    #[test]
    fn the_file_has_distinct_patterns_with_needles_or_chains() {
        let Patterns { kinds, patterns, .. } = Patterns::embedded();
        // 47 are from the list of the original tool.
        assert_eq!(patterns.len(), 58);
        assert!(kinds.len() <= 128 && kinds.iter().any(|kind| kind.name == FILLER), "{} kinds", kinds.len());
        for (index, pattern) in patterns.iter().enumerate() {
            let id = &pattern.id;
            assert!(!patterns[..index].iter().any(|other| other.id == *id || other.name == pattern.name), "{id}");
            assert!(!pattern.active.is_empty() || pattern.origin == Origin::General, "{id}: no active needle");
            assert!(!pattern.note.is_empty(), "{id}");
            assert!(!pattern.candidate_paths.is_empty() || pattern.origin == Origin::General, "{id}");
            assert_eq!(pattern.origin == Origin::InFlight, pattern.name.starts_with("PR #"), "{id}");
            for chain in &pattern.chains {
                let links = parse_links(chain, &kinds).unwrap_or_else(|| panic!("{id}: {chain:?}"));
                assert!(links.iter().any(|link| !link.is_context), "{id}: {chain:?} would fuse nothing");
            }
            for general in &pattern.subsumes {
                assert!(patterns.iter().any(|other| other.id == *general && general != id), "{id}: {general}");
            }
        }
    }

    #[test]
    fn every_needle_has_words_in_a_known_field() {
        let categories: serde_json::Value =
            serde_json::from_str(include_str!("../../../../patterns/gpuprism_engine_model.json")).unwrap();
        let categories = categories.to_string();
        let Patterns { kinds, patterns, .. } = Patterns::embedded();
        let active = patterns.iter().flat_map(|pattern| &pattern.active);
        for needle in kinds.iter().flat_map(|kind| &kind.needles).chain(active) {
            let fields = [&needle.kernel, &needle.op, &needle.function];
            let texts = fields.into_iter().flatten().chain(&needle.with).chain(&needle.without);
            assert!(texts.clone().all(|text| Needle::new(text).is_some()), "{needle:?}");
            assert!(fields.iter().any(|field| field.is_some()) || needle.category.is_some(), "{needle:?}");
            if let Some(category) = &needle.category {
                assert!(categories.contains(&format!("\"{category}\"")), "{category}");
            }
        }
    }

    #[test]
    fn no_active_needle_consists_of_a_risky_word_alone() {
        for pattern in Patterns::embedded().patterns {
            for needle in &pattern.active {
                let fields = [&needle.kernel, &needle.op, &needle.function];
                let texts: Vec<_> = fields.into_iter().flatten().chain(&needle.with).collect();
                assert!(texts.iter().any(|text| !RISKY.contains(&text.as_str())), "{}: {needle:?}", pattern.id);
            }
        }
    }

    #[test]
    fn candidate_paths_belong_to_the_frameworks_of_their_pattern() {
        let home = |path: &str| {
            let roots = [
                ("tokenspeed", Framework::TokenSpeed),
                ("vllm/", Framework::Vllm),
                ("tensorrt_llm/", Framework::TrtLlm),
                ("python/sglang/", Framework::Sglang),
                ("sgl-kernel/", Framework::Sglang),
            ];
            roots.into_iter().find(|(root, _)| path.contains(root)).map(|(_, framework)| framework)
        };
        for pattern in Patterns::embedded().patterns {
            for path in pattern.candidate_paths.iter().filter(|path| !path.starts_with("PR #")) {
                let home = home(path).unwrap_or_else(|| panic!("{path}"));
                assert!(pattern.frameworks.contains(&home), "{}: {path}", pattern.id);
            }
        }
    }
}
