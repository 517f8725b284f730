//! The report of a window from the index equals the report computed from all its ops, byte for byte.

use super::*;
use crate::analysis::index::WindowIndex;
use crate::analysis::structure::call_ranges::CallRanges;
use crate::analysis::structure::phase_names::PhaseNames;
use crate::analysis::summary::window_index_of;
use crate::rules::signals::Signals;
use crate::trace::{Collective, Format, GpuOp, OpKind, Span, TraceBuilder};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// GPU work of three devices and the calls behind it: (pause before it in ns, length, what it is, device).
type Work = (i64, i64, u8, u8);

/// Launches of a process for each device come a little before their work, or as clocks tell it behind it; what is 4 belongs to
/// the graph of the one before it, on whichever device, what is 9 was launched by nobody. Of messages and copies some tell their size.
fn trace_of(work: &[Work]) -> Trace {
    let mut builder = TraceBuilder::new("t", Format::NsysSqlite);
    let processes = [1, 2, 3].map(|pid| builder.process(pid, ""));
    // One that never works.
    builder.device("9", "");
    let (mut now, mut id, mut process) = (1_000, 0, processes[0]);
    for &(pause, length, what, device) in work {
        now += pause;
        if what != 4 {
            id += 1;
            process = processes[usize::from(device)];
        }
        let thread = builder.thread(process, i64::from(device) + 7);
        let (name, call, kind) = match what {
            0 => ("ncclDevKernel_AllReduce_Sum", "cudaLaunchKernel", OpKind::Kernel),
            1 => ("[CUDA memcpy HtoD]", "cudaMemcpy", OpKind::Copy),
            2 => ("ncclDevKernel_SendRecv", "cudaLaunchKernel", OpKind::Kernel),
            3 | 4 => ("in a graph", "cudaGraphLaunch", OpKind::Kernel),
            5 => ("ncclDevKernel_SendRecv", "cudaMemset", OpKind::Set),
            _ => (["gemm", "norm", "softmax"][usize::from(what % 3)], "cudaLaunchKernel", OpKind::Kernel),
        };
        let (start, duration, stream) = (Ns(now), Ns(length), i64::from(what % 2));
        let device = builder.device(&device.to_string(), "");
        let name = builder.trace.names.intern(name);
        let op = GpuOp { start, duration, name, device, stream, process, kind };
        builder.trace.gpu_ops.push(op, (what != 9).then_some(id));
        let bytes = 1_000 + u64::from(id);
        match what {
            1 if pause % 2 == 0 => builder.set_bytes_of_last_op(bytes),
            0 | 2 if pause % 3 > 0 => builder.set_collective_of_last_op(Collective {
                operation: ["allreduce", "_allgather_base", "send"][pause as usize % 3].into(),
                bytes_in: Some(bytes),
                ranks: Some(2),
                ..Collective::default()
            }),
            _ => {}
        }
        let mut span = |name: &str, start: i64, length: i64| {
            let name = builder.trace.calls.names.intern(name);
            Span { start: Ns(start), duration: Ns(length), name, thread }
        };
        let called = if what == 8 { now + 9 } else { now - 30 };
        let (launch, sync) = (span(call, called, 7 + pause), span("cudaStreamSynchronize", now + 3, length / 2));
        if what != 4 {
            builder.add_call(launch, Some(id));
            builder.add_call(sync, None);
            let name = ["decode step", "layer", "encode", "token"][usize::from(what % 4)];
            let name = builder.trace.ranges.names.intern(name);
            builder.trace.ranges.push(Span { start: Ns(called - 1), duration: Ns(25 * pause), name, thread });
        }
    }
    builder.finish()
}

