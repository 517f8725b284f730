//! Overlap of compute, communication and copies. From the [`Activity`] of each device, without another pass
//! over the ops.

use crate::analysis::context::Context;
use crate::analysis::recapture::MissingData;
use crate::analysis::section::{Answer, Ms, Pct, TypedSection, section};
use crate::analysis::time::activity::Activity;
use crate::analysis::time::work::Class;
use crate::rules::GRAPHS;
use crate::trace::Ns;

section! {
    /// How long each class of work runs, and how much of it overlaps other classes.
    pub(crate) struct StreamOverlap("stream_overlap", "Stream overlap");
    row StreamOverlapRow { label: String = "Work", total_time_ms: Ms = "Total", overlap_pct: Pct = "Overlapped" }
    figures StreamOverlapFigures {
        compute_nccl_overlap_ms: Ms,
        compute_memcpy_overlap_ms: Ms,
        nccl_memcpy_overlap_ms: Ms,
        max_concurrent_gpu_ops: usize,
    }
}

/// How long each class of work runs, and the part of this time in which another class runs on the same device.
pub(crate) fn stream_overlap(context: &Context) -> Answer<StreamOverlap> {
    let trace = context.trace;
    if trace.gpu_ops.is_empty() && trace.graph_replays.is_empty() {
        return context.lacks("The trace contains no GPU ops.", MissingData::Kernels);
    }
    let devices = &context.survey().activities;
    let sum = |time: &dyn Fn(&Activity) -> i64| devices.iter().fold(Ns::ZERO, |sum, device| sum + Ns(time(device)));
    let both = |one: Class, other: Class| sum(&|device| device.with_all(one.bit() | other.bit())).into();
    let mut answer = StreamOverlap::answer("start and end of every GPU op")
        .limit("Overlap is counted between ops of the same device and summed over devices.")
        .limit("Overlapping ops may still compete for the same resources.")
        .with_figures(StreamOverlapFigures {
            compute_nccl_overlap_ms: both(Class::Compute, Class::Communication),
            compute_memcpy_overlap_ms: both(Class::Compute, Class::Copy),
            nccl_memcpy_overlap_ms: both(Class::Communication, Class::Copy),
            max_concurrent_gpu_ops: devices.iter().map(|device| device.max_concurrent).max().unwrap_or(0),
        });
    for class in Class::ALL {
        let total = sum(&|device| device.with_all(class.bit()));
        let always = matches!(class, Class::Compute | Class::Communication | Class::Copy);
        if always || total > Ns::ZERO {
            answer.rows.push(StreamOverlapRow {
                label: label(class).to_owned(),
                total_time_ms: total.into(),
                overlap_pct: Pct::of(sum(&|device| device.shared(class)), total),
            });
        }
    }
    if !trace.graph_replays.is_empty() {
        answer.limits.push("The overlap of kernels in CUDA graphs that were traced as a whole is unknown.".to_owned());
    }
    answer
}

/// The class of a row, by its label.
pub(crate) fn class_of(text: &str) -> Option<Class> {
    Class::ALL.into_iter().find(|class| label(*class) == text)
}

fn label(class: Class) -> &'static str {
    match class {
        Class::Compute => "Compute",
        Class::Communication => "NCCL",
        Class::Copy => "Memcpy",
        Class::Set => "Memset",
        Class::Replay => GRAPHS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::testing::*;
    use crate::trace::testing::TestTrace;
    use proptest::prelude::*;

    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn overlap_of_the_fixture_matches_the_manual_result() {
        let (trace, expected) = fixture();
        let (ours, expected) = (stream_overlap(&Context::new(&trace, 30)).section(), &expected["stream_overlap"]);
        for label in ["Compute", "NCCL", "Memcpy"] {
            close(number(row(&ours, "label", label), "total_time_ms"), &expected[label]["ms"]);
            close(number(row(&ours, "label", label), "overlap_pct"), &expected[label]["pct"]);
        }
        close(number(&ours.summary, "compute_nccl_overlap_ms"), &expected["compute_nccl_ms"]);
        close(number(&ours.summary, "compute_memcpy_overlap_ms"), &expected["compute_memcpy_ms"]);
        close(number(&ours.summary, "nccl_memcpy_overlap_ms"), &expected["nccl_memcpy_ms"]);
        close(number(&ours.summary, "max_concurrent_gpu_ops"), &expected["max_concurrent"]);
    }

    #[test]
    fn overlap_is_counted_per_device_and_never_exceeds_the_total() {
        let mut trace = TestTrace::nsys();
        trace.device(0).kernel(KINDS[ALLREDUCE], 0..100);
        // The copy overlaps two other classes at the same time; nsys-llm-explainer counts this twice.
        trace.device(1).kernel(KINDS[COMPUTE], 0..100).kernel(KINDS[ALLREDUCE], 50..100).kernel(KINDS[COPY], 60..100);
        let section = trace.section(stream_overlap);
        let pct = |label| number(row(&section, "label", label), "overlap_pct");
        assert_eq!((pct("Compute"), pct("Memcpy")), (50.0, 100.0));
        assert!((pct("NCCL") - 100.0 / 3.0).abs() < 1e-9, "50 of 150 ns");
        assert_eq!(number(&section.summary, "max_concurrent_gpu_ops"), 3.0);
    }

    #[test]
    fn all_copies_are_counted() {
        let mut trace = TestTrace::nsys();
        for start in (0..600).map(|i| 10 * i) {
            trace.kernel(KINDS[COPY], start..start + 1);
        }
        assert_eq!(number(row(&trace.section(stream_overlap), "label", "Memcpy"), "total_time_ms"), 600.0 / 1e6);
    }

    proptest! {
        #[test]
        fn overlap_equals_a_count_of_every_tick(ops in grid_ops()) {
            let section = grid_trace(&ops).section(stream_overlap);
            let (nccl, others) = (|now: &[usize; 6]| now[ALLREDUCE] + now[ALLGATHER], |now: &[usize; 6]| now[COPY] + now[4] + now[5]);
            let compute_ms = ticks_ms(&ops, &|now| now[COMPUTE] > 0);
            let shared_ms = ticks_ms(&ops, &|now| now[COMPUTE] > 0 && nccl(&now) + others(&now) > 0);
            let ours = row(&section, "label", "Compute");
            prop_assert!((number(ours, "total_time_ms") - compute_ms).abs() < 1e-12);
            prop_assert!((number(ours, "overlap_pct") * compute_ms - 100.0 * shared_ms).abs() < 1e-9);
            let both = ticks_ms(&ops, &|now| now[COPY] > 0 && nccl(&now) > 0);
            prop_assert!((number(&section.summary, "nccl_memcpy_overlap_ms") - both).abs() < 1e-12);
            let all = (0..DEVICES).flat_map(|device| (0..TICKS).map(move |tick| (device, tick)));
            let max_concurrent = all.map(|(device, tick)| running(&ops, device, tick).iter().sum::<usize>()).max();
            prop_assert_eq!(number(&section.summary, "max_concurrent_gpu_ops"), max_concurrent.unwrap_or(0) as f64);
        }
    }
}
