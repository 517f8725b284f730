//! How long kernels wait between the end of the call that launches them and their start.

use super::intervals::{Longest, interpolate};
use super::recapture::{self, Lacks};
use super::{Context, labels};
use crate::analysis::section::{Section, Value};
use crate::rules::signals::CallKind;
use crate::trace::{GpuOp, Ns, OpKind, Span};

const COLUMNS: [&str; 9] = [
    "pid",
    "stream_id",
    "api_name",
    "kernel_name",
    "launch_start_ns",
    "launch_end_ns",
    "kernel_start_ns",
    "kernel_end_ns",
    "latency_us",
];
const HISTOGRAM_COLUMNS: [&str; 3] = ["bin_start_us", "bin_end_us", "count"];
const SHOWN: usize = 100;
const MAX_BINS: usize = 30;
const MIN_BINS: usize = 8;

/// A kernel, its place in the trace, and the call that launched it.
struct Launched {
    at: usize,
    kernel: GpuOp,
    call: Span,
}

impl Launched {
    /// From the end of the call to the start of the kernel; negative where the kernel was faster.
    fn wait(&self) -> Ns {
        self.kernel.start.since(self.call.end())
    }

    /// Kernels that start before their launch returns did not wait.
    fn latency(&self) -> Ns {
        self.wait().max(Ns::ZERO)
    }
}

/// Kernels that say nothing about launch latency, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct LeftOut {
    no_call: u64,
    other_call: u64,
    later_in_graph: u64,
}

/// Visits every launched kernel; of a graph's kernels the first alone, as the others wait for each other.
fn each_launched(context: &Context, visit: &mut dyn FnMut(Launched)) -> LeftOut {
    let trace = context.trace;
    let (mut left_out, mut graphs_seen) = (LeftOut::default(), vec![0_u64; trace.calls.len() / 64 + 1]);
    let ops = trace.gpu_ops.iter().zip(trace.gpu_ops.launches()).enumerate();
    for (at, (kernel, id)) in ops.filter(|(_, (op, _))| op.kind == OpKind::Kernel) {
        let id = id.map_or(usize::MAX, |id| id.0 as usize);
        let Some(call) = trace.calls.get(id) else {
            left_out.no_call += 1;
            continue;
        };
        match context.call_kind(call.name) {
            CallKind::Launch => visit(Launched { at, kernel, call }),
            CallKind::GraphLaunch => {
                let Some(seen) = graphs_seen.get_mut(id / 64) else { continue };
                let bit = 1 << (id % 64);
                if *seen & bit == 0 {
                    visit(Launched { at, kernel, call });
                } else {
                    left_out.later_in_graph += 1;
                }
                *seen |= bit;
            }
            _ => left_out.other_call += 1,
        }
    }
    left_out
}

/// All latencies in order: four bytes each, and a few of more than four seconds.
#[derive(Debug, Default)]
struct Latencies {
    short: Vec<u32>,
    long: Vec<i64>,
}

impl Latencies {
    fn push(&mut self, latency: Ns) {
        match u32::try_from(latency.0) {
            Ok(short) => self.short.push(short),
            Err(_) => self.long.push(latency.0),
        }
    }

    fn len(&self) -> usize {
        self.short.len() + self.long.len()
    }

    fn iter(&self) -> impl Iterator<Item = i64> {
        self.short.iter().map(|&short| i64::from(short)).chain(self.long.iter().copied())
    }

    /// Once sorted, whatever is long comes after whatever is short.
    fn sort(&mut self) {
        self.short.sort_unstable();
        self.long.sort_unstable();
    }

    fn percentile_us(&self, percent: u64) -> Value {
        let at = |place: usize| match self.short.get(place) {
            Some(&short) => Some(i64::from(short)),
            None => self.long.get(place - self.short.len()).copied(),
        };
        Value::from(interpolate(self.len(), percent, &at).map(|ns| ns / 1e3))
    }
}

