//! `counter-run`: the profiler counted hardware events and ran the kernels one at a time. From the problems of the import.

use super::row::{TrustId, TrustRow};
use crate::trace::{ProblemKind, Trace};
use crate::words;

pub(super) fn find(trace: &Trace) -> Option<TrustRow> {
    let kernels = trace.problems.count(ProblemKind::KernelOfCounterRun);
    (kernels > 0).then(|| TrustRow::new(TrustId::CounterRun, words::trust::counter_run(kernels)))
}
