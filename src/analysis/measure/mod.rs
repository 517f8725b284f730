//! Data structures for sums and statistics: each is filled in one pass.
//!
//! - [`longest`]: the k longest events of one pass.
//! - [`mode`]: the most frequent number.
//! - [`moments`]: mean and variance.
//! - [`percentiles`]: exact percentiles of many samples without sorting them.
//! - [`running`]: the currently running ops of a sweep, by end time.
//! - [`tally`]: count, sum, minimum and maximum by key.
//! - [`trend`]: whether the values of a sequence grow or fall.
//! - [`union`]: the length of a union of intervals.

pub(crate) mod longest;
pub(crate) mod mode;
pub(crate) mod moments;
pub(crate) mod percentiles;
pub(crate) mod running;
pub(crate) mod tally;
pub(crate) mod trend;
pub(crate) mod union;
