//! Lines and fields of CSV tables whose rows have no line ends within quotes, so that a lost quote damages one row only.

use memchr::memchr;
use std::borrow::Cow;

/// Longer lines are damaged.
const MAX_LINE_BYTES: usize = 1 << 20;

/// Cuts a stream into lines. Keeps only the unfinished one.
#[derive(Debug, Default)]
pub(super) struct Lines {
    unfinished: Vec<u8>,
    /// The current line is too long; the rest of it is skipped.
    is_too_long: bool,
}

impl Lines {
    /// Takes the next bytes. `each` gets each line without its end; `None` for one that is too long.
    pub(super) fn feed(&mut self, bytes: &[u8], each: &mut dyn FnMut(Option<&[u8]>)) {
        let mut rest = bytes;
        while let Some(end) = memchr(b'\n', rest) {
            let line = rest.get(..end).unwrap_or_default();
            rest = rest.get(end + 1..).unwrap_or_default();
            if self.unfinished.is_empty() && !self.is_too_long && end <= MAX_LINE_BYTES {
                each(Some(line));
            } else {
                self.extend(line);
                self.end_line(each);
            }
        }
        self.extend(rest);
    }

    /// Ends the stream. Returns true if the last line has no end.
    pub(super) fn finish(&mut self, each: &mut dyn FnMut(Option<&[u8]>)) -> bool {
        let is_open = !self.unfinished.is_empty() || self.is_too_long;
        if is_open {
            self.end_line(each);
        }
        is_open
    }

    fn extend(&mut self, part: &[u8]) {
        self.is_too_long |= self.unfinished.len() + part.len() > MAX_LINE_BYTES;
        if self.is_too_long {
            self.unfinished.clear();
        } else {
            self.unfinished.extend_from_slice(part);
        }
    }

    fn end_line(&mut self, each: &mut dyn FnMut(Option<&[u8]>)) {
        let is_too_long = std::mem::take(&mut self.is_too_long);
        each((!is_too_long).then_some(&self.unfinished));
        self.unfinished.clear();
    }
}

/// Splits a line into fields: start and end of each, quotes included. Returns false if a quote is not closed.
pub(super) fn split(line: &[u8], fields: &mut Vec<(usize, usize)>) -> bool {
    fields.clear();
    let mut at = 0;
    loop {
        let start = at;
        if line.get(at) == Some(&b'"') {
            at += 1;
            loop {
                let Some(quote) = memchr(b'"', line.get(at..).unwrap_or_default()) else { return false };
                at += quote + 1;
                if line.get(at) != Some(&b'"') {
                    break;
                }
                at += 1;
            }
            fields.push((start, at));
            match line.get(at) {
                None => return true,
                Some(b',') => at += 1,
                Some(_) => return false,
            }
        } else {
            match memchr(b',', line.get(at..).unwrap_or_default()) {
                None => {
                    fields.push((start, line.len()));
                    return true;
                }
                Some(comma) => {
                    fields.push((start, at + comma));
                    at += comma + 1;
                }
            }
        }
    }
}

/// Returns the text of a field without its quotes.
#[inline]
pub(super) fn field_text(line: &[u8], (start, end): (usize, usize)) -> Cow<'_, [u8]> {
    let field = line.get(start..end).unwrap_or_default();
    let Some(inner) = field.strip_prefix(b"\"").and_then(|inner| inner.strip_suffix(b"\"")) else {
        return Cow::Borrowed(field.trim_ascii());
    };
    if memchr(b'"', inner).is_none() {
        return Cow::Borrowed(inner);
    }
    let text = String::from_utf8_lossy(inner).replace("\"\"", "\"");
    Cow::Owned(text.into_bytes())
}
