//! `host-late`: the GPU idles because eager launches come too late.

use super::finding::{Confidence, Finding, FindingId};
use super::situation::{CodeOnPath, Cost, DeviceTimes, Situation, ms};
use crate::analysis::host::idle_blame::{BlameRow, IdleBlame};
use crate::analysis::host::idle_cause::IdleCause;
use crate::analysis::host::launch_gaps::Gaps;
use crate::analysis::replay::cause::Cause;
use crate::trace::{Ms, Ns};
use crate::words::findings::host_late as words;

/// If the host costs this many times as much as the counted gaps, the gaps say little about it.
const MIN_UNCOUNTED: f64 = 2.0;

pub(super) fn find(situation: &Situation) -> Option<Finding> {
    let eager_ms = |device: &DeviceTimes| device.host_late_ms * device.gaps.share_of_late(device.gaps.eager);
    let late = situation.worst(|device| situation.in_whole_steps(eager_ms(device)));
    let notable = late.filter(|(_, late_ms)| situation.is_notable_host_delay(*late_ms));
    let Some((device, late_ms)) = notable.filter(|(device, _)| situation.is_preparation(device) != Some(true)) else {
        return late_after_calls(situation).or_else(|| between_gpu_work(situation));
    };
    // Gaps whose op has no launch are not counted as late; the replay knows what the host did before their end.
    let counted_ms = late_ms + ms(device.drained().idle());
    if situation.steps == 0
        && situation.replayed_cost(Cause::Host).is_some_and(|cost| cost.ms > MIN_UNCOUNTED * counted_ms)
        && let Some(found) = between_gpu_work(situation)
    {
        return Some(found);
    }
    Some(late_launches(situation, device, late_ms))
}

fn late_launches(situation: &Situation, device: &DeviceTimes, late_ms: f64) -> Finding {
    let Cost { ms: cost_ms, what_if } = situation.cost(Cause::Host, late_ms);
    let (counted_gaps, gaps) = device.late_gaps(device.gaps.eager);
    let paused = gaps.filter(|gaps| is_paused(situation, *gaps));
    // Most of the cost, if first launches explain it.
    let loading = Some(Ms(device.loading_ms)).filter(|loading| paused.is_some() && loading.0 >= cost_ms / 2.0);
    let kind = match (paused, loading) {
        (Some(_), Some(_)) => Kind::Loading,
        (Some(_), None) => Kind::Paused,
        (None, _) => Kind::Slow,
    };
    let pause = if kind == Kind::Paused { pause_code(situation, IdleCause::HostLate) } else { None };
    let code = situation.largest_work_of_host();
    let late = words::LateLaunches {
        gaps: counted_gaps,
        longest: gaps.map(|gaps| gaps.longest),
        long: paused.and_then(|gaps| long_gaps(situation, gaps)),
        loading,
        pause: pause.as_ref().map(PauseCode::words),
        code: code.as_ref().map(|code| code.words()),
        caveat: situation.host_caveat(),
    };
    let evidence = words::late_launches(situation.cost_in_whole_steps(device, cost_ms, late_ms), &late);
    let confidence = match kind {
        Kind::Paused => situation.host_confidence().min(Confidence::Medium),
        Kind::Loading | Kind::Slow => situation.host_confidence(),
    };
    Finding {
        id: FindingId::HostLate,
        confidence,
        title: match kind {
            Kind::Loading => words::LOADING_TITLE,
            Kind::Paused => words::PAUSES_TITLE,
            Kind::Slow => words::TITLE,
        },
        cost_ms,
        evidence,
        action: pause.and_then(|code| code.change).unwrap_or_else(|| action(situation, device, kind)),
        same_as: None,
        what_if,
        section: "gpu_idle_gaps",
    }
}

/// What the late gaps are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A few long ones, which first launches explain.
    Loading,
    /// A few long ones.
    Paused,
    /// Many, because launches are slow.
    Slow,
}

fn action(situation: &Situation, device: &DeviceTimes, kind: Kind) -> String {
    match kind {
        Kind::Loading => words::loading_action(situation.vendor).to_owned(),
        Kind::Paused => words::pause_action(situation.framework),
        Kind::Slow => words::action(words::Program {
            framework: situation.framework,
            vendor: situation.vendor,
            caveat: situation.host_caveat(),
            has_replays: device.gaps.has_replays,
            has_fused_optimizer: situation.has_fused_optimizer(),
        }),
    }
}

