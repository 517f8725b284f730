//! Two peaks in the durations of a kernel: its short and its long launches, and what tells them apart. From the launches of one kernel;
//! O(n log n), and a search for the framework op around each launch call.
//!
//! The cut between the groups is the one that explains most of the variance of the logarithms of the durations (Otsu's method). If it
//! explains too little, the durations have one peak. A property tells the groups apart if almost all launches with the same value of it
//! are in one group: the shapes of the framework op, the grid, the kernels before and after on the stream. Thresholds are in
//! `patterns/duration_peaks.json`.

use crate::analysis::measure::percentiles::of_sorted;
use crate::analysis::section::{Answer, Pct, TypedSection, Us, section, words};
use crate::analysis::timeline::shape_of_launch;
use crate::json::{self, embedded, from_json};
use crate::rules::names;
use crate::trace::{DeviceId, GpuOp, NameId, Ns, ProcessId, Trace};
use crate::words::kernels as sentences;
use crate::words::phrases::named_and_more;
use std::collections::BTreeMap;
use std::sync::LazyLock;

section! {
    /// The short and the long launches of a kernel.
    pub(crate) struct DurationPeaks("one_kernel_peaks", "Short and long launches");
    row PeakRow {
        peak: Peak = "Launches",
        call_count: usize = "Calls",
        pct_of_launches: Pct,
        total_time_ns: Ns = "Total",
        min_duration_us: Option<Us> = "Min",
        p50_duration_us: Option<Us> = "p50",
        max_duration_us: Option<Us> = "Max",
        told_by: String = "Told apart by",
    }
}

/// One of the two groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Peak {
    #[default]
    Short,
    Long,
}

words! { Peak: Short = "short", Long = "long" }

/// `patterns/duration_peaks.json`.
#[derive(Debug)]
struct Thresholds {
    min_launches: usize,
    min_share: f64,
    min_explained_share: f64,
    min_length_ratio: f64,
    min_told_share: f64,
    max_values_share: f64,
}
from_json!(Thresholds {
    min_launches,
    min_share,
    min_explained_share,
    min_length_ratio,
    min_told_share,
    max_values_share
});

static THRESHOLDS: LazyLock<Thresholds> =
    LazyLock::new(|| embedded(json::read(include_str!("../../../patterns/duration_peaks.json"))));

/// Values of a property that a row names.
const MAX_NAMED: usize = 2;

/// A row for each group; `None` if the durations have one peak. `ops` are the rows and ops of the kernel, `sorted` their durations in
/// nanoseconds.
pub(super) fn duration_peaks(trace: &Trace, ops: &[(usize, GpuOp)], sorted: &[i64]) -> Option<Answer<DurationPeaks>> {
    let count_of_short = cut(sorted)?;
    let (short, long) = sorted.split_at_checked(count_of_short)?;
    let first_long = *long.first()?;
    let is_long: Vec<bool> = ops.iter().map(|(_, op)| op.duration.0 >= first_long).collect();
    let [by_short, by_long] = told_by(trace, ops, &is_long);
    let row = |peak, durations: &[i64], told_by: String| {
        let us = |percent| of_sorted(durations, percent).map(|ns| Us(ns / 1e3));
        PeakRow {
            peak,
            call_count: durations.len(),
            pct_of_launches: Pct(100.0 * durations.len() as f64 / sorted.len() as f64),
            total_time_ns: Ns(durations.iter().fold(0, |sum: i64, ns| sum.saturating_add(*ns))),
            min_duration_us: us(0),
            p50_duration_us: us(50),
            max_duration_us: us(100),
            told_by,
        }
    };
    let answer = DurationPeaks::answer("the durations of all launches")
        .limit("The launches are of two lengths with a gap between them. Told apart by: what nearly all launches of one group have and those of the other do not; empty if shapes, grid and neighbors are the same in both.");
    Some(answer.with_rows([row(Peak::Short, short, by_short), row(Peak::Long, long, by_long)]))
}

