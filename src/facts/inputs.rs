//! Which files of folders are traces, by their names. Cost O(files).

use crate::files::entries;
use crate::{Error, Result};
use std::path::PathBuf;

/// Files beside traces that are no traces.
const NEIGHBOURS: [&str; 4] = ["capture.json", "server_args.json", "config.json", "facts.json"];
/// The ends of the names of traces.
const TRACES: [&str; 9] = [".json", ".json.gz", ".gz", ".sqlite", ".sqlite3", ".db", ".rpd", ".csv", ".nsys-rep"];

/// The files that are named, and all traces in the folders that are named and their subfolders.
///
/// # Errors
/// A folder cannot be read, or has no trace.
pub fn traces(inputs: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for input in inputs {
        if !input.is_dir() {
            files.push(input.clone());
            continue;
        }
        let before = files.len();
        let is_trace = |path: &str| {
            let name = path.rsplit('/').next().unwrap_or(path);
            !NEIGHBOURS.contains(&name) && TRACES.iter().any(|end| name.ends_with(end))
        };
        let found = entries(input)?.into_iter().map(|entry| entry.path).filter(|path| is_trace(path));
        files.extend(found.map(|path| input.join(path)));
        if files.len() == before {
            return Err(Error::refused(input.display().to_string(), "no trace in this folder"));
        }
    }
    Ok(files)
}
