//! nsys-llm-explainer's report.json: where its tables stand, and a run made of one.
//!
//! Its tables are kept as they are. What it does not say is estimated from what it says, and a notice tells which.

use super::explain::Sections;
use super::results::{Attribution, Category, Device, Format, Kernel, Notice, Run, Severity, Totals, Wall, WallSource};
use super::section::{FIRST_OP, Record, Section, Value};
use crate::json::{self, Json, from_json};
use crate::ordering::{ByKey, InOrder};
use crate::rules::{RuleBook, names};
use crate::{Error, Result, capitalised};
use std::sync::LazyLock;

/// One table of the original and the section that is the same here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// The section's name, which is also the file's: `kernels` is `tables/kernels.csv`.
    pub section: String,
    /// The member of `metrics` that holds it; a `/` goes one deeper.
    pub metric: String,
    /// The list in that member.
    pub list: String,
    /// Does it have a file of its own?
    pub file: bool,
    /// The original's columns.
    pub columns: Vec<String>,
}
from_json!(Table { section, metric, list, file, columns });

/// All tables of the original that have a section.
pub static TABLES: LazyLock<Vec<Table>> = LazyLock::new(|| {
    #[allow(clippy::expect_used, reason = "a file of this crate, read by the tests below")]
    json::read(include_str!("../../patterns/explain_tables.json")).expect("patterns/explain_tables.json")
});

/// The section of samples that the original keeps in a file of its own.
const SERIES: &str = "nvlink_timeseries";
/// What the original calls a kernel's lot of time that its list leaves out.
const REST: &str = "(kernels beyond the list)";

/// Is this JSON text a report of nsys-llm-explainer? Its tool says so, or it has the list of kernels.
pub fn is_one(text: &str) -> bool {
    let named = |json: &Json| json.at(&["tool", "name"]).and_then(Json::text) == Some("nsys-llm-explainer");
    let shaped = |json: &Json| matches!(json.at(&["metrics", "top_kernels", "kernels"]), Some(Json::Array(_)));
    // A text of another kind is not parsed as a whole.
    text.contains("\"top_kernels\"") && Json::parse(text).is_ok_and(|json| named(&json) || shaped(&json))
}

