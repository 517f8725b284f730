//! Puts bytes by hardware counters in the place of bytes by a model of the work, where the profiler counted them for each kernel.

use super::role_rates::Rates;
use super::stage_layers::RoleTime;
use crate::analysis::context::Context;
use crate::analysis::hardware::memory_traffic::CountedBytes;
use crate::rules::inference::thresholds;
use crate::trace::Ns;

/// The rates of a role with the bytes that its kernels moved by counters; `rates` unchanged if most of its time was not counted.
pub(super) fn with_counters(context: &Context, role: &RoleTime, rates: Rates) -> Rates {
    let trace = context.trace;
    if trace.memory_traffic.is_empty() {
        return rates;
    }
    let Some(counted) = CountedBytes::of_rows(trace, &role.rows) else { return rates };
    let durations = role.rows.iter().filter_map(|row| Some(trace.gpu_ops.get(*row as usize)?.duration));
    let time = durations.fold(Ns::ZERO, |sum, duration| sum + duration);
    if (counted.time.0 as f64) < thresholds().work.min_owned_time_share.value * time.0 as f64 {
        return rates;
    }
    let total = counted.tb_per_s(counted.total());
    let words = match (total, counted.tb_per_s(counted.read), counted.tb_per_s(counted.written)) {
        (Some(_), ..) => "bytes by counters".to_owned(),
        (None, Some(read), _) => format!("by counters {read:.2} TB/s are read; writes were not counted"),
        (None, None, Some(written)) => format!("by counters {written:.2} TB/s are written; reads were not counted"),
        (None, None, None) => return rates,
    };
    // A cache between the L2 cache and the memory may answer, so that more than the memory delivers is no contradiction.
    let memory_share = total.zip(context.preset()).map(|(rate, preset)| 100.0 * rate / preset.memory_tb_per_s);
    let of_peak_pct =
        rates.of_peak_pct.map(|share| share.max(memory_share.filter(|share| *share <= 100.0).unwrap_or_default()));
    let basis = rates.basis.map_or_else(|| words.clone(), |basis| format!("{basis}; {words}"));
    Rates { tb_per_s: total.or(rates.tb_per_s), of_peak_pct, basis: Some(basis), ..rates }
}
