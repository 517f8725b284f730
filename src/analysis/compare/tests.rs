//! Comparisons with results computed by hand, and properties of all comparisons.

use super::*;
use crate::analysis::results::{Attribution, Picked};
use crate::analysis::section::{Section, Value};
use crate::analysis::structure::stages::Stage;
use crate::analysis::testing::{analyze, replay_of_layers, rows};
use crate::trace::testing::TestTrace;
use crate::trace::{Ns, ProblemKind, Window};
use proptest::prelude::*;

const GEMM: &str = "nvjet_tst_64x8";
const NCCL: &str = "ncclDevKernel_AllReduce";
const FLASH: &str = "flash_fwd_kernel";

/// A trace of one H100 without ops.
fn trace(label: &str) -> TestTrace {
    let mut trace = TestTrace::new();
    trace.label(label).named_device(0, "NVIDIA H100");
    trace
}

/// Adds a step that launches kernels one after the other, with `idle` ns after each; returns its end.
fn add_step(trace: &mut TestTrace, name: &str, start: i64, idle: i64, kernels: &[(&str, i64)]) -> i64 {
    let mut now = start;
    for (kernel, duration) in kernels {
        trace.launch(now..now + 1).launches(kernel, now..now + duration);
        now += duration + idle;
    }
    trace.range(name, start..now);
    now
}

fn compare_with_first(runs: &[&Run]) -> Comparison {
    let labelled: Vec<(&str, &Run)> = runs.iter().map(|run| (run.label.as_str(), *run)).collect();
    compare(&labelled, 0)
}

/// A run of decode steps that launch these kernels; steps alternate between 10 ns longer and 10 ns shorter kernels.
fn decoding(label: &str, steps: i64, kernels: &[(&str, i64)]) -> Run {
    let (mut trace, mut now) = (trace(label), 1_000);
    for step in 0..steps {
        let jitter = if step % 2 == 0 { 10 } else { -10 };
        let kernels: Vec<(&str, i64)> = kernels.iter().map(|(name, ns)| (*name, ns + jitter)).collect();
        now = add_step(&mut trace, "step[DECODE bs=16]", now, 0, &kernels);
    }
    trace.run()
}

fn int(section: &Section, row: usize, key: &str) -> i64 {
    match section.rows[row].get(key).unwrap() {
        Value::Int(value) => *value,
        other => panic!("{key} is {other:?}"),
    }
}

#[test]
fn changes_per_step_do_not_depend_on_the_number_of_steps() {
    let a = decoding("A", 10, &[(FLASH, 40_000), (GEMM, 50_000), (NCCL, 10_000)]);
    let b = decoding("B", 30, &[(FLASH, 52_000), (GEMM, 45_000), (NCCL, 10_000)]);
    let comparison = compare_with_first(&[&a, &b]);
    assert_eq!(comparison.basis, Basis::Step);
    assert_eq!(comparison.runs[1].reasons, [""; 0]);
    assert_eq!(comparison.runs[1].outcome, Outcome::Slower);
    let change = comparison.runs[1].change.as_ref().unwrap();
    assert_eq!((change.baseline_ns, change.time_ns, change.delta_ns()), (100_000, 107_000, 7_000));
    let notable: Vec<_> =
        change.categories.iter().take(change.notable_categories).map(|c| (c.category.as_str(), c.delta_ns())).collect();
    assert_eq!(notable, [("attention", 12_000), ("gemm", -5_000)]);
    // Intervals alternate between 100,030 and 99,970 ns.
    let deviation = |count: f64| (count * 30.0 * 30.0 / (count - 1.0)).sqrt();
    let noise = 2.0 * (deviation(10.0).powi(2) / 10.0 + deviation(30.0).powi(2) / 30.0).sqrt();
    assert!((change.noise_ns.unwrap() - noise).abs() < 1e-6, "{:?} is not {noise}", change.noise_ns);
    assert!(comparison.has_regressed(6.9) && !comparison.has_regressed(7.0));
    let columns = ["kernel_name", "cause", "launches_delta_ns", "length_delta_ns"];
    assert_eq!(rows(&comparison.sections, "compare_kernels", &columns)[0], "flash_fwd_kernel longer launches 0 12000");
}

