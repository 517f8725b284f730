//! Whether ranges whose names only contain a word for a stage, or only a number, are steps. In one pass over the ops.
//!
//! Such a name may also be that of an op: `decode_attention` in each layer, `step 3` of a sampler. The ranges of a process are its steps
//! if they contain most launches of GPU ops from the first of them to the last (`patterns/inference.json`). Between ops of a step the
//! rest of the step is launched, so they contain only a part.

use super::launch_labels::{LaunchLabels, timelines_by_process};
use crate::rules::inference::thresholds;
use crate::trace::{Ns, ProcessId, Trace};

/// For each process, whether its ranges are steps. True if none of its ops is known to be launched between them. The ranges of a process
/// do not contain each other.
pub(super) fn processes_with_steps<I: Iterator<Item = (ProcessId, Ns, Ns)>>(
    trace: &Trace,
    ranges: impl Fn() -> I,
) -> Vec<bool> {
    let mut launches = vec![Launches::default(); trace.processes.len()];
    for (process, start, end) in ranges() {
        let Some(launches) = launches.get_mut(process.0 as usize) else { continue };
        let (first, last) = launches.span.unwrap_or((start, end));
        launches.span = Some((first.min(start), last.max(end)));
    }
    let timelines = timelines_by_process(trace, ranges());
    let mut labels = LaunchLabels::new(trace, &timelines);
    for (row, op) in trace.gpu_ops.iter().enumerate() {
        let time = trace.gpu_ops.launch(row).and_then(|launch| trace.calls.start(launch.0 as usize));
        let Some((time, launches)) = time.zip(launches.get_mut(op.process.0 as usize)) else { continue };
        if launches.span.is_some_and(|(start, end)| start <= time && time <= end) {
            launches.all += 1;
            launches.inside += u64::from(labels.of_op(row, op.process).is_some());
        }
    }
    let min_share = thresholds().ranges.min_covered_launches_share.value;
    launches.iter().map(|launches| launches.inside as f64 >= min_share * launches.all as f64).collect()
}

/// The GPU ops of a process that were launched between its first range and its last.
#[derive(Debug, Clone, Copy, Default)]
struct Launches {
    span: Option<(Ns, Ns)>,
    all: u64,
    /// Those launched in a range.
    inside: u64,
}

#[cfg(test)]
mod tests {
    use crate::analysis::testing::rows;
    use crate::trace::testing::TestTrace;

    /// Ten ranges of 100 us, each with nine launches in it and `between` after it.
    fn steps(name: impl Fn(i64) -> String, between: i64) -> Vec<String> {
        let mut trace = TestTrace::nsys();
        trace.in_us();
        for number in 0..10 {
            let at = number * 200;
            trace.range(&name(number), at..at + 100);
            for launch in (0..9).map(|launch| at + 10 * launch).chain((0..between).map(|launch| at + 110 + 5 * launch))
            {
                trace.launch(launch..launch + 1).launches("gemm", launch + 2..launch + 4);
            }
        }
        rows(&trace.sections(), "steps", &["stage", "steps"])
    }

    #[test]
    fn ranges_with_a_word_are_steps_if_most_work_is_launched_in_them() {
        let named = |name: &'static str, between| steps(move |_| name.to_owned(), between);
        assert_eq!(named("decode batch", 0), ["decode 10"]);
        assert_eq!(named("decode batch", 2), ["decode 10"], "81 of 100 launches and more are in the ranges");
        assert_eq!(named("decode_attention", 9), [""; 0], "half of the launches are in the ranges");
    }

    #[test]
    fn numbered_ranges_are_steps_if_most_work_is_launched_in_them() {
        assert_eq!(steps(|number| format!("step {number}"), 1), ["all 10"]);
        assert_eq!(steps(|number| format!("Iteration {number}/10"), 1), ["all 10"]);
        assert_eq!(steps(|number| format!("step {number}"), 9), [""; 0], "of a sampler, say");
        assert_eq!(steps(|number| format!("layer {number}"), 0), [""; 0]);
    }

    #[test]
    fn numbered_ranges_of_a_thread_that_launches_nothing_are_no_steps() {
        let mut trace = TestTrace::nsys();
        trace.in_us();
        for at in (0..1_000).step_by(100) {
            trace.thread(2).range(&format!("batch {at}"), at..at + 100).range(&format!("step {at}"), at..at + 100);
            trace.thread(1).launch(at..at + 1).launches("gemm", at + 2..at + 50);
        }
        assert_eq!(rows(&trace.sections(), "steps", &["stage", "steps"]), [""; 0]);
    }

    #[test]
    fn the_range_of_an_op_is_no_step() {
        assert_eq!(steps(|id| format!("decode_attention, op_id = {id}"), 0), [""; 0]);
        assert_eq!(steps(|id| format!("prefill_attn, seq = {id}"), 0), [""; 0]);
    }
}
