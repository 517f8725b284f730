//! Replaces the private words of any text of a trace, so that the trace itself can be shared. Linear in the text.
//!
//! Public words stay where they are: rules and patterns match the same names as before, and equal texts stay equal. A word is
//! replaced by a code that no vocabulary contains, so a redacted report of the copy has the same placeholders. A code of a secret
//! or a host still looks like one. Private words keep the public words in them (`zorblaxgemm` still is a gemm).
//!
//! Two things are replaced although all their words may be public: names of hosts and users that the trace tells ([`names`]), and
//! paths but for what is inside a public package ([`paths`]).

mod names;
mod paths;

use super::rules::PATTERNS;
use super::scanner::{Boundaries, is_key, replace_groups, replace_matches};
use super::vocabulary::{MangledPart, Privacy, are_codes, contained_public_word, mangled, mangled_parts, privacy};
use super::words::{each_segment, tokens};
use super::{Redaction, vocabulary::is_public};
use names::Names;
use regex::Regex;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

/// Stands for a replaced part while the rest of a text is processed: this letter and the number of the part. Such letters of the
/// private use area are removed from the text before.
const FIRST_MARK: u32 = 0x10_0000;
const LAST_MARK: u32 = 0x10_FFFD;

/// Every code begins with these letters. In quotes they would be a word that gpuprism itself can say, and public.
const BEGINNING: [char; 2] = ['z', 'q'];

/// The letters of codes. Without vowels, no word comes about by chance.
const CODE_LETTERS: [char; 19] =
    ['b', 'c', 'd', 'f', 'g', 'h', 'j', 'k', 'l', 'm', 'n', 'p', 'r', 's', 't', 'v', 'w', 'x', 'z'];

fn is_mark(letter: char) -> bool {
    letter as u32 >= FIRST_MARK
}

/// The codes of replaced parts of a text, each with a mark in the text.
#[derive(Default)]
struct Kept(Vec<String>);

impl Kept {
    /// The mark of the next code. `None` if there are too many.
    fn mark(&mut self, code: String) -> Option<String> {
        let mark = u32::try_from(self.0.len()).ok().and_then(|number| FIRST_MARK.checked_add(number));
        let mark = mark.filter(|mark| *mark <= LAST_MARK).and_then(char::from_u32)?;
        self.0.push(code);
        Some(mark.to_string())
    }

    /// The text with codes for marks.
    fn expanded(&self, text: &str) -> String {
        if self.0.is_empty() {
            return text.to_owned();
        }
        let expand = |letter: char| {
            let number = (letter as u32).checked_sub(FIRST_MARK).and_then(|number| usize::try_from(number).ok());
            number.and_then(|number| self.0.get(number)).cloned().unwrap_or_else(|| letter.to_string())
        };
        text.chars().map(expand).collect()
    }
}

/// Replaces private words, each always by the same code.
#[derive(Debug, Default)]
pub(crate) struct Mask {
    codes: BTreeMap<(Redaction, String), String>,
    /// Masked texts by original; `None` if nothing was replaced. Texts of traces repeat.
    cache: HashMap<String, Option<String>>,
    /// Names of hosts and users, which are removed wherever they stand.
    names: Names,
}

/// Limits of the cache: texts that repeat are names, which are short and few.
const MAX_CACHED_TEXTS: usize = 1 << 16;
const MAX_CACHED_BYTES: usize = 1 << 10;

impl Mask {
    /// Removes this name of a host or user from all texts that follow.
    pub(crate) fn learn_name(&mut self, name: &str) {
        self.names.learn(name);
    }

