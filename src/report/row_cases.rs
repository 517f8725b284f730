//! Which cells of a table lead to the timeline, and to which case there: the longest gap of a cause, a step, a collective. The rules are
//! data: `patterns/row_cases.json`. A cell costs the length of its texts; the steps of a report are read once a table.

use super::Report;
use super::compare::shown_runs;
use super::examples::ExampleLink;
use super::findings::of_run;
use super::format::exact;
use super::table::{Cell, Table};
use crate::analysis::communication::ranks::{Job, Rank, Ranks};
use crate::analysis::compare::Comparison;
use crate::analysis::results::Run;
use crate::analysis::section::{FIRST_OP, Value};
use crate::json::{self, embedded, from_json};
use std::sync::LazyLock;

/// A rule of `patterns/row_cases.json`.
struct Rule {
    table: String,
    /// The columns whose cells lead to the timeline.
    columns: Vec<String>,
    /// The text of an [`Example`](crate::analysis::timeline::Example), with the keys of columns in braces. `{start of KEY}` is the start of the step with the number in that
    /// column.
    example: String,
    /// The words of the link.
    text: String,
    /// Conditions on the row, all of which must be met.
    only: Vec<Only>,
    /// Of a table of ranks: the column with the label of the rank in whose trace the case is.
    rank: Option<String>,
    /// Of a comparison: whether the case is in the baseline, not in the run that is compared.
    in_baseline: bool,
}
from_json!(strict Rule { table, columns, example, text; only, rank, in_baseline });

/// A condition on a row.
struct Only {
    column: String,
    /// The values of that column; any value if empty.
    is: Vec<String>,
    is_not: Vec<String>,
}
from_json!(strict Only { column; is, is_not });

static RULES: LazyLock<Vec<Rule>> =
    LazyLock::new(|| embedded(json::read(include_str!("../../patterns/row_cases.json"))));

/// The table whose rows have the links of the findings.
const FINDINGS: &str = "findings";
/// Before the key of a column with the number of a step.
const START_OF: &str = "start of ";

/// The cases of the rows of one table.
#[derive(Debug)]
pub struct RowCases {
    rules: Vec<&'static Rule>,
    runs: Vec<RunCases>,
    /// Of a comparison: the index of its baseline.
    baseline: Option<usize>,
}

impl std::fmt::Debug for Rule {
    fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(formatter, "{} {:?}", self.table, self.columns)
    }
}

/// A run of a report, or a rank of a job.
#[derive(Debug, Default)]
struct RunCases {
    label: String,
    /// Of a rank: the title of its job and the name of its file.
    job: String,
    file: Option<String>,
    /// Of a run that is compared: its index.
    index: Option<usize>,
    /// Number and start of its steps, in nanoseconds since the first GPU op.
    steps: Vec<(String, i64)>,
    /// Title and case of its findings.
    findings: Vec<(String, Option<ExampleLink>)>,
}

impl RowCases {
    /// The cases of the table with this id: of this run, or of all runs.
    pub fn of(report: &Report, table: &str, run: Option<usize>) -> Self {
        let rules = rules_of(table);
        let needs_steps = rules.iter().any(|rule| rule.example.contains(START_OF));
        let labels = report.labels();
        let runs = labels.iter().zip(&report.runs).enumerate();
        let runs = runs.filter(|(index, _)| run.is_none_or(|run| run == *index));
        let runs = runs.map(|(_, (label, run))| RunCases {
            label: label.clone(),
            steps: if needs_steps { steps(run) } else { Vec::new() },
            findings: if table == FINDINGS { findings(run) } else { Vec::new() },
            ..RunCases::default()
        });
        Self { rules, runs: runs.collect(), baseline: None }
    }

    /// The cases of a table of a comparison, about this run or about all runs.
    pub fn of_comparison(comparison: &Comparison, table: &str, run: Option<usize>) -> Self {
        let runs = shown_runs(comparison, table, run).into_iter();
        let runs =
            runs.map(|(index, run)| RunCases { label: run.label.clone(), index: Some(index), ..RunCases::default() });
        Self { rules: rules_of(table), runs: runs.collect(), baseline: Some(comparison.baseline) }
    }

    /// The cases of a table of the ranks of jobs.
    pub fn of_ranks(ranks: &Ranks, table: &str) -> Self {
        let of_rank = |job: &Job, rank: &Rank| RunCases {
            label: rank.label.clone(),
            job: job.title.clone(),
            file: Some(rank.file.clone()),
            ..RunCases::default()
        };
        let runs = ranks.jobs.iter().flat_map(|job| job.ranks.iter().map(move |rank| of_rank(job, rank)));
        Self { rules: rules_of(table), runs: runs.collect(), baseline: None }
    }

