//! The overview strips of a trace, and the windows that a drag over them picks.

use super::{Imported, JsResult};
use crate::session;
use crate::trace::{Ns, Trace};
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
impl Imported {
    /// The overview strips under these choices, in this width in pixels: `{chart, axis, frame, caption}`. `chart` and `axis` are null if the
    /// page has them already, because it takes long to lay out their paths. A longer `scale_ns` is the time that the whole width stands
    /// for. Null if the file contains no trace.
    ///
    /// # Errors
    /// Those of [`Imported::analyze`].
    pub fn strips(&self, choices: &str, width: u32, has_chart: bool, scale_ns: f64) -> JsResult<JsValue> {
        let scale = Ns(scale_ns as i64);
        self.trace().map_or(Ok(JsValue::NULL), |trace| self.overview.draw(trace, choices, (width, scale), has_chart))
    }

    /// The time from the first GPU op to the end of the last, in nanoseconds; zero without GPU ops.
    pub fn gpu_length(&self) -> f64 {
        self.trace().and_then(Trace::span).map_or(0.0, |span| span.length().0 as f64)
    }

    /// The text of the window between two positions in the strips, from 0 (begin) to 1 (end).
    pub fn window(&self, from: f64, to: f64) -> String {
        self.trace().map(|trace| session::window_text(trace, from, to)).unwrap_or_default()
    }
}
