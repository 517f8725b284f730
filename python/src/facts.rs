//! `gpuprism.facts`: the facts of many runs as Parquet files, by the library of `gpuprism facts`.

use crate::background::{self, Watcher};
use crate::open::Paths;
use gpuprism::facts::{FactsFolder, Limits, Outcome, traces};
use gpuprism::files::by_run;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// What became of a run.
struct Added {
    path: PathBuf,
    outcome: Outcome,
    seconds: f64,
}

/// Adds runs to a folder of facts. Returns a dictionary for each run.
#[pyfunction]
#[pyo3(signature = (path, out, *, tags = None, jobs = 1, max_bytes = None, source = None, failure = None))]
pub(crate) fn facts(
    path: Paths,
    out: PathBuf,
    tags: Option<BTreeMap<String, String>>,
    jobs: usize,
    max_bytes: Option<u64>,
    source: Option<String>,
    failure: Option<String>,
) -> PyResult<Py<PyList>> {
    let (paths, tags) = (Vec::from(path), Vec::from_iter(tags.unwrap_or_default()));
    let limits = Limits { max_bytes, source, failure };
    let add = move |watcher: &Watcher| {
        let folder = FactsFolder::open(&out, &tags)?.with_limits(limits);
        let added = Mutex::new(Vec::new());
        let report = |path: &Path, outcome: &Outcome, seconds: f64| {
            let run = Added { path: path.to_owned(), outcome: outcome.clone(), seconds };
            added.lock().unwrap_or_else(PoisonError::into_inner).push(run);
        };
        folder.add_all(&by_run(&traces(&paths, watcher)?), jobs, watcher, &report)?;
        Ok(added.into_inner().unwrap_or_else(PoisonError::into_inner))
    };
    Python::attach(|py| {
        let added = background::run(py, add)?;
        let rows = added.iter().map(|run| row(py, run)).collect::<PyResult<Vec<_>>>()?;
        Ok(PyList::new(py, rows)?.unbind())
    })
}

/// Whether a file with this name is taken for a trace when a folder is searched.
#[pyfunction]
pub(crate) fn is_trace_name(name: &str) -> bool {
    gpuprism::facts::is_trace_name(name)
}

/// The paths by run: the tables of one run of rocprofv3 together, each other file alone.
#[pyfunction]
pub(crate) fn files_by_run(paths: Vec<String>) -> Vec<Vec<String>> {
    let paths: Vec<PathBuf> = paths.into_iter().map(PathBuf::from).collect();
    let texts = |run: Vec<PathBuf>| run.into_iter().map(|path| path.to_string_lossy().into_owned()).collect();
    by_run(&paths).into_iter().map(texts).collect()
}

fn row<'py>(py: Python<'py>, run: &Added) -> PyResult<Bound<'py, PyDict>> {
    let (outcome, reason) = match &run.outcome {
        Outcome::Written => ("written", None),
        Outcome::Present => ("present", None),
        Outcome::Failed(reason) => ("failed", Some(reason)),
    };
    let row = PyDict::new(py);
    row.set_item("path", run.path.display().to_string())?;
    row.set_item("outcome", outcome)?;
    row.set_item("reason", reason)?;
    row.set_item("seconds", run.seconds)?;
    Ok(row)
}
