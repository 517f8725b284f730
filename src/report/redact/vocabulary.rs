//! Whether a text is public: composed of words that gpuprism itself can say (the build script collects them from the code and
//! `patterns/`) and of words of public kernels and libraries (`public_words` in `patterns/redaction.json`).
//!
//! Signs are ignored. Single letters, words of two letters and numbers are parts of codes in names of kernels; many of them in one
//! token, as in `x7K9pQ2mR4`, are a key or a hash. Linear in the text.

use super::rules::{PATTERNS, RULES};
use super::words::{each_word, tokens};
use crate::rules::names::demangle;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::LazyLock;

static OWN_WORDS: &str = include_str!(concat!(env!("OUT_DIR"), "/own_words.txt"));

static PUBLIC: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    let packages = RULES.packages.iter().flat_map(|package| package.split('_'));
    let lists = RULES.public_words.iter().map(String::as_str).chain([OWN_WORDS]);
    lists.flat_map(str::split_ascii_whitespace).chain(packages).collect()
});

/// Words of at most so many letters are parts of codes.
const MAX_SHORT: usize = 2;
/// The longest code of types and operators between the identifiers of a mangled name.
const MAX_CODE: usize = 3;
/// The number of such words in a token, besides one for each longer word.
const MAX_SHORT_WORDS: usize = 2;
/// Shorter words occur in others by chance.
const MIN_CONTAINED: usize = 4;
/// Longer words are not searched for others: the search is quadratic.
const MAX_SEARCHED: usize = 64;
/// A longer number is an identifier of something.
const MAX_DIGITS: usize = 9;

/// Whether every token of the text is public. A mangled name counts as its demangled text.
pub(super) fn is_public(text: &str) -> bool {
    let (name, suffix) = mangled(text).unwrap_or((text, ""));
    are_public(suffix) && (are_public(&demangle(name)) || is_public_mangled(name))
}

fn are_public(text: &str) -> bool {
    tokens(text).all(is_public_token)
}

/// A mangled name, and what follows its first dot. `None` for other texts.
pub(super) fn mangled(text: &str) -> Option<(&str, &str)> {
    text.starts_with("_Z").then(|| text.split_once('.').unwrap_or((text, "")))
}

/// A part of a mangled name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MangledPart<'a> {
    /// Types, operators and numbers.
    Codes(&'a str),
    /// An identifier, without the length before it.
    Identifier(&'a str),
}

/// The parts of a mangled name, in order. In the Itanium ABI each identifier follows its length.
pub(super) fn mangled_parts(name: &str) -> Vec<MangledPart<'_>> {
    let (mut parts, mut rest) = (Vec::new(), name);
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let (codes, from) = rest.split_at(start);
        let (number, after) = from.split_at(from.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(from.len()));
        parts.push(MangledPart::Codes(codes));
        // Other numbers are those of template arguments and substitutions, as in `Li4E` and `S3_`.
        let is_argument = after.starts_with('E') && codes.trim_end_matches('n').chars().rev().nth(1) == Some('L');
        let is_substitution = after.starts_with('_') && codes.ends_with(['S', 'T']);
        let length = number.parse().unwrap_or(usize::MAX);
        let identifier = after.get(..length).filter(|_| !is_argument && !is_substitution);
        parts.push(identifier.map_or(MangledPart::Codes(number), MangledPart::Identifier));
        rest = identifier.map_or(after, |identifier| after.get(identifier.len()..).unwrap_or_default());
    }
    parts.push(MangledPart::Codes(rest));
    parts
}

/// Whether the identifiers of a mangled name that cannot be demangled are public, and the codes between them are too short to
/// contain a word.
fn is_public_mangled(name: &str) -> bool {
    let parts = if name.starts_with("_Z") { mangled_parts(name) } else { Vec::new() };
    parts.iter().any(|part| matches!(part, MangledPart::Identifier(_)))
        && parts.iter().all(|part| match part {
            MangledPart::Codes(codes) => are_codes(codes),
            MangledPart::Identifier(identifier) => are_public(identifier),
        })
}

/// Whether all runs of letters of one case are short, but for repetitions of a letter.
pub(super) fn are_codes(text: &str) -> bool {
    let mut letters: Vec<char> = text.chars().collect();
    letters.dedup();
    let is_run =
        |a: &char, b: &char| a.is_ascii_alphabetic() && b.is_ascii_alphabetic() && a.is_lowercase() == b.is_lowercase();
    text.is_ascii() && letters.chunk_by(is_run).all(|run| run.len() <= MAX_CODE)
}

