//! How does the time divide by any two of category, kernel, stage, step, device, stream, process and run?
//!
//! - [`cells`]: sums of one trace by kernel and by the requested axes.
//! - [`layout`]: rows and columns from the cells and runs of all files.
//! - [`by_category`]: the table of gputrc2graph's result.csv: a row per category, a column per run.

pub mod by_category;
pub mod cells;
pub mod layout;
