//! Shared by targets: imports bytes, analyses them and renders every output; checks that sums agree.

use gpuprism::analysis::results::{Attribution, Run};
use gpuprism::analysis::{Options, analyze};
use gpuprism::input::{Imported, Importer};
use gpuprism::report::{Report, csv, groups, html_page, markdown, table, terminal::terminal};
use gpuprism::rules::{RuleBook, RuleSet};
use gpuprism::session::{is_of_another_tool, translate};
use gpuprism::trace::Trace;
use std::sync::LazyLock;

/// The built-in default rules.
pub static RULES: LazyLock<RuleSet> = LazyLock::new(|| RuleBook::embedded().select("gpuprism", "default").unwrap());

/// Imports the chunks of a file and renders its reports.
pub fn report(chunks: &[&[u8]]) {
    let mut importer = Importer::new("fuzz");
    if chunks.iter().any(|chunk| importer.feed(chunk).is_err()) {
        return;
    }
    let trace = match importer.finish() {
        Ok(Imported::Trace(trace)) => trace,
        // The tree of Proton and the tables of nsys-llm-explainer.
        Ok(Imported::Document(text)) if is_of_another_tool(&text) => {
            return translate("fuzz", &text).map_or((), |report| render(report.runs));
        }
        _ => return,
    };
    let runs = [
        (Attribution::FirstCome, false),
        (Attribution::FirstCome, true),
        (Attribution::Fair, false),
        (Attribution::Exclusive, true),
    ];
    let runs = runs.map(|(attribution, merge_devices)| {
        let run = analyze(&trace, &RULES, &Options { attribution, merge_devices, ..Options::default() });
        let union = if merge_devices { run.totals.union_all_ns } else { run.totals.union_ns };
        if is_within_a_century(&trace) && attribution != Attribution::Exclusive {
            assert_eq!(run.totals.elapsed_ns, union, "{attribution:?}, merged: {merge_devices}");
        }
        run
    });
    render(runs.into());
}

/// Renders every output of these runs.
pub fn render(runs: Vec<Run>) {
    let report = Report::new(runs);
    let json = report.json();
    assert_eq!(Report::read("fuzz", &json).unwrap().json(), json);
    for id in groups(&report).iter().flat_map(|group| &group.tables) {
        csv(&table(&report, id, None).unwrap());
    }
    markdown(&report);
    html_page(&report, "fuzz");
    let shown = terminal(&report, 0, Some(80));
    assert!(!shown.chars().any(|character| character.is_control() && character != '\n'), "{shown:?}");
}

/// Returns true if sums of durations cannot saturate.
fn is_within_a_century(trace: &Trace) -> bool {
    const CENTURY_NS: i64 = 3_155_760_000_000_000_000;
    trace.gpu_ops.iter().map(|op| op.duration.0).fold(0, i64::saturating_add) < CENTURY_NS
}
