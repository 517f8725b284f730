//! The profiler command that captures the data missing from a trace, by trace format.

use crate::trace::{Format, Profiler, Vendor};

/// Data that a section needs and that may be missing from a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MissingData {
    /// GPU kernels.
    Kernels,
    /// Calls of the CUDA or HIP API with their correlation ids.
    Calls,
    /// NVTX ranges or user annotations.
    Ranges,
    /// Sampled NVLink counters; only Nsight Systems samples them.
    LinkCounters,
    /// Shapes of the arguments of framework ops; only torch.profiler records them.
    Shapes,
    /// Counts of floating-point operations and bytes; throughput samples cannot replace them.
    WorkCounters,
}

const PROFILE: &str = "nsys profile --trace=cuda,nvtx,osrt --sample=none --cpuctxsw=none \
     --cuda-trace-scope=process-tree --cuda-graph-trace=node -o trace CMD";
/// The first command lists the metric sets. Replace SET in the second by a set with NVLink counters. Sampling
/// requires root.
const PROFILE_METRICS: &str = "nsys profile --gpu-metrics-set=help; sudo nsys profile --trace=cuda,nvtx,osrt \
     --cuda-graph-trace=node --gpu-metrics-devices=all --gpu-metrics-set=SET --gpu-metrics-frequency=10000 -o trace CMD";
const EXPORT: &str =
    "nsys export --type sqlite --output trace.sqlite --force-overwrite=true --lazy=false trace.nsys-rep";

const ROCPROF: &str =
    "rocprofv3 --kernel-trace --memory-copy-trace --hip-runtime-trace --marker-trace --rccl-trace -d out -- CMD";
const NPU_PROFILER: &str = "torch_npu.profiler.profile(activities=[torch_npu.profiler.ProfilerActivity.CPU, \
     torch_npu.profiler.ProfilerActivity.NPU], on_trace_ready=torch_npu.profiler.tensorboard_trace_handler(\"out\"))";

/// Returns the command or code that records the missing data in a new trace like this one.
pub(crate) fn command(format: Format, vendor: Vendor, data: MissingData) -> String {
    match format.profiler() {
        Profiler::Nsys => of_nsys(format, data),
        Profiler::Torch | Profiler::Proton => of_torch(vendor, data),
        Profiler::Rocprof | Profiler::Rpd => of_rocm(data),
        Profiler::Ascend => of_ascend(data),
        Profiler::Xla => of_xla(vendor, data),
        Profiler::Unitrace => of_unitrace(data),
    }
}

fn of_torch(vendor: Vendor, data: MissingData) -> String {
    // PyTorch for ROCm calls the activity CUDA, too.
    let activity = if vendor == Vendor::Intel { "XPU" } else { "CUDA" };
    let profile = format!("torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.{activity}]");
    match data {
        MissingData::Kernels | MissingData::Calls => format!("{profile})"),
        MissingData::Ranges => {
            "with torch.profiler.record_function(\"prefill\"): ... around the phases of the program".to_owned()
        }
        MissingData::Shapes => {
            let graphs = if vendor == Vendor::Intel { "" } else { " that runs without CUDA graphs" };
            format!("{profile}, record_shapes=True) around a step{graphs}")
        }
        MissingData::LinkCounters if vendor == Vendor::Nvidia => format!("{PROFILE_METRICS} && {EXPORT}"),
        MissingData::WorkCounters if vendor == Vendor::Nvidia => NCU.to_owned(),
        MissingData::WorkCounters if vendor == Vendor::Amd => ROCPROF_COUNTERS.to_owned(),
        MissingData::LinkCounters | MissingData::WorkCounters => String::new(),
    }
}

fn of_rocm(data: MissingData) -> String {
    match data {
        MissingData::Kernels | MissingData::Calls => ROCPROF.to_owned(),
        MissingData::Ranges => {
            format!("roctxRangePush(\"prefill\") ... roctxRangePop() in the program, then {ROCPROF}")
        }
        MissingData::Shapes => of_torch(Vendor::Amd, data).replace("CUDA graphs", "HIP graphs"),
        MissingData::WorkCounters => ROCPROF_COUNTERS.to_owned(),
        MissingData::LinkCounters => String::new(),
    }
}

fn of_ascend(data: MissingData) -> String {
    match data {
        MissingData::Kernels | MissingData::Calls => NPU_PROFILER.to_owned(),
        MissingData::Ranges => "with torch_npu.npu.mstx.range(\"prefill\"): ... in the program, and mstx=True in the \
             experimental_config of torch_npu.profiler.profile"
            .to_owned(),
        MissingData::Shapes => NPU_PROFILER.replacen("(activities", "(record_shapes=True, activities", 1),
        MissingData::LinkCounters | MissingData::WorkCounters => String::new(),
    }
}

fn of_xla(vendor: Vendor, data: MissingData) -> String {
    match data {
        MissingData::Kernels | MissingData::Calls => {
            "with jax.profiler.trace(\"out\"): ... around some steps".to_owned()
        }
        MissingData::Ranges => {
            "with jax.profiler.StepTraceAnnotation(\"train\", step_num=step): ... around each step, and \
             jax.profiler.TraceAnnotation(\"prefill\") around its phases"
                .to_owned()
        }
        // XLA fuses the ops of the program, and the profile has no shapes of what remains.
        MissingData::Shapes => String::new(),
        MissingData::LinkCounters if vendor == Vendor::Nvidia => format!("{PROFILE_METRICS} && {EXPORT}"),
        MissingData::WorkCounters if vendor == Vendor::Nvidia => NCU.to_owned(),
        MissingData::WorkCounters if vendor == Vendor::Amd => ROCPROF_COUNTERS.to_owned(),
        MissingData::LinkCounters | MissingData::WorkCounters => String::new(),
    }
}

fn of_unitrace(data: MissingData) -> String {
    match data {
        MissingData::Kernels | MissingData::Calls => {
            "unitrace --chrome-kernel-logging --chrome-call-logging CMD".to_owned()
        }
        MissingData::Ranges => "unitrace --chrome-kernel-logging --chrome-itt-logging CMD".to_owned(),
        MissingData::Shapes => of_torch(Vendor::Intel, data),
        MissingData::LinkCounters | MissingData::WorkCounters => String::new(),
    }
}

fn of_nsys(format: Format, data: MissingData) -> String {
    match (format, data) {
        // The report that the table was exported from has the calls and ranges.
        (Format::NsysGpuTraceCsv | Format::NsysChromeJson, MissingData::Calls | MissingData::Ranges) => {
            EXPORT.to_owned()
        }
        (_, MissingData::Kernels | MissingData::Calls) => format!("{PROFILE} && {EXPORT}"),
        (_, MissingData::Ranges) => {
            format!(
                "torch.cuda.nvtx.range_push(\"prefill\") ... range_pop() in the program, then {PROFILE} && {EXPORT}"
            )
        }
        (_, MissingData::LinkCounters) => format!("{PROFILE_METRICS} && {EXPORT}"),
        (_, MissingData::Shapes) => of_torch(Vendor::Nvidia, data),
        (_, MissingData::WorkCounters) => NCU.to_owned(),
    }
}

const NCU: &str = "ncu --set roofline -o kernels CMD";
/// Both counters fit into one run.
const ROCPROF_COUNTERS: &str = "rocprofv3 --pmc FETCH_SIZE WRITE_SIZE --output-format csv -d out -- CMD";
