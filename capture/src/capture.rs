//! A whole capture: recognise the server, capture each stage, write the settings and `capture.json`.

use crate::collect::Missing;
use crate::copy_commands::{Copy, quoted};
use crate::data::Framework;
use crate::http::Client;
use crate::options::{Options, Traffic, Workload};
use crate::progress::{Phase, Progress, Reporter};
use crate::record::{CaptureRecord, FILE, Graphs, Part, SCHEMA, Settings, Stage, StageCapture, State, TrafficKind};
use crate::server::Server;
use crate::stage::{Folders, Job, StageResult, since_epoch};
use crate::{Cancel, Error, Result};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The largest `config.json` of a model that is copied.
const MAX_CONFIG_BYTES: u64 = 16 << 20;

/// How a capture ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// What `capture.json` contains.
    pub record: CaptureRecord,
    /// Why traces are missing and what to do, as one sentence; `None` if all are here.
    pub missing: Option<String>,
    /// Commands that are to be run next: to copy the traces, to start the server for the other half of a pair.
    pub next: Vec<String>,
}

/// Captures traces from a running server.
pub fn capture(options: &Options, progress: &mut dyn FnMut(Progress), cancel: &Cancel) -> Result<Outcome> {
    check(options)?;
    if options.out.join(FILE).exists() {
        let out = options.out.display();
        return Err(Error::usage(format!(
            "--out {out}: has a capture already: choose another folder, or go on with --resume {out}"
        )));
    }
    let mut reporter = Reporter(progress);
    let server = recognise(options, &mut reporter, cancel)?;
    let record = CaptureRecord {
        schema: SCHEMA.to_owned(),
        gpuprism_version: options.version.clone(),
        server: server.client.base().to_owned(),
        framework: server.framework,
        framework_version: server.version.clone(),
        model: server.model.clone(),
        started_unix_ms: u64::try_from(since_epoch().as_millis()).unwrap_or(u64::MAX),
        settings: settings(options),
        captures: Vec::new(),
        notes: Vec::new(),
    };
    capture_part(options, &server, record, &mut reporter, cancel)
}

pub(crate) fn recognise(options: &Options, reporter: &mut Reporter, cancel: &Cancel) -> Result<Server> {
    reporter.say(Phase::Recognise, format!("looking at {}", options.server));
    let server = Server::recognise(Client::new(&options.server, options.api_key.as_deref(), cancel)?)?;
    let version = server.version.as_deref().unwrap_or("of unknown version");
    let model = server.model.as_deref().unwrap_or("an unknown model");
    reporter.say(Phase::Recognise, format!("{} {version} with {model}", server.facts.title));
    server.check_profiler()?;
    Ok(server)
}

/// Checks what needs no server.
fn check(options: &Options) -> Result<()> {
    if options.steps == 0 {
        return Err(Error::usage("--steps 0: give at least one step"));
    }
    if options.longest() == Duration::ZERO {
        return Err(Error::usage("--seconds 0: give at least one second"));
    }
    let size = &options.probe;
    if size.requests == 0 || size.prefill_output_tokens == 0 || size.decode_output_tokens == Some(0) {
        return Err(Error::usage("the probe needs at least one request of one token"));
    }
    match &options.model_config {
        Some(path) if !path.is_file() => Err(Error::usage(format!("--config {}: no such file", path.display()))),
        _ => Ok(()),
    }
}

fn settings(options: &Options) -> Settings {
    let (traffic, workload, command) = match &options.traffic {
        Traffic::Probe(workload) => (TrafficKind::Probe, Some(*workload), None),
        Traffic::Own => (TrafficKind::Own, None, None),
        Traffic::Command(command) => (TrafficKind::Command, None, Some(command.clone())),
    };
    Settings {
        traffic,
        workload,
        command,
        steps: options.steps,
        warmup_steps: options.probe.warmup_steps,
        max_seconds: options.longest().as_secs(),
        max_bytes: options.max_bytes,
        mapping: options.mapping,
    }
}

