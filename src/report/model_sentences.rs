//! The sentences on the model that a server runs, of all runs of a report. See [`model_lines`].

use super::examples::example_of_clause;
use super::sections::table_id;
use super::{Clause, Report};
use crate::analysis::model_lines::model_lines;

/// The sentences on the model of each run, each with the id of the table with its numbers. With several runs, each starts with the
/// label of its run.
pub fn lines(report: &Report) -> Vec<Clause> {
    let is_single = report.runs.len() == 1;
    let mut lines = Vec::new();
    for (run_index, (label, run)) in report.labels().iter().zip(&report.runs).enumerate() {
        lines.extend(model_lines(run).into_iter().map(|line| Clause {
            example: example_of_clause(run, &line),
            text: if is_single { line.text } else { format!("{label}: {}", line.text) },
            table: table_id(line.section.as_deref().unwrap_or_default()).to_owned(),
            run_index,
        }));
    }
    lines
}
