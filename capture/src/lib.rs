//! Captures torch.profiler traces from a running LLM server, and checks a server's settings for that.
//!
//! - [`capture()`] recognises the server (SGLang, vLLM, TensorRT-LLM, TokenSpeed), sends load, starts and stops the server's
//!   profiler, and copies the traces. [`resume`] goes on when traces were copied from another machine.
//! - [`recipes()`] prints how to start servers with a profiler, on each kind of host.
//! - [`doctor()`] lists what to change so that traces become better. It changes nothing.
//!
//! The servers never send a trace: they write it to a disk that this machine may or may not see. Therefore every capture ends
//! with a search for fresh files, which are checked by content.
//!
//! Everything here is bounded: the steps, the time, the bytes, each request. [`Cancel`] ends a capture early; the server's
//! profiler is stopped before [`capture()`] returns. The crate uses no part of gpuprism, so that it compiles in seconds.

mod capture;
mod collect;
mod copy_commands;
mod data;
mod doctor;
mod error;
mod folder;
mod http;
mod load;
mod options;
mod probe;
mod progress;
mod recipes;
pub mod record;
mod resume;
mod server;
mod stage;
pub mod text;
mod trace_file;

pub use capture::{Outcome, capture};
pub use data::Framework;
pub use doctor::{Level, Line, doctor};
pub use error::{Error, Result};
pub use folder::new_folder;
pub use options::{Options, Pacing, ProbeSize, Traffic, Workload};
pub use progress::{Cancel, Phase, Progress};
pub use recipes::recipes;
pub use resume::resume;
