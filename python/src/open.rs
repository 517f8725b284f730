//! `gpuprism.open`: reads files and analyzes them, with the options of `gpuprism report`.

use crate::background;
use crate::errors::raised;
use crate::trace::Trace;
use gpuprism::Error;
use gpuprism::analysis::results::Attribution;
use gpuprism::files::{read_text, rules as rule_files};
use gpuprism::session::{self, Choices, ModelChoice};
use pyo3::prelude::*;
use std::path::PathBuf;

/// One path or several.
#[derive(FromPyObject)]
pub(crate) enum Paths {
    One(PathBuf),
    Several(Vec<PathBuf>),
}

impl From<Paths> for Vec<PathBuf> {
    fn from(paths: Paths) -> Self {
        match paths {
            Paths::One(path) => vec![path],
            Paths::Several(paths) => paths,
        }
    }
}

/// One word or several.
#[derive(FromPyObject)]
pub(crate) enum Words {
    One(String),
    Several(Vec<String>),
}

impl From<Words> for Vec<String> {
    fn from(words: Words) -> Self {
        match words {
            Words::One(word) => vec![word],
            Words::Several(words) => words,
        }
    }
}

/// A number, or its decimal text.
#[derive(FromPyObject)]
pub(crate) enum Decimal {
    Text(String),
    Number(f64),
}

impl From<Decimal> for String {
    fn from(number: Decimal) -> Self {
        match number {
            Decimal::Text(text) => text,
            // Rust writes the shortest digits that mean this number, without an exponent.
            Decimal::Number(number) => number.to_string(),
        }
    }
}

/// One number for all files, or one for each.
#[derive(FromPyObject)]
pub(crate) enum Decimals {
    One(Decimal),
    Several(Vec<Decimal>),
}

impl From<Decimals> for Vec<String> {
    fn from(numbers: Decimals) -> Self {
        match numbers {
            Decimals::One(number) => vec![number.into()],
            Decimals::Several(numbers) => numbers.into_iter().map(String::from).collect(),
        }
    }
}

/// A window: its text as on the command line, or its start and end.
#[derive(FromPyObject)]
pub(crate) enum WindowArgument {
    Text(String),
    Ends(Option<Decimal>, Option<Decimal>),
}

impl From<WindowArgument> for String {
    fn from(window: WindowArgument) -> Self {
        let text = |end: Option<Decimal>| end.map(String::from).unwrap_or_default();
        match window {
            WindowArgument::Text(text) => text,
            WindowArgument::Ends(start, end) => format!("{}-{}", text(start), text(end)),
        }
    }
}

/// Reads and analyzes the files, like `gpuprism report`.
#[pyfunction]
#[pyo3(signature = (
    path, *, window = None, seconds = None, attribution = "fair", merge_devices = false, rules = None, engine = None, model = None,
    phase_map = None, config = None, weights_gb = None, tp = None, ep = None, pp = None, dp = None, nsys = "nsys"
))]
#[allow(clippy::too_many_arguments, reason = "they are keywords of one Python function")]
pub(crate) fn open(
    py: Python,
    path: Paths,
    window: Option<WindowArgument>,
    seconds: Option<Decimals>,
    attribution: &str,
    merge_devices: bool,
    rules: Option<Paths>,
    engine: Option<String>,
    model: Option<String>,
    phase_map: Option<PathBuf>,
    config: Option<PathBuf>,
    weights_gb: Option<Decimal>,
    tp: Option<u64>,
    ep: Option<u64>,
    pp: Option<u64>,
    dp: Option<u64>,
    nsys: &str,
) -> PyResult<Trace> {
    let read = |path: Option<PathBuf>| path.map(|path| read_text(&path)).transpose().map_err(raised);
    let choices = Choices {
        attribution: attribution_of(attribution).map_err(raised)?,
        merge_devices,
        engine,
        model,
        rules: rule_files(&rules.map(Vec::from).unwrap_or_default()).map_err(raised)?,
        phase_map: read(phase_map)?,
        model_config: ModelChoice {
            config: read(config)?,
            weights_gb: weights_gb.map(String::from),
            tp,
            ep,
            pp,
            dp,
            server: None,
        },
        window: window.map(String::from),
        ..Choices::default()
    };
    check(&choices).map_err(raised)?;
    let (paths, seconds) = (Vec::from(path), seconds.map(Vec::from).unwrap_or_default());
    let nsys = nsys.to_owned();
    background::run(py, move |watcher| Trace::read(&paths, &choices, &seconds, &nsys, watcher))
}

/// Checks the choices before any trace is read, as the command line does.
fn check(choices: &Choices) -> gpuprism::Result<()> {
    session::served_model(&choices.model_config)?;
    let (book, _) = session::rule_book(&choices.rules)?;
    session::pick_rules(&book, choices).map(|_| ())
}

/// The words of `--attribution`.
fn attribution_of(word: &str) -> gpuprism::Result<Attribution> {
    match word {
        "first-come" => Ok(Attribution::FirstCome),
        "fair" => Ok(Attribution::Fair),
        "exclusive" => Ok(Attribution::Exclusive),
        other => Err(Error::usage(format!("attribution `{other}`"), "give fair, first-come or exclusive")),
    }
}
