//! HTTP for gpuprism, without gpuprism: what to do with a trace is a function that the caller passes in, so that this crate builds
//! and is tested in seconds.
//!
//! [`api`] answers uploads with an analysis. [`view`] serves the page and local files to a browser on the same machine.

pub mod api;
pub mod view;

mod guard;
mod listen;
mod peer;
mod private;
mod problem;
mod spool;
mod unpack;

pub use listen::{Server, Stop};

use std::io;

/// Runs a future on a new runtime, with logs on standard error. Returns when the future ends, or `grace` after it if a blocking
/// task still runs.
///
/// # Errors
/// The runtime cannot be started, or the future fails.
pub fn run<T>(grace: std::time::Duration, future: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    // A second call, in tests, keeps the first subscriber.
    let _ = tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(false).with_target(false).try_init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(future);
    runtime.shutdown_timeout(grace);
    result
}
