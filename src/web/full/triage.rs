//! The triage of a torch.profiler trace for the page, and the choice of the files of a folder to open.
//!
//! The triage needs CPU ops and Python frames, which the page does not keep when it opens a trace. For the triage, the page reads
//! the file once more with [`TraceReader::with_code`].

use crate::analysis::structure::stages::stage_of_path;
use crate::analysis::triage::{self, Options, ServerArgs};
use crate::input::Importer;
use crate::input::file_sets;
use crate::input::folder::{self, Content};
use crate::json;
use crate::report::Report;
use crate::rules::signals::{CallKind, Signals};
use crate::session::{self, Choices, UserFile};
use crate::trace::Trace;
use crate::web::{Imported, JsResult, TraceReader, to_js_error};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
impl TraceReader {
    /// A reader that also keeps CPU ops and Python frames, for [`Triage`]. `label` is the file name without folders.
    pub fn with_code(label: &str) -> Self {
        Self { label: label.to_owned(), importer: Importer::with_code(label), buffer: Vec::new() }
    }

    /// A reader that keeps no CPU ops and Python functions, to save memory. The timeline then has no lanes of code.
    pub fn without_code(label: &str) -> Self {
        Self { label: label.to_owned(), importer: Importer::without_code(label), buffer: Vec::new() }
    }
}

/// The inputs of [`Triage::report`] besides the traces and choices.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TriageInputs {
    /// The options of the tables.
    options: Options,
    /// The text of `server_args.json`.
    server: Option<String>,
}

/// The triage of traces that were read by [`TraceReader::with_code`].
#[wasm_bindgen]
#[derive(Debug, Default)]
pub struct Triage {
    /// Traces that map kernels to the code that launched them, for kernels of graph replays.
    mapping: Vec<Imported>,
}

#[wasm_bindgen]
impl Triage {
    /// A triage without mapping traces.
    #[wasm_bindgen(constructor)]
    pub fn new() -> Self {
        Self::default()
    }

    /// Drops all mapping traces.
    pub fn forget_mapping(&mut self) {
        self.mapping.clear();
    }

    /// Adds a mapping trace, which was also read by [`TraceReader::with_code`].
    ///
    /// # Errors
    /// The file contains no trace.
    pub fn add_mapping(&mut self, imported: Imported) -> JsResult<()> {
        imported.require_trace()?;
        self.mapping.push(imported);
        Ok(())
    }

    /// The report under these choices with the sections of the triage, as JSON text.
    ///
    /// # Errors
    /// Those of [`Imported::analyze`]; server arguments that are no JSON object.
    pub fn report(&self, imported: &Imported, inputs: &str, choices: &str) -> JsResult<String> {
        let triaged = imported.require_trace()?;
        let inputs: TriageInputs = serde_json::from_str(inputs).map_err(to_js_error)?;
        let choices: Choices = json::read(choices).map_err(to_js_error)?;
        let server = match inputs.server {
            Some(text) => {
                session::server_args(&UserFile { file: session::SERVER_ARGS.to_owned(), text }).map_err(to_js_error)?
            }
            None => ServerArgs::default(),
        };
        let mapping = self.mapping.iter().map(Imported::require_trace).collect::<JsResult<Vec<&Trace>>>()?;
        let request = triage::Request {
            trace: triaged,
            path: &triaged.label,
            file_stage: stage_of_path(&triaged.label),
            mapping: &mapping,
            server: &server,
            framework: None,
            options: &inputs.options,
        };
        let run = session::triage(&request, &choices).map_err(to_js_error)?;
        Ok(Report::new(vec![run]).compact())
    }
}

/// True for a trace of CUDA graph captures, which can serve as a mapping trace. The trace must have been read by
/// [`TraceReader::with_code`].
#[wasm_bindgen]
pub fn is_capture(imported: &Imported) -> bool {
    imported.trace().is_some_and(|trace| folder::content(trace) == Content::Capture)
}

