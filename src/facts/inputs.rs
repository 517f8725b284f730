//! Which files of folders are traces, by their names. Cost O(files).

use crate::Result;
use crate::files::entries;
use crate::input::known_formats::{KNOWN, Other, not_read};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Names of files beside traces that are no traces.
pub const NEIGHBOURS: [&str; 4] = ["capture.json", "server_args.json", "config.json", "facts.json"];

/// The ends of the names of traces in all formats, without repeats.
pub fn trace_endings() -> Vec<&'static str> {
    let endings = KNOWN.formats.iter().flat_map(|format| &format.endings);
    endings.map(String::as_str).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The files that are named, and all traces in the folders that are named and their subfolders.
///
/// # Errors
/// A folder cannot be read, or has no trace.
pub fn traces(inputs: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let endings = trace_endings();
    let mut files = Vec::new();
    for input in inputs {
        if !input.is_dir() {
            files.push(input.clone());
            continue;
        }
        let before = files.len();
        let is_trace = |path: &str| {
            let name = path.rsplit('/').next().unwrap_or(path);
            !NEIGHBOURS.contains(&name) && endings.iter().any(|end| name.ends_with(end))
        };
        let found = entries(input)?.into_iter().map(|entry| entry.path).filter(|path| is_trace(path));
        files.extend(found.map(|path| input.join(path)));
        if files.len() == before {
            return Err(not_read(&input.display().to_string(), Other::NoTraces));
        }
    }
    Ok(files)
}