/// Work of up to two hundred ops with long rests, so that long kernels end; a window of it; the least ops of a piece; how it is
/// counted.
fn windows() -> impl Strategy<Value = (Vec<Work>, (f64, f64), usize, Choices)> {
    const LONG: i64 = 5_000_000_000;
    let pause = prop_oneof![12 => 0_i64..60, 1 => Just(LONG + 60)];
    let length = prop_oneof![24 => 0_i64..90, 1 => Just(LONG)];
    let device = prop_oneof![5 => Just(0_u8), 5 => Just(1), 1 => Just(2)];
    let work = prop::collection::vec((pause, length, 0_u8..10, device), 1..200);
    let attribution = prop::sample::select(vec![Attribution::FirstCome, Attribution::Fair, Attribution::Exclusive]);
    let choices = (attribution, any::<bool>(), any::<bool>()).prop_map(|(attribution, merge_devices, has_map)| {
        let map = || RuleFile { file: "map.json".into(), text: r#"{"one": "layer", "other": "step"}"#.into() };
        Choices { attribution, merge_devices, phase_map: has_map.then(map), ..Choices::default() }
    });
    (work, (0.0..1.0, 0.0..1.0), 1_usize..12, choices)
}

fn index_of(trace: &Trace, min_ops: usize) -> Option<WindowIndex<Summary>> {
    let ranges = CallRanges::of(trace, &PhaseNames::by_words(trace, &Signals::embedded()));
    window_index_of(trace, &ranges, min_ops, 0)
}

/// With an index of segments of at least this many ops.
fn cache_with_index(trace: &Trace, min_ops: usize) -> WindowCache {
    let cache = WindowCache::default();
    assert!(cache.index.set(index_of(trace, min_ops)).is_ok());
    cache
}

proptest! {
    #[test]
    fn a_report_from_the_index_equals_one_from_all_ops((work, (from, length), least, choices) in windows()) {
        let trace = trace_of(&work);
        let mut cache = cache_with_index(&trace, least);
        let window = Some(window_text(&trace, from, from + (1.0 - from) * length));
        for without_sections in [true, false] {
            let choices = Choices { window: window.clone(), without_sections, ..choices.clone() };
            let wanted = Report::new(vec![run(&trace, &choices).unwrap()]).compact();
            prop_assert_eq!(cache.report(&trace, &choices).unwrap(), wanted);
        }
    }
}

/// The property test needs such windows.
#[test]
fn many_random_windows_have_segments_and_some_have_cuts_by_device() {
    const CASES: usize = 500;
    let mut runner = TestRunner::deterministic();
    let (mut known, mut apart) = (0, 0);
    for _ in 0..CASES {
        let (work, (from, length), least, choices) = windows().new_tree(&mut runner).unwrap().current();
        let trace = trace_of(&work);
        let choices = Choices { window: Some(window_text(&trace, from, from + (1.0 - from) * length)), ..choices };
        let (cache, part) = (cache_with_index(&trace, least), part(&trace, &choices).unwrap());
        let segments = cache.existing_segments(&trace, part.as_ref());
        known += usize::from(segments.is_some());
        apart += usize::from(segments.is_some_and(|segments| segments.has_cuts_by_device()));
    }
    assert!(known * 4 > CASES && apart * 20 > CASES, "{known} have segments, {apart} have cuts by device");
}

/// `encode` states a phase only if no other name states one clearly: none does in the window, but one does before it.
#[test]
fn a_weak_phase_word_counts_in_a_window_as_in_a_trace_of_its_own() {
    let mut builder = TraceBuilder::new("t", Format::NsysSqlite);
    let process = builder.process(1, "");
    let (thread, device) = (builder.thread(process, 1), builder.device("0", ""));
    for (id, at, range) in [(1, 0, "prefill"), (2, 10_000, "encode")] {
        let name = builder.trace.names.intern("k");
        let (start, duration) = (Ns(at + 100), Ns(50));
        let op = GpuOp { start, duration, name, device, stream: 7, process, kind: OpKind::Kernel };
        builder.trace.gpu_ops.push(op, Some(id));
        let name = builder.trace.calls.names.intern("cudaLaunchKernel");
        builder.add_call(Span { start: Ns(at + 2), duration: Ns(3), name, thread }, Some(id));
        let name = builder.trace.ranges.names.intern(range);
        builder.trace.ranges.push(Span { start: Ns(at), duration: Ns(10), name, thread });
    }
    let trace = builder.finish();
    let choices = Choices { window: Some("0.0000095-0.000012".to_owned()), ..Choices::default() };
    let alone = run(&trace, &choices).unwrap();
    let first = alone.sections["phase_split"].rows.first();
    assert_eq!(first.and_then(|row| row.get("phase")), Some(&"prefill".into()));
    assert_eq!(WindowCache::default().report(&trace, &choices).unwrap(), Report::new(vec![alone]).compact());
}

/// On one device the first kernel of a name comes in a piece before the first of another, on the other device behind it, and ranges
/// say something else in the window than before it, so that its sections are counted op by op: from the same sums.
#[test]
fn groups_of_segments_cut_by_device_keep_the_durations_of_their_kernels() {
    let mut builder = TraceBuilder::new("t", Format::NsysSqlite);
    let process = builder.process(1, "");
    let thread = builder.thread(process, 1);
    // The second seam lies before A on device 1 and behind B on device 0.
    let rows =
        [(0, 50, 0, "before"), (10_100, 12, 0, "P"), (10_105, 10, 1, "A"), (10_108, 4, 0, "B"), (10_113, 5, 0, "C")];
    for (id, (start, duration, device, name)) in (1..).zip(rows) {
        let (device, name) = (builder.device(&device.to_string(), ""), builder.trace.names.intern(name));
        let (start, duration) = (Ns(start), Ns(duration));
        let op = GpuOp { start, duration, name, device, stream: 7, process, kind: OpKind::Kernel };
        builder.trace.gpu_ops.push(op, Some(id));
        let call = builder.trace.calls.names.intern("cudaLaunchKernel");
        builder.add_call(Span { start: Ns(start.0 - 20), duration: Ns(3), name: call, thread }, Some(id));
        let range = builder.trace.ranges.names.intern(if id == 1 { "prefill" } else { "encode" });
        builder.trace.ranges.push(Span { start: Ns(start.0 - 21), duration: Ns(5), name: range, thread });
    }
    let trace = builder.finish();
    let mut cache = cache_with_index(&trace, 1);
    let choices = Choices { window: Some("0.000005-0.00002".to_owned()), ..Choices::default() };
    let part = part(&trace, &choices).unwrap();
    assert!(
        cache.existing_segments(&trace, part.as_ref()).is_some() && cache.call_ranges(&trace, part.as_ref()).is_none()
    );
    assert_eq!(cache.report(&trace, &choices).unwrap(), Report::new(vec![run(&trace, &choices).unwrap()]).compact());
}

/// Work with a pause every few kernels.
#[test]
fn segments_cover_nearly_all_of_a_window_if_devices_are_idle_now_and_then() {
    let work: Vec<Work> =
        (0..400).map(|at| (if at % 5 == 0 { 40 } else { 8 }, 10, at as u8 % 9, at as u8 % 2)).collect();
    let trace = trace_of(&work);
    let choices = Choices { window: Some(window_text(&trace, 0.103, 0.914)), ..Choices::default() };
    let part = part(&trace, &choices).unwrap().unwrap();
    let index = index_of(&trace, 10).unwrap();
    let segments = index.window(&trace, &part).unwrap();
    let groups = segments.aggregates().flat_map(|summary| summary.totals.groups.iter());
    let covered = groups.map(|group| group.count).sum::<u64>() as usize;
    assert!(covered + 40 > part.gpu_ops.len() && covered < part.gpu_ops.len(), "{covered} of {}", part.gpu_ops.len());
}
