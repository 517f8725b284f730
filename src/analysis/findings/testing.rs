//! Small traces for the tests of findings.

use crate::analysis::section::Section;
use crate::analysis::testing::{analyze, words};
use crate::trace::Ms;
use crate::trace::testing::TestTrace;
use crate::words::time;
use std::ops::Range;

/// The findings of the finished trace.
pub(super) fn findings_of(trace: &mut TestTrace) -> Section {
    trace.sections().remove("findings").unwrap()
}

/// The same after the host code of the trace was looked up, as when a file is read.
pub(super) fn findings_of_code(trace: &mut TestTrace) -> Section {
    let mut trace = trace.finish();
    crate::analysis::host::code_search::look_up_code(&mut trace);
    analyze(&trace).sections.remove("findings").unwrap()
}

/// Evidence and action of the finding with this id; `None` if the trace does not have it.
pub(super) fn finding(trace: &mut TestTrace, id: &str) -> Option<Found> {
    found_in(&findings_of(trace), id)
}

/// The same for a part of the trace, in nanoseconds.
pub(super) fn finding_in_window(trace: &mut TestTrace, time: Range<i64>, id: &str) -> Option<Found> {
    found_in(analyze(&trace.window(time)).sections.get("findings")?, id)
}

/// Every finding has one size: its evidence begins with its cost, whatever else was measured.
fn found_in(section: &Section, id: &str) -> Option<Found> {
    let row = section.rows.iter().find(|row| words(row, "id") == id)?;
    let cost = time(Ms(row.amount("cost_ms")));
    assert!(words(row, "evidence").starts_with(&cost), "{cost}: {row:?}");
    let text = |column: &str| words(row, column).to_owned();
    Some(Found {
        cost_ms: row.amount("cost_ms"),
        confidence: text("confidence"),
        evidence: text("evidence"),
        action: text("action"),
    })
}

/// One finding.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) cost_ms: f64,
    pub(super) confidence: String,
    pub(super) evidence: String,
    pub(super) action: String,
}

/// An eager torch loop: `count` kernels, each launched `idle_us` after the end of the previous one, which runs for
/// `busy_us`. A launch takes no time.
pub(super) fn torch_loop(count: i64, idle_us: i64, busy_us: i64) -> TestTrace {
    let mut trace = TestTrace::new();
    trace.in_us().launch(0..0).launches("gemm", 0..busy_us);
    for index in 1..count {
        let start = index * (idle_us + busy_us);
        trace.launch(start..start).launches("gemm", start..start + busy_us);
    }
    trace
}

/// A kernel, a pause of 80 ms, and ten decode steps of 1 ms, of each of which the GPU waits 500 us for the launch.
pub(crate) fn late_steps_after_a_pause() -> TestTrace {
    let mut trace = TestTrace::new();
    trace.in_us().launch(0..0).launches("warm_up", 0..10);
    for start in (80_000..90_000).step_by(1_000) {
        trace.range("step[DECODE bs=2]", start..start + 600).launch(start + 500..start + 500);
        trace.launches("gemm", start + 500..start + 1_000);
    }
    trace
}
