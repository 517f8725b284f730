//! Formats a comparison of runs (`analysis::compare`): verdicts, tables, terminal text, Markdown, JSON.

use super::chart::{Delta, Deltas};
use super::format::{change, duration, percent};
use super::markdown::{escape, section as markdown_section};
use super::palette;
use super::section_table;
use super::sections::section_short_names;
use super::table::{Cell, Table};
use crate::analysis::CPU;
use crate::analysis::compare::{Basis, CategoryChange, Change, ComparedRun, Comparison, Load, Outcome, StageShift};
use crate::analysis::section::Value;
use crate::digits::grouped;
use crate::words::stages;

/// A few sentences per run except the baseline, in the order of the runs. The last one names the unit of work.
///
/// `B is 7.0 % slower than A per step: 107 ms instead of 100 ms; +12.0 ms in attention, -5.00 ms in gemm.`
pub fn verdict(comparison: &Comparison) -> Vec<String> {
    let others = comparison.runs.iter().filter(|run| run.outcome != Outcome::Baseline);
    others.map(|run| verdict_of(comparison, run)).collect()
}

fn verdict_of(comparison: &Comparison, run: &ComparedRun) -> String {
    let baseline = baseline_label(comparison);
    let Some(change) = &run.change else { return refusal(run, baseline) };
    let gpus = run.other_gpus.as_ref().map(|[before, after]| format!(" GPUs differ: {after} instead of {before}."));
    let unit = long_steps(run, baseline) + &unit_sentence(comparison, run) + &gpus.unwrap_or_default();
    let head = Head::of(run, change);
    let (label, per, times) = (&run.label, per(comparison, run), &head.times);
    let word = match (run.outcome, &head.noise) {
        (Outcome::Slower, _) => "slower",
        (Outcome::Faster, _) => "faster",
        _ if head.is_exact => {
            return format!("{label} takes exactly as long as {baseline}{per}: {}. {unit}", head.time);
        }
        (Outcome::WithinNoise, Some(noise)) => {
            return format!(
                "{label} takes as long as {baseline}{per}: {times} is within noise ({}). {unit}",
                noise.trim_start_matches("noise ")
            );
        }
        _ => return format!("{label} takes about as long as {baseline}{per}: {times}. {unit}"),
    };
    let size = run.pct().map_or(String::new(), |pct| format!("{} ", size(pct)));
    let noise = head.noise.as_ref().map_or(String::new(), |noise| format!(" ({noise})"));
    // The categories and kernels of a run mix its stages.
    let explains = explains(run, change) && !has_several_stages(run);
    // On another GPU, kernels have other names: most of them are new or gone.
    let has_kernel = run.other_gpus.is_none() && explains;
    let kernel = if has_kernel { largest_kernel(comparison, label) } else { String::new() };
    let parts = match largest_categories(change) {
        parts if parts.is_empty() || !explains => stage_parts(run),
        parts if run.main_stage.is_some() => format!("; of the mean step, {parts}"),
        parts => format!("; {parts}"),
    };
    format!("{label} is {size}{word} than {baseline}{per}: {times}{noise}{parts}.{kernel} {unit}")
}

/// What is known of a run that cannot be compared: first the stages that both runs have, then why there is no verdict.
fn refusal(run: &ComparedRun, baseline: &str) -> String {
    let reasons = run.reasons.join(" ");
    match (run.estimated_stages.is_empty(), estimate(run)) {
        (false, Some(estimate)) => {
            format!("{} cannot be compared with {baseline} as a whole. {estimate} {reasons}", run.label)
        }
        (_, estimate) => {
            let why = run.reasons.iter().chain(&estimate).map(String::as_str).collect::<Vec<_>>().join(" ");
            format!("{} cannot be compared with {baseline}. {why}", run.label)
        }
    }
}

