//! Which files of a profile folder to triage: one trace a stage, traces that tell where kernels of graph replays come
//! from, the server's arguments; everything else is set aside with a reason.
//!
//! Nothing is read here. Names are judged first; what a file turned out to hold comes back through `known`, and
//! [`select`] is asked again until it names no file that was not read. Ties are broken by times and ids in the names, then
//! by the time of writing, then by the path: copies of a folder give the same answer. Words are in
//! `patterns/profile_folder.json`.

mod names;

use crate::ordering::StableSort;
use crate::trace::{NONE, Trace};
use names::{Newness, Words};
use std::collections::BTreeSet;

/// A file of the folder, before it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Relative to the folder, with `/` between its parts.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// When it was last written, in milliseconds of any clock.
    pub modified: i64,
    /// The stage that its path tells, in the caller's order of stages; `None` where it tells none.
    pub stage: Option<u8>,
}

/// What a file turned out to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// A trace of GPU work.
    Work,
    /// A trace of graphs being captured: launches that name kernels, and next to none that ran.
    Capture,
    /// A trace without GPU work.
    HostOnly,
    /// No torch.profiler trace.
    NoTrace,
}

/// What to do with each file of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// To triage, in the order of stages, then by path.
    pub traces: Vec<Chosen>,
    /// To learn from where kernels come from, by path.
    pub mapping: Vec<usize>,
    /// Not used, in the order of the entries.
    pub aside: Vec<Aside>,
}

/// A trace to triage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chosen {
    /// Its place among the entries.
    pub entry: usize,
    /// The place of the `server_args.json` in its folder or the nearest one above.
    pub server_args: Option<usize>,
}

/// A file that is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aside {
    /// Its place among the entries.
    pub entry: usize,
    /// A phrase.
    pub why: String,
    /// It is the newest trace of another rank than this one, which was chosen.
    pub rank_beside: Option<usize>,
}

/// What a trace holds, by what it was read with: [`crate::trace::Code`] tells a capture of graphs.
pub fn content(trace: &Trace) -> Content {
    // While graphs are captured nothing they hold runs; a few kernels around it may.
    const NAMED_PER_OP: usize = 16;
    let names = trace.code.as_ref().map_or(&[][..], |code| &code.call_kernels);
    let named = names.iter().filter(|name| **name != NONE).count();
    match trace.gpu_ops.len() {
        ops if named > ops.saturating_mul(NAMED_PER_OP) => Content::Capture,
        0 => Content::HostOnly,
        _ => Content::Work,
    }
}

/// The words in the log of a run that say that a diffusers backend did its work: such a run is not to be triaged.
pub fn diffusion(log: &str) -> Option<&'static str> {
    Words::get().diffusion.iter().find(|words| log.contains(words.as_str())).map(String::as_str)
}

/// Chooses among the files of a folder; `known` is what some of them turned out to hold.
pub fn select(entries: &[Entry], known: &[(usize, Content)]) -> Selection {
    let mut sorting = Sorting { entries, known, aside: Vec::new() };
    let (mut traces, mut captures) = sorting.by_name();
    if traces.is_empty() {
        traces = sorting.second_best(&mut captures);
    }
    let traces = sorting.one_folder(traces);
    let traces = sorting.rank_local(traces);
    let traces = sorting.one_a_stage(traces);
    let mapping = sorting.mapping(captures);
    let server_args = |entry: usize| sorting.server_args(entry);
    let traces = traces.into_iter().map(|entry| Chosen { entry, server_args: server_args(entry) }).collect();
    let mut aside = sorting.aside;
    aside.order_by_key(|aside| aside.entry);
    Selection { traces, mapping, aside }
}

struct Sorting<'a> {
    entries: &'a [Entry],
    known: &'a [(usize, Content)],
    aside: Vec<Aside>,
}

