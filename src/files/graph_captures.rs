//! The traces of graph captures beside a trace: the files in `capture_traces/`, and those named like `graph_capture` in the folder
//! of the trace. They are no runs and no ranks; the ops that graphs replay inherit shapes, modules and code from them.
//!
//! Only the captures of the sizes of the trace's steps are read, as far as names or `execution_details.json` tell, one after the
//! other. A file that cannot be used is named in the report, which is otherwise as without it.

use super::entries::entries;
use super::io::{CHUNK_BYTES, label, read_full};
use super::read_text;
use super::watch::{self, Watch};
use crate::analysis::graph_captures::{GraphCaptures, replays_graphs, sizes_of_replays};
use crate::input::folder::{batch_in_name, is_graph_capture, is_torch_trace_name, rank_in_name};
use crate::input::{Imported, Reader, Unpacker};
use crate::json::Json;
use crate::ordering;
use crate::trace::{ProblemKind, Trace};
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// What vLLM writes about its captures.
const DETAILS: &str = "execution_details.json";
/// A larger description is not one of captures.
const MAX_DETAILS_BYTES: u64 = 4 << 20;
/// Real captures have tens of megabytes.
const MAX_CAPTURE_BYTES: u64 = 1 << 30;
/// Servers capture some hundred batch sizes at most.
const MAX_FILES: usize = 256;

/// A file that may be the trace of captures.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Candidate {
    /// Its path in the folder of the trace.
    name: String,
    path: PathBuf,
    batch_size: Option<u64>,
    mode: Option<String>,
}

/// Joins the graph replays of a trace with the captures beside it.
///
/// # Errors
/// Reading was cancelled.
pub(super) fn attach(trace: &mut Trace, path: &Path, watch: &dyn Watch) -> Result<()> {
    if !replays_graphs(trace) {
        return Ok(());
    }
    let mut files = candidates(path, watch);
    if files.is_empty() {
        return Ok(());
    }
    let is_in_folder = files.iter().any(|file| file.name.contains('/'));
    let mut captures = GraphCaptures::default();
    keep_rank(&mut files, trace, path, &mut captures);
    keep_sizes(&mut files, &sizes_of_replays(trace));
    for file in files.iter().skip(MAX_FILES) {
        captures.add_unusable(&file.name, &format!("more than {MAX_FILES} files may be of use"));
    }
    for Candidate { name, path, batch_size, .. } in files.iter().take(MAX_FILES) {
        watch::check(watch, name)?;
        match read(path, name) {
            Ok(capture) if is_of_other_rank(&capture, trace) => captures.add_unusable(name, "it is of another rank"),
            Ok(capture) => captures.add(&capture, *batch_size),
            Err(error) => captures.add_unusable(name, without_label(&error.to_string(), name)),
        }
    }
    captures.join(trace);
    // A file that only has such a name may be of another run.
    if !is_in_folder && trace.captured_graphs.rows.is_empty() {
        trace.captured_graphs = Default::default();
    }
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

/// The files beside a trace that may be captures, sorted by name. No link out of its folder is followed.
fn candidates(trace: &Path, watch: &dyn Watch) -> Vec<Candidate> {
    let absolute = std::path::absolute(trace).unwrap_or_else(|_| trace.to_owned());
    let (Some(folder), own) = (absolute.parent(), label(&absolute)) else { return Vec::new() };
    let (Ok(root), Ok(found)) = (folder.canonicalize(), std::fs::read_dir(folder)) else { return Vec::new() };
    let mut files = Vec::new();
    let mut details = BTreeMap::new();
    for entry in found.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path();
        if path.is_dir() && is_graph_capture(&format!("{name}/")) {
            let is_inside = path.canonicalize().is_ok_and(|real| real.starts_with(&root));
            let inside = if is_inside { entries(&path, Some(&root), watch).unwrap_or_default() } else { Vec::new() };
            for file in inside.into_iter().map(|entry| entry.path) {
                if label(Path::new(&file)) == DETAILS {
                    details.extend(read_details(&path.join(&file), watch));
                }
                files.push((format!("{name}/{file}"), path.join(&file)));
            }
        } else if name != own && path.is_file() && is_graph_capture(&name) {
            files.push((name, path));
        }
    }
    files.retain(|(name, _)| is_torch_trace_name(name) && label(Path::new(name)) != DETAILS);
    files.sort();
    let candidate = |(name, path): (String, PathBuf)| {
        let (batch_size, mode) = details.get(&label(&path)).cloned().unwrap_or_default();
        Candidate { batch_size: batch_size.or_else(|| batch_in_name(&name)), mode, name, path }
    };
    files.into_iter().map(candidate).collect()
}

