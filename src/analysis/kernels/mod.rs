//! Which GPU ops cost the time?
//!
//! - [`groups`]: counts and sums of all ops by name, stream and process: most tables are made from these.
//! - [`durations`]: the distribution of kernel durations by process, device and name.
//! - [`top_kernels`]: the kernels with the most time, by process too, and launch storms.
//! - `totals_only`: the sections of a run without times of kernels.
//! - [`one_kernel`]: every launch of one kernel: histogram, duration over time, call sites.
//! - [`copies`]: memory copies by direction, and the longest.

pub mod copies;
pub(crate) mod duration_peaks;
pub mod durations;
pub mod groups;
pub mod kernel_sums;
pub mod one_kernel;
pub mod top_kernels;
pub(crate) mod totals_only;
