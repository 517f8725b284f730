//! The sections and devices of a run of which only the totals of each kernel are known, without times: the tree of Proton. O(n log n)
//! for n kernels on devices.

use super::top_kernels::{DISTRIBUTION, TopKernelRow, TopKernels};
use crate::analysis::hardware::memory_traffic::{Bytes, Roofline, RooflineRow};
use crate::analysis::results::Device;
use crate::analysis::section::{Answer, Pct, TypedSection, Us};
use crate::ordering::{self, VecMap};
use crate::trace::Ns;

/// The totals of one kernel on one device.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct KernelTotals {
    pub(crate) time: Ns,
    pub(crate) count: u64,
    /// Floating-point operations and bytes, as far as the program names them; 0 if it does not.
    pub(crate) flops: f64,
    pub(crate) bytes: f64,
}

impl KernelTotals {
    pub(crate) fn add(&mut self, more: &Self) {
        self.time = Ns(self.time.0.saturating_add(more.time.0));
        self.count = self.count.saturating_add(more.count);
        self.flops += more.flops;
        self.bytes += more.bytes;
    }

    fn mean_us(&self) -> Option<Us> {
        (self.count > 0).then(|| Us(self.time.0 as f64 / self.count as f64 / 1e3))
    }

    fn intensity(&self) -> Option<f64> {
        (self.flops > 0.0 && self.bytes > 0.0).then(|| self.flops / self.bytes)
    }

    fn tflops(&self) -> Option<f64> {
        (self.flops > 0.0 && self.time > Ns::ZERO).then(|| self.flops / self.time.0 as f64 / 1e3)
    }
}

/// The totals by kernel and device.
#[derive(Debug, Default)]
pub(crate) struct KernelsOfDevices(Vec<((String, String), KernelTotals)>);

impl KernelsOfDevices {
    /// Sorts the totals by time.
    pub(crate) fn new(by_name_and_device: VecMap<(String, String), KernelTotals>) -> Self {
        let mut kernels = by_name_and_device.into_vec();
        ordering::sort_by(&mut kernels, |a, b| b.1.time.cmp(&a.1.time).then_with(|| a.0.cmp(&b.0)));
        Self(kernels)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The sum over all kernels.
    pub(crate) fn sum(&self) -> KernelTotals {
        let mut sum = KernelTotals::default();
        self.0.iter().for_each(|(_, totals)| sum.add(totals));
        sum
    }

    /// One row per kernel and device, without what only single launches tell.
    pub(crate) fn section(&self, derived_from: &str) -> Answer<TopKernels> {
        let total = self.sum().time;
        let rows = self.0.iter().map(|((name, device), totals)| TopKernelRow {
            kernel_name: name.as_str().into(),
            device_id: device.as_str().into(),
            call_count: totals.count,
            total_time_ns: totals.time,
            total_time_ms: totals.time.into(),
            avg_duration_us: totals.mean_us(),
            pct_total_kernel_time: Some(Pct::of(totals.time, total)),
            ..TopKernelRow::default()
        });
        let mut answer = TopKernels::answer(derived_from).with_rows(rows);
        answer.title = "Kernels by device";
        DISTRIBUTION.into_iter().for_each(|column| answer.hide(column));
        answer
    }

    /// The work of kernels whose program names it. `None` if none does.
    pub(crate) fn roofline(&self, derived_from: &str) -> Option<Answer<Roofline>> {
        let known = |value: f64| (value > 0.0).then_some(value);
        let named = self.0.iter().filter(|(_, totals)| totals.flops > 0.0 || totals.bytes > 0.0);
        let mut answer = Roofline::answer(derived_from).with_rows(named.map(|((name, _), totals)| RooflineRow {
            kernel_name: name.as_str().into(),
            total_time_ms: totals.time.into(),
            call_count: totals.count,
            flops: known(totals.flops),
            bytes: known(totals.bytes).map(Bytes::Estimated),
            arithmetic_intensity: totals.intensity(),
            achieved_tflops: totals.tflops(),
            ..RooflineRow::default()
        }));
        for column in [
            RooflineRow::read_mb,
            RooflineRow::written_mb,
            RooflineRow::read_tb_per_s,
            RooflineRow::tb_per_s,
            RooflineRow::basis,
        ] {
            answer.hide(column);
        }
        (!answer.rows.is_empty()).then_some(answer)
    }

    /// The time of each device: kernels that ran at the same time count more than once.
    pub(crate) fn devices(&self) -> Vec<Device> {
        let mut sums: VecMap<&str, KernelTotals> = VecMap::new();
        for ((_, device), totals) in &self.0 {
            sums.update(device, KernelTotals::default(), |sum| sum.add(totals));
        }
        let device = |&(id, KernelTotals { time, count, .. }): &(&str, KernelTotals)| Device {
            id: id.to_owned(),
            name: String::new(),
            gpu_ops: count,
            duration_ns: time.0,
            union_ns: time.0,
            window_ns: 0,
            idle_ns: 0,
            busy_share: 0.0,
        };
        sums.iter().map(device).collect()
    }
}
