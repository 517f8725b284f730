//! The command that captures what a trace lacks, in the words of the profiler that wrote it.

use crate::trace::Format;

/// What a section needs and a trace may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lacks {
    /// GPU kernels.
    Kernels,
    /// Calls of the CUDA or HIP API with their correlation ids.
    Calls,
    /// Ranges that the program marks.
    Ranges,
    /// Sampled counters of NVLink; no other profiler than Nsight Systems samples them.
    LinkCounters,
    /// Counts of floating point operations and bytes; samples of throughput do not replace them.
    WorkCounters,
}

const PROFILE: &str = "nsys profile --trace=cuda,nvtx,osrt --sample=none --cpuctxsw=none \
     --cuda-trace-scope=process-tree --cuda-graph-trace=node -o trace CMD";
/// The first command lists the sets; SET in the second is one of them that has NVLink. Sampling takes root.
const PROFILE_METRICS: &str = "nsys profile --gpu-metrics-set=help; sudo nsys profile --trace=cuda,nvtx,osrt \
     --cuda-graph-trace=node --gpu-metrics-devices=all --gpu-metrics-set=SET --gpu-metrics-frequency=10000 -o trace CMD";
const EXPORT: &str =
    "nsys export --type sqlite --output trace.sqlite --force-overwrite=true --lazy=false trace.nsys-rep";

/// What to run so that a later trace of this format has it.
pub(crate) fn command(format: Format, lacks: Lacks) -> String {
    match (format, lacks) {
        (Format::TorchProfiler, Lacks::Kernels | Lacks::Calls) => {
            "torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])".to_owned()
        }
        (Format::TorchProfiler, Lacks::Ranges) => {
            "with torch.profiler.record_function(\"prefill\"): ... around the phases of the program".to_owned()
        }
        // The report that the table was made from has the calls and ranges.
        (Format::NsysGpuTraceCsv, Lacks::Calls | Lacks::Ranges) => EXPORT.to_owned(),
        (Format::NsysGpuTraceCsv | Format::NsysSqlite | Format::NsysLlmExplainer, Lacks::Kernels | Lacks::Calls) => {
            format!("{PROFILE} && {EXPORT}")
        }
        (Format::NsysSqlite | Format::NsysLlmExplainer, Lacks::Ranges) => {
            format!(
                "torch.cuda.nvtx.range_push(\"prefill\") ... range_pop() in the program, then {PROFILE} && {EXPORT}"
            )
        }
        (_, Lacks::LinkCounters) => format!("{PROFILE_METRICS} && {EXPORT}"),
        (_, Lacks::WorkCounters) => "ncu --set roofline -o kernels CMD".to_owned(),
    }
}
