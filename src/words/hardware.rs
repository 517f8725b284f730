//! What limits the figures of hardware counters, from counts.

use crate::digits::grouped;

/// Samples that are no numbers.
pub(crate) fn unusable_samples(samples: u64) -> String {
    format!("{} samples have no numeric value and are excluded.", grouped(samples))
}

/// Series of which some points are shown.
pub(crate) fn thinned(samples: usize, max_per_series: usize) -> String {
    format!(
        "There are {} samples. Each series shows at most {}, evenly spaced, including the first and the last.",
        grouped(samples as u64),
        grouped(max_per_series as u64)
    )
}

/// Counters that are of no GPU.
pub(crate) fn of_no_gpu(counters: u32) -> String {
    format!("{counters} counters name no GPU of the trace and are excluded.")
}
