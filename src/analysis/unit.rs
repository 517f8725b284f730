//! The unit of time that costs are compared with: the steps of a device, or its window without unseen work. From the
//! sections `steps`, `step_budget` and `gpu_idle`.
//!
//! The last step of a device lasts to its last op only, without the idle time before a next one. So what GPU work costs is compared with
//! all steps, and what idle time costs with [whole](Unit::whole) steps: of three steps, two waits are in the trace.

use super::host::idle::{GpuIdle, GpuIdleRow};
use super::section::{Sections, TypedSection};
use super::structure::step_budget::StepBudget;
use super::structure::steps::{StepRow, Steps};
use crate::rules::signals::VerdictThresholds;

/// The time of the unit on one device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Unit {
    /// In milliseconds: all steps of the device with the longest window, or its window.
    pub(crate) ms: f64,
    /// Steps per device; zero if no steps are marked.
    pub(crate) steps: u64,
    /// The same of the steps that reach the next one, if a device has two of them; else of all.
    whole: (f64, u64),
    /// Whether the mean step is like the median one.
    has_typical_step: bool,
}

impl Unit {
    pub(crate) fn of(sections: &Sections, thresholds: &VerdictThresholds) -> Self {
        let window_ms = GpuIdle::rows(sections).iter().map(GpuIdleRow::own_window_ms).fold(0.0, f64::max);
        let Some(figures) = Steps::figures(sections) else {
            return Self { ms: window_ms, steps: 0, whole: (window_ms, 0), has_typical_step: false };
        };
        let stages = Steps::rows(sections);
        let devices = figures.devices.max(1) as f64;
        let count = (figures.steps as f64 / devices).floor() as u64;
        let steps_ms = stages.iter().map(|stage| stage.total_ns.0 as f64).sum::<f64>() / devices / 1e6;
        let ms = if steps_ms == 0.0 { window_ms } else { steps_ms.min(window_ms) };
        let whole = whole_steps(sections, devices).map_or((ms, count), |(whole_ms, whole)| (whole_ms.min(ms), whole));
        Self { ms, steps: count, whole, has_typical_step: has_typical_step(&stages, thresholds) }
    }

    /// The unit of what idle time costs.
    pub(crate) fn whole(self) -> Self {
        let (ms, steps) = self.whole;
        Self { ms, steps, ..self }
    }

    /// The part of a time that falls on one step; `None` for a single step, and for steps whose mean says nothing.
    pub(crate) fn per_step(self, ms: f64) -> Option<f64> {
        (self.steps > 1 && self.has_typical_step).then(|| ms / self.steps as f64)
    }

    /// A time as a multiple of the unit; zero if the unit has no time.
    pub(crate) fn part(self, ms: f64) -> f64 {
        if self.ms > 0.0 { ms / self.ms } else { 0.0 }
    }

    /// The share of a time in the unit, at most 1.
    pub(crate) fn share(self, ms: f64) -> f64 {
        self.part(ms).min(1.0)
    }
}

/// The time and the number of the whole steps of a device; `None` if the trace does not link steps to devices.
fn whole_steps(sections: &Sections, devices: f64) -> Option<(f64, u64)> {
    let stages = StepBudget::rows(sections);
    let steps = stages.iter().map(|stage| stage.steps as f64).sum::<f64>() / devices;
    let ms = stages.iter().map(|stage| stage.in_all_ms(stage.mean_ms)).sum::<f64>() / devices;
    (steps >= 1.0 && ms > 0.0).then_some((ms, steps.floor() as u64))
}

/// Whether all steps are of one stage, their mean length is near the median, and no long steps, such as a start, hold a notable part of the
/// time.
fn has_typical_step(stages: &[StepRow], thresholds: &VerdictThresholds) -> bool {
    let [stage] = stages else { return false };
    let mean_ns = stage.total_ns.0 as f64 / stage.steps.max(1) as f64;
    let has_long_steps = stage.long_ns.0 as f64 >= thresholds.min_long_steps_share * stage.total_ns.0.max(1) as f64;
    !has_long_steps && mean_ns <= thresholds.max_mean_to_median * stage.median_ns.unwrap_or_default().0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::signals::Signals;
    use crate::trace::testing::TestTrace;

    fn unit(sections: &Sections) -> Unit {
        Unit::of(sections, &Signals::embedded().verdict)
    }

    #[test]
    fn the_unit_is_the_sum_of_the_steps_of_a_device() {
        let mut trace = TestTrace::new();
        // A kernel before the first step, then two steps of 150 us and 100 us: the last has no next step.
        trace.in_us().launch(0..1).launches("copy", 10..60);
        trace.range("step[DECODE bs=2]", 50..60).launch(51..52).launches("gemm", 200..300);
        trace.range("step[DECODE bs=2]", 70..80).launch(71..72).launches("gemm", 350..450);
        assert_eq!(unit(&trace.sections()), Unit { ms: 0.25, steps: 2, whole: (0.25, 2), has_typical_step: true });
    }

    #[test]
    fn whole_steps_are_those_that_reach_the_next() {
        let mut trace = TestTrace::new();
        // Steps of 100 us, 60 us of them busy. The last one ends with its op.
        trace.in_us();
        for start in [0, 100, 200] {
            trace
                .range("step[DECODE bs=2]", start..start + 5)
                .launch(start..start + 1)
                .launches("gemm", start + 2..start + 62);
        }
        let unit = unit(&trace.sections());
        assert_eq!((unit.ms, unit.steps), (0.26, 3));
        assert_eq!((unit.whole().ms, unit.whole().steps), (0.2, 2));
        // Two gaps of 40 us.
        assert_eq!(unit.whole().per_step(0.08), Some(0.04));
    }

    #[test]
    fn without_steps_the_unit_is_the_window() {
        let mut trace = TestTrace::nsys();
        let sections = trace.in_us().kernel("k", 0..10).kernel("k", 20..30).sections();
        assert_eq!(unit(&sections), Unit { ms: 0.03, steps: 0, whole: (0.03, 0), has_typical_step: false });
    }

    #[test]
    fn one_long_step_counts_in_the_unit_and_leaves_no_typical_step() {
        let mut trace = TestTrace::new();
        // Steps of 1,000, 100, 100 and 100 us: a start, and three alike.
        trace.in_us();
        for (start, end) in [(0, 1_000), (1_000, 1_100), (1_100, 1_200), (1_200, 1_300)] {
            trace.range("step[DECODE bs=2]", start..start + 5).launch(start + 1..start + 2);
            trace.launches("gemm", start + 10..end + 10);
        }
        let unit = unit(&trace.sections());
        assert_eq!((unit.ms, unit.steps, unit.per_step(1.0)), (1.3, 4, None));
        assert_eq!(unit.share(0.13), 0.1);
    }
}
