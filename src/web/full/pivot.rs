//! Pivot tables of all open files under the axes and values that the user chose.

use crate::analysis::pivot::cells::Cube;
use crate::analysis::pivot::layout::{Shape, Source};
use crate::analysis::results::{Run, Sections};
use crate::json;
use crate::report::table::Table;
use crate::report::{Report, TableRequest, csv, pivot_table, sort_and_filter, with_totals_row};
use crate::web::{JsResult, to_js, to_js_error, view};
use wasm_bindgen::prelude::*;

/// The runs of all open files with the cubes of their traces.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Pivot {
    report: Report,
    cubes: Vec<Option<Cube>>,
}

#[wasm_bindgen]
impl Pivot {
    /// Takes the report texts of all open files, and for each the cube of its trace or an empty text.
    ///
    /// # Errors
    /// A text is no report or no cube.
    #[wasm_bindgen(constructor)]
    pub fn new(texts: Vec<String>, cubes: Vec<String>) -> JsResult<Self> {
        let (mut runs, mut run_cubes): (Vec<Run>, Vec<Option<Cube>>) = (Vec::new(), Vec::new());
        let cubes = cubes.into_iter().chain(std::iter::repeat(String::new()));
        for (text, cube) in texts.iter().zip(cubes) {
            let cube = if cube.is_empty() { None } else { Some(json::read(&cube).map_err(to_js_error)?) };
            for run in Report::read("report", text).map_err(to_js_error)?.runs {
                run_cubes.push(cube.clone());
                runs.push(Run { sections: Sections::new(), ..run });
            }
        }
        Ok(Self { report: Report::new(runs), cubes: run_cubes })
    }

    /// The pivot table of this layout, sorted and filtered. Both arguments are JSON texts.
    ///
    /// # Errors
    /// An impossible layout or an invalid request.
    pub fn table(&self, shape: &str, request: &str) -> JsResult<JsValue> {
        let request: TableRequest = json::read(request).map_err(to_js_error)?;
        let table = self.layout(shape, &request)?;
        to_js(&view::PagedTable::new(table, &request, request.run.is_some()).view(&request))
    }

    /// The same table as CSV with all rows and totals.
    ///
    /// # Errors
    /// Those of [`Pivot::table`].
    pub fn csv(&self, shape: &str, request: &str) -> JsResult<String> {
        let request: TableRequest = json::read(request).map_err(to_js_error)?;
        Ok(csv(&with_totals_row(sort_and_filter(self.layout(shape, &request)?, &request))))
    }

    fn layout(&self, shape: &str, request: &TableRequest) -> JsResult<Table> {
        let shape: Shape = json::read(shape).map_err(to_js_error)?;
        let labels = self.report.labels();
        let sources = labels.iter().zip(&self.report.runs).zip(&self.cubes).enumerate();
        let chosen = sources.filter(|(index, _)| request.run.is_none_or(|run| run == *index));
        let sources: Vec<Source> =
            chosen.map(|(_, ((label, run), cube))| Source { label, run, cube: cube.as_ref() }).collect();
        pivot_table(&sources, shape).map_err(to_js_error)
    }
}