    /// The case of each cell of a row of the table.
    pub fn of_row(&self, table: &Table, row: &[Cell]) -> Vec<Option<ExampleLink>> {
        if self.rules.is_empty() && table.id != FINDINGS {
            return vec![None; row.len()];
        }
        let text = |key: &str| {
            let index = table.columns.iter().position(|column| column.key == key)?;
            row.get(index).map(exact)
        };
        let cells = table.columns.iter().zip(row);
        cells.map(|(column, cell)| self.of_cell(&column.key, cell, &text)).collect()
    }

    fn of_cell(&self, key: &str, cell: &Cell, text: &dyn Fn(&str) -> Option<String>) -> Option<ExampleLink> {
        let words = exact(cell);
        // There is no case of nothing.
        if words.is_empty() || words == "0" {
            return None;
        }
        if key == "title" && self.rules.is_empty() {
            let run = self.run("run", text)?;
            return run.findings.iter().find(|(title, _)| *title == words)?.1.clone();
        }
        self.rules.iter().filter(|rule| rule.is_for(key, text)).find_map(|rule| self.link(rule, text))
    }

    /// The link by a rule; `None` if the row lacks one of its values.
    fn link(&self, rule: &Rule, text: &dyn Fn(&str) -> Option<String>) -> Option<ExampleLink> {
        let run = self.run(rule.rank.as_deref().unwrap_or("run"), text)?;
        let example = filled(&rule.example, &|key| match key.strip_prefix(START_OF) {
            Some(key) => {
                let number = text(key)?;
                run.steps.iter().find(|(step, _)| *step == number).map(|(_, start)| start.to_string())
            }
            None => text(key),
        })?;
        let run_index = if rule.in_baseline { self.baseline } else { run.index };
        Some(ExampleLink { of: example, text: rule.text.clone().into(), file: run.file.clone(), run: run_index })
    }

    /// The run or rank whose label is in a column; the only one if there is no such column.
    fn run(&self, column: &str, text: &dyn Fn(&str) -> Option<String>) -> Option<&RunCases> {
        let (label, job) = (text(column), text("job"));
        let is_it = |run: &&RunCases| {
            label.as_ref().is_none_or(|label| *label == run.label) && job.as_ref().is_none_or(|job| *job == run.job)
        };
        self.runs.iter().find(is_it)
    }
}

impl Rule {
    /// Whether it is about this column of the row.
    fn is_for(&self, key: &str, text: &dyn Fn(&str) -> Option<String>) -> bool {
        let is_met = |Only { column, is, is_not }: &Only| {
            text(column).is_some_and(|value| (is.is_empty() || is.contains(&value)) && !is_not.contains(&value))
        };
        let is_row = self.only.iter().all(is_met);
        is_row && self.columns.iter().any(|column| column == key)
    }
}

fn rules_of(table: &str) -> Vec<&'static Rule> {
    RULES.iter().filter(|rule| rule.table == table).collect()
}

/// The text with values in place of the keys in braces; `None` if a value is not known.
fn filled(template: &str, value: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (key, after) = after.split_once('}')?;
        text += before;
        text += &value(key).filter(|value| !value.is_empty())?;
        rest = after;
    }
    Some(text + rest)
}

fn steps(run: &Run) -> Vec<(String, i64)> {
    let Some(section) = run.sections.get("step_list") else { return Vec::new() };
    let Some(Value::Int(first_op)) = section.summary.get(FIRST_OP) else { return Vec::new() };
    let starts = section.rows.iter().filter_map(|row| match (row.get("step")?, row.get("start_ns")?) {
        (Value::Int(step), Value::Int(start)) => Some((step.to_string(), start.saturating_sub(*first_op))),
        _ => None,
    });
    starts.collect()
}

