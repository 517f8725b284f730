//! When the GPU works for each step whose host range is known: from the first start to the last end of the ops launched in it. Two passes
//! over the ops.
//!
//! Steps of one process follow each other on its main stream: a step begins with its first op there. Ops that it runs on other streams
//! earlier count from the end of the work before, because engines launch small ops of a step while the step before still runs.

use super::launch_labels::LaunchLabels;
use super::timeline::Timeline;
use crate::ordering::{self, VecMap};
use crate::trace::{DeviceId, GpuOp, Ns, ProcessId, Trace};

/// First start and last end of the ops on one device that were launched in one step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    /// The label of the step in its timeline.
    pub(super) label: u32,
    pub(super) device: DeviceId,
    pub(super) start: Ns,
    pub(super) end: Ns,
    /// The first start on the main stream, and the end of the work there before it; `None` without an op there.
    on_main: Option<(Ns, Ns)>,
}

/// The extents of all steps, sorted by label and device. `timelines` has one timeline per process.
pub(super) fn launched_extents(trace: &Trace, timelines: &[Timeline]) -> Vec<Extent> {
    if timelines.iter().all(Timeline::is_empty) {
        return Vec::new();
    }
    let (extents, current) = (Vec::new(), vec![usize::MAX; trace.devices.len()]);
    let main_streams = main_streams(trace);
    let main_ends = vec![Ns(i64::MIN); main_streams.len()];
    let mut collector = ExtentCollector { extents, current, main_streams, main_ends };
    collector.add_ops(trace, &mut LaunchLabels::new(trace, timelines));
    let mut extents = collector.extents;
    ordering::sort_by_key(&mut extents, |extent| (extent.label, extent.device));
    extents.dedup_by(|next, kept| {
        let is_same = (kept.label, kept.device) == (next.label, next.device);
        if is_same {
            (kept.start, kept.end) = (kept.start.min(next.start), kept.end.max(next.end));
            kept.on_main = kept.on_main.into_iter().chain(next.on_main).min();
        }
        is_same
    });
    for extent in &mut extents {
        let earliest = extent.on_main.map_or(extent.start, |(start, end_before)| start.min(end_before));
        extent.start = extent.start.max(earliest);
    }
    extents
}

/// For each position of [`GpuOps::streams`](crate::trace::GpuOps::streams): the number of its process and device, if they have most work
/// on this stream.
fn main_streams(trace: &Trace) -> Vec<Option<usize>> {
    let ops = &trace.gpu_ops;
    let mut works = vec![Ns::ZERO; ops.owners().count()];
    for (row, (_, duration)) in ops.times().enumerate() {
        let own = ops.stream_index(row).and_then(|lane| works.get_mut(lane));
        own.into_iter().for_each(|work| *work += duration);
    }
    let lanes = || ops.owners().zip(ops.streams().map(|(_, stream)| stream));
    let mut by_stream: VecMap<((DeviceId, ProcessId), i64), Ns> = VecMap::new();
    lanes().zip(works).for_each(|(lane, work)| by_stream.update(lane, Ns::ZERO, |sum| *sum += work));
    let mut main: VecMap<(DeviceId, ProcessId), (Ns, i64)> = VecMap::new();
    for ((owner, stream), work) in by_stream.into_vec() {
        main.update(owner, (work, stream), |most| *most = if work > most.0 { (work, stream) } else { *most });
    }
    let main = main.into_vec();
    let number = |(owner, stream)| {
        let number = main.binary_search_by_key(&owner, |(owner, _)| *owner).ok()?;
        main.get(number).is_some_and(|(_, most)| most.1 == stream).then_some(number)
    };
    lanes().map(number).collect()
}

/// Collects extents in one pass over the ops. It may produce several extents of one label and device.
struct ExtentCollector {
    extents: Vec<Extent>,
    /// By device: the index of its last extent, because consecutive ops of a device mostly belong to one step.
    current: Vec<usize>,
    /// See [`main_streams`].
    main_streams: Vec<Option<usize>>,
    /// By their numbers: the latest end on the main stream so far.
    main_ends: Vec<Ns>,
}

impl ExtentCollector {
    fn add_ops(&mut self, trace: &Trace, labels: &mut LaunchLabels) {
        for (row, op) in trace.gpu_ops.iter().enumerate() {
            let main = trace.gpu_ops.stream_index(row).and_then(|lane| self.main_streams.get(lane).copied().flatten());
            let end_on_main = main.and_then(|main| self.main_ends.get_mut(main));
            let end_before = end_on_main.map(|end| std::mem::replace(end, op.end().max(*end)));
            let label = labels.of_op(row, op.process);
            label.into_iter().for_each(|label| self.extend(label, &op, end_before));
        }
    }

    /// `end_before` is the end of the work before the op on the main stream, if the op runs there.
    fn extend(&mut self, label: u32, op: &GpuOp, end_before: Option<Ns>) {
        let (device, start, end) = (op.device, op.start, op.end());
        let on_main = end_before.map(|end_before| (start, end_before));
        let Some(current) = self.current.get_mut(device.0 as usize) else { return };
        match self.extents.get_mut(*current) {
            Some(extent) if extent.label == label => {
                extent.end = extent.end.max(end);
                extent.on_main = extent.on_main.or(on_main);
            }
            _ => {
                *current = self.extents.len();
                self.extents.push(Extent { label, device, start, end, on_main });
            }
        }
    }
}
