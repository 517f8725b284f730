//! The sentences of a report: the verdict, one line of facts per run, notices. They quote results and compute nothing.

use super::Report;
use super::examples::{ExampleLink, example_of_category, example_of_clause, example_of_idle_time};
use super::format::{self, counted, duration, percent, range};
use super::sections::table_id;
use super::table::Table;
use super::tables::severity;
use crate::analysis::results::{self, Category, Run, WallSource};
use crate::digits::grouped;
use serde::Serialize;

/// The maximum number of runs with a sentence of their own in the verdict.
const MAX_VERDICT_RUNS: usize = 3;
/// The maximum number of categories named per run in the verdict.
const MAX_VERDICT_CATEGORIES: usize = 3;

/// A part of the verdict.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Clause {
    /// The words. The concatenation of all clauses is the verdict.
    pub text: String,
    /// Id of the table with the numbers; empty for connecting words.
    pub table: String,
    /// One case of it in the timeline.
    pub example: Option<ExampleLink>,
    /// The number of its run in the report, from 0.
    pub run_index: usize,
}

/// States in plain words where the time went.
pub fn verdict(report: &Report) -> String {
    clauses(report).into_iter().map(|clause| clause.text).collect()
}

/// The verdict in parts, each with the table that it refers to.
pub fn clauses(report: &Report) -> Vec<Clause> {
    let several = report.runs.len() > 1;
    let mut clauses = Vec::new();
    for (run_index, (label, run)) in report.labels().iter().zip(&report.runs).take(MAX_VERDICT_RUNS).enumerate() {
        if several {
            clauses.push(plain(format!("{}{label}: ", if clauses.is_empty() { "" } else { " " })));
        }
        let of_run = if several { short_verdict(run) } else { run_verdict(run) };
        clauses.extend(of_run.into_iter().map(|clause| Clause { run_index, ..clause }));
    }
    match report.runs.len().checked_sub(MAX_VERDICT_RUNS) {
        None | Some(0) => {}
        Some(1) => clauses.push(plain(" The chart shows 1 more run.")),
        Some(more) => clauses.push(plain(format!(" The chart shows {more} more runs."))),
    }
    clauses
}

fn plain(text: impl Into<String>) -> Clause {
    Clause { text: text.into(), ..Clause::default() }
}

fn run_verdict(run: &Run) -> Vec<Clause> {
    let clause = |clause: &results::VerdictClause| Clause {
        text: clause.text.clone(),
        table: table_id(clause.section.as_deref().unwrap_or_default()).to_owned(),
        example: example_of_clause(run, clause),
        run_index: 0,
    };
    // Reports of other tools and of earlier versions have no verdict.
    if run.verdict.clauses.is_empty() { short_verdict(run) } else { run.verdict.clauses.iter().map(clause).collect() }
}

/// The verdict of one of several runs.
fn short_verdict(run: &Run) -> Vec<Clause> {
    if run.totals.gpu_ops == 0 {
        return vec![plain("no GPU work.")];
    }
    let words = match totals_only(run) {
        Some(sum) => sum,
        None => format!("busy {}", percent(run.wall.busy_share)),
    };
    let busy =
        Clause { text: words, table: "devices".to_owned(), example: example_of_idle_time(run), ..Clause::default() };
    let shares = category_shares(run, MAX_VERDICT_CATEGORIES).map(|(category, share)| Clause {
        text: share,
        table: "categories".to_owned(),
        example: Some(example_of_category(category)),
        ..Clause::default()
    });
    let whole = if totals_only(run).is_some() { "kernel time" } else { "wall time" };
    let mut clauses = vec![busy];
    for share in shares {
        clauses.push(plain(if clauses.len() == 1 { format!("; of {whole} ") } else { ", ".to_owned() }));
        clauses.push(share);
    }
    clauses.push(plain("."));
    clauses
}

