//! A selection of rows of the table of GPU ops.

use std::ops::Range;

/// The index of a device in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DeviceId(pub u32);

/// A range of rows; optionally narrower for each device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpRows {
    range: Range<usize>,
    /// By device; empty if all rows of `range` are selected.
    by_device: Vec<Range<usize>>,
}

impl From<Range<usize>> for OpRows {
    fn from(range: Range<usize>) -> Self {
        Self { range, by_device: Vec::new() }
    }
}

impl OpRows {
    /// Selects the rows of each device from its entry in `from` up to its entry in `to`.
    pub fn between(from: &[usize], to: &[usize]) -> Self {
        let min = |rows: &[usize]| rows.iter().copied().min().unwrap_or_default();
        let max = |rows: &[usize]| rows.iter().copied().max().unwrap_or_default();
        let is_one_range = min(from) == max(from) && min(to) == max(to);
        let by_device = from.iter().zip(to).map(|(from, to)| *from..*to);
        Self { range: min(from)..max(to), by_device: if is_one_range { Vec::new() } else { by_device.collect() } }
    }

    /// Returns the range from the first selected row to the last.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Returns true if all rows of [`OpRows::range`] are selected.
    #[inline]
    pub fn has_all_devices(&self) -> bool {
        self.by_device.is_empty()
    }

    /// Returns true if this row of the range is selected. `device` is the device of its op.
    #[inline]
    pub fn contains(&self, row: usize, device: DeviceId) -> bool {
        let rows = self.by_device.get(device.0 as usize).unwrap_or(&self.range);
        self.has_all_devices() || rows.contains(&row)
    }
}
