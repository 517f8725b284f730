//! A trace in pieces that share nothing, each summed up once: what a window of millions of ops tells is put together from the
//! pieces that lie in it and the two edges beside them, instead of from every op.
//!
//! A piece ends where all devices rest and no call has launched what lies on both sides. So nothing runs across, no overlap
//! and no graph is cut, and sums of pieces are those of one pass over all of their ops, to the nanosecond.
//! Where devices hardly ever rest together pieces are long, and a window may hold none.

use super::explain::{Around, Attributed, Context, Ran, RangeTimes, Surveyed, Waited};
use super::groups::Groups;
use super::overlap::Shares;
use super::triage::stages::Stretch;
use crate::trace::{GpuOp, Kept, NameId, Names, Ns, OpKind, Trace, Window};
use std::ops::Range;

/// Ops of a piece, at least; of a large trace more, so that there are not too many pieces.
const OPS: usize = 4_096;
/// So many pieces at most, but for the last.
const MOST: usize = 192;
/// Ops of a group and ranges of a name in a piece, on average, at least.
const LEAST_OF_GROUP: usize = 8;

/// See the module's head.
#[derive(Debug)]
pub struct Pieces {
    pieces: Vec<Piece>,
    ranges: Vec<RangePiece>,
    /// What messages are called in [`Surveyed`].
    operations: Names,
}

/// What is known of one piece.
#[derive(Debug)]
pub(super) struct Piece {
    /// Places of its ops.
    ops: Range<usize>,
    /// When the last of them ends.
    end: Ns,
    pub(super) shares: Shares,
    pub(super) groups: Groups,
    pub(super) survey: Surveyed,
    pub(super) waited: Waited,
    pub(super) ran: Ran,
    pub(super) attributed: Attributed,
    /// Places of kernels that communicate.
    pub(super) messages: Vec<u32>,
    /// Places of copies.
    pub(super) copies: Vec<u32>,
    pub(super) stretches: Vec<Stretch>,
}

/// What is known of some of the ranges, in the order of their starts.
#[derive(Debug)]
struct RangePiece {
    rows: Range<usize>,
    /// When the first of them begins.
    start: Ns,
    /// When the last of them ends.
    end: Ns,
    times: RangeTimes,
}

/// The pieces of a trace that lie in a window of it, as the part that was cut out sees them.
#[derive(Debug)]
pub struct Inside<'a> {
    pieces: &'a [Piece],
    ranges: &'a [RangePiece],
    /// Of those the places in the part.
    range_rows: Range<usize>,
    operations: &'a Names,
    /// Places of their ops in the part.
    ops: Range<usize>,
    /// Places in the part are so much higher; it wraps.
    shift: usize,
    /// What the names of the whole trace are in the part.
    names: Vec<NameId>,
    range_names: Vec<NameId>,
}

/// Does this build put windows together from pieces? The page's first module is for files of which a window is soon counted, and has to
/// be small; the one that reads large files does.
pub const HAS_PIECES: bool = cfg!(any(feature = "sqlite", not(target_arch = "wasm32")));

/// What is known, in a build that knows anything: others leave out what they cannot do.
#[inline]
pub(super) fn known<'a, 'b>(inside: Option<&'a Inside<'b>>) -> Option<&'a Inside<'b>> {
    if HAS_PIECES { inside } else { None }
}

/// A stranger's name.
const NO_NAME: NameId = NameId(u32::MAX);

impl Pieces {
    /// Devices are each on their own; none where there is nothing to cut.
    pub fn of(trace: &Trace, around: &Around) -> Option<Self> {
        Self::of_at_least(OPS.max(trace.gpu_ops.len() / MOST), LEAST_OF_GROUP, trace, around)
    }

    /// Of so many ops each, or more, and so many of a group.
    pub(crate) fn of_at_least(least: usize, of_group: usize, trace: &Trace, around: &Around) -> Option<Self> {
        // What a graph that was traced as a whole does stands in no column.
        let ranges = if trace.graph_replays.is_empty() { cut(least, trace) } else { Vec::new() };
        let groups: Vec<Groups> = ranges.iter().map(|ops| Groups::in_range(trace, ops.clone())).collect();
        // Where nearly every op has a name or a stream of its own, sums by group weigh more than ops and tell no sooner.
        if ranges.len() < 2 || groups.iter().map(Groups::len).sum::<usize>() * of_group > trace.gpu_ops.len() {
            return None;
        }
        let context = Context::new(trace, 0);
        let (operations, surveys) = Surveyed::of(&context, &ranges);
        let places = |ops: &Range<usize>, is_so: &dyn Fn(&GpuOp) -> bool| {
            let those = trace.gpu_ops.iter_in(ops.clone()).filter(|(_, op)| is_so(op));
            those.map(|(at, _)| at as u32).collect()
        };
        let pieces = ranges.into_iter().zip(surveys).zip(groups).map(|((ops, survey), groups)| Piece {
            end: trace.gpu_ops.iter_in(ops.clone()).map(|(_, op)| op.end()).max().unwrap_or_default(),
            shares: Shares::of(trace, ops.clone()),
            survey,
            waited: Waited::of_piece(&context, ops.clone()),
            ran: Ran::of_piece(&context, ops.clone(), &groups),
            attributed: Attributed::of_piece(&context, ops.clone(), &around.of_all()),
            messages: places(&ops, &|op| op.kind == OpKind::Kernel && context.is_communication(op.name)),
            stretches: Stretch::all(trace, ops.clone()),
            copies: places(&ops, &|op| op.kind == OpKind::Copy),
            groups,
            ops,
        });
        let pieces = pieces.collect();
        let rows = (0..trace.ranges.len()).step_by(least).map(|from| from..(from + least).min(trace.ranges.len()));
        let ranges = rows.map(|rows| RangePiece {
            start: trace.ranges.start(rows.start).unwrap_or_default(),
            end: rows.clone().filter_map(|at| trace.ranges.get(at)).map(|range| range.end()).max().unwrap_or_default(),
            times: RangeTimes::of(trace, rows.clone()),
            rows,
        });
        let ranges: Vec<RangePiece> = ranges.collect();
        // Of ranges with names of their own as well.
        let is_short = ranges.iter().map(|piece| piece.times.len()).sum::<usize>() * of_group <= trace.ranges.len();
        Some(Self { pieces, ranges: if is_short { ranges } else { Vec::new() }, operations })
    }

