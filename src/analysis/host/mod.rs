//! Host activity: API calls, launch latency, and GPU idle time caused by the host.
//!
//! - [`calls`]: one pass over the API calls: launches, blocking calls, gaps between launches.
//! - [`latencies`], [`launch_latency`]: time from the return of a launch call to the start of its kernel.
//! - [`launched_work`]: the GPU time window of the work that a range of the host launched.
//! - [`idle`], [`idle_cause`]: idle time of each device, and its cause.
//! - `calls_in_gaps`: the API calls in the longest idle gaps.
//! - [`unseen`]: the parts of that time in which the device executed work that the trace does not contain.
//! - `start_up`: when each process starts, from the calls and ranges that `load_words` knows.
//! - [`late_gaps`], [`blamed_code`], [`idle_blame`]: what the launching thread did while a GPU waited for it.
//! - [`between_steps`]: the same between two steps.
//! - [`launch_gaps`]: late gaps around graph replays and in eager work.
//! - [`blocking_calls`], [`barriers`]: calls that block a thread, and the GPU idle time they cause.
//! - [`drains`]: the blocking calls whose code is worth a search.
//! - `other_gpus`: when the other GPUs of a process work.
//! - `profiler_pauses`: when the profiler held host threads.
//! - `recording_holes`: when nothing was recorded.
//! - `recomputed_times`: when a backward pass runs a forward pass again.
//! - [`code_search`]: the code that a GPU waited for, around those calls (`blocking_sites`) and in late gaps (`late_code`).

pub mod barriers;
pub(crate) mod between_steps;
pub(crate) mod blamed_code;
pub mod blocking_calls;
mod blocking_sites;
pub mod calls;
mod calls_in_gaps;
pub mod code_search;
pub mod drains;
pub mod idle;
pub mod idle_blame;
pub mod idle_cause;
pub(crate) mod idle_code_rules;
mod late_code;
pub mod late_gaps;
pub mod latencies;
mod launch_code;
pub mod launch_gaps;
pub mod launch_latency;
pub mod launched_work;
pub(crate) mod load_words;
mod other_gpus;
mod profiler_pauses;
mod recomputed_times;
mod recording_holes;
pub(crate) mod start_up;
pub mod unseen;
