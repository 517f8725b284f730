//! The report on one screen of a terminal: verdict, facts, steps, categories, findings, notes on trust, top kernels. The
//! last line says what is left out. If the parts need more than [`MAX_LINES`] lines, they are shortened one after the
//! other, in the order of [`TIGHTER`].

use super::grid::{self, Fit, Heading, wrap};
use crate::analysis::findings::{Confidence, FindingId};
use crate::analysis::rest::{self, Rest};
use crate::analysis::results::{Notice, Run, Severity};
use crate::analysis::section::Value;
use crate::digits::grouped;
use crate::report::findings::{Finding, merged_findings, of_run};
use crate::report::format::{clean, counted, headings, shown};
use crate::report::table::{Cell, Column, Kind, Table};
use crate::report::tables::{first_kernels, severity};
use crate::report::text::{category_shares, facts, verdict};
use crate::report::{Report, groups, is_builtin_table, table};
use unicode_width::UnicodeWidthStr;

/// The width if the terminal does not tell its own.
pub const DEFAULT_WIDTH: usize = 120;
/// Narrower terminals wrap the lines.
const MIN_WIDTH: usize = 80;
/// Longer lines are hard to read.
const MAX_WIDTH: usize = 160;
/// The title of shares of the busy time, which is short to leave room for names.
const BUSY_SHARE: &str = "Of busy";
/// The lines of one screen.
const MAX_LINES: usize = 40;
/// The maximum number of kernels without `--limit`.
const KERNELS: usize = 10;
/// The maximum number of runs whose verdicts are printed.
const MAX_VERDICTS: usize = 3;
/// The maximum number of runs in the table of runs.
const RUNS: usize = 16;

/// The maximum number of lines or rows of each part.
#[derive(Debug, Clone, Copy)]
struct Plan {
    verdict: usize,
    stages: usize,
    categories: usize,
    findings: usize,
    /// Findings with lines that say what to do.
    actions: usize,
    lines_of_action: usize,
    notes: usize,
    lines_of_note: usize,
    kernels: usize,
}

const WIDE: Plan = Plan {
    verdict: 4,
    stages: 4,
    categories: 6,
    findings: 5,
    actions: 5,
    lines_of_action: 2,
    notes: 6,
    lines_of_note: 6,
    kernels: KERNELS,
};

/// The steps by which the plan gets tighter.
const TIGHTER: [fn(&mut Plan); 15] = [
    |plan| plan.lines_of_note = 2,
    |plan| plan.categories = 5,
    |plan| plan.lines_of_note = 1,
    |plan| plan.notes = 4,
    |plan| plan.categories = 4,
    |plan| plan.lines_of_action = 1,
    |plan| plan.stages = 3,
    |plan| plan.notes = 3,
    |plan| plan.categories = 3,
    |plan| plan.actions = 3,
    |plan| plan.notes = 2,
    |plan| plan.kernels = plan.kernels.min(8),
    |plan| plan.actions = 1,
    |plan| plan.verdict = 3,
    |plan| plan.kernels = plan.kernels.min(6),
];

/// The report on one screen, at most `width` columns wide. `kernels` is the number of kernels that the user asked for; then
/// the screen is as long as needed for them.
pub fn screen(report: &Report, kernels: Option<usize>, width: usize) -> String {
    let width = width.clamp(MIN_WIDTH, MAX_WIDTH);
    let kernels = kernels.map(|limit| if limit == 0 { usize::MAX } else { limit });
    let mut plan = Plan { kernels: kernels.unwrap_or(KERNELS), ..WIDE };
    let max_lines = MAX_LINES.saturating_add(plan.kernels.saturating_sub(KERNELS));
    let mut lines = lines(report, &plan, width);
    for tighten in TIGHTER {
        if lines.len() <= max_lines {
            break;
        }
        tighten(&mut plan);
        plan.kernels = kernels.unwrap_or(plan.kernels);
        lines = self::lines(report, &plan, width);
    }
    lines.iter().map(|line| line.clone() + "\n").collect()
}

fn lines(report: &Report, plan: &Plan, width: usize) -> Vec<String> {
    // The table of many runs says more than their verdicts.
    let verdict = if report.runs.len() > MAX_VERDICTS { String::new() } else { verdict(report) };
    let mut parts = vec![cut(wrap(&clean(&verdict), width), plan.verdict)];
    parts.retain(|part| part.iter().any(|line| !line.is_empty()));
    match report.runs.as_slice() {
        [run] => parts.extend(one_run(report, run, plan, width)),
        _ => parts.extend(several_runs(report, plan, width)),
    }
    parts.push(wrap(&what_is_left_out(report, plan), width));
    parts.retain(|part| !part.is_empty());
    parts.join(&String::new())
}

