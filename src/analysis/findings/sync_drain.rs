//! `sync-drain`: the GPU idles after it ran empty during a blocking call.
//!
//! A gap begins when the GPU runs empty while the launching thread is still blocked, and ends with the next op. What the calls cause of it
//! is at most the time that they took: without the call the host is earlier by that, and no more. The rest, and the later gaps until
//! launches are ahead again, have other causes too, so the evidence only states them. The cost is what the replay saves without the
//! calls: the host may then run ahead of the GPU also where no gap follows a call.
//! The time after a call is that of the code that runs then: the evidence names the code with most time on the critical path, and the
//! action begins with it. The evidence names the calls, and the CPU op and Python frame that made them if they were looked up when the file was read
//! ([`crate::trace::BlockingSites`]).

use super::finding::{Confidence, Finding, FindingId};
use super::situation::{Cost, DeviceTimes, DrainSite, Situation, ms};
use crate::analysis::host::idle_cause::Drained;
use crate::analysis::replay::cause::Cause;
use crate::trace::Ns;
use crate::words::findings::{CodeKind, sync_drain as words};

/// The maximum number of call sites in the evidence.
const MAX_CALLS: usize = 3;

pub(super) fn find(situation: &Situation) -> Option<Finding> {
    let in_whole_steps = |time: Ns| situation.in_whole_steps(ms(time));
    let (device, drained_ms) = situation.worst(|device| in_whole_steps(device.drained().explained))?;
    if drained_ms < situation.context.signals.thresholds.min_drained_ms {
        return None;
    }
    let Cost { ms: cost_ms, what_if } = situation.cost(Cause::AllBlocking, drained_ms);
    // Less than what is worth a finding says nothing.
    let more_ms = cost_ms - ms(device.drained().idle());
    let runs_ahead = situation.share(more_ms) >= situation.context.signals.thresholds.min_finding_share;
    let after = situation.largest_code_after_calls().filter(|code| !code.is_call);
    // A wait has a finding of its own, and nobody can make time faster of which no code is known.
    let works = after.as_ref().filter(|code| code.kind == CodeKind::Code);
    Some(Finding {
        id: FindingId::SyncDrain,
        confidence: if situation.has_stacks || matches!(situation.steps, 1 | 2) {
            Confidence::Medium
        } else {
            Confidence::High
        },
        title: if runs_ahead { words::RUNS_AHEAD_TITLE } else { words::TITLE },
        cost_ms,
        evidence: words::evidence(
            situation.cost_in_whole_steps(device, cost_ms, drained_ms),
            after.as_ref().map(|code| code.words()),
            &drains(device, runs_ahead),
        ),
        action: match works.and_then(|code| code.change) {
            Some(change) => change.to_owned(),
            None => words::action(situation.framework, code(situation, device), works.map(|code| code.words())),
        },
        same_as: None,
        what_if,
        section: "barriers",
    })
}

/// The calls that cost most, and the idle time after them that they do not explain, or not certainly.
fn drains(device: &DeviceTimes, runs_ahead: bool) -> words::Drains {
    let drained = device.drained();
    let text = |site: &DrainSite| match &site.code {
        Some(code) => code.text_of_call(&site.call),
        None => site.call.clone(),
    };
    let costly = device.drained_by.iter().filter(|(_, drained)| drained.explained > Ns::ZERO).take(MAX_CALLS);
    let positive = |time: Ns| Some(time).filter(|time| *time > Ns::ZERO);
    words::Drains {
        calls: costly.map(|(site, drained)| (text(site), drained.explained)).collect(),
        longer: positive(drained.direct.since(drained.explained)),
        refill: positive(drained.refill),
        runs_ahead,
    }
}

/// What the trace shows of the code that makes the costliest call.
fn code(situation: &Situation, device: &DeviceTimes) -> words::Code {
    let has_frame = |(site, _): &(DrainSite, Drained)| site.code.as_ref().is_some_and(|code| !code.frame.is_empty());
    match device.drained_by.first().is_some_and(has_frame) {
        true => words::Code::Located,
        false if situation.has_stacks => words::Code::NotLocated,
        false => words::Code::WithoutStacks,
    }
}

#[cfg(test)]
mod tests {
    use crate::analysis::findings::testing::finding;
    use crate::trace::testing::TestTrace;