/// The number of short launches; `None` if the durations have one peak.
fn cut(sorted: &[i64]) -> Option<usize> {
    let count = sorted.len();
    let least = THRESHOLDS.min_launches.max((THRESHOLDS.min_share * count as f64).ceil() as usize).max(1);
    let logs: Vec<f64> = sorted.iter().map(|ns| ((*ns).max(1) as f64).ln()).collect();
    let mean = logs.iter().sum::<f64>() / count.max(1) as f64;
    let variance = logs.iter().map(|log| (log - mean) * (log - mean)).sum::<f64>();
    let (mut sum_of_short, mut best) = (0.0, None::<(f64, usize)>);
    for (index, log) in logs.iter().enumerate() {
        sum_of_short += log - mean;
        let (short, long) = (index + 1, count - index - 1);
        if short < least || long < least {
            continue;
        }
        // The sum of squares between the two means: the deviations of both groups add up to zero.
        let explained = sum_of_short * sum_of_short * (1.0 / short as f64 + 1.0 / long as f64);
        if best.is_none_or(|(most, _)| explained > most) {
            best = Some((explained, short));
        }
    }
    let (explained, short) = best?;
    let (before, after) = sorted.split_at_checked(short)?;
    let ratio = of_sorted(after, 50)? / of_sorted(before, 50)?.max(1.0);
    let is_gap = before.last() < after.first();
    let is_split = explained >= THRESHOLDS.min_explained_share * variance && ratio >= THRESHOLDS.min_length_ratio;
    (is_gap && is_split).then_some(short)
}

/// What the short and the long launches have; empty if nothing tells them apart.
fn told_by(trace: &Trace, ops: &[(usize, GpuOp)], is_long: &[bool]) -> [String; 2] {
    let neighbours = neighbours(trace, ops);
    let name = |name: Option<NameId>| {
        name.map_or("nothing".to_owned(), |name| names::short(&names::demangle(trace.names.get(name))))
    };
    let shape = |(row, _): &(usize, GpuOp)| {
        let call = trace.calls.get(trace.gpu_ops.launch(*row)?.0 as usize)?;
        shape_of_launch(trace, call)
    };
    let grid = |(row, _): &(usize, GpuOp)| Some(sentences::grid(trace.launch_configs.of_row(*row)?.grid));
    let side = |side: fn(&[Option<NameId>; 2]) -> Option<NameId>| {
        neighbours.iter().map(|both| Some(name(side(both)))).collect::<Vec<_>>()
    };
    let properties: [(&str, Vec<Option<String>>); 4] = [
        ("shapes", ops.iter().map(shape).collect()),
        ("grid", ops.iter().map(grid).collect()),
        ("after", side(|[before, _]| *before)),
        ("before", side(|[_, after]| *after)),
    ];
    let found = properties.iter().find_map(|(words, values)| Some((words, values_of_groups(values, is_long)?)));
    found.map_or_else(Default::default, |(words, groups)| groups.map(|values| sentences::told_by(words, &values)))
}

/// The most frequent values of both groups, if the values tell them apart.
fn values_of_groups(values: &[Option<String>], is_long: &[bool]) -> Option<[String; 2]> {
    let mut counts: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    for (value, is_long) in values.iter().zip(is_long) {
        let [short, long] = counts.entry(value.as_deref()?).or_default();
        *(if *is_long { long } else { short }) += 1;
    }
    let told: usize = counts.values().map(|[short, long]| short.max(long)).sum();
    let is_told = told as f64 >= THRESHOLDS.min_told_share * values.len() as f64;
    let is_of_groups = counts.len() as f64 <= (THRESHOLDS.max_values_share * values.len() as f64).max(2.0);
    let of_group = |own: usize| {
        let count = |counts: &[usize; 2]| counts.get(own).copied().unwrap_or_default();
        let is_own = |counts: &[usize; 2]| 2 * count(counts) > counts.iter().sum();
        let mut own: Vec<(&str, usize)> =
            counts.iter().filter(|(_, both)| is_own(both)).map(|(value, both)| (*value, count(both))).collect();
        crate::ordering::sort_by_key(&mut own, |(_, count)| std::cmp::Reverse(*count));
        let more = own.len().saturating_sub(MAX_NAMED);
        let named: Vec<&str> = own.iter().take(MAX_NAMED).map(|(value, _)| *value).collect();
        (!named.is_empty()).then(|| named_and_more(&named, more))
    };
    (is_told && is_of_groups).then(|| Some([of_group(0)?, of_group(1)?]))?
}

