//! Overview strips: what each device and stream did over time, column by column.
//!
//! In a column every instant belongs to the op that started first, as in the bars under first come; a device's strip
//! thus adds up to its busy time.

use crate::ordering::VecMap;
use crate::rules::{RuleSet, names};
use crate::trace::{DeviceId, Ns, Trace, Window};

/// All strips of a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Strips {
    /// First start to last end of the GPU ops.
    pub whole: Window,
    /// The categories that columns count.
    pub categories: Vec<String>,
    /// Each device, and behind it its busiest streams by number.
    pub strips: Vec<Strip>,
    /// Streams that have no strip of their own.
    pub streams_left_out: usize,
}

/// One device or stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Strip {
    /// As the trace numbers it.
    pub device: String,
    /// `None` for the whole device.
    pub stream: Option<i64>,
    /// Time with at least one op running.
    pub busy: Ns,
    /// That over the whole trace's length.
    pub busy_share: f64,
    /// By category: time.
    pub times: Vec<Ns>,
    /// By column, then by category: time.
    pub columns: Vec<Vec<Ns>>,
}

/// More streams than this are not told apart at a glance.
const STREAMS: usize = 8;

/// A strip while ops are added: how far its time is taken, and what the columns hold, by column and category.
struct Filling {
    reach: Ns,
    busy: Ns,
    times: Vec<Ns>,
}

/// Cuts the whole trace into so many columns; `None` where it has no GPU op.
pub fn strips(trace: &Trace, rules: &RuleSet, columns: usize) -> Option<Strips> {
    let whole = trace.span()?;
    let columns = columns.clamp(1, 4_096);
    let (categories, category_of) = categories(trace, rules);
    let (lanes, streams_left_out) = lanes(trace);
    let mut fillings: Vec<Filling> = lanes.iter().map(|_| Filling::new(whole, columns * categories.len())).collect();
    let scale = Scale { whole, columns, categories: categories.len() };
    let device_lane = |device: DeviceId| lanes.iter().position(|lane| *lane == (device, None));
    let stream_lane = |device: DeviceId, stream: i64| lanes.iter().position(|lane| *lane == (device, Some(stream)));
    let mut last = None;
    for op in trace.gpu_ops.iter() {
        let key = (op.device, op.stream);
        let (of_device, of_stream) = match last {
            Some((known, found)) if known == key => found,
            _ => (device_lane(op.device), stream_lane(op.device, op.stream)),
        };
        last = Some((key, (of_device, of_stream)));
        let category = category_of.get(op.name.0 as usize).copied().unwrap_or(0);
        for lane in [of_device, of_stream].into_iter().flatten() {
            if let Some(filling) = fillings.get_mut(lane) {
                filling.add(op.start, op.end(), category, &scale);
            }
        }
    }
    let width = categories.len().max(1);
    let strips = lanes.iter().zip(fillings).map(|((device, stream), filling)| Strip {
        device: trace.devices.get(device.0 as usize).map(|device| device.id.clone()).unwrap_or_default(),
        stream: *stream,
        busy: filling.busy,
        busy_share: filling.busy.0 as f64 / scale.length() as f64,
        times: (0..width).map(|category| filling.time_of(category, width)).collect(),
        columns: filling.times.chunks(width).map(<[Ns]>::to_vec).collect(),
    });
    let strips = strips.collect();
    Some(Strips { whole, categories, strips, streams_left_out })
}

/// Distinct categories, and by name of op the place of its category.
fn categories(trace: &Trace, rules: &RuleSet) -> (Vec<String>, Vec<usize>) {
    let mut categories: Vec<String> = Vec::new();
    let mut place = |name: &str| {
        let category = rules.category(name, &names::demangle(name));
        categories.iter().position(|known| known == category).unwrap_or_else(|| {
            categories.push(category.to_owned());
            categories.len() - 1
        })
    };
    let of_name = trace.names.iter().map(&mut place).collect();
    (categories, of_name)
}

/// Streams with the sum of their durations.
fn streams_of(trace: &Trace) -> Vec<((DeviceId, i64), Ns)> {
    let mut sums: VecMap<(DeviceId, i64), Ns> = VecMap::new();
    for op in trace.gpu_ops.iter() {
        sums.update((op.device, op.stream), Ns::ZERO, |sum| *sum += op.duration);
    }
    sums.0
}

/// Each device, then its streams by number: the busiest of all, and how many are left out. A device's only stream is the
/// device.
fn lanes(trace: &Trace) -> (Vec<(DeviceId, Option<i64>)>, usize) {
    let mut streams = streams_of(trace);
    let is_alone = |device: DeviceId| streams.iter().filter(|((of, _), _)| *of == device).count() == 1;
    let alone: Vec<DeviceId> =
        streams.iter().map(|((device, _), _)| *device).filter(|device| is_alone(*device)).collect();
    streams.retain(|((device, stream), _)| !alone.contains(device) && *stream >= 0);
    streams.sort_by_key(|(_, busy)| std::cmp::Reverse(*busy));
    let left_out = streams.len().saturating_sub(STREAMS);
    streams.truncate(STREAMS);
    let used = (0..).map(DeviceId).take(trace.devices.len());
    let mut lanes: Vec<(DeviceId, Option<i64>)> = used.map(|device| (device, None)).collect();
    lanes.extend(streams.iter().map(|((device, stream), _)| (*device, Some(*stream))));
    lanes.sort_by_key(|(device, stream)| (*device, *stream));
    (lanes, left_out)
}

/// Where times lie among columns.
struct Scale {
    whole: Window,
    columns: usize,
    categories: usize,
}

