//! What a file's name tells of a rank: `rank3`, `worker_0`, `TP-1-DP-0`, `profile_0.pt.trace.json`.

use crate::analysis::communication::ranks::rules::Rules;
use crate::ordering::StableSort;

/// See the module's head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    /// Kind (its place among the kinds; behind them for a bare number) and number, the outermost kind first.
    pub(crate) numbers: Vec<(usize, u32)>,
    /// `rank 3`, `TP 1, DP 0`.
    pub(crate) label: String,
    /// The name without these numbers: what files of one job share.
    pub(crate) stem: String,
    /// The same without times and ids, which ranks write each for itself.
    pub(crate) loose: String,
}

/// Longer numbers are times and ids.
const LONGEST_RANK: usize = 5;
/// The shortest number that is a time or an id.
const SHORTEST_STAMP: usize = 8;

/// `None` for a name that numbers no rank.
pub(crate) fn named(file: &str, rules: &Rules) -> Option<Named> {
    let parts = parts(file);
    let found = numbered_kinds(&parts, rules);
    let found = if found.is_empty() { bare_number(&parts, rules).into_iter().collect() } else { found };
    if found.is_empty() {
        return None;
    }
    let mut numbers: Vec<(usize, u32)> = found.iter().map(|found| (found.kind, found.number)).collect();
    numbers.order_by_key(|number| *number);
    let label = |(kind, number): &(usize, u32)| format!("{} {number}", rules.kind_word(*kind));
    let told = |with_stamps: bool| {
        let mut text = String::new();
        for (at, part) in parts.iter().enumerate() {
            let is_stamp = part.len() >= SHORTEST_STAMP && is_number(part);
            match found.iter().find(|found| found.part == at) {
                Some(found) => text += &format!("{}#", part.get(..found.letters).unwrap_or_default()),
                None if is_stamp && !with_stamps => text.push('*'),
                None => text += part,
            }
        }
        text
    };
    Some(Named {
        label: numbers.iter().map(label).collect::<Vec<_>>().join(", "),
        numbers,
        stem: told(true),
        loose: told(false),
    })
}

/// A number of a rank and where it stands.
struct Found {
    kind: usize,
    number: u32,
    part: usize,
    /// So many letters stand before it in its part.
    letters: usize,
}

/// Letters with the digits behind them, or what stands between two such parts, one character a part.
fn parts(file: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = file;
    while let Some(first) = rest.chars().next() {
        let length = rest.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let (part, behind) = rest.split_at(length.max(first.len_utf8()));
        parts.push(part);
        rest = behind;
    }
    parts
}

fn is_number(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
}

fn rank_number(digits: &str) -> Option<u32> {
    if digits.len() > LONGEST_RANK || !is_number(digits) { None } else { digits.parse().ok() }
}

fn numbered_kinds(parts: &[&str], rules: &Rules) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let letters = part.trim_end_matches(|letter: char| letter.is_ascii_digit()).len();
        let Some(kind) = part.get(..letters).and_then(|word| rules.kind(word)) else { continue };
        if found.iter().any(|known| known.kind == kind) {
            continue;
        }
        let own = part.get(letters..).and_then(rank_number).map(|number| Found { kind, number, part: at, letters });
        let next = || Some(Found { kind, number: rank_number(parts.get(at + 2)?)?, part: at + 2, letters: 0 });
        let is_joined =
            letters == part.len() && parts.get(at + 1).is_some_and(|between| ["-", "_", "="].contains(between));
        found.extend(own.or_else(|| if is_joined { next() } else { None }));
    }
    found
}

/// `_0` at the end of the stem of the file's own name, unless the word before it counts something else.
fn bare_number(parts: &[&str], rules: &Rules) -> Option<Found> {
    let base = parts.iter().rposition(|part| *part == "/").map_or(0, |slash| slash + 1);
    let end = parts.iter().skip(base).position(|part| *part == ".").map_or(parts.len(), |dot| base + dot);
    let part = end.checked_sub(1).filter(|part| *part >= base + 2)?;
    let number = rank_number(parts.get(part)?)?;
    let word = parts.get(part.checked_sub(2)?)?;
    let counts = rules.counts.iter().any(|known| word.eq_ignore_ascii_case(known)) || is_number(word);
    let is_joined = *parts.get(part - 1)? == "_";
    (is_joined && !counts).then_some(Found { kind: rules.kinds.len(), number, part, letters: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_read_in_every_spelling() {
        let rules = Rules::embedded();
        for (file, label, loose) in [
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
            let named = named(file, rules).unwrap();
            assert_eq!((named.label.as_str(), named.loose.as_str()), (label, loose), "{file}");
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
            assert_eq!(named(file, rules), None, "{file}");
        }
    }
}
