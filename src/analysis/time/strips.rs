//! Timeline overview: time by category in columns of equal width, one strip per device and stream. One pass
//! over the ops, which also visits every column that an op overlaps.
//!
//! Overlapping time belongs to the op that started first, as in the first-come attribution, so the strip of a
//! device adds up to its busy time. Time in which only graphs run that were traced as a whole is a category of its own.

use crate::analysis::categories::Categories;
use crate::analysis::time::busy::graphs_alone;
use crate::analysis::time::long_gaps::LongGaps;
use crate::json::from_json;
use crate::ordering;
use crate::ordering::VecMap;
use crate::rules::{GRAPHS, RuleSet, names};
use crate::trace::{DeviceId, Ns, Trace, Window};
use serde::Serialize;

/// All strips of a trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Strips {
    /// First start to last end of the GPU ops, and of graphs that were traced as a whole.
    pub whole: Window,
    /// The categories, in the order used by [`Strip::times`] and [`Strip::columns`].
    pub categories: Vec<String>,
    /// Each of the busiest devices, followed by the busiest streams of the device sorted by number.
    pub strips: Vec<Strip>,
    /// The number of streams of these devices that have no strip.
    pub streams_left_out: usize,
    /// The number of devices that have no strip.
    pub devices_left_out: usize,
}
from_json!(Strips { whole, categories, strips, streams_left_out, devices_left_out });

/// One device or stream.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Strip {
    /// The device id in the trace.
    pub device: String,
    /// `None` for the whole device.
    pub stream: Option<i64>,
    /// Time with at least one op or graph running.
    pub busy: Ns,
    /// `busy` over the length of the whole trace, without the time in which the device executed work that the trace does not contain.
    pub busy_share: f64,
    /// Time by category.
    pub times: Vec<Ns>,
    /// Time by column, then by category.
    pub columns: Vec<Vec<Ns>>,
}
from_json!(Strip { device, stream, busy, busy_share, times, columns });

/// The largest number of strips for streams; more would not be readable.
const MAX_STREAMS: usize = 8;
/// The largest number of strips for devices. Each costs a value per column and category.
const MAX_DEVICES: usize = 256;

struct StripBuilder {
    /// The latest end of its ops so far.
    busy_until: Ns,
    /// The column of the last op, and its end: columns are divisions of large numbers, and few ops leave the column.
    column: usize,
    column_end: Ns,
    busy: Ns,
    /// At `column * categories + category`.
    times: Vec<Ns>,
}

/// Divides the whole trace into `columns` columns (1 to 4,096); `None` if it has no GPU ops.
pub fn strips(trace: &Trace, rules: &RuleSet, columns: usize) -> Option<Strips> {
    let whole = trace.span()?;
    let columns = columns.clamp(1, 4_096);
    let (mut categories, category_of) = categories(trace, rules);
    categories.extend((!trace.graph_replays.is_empty()).then(|| GRAPHS.to_owned()));
    let Lanes { lanes, streams_left_out, devices_left_out } = Lanes::of(trace);
    let mut builders: Vec<StripBuilder> =
        lanes.iter().map(|_| StripBuilder::new(whole, columns * categories.len())).collect();
    let scale = Scale { whole, columns, categories: categories.len() };
    let lane = |lane: (DeviceId, Option<i64>)| lanes.binary_search(&lane).ok();
    let streams = trace.gpu_ops.streams();
    let lanes_of_streams: Vec<_> =
        streams.map(|(device, stream)| [lane((device, None)), lane((device, Some(stream)))]).collect();
    let mut long_gaps = LongGaps::new(trace);
    for (row, op) in trace.gpu_ops.iter().enumerate() {
        long_gaps.add(row, &op);
        let lanes = trace.gpu_ops.stream_index(row).and_then(|stream| lanes_of_streams.get(stream));
        let category = category_of.get(op.name.0 as usize).copied().unwrap_or(0);
        for lane in lanes.into_iter().flatten().flatten() {
            if let Some(builder) = builders.get_mut(*lane) {
                builder.add(op.start, op.end(), category, &scale);
            }
        }
    }
    let graphs = graphs_alone(trace, trace.devices.len(), &|device| device.0 as usize);
    for ((device, _), builder) in lanes.iter().zip(&mut builders).filter(|((_, stream), _)| stream.is_none()) {
        builder.add_apart(graphs.get(device.0 as usize).map_or(&[], Vec::as_slice), categories.len() - 1, &scale);
    }
    let width = categories.len().max(1);
    let unseen = long_gaps.unseen(trace);
    let seen_ns = |device: DeviceId| scale.length() - unseen.get(device.0 as usize).map_or(0, |time| time.0);
    let strips = lanes.iter().zip(builders).map(|((device, stream), builder)| Strip {
        device: trace.devices.get(device.0 as usize).map(|device| device.id.clone()).unwrap_or_default(),
        stream: *stream,
        busy: builder.busy,
        busy_share: builder.busy.0 as f64 / seen_ns(*device).max(1) as f64,
        times: (0..width).map(|category| builder.time_of(category, width)).collect(),
        columns: builder.times.chunks(width).map(<[Ns]>::to_vec).collect(),
    });
    let strips = strips.collect();
    Some(Strips { whole, categories, strips, streams_left_out, devices_left_out })
}

