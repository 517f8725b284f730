//! Sampled hardware counters: of the dozens that nsys writes, those that an analysis may ask for.

use super::Import;
use super::schema::{METRIC_NAMES, METRICS};
use crate::ordering::InOrder;
use crate::trace::{MetricSeries, Ns, ProblemKind};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Parts of the names, in small letters, of all counters that `patterns/signals.json` has words for. Each of its words
/// contains one of these; the analysis looks again.
const KEPT: &[&str] = &["nvl", "flop", "floating point operations", "dram", "memory bytes"];

/// The GPU in the low bits of a type id.
const GPU_BITS: i64 = 0xff;

/// Stands for a source that the file does not tell.
const NO_SOURCE: i64 = -1;

/// Names of counters by source and number; the source is `None` where the table of names does not tell it.
type CounterNames = HashMap<(Option<i64>, i64), String, RandomState>;

/// Reads the samples of the counters that are kept, a series a source and counter.
pub(super) fn read(import: &mut Import<'_>) {
    let (Some(table), Some(_)) = (import.schema.find(&METRICS), import.schema.find(&METRIC_NAMES)) else { return };
    let names = names(import);
    let by_source = table.column(&["typeId"]).is_some();
    let builder = &mut import.builder;
    let mut places: HashMap<(i64, i64), Option<usize>, RandomState> = HashMap::default();
    let mut series: Vec<MetricSeries> = Vec::new();
    let columns: [&[&str]; 4] = [&["timestamp"], &["metricId"], &["typeId"], &["value"]];
    let read = import.scanner.scan(table, &columns, &mut |cells| {
        builder.trace.events.other += 1;
        let Some(metric) = cells.int(1) else { return };
        let source = if by_source { cells.int(2) } else { only_source(&names, metric) }.unwrap_or(NO_SOURCE);
        let place = *places.entry((source, metric)).or_insert_with(|| {
            let name = names.get(&(Some(source), metric)).or_else(|| names.get(&(None, metric)))?;
            let device = import.gpus.known(source & GPU_BITS).filter(|_| source != NO_SOURCE);
            series.push(MetricSeries { source, device, name: name.clone(), samples: Vec::new() });
            Some(series.len() - 1)
        });
        let Some(series) = place.and_then(|place| series.get_mut(place)) else { return };
        match (cells.int(0), cells.number(3)) {
            (Some(time), Some(value)) => series.samples.push((Ns(time), value)),
            _ => builder.trace.problems.add(ProblemKind::HostRowWithoutTime, 1, cells.at),
        }
    });
    series.iter_mut().for_each(|series| series.samples.order_by_key(|sample| sample.0));
    series.order_by(|a, b| (a.source, &a.name).cmp(&(b.source, &b.name)));
    builder.trace.metrics = series;
    import.note(read);
}

/// The names of the counters that are kept.
fn names(import: &mut Import<'_>) -> CounterNames {
    let mut names = CounterNames::default();
    let Some(table) = import.schema.find(&METRIC_NAMES) else { return names };
    let read = import.scanner.scan(table, &[&["typeId"], &["metricId"], &["metricName"]], &mut |cells| {
        if let (Some(metric), Some(name)) = (cells.int(1), cells.text(2)) {
            let lower = name.to_ascii_lowercase();
            if KEPT.iter().any(|part| lower.contains(part)) {
                names.insert((cells.int(0), metric), name.into_owned());
            }
        }
    });
    import.note(read);
    names
}

/// The source of a counter, where only one has it.
fn only_source(names: &CounterNames, metric: i64) -> Option<i64> {
    let mut sources = names.keys().filter(|(_, number)| *number == metric).filter_map(|(source, _)| *source);
    sources.next().filter(|_| sources.next().is_none())
}
