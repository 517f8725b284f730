//! gpuprism reads a GPU trace of an LLM server and reports where the time went.
//!
//! Data flows in one direction:
//!
//! ```text
//! bytes -> input -> Trace -> analysis -> Report -> { page, terminal, JSON, CSV, Markdown, HTML }
//! ```
//!
//! - [`input`] parses bytes into a [`trace::Trace`].
//! - [`rules`] assigns a category to every kernel name.
//! - [`analysis`] computes results from a trace.
//! - [`report`] collects the results and renders them.
//! - [`session`] runs an analysis with the options that a person chose.
//! - `files` (native) reads files from disk; `facts` (native) writes the results of many runs as Parquet files.
//! - `cli` (native), `web` (wasm32) and the Python package (`python/`) are thin shells around these modules.
//!
//! Programs that use the library start with `files::read_run` (native) or [`input::Reader`] (bytes), `files::analyze::run` and
//! [`report::table()`]; `examples/library.rs` is such a program.

// Without the command line, some of its helpers are left without a user. Lints run with it.
#![cfg_attr(not(feature = "cli"), allow(dead_code, unused_imports))]

pub mod analysis;
#[cfg(all(not(target_arch = "wasm32"), feature = "facts"))]
mod date;
pub mod digits;
pub mod error;
pub mod input;
mod json;
mod ordering;
mod plain;
pub mod report;
pub mod rules;
pub mod session;
pub mod trace;

#[cfg(all(not(target_arch = "wasm32"), feature = "cli"))]
pub mod cli;
#[cfg(all(not(target_arch = "wasm32"), feature = "facts"))]
pub mod facts;
#[cfg(not(target_arch = "wasm32"))]
pub mod files;
#[cfg(target_arch = "wasm32")]
pub mod web;

pub use error::{Error, Result};

/// `a, b and c`; empty for no names.
fn listed(names: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.split_last() {
        None => String::new(),
        Some((only, [])) => (*only).to_owned(),
        Some((last, first)) => format!("{} and {last}", first.join(", ")),
    }
}

/// Makes the first letter upper case if it is an ASCII letter. Unicode case tables would add a thirtieth to the page's first
/// download.
fn capitalize(mut text: String) -> String {
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text
}
