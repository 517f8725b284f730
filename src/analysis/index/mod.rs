//! A trace in pieces that share nothing, each summed up once: what a window of millions of ops tells is put together from the
//! pieces that lie in it and the two edges beside them, instead of from every op.
//!
//! On no device does anything run across the end of a piece, and no call has launched what lies on both sides. So no overlap
//! and no graph is cut, and sums of pieces are those of one pass over all of their ops, to the nanosecond. Devices that do not
//! rest together are cut each at a place of its own. What is told of all devices at once stands in spells of time, and what is
//! listed by place needs no cuts.
//! Where a device hardly ever rests pieces are long, and a window may hold none.

mod cut_points;

use crate::analysis::context::Context;
use crate::analysis::host::launch_latency::Waited;
use crate::analysis::kernels::durations::Ran;
use crate::analysis::kernels::groups::Groups;
use crate::analysis::structure::launch_ranges::{Around, Attributed};
use crate::analysis::structure::ranges::RangeTimes;
use crate::analysis::structure::stages::Stretch;
use crate::analysis::time::attribution::Shares;
use crate::analysis::time::busy::{Spell, Spells};
use crate::analysis::time::survey::Surveyed;
use crate::trace::{GpuOp, Kept, NameId, Names, Ns, OpKind, Places, Trace, Window};
use cut_points::{Seam, seams};
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
    built: Built,
    pieces: Vec<Piece>,
    spells: Vec<Spell>,
    ranges: Vec<RangePiece>,
    /// Places of kernels that communicate.
    messages: Vec<u32>,
    /// Places of copies.
    copies: Vec<u32>,
    stretches: Vec<Stretch>,
    /// What messages are called in [`Surveyed`].
    operations: Names,
}

/// What is known of one piece.
#[derive(Debug)]
pub(crate) struct Piece {
    from: Seam,
    to: Seam,
    /// When the last of its ops and of all before it ends.
    end: Ns,
    pub(crate) shares: Shares,
    pub(crate) groups: Groups,
    pub(crate) survey: Surveyed,
    pub(crate) waited: Waited,
    pub(crate) ran: Ran,
    pub(crate) attributed: Attributed,
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
    built: Built,
    pieces: &'a [Piece],
    /// Places in the part of the ops before the pieces and behind them.
    edges: [Places; 2],
    spells: Spells<'a>,
    ranges: &'a [RangePiece],
    /// Of those the places in the part.
    range_rows: Range<usize>,
    messages: &'a [u32],
    copies: &'a [u32],
    stretches: &'a [Stretch],
    operations: &'a Names,
    window: Window,
    /// How many ops of the part began before the window.
    begun: usize,
    /// Places in the part are so much higher; it wraps.
    shift: usize,
    /// What the names of the whole trace are in the part.
    names: Vec<NameId>,
    range_names: Vec<NameId>,
}

/// There is one in builds that put windows together from pieces: the page's first module is for files of which a window is soon
/// counted, and has to be small; the one that reads large files does. What cannot be without one is left out of other builds.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Built {
    #[cfg(any(feature = "full", not(target_arch = "wasm32")))]
    Yes,
}

#[cfg(any(feature = "full", not(target_arch = "wasm32")))]
const BUILT: Option<Built> = Some(Built::Yes);
#[cfg(not(any(feature = "full", not(target_arch = "wasm32"))))]
const BUILT: Option<Built> = None;

/// Does this build put windows together from pieces?
pub const HAS_PIECES: bool = BUILT.is_some();

/// What is known, in a build that knows anything: others leave out what they cannot do.
#[inline]
pub(crate) fn known<'a, 'b>(inside: Option<&'a Inside<'b>>) -> Option<&'a Inside<'b>> {
    if HAS_PIECES { inside } else { None }
}

/// Some of the ops of a trace or of a window.
pub(crate) enum Part<'a> {
    /// Those at these places, of which nothing is known.
    Edge(Places),
    /// What is known of others, and how to find them in the window.
    Piece(&'a Piece, &'a Inside<'a>, Built),
}

impl<'a> Part<'a> {
    pub(crate) fn edge(&self) -> Option<&Places> {
        match self {
            Self::Edge(places) => Some(places),
            Self::Piece(..) => None,
        }
    }

