//! Why an SQLite database is not read: for databases that come as a stream and for files.

/// A database of rocprofv3 or rocmProfileData that lacks the tables that count.
#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
pub(super) const ROCM_WITHOUT_OPS: &str = "a database of a ROCm profiler without a table of GPU ops (rocpd_op or rocpd_kernel_dispatch_UUID): \
     was the profiler stopped before it wrote them? Capture it again";
/// A database of nvprof.
pub(super) const NVPROF: &str =
    "an nvprof .nvvp database, which gpuprism does not read: capture again with Nsight Systems";
/// Any other database.
pub(super) const OTHER_DATABASE: &str = "an SQLite database that is not an Nsight Systems export";
