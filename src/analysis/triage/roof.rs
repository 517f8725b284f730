//! How far the kernels with most time are from the limits of their GPU: the arithmetic peak, or the memory bandwidth if each
//! operand is read once and the result written once. Work comes from the shapes of matrix products in the trace, limits from
//! `patterns/hardware.json`. If one of them is unknown, the sentence says how to measure it; nothing is estimated. Two
//! passes over the GPU ops, and only if a kernel has a large share and the trace has shapes.
//!
//! Limit: only kernels of matrix products that run eagerly, because replays of graphs have no shapes.

use super::call_sites::Resolution;
use super::kernels::KernelRow;
use super::serving::{Deployment, Vendor};
use super::view::View;
use crate::analysis::dashboard::{Preset, preset_of_devices};
use crate::analysis::structure::stages::Stage;
use crate::trace::{HostCode, MatrixProduct, NameId, Precision, ProcessId};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Kernels with a smaller share of their stage are no bottleneck; in percent.
const MIN_SHARE_PCT: f64 = 10.0;
/// The minimum part of a kernel's time that has shapes.
const MIN_KNOWN_TIME: f64 = 0.9;
/// The category of kernels that compute matrix products.
const GEMM: &str = "gemm";

/// The distance of each kernel row to the limits of the GPU.
#[derive(Debug, Default)]
pub struct Roofs {
    /// Parallel to the rows; `None` for rows with a small share.
    rows: Vec<Option<Roof>>,
}

#[derive(Debug)]
struct Roof {
    short_name: String,
    share_pct: f64,
    distance: Distance,
}

#[derive(Debug)]
enum Distance {
    /// `46 % of the dense BF16 or FP16 peak of an H100 SXM5 80 GB`.
    Reached(String),
    /// Unknown, with the way to measure it.
    Unknown(String),
}

impl Roofs {
    /// Compares the rows that take at least 10 % of their stage with the limits of the GPU.
    pub fn new(view: &View, rows: &[KernelRow]) -> Self {
        let is_large = |row: &KernelRow| row.share_of_busy_time().is_some_and(|share| share >= MIN_SHARE_PCT);
        if !rows.iter().any(is_large) {
            return Self::default();
        }
        let (work, preset, vendor) = (Work::of_rows(view, rows), preset(view), Deployment::new(view).vendor);
        let has_products = view.trace.code.as_ref().is_some_and(|code| !code.matrix_products.is_empty());
        let roof = |(row, work): (&KernelRow, &Work)| {
            let reached = preset.and_then(|preset| work.reached(row, preset));
            let distance = reached
                .map_or_else(|| Distance::Unknown(how_to_measure(view, row, vendor, has_products)), Distance::Reached);
            Roof { short_name: row.short_name(view).to_owned(), share_pct: row.elapsed_share_pct, distance }
        };
        let rows = rows.iter().zip(&work).map(|(row, work)| is_large(row).then(|| roof((row, work))));
        Self { rows: rows.collect() }
    }

    /// What the kernel of this row reaches, if that is known.
    pub(super) fn reached(&self, row: usize) -> Option<&str> {
        match &self.rows.get(row)?.as_ref()?.distance {
            Distance::Reached(text) => Some(text),
            Distance::Unknown(_) => None,
        }
    }

    /// A sentence about the largest of these rows, after a blank; empty if none has a large share.
    pub(super) fn sentence(&self, rows: impl Iterator<Item = usize>) -> String {
        let roofs = rows.filter_map(|row| self.rows.get(row)?.as_ref());
        let Some(roof) = roofs.max_by(|a, b| a.share_pct.total_cmp(&b.share_pct)) else { return String::new() };
        let kernel = format!(" Its kernel {} takes {:.1} % of the stage", roof.short_name, roof.share_pct);
        match &roof.distance {
            Distance::Reached(text) => format!("{kernel} and reaches {text}, by the shapes in the trace."),
            Distance::Unknown(todo) => {
                format!("{kernel}. The trace does not show how far it is from the limits of the GPU: {todo}.")
            }
        }
    }
}

/// The matrix products of a kernel row.
#[derive(Debug, Clone, Copy, Default)]
struct Work {
    flop: f64,
    bytes: f64,
    /// The time of the launches with known work.
    time_ns: i64,
    precision: Option<Precision>,
    /// The launches have different data types.
    is_mixed: bool,
}

