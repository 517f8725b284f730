//! The patterns as data: `patterns/fuse_patterns.json`, and its needles made ready to be looked for.

use super::super::serving::{Framework, Vendor};
use crate::rules::needle::{Haystack, Needle};
use serde::Deserialize;

/// The file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Patterns {
    /// What the file is, for people.
    pub about: String,
    /// Kinds of launches; chains are made of them.
    pub kinds: Vec<Kind>,
    /// The patterns in their order.
    pub patterns: Vec<Pattern>,
}

/// Launches that do the same.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    /// As chains call it.
    pub name: String,
    /// Any of them tells a launch of this kind.
    pub needles: Vec<FieldedNeedle>,
}

/// A known fusion.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pattern {
    /// Its key.
    pub id: String,
    /// For people.
    pub name: String,
    /// How far it is.
    pub origin: Origin,
    /// Who has it: `sglang`, `vllm`, `trtllm`, `tokenspeed`.
    pub frameworks: Vec<String>,
    /// On which hardware it runs; empty where it does not matter.
    #[serde(default)]
    pub hardware: Vec<Vendor>,
    /// Words of models that it is for; empty for all.
    #[serde(default)]
    pub model_include: Vec<String>,
    /// Words of models that it is not for.
    #[serde(default)]
    pub model_exclude: Vec<String>,
    /// The smallest tensor-parallel group that it is for.
    #[serde(default = "one")]
    pub min_tp_size: u64,
    /// The most tokens of a step that its kernel takes; more run the parts.
    #[serde(default)]
    pub max_tokens: Option<u64>,
    /// Any of them tells that the fused form runs.
    #[serde(default)]
    pub active: Vec<FieldedNeedle>,
    /// The forms that it has when split: kinds of launches that follow one another. `a|b` is one or the other; a kind in
    /// parentheses must be there but is not part of what would be fused.
    #[serde(default)]
    pub chains: Vec<Vec<String>>,
    /// Ids of patterns that say less of the same launches.
    #[serde(default)]
    pub subsumes: Vec<String>,
    /// Where its code is.
    pub candidate_paths: Vec<String>,
    /// Numbers of pull requests.
    #[serde(default)]
    pub prs: Vec<u64>,
    /// What it does, a sentence.
    pub note: String,
}

fn one() -> u64 {
    1
}

/// How far a pattern is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// In the framework, as first listed for it.
    Mainline,
    /// In the framework; listed because other frameworks learn from it.
    Upstream,
    /// Proposed, not merged.
    InFlight,
}

/// Words and the field that they are looked for in. All fields that are given must hold.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldedNeedle {
    /// Words in the kernel's demangled name.
    pub kernel: Option<String>,
    /// Words in the CPU op's name.
    pub op: Option<String>,
    /// The whole name of a function on the stack, but for underscores and case.
    pub function: Option<String>,
    /// The category that gpuprism's own rules give the kernel.
    pub category: Option<String>,
    /// Further words that the kernel's name must hold.
    #[serde(default)]
    pub with: Vec<String>,
    /// Words that the kernel's name must not hold.
    #[serde(default)]
    pub without: Vec<String>,
}

impl Patterns {
    /// The file that is part of the program. A test holds that it parses.
    pub fn embedded() -> Self {
        serde_json::from_str(include_str!("../../../../patterns/fuse_patterns.json")).unwrap_or_default()
    }
}

impl Pattern {
    /// Does this framework have it?
    pub fn is_of(&self, framework: Framework) -> bool {
        let key = match framework {
            Framework::Sglang => "sglang",
            Framework::Vllm => "vllm",
            Framework::TrtLlm => "trtllm",
            Framework::TokenSpeed => "tokenspeed",
            Framework::Plain => return false,
        };
        self.frameworks.iter().any(|framework| framework == key)
    }
}

/// A needle made ready.
#[derive(Debug, Clone)]
pub(super) struct Test {
    kernel: Vec<Needle>,
    without: Vec<Needle>,
    category: Option<String>,
    op: Option<Needle>,
    function: Option<Needle>,
    /// True where the kernel's own name is part of the proof.
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

    /// What it says of a kernel's name and category.
    pub(super) fn holds_for_kernel(&self, name: &Haystack, category: &str) -> bool {
        self.category.as_deref().is_none_or(|wanted| wanted == category)
            && self.kernel.iter().all(|needle| needle.is_in(name))
            && !self.without.iter().any(|needle| needle.is_in(name))
    }

    /// What it says of a place in the code.
    pub(super) fn holds_for_site(&self, op: &Haystack, functions: &[Needle]) -> bool {
        self.op.as_ref().is_none_or(|needle| needle.is_in(op))
            && self.function.as_ref().is_none_or(|wanted| functions.contains(wanted))
    }
}

/// What follows what.
#[derive(Debug, Clone)]
pub(super) struct Chain {
    /// Place of the pattern.
    pub(super) pattern: usize,
    pub(super) links: Vec<Link>,
}

/// One place of a chain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link {
    /// The kinds that may stand here, a bit each.
    pub(super) kinds: u64,
    /// True for what must be there but would not be fused.
    pub(super) is_context: bool,
}

/// The patterns that are sought in one trace, and all that is looked for.
pub(super) struct Sought {
    pub(super) tests: Vec<Test>,
    /// The tests of every kind; its place is the kind's bit.
    pub(super) kinds: Vec<Vec<usize>>,
    /// The bit of what may stand between the links of a chain.
    pub(super) filler: u64,
    /// The tests that tell that a pattern is active: place of the pattern and of the test.
    pub(super) active: Vec<(usize, usize)>,
    pub(super) chains: Vec<Chain>,
}

