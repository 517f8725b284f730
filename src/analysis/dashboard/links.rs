//! The sampled NVLink counters as lines: thinned out so that a column of the drawing keeps the lowest and the highest
//! sample of every counter.

use super::number;
use crate::analysis::section::{Section, Value};
use crate::ordering::VecMap;

/// All counters of a run over time.
#[derive(Debug, Default)]
pub struct Links {
    /// From the first sample to the last.
    pub length_ns: i64,
    /// A counter each, by source and name.
    pub lines: Vec<Line>,
    /// When a sample fell into a collective, up to the next sample that did not; from the first sample.
    pub active_ns: Vec<(i64, i64)>,
    /// What the counters read, a part of the time each.
    pub ticks: Vec<Tick>,
    /// Samples of all lines, and how many of them were left out between the lowest and the highest.
    pub samples: usize,
    /// See `samples`.
    pub left_out: usize,
}

/// One counter.
#[derive(Debug, Default)]
pub struct Line {
    /// As the table names it.
    pub name: String,
    /// The source, as the table numbers it.
    pub source: String,
    /// Time from the first sample of all, and the value.
    pub points: Vec<(i64, f64)>,
    /// The highest value.
    pub highest: f64,
}

/// A part of the time.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Tick {
    /// From the first sample.
    pub from_ns: i64,
    /// Likewise.
    pub to_ns: i64,
    /// The highest value of each line in it; `None` where it has no sample.
    pub highest: Vec<Option<f64>>,
}

/// A sample: when, of which line, how much, and whether a collective ran.
type Sample = (i64, usize, f64, bool);

