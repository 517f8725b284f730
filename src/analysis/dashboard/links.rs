//! Thins the samples of NVLink counters to lines for a chart: each column keeps the lowest and the highest sample of each
//! counter (min-max decimation). n log n in the samples for sorting.

use super::number;
use crate::analysis::section::{Section, Value};
use crate::ordering;
use crate::ordering::VecMap;

/// All counters of a run over time. Times are relative to the first sample.
#[derive(Debug, Default)]
pub struct CounterLines {
    /// Time from the first to the last sample.
    pub length_ns: i64,
    /// One line per counter, by source and name.
    pub lines: Vec<Line>,
    /// Intervals from a sample during a collective to the next sample outside a collective.
    pub active_ns: Vec<(i64, i64)>,
    /// Equal parts of the time, with the highest values for tooltips.
    pub hover: Vec<HoverInterval>,
    /// The number of samples of all lines.
    pub samples: usize,
    /// The number of samples that are not drawn.
    pub left_out: usize,
}

/// One counter.
#[derive(Debug, Default)]
pub struct Line {
    /// The name in the table.
    pub name: String,
    /// The number of the source in the table.
    pub source: String,
    /// Time and value of the samples kept.
    pub points: Vec<(i64, f64)>,
    /// The highest value.
    pub highest: f64,
}

/// A time interval with a tooltip.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct HoverInterval {
    /// Start, relative to the first sample.
    pub from_ns: i64,
    /// End, relative to the first sample.
    pub to_ns: i64,
    /// The highest value of each line; `None` without samples.
    pub highest: Vec<Option<f64>>,
}

/// Time, index of the line, value, and whether a collective was running.
type Sample = (i64, usize, f64, bool);

/// The lines of a section `nvlink_timeseries` with about `max_points` points at most, and `hover_intervals` intervals with
/// tooltips.
pub fn counter_lines(section: &Section, max_points: usize, hover_intervals: usize) -> CounterLines {
    let mut found = CounterLines::default();
    let samples = samples(section, &mut found.lines);
    let (Some(first), Some(last)) = (samples.iter().map(|s| s.0).min(), samples.iter().map(|s| s.0).max()) else {
        return found;
    };
    found.length_ns = last.saturating_sub(first);
    let hover_intervals = hover_intervals.max(1);
    let part = |time: i64, parts: usize| {
        let scaled = (i128::from(time) - i128::from(first)) * parts as i128;
        usize::try_from(scaled / (i128::from(found.length_ns).max(1))).unwrap_or(0).min(parts - 1)
    };
    let columns = (max_points / (2 * found.lines.len().max(1))).max(1);
    let mut extremes: VecMap<(usize, usize), (Sample, Sample)> = VecMap::new();
    let boundary = |index: usize| {
        i64::try_from(i128::from(found.length_ns) * index as i128 / hover_intervals as i128).unwrap_or(i64::MAX)
    };
    let no_samples = vec![None; found.lines.len()];
    let interval = |index: usize| HoverInterval {
        from_ns: boundary(index),
        to_ns: boundary(index + 1),
        highest: no_samples.clone(),
    };
    found.hover = (0..hover_intervals).map(interval).collect();
    for sample in &samples {
        let (time, line, value, _) = *sample;
        extremes.update((line, part(time, columns)), (*sample, *sample), |(low, high): &mut (Sample, Sample)| {
            if value < low.2 {
                *low = *sample;
            }
            if value > high.2 {
                *high = *sample;
            }
        });
        let interval = found.hover.get_mut(part(time, hover_intervals));
        if let Some(highest) = interval.and_then(|interval| interval.highest.get_mut(line)) {
            *highest = Some(highest.map_or(value, |other: f64| other.max(value)));
        }
    }
    let mut kept = 0;
    for ((line, _), (low, high)) in extremes.into_vec() {
        let Some(line) = found.lines.get_mut(line) else { continue };
        let (one, other) = if low.0 <= high.0 { (low, high) } else { (high, low) };
        line.highest = if line.points.is_empty() { high.2 } else { line.highest.max(high.2) };
        line.points.push((one.0.saturating_sub(first), one.2));
        kept += 1;
        if other.0 != one.0 {
            line.points.push((other.0.saturating_sub(first), other.2));
            kept += 1;
        }
    }
    found.active_ns = active(&samples, first);
    found.samples = samples.len();
    found.left_out = samples.len().saturating_sub(kept);
    found
}

