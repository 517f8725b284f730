//! `gpuprism rules`: lists the kernels that each rule matches, shadowed rules, and the kernels in the category `misc`.

use super::files::StandardError;
use super::redaction::Redaction;
use super::report::{ChoiceArgs, choices};
use super::{analyze, print, printable};
use crate::Result;
use crate::analysis::results::Run;
use crate::analysis::rule_use;
use crate::json;
use crate::report::redact::{Redactions, Redactor};
use crate::report::{Report, markdown_table, section_table, terminal};
use crate::session::{self, Choices};
use clap::ValueEnum;
use std::path::PathBuf;

/// Show which kernels each rule matches, which rules are shadowed or unused, and which kernels are in the category misc.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Traces, exports or earlier reports; - reads standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    redaction: Redaction,
    #[command(flatten)]
    choices: ChoiceArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    Markdown,
}

pub(super) fn run(args: &Args) -> Result<()> {
    args.redaction.begin(&args.files);
    let choices = Choices { without_sections: true, ..choices(&args.choices)? };
    let (book, _) = session::rule_book(&choices.rules)?;
    let rules = session::pick_rules(&book, &choices)?;
    let mut runs = Vec::new();
    for path in &args.files {
        runs.extend(analyze::runs(path, &choices, &StandardError)?);
    }
    let report = Report::new(runs);
    let mut sections = rule_use(&rules, &report.runs.iter().collect::<Vec<&Run>>());
    let mut report = report;
    if args.redaction.is_wanted() {
        // The rules match the names themselves, so their use is found first.
        let (redacted, mut redactor) = Redactor::redact(&report, &Redactions::all());
        sections = redactor.redact_also(&sections).unwrap_or_default();
        report = redacted;
    }
    let tables = sections.iter().map(|(id, section)| section_table(id, section));
    print(&match args.format {
        Format::Text => {
            let text = |table| printable(&terminal::one_table(&report, table, 0, super::columns()));
            tables.map(text).collect::<Vec<_>>().join("\n")
        }
        Format::Json => json::write(&sections) + "\n",
        Format::Markdown => tables.map(|table| markdown_table(&table)).collect::<Vec<_>>().join("\n"),
    })
}
