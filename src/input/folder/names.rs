//! What the name of a profile's file tells: rank, kind, and when it was made.

use serde::Deserialize;
use std::sync::LazyLock;

#[derive(Deserialize)]
pub(super) struct Words {
    settings: Vec<String>,
    set_aside: Vec<Word>,
    capture_folders: Vec<String>,
    capture_word: String,
    ranks: Vec<String>,
    pub(super) diffusion: Vec<String>,
}

#[derive(Deserialize)]
struct Word {
    word: String,
    why: String,
}

static WORDS: LazyLock<Words> = LazyLock::new(|| {
    #[allow(clippy::expect_used, reason = "a file of this crate, read by the tests")]
    serde_json::from_str(include_str!("../../../patterns/profile_folder.json")).expect("patterns/profile_folder.json")
});

impl Words {
    pub(super) fn get() -> &'static Self {
        &WORDS
    }
}

/// The name without its folders.
pub(super) fn base(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, base)| base)
}

/// The folders without the name; empty for the folder itself.
pub(super) fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Why a file of this name is no trace to triage; `None` where it may be one.
pub(super) fn why_aside(path: &str) -> Option<&'static str> {
    let base = base(path).to_ascii_lowercase();
    if let Some(known) = WORDS.set_aside.iter().find(|known| has_word(&base, &known.word)) {
        return Some(&known.why);
    }
    if WORDS.settings.contains(&base) {
        return Some("settings, no trace");
    }
    (!base.ends_with(".json") && !base.ends_with(".json.gz")).then_some("no torch.profiler JSON by its name")
}

/// Does the name hold the word with no letter beside it?
fn has_word(name: &str, word: &str) -> bool {
    let is_letter = |character: Option<char>| character.is_some_and(|character| character.is_ascii_alphabetic());
    let mut places = name.match_indices(word);
    places.any(|(at, _)| {
        let (before, after) = (name.get(..at).unwrap_or_default(), name.get(at + word.len()..).unwrap_or_default());
        !is_letter(before.chars().next_back()) && !is_letter(after.chars().next())
    })
}

/// Is one of its folders one that servers write captures of graphs to?
pub(super) fn in_capture_folder(path: &str) -> bool {
    let mut folders = folder(path).split('/');
    folders.any(|folder| WORDS.capture_folders.iter().any(|known| folder.to_ascii_lowercase().starts_with(known)))
}

/// Does its name speak of a capture?
pub(super) fn says_capture(path: &str) -> bool {
    has_word(&base(path).to_ascii_lowercase(), &WORDS.capture_word)
}

/// Does it hold all ranks?
pub(super) fn is_merged(path: &str) -> bool {
    let base = base(path).to_ascii_lowercase();
    let stem = base.split(".json").next().unwrap_or_default();
    base.starts_with("merged-") || stem.trim_end_matches(".trace").ends_with("-merged")
}

/// Does the name number a rank of this kind?
pub(super) fn has_rank(path: &str, kind: &str) -> bool {
    ranks(path).iter().any(|(known, _)| *known == kind)
}

/// Its numbers among the ranks, in the order of the kinds of ranks; none but zeros is the empty list, which is the least.
/// `None` for a name without a rank.
pub(super) fn rank(path: &str) -> Option<Vec<u32>> {
    let ranks = ranks(path);
    let of_kind = |kind: &String| ranks.iter().find(|(known, _)| known == kind).map(|(_, number)| *number);
    let numbers: Vec<u32> = WORDS.ranks.iter().filter_map(of_kind).collect();
    if numbers.is_empty() {
        return None;
    }
    Some(if numbers.iter().all(|number| *number == 0) { Vec::new() } else { numbers })
}

/// `tp0`, `TP-0`, `rank_0`: kind and number.
fn ranks(path: &str) -> Vec<(&'static str, u32)> {
    let base = base(path).to_ascii_lowercase();
    let parts: Vec<&str> = base.split(|character: char| !character.is_ascii_alphanumeric()).collect();
    let mut ranks = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let letters = part.trim_end_matches(|character: char| character.is_ascii_digit());
        let Some(kind) = WORDS.ranks.iter().find(|kind| *kind == letters) else { continue };
        let digits = part.get(letters.len()..).filter(|digits| !digits.is_empty());
        let number = digits.or(parts.get(at + 1).copied()).and_then(|digits| digits.parse().ok());
        // A longer number is a time.
        ranks.extend(number.filter(|number| *number < 100_000).map(|number| (kind.as_str(), number)));
    }
    ranks
}

/// How new a file is, oldest first: by the latest time or id in its path, then by when it was written, then by the path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Newness {
    stamp: Option<String>,
    modified: i64,
    path: String,
}

impl Newness {
    pub(super) fn new(path: &str, modified: i64) -> Self {
        Self { stamp: stamps(path).into_iter().max(), modified, path: path.to_owned() }
    }
}

/// The long numbers in a path, as digits that compare by value whether they count seconds or nanoseconds:
/// `1757000000.25`, `1757000000250000000`, `20260714-101500`.
fn stamps(path: &str) -> Vec<String> {
    const SHORTEST: usize = 8;
    const SHORTEST_REST: usize = 2;
    let mut stamps: Vec<String> = Vec::new();
    let mut joins = false;
    let mut rest = path;
    while let Some(at) = rest.find(|character: char| character.is_ascii_digit()) {
        let from = rest.get(at..).unwrap_or_default();
        let length = from.find(|character: char| !character.is_ascii_digit()).unwrap_or(from.len());
        let digits = from.get(..length).unwrap_or_default();
        match stamps.last_mut() {
            Some(stamp) if joins && at == 1 && length >= SHORTEST_REST => stamp.push_str(digits),
            _ if length >= SHORTEST => {
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
    fn ranks_are_read_in_every_spelling_and_all_zeros_are_least() {
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
        for none in ["step-1.json", "rank-1757000000.json", "http0.json", "rank/x.json", "prank0.json"] {
            assert_eq!(rank(none), None, "{none}");
        }
        assert!(rank("TP-1") > rank("TP-0") && has_rank("a-rank3-17.json", "rank"));
    }

    #[test]
    fn times_in_names_beat_times_of_writing_whatever_they_count() {
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
    fn what_is_no_trace_is_told_by_its_name() {
        for (path, word) in [
            ("host_async_llm.17.pt.trace.json.gz", "front end"),
            ("a.viztracer.json", "VizTracer"),
            ("proton_rank0.json", "Proton"),
            ("rank0.profiler_out.txt", "JSON"),
            ("metadata.json", "settings"),
        ] {
            assert!(why_aside(path).unwrap().contains(word), "{path}");
        }
        for path in ["x-TP-0.trace.json.gz", "trace.json", "protonic.json", "a.PT.TRACE.JSON"] {
            assert_eq!(why_aside(path), None, "{path}");
        }
        assert!(
            is_merged("merged-17.trace.json.gz") && is_merged("17-merged.trace.json") && is_merged("17-merged.json.gz")
        );
        assert!(!is_merged("submerged-TP-0.trace.json"));
        assert!(says_capture("vllm_graph_capture.pt.trace.json.gz") && !says_capture("captured.json"));
        assert!(in_capture_folder("a/graph_capture_profile/x.json") && !in_capture_folder("capture-17/x.json"));
    }
}
