use crate::analysis::inference::served_model::ServedModel;
use crate::analysis::results::VerdictClause;
use crate::analysis::testing::replay_of_layers;
use crate::analysis::{Options, analyze};
use crate::rules::RuleBook;
use crate::trace::testing::TestTrace;

fn verdict(trace: &mut TestTrace) -> String {
    let verdict = trace.run().verdict;
    let joined: String = verdict.clauses.iter().map(|clause| clause.text.as_str()).collect();
    assert_eq!(verdict.text, joined);
    verdict.text
}

#[test]
fn a_step_that_keeps_the_gpu_busy_is_stated_with_its_largest_category() {
    let mut trace = TestTrace::new();
    trace.in_us().range("step[DECODE bs=32]", 0..100).launch(0..1).launches("gemm_kernel", 2..8_002);
    trace.launch(1..2).launches("flash_fwd_kernel", 8_002..10_002);
    let text = verdict(&mut trace);
    assert_eq!(
        text,
        "Decode: 1 step of 10.0 ms, batch 32, GPU busy 100.0 %; the critical path is 100.0 % GPU work; the largest category is gemm \
         (80.0 % of wall time). Next: attention (20.0 % of wall time)."
    );
}

/// 4.8 GB of weights at the 4.8 TB/s of an H200 are 1 ms; 48 GB cannot be read in a step of 2 ms.
#[test]
fn the_floor_of_a_step_is_stated_if_the_weights_are_known_and_fit() {
    let floor_of = |weights_gb: f64| {
        let mut trace = TestTrace::new();
        trace.in_us().named_device(0, "NVIDIA H200");
        for start in (0..20_000).step_by(2_000) {
            trace.range("step[DECODE bs=32]", start..start + 100).launch(start..start + 1);
            trace.launches("gemm_kernel", start + 2..start + 1_902);
        }
        let model = ServedModel { weights_gb: Some(weights_gb), ..ServedModel::default() };
        let options = Options { model, ..Options::default() };
        analyze(&trace.finish(), RuleBook::gpuprism_default().unwrap(), &options).verdict.text
    };
    let text = floor_of(4.8);
    assert!(
        text.starts_with("Decode: 10 steps, median 2.0 ms, mean batch 32, floor 1.0 ms, GPU busy 95.0 %"),
        "{text}"
    );
    assert!(!floor_of(48.0).contains("floor"), "{}", floor_of(48.0));
}

#[test]
fn a_trace_without_steps_states_its_gpu_work() {
    let mut trace = TestTrace::nsys();
    trace.in_us().kernel("gemm_kernel", 0..8_000);
    assert_eq!(
        verdict(&mut trace),
        "The capture covers 8.0 ms of GPU work, GPU busy 100.0 %; the largest category is gemm (100.0 % of wall time)."
    );
    assert_eq!(verdict(&mut TestTrace::nsys()), "No GPU work in this trace.");
}

#[test]
fn a_host_that_launches_late_is_the_bound_and_clauses_name_their_rows() {
    let mut trace = TestTrace::new();
    trace.in_us();
    (0..100).for_each(|i| {
        trace.launch(1_000 * i..1_000 * i).launches("gemm_kernel", 1_000 * i..1_000 * i + 200);
    });
    let run = trace.run();
    let text = &run.verdict.text;
    // 99 gaps of 800 us, and 100 kernels of 200 us.
    let expected = "; bound by the host, without which the work is 79.7 % shorter: the critical path is 95.8 % host";
    assert!(text.contains(expected), "{text}");
    let last: &VerdictClause = run.verdict.clauses.iter().rev().find(|clause| clause.section.is_some()).unwrap();
    assert_eq!((last.section.as_deref(), last.row), (Some("categories"), Some(0)));
}

#[test]
fn a_host_that_was_late_before_the_first_step_is_no_bound_of_the_steps() {
    let mut trace = TestTrace::new();
    // The program starts for 9 ms. Each step waits 10 us for its launch and runs for 90 us.
    trace.in_us().launch(0..1).launches("warm_up", 5..10);
    for start in (9_000..10_000).step_by(100) {
        trace.range("step[DECODE bs=2]", start..start + 20).launch(start..start + 10);
        trace.launches("gemm_kernel", start + 10..start + 100);
    }
    assert_eq!(
        verdict(&mut trace),
        "Decode: 10 steps, median 100 us, mean batch 2, GPU busy 90.0 %; a step is at most \
         29.2 % shorter without GPU work, and at most 8.5 % without the host; of the whole capture, the largest category is gemm (9.0 % of wall time); the GPU \
         idles for 9.0 ms outside of the steps."
    );
}

