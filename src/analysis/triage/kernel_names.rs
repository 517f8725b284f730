//! The canonical name and the category of each distinct op name.

use crate::analysis::categories::Categories;
use crate::rules::names;
use crate::trace::{OpKind, Trace};
use std::borrow::Cow;

/// The properties of an op that follow from its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelName {
    /// The name as [`super::frames::canonical`] returns it. Ops with the same canonical name share a row.
    pub canonical: String,
    /// The short name, as in the report.
    pub short: String,
    /// The category by gpuprism's own rules: `gemm`, `communication`, ...; `memory` for copies and memsets.
    pub category: String,
}

/// The properties of all names, by name id.
pub(super) fn kernel_names(trace: &Trace) -> Vec<KernelName> {
    let categories = Categories::by_default_rules(trace);
    let mut kinds = vec![OpKind::Kernel; trace.names.len()];
    for op in trace.gpu_ops.iter() {
        if let Some(kind) = kinds.get_mut(op.name.0 as usize) {
            *kind = op.kind;
        }
    }
    let demangled: Vec<Cow<str>> = trace.names.iter().map(names::demangle).collect();
    let name = |(((raw, kind), demangled), short): (((&str, OpKind), &Cow<str>), String)| KernelName {
        canonical: super::frames::canonical(raw),
        short,
        category: match (kind, categories) {
            (OpKind::Kernel, Some(categories)) => categories.of(raw, demangled).0.to_owned(),
            _ => "memory".to_owned(),
        },
    };
    trace.names.iter().zip(kinds).zip(&demangled).zip(names::distinct(&demangled)).map(name).collect()
}
