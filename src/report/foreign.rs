//! Reads reports of nsys-llm-explainer, `report.json` and `nvlink_timeseries.csv`, into a [`Run`]; linear in the file.
//!
//! The tables become sections without a change of values. `patterns/explain_tables.json` maps each table to its
//! section and columns; `gpuprism explain` uses the same list to write these files. The report has no elapsed times
//! and no categories: they are estimated by dividing the busy time in proportion to kernel durations, and a notice
//! says so. The files of `gpuprism explain` have them, in the member [`OWN_TOTALS`].

use crate::analysis::results::{
    Attribution, Category, CategorySource, Device, Format, Kernel, Notice, Run, Sections, Severity, Totals, Verdict,
    Wall, WallSource,
};
use crate::analysis::section::{FIRST_OP, Missing, Record, Section, Value};
use crate::input::NVLINK_SERIES_HEADER;
use crate::json::{self, FromJson, Json, embedded, from_json};
use crate::ordering;
use crate::ordering::VecMap;
use crate::rules::{Certainty, RuleBook, names};
use crate::words::capitalize;
use crate::{Error, Result};
use std::borrow::Cow;
use std::sync::LazyLock;

/// A table of nsys-llm-explainer and the section with the same contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// The section's name, which is also the file name: `kernels` is `tables/kernels.csv`.
    pub section: String,
    /// Path of the JSON member below `metrics`, with `/` between levels.
    pub metric: String,
    /// Name of the array of rows in that member.
    pub list: String,
    /// Whether the table is also written as a CSV file.
    pub file: bool,
    /// Columns of nsys-llm-explainer, in its order.
    pub columns: Vec<String>,
}
from_json!(Table { section, metric, list, file, columns });

/// All tables of nsys-llm-explainer that have a section.
pub static TABLES: LazyLock<Vec<Table>> =
    LazyLock::new(|| embedded(json::read(include_str!("../../patterns/explain_tables.json"))));

/// The member of a `report.json` of `gpuprism explain` with the run without its sections.
pub(super) const OWN_TOTALS: &str = "gpuprism";
/// The section of NVLink samples, which nsys-llm-explainer writes to a separate CSV file.
const NVLINK_SERIES: &str = "nvlink_timeseries";
/// Name of the row for kernel time that the list of top kernels leaves out.
const UNLISTED_KERNELS: &str = "(kernels beyond the list)";
/// Name of the row for busy time that is not kernel time: that of copies, sets and graphs.
const UNLISTED_WORK: &str = "(GPU work that is no kernel)";

/// Whether the text is a file that [`read`] accepts.
pub fn is_foreign(text: &str) -> bool {
    text.starts_with(NVLINK_SERIES_HEADER) || is_report(text)
}

/// Whether the text is a `report.json`: the tool's name matches, or the list of top kernels is present.
fn is_report(text: &str) -> bool {
    let has_name =
        |json: Json| json.get_path(&["tool", "name"]).and_then(Json::text).as_deref() == Some("nsys-llm-explainer");
    let has_kernels =
        |json: Json| matches!(json.get_path(&["metrics", "top_kernels", "kernels"]), Some(Json::Array(_)));
    // The substring search avoids parsing other JSON files.
    text.contains("\"top_kernels\"") && Json::parse(text).is_ok_and(|json| has_name(json) || has_kernels(json))
}

/// Reads a `report.json` or an `nvlink_timeseries.csv`.
///
/// # Errors
/// The text is not valid JSON.
pub fn read(label: &str, text: &str) -> Result<Run> {
    if text.starts_with(NVLINK_SERIES_HEADER) { read_nvlink_series(label, text) } else { read_report(label, text) }
}

fn read_report(label: &str, text: &str) -> Result<Run> {
    let json = Json::parse(text)
        .map_err(|error| Error::refused(label, format!("a damaged report of nsys-llm-explainer: {error}")))?;
    let sections = sections(json);
    if let Some(own) = json.get_path(&[OWN_TOTALS]).and_then(|own| Run::from_json(own).ok()) {
        return Ok(own_run(label, sections, own));
    }
    let busy = BusyTime::of(json, &sections);
    let launches = figure(json, "launch_storm", "total_launches").map_or(0, |count| count as u64);
    Ok(run((label, Format::NsysLlmExplainer), sections, busy, launches, notices(json)))
}

