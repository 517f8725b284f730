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
//! - [`analysis`] computes results from a trace; `words` has the sentences about them.
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
mod words;

#[cfg(all(not(target_arch = "wasm32"), feature = "cli"))]
pub mod cli;
#[cfg(all(not(target_arch = "wasm32"), feature = "facts"))]
pub mod facts;
#[cfg(not(target_arch = "wasm32"))]
pub mod files;
#[cfg(target_arch = "wasm32")]
pub mod web;

pub use error::{Error, Result};
