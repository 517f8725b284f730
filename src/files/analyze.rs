//! Analyzes traces with what lies beside them in their folder.

use super::captured::captured;
use super::io::label;
use super::neighbours::{LEVELS_OF_CAPTURE, Neighbours};
use super::open::{self, RunSource};
use super::watch::Watch;
use crate::analysis::inference::model_config::ModelConfig;
use crate::analysis::results::Run;
use crate::report::foreign;
use crate::session::{self, Choices, ModelChoice, UserFile};
use crate::trace::Trace;
use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// Analyzes a trace with what lies beside it: the arguments of the server, and the record of the capture with the model's config.
///
/// # Errors
/// Those of [`session::run`].
pub fn run(trace: &Trace, choices: &Choices, beside: &Neighbours) -> Result<Run> {
    let captured = captured(beside);
    let server = beside.server_args();
    let mut model_config = ModelChoice { server, ..choices.model_config.clone() };
    let is_given = model_config.config.is_some() || model_config.weights_gb.is_some();
    if captured.is_some() && !is_given {
        let check = |config: &UserFile| ModelConfig::parse(&config.file, &config.text).map(|_| ());
        model_config.config = beside.read("config.json", LEVELS_OF_CAPTURE, check);
    }
    let mut run = session::run(trace, &Choices { model_config, ..choices.clone() })?;
    if let Some(captured) = captured {
        captured.put(&mut run.sections);
    }
    Ok(run)
}

/// The runs of a trace or of an earlier report. The choices apply only to a trace.
pub(crate) fn runs(path: &Path, choices: &Choices, watch: &dyn Watch) -> Result<Vec<Run>> {
    match open::read(path, watch)? {
        RunSource::Trace(trace) => Ok(vec![run(&trace, choices, &Neighbours::of(&open::trace_in(path), None, watch))?]),
        RunSource::Report(report) => Ok(report.runs),
    }
}

/// The runs of what [`open::read_run`] read from the file `path` (the first of several). A report is not analyzed again: choices
/// are a warning then.
///
/// # Errors
/// Those of [`run`].
pub fn runs_of(source: &RunSource, path: &Path, choices: &Choices, watch: &dyn Watch) -> Result<Vec<Run>> {
    match source {
        RunSource::Trace(trace) => Ok(vec![run(trace, choices, &Neighbours::of(&open::trace_in(path), None, watch))?]),
        RunSource::Report(report) => {
            if *choices != Choices::default() {
                watch.warn(&format!(
                    "{}: an earlier report; the analysis options apply only to traces and are ignored for it",
                    label(path)
                ));
            }
            // A report with samples is complete without the file of its samples.
            let has_samples = report.runs.iter().any(foreign::has_samples);
            let samples = if has_samples { None } else { open::nvlink_samples_of_report(path, watch) };
            Ok(report.runs.iter().cloned().chain(samples).collect())
        }
    }
}

/// The wall time of each of `runs` runs, from one value for all of them or one value each.
///
/// # Errors
/// Another number of values, or a value that is not a wall time ([`session::wall`]).
pub fn wall_seconds(seconds: &[String], runs: usize) -> Result<Vec<Option<String>>> {
    if seconds.len() > 1 && seconds.len() != runs {
        let why = format!(
            "{} values for {runs} files: give one value for all files, or one value per file in the same order",
            seconds.len()
        );
        return Err(Error::usage("--seconds", why));
    }
    seconds.iter().try_for_each(|seconds| session::wall(Some(seconds)).map(|_| ()))?;
    Ok((0..runs).map(|run| seconds.get(run).or(seconds.first()).cloned()).collect())
}

/// Several reports of one trace have the same label. Such a run is labeled with its file name instead, if it is the only run
/// of the file.
pub fn with_distinct_labels(runs_by_file: Vec<Vec<Run>>, paths: &[PathBuf]) -> Vec<Run> {
    let labels: Vec<String> = runs_by_file.iter().flatten().map(|run| run.label.clone()).collect();
    let is_unique = |label: &str| labels.iter().filter(|other| *other == label).count() == 1;
    let relabel = |(runs, path): (Vec<Run>, &PathBuf)| {
        let is_single = runs.len() == 1;
        let relabel_run = move |run: Run| {
            if is_single && !is_unique(&run.label) { Run { label: label(path), ..run } } else { run }
        };
        runs.into_iter().map(relabel_run).collect::<Vec<_>>()
    };
    runs_by_file.into_iter().zip(paths).flat_map(relabel).collect()
}
