//! `host-copies`: its title, evidence and action.

use super::{Amount, Framework};
use crate::words::numbers::bytes;

pub(crate) const TITLE: &str = "copies between host and GPU without kernels";
pub(crate) const PEER_TITLE: &str = "copies between GPUs without kernels";
pub(crate) const PEER_ACTION: &str = "Send the data while kernels run, in parts that are ready early and on a stream of its own, and let only the ops that read it wait \
     for it.";

/// The copies in one direction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Direction {
    pub(crate) is_to_gpu: bool,
    pub(crate) bytes: f64,
    /// Of one copy, in bytes per second.
    pub(crate) bytes_per_s: f64,
}

pub(crate) fn peer_evidence(amount: Amount) -> String {
    format!("{amount}: only copies between GPUs run")
}

/// `devices`: the bytes are a sum over the GPUs, which copy at the same time; the rate is that of one copy.
pub(crate) fn evidence(amount: Amount, directions: &[Direction], devices: usize) -> String {
    let rates: Vec<String> = directions.iter().map(rate).collect();
    let rates = match (rates.is_empty(), devices) {
        (true, _) => String::new(),
        (false, 0..=1) => format!("; {}", rates.join(", ")),
        (false, _) => format!("; all GPUs together: {}", rates.join(", ")),
    };
    format!("{amount}: only copies between host and GPU run{rates}")
}

fn rate(direction: &Direction) -> String {
    let to = if direction.is_to_gpu { "to the GPU" } else { "to the host" };
    format!("{} {to} at {}/s per copy", bytes(direction.bytes), bytes(direction.bytes_per_s))
}

pub(crate) fn action(framework: Framework) -> &'static str {
    match framework {
        Framework::Xla => {
            "Keep arrays on the device between steps (`donate_argnums` of `jax.jit` for those that a step replaces), and bring \
             the next batch there while the step runs (`jax.device_put`)."
        }
        Framework::Program => {
            "Keep data on the GPU between kernels, and copy the next part on a stream of its own while kernels run."
        }
        Framework::SgLang | Framework::Vllm | Framework::TensorRtLlm | Framework::OtherEngine => {
            "Keep weights and KV cache on the GPU instead of offloading them, or copy them ahead of use on a stream of \
             their own."
        }
        Framework::Training => {
            "Keep weights, gradients and the state of the optimizer on the GPU instead of offloading them to the host, and copy the \
             next batch on a stream of its own while the current one computes (`pin_memory=True` in the DataLoader, \
             `non_blocking=True`)."
        }
        Framework::Transformers | Framework::Torch => {
            "Keep weights on the GPU instead of offloading them to the host. If they do not fit, copy the next layer on a \
             stream of its own while the current one computes."
        }
    }
}
