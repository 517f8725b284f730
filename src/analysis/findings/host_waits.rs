//! `host-waits`: the launching thread waits for another thread or process, such as a data loader, while the GPU has nothing to do.

use super::finding::{Confidence, Finding, FindingId};
use super::situation::{Cost, Situation, ms};
use crate::words::findings::host_waits as words;

pub(super) fn find(situation: &Situation) -> Option<Finding> {
    let code = situation.largest_wait()?;
    let Cost { ms: cost_ms, what_if } = situation.waits()?;
    let (device, _) = situation.worst(|device| device.host_late_ms + ms(device.drained().idle()))?;
    Some(Finding {
        id: FindingId::HostWaits,
        confidence: Confidence::High,
        title: words::TITLE,
        cost_ms,
        evidence: words::evidence(situation.amount_in_whole_steps(device, cost_ms), code.words()),
        action: code.change.unwrap_or_else(|| words::action(situation.framework)).to_owned(),
        same_as: None,
        what_if,
        section: "critical_path",
    })
}

#[cfg(test)]
mod tests {
    use crate::analysis::findings::testing::findings_of_code;
    use crate::trace::testing::TestTrace;

    /// Ten steps: a kernel of 1 ms, and `wait_us` in the loader of the data before the next one.
    fn training(op: &str, wait_us: i64) -> TestTrace {
        let mut trace = TestTrace::coded();
        trace.in_us();
        for start in (0..10).map(|step| step * (1_000 + wait_us)) {
            trace.launch(start..start + 5).launches("gemm", start + 5..start + 1_000);
            trace.call("cudaStreamSynchronize", start + 10..start + 1_000);
            trace.cpu_op(op, start + 1_000..start + 1_000 + wait_us, 1);
        }
        trace
    }

    #[test]
    fn a_loader_that_holds_up_the_gpu_is_a_finding_with_its_name() {
        let found =
            findings_of_code(&mut training("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 600));
        let row = found.rows.iter().find(|row| row.text("id") == "host-waits").unwrap();
        // Nine waits of 600 us lie between kernels.
        assert!((row.amount("cost_ms") - 5.4).abs() < 0.1, "{row:?}");
        assert!(row.text("evidence").contains("_MultiProcessingDataLoaderIter.__next__"), "{row:?}");
        assert!(row.text("action").contains("workers"), "{row:?}");
    }

    #[test]
    fn idle_time_after_a_call_in_which_the_host_waits_is_no_work_to_make_faster() {
        let mut trace = training("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 600);
        // 5 us of a function of the program after each wait.
        for start in (0..9).map(|step| step * 1_600) {
            trace.frame("train.py(322): log", start + 1_595..start + 1_600);
        }
        let found = findings_of_code(&mut trace);
        let row = found.rows.iter().find(|row| row.text("id") == "sync-drain").unwrap();
        assert!(row.text("evidence").contains("most is a wait in enumerate(DataLoader)"), "{row:?}");
        assert!(!row.text("action").contains("faster"), "{row:?}");
    }

    #[test]
    fn code_that_works_is_no_wait() {
        let found = findings_of_code(&mut training("aten::randperm", 600));
        assert!(found.rows.iter().all(|row| row.text("id") != "host-waits"), "{found:?}");
        let short = findings_of_code(&mut training("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 5));
        assert!(short.rows.iter().all(|row| row.text("id") != "host-waits"), "{short:?}");
    }
}
