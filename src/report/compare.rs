//! A comparison in words: the verdict of each run, and what the terminal, Markdown and JSON say of it.

use super::chart::{Delta, Deltas};
use super::format::{change, duration, percent};
use super::markdown::{escape, section as markdown_section};
use super::section_table;
use super::table::{Cell, Table};
use crate::analysis::compare::{Basis, CategoryChange, Change, ComparedRun, Comparison, Outcome};
use crate::analysis::section::Value;
use crate::rules::names;

/// One sentence or two a run beside the baseline, in the order of the runs.
///
/// `B is 7.0 % slower than A per step: 107 ms instead of 100 ms; +12.0 ms in attention, -5.00 ms in gemm.`
pub fn verdict(comparison: &Comparison) -> Vec<String> {
    let others = comparison.runs.iter().filter(|run| run.outcome != Outcome::Baseline);
    others.map(|run| verdict_of(comparison, run)).collect()
}

fn verdict_of(comparison: &Comparison, run: &ComparedRun) -> String {
    let baseline = comparison.runs.get(comparison.baseline).map_or("", |baseline| baseline.label.as_str());
    let Some(change) = &run.change else {
        return format!("{} cannot be compared with {baseline}. {}", run.label, run.reasons.join(" "));
    };
    let per = per(comparison);
    let times = format!("{} instead of {}", duration(change.time_ns), duration(change.baseline_ns));
    let label = &run.label;
    let noise = change.noise_ns.map(|noise| format!("\u{b1}{}", duration(noise.round() as i64)));
    let word = match (run.outcome, &noise) {
        (Outcome::Slower, _) => "slower",
        (Outcome::Faster, _) => "faster",
        _ if change.delta_ns() == 0 => {
            return format!("{label} takes exactly as long as {baseline}{per}: {}.", duration(change.time_ns));
        }
        (Outcome::WithinNoise, Some(noise)) => {
            return format!("{label} takes as long as {baseline}{per}: {times} is within noise ({noise}).");
        }
        _ => return format!("{label} takes about as long as {baseline}{per}: {times}."),
    };
    let size = change.pct().map_or(String::new(), |pct| format!("{} ", size(pct)));
    let noise = noise.map_or(String::new(), |noise| format!(" (noise {noise})"));
    format!(
        "{label} is {size}{word} than {baseline}{per}: {times}{noise}; {}.{}",
        largest_categories(change),
        largest_kernel(comparison, label)
    )
}

/// `7.0 %`, whatever the direction.
fn size(pct: f64) -> String {
    match pct.abs() {
        pct if pct < 0.1 => "less than 0.1 %".to_owned(),
        pct if pct < 9.95 => format!("{pct:.1} %"),
        pct => percent(pct / 100.0),
    }
}

/// A few words on how each run stands to the baseline, in the order of the runs: `+7.0 % per step against A`.
pub fn short_verdicts(comparison: &Comparison) -> Vec<String> {
    let baseline = comparison.runs.get(comparison.baseline).map_or("", |baseline| baseline.label.as_str());
    comparison.runs.iter().map(|run| short_of(comparison, run, baseline)).collect()
}

fn short_of(comparison: &Comparison, run: &ComparedRun, baseline: &str) -> String {
    let per = per(comparison);
    match (run.outcome, &run.change) {
        (Outcome::Baseline, _) => "baseline".to_owned(),
        (Outcome::NotComparable, _) | (_, None) => format!("not comparable with {baseline}"),
        (Outcome::WithinNoise, Some(_)) => format!("within noise of {baseline}{per}"),
        (_, Some(of)) if of.delta_ns() == 0 => format!("same time as {baseline}{per}"),
        (_, Some(of)) => format!("{}{per} against {baseline}", signed(of)),
    }
}

fn per(comparison: &Comparison) -> &'static str {
    if comparison.basis == Basis::Step { " per step" } else { "" }
}