fn one_run(report: &Report, run: &Run, plan: &Plan, width: usize) -> [Vec<String>; 6] {
    let label = report.labels().join("");
    let findings: Vec<Finding> = of_run(run).collect();
    [
        cut(wrap(&clean(&format!("{label}: {}", facts(run))), width), 2),
        steps(report, plan, width),
        categories(report, run, plan, width),
        self::findings(&findings, plan, width),
        notes(run, plan, width),
        kernels(report, run, plan, width),
    ]
}

/// The median step of each stage.
fn steps(report: &Report, plan: &Plan, width: usize) -> Vec<String> {
    let Some(table) = table(report, "steps", Some(0)).filter(|table| !table.rows.is_empty()) else { return Vec::new() };
    let columns = [
        ("stage", "Steps by stage"),
        ("steps", "Count"),
        ("batch", "Batch size"),
        ("tokens", "Tokens"),
        ("median_ns", "Median"),
        ("p10_ns", "p10"),
        ("p90_ns", "p90"),
        ("busy_pct", "GPU busy"),
    ];
    let (mut table, more) = first_rows(select(table, &columns).without_empty_columns(), plan.stages);
    if more > 0 {
        table.rows.push(vec![Cell::Text(counted(&more.to_string(), "more stage", "more stages"))]);
    }
    table_lines(&table, width)
}

fn categories(report: &Report, run: &Run, plan: &Plan, width: usize) -> Vec<String> {
    let Some(table) = table(report, "categories", Some(0)).filter(|_| run.totals.gpu_ops > 0) else {
        return Vec::new();
    };
    let columns =
        [("category", "Categories"), ("count", "GPU ops"), ("elapsed_ns", "Time"), ("elapsed_share", BUSY_SHARE)];
    // One row more is no longer than a row for the rest.
    let shown = if run.categories.len() <= plan.categories + 1 { run.categories.len() } else { plan.categories };
    let (mut table, _) = first_rows(select(table, &columns), shown);
    let rest = rest::of_categories(run, shown);
    table.rows.extend(rest_row(&rest, "more category", "more categories", &[]));
    table_lines(&table, width)
}

fn kernels(report: &Report, run: &Run, plan: &Plan, width: usize) -> Vec<String> {
    let all = run.kernels.len();
    let shown = if all <= plan.kernels.saturating_add(1) { all } else { plan.kernels };
    let table = first_kernels(report, 0, shown).filter(|_| run.totals.gpu_ops > 0);
    let Some(table) = table else { return Vec::new() };
    let title =
        if shown < all { format!("Kernels (first {shown} of {})", grouped(all as u64)) } else { "Kernels".to_owned() };
    let columns = [
        ("name", title.as_str()),
        ("category", "Category"),
        ("count", "Count"),
        ("elapsed_ns", "Time"),
        ("elapsed_share", BUSY_SHARE),
        ("mean_ns", "Mean"),
    ];
    let mut table = select(table, &columns);
    let rest = rest::of_kernels(run, shown);
    table.rows.extend(rest_row(&rest, "more kernel", "more kernels", &[Cell::Empty]));
    table.rows.iter_mut().for_each(|row| row.resize(columns.len(), Cell::Empty));
    // A narrow terminal shows fewer columns, so that the names stay whole.
    let without_mean = table.clone().without("mean_ns");
    let without_category = without_mean.clone().without("category");
    let fits = |table: &Table| table_lines(table, usize::MAX).iter().all(|line| line.width() <= width);
    let fitting = [table, without_mean].into_iter().find(fits);
    table_lines(&fitting.unwrap_or(without_category), width)
}

/// The row with the sums of the rows that are left out.
fn rest_row(rest: &Rest, one: &str, many: &str, after_name: &[Cell]) -> Option<Vec<Cell>> {
    let name = Cell::Text(counted(&grouped(rest.rows as u64), one, many));
    let sums =
        [Cell::Count(rest.count), Cell::Ns(rest.elapsed_ns), rest.elapsed_share.map_or(Cell::Empty, Cell::Share)];
    (rest.rows > 0).then(|| [&[name], after_name, &sums].concat())
}

