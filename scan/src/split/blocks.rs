//! Bit masks of quotes, backslashes and brackets in blocks of 64 bytes (bit 0 is the first byte), as in simdjson.
//!
//! There are three versions of [`masks`]: SSE2 on x86-64 and simd128 on WebAssembly, which these targets always have, and a scalar
//! one for all others. A property test checks that they agree.

/// The positions of the relevant bytes in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Masks {
    pub(super) quote: u64,
    pub(super) backslash: u64,
    /// `{` or `[`.
    pub(super) open: u64,
    /// `}` or `]`.
    pub(super) close: u64,
    /// `h`, to find the key `"ph"`.
    pub(super) h: u64,
}

/// One block.
pub(super) type Block = [u8; 64];

/// `{` and `[` differ only in this bit, and so do `}` and `]`. With the bit set, two comparisons find all four.
const CASE: u8 = 0x20;

#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::masks;

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
pub(super) use wasm32::masks;

#[cfg(not(any(target_arch = "x86_64", all(target_arch = "wasm32", target_feature = "simd128"))))]
pub(super) use scalar as masks;

/// Returns sixteen bytes as two little-endian halves: a load without a pointer.
#[cfg(any(target_arch = "x86_64", all(target_arch = "wasm32", target_feature = "simd128")))]
#[inline(always)]
fn halves(sixteen: &[u8; 16]) -> (u64, u64) {
    let whole = u128::from_le_bytes(*sixteen);
    (whole as u64, (whole >> 64) as u64)
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::{Block, CASE, Masks, halves};
    use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x, _mm_set1_epi8};

    /// Returns the masks of a block.
    #[inline(always)]
    pub(in super::super) fn masks(block: &Block) -> Masks {
        // SAFETY: SSE2 is part of the x86-64 baseline.
        #[allow(unsafe_code)]
        unsafe {
            masks_sse2(block)
        }
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn masks_sse2(block: &Block) -> Masks {
        let mut masks = Masks { quote: 0, backslash: 0, open: 0, close: 0, h: 0 };
        for (lane, sixteen) in block.as_chunks::<16>().0.iter().enumerate() {
            let (low, high) = halves(sixteen);
            let bytes = _mm_set_epi64x(high.cast_signed(), low.cast_signed());
            let folded = _mm_or_si128(bytes, _mm_set1_epi8(CASE.cast_signed()));
            let shift = 16 * lane;
            masks.quote |= equal(bytes, b'"') << shift;
            masks.backslash |= equal(bytes, b'\\') << shift;
            masks.h |= equal(bytes, b'h') << shift;
            masks.open |= equal(folded, b'{') << shift;
            masks.close |= equal(folded, b'}') << shift;
        }
        masks
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn equal(bytes: __m128i, wanted: u8) -> u64 {
        let hits = _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(wanted.cast_signed())));
        u64::from(hits.cast_unsigned())
    }
}

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm32 {
    use super::{Block, CASE, Masks, halves};
    use std::arch::wasm32::{i8x16_bitmask, u8x16_eq, u8x16_splat, u64x2, v128, v128_or};

    /// Returns the masks of a block.
    #[inline(always)]
    pub(in super::super) fn masks(block: &Block) -> Masks {
        let mut masks = Masks { quote: 0, backslash: 0, open: 0, close: 0, h: 0 };
        for (lane, sixteen) in block.as_chunks::<16>().0.iter().enumerate() {
            let (low, high) = halves(sixteen);
            let bytes = u64x2(low, high);
            let folded = v128_or(bytes, u8x16_splat(CASE));
            let shift = 16 * lane;
            masks.quote |= equal(bytes, b'"') << shift;
            masks.backslash |= equal(bytes, b'\\') << shift;
            masks.h |= equal(bytes, b'h') << shift;
            masks.open |= equal(folded, b'{') << shift;
            masks.close |= equal(folded, b'}') << shift;
        }
        masks
    }

    #[inline(always)]
    fn equal(bytes: v128, wanted: u8) -> u64 {
        u64::from(i8x16_bitmask(u8x16_eq(bytes, u8x16_splat(wanted))))
    }
}

/// The portable version of `masks`.
#[cfg_attr(
    any(target_arch = "x86_64", target_feature = "simd128"),
    allow(dead_code, reason = "the reference in tests")
)]
pub(super) fn scalar(block: &Block) -> Masks {
    let mut masks = Masks { quote: 0, backslash: 0, open: 0, close: 0, h: 0 };
    for (index, &byte) in block.iter().enumerate() {
        masks.quote |= u64::from(byte == b'"') << index;
        masks.backslash |= u64::from(byte == b'\\') << index;
        masks.h |= u64::from(byte == b'h') << index;
        masks.open |= u64::from(byte | CASE == b'{') << index;
        masks.close |= u64::from(byte | CASE == b'}') << index;
    }
    masks
}

/// Finds the insides of strings, across blocks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Strings {
    /// All ones if the last block ended inside a string.
    inside: u64,
    /// One if the last block ended with a backslash that escapes the next byte.
    escape: u64,
}

