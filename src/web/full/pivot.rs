//! Pivot tables of all open files under the axes and values that the user chose.

use crate::analysis::pivot::cells::PivotCells;
use crate::analysis::pivot::layout::{PivotLayout, Source};
use crate::analysis::results::{Run, Sections};
use crate::json;
use crate::report::table::Table;
use crate::report::{Report, TableRequest, csv, pivot_table, sort_and_filter, with_totals_row};
use crate::web::{JsResult, to_js, to_js_error, view};
use wasm_bindgen::prelude::*;

/// The runs of all open files with the pivot cells of their traces.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Pivot {
    report: Report,
    cells: Vec<Option<PivotCells>>,
}

#[wasm_bindgen]
impl Pivot {
    /// Takes the report texts of all open files, and for each the pivot cells of its trace or an empty text.
    ///
    /// # Errors
    /// A text is not a report or not pivot cells.
    #[wasm_bindgen(constructor)]
    pub fn new(texts: Vec<String>, cells: Vec<String>) -> JsResult<Self> {
        let (mut runs, mut cells_by_run): (Vec<Run>, Vec<Option<PivotCells>>) = (Vec::new(), Vec::new());
        let cells = cells.into_iter().chain(std::iter::repeat(String::new()));
        for (text, cells) in texts.iter().zip(cells) {
            let cells = if cells.is_empty() { None } else { Some(json::read(&cells).map_err(to_js_error)?) };
            for run in Report::read("report", text).map_err(to_js_error)?.runs {
                cells_by_run.push(cells.clone());
                runs.push(Run { sections: Sections::new(), ..run });
            }
        }
        Ok(Self { report: Report::new(runs), cells: cells_by_run })
    }

    /// The pivot table of this layout, sorted and filtered. Both arguments are JSON texts.
    ///
    /// # Errors
    /// An impossible layout or an invalid request.
    pub fn table(&self, layout: &str, request: &str) -> JsResult<JsValue> {
        let request: TableRequest = json::read(request).map_err(to_js_error)?;
        let table = self.build(layout, &request)?;
        to_js(&view::PagedTable::new(table, &request, request.run.is_some()).view(&request))
    }

    /// The same table as CSV with all rows and totals.
    ///
    /// # Errors
    /// Those of [`Pivot::table`].
    pub fn csv(&self, layout: &str, request: &str) -> JsResult<String> {
        let request: TableRequest = json::read(request).map_err(to_js_error)?;
        Ok(csv(&with_totals_row(sort_and_filter(self.build(layout, &request)?, &request))))
    }

    fn build(&self, layout: &str, request: &TableRequest) -> JsResult<Table> {
        let layout: PivotLayout = json::read(layout).map_err(to_js_error)?;
        let labels = self.report.labels();
        let sources = labels.iter().zip(&self.report.runs).zip(&self.cells).enumerate();
        let chosen = sources.filter(|(index, _)| request.run.is_none_or(|run| run == *index));
        let sources: Vec<Source> =
            chosen.map(|(_, ((label, run), cells))| Source { label, run, cells: cells.as_ref() }).collect();
        pivot_table(&sources, layout).map_err(to_js_error)
    }
}
