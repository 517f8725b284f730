//! Converts sections of results to tables; linear in rows.
//!
//! Declared sections (`analysis::sections::SPECS`) state the title and the kind of each column. Sections of other tools are shown by
//! their keys: a suffix names the unit, `_ns`, `_us`, `_ms`, `_s` for a time, `pct` marks a percentage, `fraction` a fraction of
//! one. The groups of tables are data: `patterns/sections.json`.
//!
//! Timestamps are exported on the trace's clock. If all sections of a table record the first GPU op
//! (`Section::from_first_op`), they are shown relative to it.

use super::chart::Unit;
use super::short_names::ShortNames;
use super::table::{Cell, Column, Figure, Gap, Kind, Table};
use crate::analysis::results::Run;
use crate::analysis::section::{ColumnKind, ColumnSpec, FIRST_OP, Section, Value};
use crate::analysis::sections::SPECS;
use crate::analysis::triage::Stage;
use crate::digits::grouped;
use crate::json::{self, embedded, from_json};
use crate::ordering;
use crate::rules::names;
use crate::words::capitalize;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The contents of `patterns/sections.json`.
pub(super) struct Config {
    /// The groups of tables, in display order.
    pub(super) groups: Vec<Group>,
    /// The tabs of the page that are always shown.
    pub(super) tabs: Vec<TabConfig>,
    /// The groups that are each a tab behind the menu "More", in order.
    pub(super) more: Vec<String>,
    /// Groups whose tables the page requests from elsewhere than the report.
    pub(super) page_groups: Vec<Group>,
    /// The columns of the short form of a table.
    pub(super) short_tables: BTreeMap<String, Vec<String>>,
    /// Column titles, by key with or without its unit.
    columns: BTreeMap<String, String>,
    /// Spelling of single words in titles that `columns` does not list.
    words: BTreeMap<String, String>,
    /// Keys of columns with kernel names.
    names: Vec<String>,
    /// Keys of timestamps, without unit.
    timestamps: Vec<String>,
    /// Columns that only exports contain, by section: shares of a kernel with another denominator than the busy time.
    exports_only: BTreeMap<String, Vec<String>>,
    /// Figures that duplicate another one, with the key of that one.
    duplicates: BTreeMap<String, String>,
}
from_json!(Config {
    groups,
    tabs,
    more,
    page_groups,
    short_tables,
    columns,
    words,
    names,
    timestamps,
    exports_only,
    duplicates
});

/// A group of tables that are shown in one tab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Stable name.
    pub id: String,
    /// Displayed heading.
    pub title: String,
    /// Ids of its tables, top to bottom.
    pub tables: Vec<String>,
}
from_json!(Group { id, title, tables });

/// A tab of the page.
pub(super) struct TabConfig {
    pub(super) id: String,
    pub(super) title: String,
    /// The groups whose tables it shows.
    pub(super) groups: Vec<String>,
    /// The table whose short form comes first; may be empty.
    pub(super) in_short: String,
    /// The group whose tables are shown on demand below the others; may be empty.
    pub(super) folded: String,
    /// Tables of which one is shown at a time.
    pub(super) one_of: Vec<TableChoice>,
}
from_json!(TabConfig { id, title, groups; in_short, folded, one_of });

/// A table that can be chosen in place of another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TableChoice {
    /// The id of the table.
    pub table: String,
    /// What one of its rows stands for.
    pub title: String,
}
from_json!(TableChoice { table, title });

pub(super) static CONFIG: LazyLock<Config> =
    LazyLock::new(|| embedded(json::read(include_str!("../../patterns/sections.json"))));

/// A section and the id of its table, if they differ: the id `kernels` belongs to the built-in table of all op names.
const RENAMED: (&str, &str) = ("kernels", "top_kernels");

/// The id of the table of a section.
pub(super) fn table_id(section: &str) -> &str {
    if section == RENAMED.0 { RENAMED.1 } else { section }
}

/// The name of the section from which a table with this id is made, if it is not a builtin one.
pub(crate) fn section_name(table: &str) -> &str {
    let (table, _) = split_stage(table);
    if table == RENAMED.1 { RENAMED.0 } else { table }
}

/// Sections that are shown as one table per stage.
pub(super) const BY_STAGE: [&str; 4] = ["triage_kernels", "triage_overlap", "triage_fuse", "triage_catalog"];

/// The key of the column with the stage.
const STAGE_KEY: &str = "stage";

