//! Reads sampled hardware counters. nsys writes dozens; only those that `patterns/signals.json` lists are stored, at 16 bytes a
//! sample.

use super::Import;
use super::schema::{METRIC_NAMES, METRICS};
use crate::rules::signals::Signals;
use crate::trace::{MetricSeries, NO_SOURCE, Ns, ProblemKind, is_plausible};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// The end of the names of clock counters. nsys writes their samples in Hz.
const MEGAHERTZ: &str = "[MHz]";
const HZ_PER_MHZ: f64 = 1e6;

/// Mask of the GPU number in a type id.
const GPU_BITS: i64 = 0xff;

#[derive(Default)]
struct Counters {
    /// By source and number. The source is `None` if not recorded, the name `None` if the counter is not kept.
    names: HashMap<(Option<i64>, i64), Option<String>, RandomState>,
    by_number: HashMap<i64, SameNumber, RandomState>,
}

#[derive(Debug, Clone, Copy)]
struct SameNumber {
    /// The source, if there is only one counter; `None` if there are several.
    only_source: Option<Option<i64>>,
    is_kept: bool,
}

#[derive(Debug, Clone, Copy)]
enum Target {
    /// They belong to the series of this index.
    Series(usize),
    /// The counter is not kept.
    NotKept,
    /// The name of the counter, or the GPU among several, is not recorded.
    Unknown,
}

/// Reads the samples of the stored counters, one series per source and counter.
pub(super) fn read(import: &mut Import<'_>) {
    let (Some(table), Some(_)) = (import.schema.find(&METRICS), import.schema.find(&METRIC_NAMES)) else { return };
    let counters = counters(import);
    let builder = &mut import.builder;
    let mut targets: HashMap<(Option<i64>, i64), Target, RandomState> = HashMap::default();
    let mut series: Vec<MetricSeries> = Vec::new();
    let columns: [&[&str]; 4] = [&["timestamp"], &["metricId"], &["typeId"], &["value"]];
    let read = import.scanner.scan(table, &columns, &mut |cells| {
        builder.trace.events.other += 1;
        let target = cells.int(1).map_or(Target::Unknown, |metric| {
            let source = cells.int(2);
            *targets.entry((source, metric)).or_insert_with(|| match counters.find(source, metric) {
                Some((source, Some(name))) => {
                    let device = source.and_then(|source| import.gpus.existing_device(source & GPU_BITS));
                    let source = source.unwrap_or(NO_SOURCE);
                    series.push(MetricSeries { source, device, name: name.to_owned(), samples: Vec::new() });
                    Target::Series(series.len() - 1)
                }
                Some((_, None)) => Target::NotKept,
                None => Target::Unknown,
            })
        });
        let series = match target {
            Target::Series(at) => series.get_mut(at),
            Target::NotKept => None,
            Target::Unknown => return builder.trace.problems.add(ProblemKind::UnknownCounter, 1, cells.at),
        };
        let Some(series) = series else { return };
        match (cells.int(0), cells.number(3)) {
            (Some(time), Some(value)) if is_plausible(Ns(time), Ns::ZERO) => series.samples.push((Ns(time), value)),
            _ => builder.trace.problems.add(ProblemKind::HostRowWithoutTime, 1, cells.at),
        }
    });
    for series in &mut series {
        series.samples.sort_by_key(|sample| sample.0);
        convert_clock(series);
    }
    series.sort_by(|a, b| (a.source, &a.name).cmp(&(b.source, &b.name)));
    builder.trace.metrics = series;
    import.count_damage(read);
}

/// Converts the samples of a clock counter to the unit in its name. No clock of a GPU has 1 million MHz.
fn convert_clock(series: &mut MetricSeries) {
    if series.name.ends_with(MEGAHERTZ) && series.samples.iter().any(|(_, value)| *value >= HZ_PER_MHZ) {
        series.samples.iter_mut().for_each(|(_, value)| *value /= HZ_PER_MHZ);
    }
}

impl Counters {
    fn add(&mut self, source: Option<i64>, metric: i64, name: Option<String>) {
        let new = SameNumber { only_source: Some(source), is_kept: false };
        let same_number = self.by_number.entry(metric).or_insert(new);
        same_number.only_source = same_number.only_source.filter(|only| *only == source);
        same_number.is_kept |= name.is_some();
        self.names.entry((source, metric)).or_insert(name);
    }

    /// Returns source and name of a sample's counter. If the sample has no source, that of the only counter of this number.
    fn find(&self, source: Option<i64>, metric: i64) -> Option<(Option<i64>, Option<&str>)> {
        let same_number = self.by_number.get(&metric)?;
        if !same_number.is_kept {
            return Some((source, None));
        }
        let source = source.or(same_number.only_source.flatten());
        let name = self.names.get(&(source, metric)).or_else(|| self.names.get(&(None, metric)))?;
        Some((source, name.as_deref()))
    }
}

/// Reads the table of counters; keeps the names of those to be stored.
fn counters(import: &mut Import<'_>) -> Counters {
    let mut counters = Counters::default();
    let kept_words = &Signals::embedded().kept_counters;
    let Some(table) = import.schema.find(&METRIC_NAMES) else { return counters };
    let read = import.scanner.scan(table, &[&["typeId"], &["metricId"], &["metricName"]], &mut |cells| {
        if let (Some(metric), Some(name)) = (cells.int(1), cells.text(2)) {
            let lower = name.to_ascii_lowercase();
            let kept = kept_words.iter().any(|word| lower.contains(word)).then(|| name.into_owned());
            counters.add(cells.int(0), metric, kept);
        }
    });
    import.count_damage(read);
    counters
}