/// The estimate of a run that cannot be compared: `An estimate and no verdict: a decode step takes 1.20 ms instead of 724 us (+66 %, medians
/// of 3 and 31 steps).`
fn estimate(run: &ComparedRun) -> Option<String> {
    let of_stage = |stage: &StageShift| {
        let [before, after] = [stage.baseline_median_ns, stage.median_ns].map(|ns| duration(ns.round() as i64));
        let noise = stage.interval_ns.map(|interval| format!(", {}", between(interval))).unwrap_or_default();
        format!(
            "a {} takes {after} instead of {before} ({}{noise}, medians of {} and {} steps)",
            stages::step(stage.stage.label()),
            signed(stage.pct(), stage.shift_ns.round() as i64),
            grouped(stage.steps as u64),
            grouped(stage.baseline_steps as u64)
        )
    };
    if run.estimated_stages.is_empty() {
        return run.estimate.clone();
    }
    let stages: Vec<String> = run.estimated_stages.iter().map(of_stage).collect();
    let is_unknown = run.estimated_stages.iter().any(|stage| stage.load == Load::Unknown);
    let why = if is_unknown { ", because only one run states its batch and tokens" } else { "" };
    Some(format!("An estimate and no verdict{why}: {}.", stages.join("; ")))
}

/// Whether the mean step of a run is a mean over stages.
fn has_several_stages(run: &ComparedRun) -> bool {
    run.main_stage.iter().count() + run.other_stages.len() > 1
}

/// What the change of the mean step of the main stage is made of. Empty if that is not known or contradicts the change of the median.
fn stage_parts(run: &ComparedRun) -> String {
    let Some((stage, parts)) = run.main_stage.as_ref().and_then(|stage| Some((stage, stage.parts?))) else {
        return String::new();
    };
    if (stage.shift_ns > 0.0) != (stage.mean.delta_ns > 0.0) {
        return String::new();
    }
    let rounded = |ns: f64| ns.round() as i64;
    let named = [
        (parts.busy_ns, "GPU busy"),
        (parts.host_late_ns, "waiting for late launches"),
        (parts.other_idle_ns, "other idle time"),
    ];
    let named: Vec<String> = named
        .into_iter()
        .filter(|(ns, _)| rounded(*ns) != 0)
        .map(|(ns, name)| format!("{} {name}", change(rounded(ns))))
        .collect();
    let step = stages::step(stage.stage.label());
    format!("; of the mean {step}, {}: {}", change(rounded(stage.mean.delta_ns)), named.join(", "))
}

/// What long steps add, if they make the mean step of the main stage change otherwise than the usual one, with a space after it: `But the
/// mean decode step is 104 % longer: 3.01 ms instead of 1.47 ms (noise ±1.32 ms); 5 of 57 steps last longer than every one of A. `
fn long_steps(run: &ComparedRun, baseline: &str) -> String {
    let Some((stage, mean)) = run.main_stage.and_then(|stage| Some((stage, stage.long_steps()?))) else {
        return String::new();
    };
    let [before, delta] = [mean.baseline_ns, mean.delta_ns].map(|ns| ns.round() as i64);
    let times = format!("{} instead of {}", duration(before.saturating_add(delta)), duration(before));
    let noise = match mean.noise_ns.map(|noise| duration(noise.round() as i64)) {
        Some(noise) if mean.is_proven() => format!(" (noise \u{b1}{noise})"),
        Some(noise) => format!(", which may be noise (\u{b1}{noise}): compare more steps"),
        None => String::new(),
    };
    let step = stages::step(stage.stage.label());
    let longer = |count: usize, steps: usize, of: &str, than: &str| {
        format!(
            "; {} of {} steps{of} last longer than every one of {than}",
            grouped(count as u64),
            grouped(steps as u64)
        )
    };
    let counts = match delta > 0 {
        true if mean.longer_than_all > 0 => longer(mean.longer_than_all, stage.steps, "", baseline),
        false if mean.baseline_longer_than_all > 0 => {
            longer(mean.baseline_longer_than_all, stage.baseline_steps, &format!(" of {baseline}"), &run.label)
        }
        _ => String::new(),
    };
    let size = mean.pct().map_or(String::new(), size);
    let word = if delta > 0 { "longer" } else { "shorter" };
    let limit = if stage.may_be_other_work() {
        format!(
            "The GPU works {word} in them, and nothing names their work: if it is other work, this is no change, so it is not judged. "
        )
    } else {
        String::new()
    };
    format!("But the mean {step} is {size} {word}: {times}{noise}{counts}. {limit}")
}