/// Severity, cost and title of each finding, then what to do.
fn findings(findings: &[Finding], plan: &Plan, width: usize) -> Vec<String> {
    if findings.is_empty() {
        return Vec::new();
    }
    let mut lines = vec!["Findings".to_owned()];
    let cost_width = findings.iter().map(|finding| finding.cost.chars().count()).max().unwrap_or(0);
    for (index, finding) in findings.iter().take(plan.findings).enumerate() {
        let run = if finding.run.is_empty() { String::new() } else { format!("{}: ", finding.run) };
        let confidence = match finding.confidence {
            Confidence::Unknown | Confidence::High => String::new(),
            other => format!(", {} confidence", other.word()),
        };
        let id = match finding.id {
            FindingId::Other => String::new(),
            id => format!(" [{}{confidence}]", id.word()),
        };
        let head = format!("  {:6}  {:>cost_width$}  ", finding.severity.word(), finding.cost);
        let indent = head.chars().count();
        let title = cut(wrap(&clean(&format!("{run}{}{id}", finding.title)), width.saturating_sub(indent)), 2);
        lines.extend(hanging(&clean(&head), &title));
        if index < plan.actions {
            let action = clean(&finding.action.join(" "));
            let action = cut(wrap(&action, width.saturating_sub(indent)), plan.lines_of_action);
            lines.extend(action.iter().filter(|line| !line.is_empty()).map(|line| " ".repeat(indent) + line));
        }
    }
    if let Some(more) = findings.len().checked_sub(plan.findings).filter(|more| *more > 0) {
        lines.push(format!("  {}", counted(&more.to_string(), "more finding", "more findings")));
    }
    lines
}

/// Limits of the trace that affect conclusions, and warnings.
fn notes(run: &Run, plan: &Plan, width: usize) -> Vec<String> {
    let warnings = run.notices.iter().filter(|notice| is_shown(notice));
    let warnings = warnings.map(|notice| {
        let (severity, Notice { message, advice, .. }) = (severity(notice.severity), notice);
        format!("{severity}: {message}. {advice}")
    });
    let rows = run.sections.get("trust").into_iter().flat_map(|section| &section.rows);
    let trust = rows.filter_map(|row| row.get("text").and_then(Value::text)).map(str::to_owned);
    let notes: Vec<String> = warnings.chain(trust).collect();
    if notes.is_empty() {
        return Vec::new();
    }
    let mut lines = vec!["Limits of this trace".to_owned()];
    for note in notes.iter().take(plan.notes) {
        lines.extend(hanging("  - ", &cut(wrap(&clean(note), width.saturating_sub(4)), plan.lines_of_note)));
    }
    if let Some(more) = notes.len().checked_sub(plan.notes).filter(|more| *more > 0) {
        lines.push(format!("  {}", counted(&more.to_string(), "more note", "more notes")));
    }
    lines
}

fn is_shown(notice: &Notice) -> bool {
    notice.severity != Severity::Info
}

/// A table of runs, and the findings of all runs.
fn several_runs(report: &Report, plan: &Plan, width: usize) -> [Vec<String>; 2] {
    [runs(report, plan, width), findings(&merged_findings(report), plan, width)]
}

fn runs(report: &Report, plan: &Plan, width: usize) -> Vec<String> {
    let column = |key: &str, title: &str, kind| Column { key: key.to_owned(), title: title.to_owned(), kind };
    let columns = vec![
        column("run", "Runs", Kind::Text),
        column("gpu_ops", "GPU ops", Kind::Count),
        column("wall_ns", "Window", Kind::Time),
        column("busy_share", "Busy", Kind::Share),
        column("step", "Median step", Kind::Text),
        column("categories", "Largest categories, of wall time", Kind::Text),
    ];
    let row = |(label, run): (String, &Run)| {
        let top: Vec<String> = category_shares(run, 3).map(|(_, share)| share).collect();
        vec![
            Cell::Text(label),
            Cell::Count(run.totals.gpu_ops),
            Cell::Ns(run.wall.wall_ns),
            Cell::Share(run.wall.busy_share),
            Cell::Text(median_steps(run)),
            Cell::Text(top.join(", ")),
        ]
    };
    let rows = report.labels().into_iter().zip(&report.runs).map(row).collect();
    let (mut table, more) = first_rows(Table { id: "runs".to_owned(), columns, rows, ..Table::default() }, RUNS);
    if more > 0 {
        table.rows.push(vec![Cell::Text(counted(&more.to_string(), "more run", "more runs"))]);
    }
    let mut lines = table_lines(&table.without_empty_columns(), width);
    let warnings = report.runs.iter().flat_map(|run| &run.notices).filter(|notice| is_shown(notice)).count();
    if warnings > 0 {
        let warnings = counted(&warnings.to_string(), "warning", "warnings");
        lines.extend(cut(wrap(&format!("  {warnings} on reading these files: --table notices."), width), plan.notes));
    }
    lines
}

/// `decode 6.88 ms`, one part per stage.
fn median_steps(run: &Run) -> String {
    let rows = run.sections.get("steps").into_iter().flat_map(|section| &section.rows);
    let parts = rows.filter_map(|row| {
        let Value::Int(median) = row.get("median_ns")? else { return None };
        Some(format!("{} {}", row.get("stage")?.text()?, crate::report::format::duration(*median)))
    });
    parts.collect::<Vec<String>>().join(", ")
}

