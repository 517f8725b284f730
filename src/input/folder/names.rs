//! Parses the paths of profile files: rank, kind of file, timestamp.

use crate::json::embedded;
use serde::Deserialize;
use std::sync::LazyLock;

/// The content of `patterns/profile_folder.json`.
#[derive(Deserialize)]
pub(super) struct Words {
    settings: Vec<String>,
    set_aside: Vec<Word>,
    capture_folders: Vec<String>,
    capture_files: Vec<String>,
    capture_word: String,
    ranks: Vec<String>,
    pub(super) diffusion: Vec<String>,
}

#[derive(Deserialize)]
struct Word {
    word: String,
    why: String,
}

pub(super) static WORDS: LazyLock<Words> =
    LazyLock::new(|| embedded(serde_json::from_str(include_str!("../../../patterns/profile_folder.json"))));

pub(super) fn base(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, base)| base)
}

/// Returns the folders without the file name; empty for a file in the folder itself.
pub(super) fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Returns why a file of this name is not a trace to triage; `None` if it may be one.
pub(super) fn skip_reason(path: &str) -> Option<&'static str> {
    let base = base(path).to_ascii_lowercase();
    if let Some(known) = WORDS.set_aside.iter().find(|known| has_word(&base, &known.word)) {
        return Some(&known.why);
    }
    if WORDS.settings.contains(&base) {
        return Some("settings, not a trace");
    }
    (!base.ends_with(".json") && !base.ends_with(".json.gz")).then_some("not torch.profiler JSON by its name")
}

/// Returns true if the name has the word, without a letter next to it.
fn has_word(name: &str, word: &str) -> bool {
    let is_letter = |character: Option<char>| character.is_some_and(|character| character.is_ascii_alphabetic());
    let mut matches = name.match_indices(word);
    matches.any(|(at, _)| {
        let (before, after) = (name.get(..at).unwrap_or_default(), name.get(at + word.len()..).unwrap_or_default());
        !is_letter(before.chars().next_back()) && !is_letter(after.chars().next())
    })
}

/// Returns true if one of the folders is one to which servers write graph captures.
pub(super) fn in_capture_folder(path: &str) -> bool {
    let mut folders = folder(path).split('/');
    folders.any(|folder| WORDS.capture_folders.iter().any(|known| folder.to_ascii_lowercase().starts_with(known)))
}

/// Whether a file of this name may be a trace of torch.profiler.
pub(crate) fn is_torch_trace_name(path: &str) -> bool {
    skip_reason(path).is_none()
}

/// Whether the first folder is one to which servers write graph captures, or the file's own name says that it is one.
pub(crate) fn is_graph_capture(path: &str) -> bool {
    let base = base(path).to_ascii_lowercase();
    in_capture_folder(path) || WORDS.capture_files.iter().any(|word| base.contains(word.as_str()))
}

/// The size of the batch in the name of a capture: `bs_32_rank0.json.gz` of SGLang, `capture_graph_bs_32` of ATOM.
pub(crate) fn batch_in_name(path: &str) -> Option<u64> {
    let parts = base(path).split(|character: char| !character.is_ascii_alphanumeric()).collect::<Vec<_>>();
    let named = parts.windows(2).find_map(|pair| match pair {
        [key, number] if key.eq_ignore_ascii_case("bs") => number.parse().ok(),
        _ => None,
    });
    named.filter(|batch| *batch > 0)
}

/// The number of the rank in a name: 3 of `graph_capture_rank_3.1756.pt.trace.json.gz`.
pub(crate) fn rank_in_name(path: &str) -> Option<u32> {
    ranks(path).iter().find(|(kind, _)| *kind == "rank").map(|(_, number)| *number)
}

pub(super) fn has_capture_word(path: &str) -> bool {
    has_word(&base(path).to_ascii_lowercase(), &WORDS.capture_word)
}

pub(super) fn is_merged(path: &str) -> bool {
    let base = base(path).to_ascii_lowercase();
    let stem = base.split(".json").next().unwrap_or_default();
    base.starts_with("merged-") || stem.trim_end_matches(".trace").ends_with("-merged")
}

pub(super) fn has_rank(path: &str, kind: &str) -> bool {
    ranks(path).iter().any(|(known, _)| *known == kind)
}

/// Returns the rank numbers of the file name, in the order of the kinds of ranks in [`Words`]. If all are zero, the list is
/// empty, which sorts first. `None` for a name without a rank.
pub(super) fn rank(path: &str) -> Option<Vec<u32>> {
    let ranks = ranks(path);
    let of_kind = |kind: &String| ranks.iter().find(|(known, _)| known == kind).map(|(_, number)| *number);
    let numbers: Vec<u32> = WORDS.ranks.iter().filter_map(of_kind).collect();
    if numbers.is_empty() {
        return None;
    }
    Some(if numbers.iter().all(|number| *number == 0) { Vec::new() } else { numbers })
}

/// Returns kind and number of each rank in the file name: `tp0`, `TP-0`, `rank_0`.
fn ranks(path: &str) -> Vec<(&'static str, u32)> {
    let base = base(path).to_ascii_lowercase();
    let parts: Vec<&str> = base.split(|character: char| !character.is_ascii_alphanumeric()).collect();
    let mut ranks = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let letters = part.trim_end_matches(|character: char| character.is_ascii_digit());
        let Some(kind) = WORDS.ranks.iter().find(|kind| *kind == letters) else { continue };
        let digits = part.get(letters.len()..).filter(|digits| !digits.is_empty());
        let number = digits.or(parts.get(at + 1).copied()).and_then(|digits| digits.parse().ok());
        // A larger number is a timestamp.
        ranks.extend(number.filter(|number| *number < 100_000).map(|number| (kind.as_str(), number)));
    }
    ranks
}

