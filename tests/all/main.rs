//! All tests of `tests/`, as one program: `cargo test --test all cli::` runs those of one file or folder.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::print_stdout, reason = "tests")]

#[path = "../advice.rs"]
mod advice;
#[path = "../agent/main.rs"]
mod agent;
#[path = "../cli/main.rs"]
mod cli;
#[path = "../common/mod.rs"]
mod common;
#[path = "../earlier_formats.rs"]
mod earlier_formats;
#[path = "../formats.rs"]
mod formats;
#[path = "../fuzz.rs"]
mod fuzz;
#[path = "../inference_truth/main.rs"]
mod inference_truth;
#[path = "../kernel_categories.rs"]
mod kernel_categories;
#[path = "../oracles.rs"]
mod oracles;
#[path = "../protobuf_formats.rs"]
mod protobuf_formats;
#[path = "../replay_oracles.rs"]
mod replay_oracles;
#[path = "../replay_truth/main.rs"]
mod replay_truth;
#[path = "../common/testing.rs"]
mod testing;
#[path = "../triage_catalog.rs"]
mod triage_catalog;
#[path = "../triage_fuse.rs"]
mod triage_fuse;
#[path = "../triage_kernels.rs"]
mod triage_kernels;
#[path = "../triage_overlap.rs"]
mod triage_overlap;
#[path = "../triage_stages.rs"]
mod triage_stages;
