//! A window of time, and the part of a trace that lies in it.

use super::columns::index;
use super::{Code, GraphReplay, MetricSeries, NONE, NameId, Names, Ns, Span, Spans, Trace};

/// A length of time on a trace's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Where it begins.
    pub start: Ns,
    /// Where it ends; what begins there lies outside.
    pub end: Ns,
}

/// What was left of a trace when a window was cut out of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The window.
    pub window: Window,
    /// First start to last end of all GPU ops of the whole trace.
    pub whole: Window,
    /// GPU ops of the whole trace.
    pub of_ops: u64,
    /// GPU ops that reach over an end of the window and were cut there.
    pub cut_ops: u64,
    /// Sums of waiting in the operating system: they have no times, and are left out.
    pub host_waits: u64,
}

impl Window {
    /// How long it is.
    pub fn length(&self) -> Ns {
        self.end.since(self.start)
    }

    /// Does any of this time lie in the window? What takes no time does where it begins.
    pub(super) fn meets(self, start: Ns, end: Ns) -> bool {
        start < self.end && (end > self.start || start >= self.start)
    }

    /// The part of this time that lies in the window: its start and its length.
    fn part(self, start: Ns, end: Ns) -> (Ns, Ns) {
        let from = start.max(self.start);
        (from, end.min(self.end).since(from))
    }
}

impl Trace {
    /// First start to last end of all GPU ops; `None` where there are none.
    pub fn span(&self) -> Option<Window> {
        let start = self.gpu_ops.iter().next()?.start;
        let end = self.gpu_ops.iter().map(|op| op.end()).max()?;
        Some(Window { start, end })
    }

    /// The part of the trace that lies in the window.
    ///
    /// GPU ops are cut at its ends, so that busy time, idle time and shares are those of the window. The calls that launched
    /// them stay whole wherever they are, as do ranges, CPU ops and frames around them: where an op comes from does not
    /// change with the window. Counts of what is not kept (`events`, `problems`) are those of the whole trace.
    pub fn within(&self, window: Window) -> Self {
        let kept = self.gpu_ops.places_in(window);
        let launches = || kept.iter().filter_map(|&at| self.gpu_ops.launch(at as usize));
        let mut is_launch = vec![false; self.calls.len()];
        launches().for_each(|call| is_launch.get_mut(call.0 as usize).into_iter().for_each(|slot| *slot = true));
        let starts = || launches().filter_map(|call| self.calls.get(call.0 as usize)).map(|call| call.start);
        // Hosts run ahead of devices: what leads to the first op began before it.
        let hosts = Window { start: starts().min().unwrap_or(window.start).min(window.start), end: window.end };
        // Clocks differ: a launch may seem to come after its op.
        let calls = Window { end: starts().max().map_or(window.end, |last| window.end.max(last + Ns(1))), ..hosts };
        let (mut calls, mut now_calls) = self.calls.pick(calls, |at, call| {
            let launches = is_launch.get(at) == Some(&true);
            (launches || window.meets(call.start, call.end())).then(|| if launches { call } else { cut(call, window) })
        });
        // A call that was cut begins later than it did.
        if let Some(order) = calls.sort_by_start() {
            reorder_places(&mut now_calls, &order);
        }
        let around = |_, span: Span| hosts.meets(span.start, span.end()).then_some(span);
        let (mut names, mut cut_ops) = (Names::default(), 0);
        let mut now_names = vec![NONE; self.names.len()];
        let gpu_ops = self.gpu_ops.pick(&kept, |op, link| {
            let part = window.part(op.start, op.end());
            cut_ops += u64::from(part != (op.start, op.duration));
            (op.start, op.duration) = part;
            *link = now_calls.get(*link as usize).copied().unwrap_or(*link);
            op.name = renamed(op.name, &self.names, &mut names, &mut now_names);
        });
        let place = |old: &u32| kept.binary_search(old).ok().map(index);
        Self {
            names,
            bytes: self.bytes.iter().filter_map(|(at, bytes)| Some((place(at)?, *bytes))).collect(),
            collectives: self.collectives.iter().filter_map(|(at, it)| Some((place(at)?, it.clone()))).collect(),
            graph_replays: self
                .graph_replays
                .iter()
                .filter(|replay| window.meets(replay.start, replay.start + replay.duration))
                .map(|replay| {
                    let (start, duration) = window.part(replay.start, replay.start + replay.duration);
                    GraphReplay { start, duration, ..*replay }
                })
                .collect(),
            metrics: self
                .metrics
                .iter()
                .map(|series| {
                    let samples = series.samples.iter().filter(|(time, _)| window.meets(*time, *time));
                    MetricSeries { samples: samples.copied().collect(), ..series.clone() }
                })
                .collect(),
            code: self.code.as_deref().map(|code| Box::new(code.within(&kept, &now_calls, hosts, window))),
            job: self.job.clone(),
            ranges: self.ranges.pick(hosts, around).0,
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
            processes: self.processes.clone(),
            threads: self.threads.clone(),
            events: self.events,
            clues: self.clues.clone(),
            problems: self.problems.clone(),
            gpu_ops,
            calls,
        }
    }
}

