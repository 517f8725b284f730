//! Which files of folders are traces, by their names. Cost O(files).

use crate::files::{Watch, entries, is_standard_input, label, traces_in};
use crate::input::known_formats::{self, Other, not_read};
use crate::{Error, Result};
use std::path::PathBuf;

/// Whether a file with this name, without its folder, is taken for a trace when a folder is searched.
pub fn is_trace_name(name: &str) -> bool {
    known_formats::is_trace_name(name)
}

/// The files that are named, and all traces in the folders that are named and their subfolders.
///
/// # Errors
/// A folder cannot be read, or has no trace.
pub fn traces(inputs: &[PathBuf], watch: &dyn Watch) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for input in inputs {
        if is_standard_input(input) {
            let why = "cannot be given here, because a run is known by its file: save it as a file and give its path";
            return Err(Error::usage(label(input), why));
        }
        if !input.is_dir() {
            files.push(input.clone());
            continue;
        }
        let before = files.len();
        let found: Vec<String> = entries(input, None, watch)?.into_iter().map(|entry| entry.path).collect();
        files.extend(traces_in(&found).into_iter().map(|path| input.join(path)));
        if files.len() == before {
            return Err(not_read(&input.display().to_string(), Other::NoTraces));
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_traces_end_as_their_formats_say() {
        for name in
            ["a.json", "a.json.gz", "x.sqlite", "x.nsys-rep", "1_results.db", "r.rpd", "k.csv", "k.csv.gz", "p.hatchet"]
        {
            assert!(is_trace_name(name), "{name}");
        }
        for name in ["capture.json", "config.json", "notes.txt", "x.py", "facts.parquet"] {
            assert!(!is_trace_name(name), "{name}");
        }
    }
}
