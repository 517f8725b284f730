//! Extracts the part of a trace in a time window, as a trace of its own.
//!
//! Tables are sorted by start, so the rows that start in the window are one slice per column and are copied as a whole. Only rows
//! that start earlier are checked one by one. Cost: O(rows in the window + rows near its start).

use super::columns::{KeptRows, index};
use super::names::NameRemap;
use super::{
    Annotation, CODE_IS_BUILT, CallId, CapturedGraphs, DeviceId, GraphReplay, HostCode, LaunchConfigs, MetricSeries,
    NONE, NodeNotes, Ns, OpKind, ProcessId, Span, Spans, Trace, Window,
};
use std::ops::Range;

/// The window of a part of a trace, and what it left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The window.
    pub window: Window,
    /// First start to last end of all GPU work of the whole trace.
    pub whole: Window,
    /// Number of GPU ops of the whole trace.
    pub of_ops: u64,
    /// Number of GPU ops that were clipped at an end of the window.
    pub cut_ops: u64,
    /// Number of waits in the operating system that were left out, because they have no times.
    pub host_waits: u64,
}

/// Maps rows of a window to rows of the whole trace, to look up results that were computed for the whole trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    ops: KeptRows,
    calls: KeptRows,
    ranges: KeptRows,
    /// Ascending rows of the window's calls that launched a kernel which started before the window.
    launched_before: Vec<u32>,
    neighbours: Vec<Launch>,
}

/// A launch for a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// Start of the call.
    pub time: Ns,
    /// The process of the call.
    pub process: ProcessId,
    /// The device that ran the op.
    pub device: DeviceId,
}

impl Kept {
    /// Returns the row in the whole trace of a call of the window.
    pub fn whole_call(&self, row: u32) -> Option<u32> {
        self.calls.old_index(row)
    }

    /// Returns the rows in the whole trace of the GPU ops that start in the window, and the row in the window of the first one.
    pub fn ops(&self) -> (Range<usize>, usize) {
        (self.ops.within.start as usize..self.ops.within.end as usize, self.ops.within_offset())
    }

    /// Returns the row in the window of a range of the whole trace.
    pub fn range(&self, row: u32) -> Option<u32> {
        self.ranges.new_index(row)
    }

    /// Returns true if this call of the window launched a kernel that started before the window.
    pub fn launched_before_window(&self, call: usize) -> bool {
        self.launched_before.binary_search(&index(call)).is_ok()
    }

    /// Returns, for each device, the launches of its last op before the window and of its first op after it. The window cuts a
    /// step that made one of these launches.
    pub fn neighbours(&self) -> &[Launch] {
        &self.neighbours
    }
}

impl Trace {
    /// Returns time zero of tables and windows: the start of the first GPU work of the whole trace.
    pub fn beginning(&self) -> Option<Ns> {
        self.cut.map(|cut| cut.whole.start).or_else(|| self.first_start())
    }

    /// Returns the time from the first start to the last end of all GPU work: ops, and graphs that were traced as a whole. `None` if
    /// there is none.
    pub fn span(&self) -> Option<Window> {
        let ends = self.graph_replays.iter().map(GraphReplay::end).chain(self.gpu_ops.last_end());
        Some(Window { start: self.first_start()?, end: ends.max()? })
    }

    fn first_start(&self) -> Option<Ns> {
        let op = self.gpu_ops.iter().next().map(|op| op.start);
        op.into_iter().chain(self.graph_replays.first().map(|replay| replay.start)).min()
    }

    /// Clips a span to the window of this part of a trace, for sums of time; `None` if they do not overlap. [`Trace::within`] keeps
    /// launch calls, and the ranges that contain them, in full.
    pub fn in_window(&self, span: Span) -> Option<Span> {
        let Some(Cut { window, .. }) = self.cut else { return Some(span) };
        let (start, duration) = window.clip(span.start, span.end())?;
        Some(Span { start, duration, ..span })
    }

