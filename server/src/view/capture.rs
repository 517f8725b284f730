//! Captures for the page: one at a time, each in a new folder below one that was named when the program started.
//!
//! | address | answer |
//! |---|---|
//! | GET `api/capture` | the state of the latest capture, with its progress and files |
//! | GET `api/capture/server` | what to change on the server, as `gpuprism doctor` says it |
//! | POST `api/capture/start` | starts a capture of `{"load": "both", "steps": 5}` |
//! | POST `api/capture/cancel` | ends it; the server's profiler is stopped |
//! | POST `api/capture/resume` | looks for traces that were copied by hand |
//!
//! A page can choose the load and the steps, nothing else: no server, no folder, no command.

use super::files::{Files, Listed};
use crate::problem::Problem;
use axum::http::StatusCode;
use gpuprism_capture::record::{FILE, Stage, StageCapture, State as StageState};
use gpuprism_capture::{Cancel, Line, Options, Outcome, Progress, Traffic, Workload};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::task::JoinHandle;

/// More steps make traces that are too large to be of use.
const MAX_STEPS: u32 = 1000;
/// What a capture writes beside its traces, and reports use.
const SETTINGS: [&str; 2] = ["server_args.json", "config.json"];

/// The captures of one server.
pub(super) struct Captures {
    /// The options that the page cannot choose. `out` is the folder that contains the captures.
    options: Options,
    current: Mutex<Current>,
}

#[derive(Default)]
struct Current {
    state: State,
    /// The name of the latest capture's folder; empty before the first.
    name: String,
    progress: Vec<Progress>,
    problem: Option<String>,
    commands: Vec<String>,
    cancel: Cancel,
    task: Option<JoinHandle<()>>,
    /// The complete captures, in their order.
    complete: Vec<Complete>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// There was no capture yet.
    #[default]
    None,
    Running,
    Complete,
    /// The traces are not visible on this machine.
    AwaitingFiles,
    Failed,
    Cancelled,
}

/// A capture whose traces are here.
struct Complete {
    name: String,
    stages: Vec<(Option<Stage>, Vec<Listed>)>,
    settings: Vec<Listed>,
}

/// What the page asks for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Start {
    load: Load,
    steps: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Load {
    Prefill,
    Decode,
    Both,
    Own,
}

/// What the page shows.
#[derive(Debug, Serialize)]
pub(super) struct Status {
    server: String,
    /// The folder that contains the captures.
    folder: String,
    steps: u32,
    max_steps: u32,
    state: State,
    /// The state as one sentence.
    title: String,
    progress: Vec<Progress>,
    problem: Option<String>,
    /// The commands that copy the traces, if they are elsewhere.
    commands: Vec<String>,
    /// The name of the latest complete capture, and what to open of it.
    complete: Option<String>,
    files: Vec<Listed>,
    comparisons: Vec<Comparison>,
}

/// The traces of one stage in the capture before the latest, then those in the latest.
#[derive(Debug, Serialize)]
struct Comparison {
    title: String,
    files: Vec<Listed>,
}

