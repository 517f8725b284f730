//! Selects the files of a profile folder for triage: one trace per stage, graph-capture traces, the server's arguments. All other
//! files are skipped with a reason. Cost: O(n log n) in the number of files.
//!
//! Nothing is read here. [`select`] chooses by file name first. The caller reads the chosen files, passes their [`Content`] as
//! `contents`, and calls [`select`] again until it chooses no file with unknown content. Ties are broken by timestamps and ids in
//! the path, then by modification time, then by path, so the result does not depend on the order of the files. The words in
//! file names are in `patterns/profile_folder.json`.

mod names;

pub(crate) use names::name_without_rank;
pub(crate) use names::{batch_in_name, is_graph_capture, is_torch_trace_name, rank_in_name};

use crate::ordering;
use crate::trace::{NONE, Trace};
use names::{Newness, WORDS};
use std::collections::{BTreeSet, HashMap};

/// A file of the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Path relative to the folder, with `/` as separator.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Modification time in milliseconds of any clock.
    pub modified: i64,
    /// Index of the stage that the path names, in the caller's order of stages; `None` if it names none.
    pub stage: Option<u8>,
}

/// The content of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// A trace of GPU work.
    Work,
    /// A trace of graph capture: launches that name kernels, and almost no kernels that ran.
    Capture,
    /// A trace without GPU work.
    HostOnly,
    /// Not a torch.profiler trace.
    NoTrace,
}

/// The use of each file of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// Traces to triage, sorted by stage, then by path.
    pub traces: Vec<Chosen>,
    /// Graph-capture traces, sorted by path: they show which code launches the kernels of graph replays.
    pub mapping: Vec<usize>,
    /// Files that are not used, in the order of the entries.
    pub skipped: Vec<Skipped>,
}

/// A trace to triage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chosen {
    /// Index of the entry.
    pub entry: usize,
    /// Index of the `server_args.json` in its folder or the nearest parent folder.
    pub server_args: Option<usize>,
}

/// A file that is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Index of the entry.
    pub entry: usize,
    /// The reason, as a phrase for people.
    pub why: String,
    /// Set for the newest trace of another rank: the index of the chosen trace of the same stage.
    pub other_rank_of: Option<usize>,
}

/// The paths of the JSON for trace viewer that JAX writes beside a profile of these paths: the same run with less in it.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn trace_viewer_copies<'a>(paths: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let profile = |path: &'a str| path.strip_suffix(".gz").unwrap_or(path).strip_suffix(".xplane.pb");
    paths
        .filter_map(profile)
        .flat_map(|run| {
            let folder = run.rfind('/').map_or("", |end| run.get(..=end).unwrap_or_default());
            let copies = ["trace.json", "trace.json.gz"].map(|end| format!("{run}.{end}"));
            copies.into_iter().chain([format!("{folder}perfetto_trace.json.gz")])
        })
        .collect()
}

/// Returns the content of a trace. Only a trace with [`crate::trace::HostCode`] can be detected as a graph capture.
pub fn content(trace: &Trace) -> Content {
    // Kernels do not run while a graph is captured, but a few kernels around the capture may.
    const MIN_NAMED_PER_OP: usize = 16;
    let names = trace.code.as_ref().map_or(&[][..], |code| &code.call_kernels);
    let named = names.iter().filter(|name| **name != NONE).count();
    match trace.gpu_ops.len() {
        ops if named > ops.saturating_mul(MIN_NAMED_PER_OP) => Content::Capture,
        0 => Content::HostOnly,
        _ => Content::Work,
    }
}

/// Returns the phrase in a server log that shows that a diffusers backend ran. Triage does not cover such runs.
pub fn diffusers_phrase(log: &str) -> Option<&'static str> {
    WORDS.diffusion.iter().find(|words| log.contains(words.as_str())).map(String::as_str)
}

/// Selects the files to use; `contents` has the index and content of the entries read so far.
pub fn select(entries: &[Entry], contents: &[(usize, Content)]) -> Selection {
    let contents = contents.iter().copied().collect();
    let mut selector = Selector { entries, contents, skipped: Vec::new() };
    let (mut traces, mut captures) = selector.by_name();
    if traces.is_empty() {
        traces = selector.fallback_traces(&mut captures);
    }
    let traces = selector.one_folder(traces);
    let traces = selector.single_model_ranks(traces);
    let traces = selector.one_per_stage(traces);
    let mapping = selector.mapping(captures);
    let server_args = |entry: usize| selector.server_args(entry);
    let traces = traces.into_iter().map(|entry| Chosen { entry, server_args: server_args(entry) }).collect();
    let mut skipped = selector.skipped;
    ordering::sort_by_key(&mut skipped, |skipped| skipped.entry);
    Selection { traces, mapping, skipped }
}

