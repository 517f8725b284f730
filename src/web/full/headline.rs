//! The lines below the verdict.

use super::Tools;
use crate::report::headline::{headline, simulated};
use crate::web::reports::merged;
use crate::web::{JsResult, to_js};
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
impl Tools {
    /// The critical path of the runs as bars in this width in pixels, what saves most and what to do next, and the layers of the model.
    pub fn headline(&self, width: u32) -> JsResult<JsValue> {
        to_js(&headline(&self.report, width))
    }

    /// What a step takes with the changes that this report text was made with; empty if it has none.
    ///
    /// # Errors
    /// The text is no report.
    pub fn simulated(&self, text: &str) -> JsResult<String> {
        let report = merged(&[text.to_owned()])?;
        Ok(report.runs.first().and_then(simulated).unwrap_or_default())
    }
}
