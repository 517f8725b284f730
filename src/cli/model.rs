//! `gpuprism model`: the steps and layers of the model that a server runs, from the same report as `gpuprism report`.

use super::redaction::Redaction;
use super::report::{ChoiceArgs, report};
use super::{files, print};
use crate::Result;
use crate::report::model::{self, Part};
use crate::report::{Report, csv};
use clap::ValueEnum;
use std::path::PathBuf;

/// Show what a step and the layers of the model cost, how far they are from the hardware's limit, and what the host did.
///
/// Without --layers, --ops and --idle: the sentences, the steps, the layers and their parts.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Args {
    /// Traces, exports or earlier reports; - reads standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Show only layers: their kinds, their parts, and each layer of a step.
    #[arg(long)]
    layers: bool,
    /// Show only the costs of ops and collectives, and kernels that do not suit the hardware.
    #[arg(long)]
    ops: bool,
    /// Show only the code of the host while the GPU waited, and what CUDA graphs replay.
    #[arg(long)]
    idle: bool,
    /// Output format; csv prints one table: layer_roles, with --ops op_costs, with --idle idle_blame.
    #[arg(long, value_enum, default_value_t = Format::Terminal)]
    format: Format,
    /// Maximum rows of each table in the format terminal; 0 shows all rows.
    #[arg(long, default_value_t = 30, value_parser = super::rows, allow_negative_numbers = true, value_name = "N")]
    limit: usize,
    /// The nsys program that exports an .nsys-rep.
    #[arg(long = "nsys_cmd", alias = "nsys-cmd", default_value = "nsys", value_name = "CMD")]
    nsys_cmd: String,
    #[command(flatten)]
    redaction: Redaction,
    #[command(flatten)]
    choices: ChoiceArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Terminal,
    Json,
    Csv,
    Markdown,
}

pub(super) fn run(args: &Args) -> Result<()> {
    args.redaction.begin(&args.files);
    let report = args.redaction.of(report(&args.files, &args.nsys_cmd, &args.choices)?);
    let chosen = [(args.layers, Part::Layers), (args.ops, Part::Ops), (args.idle, Part::Idle)];
    let parts: Vec<Part> = chosen.into_iter().filter(|(is_chosen, _)| *is_chosen).map(|(_, part)| part).collect();
    show(&report, &parts, args.format, args.limit)
}

/// Prints the chosen tables; at most `limit` rows of each in the format terminal.
pub(super) fn show(report: &Report, parts: &[Part], format: Format, limit: usize) -> Result<()> {
    print(&match format {
        Format::Terminal => model::text(report, parts, limit, super::columns()),
        Format::Markdown => model::markdown(report, parts),
        Format::Json => model::json(report, parts),
        Format::Csv => one_csv(report, parts),
    })
}

/// The first table of the first part. The warnings of the runs go to standard error.
fn one_csv(report: &Report, parts: &[Part]) -> String {
    files::print_warnings(&report.runs);
    let table = model::main_table(report, parts);
    if let Some(table) = &table {
        files::warn_of_missing_rows(&report.runs, &table.id);
    }
    table.map(|table| csv(&table)).unwrap_or_default()
}