fn findings(run: &Run) -> Vec<(String, Option<ExampleLink>)> {
    of_run(run).map(|finding| (finding.title.to_owned(), finding.example)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::compare::compare;
    use crate::analysis::section::Section;
    use crate::analysis::testing::{analyze, torch};
    use crate::analysis::timeline::{Example, Timeline};
    use crate::report::compare as words;
    use crate::report::tests_support::empty_run;
    use crate::report::{known_tables, table as find_table};
    use crate::rules::RuleBook;
    use crate::trace::testing::TestTrace;

    fn report(name: &str, section: Section) -> Report {
        Report::new(vec![Run { sections: [(name.to_owned(), section)].into(), ..empty_run("a") }])
    }

    /// Key and case of the cells of the first row that have one.
    fn cases(report: &Report, id: &str) -> Vec<(String, String)> {
        let table = find_table(report, id, None).unwrap().without_run();
        let cases = RowCases::of(report, id, None).of_row(&table, &table.rows[0]);
        let keys = table.columns.iter().map(|column| column.key.clone());
        keys.zip(cases).filter_map(|(key, case)| Some((key, case?.of))).collect()
    }

    #[test]
    fn the_rules_name_tables_and_write_examples() {
        for rule in RULES.iter() {
            let mut tables = known_tables().chain(crate::report::ranks::TABLES).chain(crate::report::compare::TABLES);
            assert!(tables.any(|table| table == rule.table), "{}", rule.table);
            let example = filled(&rule.example, &|_| Some("1".to_owned())).unwrap();
            assert!(Example::parse(&example).is_some(), "{}", rule.example);
        }
    }

    #[test]
    fn a_cause_that_took_time_leads_to_its_gap_and_one_that_took_none_leads_nowhere() {
        let mut section = Section::new("T", "", &["device_id", "host_late_ms", "drained_ms"]);
        section.row([3_u64.into(), 2.5_f64.into(), 0.0_f64.into()]);
        let expected = [("host_late_ms".to_owned(), "idle_on host_late 3".to_owned())];
        assert_eq!(cases(&report("gpu_idle", section), "gpu_idle"), expected);
    }

    #[test]
    fn a_wait_outside_of_the_api_has_no_call() {
        let of = |kind: &str| {
            let mut section = Section::new("T", "", &["barrier_kind", "api_name", "max_duration_us"]);
            section.row([kind.into(), "cudaMemcpy".into(), 9_u64.into()]);
            cases(&report("barriers", section), "barriers")
        };
        assert_eq!(of("blocking_memcpy"), [("max_duration_us".to_owned(), "call cudaMemcpy".to_owned())]);
        assert_eq!(of("cpu_launcher_gap"), []);
    }

    #[test]
    fn code_leads_to_its_gap_by_its_place_or_else_by_its_op() {
        let of = |file: &str| {
            let mut section = Section::new("T", "", &["function", "file", "line", "cpu_op", "class", "total_ms"]);
            let op = if file.is_empty() { "aten::mm" } else { "" };
            section.row(["step".into(), file.into(), 7_u64.into(), op.into(), "drained".into(), 1.5_f64.into()]);
            cases(&report("idle_blame", section), "idle_blame")
        };
        assert_eq!(of("a/b.py"), [("total_ms".to_owned(), "idle_code drained a/b.py(7): step".to_owned())]);
        assert_eq!(of(""), [("total_ms".to_owned(), "idle_cpu_op drained aten::mm".to_owned())]);
    }

    #[test]
    fn the_slowest_step_is_found_by_its_number_in_the_list_of_steps() {
        let mut slowest = Section::new("T", "", &["stage", "slowest_step", "median_step"]);
        slowest.row(["decode".into(), 2_u64.into(), 9_u64.into()]);
        let mut list = Section::new("T", "", &["step", "start_ns"]);
        list.figure(FIRST_OP, 1_000_u64);
        list.row([1_u64.into(), 1_500_u64.into()]);
        list.row([2_u64.into(), 4_000_u64.into()]);
        let mut report = report("slowest_step", slowest);
        report.runs[0].sections.insert("step_list".to_owned(), list);
        // The list has no step 9.
        assert_eq!(cases(&report, "slowest_step"), [("slowest_step".to_owned(), "step_at 3000".to_owned())]);
    }

    /// A third run is compared with the second one: column, index of the run and case.
    #[test]
    fn the_times_of_a_category_lead_to_the_baseline_and_to_the_run_that_is_compared() {
        let run = |label: &str, duration_ns: i64| {
            let mut trace = TestTrace::new();
            trace
                .label(label)
                .kernel("nvjet_tst", 0..duration_ns)
                .kernel("flash_fwd_kernel", 5_000..5_000 + duration_ns);
            trace.run()
        };
        let runs = [run("a", 1_000), run("b", 2_000), run("c", 4_000)];
        let labelled: Vec<(&str, &Run)> = runs.iter().map(|run| (run.label.as_str(), run)).collect();
        let comparison = compare(&labelled, 1);
        let of_row = |chosen: Option<usize>, label: &str| -> Vec<(String, usize, String)> {
            let table = words::table(&comparison, "compare_categories", chosen).unwrap();
            let is_row = |row: &&Vec<Cell>| {
                let texts: Vec<String> = row.iter().map(exact).collect();
                texts.contains(&"gemm".to_owned()) && (chosen.is_some() || texts.contains(&label.to_owned()))
            };
            let cases = RowCases::of_comparison(&comparison, &table.id, chosen);
            let cells = cases.of_row(&table, table.rows.iter().find(is_row).unwrap());
            let keys = table.columns.iter().map(|column| column.key.clone());
            let links = keys.zip(cells).filter_map(|(key, link)| Some((key, link?)));
            links.map(|(key, link)| (key, link.run.unwrap(), link.of)).collect()
        };
        let expected = |run: usize| {
            let case = |key: &str, run: usize| (key.to_owned(), run, "category gemm".to_owned());
            [case("baseline_ns", 1), case("compared_ns", run)]
        };
        assert_eq!(of_row(None, "a"), expected(0));
        assert_eq!(of_row(None, "c"), expected(2));
        assert_eq!(of_row(Some(2), "c"), expected(2));
    }

    /// Two recorded runs of one model: every link leads to a bar of the run that it names.
    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn rows_of_a_comparison_lead_to_bars_of_their_run() {
        let names = ["sglang_qwen3_30b_mi300_decode", "sglang_qwen3_30b_b300_decode"];
        let traces = names.map(|name| torch(&format!("{name}.trace.json.gz")));
        let runs: Vec<Run> = traces.iter().map(analyze).collect();
        let labelled: Vec<(&str, &Run)> = names.into_iter().zip(&runs).collect();
        let comparison = compare(&labelled, 0);
        let rules = || RuleBook::gpuprism_default().unwrap();
        let timelines: Vec<Timeline> = traces.iter().map(|trace| Timeline::of(trace, rules()).unwrap()).collect();
        for id in ["compare_categories", "compare_roles"] {
            let table = words::table(&comparison, id, None).unwrap();
            let cases = RowCases::of_comparison(&comparison, id, None);
            let links: Vec<_> = table.rows.iter().flat_map(|row| cases.of_row(&table, row)).flatten().collect();
            for link in &links {
                let (timeline, trace) = (&timelines[link.run.unwrap()], &traces[link.run.unwrap()]);
                let place = timeline.example(trace, &Example::parse(&link.of).unwrap(), timeline.extent);
                assert!(place.is_some(), "{id}: {link:?}");
            }
            assert!((0..2).all(|run| links.iter().any(|link| link.run == Some(run))), "{id}: {links:?}");
        }
    }

    /// Tables whose rows have cases in the real traces.
    const WITH_CASES: [&str; 14] = [
        "findings",
        "gpu_idle",
        "sync",
        "sync_by_pid",
        "nvtx_ranges",
        "steps",
        "slowest_step",
        "layers",
        "layer_list",
        "layer_roles",
        "nccl_ops",
        "step_budget",
        "graph_coverage",
        "stream_overlap",
    ];

    /// Every cell that has a case leads to a bar.
    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn rows_of_real_traces_lead_to_bars() {
        let files = [
            "train_a100_rank3of8",
            "sglang_qwen3_30b_b300_decode",
            "sglang_qwen3_30b_mi300_decode",
            "sglang_qwen3_8b_mi300_extend",
            "vllm_b200_eager_prefill",
            "train_v100_216k_events",
        ];
        let mut with_cases: Vec<&str> = Vec::new();
        for file in files {
            let trace = torch(&format!("{file}.trace.json.gz"));
            let timeline = Timeline::of(&trace, RuleBook::gpuprism_default().unwrap()).unwrap();
            let report = Report::new(vec![analyze(&trace)]);
            for id in known_tables() {
                let Some(table) = find_table(&report, id, None) else { continue };
                let cases = RowCases::of(&report, id, None);
                for case in table.rows.iter().flat_map(|row| cases.of_row(&table, row)).flatten() {
                    let place = timeline.example(&trace, &Example::parse(&case.of).unwrap(), timeline.extent);
                    assert!(place.is_some(), "{file}: {id}: {}", case.of);
                    with_cases.push(id);
                }
            }
        }
        for table in WITH_CASES {
            assert!(with_cases.contains(&table), "{table}");
        }
    }
}
