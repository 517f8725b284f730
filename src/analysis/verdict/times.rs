//! The times that the verdict compares: sums over the devices, from the rows of finished sections. O(rows).

use crate::analysis::communication::collectives::NcclOps;
use crate::analysis::host::idle::{GpuIdle, GpuIdleRow};
use crate::analysis::results::{Run, WallSource};
use crate::analysis::section::{Fraction, Ms, TypedSection};
use crate::analysis::structure::start_up::SaidStart;
use crate::analysis::structure::steps::Steps;
use crate::analysis::time::streams::StreamOverlap;
use crate::rules::GRAPHS;
use crate::rules::signals::VerdictThresholds;
use crate::trace::CODE_IS_BUILT;

/// Sums over the devices, in milliseconds.
#[derive(Debug, Default)]
pub(super) struct Times {
    /// Windows without the time in which work ran that the trace does not contain; zero if the sections are missing.
    pub(super) window: f64,
    /// The same, with the start of the program.
    pub(super) whole_window: f64,
    pub(super) busy: f64,
    pub(super) host_late: f64,
    /// The part of the late time in which kernels were launched for the first time.
    pub(super) first_launches: f64,
    pub(super) drained: f64,
    pub(super) unknown: f64,
    pub(super) compiling: f64,
    /// Time of work that has no record: the GPU may have been busy or idle.
    pub(super) unrecorded: f64,
    /// Time in which communication runs without compute, together with compute, and compute without communication.
    pub(super) exposed: f64,
    pub(super) overlapped: f64,
    pub(super) compute_alone: f64,
    /// Graphs were traced as a whole, so that their kernels are unknown.
    pub(super) has_hidden_graphs: bool,
    /// If the capture is much longer than the steps.
    pub(super) steps: Option<StepsInCapture>,
    /// If the program starts in the capture. Without `steps`, the other times are those after its start.
    pub(super) start: Option<SaidStart>,
}

/// A device between its first step and its last, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepsInCapture {
    /// Without time of unseen work.
    pub(super) length: f64,
    pub(super) busy: f64,
    /// Time in which the host was late, also after a blocking call.
    pub(super) late: f64,
    /// Idle time of the rest of the capture.
    pub(super) idle_outside: f64,
}

impl StepsInCapture {
    /// `None` if the rest of the capture is short; for a window, whose first and last steps may be cut; for several devices, whose
    /// times outside of steps differ; and for graphs that were traced as a whole, which are not linked to their steps.
    pub(super) fn of(run: &Run, times: &Times, thresholds: &VerdictThresholds) -> Option<Self> {
        let figures = Steps::figures(&run.sections)?;
        let has_one_device = figures.devices == 1 && GpuIdle::rows(&run.sections).len() == 1;
        if run.window.is_some() || !has_one_device || times.has_hidden_graphs || times.is_compiling() {
            return None;
        }
        let ms = |time| Ms::from(time).0;
        let (idle_outside, busy_outside) = (ms(figures.idle_outside_ns), ms(figures.busy_outside_ns));
        (idle_outside > thresholds.min_outside_share * times.window).then(|| Self {
            length: times.window - idle_outside - busy_outside,
            busy: times.busy - busy_outside,
            late: times.host_late + times.drained - ms(figures.late_outside_ns),
            idle_outside,
        })
    }
}