impl<'a> Sorting<'a> {
    fn path(&self, entry: usize) -> &'a str {
        self.entries.get(entry).map_or("", |entry| &entry.path)
    }

    fn content(&self, entry: usize) -> Option<Content> {
        self.known.iter().rev().find(|(known, _)| *known == entry).map(|(_, content)| *content)
    }

    fn put_aside(&mut self, entry: usize, why: impl Into<String>) {
        self.aside.push(Aside { entry, why: why.into(), rank_beside: None });
    }

    /// Traces and captures of graphs, as far as names and what is known tell.
    fn by_name(&mut self) -> (Vec<usize>, Vec<usize>) {
        let (mut traces, mut captures, mut perhaps) = (Vec::new(), Vec::new(), Vec::new());
        for (at, entry) in self.entries.iter().enumerate() {
            if names::base(&entry.path) == "server_args.json" {
                continue;
            }
            let in_capture_folder = names::in_capture_folder(&entry.path);
            match (names::why_aside(&entry.path), self.content(at)) {
                (Some(why), _) => self.put_aside(at, why),
                _ if entry.bytes == 0 => self.put_aside(at, "empty"),
                (_, Some(Content::NoTrace)) => self.put_aside(at, "no torch.profiler trace in it"),
                (_, Some(Content::HostOnly)) => self.put_aside(at, "no GPU work in it"),
                (_, Some(Content::Capture)) => captures.push(at),
                _ if in_capture_folder => captures.push(at),
                (_, None) if names::says_capture(&entry.path) => perhaps.push(at),
                _ => traces.push(at),
            }
        }
        // A word in a name says little where every trace has it.
        if traces.is_empty() { &mut traces } else { &mut captures }.extend(perhaps);
        (traces, captures)
    }

    /// Where no trace has GPU work: those that were read, graph captures before the rest.
    fn second_best(&mut self, captures: &mut Vec<usize>) -> Vec<usize> {
        if !captures.is_empty() {
            return std::mem::take(captures);
        }
        let read = |at: &usize| self.content(*at) == Some(Content::HostOnly);
        let host_only: Vec<usize> = self.aside.iter().map(|aside| aside.entry).filter(read).collect();
        self.aside.retain(|aside| !host_only.contains(&aside.entry));
        host_only
    }

    /// Traces of the folder itself; else of all subfolders where some tell a stage; else of the one with the newest.
    fn one_folder(&mut self, traces: Vec<usize>) -> Vec<usize> {
        let folder = |at: &usize| names::folder(self.path(*at));
        let has_stage = |at: &usize| self.entries.get(*at).is_some_and(|entry| entry.stage.is_some());
        let (kept, why) = if traces.iter().any(|at| folder(at).is_empty()) {
            ("", "in a subfolder, while traces lie in the folder itself")
        } else if traces.iter().any(has_stage) {
            return traces;
        } else {
            match self.newest(&traces) {
                Some(newest) => (folder(&newest), "in another subfolder than the newest trace"),
                None => return traces,
            }
        };
        let (kept, others): (Vec<usize>, Vec<usize>) = traces.iter().partition(|at| folder(at) == kept);
        others.into_iter().for_each(|at| self.put_aside(at, why));
        kept
    }

    /// Each rank's own file rather than the one that holds them all, and the ranks of the model rather than an encoder's.
    fn rank_local(&mut self, traces: Vec<usize>) -> Vec<usize> {
        let merged = "several ranks merged into one file, while files of single ranks are there";
        let traces = self.prefer(traces, merged, names::is_merged);
        let has_tensor_rank = |path: &str| names::has_rank(path, "tp");
        if !traces.iter().any(|at| has_tensor_rank(self.path(*at))) {
            return traces;
        }
        let encoder = "an encoder server's trace beside those of the model";
        self.prefer(traces, encoder, |path| names::has_rank(path, "rank") && !has_tensor_rank(path))
    }

    /// Those that are not `second`, if there are any.
    fn prefer(&mut self, traces: Vec<usize>, why: &str, second: impl Fn(&str) -> bool) -> Vec<usize> {
        let (second, first): (Vec<usize>, Vec<usize>) = traces.iter().partition(|at| second(self.path(**at)));
        if first.is_empty() {
            return second;
        }
        second.into_iter().for_each(|at| self.put_aside(at, why));
        first
    }

    /// Of each stage the newest file of its first rank.
    fn one_a_stage(&mut self, traces: Vec<usize>) -> Vec<usize> {
        let stage = |at: usize| self.entries.get(at).and_then(|entry| entry.stage);
        let mut stages: Vec<Option<u8>> = traces.iter().map(|at| stage(*at)).collect();
        // What has no stage comes last.
        stages.order_by_key(|stage| (stage.is_none(), *stage));
        stages.dedup();
        let mut chosen = Vec::new();
        for wanted in stages {
            let of_stage: Vec<usize> = traces.iter().copied().filter(|at| stage(*at) == wanted).collect();
            let (kept, others) = self.first_rank(&of_stage);
            let Some(newest) = self.newest(&kept) else { continue };
            let name = self.path(newest).to_owned();
            for entry in kept.into_iter().filter(|at| *at != newest) {
                self.put_aside(entry, format!("not the newest of its stage, which is {name}"));
            }
            let newest_of_ranks = self.newest_of_ranks(&others);
            for entry in others {
                let why = format!("another rank than {name}");
                let is_newest = newest_of_ranks.contains(&entry);
                self.aside.push(Aside { entry, why, rank_beside: is_newest.then_some(newest) });
            }
            chosen.push(newest);
        }
        chosen
    }

    /// Of each rank that names tell the newest trace. Each name is read once: a folder may hold thousands.
    fn newest_of_ranks(&self, traces: &[usize]) -> BTreeSet<usize> {
        let of = |at: usize| {
            let entry = self.entries.get(at)?;
            Some((names::rank(&entry.path)?, Newness::new(&entry.path, entry.modified), at))
        };
        let mut told: Vec<_> = traces.iter().filter_map(|at| of(*at)).collect();
        told.order_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
        told.chunk_by(|a, b| a.0 == b.0).filter_map(|files| files.last()).map(|(.., at)| *at).collect()
    }

    /// The traces of the lowest rank, and the others. A name without a rank is another rank where some have one.
    fn first_rank(&self, traces: &[usize]) -> (Vec<usize>, Vec<usize>) {
        let rank = |at: &usize| names::rank(self.path(*at));
        let Some(first) = traces.iter().filter_map(rank).min() else { return (traces.to_vec(), Vec::new()) };
        traces.iter().partition(|at| rank(at).as_ref() == Some(&first))
    }

    /// Captures of the first rank, of the folder with the newest.
    fn mapping(&mut self, captures: Vec<usize>) -> Vec<usize> {
        let (kept, others) = self.first_rank(&captures);
        others.into_iter().for_each(|at| self.put_aside(at, "another rank's graph capture"));
        let Some(newest) = self.newest(&kept) else { return Vec::new() };
        let folder = |at: &usize| names::folder(self.path(*at));
        let of_newest = folder(&newest);
        let (mut kept, others): (Vec<usize>, Vec<usize>) = kept.iter().partition(|at| folder(at) == of_newest);
        kept.order_by_key(|at| self.path(*at));
        others.into_iter().for_each(|at| self.put_aside(at, "a graph capture in another folder than the newest"));
        kept
    }

    fn newest(&self, traces: &[usize]) -> Option<usize> {
        let newness = |at: usize| {
            let entry = self.entries.get(at);
            entry.map(|entry| Newness::new(&entry.path, entry.modified))
        };
        traces.iter().copied().max_by(|a, b| newness(*a).cmp(&newness(*b)))
    }

    fn server_args(&self, trace: usize) -> Option<usize> {
        let mut folder = names::folder(self.path(trace));
        loop {
            let is_there =
                |entry: &Entry| names::base(&entry.path) == "server_args.json" && names::folder(&entry.path) == folder;
            if let Some(found) = self.entries.iter().position(is_there) {
                return Some(found);
            }
            if folder.is_empty() {
                return None;
            }
            folder = names::folder(folder);
        }
    }
}

#[cfg(test)]
mod tests;
