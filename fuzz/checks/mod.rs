//! What the fuzz targets check, as functions of one input. `tests/fuzz.rs` calls them on kept and changed inputs, and the targets on
//! those of libFuzzer.

pub mod chunks_agree;
pub mod dialects_never_panic;
pub mod documents_never_panic;
pub mod export_never_panics;
pub mod rules_never_panic;
pub mod table_never_panics;
pub mod torch_never_panics;
pub mod triage_never_panics;
mod whole_way;

/// A check of an input, which panics if the input shows a fault.
pub type Check = fn(&[u8]);

/// All checks, by the names of their targets and of the folders with their inputs.
pub const ALL: &[(&str, Check)] = &[
    ("chunks_agree", chunks_agree::check),
    ("dialects_never_panic", dialects_never_panic::check),
    ("documents_never_panic", documents_never_panic::check),
    ("export_never_panics", export_never_panics::check),
    ("rules_never_panic", rules_never_panic::check),
    ("table_never_panics", table_never_panics::check),
    ("torch_never_panics", torch_never_panics::check),
    ("triage_never_panics", triage_never_panics::check),
];
