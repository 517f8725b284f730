//! `compilation`: the GPU idles while the launching thread runs `torch.compile`. Warm-up belongs before a capture; later, it is a
//! model that compiles again, such as for a shape that it has not seen.

use super::finding::{Confidence, Finding, FindingId};
use super::situation::Situation;
use crate::words::findings::compilation as words;

pub(super) fn find(situation: &Situation) -> Option<Finding> {
    let (device, cost_ms) = situation.worst(|device| device.compiling_ms)?;
    Some(Finding {
        id: FindingId::Compilation,
        confidence: Confidence::High,
        title: words::TITLE,
        cost_ms,
        evidence: words::evidence(situation.amount(device, cost_ms)),
        action: words::ACTION.to_owned(),
        same_as: None,
        what_if: None,
        section: "gpu_idle",
    })
}

#[cfg(test)]
mod tests {
    use crate::analysis::findings::testing::{finding, findings_of};
    use crate::session::look_up_code;
    use crate::trace::testing::TestTrace;

    /// A kernel that a blocking call waits for; 5 ms later, after a compilation of `compiled_us`, the next launch.
    fn compiled(name: &str, compiled_us: i64) -> TestTrace {
        let mut trace = TestTrace::coded();
        trace.in_us().launch(0..0).launches("gemm", 0..4_000).call("cudaStreamSynchronize", 10..4_002);
        trace.cpu_op(name, 4_100..4_100 + compiled_us, 1).launch(9_000..9_000).launches("gemm", 9_000..13_000);
        trace
    }

    fn looked_up(trace: &mut TestTrace) -> Vec<(String, f64)> {
        let mut trace = trace.finish();
        look_up_code(&mut trace);
        let run = crate::analysis::testing::analyze(&trace);
        let rows = run.rows("findings").iter();
        rows.map(|row| (row.text("id").to_owned(), row.amount("cost_ms"))).collect()
    }

    #[test]
    fn a_thread_that_compiles_until_its_launch_is_neither_late_nor_drained() {
        let compiling = |name: &str, us: i64| looked_up(&mut compiled(name, us));
        assert_eq!(compiling("compile_fx_inner (dynamo_timed)", 3_000), [("compilation".to_owned(), 5.0)]);
        // The gap of 5 ms begins 2 us before the call returns. Without the call the launch would come by its own time earlier.
        let drained = [("host-late".to_owned(), 4.998), ("sync-drain".to_owned(), 3.989)];
        assert_eq!(compiling("compile_fx_inner (dynamo_timed)", 2_000), drained, "less than half of the gap");
        assert_eq!(compiling("compile_fx_inner", 4_000), drained, "not the name of a compiler's phase");
    }

    #[test]
    fn python_frames_of_the_compiler_show_a_compilation() {
        let mut trace = TestTrace::coded();
        trace.in_us().launch(0..0).launches("gemm", 0..4_000).call("cudaStreamSynchronize", 10..4_002);
        trace.frame("torch/_dynamo/convert_frame.py(1100): __call__", 4_100..8_900);
        trace.launch(9_000..9_000).launches("gemm", 9_000..13_000);
        assert_eq!(looked_up(&mut trace), [("compilation".to_owned(), 5.0)]);
    }

    #[test]
    fn a_trace_whose_code_was_not_looked_up_says_nothing_of_compilation() {
        assert!(finding(&mut compiled("compile_fx_inner (dynamo_timed)", 4_000), "compilation").is_none());
        assert_eq!(findings_of(&mut compiled("aten::mm", 4_000)).rows.len(), 2);
    }

    #[test]
    fn the_verdict_names_the_compilation_and_not_the_blocking_call() {
        let mut trace = TestTrace::coded();
        trace.in_us().launch(0..0).launches("gemm", 0..1_000).call("cudaStreamSynchronize", 10..1_002);
        trace
            .cpu_op("backend_compile (dynamo_timed)", 1_100..5_800, 1)
            .launch(6_000..6_000)
            .launches("gemm", 6_000..7_000);
        let mut trace = trace.finish();
        look_up_code(&mut trace);
        let run = crate::analysis::testing::analyze(&trace);
        assert!(
            run.verdict.text.contains("torch.compile keeps the GPU idle for 71.4 % of the time"),
            "{}",
            run.verdict.text
        );
    }
}