/// Captures all stages with this server and writes the record after each.
pub(crate) fn capture_part(
    options: &Options,
    server: &Server,
    mut record: CaptureRecord,
    reporter: &mut Reporter,
    cancel: &Cancel,
) -> Result<Outcome> {
    let part = part(options, server, &record)?;
    let out = absolute(&options.out)?;
    let part_folder = match part {
        Part::Single => out.clone(),
        Part::Formal => out.join("formal"),
        Part::Mapping => out.join("mapping"),
    };
    // Asked for before anything is created.
    let stages = stages(&options.traffic);
    let folders: Vec<Folders> =
        stages.iter().map(|stage| folders(options, server, &out, &part_folder, *stage)).collect::<Result<_>>()?;
    write_settings(options, server, &part_folder, reporter, &mut record)?;
    let mut missing = None;
    for (stage, folders) in stages.into_iter().zip(folders) {
        let is_elsewhere = missing.is_some();
        let job = Job { server, options, cancel, part, stage, folders, is_elsewhere };
        let StageResult { capture, notes, missing: why, waited } = job.run(&out, reporter)?;
        for note in notes {
            reporter.say(Phase::Note, note.clone());
            record.notes.push(note);
        }
        if let (Some(why), None) = (why, &missing) {
            missing = Some(missing_sentence(&why, &job, waited, &options.out));
        }
        record.captures.push(capture);
        record.write(&out)?;
    }
    let mut next = copy_commands(&record, server.client.host(), server.client.is_local(), &options.out);
    next.extend(mapping_commands(&record, server, &options.out));
    if missing.is_none() {
        reporter.say(Phase::Done, format!("captured: {}", out.display()));
    }
    Ok(Outcome { record, missing, next })
}

/// Which half of a pair this server gives.
fn part(options: &Options, server: &Server, record: &CaptureRecord) -> Result<Part> {
    if !options.mapping {
        return Ok(Part::Single);
    }
    let part = match options.graphs.or_else(|| server.graphs()) {
        Some(Graphs::On) => Part::Formal,
        Some(Graphs::Off) => Part::Mapping,
        None => {
            return Err(Error::usage(format!(
                "--mapping: {} does not tell whether it uses CUDA graphs: add --graphs on or --graphs off",
                server.client.base()
            )));
        }
    };
    if record.captures.iter().any(|capture| capture.part == part) {
        let (has, restart) = match part {
            Part::Mapping => ("without", "with CUDA graphs"),
            Part::Formal | Part::Single => ("with", "without CUDA graphs"),
        };
        return Err(Error::failed(format!(
            "the server runs {has} CUDA graphs, and {} has that half already: restart the server {restart}",
            options.out.display()
        )));
    }
    Ok(part)
}

fn stages(traffic: &Traffic) -> Vec<Option<Stage>> {
    match traffic {
        Traffic::Probe(Workload::Prefill) => vec![Some(Stage::Prefill)],
        Traffic::Probe(Workload::Decode) => vec![Some(Stage::Decode)],
        Traffic::Probe(Workload::Both) => vec![Some(Stage::Prefill), Some(Stage::Decode)],
        Traffic::Own | Traffic::Command(_) => vec![None],
    }
}

/// Where a stage's traces are written, looked for, and wanted.
///
/// A server on this machine that takes a folder writes directly to where the traces are wanted: nothing has to be copied.
fn folders(
    options: &Options,
    server: &Server,
    out: &Path,
    part_folder: &Path,
    stage: Option<Stage>,
) -> Result<Folders> {
    let here = stage.map_or_else(|| part_folder.to_owned(), |stage| part_folder.join(stage.name()));
    if !server.facts.takes_folder {
        let told = options.server_folder.clone().or_else(|| server.trace_folder());
        let folder = told.ok_or_else(|| {
            Error::usage(format!(
                "{} does not tell where it writes traces: add --server-folder with the torch_profiler_dir of its --profiler-config",
                server.client.base()
            ))
        })?;
        let visible = options.shared_folder.clone().unwrap_or_else(|| PathBuf::from(&folder));
        return Ok(Folders { here, server: folder, visible });
    }
    let time = since_epoch().as_secs();
    let below = here.strip_prefix(out).unwrap_or(&here).join(time.to_string());
    let base = match &options.server_folder {
        Some(folder) => PathBuf::from(folder),
        None if server.client.is_local() => out.to_owned(),
        None => PathBuf::from("/tmp/gpuprism-capture"),
    };
    let server_folder = base.join(&below);
    let visible = options.shared_folder.as_ref().map_or_else(|| server_folder.clone(), |shared| shared.join(&below));
    Ok(Folders { here, server: server_folder.display().to_string(), visible })
}

