//! The folder that the server may read.

use crate::cli::nsys;
use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// A folder. No file outside it is read, also not through a symbolic link.
pub(super) struct Root {
    folder: PathBuf,
}

impl Root {
    pub(super) fn new(folder: &Path) -> Result<Self> {
        match folder.canonicalize() {
            Ok(folder) if folder.is_dir() => Ok(Self { folder }),
            _ => Err(Error::usage(
                format!("--root {}", folder.display()),
                "no such folder: give the folder with the traces",
            )),
        }
    }

    /// Its real path.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The real path of an existing file or folder. A path outside the root and a missing file get the same answer, which so
    /// tells nothing about other folders.
    pub(super) fn resolve(&self, path: &str) -> Result<PathBuf> {
        let real = self.folder.join(path).canonicalize().ok().filter(|real| real.starts_with(&self.folder));
        real.ok_or_else(|| {
            let why = "not found inside the root folder: give a path relative to it, or start `gpuprism mcp` with another --root";
            Error::refused(path, why)
        })
    }

    /// Like [`Root::resolve`], for a file to read. An `.nsys-rep` is refused, because its export would write a file.
    pub(super) fn file(&self, path: &str) -> Result<PathBuf> {
        let real = self.resolve(path)?;
        if nsys::is_report(&real) {
            let why =
                "an .nsys-rep, which only nsys can read: run `nsys export --type sqlite` on it and give the .sqlite";
            return Err(Error::refused(path, why));
        }
        if real.is_dir() {
            return Err(Error::refused(path, "a folder: give a file in it; only the tool `ranks` takes folders"));
        }
        // It would have to be waited for, or have no end.
        if !real.is_file() {
            return Err(Error::refused(path, "a pipe, socket or device: give a file"));
        }
        Ok(real)
    }

    /// The path as the user sees it, relative to the root.
    pub(super) fn shown(&self, real: &Path) -> String {
        real.strip_prefix(&self.folder).unwrap_or(real).display().to_string()
    }
}
