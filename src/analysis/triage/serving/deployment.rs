//! Hardware, model, tensor-parallel size and tokens per step of a run. They decide which known fusions apply to it. Each distinct device,
//! call and frame name is checked once.

use super::{Data, tensor_parallel};
use crate::analysis::structure::stages::{Stage, steps};
use crate::analysis::triage::view::View;
use crate::ordering::VecMap;
use crate::rules::needle::Haystack;
use crate::trace::Trace;
use serde::Deserialize;

/// The vendor of the hardware.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Vendor {
    /// NVIDIA (CUDA).
    Nvidia,
    /// AMD (ROCm).
    Amd,
    /// Ascend and other NPUs.
    Npu,
    /// The host.
    Cpu,
}

impl Vendor {
    /// The display name.
    pub fn label(self) -> &'static str {
        match self {
            Self::Nvidia => "NVIDIA",
            Self::Amd => "AMD",
            Self::Npu => "NPUs",
            Self::Cpu => "CPUs",
        }
    }
}

/// Words that identify a vendor.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VendorWords {
    vendor: Vendor,
    /// Words in device names, in lower case.
    devices: Vec<String>,
    /// Prefixes of the names of runtime calls. A capital letter follows the prefix.
    calls: Vec<String>,
}

/// The properties of a run that fusions require.
#[derive(Debug)]
pub(in crate::analysis::triage) struct Deployment {
    /// `None` if neither device names nor call names identify it.
    pub(in crate::analysis::triage) vendor: Option<Vendor>,
    /// Names that identify the model; empty if unknown.
    pub(in crate::analysis::triage) models: Vec<Haystack>,
    /// `None` if unknown or only estimated, because an estimate must not exclude a fusion.
    pub(in crate::analysis::triage) tp_size: Option<u64>,
    /// The tensor-parallel size, or an estimate of it.
    pub(in crate::analysis::triage) tp_estimate: Option<u64>,
    /// The names of the devices.
    pub(in crate::analysis::triage) devices: Vec<Haystack>,
    /// The tokens of the smallest step of each stage, for stages whose steps record tokens.
    pub(in crate::analysis::triage) min_tokens: VecMap<Stage, u64>,
}

impl Deployment {
    pub(in crate::analysis::triage) fn new(view: &View) -> Self {
        let group = tensor_parallel(view.server, view.framework, view.trace);
        let devices = view.trace.devices.iter().filter(|device| !device.name.is_empty());
        Self {
            vendor: vendor(view.trace),
            models: models(view),
            tp_size: group.filter(|group| group.is_certain).map(|group| group.size),
            tp_estimate: group.map(|group| group.size),
            devices: devices.map(|device| Haystack::new(&device.name)).collect(),
            min_tokens: min_tokens(view),
        }
    }
}

/// The vendor by device names, or else by the names of runtime calls.
fn vendor(trace: &Trace) -> Option<Vendor> {
    let vendors = Data::embedded().vendors;
    let of_device = |name: &str| {
        let name = name.to_ascii_lowercase();
        vendors.iter().find(|vendor| vendor.devices.iter().any(|word| name.contains(word.as_str())))
    };
    let of_call = |name: &str| {
        let has_prefix = |word: &String| {
            let rest = name.strip_prefix(word.as_str());
            rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_uppercase()))
        };
        vendors.iter().find(|vendor| vendor.calls.iter().any(has_prefix))
    };
    let by_devices = trace.devices.iter().find_map(|device| of_device(&device.name));
    by_devices.or_else(|| trace.calls.names.iter().find_map(of_call)).map(|words| words.vendor)
}

/// The model in the server arguments, or else the torch modules and model files on Python stacks.
fn models(view: &View) -> Vec<Haystack> {
    if let Some(model) = view.server.model() {
        return vec![Haystack::new(&model)];
    }
    let own = view.trace.code.iter().flat_map(|code| code.frames.names.iter());
    // Only mapping traces have frames for the kernels of graph replays.
    let borrowed = view.call_sites.distinct.iter().flat_map(|site| site.stack.iter().chain([&site.location]));
    let mut names: Vec<&str> = own.chain(borrowed.map(String::as_str)).filter_map(model_in).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(Haystack::new).collect()
}

fn min_tokens(view: &View) -> VecMap<Stage, u64> {
    let mut min_tokens = VecMap::new();
    for info in steps(view.trace).into_iter().map(|step| step.info) {
        let stage = if info.stage == Stage::All { view.file_stage } else { info.stage };
        if let Some(tokens) = info.tokens {
            min_tokens.update(stage, tokens, |min: &mut u64| *min = tokens.min(*min));
        }
    }
    min_tokens
}

/// The model in a frame: `qwen3` of `vllm/model_executor/models/qwen3.py(12): forward`, `Qwen3Attention_0` of `nn.Module: Qwen3Attention_0`.
fn model_in(frame: &str) -> Option<&str> {
    /// Framework folders with one file per model.
    const FOLDERS: [&str; 2] = ["/models/", "/dits/"];
    if let Some(module) = frame.strip_prefix("nn.Module: ") {
        return Some(module);
    }
    let (path, _) = frame.split_once(".py")?;
    FOLDERS.iter().find_map(|folder| path.rsplit_once(folder)).map(|(_, file)| file)
}
