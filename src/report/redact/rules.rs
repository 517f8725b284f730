//! The rules of redaction, `patterns/redaction.json`, and the test whether a name is public: each of its words must be in
//! gpuprism's catalogues of public kernels and code or in the list of public words. Linear in the name.

use crate::json::{self, embedded, from_json};
use regex::Regex;
use std::collections::HashSet;
use std::sync::LazyLock;

/// The contents of `patterns/redaction.json`.
pub(super) struct Rules {
    pub(super) fields: Fields,
    pub(super) process_ids: Vec<String>,
    secrets: Vec<String>,
    secret_values: String,
    long_hex: String,
    machines: Vec<String>,
    home: String,
    paths: Vec<String>,
    processes: String,
    pub(super) package_folders: Vec<String>,
    pub(super) packages: Vec<String>,
    pub(super) private_folders: Vec<String>,
    pub(super) label_words: Vec<String>,
    pub(super) label_ranks: Vec<String>,
    public_beginnings: Vec<String>,
    public_words: Vec<String>,
}
from_json!(Rules {
    fields,
    process_ids,
    secrets,
    secret_values,
    long_hex,
    machines,
    home,
    paths,
    processes,
    package_folders,
    packages,
    private_folders,
    label_words,
    label_ranks,
    public_beginnings,
    public_words
});

/// Keys of fields, by how their texts are treated.
pub(super) struct Fields {
    /// Fields with words of closed sets.
    pub(super) keys: Vec<String>,
    /// Fields with sentences of gpuprism.
    pub(super) words: Vec<String>,
    pub(super) files: Vec<String>,
    pub(super) kernels: Vec<String>,
    pub(super) places: Vec<String>,
    pub(super) models: Vec<String>,
    pub(super) arguments: Vec<String>,
}
from_json!(Fields { keys, words, files, kernels, places, models, arguments });

/// The compiled patterns.
pub(super) struct Patterns {
    pub(super) secrets: Regex,
    /// Group 1 is the value.
    pub(super) secret_values: Regex,
    pub(super) long_hex: Regex,
    pub(super) machines: Regex,
    /// Group 1 is the user.
    pub(super) home: Regex,
    pub(super) paths: Regex,
    /// Group 1 is the id.
    pub(super) processes: Regex,
}

pub(super) static RULES: LazyLock<Rules> =
    LazyLock::new(|| embedded(json::read(include_str!("../../../patterns/redaction.json"))));

pub(super) static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| {
    let any = |patterns: &[String]| compiled(&patterns.join("|"));
    Patterns {
        secrets: any(&RULES.secrets),
        secret_values: compiled(&RULES.secret_values),
        long_hex: compiled(&RULES.long_hex),
        machines: any(&RULES.machines),
        home: compiled(&RULES.home),
        paths: any(&RULES.paths),
        processes: compiled(&RULES.processes),
    }
});

fn compiled(pattern: &str) -> Regex {
    embedded(Regex::new(pattern))
}

/// Data files of gpuprism with public words: rules and catalogues of kernels and code. All words of a file count, including
/// those of notes and titles. If a reworded note drops a word that kernel names use, add the word to `public_words`.
const CATALOGUES: [&str; 13] = [
    include_str!("../../../patterns/sections.json"),
    include_str!("../../../patterns/explain_tables.json"),
    include_str!("../../../patterns/fuse_overlap_catalog.json"),
    include_str!("../../../patterns/fuse_patterns.json"),
    include_str!("../../../patterns/toggles.json"),
    include_str!("../../../patterns/gpuprism_engine_model.json"),
    include_str!("../../../patterns/sglang_engine_model.json"),
    include_str!("../../../patterns/vllm_engine_model.json"),
    include_str!("../../../patterns/signals.json"),
    include_str!("../../../patterns/short_names.json"),
    include_str!("../../../patterns/overlap.json"),
    include_str!("../../../patterns/serving.json"),
    include_str!("../../../patterns/engines.json"),
];

static PUBLIC: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let mut words = HashSet::new();
    let lists = RULES.public_words.iter().map(String::as_str);
    for text in CATALOGUES.into_iter().chain(lists) {
        // The `b` of a regex's `\b` and the `n` of `\n` are not letters of a word.
        let text = text.replace("\\\\b", " ").replace("\\n", " ");
        each_word(&text, &mut |word| {
            words.insert(word);
            true
        });
    }
    words
});

