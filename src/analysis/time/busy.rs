//! Time in which a device works, and the part of it in which the device runs only CUDA graphs that were traced as a whole. One sweep
//! over the work sorted by start, O(n).

use super::work::{Intervals, add_interval};
use crate::analysis::measure::union::added_to_union;
use crate::trace::{DeviceId, Ns, Trace};

/// Returns the length of the union of all ops and graphs of all devices.
pub(crate) fn busy_on_any_device(trace: &Trace) -> Ns {
    let (mut busy, mut busy_until) = (Ns::ZERO, None);
    for (start, duration) in trace.gpu_ops.times() {
        busy += added_to_union(&mut busy_until, start, start.after(duration));
    }
    graphs_alone(trace, 1, &|_| 0).iter().fold(busy, |sum, graphs| sum + length(graphs))
}

/// Returns for each timeline the time in which it runs graphs that were traced as a whole, and no op. Their kernels are not known, so
/// this is busy time that belongs to no kernel. `timeline_of` is the timeline of a device.
pub(crate) fn graphs_alone(trace: &Trace, timelines: usize, timeline_of: &dyn Fn(DeviceId) -> usize) -> Vec<Intervals> {
    let mut graphs = vec![Intervals::new(); timelines];
    if trace.graph_replays.is_empty() {
        return graphs;
    }
    let mut ops = graphs.clone();
    let add = |unions: &mut Vec<Intervals>, device, interval| {
        unions.get_mut(timeline_of(device)).into_iter().for_each(|union| add_interval(union, interval));
    };
    trace.graph_replays.iter().for_each(|replay| add(&mut graphs, replay.device, (replay.start, replay.end())));
    trace.gpu_ops.iter().for_each(|op| add(&mut ops, op.device, (op.start, op.end())));
    graphs.iter().zip(&ops).map(|(graphs, ops)| without(graphs, ops)).collect()
}

/// The length of disjoint intervals.
pub(crate) fn length(intervals: &Intervals) -> Ns {
    intervals.iter().fold(Ns::ZERO, |sum, (start, end)| sum + end.since(*start))
}

/// The parts of intervals that are not in `others`.
fn without(intervals: &Intervals, others: &Intervals) -> Intervals {
    let mut rest = Intervals::new();
    for (start, end) in intervals {
        let first = others.partition_point(|(_, to)| to <= start);
        let mut now = *start;
        for (from, to) in others.iter().skip(first).take_while(|(from, _)| from < end) {
            if *from > now {
                rest.push((now, *from));
            }
            now = now.max(*to);
        }
        if now < *end {
            rest.push((now, *end));
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::testing::TestTrace;

    /// A graph from 0 to 100 with an op from 20 to 50 and one that ends after it, and a graph on another device.
    #[test]
    fn a_graph_owns_the_time_in_which_no_op_of_its_timeline_runs() {
        let mut trace = TestTrace::nsys();
        trace.device(0).kernel("k", 20..50).kernel("k", 90..120).replay(0..100).device(1).replay(40..130);
        let trace = trace.finish();
        let ns = |intervals: &[(i64, i64)]| intervals.iter().map(|(from, to)| (Ns(*from), Ns(*to))).collect();
        let by_device: [Intervals; 2] = [ns(&[(0, 20), (50, 90)]), ns(&[(40, 130)])];
        assert_eq!(graphs_alone(&trace, 2, &|device| device.0 as usize), by_device);
        assert_eq!(graphs_alone(&trace, 1, &|_| 0), [ns(&[(0, 20), (50, 90), (120, 130)])]);
        assert_eq!(busy_on_any_device(&trace), Ns(130));
    }
}
