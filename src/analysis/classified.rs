//! A trace with a classification of its names: communication kernels, and kinds of API calls.

use crate::analysis::categories::Categories;
use crate::rules::names;
use crate::rules::signals::{CallKind, Signals};
use crate::trace::{NameId, Trace};

/// The trace under analysis. Every distinct name is classified once; lookups are by index.
#[derive(Debug)]
pub struct ClassifiedTrace<'a> {
    /// The trace.
    pub trace: &'a Trace,
    /// Words and thresholds of `patterns/signals.json`.
    pub signals: Signals,
    kernels: Vec<KernelKind>,
    calls: Vec<CallKind>,
}

/// The kind of the kernels of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelKind {
    /// A kernel that computes.
    Compute,
    /// A collective or another message between GPUs: `allreduce`, `alltoall`, ..., or the kernel's short name.
    Communication(String),
}

impl<'a> ClassifiedTrace<'a> {
    /// Classifies every distinct name of the trace.
    pub fn new(trace: &'a Trace) -> Self {
        let signals = Signals::embedded();
        let calls = trace.calls.names.iter().map(|name| signals.call(name)).collect();
        let kernels = kernel_kinds(trace, &signals);
        Self { trace, signals, kernels, calls }
    }

    /// The kind of the kernels of this name.
    pub fn kernel_kind(&self, name: NameId) -> &KernelKind {
        self.kernels.get(name.0 as usize).unwrap_or(&KernelKind::Compute)
    }

    /// Whether kernels of this name communicate between GPUs.
    pub fn is_communication(&self, name: NameId) -> bool {
        matches!(self.kernel_kind(name), KernelKind::Communication(_))
    }

    /// The kind of the calls of this name.
    pub fn call_kind(&self, name: NameId) -> CallKind {
        self.calls.get(name.0 as usize).copied().unwrap_or(CallKind::Other)
    }
}

/// Communication kernels are detected by gpuprism's default rules, also if the user chose other rules for categories.
fn kernel_kinds(trace: &Trace, signals: &Signals) -> Vec<KernelKind> {
    let categories = Categories::by_default_rules(trace);
    let kind = |name: &str| {
        let demangled = names::demangle(name);
        let communicates = categories.is_some_and(|categories| categories.of(name, &demangled).0 == "communication");
        if !communicates {
            return KernelKind::Compute;
        }
        let operation = signals.collective(&demangled).map(str::to_owned);
        KernelKind::Communication(operation.unwrap_or_else(|| names::short(&demangled)))
    };
    trace.names.iter().map(kind).collect()
}
