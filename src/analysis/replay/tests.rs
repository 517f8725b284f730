//! Promises of the replay on hand-worked traces. Recorded and generated ones are in `tests/replay_truth`.

use super::changes::Saving;
use super::sections::{Confidence, CriticalPathRow, CriticalPathRows, PathKind, ReplayTrust, WhatIf, WhatIfRow};
use super::with_replay;
use crate::analysis::context::Context;
use crate::analysis::section::{Sections, TypedSection};
use crate::analysis::sections::explain;
use crate::session::look_up_code;
use crate::trace::Ns;
use crate::trace::testing::TestTrace;
use proptest::prelude::*;

fn parts(sections: &Sections) -> Vec<(PathKind, String, f64)> {
    let rows = CriticalPathRows::rows(sections);
    rows.into_iter().map(|row: CriticalPathRow| (row.kind, row.name, row.per_step_ms.0)).collect()
}

fn saved(sections: &Sections, id: &str) -> Option<(f64, f64)> {
    let row = WhatIf::rows(sections).into_iter().find(|row: &WhatIfRow| row.id.to_string() == id)?;
    Some((row.saving_low_ms.0, row.saving_high_ms.0))
}

/// Kernels of 100 us, each launched 1,000 us after the one before.
fn host_bound() -> Sections {
    let mut trace = TestTrace::new();
    trace.in_us();
    for start in (0..10_000).step_by(1_000) {
        trace.launch(start..start + 10).launches("gemm", start + 20..start + 120);
    }
    trace.sections()
}

#[test]
fn the_parts_of_the_path_add_up_to_the_window_and_the_unchanged_replay_is_exact() {
    let sections = host_bound();
    let trust = &ReplayTrust::rows(&sections)[0];
    let sum: f64 = parts(&sections).iter().map(|(_, _, ms)| ms).sum();
    // From the first call to the end of the last kernel.
    assert_eq!((trust.window_ms.0, trust.exactness_ns.0), (9.12, 0));
    assert!((sum - 9.12).abs() < 1e-9, "{sum}");
}

#[test]
fn a_late_host_is_on_the_path_and_faster_kernels_save_only_the_last_one() {
    let sections = host_bound();
    // Nine gaps of 990 us between calls, in each of which the GPU works for 100 us; the first call begins the window. The first kernel
    // starts 10 us after it, in the first gap.
    let of_kind = |kind| parts(&sections).into_iter().find(|(other, _, _)| *other == kind).map(|(.., ms)| ms);
    assert!((of_kind(PathKind::HostCode).unwrap() + of_kind(PathKind::Unrecorded).unwrap() - 8.90).abs() < 1e-9);
    let first: f64 =
        parts(&sections).iter().filter(|(kind, ..)| *kind == PathKind::BeforeFirstOp).map(|(.., ms)| ms).sum();
    assert!((first - 0.02).abs() < 1e-9, "{first}");
    // A host that waits would go on soon after the kernel, and here it goes on 890 us later.
    assert!(of_kind(PathKind::Unrecorded).unwrap() < 0.9 * 0.2);
    // No code says whether the host works all the time, or waits for each kernel: hardly, 890 us after its end.
    let (low, high) = saved(&sections, "kernel:gemm").unwrap();
    assert!(low == 0.05 && high < 0.1, "{high}");
    // Without code the calls follow each other, and the kernels of 100 us are ten in a row after the first latency of 20 us.
    let (low, high) = saved(&sections, "between_calls").unwrap();
    assert!((9.12 - high - 1.02).abs() < 0.02 && high - low < 0.1, "{low} {high}");
}

/// Ten times: 100 us on one GPU, 100 us on another one, a call that waits for both, and 86 us of the host.
#[test]
fn two_gpus_that_take_turns_are_one_path_also_without_the_call_between_them() {
    let mut trace = TestTrace::new();
    trace.in_us();
    for start in (0..3_000).step_by(300) {
        trace.device(0).launch(start..start + 5).launches("gemm", start + 10..start + 110);
        trace.call("cudaStreamWaitEvent", start + 6..start + 7);
        trace.device(1).launch(start + 8..start + 12).launches("gemm", start + 112..start + 212);
        trace.call("cudaStreamSynchronize", start + 20..start + 214);
    }
    let sections = trace.sections();
    // The work of both GPUs, ten times.
    let (low, high) = saved(&sections, "gpu").unwrap();
    assert!(low > 1.7 && high <= 2.0, "{low} {high}");
    // The next kernel on the first GPU may need the result of the second one, so that the call hides no more than the host: nine times less
    // than 100 us, and not 190 us.
    let (low, high) = saved(&sections, "all_blocking").unwrap();
    assert!(low > 0.7 && high < 0.9, "{low} {high}");
}