/// A run of what the report says.
///
/// # Errors
/// Where the text is no JSON object.
pub fn read(label: &str, text: &str) -> Result<Run> {
    let json = Json::parse(text)
        .map_err(|error| Error::refused(label, format!("a report of nsys-llm-explainer that is damaged: {error}")))?;
    let sections = sections(&json);
    let busy = Busy::of(&json, &sections);
    let (kernels, categories) = kernels(&sections, &busy);
    let times: i64 = busy.devices.iter().map(|device| device.duration_ns).fold(0, i64::saturating_add);
    let launches = figure(&json, "launch_storm", "total_launches").map_or(0, |count| count as u64);
    let elapsed_ns = kernels.iter().fold(0, |sum: i64, kernel| sum.saturating_add(kernel.elapsed_ns));
    let bar_ns = busy.bar_ns();
    let cpu_ns = bar_ns.saturating_sub(elapsed_ns);
    Ok(Run {
        label: label.to_owned(),
        format: Format::NsysLlmExplainer,
        engine: None,
        rules: "gpuprism/default".to_owned(),
        attribution: Attribution::FirstCome,
        devices_merged: false,
        window: None,
        totals: Totals {
            gpu_ops: launches,
            kernels: launches,
            distinct_names: kernels.len() as u64,
            duration_ns: times,
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
        notices: notices(&json),
        sections,
    })
}

/// Gives a series of samples that came as a file to the report of nsys-llm-explainer that lacks it: the one before it,
/// or else the first. A series that finds none stays a run of its own.
pub fn join_series(runs: &mut Vec<Run>) {
    let lacks = |run: &Run| {
        run.format == Format::NsysLlmExplainer
            && run.sections.contains_key("kernels")
            && run.sections.get(SERIES).is_none_or(|section| section.rows.is_empty())
    };
    while let Some(at) = runs.iter().position(is_series) {
        let before = runs.iter().take(at).rposition(lacks);
        let Some(owner) = before.or_else(|| runs.iter().position(lacks)) else { return };
        let mut series = runs.remove(at);
        let owner = if owner > at { owner - 1 } else { owner };
        if let (Some(run), Some(section)) = (runs.get_mut(owner), series.sections.remove(SERIES)) {
            run.sections.insert(SERIES.to_owned(), section);
        }
    }
}

fn is_series(run: &Run) -> bool {
    run.format == Format::NsysLlmExplainer && run.sections.len() == 1 && run.sections.contains_key(SERIES)
}

/// A run that is nothing but the samples of an `nvlink_timeseries.csv`.
///
/// # Errors
/// Where the text is no such table.
pub fn read_series(label: &str, text: &str) -> Result<Run> {
    let mut section = new_section(SERIES);
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().trim_end().split(',').collect();
    let mut unreadable = 0_u64;
    for line in lines.filter(|line| !line.trim().is_empty()) {
        let cells: Vec<&str> = line.trim_end().split(',').collect();
        if cells.len() != head.len() || line.contains('"') {
            unreadable += 1;
            continue;
        }
        let record = head.iter().zip(cells).map(|(key, cell)| ((*key).to_owned(), plain(cell)));
        section.rows.push(Record(record.collect()));
    }
    section.rows_in_all = section.rows.len() as u64;
    if unreadable > 0 {
        section.limits.push(format!("{unreadable} lines of the file could not be read"));
    }
    let mut run = read(label, "{}")?;
    run.sections.clear();
    run.sections.insert(SERIES.to_owned(), section);
    Ok(run)
}

/// A cell of a CSV as what it looks like.
fn plain(cell: &str) -> Value {
    match cell {
        "" | "nan" => Value::Null,
        "True" => Value::Bool(true),
        "False" => Value::Bool(false),
        // By JSON's reader of numbers: the standard library's has a table of ten kilobytes that hardly compresses.
        text => match Json::parse(text) {
            Ok(number @ (Json::Int(_) | Json::Large(_) | Json::Float(_))) => value(&number),
            _ => text.into(),
        },
    }
}

/// `nccl_rank_skew` as words.
fn new_section(name: &str) -> Section {
    let columns = TABLES.iter().find(|table| table.section == name).map(|table| table.columns.clone());
    let words: Vec<&str> = name
        .split('_')
        .map(|word| {
            if word == "nccl" {
                "NCCL"
            } else if word == "nvlink" {
                "NVLink"
            } else if word == "nvtx" {
                "NVTX"
            } else if word == "gpu" {
                "GPU"
            } else if word == "pid" {
                "process"
            } else {
                word
            }
        })
        .collect();
    Section {
        title: capitalised(words.join(" ")),
        derived_from: "the report of nsys-llm-explainer, as it stands there".to_owned(),
        columns: columns.unwrap_or_default(),
        ..Section::default()
    }
}

fn sections(json: &Json) -> Sections {
    let mut sections = Sections::new();
    for table in TABLES.iter() {
        let path: Vec<&str> = ["metrics"].into_iter().chain(table.metric.split('/')).collect();
        let Some(metric @ Json::Object(_)) = json.at(&path) else { continue };
        let rows = metric.at(&[&table.list]).map_or(&[][..], Json::elements);
        let mut section = new_section(&table.section);
        section.rows = rows
            .iter()
            .filter(|row| matches!(row, Json::Object(_)))
            .map(|row| record(row, &mut section.columns))
            .collect();
        section.rows_in_all = section.rows.len() as u64;
        section.limits = strings(metric.at(&["notes"]));
        section.summary = figures(metric);
        // The figures of a metric stand with its first table, but for the moment from which all of them count.
        if TABLES.iter().find(|first| first.metric == table.metric) != Some(table) {
            section.summary.0.retain(|(key, _)| key == FIRST_OP && !section.rows.is_empty());
        }
        if rows.is_empty() && metric.at(&["missing_counters"]) == Some(&Json::Bool(true)) {
            let recapture = strings(metric.at(&["capture_instructions"])).join(" ");
            section.missing =
                Some(super::section::Missing { why: "The capture has no such counters.".to_owned(), recapture });
        }
        sections.insert(table.section.clone(), section);
    }
    sections.insert("findings".to_owned(), findings(json));
    sections
        .retain(|_, section| !section.rows.is_empty() || !section.summary.0.is_empty() || section.missing.is_some());
    sections
}

/// A row in the original's order of columns; what else it has comes after.
fn record(row: &Json, columns: &mut Vec<String>) -> Record {
    for (key, _) in row.members() {
        if !columns.iter().any(|known| known == key) {
            columns.push(key.to_owned());
        }
    }
    Record(columns.iter().filter_map(|key| Some((key.clone(), value(row.at(&[key])?)))).collect())
}

fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => (*value).into(),
        Json::Int(number) => (*number).into(),
        Json::Large(_) | Json::Float(_) => json.number().into(),
        Json::String(text) => text.as_str().into(),
        Json::Array(_) | Json::Object(_) => strings(Some(json)).join(", ").into(),
    }
}

