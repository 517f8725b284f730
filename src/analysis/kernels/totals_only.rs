//! The sections and devices of a run of which only the totals of each kernel are known, without times: the tree of Proton. O(n log n)
//! for n kernels on devices.

use super::top_kernels::{DISTRIBUTION, KERNELS};
use crate::analysis::hardware::memory_traffic::{ROOFLINE_COLUMNS, ROOFLINE_TITLE};
use crate::analysis::results::Device;
use crate::analysis::section::{Section, Value};
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

    fn count(&self) -> Value {
        i64::try_from(self.count).unwrap_or(i64::MAX).into()
    }

    fn mean_us(&self) -> Value {
        Value::from((self.count > 0).then(|| self.time.0 as f64 / self.count as f64 / 1e3))
    }

    fn intensity(&self) -> Value {
        Value::from((self.flops > 0.0 && self.bytes > 0.0).then(|| self.flops / self.bytes))
    }

    fn tflops(&self) -> Value {
        Value::from((self.flops > 0.0 && self.time > Ns::ZERO).then(|| self.flops / self.time.0 as f64 / 1e3))
    }
}

/// The totals by kernel and device.
#[derive(Debug, Default)]
pub(crate) struct KernelsOfDevices(Vec<((String, String), KernelTotals)>);

impl KernelsOfDevices {
    /// Sorts the totals by time.
    pub(crate) fn new(by_name_and_device: VecMap<(String, String), KernelTotals>) -> Self {
        let mut kernels = by_name_and_device.0;
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
    pub(crate) fn section(&self, derived_from: &str) -> Section {
        let columns: Vec<&str> = KERNELS.into_iter().filter(|column| !DISTRIBUTION.contains(column)).collect();
        let mut section = Section::new("Kernels by device", derived_from, &columns);
        let total = self.sum().time;
        for ((name, device), totals) in &self.0 {
            section.row([
                name.as_str().into(),
                device.as_str().into(),
                totals.count(),
                totals.time.into(),
                Value::ms(totals.time),
                totals.mean_us(),
                Value::pct(totals.time, total),
            ]);
        }
        section
    }

    /// The work of kernels whose program names it. `None` if none does.
    pub(crate) fn roofline(&self, derived_from: &str) -> Option<Section> {
        const NAMED: usize = 7;
        let columns: Vec<&str> = ROOFLINE_COLUMNS.into_iter().take(NAMED).collect();
        let mut section = Section::new(ROOFLINE_TITLE, derived_from, &columns);
        for ((name, _), totals) in self.0.iter().filter(|(_, totals)| totals.flops > 0.0 || totals.bytes > 0.0) {
            let known = |value: f64| Value::from((value > 0.0).then_some(value));
            section.row([
                name.as_str().into(),
                Value::ms(totals.time),
                totals.count(),
                known(totals.flops),
                known(totals.bytes),
                totals.intensity(),
                totals.tflops(),
            ]);
        }
        (!section.rows.is_empty()).then_some(section)
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
        sums.0.iter().map(device).collect()
    }
}
