//! Which characters are shown as themselves. A name in a trace is text from a stranger: it could send escape sequences
//! to a terminal, begin a line, or reverse the direction of text.

/// Whether a character neither controls a terminal nor changes the direction or the lines of text.
pub(crate) fn is_plain(character: char) -> bool {
    let is_direction = matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    let is_line_end = matches!(character, '\u{2028}' | '\u{2029}');
    !character.is_control() && !is_direction && !is_line_end
}

/// The character that stands for one that is not plain.
pub(crate) const REPLACEMENT: char = '\u{fffd}';

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;

    /// The crate of the capture is not part of the page, so it has the same rule.
    #[test]
    fn text_of_a_trace_and_of_a_server_follow_the_same_rule() {
        let of_server = gpuprism_capture::text::is_plain;
        assert!(('\0'..=char::MAX).all(|character| is_plain(character) == of_server(character)));
    }
}