#[test]
fn a_run_compared_with_itself_has_no_change() {
    let a = decoding("A", 7, &[(FLASH, 40_000), (GEMM, 50_001)]);
    let comparison = compare_with_first(&[&a, &a]);
    assert_eq!(comparison.runs[1].outcome, Outcome::Same);
    assert!(!comparison.has_regressed(0.0));
    for section in ["compare_categories", "compare_kernels"] {
        let section = &comparison.sections[section];
        assert!((0..section.rows.len()).all(|row| int(section, row, "delta_ns") == 0));
    }
}

#[test]
fn a_change_smaller_than_the_spread_of_steps_is_noise() {
    let alternating = |label: &str, first: i64| {
        let (mut trace, mut now) = (trace(label), 0);
        for duration in [first, first + 40_000].repeat(4) {
            now = add_step(&mut trace, "step[DECODE bs=1]", now, 0, &[(GEMM, duration)]);
        }
        trace.run()
    };
    let (a, b) = (alternating("A", 80_000), alternating("B", 81_000));
    let comparison = compare_with_first(&[&a, &b]);
    assert_eq!(comparison.runs[1].change.as_ref().unwrap().delta_ns(), 1_000);
    assert_eq!(comparison.runs[1].outcome, Outcome::WithinNoise);
    assert!(!comparison.has_regressed(0.0), "noise is no regression");
}

#[test]
fn kernel_rows_name_the_cause_of_each_change() {
    let a = decoding("A", 6, &[(GEMM, 1_000), (GEMM, 1_000), (FLASH, 9_000), ("void rms_norm_kernel<4>(int)", 500)]);
    let b = decoding(
        "B",
        6,
        &[(GEMM, 1_000), (GEMM, 1_000), (GEMM, 1_100), (FLASH, 9_000), ("void rms_norm_kernel<8>(int)", 800)],
    );
    let sections = compare_with_first(&[&a, &b]).sections;
    let columns = ["kernel_name", "cause", "delta_ns", "launches_delta_ns", "length_delta_ns"];
    let kernels = rows(&sections, "compare_kernels", &columns);
    // One more launch of 1,000 ns per step.
    assert_eq!(kernels[0], "nvjet_tst_64x8 more launches 1100 1000 100");
    assert_eq!(kernels[1..3], ["void rms_norm_kernel<8> new 800 - -", "void rms_norm_kernel<4> gone -500 - -"]);
    assert!(rows(&sections, "compare_kernels", &["delta_ns"])[3..].iter().all(|delta| delta == "0"), "{kernels:?}");
    let columns = ["category", "delta_ns", "matched_delta_ns", "new_delta_ns", "gone_delta_ns"];
    let categories = rows(&sections, "compare_categories", &columns);
    assert!(categories.contains(&"norm 300 0 800 -500".to_owned()), "{categories:?}");
}

fn without_steps(label: &str, gpu: &str, times: i64) -> Run {
    let mut trace = TestTrace::new();
    trace.label(label).named_device(0, gpu);
    for start in (0..times).map(|index| index * 100) {
        trace.kernel(GEMM, start..start + 60).kernel(FLASH, start + 60..start + 90);
    }
    trace.run()
}

fn assert_refused(a: &Run, b: &Run, words: &[&str]) {
    let comparison = compare_with_first(&[a, b]);
    assert!(!comparison.is_possible() && comparison.runs[1].outcome == Outcome::NotComparable);
    let reasons = comparison.runs[1].reasons.join(" ");
    assert!(words.iter().all(|word| reasons.contains(word)), "{words:?} are not in {reasons:?}");
    assert!(comparison.sections["compare_kernels"].rows.is_empty());
}

