//! `gpuprism triage`: which kernels cost the time and which code launched them, what could overlap, which known fusions
//! apply.

mod inputs;

use super::{files, print, printable};
use crate::analysis::triage::{Framework, Options, ServerArgs};
use crate::report::{self, Report, csv, triage};
use crate::session;
use crate::{Error, Result};
use clap::ValueEnum;
use inputs::{Asked, Batch, Purpose};
use std::path::PathBuf;

/// Triage torch.profiler traces of a serving framework: kernels and the code that launched them, overlap opportunities,
/// fuse patterns.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// torch.profiler traces, or profile folders: of a folder one trace a stage is taken, and what is set aside is said.
    #[arg(value_name = "FILE|DIR")]
    traces: Vec<PathBuf>,
    /// The same as FILE|DIR; may be given again.
    #[arg(long, value_name = "FILE|DIR")]
    input: Vec<PathBuf>,
    /// A trace of the same work without CUDA graphs, or of the capture of its graphs: it tells where kernels come from.
    #[arg(long = "mapping-input", value_name = "FILE|DIR")]
    mapping_input: Vec<PathBuf>,
    /// The trace to triage, beside --mapping-input.
    #[arg(long = "formal-input", value_name = "FILE|DIR")]
    formal_input: Vec<PathBuf>,
    /// auto (told by arguments, paths and the trace), sglang, vllm, trtllm, tokenspeed or pytorch.
    #[arg(long, default_value = "auto", value_name = "NAME")]
    framework: String,
    /// Only devices whose id holds this text.
    #[arg(long = "pid-substring", value_name = "TEXT")]
    pid_substring: Option<String>,
    /// Rows of each stage's kernel table; 0 is all.
    #[arg(long = "kernel-table-limit", default_value_t = 0, value_name = "N")]
    kernel_table_limit: usize,
    /// Rows of each stage's overlap table; 0 is all.
    #[arg(long = "overlap-table-limit", default_value_t = 0, value_name = "N")]
    overlap_table_limit: usize,
    /// Rows with a smaller share of their stage are counted, not shown; in per cent.
    #[arg(long = "min-share", default_value_t = Options::default().min_share_pct, value_name = "PCT")]
    min_share: f64,
    /// What to print.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// The table that csv prints: triage_kernels (default), triage_overlap, triage_fuse, triage_catalog, triage_steps, ...
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// The server's arguments, instead of the server_args.json beside a trace or in the folder above.
    #[arg(long = "server-args", value_name = "FILE")]
    server_args: Option<PathBuf>,
    /// A log of the run: where it says that a diffusers backend did the work, nothing is triaged.
    #[arg(long = "run-log", value_name = "FILE")]
    run_log: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Markdown,
    Json,
    Csv,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let asked = asked(args)?;
    let sources = sources(args)?;
    check_table(args)?;
    for path in &args.run_log {
        session::check_run_log(&files::aid(path)?)?;
    }
    let report = Report::new(Batch::new(&asked, &sources)?.runs()?);
    print(&render(&report, args)?)
}

fn asked(args: &Args) -> Result<Asked> {
    if !(0.0..=100.0).contains(&args.min_share) {
        return Err(Error::usage(format!("--min-share {}", args.min_share), "a share is a number from 0 to 100"));
    }
    let limits = Options {
        kernel_table_limit: args.kernel_table_limit,
        overlap_table_limit: args.overlap_table_limit,
        ..Options::default()
    };
    Ok(Asked {
        framework: framework(&args.framework)?,
        options: Options { min_share_pct: args.min_share, pid_substring: args.pid_substring.clone(), ..limits },
        server: args.server_args.as_ref().map(|path| server_args(path)).transpose()?,
    })
}

fn server_args(path: &std::path::Path) -> Result<ServerArgs> {
    session::server_args(&files::aid(path)?)
}

fn framework(name: &str) -> Result<Option<Framework>> {
    Ok(Some(match name.to_ascii_lowercase().replace('_', "-").as_str() {
        "auto" => return Ok(None),
        "sglang" | "sgl" => Framework::Sglang,
        "vllm" => Framework::Vllm,
        "trtllm" | "trt" | "tllm" | "tensorrt-llm" | "tensorrtllm" => Framework::TrtLlm,
        "tokenspeed" | "token-speed" | "ts" => Framework::TokenSpeed,
        "pytorch" | "torch" | "plain" => Framework::Plain,
        _ => {
            let why = "no such framework; there are auto, sglang, vllm, trtllm, tokenspeed and pytorch";
            return Err(Error::usage(format!("--framework {name}"), why));
        }
    }))
}

/// Traces alone, or a mapping and a formal one.
fn sources(args: &Args) -> Result<Vec<(Purpose, PathBuf)>> {
    let of = |purpose: Purpose, paths: &[PathBuf]| -> Vec<(Purpose, PathBuf)> {
        paths.iter().map(|path| (purpose, path.clone())).collect()
    };
    let single = [of(Purpose::Formal, &args.traces), of(Purpose::Formal, &args.input)].concat();
    let (mapping, formal) = (of(Purpose::Mapping, &args.mapping_input), of(Purpose::Formal, &args.formal_input));
    let wrong = |what: &str, why: &str| Err(Error::usage(what, why));
    match (single.is_empty(), mapping.is_empty(), formal.is_empty()) {
        (false, true, true) => Ok(single),
        (true, false, false) => Ok([mapping, formal].concat()),
        (true, true, true) => {
            wrong("triage", "give a trace or a profile folder, or --mapping-input with --formal-input")
        }
        (true, false, true) => wrong("--mapping-input", "goes with --formal-input, the trace to triage"),
        (true, true, false) => {
            wrong("--formal-input", "goes with --mapping-input; a trace by itself is given without either")
        }
        (false, ..) => wrong(
            "--mapping-input and --formal-input",
            "stand alone: the trace to triage is the one of --formal-input, so leave the other traces out",
        ),
    }
}

fn known() -> Vec<String> {
    let triage = report::known_tables().filter(|table| table.starts_with("triage_"));
    triage.map(str::to_owned).collect()
}

fn check_table(args: &Args) -> Result<()> {
    let Some(table) = &args.table else { return Ok(()) };
    if args.format != Format::Csv {
        return Err(Error::usage("--table", "goes with --format csv; the other formats print all tables"));
    }
    if known().contains(table) {
        return Ok(());
    }
    Err(Error::usage(format!("--table {table}"), format!("no such table; there are {}", known().join(", "))))
}

fn render(report: &Report, args: &Args) -> Result<String> {
    Ok(match args.format {
        Format::Text => printable(&triage::text(report)),
        Format::Markdown => triage::markdown(report),
        Format::Json => report.json(),
        Format::Csv => {
            let id = args.table.as_deref().unwrap_or("triage_kernels");
            let missing = || Error::usage(format!("--table {id}"), "these runs have no such table");
            csv(&report::table(report, id, None).ok_or_else(missing)?)
        }
    })
}
