//! Formats a pivot of the runs (`analysis::pivot`) as a table and as JSON: O(table cells).

use super::table::{Cell, Column, Gap, Kind, Table};
use super::tables::attribution_note;
use crate::analysis::pivot::cells::Axis;
use crate::analysis::pivot::layout::{
    CellValue, MAX_COLUMNS, Measure, Member, PercentBase, PivotLayout, PivotTable, Source, build_pivot,
};
use crate::analysis::results::Run;
use crate::analysis::structure::shifted_durations::WITHHELD;
use crate::words::capitalize;
use crate::{Result, rules::names};
use std::borrow::Cow;
use std::collections::HashMap;

/// Builds the pivot table of these runs.
///
/// # Errors
/// The combination of rows, columns and values is not valid.
pub fn pivot_table(sources: &[Source], layout: PivotLayout) -> Result<Table> {
    let pivot = build_pivot(sources, layout)?;
    let names = ShortNames::of(sources);
    let kind = match (layout.percent, layout.values) {
        (Some(_), _) => Kind::Share,
        (None, Measure::Count) => Kind::Count,
        (None, _) => Kind::Time,
    };
    let label_kind = match layout.rows {
        Axis::Category => Kind::Category,
        Axis::Kernel => Kind::Kernel,
        _ => Kind::Text,
    };
    let mut columns = vec![Column {
        key: if layout.rows == Axis::Kernel { "name".to_owned() } else { axis_name(layout.rows).to_owned() },
        title: capitalize(axis_name(layout.rows).to_owned()),
        kind: label_kind,
    }];
    columns.extend(pivot.columns.iter().map(|member| {
        let title = match member {
            Member::Named(name) if layout.columns == Some(Axis::Kernel) => names.short(name),
            _ => label(member),
        };
        Column { key: label(member), title, kind }
    }));
    // The sum of a single column would repeat it.
    let has_sum = pivot.columns.len() != 1;
    let max_values = if has_sum { usize::MAX } else { 1 };
    if has_sum {
        columns.push(Column { key: "total".to_owned(), title: sum_title(&layout), kind });
    }
    let is_withheld = withholds_shares(sources, &layout);
    let shown = |value: &Option<CellValue>| if is_withheld { Cell::Empty } else { cell(value) };
    let cells = |values: &[Option<CellValue>]| values.iter().take(max_values).map(shown).collect::<Vec<_>>();
    let row = |member: &Member, values: &[Option<CellValue>]| {
        let head = match member {
            Member::Named(name) if layout.rows == Axis::Kernel => {
                Cell::Kernel { short: names.short(name), full: name.clone() }
            }
            _ => Cell::Text(label(member)),
        };
        [vec![head], cells(values)].concat()
    };
    let totals = [vec![Cell::Text("total".to_owned())], cells(&pivot.totals)].concat();
    Ok(Table {
        id: "pivot".to_owned(),
        title: title(&layout),
        note: note(sources, &pivot),
        gaps: gaps(&pivot),
        columns,
        rows: pivot.rows.iter().map(|pivot_row| row(&pivot_row.member, &pivot_row.cells)).collect(),
        totals: Some(totals),
        ..Table::default()
    })
}

/// Whether the cells are shares of kernels or categories, and durations of some kernels do not belong to their names.
fn withholds_shares(sources: &[Source], layout: &PivotLayout) -> bool {
    let is_shifted = |run: &Run| run.kernels.iter().any(|kernel| kernel.elapsed_share.is_none());
    layout.percent.is_some()
        && layout.values != Measure::Count
        && layout.axes().iter().any(|axis| matches!(axis, Axis::Kernel | Axis::Category))
        && sources.iter().any(|source| is_shifted(source.run))
}

/// Moves the totals into a last row, for CSV.
pub fn with_totals_row(mut table: Table) -> Table {
    if let Some(mut totals) = table.totals.take() {
        let is_by_kernel = table.columns.first().is_some_and(|column| column.kind == Kind::Kernel);
        if let (true, Some(Cell::Text(text))) = (is_by_kernel, totals.first().cloned()) {
            totals.splice(..1, [Cell::Kernel { short: text.clone(), full: text }]);
        }
        table.rows.push(totals);
    }
    table
}

/// The name of an axis in titles and column keys.
fn axis_name(axis: Axis) -> &'static str {
    match axis {
        Axis::Category => "category",
        Axis::Kernel => "kernel",
        Axis::Stage => "stage",
        Axis::Device => "device",
        Axis::Stream => "stream",
        Axis::Process => "process",
        Axis::Run => "run",
        Axis::Step => "step",
    }
}

/// Short forms of kernel names, by full name. The names of several runs are shortened together, so that they differ.
struct ShortNames<'a>(HashMap<&'a str, Cow<'a, str>>);

