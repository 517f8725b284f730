//! `pageable-copies`: its title, evidence and action.

use super::{Amount, Framework};
use crate::trace::Vendor;
use crate::words::counted;

pub(crate) const TITLE: &str = "copies from or to pageable memory";

pub(crate) fn evidence(amount: Amount, copies: u64) -> String {
    format!(
        "{amount}: no kernel runs during these copies; {} use pageable host memory. At most all of it is saved, if other work runs \
         meanwhile; how much faster the copies are from pinned memory is not in the trace",
        counted(copies, "copy", "copies"),
    )
}

pub(crate) fn action(framework: Framework, vendor: Vendor) -> &'static str {
    match (framework, vendor) {
        (Framework::Xla, _) | (Framework::Program, Vendor::Google) => {
            "Bring the next batch to the device while the step runs (`jax.device_put`), and read results after later steps were \
             dispatched."
        }
        (Framework::Program, Vendor::Nvidia) => {
            "Allocate the host memory as pinned memory (`cudaMallocHost`) and copy with `cudaMemcpyAsync` on a stream of \
             its own."
        }
        (Framework::Program, Vendor::Amd) => {
            "Allocate the host memory as pinned memory (`hipHostMalloc`) and copy with `hipMemcpyAsync` on a stream of its \
             own."
        }
        (Framework::Program, Vendor::Intel) => {
            "Allocate the host memory as pinned memory (`sycl::malloc_host`) and copy on a queue of its own."
        }
        (Framework::Program, Vendor::Huawei) => {
            "Allocate the host memory with `aclrtMallocHost` and copy with `aclrtMemcpyAsync` on a stream of its own."
        }
        (Framework::Training, _) => {
            "Pin the host memory (`pin_memory=True` in the DataLoader, `tensor.pin_memory()`) and copy with \
             `non_blocking=True` on a stream of its own."
        }
        _ => "Pin the host memory (`tensor.pin_memory()`) and copy with `non_blocking=True` on a stream of its own.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_without_pytorch_are_told_the_calls_of_their_runtime() {
        for framework in [Framework::SgLang, Framework::Transformers, Framework::Torch] {
            assert!(action(framework, Vendor::Nvidia).contains("tensor.pin_memory()"), "{framework:?}");
        }
        for (vendor, call) in
            [(Vendor::Nvidia, "cudaMallocHost"), (Vendor::Amd, "hipHostMalloc"), (Vendor::Intel, "sycl")]
        {
            let text = action(Framework::Program, vendor);
            assert!(text.contains(call) && !text.contains("pin_memory"), "{text}");
        }
    }
}