#[test]
fn runs_that_measure_different_things_are_refused_with_a_remedy() {
    let a = without_steps("A", "NVIDIA H100", 10);
    assert_refused(&a, &TestTrace::new().label("B").run(), &["B has no GPU op"]);
    assert_refused(&TestTrace::new().label("A").run(), &a, &["A has no GPU op"]);
    let b = without_steps("B", "NVIDIA H100", 10);
    assert!(compare_with_first(&[&a, &b]).is_possible());
    assert_refused(&a, &Run { attribution: Attribution::FirstCome, ..b.clone() }, &["by first-come, A by fair"]);
    assert_refused(&a, &Run { rules: "vllm/llama".to_owned(), ..b.clone() }, &["vllm/llama"]);
    let two = trace("two").kernel(GEMM, 0..10).named_device(1, "NVIDIA H100").kernel(GEMM, 0..10).run();
    assert_refused(&a, &two, &["2 devices", "one rank of each"]);
    let (extend, decode) = (without_steps("x-EXTEND.json", "", 3), without_steps("x-DECODE.json", "", 3));
    assert_refused(&extend, &decode, &["extend/prefill", "decode", "profile_by_stage"]);
    let cut = Run { window: Some(Picked { start_ns: 0, end_ns: 1_000, whole_ns: 2_000 }), ..b };
    assert_refused(&a, &cut, &["limited to a window", "Select a window in both"]);
    assert_refused(&cut, &a, &["limited to a window"]);
    assert!(compare_with_first(&[&cut, &cut]).is_possible());
    let hidden = trace("B").kernel(GEMM, 0..60).replay(60..90).run();
    assert_refused(&a, &hidden, &["--cuda-graph-trace=node"]);
}

#[test]
fn an_incomplete_trace_is_refused_and_its_rank_log_is_marked() {
    let with = |kind: Option<ProblemKind>| {
        let mut trace = trace("B");
        kind.into_iter().for_each(|kind| trace.builder.trace.problems.add(kind, 1, 1_048_576));
        trace.kernel(GEMM, 0..60).finish()
    };
    let whole = with(None);
    for kind in [ProblemKind::Truncated, ProblemKind::DamagedGzip, ProblemKind::DamagedTable, ProblemKind::NoTimes] {
        let cut = with(Some(kind));
        assert_refused(&analyze(&whole), &analyze(&cut), &["B is cut short or damaged"]);
        assert!(crate::analysis::communication::ranks::log(&cut).is_cut_short, "{kind:?}");
    }
    let notices = analyze(&with(Some(ProblemKind::Truncated))).notices;
    assert!(notices.iter().any(|notice| notice.message.contains("byte 1,048,576;")), "{notices:?}");
    for kind in [ProblemKind::Unclosed, ProblemKind::OpenLastRow, ProblemKind::TrailingData, ProblemKind::LeftOut] {
        let complete = with(Some(kind));
        assert!(compare_with_first(&[&analyze(&whole), &analyze(&complete)]).is_possible(), "{kind:?} loses no data");
        assert!(!crate::analysis::communication::ranks::log(&complete).is_cut_short, "{kind:?}");
    }
}

#[test]
fn a_cold_start_is_refused_because_loads_take_another_time_in_each_run() {
    let run = |load_us: i64| {
        let mut trace = trace("B");
        trace.in_us().call("cuLibraryLoadData", 0..load_us);
        for kernel in 0..4 {
            let start = load_us + 10_000 * kernel;
            trace.launch(start..start + 5_000).launches(&format!("{GEMM}_{kernel}"), start + 5_005..start + 9_000);
        }
        let mut trace = trace.finish();
        crate::session::find_unrecorded_work(&mut trace);
        analyze(&trace)
    };
    assert_refused(&run(20_000), &run(21_000), &["capture of the start of a program", "Capture again after a warm-up"]);
}

/// Six steps of two kernels of 50 ns with 10 ns between them; a step starts every 130 ns.
#[test]
fn a_window_with_much_work_outside_whole_steps_is_refused() {
    let mut trace = trace("run.json");
    for start in (0..6).map(|step| step * 130) {
        add_step(&mut trace, "step[DECODE bs=1]", start, 10, &[(GEMM, 50), (FLASH, 50)]);
    }
    let trace = trace.finish();
    let picked = |start, end| {
        let part = trace.within(Window { start: Ns(start), end: Ns(end) });
        Run { label: "part.json".into(), ..analyze(&part) }
    };
    let whole = analyze(&trace);
    // The window has eight kernels: six in whole steps, two in the steps cut at its ends.
    assert_refused(
        &whole,
        &picked(60, 570),
        &["In the window of part.json, 25 % of the work lies outside whole steps."],
    );
    let whole_steps = compare_with_first(&[&whole, &picked(130, 515)]);
    assert_eq!((whole_steps.is_possible(), whole_steps.basis), (true, Basis::Step), "{:?}", whole_steps.runs);
}

