//! `replay-preparation`: the GPU idles while the host prepares the replay of a graph, or samples after it.

use super::finding::{Finding, FindingId};
use super::situation::{Cost, DeviceTimes, Situation};
use crate::analysis::replay::cause::Cause;
use crate::trace::Fraction;
use crate::words::findings::replay_preparation as words;

pub(super) fn find(situation: &Situation) -> Option<Finding> {
    let preparation_ms =
        |device: &DeviceTimes| device.host_late_ms * device.gaps.share_of_late(device.gaps.preparation);
    let (device, late_ms) = situation.worst(|device| situation.in_whole_steps(preparation_ms(device)))?;
    if !situation.is_notable_host_delay(late_ms)
        || !situation.repeats_graphs()
        || situation.is_preparation(device) == Some(false)
    {
        return None;
    }
    let Cost { ms: cost_ms, what_if } = situation.cost(Cause::Host, late_ms);
    // Graphs that were traced as a whole have no kernels.
    let replayed = Some(device.gaps.replayed_share()).filter(|share| *share != 0.0).map(Fraction);
    let (gaps, _) = device.late_gaps(device.gaps.preparation);
    let caveat = situation.host_caveat();
    let code = situation.largest_work_of_host().filter(|code| !code.is_call);
    let amount = situation.amount_in_whole_steps(device, if what_if.is_some() { cost_ms } else { late_ms });
    let work = words::Work {
        gaps,
        vendor: situation.vendor,
        replayed,
        is_saving: what_if.is_some(),
        code: code.as_ref().map(|code| code.words()),
        caveat,
    };
    Some(Finding {
        id: FindingId::ReplayPreparation,
        confidence: situation.host_confidence(),
        title: words::TITLE,
        cost_ms,
        evidence: words::evidence(amount, &work),
        action: words::action(
            situation.framework,
            situation.overlaps,
            &work,
            code.as_ref().and_then(|code| code.change),
        ),
        same_as: None,
        what_if,
        section: "gpu_idle_gaps",
    })
}

#[cfg(test)]
mod tests {
    use crate::analysis::findings::testing::{finding, findings_of_code};
    use crate::trace::testing::TestTrace;

    /// Five decode steps: one eager kernel, then after a gap a replay of two kernels. `eager` is the number of eager
    /// kernels.
    fn steps(eager: i64) -> TestTrace {
        let mut trace = TestTrace::new();
        trace.in_us();
        for start in (0..5).map(|step| step * 100_000) {
            for index in 0..eager {
                let at = start + 300 * index;
                trace.launch(at..at).launches("copy_metadata", at..at + 5);
            }
            let replay = start + 300 * eager;
            trace.call("cudaGraphLaunch", replay..replay + 5).launches("gemm", replay + 5..replay + 5_000);
            trace.launches("gemm", replay + 5_000..start + 100_000);
        }
        trace
    }

    #[test]
    fn late_launches_around_a_replay_are_its_preparation_and_not_eager_work() {
        let found = finding(&mut steps(10), "replay-preparation").unwrap();
        assert!((found.cost_ms - 14.8).abs() < 0.3, "{found:?}");
        assert!(finding(&mut steps(10), "host-late").is_none());
        assert!(!found.action.contains("--enforce-eager"), "{found:?}");
    }

    #[test]
    fn the_function_that_holds_up_replays_is_named() {
        let action = |loop_name: &str| {
            let mut trace = TestTrace::coded();
            trace.in_us().frame(loop_name, 0..70_000);
            for start in (0..6).map(|step| step * 10_000) {
                trace
                    .frame("sglang/srt/managers/scheduler.py(7): get_next_batch_to_run", start + 3_020..start + 12_990);
                trace.call("cudaGraphLaunch", start + 3_000..start + 3_010);
                trace.launches("gemm", start + 3_015..start + 9_990);
            }
            let found = findings_of_code(&mut trace);
            let row = found.rows.iter().find(|row| row.text("id") == "replay-preparation").unwrap();
            assert!(row.text("evidence").contains("most is in get_next_batch_to_run (scheduler.py:7)"), "{row:?}");
            row.text("action").to_owned()
        };
        let normal = action("sglang/srt/managers/scheduler.py(3): event_loop_normal");
        assert!(normal.contains("--disable-overlap-schedule"), "{normal}");
        let overlapped = action("sglang/srt/managers/scheduler.py(3): event_loop_overlap");
        assert!(overlapped.contains("Make it faster") && !overlapped.contains("--disable"), "{overlapped}");
        assert!(!normal.contains("three consecutive steps"), "six were captured: {normal}");
    }

    #[test]
    fn many_late_eager_kernels_before_a_replay_are_eager_work() {
        assert!(finding(&mut steps(100), "replay-preparation").is_none());
        assert!(finding(&mut steps(100), "host-late").is_some());
    }

    /// As Nsight Systems records graphs by default.
    #[test]
    fn three_late_replays_of_whole_graphs_are_a_loop_and_two_are_not() {
        let found = |replays: i64| {
            let mut trace = TestTrace::nsys();
            trace.in_us();
            for start in (0..replays).map(|replay| replay * 10_000) {
                trace.call("cudaGraphLaunch_v10000", start..start + 5).launches_replay(start + 10..start + 9_010);
            }
            finding(&mut trace, "replay-preparation")
        };
        assert!(found(2).is_none());
        let found = found(3).unwrap();
        assert!((found.cost_ms - 2.0).abs() < 0.1, "{found:?}");
        assert!(
            found.evidence.ends_with("the GPU idles in 2 gaps before and after replays of CUDA graphs"),
            "{found:?}"
        );
    }
}