    pub(crate) fn piece(&self) -> Option<(&'a Piece, &'a Inside<'a>)> {
        match self {
            Self::Edge(_) => None,
            Self::Piece(piece, inside, _) => Some((piece, inside)),
        }
    }
}

/// All ops of a trace, or of a window that has pieces inside: on each device in the order in which they begin.
pub(crate) fn parts<'a>(trace: &Trace, inside: Option<&'a Inside<'a>>) -> Vec<Part<'a>> {
    let Some(inside) = known(inside) else { return vec![Part::Edge(trace.gpu_ops.places())] };
    let [before, behind] = inside.edges.clone();
    let pieces = inside.pieces.iter().map(|piece| Part::Piece(piece, inside, inside.built));
    [Part::Edge(before)].into_iter().chain(pieces).chain([Part::Edge(behind)]).collect()
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
        let built = BUILT?;
        // What a graph that was traced as a whole does stands in no column.
        let seams = if trace.graph_replays.is_empty() { seams(least, trace) } else { Vec::new() };
        let ends = seams.iter().zip(seams.iter().skip(1));
        let parts: Vec<Places> = ends.clone().map(|(from, to)| Places::between(from, to)).collect();
        let groups: Vec<Groups> = parts.iter().map(|places| Groups::at(trace, places)).collect();
        // Where nearly every op has a name or a stream of its own, sums by group weigh more than ops and tell no sooner.
        if parts.len() < 2 || groups.iter().map(Groups::len).sum::<usize>() * of_group > trace.gpu_ops.len() {
            return None;
        }
        let context = Context::new(trace, 0);
        let (operations, surveys) = Surveyed::of(&context, &mut parts.iter());
        let mut end = Ns(i64::MIN);
        let pieces = ends.zip(&parts).zip(surveys).zip(groups).map(|((((from, to), places), survey), groups)| {
            let ends = trace.gpu_ops.iter_in(places).map(|(_, op)| op.end());
            end = ends.fold(end, Ns::max);
            Piece {
                from: from.clone(),
                to: to.clone(),
                end,
                shares: Shares::of(trace, places),
                survey,
                waited: Waited::of_piece(&context, places),
                ran: Ran::of_piece(&context, places, &groups),
                attributed: Attributed::of_piece(&context, places, &around.of_all()),
                groups,
            }
        });
        let pieces = pieces.collect();
        let listed = |is_so: &dyn Fn(&GpuOp) -> bool| {
            let those = (0..).zip(trace.gpu_ops.iter()).filter(|(_, op)| is_so(op));
            those.map(|(at, _)| at).collect()
        };
        let moments: Vec<usize> = seams.iter().map(last_place).collect();
        Some(Self {
            built,
            pieces,
            spells: Spell::all(trace, &moments, context.blocked()),
            ranges: range_pieces(least, of_group, trace),
            messages: listed(&|op| op.kind == OpKind::Kernel && context.is_communication(op.name)),
            copies: listed(&|op| op.kind == OpKind::Copy),
            stretches: Stretch::all(trace),
            operations,
        })
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
        let (within, begun) = kept.ops();
        let from = self.pieces.partition_point(|piece| first_place(&piece.from) < within.start);
        let to = self.pieces.partition_point(|piece| last_place(&piece.to) <= within.end && piece.end <= window.end);
        let pieces = self.pieces.get(from..to)?;
        let (first, last) = (&pieces.first()?.from, &pieces.last()?.to);
        // The edges are looked at op by op, and some of what is asked of them costs more than it does of a whole window.
        if 2 * first_place(last).saturating_sub(last_place(first)) < part.gpu_ops.len() {
            return None;
        }
        let shift = begun.wrapping_sub(within.start);
        let place = |whole: &usize| whole.wrapping_add(shift);
        let (first, last): (Seam, Seam) = (first.iter().map(place).collect(), last.iter().map(place).collect());
        let (ranges, range_rows) = self.ranges_inside(kept, window);
        let stretches_from = self.stretches.partition_point(|stretch| stretch.ops().start < within.start);
        let stretches_to = self.stretches.partition_point(|stretch| stretch.ops().end <= within.end);
        Some(Inside {
            built: self.built,
            pieces,
            edges: [
                Places::between(&vec![0; first.len()], &first),
                Places::between(&last, &vec![part.gpu_ops.len(); last.len()]),
            ],
            spells: Spells::inside(&self.spells, window, shift),
            ranges,
            range_rows,
            messages: within_places(&self.messages, &within),
            copies: within_places(&self.copies, &within),
            stretches: self.stretches.get(stretches_from..stretches_to).unwrap_or_default(),
            operations: &self.operations,
            window,
            begun,
            shift,
            names: renamed(&trace.names, &part.names),
            range_names: renamed(&trace.ranges.names, &part.ranges.names),
        })
    }
}

