//! The duration of every kernel by process, device and name, for exact percentiles: four bytes a kernel.

use super::groups::Groups;
use super::kernel_sums::{KernelKey, key};
use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::index::{IdMap, Merge};
use crate::analysis::measure::percentiles::Samples;
use crate::trace::{Ns, OpKind, OpRows, ProcessId};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// The limits of `pct_under_5us`, `pct_under_10us` and `pct_under_20us`.
const UNDER_NS: [i64; 3] = [5_000, 10_000, 20_000];

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ShortKernels {
    /// Kernels shorter than each of [`UNDER_NS`].
    pub(crate) under: [u64; 3],
    /// Kernels that are at most as long as the threshold of tiny kernels, and their time.
    pub(crate) tiny: (u64, Ns),
}

impl ShortKernels {
    fn of(durations: &Samples, tiny_ns: i64) -> Self {
        let mut short = Self::default();
        for duration in durations.iter() {
            short.under.iter_mut().zip(UNDER_NS).for_each(|(count, limit)| *count += u64::from(duration < limit));
            if duration <= tiny_ns {
                short.tiny.0 += 1;
                short.tiny.1 += Ns(duration);
            }
        }
        short
    }

    fn merge(&mut self, more: Self) {
        self.under.iter_mut().zip(more.under).for_each(|(sum, more)| *sum += more);
        self.tiny = (self.tiny.0 + more.tiny.0, self.tiny.1 + more.tiny.1);
    }
}

/// The durations of the kernels of one key.
#[derive(Debug)]
struct Row {
    key: KernelKey,
    durations: Samples,
    short: ShortKernels,
}

#[derive(Debug)]
pub(crate) struct KernelDurations {
    rows: Vec<Row>,
    positions: HashMap<KernelKey, usize, RandomState>,
}

impl KernelDurations {
    /// The durations of the kernels in these rows; `groups` are the groups of these rows.
    pub(crate) fn of(classified: &ClassifiedTrace, rows: &OpRows, groups: &Groups) -> Self {
        let trace = classified.trace;
        let (mut durations, row_of_group) = Self::with_capacity(groups);
        trace.gpu_ops.for_each_grouped(trace.names.len(), rows, |grouped| {
            let row = row_of_group.get(grouped.group as usize).and_then(|row| durations.rows.get_mut(*row));
            row.into_iter().for_each(|row| row.durations.push(grouped.op.duration.0));
        });
        let tiny_ns = (classified.signals.thresholds.tiny_kernel_us * 1e3) as i64;
        durations.rows.iter_mut().for_each(|row| row.short = ShortKernels::of(&row.durations, tiny_ns));
        durations
    }

    /// Empty durations with room for the kernels of these groups, and the row of each group: `usize::MAX` for
    /// groups that are no kernels.
    fn with_capacity(groups: &Groups) -> (Self, Vec<usize>) {
        let (mut rows, mut counts): (Vec<Row>, Vec<usize>) = (Vec::new(), Vec::new());
        let mut positions: HashMap<KernelKey, usize, RandomState> = HashMap::default();
        let mut row_of_group = Vec::with_capacity(groups.len());
        for group in groups.iter() {
            if group.kind != OpKind::Kernel {
                row_of_group.push(usize::MAX);
                continue;
            }
            let position = *positions.entry(key(group)).or_insert(rows.len());
            if position == rows.len() {
                rows.push(Row { key: key(group), durations: Samples::default(), short: ShortKernels::default() });
                counts.push(0);
            }
            counts.get_mut(position).into_iter().for_each(|count| *count += group.count as usize);
            row_of_group.push(position);
        }
        for (row, count) in rows.iter_mut().zip(counts) {
            row.durations = Samples::with_capacity(count);
        }
        (Self { rows, positions }, row_of_group)
    }

    fn get(&self, key: &KernelKey) -> Option<&Row> {
        self.rows.get(*self.positions.get(key)?)
    }

    /// How many of the kernels of this key are short.
    pub(crate) fn short_kernels(&self, key: &KernelKey) -> ShortKernels {
        self.get(key).map(|row| row.short).unwrap_or_default()
    }

    /// Percentiles of the kernels of these keys together.
    pub(crate) fn percentiles_ns(&self, keys: impl Iterator<Item = KernelKey>) -> Percentiles {
        percentiles(&keys.filter_map(|key| self.get(&key)).map(|row| &row.durations).collect::<Vec<_>>())
    }

    /// Percentiles of all kernels of a process, or of all processes.
    pub(crate) fn percentiles_of_process_ns(&self, process: Option<ProcessId>) -> Percentiles {
        let rows = self.rows.iter().filter(|row| process.is_none_or(|process| row.key.0 == process));
        percentiles(&rows.map(|row| &row.durations).collect::<Vec<_>>())
    }
}

/// Median, 90th and 99th percentile in nanoseconds; `None` if there are no kernels.
pub(crate) type Percentiles = [Option<f64>; 3];

fn percentiles(samples: &[&Samples]) -> Percentiles {
    let found = Samples::percentiles(samples, &[50, 90, 99]);
    [0, 1, 2].map(|at| found.get(at).copied().flatten())
}

impl Merge for KernelDurations {
    fn merge(&mut self, later: &Self, ids: &IdMap) {
        for row in &later.rows {
            let (process, device, name) = row.key;
            let key = (process, device, ids.name(name));
            let position = *self.positions.entry(key).or_insert(self.rows.len());
            match self.rows.get_mut(position) {
                Some(known) => {
                    known.durations.append(&row.durations);
                    known.short.merge(row.short);
                }
                None => self.rows.push(Row { key, durations: row.durations.clone(), short: row.short }),
            }
        }
    }
}