/// `95 %: +1.00 us to +2.00 us`.
fn between((low, high): (i64, i64)) -> String {
    match [change(low), change(high)] {
        [low, high] if low == high => format!("95 %: {low}"),
        [low, high] => format!("95 %: {low} to {high}"),
    }
}

/// Whether the changes by category and by kernel, which are those of the mean step, explain the outcome.
fn explains(run: &ComparedRun, change: &Change) -> bool {
    let has_same_sign = |stage: &StageShift| (stage.shift_ns > 0.0) == (change.delta_ns() > 0);
    change.notable_categories > 0 && run.main_stage.as_ref().is_none_or(has_same_sign)
}

/// The times that a verdict compares: those of the main stage if there is one, else the means of the runs.
struct Head {
    /// The time of the run, if both are exactly as long.
    time: String,
    /// `107 ms instead of 100 ms`, or `+7.00 ms on 100 ms`.
    times: String,
    /// What is known of the noise.
    noise: Option<String>,
    /// Whether the times are the same to the nanosecond.
    is_exact: bool,
}

impl Head {
    fn of(run: &ComparedRun, run_change: &Change) -> Self {
        let rounded = |ns: f64| ns.round() as i64;
        match run.main_stage {
            Some(stage) => {
                // The change of a step is no difference of medians: where steps are of two lengths, these differ in another way.
                let time = duration(rounded(stage.baseline_median_ns));
                Self {
                    times: format!("{} on {time}", change(rounded(stage.shift_ns))),
                    time,
                    noise: stage.interval_ns.map(between),
                    is_exact: stage.shift_ns == 0.0 && stage.mean.delta_ns == 0.0,
                }
            }
            None => {
                let time = duration(run_change.time_ns);
                Self {
                    times: format!("{time} instead of {}", duration(run_change.baseline_ns)),
                    time,
                    noise: run_change.noise_ns.map(|noise| format!("noise \u{b1}{}", duration(rounded(noise)))),
                    is_exact: run_change.delta_ns() == 0,
                }
            }
        }
    }
}

/// ` per decode step`.
fn per_step(stage: &StageShift) -> String {
    format!(" per {}", stages::step(stage.stage.label()))
}

/// The unit of work of a comparison and how it was found.
fn unit_sentence(comparison: &Comparison, run: &ComparedRun) -> String {
    let units = |run: &ComparedRun| run.units.unwrap_or(0.0);
    let (label, baseline) = (&run.label, baseline_label(comparison));
    let before = comparison.runs.get(comparison.baseline).map_or(0.0, units);
    let counts = format!("{} in {label}, {} in {baseline}", amount(units(run)), amount(before));
    match comparison.basis {
        Basis::Step => format!("The unit is a step, {} ({counts}).", comparison.steps_found),
        Basis::Token => format!("The unit is 1,000 tokens of the steps (tokens: {counts})."),
        Basis::Range => {
            let sum = if comparison.timelines > 1 { "; times are device time, summed over the devices" } else { "" };
            format!("The unit is the range `{}` ({counts}){sum}.", comparison.range)
        }
        Basis::Launches => format!(
            "The unit is the work of {baseline}, from launch counts: {label} launched the kernels of both runs {:.2} times \
             as often.",
            units(run)
        ),
        Basis::Total => {
            "The unit is the whole capture: the kernels of both runs were launched equally often.".to_owned()
        }
    }
}

/// A count without decimals unless it is a mean.
fn amount(count: f64) -> String {
    if count.fract() == 0.0 { grouped(count as u64) } else { format!("{count:.1}") }
}

/// The absolute value: `7.0 %`.
fn size(pct: f64) -> String {
    match pct.abs() {
        pct if pct < 0.1 => "less than 0.1 %".to_owned(),
        pct if pct < 9.95 => format!("{pct:.1} %"),
        pct => percent(pct / 100.0),
    }
}

