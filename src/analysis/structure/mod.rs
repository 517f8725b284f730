//! Which part of the program did the work?
//!
//! - [`launch_ranges`]: the innermost NVTX range or annotation around each launch, and the kernel time under it.
//! - [`ranges`]: wall time and kernel time by range name.
//! - [`phases`]: prefill, decode and sampling, by words in range names.
//! - [`stages`]: steps of the serving engine and their stages, from annotations.
//! - [`steps`]: how long a step takes, by stage.

pub mod launch_ranges;
pub mod phases;
pub mod ranges;
pub mod stages;
pub mod steps;
