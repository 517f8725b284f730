//! Bytes that kernels moved, where a profiler counted them for each kernel: the counters `FETCH_SIZE` and `WRITE_SIZE` of rocprofv3.
//! One pass over the counted kernels.
//!
//! A sum is known only if all kernels in it were counted. Reads alone are no total.

use crate::analysis::context::Context;
use crate::analysis::labels;
use crate::analysis::section::{Answer, ColumnKind, KernelName, Ms, Plain, TypedSection, Value, section};
use crate::ordering;
use crate::trace::{MemoryTraffic, NameId, Ns, Trace};
use std::collections::BTreeMap;

section! {
    /// Operations and bytes of each kernel, from counters of each kernel or from samples.
    pub(crate) struct Roofline("roofline", "Roofline");
    row RooflineRow {
        kernel_name: KernelName = "Kernel",
        total_time_ms: Ms = "Total",
        call_count: u64 = "Calls",
        flops: Option<f64>,
        bytes: Option<Bytes>,
        arithmetic_intensity: Option<f64> = "FLOP per byte",
        achieved_tflops: Option<f64> = "TFLOP/s",
        read_mb: Option<f64> = "Read (MB)",
        written_mb: Option<f64> = "Written (MB)",
        read_tb_per_s: Option<f64> = "Read TB/s",
        tb_per_s: Option<f64> = "TB/s",
        basis: String = "Rests on",
    }
}

/// The bytes that a kernel moved.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Bytes {
    Counted(u64),
    /// From samples, or as the program stated them.
    Estimated(f64),
}

impl Default for Bytes {
    fn default() -> Self {
        Self::Counted(0)
    }
}

impl Plain for Bytes {
    const KIND: ColumnKind = ColumnKind::Number;

    fn value(self) -> Value {
        match self {
            Self::Counted(bytes) => bytes.into(),
            Self::Estimated(bytes) => bytes.into(),
        }
    }

    fn of_value(value: &Value) -> Option<Self> {
        match value {
            Value::Int(_) => u64::of_value(value).map(Self::Counted),
            value => value.number().map(Self::Estimated),
        }
    }
}

/// The maximum number of rows of the section.
pub(super) const MAX_ROOFLINE_ROWS: usize = 40;

/// The bytes of some kernels and their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CountedBytes {
    /// The sum of the durations.
    pub(crate) time: Ns,
    pub(crate) kernels: u64,
    pub(crate) read: Option<u64>,
    pub(crate) written: Option<u64>,
}

impl CountedBytes {
    const NONE: Self = Self { time: Ns::ZERO, kernels: 0, read: Some(0), written: Some(0) };

    fn add(&mut self, duration: Ns, traffic: MemoryTraffic) {
        let sum = |sum: Option<u64>, bytes: Option<u64>| Some(sum?.saturating_add(bytes?));
        self.time += duration;
        self.kernels += 1;
        self.read = sum(self.read, traffic.read);
        self.written = sum(self.written, traffic.written);
    }

    /// The counted kernels in these rows; `None` if there are none.
    pub(crate) fn of_rows(trace: &Trace, rows: &[u32]) -> Option<Self> {
        if trace.memory_traffic.is_empty() {
            return None;
        }
        let mut sum = Self::NONE;
        for row in rows {
            let found = trace.memory_traffic.binary_search_by_key(row, |(row, _)| *row).ok();
            if let (Some((_, traffic)), Some(op)) =
                (found.and_then(|found| trace.memory_traffic.get(found)), trace.gpu_ops.get(*row as usize))
            {
                sum.add(op.duration, *traffic);
            }
        }
        (sum.kernels > 0).then_some(sum)
    }

    /// Bytes read and written.
    pub(crate) fn total(&self) -> Option<u64> {
        Some(self.read?.saturating_add(self.written?))
    }

    /// Bytes per picosecond, which are TB/s.
    pub(crate) fn tb_per_s(&self, bytes: Option<u64>) -> Option<f64> {
        bytes.filter(|_| self.time > Ns::ZERO).map(|bytes| bytes as f64 / self.time.0 as f64 / 1e3)
    }
}

