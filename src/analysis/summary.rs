//! The aggregates of GPU ops that most sections read, and the two sweeps that compute them.
//!
//! [`OpTotals`] are needed for the first results (bars, kernels), [`OpDetails`] for the explaining sections.
//! One sweep over the ops sorted by start fills each struct; every field is a consumer of that sweep. All
//! fields are mergeable, so the window index can compute a window from its segments. To make a new aggregate
//! fast in windows, add it as a field here. [`KernelDurations`] have a sweep of their own: they take four bytes
//! a kernel, and only the kernel tables read them, so they are dropped before the details are computed.

use super::classified::ClassifiedTrace;
use super::communication::operations::Operations;
use super::host::blocking_calls::BlockingCalls;
use super::host::latencies::{LatencySweep, LaunchLatencies};
use super::index::{CutPoints, IdMap, MAX_SEGMENTS, MIN_OPS, Merge, WindowIndex};
use super::kernels::durations::KernelDurations;
use super::kernels::groups::{GroupSweep, Groups};
use super::structure::call_ranges::{CallRanges, CallRangesView};
use super::structure::kernel_time::KernelTimeByRange;
use super::time::attribution::{ShareSweep, Shares};
use super::time::long_gaps::LongGaps;
use super::time::survey::{DeviceWork, WorkSweep};
use super::time::work::{Replays, Work};
use crate::trace::{Ns, OpRows, Trace};

/// The aggregates that the first results are computed from.
#[derive(Debug)]
pub struct OpTotals {
    pub(crate) shares: Shares,
    pub(crate) groups: Groups,
    pub(crate) long_gaps: LongGaps,
}

impl OpTotals {
    /// The totals of all ops.
    pub fn of_all(trace: &Trace) -> Self {
        Self::of(trace, &trace.gpu_ops.all_rows())
    }

    /// The totals of the ops in these rows. Ops of other rows must not overlap them on the same device.
    pub fn of(trace: &Trace, rows: &OpRows) -> Self {
        let mut shares = ShareSweep::new(trace.devices.len(), trace.names.len());
        let mut groups = GroupSweep::default();
        let mut long_gaps = LongGaps::new(trace);
        trace.gpu_ops.for_each_grouped(trace.names.len(), rows, |grouped| {
            shares.add(grouped.op.name.0 as usize, grouped.op.device.0 as usize, &grouped.op);
            groups.add(&grouped);
            long_gaps.add(grouped.row, &grouped.op);
        });
        Self { shares: Shares::of(shares.finish()), groups: groups.groups, long_gaps }
    }
}

impl Merge for OpTotals {
    fn merge(&mut self, later: &Self, ids: &IdMap) {
        self.shares.merge(&later.shares, ids);
        self.groups.merge(&later.groups, ids);
        self.long_gaps.merge(&later.long_gaps, ids);
    }
}

#[derive(Debug)]
pub(crate) struct DetailSource<'a> {
    classified: &'a ClassifiedTrace<'a>,
    blocking: &'a BlockingCalls,
    ranges: CallRangesView<'a>,
    operations: Operations<'a>,
}

impl<'a> DetailSource<'a> {
    pub(crate) fn new(
        classified: &'a ClassifiedTrace<'a>,
        blocking: &'a BlockingCalls,
        ranges: CallRangesView<'a>,
    ) -> Self {
        Self { classified, blocking, ranges, operations: Operations::new(classified) }
    }
}

/// The aggregates of single ops that the explaining sections read.
#[derive(Debug)]
pub(crate) struct OpDetails {
    pub(crate) work: DeviceWork,
    pub(crate) latencies: LaunchLatencies,
    pub(crate) kernel_time: KernelTimeByRange,
}

impl OpDetails {
    /// Computes the details of the ops in these rows. Ops of other rows must not
    /// overlap them on the same device, and each call must have all its ops in these rows or none. All graph
    /// replays are visited too, so a trace with replays must pass all rows.
    pub(crate) fn of(source: &DetailSource, rows: &OpRows) -> Self {
        let DetailSource { classified, blocking, ranges, operations } = source;
        let trace = classified.trace;
        let mut work = WorkSweep::new(classified, blocking, operations);
        let mut latencies = LatencySweep::new(classified, rows);
        let mut kernel_time = KernelTimeByRange::new(classified, classified.signals.phases.len());
        let mut replays = Replays::of(classified);
        for (row, op) in trace.gpu_ops.iter_in(rows) {
            while let Some(replay) = replays.next_until(op.start) {
                work.add(&replay);
            }
            work.add(&Work::of_op(classified, row, &op));
            latencies.add(row, &op);
            kernel_time.add(classified, ranges, row, &op);
        }
        while let Some(replay) = replays.next_until(Ns(i64::MAX)) {
            work.add(&replay);
        }
        Self { work: work.finish(), latencies: latencies.finish(), kernel_time }
    }
}

impl Merge for OpDetails {
    fn merge(&mut self, later: &Self, ids: &IdMap) {
        self.work.merge(&later.work, ids);
        self.latencies.merge(&later.latencies, ids);
        self.kernel_time.merge(&later.kernel_time, ids);
    }
}

/// The aggregates of one segment of the window index.
#[derive(Debug)]
pub struct Summary {
    pub(crate) totals: OpTotals,
    pub(crate) details: OpDetails,
    pub(crate) durations: KernelDurations,
}

/// An index over segments of at least 4,096 ops; `None` if the trace cannot be cut.
pub fn window_index(trace: &Trace, ranges: &CallRanges) -> Option<WindowIndex<Summary>> {
    /// Average number of ops per group and segment. With fewer, the sums by group are as large as the ops and
    /// save no time.
    const MIN_OPS_OF_GROUP: usize = 8;
    window_index_of(trace, ranges, MIN_OPS.max(trace.gpu_ops.len() / MAX_SEGMENTS), MIN_OPS_OF_GROUP)
}

/// [`window_index`] with given limits; tests use smaller ones.
pub(crate) fn window_index_of(
    trace: &Trace,
    ranges: &CallRanges,
    min_ops: usize,
    min_ops_of_group: usize,
) -> Option<WindowIndex<Summary>> {
    // Graphs traced as a whole are not in the table of ops, so segments would miss them.
    let cuts = if trace.graph_replays.is_empty() { CutPoints::of(trace, min_ops)? } else { return None };
    let totals: Vec<OpTotals> = cuts.segments().map(|rows| OpTotals::of(trace, &rows)).collect();
    let groups: usize = totals.iter().map(|totals| totals.groups.len()).sum();
    if groups * min_ops_of_group > trace.gpu_ops.len() {
        return None;
    }
    let classified = ClassifiedTrace::new(trace);
    let blocking = BlockingCalls::of(&classified);
    let source = DetailSource::new(&classified, &blocking, ranges.view());
    let segments = cuts.segments().zip(totals).map(|(rows, totals)| {
        let details = OpDetails::of(&source, &rows);
        let durations = KernelDurations::of(&classified, &rows, &totals.groups);
        Summary { totals, details, durations }
    });
    let segments = segments.collect();
    Some(WindowIndex::new(trace, cuts, segments))
}
