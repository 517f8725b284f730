//! `short-kernels`: its title, evidence and action.

use super::{Amount, Framework, fused_optimizer, graphs};
use crate::digits::grouped;
use crate::trace::{Us, Vendor};

pub(crate) const TITLE: &str = "gaps between short kernels";

/// The gaps and the kernels of a device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShortKernels {
    /// The mean gap.
    pub(crate) gap: Us,
    pub(crate) short: u64,
    pub(crate) eager: u64,
    /// Shorter kernels are short.
    pub(crate) limit: Us,
}

pub(crate) fn evidence(amount: Amount, kernels: ShortKernels) -> String {
    format!(
        "{amount}: the usual gaps between ops that were launched in time, {:.1} us each; {} of {} eager kernels take less than {:.0} us",
        kernels.gap.0,
        grouped(kernels.short),
        grouped(kernels.eager),
        kernels.limit.0,
    )
}

pub(crate) fn action(framework: Framework, vendor: Vendor, has_fused_optimizer: bool) -> String {
    match framework {
        Framework::Xla => {
            "XLA fuses ops within a compiled function: put more of the step into one `jax.jit`, or use larger batches."
                .to_owned()
        }
        Framework::Program => format!("Fuse consecutive kernels, or replay the sequence with {}.", graphs(vendor)),
        Framework::Training => format!(
            "Fuse elementwise kernels with `torch.compile`, {}or use larger batches so that each kernel does more work.",
            fused_optimizer(has_fused_optimizer)
        ),
        Framework::Transformers | Framework::Torch => {
            "Fuse elementwise kernels with `torch.compile`, or use larger batches so that each kernel does more work."
                .to_owned()
        }
        _ => "Use fused kernels: `gpuprism triage` lists the sequences that have one.".to_owned(),
    }
}
