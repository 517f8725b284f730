//! Replaces the private words of any text of a trace, so that the trace itself can be shared. Linear in the text.
//!
//! Public words stay where they are: rules and patterns match the same names as before, and equal texts stay equal. A word is
//! replaced by a code that no vocabulary contains, so a redacted report of the copy has the same placeholders. A code of a secret
//! or a host still looks like one. Private words keep the public words in them (`zorblaxgemm` still is a gemm).

use super::rules::PATTERNS;
use super::scanner::{is_key, is_word, replace_groups, replace_matches};
use super::vocabulary::{MangledPart, Privacy, are_codes, contained_public_word, mangled, mangled_parts, privacy};
use super::words::{each_segment, tokens};
use super::{Redaction, vocabulary::is_public};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

/// Stands for a replaced part while the rest of a text is processed: this letter and the number of the part. Such letters of the
/// private use area are removed from the text before.
const FIRST_MARK: u32 = 0x10_0000;
const LAST_MARK: u32 = 0x10_FFFD;

/// The letters of codes. Without vowels, no word comes about by chance.
const CODE_LETTERS: [char; 19] =
    ['b', 'c', 'd', 'f', 'g', 'h', 'j', 'k', 'l', 'm', 'n', 'p', 'r', 's', 't', 'v', 'w', 'x', 'z'];

/// Replaces private words, each always by the same code.
#[derive(Debug, Default)]
pub(crate) struct Mask {
    codes: BTreeMap<(Redaction, String), String>,
    /// Masked texts by original; `None` if nothing was replaced. Texts of traces repeat.
    cache: HashMap<String, Option<String>>,
}

/// Limits of the cache: texts that repeat are names, which are short and few.
const MAX_CACHED_TEXTS: usize = 1 << 16;
const MAX_CACHED_BYTES: usize = 1 << 10;

impl Mask {
    /// The text without its private words.
    pub(crate) fn text<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        if is_number(text) {
            return Cow::Borrowed(text);
        }
        let masked = self.cache.get(text).cloned().unwrap_or_else(|| {
            let masked = Some(self.masked(text)).filter(|masked| masked != text);
            if self.cache.len() < MAX_CACHED_TEXTS && text.len() <= MAX_CACHED_BYTES {
                self.cache.insert(text.to_owned(), masked.clone());
            }
            masked
        });
        masked.map_or(Cow::Borrowed(text), Cow::Owned)
    }

    fn masked(&mut self, text: &str) -> String {
        let is_mark = |letter: char| letter as u32 >= FIRST_MARK;
        if let Some((name, suffix)) = mangled(text) {
            return if is_public(text) { text.to_owned() } else { self.mangled(name) + &self.suffix(suffix) };
        }
        if is_public(text) && !may_match(text) {
            return text.to_owned();
        }
        let mut parts: Vec<String> = Vec::new();
        let mut masked = text.replace(is_mark, "?");
        let mut keep = |code: String| {
            let mark = u32::try_from(parts.len()).ok().and_then(|number| FIRST_MARK.checked_add(number));
            let mark = mark.filter(|mark| *mark <= LAST_MARK).and_then(char::from_u32)?;
            parts.push(code);
            Some(mark.to_string())
        };
        let mut secret = |found: &str| keep(format!("hf_zq{}", self.code(Redaction::Secrets, found)));
        let mut assign_secret = |found: &str| if is_public(found) { None } else { secret(found) };
        masked = replace_matches(&PATTERNS.secrets, char::is_alphanumeric, &masked, &mut assign_secret);
        let mut assign_key = |found: &str| if is_key(found) { secret(found) } else { None };
        masked = replace_matches(&PATTERNS.long_hex, char::is_alphanumeric, &masked, &mut assign_key);
        masked = replace_groups(&PATTERNS.secret_values, &masked, &mut |found| {
            if is_number(found) || found.contains(is_mark) { None } else { secret(found) }
        });
        masked = replace_matches(&PATTERNS.machines, is_word, &masked, &mut |found| {
            keep(format!("zq{}.local", self.code(Redaction::Machines, found)))
        });
        masked = self.tokens(&masked);
        let expand = |letter: char| {
            let number = (letter as u32).checked_sub(FIRST_MARK).and_then(|number| usize::try_from(number).ok());
            number.and_then(|number| parts.get(number)).cloned().unwrap_or_else(|| letter.to_string())
        };
        if parts.is_empty() { masked } else { masked.chars().map(expand).collect() }
    }

    /// The number of distinct texts that were replaced, by kind.
    pub(crate) fn counts(&self) -> BTreeMap<Redaction, u64> {
        let mut counts = BTreeMap::new();
        for (kind, _) in self.codes.keys() {
            *counts.entry(*kind).or_default() += 1;
        }
        counts
    }

    /// A mangled name with codes in its identifiers, which get their lengths again.
    fn mangled(&mut self, name: &str) -> String {
        let mut out = String::with_capacity(name.len());
        for part in mangled_parts(name) {
            match part {
                MangledPart::Codes(codes) if are_codes(codes) => out += codes,
                MangledPart::Codes(codes) => out += &self.tokens(codes),
                MangledPart::Identifier(identifier) => {
                    let identifier = self.tokens(identifier);
                    out += &format!("{}{identifier}", identifier.len());
                }
            }
        }
        out
    }

    fn suffix(&mut self, suffix: &str) -> String {
        if suffix.is_empty() { String::new() } else { format!(".{}", self.tokens(suffix)) }
    }

    fn tokens(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        for token in tokens(text) {
            let Some((signs, after)) = rest.split_once(token) else { break };
            out += signs;
            match privacy(token) {
                Privacy::Public => out += token,
                Privacy::Words => out += &self.words(token),
                Privacy::Whole => out += &format!("zq{}", self.code(Redaction::Names, token)),
            }
            rest = after;
        }
        out + rest
    }

    /// A token with codes for its private words.
    fn words(&mut self, token: &str) -> String {
        let mut out = String::with_capacity(token.len());
        each_segment(token, &mut |word| match is_public(word) {
            true => out += word,
            false => out += &self.word(word),
        });
        out
    }

    fn word(&mut self, word: &str) -> String {
        if let Some(public) = contained_public_word(word) {
            let (before, after) = (word.get(..public.start), word.get(public.end..));
            let kept = word.get(public.clone()).unwrap_or_default();
            let mut part = |part: Option<&str>| match part {
                Some(part) if !part.is_empty() => self.word(part),
                _ => String::new(),
            };
            return part(before) + kept + &part(after);
        }
        let code = format!("zq{}", self.code(Redaction::Names, word));
        // The case divides words.
        if word.chars().all(|letter| letter.is_ascii_uppercase()) {
            code.to_ascii_uppercase()
        } else if word.starts_with(|letter: char| letter.is_ascii_uppercase()) {
            crate::capitalize(code)
        } else {
            code
        }
    }

    fn code(&mut self, kind: Redaction, text: &str) -> String {
        let next = self.codes.len();
        let code = || {
            let mut code = String::new();
            let mut number = next;
            // At least eight letters, because a secret has as many.
            while number > 0 || code.len() < 8 {
                code.extend(CODE_LETTERS.get(number % CODE_LETTERS.len()));
                number /= CODE_LETTERS.len();
            }
            // Rules tell `bgemm` from `gemm`, but no rule has a `q` before a word.
            code + "q"
        };
        self.codes.entry((kind, text.to_owned())).or_insert_with(code).clone()
    }
}

