//! Folders for several captures, so that none of them overwrites another.

use crate::{Error, Result};
use std::io::ErrorKind;
use std::path::Path;

/// More captures than anybody keeps in one folder.
const MAX_CAPTURES: u32 = 10_000;

/// Creates the next free folder below `parent`, `capture-1` and so on, and returns its name.
pub fn new_folder(parent: &Path) -> Result<String> {
    std::fs::create_dir_all(parent).map_err(|error| Error::file(parent, &error))?;
    for number in 1..=MAX_CAPTURES {
        let name = format!("capture-{number}");
        match std::fs::create_dir(parent.join(&name)) {
            Ok(()) => return Ok(name),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::file(parent, &error)),
        }
    }
    Err(Error::failed(format!("{}: has too many captures: choose another folder", parent.display())))
}
