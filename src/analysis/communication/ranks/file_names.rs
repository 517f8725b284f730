//! Parses rank numbers from file names: `rank3`, `worker_0`, `TP-1-DP-0`, `profile_0.pt.trace.json`.

use super::rules::Rules;
use crate::ordering;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RankName {
    /// Index of the kind in [`Rules::kinds`] (its length for a bare number) and number, sorted.
    pub(super) numbers: Vec<(usize, u32)>,
    /// The label: `rank 3`, `DP 0, TP 1`.
    pub(super) label: String,
    /// The file name with `#` in place of rank numbers.
    pub(super) without_rank: String,
    /// Additionally with `*` in place of times and ids, which differ between the ranks of a job.
    pub(super) pattern: String,
}

/// Longer numbers are not rank numbers.
const MAX_RANK_DIGITS: usize = 5;
/// Numbers with at least this many digits are times or ids.
const MIN_STAMP_DIGITS: usize = 8;

/// Parses a file name; `None` if it has no rank number.
pub(super) fn parse(file: &str, rules: &Rules) -> Option<RankName> {
    let parts = split(file);
    let found = numbered_kinds(&parts, rules);
    let found = if found.is_empty() { bare_number(&parts, rules).into_iter().collect() } else { found };
    if found.is_empty() {
        return None;
    }
    let mut numbers: Vec<(usize, u32)> = found.iter().map(|found| (found.kind, found.number)).collect();
    ordering::sort_by_key(&mut numbers, |number| *number);
    let label = |(kind, number): &(usize, u32)| format!("{} {number}", rules.kind_label(*kind));
    let rewritten = |keep_stamps: bool| {
        let mut text = String::new();
        for (index, part) in parts.iter().enumerate() {
            let is_stamp = part.len() >= MIN_STAMP_DIGITS && is_number(part);
            match found.iter().find(|found| found.part == index) {
                Some(found) => text += &format!("{}#", part.get(..found.letters).unwrap_or_default()),
                None if is_stamp && !keep_stamps => text.push('*'),
                None => text += part,
            }
        }
        text
    };
    Some(RankName {
        label: numbers.iter().map(label).collect::<Vec<_>>().join(", "),
        numbers,
        without_rank: rewritten(true),
        pattern: rewritten(false),
    })
}

struct RankNumber {
    kind: usize,
    number: u32,
    /// Index of the part that contains the number.
    part: usize,
    /// Length of the letters before the number in this part.
    letters: usize,
}

/// Splits a name into alphanumeric words; every other character is a part of its own.
fn split(file: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = file;
    while let Some(first) = rest.chars().next() {
        let length = rest.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let (part, after) = rest.split_at(length.max(first.len_utf8()));
        parts.push(part);
        rest = after;
    }
    parts
}

fn is_number(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
}

fn rank_number(digits: &str) -> Option<u32> {
    if digits.len() > MAX_RANK_DIGITS || !is_number(digits) { None } else { digits.parse().ok() }
}

/// Numbers directly after a kind's word (`rank3`) or joined to it (`TP-1`, `worker_0`); the first of each kind.
fn numbered_kinds(parts: &[&str], rules: &Rules) -> Vec<RankNumber> {
    let mut found: Vec<RankNumber> = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let letters = part.trim_end_matches(|letter: char| letter.is_ascii_digit()).len();
        let Some(kind) = part.get(..letters).and_then(|word| rules.kind(word)) else { continue };
        if found.iter().any(|other| other.kind == kind) {
            continue;
        }
        let own =
            part.get(letters..).and_then(rank_number).map(|number| RankNumber { kind, number, part: index, letters });
        let next =
            || Some(RankNumber { kind, number: rank_number(parts.get(index + 2)?)?, part: index + 2, letters: 0 });
        let is_joined =
            letters == part.len() && parts.get(index + 1).is_some_and(|between| ["-", "_", "="].contains(between));
        found.extend(own.or_else(|| if is_joined { next() } else { None }));
    }
    found
}

/// `_0` before the first dot of the base name, unless the word before it is a counter word or a number.
fn bare_number(parts: &[&str], rules: &Rules) -> Option<RankNumber> {
    let base = parts.iter().rposition(|part| *part == "/").map_or(0, |slash| slash + 1);
    let end = parts.iter().skip(base).position(|part| *part == ".").map_or(parts.len(), |dot| base + dot);
    let part = end.checked_sub(1).filter(|part| *part >= base + 2)?;
    let number = rank_number(parts.get(part)?)?;
    let word = parts.get(part.checked_sub(2)?)?;
    let is_counter = rules.counter_words.iter().any(|other| word.eq_ignore_ascii_case(other)) || is_number(word);
    let is_joined = *parts.get(part - 1)? == "_";
    (is_joined && !is_counter).then_some(RankNumber { kind: rules.kinds.len(), number, part, letters: 0 })
}

#[cfg(test)]
mod tests {
    use super::super::rules::RULES;
    use super::*;

    #[test]
    fn rank_numbers_are_parsed_in_every_spelling() {
        let rules = &RULES;
        for (file, label, pattern) in [
            ("rank3.pt.trace.json.gz", "rank 3", "rank#.pt.trace.json.gz"),
            ("worker_0_step_12.1694128201545.pt.trace.json", "worker 0", "worker_#_step_12.*.pt.trace.json"),
            (
                "1757000000-TP-1-DP-0-EP-1-DECODE.trace.json.gz",
                "DP 0, TP 1, EP 1",
                "*-TP-#-DP-#-EP-#-DECODE.trace.json.gz",
            ),
            ("profile_7.pt.trace.json", "rank 7", "profile_#.pt.trace.json"),
            ("v1.2_0/run/profile_7.json", "rank 7", "v1.2_0/run/profile_#.json"),
            ("rank1/trace.json", "rank 1", "rank#/trace.json"),
            ("dp0_pp0_tp3_rank3.17.pt.trace.json", "DP 0, PP 0, TP 3, rank 3", "dp#_pp#_tp#_rank#.17.pt.trace.json"),
        ] {
            let name = parse(file, rules).unwrap();
            assert_eq!((name.label.as_str(), name.pattern.as_str()), (label, pattern), "{file}");
        }
        for file in [
            "step_1.json",
            "run_0.5/trace.json",
            "run_0/_1.json",
            "http0.json",
            "rank-1757000000.json",
            "trace.json",
            "20260714_101500.json",
            "",
            "_1",
        ] {
            assert_eq!(parse(file, rules), None, "{file}");
        }
    }
}
