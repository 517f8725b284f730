//! The trace builder of the unit tests.

pub(crate) use gpuprism::trace::*;

#[path = "../../src/trace/testing.rs"]
mod builder;

pub(crate) use builder::TestTrace;