/// The run that `gpuprism explain` wrote, with the tables of the file as sections.
fn own_run(label: &str, sections: Sections, own: Run) -> Run {
    let message = "the files of `gpuprism explain`: sums, categories and kernels are those of the trace; results that \
                   nsys-llm-explainer has no table for are missing";
    let notice =
        Notice::new(Severity::Info, "explain_report", message, "Open the trace for the timeline and all tables.");
    let notices = own.notices.into_iter().chain([notice]).collect();
    Run { label: label.to_owned(), format: Format::NsysLlmExplainer, sections, notices, ..own }
}

/// The run of a file that has tables and no trace: the section `kernels` and busy times.
pub(super) fn run(
    (label, format): (&str, Format),
    sections: Sections,
    busy: BusyTime,
    launches: u64,
    notices: Vec<Notice>,
) -> Run {
    let (kernels, categories) = kernels(&sections, &busy);
    let duration_ns: i64 = busy.devices.iter().map(|device| device.duration_ns).fold(0, i64::saturating_add);
    let elapsed_ns = kernels.iter().fold(0, |sum: i64, kernel| sum.saturating_add(kernel.elapsed_ns));
    let bar_ns = busy.bar_ns();
    let cpu_ns = bar_ns.saturating_sub(elapsed_ns);
    Run {
        verdict: Verdict::default(),
        label: label.to_owned(),
        format,
        engine: None,
        rules: "gpuprism/default".to_owned(),
        attribution: Attribution::default(),
        devices_merged: false,
        window: None,
        totals: Totals {
            gpu_ops: launches,
            kernels: launches,
            distinct_names: kernels.len() as u64,
            duration_ns,
            kernel_duration_ns: busy.kernel_ns,
            union_ns: busy.union_ns(),
            union_all_ns: busy.union_ns(),
            window_ns: busy.window_ns,
            elapsed_ns,
        },
        wall: Wall {
            wall_ns: busy.window_ns,
            source: WallSource::Window,
            bar_ns,
            cpu_ns,
            cpu_share: share(cpu_ns, bar_ns),
            busy_share: share(elapsed_ns, bar_ns),
            shared_ns: 0,
            shared_share: 0.0,
        },
        devices: busy.devices,
        categories,
        kernels,
        notices,
        sections,
    }
}

/// Moves the samples of each run made from an `nvlink_timeseries.csv` into a report of nsys-llm-explainer without
/// samples: the last such report before the file, else the first. Without one, the file stays a run.
pub fn attach_series(runs: &mut Vec<Run>) {
    let needs_series = |run: &Run| {
        run.format == Format::NsysLlmExplainer
            && run.sections.contains_key("kernels")
            && run.sections.get(NVLINK_SERIES).is_none_or(|section| section.rows.is_empty())
    };
    while let Some(series_index) = runs.iter().position(is_series) {
        let before = runs.iter().take(series_index).rposition(needs_series);
        let Some(owner) = before.or_else(|| runs.iter().position(needs_series)) else { return };
        let mut series = runs.remove(series_index);
        let owner = if owner > series_index { owner - 1 } else { owner };
        if let (Some(run), Some(section)) = (runs.get_mut(owner), series.sections.remove(NVLINK_SERIES)) {
            run.sections.insert(NVLINK_SERIES.to_owned(), section);
        }
    }
}

/// Whether a run has samples of NVLink counters.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn has_samples(run: &Run) -> bool {
    run.sections.get(NVLINK_SERIES).is_some_and(|section| !section.rows.is_empty())
}

fn is_series(run: &Run) -> bool {
    run.format == Format::NsysLlmExplainer && run.sections.len() == 1 && run.sections.contains_key(NVLINK_SERIES)
}

/// Reads the samples of an `nvlink_timeseries.csv` into a run with that one section.
fn read_nvlink_series(label: &str, text: &str) -> Result<Run> {
    let mut section = new_section(NVLINK_SERIES);
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().trim_end().split(',').collect();
    let mut unreadable = 0_u64;
    for line in lines.filter(|line| !line.trim().is_empty()) {
        let cells: Vec<&str> = line.trim_end().split(',').collect();
        if cells.len() != header.len() || line.contains('"') {
            unreadable += 1;
            continue;
        }
        let record = header.iter().zip(cells).map(|(key, cell)| ((*key).to_owned().into(), csv_value(cell)));
        section.rows.push(Record(record.collect()));
    }
    section.rows_in_all = section.rows.len() as u64;
    if unreadable > 0 {
        section.limits.push(format!("{unreadable} lines of the file could not be read"));
    }
    let mut run = read_report(label, "{}")?;
    run.sections.clear();
    run.sections.insert(NVLINK_SERIES.to_owned(), section);
    Ok(run)
}

