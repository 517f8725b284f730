//! A capture that ends within a step, from hand-made traces.

use crate::analysis::testing::{analyze, rows_of};
use crate::trace::testing::TestTrace;

/// Steps of four kernels, 100 us each. Of the last step, only the kernels of `last` are there.
fn steps(whole: i64, last: &[&str]) -> TestTrace {
    let mut trace = TestTrace::new();
    trace.in_us();
    for step in 0..whole {
        add_step(&mut trace, 1_000 * step, &["embed", "gemm_kernel", "gemm_kernel", "sample"]);
    }
    add_step(&mut trace, 1_000 * whole, last);
    trace
}

fn add_step(trace: &mut TestTrace, start: i64, kernels: &[&str]) {
    trace.range("step[DECODE bs=2]", start..start + 50);
    for (kernel, at) in kernels.iter().zip((start..).step_by(10)) {
        let work = 100 * (at - start) / 10 + start + 100;
        trace.launch(at..at + 5).launches(kernel, work..work + 100);
    }
}

fn steps_and_longest(trace: &mut TestTrace) -> Vec<String> {
    rows_of(&analyze(&trace.finish()).sections["steps"], &["steps", "median_ns", "max_ns"])
}

#[test]
fn a_last_step_that_is_the_beginning_of_another_counts_in_no_figure() {
    assert_eq!(steps_and_longest(&mut steps(1, &["embed", "gemm_kernel"])), ["1 1000000 1000000"]);
    let run = analyze(&steps(1, &["embed", "gemm_kernel"]).finish());
    let limits = run.sections["steps"].limits.join(" ");
    assert!(limits.contains("The last step is cut by the end of the capture"), "{limits}");
    assert_eq!(run.sections["step_list"].rows.len(), 2);
}

#[test]
fn a_last_step_that_is_whole_counts() {
    // The same kernels; other ones; fewer of the same; and the kernels of a short step that is seen before.
    assert_eq!(steps_and_longest(&mut steps(1, &["embed", "gemm_kernel", "gemm_kernel", "sample"]))[0][..1], *"2");
    assert_eq!(steps_and_longest(&mut steps(1, &["embed", "sample"]))[0][..1], *"2");
    let mut trace = TestTrace::new();
    trace.in_us();
    add_step(&mut trace, 0, &["gemm_kernel", "gemm_kernel"]);
    add_step(&mut trace, 1_000, &["gemm_kernel"]);
    assert_eq!(steps_and_longest(&mut trace)[0][..1], *"2");
    let mut trace = TestTrace::new();
    trace.in_us();
    for (step, kernels) in (0..).zip([&["embed"][..], &["embed", "sample"], &["embed"]]) {
        add_step(&mut trace, 1_000 * step, kernels);
    }
    assert_eq!(steps_and_longest(&mut trace)[0][..1], *"3");
}
