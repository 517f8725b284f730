//! Counts of tests, read from the output of the programs that ran them: libtest, Node's test runner, pytest and unittest.

use std::collections::BTreeMap;
use std::fmt;

/// How many tests passed, failed and were skipped, and how many were skipped for each reason that was printed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Counts {
    passed: u64,
    failed: u64,
    skipped: u64,
    reasons: BTreeMap<String, u64>,
}

/// The beginning of the reason of a test that needs a recorded trace.
const NO_TRACES: &str = "no recorded traces";

impl Counts {
    /// Reads the output of a check.
    pub fn read(output: &str) -> Self {
        let mut counts = Self::default();
        for line in output.lines() {
            counts.libtest(line);
            counts.node(line.trim_start());
            counts.pytest(line);
            counts.unittest(line);
        }
        counts
    }

    pub fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        for (reason, count) in &other.reasons {
            *self.reasons.entry(reason.clone()).or_default() += count;
        }
    }

    pub fn skipped_without_traces(&self) -> u64 {
        self.reasons.iter().filter(|(reason, _)| reason.starts_with(NO_TRACES)).map(|(_, count)| count).sum()
    }

    fn reason(&mut self, reason: &str, count: u64) {
        let reason = reason.trim_matches([' ', ',']);
        if !reason.is_empty() {
            *self.reasons.entry(reason.to_owned()).or_default() += count;
        }
    }

    /// `test NAME ... ignored, REASON`, and `test result: ok. 5 passed; 0 failed; 1 ignored; ...`.
    fn libtest(&mut self, line: &str) {
        if line.starts_with("test result: ") {
            self.passed += before(line, " passed");
            self.failed += before(line, " failed");
            self.skipped += before(line, " ignored");
        } else if let Some((_, reason)) = line.strip_prefix("test ").and_then(|test| test.split_once(" ... ignored")) {
            self.reason(reason, 1);
        }
    }

    /// In both formats: `# pass 5` or `ℹ pass 5`, and `ok 1 - NAME # SKIP REASON` or `﹣ NAME (1ms) # REASON`.
    fn node(&mut self, line: &str) {
        if let Some(total) = line.strip_prefix("# ").or_else(|| line.strip_prefix("ℹ ")) {
            let (word, count) = total.split_once(' ').unwrap_or_default();
            let count = count.parse().unwrap_or(0);
            match word {
                "pass" => self.passed += count,
                "fail" | "cancelled" => self.failed += count,
                "skipped" => self.skipped += count,
                _ => {}
            }
        } else if line.starts_with("ok ") {
            self.reason(line.rsplit_once(" # SKIP").unwrap_or_default().1, 1);
        } else if line.starts_with('﹣') {
            let reason = line.rsplit_once(" # ").unwrap_or_default().1;
            self.reason(if reason == "SKIP" { "" } else { reason }, 1);
        }
    }

    /// With `-rs`: `SKIPPED [2] FILE:LINE: REASON`, and `5 passed, 2 skipped in 3.21s`.
    fn pytest(&mut self, line: &str) {
        if let Some((count, place)) = line.strip_prefix("SKIPPED [").and_then(|line| line.split_once("] ")) {
            self.reason(place.split_once(": ").unwrap_or_default().1, count.parse().unwrap_or(0));
        } else if !line.starts_with("test result: ")
            && line.rsplit_once(" in ").is_some_and(|(_, time)| is_seconds(time))
        {
            self.passed += before(line, " passed");
            self.failed += before(line, " failed") + before(line, " error");
            self.skipped += before(line, " skipped");
        }
    }

    /// `Ran 5 tests in 1.234s`, then `OK (skipped=2)` or `FAILED (failures=1, errors=1, skipped=2)`.
    fn unittest(&mut self, line: &str) {
        if line.starts_with("Ran ") {
            self.passed += before(line, " test");
        } else if line.starts_with("OK (") || line.starts_with("FAILED (") {
            let (failed, skipped) = (after(line, "failures=") + after(line, "errors="), after(line, "skipped="));
            self.failed += failed;
            self.skipped += skipped;
            self.passed = self.passed.saturating_sub(failed + skipped);
        }
    }
}

/// The number before `word`, or 0.
fn before(text: &str, word: &str) -> u64 {
    let number = text.split_once(word).and_then(|(before, _)| before.rsplit(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The number after `word`, or 0.
fn after(text: &str, word: &str) -> u64 {
    let number = text.split_once(word).and_then(|(_, after)| after.split([',', ')']).next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// `3.21s`, or `63.21s (0:01:03)`.
fn is_seconds(text: &str) -> bool {
    let seconds = text.split(' ').next().and_then(|word| word.strip_suffix('s'));
    seconds.is_some_and(|seconds| seconds.parse::<f64>().is_ok())
}

/// A line per reason, and the sums.
impl fmt::Display for Counts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let without_reason = self.skipped.saturating_sub(self.reasons.values().sum());
        for (reason, count) in &self.reasons {
            writeln!(out, "{count} tests skipped: {reason}")?;
        }
        if without_reason > 0 {
            writeln!(out, "{without_reason} tests skipped without a reason")?;
        }
        writeln!(out, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::Counts;

    fn text(output: &str) -> String {
        Counts::read(output).to_string()
    }

    #[test]
    fn results_of_libtest_are_added() {
        let output = "test a::b ... ok\ntest a::c ... ignored, no recorded traces\ntest a::d ... ignored\n\
                      test result: ok. 1 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
                      test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 9 filtered out; finished in 1.00s\n";
        assert_eq!(
            text(output),
            "1 tests skipped: no recorded traces\n1 tests skipped without a reason\n4 passed, 1 failed, 2 skipped\n"
        );
        assert_eq!(Counts::read(output).skipped_without_traces(), 1);
    }

    #[test]
    fn both_formats_of_node_are_read() {
        let tap = "ok 1 - a # SKIP no recorded traces: x\n# tests 3\n# pass 2\n# fail 0\n# cancelled 0\n# skipped 1\n";
        let spec = "﹣ a (0.1ms) # no recorded traces: x\nℹ tests 3\nℹ pass 2\nℹ fail 0\nℹ cancelled 0\nℹ skipped 1\n";
        let expected = "1 tests skipped: no recorded traces: x\n2 passed, 0 failed, 1 skipped\n";
        assert_eq!((text(tap).as_str(), text(spec).as_str()), (expected, expected));
    }

    #[test]
    fn python_s_runners_are_read() {
        let pytest =
            "SKIPPED [2] python/tests/conftest.py:21: no recorded traces\n61 passed, 2 skipped in 63.21s (0:01:03)\n";
        assert_eq!(text(pytest), "2 tests skipped: no recorded traces\n61 passed, 0 failed, 2 skipped\n");
        let unittest = "Ran 5 tests in 1.234s\n\nOK (skipped=2)\nRan 4 tests in 0.1s\n\nOK\n";
        assert_eq!(text(unittest), "2 tests skipped without a reason\n7 passed, 0 failed, 2 skipped\n");
    }
}