/// Parses a CSV cell as Python writes it: null, Boolean, number or text.
fn csv_value(cell: &str) -> Value {
    match cell {
        "" | "nan" => Value::Null,
        "True" => Value::Bool(true),
        "False" => Value::Bool(false),
        // The JSON number parser: `str::parse::<f64>` would add a 10 KB table to the WebAssembly module.
        text => match Json::parse(text) {
            Ok(number @ (Json::Int(_) | Json::Large(_) | Json::Float(_))) => value(number),
            _ => text.into(),
        },
    }
}

const DERIVED_FROM: &str = "the report of nsys-llm-explainer, unchanged";

/// An empty section with the columns of [`TABLES`] and a title made from its name.
fn new_section(name: &str) -> Section {
    let columns = TABLES.iter().find(|table| table.section == name).map(|table| table.columns.clone());
    let title_word = |word| match word {
        "nccl" => "NCCL",
        "nvlink" => "NVLink",
        "nvtx" => "NVTX",
        "gpu" => "GPU",
        "pid" => "process",
        word => word,
    };
    let words: Vec<&str> = name.split('_').map(title_word).collect();
    Section {
        title: capitalize(words.join(" ")),
        derived_from: DERIVED_FROM.to_owned(),
        columns: columns.unwrap_or_default(),
        ..Section::default()
    }
}

fn sections(json: Json<'_>) -> Sections {
    let mut sections = Sections::new();
    for table in TABLES.iter() {
        let path: Vec<&str> = ["metrics"].into_iter().chain(table.metric.split('/')).collect();
        let Some(metric @ Json::Object(_)) = json.get_path(&path) else { continue };
        let rows = metric.get_path(&[&table.list]);
        let mut section = new_section(&table.section);
        section.rows = rows
            .into_iter()
            .flat_map(Json::elements)
            .filter(|row| matches!(row, Json::Object(_)))
            .map(|row| record(row, &mut section.columns))
            .collect();
        let is_empty = rows.is_none_or(|rows| rows.elements().next().is_none());
        section.rows_in_all = section.rows.len() as u64;
        section.limits = strings(metric.get_path(&["notes"]));
        section.summary = figures(metric);
        // Figures of a metric go to its first table. All its tables need the time origin.
        if TABLES.iter().find(|first| first.metric == table.metric) != Some(table) {
            section.summary.0.retain(|(key, _)| key == FIRST_OP && !section.rows.is_empty());
        }
        if is_empty && metric.get_path(&["missing_counters"]) == Some(Json::Bool(true)) {
            let recapture = strings(metric.get_path(&["capture_instructions"])).join(" ");
            section.missing = Some(Missing { why: "The capture has no NVLink counters.".to_owned(), recapture });
        }
        sections.insert(table.section.clone(), section);
    }
    sections.insert("findings".to_owned(), findings(json));
    sections
        .retain(|_, section| !section.rows.is_empty() || !section.summary.0.is_empty() || section.missing.is_some());
    sections
}

/// Converts a row and appends its unlisted keys to `columns`.
fn record(row: Json<'_>, columns: &mut Vec<String>) -> Record {
    for (key, _) in row.members() {
        if !columns.iter().any(|listed| *listed == key) {
            columns.push(key.into_owned());
        }
    }
    Record(columns.iter().filter_map(|key| Some((key.clone().into(), value(row.get_path(&[key])?)))).collect())
}

fn value(json: Json<'_>) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => value.into(),
        Json::Int(number) => number.into(),
        Json::Large(_) | Json::Float(_) => json.number().into(),
        Json::String(text) => text.unescaped().as_ref().into(),
        Json::Array(_) | Json::Object(_) => strings(Some(json)).join(", ").into(),
    }
}

/// The single values of a metric, including those of its `summary` and `pairwise` objects.
fn figures(metric: Json<'_>) -> Record {
    let mut figures = Vec::new();
    for object in [Some(metric), metric.get_path(&["summary"]), metric.get_path(&["pairwise"])].into_iter().flatten() {
        for (key, json) in object.members() {
            let is_figure = json.number().is_some() || key == "source" || key == "is_launch_storm";
            if is_figure && json != Json::Null && key != "t0_ns" {
                figures.push((key.into_owned().into(), value(json)));
            }
        }
    }
    Record(figures)
}