/// The late time follows blocking calls that took less time than their gaps. Around replays it is the preparation of the next one.
fn late_after_calls(situation: &Situation) -> Option<Finding> {
    let after_calls_ms = |device: &DeviceTimes| {
        if device.gaps.has_replays { 0.0 } else { situation.in_whole_steps(device.late_after_calls_ms()) }
    };
    let (device, late_ms) = situation.worst(after_calls_ms)?;
    if !situation.is_notable_host_delay(late_ms) {
        return None;
    }
    let Cost { ms: cost_ms, what_if } = situation.cost(Cause::Host, late_ms);
    let pause = pause_code(situation, IdleCause::Drained);
    let code = situation.largest_work_of_host();
    Some(Finding {
        id: FindingId::HostLate,
        confidence: situation.host_confidence(),
        title: words::WORK_TITLE,
        cost_ms,
        evidence: words::late_after_calls(
            situation.cost_in_whole_steps(device, cost_ms, late_ms),
            pause.as_ref().map(PauseCode::words),
            code.as_ref().map(|code| code.words()),
            situation.host_caveat(),
        ),
        action: pause.and_then(|pause| pause.change).unwrap_or_else(|| work_action(situation, code.as_ref())),
        same_as: None,
        what_if,
        section: "gpu_idle_gaps",
    })
}

/// The replay shows that the host's time costs something, whatever the idle time follows: a blocking call, or a replay of graphs. The time
/// after a blocking call is the time of the code that runs then.
fn between_gpu_work(situation: &Situation) -> Option<Finding> {
    let Cost { ms: cost_ms, what_if } = situation.replayed_cost(Cause::Host)?;
    let (device, _) = situation.worst(|device| device.host_late_ms + ms(device.drained().idle()))?;
    if situation.is_preparation(device) == Some(true) || !situation.is_notable_host_delay(cost_ms) {
        return None;
    }
    let longest_gap = situation.longest_gap().map(|gap| gap.words());
    let code = situation.largest_work_of_host();
    Some(Finding {
        id: FindingId::HostLate,
        confidence: situation.host_confidence(),
        title: words::WORK_TITLE,
        cost_ms,
        evidence: words::between_gpu_work(
            situation.amount_in_whole_steps(device, cost_ms),
            device.drained().idle() > Ns::ZERO,
            longest_gap.as_deref(),
            code.as_ref().map(|code| code.words()),
            situation.host_caveat(),
        ),
        action: work_action(situation, code.as_ref()),
        same_as: None,
        what_if,
        section: "critical_path",
    })
}

/// What can be done about the code with most time on the critical path, if that is known; else about the work of the host.
fn work_action(situation: &Situation, code: Option<&CodeOnPath>) -> String {
    let change = code.and_then(|code| code.change);
    change.unwrap_or_else(|| words::work_action(situation.framework, situation.overlaps)).to_owned()
}

/// A few long pauses are not caused by slow launches.
fn is_paused(situation: &Situation, gaps: Gaps) -> bool {
    let thresholds = &situation.context.signals.thresholds;
    let is_mostly_long = gaps.long_total.0 as f64 >= thresholds.min_pause_share * gaps.total.0 as f64;
    is_mostly_long || 2 * gaps.longest.0 >= gaps.total.0
}

/// The long gaps, if there are several, and others.
fn long_gaps(situation: &Situation, gaps: Gaps) -> Option<words::LongGaps> {
    let limit = Ms(situation.context.signals.thresholds.long_gap_ms);
    let is_told = gaps.long_count >= 2 && gaps.long_count != gaps.count;
    is_told.then_some(words::LongGaps { count: gaps.long_count, limit, total: gaps.long_total })
}

/// The code in which the host spent most time of long gaps.
struct PauseCode {
    name: String,
    gaps: u64,
    time: Ms,
    /// What can be done about it, if that is known.
    change: Option<String>,
}

impl PauseCode {
    fn words(&self) -> words::Pause<'_> {
        words::Pause { gaps: self.gaps, code: &self.name, time: self.time }
    }
}

