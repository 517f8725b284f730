//! Hardware presets, the ceilings of the roofline: `patterns/hardware.json`.

use crate::analysis::results::Run;
use crate::json::{self, from_json};
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
    /// The precision of the peak throughput: `dense BF16 or FP16`.
    pub precision: String,
    /// Source of the figures.
    pub source: String,
    device: DeviceMatcher,
}
from_json!(strict Preset { id, title, memory_tb_per_s, peak_tflops, precision, source, device; fp8_tflops });

/// Lower-case words that the name of a device must and must not contain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct DeviceMatcher {
    all: Vec<String>,
    not: Vec<String>,
}
from_json!(strict DeviceMatcher { all, not });

#[derive(Debug, Default)]
struct Presets {
    presets: Vec<Preset>,
}
from_json!(Presets { presets });

impl Preset {
    /// The arithmetic intensity at which both ceilings meet.
    pub fn ridge_flop_per_byte(&self) -> f64 {
        self.peak_tflops / self.memory_tb_per_s
    }

    /// The attainable throughput at this arithmetic intensity.
    pub fn roof_tflops(&self, flop_per_byte: f64) -> f64 {
        self.peak_tflops.min(self.memory_tb_per_s * flop_per_byte)
    }

    fn matches(&self, device_name: &str) -> bool {
        let contains = |word: &String| device_name.contains(word.as_str());
        self.device.all.iter().all(contains) && !self.device.not.iter().any(contains)
    }
}

/// All presets, in display order.
pub fn presets() -> &'static [Preset] {
    static PRESETS: OnceLock<Presets> = OnceLock::new();
    // A test checks that the embedded text parses.
    let presets =
        PRESETS.get_or_init(|| json::read(include_str!("../../../patterns/hardware.json")).unwrap_or_default());
    &presets.presets
}

/// The preset with this id. Without an id: the preset of the run's devices, if all have the same one.
pub fn preset(run: &Run, id: Option<&str>) -> Option<&'static Preset> {
    if let Some(id) = id {
        return presets().iter().find(|preset| preset.id == id);
    }
    preset_of_devices(run.devices.iter().map(|device| device.name.as_str()))
}

/// The preset of all devices with these names; `None` if there are none, they differ, or one is unknown.
pub(crate) fn preset_of_devices<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'static Preset> {
    let mut presets = names.map(|name| {
        let name = name.to_ascii_lowercase();
        presets().iter().find(|preset| preset.matches(&name))
    });
    let first = presets.next()??;
    presets.all(|other| other == Some(first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::super::testing::run_of;
    use super::*;
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
            // Every data-center GPU of these years needs some 100 to 500 operations a byte.
            assert!((100.0..500.0).contains(&preset.ridge_flop_per_byte()), "{preset:?}");
            // FP8 is twice as fast as BF16 on all of them.
            let is_double = |fp8: f64| (1.95..2.05).contains(&(fp8 / preset.peak_tflops));
            assert!(preset.fp8_tflops.is_none_or(is_double), "{preset:?}");
            assert!(preset.precision.contains("dense") && preset.source.contains(' '), "{preset:?}");
            assert!(!preset.device.all.is_empty(), "{preset:?}");
            assert!(preset.device.all.iter().chain(&preset.device.not).all(|word| *word == word.to_lowercase()));
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
            ("NVIDIA GB200", None),
            ("NVIDIA GH200 480GB", None),
            ("NVIDIA A100-SXM4-80GB", Some("a100-sxm4-80")),
            ("NVIDIA A100-SXM4-40GB", Some("a100-sxm4-40")),
            ("NVIDIA A100 80GB PCIe", Some("a100-pcie-80")),
            ("NVIDIA A100-PCIE-40GB", Some("a100-pcie-40")),
            ("Tesla V100-SXM2-32GB", Some("v100-sxm2")),
            ("NVIDIA L40S", Some("l40s")),
            ("NVIDIA L40", None),
            ("AMD Instinct MI300X", Some("mi300x")),
            ("NVIDIA H100", None),
            ("Tesla T4", None),
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
    fn the_roof_is_the_memory_limit_up_to_the_peak() {
        let h100 = preset(&run_of(&["NVIDIA H100 80GB HBM3"]), None).unwrap();
        assert_eq!(h100.roof_tflops(10.0), 33.5);
        assert_eq!(h100.roof_tflops(1e6), 989.0);
        assert!((h100.roof_tflops(h100.ridge_flop_per_byte()) - 989.0).abs() < 1e-9);
    }
}
