//! 64 bytes at a time: where quotes, backslashes and brackets are, as bit masks (bit 0 is the first byte).
//!
//! Three writings of one function: SSE2 on x86-64 and simd128 on wasm, both part of what the target always has, and a
//! scalar twin everywhere else. A property test holds them equal.

/// The bytes of one block that matter to the splitter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Masks {
    pub(super) quote: u64,
    pub(super) backslash: u64,
    /// `{` or `[`.
    pub(super) open: u64,
    /// `}` or `]`.
    pub(super) close: u64,
    /// `h`, the letter that hardly any key but `"ph"` holds between quotes in this place.
    pub(super) h: u64,
}

/// One block.
pub(super) type Block = [u8; 64];

/// `{` and `[` differ only in this bit, as do `}` and `]`: set it, and two comparisons find all four.
const CASE: u8 = 0x20;

#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::masks;

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
pub(super) use wasm32::masks;

#[cfg(not(any(target_arch = "x86_64", all(target_arch = "wasm32", target_feature = "simd128"))))]
pub(super) use scalar as masks;

/// Sixteen bytes of a block as two little-endian halves: a load without a pointer.
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

    /// See the module's head.
    #[inline(always)]
    pub(in super::super) fn masks(block: &Block) -> Masks {
        // SAFETY: SSE2 is part of x86-64 itself, so no machine that runs this lacks it.
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

    /// See the module's head.
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

/// The twin that needs nothing.
#[cfg_attr(any(target_arch = "x86_64", target_feature = "simd128"), allow(dead_code, reason = "the test's oracle"))]
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

/// Follows strings across blocks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Strings {
    /// All ones while the last block ended inside a string.
    inside: u64,
    /// One where the last block ended in an unfinished escape.
    escape: u64,
}

impl Strings {
    /// The bytes of this block that lie inside strings (an opening quote included, a closing one not).
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

    /// The bytes that a backslash takes the meaning from.
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

/// Counts what may be `"ph"`: a quote, any byte, an `h` and a quote. Nothing that is `"ph"` goes uncounted, and next to
/// nothing else is counted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Phases {
    /// The closing quotes of this block.
    here: u64,
    /// How many stood in the blocks before.
    before: u32,
    quote: u64,
    h: u64,
}

impl Phases {
    #[inline(always)]
    pub(super) fn take(&mut self, masks: &Masks) {
        self.before = self.before.wrapping_add(self.here.count_ones());
        self.here = masks.quote & (masks.h << 1 | self.h >> 63) & (masks.quote << 3 | self.quote >> 61);
        self.quote = masks.quote;
        self.h = masks.h;
    }

    /// How many end before this bit of the block.
    #[inline(always)]
    pub(super) fn until(&self, bit: u32) -> u32 {
        let below = !u64::MAX.checked_shl(bit).unwrap_or_default();
        self.before.wrapping_add((self.here & below).count_ones())
    }
}

/// Bit n of the result is the parity of bits 0 to n: it turns quotes into the insides of strings.
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

    /// The obvious way: a byte at a time.
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
        fn the_fast_masks_equal_the_scalar_ones(block in prop::array::uniform32(any::<[u8; 2]>())) {
            let mut bytes = [0; 64];
            for (slot, byte) in bytes.iter_mut().zip(block.iter().flatten()) {
                *slot = *byte;
            }
            prop_assert_eq!(masks(&bytes), scalar(&bytes));
        }

        #[test]
        fn every_phase_is_counted_wherever_it_stands(
            text in prop::collection::vec(prop::sample::select(vec![&b"\"ph\""[..], b"\"", b"h", b"xyz"]), 64..256)
        ) {
            let text = text.concat();
            let mut phases = Phases::default();
            for (block, at) in text.as_chunks::<64>().0.iter().zip((0..).step_by(64)) {
                phases.take(&masks(block));
                for bit in 0..=64 {
                    let seen = &text[..at + bit];
                    let shaped = |four: &&[u8]| four.starts_with(b"\"") && four.ends_with(b"h\"");
                    let want = seen.windows(4).filter(shaped).count();
                    prop_assert_eq!(phases.until(bit as u32) as usize, want);
                    prop_assert!(memchr::memmem::find_iter(seen, b"\"ph\"").count() <= want);
                }
            }
        }

        #[test]
        fn strings_are_followed_across_blocks(
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
    fn every_byte_value_is_told_apart() {
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