impl Captures {
    /// Resolves the folder once.
    pub(super) fn new(mut options: Options) -> io::Result<Self> {
        options.out = std::path::absolute(&options.out)?;
        Ok(Self { options, current: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn status(&self) -> Status {
        let current = self.lock();
        let latest = current.complete.last();
        Status {
            server: self.options.server.clone(),
            folder: self.options.out.display().to_string(),
            steps: self.options.steps,
            max_steps: MAX_STEPS,
            state: current.state,
            title: current.title(),
            progress: current.progress.clone(),
            problem: current.problem.clone(),
            commands: current.commands.clone(),
            complete: latest.map(|latest| latest.name.clone()),
            files: latest.map(Complete::files).unwrap_or_default(),
            comparisons: current.comparisons(),
        }
    }

    /// What to change on the server. Sends requests to it, and waits for the answers.
    pub(super) async fn check_server(self: &Arc<Self>) -> Result<Vec<Line>, Problem> {
        let captures = Arc::clone(self);
        let check = move || {
            let Options { server, api_key, .. } = &captures.options;
            gpuprism_capture::doctor(server, api_key.as_deref(), &Cancel::default())
        };
        let lines = tokio::task::spawn_blocking(check).await;
        let lines = lines.map_err(|_| Problem::internal("The server cannot be checked."))?;
        lines.map_err(|error| Problem::bad_request(error.to_string()))
    }

    pub(super) fn start(self: &Arc<Self>, start: &Start, files: &Arc<Files>) -> Result<(), Problem> {
        if start.steps == 0 || start.steps > MAX_STEPS {
            return Err(Problem::bad_request(format!("Give 1 to {MAX_STEPS} steps.")));
        }
        let mut current = self.lock();
        current.refuse_if_running()?;
        let name = gpuprism_capture::new_folder(&self.options.out);
        let name =
            name.map_err(|error| Problem::internal(format!("{error}: start gpuprism view with another --out")))?;
        let out = self.options.out.join(&name);
        let options = Options { out, traffic: traffic(start.load), steps: start.steps, ..self.options.clone() };
        *current = Current { name, complete: std::mem::take(&mut current.complete), ..Current::default() };
        self.run(&mut current, options, files, gpuprism_capture::capture);
        Ok(())
    }

    /// Goes on when the traces were copied.
    pub(super) fn resume(self: &Arc<Self>, files: &Arc<Files>) -> Result<(), Problem> {
        let mut current = self.lock();
        current.refuse_if_running()?;
        if current.state != State::AwaitingFiles {
            return Err(Problem::new(StatusCode::CONFLICT, "No capture waits for its traces."));
        }
        // Without a server, `resume` only looks for traces.
        let out = self.options.out.join(&current.name);
        let options = Options { out, server: String::new(), ..self.options.clone() };
        current.cancel = Cancel::default();
        self.run(&mut current, options, files, gpuprism_capture::resume);
        Ok(())
    }

    fn run(self: &Arc<Self>, current: &mut Current, options: Options, files: &Arc<Files>, run: Run) {
        current.state = State::Running;
        let (captures, files, cancel) = (Arc::clone(self), Arc::clone(files), current.cancel.clone());
        current.task = Some(tokio::task::spawn_blocking(move || {
            let mut progress = |line| captures.lock().progress.push(line);
            let outcome = run(&options, &mut progress, &cancel);
            captures.lock().finish(outcome, &options.out, &files);
        }));
    }

    /// Asks the capture to end. It ends when the server's profiler is stopped.
    pub(super) fn cancel(&self) -> Result<(), Problem> {
        let current = self.lock();
        if current.state != State::Running {
            return Err(Problem::new(StatusCode::CONFLICT, "No capture is running."));
        }
        current.cancel.cancel();
        Ok(())
    }

    /// Ends a running capture and waits until the server's profiler is stopped.
    pub(super) async fn end(&self) {
        let task = {
            let mut current = self.lock();
            current.cancel.cancel();
            current.task.take()
        };
        if let Some(task) = task {
            // The task does not fail, or there is nothing left to stop.
            let _ = task.await;
        }
    }
}

type Run = fn(&Options, &mut dyn FnMut(Progress), &Cancel) -> gpuprism_capture::Result<Outcome>;

impl Current {
    fn refuse_if_running(&self) -> Result<(), Problem> {
        if self.state == State::Running {
            return Err(Problem::new(StatusCode::CONFLICT, "A capture is running: cancel it, or wait until it ends."));
        }
        Ok(())
    }

    fn finish(&mut self, outcome: gpuprism_capture::Result<Outcome>, out: &Path, files: &Files) {
        (self.problem, self.commands) = (None, Vec::new());
        match outcome {
            Ok(Outcome { record, missing: None, .. }) => {
                self.state = State::Complete;
                let complete = Complete::new(&self.name, &record.captures, out, files);
                self.complete.push(complete);
            }
            Ok(Outcome { missing, next, .. }) => {
                self.state = State::AwaitingFiles;
                self.problem = missing;
                // The page has a button in place of `gpuprism capture --resume`.
                self.commands = next.into_iter().filter(|command| !command.starts_with("gpuprism ")).collect();
            }
            Err(error) => {
                self.state = if error.is_cancelled() { State::Cancelled } else { State::Failed };
                self.problem = Some(error.to_string());
                remove_if_unused(out);
            }
        }
    }

    fn title(&self) -> String {
        let name = &self.name;
        match self.state {
            State::None => "No capture yet".to_owned(),
            State::Running if self.cancel.is_cancelled() => "Stopping the server's profiler".to_owned(),
            State::Running => format!("Capturing {name}"),
            State::Complete => {
                let traces = self.complete.last().map_or(0, Complete::traces);
                format!("Captured {name}: {traces} {}", if traces == 1 { "trace" } else { "traces" })
            }
            State::AwaitingFiles => format!("The traces of {name} are not visible on this machine"),
            State::Failed => "The capture failed".to_owned(),
            State::Cancelled => "The capture was cancelled".to_owned(),
        }
    }

    /// The stages that the last two captures have in common.
    fn comparisons(&self) -> Vec<Comparison> {
        let [.., before, latest] = self.complete.as_slice() else { return Vec::new() };
        let comparison = |(stage, after): &(Option<Stage>, Vec<Listed>)| {
            let (_, earlier) = before.stages.iter().find(|(other, _)| other == stage)?;
            let what = stage.map_or(String::new(), |stage| format!("{} ", stage.name()));
            let title = format!("Compare {what}with {}", before.name);
            Some(Comparison { title, files: [earlier.as_slice(), after].concat() })
        };
        latest.stages.iter().filter_map(comparison).collect()
    }
}

impl Complete {
    fn new(name: &str, captures: &[StageCapture], out: &Path, files: &Files) -> Self {
        let shown = |path: &str| files.add_captured(format!("{name}/{path}"), out, path);
        let traces = |capture: &StageCapture| capture.files.iter().filter_map(|file| shown(&file.path)).collect();
        let complete = captures.iter().filter(|capture| capture.state == StageState::Complete);
        Self {
            name: name.to_owned(),
            stages: complete.map(|capture| (capture.stage, traces(capture))).collect(),
            settings: SETTINGS.iter().filter_map(|path| shown(path)).collect(),
        }
    }

    fn traces(&self) -> usize {
        self.stages.iter().map(|(_, files)| files.len()).sum()
    }

    fn files(&self) -> Vec<Listed> {
        self.settings.iter().chain(self.stages.iter().flat_map(|(_, files)| files)).cloned().collect()
    }
}

fn traffic(load: Load) -> Traffic {
    match load {
        Load::Prefill => Traffic::Probe(Workload::Prefill),
        Load::Decode => Traffic::Probe(Workload::Decode),
        Load::Both => Traffic::Probe(Workload::Both),
        Load::Own => Traffic::Own,
    }
}

/// Removes the folder of a capture that failed before it wrote anything. A folder with files cannot be removed so.
fn remove_if_unused(folder: &Path) {
    if !folder.join(FILE).exists() {
        let _ = std::fs::remove_dir(folder);
    }
}
