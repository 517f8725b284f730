//! The part of gpuprism that every byte of a JSON trace goes through: [`split`] cuts events out of the stream, [`json`]
//! reads their members.
//!
//! A crate of its own, and without generic functions, so that the page's module can be built for size and this part of
//! it for speed: cargo sets that for a crate, and generic code belongs to the crate that calls it.

pub mod json;
pub mod split;