#[test]
fn pauses_of_the_profiler_are_a_row_of_their_own_and_no_other_row_includes_them() {
    let rows = |overheads: &[(i64, i64)]| {
        let mut trace = TestTrace::new();
        trace.in_us();
        for start in (0..10_000).step_by(1_000) {
            trace.launch(start..start + 10).launches("gemm", start + 20..start + 120);
        }
        let mut trace = trace.finish();
        trace.profiler_overheads = overheads.iter().map(|(start, end)| (Ns(start * 1_000), Ns(end * 1_000))).collect();
        look_up_code(&mut trace);
        let sections = explain(&Context::new(&trace, 30));
        let (_, host) = saved(&sections, "host").unwrap();
        (saved(&sections, "profiler"), host)
    };
    let (none, without_pauses) = rows(&[]);
    // 600 us before the fifth launch, of which the kernel before runs for none.
    let (profiler, host) = rows(&[(4_300, 4_900)]);
    assert_eq!((none, profiler), (None, Some((0.6, 0.6))));
    assert!((without_pauses - host - 0.6).abs() < 0.05, "{without_pauses} {host}");
}

/// Ten steps with a kernel of 920 us and a synchronisation that waits for it, after `lost` steps whose kernel has no record.
fn steps_after_lost_ones(lost: i64) -> Sections {
    let mut trace = TestTrace::new();
    trace.in_us();
    for (step, start) in (0..).zip((0..(lost + 10) * 1_000).step_by(1_000)) {
        trace.launch(start..start + 10);
        if step >= lost {
            trace.launches("gemm", start + 20..start + 940);
        }
        trace.call("cudaStreamSynchronize", start + 15..start + 945);
    }
    trace.sections()
}

#[test]
fn synchronisations_whose_work_is_lost_say_nothing_of_those_that_wait_for_recorded_work() {
    for lost in 0..6 {
        let (low, high) = saved(&steps_after_lost_ones(lost), "gpu").unwrap();
        assert!(low > 9.0 * 0.9 && high < (10.0 + lost as f64) * 0.95, "{lost} lost: {low} {high}");
        let host = saved(&steps_after_lost_ones(lost), "host").unwrap_or_default();
        assert!(host.1 < 11.0 * 0.08 + 0.1 * lost as f64, "{lost} lost: {host:?}");
    }
}

#[test]
fn a_busy_gpu_is_the_path_and_the_host_costs_nothing() {
    let mut trace = TestTrace::new();
    trace.in_us();
    for index in 0..50 {
        let (call, kernel) = (index * 10, 20 + index * 100);
        trace.launch(call..call + 5).launches("gemm", kernel..kernel + 99);
    }
    let sections = trace.sections();
    let (low, high) = saved(&sections, "between_calls").unwrap_or_default();
    // Only the delay of the first kernel could be the host's.
    assert!(low == 0.0 && high == 0.0, "{low} {high}");
    let (_, high) = saved(&sections, "kernel:gemm").unwrap();
    assert!((high - 50.0 * 0.0495).abs() < 0.001, "{high}");
}

/// Each step of 1.7 ms has a copy that blocks until its kernel of 1 ms ends, then a wait for an event, which is done, and 0.66 ms of
/// other code. If the event is that of the step before, the steps overlap without the blocking copy, and take 1 ms.
#[test]
fn a_wait_for_an_event_that_may_be_an_earlier_one_leaves_a_saving_open() {
    let saving = |waits_for_event: bool| {
        let mut trace = TestTrace::new();
        trace.in_us();
        for start in (0..20_400).step_by(1_700) {
            trace.launch(start..start + 10).launches("gemm", start + 20..start + 1_020);
            trace.range("apply_mask", start + 11..start + 1_032).call("cudaMemcpyAsync", start + 12..start + 1_030);
            trace.launches("Memcpy DtoH (Device -> Pageable)", start + 1_021..start + 1_026);
            if waits_for_event {
                trace.range("process", start + 1_033..start + 1_690);
                trace.call("cudaEventSynchronize", start + 1_034..start + 1_036);
            }
        }
        let mut trace = trace.finish();
        look_up_code(&mut trace);
        let rows = WhatIf::rows(&explain(&Context::new(&trace, 30)));
        let row: WhatIfRow = rows.into_iter().find(|row| row.id.to_string().starts_with("blocking:")).unwrap();
        (row.saving_low_ms.0, row.saving_high_ms.0, row.confidence)
    };
    let (low, high, confidence) = saving(true);
    assert!(low < 1.0 && high > 11.0 * 0.65 && confidence == Confidence::Low, "{low} {high} {confidence:?}");
    let (low, high, confidence) = saving(false);
    assert!(low > 11.0 * 0.6 && high - low < 0.5 && confidence == Confidence::High, "{low} {high} {confidence:?}");
}

