//! How far the kernels with most time are from the limits of their GPU: the arithmetic peak, or the memory bandwidth if each
//! operand is read once and the result written once. Work comes from the shapes of the framework op that launched a kernel,
//! limits from `patterns/hardware.json`. If one of them is unknown, the sentence says how to measure it; nothing is estimated.
//! Two passes over the GPU ops, and only if a kernel has a large share and the trace has shapes.
//!
//! Limit: of graph replays only those whose capture was read, because the others have no shapes.

use super::call_sites::Resolution;
use super::kernels::KernelRow;
use super::serving::{Deployment, Vendor};
use super::view::View;
use crate::analysis::dashboard::{Preset, preset_of_devices};
use crate::analysis::inference::op_work::{OpWork, ShapeSource, Work, peak_tflops};
use crate::analysis::structure::stages::Stage;
use crate::trace::{Element, NameId, Ns, Pct};
use crate::words::triage_rows as words;
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Kernels with a smaller share of their stage are no bottleneck; in percent.
const MIN_SHARE_PCT: f64 = 10.0;
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
    /// Where the shapes were recorded, after `by the shapes`.
    shapes: &'static str,
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
        let (preset, vendor) = (preset(view), Deployment::new(view).vendor);
        let ops = OpWork::of(&view.context, preset, false);
        let works = works(view, rows, &ops);
        let has_shapes = !ops.executions().is_empty();
        let roof = |(row, work): (&KernelRow, &Option<Work>)| {
            let reached = work.as_ref().zip(preset).and_then(|(work, preset)| reached(work, preset));
            let distance = reached
                .map_or_else(|| Distance::Unknown(how_to_measure(view, row, vendor, has_shapes)), Distance::Reached);
            let source = work.as_ref().map_or(ShapeSource::Trace, |work| work.source);
            let shapes = if source == ShapeSource::Trace { " in the trace" } else { source.words() };
            Roof { short_name: row.short_name(view).to_owned(), share_pct: row.elapsed_share_pct, shapes, distance }
        };
        let rows = rows.iter().zip(&works).map(|(row, work)| is_large(row).then(|| roof((row, work))));
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
        let distance = match &roof.distance {
            Distance::Reached(text) => words::Distance::Reached(text),
            Distance::Unknown(todo) => words::Distance::Unknown(todo),
        };
        words::roof(&roof.short_name, Pct(roof.share_pct), distance, roof.shapes)
    }
}

/// The work of the kernels of each row; `None` for rows with unknown work.
fn works(view: &View, rows: &[KernelRow], ops: &OpWork) -> Vec<Option<Work>> {
    let mut row_of_name: HashMap<(Stage, NameId), usize, RandomState> = HashMap::default();
    for (index, row) in rows.iter().enumerate() {
        row_of_name.extend(row.ids.iter().map(|name| ((row.stage, *name), index)));
    }
    let mut kernels: Vec<Vec<(u32, Ns)>> = vec![Vec::new(); rows.len()];
    for (index, stage, op) in view.ops() {
        let slot = row_of_name.get(&(stage, op.name)).and_then(|row| kernels.get_mut(*row));
        slot.into_iter().for_each(|kernels| kernels.push((index as u32, op.duration)));
    }
    // An op with several kernels does not show the work of each.
    let is_clear =
        |kernels: &[(u32, Ns)]| kernels.iter().all(|(row, _)| ops.owner(*row).is_none_or(|owner| owner.kernels == 1));
    let work = |kernels: &Vec<(u32, Ns)>| ops.work_of(&mut kernels.iter().copied()).filter(|_| is_clear(kernels));
    kernels.iter().map(work).collect()
}

/// The share of the nearer limit that this work reaches. More than all of it would be an error in the shapes or operands that
/// come from the cache.
fn reached(work: &Work, preset: &Preset) -> Option<String> {
    let (share_pct, is_arithmetic) = work.of_peak().filter(|(share, _)| *share > 0.0 && *share <= 100.0)?;
    let limit = if is_arithmetic {
        let precision = work.precision?;
        let name = match precision {
            Element::Fp8 => "dense FP8",
            Element::PackedFp4 => "dense FP4",
            _ => preset.precision.as_str(),
        };
        let tflops = peak_tflops(preset, precision)?;
        words::RoofLimit::Arithmetic { precision: name, gpu: &preset.title, tflops }
    } else {
        words::RoofLimit::Memory { gpu: &preset.title, tb_per_s: preset.memory_tb_per_s }
    };
    Some(words::reached(Pct(share_pct), limit))
}

