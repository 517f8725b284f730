//! Searches words in names of kernels, ops and functions, on word boundaries and in any spelling.
//!
//! `fused_add_rmsnorm` is found in `FusedAddRMSNormKernel` and in `fused_add_rms_norm_bf16`; `add` is not found in `padding`.
//! A name is reduced to lower-case letters and digits once; then each search is linear in its length.

/// One or several consecutive words to search for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needle(Vec<u8>);

/// A name prepared for searches of many needles.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Haystack {
    /// The letters and digits of the name, in lower case.
    letters: Vec<u8>,
    /// For each letter, true if a word starts there. One more entry at the end is always true.
    is_word_start: Vec<bool>,
}

impl Needle {
    /// Returns `None` if the text has no letter and no digit.
    pub fn new(text: &str) -> Option<Self> {
        let letters: Vec<u8> =
            text.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase()).collect();
        (!letters.is_empty()).then_some(Self(letters))
    }

    /// Returns true if the name contains these words as whole words.
    ///
    /// ```
    /// use gpuprism::rules::needle::{Haystack, Needle};
    /// let name = Haystack::new("void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>");
    /// assert!(Needle::new("fused_add_rmsnorm").unwrap().is_in(&name));
    /// assert!(!Needle::new("rms").unwrap().is_in(&Haystack::new("transforms")));
    /// ```
    pub fn is_in(&self, name: &Haystack) -> bool {
        let needle = self.0.as_slice();
        let is_boundary = |index: usize| name.is_word_start.get(index) == Some(&true);
        let is_at = |index: usize| name.letters.get(index..).is_some_and(|letters| letters.starts_with(needle));
        (0..name.letters.len()).any(|index| is_boundary(index) && is_at(index) && is_boundary(index + needle.len()))
    }
}

impl Haystack {
    /// Returns true if the name contains any of these texts, see [`Needle::is_in`].
    pub(crate) fn contains_any(&self, texts: &[String]) -> bool {
        texts.iter().filter_map(|text| Needle::new(text)).any(|needle| needle.is_in(self))
    }

    /// Splits a name into words: at punctuation, before capitals, and between letters and digits.
    pub fn new(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut name = Self::default();
        let mut previous: Option<u8> = None;
        for (index, &byte) in bytes.iter().enumerate() {
            if !byte.is_ascii_alphanumeric() {
                previous = None;
                continue;
            }
            let next = bytes.get(index + 1).copied();
            name.letters.push(byte.to_ascii_lowercase());
            name.is_word_start.push(previous.is_none_or(|previous| starts_word(previous, byte, next)));
            previous = Some(byte);
        }
        name.is_word_start.push(true);
        name
    }
}

/// Returns true if a word starts at `byte`, between two letters or digits. The byte after it decides for a capital after
/// capitals: in `RMSNorm`, a word starts at the N.
fn starts_word(previous: u8, byte: u8, next: Option<u8>) -> bool {
    let is_capital_after_small = previous.is_ascii_lowercase() && byte.is_ascii_uppercase();
    let is_last_of_capitals = previous.is_ascii_uppercase()
        && byte.is_ascii_uppercase()
        && next.is_some_and(|next| next.is_ascii_lowercase());
    is_capital_after_small || is_last_of_capitals || previous.is_ascii_digit() != byte.is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needles_match_whole_words_in_any_spelling() {
        let is_in = |needle: &str, text: &str| Needle::new(needle).unwrap().is_in(&Haystack::new(text));
        assert!(is_in("rmsnorm", "void rmsnorm_kernel<4>"));
        assert!(is_in("rmsnorm", "kernelsfused_add_rmsnormFusedAddRMSNormKernel"));
        assert!(is_in("silu_and_mul", "sgl_kernel::silu_and_mul"));
        assert!(is_in("all_reduce", "ncclDevKernel_AllReduce_Sum_bf16"));
        assert!(is_in("fp8", "quant_fp8_kernel"));
        assert!(!is_in("add", "padding_kernel") && !is_in("mul", "multi_head"));
        assert!(!is_in("rope", "properties") && !is_in("gate", "aggregate"));
        assert!(Needle::new("::").is_none());
    }
}
