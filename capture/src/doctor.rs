//! Checks a running server: can it be captured, and what would make its traces better?
//!
//! Only GET requests: nothing on the server changes, and no profiler is started.

use crate::capture::readable_config;
use crate::copy_commands::quoted;
use crate::data::{DATA, Framework};
use crate::http::Client;
use crate::record::Graphs;
use crate::server::{Profiler, Server, find, short};
use crate::text::clean;
use crate::{Cancel, Error, Result};
use serde::Serialize;
use std::path::Path;

/// The origin of the page that `cargo xtask serve` serves.
const PAGE_ORIGIN: &str = "http://127.0.0.1:8080";

/// How a check of a server or of a trace ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Nothing to do.
    Ok,
    /// Some results are missing or less certain, or something could not be checked.
    Warning,
    /// The server cannot be captured, or the trace is of no use for a report or a triage.
    Problem,
}

impl Level {
    /// The word for people, as in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// The longest text of a line.
const MAX_CHARS: usize = 1000;

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// How the check ended.
    pub level: Level,
    /// What was found.
    pub text: String,
    /// What to do; `None` if nothing.
    pub remedy: Option<String>,
}

impl Line {
    /// What the server says is a part of these texts: it can neither be another line nor be of any length.
    fn new(level: Level, text: &str, remedy: Option<&str>) -> Self {
        let clean = |text| clean(text, MAX_CHARS);
        Self { level, text: clean(text), remedy: remedy.map(clean) }
    }

    fn ok(text: impl AsRef<str>) -> Self {
        Self::new(Level::Ok, text.as_ref(), None)
    }

    fn warning(text: impl AsRef<str>, remedy: impl AsRef<str>) -> Self {
        Self::new(Level::Warning, text.as_ref(), Some(remedy.as_ref()))
    }

    fn problem(text: impl AsRef<str>, remedy: impl AsRef<str>) -> Self {
        Self::new(Level::Problem, text.as_ref(), Some(remedy.as_ref()))
    }
}

/// Checks the server at this URL. A server that does not answer is a line, not an error; an invalid URL is an error.
pub fn doctor(server: &str, api_key: Option<&str>, cancel: &Cancel) -> Result<Vec<Line>> {
    let client = Client::new(server, api_key, cancel)?;
    let server = match Server::recognise(client) {
        Ok(server) => server,
        Err(error) if error.is_cancelled() => return Err(error),
        Err(error) => return Ok(vec![unusable(&error)]),
    };
    let mut lines = vec![identity(&server), profiler(&server), folder(&server), settings(&server), graphs(&server)];
    lines.extend(advice(&server));
    lines.push(config(&server));
    lines.push(cors(&server)?);
    Ok(lines)
}

/// The sentence of the error has the remedy after the colon.
fn unusable(error: &Error) -> Line {
    let text = error.to_string();
    match text.rsplit_once(": ") {
        Some((text, remedy)) => Line::problem(text, remedy),
        None => Line::problem(text, "check the URL"),
    }
}

fn identity(server: &Server) -> Line {
    let (base, title) = (server.client.base(), &server.facts.title);
    match &server.version {
        Some(version) => Line::ok(format!("{base} is {title} {version}")),
        None => Line::warning(
            format!("{base} is {title} of unknown version"),
            "note the version yourself: the server does not tell it",
        ),
    }
}

fn profiler(server: &Server) -> Line {
    if let Err(error) = server.check_profiler() {
        return unusable_profiler(server, &error);
    }
    match server.profiler {
        Profiler::WithBody | Profiler::WithoutBody => Line::ok("the profiler endpoint is there"),
        Profiler::Unknown | Profiler::Missing => Line::warning(
            "whether the profiler endpoint is there is unknown: the server does not list its endpoints",
            format!("capture to find out; if it is not there: {}", server.facts.endpoint),
        ),
    }
}

fn unusable_profiler(server: &Server, error: &Error) -> Line {
    if server.profiler == Profiler::Missing {
        return Line::problem("the profiler endpoint is missing", server.facts.endpoint.clone());
    }
    unusable(error)
}