/// Returns the distinct categories, and for each op name the index of its category.
pub(crate) fn categories(trace: &Trace, rules: &RuleSet) -> (Vec<String>, Vec<usize>) {
    let mut categories: Vec<String> = Vec::new();
    let by_rules = Categories::new(trace, rules);
    let mut category_index = |name: &str| {
        let (category, _) = by_rules.of(name, &names::demangle(name));
        categories.iter().position(|other| other == category).unwrap_or_else(|| {
            categories.push(category.to_owned());
            categories.len() - 1
        })
    };
    let by_name = trace.names.iter().map(&mut category_index).collect();
    (categories, by_name)
}

/// Returns all streams with the sum of the durations of their ops, sorted by device and number.
fn stream_times(trace: &Trace) -> Vec<((DeviceId, i64), Ns)> {
    let mut times = vec![Ns::ZERO; trace.gpu_ops.streams().count()];
    for (row, (_, duration)) in trace.gpu_ops.times().enumerate() {
        let time = trace.gpu_ops.stream_index(row).and_then(|stream| times.get_mut(stream));
        time.into_iter().for_each(|time| *time += duration);
    }
    let mut sums: VecMap<(DeviceId, i64), Ns> = VecMap::new();
    for (stream, time) in trace.gpu_ops.streams().zip(times) {
        sums.update(stream, Ns::ZERO, |sum| *sum += time);
    }
    sums.into_vec()
}

/// Those of the devices with the most work, sorted.
fn busiest_devices(trace: &Trace, streams: &[((DeviceId, i64), Ns)]) -> Vec<DeviceId> {
    let mut times: Vec<(DeviceId, Ns)> =
        (0..).map(DeviceId).take(trace.devices.len()).map(|device| (device, Ns::ZERO)).collect();
    let of_streams = streams.iter().map(|((device, _), time)| (*device, *time));
    for (device, time) in of_streams.chain(trace.graph_replays.iter().map(|replay| (replay.device, replay.duration))) {
        times.get_mut(device.0 as usize).into_iter().for_each(|(_, sum)| *sum += time);
    }
    ordering::sort_by_key(&mut times, |(_, time)| std::cmp::Reverse(*time));
    times.truncate(MAX_DEVICES);
    let mut devices: Vec<DeviceId> = times.into_iter().map(|(device, _)| device).collect();
    ordering::sort_by_key(&mut devices, |device| *device);
    devices
}

/// What has a strip.
struct Lanes {
    /// Each device followed by those of its streams that are among the busiest. The stream of a device with only one stream gets
    /// no lane of its own. Sorted.
    lanes: Vec<(DeviceId, Option<i64>)>,
    streams_left_out: usize,
    devices_left_out: usize,
}