/// Twelve steps of 1.4 ms: the host launches a kernel of 1 ms and waits in a future for 1.1 ms. Another thread waits for the kernel,
/// and works 80 us on it, if `is_recorded`. Then the host works 200 us.
fn waits_for_a_waiter(is_recorded: bool) -> Sections {
    let mut trace = TestTrace::coded();
    trace.in_us();
    for start in (0..16_800).step_by(1_400) {
        trace.thread(1).launch(start..start + 10).launches("gemm", start + 20..start + 1_020);
        trace.frame("futures/_base.py(428): result", start + 11..start + 1_110);
        trace.frame("<method 'acquire' of '_thread.lock' objects>", start + 11..start + 1_110);
        trace.frame("serve.py(7): schedule", start + 1_110..start + 1_400);
        if is_recorded {
            trace.thread(2).call("cudaEventSynchronize", start + 12..start + 1_030);
            trace.frame("futures/thread.py(53): run", start + 12..start + 1_030);
            trace.frame("serve.py(90): detokenize", start + 1_030..start + 1_110);
            trace.frame("<method 'acquire' of '_thread.lock' objects>", start + 1_110..start + 1_412);
        }
    }
    let mut trace = trace.finish();
    look_up_code(&mut trace);
    explain(&Context::new(&trace, 30))
}

#[test]
fn a_wait_for_a_thread_that_waits_for_the_gpu_ends_with_the_op_and_the_work_after_it() {
    let sections = waits_for_a_waiter(true);
    let path = parts(&sections);
    let time = |name: &str| path.iter().filter(|(_, other, _)| other == name).map(|(.., ms)| ms).sum::<f64>();
    assert_eq!(path[0].0, PathKind::Kernel, "{path:?}");
    assert!(path.iter().all(|(kind, ..)| *kind != PathKind::Waiting), "{path:?}");
    // Of eleven steps; the window ends with the kernel of the last one.
    assert!((time("detokenize") - 11.0 * 0.08).abs() < 0.01 && time("schedule") > 11.0 * 0.28, "{path:?}");
    let (low, high) = saved(&sections, "gpu").unwrap();
    assert!(low > 11.0 * 0.95 && high - low < 0.1, "{low} {high}");
}

#[test]
fn a_wait_for_what_is_not_recorded_leaves_open_what_faster_kernels_save() {
    let sections = waits_for_a_waiter(false);
    let (kind, name, _) = &parts(&sections)[0];
    assert_eq!((*kind, name.as_str()), (PathKind::Waiting, "result"));
    let row: WhatIfRow = WhatIf::rows(&sections).into_iter().find(|row| row.id.to_string() == "gpu").unwrap();
    // The first wait begins 10 us after the window, and the last kernel ends it.
    let (low, high) = (row.saving_low_ms.0, row.saving_high_ms.0);
    assert!(low < 1.1 && high > 11.0 * 0.95 && row.confidence != Confidence::High, "{row:?}");
}

/// Twelve steps in which the host launches a kernel of 1 ms, asks every 60 us whether it is done, sleeps meanwhile, and works 300 us.
#[test]
fn a_loop_that_asks_for_an_event_and_sleeps_waits_for_the_op() {
    let mut trace = TestTrace::coded();
    trace.in_us();
    for start in (0..16_800).step_by(1_400) {
        trace.launch(start..start + 10).launches("gemm", start + 20..start + 1_020);
        for poll in (start + 20..start + 1_050).step_by(60) {
            trace.call("cudaEventQuery", poll..poll + 2);
            trace.frame("<built-in function sleep>", poll + 3..poll + 60);
        }
        trace.frame("serve.py(7): schedule", start + 1_100..start + 1_400);
    }
    let mut trace = trace.finish();
    look_up_code(&mut trace);
    let sections = explain(&Context::new(&trace, 30));
    assert_eq!(parts(&sections)[0].0, PathKind::Kernel);
    let (low, high) = saved(&sections, "gpu").unwrap();
    assert!(low > 11.0 * 0.9 && high - low < 0.2, "{low} {high}");
}

/// 1,000 kernels of 49 us wait when the trace begins. The host launches 1,100 more, each in 4 us; with 1,150 in the queue a launch
/// returns when a kernel ends, so that nearly all launches are blocked.
#[test]
fn launches_that_nearly_all_find_the_queue_full_wait_for_the_gpu() {
    let mut trace = TestTrace::new();
    trace.in_us();
    let end_of = |kernel: i64| 10 + 50 * kernel + 49;
    let mut now = 0;
    for index in 0..2_100 {
        let kernel = end_of(index) - 49..end_of(index);
        if index < 1_000 {
            trace.kernel("gemm", kernel);
            continue;
        }
        let start = now;
        now = (start + 4).max(if index < 1_150 { 0 } else { end_of(index - 1_150) + 1 });
        trace.launch(start..now).launches("gemm", kernel);
    }
    // 105 ms; the host alone needs 1,100 launches of 4 us.
    let (low, _) = saved(&trace.sections(), "gpu").unwrap();
    assert!(low > 90.0, "{low}");
}

