//! What did the host do, and when did the GPU wait for it?
//!
//! - [`calls`]: one pass over the API calls: launches, blocking calls, gaps between launches.
//! - [`latencies`], [`launch_latency`]: time from the return of a launch call to the start of its kernel.
//! - [`launched_work`]: the GPU time window of the work that a range of the host launched.
//! - [`idle`], [`idle_cause`]: time in which a device ran nothing, and why.
//! - [`blocked`], [`barriers`]: calls that block a thread, and what they cost the GPU.

pub mod barriers;
pub mod blocked;
pub mod calls;
pub mod idle;
pub mod idle_cause;
pub mod latencies;
pub mod launch_latency;
pub mod launched_work;