/// Writes `server_args.json` and the model's `config.json`.
fn write_settings(
    options: &Options,
    server: &Server,
    folder: &Path,
    reporter: &mut Reporter,
    record: &mut CaptureRecord,
) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|error| Error::file(folder, &error))?;
    let mut note = |text: String| {
        reporter.say(Phase::Note, text.clone());
        record.notes.push(text);
    };
    match server.settings() {
        Some(settings) => {
            let path = folder.join("server_args.json");
            let text = format!("{settings:#}\n");
            std::fs::write(&path, text).map_err(|error| Error::file(&path, &error))?;
        }
        None if server.framework == Framework::Vllm => {
            note("the server's settings are unknown: vLLM tells them only with VLLM_SERVER_DEV_MODE=1".to_owned());
        }
        None => note("the server does not tell its settings".to_owned()),
    }
    let config = options.model_config.clone().or_else(|| readable_config(server));
    let Some(config) = config else {
        note("the model's config.json is not readable here: give it with --config, so that reports can compute the floor of a step"
            .to_owned());
        return Ok(());
    };
    let failed = |error: std::io::Error| Error::file(&config, &error);
    if std::fs::metadata(&config).map_err(failed)?.len() > MAX_CONFIG_BYTES {
        return Err(Error::usage(format!("--config {}: too large for the config.json of a model", config.display())));
    }
    std::fs::copy(&config, folder.join("config.json")).map_err(failed)?;
    Ok(())
}

/// The `config.json` in the model's folder, if the server runs on this machine. On another machine, the same path may be another
/// model.
pub(crate) fn readable_config(server: &Server) -> Option<PathBuf> {
    let folder = server.model_folder.as_ref().filter(|_| server.client.is_local())?;
    let path = Path::new(folder).join("config.json");
    (Path::new(folder).is_absolute() && path.is_file()).then_some(path)
}

fn missing_sentence(missing: &Missing, job: &Job, waited: Duration, out: &Path) -> String {
    let (folder, base) = (&job.folders.server, job.server.client.base());
    let seconds = waited.as_secs_f64();
    let resume = format!("then go on with `gpuprism capture --resume {}`", quoted(&out.display().to_string()));
    match missing {
        Missing::Nothing if job.server.client.is_local() => format!(
            "no trace appeared in {} within {seconds} s: {base} wrote nothing (its log says why), or runs in a container and wrote to \
             its own {folder}; in that case copy the traces, {resume}",
            job.folders.visible.display()
        ),
        Missing::Nothing => format!(
            "{base} writes its traces to {folder} on its own machine, which is not visible here: copy them, {resume}"
        ),
        Missing::NoKernels(name) => format!(
            "the server wrote only a trace without GPU kernels ({name}, such as a front end's own): its workers wrote nothing to \
             {folder}; their log says why; if they write elsewhere, copy their traces, {resume}"
        ),
        Missing::Unfinished(name) => format!(
            "{name} is incomplete and has not grown for {seconds} s: look for a full disk or a stopped server; when the trace is \
             complete, copy it, {resume}"
        ),
    }
}

/// The commands that copy the traces which are not here, and the one to run afterwards.
pub(crate) fn copy_commands(record: &CaptureRecord, host: &str, is_local: bool, out: &Path) -> Vec<String> {
    let awaiting = record.captures.iter().filter(|capture| capture.state == State::AwaitingFiles);
    let copy = |capture: &StageCapture| {
        let to = out.join(&capture.folder);
        let file_word = capture.file_word.as_deref();
        Copy { host, is_local, server_folder: &capture.server_folder, file_word, to: &to }.commands()
    };
    let mut commands: Vec<String> = awaiting.flat_map(copy).collect();
    if !commands.is_empty() {
        commands.push(format!("gpuprism capture --resume {}", quoted(&out.display().to_string())));
    }
    commands
}

/// The commands that start the server with and without graphs, if one half of the pair is missing.
fn mapping_commands(record: &CaptureRecord, server: &Server, out: &Path) -> Vec<String> {
    let has = |part: Part| record.captures.iter().any(|capture| capture.part == part);
    if !record.settings.mapping || (has(Part::Formal) && has(Part::Mapping)) {
        return Vec::new();
    }
    let facts = server.facts;
    let told = server.launch_command();
    let (with_graphs, without_graphs) = match (&told, has(Part::Mapping)) {
        (Some(command), false) => (command.clone(), format!("{command} {}", facts.graphs_off)),
        (Some(command), true) => {
            (format!("{command}   # leave out the flags that turn CUDA graphs off"), command.clone())
        }
        (None, _) => (facts.launch.clone(), format!("{} {}", facts.launch, facts.graphs_off)),
    };
    let mut commands = vec![format!("{with_graphs}   # with CUDA graphs")];
    commands.extend(facts.before_graphs_off.clone());
    commands.push(format!("{without_graphs}   # without CUDA graphs"));
    let graphs = match (server.graphs(), has(Part::Formal)) {
        (Some(_), _) => "",
        (None, true) => " --graphs off",
        (None, false) => " --graphs on",
    };
    commands.push(format!(
        "gpuprism capture --server {}{graphs} --resume {}",
        server.client.base(),
        quoted(&out.display().to_string())
    ));
    commands
}

/// The absolute path of a folder that may not exist.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| Error::file(path, &error))
}
