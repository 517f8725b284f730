//! What a GPU can do at most (`patterns/hardware.json`): the ceilings of the roofline.

use crate::analysis::results::Run;
use crate::json::{self, from_json};
use std::sync::OnceLock;

/// One GPU as it is sold.
#[derive(Debug, Clone, PartialEq)]
pub struct Preset {
    /// Stable, for addresses and scripts: `h100-sxm5`.
    pub id: String,
    /// For people: `H100 SXM5 80 GB`.
    pub title: String,
    /// Bandwidth of its memory.
    pub memory_tb_per_s: f64,
    /// Most operations a second, without sparsity.
    pub peak_tflops: f64,
    /// The numbers that this peak is of: `dense BF16 or FP16`.
    pub precision: String,
    /// Where the figures stand.
    pub source: String,
    device: Named,
}
from_json!(strict Preset { id, title, memory_tb_per_s, peak_tflops, precision, source, device });

/// What the name of such a device holds, in lower case, and what it does not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Named {
    all: Vec<String>,
    not: Vec<String>,
}
from_json!(strict Named { all, not });

#[derive(Debug, Default)]
struct Presets {
    presets: Vec<Preset>,
}
from_json!(Presets { presets });

impl Preset {
    /// Work per byte at which memory and arithmetic limit alike, in operations.
    pub fn ridge_flop_per_byte(&self) -> f64 {
        self.peak_tflops / self.memory_tb_per_s
    }

    /// The most that work of so many operations a byte can reach.
    pub fn roof_tflops(&self, flop_per_byte: f64) -> f64 {
        self.peak_tflops.min(self.memory_tb_per_s * flop_per_byte)
    }

    fn is_of(&self, device: &str) -> bool {
        let holds = |word: &String| device.contains(word.as_str());
        self.device.all.iter().all(holds) && !self.device.not.iter().any(holds)
    }
}

/// All presets, in the order in which people choose.
pub fn presets() -> &'static [Preset] {
    static PRESETS: OnceLock<Presets> = OnceLock::new();
    // A test proves that the embedded text parses; without presets there would be no ceilings.
    let known = PRESETS.get_or_init(|| json::read(include_str!("../../../patterns/hardware.json")).unwrap_or_default());
    &known.presets
}

/// The preset of this id; where none is given, that of the run's devices, as long as they are all of one kind.
pub fn preset(run: &Run, id: Option<&str>) -> Option<&'static Preset> {
    if let Some(id) = id {
        return presets().iter().find(|preset| preset.id == id);
    }
    let of_name = |name: &str| {
        let name = name.to_ascii_lowercase();
        presets().iter().find(|preset| preset.is_of(&name))
    };
    let first = of_name(&run.devices.first()?.name)?;
    run.devices.iter().all(|device| of_name(&device.name) == Some(first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::super::testing::run_of;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_presets_parse_have_ids_of_their_own_and_possible_figures() {
        let read: Presets = json::read(include_str!("../../../patterns/hardware.json")).unwrap();
        assert!(read.presets.len() >= 8);
        let ids: BTreeSet<&str> = read.presets.iter().map(|preset| preset.id.as_str()).collect();
        assert_eq!(ids.len(), read.presets.len());
        for preset in &read.presets {
            assert!((0.1..20.0).contains(&preset.memory_tb_per_s), "{preset:?}");
            assert!((20.0..10_000.0).contains(&preset.peak_tflops), "{preset:?}");
            // Every data-center GPU of these years needs some 100 to 500 operations a byte.
            assert!((100.0..500.0).contains(&preset.ridge_flop_per_byte()), "{preset:?}");
            assert!(preset.precision.contains("dense") && preset.source.contains(' '), "{preset:?}");
            assert!(!preset.device.all.is_empty(), "{preset:?}");
            assert!(preset.device.all.iter().chain(&preset.device.not).all(|word| *word == word.to_lowercase()));
        }
    }

    #[test]
    fn a_device_has_the_preset_of_its_name_and_an_unclear_one_has_none() {
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
    fn the_roof_is_what_memory_allows_up_to_the_peak() {
        let h100 = preset(&run_of(&["NVIDIA H100 80GB HBM3"]), None).unwrap();
        assert_eq!(h100.roof_tflops(10.0), 33.5);
        assert_eq!(h100.roof_tflops(1e6), 989.0);
        assert!((h100.roof_tflops(h100.ridge_flop_per_byte()) - 989.0).abs() < 1e-9);
    }
}