/// Separates section and stage in the id of the table of one stage: `triage_kernels@decode`.
pub(super) const STAGE_SEPARATOR: char = '@';

/// The section of a table id and its stage; `None` for the table of all stages.
pub(super) fn split_stage(table: &str) -> (&str, Option<&str>) {
    match table.split_once(STAGE_SEPARATOR) {
        Some((section, stage)) if BY_STAGE.contains(&section) => (section, Some(stage)),
        _ => (table, None),
    }
}

/// The stages in the rows of a section, in the order of [`Stage::ALL`], unknown stages last.
pub(super) fn stages<'a>(section: &str, runs: impl Iterator<Item = &'a Run>) -> Vec<&'a str> {
    let mut stages: Vec<&str> = Vec::new();
    for run in runs {
        let Some(section) = run.sections.get(section) else { continue };
        for row in &section.rows {
            match row.get(STAGE_KEY) {
                Some(Value::Text(stage)) if !stages.contains(&stage.as_str()) => stages.push(stage),
                _ => {}
            }
        }
    }
    ordering::sort_by_key(&mut stages, |stage| {
        Stage::ALL.iter().position(|known| known.label() == *stage).unwrap_or(usize::MAX)
    });
    stages
}

/// The table of a section, with the rows of all these runs; `None` if no run has the section.
pub(super) fn table(id: &str, runs: &[(&str, &Run)]) -> Option<Table> {
    let name = section_name(id);
    let (_, stage) = split_stage(id);
    let chosen = || runs.iter().filter_map(|(label, run)| Some((*label, run.sections.get(name)?, *run)));
    let sections: Vec<(&str, &Section)> = chosen().map(|(label, section, _)| (label, section)).collect();
    let (_, first) = sections.iter().find(|(_, section)| section.missing.is_none()).or(sections.first())?;
    let short_names: Vec<ShortNames> = chosen().map(|(.., run)| ShortNames::of(run)).collect();
    let table = table_of(id, &sections, first, &|section, name| {
        short_names.get(section).map_or_else(|| names::short(name), |names| names.short(name))
    });
    match stage {
        Some(stage) => {
            let is_first = stages(name, runs.iter().map(|(_, run)| *run)).first() == Some(&stage);
            filter_stage(table, stage, is_first)
        }
        None => Some(table),
    }
}

/// The table as the page and the HTML report display it: without the columns that only exports contain.
pub fn displayed(table: Table) -> Table {
    let (section, _) = split_stage(&table.id);
    let hidden = CONFIG.exports_only.get(section).map_or(&[][..], Vec::as_slice);
    hidden.iter().fold(table, |table, key| table.without(key))
}

/// The short form of a table: its main columns. All columns if it has no short form.
pub fn shortened(mut table: Table) -> Table {
    let Some(kept) = CONFIG.short_tables.get(&table.id) else { return table };
    let is_kept: Vec<bool> =
        table.columns.iter().map(|column| column.key == "run" || kept.contains(&column.key)).collect();
    let keep = |cells: &mut Vec<Cell>| {
        let mut kept = is_kept.iter();
        cells.retain(|_| kept.next().copied().unwrap_or_default());
    };
    table.rows.iter_mut().chain(&mut table.totals).for_each(keep);
    let mut kept = is_kept.iter();
    table.columns.retain(|_| kept.next().copied().unwrap_or_default());
    table
}

/// The table of one section that belongs to no run, such as those of a comparison.
pub fn section_table(id: &str, section: &Section) -> Table {
    let shorts = section_short_names(section);
    table_of(id, &[("", section)], section, &|_, name| shorts.get(name).cloned().unwrap_or_default()).without("run")
}

/// The short names of the kernels in a section that belongs to no run, by full name. Different kernels have different short
/// names.
pub(super) fn section_short_names(section: &Section) -> BTreeMap<&str, String> {
    let is_name = |key: &&String| CONFIG.names.contains(key);
    let keys: Vec<&String> = section.columns.iter().filter(is_name).collect();
    let cells = section.rows.iter().flat_map(|row| keys.iter().filter_map(|key| row.get(key)?.text()));
    let mut full: Vec<&str> = cells.collect();
    full.sort_unstable();
    full.dedup();
    let demangled: Vec<Cow<str>> = full.iter().map(|name| names::demangle(name)).collect();
    let shorts = names::distinct(&demangled);
    full.into_iter().zip(shorts).collect()
}