impl Lanes {
    fn of(trace: &Trace) -> Self {
        let times = stream_times(trace);
        let devices = busiest_devices(trace, &times);
        let of_device = times.chunk_by(|((one, _), _), ((other, _), _)| one == other);
        let several = of_device.filter(|streams| {
            streams.len() > 1 && streams.first().is_some_and(|((device, _), _)| devices.binary_search(device).is_ok())
        });
        let mut streams: Vec<_> = several.flatten().filter(|((_, stream), _)| *stream >= 0).collect();
        ordering::sort_by_key(&mut streams, |(_, busy)| std::cmp::Reverse(*busy));
        let streams_left_out = streams.len().saturating_sub(MAX_STREAMS);
        streams.truncate(MAX_STREAMS);
        let devices_left_out = trace.devices.len() - devices.len();
        let mut lanes: Vec<(DeviceId, Option<i64>)> = devices.into_iter().map(|device| (device, None)).collect();
        lanes.extend(streams.iter().map(|((device, stream), _)| (*device, Some(*stream))));
        ordering::sort_by_key(&mut lanes, |lane| *lane);
        Self { lanes, streams_left_out, devices_left_out }
    }
}

/// Maps times to columns and back.
struct Scale {
    whole: Window,
    columns: usize,
    categories: usize,
}

impl Scale {
    fn column(&self, time: Ns) -> usize {
        let (offset, length) = (i128::from(time.since(self.whole.start).0), i128::from(self.length()));
        usize::try_from(offset * self.columns as i128 / length).unwrap_or(0).min(self.columns - 1)
    }

    /// Returns the first nanosecond after those that [`Scale::column`] maps to this column. The last column has no end.
    fn end(&self, column: usize) -> Ns {
        if column + 1 >= self.columns {
            return Ns(i64::MAX);
        }
        let columns = self.columns as i128;
        let offset = (i128::from(self.length()) * (column as i128 + 1) + columns - 1) / columns;
        self.whole.start + Ns(i64::try_from(offset).unwrap_or(i64::MAX))
    }

    fn length(&self) -> i64 {
        self.whole.length().0.max(1)
    }
}

impl StripBuilder {
    fn new(whole: Window, cells: usize) -> Self {
        let busy_until = whole.start;
        Self { busy_until, column: 0, column_end: busy_until, busy: Ns::ZERO, times: vec![Ns::ZERO; cells] }
    }

    fn time_of(&self, category: usize, categories: usize) -> Ns {
        self.times.iter().skip(category).step_by(categories).fold(Ns::ZERO, |sum, time| sum + *time)
    }

    /// Adds intervals in which no op runs, after all ops.
    fn add_apart(&mut self, intervals: &[(Ns, Ns)], category: usize, scale: &Scale) {
        (self.busy_until, self.column_end) = (scale.whole.start, scale.whole.start);
        intervals.iter().for_each(|(start, end)| self.add(*start, *end, category, scale));
    }

