//! Files beside a trace that the user did not name: in its folder and in the folders above it.

use super::io::is_standard_input;
use super::read_text;
use super::watch::Watch;
use crate::Result;
use crate::session::{self, SERVER_ARGS, UserFile};
use gpuprism_capture::record;
use std::path::{Path, PathBuf};

/// A trace of a capture lies in the folder that the server made, of its stage, of its part, or of the capture.
pub(crate) const LEVELS_OF_CAPTURE: usize = 4;
/// SGLang writes its arguments into the folder of the traces or into the one above it.
const LEVELS_OF_ARGUMENTS: usize = 2;

/// The files beside one trace.
pub struct Neighbours<'a> {
    trace: PathBuf,
    root: Option<&'a Path>,
    watch: &'a dyn Watch,
}

impl<'a> Neighbours<'a> {
    /// Those of a trace, which need not exist; only files inside `root`, a real path, if one is given. Standard input has none.
    pub fn of(trace: &Path, root: Option<&'a Path>, watch: &'a dyn Watch) -> Self {
        let place = || std::path::absolute(trace).unwrap_or_else(|_| trace.to_owned());
        Self { trace: if is_standard_input(trace) { PathBuf::new() } else { place() }, root, watch }
    }

    /// Takes a problem that does not stop the work.
    pub(super) fn warn(&self, sentence: &str) {
        self.watch.warn(sentence);
    }

    /// The trace without links to the working folder.
    pub(crate) fn trace(&self) -> &Path {
        &self.trace
    }

    /// The nearest file with this name: in the folder of the trace, or in one of the folders above it. `levels` counts them all.
    pub(crate) fn find(&self, name: &str, levels: usize) -> Option<PathBuf> {
        let folders = self.trace.parent()?.ancestors().take(levels);
        folders.map(|folder| folder.join(name)).find(|path| path.is_file() && self.is_inside(path))
    }

    /// The arguments of the server: near the trace, or anywhere in the folder of its capture.
    pub(crate) fn server_args(&self) -> Option<UserFile> {
        let is_captured = self.find(record::FILE, LEVELS_OF_CAPTURE).is_some();
        let levels = if is_captured { LEVELS_OF_CAPTURE } else { LEVELS_OF_ARGUMENTS };
        self.read(SERVER_ARGS, levels, |file| session::server_args(file).map(|_| ()))
    }

    /// Also no link may lead out of the root.
    fn is_inside(&self, path: &Path) -> bool {
        self.root.is_none_or(|root| path.canonicalize().is_ok_and(|real| real.starts_with(root)))
    }

    /// The text of such a file if `check` accepts it. One that cannot be used is a warning, because the user did not name it.
    pub(crate) fn read(&self, name: &str, levels: usize, check: impl Fn(&UserFile) -> Result<()>) -> Option<UserFile> {
        let file = read_text(&self.find(name, levels)?).and_then(|file| check(&file).map(|()| file));
        file.inspect_err(|error| self.warn(&format!("{error}; the report continues without it"))).ok()
    }
}