/// The rows of all these sections after a column with the label of the run. `first` supplies the title, `short` the short
/// form of a kernel name in the section with this index.
fn table_of(id: &str, sections: &[(&str, &Section)], first: &Section, short: &dyn Fn(usize, &str) -> String) -> Table {
    let have_first_op = have_first_op(sections);
    let keys = keys(sections, have_first_op);
    let mut columns = vec![Column { key: "run".to_owned(), title: "Run".to_owned(), kind: Kind::Text }];
    columns.extend(keys.iter().map(|key| column(key, sections)));
    let is_relative = have_first_op && columns.iter().any(|column| column.kind == Kind::Timestamp);
    let mut rows = Vec::new();
    for (index, (label, section)) in sections.iter().enumerate() {
        let short = |name: &str| short(index, name);
        let first_op = first_op(section).filter(|_| is_relative);
        rows.extend(section.rows.iter().map(|record| {
            let cells = columns.iter().skip(1).map(|column| {
                let cell = cell(&column.key, column.kind, record.get(&column.key), &short);
                if column.kind == Kind::Timestamp { relative_to(cell, first_op) } else { cell }
            });
            [Cell::Text((*label).to_owned())].into_iter().chain(cells).collect::<Vec<Cell>>()
        }));
    }
    Table {
        id: id.to_owned(),
        title: first.title.clone(),
        note: note(sections, is_relative),
        figures: sections.iter().flat_map(|(label, section)| figures(label, section)).collect(),
        gaps: gaps(sections),
        columns,
        rows,
        totals: None,
    }
}

/// Keeps the rows of one stage; `None` if there are none. Note, figures and gaps are kept for the first stage only.
fn filter_stage(mut table: Table, stage: &str, is_first: bool) -> Option<Table> {
    table.title = format!("{}: {stage}", table.title);
    if !is_first {
        (table.note, table.figures, table.gaps) = (String::new(), Vec::new(), Vec::new());
    }
    let index = table.columns.iter().position(|column| column.key == STAGE_KEY);
    table.rows.retain(|row| matches!(index.and_then(|index| row.get(index)), Some(Cell::Text(text)) if text == stage));
    (!table.rows.is_empty()).then(|| table.without(STAGE_KEY))
}

/// The keys of all columns of these sections. If a value is there in two units, nanoseconds are kept.
fn keys(sections: &[(&str, &Section)], have_first_op: bool) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for key in sections.iter().flat_map(|(_, section)| &section.columns) {
        if !keys.contains(key) {
            keys.push(key.clone());
        }
    }
    let all = keys.clone();
    let has = |stem: &str, unit: &str| all.contains(&format!("{stem}_{unit}"));
    keys.retain(|key| match Unit::split_suffix(key) {
        // Timestamps of unknown origin: the milliseconds are relative to some start, the nanoseconds are not.
        Some((stem, unit)) if CONFIG.timestamps.iter().any(|timestamp| timestamp == stem) && !have_first_op => {
            unit.name() != "ns" || !has(stem, "ms")
        }
        Some((stem, unit)) => unit.name() == "ns" || !has(stem, "ns"),
        None => true,
    });
    keys
}

fn note(sections: &[(&str, &Section)], is_relative: bool) -> String {
    let mut sentences: Vec<String> = Vec::new();
    let mut add = |sentence: &str| {
        let ended = sentence.trim_end();
        let sentence = if ended.ends_with(['.', '?', '!', ':']) { ended.to_owned() } else { format!("{ended}.") };
        if !ended.is_empty() && !sentences.contains(&sentence) {
            sentences.push(sentence);
        }
    };
    for (_, section) in sections {
        if !section.derived_from.is_empty() {
            add(&format!("From {}", section.derived_from));
        }
        section.limits.iter().for_each(|limit| add(limit));
    }
    if is_relative {
        add("Timestamps are relative to the first GPU op of the trace; exact values are on the clock of the trace");
    }
    let kept: u64 = sections.iter().map(|(_, section)| section.rows.len() as u64).sum();
    let all = sections.iter().fold(0_u64, |all, (_, section)| all.saturating_add(section.rows_in_all));
    if all > kept {
        add(&format!("{} of {} rows are kept", grouped(kept), grouped(all)));
    }
    sentences.join(" ")
}

