//! Estimates the width of texts with the advance widths of Helvetica, to which system fonts are close.
//!
//! Neither native code nor a worker can measure text, and a chart must be the same in both.

/// Advance widths of U+0020 to U+007E in thousandths of the font size (Adobe's Helvetica metrics).
const ASCII: [u16; 95] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, // space to /
    556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, // 0 to ?
    1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778, // @ to O
    667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, // P to _
    333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, // ` to o
    556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584, // p to ~
];

/// Added in per cent, so that wider system fonts (Segoe UI, DejaVu Sans) fit.
const MARGIN: i64 = 14;

/// The estimated width of `text` at font size `size`, both in hundredths of a pixel; usually too large.
pub(super) fn width(text: &str, size: i32) -> i32 {
    // Sums of a few widths do not overflow.
    const MAX_WIDTH: i32 = i32::MAX / 4;
    let thousandths: i64 = text.chars().map(advance).sum();
    let width = thousandths.saturating_mul(size.into()).saturating_mul(100 + MARGIN) / 100_000;
    i32::try_from(width).unwrap_or(MAX_WIDTH).min(MAX_WIDTH)
}

/// `text`, or its start and end around an ellipsis if it is wider than `max_width`.
pub(super) fn shorten(text: &str, size: i32, max_width: i32) -> String {
    if width(text, size) <= max_width {
        return text.to_owned();
    }
    // Not even the narrowest characters fit in a larger number. This bounds the cost of very long names.
    let max_chars = usize::try_from(max_width.max(0) / (size / 5).max(1)).unwrap_or(0);
    let head: Vec<char> = text.chars().take(max_chars).collect();
    let tail: Vec<char> = text.chars().rev().take(max_chars).collect();
    (1..=max_chars)
        .rev()
        .map(|keep| {
            let front = keep - keep * 2 / 5;
            let back: String = tail.iter().take(keep - front).rev().collect();
            let front: String = head.iter().take(front).collect();
            // A name that was abbreviated before may have an ellipsis there.
            format!("{}…{}", front.trim_end_matches('…'), back.trim_start_matches('…'))
        })
        .find(|candidate| width(candidate, size) <= max_width)
        .unwrap_or_default()
}

fn advance(glyph: char) -> i64 {
    let code = u32::from(glyph);
    let ascii = code.checked_sub(32).and_then(|index| ASCII.get(usize::try_from(index).ok()?));
    match (ascii, code) {
        (Some(width), _) => i64::from(*width),
        (None, 0x1100..) if glyph != '…' && !('\u{2000}'..='\u{2fff}').contains(&glyph) => 1000,
        (None, 0x2026) => 1000,
        _ => 650,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shorten_keeps_short_names_and_cuts_long_ones_in_the_middle() {
        assert_eq!(shorten("run-a.json", 1300, 10_000), "run-a.json");
        let short = shorten("sglang_qwen3_30b_b300_decode.trace.json.gz", 1300, 13_000);
        assert!(short.starts_with("sglang") && short.ends_with(".gz") && short.contains('…'), "{short}");
        assert!(width(&short, 1300) <= 13_000);
    }

    #[test]
    fn shorten_handles_zero_width_and_very_long_names() {
        assert_eq!(shorten("abc", 1300, 0), "");
        assert!(width(&shorten(&"W".repeat(1_000_000), 1300, 13_000), 1300) <= 13_000);
        assert!(width(&shorten(&"漢字".repeat(5_000), 1300, 13_000), 1300) <= 13_000);
    }
}
