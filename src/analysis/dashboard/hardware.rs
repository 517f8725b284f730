//! Peak figures of GPUs, the ceilings of the roofline and of the floor of a step: `patterns/hardware.json`. A device is found by
//! its name, or by its number of multiprocessors and its memory; linear in the presets.

use crate::analysis::results::Run;
use crate::json::{self, from_json};
use crate::trace::{Device, DeviceProperties};
use std::sync::OnceLock;

/// Peak figures of one GPU model.
#[derive(Debug, Clone, PartialEq)]
pub struct Preset {
    /// Stable id for URLs and scripts: `h100-sxm5`.
    pub id: String,
    /// Displayed name: `H100 SXM5 80 GB`.
    pub title: String,
    /// Memory bandwidth.
    pub memory_tb_per_s: f64,
    /// Peak throughput without sparsity.
    pub peak_tflops: f64,
    /// Peak throughput of FP8 without sparsity; `None` if the GPU has none or it is not in the file.
    pub fp8_tflops: Option<f64>,
    /// Peak throughput of FP4 without sparsity; `None` if the GPU has none or it is not in the file.
    pub fp4_tflops: Option<f64>,
    /// The precision of the peak throughput: `dense BF16 or FP16`.
    pub precision: String,
    /// The rate of all links of one GPU in one direction; `None` if it depends on the board.
    pub link_gb_per_s: Option<f64>,
    /// Multiprocessors or compute units of the whole product.
    pub multiprocessors: Option<u64>,
    /// Whether the figures are derived or sources differ.
    pub is_about: bool,
    /// What else to know about the figures; empty if there is nothing.
    pub note: String,
    /// Source of the figures.
    pub source: String,
    devices: Vec<DeviceMatcher>,
}
from_json!(strict Preset {
    id, title, memory_tb_per_s, peak_tflops, precision, source, devices;
    fp8_tflops, fp4_tflops, link_gb_per_s, multiprocessors, is_about, note
});

/// Lower-case words that the name of a device must and must not contain, and sizes that it must have. Without words: a device
/// without a name.
#[derive(Debug, Clone, PartialEq, Default)]
struct DeviceMatcher {
    all: Vec<String>,
    not: Vec<String>,
    memory_gib: Option<f64>,
    multiprocessors: Option<u64>,
}
from_json!(strict DeviceMatcher { all, not; memory_gib, multiprocessors });

#[derive(Debug, Default)]
struct Presets {
    /// Words in the names of parts of GPUs.
    partitions: Vec<String>,
    presets: Vec<Preset>,
}
from_json!(Presets { partitions, presets });

/// A driver keeps some memory for itself.
const MEMORY_TOLERANCE: f64 = 0.03;

impl DeviceMatcher {
    fn matches(&self, device_name: &str, properties: DeviceProperties) -> bool {
        let contains = |word: &String| device_name.contains(word.as_str());
        let is_named = self.all.iter().all(contains) && !self.not.iter().any(contains);
        let has_memory = self.memory_gib.is_none_or(|gib| {
            let bytes = gib * f64::from(1 << 30);
            properties.memory_bytes.is_some_and(|found| (found as f64 / bytes - 1.0).abs() < MEMORY_TOLERANCE)
        });
        let has_multiprocessors =
            self.multiprocessors.is_none_or(|count| properties.multiprocessors.map(u64::from) == Some(count));
        is_named && self.all.is_empty() == device_name.is_empty() && has_memory && has_multiprocessors
    }
}

impl Preset {
    /// The arithmetic intensity at which both ceilings meet.
    pub fn ridge_flop_per_byte(&self) -> f64 {
        self.peak_tflops / self.memory_tb_per_s
    }

    /// The attainable throughput at this arithmetic intensity.
    pub fn roof_tflops(&self, flop_per_byte: f64) -> f64 {
        self.peak_tflops.min(self.memory_tb_per_s * flop_per_byte)
    }

    /// Whether the device is this product as a whole. A part of a GPU (MIG, CPX) has fewer multiprocessors.
    fn matches(&self, device_name: &str, properties: DeviceProperties) -> bool {
        let is_whole = match (properties.multiprocessors, self.multiprocessors) {
            (Some(found), Some(all)) => u64::from(found) >= all,
            _ => true,
        };
        is_whole && self.devices.iter().any(|device| device.matches(device_name, properties))
    }
}

fn file() -> &'static Presets {
    static PRESETS: OnceLock<Presets> = OnceLock::new();
    // A test checks that the embedded text parses.
    PRESETS.get_or_init(|| json::read(include_str!("../../../patterns/hardware.json")).unwrap_or_default())
}

/// All presets, in display order.
pub fn presets() -> &'static [Preset] {
    &file().presets
}