    /// Returns the part of the trace in the window.
    ///
    /// GPU ops are clipped, so that busy time, idle time and shares are those of the window. Because the origin of an op does not
    /// depend on the window, the calls that launched the ops are kept in full, even outside the window, and so are the ranges, CPU
    /// ops and frames that contain these calls. Counts of events and problems are those of the whole trace.
    pub fn within(&self, window: Window) -> Self {
        let kept = self.gpu_ops.rows_to_clip(window);
        let launches = LaunchCalls::new(self, &kept, window);
        let calls = launches.kept_calls(&self.calls, window);
        let launched_before = launches.of_earlier_kernels(self, &kept, &calls);
        let host_window = launches.host_window;
        let ranges = self.ranges.rows_overlapping(host_window);
        let (mut gpu_ops, cut_ops) = self.gpu_ops.part(&kept, window);
        let mut remap = NameRemap::new(&self.names);
        let (op_names, op_links) = gpu_ops.names_and_links();
        op_names.iter_mut().for_each(|name| *name = remap.new_id(*name));
        op_links.iter_mut().for_each(|link| *link = calls.new_index(*link).unwrap_or(*link));
        // What a kernel moved in a part of its time is not known.
        let is_whole = |row: u32| {
            let op = self.gpu_ops.get(row as usize);
            op.is_some_and(|op| window.clip(op.start, op.end()) == Some((op.start, op.duration)))
        };
        let graph_replay = |replay: &GraphReplay| {
            let (start, duration) = window.clip(replay.start, replay.end())?;
            let launch = replay.launch.and_then(|call| calls.new_index(call.0)).map(CallId);
            Some(GraphReplay { start, duration, launch, ..*replay })
        };
        let metric = |series: &MetricSeries| {
            let samples = series.samples.iter().filter(|(time, _)| window.overlaps(*time, *time));
            MetricSeries { samples: samples.copied().collect(), name: series.name.clone(), ..*series }
        };
        Self {
            names: remap.names,
            bytes: self.bytes.iter().filter_map(|(op, bytes)| Some((kept.new_index(*op)?, *bytes))).collect(),
            memory_traffic: self
                .memory_traffic
                .iter()
                .filter(|(op, _)| is_whole(*op))
                .filter_map(|(op, traffic)| Some((kept.new_index(*op)?, *traffic)))
                .collect(),
            collectives: self
                .collectives
                .iter()
                .filter_map(|(op, message)| Some((kept.new_index(*op)?, message.clone())))
                .collect(),
            node_notes: if CODE_IS_BUILT { self.node_notes.part(&kept) } else { NodeNotes::default() },
            launch_configs: if LaunchConfigs::ARE_READ {
                self.launch_configs.part(&kept)
            } else {
                LaunchConfigs::default()
            },
            graph_replays: self.graph_replays.iter().filter_map(graph_replay).collect(),
            metrics: self.metrics.iter().map(metric).collect(),
            code: self.code.as_deref().map(|code| Box::new(code.within(&kept, &calls, host_window, window))),
            job: self.job.clone(),
            ranges: self.ranges.whole_part(&ranges),
            cut: Some(Cut {
                window,
                whole: self.span().unwrap_or(window),
                of_ops: self.gpu_ops.len() as u64,
                cut_ops,
                host_waits: self.host_waits.len() as u64,
            }),
            host_waits: Vec::new(),
            label: self.label.clone(),
            format: self.format,
            devices: self.devices.clone(),
            clock_leads: self.clock_leads.clone(),
            clock_lag: self.clock_lag,
            processes: self.processes.clone(),
            threads: self.threads.clone(),
            packed_code: None,
            blocking_sites: self.blocking_sites.clone(),
            compilations: self.compilations.clone(),
            profiler_overheads: Vec::new(),
            profiler_pauses: self.profiler_pauses.clone(),
            recording_holes: self.recording_holes.clone(),
            request_waits: self.request_waits.clone(),
            training: self.training.clone(),
            unrecorded_work: self.unrecorded_work.part(|row| kept.new_index(row)),
            launches_of_dropped_ops: Vec::new(),
            first_launches: self.first_launches.clone(),
            start_ups: self.start_ups.clone(),
            step_frames: self.step_frames.clone(),
            late_code: self.late_code.clone(),
            launch_code: self.launch_code.clone(),
            code_timelines: self.code_timelines.clone(),
            shaped_ops: self.shaped_ops.clone(),
            captured_graphs: if CODE_IS_BUILT { self.captured_graphs.part(&kept) } else { CapturedGraphs::default() },
            events: self.events,
            environment: self.environment,
            engine_hints: self.engine_hints.clone(),
            category_evidence: self.category_evidence.clone(),
            problems: self.problems.clone(),
            diagnostics: self.diagnostics.clone(),
            calls: self.calls.part(&calls, window, &launches.early(&calls), &|row| launches.is_launch(row)),
            gpu_ops,
            kept: Some(Box::new(Kept {
                ops: kept,
                calls,
                ranges,
                launched_before,
                neighbours: self.neighbour_launches(window),
            })),
        }
    }

