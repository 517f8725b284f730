//! `gpuprism.Trace`: the results of the opened files, and the traces themselves for windows and ranks.

use crate::background;
use crate::errors::raised;
use crate::notebook;
use crate::open::{Decimal, WindowArgument, Words};
use crate::results::{self, Ranks};
use crate::table::Table;
use gpuprism::analysis::communication::ranks::{self, RankLog};
use gpuprism::analysis::replay::asked::Asked;
use gpuprism::analysis::results::Run;
use gpuprism::files::ranks::compare_ranks;
use gpuprism::files::{self, RunSource, Watch, analyze};
use gpuprism::report::html::Overview;
use gpuprism::report::{self, Report, bars, chart, html_page_with_timelines, legend, record_tables, records};
use gpuprism::session::{self, Choices};
use gpuprism::trace::Window;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// What was read from the files of one run, and the choices for its analysis.
#[derive(Clone)]
struct Input {
    path: PathBuf,
    source: Arc<RunSource>,
    choices: Choices,
}

/// The results of one or more runs. Its parts are shared: a copy is cheap.
#[derive(Clone)]
#[pyclass(frozen, module = "gpuprism")]
pub(crate) struct Trace {
    inputs: Vec<Input>,
    pub(crate) report: Arc<Report>,
    /// The input of each run; `None` if that is not known.
    inputs_of_runs: Vec<Option<Input>>,
}

impl Trace {
    /// Reads and analyzes the files. `seconds` are the wall times of all runs or of each.
    pub(crate) fn read(
        paths: &[PathBuf],
        choices: &Choices,
        seconds: &[String],
        nsys: &str,
        watch: &dyn Watch,
    ) -> gpuprism::Result<Self> {
        let sets = files::by_run(paths);
        let wall_seconds = analyze::wall_seconds(seconds, sets.len())?;
        let mut inputs = Vec::new();
        for (set, wall_seconds) in sets.iter().zip(wall_seconds) {
            let Some(path) = set.first().cloned() else { continue };
            let source = Arc::new(files::read_run(set, nsys, watch)?);
            inputs.push(Input { path, source, choices: Choices { wall_seconds, ..choices.clone() } });
        }
        if inputs.is_empty() {
            return Err(gpuprism::Error::usage("open", "no file given"));
        }
        Self::analyze(inputs, watch)
    }

    fn analyze(inputs: Vec<Input>, watch: &dyn Watch) -> gpuprism::Result<Self> {
        let (mut runs, mut inputs_of_runs) = (Vec::new(), Vec::new());
        for input in &inputs {
            let of_input = analyze::runs_of(&input.source, &input.path, &input.choices, watch)?;
            inputs_of_runs.extend(of_input.iter().map(|_| Some(input.clone())));
            runs.extend(of_input);
        }
        let before = runs.len();
        report::foreign::attach_series(&mut runs);
        if runs.len() < before {
            // Only reports of nsys-llm-explainer, which have no windows and no ranks.
            inputs_of_runs = vec![None; runs.len()];
        }
        Ok(Self { inputs, report: Arc::new(Report::new(runs)), inputs_of_runs })
    }

    /// The first file.
    pub(crate) fn first_path(&self) -> PathBuf {
        self.inputs.first().map(|input| input.path.clone()).unwrap_or_default()
    }

    fn get(&self, name: &str) -> Option<Table> {
        let is_known = record_tables(&self.report).iter().any(|known| known == name);
        let section = records(&self.report, name).filter(|_| is_known)?;
        Some(Table { id: name.to_owned(), section: Arc::new(section), report: Some(Arc::clone(&self.report)) })
    }

    /// The bars of all runs, and the strips of the trace if it is one.
    fn charts(&self) -> Vec<chart::Chart> {
        let legend = legend(&self.report);
        let legend: Vec<&str> = legend.iter().map(String::as_str).collect();
        let bars = chart::stacked_bars(&bars(&self.report), &legend, &[], notebook::WIDTH);
        std::iter::once(bars).chain(self.strips()).collect()
    }

    /// The strips of each run, if each input is a trace or a report of one run.
    fn overviews(&self) -> Vec<Option<Overview>> {
        let of = |input: &Input| match &*input.source {
            RunSource::Trace(trace) => session::overview(trace, &input.choices).ok().flatten(),
            RunSource::Report(_) => None,
        };
        if self.inputs.len() == self.report.runs.len() { self.inputs.iter().map(of).collect() } else { Vec::new() }
    }

    fn strips(&self) -> Option<chart::Chart> {
        let [input] = self.inputs.as_slice() else { return None };
        let RunSource::Trace(trace) = &*input.source else { return None };
        let strips = session::strips(trace, &input.choices, chart::strip_columns(notebook::WIDTH)).ok()??;
        let window = session::picked(trace, &input.choices).ok()?;
        let mut drawn = chart::overview(&strips, notebook::WIDTH);
        let mut frame = chart::overview_frame(&strips, window, notebook::WIDTH);
        // Its last node receives the pointer.
        frame.pop();
        drawn.nodes.extend(frame);
        Some(drawn)
    }
}

#[pymethods]
impl Trace {
    #[getter]
    fn verdict(&self) -> String {
        report::verdict(&self.report)
    }

    #[getter]
    fn labels(&self) -> Vec<String> {
        self.report.labels()
    }

    #[getter]
    fn runs(&self) -> Vec<Self> {
        let of_run = |(run, input): (&Run, &Option<Input>)| Self {
            inputs: input.iter().cloned().collect(),
            report: Arc::new(Report::new(vec![run.clone()])),
            inputs_of_runs: vec![input.clone()],
        };
        self.report.runs.iter().zip(&self.inputs_of_runs).map(of_run).collect()
    }