fn cut(span: Span, window: Window) -> Span {
    let (start, duration) = window.part(span.start, span.end());
    Span { start, duration, ..span }
}

/// The id that a name has among those of the window.
fn renamed(old: NameId, all: &Names, names: &mut Names, now: &mut [u32]) -> NameId {
    match now.get_mut(old.0 as usize) {
        Some(slot) if *slot == NONE => {
            let new = names.intern(all.get(old));
            *slot = new.0;
            new
        }
        Some(slot) => NameId(*slot),
        None => names.intern(all.get(old)),
    }
}

impl Code {
    fn within(&self, kept_ops: &[u32], now_calls: &[u32], hosts: Window, window: Window) -> Self {
        let around = |_, span: Span| hosts.meets(span.start, span.end()).then_some(span);
        let (cpu_ops, now_cpu_ops) = self.cpu_ops.pick(hosts, around);
        let (frames, now_frames) = self.frames.pick(hosts, around);
        let now_frame = |parent: &u32| now_frames.get(*parent as usize).copied().unwrap_or(NONE);
        Self {
            cpu_op_ids: kept(&self.cpu_op_ids, &now_cpu_ops),
            frame_parents: kept(&self.frame_parents, &now_frames).iter().map(now_frame).collect(),
            op_ids: kept_ops.iter().map(|&at| self.op_ids.get(at as usize).copied().unwrap_or(NONE)).collect(),
            annotations: self
                .annotations
                .iter()
                .filter(|it| if it.device.is_some() { window } else { hosts }.meets(it.start, it.end()))
                .copied()
                .collect(),
            annotation_names: self.annotation_names.clone(),
            call_kernels: kernels_of_calls(&self.call_kernels, now_calls),
            kernel_names: self.kernel_names.clone(),
            cpu_ops,
            frames,
        }
    }
}

/// [`Code::call_kernels`] in the order of the calls that are left.
fn kernels_of_calls(kernels: &[u32], now_calls: &[u32]) -> Vec<u32> {
    if kernels.is_empty() {
        return Vec::new();
    }
    let mut now = vec![NONE; now_calls.iter().filter(|place| **place != NONE).count()];
    for (kernel, place) in kernels.iter().zip(now_calls) {
        now.get_mut(*place as usize).into_iter().for_each(|slot| *slot = *kernel);
    }
    now
}

/// Leads to the places that things have in a new order.
fn reorder_places(places: &mut [u32], order: &[u32]) {
    let mut now = vec![NONE; order.len()];
    for (new, &old) in (0..).zip(order) {
        now.get_mut(old as usize).into_iter().for_each(|slot| *slot = new);
    }
    for place in places.iter_mut().filter(|place| **place != NONE) {
        *place = now.get(*place as usize).copied().unwrap_or(NONE);
    }
}

/// Of a column the entries whose rows have a new place.
fn kept(column: &[u32], now: &[u32]) -> Vec<u32> {
    column.iter().zip(now).filter(|(_, now)| **now != NONE).map(|(entry, _)| *entry).collect()
}