impl Work {
    /// The work of all rows. A product counts if exactly one GEMM kernel computes it.
    fn of_rows(view: &View, rows: &[KernelRow]) -> Vec<Self> {
        let mut sums = vec![Self::default(); rows.len()];
        let Some(code) = view.trace.code.as_deref().filter(|code| !code.matrix_products.is_empty()) else {
            return sums;
        };
        let products = products(code);
        let is_gemm = |name: NameId| view.name(name).is_some_and(|name| name.category == GEMM);
        let id = |index: usize| code.op_ids.get(index).copied().unwrap_or_default();
        let mut kernels: HashMap<(ProcessId, u32), u32, RandomState> = HashMap::default();
        for (index, _, op) in view.ops().filter(|(.., op)| is_gemm(op.name)) {
            *kernels.entry((op.process, id(index))).or_default() += 1;
        }
        let mut row_of_name: HashMap<(Stage, NameId), usize, RandomState> = HashMap::default();
        for (index, row) in rows.iter().enumerate() {
            row_of_name.extend(row.ids.iter().map(|name| ((row.stage, *name), index)));
        }
        for (index, stage, op) in view.ops().filter(|(.., op)| is_gemm(op.name)) {
            let key = (op.process, id(index));
            let row = row_of_name.get(&(stage, op.name)).and_then(|row| sums.get_mut(*row));
            let product = products.get(&key).copied().flatten().filter(|_| kernels.get(&key) == Some(&1));
            if let (Some(sum), Some(product)) = (row, product) {
                sum.add(product, op.duration.0);
            }
        }
        sums
    }

    fn add(&mut self, product: &MatrixProduct, time_ns: i64) {
        self.flop += product.flop;
        self.bytes += product.bytes;
        self.time_ns = self.time_ns.saturating_add(time_ns);
        self.is_mixed |= self.precision.is_some_and(|precision| precision != product.precision);
        self.precision = Some(product.precision);
    }

    /// The share of the nearer limit that the row reaches. More than all of it would be an error in the shapes or operands
    /// that come from the cache.
    fn reached(&self, row: &KernelRow, preset: &Preset) -> Option<String> {
        if self.is_mixed || (self.time_ns as f64) < MIN_KNOWN_TIME * row.duration_ns as f64 {
            return None;
        }
        let (peak_tflops, precision) = match self.precision? {
            Precision::Half => (preset.peak_tflops, preset.precision.as_str()),
            Precision::Fp8 => (preset.fp8_tflops?, "dense FP8"),
            Precision::Other => return None,
        };
        // TFLOP/s are FLOP per picosecond.
        let arithmetic = self.flop / peak_tflops / 1e3 / self.time_ns as f64;
        let memory = self.bytes / preset.memory_tb_per_s / 1e3 / self.time_ns as f64;
        let share = arithmetic.max(memory);
        let limit = if arithmetic >= memory {
            format!("{precision} peak of {} ({peak_tflops:.0} TFLOP/s)", preset.title)
        } else {
            format!("memory bandwidth of {} ({} TB/s)", preset.title, preset.memory_tb_per_s)
        };
        (share > 0.0 && share <= 1.0).then(|| format!("{:.0} % of the {limit}", 100.0 * share))
    }
}

/// The products by process and external id; `None` for ids that several products have.
fn products(code: &HostCode) -> HashMap<(ProcessId, u32), Option<&MatrixProduct>, RandomState> {
    let mut products = HashMap::default();
    for product in &code.matrix_products {
        match products.entry((product.process, product.id)) {
            Entry::Vacant(entry) => {
                entry.insert(Some(product));
            }
            Entry::Occupied(mut entry) => *entry.get_mut() = None,
        }
    }
    products
}

/// The preset of all devices of the triage.
fn preset(view: &View) -> Option<&'static Preset> {
    let devices = view.trace.devices.iter().filter(|device| view.options.selects(&device.id));
    preset_of_devices(devices.map(|device| device.name.as_str()))
}