/// Whether the text is a number as text, such as a time: an address has more dots.
fn is_number(text: &str) -> bool {
    !text.is_empty() && text.parse::<f64>().is_ok() && text.starts_with(|first: char| !first.is_ascii_alphabetic())
}

/// Whether a text of public words can still match a pattern of private text: addresses and names of hosts have digits or dots.
fn may_match(text: &str) -> bool {
    text.contains(['.', '@', ':', '=', '-']) || text.contains(|letter: char| letter.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::names::demangle;

    #[test]
    fn private_words_are_replaced_alike_and_public_ones_stay() {
        let mut mask = Mask::default();
        for kept in
            ["void at::native::foo_kernel<float>(int)", "1704161511420000100", "step[DECODE bs=16]", "1.5e3", ""]
        {
            assert_eq!(mask.text(&kept.replace("foo", "copy")), kept.replace("foo", "copy"));
        }
        let masked = mask.text("zorblax_gemm_kernel").into_owned();
        assert!(masked.ends_with("_gemm_kernel") && masked.starts_with("zq"), "{masked}");
        assert_eq!(mask.text("zorblax_gemm_kernel"), masked);
        assert_ne!(mask.text("Zorblax_gemm_kernel"), masked);
        assert!(mask.text("zorblaxgemm").ends_with("gemm"));
        let masked = mask.text("_ZN7zorblax11gemm_kernelIfEEvPT_").into_owned();
        assert!(!masked.contains("zorblax") && demangle(&masked).contains("::gemm_kernel<float>"), "{masked}");
        for private in ["10.1.2.3", "hf_AbCdEfGhIjKl", "x7K9pQ2mR4", "Bj\u{f6}rk", "gpu-12", "token=hunter2", "a@b.com"]
        {
            let mut letters: Vec<&str> = private.split(|letter: char| !letter.is_alphanumeric()).collect();
            letters.retain(|part| part.len() > 4 && *part != "token");
            let masked = mask.text(private).into_owned();
            assert_ne!(masked, private);
            assert!(letters.iter().all(|part| !masked.contains(part)), "{private}: {masked}");
        }
    }

    #[test]
    fn codes_are_neither_public_nor_alike() {
        let mut mask = Mask::default();
        let codes: Vec<String> = (0..9_000).map(|number| mask.code(Redaction::Names, &number.to_string())).collect();
        assert_eq!(codes.iter().collect::<std::collections::BTreeSet<_>>().len(), codes.len());
        assert!(codes.iter().all(|code| !is_public(&format!("zq{code}"))));
    }
}
