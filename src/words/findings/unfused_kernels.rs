//! `unfused-kernels`: its title, evidence and action.

use super::{Amount, Framework};

pub(crate) const TITLE: &str = "elementwise kernels that are not fused";

/// `basis`: what the saving rests on, see [`crate::words::replay::unfused`].
pub(crate) fn evidence(amount: Amount, basis: &str) -> String {
    format!("{amount}: {basis}. The trace does not show which of them can be fused")
}

pub(crate) fn action(framework: Framework) -> &'static str {
    match framework {
        Framework::Transformers | Framework::Torch => {
            "Compile the model with `torch.compile`, which computes such runs in one kernel, or use fused layers for normalization, \
             activation and rotary embedding."
        }
        Framework::Training => {
            "Compile the model with `torch.compile`, which computes such runs in one kernel, or use fused layers for normalization, \
             activation and loss; a fused optimizer (`fused=True`) updates all tensors at once."
        }
        Framework::SgLang => {
            "`gpuprism triage` lists the sequences for which the engine has a fused kernel. For the others try \
             `--enable-torch-compile`."
        }
        Framework::Vllm => {
            "`gpuprism triage` lists the sequences for which the engine has a fused kernel. For the others check that compilation is on \
             (no `--enforce-eager`, and not level 0 of `--compilation-config`)."
        }
        Framework::TensorRtLlm | Framework::OtherEngine | Framework::Xla | Framework::Program => {
            "Compute such a run in one kernel: compile the code that launches it, or write the kernel."
        }
    }
}
