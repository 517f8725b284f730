//! Views and server arguments for tests.

use crate::analysis::triage::{Options, Request, ServerArgs, Stage, View};
use crate::trace::Trace;

/// Calls `test` with the view of a trace.
pub(crate) fn with_view<R>(
    trace: &Trace,
    file_stage: Stage,
    server: &ServerArgs,
    options: &Options,
    test: impl FnOnce(&mut View) -> R,
) -> R {
    let request = Request { trace, path: "", file_stage, mapping: &[], server, framework: None, options };
    test(&mut View::new(&request))
}

/// Parses server arguments from JSON.
pub(crate) fn arguments(json: &str) -> ServerArgs {
    ServerArgs(serde_json::from_str(json).unwrap())
}
