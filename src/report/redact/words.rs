//! Divides text into tokens, and tokens into words. Linear in the text. The build script uses it, too.

/// The tokens of a text: runs of letters and digits.
pub(crate) fn tokens(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric()).filter(|token| !token.is_empty())
}

/// Calls `take` for every word of a token, in lower case, until it returns false. Words end at capitals and digits; a letter
/// that is not ASCII is a word. Returns whether `take` accepted all words.
pub(crate) fn each_word(token: &str, take: &mut dyn FnMut(&str) -> bool) -> bool {
    let mut is_taken = true;
    each_segment(token, &mut |segment| {
        if is_taken && segment.chars().all(char::is_alphabetic) {
            is_taken = take(&segment.to_ascii_lowercase());
        }
    });
    is_taken
}

/// Calls `visit` for every word and every sign between words, which together are the token.
pub(crate) fn each_segment(token: &str, visit: &mut dyn FnMut(&str)) {
    let (mut start, mut before) = (0, None);
    let mut letters = token.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let is_lowercase_next = letters.peek().is_some_and(|(_, next)| next.is_ascii_lowercase());
        let continues = match before {
            None => true,
            Some(before) if !is_letter(before) || !is_letter(letter) => false,
            Some(before) => letter.is_ascii_lowercase() || (before.is_ascii_uppercase() && !is_lowercase_next),
        };
        if !continues {
            visit(token.get(start..at).unwrap_or_default());
            start = at;
        }
        before = Some(letter);
    }
    if start < token.len() {
        visit(token.get(start..).unwrap_or_default());
    }
}

fn is_letter(letter: char) -> bool {
    letter.is_ascii_alphabetic()
}
