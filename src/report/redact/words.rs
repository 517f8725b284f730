//! Divides text into tokens, and tokens into words. Linear in the text. The build script uses it, too.

/// The tokens of a text: runs of letters and digits.
pub(crate) fn tokens(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric()).filter(|token| !token.is_empty())
}

/// Calls `take` for every word of a token, in lower case, until it returns false. Words end at capitals and digits; a letter
/// that is not ASCII is a word. Returns whether `take` accepted all words.
pub(crate) fn each_word(token: &str, take: &mut dyn FnMut(&str) -> bool) -> bool {
    let mut word = String::new();
    let mut was_lowercase = false;
    let mut letters = token.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_lowercase_next = letters.peek().is_some_and(char::is_ascii_lowercase);
        let starts_word = letter.is_ascii_uppercase() && (was_lowercase || (is_lowercase_next && !word.is_empty()));
        if (starts_word || !letter.is_ascii_alphabetic()) && !word.is_empty() {
            if !take(&word) {
                return false;
            }
            word.clear();
        }
        if letter.is_ascii_alphabetic() {
            word.push(letter.to_ascii_lowercase());
        } else if letter.is_alphabetic() && !take(letter.encode_utf8(&mut [0; 4])) {
            return false;
        }
        was_lowercase = letter.is_ascii_lowercase();
    }
    word.is_empty() || take(&word)
}
