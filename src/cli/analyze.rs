//! Analyzes traces with what lies beside them in their folder.

use super::captured::{self, captured};
use super::files::{self, RunSource};
use super::neighbours::{LEVELS_OF_CAPTURE, Neighbours};
use crate::Result;
use crate::analysis::inference::model_config::ModelConfig;
use crate::analysis::results::Run;
use crate::session::{self, Choices, ModelChoice, UserFile};
use crate::trace::Trace;
use std::path::Path;

/// Analyzes a trace with what lies beside it: the arguments of the server, and the record of the capture with the model's config.
pub(super) fn run(trace: &Trace, choices: &Choices, beside: &Neighbours) -> Result<Run> {
    let captured = captured(beside);
    let server = beside.server_args();
    let mut model_config = ModelChoice { server, ..choices.model_config.clone() };
    let is_given = model_config.config.is_some() || model_config.weights_gb.is_some();
    if captured.is_some() && !is_given {
        let check = |config: &UserFile| ModelConfig::parse(&config.file, &config.text).map(|_| ());
        model_config.config = beside.read("config.json", LEVELS_OF_CAPTURE, check);
    }
    let mut run = session::run(trace, &Choices { model_config, ..choices.clone() })?;
    if let Some(section) = captured {
        run.sections.insert(captured::SECTION.to_owned(), section);
    }
    Ok(run)
}

/// The runs of a trace or of an earlier report. The choices apply only to a trace.
pub(super) fn runs(path: &Path, choices: &Choices) -> Result<Vec<Run>> {
    match files::run_source(path, files::open)? {
        RunSource::Trace(trace) => Ok(vec![run(&trace, choices, &Neighbours::of(path, None))?]),
        RunSource::Report(report) => Ok(report.runs),
    }
}
