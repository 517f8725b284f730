//! The panel of one kernel: its tables as strings and its charts as SVG nodes.

use super::super::view::{PagedTable, TableView};
use super::super::{Imported, JsResult, to_js, to_js_error};
use crate::analysis::section::Section;
use crate::json;
use crate::report::chart::{self, Chart};
use crate::report::{TableRequest, section_table};
use crate::session::{self, Choices};
use crate::trace::Trace;
use serde::Serialize;
use wasm_bindgen::prelude::*;

/// The panel of one kernel: its charts, and its four tables or five.
#[derive(Debug, Serialize)]
struct KernelView {
    /// The full name.
    name: String,
    /// The category, which gives the charts their colour.
    category: String,
    /// False if no GPU op has this name. The first table then says so.
    found: bool,
    /// The histogram of durations, and the launches over time.
    charts: [Chart; 2],
    tables: Vec<TableView>,
}

fn kernel(trace: &Trace, choices: &str, name: &str, width: u32) -> JsResult<JsValue> {
    let choices: Choices = json::read(choices).map_err(to_js_error)?;
    let found = session::one_kernel(trace, &choices, name, chart::launch_columns(width)).map_err(to_js_error)?;
    let [callers, lanes] = [table("kernel_callers", &found.callers), table("kernel_lanes", &found.detail)];
    let peaks = found.peaks.as_ref().map(|peaks| table("kernel_peaks", peaks));
    let others = [table("kernel_launches", &found.launches), table("kernel_neighbours", &found.neighbours)];
    to_js(&KernelView {
        found: found.raw.is_some(),
        charts: [chart::durations(&found, width), chart::launches(&found, width)],
        tables: [callers, lanes].into_iter().chain(peaks).chain(others).collect(),
        category: found.category,
        name: found.name,
    })
}

fn table(id: &str, section: &Section) -> TableView {
    let request = TableRequest::default();
    PagedTable::new(section_table(id, section), &request, true).view(&request)
}

#[wasm_bindgen]
impl Imported {
    /// The details of one kernel under these choices, with charts of this width in pixels. Null if the file contains no trace.
    ///
    /// # Errors
    /// Those of [`Imported::analyze`].
    pub fn kernel(&self, choices: &str, name: &str, width: u32) -> JsResult<JsValue> {
        self.trace().map_or(Ok(JsValue::NULL), |trace| kernel(trace, choices, name, width))
    }
}
