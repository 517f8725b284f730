//! The captures of graphs that were dropped in the folder of a trace, for the page: which files to read, and the join.

use crate::session::{self, CapturesBeside};
use crate::web::{Imported, JsResult};
use wasm_bindgen::prelude::*;

/// The captures beside a trace while they are read.
#[wasm_bindgen]
#[derive(Debug)]
pub struct GraphCaptures(CapturesBeside);

#[wasm_bindgen]
impl GraphCaptures {
    /// The names of the files to read.
    pub fn wanted(&self) -> Vec<String> {
        self.0.wanted().iter().map(|file| file.name.clone()).collect()
    }

    /// Adds the file with this index, which was read by `TraceReader.with_code`.
    ///
    /// # Errors
    /// The file contains no trace.
    pub fn add(&mut self, index: usize, trace: &Imported, capture: &Imported) -> JsResult<()> {
        let Some(file) = self.0.wanted().get(index).cloned() else { return Ok(()) };
        match capture.trace() {
            Some(capture) => self.0.add(&file, trace.require_trace()?, capture),
            None => self.0.add_unusable(&file.name, "not a trace"),
        }
        Ok(())
    }

    /// Adds a file that could not be read.
    pub fn add_unusable(&mut self, name: &str, why: &str) {
        self.0.add_unusable(name, why);
    }
}

/// The name of the file that describes captures.
#[wasm_bindgen]
pub fn capture_details() -> String {
    session::CAPTURE_DETAILS.to_owned()
}

#[wasm_bindgen]
impl Imported {
    /// The captures among files of the trace's folder, which have these paths. `details` are the texts of their descriptions. `None` if
    /// the trace replays no graphs or no file is a capture.
    pub fn captures_beside(&self, names: Vec<String>, details: Vec<String>) -> Option<GraphCaptures> {
        CapturesBeside::of(self.trace()?, &names, &details).map(GraphCaptures)
    }

    /// Joins the graph replays of the trace with the captures. Later analyses use them.
    pub fn join_captures(&mut self, captures: GraphCaptures) {
        if let Some(trace) = self.trace_to_join() {
            captures.0.join(trace);
        }
    }
}