    #[getter]
    fn sections(&self) -> Vec<String> {
        record_tables(&self.report)
    }

    fn table(&self, name: &str) -> PyResult<Table> {
        self.get(name).ok_or_else(|| {
            let known = record_tables(&self.report);
            results::no_table(name, &known.iter().map(String::as_str).collect::<Vec<_>>())
        })
    }

    fn __getitem__(&self, name: &str) -> PyResult<Table> {
        self.table(name)
    }

    fn __contains__(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    #[getter]
    fn findings(&self) -> PyResult<Table> {
        self.table("findings")
    }

    #[getter]
    fn kernels(&self) -> PyResult<Table> {
        self.table("kernels")
    }

    #[getter]
    fn steps(&self) -> PyResult<Table> {
        self.table("steps")
    }

    #[getter]
    fn layers(&self) -> PyResult<Table> {
        self.table("layers")
    }

    /// The same traces in a time range, in seconds from the first GPU op.
    #[pyo3(signature = (start = None, end = None))]
    fn window(&self, py: Python, start: Option<Decimal>, end: Option<Decimal>) -> PyResult<Self> {
        let window = match (start, end) {
            (Some(Decimal::Text(text)), None) => text,
            (start, end) => WindowArgument::Ends(start, end).into(),
        };
        let in_window = |input: &Input| Input {
            choices: Choices { window: Some(window.clone()), ..input.choices.clone() },
            ..input.clone()
        };
        let inputs: Vec<Input> = self.inputs.iter().map(in_window).collect();
        background::run(py, move |watcher| Self::analyze(inputs, watcher))
    }

    /// The same traces with these changes replayed together, like `gpuprism what-if`.
    #[pyo3(signature = (*, without = None, speed = None, graph = None))]
    fn what_if(
        &self,
        py: Python,
        without: Option<Words>,
        speed: Option<BTreeMap<String, Decimal>>,
        graph: Option<Words>,
    ) -> PyResult<Self> {
        let words = |words: Option<Words>| words.map(Vec::from).unwrap_or_default();
        let speed = speed.unwrap_or_default().into_iter();
        let speed: Vec<String> = speed.map(|(pattern, factor)| format!("{pattern}={}", String::from(factor))).collect();
        let asked = Asked::names(&words(without), &speed, &words(graph)).map_err(raised)?;
        let changed = |input: &Input| Input {
            choices: Choices { what_if: asked.clone(), ..input.choices.clone() },
            ..input.clone()
        };
        let inputs: Vec<Input> = self.inputs.iter().map(changed).collect();
        background::run(py, move |watcher| {
            let trace = Self::analyze(inputs, watcher)?;
            session::check_found(&trace.report.runs, &asked).map(|()| trace)
        })
    }

    /// The ranks of the jobs in these traces, in the chosen window.
    fn ranks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Ranks>> {
        let inputs = self.inputs.clone();
        let ranks = background::run(py, move |watcher| ranks_of(&inputs, watcher))?;
        results::ranks_object(py, &ranks)
    }

    /// The report as one HTML file, like `gpuprism report --format html`.
    #[pyo3(signature = (path = None))]
    fn to_html(&self, py: Python, path: Option<PathBuf>) -> PyResult<Option<String>> {
        let shown = self.clone();
        background::run(py, move |_| {
            let overviews = shown.overviews();
            written(html_page_with_timelines(&shown.report, &overviews, "gpuprism report"), path)
        })
    }

    /// The report as JSON, like `gpuprism report --format json`.
    #[pyo3(signature = (path = None))]
    fn to_json(&self, py: Python, path: Option<PathBuf>) -> PyResult<Option<String>> {
        let report = Arc::clone(&self.report);
        background::run(py, move |_| written(report.json(), path))
    }

    fn __repr__(&self) -> String {
        format!("<gpuprism.Trace {}: {}>", self.report.labels().join(", "), self.verdict())
    }

    fn _repr_html_(&self, py: Python) -> PyResult<String> {
        let shown = self.clone();
        background::run(py, move |_| {
            let title = shown.report.labels().join(", ");
            Ok(notebook::summary(&title, &[shown.verdict()], &shown.charts(), None))
        })
    }
}

/// Returns the text, or writes it to a file.
fn written(text: String, path: Option<PathBuf>) -> gpuprism::Result<Option<String>> {
    let Some(path) = path else { return Ok(Some(text)) };
    let failed = |error| gpuprism::Error::io(path.display().to_string(), &error);
    std::fs::write(&path, text).map_err(failed).map(|()| None)
}

fn ranks_of(inputs: &[Input], watch: &dyn Watch) -> gpuprism::Result<ranks::Ranks> {
    let logs = inputs.iter().map(|input| {
        let trace = trace_of(input)?;
        Ok(RankLog { file: files::label(&input.path), ..ranks::log(trace) })
    });
    let logs: Vec<RankLog> = logs.collect::<gpuprism::Result<_>>()?;
    let window = inputs.iter().find_map(|input| input.choices.window.as_deref());
    let window_log = |(index, window): &(usize, Window)| {
        let input = inputs.get(*index).ok_or_else(|| gpuprism::Error::usage("ranks", "no such file"))?;
        Ok(ranks::window_log(trace_of(input)?, *window))
    };
    compare_ranks(&logs, window, &|windows| windows.iter().map(window_log).collect(), watch)
}

fn trace_of(input: &Input) -> gpuprism::Result<&gpuprism::trace::Trace> {
    match &*input.source {
        RunSource::Trace(trace) => Ok(trace),
        RunSource::Report(_) => Err(gpuprism::Error::refused(
            files::label(&input.path),
            "a report, which contains no individual collective calls: give the trace",
        )),
    }
}
