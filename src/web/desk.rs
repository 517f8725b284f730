//! What a person wants after the first results, but for the triage. Only the module `gpuprism_desk` has it: it is fetched
//! when something first asks for it.

use super::{Thrown, merged, thrown};
use crate::report::{self, Report};
use crate::session;
use wasm_bindgen::prelude::*;

/// The runs of all open files, merged, for everything but the first look at them. Holds no trace.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Desk {
    pub(super) report: Report,
}

#[wasm_bindgen]
impl Desk {
    /// Without runs.
    #[wasm_bindgen(constructor)]
    #[allow(clippy::new_without_default, reason = "JavaScript has no Default")]
    pub fn new() -> Self {
        Self { report: Report::new(Vec::new()) }
    }

    /// Takes the report texts of all open files, in the order of the files.
    ///
    /// # Errors
    /// A text that is no report.
    pub fn set(&mut self, texts: Vec<String>) -> Thrown<()> {
        self.report = merged(&texts)?;
        Ok(())
    }

    /// The report text of a file of another tool.
    ///
    /// # Errors
    /// The sentence of a refused input.
    pub fn translate(&self, label: &str, text: &str) -> Thrown<String> {
        Ok(session::translate(label, text).map_err(thrown)?.compact())
    }

    /// The text of a file to save: the same bytes that the command line prints. `table` is the table of a CSV; of Markdown
    /// it is a group of tables, or empty for the whole report.
    ///
    /// # Errors
    /// An unknown format or table.
    pub fn export(&self, format: &str, table: &str) -> Thrown<String> {
        match format {
            "json" => Ok(self.report.json()),
            "markdown" if table.is_empty() => Ok(report::markdown(&self.report)),
            "markdown" => Ok(report::markdown_group(&self.report, table)),
            "html" => Ok(report::html_page(&self.report, "gpuprism report")),
            "csv" => report::table(&self.report, table, None)
                .map(|table| report::csv(&table))
                .ok_or_else(|| thrown(format!("no table `{table}`"))),
            other => Err(thrown(format!("no format `{other}`"))),
        }
    }
}
