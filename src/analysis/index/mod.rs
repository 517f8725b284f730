//! What makes analyses of a time window fast: aggregates of segments of the trace, computed once, merged for each window.
//!
//! The trace is cut into segments where its devices are idle ([`CutPoints`]). No op runs across a cut point and no call launches
//! ops on both sides, so aggregates of neighbouring segments merge exactly, to the nanosecond: they form a monoid under
//! [`Merge::merge`]. A window is two boundaries, computed op by op, and the segments between them, which are only merged. This is a
//! flat segment tree: at most [`MAX_SEGMENTS`] segments, because merging that many is cheap beside reading the boundaries.
//!
//! To make an analysis fast: compute it from some rows of ops (`of`), implement [`Merge`], and add it as a field to
//! [`crate::analysis::summary::OpDetails`]. An analysis that does not do so runs over all ops of the window and needs nothing from here.
//!
//! Limits: a trace whose devices are rarely idle has long segments, and a window may contain none of them.

mod cut_points;

pub use cut_points::CutPoints;

use crate::trace::{NameId, Names, Ns, OpRows, Trace};

/// Segments have at least this many ops.
pub const MIN_OPS: usize = 4_096;
/// There are at most this many segments, plus one.
pub const MAX_SEGMENTS: usize = 192;

/// An aggregate of GPU ops that can be extended by an aggregate of later ops.
pub trait Merge {
    /// Adds the ops of `later`, which start on each device after all ops of `self` have ended. `ids` maps the ids in `later` to
    /// those in `self`.
    fn merge(&mut self, later: &Self, ids: &IdMap);
}

/// Maps ids of the indexed trace to ids of a window of it, which has its own rows and names.
#[derive(Debug, Default)]
pub struct IdMap {
    /// Added to a row, wrapping.
    row_offset: usize,
    /// By id in the indexed trace; `None` if ids do not change.
    names: Option<Vec<NameId>>,
    range_names: Option<Vec<NameId>>,
}

/// The id of a name that does not occur in the window.
const NO_NAME: NameId = NameId(u32::MAX);

impl IdMap {
    /// The row of a GPU op.
    pub fn row(&self, row: usize) -> usize {
        row.wrapping_add(self.row_offset)
    }

    /// The name of a GPU op.
    pub fn name(&self, name: NameId) -> NameId {
        mapped(self.names.as_deref(), name)
    }

    /// The name of a range.
    pub fn range_name(&self, name: NameId) -> NameId {
        mapped(self.range_names.as_deref(), name)
    }
}

fn mapped(names: Option<&[NameId]>, name: NameId) -> NameId {
    names.map_or(name, |names| names.get(name.0 as usize).copied().unwrap_or(NO_NAME))
}

/// The id of each name of `whole` among the names of `part`.
fn id_map(whole: &Names, part: &Names) -> Option<Vec<NameId>> {
    Some(whole.iter().map(|name| part.find(name).unwrap_or(NO_NAME)).collect())
}

/// Aggregates of all segments of a trace.
#[derive(Debug)]
pub struct WindowIndex<A> {
    cuts: CutPoints,
    segments: Vec<Segment<A>>,
}

#[derive(Debug)]
struct Segment<A> {
    /// When the last op of this segment and of all segments before it ends.
    end: Ns,
    aggregate: A,
}

impl<A> WindowIndex<A> {
    /// An index of the segments between `cuts`, one aggregate for each.
    pub fn new(trace: &Trace, cuts: CutPoints, aggregates: Vec<A>) -> Self {
        let mut end = Ns(i64::MIN);
        let segments = cuts.segments().zip(aggregates).map(|(rows, aggregate)| {
            end = trace.gpu_ops.iter_in(&rows).map(|(_, op)| op.end()).fold(end, Ns::max);
            Segment { end, aggregate }
        });
        let segments = segments.collect();
        Self { cuts, segments }
    }

    /// The segments that lie completely inside the window that was cut out of `whole` as `part`; `None` if there are none, or if
    /// they cover less than half of the ops.
    pub fn window(&self, whole: &Trace, part: &Trace) -> Option<WindowSegments<'_, A>> {
        let (kept, window) = (part.kept.as_deref()?, part.cut?.window);
        let (rows, first_row) = kept.ops();
        let first = self.segments.iter().enumerate().position(|(at, _)| self.cuts.first_row(at) >= rows.start)?;
        let fits =
            |at: usize, segment: &Segment<A>| self.cuts.last_row(at + 1) <= rows.end && segment.end <= window.end;
        let count = self.segments.iter().enumerate().skip(first).take_while(|(at, segment)| fits(*at, segment)).count();
        let covered = self.cuts.first_row(first + count).saturating_sub(self.cuts.last_row(first));
        if count == 0 || 2 * covered < part.gpu_ops.len() {
            return None;
        }
        let row_offset = first_row.wrapping_sub(rows.start);
        Some(WindowSegments {
            boundaries: self.cuts.around(first, first + count, row_offset, part.gpu_ops.len()),
            segments: self.segments.get(first..first + count)?,
            ids: IdMap {
                row_offset,
                names: id_map(&whole.names, &part.names),
                range_names: id_map(&whole.ranges.names, &part.ranges.names),
            },
        })
    }
}

/// A window as the segments inside it and the ops before and after them.
#[derive(Debug)]
pub struct WindowSegments<'a, A> {
    /// Rows of the window before the first segment, and after the last.
    boundaries: [OpRows; 2],
    segments: &'a [Segment<A>],
    ids: IdMap,
}

impl<A> WindowSegments<'_, A> {
    /// The aggregate of all ops of the window: `of_rows` computes that of the boundaries, `of_segment` finds that of a segment.
    pub fn merged<B: Merge>(&self, of_segment: &dyn Fn(&A) -> &B, of_rows: &mut dyn FnMut(&OpRows) -> B) -> B {
        let [before, after] = &self.boundaries;
        let mut all = of_rows(before);
        self.segments.iter().for_each(|segment| all.merge(of_segment(&segment.aggregate), &self.ids));
        all.merge(&of_rows(after), &IdMap::default());
        all
    }

    /// Are devices cut at rows of their own?
    #[cfg(test)]
    pub(crate) fn has_cuts_by_device(&self) -> bool {
        !self.boundaries.iter().all(OpRows::has_all_devices)
    }

    /// Aggregates of the segments.
    #[cfg(test)]
    pub(crate) fn aggregates(&self) -> impl Iterator<Item = &A> {
        self.segments.iter().map(|segment| &segment.aggregate)
    }
}