fn baseline_label(comparison: &Comparison) -> &str {
    comparison.runs.get(comparison.baseline).map_or("", |baseline| baseline.label.as_str())
}

/// A few words per run, in the order of the runs, of which one is called the baseline: `+7.0 % per step`.
pub fn short_verdicts(comparison: &Comparison) -> Vec<String> {
    comparison.runs.iter().map(|run| short_verdict(comparison, run)).collect()
}

fn short_verdict(comparison: &Comparison, run: &ComparedRun) -> String {
    let Some(run_change) = &run.change else {
        return match run.estimated_stages.as_slice() {
            _ if run.outcome == Outcome::Baseline => "baseline".to_owned(),
            [] => "not comparable with the baseline".to_owned(),
            stages => {
                let of_stage = |stage: &StageShift| format!("{}{}", signed(stage.pct(), 0), per_step(stage));
                format!("{}, an estimate", stages.iter().map(of_stage).collect::<Vec<_>>().join(", "))
            }
        };
    };
    let per = per(comparison, run);
    let of_main = match run.outcome {
        Outcome::WithinNoise => "within noise of the baseline".to_owned(),
        Outcome::Same if Head::of(run, run_change).is_exact => "same time as the baseline".to_owned(),
        _ => format!("{}{per}", signed(run.pct(), run_change.delta_ns())),
    };
    // A change of another stage counts, too.
    let proven = run.other_stages.iter().filter(|stage| stage.is_proven());
    let text = proven.fold(of_main, |text, stage| text + &format!(", {}{}", signed(stage.pct(), 0), per_step(stage)));
    let long_steps = run.main_stage.and_then(|stage| Some((stage, stage.proven_pct_of_long_steps()?)));
    match long_steps {
        Some((stage, pct)) => {
            format!("{text}, {} per mean {}", signed(Some(pct), 0), stages::step(stage.stage.label()))
        }
        None => text,
    }
}

/// The unit of the times that the outcome compares.
fn per(comparison: &Comparison, run: &ComparedRun) -> String {
    run.main_stage.as_ref().map_or_else(|| per_mean(comparison).to_owned(), per_step)
}

/// The unit of the means, which add up.
fn per_mean(comparison: &Comparison) -> &'static str {
    match comparison.basis {
        Basis::Step if comparison.has_work_outside_steps => " per step with the work around it",
        Basis::Step if comparison.runs.iter().any(has_several_stages) => " per step of any stage",
        Basis::Step => " per step",
        Basis::Token => " per 1,000 tokens",
        Basis::Range => " per range",
        Basis::Launches => " for the same work",
        Basis::Total if comparison.timelines > 1 => " per device",
        Basis::Total => "",
    }
}

/// `+7.0 %`, or the difference in time if the baseline took no time.
fn signed(pct: Option<f64>, delta_ns: i64) -> String {
    match pct {
        Some(pct) => format!("{}{}", if pct < 0.0 { "-" } else { "+" }, size(pct).replace("less than", "<")),
        None => change(delta_ns),
    }
}

/// The changes of all comparable runs for the chart, and the name of its axis.
pub fn deltas(comparison: &Comparison) -> (Vec<Deltas>, String) {
    let per = per_mean(comparison);
    let deltas_of = |run: &ComparedRun| {
        let run_change = run.change.as_ref()?;
        let part = |part: &CategoryChange| Delta {
            category: part.category.clone(),
            baseline_ns: part.baseline_ns,
            time_ns: part.time_ns,
        };
        let delta_ns = run_change.delta_ns();
        let note = format!("{}{per} ({})", change(delta_ns), signed(run_change.pct(), delta_ns));
        Some(Deltas { label: run.label.clone(), note, parts: run_change.categories.iter().map(part).collect() })
    };
    (comparison.runs.iter().filter_map(deltas_of).collect(), format!("Change{per}"))
}

/// The tables of a comparison.
pub const TABLES: [&str; 8] = [
    "compare_summary",
    "compare_categories",
    "compare_kernels",
    "compare_steps",
    "compare_paths",
    "compare_roles",
    "compare_floor",
    "compare_step_times",
];

