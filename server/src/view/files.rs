//! The files that the page may read: those that were named, the traces below a watched folder, and what a capture wrote. Nothing else,
//! whatever a request asks for: requests name a number that was listed before, and the path behind it is resolved again for every read.

use gpuprism_capture::text::clean;
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::UNIX_EPOCH;

/// Files in a watched folder that the page can read.
const SUFFIXES: [&str; 6] = [".json", ".sqlite", ".db", ".csv", ".xplane.pb", ".pftrace"];
/// Limits for a home folder that was named by mistake.
const MAX_FILES: usize = 5000;
const MAX_DEPTH: usize = 8;
const MAX_NAME_CHARS: usize = 200;

/// The named files, the watched folder, and the files of captures.
#[derive(Debug)]
pub(super) struct Files {
    named: Vec<Named>,
    folder: Option<PathBuf>,
    /// The paths behind the numbers of listed files.
    listed: Mutex<Numbers>,
    /// What cannot be read and was told to the log.
    told: Mutex<BTreeSet<PathBuf>>,
}

/// Paths by number, and back.
#[derive(Debug, Default)]
struct Numbers {
    paths: Vec<Allowed>,
    ids: HashMap<Allowed, usize>,
}

/// A path that may be read as long as it is a file inside `root`, which is the file itself if it was named.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Allowed {
    path: PathBuf,
    root: PathBuf,
}

/// A file that was named: it keeps its name if it is a link.
#[derive(Debug)]
struct Named {
    name: String,
    path: PathBuf,
}

/// What the page gets.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub(super) struct List {
    /// The name of the watched folder; null if files were named.
    folder: Option<String>,
    files: Vec<Listed>,
    /// False if there are more files than are listed.
    is_complete: bool,
    /// Whether the page can start captures.
    pub(super) can_capture: bool,
}

#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
pub(super) struct Listed {
    id: usize,
    name: String,
    size: u64,
    modified_ms: u64,
    /// Whether the page opens it without being asked.
    is_named: bool,
}

impl Numbers {
    /// The number of a path, which is the same in each list.
    fn id(&mut self, path: Allowed) -> usize {
        *self.ids.entry(path).or_insert_with_key(|path| {
            self.paths.push(path.clone());
            self.paths.len() - 1
        })
    }
}

impl Files {
    /// Resolves the paths once: a link that is changed later has no effect.
    pub(super) fn new(paths: &[PathBuf]) -> io::Result<Self> {
        let (mut named, mut folder) = (Vec::new(), None);
        for given in paths {
            let failed = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", given.display()));
            let path = given.canonicalize().map_err(failed)?;
            let name = file_name(given).or_else(|| file_name(&path)).unwrap_or_default();
            match std::fs::metadata(&path).map_err(failed)? {
                file if file.is_dir() && folder.is_none() => folder = Some(path),
                file if file.is_dir() => return Err(failed(io::Error::other("only one folder can be watched"))),
                file if file.is_file() => named.push(Named { name, path }),
                _ => return Err(failed(io::Error::other("neither a file nor a folder"))),
            }
        }
        Ok(Self { named, folder, listed: Mutex::default(), told: Mutex::default() })
    }

    /// All files that can be read now. Cost: one look at each file below the watched folder.
    pub(super) fn list(&self) -> List {
        let folder = self.folder.as_deref().and_then(file_name);
        let mut list = List { folder, files: Vec::new(), is_complete: true, can_capture: false };
        for Named { name, path } in &self.named {
            // A file that was deleted, or replaced by a link, is no longer listed.
            if let Some(Ok(metadata)) = resolved(path, path).map(std::fs::metadata) {
                list.files.extend(self.add(name.clone(), path, path, &metadata, true));
            }
        }
        if let Some(folder) = &self.folder {
            self.walk(folder, folder, 0, &mut list);
        }
        list
    }

    /// Adds the traces below `folder`. Links to files are followed inside the root, links to folders never.
    fn walk(&self, root: &Path, folder: &Path, depth: usize, list: &mut List) {
        let mut entries: Vec<PathBuf> =
            std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        entries.sort();
        for path in entries {
            if list.files.len() >= MAX_FILES || depth > MAX_DEPTH {
                list.is_complete = false;
                return;
            }
            let Ok(metadata) = std::fs::symlink_metadata(&path) else { continue };
            let name = || path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            if metadata.is_dir() {
                self.walk(root, &path, depth + 1, list);
            } else if !is_trace(&path) {
                // The page shows no other files.
            } else if let Some(real) = resolved(&path, root)
                && let Ok(metadata) = std::fs::metadata(&real)
            {
                list.files.extend(self.add(name(), &path, root, &metadata, false));
            } else {
                self.tell(&path, &name());
            }
        }
    }

    /// Says once in the log that the page cannot read something that has the name of a trace.
    fn tell(&self, path: &Path, name: &str) {
        let is_new = self.told.lock().is_ok_and(|mut told| told.insert(path.to_owned()));
        if is_new {
            let name = clean(name, MAX_NAME_CHARS);
            tracing::warn!(name, "skipped: not a file inside the folder");
        }
    }

    /// Allows the page to read a file that a capture wrote below `folder`. `None` if there is no such file inside that folder.
    pub(super) fn add_captured(&self, name: String, folder: &Path, path: &str) -> Option<Listed> {
        let root = folder.canonicalize().ok()?;
        let path = root.join(path);
        let metadata = std::fs::metadata(resolved(&path, &root)?).ok()?;
        self.add(name, &path, &root, &metadata, false)
    }

    fn add(&self, name: String, path: &Path, root: &Path, metadata: &Metadata, is_named: bool) -> Option<Listed> {
        let allowed = Allowed { path: path.to_owned(), root: root.to_owned() };
        let mut listed = self.listed.lock().ok()?;
        let id = listed.id(allowed);
        let since = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let modified_ms = since.and_then(|since| u64::try_from(since.as_millis()).ok()).unwrap_or(0);
        Some(Listed { id, name, size: metadata.len(), modified_ms, is_named })
    }

    /// The file with this number, if it may still be read. If somebody puts a link in the place of a named file, it no longer resolves
    /// to itself.
    pub(super) fn path(&self, id: usize) -> Option<PathBuf> {
        let Allowed { path, root } = self.listed.lock().ok()?.paths.get(id)?.clone();
        resolved(&path, &root)
    }
}

/// The file behind a path, if it is a file inside `root`.
fn resolved(path: &Path, root: &Path) -> Option<PathBuf> {
    let real = path.canonicalize().ok()?;
    (real.starts_with(root) && real.is_file()).then_some(real)
}

fn file_name(path: &Path) -> Option<String> {
    path.file_name().map(|name| name.to_string_lossy().into_owned())
}

fn is_trace(path: &Path) -> bool {
    let name = path.to_string_lossy().to_lowercase();
    let plain = name.strip_suffix(".gz").unwrap_or(&name);
    SUFFIXES.iter().any(|suffix| plain.ends_with(suffix))
}
