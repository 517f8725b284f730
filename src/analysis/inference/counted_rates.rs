//! The rates of a role by hardware counters, where the profiler counted the bytes of each kernel. O(k log n) in the kernels of the
//! role and the counted kernels.

use super::stage_layers::RoleTime;
use crate::analysis::context::Context;
use crate::analysis::hardware::memory_traffic::CountedBytes;
use crate::rules::inference::thresholds;
use crate::trace::Ns;
use crate::words::op_costs::Counted;

/// What the counters tell of a role.
pub(super) struct CountedRates {
    /// Of the bytes read and written; `None` if only one of them was counted.
    pub(super) tb_per_s: Option<f64>,
    /// The share of the memory's bandwidth, in per cent.
    pub(super) of_memory_pct: Option<f64>,
    /// Which bytes were counted.
    pub(super) bytes: Counted,
}

impl CountedRates {
    /// `None` if a tenth of the time of the kernels was not counted.
    pub(super) fn of(context: &Context, role: &RoleTime) -> Option<Self> {
        let trace = context.trace;
        let counted = CountedBytes::of_rows(trace, &role.rows)?;
        let durations = role.rows.iter().filter_map(|row| Some(trace.gpu_ops.get(*row as usize)?.duration));
        let time = durations.fold(Ns::ZERO, |sum, duration| sum + duration);
        if (counted.time.0 as f64) < thresholds().work.min_owned_time_share.value * time.0 as f64 {
            return None;
        }
        let tb_per_s = counted.tb_per_s(counted.total());
        let bytes = match (tb_per_s, counted.tb_per_s(counted.read), counted.tb_per_s(counted.written)) {
            (Some(_), ..) => Counted::All,
            (None, Some(read), _) => Counted::Read(read),
            (None, None, Some(written)) => Counted::Written(written),
            (None, None, None) => return None,
        };
        let of_memory_pct = tb_per_s.zip(context.preset()).map(|(rate, preset)| 100.0 * rate / preset.memory_tb_per_s);
        Some(Self { tb_per_s, of_memory_pct, bytes })
    }
}
