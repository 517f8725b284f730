//! The whole program, run on small files that the tests write: what it prints, where, and with which exit status.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::print_stdout, reason = "tests")]

#[path = "../common/mod.rs"]
mod common;
mod diff;
mod example;
mod explain;
mod fixture;
mod graph;
mod hostile;
mod nsys;
mod pivot;
mod ranks;
mod redact;
mod refusals;
mod report;
mod rules;
mod triage;