    fn add(&mut self, start: Ns, end: Ns, category: usize, scale: &Scale) {
        let from = start.max(self.busy_until);
        if end <= from {
            return;
        }
        self.busy_until = end;
        self.busy += end.since(from);
        let mut now = from;
        while now < end {
            if now >= self.column_end {
                self.column = scale.column(now);
                self.column_end = scale.end(self.column);
            }
            let until = self.column_end.min(end);
            if let Some(time) = self.times.get_mut(self.column * scale.categories + category) {
                *time += until.since(now);
            }
            now = until;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::testing::analyze;
    use crate::rules::RuleBook;
    use crate::trace::testing::TestTrace;
    use proptest::prelude::*;

    fn trace(ops: &[(i64, i64, u32, i64)]) -> Trace {
        let mut trace = TestTrace::new();
        for &(start, duration, device, stream) in ops {
            let name = if stream % 2 == 0 { "gemm_kernel" } else { "ncclKernel_AllReduce" };
            trace.device(device).stream(stream).kernel(name, start..start + duration);
        }
        trace.finish()
    }

    fn strips_of(trace: &Trace, columns: usize) -> Option<Strips> {
        strips(trace, RuleBook::gpuprism_default().unwrap(), columns)
    }

    #[test]
    fn a_column_has_the_time_by_category_and_overlap_counts_once() {
        // Device 0: 0..40 gemm on stream 2, 30..60 communication on stream 3; four columns of 25.
        let found = strips_of(&trace(&[(0, 40, 0, 2), (30, 30, 0, 3), (90, 10, 0, 2)]), 4).unwrap();
        assert_eq!(found.categories, ["gemm", "communication"]);
        let strips: Vec<_> = found.strips.iter().map(|strip| (strip.stream, strip.busy.0, sums(strip))).collect();
        assert_eq!(
            strips,
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

    /// Device 0: 0..20 gemm on stream 2, a graph of 10..60 while it runs and alone, a graph of 90..100; two columns of 50.
    #[test]
    fn graphs_that_were_traced_as_a_whole_have_the_time_in_which_no_op_runs() {
        let mut trace = TestTrace::new();
        let found = strips_of(&trace.kernel("gemm_kernel", 0..20).replay(10..60).replay(90..100).finish(), 2).unwrap();
        assert_eq!(
            (found.whole.length(), found.categories.as_slice()),
            (Ns(100), &["gemm".to_owned(), GRAPHS.to_owned()][..])
        );
        let [device] = found.strips.as_slice() else { panic!("{found:?}") };
        assert_eq!((device.busy, device.busy_share, sums(device)), (Ns(70), 0.7, vec![vec![20, 30], vec![0, 20]]));
    }

    #[test]
    fn the_busy_share_leaves_out_the_time_of_unseen_work() {
        let share = |call_end_us: i64| {
            let mut trace = TestTrace::new();
            trace.in_us().kernel("gemm", 0..1_000);
            trace.launch(900..call_end_us).launches("gemm", 99_000..100_000);
            strips_of(&trace.finish(), 10).unwrap().strips[0].busy_share
        };
        assert_eq!(share(1_000), 1.0, "98 ms between the launch and the op are work that the trace does not contain");
        assert_eq!(share(98_990), 0.02, "the host launched late");
    }

    #[test]
    fn a_device_with_one_stream_has_one_strip_and_streams_left_out_are_counted() {
        assert_eq!(strips_of(&trace(&[(0, 5, 0, 7), (9, 5, 1, 7)]), 10).unwrap().strips.len(), 2);
        let many: Vec<_> = (0..11).map(|stream| (stream * 10, 5 + stream, 0, stream)).collect();
        let found = strips_of(&trace(&many), 10).unwrap();
        assert_eq!((found.strips.len(), found.streams_left_out), (9, 3));
        assert_eq!(found.strips.last().unwrap().stream, Some(10), "the busiest streams, sorted by number");
        assert_eq!(strips_of(&trace(&[]), 10), None);
    }

    #[test]
    fn the_busiest_devices_have_strips_and_those_left_out_are_counted() {
        let ops: Vec<_> = (0..300).map(|device| (i64::from(device), 1 + i64::from(device), device, 0)).collect();
        let found = strips_of(&trace(&ops), 2).unwrap();
        let shown: Vec<&str> = found.strips.iter().map(|strip| strip.device.as_str()).collect();
        assert_eq!((shown.len(), shown.first(), shown.last()), (MAX_DEVICES, Some(&"44"), Some(&"299")));
        assert_eq!((found.devices_left_out, found.streams_left_out), (44, 0));
    }

    proptest! {
        #[test]
        fn columns_add_up_to_the_busy_time(
            ops in prop::collection::vec((-50_i64..5_000, 0_i64..700, 0_u32..2, 0_i64..3), 1..40),
            columns in 1_usize..700,
        ) {
            let trace = trace(&ops);
            let found = strips_of(&trace, columns).unwrap();
            let run = analyze(&trace);
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