fn findings(json: Json<'_>) -> Section {
    let columns = ["severity", "title", "cost_ms", "evidence", "action"];
    let mut section = Section::new("Findings", DERIVED_FROM, &columns);
    for finding in json.get_path(&["findings"]).into_iter().flat_map(Json::elements) {
        let text = |key: &str| Value::from(finding.get_path(&[key]).and_then(Json::text).unwrap_or_default().as_ref());
        let lines = |key: &str| Value::from(strings(finding.get_path(&[key])).join("\n"));
        // Only `gpuprism explain` writes the cost.
        let cost = finding.get_path(&["cost_ms"]).map_or(Value::Null, value);
        section.row([text("severity"), text("title"), cost, lines("evidence"), lines("recommendation")]);
    }
    section
}

fn strings(json: Option<Json<'_>>) -> Vec<String> {
    json.into_iter().flat_map(Json::elements).filter_map(Json::text).map(Cow::into_owned).collect()
}

fn figure(json: Json<'_>, metric: &str, key: &str) -> Option<f64> {
    json.get_path(&["metrics", metric, key]).and_then(Json::number).filter(|value| *value >= 0.0)
}

/// Busy time by device, from the sections `gpu_idle`, `top_kernels` and `launch_storm`.
pub(super) struct BusyTime {
    pub(super) devices: Vec<Device>,
    pub(super) window_ns: i64,
    pub(super) kernel_ns: i64,
}

impl BusyTime {
    fn of(json: Json<'_>, sections: &Sections) -> Self {
        let kernel_ns = figure(json, "top_kernels", "total_kernel_time_ns").map_or(0, |ns| ns as i64);
        let rows = sections.get("gpu_idle").map_or(&[][..], |section| &section.rows);
        let window_ns = figure(json, "launch_storm", "window_s").map_or(0, |s| (s * 1e9) as i64);
        let longest = rows.iter().map(|row| ms(row, "window_ms")).max().unwrap_or(0);
        // Without busy times of devices there is no share of the window: kernels overlap.
        let window_ns = if rows.is_empty() { 0 } else { window_ns.max(longest) };
        let device = |row: &Record| {
            let union_ns = ms(row, "busy_ms");
            Device {
                id: row.get("device_id").and_then(Value::number).map_or_else(String::new, |id| id.to_string()),
                name: String::new(),
                gpu_ops: 0,
                duration_ns: union_ns,
                union_ns,
                window_ns: ms(row, "window_ms"),
                idle_ns: window_ns.saturating_sub(union_ns),
                busy_share: share(union_ns, window_ns),
            }
        };
        Self { devices: rows.iter().map(device).collect(), window_ns, kernel_ns }
    }

    /// Busy time summed over devices. Without devices in the report: the kernel time.
    fn union_ns(&self) -> i64 {
        let union = self.devices.iter().fold(0, |sum: i64, device| sum.saturating_add(device.union_ns));
        if self.devices.is_empty() { self.kernel_ns } else { union }
    }

    fn bar_ns(&self) -> i64 {
        let devices = i64::try_from(self.devices.len().max(1)).unwrap_or(i64::MAX);
        self.window_ns.saturating_mul(devices).max(self.union_ns())
    }
}

/// A whole number, exact if it was written as one.
fn whole(row: &Record, key: &str) -> i64 {
    match row.get(key) {
        Some(Value::Int(number)) => *number,
        other => other.and_then(Value::number).map_or(0, |number| number as i64),
    }
}

fn ms(row: &Record, key: &str) -> i64 {
    row.get(key).and_then(Value::number).map_or(0, |ms| (ms * 1e6).round() as i64).max(0)
}

/// The sums of one kernel over the rows of a list. The shortest and longest launch are known if each row says them.
#[derive(Debug, Clone, Copy, Default)]
struct Listed {
    count: u64,
    duration_ns: i64,
    shortest_us: Option<f64>,
    longest_us: Option<f64>,
}