#[wasm_bindgen]
impl Imported {
    /// True if graphs were launched while the trace was recorded: their kernels have no launching code of their own, which a
    /// mapping trace has.
    pub fn replays_graphs(&self) -> bool {
        let signals = Signals::embedded();
        let is_replay = |name: &str| signals.call(name) == CallKind::GraphLaunch;
        self.trace().is_some_and(|trace| trace.calls.names.iter().any(is_replay))
    }
}

/// A file of a folder in the argument of [`choose_files`].
#[derive(Debug, Deserialize)]
struct ListedFile {
    path: String,
    bytes: u64,
    /// Milliseconds since 1970.
    modified: i64,
}

/// The result of [`choose_files`].
#[derive(Debug, Serialize)]
struct FileChoice {
    /// Indices of the files to open.
    open: Vec<usize>,
    /// Indices of the captures of graphs, which the traces that are opened take their shapes from.
    captures: Vec<usize>,
    /// Path of every other file with the reason in parentheses.
    aside: Vec<String>,
}

/// The traces of other ranks, to be opened with the chosen traces. Empty if they are too many or too large for one tab: every open
/// trace has its own worker.
fn other_ranks(skipped: &[folder::Skipped], listed: &[ListedFile]) -> Vec<usize> {
    const MAX_FILES: usize = 31;
    const MAX_BYTES: u64 = 1 << 30;
    let ranks: Vec<usize> = skipped.iter().filter(|file| file.other_rank_of.is_some()).map(|file| file.entry).collect();
    let bytes =
        ranks.iter().filter_map(|index| listed.get(*index)).fold(0_u64, |sum, file| sum.saturating_add(file.bytes));
    if ranks.len() <= MAX_FILES && bytes <= MAX_BYTES { ranks } else { Vec::new() }
}

/// Chooses the files of a folder to open. The argument is a list of `ListedFile` and the result a `FileChoice`, as JSON text.
///
/// # Errors
/// An invalid list.
#[wasm_bindgen]
pub fn choose_files(listed: &str) -> JsResult<String> {
    let listed: Vec<ListedFile> = serde_json::from_str(listed).map_err(to_js_error)?;
    let names: Vec<String> = listed.iter().map(|file| file.path.clone()).collect();
    if let Some(open) = file_sets::in_folder(&names) {
        let others = (0..names.len()).filter(|index| !open.contains(index));
        let aside =
            others.filter_map(|index| Some(format!("{} (not needed for the trace)", names.get(index)?))).collect();
        return serde_json::to_string(&FileChoice { open, captures: Vec::new(), aside }).map_err(to_js_error);
    }
    let entry = |file: &ListedFile| session::folder_entry(&file.path, file.bytes, file.modified);
    let entries: Vec<folder::Entry> = listed.iter().map(entry).collect();
    let selection = folder::select(&entries, &[]);
    let mut open: Vec<usize> =
        selection.traces.iter().flat_map(|trace| [Some(trace.entry), trace.server_args]).flatten().collect();
    let opened: HashSet<usize> = open.iter().copied().collect();
    let is_capture = |index: &usize| {
        let path = listed.get(*index).map_or("", |file| &file.path);
        folder::is_graph_capture(path) && !opened.contains(index)
    };
    let captures: Vec<usize> = (0..listed.len()).filter(is_capture).collect();
    open.extend(selection.mapping.into_iter().filter(|index| !is_capture(index)));
    let ranks = other_ranks(&selection.skipped, &listed);
    open.extend(ranks.iter().copied());
    let mut chosen = HashSet::new();
    open.retain(|index| chosen.insert(*index));
    let skipped = selection.skipped.iter().filter(|file| !ranks.contains(&file.entry) && !is_capture(&file.entry));
    let reasons = skipped.filter_map(|file| Some(format!("{} ({})", listed.get(file.entry)?.path, file.why)));
    serde_json::to_string(&FileChoice { open, captures, aside: reasons.collect() }).map_err(to_js_error)
}
