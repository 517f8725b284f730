//! Which files of folders are traces, by their names. Cost O(files).

use crate::Result;
use crate::files::{Watch, entries};
use crate::input::folder::{is_graph_capture, trace_viewer_copies};
use crate::input::known_formats::{KNOWN, Other, not_read};
use std::path::PathBuf;

/// Names of files beside traces that are no traces.
const NEIGHBOURS: [&str; 4] = ["capture.json", "server_args.json", "config.json", "facts.json"];

/// Whether a file with this name, without its folder, is taken for a trace when a folder is searched.
pub fn is_trace_name(name: &str) -> bool {
    let mut endings = KNOWN.formats.iter().flat_map(|format| &format.endings);
    !NEIGHBOURS.contains(&name) && endings.any(|end| name.ends_with(end.as_str()))
}

/// The files that are named, and all traces in the folders that are named and their subfolders.
///
/// # Errors
/// A folder cannot be read, or has no trace.
pub fn traces(inputs: &[PathBuf], watch: &dyn Watch) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for input in inputs {
        if !input.is_dir() {
            files.push(input.clone());
            continue;
        }
        let before = files.len();
        let is_trace = |path: &str| is_trace_name(path.rsplit('/').next().unwrap_or(path));
        let found: Vec<String> = entries(input, None, watch)?.into_iter().map(|entry| entry.path).collect();
        let copies = trace_viewer_copies(found.iter().map(String::as_str));
        // A capture of graphs ran nothing; the traces beside it are the runs.
        let is_run = |path: &String| is_trace(path) && !is_graph_capture(path) && !copies.contains(path);
        let found = found.into_iter().filter(is_run);
        files.extend(found.map(|path| input.join(path)));
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
