//! Tests whether a rule's regex matches anywhere in a name.
//!
//! A regex is split at its top-level `|`. Alternatives that are plain words become substring searches (`memmem`), which are
//! about ten times faster than the regex engine; the other alternatives stay one regex. The split does not change the result.
//! The regex engine is `regex-lite`, which is small (the first wasm module of the page contains it) and slow: a regex search costs
//! microseconds per rule and name. Therefore write rules as alternatives of plain words.
//!
//! Limits: `(?i)`, `\w`, `\d`, `\s` and `\b` work for ASCII only. Unicode classes (`\p`) and operations on classes (`[a-z&&[^b]]`)
//! are refused.

use memchr::memmem::Finder;
use regex_lite::{Regex, RegexBuilder};

const MAX_REGEX_BYTES: usize = 1 << 20;

/// One compiled regex of a rule.
#[derive(Debug, Clone)]
pub(super) struct Matcher {
    ignores_case: bool,
    /// The plain words, in lower case if the rule ignores case.
    words: Vec<Finder<'static>>,
    /// All alternatives that are not plain words.
    other: Option<Regex>,
}

/// A name prepared for many searches.
pub(super) struct Name<'a> {
    text: &'a str,
    lower_case: String,
}

impl<'a> Name<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, lower_case: text.to_ascii_lowercase() }
    }
}

impl Matcher {
    /// # Errors
    /// The reason why the regex does not compile, in one line.
    pub(super) fn new(regex: &str) -> Result<Self, String> {
        let (flags, body) = regex.strip_prefix("(?i)").map_or(("", regex), |body| ("(?i)", body));
        let ignores_case = !flags.is_empty();
        let (words, other): (Vec<&str>, Vec<&str>) = alternatives(body).into_iter().partition(|part| is_word(part));
        let finder = |word: &str| {
            let word = if ignores_case { word.to_ascii_lowercase() } else { word.to_owned() };
            Finder::new(word.as_bytes()).into_owned()
        };
        let other = (!other.is_empty()).then(|| compile(&format!("{flags}{}", other.join("|")))).transpose()?;
        Ok(Self { ignores_case, words: words.into_iter().map(finder).collect(), other })
    }

    pub(super) fn is_match(&self, name: &Name) -> bool {
        let text = if self.ignores_case { &name.lower_case } else { name.text };
        self.words.iter().any(|word| word.find(text.as_bytes()).is_some())
            || self.other.as_ref().is_some_and(|regex| regex.is_match(name.text))
    }
}

fn compile(regex: &str) -> Result<Regex, String> {
    RegexBuilder::new(regex).size_limit(MAX_REGEX_BYTES).build().map_err(|error| error.to_string())
}

/// Splits a valid regex at its top-level `|`. A regex that contains `(?` is not split, because flags that it may set would apply
/// to later alternatives.
fn alternatives(regex: &str) -> Vec<&str> {
    if regex.contains("(?") {
        return vec![regex];
    }
    let mut parts = Vec::new();
    let (mut start, mut group_depth, mut class_depth) = (0, 0_usize, 0_usize);
    let mut bytes = regex.bytes().enumerate().peekable();
    while let Some((index, byte)) = bytes.next() {
        match byte {
            b'\\' => {
                bytes.next();
            }
            b'[' => {
                class_depth += 1;
                bytes.next_if(|(_, next)| *next == b'^');
                // A `]` right after the opening bracket is a literal character of the class.
                bytes.next_if(|(_, next)| *next == b']');
            }
            b']' => class_depth = class_depth.saturating_sub(1),
            b'(' if class_depth == 0 => group_depth += 1,
            b')' if class_depth == 0 => group_depth = group_depth.saturating_sub(1),
            b'|' if class_depth == 0 && group_depth == 0 => {
                parts.extend(regex.get(start..index));
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.extend(regex.get(start..));
    parts
}

fn is_word(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_:<>&,- ".contains(&byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_match(regex: &str, name: &str) -> bool {
        Matcher::new(regex).unwrap().is_match(&Name::new(name))
    }

    #[test]
    fn plain_words_become_substring_searches() {
        let matcher = Matcher::new("(?i)gemm|Mat_Mul|conv[0-9]|a::b").unwrap();
        assert_eq!((matcher.words.len(), matcher.other.unwrap().as_str()), (3, "(?i)conv[0-9]"));
        assert!(Matcher::new("gemm|nvjet").unwrap().other.is_none());
    }

    #[test]
    fn case_and_character_classes_work_for_ascii_only() {
        assert!(!is_match("rank", "Rank"));
        for (regex, name, want) in [
            (r"(?i)rank|x", "RANK", true),
            (r"(?i)rank|x", "RAN\u{212a}", false),
            ("(?i)stra\u{df}e|x", "STRA\u{df}E", true),
            (r"^\w+$", "gemm_4", true),
            (r"\w", "\u{e9}", false),
            (r"^.$", "\u{e9}", true),
            (r"[^b]gemm", "\u{e9}gemm", true),
            ("[\u{e9}]gemm", "\u{e9}gemm", true),
        ] {
            assert_eq!(is_match(regex, name), want, "{regex} in {name}");
        }
    }

    #[test]
    fn what_the_engine_lacks_is_refused_with_the_reason() {
        for (regex, word) in
            [(r"\p{Greek}", "Unicode"), ("[a-z&&[^b]]", "class"), ("(gemm", "group"), ("a{99999999}", "size limit")]
        {
            let reason = Matcher::new(regex).unwrap_err();
            assert!(reason.contains(word) && !reason.contains('\n'), "{regex}: {reason}");
        }
    }

    proptest! {
        #[test]
        fn a_split_regex_matches_the_same_names_as_the_whole_regex(
            regex in r"(\(\?i\))?[abAB|()\[\]^\\.*?Ks_-]{0,14}",
            name in "[abABk_|\\]S\u{212a}\u{17f}]{0,8}",
        ) {
            let ours = Matcher::new(&regex).map(|matcher| matcher.is_match(&Name::new(&name))).ok();
            let plain = compile(&regex).map(|plain| plain.is_match(&name)).ok();
            prop_assert_eq!(ours, plain, "{} in {}", regex, name);
        }
    }
}