const SERVER_ARGS: &str = "server_args.json";

/// The steps of [`select`]. Each step takes candidates as indices of entries, and skips those that it does not return.
struct Selector<'a> {
    entries: &'a [Entry],
    contents: HashMap<usize, Content>,
    skipped: Vec<Skipped>,
}

impl<'a> Selector<'a> {
    fn path(&self, entry: usize) -> &'a str {
        self.entries.get(entry).map_or("", |entry| &entry.path)
    }

    fn content(&self, entry: usize) -> Option<Content> {
        self.contents.get(&entry).copied()
    }

    fn skip(&mut self, entry: usize, why: impl Into<String>) {
        self.skipped.push(Skipped { entry, why: why.into(), other_rank_of: None });
    }

    /// Returns traces and graph captures, by content if known and otherwise by name.
    fn by_name(&mut self) -> (Vec<usize>, Vec<usize>) {
        let (mut traces, mut captures, mut named_capture) = (Vec::new(), Vec::new(), Vec::new());
        for (index, entry) in self.entries.iter().enumerate() {
            if names::base(&entry.path) == SERVER_ARGS {
                continue;
            }
            let in_capture_folder = names::in_capture_folder(&entry.path);
            match (names::skip_reason(&entry.path), self.content(index)) {
                (Some(why), _) => self.skip(index, why),
                _ if entry.bytes == 0 => self.skip(index, "empty"),
                (_, Some(Content::NoTrace)) => self.skip(index, "not a torch.profiler trace"),
                (_, Some(Content::HostOnly)) => self.skip(index, "no GPU work in it"),
                (_, Some(Content::Capture)) => captures.push(index),
                _ if in_capture_folder => captures.push(index),
                (_, None) if names::has_capture_word(&entry.path) => named_capture.push(index),
                _ => traces.push(index),
            }
        }
        // The word "capture" in a name means nothing if every trace has it.
        if traces.is_empty() { &mut traces } else { &mut captures }.extend(named_capture);
        (traces, captures)
    }

    /// Returns the traces to use if no trace has GPU work: graph captures, otherwise traces without GPU work.
    fn fallback_traces(&mut self, captures: &mut Vec<usize>) -> Vec<usize> {
        if !captures.is_empty() {
            return std::mem::take(captures);
        }
        let is_host_only = |index: &usize| self.content(*index) == Some(Content::HostOnly);
        let host_only: Vec<usize> = self.skipped.iter().map(|skipped| skipped.entry).filter(is_host_only).collect();
        let contents = &self.contents;
        self.skipped.retain(|skipped| contents.get(&skipped.entry) != Some(&Content::HostOnly));
        host_only
    }

    /// Keeps the traces in the folder itself; if there are none, those in all subfolders if some path names a stage; otherwise
    /// those in the subfolder of the newest trace.
    fn one_folder(&mut self, traces: Vec<usize>) -> Vec<usize> {
        let folder = |index: &usize| names::folder(self.path(*index));
        let has_stage = |index: &usize| self.entries.get(*index).is_some_and(|entry| entry.stage.is_some());
        let (kept, why) = if traces.iter().any(|index| folder(index).is_empty()) {
            ("", "in a subfolder, and the folder itself has traces")
        } else if traces.iter().any(has_stage) {
            return traces;
        } else {
            match self.newest(&traces) {
                Some(newest) => (folder(&newest), "in a different subfolder than the newest trace"),
                None => return traces,
            }
        };
        let (kept, others): (Vec<usize>, Vec<usize>) = traces.iter().partition(|index| folder(index) == kept);
        others.into_iter().for_each(|index| self.skip(index, why));
        kept
    }

    /// Prefers files of single ranks to files of merged ranks, and traces of the model to those of an encoder server.
    fn single_model_ranks(&mut self, traces: Vec<usize>) -> Vec<usize> {
        let merged = "several ranks merged into one file, and there are files of single ranks";
        let traces = self.skip_if_others(traces, merged, names::is_merged);
        let has_tensor_rank = |path: &str| names::has_rank(path, "tp");
        if !traces.iter().any(|index| has_tensor_rank(self.path(*index))) {
            return traces;
        }
        let encoder = "the trace of an encoder server, and there are traces of the model";
        self.skip_if_others(traces, encoder, |path| names::has_rank(path, "rank") && !has_tensor_rank(path))
    }

    /// Skips the traces whose path matches the predicate, unless all do.
    fn skip_if_others(&mut self, traces: Vec<usize>, why: &str, is_second: impl Fn(&str) -> bool) -> Vec<usize> {
        let (second, first): (Vec<usize>, Vec<usize>) = traces.iter().partition(|index| is_second(self.path(**index)));
        if first.is_empty() {
            return second;
        }
        second.into_iter().for_each(|index| self.skip(index, why));
        first
    }

    /// Keeps, for each stage, the newest file of its first rank.
    fn one_per_stage(&mut self, traces: Vec<usize>) -> Vec<usize> {
        let stage = |index: usize| self.entries.get(index).and_then(|entry| entry.stage);
        let mut stages: Vec<Option<u8>> = traces.iter().map(|index| stage(*index)).collect();
        // Traces without a stage come last.
        ordering::sort_by_key(&mut stages, |stage| (stage.is_none(), *stage));
        stages.dedup();
        let mut chosen = Vec::new();
        for wanted in stages {
            let of_stage: Vec<usize> = traces.iter().copied().filter(|index| stage(*index) == wanted).collect();
            let (kept, others) = self.first_rank(&of_stage);
            let Some(newest) = self.newest(&kept) else { continue };
            let name = self.path(newest).to_owned();
            for entry in kept.into_iter().filter(|index| *index != newest) {
                self.skip(entry, format!("older than {name} of the same stage"));
            }
            let newest_of_ranks = self.newest_of_ranks(&others);
            for entry in others {
                let why = format!("of another rank than {name}");
                let is_newest = newest_of_ranks.contains(&entry);
                self.skipped.push(Skipped { entry, why, other_rank_of: is_newest.then_some(newest) });
            }
            chosen.push(newest);
        }
        chosen
    }

    /// Returns the newest trace of each rank that file names give. Parses each name once: a folder may have thousands of files.
    fn newest_of_ranks(&self, traces: &[usize]) -> BTreeSet<usize> {
        let key = |index: usize| {
            let entry = self.entries.get(index)?;
            Some((names::rank(&entry.path)?, Newness::new(&entry.path, entry.modified), index))
        };
        let mut keys: Vec<_> = traces.iter().filter_map(|index| key(*index)).collect();
        ordering::sort_by(&mut keys, |a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
        keys.chunk_by(|a, b| a.0 == b.0).filter_map(|files| files.last()).map(|(.., index)| *index).collect()
    }

    /// Returns the traces of the lowest rank, and the others. If some names have a rank, those without one are others.
    fn first_rank(&self, traces: &[usize]) -> (Vec<usize>, Vec<usize>) {
        let rank = |index: &usize| names::rank(self.path(*index));
        let Some(first) = traces.iter().filter_map(rank).min() else { return (traces.to_vec(), Vec::new()) };
        traces.iter().partition(|index| rank(index).as_ref() == Some(&first))
    }

    /// Returns the graph captures of the first rank in the folder of the newest one.
    fn mapping(&mut self, captures: Vec<usize>) -> Vec<usize> {
        let (kept, others) = self.first_rank(&captures);
        others.into_iter().for_each(|index| self.skip(index, "a graph capture of another rank"));
        let Some(newest) = self.newest(&kept) else { return Vec::new() };
        let folder = |index: &usize| names::folder(self.path(*index));
        let of_newest = folder(&newest);
        let (mut kept, others): (Vec<usize>, Vec<usize>) = kept.iter().partition(|index| folder(index) == of_newest);
        ordering::sort_by_key(&mut kept, |index| self.path(*index));
        others.into_iter().for_each(|index| self.skip(index, "a graph capture outside the folder of the newest one"));
        kept
    }

    fn newest(&self, traces: &[usize]) -> Option<usize> {
        let newness = |index: &usize| {
            let entry = self.entries.get(*index);
            entry.map(|entry| Newness::new(&entry.path, entry.modified))
        };
        traces.iter().copied().max_by_key(newness)
    }

    fn server_args(&self, trace: usize) -> Option<usize> {
        let parent = |folder: &&'a str| (!folder.is_empty()).then(|| names::folder(folder));
        let mut folders = std::iter::successors(Some(names::folder(self.path(trace))), parent);
        let is_in = |entry: &Entry, folder: &str| {
            (names::folder(&entry.path), names::base(&entry.path)) == (folder, SERVER_ARGS)
        };
        folders.find_map(|folder| self.entries.iter().position(|entry| is_in(entry, folder)))
    }
}

#[cfg(test)]
mod tests;