/// The last line: what other options print.
fn what_is_left_out(report: &Report, plan: &Plan) -> String {
    let infos = report.runs.iter().flat_map(|run| &run.notices).filter(|notice| !is_shown(notice)).count();
    let mut parts = Vec::new();
    if report.runs.iter().any(|run| of_run(run).next().is_some()) {
        parts.push("the evidence".to_owned());
    }
    let kernels = report.runs.iter().map(|run| run.kernels.len()).max().unwrap_or(0);
    if report.runs.len() > 1 || kernels > plan.kernels.saturating_add(1) {
        parts.push("all kernels".to_owned());
    }
    if infos > 0 {
        parts.push(counted(&grouped(infos as u64), "remark", "remarks"));
    }
    let tables = other_tables(report);
    if !tables.is_empty() {
        parts.push(counted(&tables.len().to_string(), "more table", "more tables"));
    }
    let all =
        if parts.is_empty() { "the same tables with all columns".to_owned() } else { crate::words::listed(&parts) };
    let example = tables.iter().find(|id| *id == "gpu_idle").or(tables.first()).map_or("kernels", String::as_str);
    format!("--all adds {all}; --table NAME prints one table, such as {example}.")
}

/// The ids of the tables with rows that the screen does not show.
fn other_tables(report: &Report) -> Vec<String> {
    let has_rows = |id: &String| table(report, id, None).is_some_and(|table| !table.rows.is_empty());
    const SHOWN: [&str; 4] = ["steps", "findings", "trust", "key_figures"];
    let ids = groups(report).into_iter().flat_map(|group| group.tables);
    ids.filter(|id| !is_builtin_table(id) && !SHOWN.contains(&id.as_str())).filter(has_rows).collect()
}

/// Keeps the columns with these keys, in this order and with these titles.
fn select(mut table: Table, columns: &[(&str, &str)]) -> Table {
    let chosen: Vec<(usize, &str)> = columns
        .iter()
        .filter_map(|(key, title)| Some((table.columns.iter().position(|column| column.key == *key)?, *title)))
        .collect();
    let pick = |row: &Vec<Cell>| {
        chosen.iter().map(|(index, _)| row.get(*index).cloned().unwrap_or(Cell::Empty)).collect::<Vec<Cell>>()
    };
    table.rows = table.rows.iter().map(pick).collect();
    let columns = chosen.iter().filter_map(|(index, title)| {
        table.columns.get(*index).map(|column| Column { title: (*title).to_owned(), ..column.clone() })
    });
    table.columns = columns.collect();
    table.totals = None;
    table
}

/// The first rows, and the number of the others.
fn first_rows(mut table: Table, limit: usize) -> (Table, usize) {
    let more = table.rows.len().saturating_sub(limit);
    table.rows.truncate(limit);
    (table, more)
}

/// The table without a title: the heading of its first column has it.
fn table_lines(table: &Table, width: usize) -> Vec<String> {
    let columns = table.columns.iter().zip(headings(table));
    let headings: Vec<Heading> = columns
        .map(|(column, title)| Heading { title, fit: if column.kind.is_number() { Fit::Number } else { Fit::Shorten } })
        .collect();
    let rows: Vec<Vec<String>> =
        shown(table).into_iter().map(|row| row.into_iter().map(|cell| cell.text).collect()).collect();
    let mut lines = grid::lines(&headings, &rows, 2, width);
    if let Some(first) = lines.first_mut() {
        // The title starts at the left edge.
        let title = table.columns.first().map_or("", |column| column.title.as_str());
        if let Some(after) = first.trim_start().strip_prefix(title) {
            *first = format!("{title}  {after}");
        }
    }
    lines
}

/// The first `limit` lines; the last of them ends with an ellipsis if there are more.
fn cut(mut lines: Vec<String>, limit: usize) -> Vec<String> {
    if lines.len() > limit {
        lines.truncate(limit);
        if let Some(last) = lines.last_mut() {
            // The ellipsis takes the place of a mark or of the last word, so that the line does not get longer.
            let kept = last.trim_end_matches(['.', ',', ';', ':', ' ']);
            let kept =
                if kept.len() < last.len() { kept } else { last.rsplit_once(' ').map_or(kept, |(words, _)| words) };
            *last = format!("{kept}…");
        }
    }
    lines
}

/// The lines after `head`; the later ones are indented by its width.
fn hanging(head: &str, lines: &[String]) -> Vec<String> {
    let indent = " ".repeat(head.chars().count());
    let heads = std::iter::once(head).chain(std::iter::repeat(indent.as_str()));
    heads.zip(lines).map(|(head, line)| format!("{head}{line}")).collect()
}
