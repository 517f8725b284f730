//! The canonical name and the category of each distinct op name.

use crate::rules::{RuleBook, names};
use crate::trace::{OpKind, Trace};

/// The properties of an op that follow from its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelName {
    /// The name as [`super::frames::canonical`] returns it. Ops with the same canonical name share a row.
    pub canonical: String,
    /// The category by gpuprism's own rules: `gemm`, `communication`, ...; `memory` for copies and memsets.
    pub category: String,
}

/// The properties of all names, by name id.
pub(super) fn kernel_names(trace: &Trace) -> Vec<KernelName> {
    let rules = RuleBook::gpuprism_default();
    let mut kinds = vec![OpKind::Kernel; trace.names.len()];
    for op in trace.gpu_ops.iter() {
        if let Some(kind) = kinds.get_mut(op.name.0 as usize) {
            *kind = op.kind;
        }
    }
    let name = |(raw, kind): (&str, OpKind)| KernelName {
        canonical: super::frames::canonical(raw),
        category: match (kind, rules) {
            (OpKind::Kernel, Some(rules)) => rules.category(raw, &names::demangle(raw)).to_owned(),
            _ => "memory".to_owned(),
        },
    };
    trace.names.iter().zip(kinds).map(name).collect()
}
