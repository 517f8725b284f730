//! Pivot tables of GPU time by any two of category, kernel, stage, step, device, stream, process and run.
//!
//! - [`cells`]: one trace, aggregated by kernel and by the requested axes.
//! - [`layout`]: the table with rows, columns and totals, from the cells and runs of all files.
//! - [`by_category`]: the table of gputrc2graph's `result.csv`, with one row per category and one column per run.

pub mod by_category;
pub mod cells;
pub mod layout;
