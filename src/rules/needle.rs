//! Words to look for in names of kernels, ops and functions, on word boundaries and regardless of how they are written:
//! `fused_add_rmsnorm` is in `FusedAddRMSNormKernel` and in `fused_add_rms_norm_bf16`, `add` is not in `padding`.

/// One word or several in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needle(Vec<u8>);

/// A name, prepared to be searched for many needles.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Haystack {
    /// Letters and digits alone, in lower case.
    letters: Vec<u8>,
    /// Parallel, with one more at the end: does a word begin here?
    begins: Vec<bool>,
}

impl Needle {
    /// `None` where the text holds neither letter nor digit.
    pub fn new(text: &str) -> Option<Self> {
        let letters: Vec<u8> =
            text.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase()).collect();
        (!letters.is_empty()).then_some(Self(letters))
    }

    /// Does the name hold these words, whole?
    ///
    /// ```
    /// use gpuprism::rules::needle::{Haystack, Needle};
    /// let name = Haystack::new("void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>");
    /// assert!(Needle::new("fused_add_rmsnorm").unwrap().is_in(&name));
    /// assert!(!Needle::new("rms").unwrap().is_in(&Haystack::new("transforms")));
    /// ```
    pub fn is_in(&self, name: &Haystack) -> bool {
        let needle = self.0.as_slice();
        let begins = |at: usize| name.begins.get(at) == Some(&true);
        let is_at = |at: usize| name.letters.get(at..).is_some_and(|letters| letters.starts_with(needle));
        // Names have few words, and most do not begin as the needle does.
        (0..name.letters.len()).any(|at| begins(at) && is_at(at) && begins(at + needle.len()))
    }
}

impl Haystack {
    /// Splits a name into its words: at signs, before capitals, and between letters and digits.
    pub fn new(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut name = Self::default();
        let mut last: Option<u8> = None;
        for (at, &byte) in bytes.iter().enumerate() {
            if !byte.is_ascii_alphanumeric() {
                last = None;
                continue;
            }
            let next = bytes.get(at + 1).copied();
            name.letters.push(byte.to_ascii_lowercase());
            name.begins.push(last.is_none_or(|last| is_boundary(last, byte, next)));
            last = Some(byte);
        }
        name.begins.push(true);
        name
    }
}

/// Between two neighbours, both letters or digits; `next` follows them (`RMSNorm`: the N begins a word).
fn is_boundary(last: u8, byte: u8, next: Option<u8>) -> bool {
    let rises = last.is_ascii_lowercase() && byte.is_ascii_uppercase();
    let capital_word =
        last.is_ascii_uppercase() && byte.is_ascii_uppercase() && next.is_some_and(|next| next.is_ascii_lowercase());
    rises || capital_word || last.is_ascii_digit() != byte.is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needles_are_found_on_word_boundaries_in_any_spelling() {
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
