//! Finds the traces that a server wrote, and copies them.
//!
//! A file is fresh if its time or size differs from the look before the profiler started. A trace counts when its size no longer
//! changes, its content is complete, and it contains GPU kernels. Servers write one trace per rank, often seconds to minutes after
//! the profiler stopped, so the search ends when all ranks are there, or when nothing changes any more.

use crate::data::FOLDER_WORDS;
use crate::options::Pacing;
use crate::trace_file::{Content, examine};
use crate::{Cancel, Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// The files of a folder at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Snapshot(BTreeMap<PathBuf, Stamp>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    bytes: u64,
}

impl Snapshot {
    /// Lists the files of a folder and its subfolders that can be traces. A folder that is not there has none.
    pub(crate) fn take(folder: &Path) -> Self {
        // A profile folder has hundreds of files.
        const MAX_FILES: usize = 20_000;
        let mut files = BTreeMap::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            let Ok(entries) = std::fs::read_dir(&folder) else { continue };
            for entry in entries.flatten() {
                let Ok(metadata) = entry.metadata() else { continue };
                let name = entry.file_name().to_string_lossy().into_owned();
                if metadata.is_dir() && !FOLDER_WORDS.capture_folders.contains(&name) {
                    folders.push(entry.path());
                } else if metadata.is_file() && is_candidate(&name) && files.len() < MAX_FILES {
                    files.insert(entry.path(), Stamp { modified: metadata.modified().ok(), bytes: metadata.len() });
                }
            }
        }
        Self(files)
    }

    /// The files that are new or changed since `before`.
    pub(crate) fn fresh_since(&self, before: &Self) -> Self {
        let fresh = self.0.iter().filter(|(path, stamp)| before.0.get(*path) != Some(*stamp));
        Self(fresh.map(|(path, stamp)| (path.clone(), *stamp)).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn bytes(&self) -> u64 {
        self.0.values().map(|stamp| stamp.bytes).fold(0, u64::saturating_add)
    }
}

fn is_candidate(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    (lower.ends_with(".json") || lower.ends_with(".json.gz")) && !FOLDER_WORDS.settings.contains(&lower)
}

/// Returns true if the name tells that the file is not the trace of a worker, such as the front end's own.
fn is_set_aside(path: &Path) -> bool {
    let name = name(path).to_ascii_lowercase();
    FOLDER_WORDS.set_aside.iter().any(|aside| name.contains(&aside.word))
}

pub(crate) fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// A search in one folder.
pub(crate) struct Search<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) before: &'a Snapshot,
    /// The number of ranks, if the server tells it.
    pub(crate) ranks: Option<u64>,
    /// How long to wait without any change.
    pub(crate) wait: Duration,
    pub(crate) max_bytes: u64,
    pub(crate) pacing: &'a Pacing,
    pub(crate) cancel: &'a Cancel,
}

/// A complete trace with kernels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
}

/// Why there are no traces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Missing {
    Nothing,
    /// Only traces without kernels; the name of one.
    NoKernels(String),
    /// A trace that does not become complete.
    Unfinished(String),
}

/// The result of a search.
pub(crate) enum SearchResult {
    Found {
        traces: Vec<Found>,
        /// Complete traces without kernels.
        without_kernels: Vec<String>,
        /// Traces that did not become complete.
        unfinished: Vec<String>,
    },
    Missing(Missing),
}

/// The fresh files, sorted by what they are.
#[derive(Default)]
struct Sorted {
    traces: Vec<Found>,
    without_kernels: Vec<String>,
    unfinished: Vec<String>,
    /// Files whose size still changes.
    is_growing: bool,
}

