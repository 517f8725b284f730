//! One kernel in detail, in the page: its figures and tables as strings, its charts as nodes.

use super::view::{Arranged, TableView};
use super::{Imported, Thrown, thrown, to_js};
use crate::analysis::section::Section;
use crate::json;
use crate::report::chart::{self, Chart};
use crate::report::{TableRequest, section_table};
use crate::session::{self, Choices, Opened};
use crate::trace::Trace;
use serde::Serialize;
use wasm_bindgen::prelude::*;

/// The panel of one kernel: its charts and its three tables.
#[derive(Debug, Serialize)]
struct KernelView {
    /// In full.
    name: String,
    /// False where no GPU op has the name: the first table says so.
    found: bool,
    /// The durations, then the launches over time.
    charts: [Chart; 2],
    tables: [TableView; 3],
}

fn kernel(trace: &Trace, choices: &str, name: &str, width: u32) -> Thrown<JsValue> {
    let choices: Choices = json::read(choices).map_err(thrown)?;
    let found = session::one_kernel(trace, &choices, name, chart::launch_columns(width)).map_err(thrown)?;
    to_js(&KernelView {
        found: found.raw.is_some(),
        charts: [chart::durations(&found, width), chart::launches(&found, width)],
        tables: [
            table("kernel_lanes", &found.detail),
            table("kernel_callers", &found.callers),
            table("kernel_neighbours", &found.neighbours),
        ],
        name: found.name,
    })
}

fn table(id: &str, section: &Section) -> TableView {
    let request = TableRequest::default();
    Arranged::table(section_table(id, section), &request, true).view(&request)
}

#[wasm_bindgen]
impl Imported {
    /// One kernel in detail, in charts of this width and under these choices; null for what is no trace.
    ///
    /// # Errors
    /// Those of `analyze`.
    pub fn kernel(&self, choices: &str, name: &str, width: u32) -> Thrown<JsValue> {
        match &self.opened {
            Opened::Trace(trace) => kernel(trace, choices, name, width),
            _ => Ok(JsValue::NULL),
        }
    }
}