/// Twenty steps: a kernel of 100 us, a synchronisation that returns with it, and 10 us of the host, or 1 ms twice.
#[test]
fn a_few_long_steps_do_not_change_what_bounds_the_usual_one() {
    let mut trace = TestTrace::new();
    trace.in_us();
    let mut start = 0;
    for step in 0..20 {
        trace.range("step[DECODE bs=2]", start..start + 105).launch(start..start + 1);
        trace.launches("gemm_kernel", start + 2..start + 102);
        trace.call("cudaStreamSynchronize", start + 3..start + 103);
        start += if step % 10 == 5 { 1_103 } else { 113 };
    }
    let text = verdict(&mut trace);
    // 2.2 ms of 4.2 ms.
    assert!(text.contains(", median 113 us, 2 of them 1.1 ms on average and 52."), "{text}");
    // Twice 990 us.
    assert!(text.contains(" % of the time (the longest is step 6; together 2.0 ms beyond the median, "), "{text}");
    assert!(text.contains(" % of it waiting for the host), mean batch 2"), "{text}");
    assert!(text.contains("; the median step is at most 8") && !text.contains("equally fast"), "{text}");
    // 13 us of 113 pass between two kernels, of which the latency of the launch and the return of the call stay.
    assert!(text.contains("% shorter without GPU work and at most 8.8 % without the host"), "{text}");
    // 10 us of 18 steps and 1 ms of two are half of the time.
    assert!(text.contains("% without the host, the mean step at most 44.7 % and 52."), "{text}");
    assert!(text.contains("Largest recoverable cost: "), "{text}");
}

/// A step of 10 ms: two kernels of 100 us, the second of which is launched for the first time in a call of 9 ms.
#[test]
fn a_step_that_waits_for_first_launches_is_not_bound_by_its_host() {
    let mut trace = TestTrace::new();
    trace.in_us().range("step 1", 0..10_000).launch(0..10).launches("gemm_kernel", 10..110);
    trace.launch(500..9_800).launches("norm_kernel", 9_800..9_900);
    let mut trace = trace.finish();
    crate::session::find_unrecorded_work(&mut trace);
    let text = crate::analysis::testing::analyze(&trace).verdict.text;
    assert!(text.contains("the GPU waits for first launches of kernels, which load code"), "{text}");
    assert!(!text.contains("bound by the host"), "{text}");
}

#[test]
fn steps_are_not_judged_alone_in_windows_on_several_devices_and_with_whole_graphs() {
    let capture = || {
        let mut trace = TestTrace::new();
        trace.in_us().launch(0..1).launches("warm_up", 5..10);
        for start in (9_000..10_000).step_by(100) {
            trace.range("step[DECODE bs=2]", start..start + 20).launch(start..start + 10);
            trace.launches("gemm_kernel", start + 10..start + 100);
        }
        trace
    };
    let is_outside = |text: &str| text.contains("outside of the steps");
    assert!(is_outside(&verdict(&mut capture())));
    assert!(!is_outside(&verdict(capture().device(1).kernel("copy", 9_500..9_900))));
    assert!(!is_outside(&verdict(capture().replay(20..8_000))));
    let part = capture().window(1_000_000..9_450_000);
    assert!(!is_outside(&crate::analysis::testing::analyze(&part).verdict.text));
}

#[test]
fn overlapping_communication_is_stated_as_alone_and_together() {
    let mut trace = TestTrace::nsys();
    trace.in_us().kernel("gemm_kernel", 0..6_000);
    trace.stream(8).kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 4_000..8_000);
    let text = verdict(&mut trace);
    let expected = "of busy time, 50.0 % is compute alone, 25.0 % communication alone, 25.0 % both together";
    assert!(text.contains(expected), "{text}");
    assert!(
        text.contains("Largest recoverable cost: communication without compute (2.0 ms, 25.0 % of the time)"),
        "{text}"
    );
}

#[test]
fn the_largest_cost_is_stated_for_one_step() {
    let mut trace = TestTrace::new();
    trace.in_us();
    // Four steps of 1 ms: the kernel of each is launched 300 us after the previous one ended, which three of them did in the capture.
    for start in [0, 1_000, 2_000, 3_000] {
        trace.range("step[DECODE bs=2]", start..start + 700).launch(start..start).launches("gemm", start..start + 700);
    }
    let run = trace.run();
    let text = &run.verdict.text;
    // The replay keeps the latency of launches, so it saves a little less than the GPU waited.
    assert!(text.starts_with("Decode: 4 steps, median 1.0 ms, mean batch 2, GPU busy 70.0 %;"), "{text}");
    assert!(text.contains("late launches by the host (298 us a step, 29.8 % of the time)"), "{text}");
    let evidence = run.sections["findings"].rows[0].text("evidence");
    // The finding has the size of the verdict.
    assert!(evidence.starts_with("896 us in 3 steps (298 us a step), 29.8 % of the step time"), "{evidence}");
    assert!(evidence.contains("the GPU idles for 900 us in 3 gaps"), "{evidence}");
}

#[test]
fn idle_time_without_launches_has_no_cause() {
    let mut trace = TestTrace::nsys();
    trace.in_us().kernel("gemm_kernel", 0..1_000).kernel("gemm_kernel", 9_000..10_000);
    let text = verdict(&mut trace);
    assert!(text.contains("the GPU idles for 80.0 % of the time, and the trace does not show why"), "{text}");
}

#[test]
fn with_shifted_durations_no_category_and_no_communication_is_named() {
    let text = |lost_at: usize| verdict(&mut replay_of_layers(lost_at));
    let intact = text(usize::MAX);
    // The sizes of the messages are unknown, so one rank does not show how much of the time is waiting.
    let expected = "the critical path is 65.8 % communication or waits for other ranks";
    assert!(intact.contains(expected), "{intact}");
    let shifted = text(30);
    assert!(shifted.contains("durations in graph replays do not belong to their kernel names"), "{shifted}");
    assert!(!shifted.contains("communication") && !shifted.contains("gemm"), "{shifted}");
}
