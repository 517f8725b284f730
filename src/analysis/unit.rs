//! The unit of time that costs are compared with: the steps of a device, or its window without unseen work. From the
//! sections `steps` and `gpu_idle`.

use super::section::{Record, Section, Sections};

/// The time of the unit on one device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Unit {
    /// In milliseconds: all steps of the device with the longest window, or its window.
    pub(crate) ms: f64,
    /// Steps per device; zero if no steps are marked.
    pub(crate) steps: u64,
    /// Stages of the steps.
    stages: usize,
}

impl Unit {
    pub(crate) fn of(sections: &Sections) -> Self {
        let filled = |name: &str| sections.get(name).filter(|section| section.missing.is_none());
        let window = |row: &Record| row.amount("window_ms") - row.amount("unseen_ms");
        let idle = filled("gpu_idle").map_or(&[][..], |section: &Section| &section.rows);
        let window_ms = idle.iter().map(window).fold(0.0, f64::max);
        let Some(steps) = filled("steps") else { return Self { ms: window_ms, steps: 0, stages: 0 } };
        let devices = steps.summary.amount("devices").max(1.0);
        let count = (steps.summary.amount("steps") / devices).floor() as u64;
        let lengths = steps.rows.iter().map(|row| row.amount("steps") * row.amount("median_ns"));
        let steps_ms = lengths.sum::<f64>() / devices / 1e6;
        let ms = if steps_ms == 0.0 { window_ms } else { steps_ms.min(window_ms) };
        Self { ms, steps: count, stages: steps.rows.len() }
    }

    /// The part of a time that falls on one step; `None` for a single step, and for steps of several stages, whose mean says
    /// nothing.
    pub(crate) fn per_step(self, ms: f64) -> Option<f64> {
        (self.steps > 1 && self.stages == 1).then(|| ms / self.steps as f64)
    }

    /// The share of a time in the unit, at most 1.
    pub(crate) fn share(self, ms: f64) -> f64 {
        if self.ms > 0.0 { (ms / self.ms).min(1.0) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::testing::TestTrace;

    #[test]
    fn the_unit_is_the_sum_of_the_steps_of_a_device() {
        let mut trace = TestTrace::new();
        // A kernel before the first step, then two steps of 150 us and 100 us: the last has no next step.
        trace.in_us().launch(0..1).launches("copy", 10..60);
        trace.range("step[DECODE bs=2]", 50..60).launch(51..52).launches("gemm", 200..300);
        trace.range("step[DECODE bs=2]", 70..80).launch(71..72).launches("gemm", 350..450);
        assert_eq!(Unit::of(&trace.sections()), Unit { ms: 0.25, steps: 2, stages: 1 });
    }

    #[test]
    fn without_steps_the_unit_is_the_window() {
        let mut trace = TestTrace::nsys();
        let sections = trace.in_us().kernel("k", 0..10).kernel("k", 20..30).sections();
        assert_eq!(Unit::of(&sections), Unit { ms: 0.03, steps: 0, stages: 0 });
    }
}