/// The kernels that waited longest, and how long kernels wait.
pub(super) fn launch_latency_rows(context: &Context) -> Section {
    const TITLE: &str = "Launch latency";
    let trace = context.trace;
    let (mut longest, mut latencies, mut early, mut sum) = (Longest::new(SHOWN), Latencies::default(), 0_u64, 0_i128);
    latencies.short.reserve_exact(launched_at_most(context));
    let left_out = each_launched(context, &mut |launched| {
        let latency = launched.latency();
        longest.offer(latency, launched.kernel.start, 0, launched.at);
        latencies.push(latency);
        early += u64::from(launched.wait() < Ns::ZERO);
        sum += i128::from(latency.0);
    });
    if latencies.len() == 0 {
        return missing(context, TITLE, &COLUMNS);
    }
    latencies.sort();
    let mut section = section(TITLE, &COLUMNS, left_out);
    if early > 0 {
        section.limits.push(format!("{early} kernels began before their launch call returned; they count as zero."));
    }
    section.figure("count", latencies.len());
    section.figure("mean_us", sum as f64 / latencies.len() as f64 / 1e3);
    for (name, percent) in [("p50_us", 50), ("p95_us", 95), ("p99_us", 99), ("max_us", 100)] {
        section.figure(name, latencies.percentile_us(percent));
    }
    for long in longest.ranked() {
        let call = trace.gpu_ops.launch(long.at()).and_then(|call| trace.calls.get(call.0 as usize));
        let (Some(kernel), Some(call)) = (trace.gpu_ops.get(long.at()), call) else { continue };
        section.row([
            labels::pid(trace, kernel.process),
            labels::stream(&kernel),
            trace.calls.names.get(call.name).into(),
            labels::kernel(trace, kernel.name),
            call.start.into(),
            call.end().into(),
            kernel.start.into(),
            kernel.end().into(),
            Value::us(long.duration),
        ]);
    }
    section.rows_in_all = latencies.len() as u64;
    section
}

/// How many kernels waited how long.
pub(super) fn launch_latency_histogram(context: &Context) -> Section {
    const TITLE: &str = "Launch latency, histogram";
    let mut latencies = Latencies::default();
    latencies.short.reserve_exact(launched_at_most(context));
    let left_out = each_launched(context, &mut |launched| latencies.push(launched.latency()));
    let Some(longest) = latencies.iter().max() else { return missing(context, TITLE, &HISTOGRAM_COLUMNS) };
    let bins = latencies.len().isqrt().clamp(MIN_BINS, MAX_BINS);
    let width_us = (longest as f64 / 1e3 / bins as f64).max(1e-6);
    let mut counts = vec![0_u64; bins];
    for latency in latencies.iter() {
        let bin = ((latency as f64 / 1e3 / width_us) as usize).min(bins - 1);
        counts.get_mut(bin).into_iter().for_each(|count| *count += 1);
    }
    let mut section = section(TITLE, &HISTOGRAM_COLUMNS, left_out);
    for (bin, count) in counts.into_iter().enumerate() {
        section.row([(bin as f64 * width_us).into(), ((bin + 1) as f64 * width_us).into(), count.into()]);
    }
    section
}

/// So that the latencies of millions of kernels never move to a larger place.
fn launched_at_most(context: &Context) -> usize {
    context.trace.gpu_ops.launches().filter(Option::is_some).count()
}

fn missing(context: &Context, title: &str, columns: &[&str]) -> Section {
    let trace = context.trace;
    let (why, lacks) = match (trace.gpu_ops.iter().any(|op| op.kind == OpKind::Kernel), trace.calls.is_empty()) {
        (false, _) => ("The trace holds no GPU kernels.", Lacks::Kernels),
        (true, true) => ("The trace holds no API calls.", Lacks::Calls),
        (true, false) => ("No kernel of the trace is linked to the call that launched it.", Lacks::Calls),
    };
    Section::missing(title, columns, why, &recapture::command(trace.format, lacks))
}

fn section(title: &str, columns: &[&str], left_out: LeftOut) -> Section {
    let mut section = Section::new(title, "launch calls and the kernels of the same process and correlation id", columns)
        .limit("A kernel may wait for the host or for earlier work on its stream: a long latency behind a busy stream is no fault.");
    for (count, what) in [
        (left_out.later_in_graph, "kernels follow another of the same graph launch and are left out."),
        (left_out.no_call, "kernels are linked to no call and are left out."),
        (left_out.other_call, "kernels were launched by calls that are no launch, such as copies, and are left out."),
    ] {
        if count > 0 {
            section.limits.push(format!("{count} {what}"));
        }
    }
    section
}
