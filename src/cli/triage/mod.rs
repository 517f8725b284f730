//! `gpuprism triage`: lists kernels and the code that launched them, overlap opportunities, and applicable fusions.

mod inputs;

use super::redaction::Redaction;
use super::report::unknown_table;
use super::{files, print, printable};
use crate::analysis::triage::serving::ModelShape;
use crate::analysis::triage::{Framework, Options, ServerArgs};
use crate::report::{self, Report, csv, triage};
use crate::session;
use crate::{Error, Result};
use clap::ValueEnum;
use inputs::{Batch, Purpose, Settings};
use std::path::PathBuf;

/// Triage torch.profiler traces of a serving framework: kernels and the code that launched them, overlap opportunities and
/// fusion patterns.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// torch.profiler traces, or profile folders. From a folder, one trace per stage is used; a notice lists the other files.
    #[arg(value_name = "FILE|DIR")]
    traces: Vec<PathBuf>,
    /// Same as the argument FILE|DIR. May be given several times.
    #[arg(long, value_name = "FILE|DIR")]
    input: Vec<PathBuf>,
    /// A trace that shows which code launches the kernels: the same work without CUDA graphs, or the capture of the graphs.
    #[arg(long, value_name = "FILE|DIR")]
    mapping_input: Vec<PathBuf>,
    /// The trace to triage, if --mapping-input is given.
    #[arg(long, value_name = "FILE|DIR")]
    formal_input: Vec<PathBuf>,
    /// The framework: sglang, vllm, trtllm, tokenspeed, pytorch, or auto to detect it from server arguments, paths and the trace.
    #[arg(long, default_value = "auto", value_name = "NAME")]
    framework: String,
    /// Use only devices whose id contains this text.
    #[arg(long, value_name = "TEXT")]
    pid_substring: Option<String>,
    /// Maximum rows per stage in the kernel table; 0 shows all rows.
    #[arg(long, default_value_t = 0, value_parser = super::rows, allow_negative_numbers = true, value_name = "N")]
    kernel_table_limit: usize,
    /// Maximum rows per stage in the overlap table; 0 shows all rows.
    #[arg(long, default_value_t = 0, value_parser = super::rows, allow_negative_numbers = true, value_name = "N")]
    overlap_table_limit: usize,
    /// Minimum share of a row in the time of its stage, in percent. Smaller rows are counted but not shown.
    #[arg(long, default_value_t = Options::default().min_share_pct, allow_negative_numbers = true, value_name = "PCT")]
    min_share: f64,
    /// Analyze only this time range, in seconds from the first GPU op, for example 1.25-1.75. FROM or TO may be omitted.
    #[arg(long, value_name = "FROM-TO", allow_hyphen_values = true, value_parser = super::window)]
    window: Option<String>,
    /// The number of attention layers, the number of query heads and the head dimension of the model, to compute the attention
    /// work per step.
    #[arg(long, value_name = "LAYERS,HEADS,HEAD_DIM")]
    model_shape: Option<String>,
    /// Output format; csv prints the table chosen with --table.
    #[arg(long, value_enum, default_value_t = Format::Terminal)]
    format: Format,
    /// Define the columns and terms of the tables, in the format terminal.
    #[arg(long)]
    explain: bool,
    /// The table that csv prints: triage_kernels (default), triage_overlap, triage_fuse, triage_catalog, triage_steps, ...
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// The arguments of the server. By default they are read from server_args.json in the folder of the trace or its parent.
    #[arg(long, value_name = "FILE")]
    server_args: Option<PathBuf>,
    /// A log of the run. If it shows that a diffusers backend did the work, triage stops with an error.
    #[arg(long, value_name = "FILE")]
    run_log: Vec<PathBuf>,
    #[command(flatten)]
    redaction: Redaction,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Tables that fit the width of the terminal, with short names.
    Terminal,
    /// The format of the earlier LLM torch-profiler triage script.
    Text,
    Csv,
    Json,
    Markdown,
}

pub(super) fn run(args: &Args) -> Result<()> {
    args.redaction.begin(&[&*args.traces, &args.input, &args.mapping_input, &args.formal_input].concat());
    if args.explain && args.format != Format::Terminal {
        return Err(Error::usage("--explain", "needs --format terminal; text and markdown contain the definitions"));
    }
    let settings = settings(args)?;
    let sources = sources(args)?;
    check_table(args)?;
    for path in &args.run_log {
        session::check_run_log(&files::read_text(path)?)?;
    }
    let report = args.redaction.of(Report::new(Batch::new(&settings, &sources)?.runs()?));
    print(&render(&report, args)?)
}