/// `kernel time 8.63 ms in all`, for a run without times of kernels: nothing is known of how busy its GPU was.
fn totals_only(run: &Run) -> Option<String> {
    let has_no_window = run.wall.source == WallSource::Window && run.wall.wall_ns == 0 && run.totals.elapsed_ns > 0;
    has_no_window.then(|| format!("kernel time {} in all", duration(run.totals.elapsed_ns)))
}

/// The first categories that took time, each with its share of the wall time, as in the bars: `gemm 61.2 %`. Empty if their shares are not known.
pub(super) fn category_shares(run: &Run, count: usize) -> impl Iterator<Item = (&str, String)> {
    let has_window = totals_only(run).is_none();
    let share = move |category: &Category| if has_window { category.bar_share } else { category.elapsed_share };
    let first = run.categories.iter().filter(|category| category.elapsed_ns > 0).take(count);
    first.filter_map(move |category| {
        let name = category.category.as_str();
        Some((name, format!("{name} {}", percent(share(category)?))))
    })
}

fn wall_word(run: &Run) -> &'static str {
    match run.wall.source {
        WallSource::Window if run.window.is_some() => "selected window",
        WallSource::Window if run.wall.wall_ns < run.totals.window_ns => "recorded part of the trace window",
        WallSource::Window => "trace window",
        WallSource::Given => "given wall time",
        WallSource::RaisedToBusy => "busy time (used as wall time)",
    }
}

/// One line of facts about a run.
pub fn facts(run: &Run) -> String {
    format!("{}; rules {}", facts_without_rules(run), run.rules)
}

/// The facts for a page that shows the choice of rules elsewhere.
pub fn facts_without_rules(run: &Run) -> String {
    let devices = match run.devices.len() {
        1 => "1 device".to_owned(),
        several => format!("{several} devices"),
    };
    let format = run.format.title();
    let source = run.engine.as_ref().map_or(format.to_owned(), |engine| format!("{format}, {engine}"));
    let part = run.window.map_or(String::new(), |window| {
        format!("{} of {}: ", range(window.start_ns, window.end_ns), duration(window.whole_ns))
    });
    if !run.has_work() {
        return format!("{part}no GPU ops; {source}");
    }
    let busy = totals_only(run).unwrap_or_else(|| {
        let wall = duration(run.wall.wall_ns);
        format!("busy {} of the {} ({wall})", percent(run.wall.busy_share), wall_word(run))
    });
    format!(
        "{part}{} of {} on {devices}; {busy}; {source}",
        counted(&grouped(run.totals.gpu_ops), "GPU op", "GPU ops"),
        counted(&grouped(run.totals.distinct_names), "name", "names"),
    )
}

/// The notices of a run, one line each.
pub(super) fn notice_lines(run: &Run) -> impl Iterator<Item = String> + '_ {
    run.notices.iter().map(|notice| format!("{}: {}. {}", severity(notice.severity), notice.message, notice.advice))
}

/// The figures of a table, one line per run: the label of the run and `Launches 5 · Window 5.50 ms`.
pub(super) fn figure_lines(table: &Table) -> impl Iterator<Item = (&str, String)> {
    table.figures_by_run().map(|figures| {
        let words = figures.iter().map(|figure| format!("{} {}", figure.title, format::figure(&figure.cell).text));
        let run = figures.first().map_or("", |figure| figure.run.as_str());
        (run, words.collect::<Vec<_>>().join(" · "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests_support::sample;

    /// The kernels of the sample run for 7.5 us of every 10 us, and the last one ends the trace: 300 us of 397.5 us.
    #[test]
    fn categories_of_several_runs_have_the_shares_of_the_bars() {
        let run = sample().runs.remove(0);
        let text = verdict(&Report::new(vec![run.clone(), run.clone()]));
        let category = run.categories[0].category.clone();
        assert!(text.contains(&format!("; of wall time {category} 75.5 %")), "{text}");
        let mut totals = run;
        (totals.wall.wall_ns, totals.verdict) = (0, results::Verdict::default());
        let text = verdict(&Report::new(vec![totals]));
        assert!(text.contains(&format!("; of kernel time {category} 100 %")), "{text}");
    }
}