    /// See [`Kept::neighbours`].
    fn neighbour_launches(&self, window: Window) -> Vec<Launch> {
        let before = 0..self.gpu_ops.count_starting_before(window.start);
        let after = self.gpu_ops.count_starting_before(window.end)..self.gpu_ops.len();
        [self.first_launches(before.rev()), self.first_launches(after)].concat()
    }

    /// Returns, for each device, the launch of the first of these ops whose launch is known.
    fn first_launches(&self, rows: impl Iterator<Item = usize>) -> Vec<Launch> {
        let mut found: Vec<Launch> = Vec::new();
        for row in rows.take(MAX_SEARCHED_OPS) {
            let call_start = self.gpu_ops.launch(row).and_then(|call| self.calls.start(call.0 as usize));
            let (Some(time), Some(op)) = (call_start, self.gpu_ops.get(row)) else { continue };
            if found.iter().all(|known| known.device != op.device) {
                found.push(Launch { time, process: op.process, device: op.device });
            }
            if found.len() == self.devices.len() {
                break;
            }
        }
        found
    }
}

/// If a device has no op among this many ops next to a window, no step of it reaches there.
const MAX_SEARCHED_OPS: usize = 100_000;

/// Host and device clocks differ by microseconds, so an op may seem to start before its launch, but by less than this.
const MAX_CLOCK_SKEW: Ns = Ns(1_000_000);

/// The calls that launched the ops of a window.
struct LaunchCalls {
    /// By row of the call.
    is_launch: Vec<bool>,
    /// From the first such call to the last.
    rows: Range<u32>,
    /// The window, extended to the first and the last launch. Hosts run ahead of the device, and clocks differ.
    host_window: Window,
}

impl LaunchCalls {
    fn new(trace: &Trace, ops: &KeptRows, window: Window) -> Self {
        let mut is_launch = vec![false; trace.calls.len()];
        let (mut first, mut last) = (index(is_launch.len()), 0);
        for call in trace.gpu_ops.links_of(ops) {
            let Some(slot) = is_launch.get_mut(call as usize) else { continue };
            *slot = true;
            (first, last) = (first.min(call), last.max(call + 1));
        }
        let start = |row: u32| trace.calls.start(row as usize);
        // Extended by 1 ns: a range contains a call of zero length at its end, and starts no later than a call in it.
        let before = start(first).map_or(window.start, |start| Ns(start.0.saturating_sub(1)));
        let after = last.checked_sub(1).and_then(start).map_or(window.end, |start| Ns(start.0.saturating_add(1)));
        let host_window = Window { start: window.start.min(before), end: window.end.max(after) };
        Self { is_launch, rows: first..last, host_window }
    }

