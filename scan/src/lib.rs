//! The hot path for JSON traces: [`split`] cuts events out of a byte stream, [`json`] parses their members.
//!
//! It is a separate crate so that it can be optimized for speed while the page's WebAssembly module is optimized for size: cargo sets
//! the optimization level per crate. It has no generic functions, because those are compiled in the calling crate.

pub mod json;
pub mod split;