    /// The same for the user whose home folder is in the text, and for the host in the name of a process.
    pub(crate) fn learn_users(&mut self, text: &str) {
        let mut learn = |pattern: &Regex| {
            let names = pattern.captures_iter(text).filter_map(|captures| captures.get(1));
            names.for_each(|name| self.names.learn(name.as_str()));
        };
        if text.contains("home") || text.contains("Users") {
            learn(&PATTERNS.home);
        }
        if text.contains("HOST<") || text.contains("DEVICE<") {
            learn(&PATTERNS.process_host);
        }
    }

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
        if let Some((name, suffix)) = mangled(text) {
            let has_name = mangled_parts(name).iter().any(|part| match part {
                MangledPart::Identifier(identifier) => !self.names.all_in(identifier).is_empty(),
                MangledPart::Codes(_) => false,
            });
            let is_kept = is_public(text) && !has_name;
            return if is_kept { text.to_owned() } else { self.mangled(name) + &self.suffix(suffix) };
        }
        if is_public(text) && !may_match(text) && self.names.all_in(text).is_empty() {
            return text.to_owned();
        }
        let mut kept = Kept::default();
        let mut masked = text.replace(is_mark, "?");
        let mut secret = |found: &str| kept.mark(format!("hf_{}", self.code(Redaction::Secrets, found)));
        let mut assign_secret = |found: &str| if is_public(found) { None } else { secret(found) };
        masked = replace_matches(&PATTERNS.secrets, Boundaries::PARTS, &masked, &mut assign_secret);
        let mut assign_key = |found: &str| if is_key(found) { secret(found) } else { None };
        masked = replace_matches(&PATTERNS.long_hex, Boundaries::PARTS, &masked, &mut assign_key);
        masked = replace_groups(&PATTERNS.secret_values, &masked, &mut |found| {
            if is_number(found) || found.contains(is_mark) { None } else { secret(found) }
        });
        masked = replace_matches(&PATTERNS.machines, Boundaries::PARTS, &masked, &mut |found| {
            kept.mark(format!("{}.local", self.code(Redaction::Machines, found)))
        });
        masked = self.without_paths(&masked, &mut kept);
        masked = self.without_names(&masked, &mut |code| kept.mark(code));
        masked = self.tokens(&masked);
        kept.expanded(&masked)
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
                    let identifier = self.without_names(identifier, &mut Some);
                    let identifier = self.tokens(&identifier);
                    out += &format!("{}{identifier}", identifier.len());
                }
            }
        }
        out
    }

    fn suffix(&mut self, suffix: &str) -> String {
        if suffix.is_empty() { String::new() } else { format!(".{}", self.tokens(suffix)) }
    }

    /// The text with a code for each learned name. `keep` is given the codes.
    fn without_names(&mut self, text: &str, keep: &mut dyn FnMut(String) -> Option<String>) -> String {
        let (mut out, mut end) = (String::new(), 0);
        for place in self.names.all_in(text) {
            out += text.get(end..place.start).unwrap_or_default();
            let name = text.get(place.clone()).unwrap_or_default();
            out += &keep(self.code(Redaction::Machines, name)).unwrap_or_default();
            end = place.end;
        }
        out + text.get(end..).unwrap_or_default()
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
                Privacy::Whole => out += &self.code(Redaction::Names, token),
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
        let code = self.code(Redaction::Names, word);
        // The case divides words.
        if word.chars().all(|letter| letter.is_ascii_uppercase()) {
            code.to_ascii_uppercase()
        } else if word.starts_with(|letter: char| letter.is_ascii_uppercase()) {
            crate::words::capitalize(code)
        } else {
            code
        }
    }

    fn code(&mut self, kind: Redaction, text: &str) -> String {
        let next = self.codes.len();
        let code = || {
            let mut code = String::from_iter(BEGINNING);
            let mut number = next;
            // At least eight letters more, because a secret has as many.
            while number > 0 || code.len() < BEGINNING.len() + 8 {
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

/// Whether a text of public words can still match a pattern of private text: addresses and names of hosts have digits or dots,
/// paths have slashes.
fn may_match(text: &str) -> bool {
    text.contains(['.', '@', ':', '=', '-', '/', '\\']) || text.contains(|letter: char| letter.is_ascii_digit())
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
        for op in ["zq::secret_op_", "xy::secret_op_", "acme::secret_op_"] {
            let masked = mask.text(op).into_owned();
            let (namespace, name) = masked.split_once("::").unwrap();
            assert!(namespace.len() > 8 && name == "secret_op_", "{op}: {masked}");
        }
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
    fn paths_keep_their_extension_and_what_is_inside_a_public_package() {
        let mut mask = Mask::default();
        for (path, form) in [
            ("/home/ZQ/secret_project/x.py", "/home/*/*.py"),
            ("kernel_/home/copy/kernel.py", "*.py"),
            ("/data/secret_project/x.py(12): forward", "/zq/*.py(12): forward"),
            ("/opt/venv/lib/python3.11/site-packages/torch/nn/x.py(1): f", "/zq/*/torch/nn/x.py(1): f"),
            ("vllm/zorblax/attention.py(1): forward", "vllm/*/attention.py(1): forward"),
            ("torch/nn/functional.py(2000): softmax", "torch/nn/functional.py(2000): softmax"),
            ("zorblax/attention.py(1): forward", "*.py(1): forward"),
            ("threading.py(982): run", "threading.py(982): run"),
            ("aten::/data/secret/x.py(1): forward", "aten::/zq/*.py(1): forward"),
            ("C:\\data\\secret\\x.json", "C:\\*.json"),
            ("/data/secret/", "/zq/*/"),
            ("jit(step)/jit(main)/while/body/add", "jit(step)/jit(main)/while/body/add"),
        ] {
            let masked = mask.text(path).into_owned();
            let mut rest = masked.as_str();
            for part in form.split('*').filter(|part| !part.is_empty()) {
                rest = rest.split_once(part).unwrap_or_else(|| panic!("{path}: {masked}")).1;
            }
            assert!(!masked.contains("secret") && (form.contains('*') || masked == form), "{path}: {masked}");
        }
        assert_eq!(mask.text("/data/secret/x.py"), mask.text("/data/secret/x.py"));
        assert_ne!(mask.text("/data/secret/x.py"), mask.text("/data/secret/y.py"));
    }

    #[test]
    fn names_of_hosts_that_the_trace_tells_are_removed_wherever_they_stand() {
        let mut mask = Mask::default();
        ["host-secret-17.example.com", "kernel", "copy", "4711", "localhost"]
            .iter()
            .for_each(|name| mask.learn_name(name));
        mask.learn_users("/home/gemm-copy2/x");
        mask.learn_users("RANK 3 DEVICE<kernel-copy-5>29:0:0 #1");
        for text in [
            "gemm_host_secret_17<float>",
            "HOST-SECRET-17",
            "_Z14host_secret_17v",
            "at host-secret-17.example.com",
            "gemm_copy2",
            "HOST<kernel-copy-5>",
        ] {
            let masked = mask.text(text).into_owned();
            assert!(!masked.to_lowercase().contains("secret") && !masked.contains("copy"), "{text}: {masked}");
        }
        for kept in ["copy_kernel", "4711", "host_secret_18", "ghost_secret_17"] {
            assert_eq!(mask.text(kept) == kept, kept != "ghost_secret_17", "{kept}");
        }
    }

    #[test]
    fn codes_are_neither_public_nor_alike() {
        let mut mask = Mask::default();
        let codes: Vec<String> = (0..9_000).map(|number| mask.code(Redaction::Names, &number.to_string())).collect();
        assert_eq!(codes.iter().collect::<std::collections::BTreeSet<_>>().len(), codes.len());
        assert!(codes.iter().all(|code| !is_public(code)) && !is_public(&String::from_iter(BEGINNING)));
    }
}