    /// Returns the new rows of calls that also launched kernels which started before the window.
    fn of_earlier_kernels(&self, trace: &Trace, ops: &KeptRows, calls: &KeptRows) -> Vec<u32> {
        let earliest = Ns(self.host_window.start.0.saturating_sub(MAX_CLOCK_SKEW.0));
        let first = trace.gpu_ops.count_starting_before(earliest);
        let early = ops.cut.iter().map(|row| *row as usize).chain(first..ops.within.start as usize);
        let kernels = early.filter(|row| trace.gpu_ops.get(*row).is_some_and(|op| op.kind == OpKind::Kernel));
        let launches = kernels.filter_map(|row| trace.gpu_ops.launch(row)).filter(|call| self.is_launch(call.0));
        let mut rows: Vec<u32> = launches.filter_map(|call| calls.new_index(call.0)).collect();
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    fn is_launch(&self, call: u32) -> bool {
        self.is_launch.get(call as usize) == Some(&true)
    }

    /// Returns the calls to keep: launches in full, other calls clipped to the window.
    fn kept_calls(&self, calls: &Spans, window: Window) -> KeptRows {
        let mut rows = calls.rows_overlapping(window);
        rows.cut = std::mem::take(&mut rows.before);
        rows.cut.retain(|row| !self.is_launch(*row));
        let launches = |from: u32, to: u32| (from..to).filter(|row| self.is_launch(*row)).collect();
        rows.before = launches(self.rows.start, self.rows.end.min(rows.within.start));
        // Clocks differ, so a launch may seem to start after its op.
        rows.after = launches(self.rows.start.max(rows.within.end), self.rows.end);
        rows
    }

    /// Returns the calls that started before the window, ascending.
    fn early(&self, calls: &KeptRows) -> Vec<u32> {
        let mut early = [calls.before.as_slice(), &calls.cut].concat();
        early.sort_unstable();
        early
    }
}

impl HostCode {
    fn within(&self, ops: &KeptRows, calls: &KeptRows, host_window: Window, window: Window) -> Self {
        let (cpu_ops, frames) = (self.cpu_ops.rows_overlapping(host_window), self.frames.rows_overlapping(host_window));
        let parents = entries_or_none(&self.frame_parents, &frames);
        let is_kept = |row: &&Annotation| {
            let window = if row.device.is_some() { window } else { host_window };
            window.overlaps(row.start, row.end())
        };
        let has_kernels = !self.call_kernels.is_empty();
        Self {
            cpu_op_ids: entries_or_none(&self.cpu_op_ids, &cpu_ops),
            frame_parents: parents.iter().map(|parent| frames.new_index(*parent).unwrap_or(NONE)).collect(),
            op_ids: entries_or_none(&self.op_ids, ops),
            annotations: self.annotations.iter().filter(is_kept).copied().collect(),
            annotation_names: self.annotation_names.clone(),
            call_kernels: if has_kernels { entries_or_none(&self.call_kernels, calls) } else { Vec::new() },
            kernel_names: self.kernel_names.clone(),
            cpu_ops: self.cpu_ops.whole_part(&cpu_ops),
            frames: self.frames.whole_part(&frames),
        }
    }
}

/// Returns the entries of these rows in a column; [`NONE`] for rows that the column lacks.
fn entries_or_none(column: &[u32], rows: &KeptRows) -> Vec<u32> {
    rows.iter().map(|row| column.get(row as usize).copied().unwrap_or(NONE)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{Options, first_results};
    use crate::rules::RuleBook;
    use crate::trace::testing::TestTrace;
    use proptest::prelude::*;

    /// Ops as (start, duration, device). A call launches each 20 ns before its start, and one call blocks all the time.
    fn trace(ops: &[(i64, i64, u32)]) -> Trace {
        let mut trace = TestTrace::new();
        trace.call("cudaDeviceSynchronize", -50..350);
        for (index, &(start, duration, device)) in ops.iter().enumerate() {
            trace.range("step", start - 25..start - 13).launch(start - 20..start - 15);
            trace.device(device).launches(&format!("kernel {}", index % 5), start..start + duration);
        }
        trace.finish()
    }

    #[test]
    fn a_graph_replay_keeps_the_link_to_a_launch_in_the_window() {
        let mut trace = TestTrace::nsys();
        trace.call("cudaMalloc", 0..5).call("cudaGraphLaunch", 10..15).launches_replay(20..30);
        let trace = trace.kernel("k", 40..50).finish();
        let launch = |start: i64| {
            let part = trace.within(Window { start: Ns(start), end: Ns(60) });
            let call = part.graph_replays.first()?.launch?;
            part.calls.get(call.0 as usize).map(|call| part.calls.names.get(call.name).to_owned())
        };
        assert_eq!((launch(8), launch(16)), (Some("cudaGraphLaunch".to_owned()), None));
    }

    fn busy(trace: &Trace) -> (i64, i64, u64) {
        let (run, _) = first_results(trace, RuleBook::gpuprism_default().unwrap(), &Options::default(), None);
        (run.totals.union_ns, run.totals.duration_ns, run.totals.gpu_ops)
    }

    proptest! {
        #[test]
        fn two_adjacent_windows_add_up_to_the_whole_trace(
            ops in prop::collection::vec((0_i64..300, 0_i64..40, 0_u32..2), 0..40),
            at in -10_i64..360,
        ) {
            let whole = trace(&ops);
            let window = |start: i64, end: i64| whole.within(Window { start: Ns(start), end: Ns(end) });
            let (left, right) = (window(-100, at), window(at, 1_000));
            let (all, before, after) = (busy(&whole), busy(&left), busy(&right));
            prop_assert_eq!((before.0 + after.0, before.1 + after.1), (all.0, all.1));
            let host = |trace: &Trace| -> [i64; 2] {
                [&trace.calls, &trace.ranges].map(|spans| spans.iter().filter_map(|span| Some(trace.in_window(span)?.duration.0)).sum())
            };
            let [whole_host, left_host, right_host] = [&whole, &left, &right].map(host);
            prop_assert_eq!([left_host[0] + right_host[0], left_host[1] + right_host[1]], whole_host);
            let cut = left.cut.unwrap().cut_ops;
            prop_assert_eq!((before.2 + after.2, cut), (all.2 + cut, right.cut.unwrap().cut_ops));
        }

        #[test]
        fn an_op_keeps_its_name_and_its_launch_call(
            ops in prop::collection::vec((0_i64..300, 1_i64..40, 0_u32..2), 1..40),
            from in 0_i64..300,
            length in 1_i64..100,
        ) {
            let whole = trace(&ops);
            let part = whole.within(Window { start: Ns(from), end: Ns(from + length) });
            let described = |trace: &Trace, row: usize| {
                let (op, call) = (trace.gpu_ops.get(row).unwrap(), trace.gpu_ops.launch(row).unwrap());
                let call = trace.calls.get(call.0 as usize).unwrap();
                (trace.names.get(op.name).to_owned(), op.device, trace.calls.names.get(call.name).to_owned(), call.start)
            };
            let is_inside = |row: &usize| {
                let op = whole.gpu_ops.get(*row).unwrap();
                op.start < Ns(from + length) && op.end() > Ns(from)
            };
            let wanted: Vec<_> = (0..whole.gpu_ops.len()).filter(is_inside).map(|row| described(&whole, row)).collect();
            let found: Vec<_> = (0..part.gpu_ops.len()).map(|row| described(&part, row)).collect();
            prop_assert_eq!(found, wanted);
            let starts: Vec<Ns> = part.calls.iter().map(|call| call.start).collect();
            prop_assert!(starts.is_sorted());
        }
    }

    #[test]
    fn blocking_calls_are_clipped_to_the_window_but_launches_and_their_ranges_are_not() {
        let part = trace(&[(100, 10, 0), (200, 10, 0)]).within(Window { start: Ns(90), end: Ns(150) });
        let call = |name: &str| {
            let call = part.calls.iter().find(|call| part.calls.names.get(call.name) == name).unwrap();
            (call.start, call.duration)
        };
        assert_eq!(call("cudaDeviceSynchronize"), (Ns(90), Ns(60)));
        assert_eq!(call("cudaLaunchKernel"), (Ns(80), Ns(5)));
        let ranges: Vec<(Ns, Ns)> = part.ranges.iter().map(|range| (range.start, range.duration)).collect();
        assert_eq!(ranges, [(Ns(75), Ns(12))]);
        assert_eq!((part.names.len(), part.gpu_ops.len()), (1, 1));
    }

    #[test]
    fn a_window_of_the_whole_trace_only_adds_the_cut() {
        let whole = trace(&[(0, 10, 0), (5, 10, 1), (20, 0, 0)]);
        let all = Window { start: Ns(-1_000), end: Ns(1_000) };
        let part = whole.within(all);
        let spans = |spans: &Spans| -> Vec<_> {
            spans
                .iter()
                .map(|span| (spans.names.get(span.name).to_owned(), span.start, span.duration, span.thread))
                .collect()
        };
        assert_eq!(part.gpu_ops, whole.gpu_ops);
        assert_eq!((spans(&part.calls), spans(&part.ranges)), (spans(&whole.calls), spans(&whole.ranges)));
        let cut = part.cut.unwrap();
        assert_eq!((cut.whole, cut.of_ops, cut.cut_ops), (Window { start: Ns(0), end: Ns(20) }, 3, 0));
    }
}