/// The preset with this id. Without an id: the one of the run's cost of ops, which also knows the sizes of the devices, or else the
/// one of the names of its devices, if all have the same.
pub fn preset(run: &Run, id: Option<&str>) -> Option<&'static Preset> {
    if let Some(id) = id {
        return presets().iter().find(|preset| preset.id == id);
    }
    // Read by its key: the section's own file needs this one.
    let title = run.filled("op_costs").map_or("", |costs| costs.summary.text("peak_figures"));
    if let Some(preset) = presets().iter().find(|preset| preset.title == title) {
        return Some(preset);
    }
    // A report has the names of its devices only.
    common(run.devices.iter().map(|device| preset_of(&device.name, DeviceProperties::default())))
}

/// The preset of all these devices; `None` if there are none, they differ, or one is unknown.
pub(crate) fn preset_of_devices<'a>(devices: impl Iterator<Item = &'a Device>) -> Option<&'static Preset> {
    common(devices.map(|device| preset_of(&device.name, device.properties)))
}

fn preset_of(name: &str, properties: DeviceProperties) -> Option<&'static Preset> {
    let name = name.to_ascii_lowercase();
    let is_part = file().partitions.iter().any(|word| name.contains(word.as_str()));
    presets().iter().find(|preset| !is_part && preset.matches(&name, properties))
}