impl Scale {
    fn column(&self, time: Ns) -> usize {
        let (along, length) = (i128::from(time.since(self.whole.start).0), i128::from(self.length()));
        usize::try_from(along * self.columns as i128 / length).unwrap_or(0).min(self.columns - 1)
    }

    /// Where a column begins.
    fn start(&self, column: usize) -> Ns {
        let along = i128::from(self.length()) * column as i128;
        let columns = self.columns as i128;
        // The first instant that `column` puts there.
        let along = (along + columns - 1) / columns;
        self.whole.start + Ns(i64::try_from(along).unwrap_or(i64::MAX))
    }

    fn length(&self) -> i64 {
        self.whole.length().0.max(1)
    }
}

impl Filling {
    fn new(whole: Window, cells: usize) -> Self {
        Self { reach: whole.start, busy: Ns::ZERO, times: vec![Ns::ZERO; cells] }
    }

    fn time_of(&self, category: usize, categories: usize) -> Ns {
        self.times.iter().skip(category).step_by(categories).fold(Ns::ZERO, |sum, time| sum + *time)
    }

    fn add(&mut self, start: Ns, end: Ns, category: usize, scale: &Scale) {
        let from = start.max(self.reach);
        if end <= from {
            return;
        }
        self.reach = end;
        self.busy += end.since(from);
        let mut at = from;
        let mut column = scale.column(at);
        while at < end {
            let next = if column + 1 < scale.columns { scale.start(column + 1) } else { end };
            let until = next.min(end).max(at);
            if let Some(slot) = self.times.get_mut(column * scale.categories + category) {
                *slot += until.since(at);
            }
            at = until;
            column += 1;
            if column >= scale.columns {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::RuleBook;
    use crate::trace::{Format, GpuOp, OpKind, ProcessId, TraceBuilder};
    use proptest::prelude::*;

    fn trace(ops: &[(i64, i64, u32, i64)]) -> Trace {
        let mut builder = TraceBuilder::new("t", Format::TorchProfiler);
        for &(start, duration, device, stream) in ops {
            let device = builder.device(&device.to_string(), "");
            let name = builder.trace.names.intern(if stream % 2 == 0 { "gemm_kernel" } else { "ncclKernel_AllReduce" });
            let (start, duration) = (Ns(start), Ns(duration));
            let op = GpuOp { start, duration, name, device, stream, process: ProcessId(0), kind: OpKind::Kernel };
            builder.trace.gpu_ops.push(op, None);
        }
        builder.finish()
    }

    fn strips_of(trace: &Trace, columns: usize) -> Option<Strips> {
        strips(trace, &RuleBook::embedded().select("gpuprism", "default").unwrap(), columns)
    }

    #[test]
    fn a_column_holds_the_time_of_each_category_and_an_overlap_once() {
        // Device 0: 0..40 gemm on stream 2, 30..60 communication on stream 3; four columns of 25.
        let found = strips_of(&trace(&[(0, 40, 0, 2), (30, 30, 0, 3), (90, 10, 0, 2)]), 4).unwrap();
        assert_eq!(found.categories, ["gemm", "communication"]);
        let told: Vec<_> = found.strips.iter().map(|strip| (strip.stream, strip.busy.0, sums(strip))).collect();
        assert_eq!(
            told,
            [
                (None, 70, vec![vec![25, 0], vec![15, 10], vec![0, 10], vec![10, 0]]),
                (Some(2), 50, vec![vec![25, 0], vec![15, 0], vec![0, 0], vec![10, 0]]),
                (Some(3), 30, vec![vec![0, 0], vec![0, 20], vec![0, 10], vec![0, 0]]),
            ]
        );
    }

    fn sums(strip: &Strip) -> Vec<Vec<i64>> {
        strip.columns.iter().map(|column| column.iter().map(|time| time.0).collect()).collect()
    }

    #[test]
    fn a_device_with_one_stream_has_one_strip_and_too_many_streams_are_counted() {
        assert_eq!(strips_of(&trace(&[(0, 5, 0, 7), (9, 5, 1, 7)]), 10).unwrap().strips.len(), 2);
        let many: Vec<_> = (0..11).map(|stream| (stream * 10, 5 + stream, 0, stream)).collect();
        let found = strips_of(&trace(&many), 10).unwrap();
        assert_eq!((found.strips.len(), found.streams_left_out), (9, 3));
        assert_eq!(found.strips.last().unwrap().stream, Some(10), "the busiest, by number");
        assert_eq!(strips_of(&trace(&[]), 10), None);
    }

    proptest! {
        #[test]
        fn columns_add_up_to_the_busy_time_however_many_there_are(
            ops in prop::collection::vec((-50_i64..5_000, 0_i64..700, 0_u32..2, 0_i64..3), 1..40),
            columns in 1_usize..700,
        ) {
            let trace = trace(&ops);
            let found = strips_of(&trace, columns).unwrap();
            let rules = RuleBook::embedded().select("gpuprism", "default").unwrap();
            let run = crate::analysis::analyze(&trace, &rules, &crate::analysis::Options::default());
            for device in &run.devices {
                let strip = found.strips.iter().find(|strip| strip.device == device.id && strip.stream.is_none());
                let strip = strip.unwrap();
                prop_assert_eq!(strip.columns.len(), columns);
                let sum: i64 = sums(strip).into_iter().flatten().sum();
                prop_assert_eq!((sum, strip.busy.0), (device.union_ns, device.union_ns));
                prop_assert_eq!(strip.times.iter().map(|time| time.0).sum::<i64>(), sum);
                prop_assert!(strip.busy_share == device.busy_share || run.totals.window_ns == 0);
            }
        }
    }
}
