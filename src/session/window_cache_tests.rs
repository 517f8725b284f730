//! Tests that the report of a window from the index equals the report computed from all its ops, byte for byte.

use super::*;
use crate::analysis::context::Context;
use crate::analysis::host::idle_cause::{CauseRules, IdleCause};
use crate::analysis::index::WindowIndex;
use crate::analysis::structure::call_ranges::CallRanges;
use crate::analysis::structure::phase_names::PhaseNames;
use crate::analysis::summary::window_index_of;
use crate::rules::signals::Signals;
use crate::trace::testing::TestTrace;
use crate::trace::{Collective, NONE, OpKind};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// A GPU op of one of three devices: (pause before it in ns, duration in ns, kind, device). For the kinds see
/// [`trace_of`].
type Work = (i64, i64, u8, u8);

/// Each device has a process that launches its ops. A launch starts 30 ns before its op, or 9 ns after it (kind 8),
/// as traces with inexact clocks have it. Ops of kind 4 belong to the graph launch of the op before them, on any
/// device. Ops of kind 9 have no launch. Some messages and copies have a size.
fn trace_of(work: &[Work]) -> Trace {
    let mut trace = TestTrace::nsys();
    // A device without ops.
    trace.device(9);
    let (mut now, mut launch) = (1_000, 0);
    for (id, &(pause, length, kind, device)) in (1..).zip(work) {
        now += pause;
        let (name, call, op_kind) = match kind {
            0 => ("ncclDevKernel_AllReduce_Sum", "cudaLaunchKernel", OpKind::Kernel),
            1 => ("[CUDA memcpy HtoD]", "cudaMemcpy", OpKind::Copy),
            2 => ("ncclDevKernel_SendRecv", "cudaLaunchKernel", OpKind::Kernel),
            3 | 4 => ("in a graph", "cudaGraphLaunch", OpKind::Kernel),
            5 => ("ncclDevKernel_SendRecv", "cudaMemset", OpKind::Set),
            _ => (["gemm", "norm", "softmax"][usize::from(kind % 3)], "cudaLaunchKernel", OpKind::Kernel),
        };
        trace.device(device).stream(i64::from(kind % 2));
        if kind != 4 {
            launch = id;
            let called = if kind == 8 { now + 9 } else { now - 30 };
            let range = ["decode step", "layer", "encode", "token"][usize::from(kind % 4)];
            trace.process(i64::from(device) + 1).range(range, called - 1..called - 1 + 25 * pause);
            trace.call_with_id("cudaStreamSynchronize", now + 3..now + 3 + length / 2, NONE);
            trace.call_with_id(call, called..called + 7 + pause, launch);
        }
        trace.op(name, op_kind, now..now + length, (kind != 9).then_some(launch));
        let bytes = 1_000 + u64::from(launch);
        match kind {
            1 if pause % 2 == 0 => trace.bytes(bytes),
            0 | 2 if pause % 3 > 0 => trace.message(Collective {
                operation: ["allreduce", "_allgather_base", "send"][pause as usize % 3].into(),
                bytes_in: Some(bytes),
                ranks: Some(2),
                ..Collective::default()
            }),
            _ => &mut trace,
        };
    }
    trace.finish()
}