/// Tables that do not need runs with a common unit of work.
const WITHOUT_UNIT: [&str; 3] = ["compare_roles", "compare_floor", "compare_step_times"];

/// One of the [`TABLES`] with all rows and columns, for exports.
pub fn full_table(comparison: &Comparison, id: &str) -> Option<Table> {
    comparison.sections.get(id).map(|section| section_table(id, section))
}

/// One of the [`TABLES`] for people: the row of idle time is named as in charts.
fn shown_table(comparison: &Comparison, id: &str) -> Option<Table> {
    let mut table = full_table(comparison, id)?;
    for cell in table.rows.iter_mut().flatten() {
        if let Cell::Kernel { short, full } = cell
            && full == CPU
        {
            palette::title(CPU).clone_into(short);
        }
    }
    Some(table)
}

/// One of the [`TABLES`] for display: changes come first, and empty columns are left out. If the run with the index
/// `run` was compared, only its rows are kept. `None` if no run could be compared, or if no layers or floors are known. The column `remarks` is dropped,
/// because the page shows verdicts and warnings separately.
pub fn table(comparison: &Comparison, id: &str, run: Option<usize>) -> Option<Table> {
    let mut table = shown_table(comparison, id)?;
    if id == "compare_summary" {
        return Some(table.without("remarks").without_empty_columns());
    }
    let shown = shown_runs(comparison, id, run);
    if let ([(_, only)], Some(column)) = (&shown[..], table.columns.iter().position(|column| column.key == "run")) {
        table.rows.retain(|row| row.get(column) == Some(&Cell::Text(only.label.clone())));
    }
    let table = if shown.len() == 1 { table.without("run") } else { table };
    let has_rows = has_unit(id) || !table.rows.is_empty();
    (!shown.is_empty() && has_rows).then(|| change_first(table.without_empty_columns()))
}

fn has_unit(table: &str) -> bool {
    !WITHOUT_UNIT.contains(&table)
}

/// Index and result of the runs with rows in a table: of the run with the index `run` if it was compared, else of all runs that were.
pub(super) fn shown_runs<'a>(
    comparison: &'a Comparison,
    table: &str,
    run: Option<usize>,
) -> Vec<(usize, &'a ComparedRun)> {
    let is_shown = |run: &ComparedRun| {
        let is_estimated = table == "compare_steps" && !run.estimated_stages.is_empty();
        if has_unit(table) { run.change.is_some() || is_estimated } else { run.outcome != Outcome::Baseline }
    };
    let all: Vec<_> = comparison.runs.iter().enumerate().filter(|(_, run)| is_shown(run)).collect();
    let chosen = all.iter().find(|(index, _)| Some(*index) == run).copied();
    chosen.map_or(all, |chosen| vec![chosen])
}

/// Moves the columns with changes directly after the names.
fn change_first(mut table: Table) -> Table {
    for key in ["cause", "share_of_change_pct", "ratio", "delta_ns"] {
        let index_of = |key: &str| table.columns.iter().position(|column| column.key == key);
        let (Some(from), Some(category)) = (index_of(key), index_of("category")) else { continue };
        let to = category + 1;
        if from > to {
            table.columns.get_mut(to..=from).into_iter().for_each(|columns| columns.rotate_right(1));
            table.rows.iter_mut().filter_map(|row| row.get_mut(to..=from)).for_each(|cells| cells.rotate_right(1));
        }
    }
    table
}

/// `+12.0 ms in attention, -5.00 ms in gemm`.
fn largest_categories(run_change: &Change) -> String {
    const MAX_NAMED: usize = 4;
    let named = run_change.categories.iter().take(run_change.notable_categories.min(MAX_NAMED));
    named
        .map(|part| format!("{} in {}", change(part.delta_ns()), palette::title(&part.category)))
        .collect::<Vec<_>>()
        .join(", ")
}

