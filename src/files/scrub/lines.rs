//! Scrubs tables of text, such as CSV, line by line: private words between signs that divide cells are replaced.

use super::removal::Removal;

/// Cells end at one of these. Numbers, such as times, are cells of their own.
const DIVIDERS: [char; 5] = [',', ';', '\t', '"', '|'];

/// Keeps the line that is not yet complete.
#[derive(Debug, Default)]
pub(super) struct LineScrubber {
    unfinished: Vec<u8>,
}

impl LineScrubber {
    /// Scrubs the next bytes.
    pub(super) fn push(&mut self, bytes: &[u8], removal: &mut Removal, out: &mut Vec<u8>) {
        self.unfinished.extend_from_slice(bytes);
        let Some(last) = memchr::memrchr(b'\n', &self.unfinished) else { return };
        let rest = self.unfinished.split_off(last + 1);
        self.finish(removal, out);
        self.unfinished = rest;
    }

    /// Scrubs the last line.
    pub(super) fn finish(&mut self, removal: &mut Removal, out: &mut Vec<u8>) {
        let text = String::from_utf8_lossy(&self.unfinished);
        for line in text.split_inclusive('\n') {
            for cell in line.split_inclusive(DIVIDERS) {
                let value = cell.trim_matches(|letter: char| DIVIDERS.contains(&letter) || letter.is_whitespace());
                out.extend_from_slice(cell.replacen(value, &removal.text(value), 1).as_bytes());
            }
        }
        self.unfinished.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_keep_their_signs_and_numbers() {
        let text = "\"Kernel_Name\",Start\r\n\"void zorblax<1, \"\"x\"\">(int)\",1704161511420000100\r\n\nzorblax";
        for chunk in 1..text.len() {
            let (mut scrubber, mut removal, mut out) = (LineScrubber::default(), Removal::default(), Vec::new());
            removal.end_learning();
            text.as_bytes().chunks(chunk).for_each(|chunk| scrubber.push(chunk, &mut removal, &mut out));
            scrubber.finish(&mut removal, &mut out);
            let out = String::from_utf8(out).unwrap();
            assert!(
                !out.contains("zorblax") && out.contains("<1, \"\"x\"\">(int)\",1704161511420000100\r\n\n"),
                "{out}"
            );
        }
    }
}