fn how_to_measure(view: &View, row: &KernelRow, vendor: Option<Vendor>, has_products: bool) -> String {
    let is_replayed = row.call_sites.iter().any(|site| site.resolution == Resolution::Replay);
    if row.category == GEMM && (is_replayed || !has_products) {
        return "its shapes are not recorded, so capture one eager step with record_shapes=True".to_owned();
    }
    let short = row.short_name(view);
    let function = short.split(['<', '(', ' ', '…']).next().unwrap_or(short);
    match vendor {
        Some(Vendor::Nvidia) => format!("profile it with `ncu --kernel-name regex:{function}`"),
        Some(Vendor::Amd) => "profile it with `rocprof-compute profile`".to_owned(),
        _ => "profile it with the kernel profiler of the vendor".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::structure::stages::testing::with_view;
    use crate::analysis::triage::{Options, ServerArgs, kernels};
    use crate::trace::testing::TestTrace;

    /// A GEMM of 8192 x 8192 x 8192 that takes 2 ms of 4 ms on this GPU: 2 * 8192^3 = 1.0995 TFLOP, 550 TFLOP/s.
    fn product(gpu: &str, precision: Precision) -> TestTrace {
        let mut trace = TestTrace::coded();
        trace.in_us().named_device(0, gpu).matrix_product([8192, 8192, 8192], precision, 0..10, 1);
        trace.kernel_of_cpu_op("ampere_bf16_gemm<128>", 20..2_020, 1).kernel_of_cpu_op("relu", 2_020..4_020, 2);
        trace
    }

    fn sentence(trace: &mut TestTrace, kernel: &str) -> String {
        with_view(&trace.finish(), Stage::All, &ServerArgs::default(), &Options::default(), |view| {
            let rows = kernels::rows(view);
            let index = rows.iter().position(|row| row.name.starts_with(kernel)).unwrap();
            Roofs::new(view, &rows).sentence([index].into_iter())
        })
    }

    fn gemm(trace: &mut TestTrace) -> String {
        sentence(trace, "ampere_bf16_gemm")
    }

    #[test]
    fn a_large_product_is_compared_with_the_arithmetic_peak_of_its_data_type() {
        // 550 of 989 TFLOP/s, and of 1979.
        let half = gemm(&mut product("NVIDIA H100 80GB HBM3", Precision::Half));
        assert!(
            half.contains(" takes 50.0 % of the stage and reaches 56 % of the dense BF16 or FP16 peak of H100"),
            "{half}"
        );
        let fp8 = gemm(&mut product("NVIDIA H100 80GB HBM3", Precision::Fp8));
        assert!(fp8.contains(" reaches 28 % of the dense FP8 peak of H100"), "{fp8}");
    }

    #[test]
    fn a_product_with_few_rows_is_compared_with_the_memory_bandwidth() {
        let mut trace = TestTrace::coded();
        trace.in_us().named_device(0, "NVIDIA H100 80GB HBM3").matrix_product(
            [16, 8192, 8192],
            Precision::Half,
            0..10,
            1,
        );
        // 2 * 8192^2 bytes of weights and 0.5 MB of activations in 80 us: 1.68 of 3.35 TB/s.
        let text = gemm(trace.kernel_of_cpu_op("ampere_bf16_gemm", 20..100, 1));
        assert!(text.contains(" reaches 50 % of the memory bandwidth of H100 SXM5 80 GB (3.35 TB/s)"), "{text}");
    }

    #[test]
    fn without_known_work_or_limit_the_sentence_says_how_to_measure() {
        let ncu = "profile it with `ncu --kernel-name regex:ampere_bf16_gemm`";
        let unknown = |trace: &mut TestTrace, todo: &str| {
            let text = gemm(trace);
            assert!(!text.contains("reaches") && text.ends_with(&format!("{todo}.")), "{text}");
        };
        unknown(&mut product("NVIDIA H100 80GB HBM3", Precision::Other), ncu);
        unknown(&mut product("NVIDIA XYZ", Precision::Half), ncu);
        // V100 has no FP8 peak.
        unknown(&mut product("Tesla V100-SXM2-32GB", Precision::Fp8), ncu);
        // Two kernels of one product: which one does the work is unknown.
        let mut split = product("NVIDIA H100 80GB HBM3", Precision::Half);
        unknown(split.kernel_of_cpu_op("ampere_bf16_gemm<128>", 5_000..6_000, 1), ncu);
        // A product of 1.1 TFLOP in 0.5 ms would exceed the peak.
        let mut fast = TestTrace::coded();
        fast.in_us().named_device(0, "NVIDIA H100 80GB HBM3").matrix_product([8192; 3], Precision::Half, 0..10, 1);
        unknown(fast.kernel_of_cpu_op("ampere_bf16_gemm", 20..520, 1), ncu);
        let mut plain = TestTrace::coded();
        plain.in_us().named_device(0, "NVIDIA H100 80GB HBM3");
        unknown(
            plain.kernel_of_cpu_op("ampere_bf16_gemm", 20..520, 1),
            "capture one eager step with record_shapes=True",
        );
        let mut amd = product("AMD Instinct MI300X", Precision::Half);
        let relu = sentence(&mut amd, "relu");
        assert!(relu.ends_with("profile it with `rocprof-compute profile`."), "{relu}");
    }

    #[test]
    fn kernels_with_a_small_share_get_no_sentence() {
        let mut trace = product("NVIDIA H100 80GB HBM3", Precision::Half);
        assert_eq!(gemm(trace.kernel_of_cpu_op("relu", 5_000..25_000, 3)), "", "2 of 24 ms");
    }
}
