//! Tests that run the program on small files and check its output and exit code.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::print_stdout, reason = "tests")]

#[cfg(unix)]
mod action;
mod brief;
mod capture;
mod deploy;
mod diff;
mod example;
mod explain;
mod fixture;
mod floor;
mod graph;
mod graph_captures;
mod hostile;
#[cfg(unix)]
mod image;
mod mcp;
mod model;
mod nsys;
mod pivot;
mod private_traces;
mod ranks;
mod redact;
mod refusals;
#[cfg(unix)]
mod release;
mod report;
mod rules;
mod scrub;
mod serve;
mod start_up;
mod steps_agree;
#[cfg(feature = "facts")]
mod trend;
mod triage;
mod view;
mod what_if;
