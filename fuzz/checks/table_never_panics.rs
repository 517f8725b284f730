//! No CSV table, with or without the header of a GPU trace, causes a panic on the way to any output.

use super::whole_way;

/// Checks one input.
pub fn check(data: &[u8]) {
    whole_way::report(&[data]);
    whole_way::report(&[b"Start (ns),Duration (ns),Device,Strm,Name\n", data]);
}
