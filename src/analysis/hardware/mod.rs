//! How busy are links and compute units?
//!
//! - [`counters`]: hardware counters that the profiler sampled: NVLink traffic during collectives, roofline points.
//! - [`memory_traffic`]: bytes that the profiler counted for each kernel.
//! - [`stage_counters`]: sampled counters by stage of serving.

pub mod counters;
pub(crate) mod memory_traffic;
pub(crate) mod stage_counters;
