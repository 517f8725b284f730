//! `gpuprism.Comparison` and `gpuprism.Ranks`: what several runs or ranks have to do with each other.

use crate::background;
use crate::notebook;
use crate::table::Table;
use crate::trace::Trace;
use gpuprism::analysis::communication::ranks::Ranks as RankResults;
use gpuprism::analysis::compare::{Comparison as ComparedRuns, compare};
use gpuprism::analysis::results::Run;
use gpuprism::analysis::section::Sections;
use gpuprism::files::analyze::with_distinct_labels;
use gpuprism::report::chart::{diverging_bars, rank_bars};
use gpuprism::report::{Report, compare as compare_words, ranks as rank_words};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use std::sync::Arc;

/// The tables and texts of a comparison or of ranks.
#[pyclass(frozen, subclass, module = "gpuprism")]
pub(crate) struct Results {
    sections: Sections,
    verdict: String,
    text: String,
    json: String,
    html: String,
}

#[pymethods]
impl Results {
    #[getter]
    fn verdict(&self) -> &str {
        &self.verdict
    }

    #[getter]
    fn sections(&self) -> Vec<&str> {
        self.sections.keys().map(String::as_str).collect()
    }

    fn table(&self, name: &str) -> PyResult<Table> {
        let section = self.sections.get(name).cloned().ok_or_else(|| no_table(name, &self.sections()))?;
        Ok(Table { id: name.to_owned(), section: Arc::new(section), report: None })
    }

    fn __getitem__(&self, name: &str) -> PyResult<Table> {
        self.table(name)
    }

    fn __contains__(&self, name: &str) -> bool {
        self.sections.contains_key(name)
    }

    fn to_json(&self) -> &str {
        &self.json
    }

    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        format!("<gpuprism results: {}>", self.verdict)
    }

    fn _repr_html_(&self) -> &str {
        &self.html
    }
}

/// The exception for a table that there is not.
pub(crate) fn no_table(name: &str, known: &[&str]) -> PyErr {
    PyKeyError::new_err(format!("{name}: no such table; the tables are {}", known.join(", ")))
}

/// Runs compared with the first of them.
#[pyclass(frozen, extends = Results, module = "gpuprism")]
pub(crate) struct Comparison {
    is_possible: bool,
}

#[pymethods]
impl Comparison {
    #[getter]
    fn comparable(&self) -> bool {
        self.is_possible
    }
}

/// The ranks of the jobs in a set of traces.
#[pyclass(frozen, extends = Results, module = "gpuprism")]
pub(crate) struct Ranks {
    stragglers: Vec<String>,
}

#[pymethods]
impl Ranks {
    #[getter]
    fn stragglers(&self) -> Vec<String> {
        self.stragglers.clone()
    }
}

/// Compares runs with those of `before`, like `gpuprism diff`.
#[pyfunction]
pub(crate) fn diff<'py>(py: Python<'py>, before: &Trace, after: &Trace) -> PyResult<Bound<'py, Comparison>> {
    let traces = [before, after];
    let runs = traces.map(|trace| trace.report.runs.clone()).into();
    let paths: Vec<_> = traces.iter().map(|trace| trace.first_path()).collect();
    let (results, is_possible) = background::run(py, move |_| {
        let report = Report::new(with_distinct_labels(runs, &paths));
        let labels = report.labels();
        let runs: Vec<(&str, &Run)> = labels.iter().map(String::as_str).zip(&report.runs).collect();
        let comparison = compare(&runs, 0);
        Ok((of_comparison(&comparison), comparison.is_possible()))
    })?;
    Bound::new(py, PyClassInitializer::from(results).add_subclass(Comparison { is_possible }))
}

fn of_comparison(comparison: &ComparedRuns) -> Results {
    let verdict = compare_words::verdict(comparison);
    let (deltas, axis) = compare_words::deltas(comparison);
    let charts =
        if deltas.is_empty() { Vec::new() } else { vec![diverging_bars(&deltas, &axis, &[], notebook::WIDTH)] };
    let table = compare_words::table(comparison, "compare_kernels", None);
    Results {
        html: notebook::summary("Comparison", &verdict, &charts, table),
        verdict: verdict.join("\n"),
        text: compare_words::text(comparison, None),
        json: compare_words::json(comparison),
        sections: comparison.sections.clone(),
    }
}

/// The Python object of ranks.
pub(crate) fn ranks_object<'py>(py: Python<'py>, ranks: &RankResults) -> PyResult<Bound<'py, Ranks>> {
    let verdict = rank_words::verdict(ranks);
    let chart = rank_bars(&ranks.jobs, notebook::WIDTH);
    let results = Results {
        html: notebook::summary("Ranks", &verdict, &[chart], rank_words::table(ranks, "ranks")),
        verdict: verdict.join("\n"),
        text: rank_words::text(ranks, None),
        json: rank_words::json(ranks),
        sections: ranks.sections.clone(),
    };
    let stragglers = ranks.jobs.iter().filter_map(|job| Some(job.straggler()?.label.clone())).collect();
    Bound::new(py, PyClassInitializer::from(results).add_subclass(Ranks { stragglers }))
}
