//! The names of calls and ranges with which a program starts (`patterns/start_up.json`). A name costs one comparison of
//! its beginning for each word, or of each of its words.

use crate::json::{self, embedded, from_json};
use std::sync::LazyLock;

/// The word lists and thresholds of `patterns/start_up.json`.
#[derive(Debug)]
pub(crate) struct LoadWords {
    once: Vec<String>,
    repeated: Vec<String>,
    ranges: Vec<String>,
    range_objects: Vec<String>,
    pub(crate) thresholds: LoadThresholds,
}
from_json!(LoadWords { once, repeated, ranges, range_objects, thresholds });

/// Thresholds of the start of a program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadThresholds {
    /// The start ends where loads take a smaller share of the time.
    pub(crate) min_loading_pct: u64,
    /// Starts whose loads take a smaller share of the time of the process are not mentioned in sentences.
    pub(crate) min_said_pct: f64,
    /// A capture without steps is a cold start if the mean of the shares of the ops and of the kernel time that follow is less.
    pub(crate) max_followed_pct: f64,
}
from_json!(strict LoadThresholds { min_loading_pct, min_said_pct, max_followed_pct });

static WORDS: LazyLock<LoadWords> =
    LazyLock::new(|| embedded(json::read(include_str!("../../../patterns/start_up.json"))));

/// What the name of a call or range says about loading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoadKind {
    /// A process does this when it starts.
    Once,
    /// Loading that a running process may repeat.
    Repeated,
}

impl LoadWords {
    pub(crate) fn embedded() -> &'static Self {
        &WORDS
    }

    /// The kind of a call by its name; `None` if it loads nothing.
    pub(crate) fn of_call(&self, name: &str) -> Option<LoadKind> {
        let begins_with = |words: &[String]| words.iter().any(|word| name.starts_with(word.as_str()));
        match () {
            () if begins_with(&self.once) => Some(LoadKind::Once),
            () if begins_with(&self.repeated) => Some(LoadKind::Repeated),
            () => None,
        }
    }

    /// Whether a range of this name initialises, compiles or warms up, and does nothing else.
    pub(crate) fn is_start_range(&self, name: &str) -> bool {
        let is_in = |list: &[String], word: &str| list.iter().any(|known| known.eq_ignore_ascii_case(word));
        let mut says_start = false;
        let words = name.split(|letter: char| !letter.is_alphanumeric()).flat_map(camel_case);
        let all_known = words.into_iter().all(|word| {
            let is_start = is_in(&self.ranges, word);
            says_start |= is_start;
            is_start || is_in(&self.range_objects, word) || word.bytes().all(|byte| byte.is_ascii_digit())
        });
        all_known && says_start
    }
}

/// The words of `CompileProgram`: a capital letter after a small one begins the next. None of an empty text.
fn camel_case(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let begins_word = |(index, pair): (usize, &[u8])| match pair {
            [before, next] if before.is_ascii_lowercase() && next.is_ascii_uppercase() => Some(index + 1),
            _ => None,
        };
        let end = rest.as_bytes().windows(2).enumerate().find_map(begins_word).unwrap_or(rest.len());
        let (word, after) = rest.split_at_checked(end)?;
        rest = after;
        (!word.is_empty()).then_some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_load_are_told_by_the_beginnings_of_their_names() {
        let words = LoadWords::embedded();
        for name in [
            "cuInit",
            "cuLibraryLoadData",
            "cuModuleLoadDataEx",
            "hipModuleLoad",
            "cuCtxCreate_v2",
            "cuModuleGetLoadingMode",
        ] {
            assert_eq!(words.of_call(name), Some(LoadKind::Once), "{name}");
        }
        assert_eq!(words.of_call("cudaGraphInstantiateWithFlags_v11040"), Some(LoadKind::Repeated));
        for name in ["cudaLaunchKernel_v7000", "cuModuleGetFunction", "cuGetProcAddress_v2", "cudaFree_v3020", ""] {
            assert_eq!(words.of_call(name), None, "{name}");
        }
    }

    #[test]
    fn ranges_are_told_by_whole_words_and_all_of_them() {
        let words = LoadWords::embedded();
        for name in [
            "init_model",
            "warmup",
            "Warm-up 3",
            "torch.compile",
            "load model (init)",
            "warmup_step_12",
            "KernelExecutor::compileFusion",
            "executor_utils::Nvrtc::CompileProgram",
        ] {
            assert!(words.is_start_range(name), "{name}");
        }
        for name in [
            "## Call CompiledFxGraph fas5dkp2wkl2 ##",
            "Torch-Compiled Region: 0/0",
            "init_forward_metadata",
            "ncclCommInitRank",
            "step 12",
            "load_batch",
            "",
        ] {
            assert!(!words.is_start_range(name), "{name}");
        }
    }

    #[test]
    fn the_words_are_in_the_form_that_they_are_compared_in() {
        let words = LoadWords::embedded();
        for list in [&words.once, &words.repeated, &words.ranges, &words.range_objects] {
            assert!(!list.is_empty() && list.iter().all(|word| !word.is_empty() && !word.contains(' ')));
        }
        let is_plain = |word: &String| word.bytes().all(|byte| byte.is_ascii_lowercase());
        assert!(words.ranges.iter().chain(&words.range_objects).all(is_plain));
        assert!((1..100).contains(&words.thresholds.min_loading_pct));
        assert!((0.0..100.0).contains(&words.thresholds.min_said_pct));
        assert!((0.0..100.0).contains(&words.thresholds.max_followed_pct));
    }
}
