//! The tool `capture`: traces from a running server into a new folder below the root.

use super::root::Root;
use crate::cli::capture::converted;
use crate::report::format::clean;
use crate::{Error, Result};
use gpuprism_capture::{Cancel, Options, Outcome, Progress, Traffic, Workload, new_folder};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The folder below the root that has the captures.
const FOLDER: &str = "captures";
/// More steps make traces that are too large to be of use.
pub(super) const MAX_STEPS: u32 = 1000;
/// Lines of progress in an answer, the last ones.
const MAX_LINES: usize = 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    server: String,
    #[serde(default)]
    workload: Load,
    steps: Option<u32>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "snake_case")]
enum Load {
    Prefill,
    Decode,
    #[default]
    Both,
    Own,
}

/// Ends the running capture. Copies share one state.
#[derive(Clone, Default)]
pub(super) struct Captures {
    cancel: Cancel,
    running: Arc<Mutex<()>>,
}

impl Captures {
    /// Cancels the capture that runs, and waits until the server's profiler is stopped. No further capture starts.
    pub(super) fn end(&self) {
        self.cancel.cancel();
        drop(self.running.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Captures into a new folder. Returns the lines of the answer, and the first trace as a path relative to the root.
    pub(super) fn run(&self, root: &Root, request: &Request) -> Result<(String, String)> {
        let _running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(steps) = request.steps.filter(|steps| *steps > MAX_STEPS) {
            return Err(Error::usage("capture", format!("steps {steps}: give at most {MAX_STEPS}")));
        }
        let (folder, name) = new_capture(root)?;
        let defaults = Options::new(&request.server, folder.join(&name));
        let steps = request.steps.unwrap_or(defaults.steps);
        let traffic = match request.workload {
            Load::Prefill => Traffic::Probe(Workload::Prefill),
            Load::Decode => Traffic::Probe(Workload::Decode),
            Load::Both => Traffic::Probe(Workload::Both),
            Load::Own => Traffic::Own,
        };
        let options = Options { traffic, steps, version: env!("CARGO_PKG_VERSION").to_owned(), ..defaults };
        let mut progress = Vec::new();
        let outcome = gpuprism_capture::capture(&options, &mut |line| progress.push(line), &self.cancel);
        let outcome = outcome.map_err(|error| {
            // Only if it is empty.
            let _ = std::fs::remove_dir(&options.out);
            converted(&error)
        })?;
        answer(&name, &outcome, &progress)
    }
}

/// A new folder inside the root. A link in place of the folder of captures may not lead out of it.
fn new_capture(root: &Root) -> Result<(PathBuf, String)> {
    let folder = root.folder().join(FOLDER);
    std::fs::create_dir_all(&folder).map_err(|error| Error::io(FOLDER, &error))?;
    let folder = root.resolve(FOLDER)?;
    let name = new_folder(&folder).map_err(|error| converted(&error))?;
    Ok((folder, name))
}

fn answer(name: &str, outcome: &Outcome, progress: &[Progress]) -> Result<(String, String)> {
    if let Some(missing) = &outcome.missing {
        return Err(Error::refused("capture", missing.clone()));
    }
    let files: Vec<_> = outcome.record.captures.iter().flat_map(|capture| &capture.files).collect();
    let path = |file: &str| Path::new(FOLDER).join(name).join(file).display().to_string();
    let first = files.first().ok_or_else(|| Error::refused("capture", "the server wrote no trace: see its log"))?;
    let mut text = String::from("Files:\n");
    text.extend(files.iter().map(|file| format!("- {}, {} bytes\n", clean(&path(&file.path)), file.bytes)));
    text += "\nProgress:\n";
    let left_out = progress.len().saturating_sub(MAX_LINES);
    text.extend(progress.iter().skip(left_out).map(|line| format!("- {}\n", clean(&line.text))));
    Ok((text, path(&first.path)))
}