/// The name of the file of a rank, divided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RankName<'a> {
    /// The folders.
    pub(crate) folder: &'a str,
    /// Kind and number of each rank.
    pub(crate) ranks: Vec<(&'static str, u32)>,
    /// The timestamps and ids.
    pub(crate) stamps: Vec<String>,
    /// The other words of the name, joined.
    pub(crate) rest: String,
}

/// Divides the path of the file of a rank; `None` for a name without a rank.
pub(crate) fn name_without_rank(path: &str) -> Option<RankName<'_>> {
    let (ranks, stamps) = (ranks(path), timestamps(base(path)));
    let is_word = |part: &&str| {
        let kind = part.trim_end_matches(|character: char| character.is_ascii_digit()).to_ascii_lowercase();
        !kind.is_empty() && !WORDS.ranks.contains(&kind)
    };
    let parts = base(path).split(|character: char| !character.is_ascii_alphanumeric());
    let rest = parts.filter(is_word).collect::<Vec<_>>().join(" ");
    (!ranks.is_empty()).then(|| RankName { folder: folder(path), ranks, stamps, rest })
}

/// Sorts files from old to new: by the latest timestamp or id in the path, then by modification time, then by path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Newness {
    stamp: Option<String>,
    modified: i64,
    path: String,
}

impl Newness {
    pub(super) fn new(path: &str, modified: i64) -> Self {
        Self { stamp: timestamps(path).into_iter().max(), modified, path: path.to_owned() }
    }
}

/// Returns the timestamps in a path as digit strings: `1757000000.25`, `1757000000250000000`, `20260714-101500`. Seconds and
/// nanoseconds since the epoch compare correctly as text, because both begin with the ten digits of the seconds.
fn timestamps(path: &str) -> Vec<String> {
    const MIN_DIGITS: usize = 8;
    const MIN_PART_DIGITS: usize = 2;
    let mut stamps: Vec<String> = Vec::new();
    let mut joins = false;
    let mut rest = path;
    while let Some(at) = rest.find(|character: char| character.is_ascii_digit()) {
        let from = rest.get(at..).unwrap_or_default();
        let length = from.find(|character: char| !character.is_ascii_digit()).unwrap_or(from.len());
        let digits = from.get(..length).unwrap_or_default();
        match stamps.last_mut() {
            Some(stamp) if joins && at == 1 && length >= MIN_PART_DIGITS => stamp.push_str(digits),
            _ if length >= MIN_DIGITS => {
                stamps.push(digits.to_owned());
                joins = true;
            }
            _ => joins = false,
        }
        rest = from.get(length..).unwrap_or_default();
        joins &= rest.starts_with(['.', '_', '-', 'T']);
    }
    stamps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_parsed_in_every_spelling_and_all_zeros_sort_first() {
        for zero in [
            "x-TP-0.trace.json.gz",
            "x-tp0-EXTEND.json",
            "dp0_pp0_tp0_dcp0_ep0_rank0.17.pt.trace.json.gz",
            "worker_0.json",
        ] {
            assert_eq!(rank(zero), Some(Vec::new()), "{zero}");
        }
        assert_eq!(rank("1757-TP-1-DP-0-EP-1-DECODE.trace.json.gz"), Some(vec![0, 1, 1]));
        assert_eq!(rank("dp1_pp0_tp0_rank8.trace.json"), Some(vec![1, 0, 0, 8]));
        for without_rank in ["step-1.json", "rank-1757000000.json", "http0.json", "rank/x.json", "prank0.json"] {
            assert_eq!(rank(without_rank), None, "{without_rank}");
        }
        assert!(rank("TP-1") > rank("TP-0") && has_rank("a-rank3-17.json", "rank"));
    }

    #[test]
    fn timestamps_in_names_take_precedence_over_modification_times() {
        let newer = |a: &str, b: &str| Newness::new(a, 0) > Newness::new(b, 9);
        assert!(newer("1757000001-TP-0.json", "1757000000-TP-0.json"));
        assert!(newer("1757000000.25-TP-0.json", "1757000000.125-TP-0.json"));
        assert!(newer("prefill/1757000001/x.json", "prefill/1757000000/y.json"));
        assert!(newer("rank0.1757000001000000000.pt.trace.json", "rank0.1757000000999999999.pt.trace.json"));
        assert!(newer("run-20260714-101501.json", "run-20260714-101500.json"));
        assert!(Newness::new("a.json", 2) > Newness::new("b.json", 1));
        assert!(Newness::new("b.json", 1) > Newness::new("a.json", 1));
    }

    #[test]
    fn names_of_other_files_are_recognised() {
        for (path, word) in [
            ("host_async_llm.17.pt.trace.json.gz", "front end"),
            ("a.viztracer.json", "VizTracer"),
            ("proton_rank0.json", "Proton"),
            ("rank0.profiler_out.txt", "JSON"),
            ("metadata.json", "settings"),
        ] {
            assert!(skip_reason(path).unwrap().contains(word), "{path}");
        }
        for path in ["x-TP-0.trace.json.gz", "trace.json", "protonic.json", "a.PT.TRACE.JSON"] {
            assert_eq!(skip_reason(path), None, "{path}");
        }
        assert!(
            is_merged("merged-17.trace.json.gz") && is_merged("17-merged.trace.json") && is_merged("17-merged.json.gz")
        );
        assert!(!is_merged("submerged-TP-0.trace.json"));
        assert!(has_capture_word("vllm_graph_capture.pt.trace.json.gz") && !has_capture_word("captured.json"));
        assert!(in_capture_folder("a/graph_capture_profile/x.json") && !in_capture_folder("capture-17/x.json"));
    }
}