impl Strings {
    /// Returns the mask of bytes inside strings, including the opening quote but not the closing one.
    #[inline(always)]
    pub(super) fn inside(&mut self, masks: &Masks) -> u64 {
        let quotes = if masks.backslash == 0 && self.escape == 0 {
            masks.quote
        } else {
            masks.quote & !self.escaped(masks.backslash)
        };
        let inside = prefix_xor(quotes) ^ self.inside;
        self.inside = (inside.cast_signed() >> 63).cast_unsigned();
        inside
    }

    /// Returns the mask of escaped bytes.
    #[inline]
    fn escaped(&mut self, backslash: u64) -> u64 {
        let mut escaped = self.escape;
        let mut rest = backslash & !escaped;
        self.escape = 0;
        while rest != 0 {
            let first = rest & rest.wrapping_neg();
            let next = first << 1;
            if next == 0 {
                self.escape = 1;
            }
            escaped |= next;
            rest &= !(first | next);
        }
        escaped
    }
}

/// Counts candidates of the key `"ph"`: a quote, any byte, `h`, a quote. Every `"ph"` is counted, and rarely anything else.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Phases {
    /// Closing quotes of the candidates in this block.
    here: u64,
    /// Number of candidates in the blocks before.
    before: u32,
    /// Masks of the previous block.
    quote: u64,
    h: u64,
}

impl Phases {
    #[inline(always)]
    pub(super) fn add_block(&mut self, masks: &Masks) {
        self.before = self.before.wrapping_add(self.here.count_ones());
        self.here = masks.quote & (masks.h << 1 | self.h >> 63) & (masks.quote << 3 | self.quote >> 61);
        self.quote = masks.quote;
        self.h = masks.h;
    }

    /// Returns the number of candidates that end before this bit of the block.
    #[inline(always)]
    pub(super) fn count_before(&self, bit: u32) -> u32 {
        let below = !u64::MAX.checked_shl(bit).unwrap_or_default();
        self.before.wrapping_add((self.here & below).count_ones())
    }
}

/// Prefix XOR: bit n of the result is the parity of bits 0 to n. It converts quotes to the insides of strings.
#[inline(always)]
fn prefix_xor(mut bits: u64) -> u64 {
    bits ^= bits << 1;
    bits ^= bits << 2;
    bits ^= bits << 4;
    bits ^= bits << 8;
    bits ^= bits << 16;
    bits ^ (bits << 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The reference: byte by byte.
    fn inside_bytewise(text: &[u8]) -> Vec<bool> {
        let (mut inside, mut escaped) = (false, false);
        text.iter()
            .map(|&byte| {
                let quote = byte == b'"' && !escaped;
                escaped = byte == b'\\' && !escaped;
                inside ^= quote;
                inside
            })
            .collect()
    }

    proptest! {
        #[test]
        fn simd_masks_equal_scalar_masks(block in prop::array::uniform32(any::<[u8; 2]>())) {
            let mut bytes = [0; 64];
            for (slot, byte) in bytes.iter_mut().zip(block.iter().flatten()) {
                *slot = *byte;
            }
            prop_assert_eq!(masks(&bytes), scalar(&bytes));
        }

        #[test]
        fn every_ph_key_is_counted_at_any_position(
            text in prop::collection::vec(prop::sample::select(vec![&b"\"ph\""[..], b"\"", b"h", b"xyz"]), 64..256)
        ) {
            let text = text.concat();
            let mut phases = Phases::default();
            for (block, at) in text.as_chunks::<64>().0.iter().zip((0..).step_by(64)) {
                phases.add_block(&masks(block));
                for bit in 0..=64 {
                    let seen = &text[..at + bit];
                    let shaped = |four: &&[u8]| four.starts_with(b"\"") && four.ends_with(b"h\"");
                    let want = seen.windows(4).filter(shaped).count();
                    prop_assert_eq!(phases.count_before(bit as u32) as usize, want);
                    prop_assert!(memchr::memmem::find_iter(seen, b"\"ph\"").count() <= want);
                }
            }
        }

        #[test]
        fn insides_of_strings_are_found_across_blocks(
            text in prop::collection::vec(prop::sample::select(vec![b'"', b'\\', b'x', b'{']), 256)
        ) {
            let mut strings = Strings::default();
            let mut found = Vec::new();
            for block in text.as_chunks::<64>().0 {
                let inside = strings.inside(&masks(block));
                found.extend((0..64).map(|bit| inside >> bit & 1 == 1));
            }
            prop_assert_eq!(found, inside_bytewise(&text));
        }
    }

    #[test]
    fn masks_are_right_for_every_byte_value() {
        for byte in 0..=u8::MAX {
            let block = [byte; 64];
            let all = |is: bool| if is { u64::MAX } else { 0 };
            let want = Masks {
                quote: all(byte == b'"'),
                backslash: all(byte == b'\\'),
                open: all(matches!(byte, b'{' | b'[')),
                close: all(matches!(byte, b'}' | b']')),
                h: all(byte == b'h'),
            };
            assert_eq!(masks(&block), want, "byte {byte:#x}");
            assert_eq!(scalar(&block), want, "byte {byte:#x}");
        }
    }
}