fn settings(args: &Args) -> Result<Settings> {
    if !(0.0..=100.0).contains(&args.min_share) {
        return Err(Error::usage(format!("--min-share {}", args.min_share), "not a percentage from 0 to 100"));
    }
    Ok(Settings {
        framework: framework(&args.framework)?,
        options: Options {
            min_share_pct: args.min_share,
            kernel_table_limit: args.kernel_table_limit,
            overlap_table_limit: args.overlap_table_limit,
            pid_substring: args.pid_substring.clone(),
            model_shape: args.model_shape.as_deref().map(model_shape).transpose()?,
        },
        server: args.server_args.as_ref().map(|path| server_args(path)).transpose()?,
        window: args.window.clone(),
    })
}

fn server_args(path: &std::path::Path) -> Result<ServerArgs> {
    session::server_args(&files::read_text(path)?)
}

fn framework(name: &str) -> Result<Option<Framework>> {
    if name.eq_ignore_ascii_case("auto") {
        return Ok(None);
    }
    let why = "no such framework; use auto, sglang, vllm, trtllm, tokenspeed or pytorch";
    Framework::parse(name).map(Some).ok_or_else(|| Error::usage(format!("--framework {name}"), why))
}

/// Parses `LAYERS,HEADS,HEAD_DIM`.
fn model_shape(text: &str) -> Result<ModelShape> {
    let numbers: Option<Vec<u32>> = text.split(',').map(|number| number.trim().parse().ok()).collect();
    match numbers.as_deref() {
        Some(&[layers, heads, head_dim]) if layers > 0 && heads > 0 && head_dim > 0 => {
            Ok(ModelShape { layers, heads, head_dim })
        }
        _ => {
            let why =
                "not three positive whole numbers: give layers, query heads and head dimension, for example 32,32,128";
            Err(Error::usage(format!("--model-shape {text}"), why))
        }
    }
}

/// The input paths: either only traces to triage, or mapping traces together with formal ones.
fn sources(args: &Args) -> Result<Vec<(Purpose, PathBuf)>> {
    let with_purpose = |purpose: Purpose, paths: &[PathBuf]| -> Vec<(Purpose, PathBuf)> {
        paths.iter().map(|path| (purpose, path.clone())).collect()
    };
    let single = [with_purpose(Purpose::Formal, &args.traces), with_purpose(Purpose::Formal, &args.input)].concat();
    let mapping = with_purpose(Purpose::Mapping, &args.mapping_input);
    let formal = with_purpose(Purpose::Formal, &args.formal_input);
    let wrong = |flag: &str, why: &str| Err(Error::usage(flag, why));
    match (single.is_empty(), mapping.is_empty(), formal.is_empty()) {
        (false, true, true) => Ok(single),
        (true, false, false) => Ok([mapping, formal].concat()),
        (true, true, true) => {
            wrong("triage", "no input: give a trace or a profile folder, or --mapping-input with --formal-input")
        }
        (true, false, true) => wrong("--mapping-input", "needs --formal-input, the trace to triage"),
        (true, true, false) => {
            wrong("--formal-input", "needs --mapping-input; give a single trace as an argument without a flag")
        }
        (false, ..) => wrong(
            "--mapping-input and --formal-input",
            "cannot be combined with other traces: give the trace to triage only with --formal-input",
        ),
    }
}

fn check_table(args: &Args) -> Result<()> {
    let Some(table) = &args.table else { return Ok(()) };
    if args.format != Format::Csv {
        return Err(Error::usage("--table", "needs --format csv; the other formats print all tables"));
    }
    if table.starts_with("triage_") && report::is_known_table(table) {
        return Ok(());
    }
    Err(unknown_table(table, report::known_tables().filter(|table| table.starts_with("triage_"))))
}

fn render(report: &Report, args: &Args) -> Result<String> {
    Ok(match args.format {
        Format::Terminal => triage::terminal(report, super::width(), args.explain),
        Format::Text => printable(&triage::text(report)),
        Format::Markdown => triage::markdown(report),
        Format::Json => report.json(),
        Format::Csv => {
            let id = args.table.as_deref().unwrap_or("triage_kernels");
            let missing = || Error::usage(format!("--table {id}"), "these runs have no such table");
            let table = report::table(report, id, None).ok_or_else(missing)?;
            files::print_warnings(&report.runs);
            files::warn_of_missing_rows(&report.runs, id);
            csv(&table)
        }
    })
}
