//! gpuprism reads a GPU trace of an LLM server and says where the time went.
//!
//! The way of the data, one direction only:
//!
//! ```text
//! bytes -> input -> Trace -> analysis -> Report -> { page, terminal, JSON, CSV, Markdown, HTML }
//! ```
//!
//! [`input`] turns bytes into a [`trace::Trace`]; [`rules`] gives every kernel name a category;
//! [`analysis`] answers questions about the trace; [`report`] holds all answers and renders them.
//! `cli` (native) and `web` (wasm32) are thin shells around these.

pub mod analysis;
pub mod digits;
pub mod error;
pub mod input;
mod json;
mod ordering;
pub mod report;
pub mod rules;
pub mod session;
pub mod trace;

#[cfg(not(target_arch = "wasm32"))]
pub mod cli;
#[cfg(target_arch = "wasm32")]
pub mod web;

pub use error::{Error, Result};

/// The words with a capital in front, where they begin with one of `a` to `z`: tables of all the world's letters would be
/// a thirtieth of the page's first load.
fn capitalised(mut words: String) -> String {
    if let Some(first) = words.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    words
}