fn largest_kernel(comparison: &Comparison, run: &str) -> String {
    let Some(section) = comparison.sections.get("compare_kernels") else { return String::new() };
    // The short name of the table.
    let short = |name: &str| section_short_names(section).remove(name).unwrap_or_default();
    let row = section.rows.iter().find(|row| {
        let text = |key: &str| row.get(key).and_then(Value::text);
        text("run") == Some(run) && text("cause").is_some_and(|cause| !cause.is_empty())
    });
    let largest = row.and_then(|row| {
        let Some(Value::Int(delta)) = row.get("delta_ns") else { return None };
        let cause = row.get("cause")?.text()?;
        Some((short(row.get("kernel_name")?.text()?), *delta, cause))
    });
    largest.map_or(String::new(), |(name, delta, cause)| {
        format!(" Largest kernel change: {} in {name} ({cause}).", change(delta))
    })
}

/// Verdicts, warnings and tables as Markdown.
pub fn markdown(comparison: &Comparison) -> String {
    let mut text = "# Comparison\n\n".to_owned();
    verdict(comparison).iter().for_each(|sentence| text += &format!("- **{}**\n", escape(sentence)));
    for (run, note) in notes(comparison) {
        text += &format!("- {}\n", escape(&format!("{run}{note}")));
    }
    comparison.trust.iter().for_each(|row| text += &format!("- {}\n", escape(&row.text)));
    for (table, left_out) in tables(comparison) {
        text += &markdown_section(&table, usize::MAX);
        if left_out > 0 {
            text += &format!("\n{left_out} more rows are in the CSV\n");
        }
    }
    text
}

/// The warnings of all runs, each with the label of its run if several runs are compared.
fn notes(comparison: &Comparison) -> Vec<(String, &str)> {
    let several = comparison.runs.len() > 2;
    let named = |label: &str| if several { format!("{label}: ") } else { String::new() };
    let runs = comparison.runs.iter();
    runs.flat_map(|run| run.warnings.iter().map(move |note| (named(&run.label), note.as_str()))).collect()
}

/// The maximum number of kernels, and of parts of the critical path, in text and Markdown; CSV and JSON contain all.
const MAX_KERNELS: usize = 20;

/// The tables for text and Markdown without unchanged rows, each with the number of rows that were cut off.
fn tables(comparison: &Comparison) -> Vec<(Table, usize)> {
    let mut tables = Vec::new();
    let hidden_columns: [&[&str]; TABLES.len()] = [
        &["remarks", "elapsed_ns"],
        &[],
        &["found", "ratio", "share_of_change_pct", "launches_delta_ns", "length_delta_ns"],
        &["mean_delta_ns", "mean_noise_ns", "busy_delta_ns", "host_late_delta_ns", "other_idle_delta_ns"],
        &["file", "line"],
        &[],
        &[],
        &[],
    ];
    for (id, hidden) in TABLES.into_iter().zip(hidden_columns) {
        let Some(mut table) = shown_table(comparison, id) else { continue };
        let delta = table.columns.iter().position(|column| column.key == "delta_ns");
        if id != "compare_summary" {
            table.rows.retain(|row| delta.and_then(|index| row.get(index)) != Some(&Cell::Ns(0)));
            table = if comparison.runs.len() > 2 { table } else { table.without("run") };
            if table.rows.is_empty() {
                continue;
            }
        }
        let mut table = hidden.iter().fold(table.without_empty_columns(), |table, key| table.without(key));
        let max_rows = if ["compare_kernels", "compare_paths"].contains(&id) { MAX_KERNELS } else { usize::MAX };
        let left_out = table.rows.len().saturating_sub(max_rows);
        table.rows.truncate(max_rows);
        tables.push((table, left_out));
    }
    tables
}

#[cfg(not(target_arch = "wasm32"))]
pub use files::{json, text};

/// The output formats of the command line.
#[cfg(not(target_arch = "wasm32"))]
mod files {
    use super::{Change, Comparison, change, estimate, notes, palette, tables, unit_sentence, verdict};
    use crate::analysis::compare::Basis;
    use crate::report::format::clean;
    use crate::report::terminal::{section, wrapped};
    use serde_json::json;
    use unicode_width::UnicodeWidthStr;

    /// The version of the JSON schema.
    const SCHEMA: &str = "gpuprism-comparison/1";

