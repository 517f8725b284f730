//! What a report says of programs that start, from hand-made traces.

use crate::analysis::results::Run;
use crate::analysis::testing::{analyze, rows_of};
use crate::session::find_unrecorded_work;
use crate::trace::testing::TestTrace;
use crate::trace::{Ns, Window};

fn report(trace: &mut TestTrace) -> Run {
    let mut trace = trace.finish();
    find_unrecorded_work(&mut trace);
    analyze(&trace)
}

/// A program that loads for 20 ms, then `starting` steps that load for 5 ms each.
fn starting(starting: i64) -> TestTrace {
    let mut trace = TestTrace::new();
    trace.in_us().call("cuLibraryLoadData", 0..20_000);
    for step in 0..starting {
        let start = 20_000 + 10_000 * step;
        trace.range("step[DECODE bs=2]", start..start + 9_000).launch(start..start + 5_000);
        trace.launches(&format!("gemm_kernel_{step}"), start + 5_005..start + 9_000);
    }
    trace
}

/// Steps of 100 us, from a time in microseconds.
fn steady(trace: &mut TestTrace, from: i64, steps: i64) {
    for start in (from..from + 100 * steps).step_by(100) {
        trace.range("step[DECODE bs=2]", start..start + 20).launch(start..start + 5);
        trace.launches("gemm_kernel_steady", start + 10..start + 100);
    }
}

#[test]
fn steps_of_the_start_are_listed_but_count_in_no_figure() {
    let mut trace = starting(2);
    steady(&mut trace, 40_000, 10);
    let run = report(&mut trace);
    let steps = &run.sections["steps"];
    let figure = |name: &str| steps.summary.amount(name);
    assert_eq!(rows_of(steps, &["steps", "max_ns"]), ["10 100000"]);
    assert_eq!((figure("steps"), figure("steps_in_start_up")), (10.0, 2.0));
    assert_eq!(run.sections["step_list"].rows.len(), 12);
    let start = &run.sections["start_up"];
    let columns = ["steady_from_ns", "loading_ms", "loads", "steps_left_out", "steps_after", "ops_before", "ops_after"];
    assert_eq!(rows_of(start, &columns), ["35000000 30 3 2 10 1 11"]);
    assert!(
        run.verdict.text.starts_with(
            "After the start of the program (first 35.0 ms of 41.0 ms, of which loading takes 30.0 ms), decode: 10 steps, median \
             100 us"
        ),
        "{}",
        run.verdict.text
    );
}

#[test]
fn a_step_that_is_the_only_one_stays() {
    let run = report(&mut starting(1));
    assert_eq!(rows_of(&run.sections["steps"], &["steps"]), ["1"]);
    assert_eq!(rows_of(&run.sections["start_up"], &["steps_left_out", "steps_after"]), ["0 0"]);
    // Its kernel follows, so it is no cold start; but the step is no workload after a start.
    assert!(run.verdict.text.starts_with("Decode: 1 step of 4.0 ms"), "{}", run.verdict.text);
}

#[test]
fn a_capture_of_a_start_alone_is_cold_and_has_no_savings_of_steps() {
    // A library and four kernels that are loaded. The last kernel and a short one follow.
    let mut trace = TestTrace::new();
    trace.in_us().call("cuLibraryLoadData", 0..20_000);
    for (kernel, start) in [20_000, 30_000, 40_000, 50_000].into_iter().enumerate() {
        trace.launch(start..start + 5_000).launches(&format!("gemm_kernel_{kernel}"), start + 5_005..start + 9_000);
    }
    trace.launch(60_000..60_005).launches("gemm_kernel_0", 60_010..60_020);
    let run = report(&mut trace);
    assert_eq!(
        run.verdict.text,
        "This capture is a cold start: the program starts for 55.0 ms of 60.0 ms, of which loading takes 40.0 ms \
         (cuLibraryLoadData 20.0 ms, cudaLaunchKernel (first launches) 20.0 ms (4)); 40.0 % of the ops and 25.0 % of the kernel time \
         follow. Warm up before the capture, then capture again."
    );
    assert_eq!(rows_of(&run.sections["findings"], &["id"]), ["start-up"]);
    assert!(
        rows_of(&run.sections["trust"], &["text"])
            .join(" ")
            .contains("Warm up before the capture, then capture again.")
    );
}

#[test]
fn without_steps_the_verdict_is_about_the_time_after_the_start() {
    let mut trace = TestTrace::new();
    trace.in_us().launch(0..300_000).launches("a", 300_010..300_020);
    for start in (300_100..301_000).step_by(100) {
        trace.launch(start..start + 5).launches("gemm_kernel", start + 10..start + 90);
    }
    let text = report(&mut trace).verdict.text;
    assert!(
        text.starts_with(
            "After the start of the program (first 300.0 ms of 301.0 ms, of which loading takes 300.0 ms), the capture covers \
             730 us of GPU work, GPU busy 73.7 %; of the whole capture, the largest category is gemm"
        ),
        "{text}"
    );
}

#[test]
fn a_running_program_has_no_start() {
    let mut trace = TestTrace::new();
    steady(trace.in_us(), 0, 10);
    trace.launch(1_000..9_000).launches("new", 9_010..9_100);
    steady(&mut trace, 9_200, 10);
    let run = report(&mut trace);
    assert!(!run.sections.contains_key("start_up"));
    assert!(run.verdict.text.starts_with("Decode: 20 steps"), "{}", run.verdict.text);
}

#[test]
fn a_window_has_the_start_of_the_whole_trace_only_where_they_overlap() {
    let mut trace = starting(2);
    steady(&mut trace, 40_000, 10);
    let mut trace = trace.finish();
    find_unrecorded_work(&mut trace);
    let has_start = |from: i64| {
        let window = Window { start: Ns(from), end: Ns(45_000_000) };
        analyze(&trace.within(window)).sections.contains_key("start_up")
    };
    assert!(has_start(30_000_000) && !has_start(40_000_000));
}

#[test]
fn the_upload_of_a_model_in_the_start_is_no_cost_of_what_follows() {
    let copies = |from: i64| {
        let mut trace = TestTrace::new();
        trace.in_us().call("cuInit", 0..1_000).call("cudaMemcpyAsync", from..from + 10);
        trace.launches("Memcpy HtoD (Pageable -> Device)", from + 20..from + 2_000);
        trace.launch(30_000..60_000).launches("gemm_kernel", 60_010..90_000);
        trace.launch(60_010..60_020).launches("gemm_kernel", 90_000..95_000);
        let run = report(&mut trace);
        rows_of(&run.sections["findings"], &["id"]).contains(&"pageable-copies".to_owned())
    };
    assert_eq!((copies(2_000), copies(96_000)), (false, true));
}