impl<'a> ShortNames<'a> {
    fn of(sources: &[Source<'a>]) -> Self {
        if let [source] = sources {
            let kernels = source.run.kernels.iter();
            return Self(kernels.map(|kernel| (&*kernel.name, Cow::Borrowed(&*kernel.short_name))).collect());
        }
        let kernels = sources.iter().flat_map(|source| &source.run.kernels);
        let mut full: Vec<&str> = kernels.map(|kernel| kernel.name.as_str()).collect();
        full.sort_unstable();
        full.dedup();
        let demangled: Vec<Cow<str>> = full.iter().map(|name| names::demangle(name)).collect();
        Self(full.into_iter().zip(names::distinct(&demangled).into_iter().map(Cow::Owned)).collect())
    }

    fn short(&self, name: &str) -> String {
        self.0.get(name).map_or_else(|| names::short(name), |short| short.clone().into_owned())
    }
}

fn label(member: &Member) -> String {
    match member {
        Member::Named(name) => name.clone(),
        Member::Others(count) => format!("({count} others)"),
    }
}

fn cell(value: &Option<CellValue>) -> Cell {
    match *value {
        None => Cell::Empty,
        Some(CellValue::Ns(ns)) => Cell::Ns(ns),
        Some(CellValue::MeanNs(ns)) => Cell::MeanNs(ns),
        Some(CellValue::Count(count)) => Cell::Count(count),
        Some(CellValue::Share(share)) => Cell::Share(share),
    }
}

fn sum_title(layout: &PivotLayout) -> String {
    match (layout.columns, layout.values) {
        (Some(Axis::Run), _) => "All runs".to_owned(),
        (Some(_), _) => "All".to_owned(),
        (None, values) => capitalize(measure_word(values).to_owned()),
    }
}

fn measure_word(values: Measure) -> &'static str {
    match values {
        Measure::Elapsed => "elapsed time",
        Measure::Duration => "duration",
        Measure::Exclusive => "exclusive time",
        Measure::Count => "count",
        Measure::Mean => "mean duration",
    }
}

fn title(layout: &PivotLayout) -> String {
    let by = layout.columns.map_or(String::new(), |columns| format!(" and {}", axis_name(columns)));
    capitalize(format!("{} by {}{by}", measure_word(layout.values), axis_name(layout.rows)))
}

fn note(sources: &[Source], pivot: &PivotTable) -> String {
    let layout = &pivot.layout;
    let axes = layout.axes();
    let mut sentences = vec![match layout.values {
        Measure::Elapsed => {
            let runs: Vec<(&str, &Run)> = sources.iter().map(|source| (source.label, source.run)).collect();
            attribution_note(&runs).replace(" Shares are of elapsed time.", "")
        }
        Measure::Duration => "Durations of GPU ops. An overlap counts for each op.".to_owned(),
        Measure::Exclusive => "Time in which the op is the only one running.".to_owned(),
        Measure::Count => "Number of GPU ops.".to_owned(),
        Measure::Mean => "Mean duration of a GPU op. Rows are sorted by the sum of durations.".to_owned(),
    }];
    sentences.extend(layout.percent.map(|base| match base {
        PercentBase::Row => "Percent of the row.".to_owned(),
        PercentBase::Column => "Percent of the column.".to_owned(),
        PercentBase::All => "Percent of the whole table.".to_owned(),
    }));
    if withholds_shares(sources, layout) {
        sentences.push(WITHHELD.to_owned());
    }
    let has_steps_or_stages = axes.iter().any(|axis| matches!(axis, Axis::Step | Axis::Stage));
    if has_steps_or_stages {
        sentences.push("An op belongs to the step whose range contains its launch.".to_owned());
    }
    for (run, size) in &pivot.grouped_steps {
        sentences.push(format!("{run} has too many steps for one table: {size} consecutive steps form a group."));
    }
    if has_steps_or_stages && !pivot.runs_without_steps.is_empty() {
        let stage = if axes.contains(&Axis::Stage) { "; the stage comes from the file name or is unknown" } else { "" };
        sentences.push(format!("No ranges mark steps in {}{stage}.", pivot.runs_without_steps.join(", ")));
    }
    if let Some(Member::Others(count)) = pivot.columns.last() {
        sentences.push(format!("The {MAX_COLUMNS} largest columns are shown; one column sums the other {count}."));
    }
    if let Some(Member::Others(count)) = pivot.rows.last().map(|row| &row.member) {
        sentences.push(format!("The {} largest rows are shown; one row sums the other {count}.", layout.top));
    }
    sentences.join(" ")
}

fn gaps(pivot: &PivotTable) -> Vec<Gap> {
    let why = "A report contains only runs, categories and kernels. Open the trace for stages, steps, devices, streams and processes.";
    pivot
        .runs_without_cells
        .iter()
        .map(|run| Gap { run: run.clone(), why: why.to_owned(), recapture: String::new() })
        .collect()
}

#[cfg(not(target_arch = "wasm32"))]
pub use native::json as pivot_json;

#[cfg(not(target_arch = "wasm32"))]
mod native {
    use super::*;
    use serde_json::{Value, json};

    /// The version of the JSON schema.
    const SCHEMA: &str = "gpuprism-pivot/1";

    /// The table as JSON with exact values: integer nanoseconds, fractions, null for a cell without ops.
    pub fn json(table: &Table) -> String {
        let row = |cells: &Vec<Cell>| cells.iter().map(value).collect::<Vec<Value>>();
        let columns: Vec<&str> = table.columns.iter().map(|column| column.key.as_str()).collect();
        let document = json!({
            "schema": SCHEMA,
            "title": table.title,
            "note": table.note,
            "lacking": table.gaps.iter().map(|gap| &gap.run).collect::<Vec<_>>(),
            "columns": columns,
            "rows": table.rows.iter().map(row).collect::<Vec<_>>(),
            "totals": table.totals.as_ref().map(row),
        });
        crate::json::write_indented(&document)
    }

    fn value(cell: &Cell) -> Value {
        match cell {
            Cell::Text(text) | Cell::Kernel { full: text, .. } => text.as_str().into(),
            Cell::Ns(ns) => (*ns).into(),
            Cell::Count(count) => (*count).into(),
            Cell::MeanNs(value) | Cell::Share(value) => (*value).into(),
            _ => Value::Null,
        }
    }
}