/// The listed kernels, by name. Elapsed times divide the busy time in proportion to durations.
fn kernels(sections: &Sections, busy: &BusyTime) -> (Vec<Kernel>, Vec<Category>) {
    let rows = sections.get("kernels").map_or(&[][..], |section| &section.rows);
    let mut sums: VecMap<&str, Listed> = VecMap::new();
    for row in rows {
        let number = |key: &str| row.get(key).and_then(Value::number);
        let name = row.get("kernel_name").and_then(Value::text).unwrap_or_default();
        let first = Listed { shortest_us: Some(f64::MAX), longest_us: Some(0.0), ..Listed::default() };
        sums.update(name, first, |sum| {
            sum.count = sum.count.saturating_add(number("call_count").unwrap_or_default() as u64);
            sum.duration_ns = sum.duration_ns.saturating_add(whole(row, "total_time_ns").max(0));
            sum.shortest_us = sum.shortest_us.zip(number("min_duration_us")).map(|(shortest, own)| shortest.min(own));
            sum.longest_us = sum.longest_us.zip(number("max_duration_us")).map(|(longest, own)| longest.max(own));
        });
    }
    let listed: i64 = sums.iter().fold(0, |all: i64, (_, sum)| all.saturating_add(sum.duration_ns));
    let total = busy.kernel_ns.max(listed);
    if total > listed {
        let rest = Listed { duration_ns: total - listed, ..Listed::default() };
        sums.update(UNLISTED_KERNELS, rest, |sum| *sum = rest);
    }
    let union = busy.union_ns();
    if union > total {
        let rest = Listed { duration_ns: union - total, ..Listed::default() };
        sums.update(UNLISTED_WORK, rest, |sum| *sum = rest);
    }
    let total = total.max(union);
    let rules = RuleBook::gpuprism_default();
    let demangled: Vec<Cow<str>> = sums.iter().map(|(name, _)| names::demangle(name)).collect();
    let short_names = names::distinct(&demangled);
    let mut kernels: Vec<Kernel> = sums
        .into_vec()
        .iter()
        .zip(&demangled)
        .zip(short_names)
        .map(|((&(name, Listed { count, duration_ns, shortest_us, longest_us }), demangled), short_name)| {
            let elapsed_ns = proportion(union, duration_ns, total);
            let found = rules.map(|rules| rules.classify(name, demangled));
            let category = found.map_or("misc", |found| found.category).to_owned();
            let is_rule = found.is_some_and(|found| found.certainty != Certainty::NoMatch);
            let category_source = if is_rule { CategorySource::Rule } else { CategorySource::None };
            Kernel {
                name: name.to_owned(),
                short_name,
                category,
                category_source,
                count,
                duration_ns,
                elapsed_ns,
                exclusive_ns: 0,
                fair_ns: elapsed_ns,
                elapsed_share: Some(share(elapsed_ns, union)),
                mean_ns: if count == 0 { 0.0 } else { duration_ns as f64 / count as f64 },
                min_ns: shortest_us.map(|us| (us * 1e3) as i64),
                max_ns: longest_us.map(|us| (us * 1e3) as i64),
            }
        })
        .collect();
    ordering::sort_by(&mut kernels, |a, b| b.elapsed_ns.cmp(&a.elapsed_ns).then_with(|| a.name.cmp(&b.name)));
    let categories = categories(&kernels, busy);
    (kernels, categories)
}

fn categories(kernels: &[Kernel], busy: &BusyTime) -> Vec<Category> {
    let mut sums: VecMap<&str, (u64, i64, i64)> = VecMap::new();
    for kernel in kernels {
        sums.update(&kernel.category, (0, 0, 0), |sum| {
            sum.0 += kernel.count;
            sum.1 = sum.1.saturating_add(kernel.duration_ns);
            sum.2 = sum.2.saturating_add(kernel.elapsed_ns);
        });
    }
    let elapsed = sums.iter().fold(0, |all: i64, (_, sum)| all.saturating_add(sum.2));
    let category = |&(name, (count, duration_ns, elapsed_ns)): &(&str, (u64, i64, i64))| Category {
        category: name.to_owned(),
        count,
        duration_ns,
        elapsed_ns,
        exclusive_ns: 0,
        fair_ns: elapsed_ns,
        elapsed_share: Some(share(elapsed_ns, elapsed)),
        bar_share: Some(share(elapsed_ns, busy.bar_ns())),
    };
    let mut categories: Vec<Category> = sums.iter().map(category).collect();
    ordering::sort_by_key(&mut categories, |category| std::cmp::Reverse(category.elapsed_ns));
    categories
}

