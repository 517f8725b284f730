//! `profiler-pauses`: the profiler held host threads, and the GPU idled for it. From the section of idle time and the pauses; O(pauses).

use super::row::{TrustId, TrustRow};
use crate::analysis::context::Context;
use crate::analysis::host::idle::{GpuIdle, GpuIdleRow};
use crate::analysis::section::{Ms, Sections, TypedSection};
use crate::trace::Ns;
use crate::words::trust as words;

/// A smaller part of the window needs no word.
const MIN_IDLE_PCT: f64 = 1.0;

pub(super) fn find(context: &Context, sections: &Sections) -> Option<TrustRow> {
    let rows = GpuIdle::rows(sections);
    let idle_pct = |row: &GpuIdleRow| 100.0 * row.profiler_ms.0 / row.own_window_ms().max(f64::MIN_POSITIVE);
    let worst = rows.into_iter().max_by(|a, b| idle_pct(a).total_cmp(&idle_pct(b)))?;
    if idle_pct(&worst) < MIN_IDLE_PCT {
        return None;
    }
    let window = context.trace.span()?;
    let (mut count, mut held) = (0, Ns::ZERO);
    for pause in context.trace.profiler_pauses.iter() {
        let inside = pause.end.min(window.end).since(pause.start.max(window.start));
        count += u64::from(inside > Ns::ZERO);
        held += inside.max(Ns::ZERO);
    }
    let Ms(idle_ms) = worst.profiler_ms;
    Some(TrustRow::new(TrustId::ProfilerPauses, words::profiler_pauses(count, held, Ms(idle_ms))))
}
