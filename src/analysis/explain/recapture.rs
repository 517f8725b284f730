//! The command that captures what a trace lacks, in the words of the profiler that wrote it.

use crate::trace::Format;

/// What a section needs and a trace may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lacks {
    /// GPU kernels.
    Kernels,
    /// Calls of the CUDA or HIP API with their correlation ids.
    Calls,
    /// Ranges that the program marks.
    Ranges,
}

const PROFILE: &str = "nsys profile --trace=cuda,nvtx,osrt --sample=none --cpuctxsw=none \
     --cuda-trace-scope=process-tree --cuda-graph-trace=node -o trace CMD";
const EXPORT: &str =
    "nsys export --type sqlite --output trace.sqlite --force-overwrite=true --lazy=false trace.nsys-rep";

/// What to run so that a later trace of this format has it.
pub(super) fn command(format: Format, lacks: Lacks) -> String {
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
    }
}