    /// The pieces of ranges that lie whole in a window, and the places of their ranges in its part.
    fn ranges_inside(&self, kept: &Kept, window: Window) -> (&[RangePiece], Range<usize>) {
        let (within, first) = kept.ranges();
        // Ranges around launches for the window are kept whole, wherever they begin.
        let is_early = |piece: &RangePiece| piece.rows.start < within.start || piece.start < window.start;
        let from = self.ranges.partition_point(is_early);
        // Ranges lie around each other: the first to reach over the end ends what is known whole.
        let fits = |piece: &&RangePiece| piece.rows.end <= within.end && piece.end <= window.end;
        let whole = self.ranges.iter().skip(from).take_while(fits).count();
        let pieces = self.ranges.get(from..from + whole).unwrap_or_default();
        let place = |whole: usize| whole.wrapping_sub(within.start).wrapping_add(first);
        let ends = pieces.first().zip(pieces.last()).map(|(first, last)| place(first.rows.start)..place(last.rows.end));
        (pieces, ends.unwrap_or(0..0))
    }

    /// Those that lie whole in the window that this part of the trace is.
    pub fn inside(&self, trace: &Trace, part: &Trace) -> Option<Inside<'_>> {
        let (kept, window) = (part.kept.as_deref()?, part.cut?.window);
        let (within, first) = kept.ops();
        let from = self.pieces.partition_point(|piece| piece.ops.start < within.start);
        let to = self.pieces.partition_point(|piece| piece.ops.end <= within.end && piece.end <= window.end);
        let pieces = self.pieces.get(from..to)?;
        let (first_op, last_op) = (pieces.first()?.ops.start, pieces.last()?.ops.end);
        // The edges are looked at op by op, and some of what is asked of them costs more than it does of a whole window.
        if 2 * (last_op - first_op) < part.gpu_ops.len() {
            return None;
        }
        let shift = first.wrapping_sub(within.start);
        let place = |whole: usize| whole.wrapping_add(shift);
        let (ranges, range_rows) = self.ranges_inside(kept, window);
        Some(Inside {
            pieces,
            ranges,
            range_rows,
            operations: &self.operations,
            ops: place(first_op)..place(last_op),
            shift,
            names: renamed(&trace.names, &part.names),
            range_names: renamed(&trace.ranges.names, &part.ranges.names),
        })
    }
}

impl<'a> Inside<'a> {
    /// How many ops there are in them.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.ops.len()
    }

    /// Places of the ops before the pieces and behind them.
    pub(super) fn edges(&self, part: &Trace) -> [Range<usize>; 2] {
        [0..self.ops.start, self.ops.end..part.gpu_ops.len()]
    }

    /// What a name of the whole trace is in the part.
    pub(super) fn name(&self, whole: NameId) -> NameId {
        self.names.get(whole.0 as usize).copied().unwrap_or(NO_NAME)
    }

    /// What the name of a range of the whole trace is in the part.
    pub(super) fn range_name(&self, whole: NameId) -> NameId {
        self.range_names.get(whole.0 as usize).copied().unwrap_or(NO_NAME)
    }

    /// Where in the part an op of the whole trace stands.
    pub(super) fn place(&self, whole: usize) -> usize {
        whole.wrapping_add(self.shift)
    }

    pub(super) fn operations(&self) -> &'a Names {
        self.operations
    }

    pub(super) fn pieces(&self) -> &'a [Piece] {
        self.pieces
    }

    /// What is known of ranges, and the places in the part of those that it is known of.
    pub(super) fn ranges(&self) -> (impl Iterator<Item = &'a RangeTimes>, Range<usize>) {
        (self.ranges.iter().map(|piece| &piece.times), self.range_rows.clone())
    }
}

fn renamed(whole: &Names, part: &Names) -> Vec<NameId> {
    whole.iter().map(|name| part.find(name).unwrap_or(NO_NAME)).collect()
}

/// The places between which nothing reaches across.
fn cut(least: usize, trace: &Trace) -> Vec<Range<usize>> {
    let all = trace.gpu_ops.len();
    // Of each call the place behind the last op that it launched.
    let mut launched_until = vec![0; trace.calls.len()];
    for (at, call) in trace.gpu_ops.launches().enumerate() {
        let until = call.and_then(|call| launched_until.get_mut(call.0 as usize));
        until.into_iter().for_each(|until| *until = at as u32 + 1);
    }
    let (mut ranges, mut from) = (Vec::new(), 0);
    let (mut reach, mut until) = (Ns(i64::MIN), 0);
    for ((at, (start, duration)), call) in trace.gpu_ops.times().enumerate().zip(trace.gpu_ops.launches()) {
        if at - from >= least && all - at >= least && start >= reach && until <= at {
            ranges.push(from..at);
            from = at;
        }
        reach = reach.max(start.after(duration));
        let launched = call.and_then(|call| launched_until.get(call.0 as usize));
        until = until.max(launched.map_or(0, |until| *until as usize));
    }
    ranges.push(from..all);
    ranges
}
