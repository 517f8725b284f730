//! `gpuprism report`: the same numbers as the page, on a terminal or as JSON, CSV, Markdown or HTML.

use super::files::StandardError;
use super::redaction::Redaction;
use super::suggestion::unknown;
use super::{analyze, files, print};
use crate::analysis::results::Attribution;
use crate::files::{RunSource, read_run};
use crate::report::html::Overview;
use crate::report::redact::{Redactions, Redactor};
use crate::report::{self, Report, csv, html_page_with_timelines, is_known_table, known_tables, markdown, terminal};
use crate::session::{self, Choices, ModelChoice};
use crate::{Error, Result};
use clap::ValueEnum;
use std::path::PathBuf;

/// Show where the GPU time went: time bars, categories, kernels, devices and notices.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Traces in any format that `gpuprism formats` lists, a folder with one trace or the files of one run, or earlier reports; - reads
    /// standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Terminal)]
    format: Format,
    /// Print only this table: kernels, pivot, nccl_ops, ... For the formats terminal, csv (default: kernels) and markdown.
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// Print everything: the evidence of the findings, all notices, and all tables with up to 30 rows each (see --limit).
    /// Without it, the format terminal is one screen of 40 lines.
    #[arg(long, conflicts_with = "table")]
    all: bool,
    /// Maximum rows of the kernel table (default: 10), or of each table with --all or --table (default: 30), in the format
    /// terminal; 0 shows all rows.
    #[arg(long, value_parser = super::rows, allow_negative_numbers = true, value_name = "N")]
    limit: Option<usize>,
    /// The nsys program that exports an .nsys-rep.
    #[arg(long = "nsys_cmd", alias = "nsys-cmd", default_value = "nsys", value_name = "CMD")]
    nsys_cmd: String,
    #[command(flatten)]
    redaction: Redaction,
    #[command(flatten)]
    choices: ChoiceArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Terminal,
    Json,
    Csv,
    Markdown,
    Html,
}

/// The analysis options that `report`, `model`, `pivot` and `rules` share.
#[derive(Debug, clap::Args)]
pub(super) struct ChoiceArgs {
    /// How to attribute the time in which several GPU ops run.
    #[arg(long, value_enum, default_value_t = AttributionArg::Fair)]
    attribution: AttributionArg,
    /// Treat all devices as one, as gputrc2graph does.
    #[arg(long)]
    merge_devices: bool,
    /// Analyze only this time range, in seconds from the first GPU op, for example 1.25-1.75. FROM or TO may be omitted.
    #[arg(long, value_name = "FROM-TO", allow_hyphen_values = true, value_parser = super::window)]
    window: Option<String>,
    /// Wall time of the same work without a profiler, in seconds. Give it once for all files or once per file.
    #[arg(long, allow_negative_numbers = true, value_name = "SECONDS")]
    seconds: Vec<String>,
    /// Add a rule file in gputrc2graph's format. May be given several times.
    #[arg(long, value_name = "FILE")]
    rules: Vec<PathBuf>,
    /// Use the rules of this engine; needs --model.
    #[arg(long, requires = "model")]
    engine: Option<String>,
    /// Use the rules of this model; needs --engine.
    #[arg(long, requires = "engine")]
    model: Option<String>,
    /// A phase map: a JSON object from phase to pattern or list of patterns. A pattern is a substring of range names, or a
    /// regex after `re:`.
    #[arg(long, value_name = "FILE")]
    phase_map: Option<PathBuf>,
    #[command(flatten)]
    model_config: ModelArgs,
}