/// The preset of all devices of the triage.
fn preset(view: &View) -> Option<&'static Preset> {
    let devices = view.trace.devices.iter().filter(|device| view.options.selects(&device.id));
    preset_of_devices(devices)
}

fn how_to_measure(view: &View, row: &KernelRow, vendor: Option<Vendor>, has_shapes: bool) -> String {
    let is_replayed = row.call_sites.iter().any(|site| site.resolution == Resolution::Replay);
    if row.category == GEMM && (is_replayed || !has_shapes) {
        return "its shapes are not recorded, so capture one eager step with record_shapes=True".to_owned();
    }
    let short = row.short_name(view);
    let function = short.split(['<', '(', ' ', '…']).next().unwrap_or(short);
    match vendor {
        Some(Vendor::Nvidia) => words::profile_with_ncu(function),
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
    fn product(gpu: &str, element: Element) -> TestTrace {
        let mut trace = launched_product(gpu, 8192, element);
        trace.launches("ampere_bf16_gemm<128>", 20..2_020).kernel("relu", 2_020..4_020);
        trace
    }

    /// A product of m x 8192 x 8192 that launches the next kernel.
    fn launched_product(gpu: &str, m: u64, element: Element) -> TestTrace {
        let mut trace = TestTrace::coded();
        let operands: [(&[u64], Element); 2] = [(&[m, 8192], element), (&[8192, 8192], element)];
        trace.in_us().named_device(0, gpu).shaped_op("aten::mm", &operands, 0..10).launch(1..3);
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
        let half = gemm(&mut product("NVIDIA H100 80GB HBM3", Element::Bf16));
        assert!(
            half.contains(" takes 50.0 % of the stage and reaches 56 % of the dense BF16 or FP16 peak of H100"),
            "{half}"
        );
        let fp8 = gemm(&mut product("NVIDIA H100 80GB HBM3", Element::Fp8));
        assert!(fp8.contains(" reaches 28 % of the dense FP8 peak of H100"), "{fp8}");
    }

    #[test]
    fn a_product_with_few_rows_is_compared_with_the_memory_bandwidth() {
        let mut trace = launched_product("NVIDIA H100 80GB HBM3", 16, Element::Bf16);
        // 2 * 8192^2 bytes of weights and 0.5 MB of activations in 80 us: 1.68 of 3.35 TB/s.
        let text = gemm(trace.launches("ampere_bf16_gemm", 20..100));
        assert!(text.contains(" reaches 50 % of the memory bandwidth of H100 SXM5 80 GB (3.35 TB/s)"), "{text}");
    }

    #[test]
    fn without_known_work_or_limit_the_sentence_says_how_to_measure() {
        let ncu = "profile it with `ncu --kernel-name regex:ampere_bf16_gemm`";
        let unknown = |trace: &mut TestTrace, todo: &str| {
            let text = gemm(trace);
            assert!(!text.contains("reaches") && text.ends_with(&format!("{todo}.")), "{text}");
        };
        unknown(&mut product("NVIDIA H100 80GB HBM3", Element::Fp32), ncu);
        unknown(&mut product("NVIDIA XYZ", Element::Bf16), ncu);
        // V100 has no FP8 peak.
        unknown(&mut product("Tesla V100-SXM2-32GB", Element::Fp8), ncu);
        // Two kernels of one product: which one does the work is unknown.
        let mut split = product("NVIDIA H100 80GB HBM3", Element::Bf16);
        unknown(split.launches("ampere_bf16_gemm<128>", 5_000..6_000), ncu);
        // A product of 1.1 TFLOP in 0.5 ms would exceed the peak.
        let mut fast = launched_product("NVIDIA H100 80GB HBM3", 8192, Element::Bf16);
        unknown(fast.launches("ampere_bf16_gemm", 20..520), ncu);
        let mut plain = TestTrace::coded();
        plain.in_us().named_device(0, "NVIDIA H100 80GB HBM3");
        unknown(plain.kernel("ampere_bf16_gemm", 20..520), "capture one eager step with record_shapes=True");
        let mut amd = product("AMD Instinct MI300X", Element::Bf16);
        let relu = sentence(&mut amd, "relu");
        assert!(relu.ends_with("profile it with `rocprof-compute profile`."), "{relu}");
    }

    #[test]
    fn kernels_with_a_small_share_get_no_sentence() {
        let mut trace = product("NVIDIA H100 80GB HBM3", Element::Bf16);
        assert_eq!(gemm(trace.kernel("relu", 5_000..25_000)), "", "2 of 24 ms");
    }
}
