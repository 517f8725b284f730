//! `gpuprism capture`: captures traces from a running server. The work is in the crate `gpuprism-capture`.

use super::{print, print_command, print_error};
use crate::report::brief::shell_word;
use crate::report::format::clean;
use crate::{Error, Result};
use gpuprism_capture::record::{Graphs, Part};
use gpuprism_capture::{Cancel, Options, Outcome, Pacing, ProbeSize, Progress, Traffic, Workload};
use std::path::PathBuf;

/// The environment variable with the server's key: unlike a flag, other users of the machine cannot see it.
const KEY_VARIABLE: &str = "GPUPRISM_API_KEY";

/// Capture traces from a running server of SGLang, vLLM, TensorRT-LLM or TokenSpeed.
///
/// Sends requests (or none: --no-probe), starts and stops the server's profiler, and copies the traces to a folder, with the
/// server's settings and capture.json.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The URL of the server, such as http://127.0.0.1:30000.
    #[arg(long, value_name = "URL", required_unless_present_any = ["resume", "recipe"])]
    server: Option<String>,
    /// The folder for traces and settings. It must not contain a capture.
    #[arg(long, value_name = "DIR", required_unless_present_any = ["resume", "recipe"])]
    out: Option<PathBuf>,
    /// What the probe makes the server do: prefill sends long prompts, decode asks for many tokens, both makes a trace of each.
    #[arg(long, value_enum, default_value = "both")]
    workload: WorkloadName,
    /// Send no requests: profile the traffic that the server gets anyway.
    #[arg(long)]
    no_probe: bool,
    /// Run this shell command as load instead of the probe. The profiler starts 5 s later and stops when the command ends.
    #[arg(long, value_name = "CMD", conflicts_with = "no_probe")]
    load: Option<String>,
    /// Steps to profile. A server that cannot count steps profiles the whole probe, which is then as long.
    #[arg(long, default_value_t = Options::new("", "").steps, value_name = "N")]
    steps: u32,
    /// The longest time that the profiler runs, in seconds: 120, or 10 with --no-probe.
    #[arg(long, value_name = "N")]
    seconds: Option<u32>,
    /// The largest size of the traces of one stage. Larger traces are not copied.
    #[arg(long, default_value_t = Options::new("", "").max_bytes, value_name = "N")]
    max_bytes: u64,
    /// Steps of the probe before the measurement.
    #[arg(long, default_value_t = ProbeSize::default().warmup_steps, value_name = "N")]
    warmup_steps: u32,
    /// Requests of the probe. The prefill probe sends at least as many as --steps.
    #[arg(long, default_value_t = ProbeSize::default().requests, value_name = "N")]
    probe_requests: u32,
    /// Words of a prompt of the prefill probe; with most tokenizers a word is one token.
    #[arg(long, default_value_t = ProbeSize::default().prefill_input_words, value_name = "N")]
    prefill_input_len: u32,
    /// Tokens that the prefill probe asks for.
    #[arg(long, default_value_t = ProbeSize::default().prefill_output_tokens, value_name = "N")]
    prefill_output_len: u32,
    /// Words of a prompt of the decode probe.
    #[arg(long, default_value_t = ProbeSize::default().decode_input_words, value_name = "N")]
    decode_input_len: u32,
    /// Tokens that the decode probe asks for: 2048, or one more than --steps if the server cannot count steps.
    #[arg(long, value_name = "N")]
    decode_output_len: Option<u32>,
    /// The folder to which the server writes, as the server sees it. vLLM: the torch_profiler_dir of its --profiler-config.
    #[arg(long, value_name = "DIR")]
    server_folder: Option<String>,
    /// Where that folder is on this machine, if its path differs.
    #[arg(long, value_name = "DIR")]
    shared_folder: Option<PathBuf>,
    /// Capture one half of a pair with and without CUDA graphs, and print how to start the server for the other half.
    #[arg(long)]
    mapping: bool,
    /// Whether the server runs with CUDA graphs, if it does not tell.
    #[arg(long, value_enum)]
    graphs: Option<GraphsName>,
    /// The config.json of the model, to be kept with the traces.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The key that the server asks for. Better: set GPUPRISM_API_KEY, which other users of the machine do not see.
    #[arg(long, value_name = "KEY")]
    api_key: Option<String>,
    /// Go on with the capture in this folder: after its traces were copied there, or, with --server, with the other half of a
    /// pair.
    #[arg(long, value_name = "DIR", conflicts_with = "out")]
    resume: Option<PathBuf>,
    /// Print how to start a server with a profiler: sglang, vllm or trtllm, on other GPUs sglang-amd, vllm-amd, vllm-ascend or vllm-intel,
    /// and a host, such as vllm:docker (docker, slurm, kubernetes).
    #[arg(long, value_name = "FRAMEWORK[:HOST]", exclusive = true)]
    recipe: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum WorkloadName {
    Prefill,
    Decode,
    Both,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum GraphsName {
    On,
    Off,
}

pub(super) fn run(args: &Args) -> Result<()> {
    if let Some(name) = &args.recipe {
        return print(&gpuprism_capture::recipes(name).map_err(|error| converted(&error))?);
    }
    let options = options(args);
    let cancel = cancel_on_interrupt()?;
    let mut progress = |progress: Progress| print_error(&format!("capture: {}", progress.text));
    let run = if args.resume.is_some() { gpuprism_capture::resume } else { gpuprism_capture::capture };
    let outcome = run(&options, &mut progress, &cancel).map_err(|error| converted(&error))?;
    print(&super::printable(&summary(&options, &outcome)))?;
    if outcome.next.is_empty() {
        // On standard error, because scripts read the names of the traces.
        let commands = commands_on_traces(&options, &outcome);
        commands.iter().for_each(|command| print_command(&format!("capture: next: {command}")));
    }
    outcome.missing.map_or(Ok(()), |missing| Err(Error::refused("capture", missing)))
}

fn options(args: &Args) -> Options {
    let traffic = match (&args.load, args.no_probe, args.workload) {
        (Some(command), ..) => Traffic::Command(command.clone()),
        (None, true, _) => Traffic::Own,
        (None, false, WorkloadName::Prefill) => Traffic::Probe(Workload::Prefill),
        (None, false, WorkloadName::Decode) => Traffic::Probe(Workload::Decode),
        (None, false, WorkloadName::Both) => Traffic::Probe(Workload::Both),
    };
    Options {
        server: args.server.clone().unwrap_or_default(),
        api_key: key(args.api_key.as_deref()),
        out: args.resume.clone().or_else(|| args.out.clone()).unwrap_or_default(),
        server_folder: args.server_folder.clone(),
        shared_folder: args.shared_folder.clone(),
        traffic,
        steps: args.steps,
        probe: ProbeSize {
            warmup_steps: args.warmup_steps,
            requests: args.probe_requests,
            prefill_input_words: args.prefill_input_len,
            prefill_output_tokens: args.prefill_output_len,
            decode_input_words: args.decode_input_len,
            decode_output_tokens: args.decode_output_len,
        },
        seconds: args.seconds,
        max_bytes: args.max_bytes,
        mapping: args.mapping,
        graphs: args.graphs.map(|graphs| match graphs {
            GraphsName::On => Graphs::On,
            GraphsName::Off => Graphs::Off,
        }),
        model_config: args.config.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pacing: Pacing::default(),
    }
}

/// The server's key, from the flag or the environment.
pub(super) fn key(flag: Option<&str>) -> Option<String> {
    let from_environment = || std::env::var(KEY_VARIABLE).ok();
    flag.map(str::to_owned).or_else(from_environment).filter(|key| !key.is_empty())
}

/// A flag that the first interruption (Ctrl-C) sets. The second one ends the program at once.
pub(super) fn cancel_on_interrupt() -> Result<Cancel> {
    /// The exit status of programs that an interruption ended.
    const INTERRUPTED: i32 = 130;
    let cancel = Cancel::default();
    let flag = cancel.clone();
    let set = ctrlc::set_handler(move || {
        if flag.is_cancelled() {
            std::process::exit(INTERRUPTED);
        }
        print_error("capture: stopping; interrupt again to leave at once, with the profiler perhaps running");
        flag.cancel();
    });
    set.map_err(|error| Error::refused("capture", format!("cannot handle Ctrl-C: {error}")))?;
    Ok(cancel)
}

/// The traces, a line each, and the commands to run next.
fn summary(options: &Options, outcome: &Outcome) -> String {
    let files = outcome.record.captures.iter().flat_map(|capture| &capture.files);
    // The server chose the names of the files.
    let path = |path: &str| clean(&options.out.join(path).display().to_string());
    let mut text: String = files.map(|file| format!("{}\n", path(&file.path))).collect();
    if !outcome.next.is_empty() {
        text += "\nNext:\n";
        text.extend(outcome.next.iter().map(|command| format!("    {}\n", clean(command))));
    }
    text
}

/// The commands that read the traces of a complete capture: the report of the first trace of each stage, the ranks of a stage, and the
/// triage of the folder or of the pair in it.
fn commands_on_traces(options: &Options, outcome: &Outcome) -> Vec<String> {
    let captures = &outcome.record.captures;
    let word = |path: &str| shell_word(&options.out.join(path).display().to_string());
    let mut commands: Vec<String> = captures
        .iter()
        .filter(|capture| capture.part != Part::Mapping)
        .filter_map(|capture| Some(format!("gpuprism report {}", word(&capture.files.first()?.path))))
        .collect();
    if commands.is_empty() {
        return commands;
    }
    if let Some(of_ranks) = captures.iter().find(|capture| capture.files.len() > 1) {
        commands.push(format!("gpuprism ranks {}", word(&of_ranks.folder)));
    }
    commands.push(match captures.iter().any(|capture| capture.part == Part::Mapping) {
        true => format!("gpuprism triage --mapping-input {} --formal-input {}", word("mapping"), word("formal")),
        false => format!("gpuprism triage {}", shell_word(&options.out.display().to_string())),
    });
    commands
}

pub(super) fn converted(error: &gpuprism_capture::Error) -> Error {
    if error.is_usage() {
        Error::usage("capture", error.to_string())
    } else {
        Error::refused("capture", error.to_string())
    }
}