/// Looks for the code in the section `idle_blame`. It is named only if its time in a gap is that of a long gap.
fn pause_code(situation: &Situation, cause: IdleCause) -> Option<PauseCode> {
    let long_ms = situation.context.signals.thresholds.long_gap_ms;
    let name = |row: &BlameRow| if row.function.is_empty() { row.cpu_op.clone() } else { row.function.clone() };
    let is_long = |row: &BlameRow| {
        row.class == cause
            && row.total_ms.0 >= long_ms * row.gaps.max(1) as f64
            && !name(row).is_empty()
            && !name(row).starts_with('(')
    };
    let rows = situation.rows::<IdleBlame>().into_iter().filter(is_long);
    let row = rows.max_by(|a, b| a.total_ms.0.total_cmp(&b.total_ms.0))?;
    Some(PauseCode { name: name(&row), gaps: row.gaps, time: row.total_ms, change: row.change })
}

#[cfg(test)]
mod tests {
    use crate::analysis::findings::testing::{finding, finding_in_window, late_steps_after_a_pause, torch_loop};
    use crate::trace::testing::TestTrace;

    #[test]
    fn launches_that_come_late_are_a_finding_with_the_idle_time_as_cost() {
        // Ten kernels of 400 us, each launched 600 us after the previous one. Kernels in a row follow each other after 1.5 us.
        let found = finding(&mut torch_loop(10, 600, 400), "host-late").unwrap();
        assert_eq!(found.confidence, "high");
        assert!((found.cost_ms - (5.4 - 9.0 * 0.0015)).abs() < 1e-9, "{found:?}");
        assert!(found.evidence.contains("in 9 gaps"), "{found:?}");
        assert!(found.action.contains("torch.compile"), "{found:?}");
    }

    #[test]
    fn work_of_the_host_after_a_short_blocking_call_is_the_hosts() {
        // Ten times: a kernel of 700 us, a synchronisation of 101 us that returns with it, 360 us of host work.
        let mut trace = TestTrace::new();
        trace.in_us();
        for start in (0..10).map(|step| step * 1_060) {
            trace.launch(start..start + 5).launches("gemm", start..start + 700);
            trace.call("cudaStreamSynchronize", start + 600..start + 701);
        }
        let found = finding(&mut trace, "host-late").unwrap();
        // Nine gaps of 360 us from the end of a kernel to the next launch, and 1 us less for the return of the call before the first of them.
        assert!((found.cost_ms - 9.0 * 0.3585).abs() < 1e-9, "{found:?}");
        assert!(found.evidence.contains("late without them too"), "{found:?}");
    }

    #[test]
    fn advice_does_not_ask_for_graphs_that_launch_a_part_of_the_work() {
        // The kernels are too many to be the preparation of the replay.
        let mut trace = torch_loop(100, 600, 400);
        trace.call("cudaGraphLaunch", 100_000..100_005).launches("gemm", 100_005..100_100);
        let found = finding(&mut trace, "host-late").unwrap();
        assert!(found.action.starts_with("CUDA graphs launch a part of the work already"), "{found:?}");
    }

    #[test]
    fn a_pause_before_the_steps_is_neither_in_the_cost_nor_in_the_evidence() {
        let found = finding(&mut late_steps_after_a_pause(), "host-late").unwrap();
        // Half of the steps of 9.5 ms, of which nine gaps of 500 us are; 80 ms pass before the first step.
        assert!((4.4..4.6).contains(&found.cost_ms), "{found:?}");
        assert!(found.evidence.contains("in 9 gaps of the steps until"), "{found:?}");
        assert!(found.evidence.contains("the longest gap is 500 us"), "{found:?}");
    }

    #[test]
    fn launches_ahead_of_the_gpu_are_no_finding() {
        let mut trace = TestTrace::new();
        trace.in_us();
        // All launches precede the work; the gaps are the device's own.
        (0..10).for_each(|i| {
            trace.launch(10 * i..10 * i + 1).launches("gemm", 1_000 + 1_000 * i..1_400 + 1_000 * i);
        });
        assert!(finding(&mut trace, "host-late").is_none());
    }

