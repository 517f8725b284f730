//! Analyzes traces with what lies beside them in their folder.

use super::captured::{self, captured};
use super::files::{self, RunSource};
use crate::Result;
use crate::analysis::results::Run;
use crate::session::{self, Choices, ModelChoice};
use crate::trace::Trace;
use std::path::Path;

/// Analyzes a trace with what lies beside it: the arguments of the server, and the record of the capture with the model's config.
pub(super) fn run(path: &Path, trace: &Trace, choices: &Choices) -> Result<Run> {
    let captured = captured(path);
    let mut model_config = ModelChoice { server: files::server_args_next_to(path), ..choices.model_config.clone() };
    let is_given = model_config.config.is_some() || model_config.weights_gb.is_some();
    if let (false, Some(config)) = (is_given, captured.as_ref().and_then(|captured| captured.config.clone())) {
        model_config.config = Some(config);
    }
    let mut run = session::run(trace, &Choices { model_config, ..choices.clone() })?;
    if let Some(captured) = captured {
        run.sections.insert(captured::SECTION.to_owned(), captured.section);
    }
    Ok(run)
}

/// The runs of a trace or of an earlier report. The choices apply only to a trace.
pub(super) fn runs(path: &Path, choices: &Choices) -> Result<Vec<Run>> {
    match files::run_source(path, files::open)? {
        RunSource::Trace(trace) => Ok(vec![run(path, &trace, choices)?]),
        RunSource::Report(report) => Ok(report.runs),
    }
}