#[test]
fn a_different_mix_of_stages_is_refused() {
    let mixed = |label: &str, steps: &[(&str, i64)]| {
        let mut trace = trace(label);
        steps.iter().fold(0, |now, (name, ns)| add_step(&mut trace, name, now, 0, &[(GEMM, *ns)]));
        trace.run()
    };
    const EXTEND: (&str, i64) = ("step[EXTEND bs=1 toks=10]", 1_000_000);
    const DECODE: (&str, i64) = ("step[DECODE bs=1]", 100_000);
    let a = mixed("A", &[EXTEND, DECODE, DECODE, DECODE]);
    // With A's step times, A takes 325 us per step and B's mix 400 us.
    let b = mixed("B", &[EXTEND, DECODE, DECODE]);
    assert_refused(&a, &b, &["+23 %", "one stage"]);
    let (_, b) = (
        assert_refused(&a, &mixed("B", &[DECODE, DECODE]), &["B is decode", "25 % extend/prefill"]),
        mixed("B", &[DECODE; 2]),
    );
    let found = compare_with_first(&[&a, &b]);
    let estimated = found.runs[1].estimated_stages.iter().map(|stage| (stage.stage, stage.steps, stage.shift_ns));
    assert_eq!(estimated.collect::<Vec<_>>(), [(Stage::Decode, 1, 0.0)]);
    assert!(!found.has_regressed(0.0), "an estimate is no verdict");
    assert!(
        compare_with_first(&[&a, &mixed("B", &[EXTEND, DECODE, DECODE, ("step[DECODE bs=1]", 150_000)])]).is_possible()
    );
}

#[test]
fn a_run_with_shifted_durations_is_compared_with_a_warning() {
    let warns = |lost_at: usize| {
        let comparison = compare_with_first(&[&replay_of_layers(usize::MAX).run(), &replay_of_layers(lost_at).run()]);
        comparison.runs[1].warnings.iter().any(|warning| warning.contains("compare totals, not single kernels"))
    };
    assert!(warns(30) && !warns(usize::MAX));
}

#[test]
fn totals_are_compared_with_a_warning_if_launches_are_equal() {
    let comparison = compare_with_first(&[&without_steps("A", "g", 10), &without_steps("B", "g", 10)]);
    assert_eq!((comparison.basis, comparison.trust.as_slice()), (Basis::Total, &[][..]));
    let warnings = comparison.runs[1].warnings.join(" ");
    assert!(warnings.contains("assumes that both did the same work") && warnings.contains("not known"), "{warnings}");
}

/// A capture without steps: kernels follow each other, each with the number of its launches and the duration of one, and the
/// last one ends at `window`.
fn capture(label: &str, window: i64, kernels: &[(&str, i64, i64)]) -> Run {
    let (mut trace, mut now) = (trace(label), 0);
    for &(name, launches, duration) in kernels {
        for _ in 0..launches {
            trace.kernel(name, now..now + duration);
            now += duration;
        }
    }
    trace.kernel("last", window - 1..window);
    trace.run()
}

#[test]
fn captures_of_equal_time_are_compared_by_the_common_ratio_of_launches() {
    let a = capture("A", 100_000, &[(GEMM, 100, 600), (FLASH, 50, 700), ("set up", 1, 200)]);
    let b = capture("B", 100_100, &[(GEMM, 200, 300), (FLASH, 100, 350), ("set up", 1, 200)]);
    let comparison = compare_with_first(&[&a, &b]);
    let run = &comparison.runs[1];
    assert_eq!((comparison.basis, run.outcome, run.units), (Basis::Launches, Outcome::Faster, Some(2.0)), "{run:?}");
    let change = run.change.as_ref().unwrap();
    assert_eq!((change.baseline_ns, change.time_ns), (100_000, 50_050));
    let columns = ["kernel_name", "baseline_launches", "launches", "cause", "delta_ns"];
    let kernels = rows(&comparison.sections, "compare_kernels", &columns);
    assert_eq!(kernels[0], "nvjet_tst_64x8 100 100 shorter launches -30000");
    let [row] = comparison.trust.as_slice() else { panic!("{:?}", comparison.trust) };
    assert!(row.id == "fixed-time-window" && row.text.contains("B did 2.00 times the work of A"), "{row:?}");
    // The same two runs the other way around are a regression, although both captures last equally long.
    assert!(compare_with_first(&[&b, &a]).has_regressed(90.0));
}

