//! GPU time: attribution to kernels, overlap, idle gaps and timelines.
//!
//! - [`attribution`]: attribution of overlapping time to kernels: first come, fair, exclusive.
//! - [`survey`], [`work`], [`activity`], [`gaps`]: per device: overlap of work classes, idle gaps, hidden
//!   communication.
//! - [`long_gaps`]: gaps that may hide work that the trace does not contain.
//! - [`streams`]: overlap of compute, communication and copies.
//! - [`busy`]: time in which any device works.
//! - [`strips`], [`longest_events`]: the overview timeline, and the longest ops, calls and gaps.

pub mod activity;
pub mod attribution;
pub mod busy;
pub mod gaps;
pub mod long_gaps;
pub mod longest_events;
pub mod streams;
pub mod strips;
pub mod survey;
pub mod work;
