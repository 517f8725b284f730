//! Traces without GPU ops: what the profiler may have missed, by format and vendor.

use super::{Told, told};
use crate::digits::grouped;
use crate::trace::{Format, Profiler, Vendor};
use crate::words::counted;

/// Kernels were launched, but the profiler recorded none.
pub(crate) fn launches_without_ops(launches: u64, diagnostics: &[String], format: Format, vendor: Vendor) -> Told {
    let message = format!(
        "the profiler recorded no GPU op although kernels were launched ({}){}",
        counted(launches, "launch call", "launch calls"),
        said_by_profiler(diagnostics)
    );
    told(message, causes_of_unrecorded_ops(format, vendor))
}

/// Why a profiler records launches and no GPU work, and what to do.
pub(crate) fn causes_of_unrecorded_ops(format: Format, vendor: Vendor) -> &'static str {
    match (format.profiler(), vendor) {
        (Profiler::Torch, Vendor::Intel) => {
            "Causes: activities without ProfilerActivity.XPU, or another profiler such as unitrace or VTune in the same process."
        }
        (Profiler::Torch, Vendor::Amd) => {
            "Causes: activities without ProfilerActivity.CUDA (also on AMD), another profiler such as rocprofv3 in \
             the same process, or a user who may not open /dev/kfd."
        }
        (Profiler::Torch, _) => {
            "Causes: activities without ProfilerActivity.CUDA; another profiler in the same process (CUPTI allows one \
             subscriber: nsys, DCGM, Nsight Compute); a user who may not record GPUs (the driver option \
             NVreg_RestrictProfilingToAdminUsers, or a container without CAP_SYS_ADMIN); WSL2; or a driver newer than \
             the CUPTI of this torch. If nsys records the GPU only with CuptiUseRawGpuTimestamps=false, CUPTI cannot \
             convert the times of the GPU."
        }
        (Profiler::Nsys, _) => {
            "Causes: another profiler in the same process (CUPTI allows one subscriber: torch.profiler, DCGM, Nsight \
             Compute); a user who may not record GPUs (`nsys status --environment` tells: perf_event_paranoid, \
             NVreg_RestrictProfilingToAdminUsers, a container without CAP_SYS_ADMIN); WSL2; a driver newer than this \
             nsys; or times that CUPTI cannot convert: capture with \
             NSYS_CONFIG_DIRECTIVES='CuptiUseRawGpuTimestamps=false'."
        }
        (Profiler::Rocprof, _) if format.is_rocprof_v1() => {
            "Causes: another profiler in the same process, a program that ended without waiting for its kernels, or a user who may not \
             open /dev/kfd."
        }
        (Profiler::Rocprof, _) => {
            "Causes: the capture ran without `--kernel-trace`, another profiler in the same process, or a user who may not open \
             /dev/kfd."
        }
        (Profiler::Rpd, _) => {
            "Causes: the program ended before the tracer wrote the ops (call `flush()` after `stop()`), another profiler in the same \
             process, or a user who may not open /dev/kfd."
        }
        (Profiler::Ascend, _) => {
            "Causes: activities without torch_npu.profiler.ProfilerActivity.NPU, a `*_ascend_pt` folder that was not \
             analysed, or msprof in the same process."
        }
        (Profiler::Proton, _) => "Proton records no calls: another tool wrote them.",
        (Profiler::Xla, _) => {
            "Causes: another profiler in the same process (CUPTI and ROCm allow one), a user who may not record GPUs (the driver \
             option NVreg_RestrictProfilingToAdminUsers, a container without CAP_SYS_ADMIN, or /dev/kfd), or a plugin of JAX \
             without its profiler."
        }
        (Profiler::Unitrace, _) => {
            "Causes: a capture without `--chrome-kernel-logging`, or another profiler in the same process."
        }
    }
}

/// What the profiler wrote about the capture, as the end of a sentence.
pub(crate) fn said_by_profiler(diagnostics: &[String]) -> String {
    let quoted: Vec<String> = diagnostics.iter().map(|text| format!("\"{text}\"")).collect();
    if quoted.is_empty() { String::new() } else { format!("; the profiler itself says: {}", quoted.join(", ")) }
}

/// The trace has no GPU op.
pub(crate) fn no_gpu_events(cpu_events: u64, diagnostics: &[String], format: Format, vendor: Vendor) -> Told {
    let none = if format.profiler() == Profiler::Xla { "no accelerator in this profile" } else { "no GPU events" };
    let message = format!("{none}; {} CPU events{}", grouped(cpu_events), said_by_profiler(diagnostics));
    told(message, how_to_record(format, vendor))
}

fn how_to_record(format: Format, vendor: Vendor) -> &'static str {
    match (format.profiler(), vendor) {
        (Profiler::Torch, Vendor::Intel) => {
            "Open the trace of a worker rank, captured with ProfilerActivity.XPU while requests ran."
        }
        (Profiler::Torch, _) => {
            "Open the trace of a worker rank, captured with ProfilerActivity.CUDA while requests ran. The trace of a front end or \
             of graph capture has no GPU events."
        }
        (Profiler::Rocprof, _) if format == Format::RocprofCsv => {
            "Open the file of the kernels (`*_kernel_trace.csv`) together with the others, or capture again with `rocprofv3 \
             --kernel-trace`."
        }
        (Profiler::Rocprof, _) if format.is_rocprof_v1() => {
            "Capture while requests run, with `rocprof --hip-trace` or with `rocprofv3 --kernel-trace`."
        }
        (Profiler::Rocprof, _) => "Capture while requests run, with `rocprofv3 --kernel-trace`.",
        (Profiler::Rpd, _) => "Capture while requests run; the database has no op that ran on a GPU.",
        (Profiler::Ascend, _) => {
            "Capture with torch_npu.profiler.ProfilerActivity.NPU while requests run, and analyse the `*_ascend_pt` folder \
             before opening its trace_view.json."
        }
        (Profiler::Proton, _) => "Capture while requests run; the file has no kernel.",
        (Profiler::Xla, _) => {
            "The program ran on the CPU (`jax.devices()` lists the accelerators that it found), or nothing ran on the accelerator \
             between `jax.profiler.start_trace` and `stop_trace`. Wait for the result with `jax.block_until_ready` before the stop."
        }
        (Profiler::Unitrace, _) => "Capture with `unitrace --chrome-kernel-logging` while requests run.",
        (Profiler::Nsys, _) => {
            "Capture with `--trace=cuda` while requests run. If there are several processes, capture all of them with \
             `--cuda-trace-scope=process-tree`."
        }
    }
}
