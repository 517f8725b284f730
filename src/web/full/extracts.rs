//! Data of one trace that the tools combine with reports and with data of other traces: pivot cells, logs of ranks, and the strips of
//! an HTML report, as JSON texts.

use super::super::{Imported, JsResult, to_js_error};
use crate::analysis::communication::ranks;
use crate::json;
use crate::session::{self, Choices};
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
impl Imported {
    /// The pivot cells of the trace for these axes, a JSON list of their names.
    ///
    /// # Errors
    /// The file contains no trace; invalid choices or axes.
    pub fn pivot_cells(&self, choices: &str, axes: &str) -> JsResult<String> {
        let trace = self.require_trace()?;
        let choices: Choices = json::read(choices).map_err(to_js_error)?;
        let axes: Vec<_> = json::read(axes).map_err(to_js_error)?;
        Ok(json::write(&session::pivot_cells(trace, &choices, &axes).map_err(to_js_error)?))
    }

    /// The strips with which an HTML report of the trace begins. Empty if the trace has no GPU ops.
    ///
    /// # Errors
    /// The file contains no trace; those of [`session::overview`].
    pub fn html_strips(&self, choices: &str) -> JsResult<String> {
        let trace = self.require_trace()?;
        let choices: Choices = json::read(choices).map_err(to_js_error)?;
        let overview = session::overview(trace, &choices).map_err(to_js_error)?;
        Ok(overview.map(|overview| json::write(&overview)).unwrap_or_default())
    }

    /// The log of the ranks in the trace.
    ///
    /// # Errors
    /// The file contains no trace.
    pub fn ranks_log(&self) -> JsResult<String> {
        Ok(json::write(&ranks::log(self.require_trace()?)))
    }

    /// The log of the ranks in the chosen window. Empty if no window is chosen.
    ///
    /// # Errors
    /// The file contains no trace; those of [`session::picked`].
    pub fn ranks_part(&self, choices: &str) -> JsResult<String> {
        let trace = self.require_trace()?;
        let choices: Choices = json::read(choices).map_err(to_js_error)?;
        let window = session::picked(trace, &choices).map_err(to_js_error)?;
        Ok(window.map(|window| json::write(&ranks::window_log(trace, window))).unwrap_or_default())
    }
}