/// The names of the ops before and after each of these ops on its stream. `ops` are in the order of the trace.
fn neighbours(trace: &Trace, ops: &[(usize, GpuOp)]) -> Vec<[Option<NameId>; 2]> {
    let mut found = vec![[None; 2]; ops.len()];
    // By stream: the op before, with its number among `ops` if it is one of them.
    let mut last: BTreeMap<(DeviceId, i64, ProcessId), (NameId, Option<usize>)> = BTreeMap::new();
    let mut own = ops.iter().enumerate().peekable();
    for (row, op) in trace.gpu_ops.iter().enumerate() {
        let number = own.next_if(|(_, (own_row, _))| *own_row == row).map(|(number, _)| number);
        let before = last.insert((op.device, op.stream, op.process), (op.name, number));
        if let Some([first, _]) = number.and_then(|number| found.get_mut(number)) {
            *first = before.map(|(name, _)| name);
        }
        if let Some([_, second]) = before.and_then(|(_, number)| found.get_mut(number?)) {
            *second = Some(op.name);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::testing::rows_of;
    use crate::trace::testing::TestTrace;

    /// `k` after a gemm for 5 us, after a norm for 50 us, ten times.
    fn two_peaks() -> Trace {
        let mut trace = TestTrace::new();
        trace.in_us();
        for at in (0..1_000).step_by(100) {
            trace.kernel("gemm", at..at + 3).kernel("k", at + 5..at + 10 + at / 500);
            trace.kernel("norm", at + 20..at + 23).kernel("k", at + 30..at + 80 + at / 300);
        }
        trace.finish()
    }

    fn peaks(trace: &Trace, name: &str) -> Option<Answer<DurationPeaks>> {
        let is_own = |op: &GpuOp| trace.names.get(op.name) == name;
        let ops: Vec<(usize, GpuOp)> = trace.gpu_ops.iter().enumerate().filter(|(_, op)| is_own(op)).collect();
        let mut durations: Vec<i64> = ops.iter().map(|(_, op)| op.duration.0).collect();
        durations.sort_unstable();
        duration_peaks(trace, &ops, &durations)
    }

    #[test]
    fn a_kernel_with_two_lengths_has_a_row_for_each_and_the_neighbour_that_tells_them_apart() {
        let section = peaks(&two_peaks(), "k").unwrap().section();
        assert_eq!(
            rows_of(&section, &["peak", "call_count", "min_duration_us", "max_duration_us", "told_by"]),
            ["short 10 5 6 after gemm", "long 10 50 53 after norm"]
        );
    }

    #[test]
    fn lengths_around_one_value_or_evenly_spread_are_one_peak() {
        let trace = two_peaks();
        assert!(peaks(&trace, "gemm").is_none(), "all are equally long");
        let spread: Vec<i64> = (0..200).map(|step| (1_000.0 * 1.02_f64.powi(step)) as i64).collect();
        assert_eq!(cut(&spread), None);
        let few = [[10_i64; 50].as_slice(), &[100; 2]].concat();
        assert_eq!(cut(&few), None, "two launches are no group");
        assert_eq!(cut(&[]), None);
    }

    #[test]
    fn groups_that_nothing_tells_apart_have_no_words() {
        let mut trace = TestTrace::new();
        trace.in_us();
        for at in (0..2_000).step_by(100) {
            trace.kernel("gemm", at..at + 3).kernel("k", at + 5..at + if at % 200 == 0 { 10 } else { 70 });
        }
        let section = peaks(&trace.finish(), "k").unwrap().section();
        assert_eq!(rows_of(&section, &["peak", "call_count", "told_by"]), ["short 10 ", "long 10 "]);
    }
}
