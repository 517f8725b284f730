//! Pivots of two small runs, worked by hand, and the promise that whatever is asked for adds up.

use super::*;
use crate::analysis::pivot::by_category::pivot;
use crate::analysis::pivot::cells::{PLACES, cube};
use crate::analysis::results::Attribution;
use crate::analysis::{Options, analyze};
use crate::rules::RuleBook;
use crate::trace::{Format, GpuOp, Ns, OpKind, Span, Trace, TraceBuilder};
use proptest::prelude::*;

const AXES: [Axis; 8] =
    [Axis::Category, Axis::Kernel, Axis::Stage, Axis::Device, Axis::Stream, Axis::Process, Axis::Run, Axis::Step];
const MEASURES: [Measure; 5] = [Measure::Elapsed, Measure::Duration, Measure::Exclusive, Measure::Count, Measure::Mean];

/// Name, start, duration, stream, device.
type Op = (&'static str, i64, i64, i64, i64);

/// A prefill of the first 100 ns and a decode of the next; ops are launched where they begin.
fn trace(label: &str, ops: &[Op]) -> Trace {
    let mut builder = TraceBuilder::new(label, Format::TorchProfiler);
    let process = builder.process(1, "");
    let thread = builder.thread(process, 1);
    for (name, at) in [("step[EXTEND bs=1 toks=9]", 0), ("step[DECODE bs=1]", 100)] {
        let name = builder.trace.ranges.names.intern(name);
        builder.trace.ranges.push(Span { start: Ns(at), duration: Ns(99), name, thread });
    }
    for (&(name, start, duration, stream, device), id) in ops.iter().zip(1..) {
        let call = builder.trace.calls.names.intern("cudaLaunchKernel");
        builder.add_call(Span { start: Ns(start), duration: Ns(0), name: call, thread }, Some(id));
        let name = builder.trace.names.intern(name);
        let device = builder.device(&device.to_string(), "");
        let (start, duration) = (Ns(start), Ns(duration));
        builder
            .trace
            .gpu_ops
            .push(GpuOp { start, duration, name, device, stream, process, kind: OpKind::Kernel }, Some(id));
    }
    builder.finish()
}

const GEMM: &str = "nvjet_tst_64x8";
const NCCL: &str = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL";
const FIRST: [Op; 4] = [(GEMM, 0, 40, 7, 0), (NCCL, 30, 30, 20, 0), (GEMM, 110, 20, 7, 0), (GEMM, 120, 20, 7, 1)];
const SECOND: [Op; 2] = [(GEMM, 10, 10, 7, 0), (NCCL, 150, 5, 20, 0)];

fn analysed(trace: &Trace, attribution: Attribution) -> (Run, Cube) {
    let rules = RuleBook::embedded().select("gpuprism", "default").unwrap();
    let options = Options { attribution, without_sections: true, ..Options::default() };
    (analyze(trace, &rules, &options), cube(trace, attribution, false, &PLACES))
}

fn shaped(with_cubes: bool, asked: Shape) -> Shaped {
    let [first, second] =
        [trace("a", &FIRST), trace("b", &SECOND)].map(|trace| analysed(&trace, Attribution::FirstCome));
    let source = |label, (run, cube)| Source { label, run, cube: Some(cube).filter(|_| with_cubes) };
    shape(&[source("a", (&first.0, &first.1)), source("b", (&second.0, &second.1))], asked).unwrap()
}

fn by(rows: Axis, columns: Axis, values: Measure) -> Shape {
    Shape { rows, columns: Some(columns), values, percent: None, top: 0 }
}

fn name(member: &Member) -> String {
    match member {
        Member::Named(name) => name.clone(),
        Member::Others(count) => format!("+{count}"),
    }
}

/// A line a row: its name, then its values, the sums last.
fn lines(shaped: &Shaped) -> Vec<String> {
    let value = |amount: &Option<Amount>| match amount {
        None => "-".to_owned(),
        Some(Amount::Ns(ns)) => ns.to_string(),
        Some(Amount::MeanNs(value) | Amount::Share(value)) => value.to_string(),
        Some(Amount::Count(count)) => count.to_string(),
    };
    let line =
        |name: String, cells: &[Option<Amount>]| [vec![name], cells.iter().map(value).collect()].concat().join(" ");
    let mut lines: Vec<String> = vec![shaped.columns.iter().map(name).collect::<Vec<_>>().join(" | ")];
    lines.extend(shaped.rows.iter().map(|row| line(name(&row.member), &row.cells)));
    lines.push(line("=".to_owned(), &shaped.totals));
    lines
}

#[test]
fn categories_by_stage_own_what_is_theirs_first_come() {
    // a: the all-reduce comes 10 ns before the gemm ends, which keeps those; the decode's gemms are on two devices.
    let told = lines(&shaped(true, by(Axis::Category, Axis::Stage, Measure::Elapsed)));
    assert_eq!(told, ["extend/prefill | decode", "gemm 50 40 90", "communication 20 5 25", "= 70 45 115"]);
    let told = lines(&shaped(true, by(Axis::Stream, Axis::Run, Measure::Count)));
    assert_eq!(told, ["a | b", "stream 7 3 1 4", "stream 20 1 1 2", "= 4 2 6"]);
    let told = lines(&shaped(true, by(Axis::Device, Axis::Step, Measure::Mean)));
    assert_eq!(
        told,
        [
            "step 1 extend/prefill | step 2 decode",
            "GPU 0 26.666666666666668 12.5 21",
            "GPU 1 - 20 20",
            "= 26.666666666666668 15 20.833333333333332"
        ]
    );
}

#[test]
fn per_cent_are_of_the_row_the_column_or_all() {
    let told = |percent| {
        let percent = Some(percent);
        lines(&shaped(true, Shape { percent, ..by(Axis::Category, Axis::Stage, Measure::Count) }))
    };
    assert_eq!(told(Whole::Row)[1..], ["gemm 0.5 0.5 1", "communication 0.5 0.5 1", "= 0.5 0.5 1"]);
    let third = 1.0 / 3.0;
    assert_eq!(told(Whole::All)[3], "= 0.5 0.5 1");
    assert_eq!(told(Whole::Column)[2], format!("communication {third} {third} {third}"));
}

#[test]
fn categories_by_run_have_a_place_for_idle_time_and_are_the_report_s_own_pivot() {
    let runs = [trace("a", &FIRST), trace("b", &SECOND)].map(|trace| analysed(&trace, Attribution::Exclusive).0);
    let sources: Vec<Source> = runs.iter().map(|run| Source { label: &run.label, run, cube: None }).collect();
    let shaped = shape(&sources, by(Axis::Category, Axis::Run, Measure::Elapsed)).unwrap();
    let own = pivot(&runs);
    let ns = |amount: &Option<Amount>| match amount {
        Some(Amount::Ns(ns)) => Some(*ns),
        _ => None,
    };
    let rows: Vec<_> = shaped
        .rows
        .iter()
        .map(|row| (name(&row.member), row.cells.iter().filter_map(ns).collect::<Vec<_>>()))
        .collect();
    let want: Vec<_> = own
        .rows
        .iter()
        .map(|row| {
            (
                row.category.clone(),
                row.elapsed_ns
                    .iter()
                    .flatten()
                    .copied()
                    .filter(|ns| *ns > 0 || row.category != crate::analysis::SHARED)
                    .chain([row.total_ns])
                    .collect::<Vec<_>>(),
            )
        })
        .collect();
    assert_eq!(rows, want);
    assert_eq!(shaped.totals.iter().filter_map(ns).collect::<Vec<_>>(), [own.totals_ns, vec![own.total_ns]].concat());
}

#[test]
fn a_report_read_back_says_what_it_does_not_hold() {
    let told = shaped(false, by(Axis::Category, Axis::Stream, Measure::Count));
    assert_eq!(lines(&told), ["(not in the report)", "gemm 4 4", "communication 2 2", "= 6 6"]);
    assert_eq!(told.gaps, ["a", "b"]);
    assert_eq!(shaped(false, by(Axis::Kernel, Axis::Run, Measure::Count)).gaps, [""; 0]);
}

#[test]
fn what_has_no_meaning_is_refused() {
    assert!(by(Axis::Run, Axis::Run, Measure::Count).check().unwrap_err().is_usage());
    let share_of_mean = Shape { percent: Some(Whole::All), ..by(Axis::Run, Axis::Stage, Measure::Mean) };
    assert!(share_of_mean.check().unwrap_err().is_usage());
}

#[test]
fn rows_beyond_the_top_are_one_and_nothing_is_lost() {
    let told = lines(&shaped(true, Shape { top: 1, ..by(Axis::Step, Axis::Run, Measure::Duration) }));
    assert_eq!(told, ["a | b", "step 1 extend/prefill 70 10 80", "+1 40 5 45", "= 110 15 125"]);
}

proptest! {
    #[test]
    fn cells_add_up_to_rows_columns_and_runs(
        rows in prop::sample::select(&AXES[..]), columns in prop::option::of(prop::sample::select(&AXES[..])),
        values in prop::sample::select(&MEASURES[..]), top in 0_usize..3,
    ) {
        let asked = Shape { rows, columns, values, percent: None, top };
        prop_assume!(columns != Some(rows) && values != Measure::Mean);
        let shaped = shaped(true, asked);
        let number = |amount: &Option<Amount>| match amount {
            Some(Amount::Ns(ns)) => *ns,
            Some(Amount::Count(count)) => *count as i64,
            _ => 0,
        };
        let mut down = vec![0; shaped.totals.len()];
        for row in &shaped.rows {
            let cells: Vec<i64> = row.cells.iter().map(number).collect();
            let (sum, parts) = cells.split_last().unwrap();
            prop_assert!(parts.is_empty() || parts.iter().sum::<i64>() == *sum);
            down.iter_mut().zip(&cells).for_each(|(down, cell)| *down += cell);
        }
        prop_assert_eq!(&down, &shaped.totals.iter().map(number).collect::<Vec<_>>());
        let want = match values {
            // Four ops and two; the bars hold idle time too.
            Measure::Elapsed if asked.has_idle() => 2 * 140 + 145,
            Measure::Elapsed => 115,
            Measure::Duration => 125,
            Measure::Exclusive => 30 + 20 + 20 + 20 + 10 + 5,
            _ => 6,
        };
        prop_assert_eq!(down.last(), Some(&want));
    }
}
