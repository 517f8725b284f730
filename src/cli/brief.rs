//! `gpuprism brief` and `gpuprism show`: a report in few words, and one of its findings in full.

use super::files::StandardError;
use super::redaction::Redaction;
use super::report::{ChoiceArgs, choices};
use super::suggestion::unknown;
use super::{analyze, files, print_text};
use crate::analysis::doctor::{Check, checks};
use crate::files::{Neighbours, trace_in};
use crate::report::brief::{self, DEFAULT_TOKENS, Subject};
use crate::report::redact::{Redactions, Redactor};
use crate::report::{Report, known_tables};
use crate::session::Choices;
use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// Say in few words where the time went, what to do, and what the capture cannot tell; for agents and chats.
#[derive(Debug, clap::Args)]
pub(super) struct BriefArgs {
    /// Traces, exports or earlier reports; - reads standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The length of the text in tokens, counted as three bytes each.
    #[arg(long, default_value_t = DEFAULT_TOKENS, value_name = "TOKENS")]
    budget: usize,
    #[command(flatten)]
    redaction: Redaction,
    #[command(flatten)]
    choices: ChoiceArgs,
}

/// Show everything on one finding, limit or table of `gpuprism brief`, by its id.
#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// A trace, export or earlier report; - reads standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The id of a finding (replay-preparation), of a check (stacks), of a table (idle_blame), or of a change in the table what_if
    /// (all_blocking).
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    redaction: Redaction,
    #[command(flatten)]
    choices: ChoiceArgs,
}

/// The results of one file.
pub(super) struct Described {
    pub(super) path: String,
    pub(super) report: Report,
    pub(super) checks: Vec<Check>,
    /// False for an earlier report.
    pub(super) is_trace: bool,
}

impl Described {
    pub(super) fn subject(&self) -> Subject<'_> {
        Subject { path: &self.path, report: &self.report, checks: &self.checks }
    }

    /// Everything on one finding, check or table.
    pub(super) fn show(&self, id: &str) -> Result<String> {
        let subject = self.subject();
        brief::show(&subject, id).ok_or_else(|| {
            let known = brief::known_ids(&subject);
            let tables: Vec<&'static str> = known_tables().collect();
            let problem = "no finding, check or table of this name";
            let remedy = format!("give one of {}, a table's name, or an id of the table what_if", known.join(", "));
            let why = unknown(problem, id, known.iter().chain(&tables).copied(), &remedy);
            Error::usage(id, why)
        })
    }
}

/// Reads and analyzes a file, with the files beside it; only those inside `root` if one is given. An earlier report has no checks.
pub(super) fn describe(path: &Path, choices: &Choices, root: Option<&Path>) -> Result<Described> {
    let source = files::read(path)?;
    let is_trace = matches!(source, files::RunSource::Trace(_));
    let (report, checks) = match source {
        files::RunSource::Trace(trace) => {
            let run = analyze::run(&trace, choices, &Neighbours::of(&trace_in(path), root, &StandardError))?;
            let checks = checks(&trace, &run);
            (Report::new(vec![run]), checks)
        }
        files::RunSource::Report(report) => (report, Vec::new()),
    };
    Ok(Described { path: path.display().to_string(), report, checks, is_trace })
}

/// The same without private text. Placeholders count through all files; those of their runs stand for the paths, too.
fn redacted(described: Vec<Described>) -> Vec<Described> {
    let all = described.iter().flat_map(|one| one.report.runs.iter().cloned()).collect();
    let (report, mut redactor) = Redactor::redact(&Report::new(all), &Redactions::all());
    let mut runs = report.runs.into_iter();
    let mut of_file = |one: Described| {
        let report = Report::new(runs.by_ref().take(one.report.runs.len()).collect());
        let path = report.runs.first().map_or_else(|| redactor.sentence(&one.path), |run| run.label.clone());
        let mut sentence = |text: &str| redactor.sentence(text);
        let checks = one.checks.into_iter().map(|check| Check {
            text: sentence(&check.text),
            remedy: sentence(&check.remedy),
            ..check
        });
        Described { path, report, checks: checks.collect(), is_trace: one.is_trace }
    };
    described.into_iter().map(&mut of_file).collect()
}

pub(super) fn run_brief(args: &BriefArgs) -> Result<()> {
    let is_redacted = args.redaction.begin(&args.files);
    let choices = choices(&args.choices)?;
    let mut described: Vec<Described> =
        args.files.iter().map(|path| describe(path, &choices, None)).collect::<Result<Vec<_>>>()?;
    if is_redacted {
        described = redacted(described);
    }
    let subjects: Vec<Subject> = described.iter().map(Described::subject).collect();
    print_text(&brief::brief(&subjects, args.budget))
}

pub(super) fn run_show(args: &ShowArgs) -> Result<()> {
    let is_redacted = args.redaction.begin(std::slice::from_ref(&args.file));
    let mut described = vec![describe(&args.file, &choices(&args.choices)?, None)?];
    if is_redacted {
        described = redacted(described);
    }
    described.iter().try_for_each(|one| print_text(&one.show(&args.id)?))
}