/// What is known of the ranges; nothing where most have names of their own.
fn range_pieces(least: usize, of_name: usize, trace: &Trace) -> Vec<RangePiece> {
    let rows = (0..trace.ranges.len()).step_by(least).map(|from| from..(from + least).min(trace.ranges.len()));
    let pieces = rows.map(|rows| RangePiece {
        start: trace.ranges.start(rows.start).unwrap_or_default(),
        end: rows.clone().filter_map(|at| trace.ranges.get(at)).map(|range| range.end()).max().unwrap_or_default(),
        times: RangeTimes::of(trace, rows.clone()),
        rows,
    });
    let pieces: Vec<RangePiece> = pieces.collect();
    let is_short = pieces.iter().map(|piece| piece.times.len()).sum::<usize>() * of_name <= trace.ranges.len();
    if is_short { pieces } else { Vec::new() }
}

/// No op before it lies behind the seam.
fn first_place(seam: &Seam) -> usize {
    seam.iter().copied().min().unwrap_or_default()
}

/// All ops from it on lie behind the seam.
fn last_place(seam: &Seam) -> usize {
    seam.iter().copied().max().unwrap_or_default()
}

/// Of places in order those in a range.
fn within_places<'a>(places: &'a [u32], range: &Range<usize>) -> &'a [u32] {
    let before = |end: usize| places.partition_point(|at| (*at as usize) < end);
    places.get(before(range.start)..before(range.end)).unwrap_or_default()
}

impl<'a> Inside<'a> {
    /// How many ops there are in them.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        let count = |groups: &Groups| groups.groups.iter().map(|group| group.count).sum::<u64>();
        self.pieces.iter().map(|piece| count(&piece.groups)).sum::<u64>() as usize
    }

    /// Are devices cut at places of their own?
    #[cfg(test)]
    pub(crate) fn is_cut_apart(&self) -> bool {
        !self.edges.iter().all(Places::is_whole)
    }

    /// How many ops of the window began before it: none of them is in a list.
    pub(crate) fn begun(&self) -> usize {
        self.begun
    }

    /// Places in the whole trace of kernels that communicate and begin in the window.
    pub(crate) fn messages(&self) -> &'a [u32] {
        self.messages
    }

    /// The same of copies.
    pub(crate) fn copies(&self) -> &'a [u32] {
        self.copies
    }

    /// Ops in a row that lie whole in the window, and their places in the part.
    pub(crate) fn stretches(&self) -> impl Iterator<Item = (&'a Stretch, Range<usize>)> {
        let whole = self.stretches.iter().filter(|stretch| stretch.end() <= self.window.end);
        whole.map(|stretch| (stretch, self.place(stretch.ops().start)..self.place(stretch.ops().end)))
    }

    pub(crate) fn spells(&self) -> Spells<'a> {
        self.spells
    }

    /// What a name of the whole trace is in the part.
    pub(crate) fn name(&self, whole: NameId) -> NameId {
        self.names.get(whole.0 as usize).copied().unwrap_or(NO_NAME)
    }

    /// What the name of a range of the whole trace is in the part.
    pub(crate) fn range_name(&self, whole: NameId) -> NameId {
        self.range_names.get(whole.0 as usize).copied().unwrap_or(NO_NAME)
    }

    /// Where in the part an op of the whole trace stands.
    pub(crate) fn place(&self, whole: usize) -> usize {
        whole.wrapping_add(self.shift)
    }

    pub(crate) fn operations(&self) -> &'a Names {
        self.operations
    }

    /// What is known of ranges, and the places in the part of those that it is known of.
    pub(crate) fn ranges(&self) -> (impl Iterator<Item = &'a RangeTimes>, Range<usize>) {
        (self.ranges.iter().map(|piece| &piece.times), self.range_rows.clone())
    }
}

fn renamed(whole: &Names, part: &Names) -> Vec<NameId> {
    whole.iter().map(|name| part.find(name).unwrap_or(NO_NAME)).collect()
}
