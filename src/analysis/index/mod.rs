//! The window index: aggregates of segments of the trace, computed once and merged for each time window.
//!
//! The trace is cut into segments where its devices are idle ([`CutPoints`]). No op runs across a cut point
//! and no call launches ops on both sides, so aggregates of neighbouring segments merge exactly, to the
//! nanosecond: they form a monoid under [`Merge::merge`]. A window consists of two boundaries, computed op by
//! op, and the segments between them, which are only merged. This is a flat segment tree with at most
//! [`MAX_SEGMENTS`] + 1 segments: merging so few costs less than reading the boundaries.
//!
//! To make an analysis fast, compute it from some rows of ops (`of`), implement [`Merge`], and add it as a
//! field to [`crate::analysis::summary::OpDetails`]. Other analyses run over all ops of the window and do not
//! use this module.
//!
//! Limits: a trace whose devices are rarely idle has long segments, and a window may contain no complete
//! segment.

mod cut_points;

pub use cut_points::CutPoints;

use crate::trace::{NameId, Names, Ns, OpRows, Trace};

/// Segments have at least this many ops.
pub const MIN_OPS: usize = 4_096;
/// There are at most this many segments, plus one.
pub const MAX_SEGMENTS: usize = 192;

/// An aggregate of GPU ops that can be extended by an aggregate of later ops.
pub trait Merge {
    /// Adds the ops of `later`, which start on each device after all ops of `self` have ended. `ids` maps the
    /// ids in `later` to those in `self`.
    fn merge(&mut self, later: &Self, ids: &IdMap);
}

/// Maps ids of the indexed trace to ids of one of its windows, which has its own rows and names.
#[derive(Debug, Default)]
pub struct IdMap {
    /// Added to a row, wrapping.
    row_offset: usize,
    /// By id in the indexed trace; `None` if ids do not change.
    names: Option<Vec<NameId>>,
    range_names: Option<Vec<NameId>>,
    call_names: Option<Vec<NameId>>,
}

/// The id of a name that does not occur in the window.
const NO_NAME: NameId = NameId(u32::MAX);

impl IdMap {
    /// Maps the row of a GPU op.
    pub fn row(&self, row: usize) -> usize {
        row.wrapping_add(self.row_offset)
    }

    /// Maps the name of a GPU op.
    pub fn name(&self, name: NameId) -> NameId {
        mapped(self.names.as_deref(), name)
    }

    /// Maps the name of an API call.
    pub fn call_name(&self, name: NameId) -> NameId {
        mapped(self.call_names.as_deref(), name)
    }

    /// Maps the name of a range.
    pub fn range_name(&self, name: NameId) -> NameId {
        mapped(self.range_names.as_deref(), name)
    }
}

fn mapped(names: Option<&[NameId]>, name: NameId) -> NameId {
    names.map_or(name, |names| names.get(name.0 as usize).copied().unwrap_or(NO_NAME))
}

/// Returns for each name of `whole` its id among the names of `part`.
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
    /// The latest end of the ops of this segment and all segments before it.
    end: Ns,
    aggregate: A,
}

impl<A> WindowIndex<A> {
    /// An index with one aggregate for each segment between `cuts`.
    pub fn new(trace: &Trace, cuts: CutPoints, aggregates: Vec<A>) -> Self {
        let mut end = Ns(i64::MIN);
        let segments = cuts.segments().zip(aggregates).map(|(rows, aggregate)| {
            end = trace.gpu_ops.iter_in(&rows).map(|(_, op)| op.end()).fold(end, Ns::max);
            Segment { end, aggregate }
        });
        let segments = segments.collect();
        Self { cuts, segments }
    }

    /// The segments that lie completely inside the window that was cut out of `whole` as `part`; `None` if
    /// there are none, or if they cover less than half of the ops.
    pub fn window(&self, whole: &Trace, part: &Trace) -> Option<WindowSegments<'_, A>> {
        let (kept, window) = (part.kept.as_deref()?, part.cut?.window);
        let (rows, first_row) = kept.ops();
        let first = self.segments.iter().enumerate().position(|(index, _)| self.cuts.first_row(index) >= rows.start)?;
        let fits =
            |index: usize, segment: &Segment<A>| self.cuts.last_row(index + 1) <= rows.end && segment.end <= window.end;
        let count =
            self.segments.iter().enumerate().skip(first).take_while(|(index, segment)| fits(*index, segment)).count();
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
                call_names: id_map(&whole.calls.names, &part.calls.names),
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
    /// Returns the aggregate of all ops of the window. `of_rows` computes the aggregate of a boundary,
    /// `of_segment` selects that of a segment.
    pub fn merged<B: Merge>(&self, of_segment: &dyn Fn(&A) -> &B, of_rows: &mut dyn FnMut(&OpRows) -> B) -> B {
        let [before, after] = &self.boundaries;
        let mut all = of_rows(before);
        self.segments.iter().for_each(|segment| all.merge(of_segment(&segment.aggregate), &self.ids));
        all.merge(&of_rows(after), &IdMap::default());
        all
    }

    /// Checks whether the devices of a boundary are cut at different rows.
    #[cfg(test)]
    pub(crate) fn has_cuts_by_device(&self) -> bool {
        !self.boundaries.iter().all(OpRows::has_all_devices)
    }

    /// The aggregates of the segments.
    #[cfg(test)]
    pub(crate) fn aggregates(&self) -> impl Iterator<Item = &A> {
        self.segments.iter().map(|segment| &segment.aggregate)
    }
}