/// `+7.0 %`; the change itself where the baseline took no time.
fn signed(of: &Change) -> String {
    let sign = if of.delta_ns() < 0 { "-" } else { "+" };
    of.pct().map_or_else(|| change(of.delta_ns()), |pct| format!("{sign}{}", size(pct).replace("less than", "<")))
}

/// What changed in each run that could be compared, for the chart, and what its axis shows.
pub fn deltas(comparison: &Comparison) -> (Vec<Deltas>, String) {
    let per = per(comparison);
    let of = |run: &ComparedRun| {
        let of = run.change.as_ref()?;
        let part = |part: &CategoryChange| Delta {
            category: part.category.clone(),
            baseline_ns: part.baseline_ns,
            time_ns: part.time_ns,
        };
        let note = format!("{}{per} ({})", change(of.delta_ns()), signed(of));
        Some(Deltas { label: run.label.clone(), note, parts: of.categories.iter().map(part).collect() })
    };
    (comparison.runs.iter().filter_map(of).collect(), format!("Change{per}"))
}

/// The tables of a comparison.
pub const TABLES: [&str; 3] = ["compare_summary", "compare_categories", "compare_kernels"];

/// One of the [`TABLES`] with all rows and columns, for files.
pub fn full_table(comparison: &Comparison, id: &str) -> Option<Table> {
    comparison.sections.get(id).map(|section| section_table(id, section))
}

/// One of the [`TABLES`] for people: of the run at `run` alone where it was compared, what changed before what it was, and
/// without columns that say nothing; `None` where nothing could be compared. Verdicts and warnings say what `remarks` does.
pub fn table(comparison: &Comparison, id: &str, run: Option<usize>) -> Option<Table> {
    let mut table = full_table(comparison, id)?;
    if id == "compare_summary" {
        return Some(without_empty(table.without("remarks")));
    }
    let compared = comparison.runs.iter().filter(|run| run.change.is_some()).count();
    let chosen = run.and_then(|at| comparison.runs.get(at)).filter(|run| run.change.is_some());
    if let (Some(run), Some(at)) = (chosen, table.columns.iter().position(|column| column.key == "run")) {
        table.rows.retain(|row| row.get(at) == Some(&Cell::Text(run.label.clone())));
    }
    let table = if chosen.is_some() || compared == 1 { table.without("run") } else { table };
    (compared > 0).then(|| change_first(without_empty(table)))
}

/// The columns that say what changed right behind the names.
fn change_first(mut table: Table) -> Table {
    for key in ["cause", "share_of_change_pct", "ratio", "delta_ns"] {
        let place = |key: &str| table.columns.iter().position(|column| column.key == key);
        let (Some(from), Some(category)) = (place(key), place("category")) else { continue };
        let to = category + 1;
        if from > to {
            table.columns.get_mut(to..=from).into_iter().for_each(|columns| columns.rotate_right(1));
            table.rows.iter_mut().filter_map(|row| row.get_mut(to..=from)).for_each(|cells| cells.rotate_right(1));
        }
    }
    table
}

/// Without the columns that say nothing.
pub(super) fn without_empty(table: Table) -> Table {
    let says_nothing = |cell: Option<&Cell>| match cell {
        Some(Cell::Text(text)) => text.is_empty(),
        other => matches!(other, None | Some(Cell::Empty)),
    };
    let is_empty = |at: usize| table.rows.iter().all(|row| says_nothing(row.get(at)));
    let columns = table.columns.iter().enumerate().filter(|(at, _)| is_empty(*at));
    let empty: Vec<String> = columns.map(|(_, column)| column.key.clone()).collect();
    empty.iter().fold(table, |table, key| table.without(key))
}

/// `+12.0 ms in attention, -5.00 ms in gemm`.
fn largest_categories(of: &Change) -> String {
    /// A sentence names no more.
    const NAMED: usize = 4;
    let named = of.categories.iter().take(of.notable_categories.min(NAMED));
    named.map(|part| format!("{} in {}", change(part.delta_ns()), part.category)).collect::<Vec<_>>().join(", ")
}

