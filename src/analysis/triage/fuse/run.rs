//! What is known of a run that decides which patterns are sought: hardware, model, size of the tensor-parallel group.

use super::super::view::View;
use super::patterns::Pattern;
use crate::rules::needle::{Haystack, Needle};
use serde::Deserialize;

/// Who made the hardware.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Vendor {
    /// NVIDIA, CUDA.
    Nvidia,
    /// AMD, ROCm.
    Amd,
    /// Ascend and its like.
    Npu,
    /// The host itself.
    Cpu,
}

impl Vendor {
    /// For people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Nvidia => "NVIDIA",
            Self::Amd => "AMD",
            Self::Npu => "NPUs",
            Self::Cpu => "CPUs",
        }
    }
}

/// See the module's head.
pub(super) struct Run {
    /// `None` where neither devices nor calls tell.
    pub(super) vendor: Option<Vendor>,
    /// Empty where nothing tells.
    pub(super) models: Vec<Haystack>,
    /// `None` where nothing tells.
    tp_size: Option<u64>,
}

/// Server arguments that name the model.
const MODEL_KEYS: [&str; 5] = ["model_path", "model", "model_name", "served_model_name", "hf_model"];
/// Server arguments that tell the size of the tensor-parallel group.
const TP_KEYS: [&str; 3] = ["tp_size", "tensor_parallel_size", "attn_tp_size"];
/// Folders of frameworks whose files are named after models.
const MODEL_FOLDERS: [&str; 2] = ["/models/", "/dits/"];

impl Run {
    pub(super) fn of(view: &View) -> Self {
        Self { vendor: vendor(view), models: models(view), tp_size: tp_size(view) }
    }

    /// Is the hardware one that the pattern is for? Unknown hardware may be.
    pub(super) fn has_hardware_for(&self, pattern: &Pattern) -> bool {
        pattern.hardware.is_empty() || self.vendor.is_none_or(|vendor| pattern.hardware.contains(&vendor))
    }

    /// Is the group large enough? A group of unknown size may be: the chain's own collective shows that there is one.
    pub(super) fn has_group_for(&self, pattern: &Pattern) -> bool {
        self.tp_size.is_none_or(|size| size >= pattern.min_tp_size)
    }

    /// Is the model one that the pattern is for? `None` where that is not known.
    pub(super) fn has_model_for(&self, pattern: &Pattern) -> Option<bool> {
        let is_named = |words: &[String]| {
            let needles: Vec<Needle> = words.iter().filter_map(|word| Needle::new(word)).collect();
            self.models.iter().any(|model| needles.iter().any(|needle| needle.is_in(model)))
        };
        if is_named(&pattern.model_exclude) {
            return Some(false);
        }
        match (pattern.model_include.is_empty(), self.models.is_empty()) {
            (true, _) => Some(true),
            (false, true) => None,
            (false, false) => Some(is_named(&pattern.model_include)),
        }
    }
}

fn vendor(view: &View) -> Option<Vendor> {
    let of_device = |name: &str| {
        let name = name.to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
        if has(&["nvidia", "geforce", "quadro", "tesla"]) {
            return Some(Vendor::Nvidia);
        }
        if has(&["amd", "instinct", "radeon", "gfx"]) {
            return Some(Vendor::Amd);
        }
        has(&["ascend", "npu"]).then_some(Vendor::Npu)
    };
    let of_call = |name: &str| {
        let is_of = |prefix: &str| {
            name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_uppercase()))
        };
        match (is_of("hip"), is_of("cuda") || is_of("cu")) {
            (true, _) => Some(Vendor::Amd),
            (_, true) => Some(Vendor::Nvidia),
            _ => None,
        }
    };
    let by_devices = view.trace.devices.iter().find_map(|device| of_device(&device.name));
    by_devices.or_else(|| view.trace.calls.names.iter().find_map(of_call))
}

/// The model as server arguments name it, else as the model files on the stacks do.
fn models(view: &View) -> Vec<Haystack> {
    let arguments = MODEL_KEYS.iter().filter_map(|key| view.server.0.get(*key)?.as_str());
    let named: Vec<Haystack> = arguments.filter(|text| !text.is_empty()).map(Haystack::new).collect();
    if !named.is_empty() {
        return named;
    }
    let Some(code) = &view.trace.code else { return Vec::new() };
    let file = |frame: &str| {
        let path = frame.split(".py").next()?;
        let at = MODEL_FOLDERS.iter().find_map(|folder| path.rfind(folder))?;
        path.get(at..).map(Haystack::new)
    };
    let mut files: Vec<Haystack> = Vec::new();
    for file in code.frames.names.iter().filter(|frame| frame.contains(".py")).filter_map(file) {
        if !files.contains(&file) {
            files.push(file);
        }
    }
    files
}

fn tp_size(view: &View) -> Option<u64> {
    let number = |key: &&str| {
        let value = view.server.0.get(*key)?;
        value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())
    };
    let of_ranks = || Some(u64::from(view.trace.code.as_ref()?.rank?.world_size));
    TP_KEYS.iter().find_map(number).or_else(of_ranks)
}