fn figures(label: &str, section: &Section) -> Vec<Figure> {
    let has = |key: &str| section.summary.get(key).is_some_and(|value| *value != Value::Null);
    let is_duplicate = |key: &str| match Unit::split_suffix(key) {
        _ if CONFIG.duplicates.get(key).is_some_and(|twin| has(twin)) => true,
        Some((stem, unit)) => unit.name() != "ns" && has(&[stem, "_ns"].concat()),
        None => false,
    };
    let shown = section.summary.0.iter().filter(|(key, value)| *value != Value::Null && !is_duplicate(key));
    let values = shown.map(|(key, value)| (key, value, kind(key, &[value])));
    // A single timestamp is of no use to a reader.
    values
        .filter(|(.., kind)| *kind != Kind::Timestamp)
        .map(|(key, value, kind)| Figure {
            run: label.to_owned(),
            key: key.to_string(),
            title: title(key),
            cell: cell(key, kind, Some(value), &names::short),
        })
        .collect()
}

/// The reasons for missing rows. Runs with the same reason share an entry.
fn gaps(sections: &[(&str, &Section)]) -> Vec<Gap> {
    let mut gaps: Vec<Gap> = Vec::new();
    for (label, section) in sections {
        let Some(missing) = &section.missing else { continue };
        match gaps.iter_mut().find(|gap| gap.why == missing.why && gap.recapture == missing.recapture) {
            Some(gap) => gap.run += &format!(", {label}"),
            None => gaps.push(Gap {
                run: (*label).to_owned(),
                why: missing.why.clone(),
                recapture: missing.recapture.clone(),
            }),
        }
    }
    gaps
}

fn column(key: &str, sections: &[(&str, &Section)]) -> Column {
    let rows = sections.iter().flat_map(|(_, section)| &section.rows);
    let values: Vec<&Value> = rows.filter_map(|record| record.get(key)).collect();
    Column { key: key.to_owned(), title: title(key), kind: kind(key, &values) }
}

/// The declaration of a column or figure. A key has the same title and kind in all sections.
fn declared(key: &str) -> Option<&'static ColumnSpec> {
    SPECS.iter().flat_map(|spec| spec.columns.iter().chain(spec.figures)).find(|column| column.key == key)
}

/// The type of a column, from its declaration or its key, or else from its values.
fn kind(key: &str, values: &[&Value]) -> Kind {
    let declared = declared(key).map(|column| column.kind);
    let is = |test: fn(&Value) -> bool| values.iter().any(|value| test(value));
    if is(|value| matches!(value, Value::Text(_) | Value::Bool(_))) {
        let words = &CONFIG.names;
        return match (declared, key) {
            (Some(ColumnKind::Category), _) | (None, "category") => Kind::Category,
            (Some(ColumnKind::Kernel), _) => Kind::Kernel,
            (None, name) if words.iter().any(|word| word == name) => Kind::Kernel,
            (Some(ColumnKind::CodeLocation), _)
            | (None, "python_location" | "python_scope" | "source_location" | "candidate_path") => Kind::CodeLocation,
            _ => Kind::Text,
        };
    }
    match Unit::split_suffix(key) {
        _ if has_word(key, "pct") || has_word(key, "fraction") => Kind::Share,
        _ if declared == Some(ColumnKind::Timestamp) => Kind::Timestamp,
        Some((stem, _)) if is_timestamp(stem) => Kind::Timestamp,
        Some(_) => Kind::Time,
        None if is_id(key) => Kind::Text,
        None if is(|value| matches!(value, Value::Float(_) | Value::Int(i64::MIN..0))) => Kind::Number,
        None if values.iter().all(|value| **value == Value::Null) => Kind::Text,
        None => Kind::Count,
    }
}

fn is_timestamp(stem: &str) -> bool {
    CONFIG.timestamps.iter().any(|timestamp| timestamp == stem)
}

fn has_word(key: &str, word: &str) -> bool {
    key.split('_').any(|part| part == word)
}

fn is_id(key: &str) -> bool {
    key.ends_with("_id") || ["pid", "tid", "line"].contains(&key)
}

fn cell(key: &str, kind: Kind, value: Option<&Value>, short: &dyn Fn(&str) -> String) -> Cell {
    let Some(value) = value else { return Cell::Empty };
    match (value, kind) {
        (Value::Null, _) => Cell::Empty,
        (Value::Bool(value), _) => Cell::Text(if *value { "yes" } else { "no" }.to_owned()),
        (Value::Text(full), Kind::Kernel) => Cell::Kernel { short: short(full), full: full.clone() },
        (Value::Text(full), Kind::Text) if key == "evidence" => shared_kernels(full, short),
        (Value::Text(text), _) => Cell::Text(text.clone()),
        (Value::Int(value), Kind::Count) => u64::try_from(*value).map_or(Cell::Int(*value), Cell::Count),
        (Value::Int(value), _) if is_id(key) => Cell::Int(*value),
        (Value::Int(_) | Value::Float(_), _) => measure(key, value),
    }
}