fn largest_kernel(comparison: &Comparison, run: &str) -> String {
    let Some(section) = comparison.sections.get("compare_kernels") else { return String::new() };
    let row = section.rows.iter().find(|row| {
        let text = |key: &str| row.get(key).and_then(Value::text);
        text("run") == Some(run) && text("cause").is_some_and(|cause| !cause.is_empty())
    });
    let told = row.and_then(|row| {
        let Some(Value::Int(delta)) = row.get("delta_ns") else { return None };
        let cause = row.get("cause")?.text()?;
        Some((names::short(&names::demangle(row.get("kernel_name")?.text()?)), *delta, cause))
    });
    told.map_or(String::new(), |(name, delta, cause)| {
        format!(" Largest change of a kernel: {} in {name} ({cause}).", change(delta))
    })
}

/// Verdict, notes and tables as Markdown.
pub fn markdown(comparison: &Comparison) -> String {
    let mut text = "# Comparison\n\n".to_owned();
    verdict(comparison).iter().for_each(|sentence| text += &format!("- **{}**\n", escape(sentence)));
    for (run, note) in notes(comparison) {
        text += &format!("- {}\n", escape(&format!("{run}{note}")));
    }
    for (table, left_out) in tables(comparison) {
        text += &markdown_section(&table, usize::MAX);
        if left_out > 0 {
            text += &format!("\nand {left_out} more rows in the CSV\n");
        }
    }
    text
}

/// The warnings of each run, which is named where there are several.
fn notes(comparison: &Comparison) -> Vec<(String, &str)> {
    let several = comparison.runs.len() > 2;
    let named = |label: &str| if several { format!("{label}: ") } else { String::new() };
    let runs = comparison.runs.iter();
    runs.flat_map(|run| run.warnings.iter().map(move |note| (named(&run.label), note.as_str()))).collect()
}

/// Kernels that a person reads; CSV and JSON have all.
const KERNELS: usize = 20;

/// Tables for people, each with the number of rows that it leaves out: without what did not change.
fn tables(comparison: &Comparison) -> Vec<(Table, usize)> {
    let several = comparison.runs.iter().filter(|run| run.change.is_some()).count() > 1;
    let mut tables = Vec::new();
    let left_out: [&[&str]; 3] = [
        &["remarks", "elapsed_ns"],
        &[],
        &["found", "ratio", "share_of_change_pct", "launches_delta_ns", "length_delta_ns"],
    ];
    for (id, left_out) in TABLES.into_iter().zip(left_out) {
        let Some(mut table) = full_table(comparison, id) else { continue };
        let delta = table.columns.iter().position(|column| column.key == "delta_ns");
        if id != "compare_summary" {
            table.rows.retain(|row| delta.and_then(|at| row.get(at)) != Some(&Cell::Ns(0)));
            table = if several { table } else { table.without("run") };
            if table.rows.is_empty() {
                continue;
            }
        }
        let table = left_out.iter().fold(without_empty(table), |table, key| table.without(key));
        tables.push(shortened(table, if id == "compare_kernels" { KERNELS } else { usize::MAX }));
    }
    tables
}

fn shortened(mut table: Table, rows: usize) -> (Table, usize) {
    let left_out = table.rows.len().saturating_sub(rows);
    table.rows.truncate(rows);
    (table, left_out)
}

#[cfg(not(target_arch = "wasm32"))]
pub use files::{json, kernels, text};

/// What the command line prints.
#[cfg(not(target_arch = "wasm32"))]
mod files {
    use super::{Change, Comparison, change, full_table, notes, tables, verdict};
    use crate::analysis::compare::Basis;
    use crate::report::format::clean;
    use crate::report::table::Table;
    use crate::report::terminal::{section, wrapped};
    use serde_json::json;
    use unicode_width::UnicodeWidthStr;