#[test]
fn captures_of_different_length_are_compared_by_launches_without_a_row_about_fixed_time() {
    let a = capture("A", 100_000, &[(GEMM, 100, 600), (FLASH, 50, 700)]);
    let b = capture("B", 200_000, &[(GEMM, 200, 600), (FLASH, 100, 700)]);
    let comparison = compare_with_first(&[&a, &b]);
    assert_eq!((comparison.basis, comparison.trust.len()), (Basis::Launches, 0));
    assert_eq!(comparison.runs[1].outcome, Outcome::Same, "twice the work in twice the time");
}

#[test]
fn equal_launches_compare_totals_even_if_one_kernel_is_replaced() {
    let a = capture("A", 100_000, &[(GEMM, 100, 600), (FLASH, 50, 700), ("old", 10, 100)]);
    let b = capture("B", 90_000, &[(GEMM, 100, 500), (FLASH, 50, 700), ("new", 20, 100)]);
    let comparison = compare_with_first(&[&a, &b]);
    assert_eq!((comparison.basis, comparison.runs[1].units), (Basis::Total, Some(1.0)));
    assert_eq!(comparison.runs[1].change.as_ref().unwrap().delta_ns(), -10_000);
    // 4 of 1,000 launches more at an end of the capture are no other amount of work.
    let more = |launches| capture("B", 100_000, &[(GEMM, launches, 60), (FLASH, launches, 30)]);
    assert_eq!(compare_with_first(&[&more(1_000), &more(1_004)]).basis, Basis::Total);
    assert_eq!(compare_with_first(&[&more(1_000), &more(1_010)]).basis, Basis::Launches);
}

#[test]
fn a_different_mixture_of_work_without_a_common_ratio_is_refused() {
    let run = |label: &str, gemm, flash| capture(label, 100_000, &[(GEMM, gemm, 400), (FLASH, flash, 400)]);
    let a = run("A", 100, 100);
    let words = ["no unit of work is certain", "no common ratio", "Mark each step", "same requests"];
    assert_refused(&a, &run("B", 120, 80), &words);
    assert_eq!(compare_with_first(&[&a, &run("B", 120, 80)]).trust[0].id, "fixed-time-window");
    // Half of the kernel time has the ratio 1.2, and 100 us / 1.2 are 83 us; ratios are ordered, and the median is the lower one.
    let estimate = compare_with_first(&[&a, &run("B", 120, 80)]).runs[1].estimate.clone().unwrap();
    assert!(estimate.starts_with("An estimate and no verdict: if the launches of common kernels"), "{estimate}");
    assert!(estimate.ends_with("B takes 83 us for the work for which A takes 100 us."), "{estimate}");
    // Ratios of 1.20 and 1.21 are one ratio.
    assert_eq!(compare_with_first(&[&a, &run("B", 120, 121)]).basis, Basis::Launches);
    assert_refused(&a, &run("B", 120, 125), &words);
    let comparison = compare_with_first(&[&a, &run("B", 120, 80), &run("C", 100, 100)]);
    assert_eq!(comparison.runs[2].outcome, Outcome::Same, "a refused run does not affect the others: {comparison:?}");
}

/// A capture of iterations that launch a GEMM and two attention kernels of 100 ns in a nested range.
fn iterating(label: &str, name: &str, iterations: i64, gemm: i64, others: i64) -> Run {
    let (mut trace, mut now) = (trace(label), 0);
    for _ in 0..others {
        trace.launch(now..now + 1).launches("other", now..now + 100);
        now += 100;
    }
    for _ in 0..iterations {
        let start = now;
        for (kernel, duration) in [(GEMM, gemm), (FLASH, 100), (FLASH, 100)] {
            trace.launch(now..now + 1).launches(kernel, now..now + duration);
            now += duration;
        }
        trace.range(name, start..now).range("attention", start + gemm - 1..now - 1);
    }
    trace.run()
}

