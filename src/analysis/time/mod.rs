//! Who owns the GPU time, and what runs at the same time?
//!
//! - [`attribution`]: overlapping time shared out to kernels: first come, fair, exclusive.
//! - [`survey`], [`intervals`]: per device, the time by what runs together, idle gaps and hidden communication.
//! - [`streams`]: overlap of compute, communication and copies.
//! - [`busy`]: time in which any device works.
//! - [`strips`], [`longest_events`]: the overview timeline, and the longest ops, calls and gaps.

pub mod attribution;
pub mod busy;
pub mod intervals;
pub mod longest_events;
pub mod streams;
pub mod strips;
pub mod survey;
