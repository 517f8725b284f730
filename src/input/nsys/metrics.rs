//! Sampled hardware counters: of the dozens that nsys writes, those that an analysis may ask for.

use super::Import;
use super::schema::{METRIC_NAMES, METRICS};
use crate::ordering::StableSort;
use crate::trace::{MetricSeries, Ns, ProblemKind, is_plausible};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Parts of the names, in small letters, of all counters that `patterns/signals.json` has words for. Each of its words
/// contains one of these; the analysis looks again.
const KEPT: &[&str] = &["nvl", "flop", "floating point operations", "dram", "memory bytes"];

/// The GPU in the low bits of a type id.
const GPU_BITS: i64 = 0xff;

/// Stands for a source that the file does not tell.
const NO_SOURCE: i64 = -1;

/// The counters of the table of names.
#[derive(Default)]
struct Counters {
    /// By source and number. The source is `None` where the table does not tell it, the name `None` where no analysis asks.
    names: HashMap<(Option<i64>, i64), Option<String>, RandomState>,
    by_number: HashMap<i64, OfNumber, RandomState>,
}

/// The counters of one number.
#[derive(Debug, Clone, Copy)]
struct OfNumber {
    /// The source of the only one; `None` where there are several.
    only: Option<Option<i64>>,
    is_asked_for: bool,
}

/// What becomes of the samples of one counter.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// They join the series of this number.
    Series(usize),
    /// No analysis asks for them.
    NotAskedFor,
    /// The file does not tell the counter's name, or which of several GPUs was sampled.
    Unknown,
}

/// Reads the samples of the counters that are kept, a series a source and counter.
pub(super) fn read(import: &mut Import<'_>) {
    let (Some(table), Some(_)) = (import.schema.find(&METRICS), import.schema.find(&METRIC_NAMES)) else { return };
    let counters = counters(import);
    let builder = &mut import.builder;
    let mut places: HashMap<(Option<i64>, i64), Place, RandomState> = HashMap::default();
    let mut series: Vec<MetricSeries> = Vec::new();
    let columns: [&[&str]; 4] = [&["timestamp"], &["metricId"], &["typeId"], &["value"]];
    let read = import.scanner.scan(table, &columns, &mut |cells| {
        builder.trace.events.other += 1;
        let place = cells.int(1).map_or(Place::Unknown, |metric| {
            let source = cells.int(2);
            *places.entry((source, metric)).or_insert_with(|| match counters.find(source, metric) {
                Some((source, Some(name))) => {
                    let device = source.and_then(|source| import.gpus.known(source & GPU_BITS));
                    let source = source.unwrap_or(NO_SOURCE);
                    series.push(MetricSeries { source, device, name: name.to_owned(), samples: Vec::new() });
                    Place::Series(series.len() - 1)
                }
                Some((_, None)) => Place::NotAskedFor,
                None => Place::Unknown,
            })
        });
        let series = match place {
            Place::Series(at) => series.get_mut(at),
            Place::NotAskedFor => None,
            Place::Unknown => return builder.trace.problems.add(ProblemKind::UnknownCounter, 1, cells.at),
        };
        let Some(series) = series else { return };
        match (cells.int(0), cells.number(3)) {
            (Some(time), Some(value)) if is_plausible(Ns(time), Ns::ZERO) => series.samples.push((Ns(time), value)),
            _ => builder.trace.problems.add(ProblemKind::HostRowWithoutTime, 1, cells.at),
        }
    });
    series.iter_mut().for_each(|series| series.samples.order_by_key(|sample| sample.0));
    series.order_by(|a, b| (a.source, &a.name).cmp(&(b.source, &b.name)));
    builder.trace.metrics = series;
    import.note(read);
}

impl Counters {
    fn add(&mut self, source: Option<i64>, metric: i64, name: Option<String>) {
        let new = OfNumber { only: Some(source), is_asked_for: false };
        let of_number = self.by_number.entry(metric).or_insert(new);
        of_number.only = of_number.only.filter(|only| *only == source);
        of_number.is_asked_for |= name.is_some();
        self.names.entry((source, metric)).or_insert(name);
    }

    /// Source and name of a counter: the sample's source, or that of the only counter of this number.
    fn find(&self, source: Option<i64>, metric: i64) -> Option<(Option<i64>, Option<&str>)> {
        let of_number = self.by_number.get(&metric)?;
        if !of_number.is_asked_for {
            return Some((source, None));
        }
        let source = source.or(of_number.only.flatten());
        let name = self.names.get(&(source, metric)).or_else(|| self.names.get(&(None, metric)))?;
        Some((source, name.as_deref()))
    }
}

/// All counters that have a name, and the names of those that are kept.
fn counters(import: &mut Import<'_>) -> Counters {
    let mut counters = Counters::default();
    let Some(table) = import.schema.find(&METRIC_NAMES) else { return counters };
    let read = import.scanner.scan(table, &[&["typeId"], &["metricId"], &["metricName"]], &mut |cells| {
        if let (Some(metric), Some(name)) = (cells.int(1), cells.text(2)) {
            let lower = name.to_ascii_lowercase();
            let kept = KEPT.iter().any(|part| lower.contains(part)).then(|| name.into_owned());
            counters.add(cells.int(0), metric, kept);
        }
    });
    import.note(read);
    counters
}
