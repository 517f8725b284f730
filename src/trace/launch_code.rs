//! The code that launched kernels whose names do not tell what they do: evidence for their categories.
//!
//! Like [`super::LateCode`] it is found when the file is read. A sample of the launches of each name is kept, so memory is bounded by
//! the number of names.

use super::{NameId, Names};

/// One launch of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeOfLaunch {
    /// The kernel, in the names of the trace's GPU ops.
    pub kernel: NameId,
    /// The innermost framework op, in [`LaunchCode::ops`].
    pub op: Option<NameId>,
    /// The innermost Python function that tells a category, in [`LaunchCode::functions`].
    pub function: Option<NameId>,
}

/// The code around a sample of launches.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LaunchCode {
    /// Framework ops: `aten::mul`.
    pub ops: Names,
    /// Python functions: `sglang/srt/layers/layernorm.py(60): forward_native`.
    pub functions: Names,
    /// The launches, in no order that means anything.
    pub launches: Vec<CodeOfLaunch>,
}