/// Size of the batch and mode of each file in `execution_details.json`, by base name.
fn read_details(path: &Path, watch: &dyn Watch) -> Vec<(String, (Option<u64>, Option<String>))> {
    let is_small = std::fs::metadata(path).is_ok_and(|file| file.len() <= MAX_DETAILS_BYTES);
    let text = if is_small { read_text(path).map(|file| file.text) } else { Err(Error::refused(DETAILS, "too large")) };
    let text = match text {
        Ok(text) => text,
        Err(error) => {
            watch.warn(&format!("{error}; the report continues without it"));
            return Vec::new();
        }
    };
    let Ok(list) = Json::parse(&text) else {
        watch.warn(&format!("{}: not JSON; the report continues without it", path.display()));
        return Vec::new();
    };
    let entry = |entry: Json| {
        let file = entry.get_path(&["file"])?.text()?.into_owned();
        let batch =
            entry.get_path(&["batch_size"]).and_then(Json::number).filter(|batch| *batch >= 1.0 && *batch < 1e9);
        let mode = entry.get_path(&["mode"]).and_then(Json::text).map(|mode| mode.into_owned());
        Some((label(Path::new(&file)), (batch.map(|batch| batch as u64), mode)))
    };
    list.elements().filter_map(entry).collect()
}

/// Keeps the files of the rank of the trace. Files whose name has no rank are kept.
fn keep_rank(files: &mut Vec<Candidate>, trace: &Trace, path: &Path, captures: &mut GraphCaptures) {
    let mut ranks: Vec<u32> = files.iter().filter_map(|file| rank_in_name(&file.name)).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let own = trace.job.as_ref().map(|job| job.rank).or_else(|| rank_in_name(&label(path)));
    let Some(wanted) = own.or_else(|| ranks.first().copied().filter(|_| ranks.len() == 1)) else {
        if ranks.len() > 1 {
            captures.add_unusable("capture_traces", "files of several ranks, and the trace does not tell its own rank");
            files.retain(|file| rank_in_name(&file.name).is_none());
        }
        return;
    };
    files.retain(|file| rank_in_name(&file.name).is_none_or(|rank| rank == wanted));
    if files.is_empty() {
        captures.add_unusable("capture_traces", &format!("no file is of rank {wanted}, which wrote the trace"));
    }
}

/// The sentence of an error without the file that it begins with.
fn without_label<'a>(error: &'a str, name: &str) -> &'a str {
    error.strip_prefix(name).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(error)
}

fn is_of_other_rank(capture: &Trace, trace: &Trace) -> bool {
    let rank = |trace: &Trace| trace.job.as_ref().map(|job| job.rank);
    rank(capture).zip(rank(trace)).is_some_and(|(one, other)| one != other)
}

/// Of the files whose batch is known, keeps those of each mode with the smallest batch for each size of a step. Without sizes
/// nothing can be joined, so that no file is kept.
fn keep_sizes(files: &mut Vec<Candidate>, sizes: &[u64]) {
    let mut batches: Vec<(Option<String>, u64)> =
        files.iter().filter_map(|file| Some((file.mode.clone(), file.batch_size?))).collect();
    batches.sort();
    batches.dedup();
    let is_wanted = |mode: &Option<String>, batch: u64| {
        let of_mode = || batches.iter().filter(|(other, _)| other == mode).map(|(_, batch)| *batch);
        let below = of_mode().filter(|other| *other < batch).max();
        // A step is larger than the next smaller capture, and not larger than this one.
        let first = sizes.partition_point(|size| Some(*size) <= below);
        sizes.get(first).is_some_and(|size| *size <= batch)
    };
    files.retain(|file| match file.batch_size {
        Some(batch) => is_wanted(&file.mode, batch),
        None => !sizes.is_empty(),
    });
    ordering::sort_by_key(files, |file| file.batch_size);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(files: &[(Option<u64>, Option<&str>)], sizes: &[u64]) -> Vec<Option<u64>> {
        let candidate = |(batch_size, mode): &(Option<u64>, Option<&str>)| Candidate {
            name: String::new(),
            path: PathBuf::new(),
            batch_size: *batch_size,
            mode: mode.map(str::to_owned),
        };
        let mut files: Vec<Candidate> = files.iter().map(candidate).collect();
        keep_sizes(&mut files, sizes);
        files.into_iter().map(|file| file.batch_size).collect()
    }

    #[test]
    fn only_captures_for_the_sizes_of_steps_are_read() {
        let all = [(Some(1), None), (Some(8), None), (Some(16), None), (Some(32), None), (None, None)];
        assert_eq!(kept(&all, &[8, 17, 30]), [None, Some(8), Some(32)]);
        assert_eq!(kept(&all, &[33]), [None], "no capture is as large");
        assert_eq!(kept(&all, &[]), [], "without a size nothing can be joined");
        let modes = [(Some(16), Some("FULL")), (Some(32), Some("FULL")), (Some(32), Some("PIECEWISE"))];
        assert_eq!(kept(&modes, &[9]), [Some(16), Some(32)], "each mode has its own sizes");
    }
}