/// The valid samples, sorted by time. Adds a line for each counter.
fn samples(section: &Section, lines: &mut Vec<Line>) -> Vec<Sample> {
    let mut line_indices: VecMap<(String, String), usize> = VecMap::new();
    let mut samples: Vec<Sample> = Vec::new();
    for row in &section.rows {
        let (Some(Value::Int(time)), Some(value)) = (row.get("timestamp_ns"), number(row, "metric_value")) else {
            continue;
        };
        let (name, source) = (row.text("metric_name").to_owned(), row.words("metric_source_id"));
        let new = lines.len();
        let line = line_indices.update((name.clone(), source.clone()), new, |line| *line);
        if line == new {
            lines.push(Line { name, source, ..Line::default() });
        }
        samples.push((*time, line, value, row.get("nccl_active") == Some(&Value::Bool(true))));
    }
    // Rows of a trace are sorted, but those of a report from elsewhere may not be.
    ordering::sort_by_key(&mut samples, |sample| sample.0);
    samples
}

/// Intervals from a time at which any counter was sampled during a collective to the next time at which none was.
fn active(samples: &[Sample], first: i64) -> Vec<(i64, i64)> {
    let mut intervals = Vec::new();
    let mut active_from: Option<i64> = None;
    for simultaneous in samples.chunk_by(|a, b| a.0 == b.0) {
        let Some((time, ..)) = simultaneous.first() else { continue };
        let time = time.saturating_sub(first);
        match (simultaneous.iter().any(|sample| sample.3), active_from) {
            (true, None) => active_from = Some(time),
            (false, Some(start)) => {
                intervals.push((start, time));
                active_from = None;
            }
            _ => {}
        }
    }
    if let (Some(start), Some(last)) = (active_from, samples.last()) {
        intervals.push((start, last.0.saturating_sub(first)));
    }
    intervals
}

#[cfg(test)]
mod tests {
    use super::super::testing::section;
    use super::*;

    const COLUMNS: [&str; 5] = ["metric_source_id", "metric_name", "timestamp_ns", "metric_value", "nccl_active"];

    fn section_of(samples: &[(i64, &str, i64, f64, bool)]) -> Section {
        let row = |(source, name, time, value, active): &(i64, &str, i64, f64, bool)| {
            [(*source).into(), (*name).into(), (*time).into(), (*value).into(), (*active).into()]
        };
        section(COLUMNS, &samples.iter().map(row).collect::<Vec<_>>())
    }

    #[test]
    fn few_samples_are_all_kept_with_relative_times() {
        let section = section_of(&[
            (1, "RX", 1_000, 5.0, false),
            (1, "TX", 1_000, 6.0, false),
            (1, "RX", 1_100, 7.0, true),
            (1, "TX", 1_100, 8.0, true),
            (1, "RX", 1_200, 1.0, false),
        ]);
        let found = counter_lines(&section, 3_000, 2);
        let lines: Vec<_> =
            found.lines.iter().map(|line| (line.name.as_str(), line.points.clone(), line.highest)).collect();
        assert_eq!(
            lines,
            [("RX", vec![(0, 5.0), (100, 7.0), (200, 1.0)], 7.0), ("TX", vec![(0, 6.0), (100, 8.0)], 8.0)]
        );
        assert_eq!((found.length_ns, found.left_out), (200, 0));
        assert_eq!(found.active_ns, [(100, 200)]);
        assert_eq!(found.hover[0].highest, [Some(5.0), Some(6.0)]);
        assert_eq!(found.hover[1], HoverInterval { from_ns: 100, to_ns: 200, highest: vec![Some(7.0), Some(8.0)] });
    }

    #[test]
    fn every_column_of_many_samples_keeps_its_lowest_and_highest() {
        let value = |time: i64| match time {
            7_777 => 99.0,
            1_234 => -5.0,
            _ => (time % 10) as f64,
        };
        let samples: Vec<_> = (0..20_000).map(|time| (1, "RX", time, value(time), time == 19_999)).collect();
        let found = counter_lines(&section_of(&samples), 300, 10);
        let points = &found.lines[0].points;
        assert!(points.len() <= 300 && points.len() > 100, "{}", points.len());
        assert!(points.contains(&(7_777, 99.0)) && points.contains(&(1_234, -5.0)));
        assert!(points.is_sorted_by_key(|point| point.0));
        assert_eq!(found.lines[0].highest, 99.0);
        assert_eq!(found.left_out + points.len(), 20_000);
        assert_eq!(found.active_ns, [(19_999, 19_999)]);
    }

    #[test]
    fn malformed_samples_are_ignored() {
        let mut section = section_of(&[(1, "RX", i64::MIN, 5.0, true), (1, "RX", i64::MAX, f64::MAX, true)]);
        section.row([Value::Null, Value::Null, Value::Null, Value::Null, Value::Null]);
        section.row(["x".into(), "y".into(), "z".into(), "w".into(), "v".into()]);
        let found = counter_lines(&section, 0, 0);
        assert_eq!(found.samples, 2);
        assert!(counter_lines(&Section::default(), 10, 10).lines.is_empty());
    }
}