fn notices(json: Json<'_>) -> Vec<Notice> {
    let tool = |key: &str, other: &str| {
        json.get_path(&["tool", key]).and_then(Json::text).map_or_else(|| other.to_owned(), Cow::into_owned)
    };
    let name = format!("{} {}", tool("name", "nsys-llm-explainer"), tool("version", ""));
    let message = format!(
        "a report of {}: tables and findings are shown unchanged; elapsed times, categories and the bar are estimates: \
         its busy time divided in proportion to kernel durations",
        name.trim_end(),
    );
    let advice = "For exact numbers, open the SQLite export.";
    let own = Notice::new(Severity::Info, "another_tools_report", message, advice);
    let warned = strings(json.get_path(&["warnings"])).into_iter().map(|message| {
        let advice = "This warning comes from nsys-llm-explainer.";
        Notice::new(Severity::Warning, "its_warning", message.trim_end_matches('.'), advice)
    });
    let has_rows = |path: &[&str]| json.get_path(path).is_some_and(|rows| rows.elements().next().is_some());
    let has_busy_times = has_rows(&["metrics", "gpu_idle", "devices"]);
    let no_busy_time = (has_rows(&["metrics", "top_kernels", "kernels"]) && !has_busy_times).then(|| {
        let message = "the report has no busy times of devices, so how busy the GPU was is unknown: the bar is the summed kernel time";
        Notice::new(Severity::Warning, "no_busy_time", message, advice)
    });
    warned.chain(no_busy_time).chain([own]).collect()
}

/// `whole * part / total` without overflow.
fn proportion(whole: i64, part: i64, total: i64) -> i64 {
    if total == 0 {
        return 0;
    }
    i64::try_from(i128::from(whole) * i128::from(part) / i128::from(total)).unwrap_or(i64::MAX)
}