#[test]
fn a_range_that_repeats_in_both_runs_is_the_unit_of_work() {
    let a = iterating("A", "iteration", 4, 800, 0);
    let comparison = compare_with_first(&[&a, &iterating("B", "iteration", 10, 600, 0)]);
    let run = &comparison.runs[1];
    assert_eq!((comparison.basis, comparison.range.as_str()), (Basis::Range, "iteration"), "{run:?}");
    assert_eq!((run.units, run.outcome, comparison.trust.len()), (Some(10.0), Outcome::Faster, 0));
    let change = run.change.as_ref().unwrap();
    assert_eq!((change.baseline_ns, change.time_ns), (1_000, 800));
    // Equally long captures with another number of ranges.
    let comparison = compare_with_first(&[&a, &iterating("B", "iteration", 8, 300, 0)]);
    assert_eq!(comparison.runs[1].change.as_ref().unwrap().time_ns, 500);
    assert!(comparison.trust[0].text.contains("B did 2.00 times the work of A"), "{:?}", comparison.trust);
}

#[test]
fn a_range_is_no_unit_if_it_is_rare_or_has_another_name_or_little_kernel_time() {
    let a = iterating("A", "iteration", 4, 800, 0);
    for b in [
        iterating("B", "iteration", 2, 800, 0),
        iterating("B", "epoch", 8, 800, 0),
        // 80 of 180 kernel times of 100 ns are outside the ranges.
        iterating("B", "iteration", 8, 800, 80),
    ] {
        assert_eq!(
            compare_with_first(&[&a, &b]).basis,
            Basis::Launches,
            "{:?}",
            b.sections["nvtx_kernel_time"].summary
        );
    }
    let outside = iterating("B", "iteration", 8, 800, 20);
    let comparison = compare_with_first(&[&a, &outside]);
    assert_eq!(comparison.basis, Basis::Range);
    assert!(comparison.runs[1].warnings.iter().any(|warning| warning.contains("20 % of the kernel time")));
}

#[test]
fn a_range_with_other_work_in_it_is_refused() {
    let a = iterating("A", "request", 4, 800, 0);
    let mut b = iterating("B", "request", 4, 800, 0);
    b.kernels.iter_mut().for_each(|kernel| kernel.count *= 2);
    assert_refused(&a, &b, &["A range `request` of B", "2.00 times as often", "same requests"]);
}

#[test]
fn totals_of_several_devices_are_means_over_them() {
    let on_two = |label: &str, duration: i64| {
        let mut trace = trace(label);
        trace.named_device(1, "NVIDIA H100");
        for device in 0..2 {
            trace.device(device).kernel(GEMM, 0..duration).kernel(FLASH, duration..duration + 400);
        }
        trace.run()
    };
    let (a, b) = (on_two("A", 600), on_two("B", 800));
    let comparison = compare_with_first(&[&a, &b]);
    let change = comparison.runs[1].change.as_ref().unwrap();
    assert_eq!((comparison.timelines, change.baseline_ns, change.time_ns), (2, 1_000, 1_200));
    let columns = ["compared_ns", "wall_ns", "busy_ns", "idle_ns", "elapsed_ns"];
    assert_eq!(rows(&comparison.sections, "compare_summary", &columns)[1], "1200 1200 1200 0 1200");
    assert_eq!(
        comparison.sections["compare_categories"].derived_from,
        "elapsed time of the whole runs, mean over the devices"
    );
}

#[test]
fn different_batch_sizes_are_a_warning_or_a_reason() {
    let step = |label: &str, name: &str| {
        let mut trace = trace(label);
        add_step(&mut trace, name, 0, 0, &[(GEMM, 100)]);
        trace.run()
    };
    let a = step("A", "step[DECODE bs=16]");
    let comparison = compare_with_first(&[&a, &step("B", "step[DECODE bs=20]")]);
    let warnings = comparison.runs[1].warnings.join(" ");
    assert!(warnings.contains("20 tokens") && warnings.contains("needs at least 5 steps"), "{warnings}");
    assert_refused(&a, &step("B", "step[DECODE bs=64]"), &["64 tokens", "16", "same load"]);
}

/// Runs of one decode step on a GPU.
fn step_on(gpu: &str, label: &str, batch: u64, kernels: &[(&str, i64)]) -> Run {
    let mut trace = TestTrace::new();
    trace.label(label).named_device(0, gpu);
    add_step(&mut trace, &format!("step[DECODE bs={batch}]"), 0, 0, kernels);
    trace.run()
}

