//! Wraps the lines of a finished text at words, for a narrow terminal. Linear in the text.

use super::grid::unbreakable;
use unicode_width::UnicodeWidthStr;

/// A second column that begins after this one has no room to continue below itself.
const MAX_INDENT: usize = 24;

/// The text with lines of at most `width` columns. A line continues below its own beginning: after its blanks, the mark of a list, or the
/// name at its beginning, which two blanks end. A word that is wider than the terminal stays whole, so that it can be copied.
pub fn fit(text: &str, width: usize) -> String {
    let ends_with_line = text.is_empty() || text.ends_with('\n');
    let lines: Vec<String> = text.lines().map(|line| fit_line(line, width)).collect();
    lines.join("\n") + if ends_with_line && !text.is_empty() { "\n" } else { "" }
}

fn fit_line(line: &str, width: usize) -> String {
    if line.width() <= width {
        return line.to_owned();
    }
    let start = start_of_words(line);
    let (head, words) = line.split_at_checked(start).unwrap_or(("", line));
    let indent = " ".repeat(head.width().min(MAX_INDENT).min(width / 2));
    let (mut lines, mut current, mut has_word) = (Vec::new(), head.to_owned(), false);
    for word in unbreakable(words).into_iter().filter(|word| !word.is_empty()) {
        if has_word && current.width() + 1 + word.width() > width {
            lines.push(std::mem::replace(&mut current, indent.clone()));
            has_word = false;
        }
        if has_word {
            current.push(' ');
        }
        current += word;
        has_word = true;
    }
    lines.push(current);
    lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n")
}

/// Where the words of a line begin that continue below each other.
fn start_of_words(line: &str) -> usize {
    let words = line.trim_start();
    let blanks = line.len() - words.len();
    for mark in ["- ", "> ", "* "] {
        if words.starts_with(mark) {
            return blanks + mark.len();
        }
    }
    // The name at the beginning of the line, and the text beside it.
    let name_end = words.find("  ");
    let beside = name_end.and_then(|end| Some(end + words.get(end..)?.find(|next: char| next != ' ')?));
    beside.map(|start| blanks + start).filter(|start| *start <= MAX_INDENT).unwrap_or(blanks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_wrap_at_words_below_their_beginning() {
        assert_eq!(fit("one two three four\n", 10), "one two\nthree four\n");
        assert_eq!(fit("  - one two three\n", 12), "  - one two\n    three\n");
        assert_eq!(fit("warning  one two three four", 18), "warning  one two\n         three\n         four");
        assert_eq!(fit("short\n\nlines\n", 10), "short\n\nlines\n");
        assert_eq!(fit("a /very/long/path/of/a/file b", 10), "a\n/very/long/path/of/a/file\nb");
    }

    #[test]
    fn a_figure_stays_with_its_unit() {
        assert_eq!(fit("idle for 12.5 ms", 12), "idle for\n12.5 ms");
    }
}
