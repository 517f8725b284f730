//! `gpuprism triage`: which kernels cost the time and which code launched them, what could overlap, which known fusions
//! apply.

mod inputs;

use super::{files, print, printable, redacted};
use crate::analysis::triage::serving::ModelShape;
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
    #[arg(
        long = "kernel-table-limit",
        default_value_t = 0,
        value_parser = super::rows,
        allow_negative_numbers = true,
        value_name = "N",
    )]
    kernel_table_limit: usize,
    /// Rows of each stage's overlap table; 0 is all.
    #[arg(
        long = "overlap-table-limit",
        default_value_t = 0,
        value_parser = super::rows,
        allow_negative_numbers = true,
        value_name = "N",
    )]
    overlap_table_limit: usize,
    /// Rows with a smaller share of their stage are counted, not shown; in per cent.
    #[arg(
        long = "min-share",
        default_value_t = Options::default().min_share_pct,
        allow_negative_numbers = true,
        value_name = "PCT",
    )]
    min_share: f64,
    /// Look at a window alone: FROM-TO in seconds from the first GPU op, as 1.25-1.75; either may be left out.
    #[arg(long, value_name = "FROM-TO", allow_hyphen_values = true, value_parser = super::window)]
    window: Option<String>,
    /// The model's layers with attention, query heads and width of a head, for the work of attention per step.
    #[arg(long = "model-shape", value_name = "LAYERS,HEADS,HEAD_DIM")]
    model_shape: Option<String>,
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
    /// Replace what tells who and where by placeholders: paths, hosts, models, private kernels and annotations, secrets.
    #[arg(long)]
    redact: bool,
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
    let report = redacted(Report::new(Batch::new(&asked, &sources)?.runs()?), args.redact);
    print(&render(&report, args)?)
}

fn asked(args: &Args) -> Result<Asked> {
    if !(0.0..=100.0).contains(&args.min_share) {
        return Err(Error::usage(format!("--min-share {}", args.min_share), "a share is a number from 0 to 100"));
    }
    Ok(Asked {
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
    session::server_args(&files::aid(path)?)
}

fn framework(name: &str) -> Result<Option<Framework>> {
    if name.eq_ignore_ascii_case("auto") {
        return Ok(None);
    }
    let why = "no such framework; there are auto, sglang, vllm, trtllm, tokenspeed and pytorch";
    Framework::parse(name).map(Some).ok_or_else(|| Error::usage(format!("--framework {name}"), why))
}

/// `LAYERS,HEADS,HEAD_DIM`.
fn model_shape(text: &str) -> Result<ModelShape> {
    let numbers: Option<Vec<u32>> = text.split(',').map(|number| number.trim().parse().ok()).collect();
    match numbers.as_deref() {
        Some(&[layers, heads, head_dim]) if layers > 0 && heads > 0 && head_dim > 0 => {
            Ok(ModelShape { layers, heads, head_dim })
        }
        _ => {
            let why = "three whole numbers are needed, layers, query heads and the width of a head: 32,32,128";
            Err(Error::usage(format!("--model-shape {text}"), why))
        }
    }
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
    if table.starts_with("triage_") && report::is_known_table(table) {
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
            let missing = || Error::usage(format!("--table {id}"), "these runs have no rows there");
            let table = report::table(report, id, None).ok_or_else(missing)?;
            files::warn_of(&report.runs);
            files::warn_of_rows(&report.runs, id);
            csv(&table)
        }
    })
}
