//! What analyses measure with: sums by key, exact percentiles, the set of running ops.

pub mod percentiles;
pub mod running;
pub mod tally;