/// Where the server writes, and whether that is visible here.
fn folder(server: &Server) -> Line {
    let is_local = server.client.is_local();
    if server.facts.takes_folder {
        return if is_local {
            Line::ok(
                "the server writes to the folder that the capture names: on this machine, to --out (a container needs a shared folder)",
            )
        } else {
            Line::warning(
                "the server writes on another machine",
                "give a folder that both machines see: --server-folder as the server sees it, --shared-folder as this machine does; \
                 else copy the traces with the commands that the capture prints",
            )
        };
    }
    match server.trace_folder() {
        Some(folder) if is_local && Path::new(&folder).is_dir() => {
            Line::ok(format!("the server writes to {folder}, which is visible here"))
        }
        Some(folder) => Line::warning(
            format!("the server writes to {folder}, which is not visible here"),
            "give --shared-folder, if another path here shows that folder; else copy the traces with the commands that the capture \
             prints",
        ),
        None => Line::warning(
            "the server does not tell where it writes",
            "capture with --server-folder and the torch_profiler_dir of the server's --profiler-config",
        ),
    }
}

fn settings(server: &Server) -> Line {
    match (&server.info, server.framework) {
        (Some(_), _) => Line::ok("the server tells its settings"),
        (None, Framework::Vllm) => Line::warning(
            "the server does not tell its settings: the checks of its flags are missing",
            "start vLLM with VLLM_SERVER_DEV_MODE=1 (not on a public address)",
        ),
        (None, _) => Line::warning(
            "the server does not tell its settings: the checks of its flags are missing",
            "keep the command that started the server with the trace",
        ),
    }
}

fn graphs(server: &Server) -> Line {
    let restart = format!(
        "for source lines of kernels, capture a second time with a server that is started with `{}`: `gpuprism capture --mapping`",
        server.facts.graphs_off
    );
    match server.graphs() {
        Some(Graphs::On) => {
            Line::warning("the server uses CUDA graphs: their kernels have no call sites in a trace", restart)
        }
        Some(Graphs::Off) => Line::warning(
            "the server runs without CUDA graphs: kernels have call sites, but times are not those of a server with graphs",
            "compare times only with a server that uses CUDA graphs",
        ),
        None => Line::warning("whether the server uses CUDA graphs is unknown", restart),
    }
}

fn advice(server: &Server) -> Vec<Line> {
    let Some(info) = &server.info else { return Vec::new() };
    let of_framework = DATA.advice.iter().filter(|advice| advice.framework == server.framework);
    let fitting = of_framework.filter(|advice| find(info, &advice.setting) == Some(&advice.value));
    fitting
        .map(|advice| {
            let value = advice.value.as_str().map_or_else(|| advice.value.to_string(), str::to_owned);
            Line::warning(format!("{} is {value}: {}", advice.setting, advice.effect), advice.remedy.clone())
        })
        .collect()
}

fn config(server: &Server) -> Line {
    match readable_config(server) {
        Some(path) => Line::ok(format!("the model's config.json is readable here: {}", path.display())),
        None => Line::warning(
            "the model's config.json is not readable here, so reports do not compute the floor of a step",
            format!(
                "capture with --config and the config.json of {}",
                server.model.as_deref().map_or_else(|| "the model".to_owned(), quoted)
            ),
        ),
    }
}

/// Whether a page may call the server.
fn cors(server: &Server) -> Result<Line> {
    let answer = match server.client.get_from_origin("/v1/models", Some(PAGE_ORIGIN), short()) {
        Ok(answer) => answer,
        Err(failure) => return Err(server.failed("/v1/models", &failure)),
    };
    Ok(match answer.allowed_origin.as_deref() {
        Some("*") => Line::ok("pages of every origin may call the server (CORS)"),
        Some(origin) if origin == PAGE_ORIGIN => Line::ok(format!("pages of {origin} may call the server (CORS)")),
        _ if server.framework == Framework::Vllm => Line::warning(
            "web pages may not call the server (CORS); captures from the command line do not need that",
            format!("start vLLM with --allowed-origins '[\"{PAGE_ORIGIN}\"]'"),
        ),
        _ => Line::warning(
            "web pages may not call the server (CORS); captures from the command line do not need that",
            "put a proxy before the server that allows the page's origin",
        ),
    })
}
