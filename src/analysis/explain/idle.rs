//! When a GPU ran nothing, and what it waited for.
//!
//! Causes are told as HolisticTraceAnalysis tells them, but for gaps of the whole device instead of one stream: the
//! host was late with the launch of the op that ends the gap; or the launch was made and the gap is as short as the one
//! between any two kernels; or something else, such as an event of another stream, held the op back.

use super::intervals::{Busy, Gap, Longest, each_gap};
use super::recapture::{self, Lacks};
use super::{Context, labels};
use crate::analysis::section::{Section, Value};
use crate::trace::{DeviceId, Ns};

const COLUMNS: [&str; 9] = [
    "device_id",
    "window_ms",
    "busy_ms",
    "idle_ms",
    "idle_pct_of_window",
    "host_wait_ms",
    "kernel_wait_ms",
    "other_wait_ms",
    "unknown_ms",
];
const GAP_COLUMNS: [&str; 5] = ["device_id", "gap_start_ns", "gap_end_ns", "gap_ms", "cause"];
const GAPS_SHOWN: usize = 50;
const DERIVED_FROM: &str = "start and end of kernels, copies, sets and whole graphs, and the calls that launched them";
/// A gap below this, with the launch made, is what any two kernels leave between them: the default of
/// HolisticTraceAnalysis.
const BETWEEN_KERNELS: Ns = Ns(30);

/// What a gap was spent waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    HostWait,
    KernelWait,
    Other,
    /// The trace does not tell which call launched what ended the gap.
    Unknown,
}

impl Cause {
    const ALL: [Self; 4] = [Self::HostWait, Self::KernelWait, Self::Other, Self::Unknown];

    pub(super) fn of(context: &Context, gap: &Gap) -> Self {
        let trace = context.trace;
        let launch = trace.gpu_ops.launch(gap.next).and_then(|call| trace.calls.get(call.0 as usize));
        match launch {
            None => Self::Unknown,
            Some(call) if call.start > gap.start => Self::HostWait,
            Some(_) if gap.end.since(gap.start) < BETWEEN_KERNELS => Self::KernelWait,
            Some(_) => Self::Other,
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::HostWait => "host_wait",
            Self::KernelWait => "kernel_wait",
            Self::Other => "other",
            Self::Unknown => "unknown",
        }
    }
}

/// How long each device was idle between its first and last op, and why.
pub(super) fn gpu_idle(context: &Context) -> Section {
    const TITLE: &str = "Idle time of GPUs";
    let mut by_cause = vec![[Ns::ZERO; Cause::ALL.len()]; context.trace.devices.len()];
    let devices = each_gap(context, &mut |gap| {
        let waits = by_cause.get_mut(gap.device).and_then(|waits| waits.get_mut(Cause::of(context, &gap) as usize));
        waits.into_iter().for_each(|wait| *wait += gap.end.since(gap.start));
    });
    if devices.iter().all(Option::is_none) {
        return missing(context, TITLE, &COLUMNS);
    }
    let mut section = section(context, TITLE, &COLUMNS);
    for (device, (busy, waits)) in (0..).zip(devices.iter().zip(by_cause)) {
        let Some(Busy { first, last, busy }) = *busy else { continue };
        let (window, [host, kernel, other, unknown]) = (last.since(first), waits.map(Value::ms));
        let idle = window.since(busy);
        section.row([
            labels::device(context.trace, DeviceId(device)),
            Value::ms(window),
            Value::ms(busy),
            Value::ms(idle),
            Value::pct(idle, window),
            host,
            kernel,
            other,
            unknown,
        ]);
    }
    section
}

/// The longest gaps of all devices.
pub(super) fn gpu_idle_gaps(context: &Context) -> Section {
    const TITLE: &str = "Longest idle gaps";
    let mut longest = Longest::new(GAPS_SHOWN);
    let devices = each_gap(context, &mut |gap| longest.offer(gap.end.since(gap.start), gap.start, 0, gap.next));
    if devices.iter().all(Option::is_none) {
        return missing(context, TITLE, &GAP_COLUMNS);
    }
    let mut section = section(context, TITLE, &GAP_COLUMNS);
    let seen = longest.seen;
    for gap in longest.ranked().filter_map(|long| gap_before(context, long.start(), long.at())) {
        let cause = Cause::of(context, &gap).word();
        let device = labels::device(context.trace, DeviceId(gap.device as u32));
        section.row([device, gap.start.into(), gap.end.into(), Value::ms(gap.end.since(gap.start)), cause.into()]);
    }
    section.rows_in_all = seen;
    section
}

/// The gap from `start` to the work at this place.
pub(super) fn gap_before(context: &Context, start: Ns, next: usize) -> Option<Gap> {
    let trace = context.trace;
    let (end, device) = match trace.gpu_ops.get(next) {
        Some(op) => (op.start, op.device),
        None => trace.graph_replays.get(next - trace.gpu_ops.len()).map(|replay| (replay.start, replay.device))?,
    };
    Some(Gap { device: device.0 as usize, start, end, next })
}

fn missing(context: &Context, title: &str, columns: &[&str]) -> Section {
    let recapture = recapture::command(context.trace.format, Lacks::Kernels);
    Section::missing(title, columns, "The trace holds no GPU ops.", &recapture)
}

fn section(context: &Context, title: &str, columns: &[&str]) -> Section {
    let section = Section::new(title, DERIVED_FROM, columns)
        .limit("A device's window is from its first op to its last; time before and after is not counted.")
        .limit("A cause is read off the launch of the op that ends the gap; ops of one graph share one launch.");
    if context.trace.calls.is_empty() {
        return section.limit(format!(
            "The trace holds no API calls, so that no cause is known. To capture them: {}",
            recapture::command(context.trace.format, Lacks::Calls)
        ));
    }
    section
}