/// What the model of the traced server is, for the floor of its steps.
#[derive(Debug, clap::Args)]
pub(super) struct ModelArgs {
    /// The config.json of the model, for the floor of a step: the least time that its GPU needs.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The weights that one GPU reads in a step, in GB (10^9 bytes), instead of those that follow from the config.
    #[arg(long, value_name = "N")]
    weights_gb: Option<String>,
    /// Tensor parallelism: GPUs that share each matrix of the model. Without these four flags, a server_args.json of SGLang in the
    /// folder of the trace or its parent tells how the model is divided.
    #[arg(long, value_name = "N")]
    tp: Option<u64>,
    /// Expert parallelism: GPUs that share the experts.
    #[arg(long, value_name = "N")]
    ep: Option<u64>,
    /// Pipeline parallelism: GPUs that share the layers.
    #[arg(long, value_name = "N")]
    pp: Option<u64>,
    /// Data parallelism: groups of GPUs with requests of their own, whose tokens meet in the experts.
    #[arg(long, value_name = "N")]
    dp: Option<u64>,
}

impl ModelArgs {
    /// The model from the flags. Checks it before any trace is read.
    pub(super) fn choice(&self) -> Result<ModelChoice> {
        let &Self { tp, ep, pp, dp, .. } = self;
        let config = self.config.as_ref().map(|path| files::read_text(path)).transpose()?;
        let choice = ModelChoice { config, weights_gb: self.weights_gb.clone(), tp, ep, pp, dp, server: None };
        session::served_model(&choice)?;
        Ok(choice)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AttributionArg {
    /// All of it to the op that started first, as gputrc2graph does.
    FirstCome,
    /// Equal parts to all running ops.
    Fair,
    /// None of it: an op gets only the time in which it runs alone.
    Exclusive,
}

impl From<AttributionArg> for Attribution {
    fn from(arg: AttributionArg) -> Self {
        match arg {
            AttributionArg::FirstCome => Self::FirstCome,
            AttributionArg::Fair => Self::Fair,
            AttributionArg::Exclusive => Self::Exclusive,
        }
    }
}

pub(super) fn run(args: &Args) -> Result<()> {
    args.redaction.begin(&args.files);
    if let Some(unknown) = args.table.as_deref().filter(|id| !is_known_table(id)) {
        return Err(unknown_table(unknown, known_tables()));
    }
    if args.all && args.format != Format::Terminal {
        return Err(Error::usage("--all", "needs --format terminal; the other formats contain all tables"));
    }
    if args.table.is_some() && matches!(args.format, Format::Json | Format::Html) {
        return Err(Error::usage(
            "--table",
            "needs --format terminal, csv or markdown; json and html contain all tables",
        ));
    }
    let (seconds, with_strips) = (&args.choices.seconds, args.format == Format::Html);
    let (original, overviews) = analyzed(&args.files, &args.nsys_cmd, seconds, choices(&args.choices)?, with_strips)?;
    if !args.redaction.is_wanted() {
        return print(&render(&original, &overviews, args)?);
    }
    let (report, mut redactor) = Redactor::redact(&original, &Redactions::all());
    let overviews: Vec<Option<Overview>> =
        overviews.iter().map(|overview| redactor.redact_also(overview.as_ref()?)).collect();
    print(&render(&report, &overviews, args)?)
}

/// The error for a table that no report has, with the name that may be meant and all names.
pub(super) fn unknown_table<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Error {
    let mut known: Vec<&str> = known.collect();
    known.sort_unstable();
    let tables = format!("the tables are {}", known.join(", "));
    Error::usage(format!("--table {name}"), unknown("no such table", name, known, &tables))
}

/// The choices from the flags, without wall times. Checks the rules before any trace is read.
pub(super) fn choices(args: &ChoiceArgs) -> Result<Choices> {
    let choices = Choices {
        attribution: args.attribution.into(),
        merge_devices: args.merge_devices,
        engine: args.engine.clone(),
        model: args.model.clone(),
        wall_seconds: None,
        window: args.window.clone(),
        rules: files::rules(&args.rules)?,
        kernel_limit: None,
        without_sections: false,
        phase_map: args.phase_map.as_ref().map(|path| files::read_text(path)).transpose()?,
        model_config: args.model_config.choice()?,
        what_if: Vec::new(),
    };
    let (book, _) = session::rule_book(&choices.rules)?;
    session::pick_rules(&book, &choices)?;
    Ok(choices)
}

/// The wall time for the file with this index.
pub(super) fn seconds(args: &ChoiceArgs, index: usize) -> Option<String> {
    args.seconds.get(index).or(args.seconds.first()).cloned()
}

/// Reads and analyzes the files.
pub(super) fn report(files: &[PathBuf], nsys_cmd: &str, args: &ChoiceArgs) -> Result<Report> {
    report_with(files, nsys_cmd, args, &[])
}

/// The same, with these changes replayed together.
pub(super) fn report_with(files: &[PathBuf], nsys_cmd: &str, args: &ChoiceArgs, what_if: &[String]) -> Result<Report> {
    let choices = Choices { what_if: what_if.to_vec(), ..choices(args)? };
    Ok(analyzed(files, nsys_cmd, &args.seconds, choices, false)?.0)
}

/// The report of the files and, if they are wanted and each file has one run, the strips of each run that is a trace.
fn analyzed(
    files: &[PathBuf],
    nsys_cmd: &str,
    seconds: &[String],
    choices: Choices,
    with_strips: bool,
) -> Result<(Report, Vec<Option<Overview>>)> {
    let files = files::by_run(files);
    let wall_seconds = analyze::wall_seconds(seconds, files.len())?;
    let (mut runs, mut overviews) = (Vec::new(), Vec::new());
    for (set, wall_seconds) in files.iter().zip(wall_seconds) {
        let Some(path) = set.first() else { continue };
        let choices = Choices { wall_seconds, ..choices.clone() };
        let source = read_run(set, nsys_cmd, &StandardError)?;
        runs.extend(analyze::runs_of(&source, path, &choices, &StandardError)?);
        overviews.push(match &source {
            RunSource::Trace(trace) if with_strips => session::overview(trace, &choices)?,
            RunSource::Trace(_) | RunSource::Report(_) => None,
        });
    }
    if overviews.len() != runs.len() {
        overviews.clear();
    }
    report::foreign::attach_series(&mut runs);
    Ok((Report::new(runs), overviews))
}

/// The maximum number of rows of a table without `--limit`.
const MAX_ROWS: usize = 30;

fn render(report: &Report, overviews: &[Option<Overview>], args: &Args) -> Result<String> {
    let table = match (&args.table, args.format) {
        (Some(id), Format::Csv | Format::Terminal | Format::Markdown) => Some(table(report, id)?),
        (None, Format::Csv) => Some(table(report, "kernels")?),
        _ => None,
    };
    Ok(match (args.format, table) {
        (Format::Csv, Some(table)) => csv(&table),
        (Format::Terminal, Some(table)) => {
            terminal::one_table(report, table, args.limit.unwrap_or(MAX_ROWS), super::columns())
        }
        (Format::Markdown, Some(table)) => report::markdown_table(&table),
        (Format::Markdown, None) => markdown(report),
        (Format::Json, _) => report.json(),
        (Format::Html, _) => html_page_with_timelines(report, overviews, "gpuprism report"),
        (Format::Terminal, None) if args.all => {
            terminal::terminal(report, args.limit.unwrap_or(MAX_ROWS), super::columns())
        }
        (Format::Terminal | Format::Csv, None) => terminal::screen(report, args.limit, super::width()),
    })
}

/// One table. The warnings of the runs go to standard error, because the table has no place for them.
fn table(report: &Report, id: &str) -> Result<report::table::Table> {
    let table = report::table(report, id, None).ok_or_else(|| {
        Error::usage(
            format!("--table {id}"),
            "these runs do not have this table: create the report again from the trace",
        )
    })?;
    files::print_warnings(&report.runs);
    files::warn_of_missing_rows(&report.runs, id);
    Ok(table)
}
