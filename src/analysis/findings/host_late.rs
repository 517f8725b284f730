//! `host-late`: the GPU idles because eager launches come too late.

use super::finding::{Confidence, Finding, FindingId};
use super::situation::{Cost, DeviceTimes, Framework, Situation, counted, ms};
use crate::analysis::host::idle_blame::{BlameRow, IdleBlame};
use crate::analysis::host::idle_cause::IdleCause;
use crate::analysis::host::launch_gaps::Gaps;
use crate::analysis::labels::format_time;
use crate::analysis::replay::cause::Cause;
use crate::analysis::replay::costs::PathGroup;
use crate::trace::{Ns, Vendor};

/// If the host costs this many times as much as the counted gaps, the gaps say little about it.
const MIN_UNCOUNTED: f64 = 2.0;

pub(super) fn find(situation: &Situation) -> Option<Finding> {
    let late = situation.worst(|device| device.host_late_ms * device.gaps.share_of_late(device.gaps.eager));
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
    let Cost { ms: cost_ms, what_if } = situation.cost(Cause::Host, late_ms);
    let (counted_gaps, gaps) = device.late_gaps(device.gaps.eager);
    let is_paused = gaps.is_some_and(|gaps| is_paused(situation, gaps));
    let loading = loading_text(device, cost_ms).filter(|_| is_paused);
    let pause = if is_paused && loading.is_none() { pause_code(situation, IdleCause::HostLate) } else { None };
    let longest = |gaps: Gaps| format!("; the longest gap is {}", format_time(ms(gaps.longest)));
    let evidence = format!(
        "{}: the GPU idles in {counted_gaps} until the host launches the next op{}{}{}{}{}{}",
        situation.amount(device, late_ms),
        gaps.map_or_else(String::new, longest),
        gaps.filter(|_| is_paused).map_or_else(String::new, |gaps| long_text(situation, gaps)),
        loading.as_deref().unwrap_or_default(),
        pause.as_ref().map_or("", |code| code.evidence.as_str()),
        code_text(situation),
        situation.host_caveat()
    );
    Some(Finding {
        id: FindingId::HostLate,
        confidence: if is_paused && loading.is_none() {
            situation.host_confidence().min(Confidence::Medium)
        } else {
            situation.host_confidence()
        },
        title: if loading.is_some() {
            "First launches that load kernels"
        } else if is_paused {
            "Pauses of the host between GPU work"
        } else {
            "Late launches by the host"
        },
        cost_ms,
        evidence,
        action: match pause.and_then(|code| code.change) {
            Some(change) => change,
            None if loading.is_some() => loading_action(situation.vendor).to_owned(),
            None if is_paused => pause_action(situation),
            None => action(situation, device.gaps.has_replays),
        },
        what_if,
        section: "gpu_idle_gaps",
    })
}

