//! Lanes of counters: a value holds from its sample to the next one, and a bar is as high as the value is in relation to 100 %, or
//! to the highest one of the trace. A unit of a tile has the highest value in it, so that no peak is lost at any zoom. Cost of a tile: the samples in
//! it.

use super::Style;
use super::bars::{Bar, TILE_UNITS, TileRange};
use crate::analysis::section::Section;
use crate::trace::{ALLOCATED_MEMORY, MetricSeries, NameId, Ns};

/// The value of a unit and the row of its sample.
#[derive(Debug, Clone, Copy)]
struct Highest {
    value: f64,
    row: usize,
}

/// The value of a bar that fills its lane: 100 for a counter in per cent, else the highest value of the series.
pub(super) fn full_height(series: &MetricSeries) -> f64 {
    if series.is_per_cent() { f64::max(highest_value(series), 100.0) } else { highest_value(series) }
}

/// The highest value of a series, at least zero.
fn highest_value(series: &MetricSeries) -> f64 {
    series.samples.iter().fold(0.0, |highest, (_, value)| f64::max(highest, *value))
}

/// Adds the bars of a series in a tile. Neighbouring units with bars of the same height are one bar.
pub(super) fn add_bars(series: &MetricSeries, full_height: f64, range: TileRange, bars: &mut Vec<Bar<Style>>) {
    let samples = &series.samples;
    let mut row = samples.partition_point(|(time, _)| *time < range.start());
    let value_at = |row: usize| samples.get(row).map(|(_, value)| Highest { value: *value, row });
    let mut held = row.checked_sub(1).and_then(value_at);
    let last_unit = samples.last().map_or(0, |(time, _)| i64::from(range.unit_of(*time)) + 1);
    for unit in 0..i32::try_from(TILE_UNITS.min(last_unit)).unwrap_or(0) {
        let mut highest = held;
        while let Some(next) =
            value_at(row).filter(|_| samples.get(row).is_some_and(|(time, _)| range.unit_of(*time) <= unit))
        {
            held = Some(next);
            highest = highest.filter(|highest| highest.value >= next.value).or(held);
            row += 1;
        }
        let Some(highest) = highest else { continue };
        let filled = (255.0 * highest.value / full_height.max(f64::MIN_POSITIVE)).round() as u8;
        match bars.last_mut() {
            Some(bar) if bar.end == unit && bar.filled == filled => bar.end = unit + 1,
            _ if filled == 0 => {}
            _ => bars.push(Bar {
                start: unit,
                end: unit + 1,
                depth: 0,
                style: Style::Counter,
                row: highest.row,
                name: NameId(0),
                count: 1,
                filled,
            }),
        }
    }
}

/// From a sample to the next one; the last value has no end.
pub(super) fn place(series: &MetricSeries, row: usize) -> Option<(Ns, Ns)> {
    let (start, _) = series.samples.get(row)?;
    let next = series.samples.get(row.checked_add(1)?);
    Some((*start, next.map_or(*start, |(time, _)| *time)))
}

/// The value of a sample, that before it, and the highest one of the trace.
pub(super) fn describe(series: &MetricSeries, row: usize, section: &mut Section) {
    let value = |row: usize| series.samples.get(row).map(|(_, value)| *value);
    let keys = if series.name == ALLOCATED_MEMORY {
        ["allocated_bytes", "before_bytes", "highest_bytes"]
    } else {
        ["value", "value_before", "highest_value"]
    };
    for (key, value) in
        keys.into_iter().zip([value(row), row.checked_sub(1).and_then(value), Some(highest_value(series))])
    {
        section.figure(key, value);
    }
}