#[test]
fn runs_on_different_gpus_are_compared_with_a_warning() {
    let a = step_on("NVIDIA H100", "A", 16, &[(GEMM, 100_000)]);
    let comparison = compare_with_first(&[&a, &step_on("NVIDIA B200", "B", 16, &[("nvjet_sm100", 60_000)])]);
    let b = &comparison.runs[1];
    assert_eq!((comparison.basis, b.outcome), (Basis::Step, Outcome::Faster));
    assert_eq!(b.change.as_ref().map(Change::delta_ns), Some(-40_000));
    assert_eq!(b.other_gpus, Some(["NVIDIA H100".to_owned(), "NVIDIA B200".to_owned()]));
    let warnings = b.warnings.join(" ");
    assert!(warnings.contains("B ran on NVIDIA B200, A on NVIDIA H100"), "{warnings}");
    assert!(!warnings.contains("the model, precision or backend may differ"), "names differ between GPUs: {warnings}");
    let change = b.change.as_ref().unwrap();
    let parts: Vec<(&str, i64)> =
        change.categories.iter().map(|part| (part.category.as_str(), part.delta_ns())).collect();
    assert_eq!(parts, [("gemm", -40_000)], "both kernels are of one category");
}

/// 100 us for 16 tokens are 6,250 us per 1,000 tokens, 60 us for 64 tokens are 937.5 us.
#[test]
fn other_batches_on_other_gpus_are_compared_per_token() {
    let a = step_on("NVIDIA H100", "A", 16, &[(GEMM, 100_000)]);
    let b = step_on("NVIDIA B200", "B", 64, &[(GEMM, 60_000)]);
    let comparison = compare_with_first(&[&a, &b]);
    assert_eq!(comparison.basis, Basis::Token);
    let change = comparison.runs[1].change.as_ref().unwrap();
    assert_eq!((change.baseline_ns, change.time_ns), (6_250_000, 937_500));
    assert_eq!(comparison.runs.iter().map(|run| run.units).collect::<Vec<_>>(), [Some(16.0), Some(64.0)]);
    assert!(comparison.runs[1].warnings.join(" ").contains("times are per token"), "{:?}", comparison.runs[1].warnings);
    // The same GPU with another load is still refused, also beside such a run.
    let c = step_on("NVIDIA H100", "C", 64, &[(GEMM, 60_000)]);
    let comparison = compare_with_first(&[&a, &b, &c]);
    assert!(comparison.runs[2].reasons.join(" ").contains("same load"), "{:?}", comparison.runs[2].reasons);
    assert!(comparison.runs[1].change.is_some());
}

#[test]
fn idle_time_outside_the_steps_does_not_count() {
    let idle_until = |label: &str, until: i64| {
        let mut trace = trace(label);
        trace.kernel("warm up", 0..10);
        add_step(&mut trace, "step[DECODE bs=1]", until, 0, &[(GEMM, 100)]);
        add_step(&mut trace, "step[DECODE bs=1]", until + 140, 0, &[(GEMM, 100)]);
        trace.run()
    };
    let comparison = compare_with_first(&[&idle_until("A", 1_000), &idle_until("B", 90_000)]);
    let change = comparison.runs[1].change.as_ref().unwrap();
    assert_eq!(
        (change.baseline_ns, change.delta_ns()),
        (125, 0),
        "half of: two steps of 100 ns, 40 ns between them, 10 ns of warm-up"
    );
}

#[test]
fn a_comparison_says_whether_its_steps_include_work_around_them() {
    let after_warm_up = |label: &str, ns: i64| {
        let mut trace = trace(label);
        trace.kernel("warm up", 0..ns);
        add_step(&mut trace, "step[DECODE bs=1]", 1_000, 0, &[(GEMM, 100)]);
        add_step(&mut trace, "step[DECODE bs=1]", 1_100, 0, &[(GEMM, 100)]);
        trace.run()
    };
    let has_work_outside =
        |ns: i64| compare_with_first(&[&after_warm_up("A", 10), &after_warm_up("B", ns)]).has_work_outside_steps;
    assert_eq!([10, 100].map(has_work_outside), [false, true], "4.8 % and 33 % of the work");
}

