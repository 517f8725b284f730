//! Steps of the engine: how many of each stage, with how many requests and tokens, how long, and how much attention work.

use super::view::View;
use crate::analysis::section::Section;

/// The columns of the table.
pub const COLUMNS: [&str; 11] = [
    "stage",
    "steps",
    "batch_size",
    "tokens",
    "median_us",
    "p90_us",
    "spread_pct",
    "gpu_busy_pct",
    "attention_gflop",
    "attention_tflops",
    "example",
];

/// One row a stage.
pub fn section(_view: &View) -> Section {
    Section::new("Steps", "step annotations", &COLUMNS)
}