/// Up to two hundred ops, a window as start and relative length, the minimum number of ops per segment, and
/// choices. Some pauses are longer than the longest kernel, so that devices become idle.
fn windows() -> impl Strategy<Value = (Vec<Work>, (f64, f64), usize, Choices)> {
    const LONG: i64 = 5_000_000_000;
    let pause = prop_oneof![12 => 0_i64..60, 1 => Just(LONG + 60)];
    let length = prop_oneof![24 => 0_i64..90, 1 => Just(LONG)];
    let device = prop_oneof![5 => Just(0_u8), 5 => Just(1), 1 => Just(2)];
    let work = prop::collection::vec((pause, length, 0_u8..10, device), 1..200);
    let attribution = prop::sample::select(vec![Attribution::FirstCome, Attribution::Fair, Attribution::Exclusive]);
    let choices = (attribution, any::<bool>(), any::<bool>()).prop_map(|(attribution, merge_devices, has_map)| {
        let map = || UserFile { file: "map.json".into(), text: r#"{"one": "layer", "other": "step"}"#.into() };
        Choices { attribution, merge_devices, phase_map: has_map.then(map), ..Choices::default() }
    });
    (work, (0.0..1.0, 0.0..1.0), 1_usize..12, choices)
}

fn index_of(trace: &Trace, min_ops: usize) -> Option<WindowIndex<Summary>> {
    let ranges = CallRanges::of(trace, &PhaseNames::by_words(trace, &Signals::embedded()));
    window_index_of(trace, &ranges, min_ops, 0)
}

/// A cache with an index of segments of at least `min_ops` ops.
fn cache_with_index(trace: &Trace, min_ops: usize) -> WindowCache {
    let cache = WindowCache::default();
    assert!(cache.index.set(index_of(trace, min_ops)).is_ok());
    cache
}

proptest! {
    #[test]
    fn a_report_from_the_index_equals_one_from_all_ops((work, (from, length), min_ops, choices) in windows()) {
        let trace = trace_of(&work);
        let mut cache = cache_with_index(&trace, min_ops);
        let window = Some(window_text(&trace, from, from + (1.0 - from) * length));
        for without_sections in [true, false] {
            let choices = Choices { window: window.clone(), without_sections, ..choices.clone() };
            let expected = Report::new(vec![run(&trace, &choices).unwrap()]).compact();
            prop_assert_eq!(cache.report(&trace, &choices).unwrap(), expected);
        }
    }
}

/// Stretches of eager kernels, around the number from which they are no preparation, each followed by a graph replay.
fn stretches() -> impl Strategy<Value = Vec<Work>> {
    const LONG: i64 = 200_000_000;
    let kernels = prop::sample::select(vec![0_usize, 1, 20, 32, 33, 63, 64, 65, 90]);
    let pause = prop_oneof![20 => 0_i64..60, 2 => Just(LONG)];
    let op = (pause, 1_i64..20_000, prop::sample::select(vec![6_u8, 7, 8, 9, 1]), 0_u8..2);
    let stretch = (kernels, prop::collection::vec(op, 90), 0_u8..2).prop_map(|(kernels, mut ops, device)| {
        ops.truncate(kernels);
        ops.extend([(20, 30, 3, device), (40, 10, 4, device)]);
        ops
    });
    prop::collection::vec(stretch, 1..6).prop_map(|stretches| stretches.concat())
}

proptest! {
    #[test]
    fn gaps_by_launch_from_the_index_equal_those_from_all_ops(
        (work, (from, length), min_ops) in (stretches(), (0.0..0.5, 0.0..1.0), 1_usize..30)
    ) {
        let trace = trace_of(&work);
        let choices =
            Choices { window: Some(window_text(&trace, from, from + (1.0 - from) * length)), ..Choices::default() };
        // `None` if the window is the whole trace.
        let Some(part) = part(&trace, &choices).unwrap() else { return Ok(()) };
        let cache = cache_with_index(&trace, min_ops);
        let call_ranges = cache.call_ranges(&trace, Some(&part));
        let segments = cache.existing_segments(&trace, Some(&part));
        let gaps = |segments| {
            let context = Context::with_reused(&part, 30, Reused { groups: None, call_ranges, segments });
            let rules = CauseRules::new(&context, context.blocking());
            let idle = &context.survey().idle;
            let gaps = |is_engine| idle.iter().map(|idle| idle.launch_gaps(&rules, is_engine)).collect::<Vec<_>>();
            [gaps(false), gaps(true)]
        };
        prop_assert_eq!(gaps(segments.as_ref()), gaps(None));
    }

    /// Every late gap is in one class, also after the host turned out to be never ahead.
    #[test]
    fn gaps_by_launch_add_up_to_host_late_time(work in stretches()) {
        let trace = trace_of(&work);
        let context = Context::new(&trace, 30);
        let rules = CauseRules::new(&context, context.blocking());
        for idle in &context.survey().idle {
            let gaps = idle.launch_gaps(&rules, true);
            let late = gaps.preparation.total + gaps.eager.total + gaps.pauses.total;
            prop_assert_eq!(late, idle.times[IdleCause::HostLate as usize]);
        }
    }
}

/// Makes sure that the property test covers both kinds of windows.
#[test]
fn many_random_windows_have_segments_and_some_have_cuts_by_device() {
    const CASES: usize = 500;
    let mut runner = TestRunner::deterministic();
    let (mut with_segments, mut cut_by_device) = (0, 0);
    for _ in 0..CASES {
        let (work, (from, length), min_ops, choices) = windows().new_tree(&mut runner).unwrap().current();
        let trace = trace_of(&work);
        let choices = Choices { window: Some(window_text(&trace, from, from + (1.0 - from) * length)), ..choices };
        let (cache, part) = (cache_with_index(&trace, min_ops), part(&trace, &choices).unwrap());
        let segments = cache.existing_segments(&trace, part.as_ref());
        with_segments += usize::from(segments.is_some());
        cut_by_device += usize::from(segments.is_some_and(|segments| segments.has_cuts_by_device()));
    }
    assert!(
        with_segments * 4 > CASES && cut_by_device * 20 > CASES,
        "{with_segments} have segments, {cut_by_device} have cuts by device"
    );
}

/// `encode` names a phase only if no other range name does. `prefill` does, but only before the window.
#[test]
fn a_weak_phase_word_counts_in_a_window_as_in_a_trace_of_its_own() {
    let mut trace = TestTrace::nsys();
    trace.range("prefill", 0..10).launch(2..5).launches("k", 100..150);
    trace.range("encode", 10_000..10_010).launch(10_002..10_005).launches("k", 10_100..10_150);
    let trace = trace.finish();
    let choices = Choices { window: Some("0.0000095-0.000012".to_owned()), ..Choices::default() };
    let alone = run(&trace, &choices).unwrap();
    let first = alone.sections["phase_split"].rows.first();
    assert_eq!(first.and_then(|row| row.get("phase")), Some(&"prefill".into()));
    assert_eq!(WindowCache::default().report(&trace, &choices).unwrap(), Report::new(vec![alone]).compact());
}

/// Names first occur in another order per segment than per row. The first results use the index; the sections do
/// not, because range names have another meaning in the window than in the whole trace. Both must use the same
/// groups.
#[test]
fn groups_of_segments_cut_by_device_keep_the_durations_of_their_kernels() {
    let mut trace = TestTrace::nsys();
    // The second cut point is before A on device 1 and after B on device 0.
    for (start, duration, device, name) in
        [(0, 50, 0, "before"), (10_100, 12, 0, "P"), (10_105, 10, 1, "A"), (10_108, 4, 0, "B"), (10_113, 5, 0, "C")]
    {
        trace.range(if start == 0 { "prefill" } else { "encode" }, start - 21..start - 16);
        trace.launch(start - 20..start - 17).device(device).launches(name, start..start + duration);
    }
    let trace = trace.finish();
    let mut cache = cache_with_index(&trace, 1);
    let choices = Choices { window: Some("0.000005-0.00002".to_owned()), ..Choices::default() };
    let part = part(&trace, &choices).unwrap();
    assert!(
        cache.existing_segments(&trace, part.as_ref()).is_some() && cache.call_ranges(&trace, part.as_ref()).is_none()
    );
    assert_eq!(cache.report(&trace, &choices).unwrap(), Report::new(vec![run(&trace, &choices).unwrap()]).compact());
}

#[test]
fn segments_cover_nearly_all_of_a_window_if_devices_are_idle_every_few_kernels() {
    let work: Vec<Work> =
        (0..400).map(|index| (if index % 5 == 0 { 40 } else { 8 }, 10, index as u8 % 9, index as u8 % 2)).collect();
    let trace = trace_of(&work);
    let choices = Choices { window: Some(window_text(&trace, 0.103, 0.914)), ..Choices::default() };
    let part = part(&trace, &choices).unwrap().unwrap();
    let index = index_of(&trace, 10).unwrap();
    let segments = index.window(&trace, &part).unwrap();
    let groups = segments.aggregates().flat_map(|summary| summary.totals.groups.iter());
    let covered = groups.map(|group| group.count).sum::<u64>() as usize;
    assert!(covered + 40 > part.gpu_ops.len() && covered < part.gpu_ops.len(), "{covered} of {}", part.gpu_ops.len());
}
