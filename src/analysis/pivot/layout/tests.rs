//! Pivots of two small runs with hand-computed values, and a property test that cells add up to the totals.

use super::*;
use crate::analysis::pivot::by_category::pivot;
use crate::analysis::pivot::cells::{TRACE_AXES, pivot_cells};
use crate::analysis::results::Attribution;
use crate::analysis::{Options, analyze};
use crate::rules::RuleBook;
use crate::trace::Trace;
use crate::trace::testing::TestTrace;
use proptest::prelude::*;

const AXES: [Axis; 8] =
    [Axis::Category, Axis::Kernel, Axis::Stage, Axis::Device, Axis::Stream, Axis::Process, Axis::Run, Axis::Step];
const MEASURES: [Measure; 5] = [Measure::Elapsed, Measure::Duration, Measure::Exclusive, Measure::Count, Measure::Mean];

/// Name, start, duration, stream, device.
type Op = (&'static str, i64, i64, i64, i64);

/// A prefill step in the first 100 ns and a decode step in the next 100 ns. The launch call of an op is at its start.
fn trace(label: &str, ops: &[Op]) -> Trace {
    let mut trace = TestTrace::new();
    trace.label(label).range("step[EXTEND bs=1 toks=9]", 0..99).range("step[DECODE bs=1]", 100..199);
    for &(name, start, duration, stream, device) in ops {
        trace.launch(start..start).device(device).stream(stream).launches(name, start..start + duration);
    }
    trace.finish()
}

const GEMM: &str = "nvjet_tst_64x8";
const NCCL: &str = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL";
const FIRST: [Op; 4] = [(GEMM, 0, 40, 7, 0), (NCCL, 30, 30, 20, 0), (GEMM, 110, 20, 7, 0), (GEMM, 120, 20, 7, 1)];
const SECOND: [Op; 2] = [(GEMM, 10, 10, 7, 0), (NCCL, 150, 5, 20, 0)];

fn analyze_trace(trace: &Trace, attribution: Attribution) -> (Run, PivotCells) {
    let options = Options { attribution, without_sections: true, ..Options::default() };
    let run = analyze(trace, RuleBook::gpuprism_default().unwrap(), &options);
    (run, pivot_cells(trace, attribution, false, &TRACE_AXES))
}

fn build(with_cells: bool, layout: PivotLayout) -> PivotTable {
    let [first, second] =
        [trace("a", &FIRST), trace("b", &SECOND)].map(|trace| analyze_trace(&trace, Attribution::FirstCome));
    let source = |label, (run, cells)| Source { label, run, cells: Some(cells).filter(|_| with_cells) };
    build_pivot(&[source("a", (&first.0, &first.1)), source("b", (&second.0, &second.1))], layout).unwrap()
}

fn layout(rows: Axis, columns: Axis, values: Measure) -> PivotLayout {
    PivotLayout { rows, columns: Some(columns), values, percent: None, top: 0 }
}

fn name(member: &Member) -> String {
    match member {
        Member::Named(name) => name.clone(),
        Member::Others(count) => format!("+{count}"),
    }
}

/// One line per row: the label, the values and the sum.
fn table_lines(table: &PivotTable) -> Vec<String> {
    let show = |value: &Option<CellValue>| match value {
        None => "-".to_owned(),
        Some(CellValue::Ns(ns)) => ns.to_string(),
        Some(CellValue::MeanNs(value) | CellValue::Share(value)) => value.to_string(),
        Some(CellValue::Count(count)) => count.to_string(),
    };
    let line =
        |name: String, cells: &[Option<CellValue>]| [vec![name], cells.iter().map(show).collect()].concat().join(" ");
    let mut lines: Vec<String> = vec![table.columns.iter().map(name).collect::<Vec<_>>().join(" | ")];
    lines.extend(table.rows.iter().map(|row| line(name(&row.member), &row.cells)));
    lines.push(line("=".to_owned(), &table.totals));
    lines
}

#[test]
fn values_of_small_tables_match_the_hand_computed_ones() {
    // a: the all-reduce starts 10 ns before the gemm ends and the gemm owns these; the gemms of the decode run on
    // two devices.
    let lines = table_lines(&build(true, layout(Axis::Category, Axis::Stage, Measure::Elapsed)));
    assert_eq!(lines, ["extend/prefill | decode", "gemm 50 40 90", "communication 20 5 25", "= 70 45 115"]);
    let lines = table_lines(&build(true, layout(Axis::Stream, Axis::Run, Measure::Count)));
    assert_eq!(lines, ["a | b", "stream 7 3 1 4", "stream 20 1 1 2", "= 4 2 6"]);
    let lines = table_lines(&build(true, layout(Axis::Device, Axis::Step, Measure::Mean)));
    assert_eq!(
        lines,
        [
            "step 1 extend/prefill | step 2 decode",
            "GPU 0 26.666666666666668 12.5 21",
            "GPU 1 - 20 20",
            "= 26.666666666666668 15 20.833333333333332"
        ]
    );
}

#[test]
fn percentages_refer_to_the_row_the_column_or_the_table() {
    let lines = |percent| {
        let percent = Some(percent);
        table_lines(&build(true, PivotLayout { percent, ..layout(Axis::Category, Axis::Stage, Measure::Count) }))
    };
    assert_eq!(lines(PercentBase::Row)[1..], ["gemm 0.5 0.5 1", "communication 0.5 0.5 1", "= 0.5 0.5 1"]);
    let third = 1.0 / 3.0;
    assert_eq!(lines(PercentBase::All)[3], "= 0.5 0.5 1");
    assert_eq!(lines(PercentBase::Column)[2], format!("communication {third} {third} {third}"));
}

#[test]
fn categories_by_run_include_idle_time_and_equal_the_pivot_of_the_report() {
    let runs = [trace("a", &FIRST), trace("b", &SECOND)].map(|trace| analyze_trace(&trace, Attribution::Exclusive).0);
    let sources: Vec<Source> = runs.iter().map(|run| Source { label: &run.label, run, cells: None }).collect();
    let table = build_pivot(&sources, layout(Axis::Category, Axis::Run, Measure::Elapsed)).unwrap();
    let expected = pivot(&runs);
    // The table has no cell for a run without shared time, the pivot of the report a zero.
    let show = |ns: Option<i64>| ns.filter(|ns| *ns != 0).map_or("-".to_owned(), |ns| ns.to_string());
    let line = |name: &str, cells: &[Option<i64>], total: i64| {
        let cells: Vec<String> = cells.iter().map(|ns| show(*ns)).collect();
        format!("{name} {} {total}", cells.join(" "))
    };
    let rows = expected.rows.iter().map(|row| line(&row.category, &row.elapsed_ns, row.total_ns));
    let totals: Vec<Option<i64>> = expected.totals_ns.iter().copied().map(Some).collect();
    let lines: Vec<String> = std::iter::once("a | b".to_owned()).chain(rows).collect();
    assert_eq!(table_lines(&table), [lines, vec![line("=", &totals, expected.total_ns)]].concat());
}

#[test]
fn a_run_from_a_report_has_a_placeholder_on_axes_that_need_the_trace() {
    let table = build(false, layout(Axis::Category, Axis::Stream, Measure::Count));
    assert_eq!(table_lines(&table), ["(not in the report)", "gemm 4 4", "communication 2 2", "= 6 6"]);
    assert_eq!(table.runs_without_cells, ["a", "b"]);
    assert_eq!(build(false, layout(Axis::Kernel, Axis::Run, Measure::Count)).runs_without_cells, [""; 0]);
}

#[test]
fn equal_axes_and_percentages_of_means_are_rejected() {
    assert!(layout(Axis::Run, Axis::Run, Measure::Count).check().unwrap_err().is_usage());
    let share_of_mean =
        PivotLayout { percent: Some(PercentBase::All), ..layout(Axis::Run, Axis::Stage, Measure::Mean) };
    assert!(share_of_mean.check().unwrap_err().is_usage());
}

#[test]
fn rows_beyond_the_limit_are_summed_into_one() {
    let lines = table_lines(&build(true, PivotLayout { top: 1, ..layout(Axis::Step, Axis::Run, Measure::Duration) }));
    assert_eq!(lines, ["a | b", "step 1 extend/prefill 70 10 80", "+1 40 5 45", "= 110 15 125"]);
}

proptest! {
    #[test]
    fn cells_add_up_to_rows_columns_and_runs(
        rows in prop::sample::select(&AXES[..]), columns in prop::option::of(prop::sample::select(&AXES[..])),
        values in prop::sample::select(&MEASURES[..]), top in 0_usize..3,
    ) {
        let layout = PivotLayout { rows, columns, values, percent: None, top };
        prop_assume!(columns != Some(rows) && values != Measure::Mean);
        let table = build(true, layout);
        let number = |value: &Option<CellValue>| match value {
            Some(CellValue::Ns(ns)) => *ns,
            Some(CellValue::Count(count)) => *count as i64,
            _ => 0,
        };
        let mut column_sums = vec![0; table.totals.len()];
        for row in &table.rows {
            let cells: Vec<i64> = row.cells.iter().map(number).collect();
            let (sum, parts) = cells.split_last().unwrap();
            prop_assert!(parts.is_empty() || parts.iter().sum::<i64>() == *sum);
            column_sums.iter_mut().zip(&cells).for_each(|(sum, cell)| *sum += cell);
        }
        prop_assert_eq!(&column_sums, &table.totals.iter().map(number).collect::<Vec<_>>());
        let expected = match values {
            // With idle time the sum is that of the bars: two devices of 140 ns, and one of 145 ns.
            Measure::Elapsed if layout.has_unowned_time() => 2 * 140 + 145,
            Measure::Elapsed => 115,
            Measure::Duration => 125,
            Measure::Exclusive => 30 + 20 + 20 + 20 + 10 + 5,
            _ => 6,
        };
        prop_assert_eq!(column_sums.last(), Some(&expected));
    }
}
