//! `allocations`: its title, evidence and action.

use super::{Amount, Framework};
use crate::digits::grouped;
use crate::trace::Vendor;

pub(crate) const TITLE: &str = "allocations of GPU memory";

/// The numbers of calls within the steps that allocate and that free.
pub(crate) fn evidence(amount: Amount, allocate: u64, free: u64) -> String {
    format!(
        "{amount}: calls that allocate or free GPU memory are on the critical path of the steps: {} that allocate and {} that free",
        grouped(allocate),
        grouped(free),
    )
}

pub(crate) fn action(framework: Framework, vendor: Vendor, frees: bool) -> &'static str {
    match (framework, vendor) {
        (Framework::Xla, _) => {
            "Let JAX allocate its pool at the start (`XLA_PYTHON_CLIENT_PREALLOCATE=true`, and a larger \
             `XLA_PYTHON_CLIENT_MEM_FRACTION`), and donate arrays that a step replaces (`donate_argnums` of `jax.jit`)."
        }
        (Framework::Program, Vendor::Nvidia) => {
            "Allocate before the loop and reuse the memory, or allocate from a pool with `cudaMallocAsync`."
        }
        (Framework::Program, Vendor::Amd) => {
            "Allocate before the loop and reuse the memory, or allocate from a pool with `hipMallocAsync`."
        }
        (Framework::Program, Vendor::Intel | Vendor::Huawei | Vendor::Google) => {
            "Allocate before the loop and reuse the memory."
        }
        _ if !frees => {
            "The memory of the allocator still grows in the steps. Run more steps before the capture; if it goes on growing, try \
             `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`."
        }
        _ => {
            "The caching allocator gives memory back and asks for it again. Remove `torch.cuda.empty_cache()` from the loop, leave more \
             memory free, and try `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`."
        }
    }
}
