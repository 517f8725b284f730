//! Text that a server or a client chose, before people see it: nothing in it controls the terminal, begins another
//! line, or has no end.

use serde_json::Value;

/// Whether a character is shown as itself. Control characters and those that reverse the direction of text or separate
/// lines are not.
pub fn is_plain(character: char) -> bool {
    let is_direction = matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    let is_line_end = matches!(character, '\u{2028}' | '\u{2029}');
    !character.is_control() && !is_direction && !is_line_end
}

/// Replaces characters that are not plain by U+FFFD, and cuts what is longer than this.
pub fn clean(text: &str, max_chars: usize) -> String {
    let replaced = |character| if is_plain(character) { character } else { '\u{fffd}' };
    let mut characters = text.chars().map(replaced);
    let mut clean: String = characters.by_ref().take(max_chars).collect();
    if characters.next().is_some() {
        clean.push('…');
    }
    clean
}

/// The same JSON with [`clean`] names and strings, of any length.
pub(crate) fn clean_json(value: Value) -> Value {
    let clean = |text: &str| clean(text, usize::MAX);
    match value {
        Value::String(text) => Value::String(clean(&text)),
        Value::Array(items) => Value::Array(items.into_iter().map(clean_json).collect()),
        Value::Object(members) => {
            Value::Object(members.into_iter().map(|(key, value)| (clean(&key), clean_json(value))).collect())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_server_says_neither_controls_the_terminal_nor_begins_a_line() {
        let hostile = "a\nok b\r\u{1b}[2J\u{7}\u{9b}31m\u{202e}c\u{2028}d";
        assert_eq!(clean(hostile, 100), "a\u{fffd}ok b\u{fffd}\u{fffd}[2J\u{fffd}\u{fffd}31m\u{fffd}c\u{fffd}d");
        assert_eq!(clean("käse 字", 100), "käse 字");
        assert_eq!(clean("abcdef", 3), "abc…");
        assert_eq!(clean_json(json!({"a\n": ["b\t", 1, null]})), json!({"a\u{fffd}": ["b\u{fffd}", 1, null]}));
    }
}