/// Splits a line such as `name (23.1%)` into the name of a kernel and its share, `23.1%)`.
pub(super) fn kernel_and_share(line: &str) -> Option<(&str, &str)> {
    line.rsplit_once(" (").filter(|(_, share)| share.ends_with("%)"))
}

/// Lines of kernels and their shares, such as `name (23.1%)`, with short names. Other texts stay as they are.
fn shared_kernels(full: &str, short: &dyn Fn(&str) -> String) -> Cell {
    let line = |line: &str| {
        let (name, share) = kernel_and_share(line)?;
        Some(format!("{} ({share}", short(name)))
    };
    match full.lines().map(line).collect::<Option<Vec<_>>>() {
        Some(lines) => Cell::Kernel { short: lines.join("\n"), full: full.to_owned() },
        None => Cell::Text(full.to_owned()),
    }
}

/// Whether all sections with rows record the first GPU op. Otherwise one column would mix absolute and relative times.
fn have_first_op(sections: &[(&str, &Section)]) -> bool {
    let mut filled = sections.iter().filter(|(_, section)| !section.rows.is_empty()).peekable();
    filled.peek().is_some() && filled.all(|(_, section)| first_op(section).is_some())
}

/// The start of the first GPU op, if the section records it.
fn first_op(section: &Section) -> Option<i64> {
    match section.summary.get(FIRST_OP) {
        Some(Value::Int(first_op)) => Some(*first_op),
        _ => None,
    }
}

fn relative_to(cell: Cell, first_op: Option<i64>) -> Cell {
    match (cell, first_op) {
        (Cell::Ns(clock_ns), Some(first_op_ns)) => Cell::Timestamp { clock_ns, first_op_ns },
        (cell, _) => cell,
    }
}

fn measure(key: &str, value: &Value) -> Cell {
    let number = value.number().unwrap_or_default();
    match Unit::split_suffix(key) {
        _ if has_word(key, "pct") => Cell::Percent(number),
        _ if has_word(key, "fraction") => Cell::Share(number),
        Some((_, unit)) => match value {
            Value::Int(ns) if unit.ns() == 1 => Cell::Ns(*ns),
            _ => Cell::Time(number, unit),
        },
        None => Cell::Number(number),
    }
}

/// The displayed title for a key, without its unit.
pub(super) fn title(key: &str) -> String {
    let stem = Unit::split_suffix(key).map_or(key, |(stem, _)| stem);
    if let Some(column) = declared(key).filter(|column| !column.title.is_empty()) {
        return column.title.to_owned();
    }
    let listed = CONFIG.columns.get(key).or_else(|| CONFIG.columns.get(stem));
    if let Some(words) = listed {
        return words.clone();
    }
    let percent = has_word(stem, "pct") || has_word(stem, "fraction");
    let parts = stem.split('_').filter(|part| !(percent && ["pct", "fraction"].contains(part)));
    let words: Vec<String> = parts.map(word).collect();
    capitalize(words.join(" "))
}

