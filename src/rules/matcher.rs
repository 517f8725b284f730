//! Is a rule found in a name? Regexes, with a short cut for the plain words that nearly all rules are made of.
//!
//! The `regex` crate is built without its fast engines, which would double the page's module. A search for plain words
//! needs none of them and is some ten times faster. Nor does it have Unicode's tables, which weigh a fifteenth of the
//! page: `(?i)`, `\w`, `\d`, `\s` and `\b` know ASCII alone, as kernel names do, and any other character is as many `.`
//! as it has bytes.

use memchr::memmem::Finder;
use regex::bytes::{Regex, RegexBuilder};

const MAX_REGEX_BYTES: usize = 1 << 20;

/// One rule, compiled: its alternatives that are plain words, and a regex of the others.
#[derive(Debug, Clone)]
pub(super) struct Matcher {
    ignores_case: bool,
    /// Folded where the rule ignores case.
    words: Vec<Finder<'static>>,
    rest: Option<Regex>,
}

/// A name, made ready for many searches.
pub(super) struct Name<'a> {
    text: &'a str,
    folded: String,
}

impl<'a> Name<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, folded: text.to_ascii_lowercase() }
    }
}

impl Matcher {
    /// # Errors
    /// What is wrong with the regex, in one line.
    pub(super) fn new(regex: &str) -> Result<Self, String> {
        let (flags, body) = regex.strip_prefix("(?i)").map_or(("", regex), |body| ("(?i)", body));
        let ignores_case = !flags.is_empty();
        let (words, rest): (Vec<&str>, Vec<&str>) = alternatives(body).into_iter().partition(|part| is_word(part));
        let finder = |word: &str| {
            let word = if ignores_case { word.to_ascii_lowercase() } else { word.to_owned() };
            Finder::new(word.as_bytes()).into_owned()
        };
        let rest = (!rest.is_empty()).then(|| compile(&format!("{flags}{}", rest.join("|")))).transpose()?;
        Ok(Self { ignores_case, words: words.into_iter().map(finder).collect(), rest })
    }

    /// Is the regex found anywhere in the name?
    pub(super) fn is_match(&self, name: &Name) -> bool {
        let text = if self.ignores_case { &name.folded } else { name.text };
        self.words.iter().any(|word| word.find(text.as_bytes()).is_some())
            || self.rest.as_ref().is_some_and(|rest| rest.is_match(name.text.as_bytes()))
    }
}

fn compile(regex: &str) -> Result<Regex, String> {
    RegexBuilder::new(regex).unicode(false).size_limit(MAX_REGEX_BYTES).build().map_err(|error| {
        let text = error.to_string();
        text.rsplit("error: ").next().unwrap_or(&text).trim().replace('\n', " ")
    })
}

/// The parts between the outermost `|` of a valid regex; all of it where a group sets flags, which may reach across parts.
fn alternatives(regex: &str) -> Vec<&str> {
    if regex.contains("(?") {
        return vec![regex];
    }
    let mut parts = Vec::new();
    let (mut start, mut groups, mut classes) = (0, 0_usize, 0_usize);
    let mut bytes = regex.bytes().enumerate().peekable();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' => {
                bytes.next();
            }
            b'[' => {
                classes += 1;
                bytes.next_if(|(_, next)| *next == b'^');
                // A bracket that comes first in its class is one of its characters.
                bytes.next_if(|(_, next)| *next == b']');
            }
            b']' => classes = classes.saturating_sub(1),
            b'(' if classes == 0 => groups += 1,
            b')' if classes == 0 => groups = groups.saturating_sub(1),
            b'|' if classes == 0 && groups == 0 => {
                parts.extend(regex.get(start..at));
                start = at + 1;
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

    fn found(regex: &str, name: &str) -> bool {
        Matcher::new(regex).unwrap().is_match(&Name::new(name))
    }

    #[test]
    fn plain_words_are_searched_without_a_regex() {
        let matcher = Matcher::new("(?i)gemm|Mat_Mul|conv[0-9]|a::b").unwrap();
        assert_eq!((matcher.words.len(), matcher.rest.unwrap().as_str()), (3, "(?i)conv[0-9]"));
        assert!(Matcher::new("gemm|nvjet").unwrap().rest.is_none());
    }

    #[test]
    fn only_ascii_has_case_and_classes() {
        assert!(!found("rank", "Rank"));
        for (regex, name, want) in [
            (r"(?i)rank|x", "RANK", true),
            (r"(?i)rank|x", "RAN\u{212a}", false),
            ("(?i)stra\u{df}e|x", "STRA\u{df}E", true),
            (r"^\w+$", "gemm_4", true),
            (r"\w", "\u{e9}", false),
            (r"^..$", "\u{e9}", true),
            (r"[^b]gemm", "\u{e9}gemm", true),
        ] {
            assert_eq!(found(regex, name), want, "{regex} in {name}");
        }
        assert!(Matcher::new("[\u{e9}]").is_err_and(|why| why.contains("Unicode")));
    }

    proptest! {
        #[test]
        fn the_short_cut_never_changes_the_answer(
            regex in r"(\(\?i\))?[abAB|()\[\]^\\.*?Ks_-]{0,14}",
            name in "[abABk_|\\]S\u{212a}\u{17f}]{0,8}",
        ) {
            let ours = Matcher::new(&regex).map(|matcher| matcher.is_match(&Name::new(&name))).ok();
            let plain = compile(&regex).map(|plain| plain.is_match(name.as_bytes())).ok();
            prop_assert_eq!(ours, plain, "{} in {}", regex, name);
        }
    }
}