impl Search<'_> {
    /// Looks until the traces are there or nothing has changed for the time to wait.
    pub(crate) fn run(&self) -> Result<SearchResult> {
        let mut examined: BTreeMap<PathBuf, (Stamp, Content)> = BTreeMap::new();
        let mut last = Snapshot::default();
        let mut changed = Instant::now();
        loop {
            self.cancel.check()?;
            let fresh = Snapshot::take(self.folder).fresh_since(self.before);
            if fresh != last {
                (last, changed) = (fresh.clone(), Instant::now());
            }
            self.check_size(&fresh)?;
            let sorted = self.sort(&fresh, changed.elapsed(), &mut examined)?;
            if self.is_done(&sorted, changed.elapsed()) {
                return Ok(sorted.into());
            }
            self.cancel.sleep(self.pacing.poll)?;
        }
    }

    fn is_done(&self, sorted: &Sorted, unchanged: Duration) -> bool {
        if unchanged >= self.wait {
            return true;
        }
        let count = u64::try_from(sorted.traces.len()).unwrap_or(u64::MAX);
        let is_all = self.ranks.is_some_and(|ranks| count >= ranks) || unchanged >= self.pacing.ranks;
        count > 0 && is_all && !sorted.is_growing && sorted.unfinished.is_empty()
    }

    fn check_size(&self, fresh: &Snapshot) -> Result<()> {
        let bytes = fresh.bytes();
        if bytes <= self.max_bytes {
            return Ok(());
        }
        Err(Error::failed(format!(
            "the traces in {} have {bytes} bytes, more than --max-bytes {}: capture fewer --steps, or raise the limit",
            self.folder.display(),
            self.max_bytes
        )))
    }

    /// Examines each file once per size and time, when both have been stable for a while.
    fn sort(
        &self,
        fresh: &Snapshot,
        unchanged: Duration,
        examined: &mut BTreeMap<PathBuf, (Stamp, Content)>,
    ) -> Result<Sorted> {
        let mut sorted =
            Sorted { is_growing: !fresh.is_empty() && unchanged < self.pacing.stable, ..Sorted::default() };
        if sorted.is_growing {
            return Ok(sorted);
        }
        for (path, stamp) in &fresh.0 {
            let known = examined.get(path).filter(|(known, _)| known == stamp).map(|(_, content)| *content);
            let content = match known {
                Some(content) => content,
                None => examine(path, self.cancel)?,
            };
            examined.insert(path.clone(), (*stamp, content));
            match content {
                Content::NotATrace => {}
                Content::Unfinished => sorted.unfinished.push(name(path)),
                Content::Trace { has_kernels: true } if !is_set_aside(path) => {
                    sorted.traces.push(Found { path: path.clone(), bytes: stamp.bytes });
                }
                Content::Trace { .. } => sorted.without_kernels.push(name(path)),
            }
        }
        Ok(sorted)
    }
}

impl From<Sorted> for SearchResult {
    fn from(sorted: Sorted) -> Self {
        let Sorted { traces, without_kernels, unfinished, .. } = sorted;
        if !traces.is_empty() {
            return Self::Found { traces, without_kernels, unfinished };
        }
        let first = |names: &[String]| names.first().cloned();
        Self::Missing(match (first(&unfinished), first(&without_kernels)) {
            (Some(name), _) => Missing::Unfinished(name),
            (None, Some(name)) => Missing::NoKernels(name),
            (None, None) => Missing::Nothing,
        })
    }
}

/// Copies traces to a folder, except those that are in it already. Returns the paths and sizes there.
pub(crate) fn copy(traces: &[Found], folder: &Path) -> Result<Vec<Found>> {
    std::fs::create_dir_all(folder).map_err(|error| Error::file(folder, &error))?;
    let canonical = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let root = canonical(folder);
    let copied = traces.iter().map(|trace| {
        if canonical(&trace.path).starts_with(&root) {
            return Ok(trace.clone());
        }
        let path = unused(folder, &name(&trace.path));
        let part = path.with_file_name(format!("{}.part", name(&path)));
        let bytes = std::fs::copy(&trace.path, &part).map_err(|error| Error::file(&trace.path, &error))?;
        std::fs::rename(&part, &path).map_err(|error| Error::file(&path, &error))?;
        if bytes != trace.bytes {
            return Err(Error::failed(format!("{} changed while it was copied: capture again", trace.path.display())));
        }
        Ok(Found { path, bytes })
    });
    copied.collect()
}

/// The path of a file in a folder, numbered if the name is taken.
fn unused(folder: &Path, name: &str) -> PathBuf {
    let numbered = (1_u32..).map(|number| folder.join(format!("{number}-{name}")));
    let mut paths = std::iter::once(folder.join(name)).chain(numbered);
    paths.find(|path| !path.exists()).unwrap_or_else(|| folder.join(name))
}