/// The late time follows blocking calls that took less time than their gaps. Around replays it is the preparation of the next one.
fn late_after_calls(situation: &Situation) -> Option<Finding> {
    let after_calls_ms =
        |device: &DeviceTimes| if device.gaps.has_replays { 0.0 } else { device.late_after_calls_ms() };
    let (device, late_ms) = situation.worst(after_calls_ms)?;
    if !situation.is_notable_host_delay(late_ms) {
        return None;
    }
    let Cost { ms: cost_ms, what_if } = situation.cost(Cause::Host, late_ms);
    let code = pause_code(situation, IdleCause::Drained);
    Some(Finding {
        id: FindingId::HostLate,
        confidence: situation.host_confidence(),
        title: "Work of the host between GPU work",
        cost_ms,
        evidence: format!(
            "{}: the GPU idles after blocking calls until the host launches the next op, for longer than the calls took, so that the \
             host is late without them too{}{}{}",
            situation.amount(device, late_ms),
            code.as_ref().map_or("", |code| code.evidence.as_str()),
            code_text(situation),
            situation.host_caveat()
        ),
        action: code
            .and_then(|code| code.change)
            .or_else(|| code_action(situation))
            .unwrap_or_else(|| work_action(situation).to_owned()),
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
    Some(Finding {
        id: FindingId::HostLate,
        confidence: situation.host_confidence(),
        title: "Work of the host between GPU work",
        cost_ms,
        evidence: format!(
            "{}: saved if the host takes no time, for which the GPU waits{}{}{}{}",
            situation.amount(device, cost_ms),
            if device.drained().idle() > Ns::ZERO { ", also after blocking calls" } else { "" },
            longest_gap_text(situation),
            code_text(situation),
            situation.host_caveat()
        ),
        action: code_action(situation).unwrap_or_else(|| work_action(situation).to_owned()),
        what_if,
        section: "critical_path",
    })
}

/// `; the longest idle gap lasts 98.8 ms, 98.1 ms of it outside of API calls`, in a capture without steps.
fn longest_gap_text(situation: &Situation) -> String {
    situation.longest_gap().map_or_else(String::new, |gap| format!("; {}", gap.words()))
}

/// `; of the host's time on the critical path most is in _prepare_inputs (scheduler.py:120), 450 us a step`.
fn code_text(situation: &Situation) -> String {
    let Some(code) = situation.largest_code(PathGroup::Host) else { return String::new() };
    let per_step = if situation.steps > 0 { " a step" } else { "" };
    format!(
        "; of the host's time on the critical path most is in {}, {}{per_step}",
        code.place,
        format_time(code.per_step_ms)
    )
}

/// What can be done about the code with most time on the critical path, if that is known.
fn code_action(situation: &Situation) -> Option<String> {
    situation.largest_code(PathGroup::Host)?.change.map(str::to_owned)
}

fn work_action(situation: &Situation) -> &'static str {
    match situation.framework {
        Framework::Transformers | Framework::Torch => {
            "Prepare the data of the next step while the GPU works: in the workers of a DataLoader or on another thread, with \
             the copy to the GPU ahead of its use."
        }
        Framework::Xla => {
            "Dispatch ahead: JAX returns before the work is done, until the program reads a value. Bring the next batch to the \
             device while the step runs (`jax.device_put`)."
        }
        Framework::Program => "Do the host's work for the next step while the GPU works on this one.",
        _ => "Prepare the next step while the GPU works on this one: overlap or asynchronous scheduling.",
    }
}

/// The part of the cost that first launches explain, if it is most of it.
fn loading_text(device: &DeviceTimes, cost_ms: f64) -> Option<String> {
    let loading_ms = device.loading_ms;
    (loading_ms >= cost_ms / 2.0).then(|| {
        format!("; in {} of that time the host launched kernels that had not run before", format_time(loading_ms))
    })
}

fn loading_action(vendor: Vendor) -> &'static str {
    match vendor {
        Vendor::Nvidia => {
            "Run the same work several times before the capture: code is loaded once. To load all of it at the start, set \
             `CUDA_MODULE_LOADING=EAGER`."
        }
        Vendor::Amd | Vendor::Intel | Vendor::Huawei | Vendor::Google => {
            "Run the same work several times before the capture: code is loaded once."
        }
    }
}

/// A few long pauses are not caused by slow launches.
fn is_paused(situation: &Situation, gaps: Gaps) -> bool {
    let thresholds = &situation.context.signals.thresholds;
    let is_mostly_long = gaps.long_total.0 as f64 >= thresholds.min_pause_share * gaps.total.0 as f64;
    is_mostly_long || 2 * gaps.longest.0 >= gaps.total.0
}

/// The number and time of the long gaps, if there are several.
fn long_text(situation: &Situation, gaps: Gaps) -> String {
    if gaps.long_count < 2 || gaps.long_count == gaps.count {
        return String::new();
    }
    let long = format_time(situation.context.signals.thresholds.long_gap_ms);
    let total = format_time(ms(gaps.long_total));
    format!("; {} of {long} or more make up {total}", counted(gaps.long_count, "gap"))
}

/// The code in which the host spent most time of long gaps.
struct PauseCode {
    evidence: String,
    /// What can be done about it, if that is known.
    change: Option<String>,
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
    let (time, gaps) = (format_time(row.total_ms.0), counted(row.gaps, "gap"));
    Some(PauseCode {
        evidence: format!(
            "; in {gaps} the host was in {} itself, without the code that it calls, for {time}",
            name(&row)
        ),
        change: row.change,
    })
}

