//! How busy are links and compute units?
//!
//! - [`counters`]: hardware counters that the profiler sampled: NVLink traffic during collectives, roofline points.

pub mod counters;
