//! Captures from servers that imitate SGLang, vLLM, TensorRT-LLM and TokenSpeed.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::expect_used,
    reason = "tests"
)]

mod doctor;
mod exchange;
mod failures;
mod fake;
mod files;
mod real;
