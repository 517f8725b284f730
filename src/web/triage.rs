//! The triage of a torch trace, in the page. Only the module `gpuprism_full` has it: most visits do without, and a trace
//! must be read once more with the code that launched its work.

use super::{Imported, Thrown, TraceReader, thrown};
use crate::analysis::structure::stages::stage_of_path;
use crate::analysis::triage::{self, Options, ServerArgs};
use crate::input::Importer;
use crate::input::folder::{self, Content};
use crate::json;
use crate::report::Report;
use crate::session::{self, Choices, Opened, RuleFile};
use crate::trace::Trace;
use serde::{Deserialize, Serialize};
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
impl TraceReader {
    /// A reader that keeps the code that launched the work, for [`Triage`]. `label` is the file's base name.
    pub fn with_code(label: &str) -> Self {
        Self { label: label.to_owned(), importer: Importer::with_code(label), piece: Vec::new() }
    }
}

/// What is known beside a trace.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Beside {
    /// What the person chose for the tables.
    options: Options,
    /// The text of `server_args.json`.
    server: Option<String>,
}

/// The triage of a trace that was read with its code, which its reader's [`Imported`] goes on holding.
#[wasm_bindgen]
#[derive(Debug, Default)]
pub struct Triage {
    mapping: Vec<Imported>,
}

#[wasm_bindgen]
impl Triage {
    /// Without other traces: the one that is triaged tells where its kernels come from.
    #[wasm_bindgen(constructor)]
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on the trace alone tells where its kernels come from.
    pub fn forget_mapping(&mut self) {
        self.mapping.clear();
    }

    /// Takes a trace, read with its code too, that tells where the kernels of graph replays come from.
    ///
    /// # Errors
    /// Where it is no trace.
    pub fn add_mapping(&mut self, imported: Imported) -> Thrown<()> {
        trace(&imported)?;
        self.mapping.push(imported);
        Ok(())
    }

    /// The report's JSON text under these choices, as `Imported.analyze` gives it, with the triage among its sections.
    ///
    /// # Errors
    /// Those of `Imported.analyze`; server arguments that are no JSON object; what is no trace.
    pub fn report(&self, imported: &Imported, beside: &str, choices: &str) -> Thrown<String> {
        let triaged = trace(imported)?;
        let beside: Beside = serde_json::from_str(beside).map_err(thrown)?;
        let choices: Choices = json::read(choices).map_err(thrown)?;
        let server = match beside.server {
            Some(text) => {
                session::server_args(&RuleFile { file: session::SERVER_ARGS.to_owned(), text }).map_err(thrown)?
            }
            None => ServerArgs::default(),
        };
        let mapping = self.mapping.iter().map(trace).collect::<Thrown<Vec<&Trace>>>()?;
        let request = triage::Request {
            trace: triaged,
            path: &triaged.label,
            file_stage: stage_of_path(&triaged.label),
            mapping: &mapping,
            server: &server,
            framework: None,
            options: &beside.options,
        };
        let run = session::triage(&request, &choices).map_err(thrown)?;
        Ok(Report::new(vec![run]).compact())
    }
}

fn trace(imported: &Imported) -> Thrown<&Trace> {
    match &imported.opened {
        Opened::Trace(trace) => Ok(trace),
        _ => Err(thrown("the file holds no trace")),
    }
}

/// Is this, read with its code, a trace of graphs being captured? Such a one tells where kernels of replays come from.
#[wasm_bindgen]
pub fn is_capture(imported: &Imported) -> bool {
    matches!(&imported.opened, Opened::Trace(trace) if folder::content(trace) == Content::Capture)
}

/// A file of a folder, as the page knows it.
#[derive(Debug, Deserialize)]
struct Listed {
    path: String,
    bytes: u64,
    /// Milliseconds.
    modified: i64,
}

/// Which files of a folder to open, by their places in the list, and the others with a reason.
#[derive(Debug, Serialize)]
struct Worth {
    open: Vec<usize>,
    aside: Vec<String>,
}

/// The files of other ranks that are opened beside the chosen ones: all, unless they are more than a tab may hold. Every
/// open trace keeps its worker with it, so their number and their bytes are bounded, together over all stages.
fn ranks_beside(aside: &[folder::Aside], listed: &[Listed]) -> Vec<usize> {
    const MOST: usize = 31;
    const MOST_BYTES: u64 = 1 << 30;
    let ranks: Vec<usize> = aside.iter().filter(|aside| aside.rank_beside.is_some()).map(|aside| aside.entry).collect();
    let bytes = ranks.iter().filter_map(|at| listed.get(*at)).fold(0_u64, |sum, file| sum.saturating_add(file.bytes));
    if ranks.len() <= MOST && bytes <= MOST_BYTES { ranks } else { Vec::new() }
}

/// Chooses among the files of a folder that was dropped. Both lists and their answers are JSON texts.
///
/// # Errors
/// A list of another shape.
#[wasm_bindgen]
pub fn choose_files(listed: &str) -> Thrown<String> {
    let listed: Vec<Listed> = serde_json::from_str(listed).map_err(thrown)?;
    let entry = |file: &Listed| session::folder_entry(&file.path, file.bytes, file.modified);
    let entries: Vec<folder::Entry> = listed.iter().map(entry).collect();
    let selection = folder::select(&entries, &[]);
    let mut open: Vec<usize> =
        selection.traces.iter().flat_map(|trace| [Some(trace.entry), trace.server_args]).flatten().collect();
    open.extend(selection.mapping);
    let beside = ranks_beside(&selection.aside, &listed);
    open.extend(beside.iter().copied());
    let mut seen = Vec::new();
    open.retain(|place| {
        !seen.contains(place) && {
            seen.push(*place);
            true
        }
    });
    let aside = selection.aside.iter().filter(|aside| !beside.contains(&aside.entry));
    let told = aside.filter_map(|aside| Some(format!("{} ({})", listed.get(aside.entry)?.path, aside.why)));
    serde_json::to_string(&Worth { open, aside: told.collect() }).map_err(thrown)
}
