//! The checks of the fuzz targets, with the fixtures of the tests.

pub mod checks;
#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../tests/common/nsys.rs"]
mod nsys;
