//! What do GPUs spend on messages to each other?
//!
//! - [`collectives`]: time, overlap, message sizes and stragglers of each collective operation in one trace.
//! - [`operations`]: which operation each communication kernel belongs to.
//! - [`ranks`]: which rank of a job the others wait for, from the traces of several ranks.

pub mod collectives;
pub mod operations;
pub mod ranks;
