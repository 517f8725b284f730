//! The pivot in the page: cubes where the traces are, and in the module `gpuprism_full` the table that a person shapes.

use super::{Imported, Thrown, thrown};
use crate::json;
use crate::session::{self, Choices, Opened};
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
impl Imported {
    /// The cube of a trace for these axes, a JSON list of words, as JSON text for the pivot.
    ///
    /// # Errors
    /// What is no trace; choices or axes of another shape.
    pub fn cube(&self, choices: &str, axes: &str) -> Thrown<String> {
        let choices: Choices = json::read(choices).map_err(thrown)?;
        match &self.opened {
            Opened::Trace(trace) => {
                let axes: Vec<_> = json::read(axes).map_err(thrown)?;
                Ok(json::write(&session::cube(trace, &choices, &axes).map_err(thrown)?))
            }
            _ => Err(thrown("the file holds no trace")),
        }
    }
}

#[cfg(feature = "full")]
pub use desk::Pivot;

#[cfg(feature = "full")]
mod desk {
    use super::super::{Thrown, thrown, to_js, view};
    use crate::analysis::pivot::cells::Cube;
    use crate::analysis::pivot::layout::{Shape, Source};
    use crate::analysis::results::{Run, Sections};
    use crate::json;
    use crate::report::table::Table;
    use crate::report::{Report, TableRequest, csv, pivot_table, sort_and_filter, with_totals_row};
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
        /// Takes the report texts of all open files, and for each the cube of its trace, or an empty text.
        ///
        /// # Errors
        /// A text that is no report or no cube.
        #[wasm_bindgen(constructor)]
        pub fn new(texts: Vec<String>, cubes: Vec<String>) -> Thrown<Self> {
            let (mut runs, mut own): (Vec<Run>, Vec<Option<Cube>>) = (Vec::new(), Vec::new());
            let cubes = cubes.into_iter().chain(std::iter::repeat(String::new()));
            for (text, cube) in texts.iter().zip(cubes) {
                let cube = if cube.is_empty() { None } else { Some(json::read(&cube).map_err(thrown)?) };
                for run in Report::read("report", text).map_err(thrown)?.runs {
                    own.push(cube.clone());
                    runs.push(Run { sections: Sections::new(), ..run });
                }
            }
            Ok(Self { report: Report::new(runs), cubes: own })
        }

        /// The table of this shape, both JSON texts, sorted and filtered as the request asks.
        ///
        /// # Errors
        /// A shape without meaning; texts of another shape.
        pub fn table(&self, shape: &str, request: &str) -> Thrown<JsValue> {
            let request: TableRequest = json::read(request).map_err(thrown)?;
            let whole = self.shaped(shape, &request)?;
            to_js(&view::Arranged::table(whole, &request, request.run.is_some()).view(&request))
        }

        /// The same as CSV, with all its rows and its sums.
        ///
        /// # Errors
        /// Those of [`Pivot::table`].
        pub fn csv(&self, shape: &str, request: &str) -> Thrown<String> {
            let request: TableRequest = json::read(request).map_err(thrown)?;
            Ok(csv(&with_totals_row(sort_and_filter(self.shaped(shape, &request)?, &request))))
        }

        fn shaped(&self, shape: &str, request: &TableRequest) -> Thrown<Table> {
            let shape: Shape = json::read(shape).map_err(thrown)?;
            let labels = self.report.labels();
            let sources = labels.iter().zip(&self.report.runs).zip(&self.cubes).enumerate();
            let chosen = sources.filter(|(at, _)| request.run.is_none_or(|run| run == *at));
            let sources: Vec<Source> =
                chosen.map(|(_, ((label, run), cube))| Source { label, run, cube: cube.as_ref() }).collect();
            pivot_table(&sources, shape).map_err(thrown)
        }
    }
}