fn word(part: &str) -> String {
    match (CONFIG.words.get(part), part.as_bytes()) {
        (Some(words), _) => words.clone(),
        // A direction: `h2d`, `p2p`.
        (None, [from, b'2', to]) if from.is_ascii_lowercase() && to.is_ascii_lowercase() => part.to_ascii_uppercase(),
        (None, _) => part.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::format::{Shown, exact, figure, headings, shown};
    use crate::report::tests_support::empty_run;
    use crate::report::{Report, all_tables, csv, groups, known_tables, table as find_table};

    const HOSTILE: &str = "=cmd|' /C calc'!A0\n</script><img src=x>|`a`\u{1}\u{202e}";

    fn run(label: &str, name: &str, section: Section) -> Run {
        Run { sections: [(name.to_owned(), section)].into(), ..empty_run(label) }
    }

    fn only(section: Section) -> Table {
        find_table(&Report::new(vec![run("a", "nccl_ops", section)]), "nccl_ops", None).unwrap().without_run()
    }

    #[test]
    fn evidence_shows_short_kernel_names_with_their_shares_and_exports_full_ones() {
        let name = "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::silu_kernel>>(int)";
        let full = format!("{name} (4.2%)\nk (1.0%)");
        let mut section = Section::new("T", "patterns", &["pattern", "evidence"]);
        section.row(["a".into(), full.as_str().into()]);
        section.row(["b".into(), "The step waits (4.2 ms).".into()]);
        let table = only(section);
        let cells = shown(&table);
        assert_eq!(
            (cells[0][1].text.as_str(), cells[0][1].title.as_str()),
            ("elementwise_kernel<silu_kernel> (4.2%)\nk (1.0%)", full.as_str())
        );
        assert_eq!(cells[1][1].text, "The step waits (4.2 ms).");
        let text = csv::csv(&table);
        assert!(text.starts_with("pattern,evidence\na,") && text.contains(name), "{text}");
    }

    #[test]
    fn a_csv_row_without_a_kernel_has_as_many_fields_as_the_header() {
        let mut section = Section::new("T", "gaps", &["kernel_name", "call_count"]);
        section.row(["k".into(), 1_i64.into()]);
        section.row([Value::Null, 2_i64.into()]);
        assert_eq!(csv::csv(&only(section)), "kernel_name,short_kernel_name,call_count\nk,k,1\n,,2\n");
    }

    #[test]
    fn the_unit_suffix_of_a_key_decides_the_displayed_unit_and_csv_keeps_the_value() {
        let columns = [
            "kernel_name",
            "device_id",
            "call_count",
            "total_time_ns",
            "avg_duration_us",
            "overlap_pct",
            "launches_per_s",
            "gap_start_ns",
        ];
        let mut section = Section::new("T", "kernels", &columns);
        section.row([
            "k".into(),
            12_345_i64.into(),
            12_345_i64.into(),
            2_500_000_i64.into(),
            1500.0.into(),
            12.5.into(),
            909.09.into(),
            7_000_000_001_499_i64.into(),
        ]);
        let table = only(section);
        let words = [
            "Kernel",
            "Device",
            "Calls",
            "Total (ms)",
            "Mean (ms)",
            "Overlapped (%)",
            "Launches per s",
            "Gap start (ms)",
        ];
        assert_eq!(headings(&table), words);
        let texts: Vec<String> = shown(&table).remove(0).into_iter().map(|cell| cell.text).collect();
        assert_eq!(texts, ["k", "12345", "12,345", "2.50", "1.50", "12.5", "909", "7,000,000.001"]);
        let line = csv(&table).lines().nth(1).unwrap().to_owned();
        assert_eq!(line, "k,k,12345,12345,2500000,1500,12.5,909.09,7000000001499");
    }

    #[test]
    fn timestamps_are_shown_relative_to_the_first_gpu_op_and_exported_on_the_clock() {
        let mut section = Section::new("T", "", &["gap_start_ns", "gap_start_ms"]);
        section.figure(FIRST_OP, 7_000_000_000_000_i64);
        section.row([7_000_001_234_567_i64.into(), 7_000_001.234_567.into()]);
        section.row([6_999_999_999_000_i64.into(), 6_999_999.999.into()]);
        let table = only(section);
        assert!(table.figures.is_empty(), "the time origin is not shown as a figure");
        assert!(table.note.contains("relative to the first GPU op"), "{}", table.note);
        assert_eq!(headings(&table), ["Gap start (ms)"]);
        let cells: Vec<Shown> = shown(&table).into_iter().map(|mut row| row.remove(0)).collect();
        let cell = |text: &str, title: &str| Shown { text: text.to_owned(), title: title.to_owned() };
        assert_eq!(cells, [cell("1.235", "7,000,001,234,567 ns"), cell("-0.001", "6,999,999,999,000 ns")]);
        assert_eq!(csv(&table), "gap_start_ns\n7000001234567\n6999999999000\n");
    }

    #[test]
    fn a_table_without_timestamps_has_no_note_about_their_origin() {
        let mut section = Section::new("T", "", &["gap_ms"]);
        section.figure(FIRST_OP, 5_000_000_i64);
        section.row([1.5.into()]);
        assert_eq!(only(section).note, "");
    }

    #[test]
    fn relative_and_absolute_timestamps_are_not_mixed_in_a_column() {
        let section = |has_first_op: bool| {
            let mut section = Section::new("T", "", &["gap_start_ns"]);
            if has_first_op {
                section.figure(FIRST_OP, 5_000_000_i64);
            }
            section.row([7_000_000_i64.into()]);
            section
        };
        let shown_in = |have_first_op: [bool; 2]| {
            let runs =
                ["a", "b"].into_iter().zip(have_first_op).map(|(label, has)| run(label, "k", section(has))).collect();
            let table = find_table(&Report::new(runs), "k", None).unwrap();
            let texts: Vec<String> = shown(&table).into_iter().map(|row| row[1].text.clone()).collect();
            (texts, table.note.contains("first GPU op"))
        };
        assert_eq!(shown_in([true, true]), (vec!["2.000".to_owned(), "2.000".to_owned()], true));
        assert_eq!(shown_in([true, false]), (vec!["7.000".to_owned(), "7.000".to_owned()], false));
    }

    #[test]
    fn byte_counts_are_shown_in_groups_of_three_digits_and_plain_in_csv() {
        let mut section = Section::new("T", "", &["bytes"]);
        section.figure("h2d_bytes", 39_526_400_i64);
        section.row([1_048_576_i64.into()]);
        let table = only(section);
        assert_eq!((shown(&table)[0][0].text.as_str(), csv(&table).as_str()), ("1,048,576", "bytes\n1048576\n"));
        assert_eq!(figure(&table.figures[0].cell).text, "39,526,400");
    }

    #[test]
    fn a_value_in_two_units_is_shown_once() {
        let columns = ["total_time_ns", "total_time_ms", "start_ns", "start_ms", "gap_ms"];
        let table = only(Section::new("T", "", &columns));
        let keys: Vec<&str> = table.columns.iter().map(|column| column.key.as_str()).collect();
        assert_eq!(keys, ["total_time_ns", "start_ms", "gap_ms"]);
    }

    #[test]
    fn a_duplicate_figure_is_shown_once() {
        let mut section = Section::new("T", "", &[]);
        for key in ["mapped_time_ns", "mapped_time_ms", "wall_ms", "coverage_fraction", "coverage_pct"] {
            section.figure(key, 1.0);
        }
        let keys = |section| only(section).figures.into_iter().map(|figure| figure.key).collect::<Vec<String>>();
        assert_eq!(keys(section), ["mapped_time_ns", "wall_ms", "coverage_pct"]);
        let mut alone = Section::new("T", "", &[]);
        alone.figure("coverage_fraction", 0.5);
        assert_eq!(keys(alone), ["coverage_fraction"]);
    }

    #[test]
    fn figures_limits_and_gaps_reach_every_output() {
        let mut full =
            Section::new("Collectives", "communication kernels", &["op_name"]).limit("Ranks are not compared");
        full.figure("exposed_ms", 391.6);
        full.row(["allreduce".into()]);
        full.rows_in_all = 1204;
        let missing = Section::missing("Collectives", &["op_name"], "No kernels.", "nsys profile CMD");
        let report = Report::new(vec![run("a", "nccl_ops", full), run("b", "nccl_ops", missing)]);
        let table = find_table(&report, "nccl_ops", None).unwrap();
        assert_eq!(figure(&table.figures[0].cell).text, "392 ms");
        let outputs = [
            crate::report::markdown(&report),
            crate::report::html_page(&report, "t"),
            crate::report::terminal::one_table(&report, table, 0, None),
        ];
        for text in outputs {
            for part in [
                "communication kernels",
                "Ranks are not compared.",
                "1 of 1,204 rows",
                "Exposed 392 ms",
                "No kernels.",
                "nsys profile CMD",
                "allreduce",
            ] {
                assert!(text.contains(part), "{part} in {text}");
            }
        }
    }

    #[test]
    fn a_hostile_section_with_an_unknown_name_is_escaped_everywhere() {
        let mut section = Section::new(HOSTILE, HOSTILE, &["kernel_name", "op_name", HOSTILE]).limit(HOSTILE);
        section.row([HOSTILE.into(), HOSTILE.into(), Value::Float(f64::MAX)]);
        section.row([Value::Null, i64::MIN.into(), true.into()]);
        section.figure(HOSTILE, HOSTILE);
        section.missing = Some(crate::analysis::section::Missing { why: HOSTILE.into(), recapture: HOSTILE.into() });
        let report = Report::new(vec![run(HOSTILE, HOSTILE, section)]);
        let page = crate::report::html_page(&report, "t");
        assert!(!page.contains("<img") && page.matches("</script>").count() == 1);
        assert!(!crate::report::markdown(&report).contains("<img"));
        let table = find_table(&report, HOSTILE, None).unwrap();
        assert!(csv(&table).contains("'=cmd"));
        assert!(!crate::report::terminal::one_table(&report, table, 0, None).contains('\u{1}'));
        assert!(groups(&report).iter().any(|group| group.tables.iter().any(|id| id == HOSTILE)), "not dropped");
    }

    /// JSON keys are a contract: the suffix of a key names the unit that its type has.
    #[test]
    fn the_type_of_a_declared_column_fits_the_unit_in_its_key() {
        let columns = || SPECS.iter().flat_map(|spec| spec.columns.iter().chain(spec.figures));
        assert!(columns().count() > 0);
        for column in columns() {
            let by_key = match Unit::split_suffix(column.key) {
                _ if has_word(column.key, "pct") || has_word(column.key, "fraction") => ColumnKind::Share,
                Some((stem, _)) if is_timestamp(stem) => ColumnKind::Timestamp,
                Some(_) => ColumnKind::Time,
                None => plain(column.kind),
            };
            assert_eq!(plain(column.kind), by_key, "{}", column.key);
        }
    }

    /// Counts, ids and words have no unit; only their values tell them apart.
    fn plain(kind: ColumnKind) -> ColumnKind {
        match kind {
            ColumnKind::Number | ColumnKind::Id => ColumnKind::Text,
            kind => kind,
        }
    }

    #[test]
    fn a_key_has_one_title_and_one_kind_in_all_sections() {
        let mut known: BTreeMap<&str, &ColumnSpec> = BTreeMap::new();
        for spec in SPECS {
            for column in spec.columns.iter().chain(spec.figures) {
                let first = known.entry(column.key).or_insert(column);
                let (one, other) = ((first.title, plain(first.kind)), (column.title, plain(column.kind)));
                assert_eq!(one, other, "{} in {}", column.key, spec.name);
            }
        }
    }

    #[test]
    fn every_section_of_a_run_belongs_to_exactly_one_group() {
        for name in empty_run("t").sections.keys() {
            assert!(known_tables().any(|known| known == table_id(name)), "{name}");
        }
        let mut ids: Vec<&str> = known_tables().collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all, "one group each");
    }

    #[test]
    fn a_section_with_stages_becomes_one_table_per_stage_with_every_row_once() {
        let mut section = Section::new("Kernels", "ops", &["stage", "kernel_name", "duration_ns"]).limit("An estimate");
        for (stage, name, ns) in
            [("decode", "a", 5_i64), ("extend/prefill", "b", 7), ("decode", "c", 9), ("odd@", "d", 1)]
        {
            section.row([stage.into(), name.into(), ns.into()]);
        }
        let report = Report::new(vec![run("r", "triage_kernels", section)]);
        let tables: Vec<Table> =
            all_tables(&report).into_iter().filter(|table| table.id.starts_with("triage_kernels")).collect();
        let titles: Vec<&str> = tables.iter().map(|table| table.title.as_str()).collect();
        assert_eq!(titles, ["Kernels: extend/prefill", "Kernels: decode", "Kernels: odd@"]);
        let names = |table: &Table| table.rows.iter().map(|row| exact(&row[1])).collect::<Vec<String>>();
        assert_eq!(tables.iter().map(names).collect::<Vec<_>>(), [vec!["b"], vec!["a", "c"], vec!["d"]]);
        assert!(tables.iter().all(|table| table.columns.iter().all(|column| column.key != "stage")));
        let notes: Vec<bool> = tables.iter().map(|table| table.note.contains("An estimate.")).collect();
        assert_eq!(notes, [true, false, false], "the note is shown once");
        let whole = find_table(&report, "triage_kernels", None).unwrap();
        assert_eq!((whole.rows.len(), whole.columns[1].key.as_str()), (4, "stage"), "exports have one table");
    }

    #[test]
    fn findings_are_shown_with_evidence_and_action() {
        let mut section = Section::new("Findings", "", &["severity", "title", "cost_ms", "evidence", "action"]);
        section.row([
            "high".into(),
            "Idle".into(),
            412.25.into(),
            "38 % idle\n12 gaps".into(),
            "Overlap launches".into(),
        ]);
        section.row(["low".into(), "Ranges".into(), Value::Null, "".into(), "".into()]);
        let report = Report::new(vec![run("a", "findings", section)]);
        let findings = crate::report::findings(&report);
        assert_eq!((findings[0].cost.as_str(), findings[1].cost.as_str()), ("412 ms", ""));
        assert_eq!(findings[0].evidence, ["38 % idle", "12 gaps"]);
        let text = crate::report::terminal::terminal(&report, 30, None);
        assert!(text.contains("high: Idle (412 ms)\n    - 38 % idle\n    - 12 gaps\n    > Overlap launches"), "{text}");
    }
}