fn share(part: i64, whole: i64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two kernels on one device: 3 ms and 1 ms of 5 ms kernel time, 4 ms busy of 8 ms.
    fn report() -> String {
        serde_json::json!({
            "tool": {"name": "nsys-llm-explainer", "version": "0.3.2"},
            "warnings": ["Clock unknown."],
            "findings": [{"severity": "high", "title": "T", "evidence": ["e1", "e2"], "recommendation": ["r"]}],
            "metrics": {
                "top_kernels": {"total_kernel_time_ns": 5_000_000, "sql": {"q": "SELECT"}, "kernels": [
                    {"kernel_name": "nvjet_gemm", "device_id": 0, "call_count": 2, "total_time_ns": 3_000_000, "own": 1},
                    {"kernel_name": "ncclDevKernel_AllReduce", "device_id": 0, "call_count": 1, "total_time_ns": 1_000_000}]},
                "launch_storm": {"total_launches": 7, "window_s": 0.008, "is_launch_storm": false, "tiny_kernels": []},
                "gpu_idle": {"devices": [{"device_id": 0, "window_ms": 8.0, "busy_ms": 4.0, "idle_ms": 4.0, "idle_pct_of_window": 50.0}], "gaps": []},
                "nvlink_during_nccl": {"missing_counters": true, "rows": [], "timeseries": [], "capture_instructions": ["a", "b"]},
                "roofline": null
            }
        })
        .to_string()
    }

    #[test]
    fn a_report_read_back_keeps_its_time_origin() {
        let run = read("report.json", include_str!("../../examples/explain/report.json")).unwrap();
        let has_timestamps = |section: &&Section| {
            let is_timestamp = |column: &String| column.ends_with("start_ns") || column == "timestamp_ns";
            !section.rows.is_empty() && section.columns.iter().any(is_timestamp)
        };
        let with_timestamps: Vec<&Section> = run.sections.values().filter(has_timestamps).collect();
        assert!(with_timestamps.len() > 3, "{}", with_timestamps.len());
        for section in with_timestamps {
            assert_eq!(section.summary.get(FIRST_OP), Some(&Value::Int(0)), "{}", section.title);
        }
    }

    #[test]
    fn recorded_numbers_are_unchanged_and_estimates_add_up_to_the_busy_time() {
        assert!(is_foreign(&report()) && !is_foreign("{}") && !is_foreign(r#"{"top_kernels": {}}"#));
        let run = read("report.json", &report()).unwrap();
        assert_eq!((run.totals.kernels, run.totals.kernel_duration_ns, run.wall.wall_ns), (7, 5_000_000, 8_000_000));
        let elapsed: Vec<(&str, i64, i64)> =
            run.kernels.iter().map(|kernel| (kernel.name.as_str(), kernel.duration_ns, kernel.elapsed_ns)).collect();
        // 4 ms busy and 5 ms of kernel time: four fifths of each duration.
        let want = [
            ("nvjet_gemm", 3_000_000, 2_400_000),
            (UNLISTED_KERNELS, 1_000_000, 800_000),
            ("ncclDevKernel_AllReduce", 1_000_000, 800_000),
        ];
        assert_eq!(elapsed, want);
        assert_eq!(run.wall.cpu_ns, 4_000_000);
        let kernels = &run.sections["kernels"];
        assert_eq!(kernels.columns.first().map(String::as_str), Some("kernel_name"));
        assert_eq!(kernels.rows[0].get("own"), Some(&Value::Int(1)), "an unlisted column is kept");
        assert_eq!(kernels.summary.get("total_kernel_time_ns"), Some(&Value::Int(5_000_000)));
        assert_eq!(run.sections["findings"].rows[0].get("evidence").and_then(Value::text), Some("e1\ne2"));
        assert_eq!(run.sections["nvlink_during_nccl"].missing.as_ref().unwrap().recapture, "a b");
        let codes: Vec<&str> = run.notices.iter().map(|notice| notice.code.as_str()).collect();
        assert_eq!(codes, ["its_warning", "another_tools_report"]);
    }

    #[test]
    fn busy_time_that_is_not_kernel_time_counts_as_busy() {
        let text = report().replace("5000000", "1000000").replace("\"busy_ms\":4.0", "\"busy_ms\":6.0");
        let run = read("report.json", &text).unwrap();
        let rest = run.kernels.iter().find(|kernel| kernel.name == UNLISTED_WORK).unwrap();
        assert_eq!((rest.elapsed_ns, run.wall.cpu_ns, run.wall.busy_share), (2_000_000, 2_000_000, 0.75));
    }

    #[test]
    fn a_report_without_busy_times_says_so_instead_of_a_share() {
        let run = read("report.json", &report().replace("gpu_idle", "other")).unwrap();
        assert_eq!((run.wall.wall_ns, run.totals.union_ns), (0, 5_000_000));
        assert!(run.notices.iter().any(|notice| notice.code == "no_busy_time"), "{:?}", run.notices);
    }

    #[test]
    fn a_series_joins_a_report_or_stays_a_run() {
        let text = "metric_source_id,metric_name,timestamp_ns,timestamp_ms,metric_value,nccl_active\r\n1,NVLink RX,5,0.000005,7.5,True\r\nbroken\r\n";
        let series = read("nvlink_timeseries.csv", text).unwrap();
        let rows = &series.sections[NVLINK_SERIES].rows;
        assert_eq!(
            (rows.len(), rows[0].get("metric_value"), rows[0].get("nccl_active")),
            (1, Some(&Value::Float(7.5)), Some(&Value::Bool(true)))
        );
        assert_eq!(series.sections[NVLINK_SERIES].limits, ["1 lines of the file could not be read"]);
        let mut alone = vec![series.clone()];
        attach_series(&mut alone);
        assert_eq!(alone.len(), 1);
        for runs in [[series.clone(), read("r", &report()).unwrap()], [read("r", &report()).unwrap(), series]] {
            let mut runs = runs.to_vec();
            attach_series(&mut runs);
            assert_eq!(runs.len(), 1);
            assert_eq!(runs[0].sections[NVLINK_SERIES].rows.len(), 1);
        }
    }

    #[test]
    fn malformed_reports_are_read_without_a_panic() {
        for text in [
            r#"{"metrics": {"top_kernels": {"kernels": [1, null, {}, {"kernel_name": 7, "total_time_ns": -9e300, "call_count": 1e300}]}}}"#,
            r#"{"metrics": {"top_kernels": {"kernels": [{"total_time_ns": 9223372036854775807}, {"kernel_name": "b", "total_time_ns": 9223372036854775807}]},
                "gpu_idle": {"devices": [{"window_ms": 1e300, "busy_ms": 1e300}, {"busy_ms": -1}]}, "by_pid": {"kernels": []}}}"#,
            r#"{"metrics": [], "findings": {"a": 1}, "warnings": "x"}"#,
        ] {
            let run = read("r", text).unwrap();
            assert!(run.wall.bar_ns >= run.totals.elapsed_ns);
        }
    }
}
