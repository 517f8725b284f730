//! `gpuprism pivot`: runs laid out by any two of category, kernel, stage, device, stream, process, run and step.

use super::files::{self, Readable};
use super::report::{ChoiceArgs, choices, seconds};
use super::{Format, print, printable};
use crate::Result;
use crate::analysis::pivot::cells::{Axis, Cube};
use crate::analysis::pivot::layout::{Measure, Shape, Source, Whole};
use crate::analysis::results::Run;
use crate::report::{Report, axis_name, csv, markdown_table, pivot_json, pivot_table, terminal, with_totals_row};
use crate::session::{self, Choices};
use clap::ValueEnum;
use std::path::{Path, PathBuf};

/// Lay runs out as you like: rows, columns, values, totals, per cent.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Traces and exports; earlier reports hold runs, categories and kernels alone.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// What a row is.
    #[arg(long, value_enum, default_value = "category")]
    rows: AxisArg,
    /// What a column is; without it, the rows' sums alone.
    #[arg(long, value_enum)]
    columns: Option<AxisArg>,
    /// What a cell says of its GPU ops.
    #[arg(long, value_enum, default_value_t = MeasureArg::Elapsed)]
    values: MeasureArg,
    /// Show each value as a part of its row, its column or all.
    #[arg(long, value_enum)]
    percent: Option<WholeArg>,
    /// Sum up rows beyond the N largest; 0 shows all.
    #[arg(long, default_value_t = 0, value_parser = super::rows, allow_negative_numbers = true, value_name = "N")]
    top: usize,
    /// What to print.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    choices: ChoiceArgs,
}

/// An axis as a flag's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AxisArg(Axis);

impl ValueEnum for AxisArg {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [AxisArg; 8] = [
            AxisArg(Axis::Category),
            AxisArg(Axis::Kernel),
            AxisArg(Axis::Stage),
            AxisArg(Axis::Device),
            AxisArg(Axis::Stream),
            AxisArg(Axis::Process),
            AxisArg(Axis::Run),
            AxisArg(Axis::Step),
        ];
        &ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(axis_name(self.0)))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MeasureArg {
    Elapsed,
    Duration,
    Exclusive,
    Count,
    Mean,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WholeArg {
    Row,
    Column,
    All,
}

impl Args {
    fn shape(&self) -> Shape {
        let values = match self.values {
            MeasureArg::Elapsed => Measure::Elapsed,
            MeasureArg::Duration => Measure::Duration,
            MeasureArg::Exclusive => Measure::Exclusive,
            MeasureArg::Count => Measure::Count,
            MeasureArg::Mean => Measure::Mean,
        };
        let percent = self.percent.map(|whole| match whole {
            WholeArg::Row => Whole::Row,
            WholeArg::Column => Whole::Column,
            WholeArg::All => Whole::All,
        });
        Shape { rows: self.rows.0, columns: self.columns.map(|axis| axis.0), values, percent, top: self.top }
    }
}

pub(super) fn run(args: &Args) -> Result<()> {
    let shape = args.shape();
    shape.check()?;
    let choices = Choices { without_sections: true, ..choices(&args.choices)? };
    let (mut runs, mut cubes): (Vec<Run>, Vec<Option<Cube>>) = (Vec::new(), Vec::new());
    for (at, path) in args.files.iter().enumerate() {
        let choices = Choices { wall_seconds: seconds(&args.choices, at), ..choices.clone() };
        for (run, cube) in read(path, &choices, &shape)? {
            runs.push(run);
            cubes.push(cube);
        }
    }
    let report = Report::new(runs);
    files::warn_of(&report.runs);
    let labels = report.labels();
    let sources = labels.iter().zip(&report.runs).zip(&cubes);
    let sources: Vec<Source> = sources.map(|((label, run), cube)| Source { label, run, cube: cube.as_ref() }).collect();
    let table = pivot_table(&sources, shape)?;
    print(&match args.format {
        Format::Text => {
            let note = terminal::wrapped("  ", "  ", &table.note);
            printable(&(terminal::one_table(&report, table, 0) + "\n" + &note))
        }
        Format::Csv => csv(&with_totals_row(table)),
        Format::Json => pivot_json(&table),
        Format::Markdown => markdown_table(&table),
    })
}

fn read(path: &Path, choices: &Choices, shape: &Shape) -> Result<Vec<(Run, Option<Cube>)>> {
    match files::read(path)? {
        Readable::Trace(trace) => {
            let cube = session::cube(&trace, choices, &shape.axes())?;
            Ok(vec![(session::run(&trace, choices)?, Some(cube))])
        }
        Readable::Report(report) => Ok(report.runs.into_iter().map(|run| (run, None)).collect()),
    }
}