/// Ten steps: a kernel of 10 ms that a blocking call waits for, and a wait for data before the next step.
fn with_loader(wait_us: i64) -> Sections {
    let mut trace = TestTrace::coded();
    trace.in_us();
    for start in (0..10).map(|step| step * (10_000 + wait_us)) {
        let end = start + 10_000;
        trace.range("step[DECODE bs=2]", start..end);
        trace.launch(start..start + 5).launches("gemm", start + 5..end);
        trace.call("cudaStreamSynchronize", start + 10..end);
        trace.cpu_op("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", end..end + wait_us, 1);
    }
    let mut trace = trace.finish();
    crate::session::look_up_code(&mut trace);
    crate::analysis::testing::analyze(&trace).sections
}

#[test]
fn a_short_wait_for_data_hides_no_more_than_its_length_and_a_long_one_the_whole_step() {
    let of_gpu_work = |wait_us| {
        let row = WhatIf::rows(&with_loader(wait_us)).into_iter().find(|row| row.id.to_string() == "gpu").unwrap();
        (row.per_step_low_ms.0, row.per_step_high_ms.0)
    };
    for wait_us in [1, 50, 99, 100, 101, 120, 199] {
        let (low, high) = of_gpu_work(wait_us);
        assert!(high > 9.9 && low >= high - 1e-3 * wait_us as f64 - 1e-6, "{wait_us} us: {low} to {high}");
    }
    // A worker that needs 14 ms for a batch does so too if the GPU does nothing.
    let (low, high) = of_gpu_work(4_000);
    assert!(low < 1e-6 && high > 9.9, "{low} to {high}");
}

#[test]
fn a_trace_without_launches_says_what_to_record() {
    let sections = TestTrace::nsys().in_us().kernel("k", 0..10).kernel("k", 20..30).sections();
    for name in ["critical_path", "what_if", "replay_trust"] {
        let missing = sections[name].missing.as_ref().unwrap();
        assert!(missing.why.contains("launch call") && !missing.recapture.is_empty(), "{name}: {missing:?}");
    }
}

/// A host that computes, launches on two streams, waits and allocates. Of each call: the gap before it, its kind, and the
/// delay and duration of its op.
fn random_trace(pieces: &[(i64, u8, i64, i64)]) -> TestTrace {
    let mut trace = TestTrace::new();
    let mut now = 0;
    for (gap, kind, delay, duration) in pieces {
        let start = now + gap;
        now = start + 4_000;
        let op = now + delay..now + delay + duration;
        match kind {
            0 => trace.call("cudaStreamSynchronize", start..now + delay),
            1 => trace.call("cudaMalloc", start..now + delay),
            2 => trace.launch(start..now).stream(20).launches("ncclDevKernel_AllReduce", op),
            3 => trace.launch(start..now).stream(20).launches("permute", op),
            _ => trace.launch(start..now).stream(7).launches("gemm", op),
        };
        now += if *kind < 2 { *delay } else { 0 };
    }
    trace
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]

    #[test]
    fn two_changes_together_save_no_less_than_each_alone(
        pieces in prop::collection::vec((0_i64..60_000, 0_u8..12, 0_i64..40_000, 0_i64..90_000), 20..60),
    ) {
        let trace = random_trace(&pieces).finish();
        let saved = |savings: &[Ns]| savings.iter().fold(Ns::ZERO, |sum, saving| sum + *saving);
        let checked = with_replay(&Context::new(&trace, 30), |replay| {
            let changes = replay.changes();
            let all = changes.candidates(&[]);
            let alone: Vec<Saving> = all.iter().map(|change| changes.saving(std::slice::from_ref(change))).collect();
            for (first, saving) in all.iter().zip(&alone) {
                for (second, other) in all.iter().zip(&alone) {
                    let both = changes.saving(&[first.clone(), second.clone()]);
                    let (low, high) = (saved(&both.low), saved(&both.high));
                    prop_assert!(high >= saved(&saving.high).max(saved(&other.high)), "{first:?} {second:?}");
                    prop_assert!(low >= saved(&saving.low).max(saved(&other.low)), "{first:?} {second:?}");
                }
            }
            Ok(())
        });
        checked.unwrap_or(Ok(()))?;
    }
}