/// The preset that all devices have.
fn common(mut presets: impl Iterator<Item = Option<&'static Preset>>) -> Option<&'static Preset> {
    let first = presets.next()??;
    presets.all(|other| other == Some(first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{run_of, section};
    use super::*;
    use crate::analysis::inference::op_costs::OpCostFigures;
    use std::collections::BTreeSet;

    #[test]
    fn presets_have_unique_ids_and_plausible_figures() {
        let read: Presets = json::read(include_str!("../../../patterns/hardware.json")).unwrap();
        assert!(read.presets.len() >= 8);
        let ids: BTreeSet<&str> = read.presets.iter().map(|preset| preset.id.as_str()).collect();
        assert_eq!(ids.len(), read.presets.len());
        for preset in &read.presets {
            assert!((0.1..20.0).contains(&preset.memory_tb_per_s), "{preset:?}");
            assert!((20.0..10_000.0).contains(&preset.peak_tflops), "{preset:?}");
            // Every GPU of these years needs some 100 to 500 operations a byte. The arithmetic of the H20 was cut to meet
            // a limit on exports.
            let ridge = if preset.id == "h20" { 30.0..50.0 } else { 100.0..500.0 };
            assert!(ridge.contains(&preset.ridge_flop_per_byte()), "{preset:?}");
            // FP8 is twice as fast as BF16 on all of them but one, and FP4 two or three times as fast as FP8.
            let ratio = |wide: f64, narrow: Option<f64>, range: std::ops::Range<f64>| {
                narrow.is_none_or(|narrow| range.contains(&(narrow / wide)))
            };
            let double = if preset.id == "gaudi3" { 0.99..1.01 } else { 1.95..2.05 };
            assert!(ratio(preset.peak_tflops, preset.fp8_tflops, double), "{preset:?}");
            assert!(ratio(preset.fp8_tflops.unwrap_or(1.0), preset.fp4_tflops, 1.95..4.05), "{preset:?}");
            assert!(preset.link_gb_per_s.is_none_or(|rate| (16.0..1_000.0).contains(&rate)), "{preset:?}");
            assert!(preset.precision.contains("dense") && preset.source.contains(' '), "{preset:?}");
            // Figures that no device name selects are uncertain, and the note says why.
            assert!(!preset.devices.is_empty() || preset.is_about && !preset.note.is_empty(), "{preset:?}");
            for device in &preset.devices {
                assert!(device.all.iter().chain(&device.not).all(|word| *word == word.to_lowercase()));
                let is_by_size = device.memory_gib.is_some() && device.multiprocessors.is_some();
                assert!(!device.all.is_empty() || is_by_size, "{preset:?}");
            }
        }
    }

    #[test]
    fn the_preset_follows_from_the_device_name_if_it_is_unambiguous() {
        for (name, id) in [
            ("NVIDIA H100 80GB HBM3", Some("h100-sxm5")),
            ("NVIDIA H100 PCIe", Some("h100-pcie")),
            ("NVIDIA H100 NVL", Some("h100-nvl")),
            ("NVIDIA H200", Some("h200-sxm")),
            ("NVIDIA B200", Some("b200-sxm")),
            ("NVIDIA GB200", Some("gb200")),
            ("NVIDIA B300 SXM6 AC", Some("b300-sxm")),
            ("NVIDIA GB300", Some("gb300")),
            ("NVIDIA GH200 480GB", Some("gh200-96")),
            ("NVIDIA GH200 144G HBM3e", Some("gh200-144")),
            ("NVIDIA H200 NVL", Some("h200-nvl")),
            ("NVIDIA H800", Some("h800-sxm5")),
            ("NVIDIA H20", Some("h20")),
            ("NVIDIA H20-3e", None),
            ("NVIDIA A800-SXM4-80GB", Some("a800-sxm4-80")),
            ("NVIDIA A10", Some("a10")),
            ("NVIDIA A10G", Some("a10g")),
            ("NVIDIA A16", None),
            ("NVIDIA GeForce RTX 4090", Some("rtx-4090")),
            ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
            ("NVIDIA GeForce RTX 5090", Some("rtx-5090")),
            ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", Some("rtx-pro-6000")),
            ("NVIDIA RTX PRO 6000 Blackwell Server Edition", Some("rtx-pro-6000-server")),
            ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", None),
            ("AMD Instinct MI250X", Some("mi250x-gcd")),
            ("AMD Instinct MI300A", None),
            ("AMD Instinct MI355X", Some("mi355x")),
            ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", None),
            ("NVIDIA A100-PG509-200", None),
            ("NVIDIA A100-SXM4-80GB", Some("a100-sxm4-80")),
            ("NVIDIA A100-SXM4-40GB", Some("a100-sxm4-40")),
            ("NVIDIA A100 80GB PCIe", Some("a100-pcie-80")),
            ("NVIDIA A100-PCIE-40GB", Some("a100-pcie-40")),
            ("Tesla V100-SXM2-32GB", Some("v100-sxm2")),
            ("NVIDIA L40S", Some("l40s")),
            ("NVIDIA L40", Some("l40")),
            ("NVIDIA L4", Some("l4")),
            ("AMD Instinct MI300X", Some("mi300x")),
            ("NVIDIA H100", None),
            ("Tesla T4", Some("t4")),
            ("NVIDIA T400 4GB", None),
            ("", None),
        ] {
            assert_eq!(preset(&run_of(&[name]), None).map(|preset| preset.id.as_str()), id, "{name}");
        }
        assert!(preset(&run_of(&["NVIDIA H200", "NVIDIA B200"]), None).is_none(), "two kinds have no one ceiling");
        assert!(preset(&run_of(&["NVIDIA H200", "NVIDIA H200"]), None).is_some());
        assert!(preset(&run_of(&[]), None).is_none());
        let chosen = preset(&run_of(&["NVIDIA H200"]), Some("b200-sxm")).unwrap();
        assert_eq!(chosen.title, "B200 SXM 180 GB", "a person's choice wins");
        assert!(preset(&run_of(&["NVIDIA H200"]), Some("nonsense")).is_none());
    }

    #[test]
    fn a_device_without_a_distinct_name_is_found_by_its_sizes() {
        const MI300X_BYTES: u64 = 206_141_652_992;
        for (name, multiprocessors, memory_bytes, id) in [
            ("", Some(304), Some(MI300X_BYTES), Some("mi300x")),
            ("", Some(304), Some(274_877_906_944), Some("mi325x")),
            ("", Some(304), None, None),
            ("", None, Some(MI300X_BYTES), None),
            ("", Some(228), Some(137_438_953_472), None),
            ("NVIDIA A100-PG509-200", Some(108), Some(42_505_273_344), Some("a100-sxm4-40")),
            ("NVIDIA A100-PG509-200", Some(108), Some(84_987_740_160), Some("a100-sxm4-80")),
            ("NVIDIA A100-PG509-200", Some(108), Some(21_000_000_000), None),
            ("AMD Instinct MI300X", Some(304), Some(MI300X_BYTES), Some("mi300x")),
        ] {
            let properties = DeviceProperties { capability: None, multiprocessors, memory_bytes };
            let device = Device { id: "0".into(), name: name.into(), properties };
            let found = preset_of_devices([&device].into_iter()).map(|preset| preset.id.as_str());
            assert_eq!(found, id, "{device:?}");
        }
    }

    #[test]
    fn a_run_on_a_gpu_without_a_name_has_the_peak_figures_of_its_cost_of_ops() {
        let mut run = run_of(&[""]);
        assert_eq!(preset(&run, None), None);
        let mut costs = section(["op"], &[["aten::mm".into()]]);
        costs.figure(OpCostFigures::peak_figures, "MI300X 192 GB");
        run.sections.insert("op_costs".into(), costs);
        assert_eq!(preset(&run, None).map(|preset| preset.id.as_str()), Some("mi300x"));
        assert_eq!(preset(&run, Some("a100-sxm4-40")).map(|preset| preset.id.as_str()), Some("a100-sxm4-40"));
    }

    #[test]
    fn a_part_of_a_gpu_has_no_preset() {
        for (name, multiprocessors) in [("AMD Instinct MI300X", 38), ("NVIDIA H100 80GB HBM3", 16)] {
            let properties = DeviceProperties { multiprocessors: Some(multiprocessors), ..Default::default() };
            let device = Device { id: "0".into(), name: name.into(), properties };
            assert_eq!(preset_of_devices([&device].into_iter()), None, "{name}");
        }
    }

    #[test]
    fn the_roof_is_the_memory_limit_up_to_the_peak() {
        let h100 = preset(&run_of(&["NVIDIA H100 80GB HBM3"]), None).unwrap();
        assert_eq!(h100.roof_tflops(10.0), 33.5);
        assert_eq!(h100.roof_tflops(1e6), 989.0);
        assert!((h100.roof_tflops(h100.ridge_flop_per_byte()) - 989.0).abs() < 1e-9);
    }
}
