//! Which runs are ranks of one capture, from the paths of their files and their tags; O(n log n) in the number of runs.
//!
//! Servers write one trace per rank. They lie in one folder, their names differ in the number of the rank and perhaps in a timestamp,
//! and their facts have the same tags. Files of later captures have the same names but for the timestamp. If ranks share timestamps,
//! files with the same timestamp are a capture. Else the files are taken in the order of time, and a capture ends where a rank comes
//! again, or where a minute lies between two files.

use crate::input::folder::name_without_rank;
use std::collections::{BTreeMap, BTreeSet};

/// Ranks of one capture write their files within this time.
const MAX_DISTANCE_S: i64 = 60;

/// A run that may be a rank.
#[derive(Debug, Clone, Default)]
pub(super) struct Source {
    /// The path of its first file.
    pub(super) path: String,
    /// A JSON object.
    pub(super) tags: String,
    pub(super) date_unix_ms: Option<i64>,
}

/// The first run of the capture of each run that is a rank.
pub(super) fn captures<'a>(runs: impl Iterator<Item = (&'a String, &'a Source)>) -> BTreeMap<String, String> {
    let mut by_name: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (run, source) in runs {
        if let Some(name) = name_without_rank(&source.path) {
            let key = (name.folder, name.rest, source.tags.as_str());
            let file = File { stamps: name.stamps, date_unix_ms: source.date_unix_ms, ranks: name.ranks, run };
            by_name.entry(key).or_default().push(file);
        }
    }
    let mut captures = BTreeMap::new();
    for mut files in by_name.into_values() {
        files.sort();
        let (mut first, mut seen, mut before) = (None, BTreeSet::new(), None);
        let share_stamps = share_stamps(&files);
        for file in files {
            let is_other = before.as_ref().is_some_and(|before| !may_be_one_capture(before, &file, share_stamps));
            if is_other || seen.contains(&file.ranks) {
                (first, seen) = (None, BTreeSet::new());
            }
            seen.insert(file.ranks.clone());
            captures.insert(file.run.to_owned(), first.get_or_insert(file.run).to_owned());
            before = Some(file);
        }
    }
    captures
}

/// A file of a rank; sorted by time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct File<'a> {
    stamps: Vec<String>,
    date_unix_ms: Option<i64>,
    ranks: Vec<(&'static str, u32)>,
    run: &'a str,
}

/// Whether several ranks have the same timestamp. `files` are sorted.
fn share_stamps(files: &[File]) -> bool {
    let is_shared =
        |pair: &[File]| matches!(pair, [a, b] if !a.stamps.is_empty() && a.stamps == b.stamps && a.ranks != b.ranks);
    files.windows(2).any(is_shared)
}

fn may_be_one_capture(a: &File, b: &File, share_stamps: bool) -> bool {
    if share_stamps {
        return a.stamps == b.stamps;
    }
    let times = a.seconds().zip(b.seconds());
    times.is_none_or(|(a, b)| (b - a).abs() <= MAX_DISTANCE_S)
}

impl File<'_> {
    /// The seconds since 1970 of the first timestamp in the name, which begins with ten digits of them; else the date.
    fn seconds(&self) -> Option<i64> {
        let stamp = self.stamps.first().and_then(|stamp| stamp.get(..10)?.parse().ok());
        stamp.or(self.date_unix_ms.map(|date| date / 1_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The captures of files, as the numbers of their first files.
    fn found(paths: &[&str]) -> Vec<Option<usize>> {
        let source = |path: &&str| Source { path: (*path).to_owned(), ..Source::default() };
        let runs: Vec<(String, Source)> =
            (0..).map(|run: usize| run.to_string()).zip(paths.iter().map(source)).collect();
        let captures = captures(runs.iter().map(|(run, source)| (run, source)));
        runs.iter().map(|(run, _)| captures.get(run).and_then(|first| first.parse().ok())).collect()
    }

    #[test]
    fn ranks_of_one_capture_belong_together_and_those_of_the_next_do_not() {
        let sglang =
            ["a/1757000001-TP-0-DECODE.json", "a/1757000001-TP-1-DECODE.json", "a/1757000002-TP-0-DECODE.json"];
        assert_eq!(found(&sglang), [Some(0), Some(0), Some(2)]);
        // The second capture lacks its first rank.
        let incomplete =
            ["a/1757000001-TP-0.json", "a/1757000001-TP-1.json", "a/1757000900-TP-1.json", "a/1757001800-TP-0.json"];
        assert_eq!(found(&incomplete), [Some(0), Some(0), Some(2), Some(3)]);
        // Each rank of vLLM has a timestamp of its own.
        let vllm = [
            "dp0_pp0_tp0_dcp0_ep0_rank0.1757000001000000000.pt.trace.json",
            "dp0_pp0_tp1_dcp0_ep0_rank1.1757000001000000007.pt.trace.json",
            "dp0_pp0_tp1_dcp0_ep0_rank1.1757000900000000007.pt.trace.json",
            "dp0_pp0_tp0_dcp0_ep0_rank0.1757001800000000000.pt.trace.json",
            "dp0_pp0_tp1_dcp0_ep0_rank1.1757001801000000007.pt.trace.json",
        ];
        assert_eq!(found(&vllm), [Some(0), Some(0), Some(2), Some(3), Some(3)]);
    }

    #[test]
    fn other_folders_stages_and_names_without_a_rank_are_other_captures() {
        let paths = ["a/1-TP-0-DECODE.json", "b/1-TP-1-DECODE.json", "a/1-TP-1-EXTEND.json", "a/x.json", "a/y.json"];
        assert_eq!(found(&paths), [Some(0), Some(1), Some(2), None, None]);
    }

    #[test]
    fn other_tags_are_other_captures() {
        let source = |tags: &str, rank: usize| Source {
            path: format!("x-TP-{rank}.json"),
            tags: tags.to_owned(),
            ..Source::default()
        };
        let runs = [("a".to_owned(), source("{1}", 0)), ("b".to_owned(), source("{2}", 1))];
        let found = captures(runs.iter().map(|(run, source)| (run, source)));
        assert_eq!(found.into_iter().filter(|(run, first)| run != first).count(), 0);
    }
}
