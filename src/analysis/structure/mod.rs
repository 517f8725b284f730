//! GPU time by program structure: ranges, serving phases, and engine steps.
//!
//! - [`call_ranges`], [`open_ranges`]: the innermost NVTX range or annotation around each API call.
//! - [`kernel_time`]: kernel time by the range and phase around the launch.
//! - `node_annotations`: kernel time by the annotations of graph nodes.
//! - [`ranges`], [`range_times`]: wall time and kernel time by range name.
//! - [`repeats`]: the range that marks a repeated unit of work.
//! - [`phases`], [`phase_names`]: prefill, decode and sampling, from words in range names.
//! - [`shifted_durations`]: durations in graph replays that do not belong to their kernel names.
//! - [`stages`]: steps of the serving engine and their stages, from annotations.
//! - `measured_steps`: the time, busy time and late launches of each step; [`listed_steps`]: a row for each; [`step_budget`]: their mean by stage; [`slowest_step`]: the slowest against the median; `step_drift`: kernels that take longer from step to step.
//! - `start_up`: the start of each process that is seen starting, and what follows.
//! - [`steps`]: length and interval of steps, by stage.

pub mod call_ranges;
pub mod kernel_time;
pub mod listed_steps;
pub(crate) mod measured_steps;
#[cfg(test)]
mod merged_ranks_tests;
pub(crate) mod node_annotations;
pub mod open_ranges;
pub mod phase_names;
pub mod phases;
pub mod range_times;
pub mod ranges;
mod repeats;
#[cfg(test)]
mod request_waits_tests;
pub(crate) mod shifted_durations;
mod shifted_names;
pub mod slowest_step;
pub mod stages;
pub(crate) mod start_up;
pub mod step_budget;
pub(crate) mod step_drift;
pub(crate) mod step_parts;
pub mod steps;
#[cfg(test)]
mod tests;
