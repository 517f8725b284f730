//! The windows of a trace that can be picked by name, and the window as a file for Perfetto.

use super::super::{Imported, JsResult, to_js, to_js_error};
use crate::digits::grouped;
use crate::json;
use crate::session::{self, Choices};
use serde::Serialize;
use wasm_bindgen::prelude::*;

/// Named windows of one kind.
#[derive(Debug, Serialize)]
struct WindowGroupView {
    title: String,
    windows: Vec<session::NamedWindow>,
    /// The number of windows left out, as text. Empty if there are none.
    more: String,
}

#[wasm_bindgen]
impl Imported {
    /// The chosen window as a file for Perfetto. Empty if the file contains no trace.
    ///
    /// # Errors
    /// An invalid window, or one with too many events.
    pub fn slice(&self, choices: &str) -> JsResult<Vec<u8>> {
        let Some(trace) = self.trace() else { return Ok(Vec::new()) };
        let choices: Choices = json::read(choices).map_err(to_js_error)?;
        session::slice(trace, &choices).map_err(to_js_error)
    }

    /// Steps, stages and ranges whose windows can be picked: `{title, windows: {title, window, stage}[], more}[]`.
    pub fn named_windows(&self) -> JsResult<JsValue> {
        let Some(trace) = self.trace() else { return Ok(JsValue::NULL) };
        let groups = session::named_windows(trace).into_iter();
        let groups = groups.map(|session::WindowGroup { title, windows, more }| {
            let more = if more > 0 { grouped(more as u64) } else { String::new() };
            WindowGroupView { title, windows, more }
        });
        to_js(&groups.collect::<Vec<_>>())
    }
}