    /// Verdicts, warnings, bars and tables as plain text.
    pub fn text(comparison: &Comparison, width: Option<usize>) -> String {
        let mut text = String::new();
        verdict(comparison).iter().for_each(|sentence| text += &wrapped(width, "", "  ", sentence));
        for (run, note) in notes(comparison) {
            text += &wrapped(width, "  ", "    ", &format!("{run}{note}"));
        }
        comparison.trust.iter().for_each(|row| text += &wrapped(width, "  ", "    ", &row.text));
        for (run, change) in changes(comparison).into_iter().filter(|(_, change)| change.notable_categories > 0) {
            text += &format!("\n{}\n{}", clean(&format!("Changes{run}")), bars(change, width));
        }
        for (table, left_out) in tables(comparison) {
            text += &section(&table, 0, width);
            if left_out > 0 {
                text += &format!("  {left_out} more rows: `--format csv` prints all\n");
            }
        }
        text
    }

    /// The JSON for scripts; docs/json.md lists its fields.
    pub fn json(comparison: &Comparison) -> String {
        let mut verdicts = verdict(comparison).into_iter();
        let runs: Vec<serde_json::Value> = comparison
            .runs
            .iter()
            .enumerate()
            .map(|(index, run)| {
                let change = run.change.as_ref();
                let verdict = if index == comparison.baseline { None } else { verdicts.next() };
                json!({
                    "label": run.label,
                    "outcome": run.outcome.word(),
                    "verdict": verdict,
                    "reasons": run.reasons,
                    "estimate": estimate(run),
                    "warnings": run.warnings,
                    "units": run.units,
                    "unit": change.map(|_| unit_sentence(comparison, run)),
                    "baseline_ns": change.map(|change| change.baseline_ns),
                    "compared_ns": change.map(|change| change.time_ns),
                    "delta_ns": change.map(|change| change.delta_ns()),
                    "delta_pct": change.and_then(|change| change.pct()),
                    "noise_ns": change.and_then(|change| change.noise_ns),
                    "stage": run.main_stage.map(|stage| stage.stage.label()),
                    "stage_pct": run.main_stage.and_then(|stage| stage.pct()),
                })
            })
            .collect();
        let trust: Vec<serde_json::Value> = comparison
            .trust
            .iter()
            .map(|row| json!({ "id": row.id, "text": row.text, "affects": row.affects }))
            .collect();
        let whole = json!({
            "schema": SCHEMA,
            "baseline": comparison.runs.get(comparison.baseline).map(|run| &run.label),
            "basis": comparison.basis.word(),
            "unit_range": (comparison.basis == Basis::Range).then_some(&comparison.range),
            "devices_summed": comparison.basis == Basis::Range && comparison.timelines > 1,
            "comparable": comparison.is_possible(),
            "runs": runs,
            "trust": trust,
            "sections": comparison.sections,
        });
        crate::json::write_indented(&whole)
    }

    /// The change of each comparable run, with `: label` if several runs are compared.
    fn changes(comparison: &Comparison) -> Vec<(String, &Change)> {
        let several = comparison.runs.len() > 2;
        let named = |label: &str| if several { format!(": {label}") } else { String::new() };
        comparison.runs.iter().filter_map(|run| Some((named(&run.label), run.change.as_ref()?))).collect()
    }