#[test]
fn the_gpu_vendor_is_detected_from_kernel_names_if_devices_have_no_name() {
    let on = |label: &str, name: &str| TestTrace::new().label(label).kernel(name, 0..100).run();
    let a = on("A", "nvjet_tst_64x8");
    let b = on("B", "Cijk_Alik_Bljk_BBS");
    let gpus = compare_with_first(&[&a, &b]).runs[1].other_gpus.clone().map(|gpus| gpus.join(" "));
    let expected = ["an NVIDIA GPU", "an AMD GPU"].map(|gpu| format!("{gpu} (according to its kernel names)"));
    assert_eq!(gpus, Some(expected.join(" ")));
    assert_refused(&a, &on("B", "triton_red_fused_1"), &["no kernel, no steps and no repeated range in common"]);
}

#[test]
fn a_refused_run_does_not_affect_the_other_runs() {
    let a = decoding("A", 6, &[(GEMM, 1_000)]);
    let other = Run { rules: "other rules".to_owned(), ..without_steps("B", "NVIDIA H100", 6) };
    let runs = [&a, &other, &decoding("C", 6, &[(GEMM, 1_200)])];
    let comparison = compare_with_first(&runs);
    let outcomes: Vec<Outcome> = comparison.runs.iter().map(|run| run.outcome).collect();
    assert_eq!(outcomes, [Outcome::Baseline, Outcome::NotComparable, Outcome::Slower]);
    assert_eq!(comparison.basis, Basis::Step, "refused runs do not decide the basis");
    let labelled: Vec<(&str, &Run)> = runs.iter().map(|run| (run.label.as_str(), *run)).collect();
    let reversed = compare(&labelled, 2);
    assert_eq!(reversed.runs[0].outcome, Outcome::Faster);
    assert_eq!(reversed.runs[0].change.as_ref().unwrap().delta_ns(), -200);
}

proptest! {
    /// Changes by category and by kernel add up to the change of the whole run.
    #[test]
    fn changes_add_up_to_the_whole_change(
        a in prop::collection::vec((0_usize..6, 1_i64..5_000, 0_i64..300), 1..60),
        b in prop::collection::vec((0_usize..6, 1_i64..5_000, 0_i64..300), 1..60),
        with_steps: bool,
    ) {
        const NAMES: [&str; 6] = [GEMM, NCCL, FLASH, "void a<1>(int)", "void a<1>(long)", "b"];
        let build = |label: &str, ops: &[(usize, i64, i64)]| {
            let (mut trace, mut now) = (trace(label), 0);
            for &(name, ns, idle) in ops {
                if with_steps {
                    now = add_step(&mut trace, "step[DECODE bs=1]", now, idle, &[(NAMES[name], ns)]);
                } else {
                    trace.kernel(NAMES[name], now..now + ns);
                    now += ns + idle - 100;
                }
            }
            trace.run()
        };
        let (a, b) = (build("A", &a), build("B", &b));
        let comparison = compare_with_first(&[&a, &b]);
        prop_assert!(!with_steps || comparison.is_possible() && comparison.runs[1].change.is_some());
        if let Some(change) = &comparison.runs[1].change {
            for section in ["compare_categories", "compare_kernels"] {
                let section = &comparison.sections[section];
                let rows = 0..section.rows.len();
                for (key, total) in [("delta_ns", change.delta_ns()), ("baseline_ns", change.baseline_ns), ("compared_ns", change.time_ns)] {
                    prop_assert_eq!(rows.clone().map(|row| int(section, row, key)).sum::<i64>(), total);
                }
                let sizes: Vec<i64> = rows.map(|row| int(section, row, "delta_ns").abs()).collect();
                prop_assert!(sizes.is_sorted_by(|a, b| a >= b));
            }
            prop_assert_eq!(with_steps, comparison.basis == Basis::Step);
            if comparison.basis == Basis::Total {
                prop_assert_eq!(change.delta_ns(), b.wall.bar_ns - a.wall.bar_ns);
            }
        }
        let categories = &comparison.sections["compare_categories"];
        for row in 0..categories.rows.len() {
            let value = |key: &str| int(categories, row, key);
            prop_assert_eq!(value("delta_ns"), value("matched_delta_ns") + value("new_delta_ns") + value("gone_delta_ns"));
        }
    }
}