/// The plain values of a metric, those of its `summary` and `pairwise` with them.
fn figures(metric: &Json) -> Record {
    let mut figures = Vec::new();
    for place in [Some(metric), metric.at(&["summary"]), metric.at(&["pairwise"])].into_iter().flatten() {
        for (key, json) in place.members() {
            let told = json.number().is_some() || key == "source" || key == "is_launch_storm";
            if told && *json != Json::Null && key != "t0_ns" {
                figures.push((key.to_owned(), value(json)));
            }
        }
    }
    Record(figures)
}

fn findings(json: &Json) -> Section {
    let columns = ["severity", "title", "cost_ms", "evidence", "recommendation"];
    let mut section = Section::new("Findings", "the report of nsys-llm-explainer, as it stands there", &columns);
    for finding in json.at(&["findings"]).map_or(&[][..], Json::elements) {
        let text = |key: &str| Value::from(finding.at(&[key]).and_then(Json::text).unwrap_or_default());
        let lines = |key: &str| Value::from(strings(finding.at(&[key])).join("\n"));
        section.row([text("severity"), text("title"), Value::Null, lines("evidence"), lines("recommendation")]);
    }
    section
}

fn strings(json: Option<&Json>) -> Vec<String> {
    json.map_or(&[][..], Json::elements).iter().filter_map(Json::text).map(str::to_owned).collect()
}

fn figure(json: &Json, metric: &str, key: &str) -> Option<f64> {
    json.at(&["metrics", metric, key]).and_then(Json::number).filter(|value| *value >= 0.0)
}

/// What the report says of busy and idle time.
struct Busy {
    devices: Vec<Device>,
    window_ns: i64,
    kernel_ns: i64,
}