    #[test]
    fn the_action_fits_framework_and_vendor() {
        let action = |call: &str, kernel: &str, format: fn() -> TestTrace| {
            let mut trace = format();
            trace.in_us();
            (0..10).for_each(|i| {
                trace.call(call, 1_000 * i..1_000 * i).launches(kernel, 1_000 * i..1_000 * i + 400);
            });
            finding(&mut trace, "host-late").unwrap().action
        };
        assert!(action("cudaLaunchKernel", "vllm::rms_norm_kernel", TestTrace::new).contains("--enforce-eager"));
        assert!(action("hipLaunchKernel", "sglang::k", TestTrace::new).contains("HIP graphs"));
        let training =
            action("cudaLaunchKernel", "multi_tensor_apply_kernel<vllm, FusedAdamMathFunctor<float>>", TestTrace::nsys);
        assert!(training.contains("data loading") && !training.contains("--"), "{training}");
        assert!(!training.contains("fused"), "the optimizer is fused already: {training}");
        let program = action("cudaLaunchKernel", "saxpy", TestTrace::nsys);
        assert!(!program.contains("torch") && !program.contains("engine"), "{program}");
    }

    #[test]
    fn one_step_with_stacks_has_low_confidence_and_small_delays_of_it_are_left_out() {
        let step = |idle_us: i64| {
            let mut trace = torch_loop(10, idle_us, 400);
            trace.builder.trace.events.python_frames = 1;
            trace.range("ProfilerStep#1", 0..20_000);
            finding(&mut trace, "host-late")
        };
        let found = step(600).unwrap();
        assert_eq!(found.confidence, "low");
        assert!(found.evidence.contains("The capture inflates this"), "{found:?}");
        assert!(step(10).is_none(), "2.4 %");
    }

    #[test]
    fn a_window_of_one_step_is_not_taken_for_a_short_capture() {
        let steps = |stacks: u64| {
            let mut trace = torch_loop(30, 600, 400);
            trace.builder.trace.events.python_frames = stacks;
            trace.range("ProfilerStep#1", 0..10_000).range("ProfilerStep#2", 10_000..20_000);
            trace.range("ProfilerStep#3", 20_000..30_000);
            trace
        };
        // From the begin of the second step to its end.
        let window = 10_000_000..20_000_000;
        for stacks in [0, 1] {
            let found = finding_in_window(&mut steps(stacks), window.clone(), "host-late").unwrap();
            assert!(found.evidence.contains("The window has fewer than three steps"), "{found:?}");
            assert!(
                !found.evidence.contains("The capture has") && !found.action.contains("three consecutive"),
                "{found:?}"
            );
            let whole = finding(&mut steps(stacks), "host-late").unwrap();
            assert!(!whole.evidence.contains("fewer than three steps"), "{whole:?}");
        }
    }

    #[test]
    fn a_few_long_pauses_are_not_called_slow_launches() {
        let found = finding(&mut torch_loop(4, 300_000, 40_000), "host-late").unwrap();
        assert!(found.action.contains("warm-up") && !found.action.contains("torch.compile"), "{found:?}");
    }

    /// Twenty kernels with this idle time between them, and two more with 12 ms before each.
    fn loop_with_two_pauses(idle_us: i64) -> TestTrace {
        let mut trace = torch_loop(20, idle_us, 400);
        let end = 19 * (idle_us + 400) + 400;
        for start in [end + 12_000, end + 24_400] {
            trace.launch(start..start).launches("gemm", start..start + 400);
        }
        trace
    }

    #[test]
    fn a_few_long_gaps_among_many_short_ones_are_pauses_if_they_are_most_of_the_time() {
        // 19 gaps of 500 us are 9.5 ms, two of 12 ms are 24 ms.
        let found = finding(&mut loop_with_two_pauses(500), "host-late").unwrap();
        assert!(found.evidence.contains("in 21 gaps"), "{found:?}");
        assert!(found.evidence.contains("; 2 gaps of 10.0 ms or more make up 24.0 ms"), "{found:?}");
        assert!(!found.action.contains("torch.compile") && found.confidence == "medium", "{found:?}");
        // 19 gaps of 1.5 ms are 28.5 ms: more than the two long ones.
        let found = finding(&mut loop_with_two_pauses(1_500), "host-late").unwrap();
        assert!(found.action.contains("torch.compile") && !found.evidence.contains("make up"), "{found:?}");
    }
}
