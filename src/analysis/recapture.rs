//! The profiler command that captures the data missing from a trace, by trace format.

use crate::trace::Format;

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

/// Returns the command or code that records the missing data in a new trace of this format.
pub(crate) fn command(format: Format, data: MissingData) -> String {
    match (format, data) {
        (Format::TorchProfiler, MissingData::Kernels | MissingData::Calls) => {
            "torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])".to_owned()
        }
        (Format::TorchProfiler, MissingData::Ranges) => {
            "with torch.profiler.record_function(\"prefill\"): ... around the phases of the program".to_owned()
        }
        // The report that the CSV table was exported from has the calls and ranges.
        (Format::NsysGpuTraceCsv, MissingData::Calls | MissingData::Ranges) => EXPORT.to_owned(),
        (
            Format::NsysGpuTraceCsv | Format::NsysSqlite | Format::NsysLlmExplainer,
            MissingData::Kernels | MissingData::Calls,
        ) => {
            format!("{PROFILE} && {EXPORT}")
        }
        (Format::NsysSqlite | Format::NsysLlmExplainer, MissingData::Ranges) => {
            format!(
                "torch.cuda.nvtx.range_push(\"prefill\") ... range_pop() in the program, then {PROFILE} && {EXPORT}"
            )
        }
        (_, MissingData::LinkCounters) => format!("{PROFILE_METRICS} && {EXPORT}"),
        (_, MissingData::Shapes) => {
            "torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True) around a \
             step that runs without CUDA graphs"
                .to_owned()
        }
        (_, MissingData::WorkCounters) => "ncu --set roofline -o kernels CMD".to_owned(),
    }
}
