//! The rules of redaction, `patterns/redaction.json`.

use crate::json::{self, embedded, from_json};
use regex::Regex;
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
    process_host: String,
    paths: Vec<String>,
    processes: String,
    pub(super) package_folders: Vec<String>,
    pub(super) packages: Vec<String>,
    pub(super) label_words: Vec<String>,
    pub(super) label_ranks: Vec<String>,
    codes: Vec<String>,
    pub(super) public_words: Vec<String>,
}
from_json!(Rules {
    fields,
    process_ids,
    secrets,
    secret_values,
    long_hex,
    machines,
    home,
    process_host,
    paths,
    processes,
    package_folders,
    packages,
    label_words,
    label_ranks,
    codes,
    public_words
});

/// Keys of fields, by how their texts are treated.
pub(super) struct Fields {
    pub(super) categories: Vec<String>,
    /// Fields with sentences of gpuprism, which may quote names.
    pub(super) words: Vec<String>,
    pub(super) files: Vec<String>,
    pub(super) kernels: Vec<String>,
    pub(super) places: Vec<String>,
    pub(super) models: Vec<String>,
    pub(super) arguments: Vec<String>,
}
from_json!(Fields { categories, words, files, kernels, places, models, arguments });

/// The compiled patterns.
pub(super) struct Patterns {
    pub(super) secrets: Regex,
    /// Group 1 is the value.
    pub(super) secret_values: Regex,
    pub(super) long_hex: Regex,
    pub(super) machines: Regex,
    /// Group 1 is the user.
    pub(super) home: Regex,
    /// Group 1 is the host.
    pub(super) process_host: Regex,
    pub(super) paths: Regex,
    /// Group 1 is the id.
    pub(super) processes: Regex,
    /// Codes in names of kernels, such as tile sizes (`128x64`) and number formats (`e4m3`).
    pub(super) codes: Regex,
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
        process_host: compiled(&RULES.process_host),
        paths: any(&RULES.paths),
        processes: compiled(&RULES.processes),
        codes: any(&RULES.codes),
    }
});

fn compiled(pattern: &str) -> Regex {
    embedded(Regex::new(pattern))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_parse_and_their_lists_are_sorted_and_distinct() {
        assert!(!RULES.public_words.is_empty() && PATTERNS.secrets.is_match("hf_abcdefgh12"));
        let fields = &RULES.fields;
        let lists = [
            &fields.categories,
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
        assert!(words.iter().all(|word| word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_lowercase())));
        let given = words.len();
        words.dedup();
        assert!(words.is_sorted() && words.len() == given, "sorted, each once");
    }
}