fn is_public_token(token: &str) -> bool {
    privacy(token) == Privacy::Public
}

/// Which part of a token is private.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Privacy {
    Public,
    /// Words of it.
    Words,
    /// All of it: it is no text of words.
    Whole,
}

pub(super) fn privacy(token: &str) -> Privacy {
    let without_codes = PATTERNS.codes.replace_all(token, "0");
    if without_codes.split(|letter: char| !letter.is_ascii_digit()).any(|number| number.len() > MAX_DIGITS) {
        return Privacy::Whole;
    }
    let (mut short, mut long, mut are_words_public) = (0, 0, true);
    each_word(&without_codes, &mut |word| {
        *(if word.len() > MAX_SHORT { &mut long } else { &mut short }) += 1;
        are_words_public &= is_public_word(word);
        true
    });
    match (short <= long + MAX_SHORT_WORDS && token.is_ascii(), are_words_public) {
        (true, true) => Privacy::Public,
        (true, false) => Privacy::Words,
        // The micro sign and other letters of units.
        (false, true) if short <= long + MAX_SHORT_WORDS => Privacy::Public,
        (false, _) => Privacy::Whole,
    }
}

fn is_public_word(word: &str) -> bool {
    // Sentences append the `s` of a plural.
    word.len() == 1 || PUBLIC.contains(word) || word.strip_suffix('s').is_some_and(|word| PUBLIC.contains(word))
}

/// The longest public word within a private one, of which rules may match a part; the first of several.
pub(super) fn contained_public_word(word: &str) -> Option<Range<usize>> {
    let lower = word.to_ascii_lowercase();
    if lower.len() > MAX_SEARCHED {
        return None;
    }
    let lengths = (MIN_CONTAINED..lower.len()).rev();
    let mut places = lengths.flat_map(|length| (0..=lower.len() - length).map(move |start| start..start + length));
    places.find(|place| lower.get(place.clone()).is_some_and(|part| PUBLIC.contains(part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_public_if_each_of_its_words_is() {
        for name in [
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>, std::array<char*, 1ul> >(int)",
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIiEESt5arrayIPcLm1EEEEviT0_T1_",
            "nvjet_tst_128x64_64x8_1x2_h_bz_coopA_NNT",
            "triton_poi_fused_add_0",
            // Of a compiler later than the demangler.
            "_ZN7sgl_hip10activation18act_and_mul_kernelI14__hip_bfloat16TnPFT_RKS3_EXadL_Z4siluIS2_ES3_S5_EEEEvPS3_PS4_i",
            "_fwd_kernel_0d1d2d34de",
            "Memcpy HtoD (Pinned -> Device)",
            "void marlin::Marlin<__nv_bfloat16, 1125899907892224l, 256>(int4 const*)",
            "NVIDIA H100 80GB HBM3",
            "[TP00] 0",
            "must stay",
            "private kernel 7",
            "",
        ] {
            assert!(is_public(name), "{name}");
        }
        for name in [
            "acme_gemm_kernel",
            "void at::native::vectorized_elementwise_kernel<4, zorblax::FillFunctor<int> >(int)",
            "_ZN2at6native29vectorized_elementwise_kernelILi4EN7zorblax4GeluEEEvi",
            "_ZZorblax",
            "_ZBob",
            "_ZN7sgl_hip10activation18act_and_mul_kernelI14__hip_bfloat16TnPFT_RKS3_EXadL_Z7zorblaxIS2_ES3_S5_EEEEvPS3_PS4_i",
            "_ZN7sgl_hipTnPFT_zorblax",
            "_ZN7sgl_hipTnPFT_ZORBLAX",
            "_Z4gemmv.zorblax",
            "nvjet_tst_128x64_zorblax",
            "ncclDevKernel_Zorblax",
            "ncclDevKernel_hf_AbCdEfGhIjKl",
            "Cijk_zorblax",
            "zorblaxGemm",
            "GEMMzorblax",
            "gemm_x7K9pQ2mR4",
            "gemm_s3cr3t",
            "gemm 1234567890",
            "gemm_\u{e4}\u{f6}",
        ] {
            assert!(!is_public(name), "{name}");
        }
    }
}
