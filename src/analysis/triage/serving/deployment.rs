//! In what setting a run ran, which decides what known fusions are for it: hardware, model, size of the tensor-parallel
//! group.

use super::{Data, tensor_parallel};
use crate::analysis::triage::view::View;
use crate::rules::needle::Haystack;
use crate::trace::Trace;
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

/// What tells a vendor.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VendorWords {
    vendor: Vendor,
    /// In names of devices, in lower case.
    devices: Vec<String>,
    /// What names of the runtime's calls begin with, before a capital.
    calls: Vec<String>,
}

/// See the module's head.
#[derive(Debug)]
pub(in crate::analysis::triage) struct Deployment {
    /// `None` where neither devices nor calls tell.
    pub(in crate::analysis::triage) vendor: Option<Vendor>,
    /// What names the model; empty where nothing does.
    pub(in crate::analysis::triage) models: Vec<Haystack>,
    /// `None` where nothing tells; an estimate is not enough to leave something out.
    pub(in crate::analysis::triage) tp_size: Option<u64>,
}

impl Deployment {
    /// As far as arguments and trace tell.
    pub(in crate::analysis::triage) fn new(view: &View) -> Self {
        let group = tensor_parallel(view.server, view.framework, view.trace).filter(|group| group.is_certain);
        Self { vendor: vendor(view.trace), models: models(view), tp_size: group.map(|group| group.size) }
    }
}

/// By the names of devices, else by those of the runtime's calls.
fn vendor(trace: &Trace) -> Option<Vendor> {
    let vendors = Data::embedded().vendors;
    let of_device = |name: &str| {
        let name = name.to_ascii_lowercase();
        vendors.iter().find(|known| known.devices.iter().any(|word| name.contains(word.as_str())))
    };
    let of_call = |name: &str| {
        let begins = |word: &String| {
            let rest = name.strip_prefix(word.as_str());
            rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_uppercase()))
        };
        vendors.iter().find(|known| known.calls.iter().any(begins))
    };
    let by_devices = trace.devices.iter().find_map(|device| of_device(&device.name));
    by_devices.or_else(|| trace.calls.names.iter().find_map(of_call)).map(|known| known.vendor)
}

/// The model as the server's arguments name it, else as torch modules and the model files on the stacks do.
fn models(view: &View) -> Vec<Haystack> {
    if let Some(model) = view.server.model() {
        return vec![Haystack::new(&model)];
    }
    let own = view.trace.code.iter().flat_map(|code| code.frames.names.iter());
    // Of a graph's kernels only traces beside this one tell frames.
    let of_sites = view.call_sites.distinct.iter().flat_map(|site| site.stack.iter().chain([&site.location]));
    let mut names: Vec<&str> = own.chain(of_sites.map(String::as_str)).filter_map(model_in).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(Haystack::new).collect()
}

/// `qwen3` of `vllm/model_executor/models/qwen3.py(12): forward`, `Qwen3Attention_0` of `nn.Module: Qwen3Attention_0`.
fn model_in(frame: &str) -> Option<&str> {
    /// Folders of frameworks whose files are named after models.
    const FOLDERS: [&str; 2] = ["/models/", "/dits/"];
    if let Some(module) = frame.strip_prefix("nn.Module: ") {
        return Some(module);
    }
    let (path, _) = frame.split_once(".py")?;
    FOLDERS.iter().find_map(|folder| path.rsplit_once(folder)).map(|(_, file)| file)
}
