//! The section on the capture of a trace, from `capture.json` beside it. `files::captured` fills it.

use super::section::{Ms, section};

section! {
    /// How the trace was captured.
    pub(crate) struct Captured("capture", "Capture");
    figures CapturedFigures {
        framework: String,
        framework_version: Option<String>,
        model: Option<String>,
        captured_stage: Option<String>,
        part: String,
        graphs: Option<String>,
        load: String,
        unprofiled_ms: Option<Ms>,
        profiled_ms: Option<Ms>,
        /// How many times as long the same requests took with the profiler.
        profiler_overhead_factor: Option<f64>,
    }
}