    /// The version of the JSON shape.
    const SCHEMA: &str = "gpuprism-comparison/1";

    /// Verdict, notes, changes as bars, tables.
    pub fn text(comparison: &Comparison) -> String {
        let mut text = String::new();
        verdict(comparison).iter().for_each(|sentence| text += &wrapped("", "  ", sentence));
        for (run, note) in notes(comparison) {
            text += &wrapped("  ", "    ", &format!("{run}{note}"));
        }
        for (run, change) in changes(comparison).into_iter().filter(|(_, change)| change.notable_categories > 0) {
            text += &format!("\n{}\n{}", clean(&format!("Changes{run}")), bars(change));
        }
        for (table, left_out) in tables(comparison) {
            text += &section(&table, 0);
            if left_out > 0 {
                text += &format!("  and {left_out} more: `--format csv` prints all\n");
            }
        }
        text
    }

    /// The table of all kernels.
    pub fn kernels(comparison: &Comparison) -> Table {
        full_table(comparison, "compare_kernels").unwrap_or_default()
    }

    /// The stable JSON for scripts; docs/json.md lists its fields.
    pub fn json(comparison: &Comparison) -> String {
        let mut sentences = verdict(comparison).into_iter();
        let runs: Vec<serde_json::Value> = comparison
            .runs
            .iter()
            .enumerate()
            .map(|(at, run)| {
                let change = run.change.as_ref();
                let said = if at == comparison.baseline { None } else { sentences.next() };
                json!({
                    "label": run.label,
                    "outcome": run.outcome.word(),
                    "verdict": said,
                    "reasons": run.reasons,
                    "warnings": run.warnings,
                    "baseline_ns": change.map(|change| change.baseline_ns),
                    "compared_ns": change.map(|change| change.time_ns),
                    "delta_ns": change.map(|change| change.delta_ns()),
                    "delta_pct": change.and_then(|change| change.pct()),
                    "noise_ns": change.and_then(|change| change.noise_ns),
                })
            })
            .collect();
        let whole = json!({
            "schema": SCHEMA,
            "baseline": comparison.runs.get(comparison.baseline).map(|run| &run.label),
            "basis": if comparison.basis == Basis::Step { "step" } else { "total" },
            "comparable": comparison.is_possible(),
            "runs": runs,
            "sections": comparison.sections,
        });
        serde_json::to_string_pretty(&whole).unwrap_or_default() + "\n"
    }

    fn changes(comparison: &Comparison) -> Vec<(String, &Change)> {
        let several = comparison.runs.len() > 2;
        let named = |label: &str| if several { format!(": {label}") } else { String::new() };
        comparison.runs.iter().filter_map(|run| Some((named(&run.label), run.change.as_ref()?))).collect()
    }

    /// A line a category that changed: what shrank to the left, what grew to the right.
    fn bars(of: &Change) -> String {
        const HALF: usize = 24;
        let largest = of.categories.first().map_or(1, |first| first.delta_ns().unsigned_abs()).max(1);
        let told = of.categories.iter().take(of.notable_categories);
        let rows: Vec<(String, String, i64)> =
            told.map(|part| (clean(&part.category), change(part.delta_ns()), part.delta_ns())).collect();
        let wide = rows.iter().map(|row| row.0.width()).max().unwrap_or(0);
        let mut text = String::new();
        for (category, shown, delta) in rows {
            let length = (delta.unsigned_abs() as f64 / largest as f64 * HALF as f64).round() as usize;
            let (left, right) = if delta < 0 { (length, 0) } else { (0, length) };
            let blanks = " ".repeat(wide.saturating_sub(category.width()));
            let line = format!("  {category}{blanks}  {shown:>9}  {:>HALF$}|{}", "#".repeat(left), "#".repeat(right));
            text += &format!("{}\n", line.trim_end());
        }
        text
    }
}