/// The roofline section of a trace with memory traffic per kernel, longest time first.
pub(super) fn roofline(context: &Context) -> Answer<Roofline> {
    let trace = context.trace;
    let mut by_name: BTreeMap<NameId, CountedBytes> = BTreeMap::new();
    for (row, traffic) in &trace.memory_traffic {
        let Some(op) = trace.gpu_ops.get(*row as usize) else { continue };
        by_name.entry(op.name).or_insert(CountedBytes::NONE).add(op.duration, *traffic);
    }
    let mut rows: Vec<(NameId, CountedBytes)> = by_name.into_iter().collect();
    ordering::sort_by_key(&mut rows, |(name, counted)| (std::cmp::Reverse(counted.time), *name));
    let mut answer = Roofline::answer("bytes that the profiler counted for each kernel")
        .limit("Time and calls are those of the counted kernels. A profiler that counts runs kernels one at a time, which may take longer.")
        .limit("Bytes are counted where the L2 cache reads and writes beyond it. On GPUs with another cache there, as the Infinity Cache of MI300, they include what that cache answers.")
        .limit("Operations are not counted, so there is no arithmetic intensity.");
    if rows.iter().any(|(_, counted)| counted.total().is_none()) {
        answer.limits.push(
            "Where only reads or only writes were counted, the total is not known: collect `FETCH_SIZE WRITE_SIZE`."
                .to_owned(),
        );
    }
    answer.rows_in_all = rows.len() as u64;
    let mb = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64 / 1e6);
    answer.with_rows(rows.into_iter().take(MAX_ROOFLINE_ROWS).map(|(name, counted)| RooflineRow {
        kernel_name: labels::kernel_name(trace, name),
        total_time_ms: counted.time.into(),
        call_count: counted.kernels,
        bytes: counted.total().map(Bytes::Counted),
        read_mb: mb(counted.read),
        written_mb: mb(counted.written),
        read_tb_per_s: counted.tb_per_s(counted.read),
        tb_per_s: counted.tb_per_s(counted.total()),
        basis: "counters".to_owned(),
        ..RooflineRow::default()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::hardware::counters;
    use crate::analysis::testing::rows_of;
    use crate::trace::testing::TestTrace;

    const COLUMNS: [&str; 7] =
        ["kernel_name", "call_count", "bytes", "read_mb", "written_mb", "read_tb_per_s", "tb_per_s"];

    #[test]
    fn the_roofline_shows_the_bytes_and_rates_of_the_counted_kernels() {
        let mut trace = TestTrace::nsys();
        trace.kernel("gemm", 0..1_000).traffic(Some(2_000_000), Some(500_000));
        trace.kernel("gemm", 1_000..2_500).traffic(Some(2_000_000), Some(500_000));
        trace.kernel("gemm", 5_000..9_000);
        trace.kernel("norm", 2_500..3_000).traffic(Some(1_000_000), None);
        let section = trace.section(counters::roofline);
        // 5 MB in 2.5 us are 2 TB/s; the kernel without counters is in no figure.
        assert_eq!(rows_of(&section, &COLUMNS), ["gemm 2 5000000 4 1 1.6 2", "norm 1 - 1 - 2 -"]);
        assert!(section.limits.iter().any(|limit| limit.contains("WRITE_SIZE")), "reads alone are no total");
    }

    #[test]
    fn a_window_has_the_bytes_of_the_kernels_that_lie_in_it() {
        let mut trace = TestTrace::nsys();
        trace.kernel("a", 0..100).traffic(Some(1), Some(1));
        trace.kernel("b", 100..200).traffic(Some(2), Some(2));
        trace.kernel("c", 200..300).traffic(Some(3), Some(3));
        let whole = trace.finish();
        let part = whole.within(crate::trace::Window { start: Ns(100), end: Ns(250) });
        let rows: Vec<&str> = part
            .memory_traffic
            .iter()
            .map(|(row, _)| part.names.get(part.gpu_ops.get(*row as usize).unwrap().name))
            .collect();
        assert_eq!(rows, ["b"], "what of c was moved in its half is not known");
    }
}
