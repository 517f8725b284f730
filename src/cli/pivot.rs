//! `gpuprism pivot`: a pivot table by any two of category, kernel, stage, device, stream, process, run and step.

use super::files::{self, RunSource};
use super::redaction::Redaction;
use super::report::{ChoiceArgs, choices, seconds};
use super::{Format, print, printable};
use crate::Result;
use crate::analysis::pivot::cells::{Axis, PivotCells};
use crate::analysis::pivot::layout::{Measure, PercentBase, PivotLayout, Source};
use crate::analysis::results::Run;
use crate::json::{self, FromJson};
use crate::report::redact::{Redactions, Redactor};
use crate::report::{Report, csv, markdown_table, pivot_json, pivot_table, terminal, with_totals_row};
use crate::session::{self, Choices};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use std::path::{Path, PathBuf};

/// Make a pivot table of GPU time with the rows, columns and values that you choose.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Traces, exports or earlier reports; - reads standard input. Reports contain only the axes run, category and kernel.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The axis of the rows.
    #[arg(long, value_parser = one_of::<Axis>(AXES), default_value = "category")]
    rows: Axis,
    /// The axis of the columns. Without it, the table has one column with the value of each row.
    #[arg(long, value_parser = one_of::<Axis>(AXES))]
    columns: Option<Axis>,
    /// The value of a cell.
    #[arg(
        long,
        value_parser = one_of::<Measure>(MEASURES.map(|(word, help)| PossibleValue::new(word).help(help))),
        default_value = "elapsed",
    )]
    values: Measure,
    /// Show each value as a percentage of its row, its column or the whole table.
    #[arg(long, value_parser = one_of::<PercentBase>(PERCENT_BASES))]
    percent: Option<PercentBase>,
    /// Show the N largest rows and sum the others into one row; 0 shows all rows.
    #[arg(long, default_value_t = 0, value_parser = super::rows, allow_negative_numbers = true, value_name = "N")]
    top: usize,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    redaction: Redaction,
    #[command(flatten)]
    choices: ChoiceArgs,
}

const AXES: [&str; 8] = ["category", "kernel", "stage", "device", "stream", "process", "run", "step"];
const MEASURES: [(&str, &str); 5] = [
    ("elapsed", "The part of the busy time that is attributed to the GPU ops; see --attribution"),
    ("duration", "The sum of the durations of the GPU ops"),
    ("exclusive", "The time in which a GPU op runs alone"),
    ("count", "The number of GPU ops"),
    ("mean", "The mean duration of the GPU ops"),
];
const PERCENT_BASES: [&str; 3] = ["row", "column", "all"];

/// Parses one of these words, which are also the words of the type in JSON.
fn one_of<T: FromJson + Clone + Send + Sync + 'static>(
    words: impl IntoIterator<Item = impl Into<PossibleValue>>,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(words)
        .try_map(|word| json::read::<T>(&json::write(&word)).map_err(|error| error.to_string()))
}

pub(super) fn run(args: &Args) -> Result<()> {
    args.redaction.begin(&args.files);
    let &Args { rows, columns, values, percent, top, .. } = args;
    let layout = PivotLayout { rows, columns, values, percent, top };
    layout.check()?;
    // Only a run with sections tells whether its shares are wrong.
    let choices = Choices { without_sections: layout.percent.is_none(), ..choices(&args.choices)? };
    let (mut runs, mut cells_by_run): (Vec<Run>, Vec<Option<PivotCells>>) = (Vec::new(), Vec::new());
    for (index, path) in args.files.iter().enumerate() {
        let choices = Choices { wall_seconds: seconds(&args.choices, index), ..choices.clone() };
        for (run, cells) in read(path, &choices, &layout)? {
            runs.push(run);
            cells_by_run.push(cells);
        }
    }
    let mut report = Report::new(runs);
    if args.redaction.is_wanted() {
        (report, cells_by_run) = redacted(&report, &cells_by_run);
    }
    files::print_warnings(&report.runs);
    let labels = report.labels();
    let sources = labels.iter().zip(&report.runs).zip(&cells_by_run);
    let sources: Vec<Source> =
        sources.map(|((label, run), cells)| Source { label, run, cells: cells.as_ref() }).collect();
    let table = pivot_table(&sources, layout)?;
    print(&match args.format {
        Format::Text => {
            let note = terminal::wrapped(super::columns(), "  ", "  ", &table.note);
            printable(&(terminal::one_table(&report, table, 0, super::columns()) + "\n" + &note))
        }
        Format::Csv => csv(&with_totals_row(table)),
        Format::Json => pivot_json(&table),
        Format::Markdown => markdown_table(&table),
    })
}

/// The runs and their cells without private text. A kernel has one placeholder in both.
fn redacted(report: &Report, cells_by_run: &[Option<PivotCells>]) -> (Report, Vec<Option<PivotCells>>) {
    let (report, mut redactor) = Redactor::redact(report, &Redactions::all());
    let cells_by_run = cells_by_run.iter().map(|cells| redactor.redact_also(cells.as_ref()?)).collect();
    (report, cells_by_run)
}

fn read(path: &Path, choices: &Choices, layout: &PivotLayout) -> Result<Vec<(Run, Option<PivotCells>)>> {
    match files::read(path)? {
        RunSource::Trace(trace) => {
            let cells = session::pivot_cells(&trace, choices, &layout.axes())?;
            Ok(vec![(session::run(&trace, choices)?, Some(cells))])
        }
        RunSource::Report(report) => Ok(report.runs.into_iter().map(|run| (run, None)).collect()),
    }
}
