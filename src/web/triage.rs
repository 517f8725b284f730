//! The triage of a torch trace, in the page. Only the module `gpuprism_triage` has it: most visits do without, and a trace
//! must be read once more with the code that launched its work.

use super::{Imported, Thrown, TraceReader, thrown};
use crate::analysis::triage::{self, Options, ServerArgs, Stage};
use crate::input::Importer;
use crate::report::Report;
use crate::session::{self, Choices, Opened};
use crate::trace::Trace;
use serde::Deserialize;
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
impl TraceReader {
    /// A reader that keeps the code that launched the work, for [`triage`]. `label` is the file's base name.
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

/// A trace that was read with its code, ready to be triaged again and again.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Triage {
    trace: Box<Trace>,
    mapping: Option<Box<Trace>>,
}

#[wasm_bindgen]
impl Triage {
    /// Takes what [`TraceReader::with_code`] read.
    ///
    /// # Errors
    /// Where that is no trace.
    #[wasm_bindgen(constructor)]
    pub fn new(imported: Imported) -> Thrown<Self> {
        Ok(Self { trace: trace(imported)?, mapping: None })
    }

    /// Takes a trace, read with its code too, that tells where the kernels of graph replays come from; none: the trace
    /// tells for itself.
    ///
    /// # Errors
    /// Where it is no trace.
    pub fn use_mapping(&mut self, imported: Option<Imported>) -> Thrown<()> {
        self.mapping = imported.map(trace).transpose()?;
        Ok(())
    }

    /// The report's JSON text under these choices, as `Imported.analyze` gives it, with the triage among its sections.
    ///
    /// # Errors
    /// Those of `Imported.analyze`; server arguments that are no JSON object.
    pub fn report(&self, beside: &str, choices: &str) -> Thrown<String> {
        let beside: Beside = serde_json::from_str(beside).map_err(thrown)?;
        let choices: Choices = serde_json::from_str(choices).map_err(thrown)?;
        let mut run = session::run(&self.trace, &choices).map_err(thrown)?;
        let server = match beside.server.as_deref() {
            Some(text) => {
                ServerArgs(serde_json::from_str(text).map_err(|why| thrown(format!("server_args.json: {why}")))?)
            }
            None => ServerArgs::default(),
        };
        let mapping: Vec<&Trace> = self.mapping.iter().map(|trace| &**trace).collect();
        run.sections.extend(triage::triage(&triage::Request {
            trace: &self.trace,
            file_stage: Stage::All,
            mapping: &mapping,
            server: &server,
            framework: None,
            options: &beside.options,
        }));
        Ok(Report::new(vec![run]).json())
    }
}

fn trace(imported: Imported) -> Thrown<Box<Trace>> {
    match imported.opened {
        Opened::Trace(trace) => Ok(trace),
        _ => Err(thrown("the file holds no trace")),
    }
}