fn pause_action(situation: &Situation) -> String {
    let causes = match situation.framework {
        Framework::Xla => "data loading, tracing and compilation for shapes that are new, or warm-up",
        Framework::Program => "file or network access, compilation, or initialization",
        Framework::Training => "data loading, logging, checkpoints, compilation, or warm-up",
        Framework::Transformers | Framework::Torch => "data loading, compilation, or warm-up",
        _ => "compilation, graph capture, or a lack of requests",
    };
    format!("Find out what the host does during the longest gaps: {causes}. If it is warm-up, capture after it.")
}

/// What to do about late launches. `has_replays` tells whether graphs launch a part of the work already.
fn action(situation: &Situation, has_replays: bool) -> String {
    let graphs = situation.graphs();
    let first = match situation.host_confidence() {
        Confidence::Low if situation.is_window => {
            "First capture without Python stacks, and look at more steps than this window has. If the delay remains: "
        }
        Confidence::Low => {
            "First capture at least three consecutive steps without Python stacks. If the delay remains: "
        }
        Confidence::Unknown | Confidence::Medium | Confidence::High => "",
    };
    let action = match situation.framework {
        Framework::SgLang => format!(
            "Check that {graphs} are on for this stage: {}For prefill, use larger chunks (`--chunked-prefill-size`).",
            graph_flags(situation.vendor)
        ),
        Framework::Vllm if has_replays => format!(
            "{graphs} launch a part of the work already. Include the batch sizes of the other steps in \
             `cudagraph_capture_sizes` of `--compilation-config`."
        ),
        Framework::Vllm => format!(
            "Remove `--enforce-eager`, so that {graphs} replay the step, and include this batch size in \
             `cudagraph_capture_sizes` of `--compilation-config`."
        ),
        Framework::TensorRtLlm => {
            format!("Enable {graphs} with `cuda_graph_config: {{max_batch_size: ..., enable_padding: true}}`.")
        }
        Framework::OtherEngine => format!("Check that the engine replays this stage with {graphs}."),
        Framework::Transformers | Framework::Training | Framework::Torch if has_replays => format!(
            "{graphs} launch a part of the work already; these launches are outside of them. Reduce their number with {}, \
             use larger batches, and move other work off the launching thread.",
            compile_mode(situation)
        ),
        Framework::Transformers => {
            let mode = compile_mode(situation);
            format!(
                "Compile the model with {mode}. To generate text, serve it with an engine that replays decode steps as {graphs}."
            )
        }
        Framework::Training => format!(
            "To launch less often, compile the model with {}, {}and use larger batches. Move logging and data loading off the \
             launching thread.",
            compile_mode(situation),
            situation.fused_optimizer()
        ),
        Framework::Torch => format!(
            "Reduce the number of launches with {}, use larger batches, and move other work off the launching thread.",
            compile_mode(situation)
        ),
        Framework::Xla if situation.vendor == Vendor::Google => {
            "Put more of the step into one `jax.jit`, use larger batches, and move other work off the launching thread."
                .to_owned()
        }
        Framework::Xla => format!(
            "Put more of the step into one `jax.jit`, let XLA replay it with {graphs} (`--xla_gpu_enable_command_buffer` in \
             `XLA_FLAGS`), and use larger batches."
        ),
        Framework::Program => format!(
            "Launch the next ops before the previous ones end: issue work asynchronously, and replay a fixed sequence \
             of ops with {graphs}."
        ),
    };
    format!("{first}{action}")
}

/// SGLang calls its flags for graphs the same on NVIDIA, AMD and Ascend. It has none on Intel.
fn graph_flags(vendor: Vendor) -> &'static str {
    match vendor {
        Vendor::Nvidia | Vendor::Amd | Vendor::Huawei => {
            "remove `--disable-cuda-graph`, and set `--cuda-graph-max-bs` to the largest batch. "
        }
        Vendor::Intel | Vendor::Google => "",
    }
}

fn compile_mode(situation: &Situation) -> &'static str {
    match situation.vendor {
        // `reduce-overhead` uses CUDA or HIP graphs.
        Vendor::Nvidia | Vendor::Amd => "`torch.compile(mode=\"reduce-overhead\")`",
        Vendor::Intel | Vendor::Google => "`torch.compile`",
        Vendor::Huawei => "`torch.compile` with the backend of torchair",
    }
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
