//! Names what the user may have meant by a word that is not known.

/// Less similar words are no suggestion. As for the flags, whose suggestions come from clap.
const MIN_SIMILARITY: f64 = 0.7;

/// Longer words are not compared: no known word is as long, and a comparison takes time in proportion to the length.
const MAX_WORD_BYTES: usize = 200;

/// Why a word is wrong, as a sentence: what is wrong, the known word that is most like it, and what to do.
pub(super) fn unknown<'a>(problem: &str, word: &str, known: impl IntoIterator<Item = &'a str>, remedy: &str) -> String {
    match most_similar(word, known) {
        Some(meant) => format!("{problem}: did you mean `{meant}`? {}", crate::words::capitalize(remedy.to_owned())),
        None => format!("{problem}: {remedy}"),
    }
}

fn most_similar<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > MAX_WORD_BYTES {
        return None;
    }
    let with_similarity = known.into_iter().map(|known| (strsim::jaro(word, known), known));
    let similar = with_similarity.filter(|(similarity, _)| *similarity > MIN_SIMILARITY);
    // Of equally similar words the first, so that the sentence is always the same.
    similar.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_word_gets_the_most_similar_one_and_a_strange_word_none() {
        let known = ["categories", "kernels", "kernels_by_pid", "steps"];
        assert_eq!(most_similar("kernal", known), Some("kernels"));
        assert_eq!(most_similar("xyz", known), None);
        assert_eq!(unknown("no such table", "step", known, "try all"), "no such table: did you mean `steps`? Try all");
        assert_eq!(unknown("no such table", "xyz", known, "try all"), "no such table: try all");
    }
}
