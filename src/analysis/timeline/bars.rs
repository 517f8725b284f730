//! Turns items sorted by start into bars of a tile: items of at least two units are bars of their own, shorter ones that start in
//! the same unit become one bar.

use crate::trace::{NameId, Ns};

/// The length of a tile.
pub const TILE_UNITS: i64 = 1024;
/// A tile of this level is longer than any trace.
const MAX_LEVEL: u32 = 50;
/// Bars reach beyond their tile by at most this many units.
const MAX_UNITS: i64 = 1 << 24;

/// The time range of a tile: [`TILE_UNITS`] units of 2^level ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TileRange {
    start: Ns,
    level: u32,
}

impl TileRange {
    /// The tile with this index; tile 0 begins at `zero`. `None` if there can be no such tile.
    pub fn new(zero: Ns, level: u32, index: i64) -> Option<Self> {
        let length = (level <= MAX_LEVEL).then_some(TILE_UNITS << level)?;
        let start = zero.0.checked_add(index.checked_mul(length)?)?;
        start.checked_add(length)?;
        Some(Self { start: Ns(start), level })
    }

    /// Its first nanosecond.
    pub fn start(self) -> Ns {
        self.start
    }

    /// The first nanosecond after it.
    pub fn end(self) -> Ns {
        Ns(self.start.0 + (TILE_UNITS << self.level))
    }

    /// The length of a unit.
    pub fn unit_ns(self) -> i64 {
        1 << self.level
    }

    /// The unit that contains a time, from the start of the tile.
    pub fn unit_of(self, time: Ns) -> i32 {
        let unit = time.since(self.start).0 >> self.level;
        unit.clamp(-MAX_UNITS, MAX_UNITS) as i32
    }
}

/// A rectangle of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bar<S> {
    /// Its first unit, from the start of the tile; negative if it begins before the tile.
    pub start: i32,
    /// The first unit after it.
    pub end: i32,
    /// Its nesting depth.
    pub depth: u8,
    /// The style of its longest item.
    pub style: S,
    /// The longest item: its row in the table of its lane.
    pub row: usize,
    /// Its name, if it is an op, a call, a range or code; else 0.
    pub name: NameId,
    /// The number of items.
    pub count: u32,
    /// The share of its length that its items fill, from 0 to 255.
    pub filled: u8,
}

/// An item of a lane.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item<S> {
    pub(super) start: Ns,
    pub(super) end: Ns,
    pub(super) depth: u8,
    pub(super) style: S,
    pub(super) row: usize,
    /// See [`Bar::name`].
    pub(super) name: NameId,
}

/// The bars of one nesting depth of a lane, while items are added in the order of their starts.
#[derive(Debug)]
pub(super) struct Merger<S> {
    /// A bar of short items that may grow.
    open: Option<Open<S>>,
}

#[derive(Debug)]
struct Open<S> {
    bar: Bar<S>,
    filled_ns: i64,
    longest_ns: i64,
}

impl<S> Default for Merger<S> {
    fn default() -> Self {
        Self { open: None }
    }
}

impl<S: Copy> Merger<S> {
    pub(super) fn add(&mut self, range: TileRange, item: &Item<S>, bars: &mut Vec<Bar<S>>) {
        let length_ns = item.end.since(item.start).0.max(0);
        let (start, end) = (range.unit_of(item.start), range.unit_of(item.end));
        let bar = |end: i32| Bar {
            start,
            end,
            depth: item.depth,
            style: item.style,
            row: item.row,
            name: item.name,
            count: 1,
            filled: u8::MAX,
        };
        if length_ns >= 2 * range.unit_ns() {
            self.close(range, bars);
            bars.push(bar(end));
            return;
        }
        let end = end.max(start + 1);
        match &mut self.open {
            Some(open) if open.bar.end > start => {
                open.bar.end = open.bar.end.max(end);
                open.bar.count = open.bar.count.saturating_add(1);
                open.filled_ns = open.filled_ns.saturating_add(length_ns);
                if length_ns > open.longest_ns {
                    open.longest_ns = length_ns;
                    (open.bar.style, open.bar.row, open.bar.name) = (item.style, item.row, item.name);
                }
            }
            _ => {
                self.close(range, bars);
                self.open = Some(Open { bar: bar(end), filled_ns: length_ns, longest_ns: length_ns });
            }
        }
    }

    /// Ends the bar of short items.
    pub(super) fn close(&mut self, range: TileRange, bars: &mut Vec<Bar<S>>) {
        if let Some(Open { mut bar, filled_ns, .. }) = self.open.take() {
            let length_ns = i64::from(bar.end - bar.start) * range.unit_ns();
            bar.filled = u8::try_from(filled_ns.saturating_mul(255) / length_ns.max(1)).unwrap_or(u8::MAX);
            bars.push(bar);
        }
    }
}