/// The lines of a section `nvlink_timeseries` with at most about `most` points, in `ticks` parts of the time.
pub fn links(section: &Section, most: usize, ticks: usize) -> Links {
    let mut found = Links::default();
    let samples = samples(section, &mut found.lines);
    let (Some(first), Some(last)) = (samples.iter().map(|s| s.0).min(), samples.iter().map(|s| s.0).max()) else {
        return found;
    };
    found.length_ns = last.saturating_sub(first);
    let ticks = ticks.max(1);
    let part = |at: i64, parts: usize| {
        let along = (i128::from(at) - i128::from(first)) * parts as i128;
        usize::try_from(along / (i128::from(found.length_ns).max(1))).unwrap_or(0).min(parts - 1)
    };
    let columns = (most / (2 * found.lines.len().max(1))).max(1);
    let mut extremes: VecMap<(usize, usize), (Sample, Sample)> = VecMap::new();
    let edge = |at: usize| i64::try_from(i128::from(found.length_ns) * at as i128 / ticks as i128).unwrap_or(i64::MAX);
    let nothing = vec![None; found.lines.len()];
    found.ticks =
        (0..ticks).map(|at| Tick { from_ns: edge(at), to_ns: edge(at + 1), highest: nothing.clone() }).collect();
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
        let tick = found.ticks.get_mut(part(time, ticks)).and_then(|tick| tick.highest.get_mut(line));
        tick.into_iter().for_each(|highest| *highest = Some(highest.map_or(value, |known: f64| known.max(value))));
    }
    let mut kept = 0;
    for ((line, _), (low, high)) in extremes.0 {
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

/// All samples that can be drawn, in the order of their time; makes a line for each counter.
fn samples(section: &Section, lines: &mut Vec<Line>) -> Vec<Sample> {
    let mut places: VecMap<(String, String), usize> = VecMap::new();
    let mut samples: Vec<Sample> = Vec::new();
    for row in &section.rows {
        let (Some(Value::Int(time)), Some(value)) = (row.get("timestamp_ns"), number(row, "metric_value")) else {
            continue;
        };
        let (name, source) = (row.text("metric_name").to_owned(), row.words("metric_source_id"));
        let new = lines.len();
        let line = places.update((name.clone(), source.clone()), new, |line| *line);
        if line == new {
            lines.push(Line { name, source, ..Line::default() });
        }
        samples.push((*time, line, value, row.get("nccl_active") == Some(&Value::Bool(true))));
    }
    // A table of 20,000 rows is in order already, but a file of somebody's need not be.
    samples.sort_by_key(|sample| sample.0);
    samples
}

/// Spans from a time at which some counter's sample fell into a collective to the next at which none did.
fn active(samples: &[Sample], first: i64) -> Vec<(i64, i64)> {
    let mut spans = Vec::new();
    let mut since: Option<i64> = None;
    for now in samples.chunk_by(|a, b| a.0 == b.0) {
        let Some((time, ..)) = now.first() else { continue };
        let time = time.saturating_sub(first);
        match (now.iter().any(|sample| sample.3), since) {
            (true, None) => since = Some(time),
            (false, Some(start)) => {
                spans.push((start, time));
                since = None;
            }
            _ => {}
        }
    }
    if let (Some(start), Some(last)) = (since, samples.last()) {
        spans.push((start, last.0.saturating_sub(first)));
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::super::testing::section;
    use super::*;

    const COLUMNS: [&str; 5] = ["metric_source_id", "metric_name", "timestamp_ns", "metric_value", "nccl_active"];

    fn of(samples: &[(i64, &str, i64, f64, bool)]) -> Section {
        let row = |(source, name, time, value, active): &(i64, &str, i64, f64, bool)| {
            [(*source).into(), (*name).into(), (*time).into(), (*value).into(), (*active).into()]
        };
        section(COLUMNS, &samples.iter().map(row).collect::<Vec<_>>())
    }

    #[test]
    fn few_samples_are_all_there_and_time_counts_from_the_first() {
        let section = of(&[
            (1, "RX", 1_000, 5.0, false),
            (1, "TX", 1_000, 6.0, false),
            (1, "RX", 1_100, 7.0, true),
            (1, "TX", 1_100, 8.0, true),
            (1, "RX", 1_200, 1.0, false),
        ]);
        let found = links(&section, 3_000, 2);
        let lines: Vec<_> =
            found.lines.iter().map(|line| (line.name.as_str(), line.points.clone(), line.highest)).collect();
        assert_eq!(
            lines,
            [("RX", vec![(0, 5.0), (100, 7.0), (200, 1.0)], 7.0), ("TX", vec![(0, 6.0), (100, 8.0)], 8.0)]
        );
        assert_eq!((found.length_ns, found.left_out), (200, 0));
        assert_eq!(found.active_ns, [(100, 200)]);
        assert_eq!(found.ticks[0].highest, [Some(5.0), Some(6.0)]);
        assert_eq!(found.ticks[1], Tick { from_ns: 100, to_ns: 200, highest: vec![Some(7.0), Some(8.0)] });
    }

    #[test]
    fn of_many_samples_every_column_keeps_its_lowest_and_its_highest() {
        let wave = |at: i64| {
            if at == 7_777 {
                99.0
            } else if at == 1_234 {
                -5.0
            } else {
                (at % 10) as f64
            }
        };
        let samples: Vec<_> = (0..20_000).map(|at| (1, "RX", at, wave(at), at == 19_999)).collect();
        let found = links(&of(&samples), 300, 10);
        let points = &found.lines[0].points;
        assert!(points.len() <= 300 && points.len() > 100, "{}", points.len());
        assert!(points.contains(&(7_777, 99.0)) && points.contains(&(1_234, -5.0)));
        assert!(points.is_sorted_by_key(|point| point.0));
        assert_eq!(found.lines[0].highest, 99.0);
        assert_eq!(found.left_out + points.len(), 20_000);
        assert_eq!(found.active_ns, [(19_999, 19_999)]);
    }

    #[test]
    fn damaged_samples_are_no_trouble() {
        let mut section = of(&[(1, "RX", i64::MIN, 5.0, true), (1, "RX", i64::MAX, f64::MAX, true)]);
        section.row([Value::Null, Value::Null, Value::Null, Value::Null, Value::Null]);
        section.row(["x".into(), "y".into(), "z".into(), "w".into(), "v".into()]);
        let found = links(&section, 0, 0);
        assert_eq!(found.samples, 2);
        assert!(links(&Section::default(), 10, 10).lines.is_empty());
    }
}
