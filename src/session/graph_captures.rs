//! The traces of graph captures beside a trace: which of them to read, and the join of what was read.
//!
//! Only the captures of the sizes of the trace's steps are wanted, as far as names or `execution_details.json` tell, and only those
//! of its rank. A file that cannot be used is named in the report, which is otherwise as without it.

use crate::analysis::graph_captures::{GraphCaptures, replays_graphs, sizes_of_replays};
use crate::input::folder::{batch_in_name, is_graph_capture, is_torch_trace_name, rank_in_name};
use crate::json::Json;
use crate::ordering;
use crate::trace::Trace;
use std::collections::BTreeMap;

/// What vLLM writes about its captures: the file, the size of the batch and the mode of each.
pub const CAPTURE_DETAILS: &str = "execution_details.json";
/// Servers capture some hundred batch sizes at most.
const MAX_FILES: usize = 256;

/// A file that may be the trace of captures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaptureFile {
    /// Its path in the folder of the trace.
    pub name: String,
    batch_size: Option<u64>,
    mode: Option<String>,
}

/// The captures beside a trace while they are read.
#[derive(Debug)]
pub struct CapturesBeside {
    captures: GraphCaptures,
    wanted: Vec<CaptureFile>,
    is_in_folder: bool,
}

impl CapturesBeside {
    /// Chooses the files to read. `names` are paths in the folder of the trace, `details` the texts of [`CAPTURE_DETAILS`]. `None` if
    /// the trace replays no graph, or no file is named like a capture.
    pub fn of(trace: &Trace, names: &[String], details: &[String]) -> Option<Self> {
        let is_capture = |name: &&String| is_graph_capture(name) && is_torch_trace_name(name);
        let names: Vec<&String> =
            names.iter().filter(is_capture).filter(|name| base(name) != CAPTURE_DETAILS).collect();
        if names.is_empty() || !replays_graphs(trace) {
            return None;
        }
        let is_in_folder = names.iter().any(|name| name.contains('/'));
        let mut beside = Self { captures: GraphCaptures::default(), wanted: Vec::new(), is_in_folder };
        let mut known = BTreeMap::new();
        for text in details {
            match parsed_details(text) {
                Some(details) => known.extend(details),
                None => beside.captures.add_unusable(CAPTURE_DETAILS, "it is not JSON"),
            }
        }
        let file = |name: &String| {
            let (batch_size, mode) = known.get(base(name)).cloned().unwrap_or_default();
            CaptureFile { batch_size: batch_size.or_else(|| batch_in_name(name)), mode, name: name.clone() }
        };
        beside.wanted = names.into_iter().map(file).collect();
        beside.keep_rank(trace);
        keep_sizes(&mut beside.wanted, &sizes_of_replays(trace));
        for file in beside.wanted.split_off(beside.wanted.len().min(MAX_FILES)) {
            beside.captures.add_unusable(&file.name, &format!("more than {MAX_FILES} files may be of use"));
        }
        Some(beside)
    }

    /// The files to read.
    pub fn wanted(&self) -> &[CaptureFile] {
        &self.wanted
    }

    /// Adds a file that was read with its code.
    pub fn add(&mut self, file: &CaptureFile, trace: &Trace, capture: &Trace) {
        let rank = |trace: &Trace| trace.job.as_ref().map(|job| job.rank);
        if rank(capture).zip(rank(trace)).is_some_and(|(one, other)| one != other) {
            return self.add_unusable(&file.name, "it is of another rank");
        }
        self.captures.add(&file.name, capture, file.batch_size);
    }

    /// Adds a file that could not be read. The reason may begin with the name of the file.
    pub fn add_unusable(&mut self, name: &str, why: &str) {
        let named = [name, base(name)].into_iter().find_map(|name| why.strip_prefix(name)?.strip_prefix(": "));
        self.captures.add_unusable(name, named.unwrap_or(why));
    }

    /// Joins the graph replays of the trace with the captures.
    pub fn join(self, trace: &mut Trace) {
        self.captures.join(trace);
        // A file that only has such a name may be of another run.
        if !self.is_in_folder && trace.captured_graphs.rows.is_empty() {
            trace.captured_graphs = Default::default();
        }
    }

    /// Keeps the files of the rank of the trace, and those whose name has no rank.
    fn keep_rank(&mut self, trace: &Trace) {
        const FOLDER: &str = "capture_traces";
        let mut ranks: Vec<u32> = self.wanted.iter().filter_map(|file| rank_in_name(&file.name)).collect();
        ranks.sort_unstable();
        ranks.dedup();
        let own = trace.job.as_ref().map(|job| job.rank).or_else(|| rank_in_name(&trace.label));
        let wanted = own.or_else(|| ranks.first().copied().filter(|_| ranks.len() == 1));
        if wanted.is_none() && ranks.len() > 1 {
            self.captures.add_unusable(FOLDER, "files of several ranks, and the trace does not tell its own rank");
        }
        self.wanted.retain(|file| rank_in_name(&file.name).is_none_or(|rank| Some(rank) == wanted));
        if let (true, Some(wanted)) = (self.wanted.is_empty(), wanted) {
            self.captures.add_unusable(FOLDER, &format!("no file is of rank {wanted}, which wrote the trace"));
        }
    }
}

fn base(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// What is known of a file: the size of the batch and the mode.
type Details = (Option<u64>, Option<String>);

/// The details of each file, by base name; `None` if the text is not JSON.
fn parsed_details(text: &str) -> Option<Vec<(String, Details)>> {
    let entry = |entry: Json| {
        let file = entry.get_path(&["file"])?.text()?.into_owned();
        let batch = entry.get_path(&["batch_size"]).and_then(Json::number);
        let batch = batch.filter(|batch| *batch >= 1.0 && *batch < 1e9).map(|batch| batch as u64);
        let mode = entry.get_path(&["mode"]).and_then(Json::text).map(|mode| mode.into_owned());
        Some((base(&file).to_owned(), (batch, mode)))
    };
    Some(Json::parse(text).ok()?.elements().filter_map(entry).collect())
}

/// Of the files whose batch is known, keeps those of each mode with the smallest batch for each size of a step. Without sizes
/// nothing can be joined, so that no file is kept.
fn keep_sizes(files: &mut Vec<CaptureFile>, sizes: &[u64]) {
    let mut batches: Vec<(Option<String>, u64)> =
        files.iter().filter_map(|file| Some((file.mode.clone(), file.batch_size?))).collect();
    batches.sort();
    batches.dedup();
    let is_wanted = |mode: &Option<String>, batch: u64| {
        let at = batches.partition_point(|(other, size)| (other, *size) < (mode, batch));
        let before = at.checked_sub(1).and_then(|at| batches.get(at)).filter(|(other, _)| other == mode);
        let below = before.map(|(_, size)| *size);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(files: &[(Option<u64>, Option<&str>)], sizes: &[u64]) -> Vec<Option<u64>> {
        let candidate = |(batch_size, mode): &(Option<u64>, Option<&str>)| CaptureFile {
            name: String::new(),
            batch_size: *batch_size,
            mode: mode.map(str::to_owned),
        };
        let mut files: Vec<CaptureFile> = files.iter().map(candidate).collect();
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