impl Busy {
    fn of(json: &Json, sections: &Sections) -> Self {
        let kernel_ns = figure(json, "top_kernels", "total_kernel_time_ns").map_or(0, |ns| ns as i64);
        let rows = sections.get("gpu_idle").map_or(&[][..], |section| &section.rows);
        let window_ns = figure(json, "launch_storm", "window_s").map_or(0, |s| (s * 1e9) as i64);
        let longest = rows.iter().map(|row| ms(row, "window_ms")).max().unwrap_or(0);
        let window_ns = window_ns.max(longest);
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

    /// Busy time of all devices; where the report does not tell, kernel time as far as the window goes.
    fn union_ns(&self) -> i64 {
        let union = self.devices.iter().fold(0, |sum: i64, device| sum.saturating_add(device.union_ns));
        if self.devices.is_empty() { self.kernel_ns.min(self.window_ns) } else { union }
    }

    fn bar_ns(&self) -> i64 {
        let devices = i64::try_from(self.devices.len().max(1)).unwrap_or(i64::MAX);
        self.window_ns.saturating_mul(devices).max(self.union_ns())
    }
}

fn ms(row: &Record, key: &str) -> i64 {
    row.get(key).and_then(Value::number).map_or(0, |ms| (ms * 1e6).round() as i64).max(0)
}

/// The listed kernels, by name, with the busy time divided in proportion to their durations.
fn kernels(sections: &Sections, busy: &Busy) -> (Vec<Kernel>, Vec<Category>) {
    let rows = sections.get("kernels").map_or(&[][..], |section| &section.rows);
    let mut sums: ByKey<&str, (u64, i64, f64, f64)> = ByKey::new();
    for row in rows {
        let number = |key: &str| row.get(key).and_then(Value::number).unwrap_or_default();
        let name = row.get("kernel_name").and_then(Value::text).unwrap_or_default();
        sums.change(name, (0, 0, f64::MAX, 0.0), |sum| {
            sum.0 = sum.0.saturating_add(number("call_count") as u64);
            sum.1 = sum.1.saturating_add((number("total_time_ns") as i64).max(0));
            sum.2 = sum.2.min(number("min_duration_us"));
            sum.3 = sum.3.max(number("max_duration_us"));
        });
    }
    let listed: i64 = sums.0.iter().fold(0, |all: i64, (_, sum)| all.saturating_add(sum.1));
    let all = busy.kernel_ns.max(listed);
    if all > listed {
        let rest = (0, all - listed, 0.0, 0.0);
        sums.change(REST, rest, |sum| *sum = rest);
    }
    let union = busy.union_ns().min(all);
    let rules = RuleBook::own();
    let mut kernels: Vec<Kernel> = sums
        .0
        .iter()
        .map(|&(name, (count, duration_ns, min_us, max_us))| {
            let demangled = names::demangle(name);
            let elapsed_ns = part(union, duration_ns, all);
            let category = rules.map_or("misc", |rules| rules.category(name, &demangled)).to_owned();
            Kernel {
                name: name.to_owned(),
                short_name: names::short(&demangled),
                category,
                count,
                duration_ns,
                elapsed_ns,
                exclusive_ns: 0,
                fair_ns: elapsed_ns,
                elapsed_share: share(elapsed_ns, union),
                mean_ns: if count == 0 { 0.0 } else { duration_ns as f64 / count as f64 },
                min_ns: (min_us * 1e3) as i64,
                max_ns: (max_us * 1e3) as i64,
            }
        })
        .collect();
    kernels.order_by(|a, b| b.elapsed_ns.cmp(&a.elapsed_ns).then_with(|| a.name.cmp(&b.name)));
    let categories = categories(&kernels, busy);
    (kernels, categories)
}

fn categories(kernels: &[Kernel], busy: &Busy) -> Vec<Category> {
    let mut sums: ByKey<&str, (u64, i64, i64)> = ByKey::new();
    for kernel in kernels {
        sums.change(&kernel.category, (0, 0, 0), |sum| {
            sum.0 += kernel.count;
            sum.1 = sum.1.saturating_add(kernel.duration_ns);
            sum.2 = sum.2.saturating_add(kernel.elapsed_ns);
        });
    }
    let elapsed = sums.0.iter().fold(0, |all: i64, (_, sum)| all.saturating_add(sum.2));
    let category = |&(name, (count, duration_ns, elapsed_ns)): &(&str, (u64, i64, i64))| Category {
        category: name.to_owned(),
        count,
        duration_ns,
        elapsed_ns,
        exclusive_ns: 0,
        fair_ns: elapsed_ns,
        elapsed_share: share(elapsed_ns, elapsed),
        bar_share: share(elapsed_ns, busy.bar_ns()),
    };
    let mut categories: Vec<Category> = sums.0.iter().map(category).collect();
    categories.order_by_key(|category| std::cmp::Reverse(category.elapsed_ns));
    categories
}

fn notices(json: &Json) -> Vec<Notice> {
    let tool = |key: &str, other: &str| json.at(&["tool", key]).and_then(Json::text).unwrap_or(other).to_owned();
    let name = format!("{} {}", tool("name", "nsys-llm-explainer"), tool("version", ""));
    let own = Notice {
        severity: Severity::Info,
        code: "another_tools_report".to_owned(),
        message: format!(
            "a report of {}: its tables and findings stand as they are; elapsed times, categories \
             and the bar are estimated by dividing its busy time in proportion to kernel durations",
            name.trim_end(),
        ),
        count: 1,
        advice: "Open the SQLite export itself for numbers that gpuprism worked out.".to_owned(),
    };
    let warned = strings(json.at(&["warnings"])).into_iter().map(|message| Notice {
        severity: Severity::Warning,
        code: "its_warning".to_owned(),
        message: message.trim_end_matches('.').to_owned(),
        count: 1,
        advice: "This is the other tool's own warning.".to_owned(),
    });
    warned.chain([own]).collect()
}

/// `whole * part / all` without overflow.
fn part(whole: i64, part: i64, all: i64) -> i64 {
    if all == 0 { 0 } else { i64::try_from(i128::from(whole) * i128::from(part) / i128::from(all)).unwrap_or(i64::MAX) }
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
    fn times_of_a_report_that_is_read_back_count_from_where_they_did() {
        let run = read("report.json", include_str!("../../examples/explain/report.json")).unwrap();
        let of_times = |section: &&Section| {
            let tells_time = |column: &String| column.ends_with("start_ns") || column == "timestamp_ns";
            !section.rows.is_empty() && section.columns.iter().any(tells_time)
        };
        let found: Vec<&Section> = run.sections.values().filter(of_times).collect();
        assert!(found.len() > 3, "{}", found.len());
        for section in found {
            assert_eq!(section.summary.get(FIRST_OP), Some(&Value::Int(0)), "{}", section.title);
        }
    }

    #[test]
    fn its_numbers_stay_and_what_is_estimated_adds_up_to_its_busy_time() {
        assert!(is_one(&report()) && !is_one("{}") && !is_one(r#"{"top_kernels": {}}"#));
        let run = read("report.json", &report()).unwrap();
        assert_eq!((run.totals.kernels, run.totals.kernel_duration_ns, run.wall.wall_ns), (7, 5_000_000, 8_000_000));
        let elapsed: Vec<(&str, i64, i64)> =
            run.kernels.iter().map(|kernel| (kernel.name.as_str(), kernel.duration_ns, kernel.elapsed_ns)).collect();
        // 4 ms busy for 5 ms of kernels: four fifths of each.
        let want = [
            ("nvjet_gemm", 3_000_000, 2_400_000),
            (REST, 1_000_000, 800_000),
            ("ncclDevKernel_AllReduce", 1_000_000, 800_000),
        ];
        assert_eq!(elapsed, want);
        assert_eq!(run.wall.cpu_ns, 4_000_000);
        let kernels = &run.sections["kernels"];
        assert_eq!(kernels.columns.first().map(String::as_str), Some("kernel_name"));
        assert_eq!(kernels.rows[0].get("own"), Some(&Value::Int(1)), "a column of its own is kept");
        assert_eq!(kernels.summary.get("total_kernel_time_ns"), Some(&Value::Int(5_000_000)));
        assert_eq!(run.sections["findings"].rows[0].get("evidence").and_then(Value::text), Some("e1\ne2"));
        assert_eq!(run.sections["nvlink_during_nccl"].missing.as_ref().unwrap().recapture, "a b");
        let codes: Vec<&str> = run.notices.iter().map(|notice| notice.code.as_str()).collect();
        assert_eq!(codes, ["its_warning", "another_tools_report"]);
    }

    #[test]
    fn a_series_finds_its_report_and_without_one_stays() {
        let text = "metric_source_id,metric_name,timestamp_ns,timestamp_ms,metric_value,nccl_active\r\n1,NVLink RX,5,0.000005,7.5,True\r\nbroken\r\n";
        let series = read_series("nvlink_timeseries.csv", text).unwrap();
        let rows = &series.sections[SERIES].rows;
        assert_eq!(
            (rows.len(), rows[0].get("metric_value"), rows[0].get("nccl_active")),
            (1, Some(&Value::Float(7.5)), Some(&Value::Bool(true)))
        );
        assert_eq!(series.sections[SERIES].limits, ["1 lines of the file could not be read"]);
        let mut alone = vec![series.clone()];
        join_series(&mut alone);
        assert_eq!(alone.len(), 1);
        for runs in [[series.clone(), read("r", &report()).unwrap()], [read("r", &report()).unwrap(), series]] {
            let mut runs = runs.to_vec();
            join_series(&mut runs);
            assert_eq!(runs.len(), 1);
            assert_eq!(runs[0].sections[SERIES].rows.len(), 1);
        }
    }

    #[test]
    fn whatever_stands_in_it_is_read_without_a_panic() {
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