impl Times {
    pub(super) fn of(run: &Run, thresholds: &VerdictThresholds) -> Self {
        // The page's first module has no sections.
        if !CODE_IS_BUILT {
            return Self::default();
        }
        let Some(idle) = GpuIdle::read(&run.sections) else { return Self::default() };
        let sum = |part: fn(&GpuIdleRow) -> Ms| idle.rows.iter().fold(0.0, |sum, row| sum + part(row).0);
        let overlap = StreamOverlap::rows(&run.sections);
        let row = |label: &str| overlap.iter().find(|row| row.label == label);
        let overlapped = StreamOverlap::figures(&run.sections).map_or(0.0, |figures| figures.compute_nccl_overlap_ms.0);
        let compute = row("Compute").map_or(0.0, |row| row.total_time_ms.0);
        let window = idle.rows.iter().map(GpuIdleRow::own_window_ms).sum();
        let times = Self {
            window,
            whole_window: window,
            busy: sum(|row| row.busy_ms),
            host_late: sum(|row| row.host_late_ms),
            first_launches: sum(|row| row.first_launches_ms),
            drained: sum(|row| row.drained_ms),
            unknown: sum(|row| row.unknown_ms),
            compiling: sum(|row| row.compiling_ms),
            unrecorded: sum(|row| row.unrecorded_ms),
            exposed: NcclOps::figures(&run.sections).map_or(0.0, |figures| figures.exposed_ms.0),
            overlapped,
            compute_alone: compute - overlapped,
            has_hidden_graphs: row(GRAPHS).is_some(),
            steps: None,
            start: None,
        };
        let steps = StepsInCapture::of(run, &times, thresholds);
        let is_whole = run.window.is_none() && run.wall.source == WallSource::Window;
        let is_said = |start: &SaidStart| CODE_IS_BUILT && is_whole && (start.is_cold() || start.is_followed());
        let start = SaidStart::of(&run.sections).filter(is_said);
        let times = if steps.is_none() { times.after(start.as_ref()) } else { times };
        Self { steps, start, ..times }
    }

    /// The start of the program. The page's first module has none, and no sentences about it.
    pub(super) fn start(&self) -> Option<&SaidStart> {
        self.start.as_ref().filter(|_| CODE_IS_BUILT)
    }

    /// The times after the start of the program. The start is not the workload.
    fn after(self, start: Option<&SaidStart>) -> Self {
        let Some(start) = start.filter(|_| CODE_IS_BUILT) else { return self };
        Self {
            window: start.window_after_ms,
            busy: start.busy_after_ms,
            host_late: start.host_late_after_ms,
            drained: start.drained_after_ms,
            unknown: start.unknown_after_ms,
            compiling: start.compiling_after_ms,
            ..self
        }
    }

    /// A host that is late before the first step or after the last does not delay the steps.
    pub(super) fn is_host_bound(&self) -> bool {
        match self.steps {
            Some(StepsInCapture { length, busy, late, .. }) => late > busy + self.unrecorded && length > 0.0,
            None => self.host_late + self.drained > self.busy + self.unrecorded,
        }
    }

    /// Idle time without a known cause, and the busy time to compare it with: between the first step and the last, if the capture is much
    /// longer.
    pub(super) fn unknown_and_busy(&self) -> (f64, f64) {
        match self.steps {
            Some(StepsInCapture { length, busy, late, .. }) => {
                ((length - busy - late).max(0.0).min(self.unknown), busy)
            }
            None => (self.unknown, self.busy),
        }
    }

    /// The share of that idle time.
    pub(super) fn unknown_share(&self) -> Fraction {
        let (unknown, _) = self.unknown_and_busy();
        match self.steps {
            Some(StepsInCapture { length, .. }) if length > 0.0 => Fraction(unknown / length),
            _ => self.share(unknown),
        }
    }

    /// Whether first launches take most of the time: they load code, which work that runs again does not wait for.
    pub(super) fn is_loading(&self) -> bool {
        let others = self.host_late + self.drained - self.first_launches;
        self.steps.is_none() && self.start.is_none() && self.first_launches > others + self.busy + self.unrecorded
    }

    /// A compilation is usually before the first step.
    pub(super) fn is_compiling(&self) -> bool {
        self.compiling > self.busy.max(self.host_late + self.drained)
    }

    /// The share of a time in the windows of the devices.
    pub(super) fn share(&self, ms: f64) -> Fraction {
        Fraction(if self.window > 0.0 { ms / self.window } else { 0.0 })
    }

    /// The share of a time in the busy time.
    pub(super) fn share_of_busy(&self, ms: f64) -> Fraction {
        Fraction(if self.busy > 0.0 { ms / self.busy } else { 0.0 })
    }
}
