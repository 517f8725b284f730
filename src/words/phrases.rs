//! Counted nouns, lists, and the beginning of a sentence; no cost worth naming.

use crate::digits::grouped;

/// A count and its noun: `1 launch`, `2,000 launches`.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count), noun(count, one, many))
}

/// The noun of a count.
pub(crate) fn noun<'a>(count: u64, one: &'a str, many: &'a str) -> &'a str {
    if count == 1 { one } else { many }
}

/// The same of a count that is formatted already.
pub fn counted_text(count: &str, one: &str, many: &str) -> String {
    format!("{count} {}", if count == "1" { one } else { many })
}

/// `a, b and c`; empty for no names.
pub(crate) fn listed(names: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.split_last() {
        None => String::new(),
        Some((only, [])) => (*only).to_owned(),
        Some((last, first)) => format!("{} and {last}", first.join(", ")),
    }
}

/// `a, b and 3 more`
pub(crate) fn named_and_more(named: &[impl AsRef<str>], more: usize) -> String {
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    named.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", ") + &more
}

/// Makes the first letter upper case if it is an ASCII letter. Unicode case tables would add a thirtieth to the page's first
/// download.
pub(crate) fn capitalize(mut text: String) -> String {
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text
}

/// The words if they are known, else none: an optional clause.
pub(crate) fn or_nothing<T>(fact: Option<T>, words: impl FnOnce(T) -> String) -> String {
    fact.map_or_else(String::new, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_follow_their_counts_and_lists_end_with_and() {
        assert_eq!(counted(1, "copy", "copies"), "1 copy");
        assert_eq!(counted(2_000, "copy", "copies"), "2,000 copies");
        assert_eq!([&["a"][..], &["a", "b"], &["a", "b", "c"]].map(listed), ["a", "a and b", "a, b and c"]);
        assert_eq!(capitalize("gaps of the GPU".to_owned()), "Gaps of the GPU");
    }
}
