//! Reads the traces of graph captures beside a trace: the files in `capture_traces/`, and those named like `graph_capture` in the
//! folder of the trace. They are no runs and no ranks; the ops that graphs replay inherit shapes, modules and code from them.

use super::entries::entries;
use super::io::{CHUNK_BYTES, is_standard_input, label, read_full};
use super::watch::{self, Watch};
use crate::analysis::graph_captures::replays_graphs;
use crate::input::folder::{is_graph_capture, is_torch_trace_name};
use crate::input::{Imported, Reader, Unpacker};
use crate::session::{CAPTURE_DETAILS, CapturesBeside};
use crate::trace::{ProblemKind, Trace};
use crate::{Error, Result};
use std::fs::File;
use std::path::{Path, PathBuf};

/// A larger description is not one of captures.
const MAX_DETAILS_BYTES: u64 = 4 << 20;
/// Real captures have tens of megabytes.
const MAX_CAPTURE_BYTES: u64 = 1 << 30;

/// Joins the graph replays of a trace with the captures beside it.
///
/// # Errors
/// Reading was cancelled.
pub(super) fn attach(trace: &mut Trace, path: &Path, watch: &dyn Watch) -> Result<()> {
    if is_standard_input(path) || !replays_graphs(trace) {
        return Ok(());
    }
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    // The one run in a folder, or a file.
    let Some(folder) = (if path.is_dir() { Some(path.as_path()) } else { path.parent() }) else { return Ok(()) };
    let names = names_beside(&path, folder, watch);
    let is_details = |name: &&String| label(Path::new(name)) == CAPTURE_DETAILS;
    let details =
        names.iter().filter(is_details).filter_map(|name| details(&folder.join(name), watch)).collect::<Vec<_>>();
    let Some(mut captures) = CapturesBeside::of(trace, &names, &details) else { return Ok(()) };
    for file in captures.wanted().to_vec() {
        watch::check(watch, &file.name)?;
        match read(&folder.join(&file.name), &file.name) {
            Ok(capture) => captures.add(&file, trace, &capture),
            Err(error) => captures.add_unusable(&file.name, &error.to_string()),
        }
    }
    captures.join(trace);
    Ok(())
}

/// The trace in a folder in which all other traces are graph captures.
pub(super) fn run_beside(folder: &Path, watch: &dyn Watch) -> Option<PathBuf> {
    let names: Vec<String> = entries(folder, None, watch).ok()?.into_iter().map(|entry| entry.path).collect();
    let has_captures = names.iter().any(|name| is_graph_capture(name));
    let mut runs = names.iter().filter(|name| is_torch_trace_name(name) && !is_graph_capture(name));
    let run = runs.next().filter(|_| has_captures)?;
    runs.next().is_none().then(|| folder.join(run))
}

/// The files beside a trace that may be captures, sorted. No link out of its folder is followed.
fn names_beside(trace: &Path, folder: &Path, watch: &dyn Watch) -> Vec<String> {
    let own = label(trace);
    let (Ok(root), Ok(found)) = (folder.canonicalize(), std::fs::read_dir(folder)) else { return Vec::new() };
    let mut names = Vec::new();
    for entry in found.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path();
        let is_inside = || path.canonicalize().is_ok_and(|real| real.starts_with(&root));
        if is_graph_capture(&format!("{name}/")) && path.is_dir() && is_inside() {
            let inside = entries(&path, Some(&root), watch).unwrap_or_default();
            names.extend(inside.into_iter().map(|entry| format!("{name}/{}", entry.path)));
        } else if name != own && is_graph_capture(&name) && path.is_file() && is_inside() {
            names.push(name);
        }
    }
    names.sort();
    names
}

fn details(path: &Path, watch: &dyn Watch) -> Option<String> {
    let is_small = std::fs::metadata(path).is_ok_and(|file| file.len() <= MAX_DETAILS_BYTES);
    let text = if is_small { std::fs::read_to_string(path).ok() } else { None };
    if text.is_none() {
        watch.warn(&format!("{} cannot be read; the report continues without it", path.display()));
    }
    text
}

/// Reads a trace with its code.
fn read(path: &Path, name: &str) -> Result<Box<Trace>> {
    let failed = |error: std::io::Error| Error::io(name, &error);
    let mut file = File::open(path).map_err(failed)?;
    let mut reader = Reader::with_code(name);
    let (mut buffer, mut unpacker) = (vec![0; CHUNK_BYTES], Unpacker::default());
    let mut plain_bytes = 0_u64;
    loop {
        let read = read_full(&mut file, &mut buffer).map_err(failed)?;
        if read == 0 {
            break;
        }
        unpacker.push(buffer.get(..read).unwrap_or_default(), &mut |plain| {
            plain_bytes += plain.len() as u64;
            match plain_bytes > MAX_CAPTURE_BYTES {
                true => Err(Error::refused(name, "larger than 1 GiB, the limit for a graph capture")),
                false => reader.feed(plain),
            }
        })?;
    }
    let damage: Option<(ProblemKind, u64)> = unpacker.finish(&mut |plain| reader.feed(plain))?;
    match reader.finish(damage)? {
        Imported::Trace(trace) => Ok(trace),
        Imported::Document(_) => Err(Error::refused(name, "not a trace")),
    }
}