    /// One line per notable category: a bar to the left for a decrease, to the right for an increase.
    fn bars(run_change: &Change, width: Option<usize>) -> String {
        const MAX_HALF: usize = 24;
        /// The columns of the change, the axis and the blanks between them.
        const OTHERS: usize = 16;
        let largest = run_change.categories.first().map_or(1, |first| first.delta_ns().unsigned_abs()).max(1);
        let notable = run_change.categories.iter().take(run_change.notable_categories);
        let rows: Vec<(String, String, i64)> = notable
            .map(|part| (clean(palette::title(&part.category)), change(part.delta_ns()), part.delta_ns()))
            .collect();
        let name_width = rows.iter().map(|row| row.0.width()).max().unwrap_or(0);
        let room = width.map_or(MAX_HALF, |width| width.saturating_sub(name_width + OTHERS) / 2);
        let half = room.clamp(1, MAX_HALF);
        let mut text = String::new();
        for (category, shown, delta) in rows {
            let length = (delta.unsigned_abs() as f64 / largest as f64 * half as f64).round() as usize;
            let (left, right) = if delta < 0 { (length, 0) } else { (0, length) };
            let blanks = " ".repeat(name_width.saturating_sub(category.width()));
            let line = format!("  {category}{blanks}  {shown:>9}  {:>half$}|{}", "#".repeat(left), "#".repeat(right));
            text += &format!("{}\n", line.trim_end());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::compare::compare;
    use crate::analysis::results::Run;
    use crate::session::{self, Choices};
    use crate::trace::testing::TestTrace;

    /// Decode steps of 90 us and as many prefill steps of so many microseconds.
    fn run(prefill: i64) -> Run {
        let (mut trace, mut at) = (TestTrace::new(), 0);
        trace.in_us();
        for step in 0..12 {
            let decode = ("step[DECODE bs=4]", 90);
            let (name, length) = if step % 2 == 0 { ("step[EXTEND bs=1 toks=99]", prefill) } else { decode };
            trace.range(name, at..at + 10).launch(at + 1..at + 2).launches("gemm", at + 5..at + 5 + length / 2);
            at += length;
        }
        session::run(&trace.finish(), &Choices::default()).unwrap()
    }

    /// Decode steps of this name whose kernels last so many microseconds, after as many prefill steps as asked for.
    fn decoding(label: &str, prefills: i64, (name, kernels): (&str, &[i64])) -> Run {
        let (mut trace, mut at) = (TestTrace::new(), 0);
        trace.in_us().label(label);
        let prefills = (0..prefills).map(|_| ("step[EXTEND bs=1 toks=99]", 900));
        for (name, kernel) in prefills.chain(kernels.iter().map(|kernel| (name, *kernel))) {
            trace.range(name, at..at + 10).launch(at + 1..at + 2).launches("gemm", at + 5..at + 5 + kernel);
            at += 15 + kernel;
        }
        session::run(&trace.finish(), &Choices::default()).unwrap()
    }

    #[test]
    fn of_runs_that_cannot_be_compared_the_stage_that_both_have_is_estimated_first() {
        let (a, b) =
            (decoding("a", 9, ("step[DECODE bs=4]", &[100; 30])), decoding("b", 0, ("step[DECODE]", &[150; 3])));
        let compared = compare(&[("a", &a), ("b", &b)], 0);
        let words = verdict(&compared).remove(0);
        let start = "b cannot be compared with a as a whole. An estimate and no verdict, because only one run states its batch \
                     and tokens: a decode step takes 165 us instead of 115 us (+43.5 %, 95 %: +50.0 us, medians of 2 and 29 steps).";
        assert!(words.starts_with(start), "{words}");
        assert!(words.contains("different stages of serving"), "{words}");
        assert_eq!(short_verdicts(&compared)[1], "+43.5 % per decode step, an estimate");
        let steps = table(&compared, "compare_steps", None).unwrap();
        assert_eq!(steps.rows.len(), 1);
        assert!(table(&compared, "compare_kernels", None).is_none());
    }

    #[test]
    fn the_parts_in_the_verdict_are_those_of_its_stage() {
        let decode = |kernel: i64| decoding("", 1, ("step[DECODE bs=4]", &[kernel; 12]));
        let (a, b) = (decode(100), decode(110));
        let compared = compare(&[("a", &a), ("b", &b)], 0);
        let words = verdict(&compared).remove(0);
        assert!(words.contains("; of the mean decode step, +10.0 us: +10.0 us GPU busy."), "{words}");
        assert!(!words.contains("Largest kernel change"), "{words}");
        assert_eq!(deltas(&compared).1, "Change per step of any stage");
    }

    #[test]
    fn the_few_words_name_a_changed_stage_beside_the_main_one() {
        let (a, b) = (run(60), run(66));
        assert_eq!(
            short_verdicts(&compare(&[("a", &a), ("b", &b)], 0)),
            ["baseline", "same time as the baseline, +10.0 % per prefill step"]
        );
    }
}