impl Spans {
    /// Those near the window for which `pick` has an answer, and of every old place the new one or [`NONE`].
    fn pick(&self, window: Window, pick: impl Fn(usize, Span) -> Option<Span>) -> (Self, Vec<u32>) {
        let mut picked = Self::default();
        let mut now_names = vec![NONE; self.names.len()];
        let mut now = vec![NONE; self.len()];
        for at in self.near(window) {
            let (Some(span), Some(slot)) = (self.get(at).and_then(|span| pick(at, span)), now.get_mut(at)) else {
                continue;
            };
            *slot = index(picked.len());
            let name = renamed(span.name, &self.names, &mut picked.names, &mut now_names);
            picked.push(Span { name, ..span });
        }
        (picked, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{Options, analyze};
    use crate::rules::RuleBook;
    use crate::trace::{Format, GpuOp, OpKind, ProcessId, TraceBuilder};
    use proptest::prelude::*;

    /// An op a number: start, duration, device; a call launches each a little earlier, and one call waits all along.
    fn trace(ops: &[(i64, i64, u32)]) -> Trace {
        let mut builder = TraceBuilder::new("t", Format::TorchProfiler);
        let process = builder.process(1, "");
        let thread = builder.thread(process, 1);
        let call_name = builder.trace.calls.names.intern("cudaLaunchKernel");
        let wait_name = builder.trace.calls.names.intern("cudaDeviceSynchronize");
        let range_name = builder.trace.ranges.names.intern("step");
        builder.call(Span { start: Ns(-50), duration: Ns(400), name: wait_name, thread }, None);
        for (&(start, duration, device), id) in ops.iter().zip(0..) {
            let device = builder.device(&device.to_string(), "");
            let name = builder.trace.names.intern(&format!("kernel {}", id % 5));
            let op = GpuOp {
                start: Ns(start),
                duration: Ns(duration),
                name,
                device,
                stream: 7,
                process: ProcessId(0),
                kind: OpKind::Kernel,
            };
            builder.trace.gpu_ops.push(op, Some(id));
            let launch = Span { start: Ns(start - 20), duration: Ns(5), name: call_name, thread };
            builder.call(launch, Some(id));
            builder.trace.ranges.push(Span { start: Ns(start - 25), duration: Ns(12), name: range_name, thread });
        }
        builder.finish()
    }

    fn busy(trace: &Trace) -> (i64, i64, u64) {
        let rules = RuleBook::embedded().select("gpuprism", "default").unwrap();
        let run = analyze(trace, &rules, &Options { without_sections: true, ..Options::default() });
        (run.totals.union_ns, run.totals.duration_ns, run.totals.gpu_ops)
    }

    proptest! {
        #[test]
        fn two_windows_side_by_side_hold_all_the_time_of_the_whole(
            ops in prop::collection::vec((0_i64..300, 0_i64..40, 0_u32..2), 0..40),
            at in -10_i64..360,
        ) {
            let whole = trace(&ops);
            let window = |start: i64, end: i64| whole.within(Window { start: Ns(start), end: Ns(end) });
            let (left, right) = (window(-100, at), window(at, 1_000));
            let (all, before, after) = (busy(&whole), busy(&left), busy(&right));
            prop_assert_eq!((before.0 + after.0, before.1 + after.1), (all.0, all.1));
            let cut = left.cut.unwrap().cut_ops;
            prop_assert_eq!((before.2 + after.2, cut), (all.2 + cut, right.cut.unwrap().cut_ops));
        }

        #[test]
        fn an_op_keeps_its_name_and_the_call_that_launched_it(
            ops in prop::collection::vec((0_i64..300, 1_i64..40, 0_u32..2), 1..40),
            from in 0_i64..300,
            length in 1_i64..100,
        ) {
            let whole = trace(&ops);
            let part = whole.within(Window { start: Ns(from), end: Ns(from + length) });
            let told = |trace: &Trace, at: usize| {
                let (op, call) = (trace.gpu_ops.get(at).unwrap(), trace.gpu_ops.launch(at).unwrap());
                let call = trace.calls.get(call.0 as usize).unwrap();
                (trace.names.get(op.name).to_owned(), op.device, trace.calls.names.get(call.name).to_owned(), call.start)
            };
            let is_inside = |at: &usize| {
                let op = whole.gpu_ops.get(*at).unwrap();
                op.start < Ns(from + length) && op.end() > Ns(from)
            };
            let wanted: Vec<_> = (0..whole.gpu_ops.len()).filter(is_inside).map(|at| told(&whole, at)).collect();
            let found: Vec<_> = (0..part.gpu_ops.len()).map(|at| told(&part, at)).collect();
            prop_assert_eq!(found, wanted);
            let starts: Vec<Ns> = part.calls.iter().map(|call| call.start).collect();
            prop_assert!(starts.is_sorted());
        }
    }

    #[test]
    fn waiting_is_cut_at_the_ends_of_the_window_and_ranges_around_a_launch_stay_whole() {
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
    fn a_window_of_everything_changes_nothing_but_says_so() {
        let whole = trace(&[(0, 10, 0), (5, 10, 1), (20, 0, 0)]);
        let all = Window { start: Ns(-1_000), end: Ns(1_000) };
        let part = whole.within(all);
        let spans = |spans: &Spans| -> Vec<_> {
            spans.iter().map(|it| (spans.names.get(it.name).to_owned(), it.start, it.duration, it.thread)).collect()
        };
        assert_eq!(part.gpu_ops, whole.gpu_ops);
        assert_eq!((spans(&part.calls), spans(&part.ranges)), (spans(&whole.calls), spans(&whole.ranges)));
        let cut = part.cut.unwrap();
        assert_eq!((cut.whole, cut.of_ops, cut.cut_ops), (Window { start: Ns(0), end: Ns(20) }, 3, 0));
    }
}
