//! The start of the program, and the longest idle gap of a capture without steps. From the sections `start_up` and `gpu_idle_gaps`.

use super::sentences::{Sentences, Subject};
use crate::analysis::host::idle::{GpuIdleGapRow, GpuIdleGaps};
use crate::analysis::results::WallSource;
use crate::analysis::section::{Ms, Pct, TypedSection};
use crate::analysis::structure::start_up::{SaidStart, StartUpTimes};
use crate::analysis::structure::steps::Steps;
use crate::analysis::trust::{Trust, TrustId};
use crate::trace::CODE_IS_BUILT;
use crate::words::verdict::{self, start as words};

/// A gap with its row.
pub(super) type Gap = (usize, GpuIdleGapRow);

/// A capture of little but the start of the program.
pub(super) fn cold(start: &SaidStart, gap: Option<Gap>, text: &mut Sentences) {
    let source = Some((StartUpTimes::SPEC.name, Some(start.row)));
    text.push(words::cold(times(start), &start.largest_loads), source);
    if let Some(gap) = gap {
        push_gap(gap, text);
    }
    let [ops, kernels] = [start.followed_ops_pct, start.followed_kernels_pct].map(|share| Pct(share).into());
    text.push(words::what_follows(ops, kernels), source);
}

/// A capture that goes on after the start of the program.
pub(super) fn after(start: &SaidStart, gap: Option<Gap>, text: &mut Sentences) {
    text.push(words::after(times(start)), Some((StartUpTimes::SPEC.name, Some(start.row))));
    if let Some(gap) = gap {
        push_gap(gap, text);
    }
    text.push(words::END, None);
}

fn times(start: &SaidStart) -> words::Start {
    words::Start { length: Ms(start.length_ms), process: Ms(start.process_ms), loading: Ms(start.loading_ms) }
}

/// Adds the clause about a gap.
pub(super) fn push_gap((row, gap): Gap, text: &mut Sentences) {
    text.push(verdict::beside_it(&gap.words()), Some((GpuIdleGaps::SPEC.name, Some(row))));
}

/// The longest gap, if it is of the start and longer than the loads, which do not explain it then.
pub(super) fn gap_of_start(subject: &Subject, start: &SaidStart) -> Option<Gap> {
    let is_of_start = |gap: &GpuIdleGapRow| gap.gap_end_ns <= start.steady_from_ns && gap.gap_ms.0 > start.loading_ms;
    longest_gap(subject).filter(|(_, gap)| is_of_start(gap))
}

/// The longest idle gap of a capture without steps, if it is a large part of the capture. Categories and the path of what follows do
/// not say what happened in it.
pub(super) fn longest_gap(subject: &Subject) -> Option<Gap> {
    let Subject { run, thresholds, times } = subject;
    let is_whole = run.window.is_none() && run.wall.source == WallSource::Window && run.devices.len() == 1;
    if !CODE_IS_BUILT || !is_whole || !Steps::rows(&run.sections).is_empty() {
        return None;
    }
    let (row, gap) = GpuIdleGaps::longest(&run.sections)?;
    let is_idle = !Trust::has(&run.sections, TrustId::CounterRun);
    (is_idle && gap.gap_ms.0 >= thresholds.min_longest_gap_share * times.whole_window).then_some((row, gap))
}