/// Whether the text occurs in one of gpuprism's catalogues.
pub(super) fn is_in_catalogues(text: &str) -> bool {
    CATALOGUES.iter().any(|catalogue| catalogue.contains(text))
}

/// Whether every word of the name is public. Digits, signs and words of one or two letters are ignored.
pub(super) fn is_public(name: &str) -> bool {
    if name.starts_with("_Z") {
        return identifiers(name).iter().all(|identifier| is_public(identifier));
    }
    let after_prefix = RULES.public_beginnings.iter().find_map(|beginning| name.strip_prefix(beginning.as_str()));
    // After a public prefix, one identifier is a code of the library, such as a tile configuration.
    let rest = after_prefix
        .map_or(name, |rest| rest.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric() || letter == '_'));
    each_word(rest, &mut |word| PUBLIC.contains(&word))
}

/// Calls `take` for every word of at least three letters, in lower case, until it returns false. Words end at capitals,
/// digits and signs; a non-ASCII letter is a word. Returns whether `take` accepted all words.
fn each_word(text: &str, take: &mut dyn FnMut(String) -> bool) -> bool {
    let mut word = String::new();
    let mut was_lowercase = false;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter.is_alphabetic() && !letter.is_ascii() {
            return take(letter.to_string());
        }
        let is_lowercase_next = letters.peek().is_some_and(char::is_ascii_lowercase);
        let starts_word = letter.is_ascii_uppercase() && (was_lowercase || (is_lowercase_next && !word.is_empty()));
        if starts_word || !letter.is_ascii_alphabetic() {
            let complete = std::mem::take(&mut word);
            if complete.len() > 2 && !take(complete) {
                return false;
            }
        }
        if letter.is_ascii_alphabetic() {
            word.push(letter.to_ascii_lowercase());
        }
        was_lowercase = letter.is_ascii_lowercase();
    }
    word.len() <= 2 || take(word)
}

/// The identifiers of a mangled name (Itanium ABI): each follows its length. `Li128E` is a literal, not a length.
fn identifiers(mangled: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = mangled;
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let (before, from) = rest.split_at(start);
        let digits = from.len() - from.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
        let (number, after) = from.split_at(digits);
        let letters = before.trim_end_matches('n').as_bytes();
        let is_literal = after.starts_with('E') && letters.len() > 1 && letters.get(letters.len() - 2) == Some(&b'L');
        let length = number.parse().unwrap_or(0);
        match after.get(..length).filter(|identifier| !is_literal && !identifier.is_empty()) {
            Some(identifier) => {
                found.push(identifier);
                rest = after.get(length..).unwrap_or_default();
            }
            None => rest = after,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_parse_and_their_lists_are_sorted_and_distinct() {
        assert!(!RULES.public_words.is_empty() && PATTERNS.secrets.is_match("hf_abcdefgh12"));
        let fields = &RULES.fields;
        let lists = [
            &fields.keys,
            &fields.words,
            &fields.files,
            &fields.kernels,
            &fields.places,
            &fields.models,
            &fields.arguments,
        ];
        let mut keys: Vec<&String> = lists.into_iter().flatten().collect();
        let all = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), all, "each key is in one list");
        let mut words: Vec<&str> = RULES.public_words.iter().flat_map(|line| line.split(' ')).collect();
        assert!(words.iter().all(|word| word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_lowercase())));
        let given = words.len();
        words.dedup();
        assert!(words.is_sorted() && words.len() == given, "sorted, each once");
    }

    #[test]
    fn a_name_is_public_if_each_of_its_words_is() {
        for name in [
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>, std::array<char*, 1ul> >(int)",
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIiEESt5arrayIPcLm1EEEEviT0_T1_",
            "nvjet_tst_128x64_64x8_1x2_h_bz_coopA_NNT",
            "Memcpy HtoD (Pinned -> Device)",
            "NVIDIA H100 80GB HBM3",
            "private kernel 7",
            "",
        ] {
            assert!(is_public(name), "{name}");
        }
        for name in [
            "acme_gemm_kernel",
            "void at::native::vectorized_elementwise_kernel<4, zorblax::FillFunctor<int> >(int)",
            "_ZN2at6native29vectorized_elementwise_kernelILi4EN7zorblax4GeluEEEvi",
            "nvjet_tst_128x64 zorblax",
            "zorblaxGemm",
            "GEMMzorblax",
            "gemm_\u{e4}\u{f6}",
        ] {
            assert!(!is_public(name), "{name}");
        }
    }
}