/// The kind of launches that may stand between two links.
const FILLER: &str = "filler";

impl Sought {
    /// Of the patterns, those for which `active` and `split` hold.
    pub(super) fn new(all: &Patterns, active: &dyn Fn(&Pattern) -> bool, split: &dyn Fn(&Pattern) -> bool) -> Self {
        let mut sought =
            Self { tests: Vec::new(), kinds: Vec::new(), filler: 0, active: Vec::new(), chains: Vec::new() };
        for (place, kind) in all.kinds.iter().enumerate() {
            let first = sought.tests.len();
            sought.tests.extend(kind.needles.iter().map(Test::new));
            sought.kinds.push((first..sought.tests.len()).collect());
            if kind.name == FILLER {
                sought.filler = bit(place);
            }
        }
        for (place, pattern) in all.patterns.iter().enumerate() {
            if active(pattern) {
                let first = sought.tests.len();
                sought.tests.extend(pattern.active.iter().map(Test::new));
                sought.active.extend((first..sought.tests.len()).map(|test| (place, test)));
            }
            if split(pattern) {
                let chains = pattern.chains.iter().filter_map(|chain| links(chain, &all.kinds));
                sought.chains.extend(chains.map(|links| Chain { pattern: place, links }));
            }
        }
        sought
    }
}

fn bit(place: usize) -> u64 {
    u32::try_from(place).ok().and_then(|place| 1_u64.checked_shl(place)).unwrap_or(0)
}

/// `None` where a kind is not known or there is nothing.
fn links(chain: &[String], kinds: &[Kind]) -> Option<Vec<Link>> {
    let link = |text: &String| {
        let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
        let mut mask = 0;
        for name in inner.unwrap_or(text).split('|') {
            mask |= bit(kinds.iter().position(|kind| kind.name == name)?);
        }
        (mask != 0).then_some(Link { kinds: mask, is_context: inner.is_some() })
    };
    let links: Vec<Link> = chain.iter().map(link).collect::<Option<_>>()?;
    (!links.is_empty()).then_some(links)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words so short or common that they say nothing of a kernel by themselves.
    const RISKY: [&str; 28] = [
        "ada", "add", "cat", "fmha", "fp4", "fp8", "gate", "gelu", "gemm", "k_pe", "kv", "mla", "moe", "mul", "mxfp",
        "pack", "rope", "sfc", "silu", "tanh", "top_k", "top_p", "topk", "topp", "v", "wk", "quant", "cache",
    ];

    fn patterns() -> Patterns {
        serde_json::from_str(include_str!("../../../../patterns/fuse_patterns.json")).unwrap()
    }

    #[test]
    fn the_file_holds_47_distinct_patterns_each_with_something_to_look_for() {
        let Patterns { kinds, patterns, .. } = patterns();
        assert_eq!(patterns.len(), 47);
        assert!(kinds.len() <= 64 && kinds.iter().any(|kind| kind.name == FILLER), "{} kinds", kinds.len());
        for (at, pattern) in patterns.iter().enumerate() {
            let id = &pattern.id;
            assert!(!patterns[..at].iter().any(|other| other.id == *id || other.name == pattern.name), "{id}");
            assert!(!pattern.active.is_empty(), "{id}: nothing tells that it is active");
            assert!(!pattern.note.is_empty() && !pattern.candidate_paths.is_empty(), "{id}");
            assert_eq!(pattern.origin == Origin::InFlight, pattern.name.starts_with("PR #"), "{id}");
            for chain in &pattern.chains {
                let links = links(chain, &kinds).unwrap_or_else(|| panic!("{id}: {chain:?}"));
                assert!(links.iter().any(|link| !link.is_context), "{id}: {chain:?} would fuse nothing");
            }
            for less in &pattern.subsumes {
                assert!(patterns.iter().any(|other| other.id == *less && less != id), "{id}: {less}");
            }
        }
    }

    #[test]
    fn every_needle_holds_words_in_a_known_field() {
        let categories: serde_json::Value =
            serde_json::from_str(include_str!("../../../../patterns/gpuprism_engine_model.json")).unwrap();
        let categories = categories.to_string();
        let Patterns { kinds, patterns, .. } = patterns();
        let of_patterns = patterns.iter().flat_map(|pattern| &pattern.active);
        for needle in kinds.iter().flat_map(|kind| &kind.needles).chain(of_patterns) {
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
    fn no_risky_word_alone_tells_that_a_pattern_is_active() {
        for pattern in patterns().patterns {
            for needle in &pattern.active {
                let fields = [&needle.kernel, &needle.op, &needle.function];
                let texts: Vec<_> = fields.into_iter().flatten().chain(&needle.with).collect();
                assert!(texts.iter().any(|text| !RISKY.contains(&text.as_str())), "{}: {needle:?}", pattern.id);
            }
        }
    }

    #[test]
    fn candidate_paths_lie_in_the_frameworks_of_their_pattern() {
        let home = |path: &str| {
            let roots = [
                ("tokenspeed", "tokenspeed"),
                ("vllm/", "vllm"),
                ("tensorrt_llm/", "trtllm"),
                ("python/sglang/", "sglang"),
                ("sgl-kernel/", "sglang"),
            ];
            roots.into_iter().find(|(root, _)| path.contains(root)).map(|(_, framework)| framework)
        };
        for pattern in patterns().patterns {
            for path in pattern.candidate_paths.iter().filter(|path| !path.starts_with("PR #")) {
                let home = home(path).unwrap_or_else(|| panic!("{path}"));
                assert!(pattern.frameworks.iter().any(|framework| framework == home), "{}: {path}", pattern.id);
            }
        }
    }
}