    /// Five times: a kernel of 1 ms, a blocking call that returns when the kernel ends, and `idle_us` later the next
    /// launch.
    fn loop_with_sync(idle_us: i64) -> TestTrace {
        let mut trace = TestTrace::new();
        trace.in_us();
        for start in (0..5).map(|index| index * (1_000 + idle_us)) {
            trace.launch(start..start).launches("gemm", start..start + 500);
            trace.launch(start + 1..start + 2).launches("norm", start + 500..start + 1_000);
            trace.call("cudaStreamSynchronize", start + 10..start + 1_002);
        }
        trace
    }

    #[test]
    fn idle_time_after_a_drain_is_the_cost_of_the_blocking_call() {
        let found = finding(&mut loop_with_sync(200), "sync-drain").unwrap();
        assert!((found.cost_ms - 0.8).abs() < 0.01, "{found:?}");
        assert!(found.evidence.contains("By call: cudaStreamSynchronize (8"), "{found:?}");
        let host = finding(&mut loop_with_sync(200), "host-late").unwrap();
        assert!(
            host.evidence.contains("also after blocking calls"),
            "the time after the call is that of the host: {host:?}"
        );
    }

    /// A kernel of 1 ms, a blocking call that returns when it ends, and three ops of 10 us: the first is launched `idle_us` after
    /// the kernel, the others 100 us after the end of the one before them.
    fn late_after_a_wait(wait_us: i64, idle_us: i64) -> TestTrace {
        let mut trace = TestTrace::new();
        trace.in_us().launch(0..1).launches("gemm", 1..501).launch(2..3).launches("gemm", 501..1_000);
        trace.call("cudaStreamSynchronize", 1_000 - wait_us..1_002);
        for start in [1_000, 1_110, 1_220].map(|start| start + idle_us) {
            trace.launch(start - 1..start).launches("norm", start..start + 10);
        }
        trace
    }

    #[test]
    fn gaps_after_the_first_launch_are_stated_but_are_no_cost_of_the_call() {
        let found = finding(&mut late_after_a_wait(900, 100), "sync-drain").unwrap();
        // Without the call all launches come while the kernel before runs until 1,000 us. Three of 10 us follow, 1.5 us apart, and end at
        // 1,034.5 us instead of 1,330 us.
        assert!((found.cost_ms - 0.2955).abs() < 1e-9, "{found:?}");
        assert!(found.evidence.contains("200 us more passed in later gaps"), "{found:?}");
        assert!(found.evidence.contains(": saved if no call blocks; the GPU ran empty"), "{found:?}");
        assert_eq!(found.confidence, "high");
    }

    #[test]
    fn a_call_that_waited_for_less_than_the_gap_leaves_the_host_late() {
        let found = finding(&mut late_after_a_wait(160, 300), "sync-drain").unwrap();
        // Of the 162 us of the call the replay saves all but two turnarounds.
        assert!((found.cost_ms - 0.159).abs() < 1e-9, "{found:?}");
        assert!(found.evidence.contains("The GPU idled for 138 us longer than the calls took"), "{found:?}");
        assert!(finding(&mut late_after_a_wait(5, 300), "sync-drain").is_none(), "5 us of a gap of 300 us");
    }

    #[test]
    fn small_bubbles_and_the_last_synchronization_are_no_finding() {
        assert!(finding(&mut loop_with_sync(20), "sync-drain").is_none(), "0.08 ms");
        let mut last = TestTrace::new();
        last.in_us().launch(0..5).launches("gemm", 5..1_000).call("cudaDeviceSynchronize", 10..9_000);
        assert!(finding(&mut last, "sync-drain").is_none(), "nothing follows");
    }

    #[test]
    fn a_host_that_is_never_ahead_is_late_without_blocking_calls_too() {
        let mut trace = TestTrace::new();
        trace.in_us();
        for start in (0..20).map(|index| index * 1_000) {
            trace.launch(start..start).launches("gemm", start..start + 40);
            trace.call("cudaStreamSynchronize", start + 10..start + 42);
        }
        let trace = &mut trace;
        let found = crate::analysis::findings::testing::findings_of(trace);
        let ids: Vec<&str> = found.rows.iter().map(|row| row.text("id")).collect();
        assert_eq!(ids, ["host-late"]);
    }

    #[test]
    fn blocked_time_while_the_gpu_works_is_no_finding() {
        let mut trace = TestTrace::new();
        trace.in_us();
        for start in (0..5).map(|index| index * 1_000) {
            trace.launch(start..start + 2).launches("gemm", start + 100..start + 1_100);
            trace.call("cudaStreamSynchronize", start + 10..start + 900);
        }
        assert!(finding(&mut trace, "sync-drain").is_none());
    }
}
