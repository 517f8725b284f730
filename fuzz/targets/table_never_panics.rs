//! No CSV table, with or without the header of a GPU trace, causes a panic on the way to any output.

#![no_main]

mod whole_way;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    whole_way::report(&[data]);
    whole_way::report(&[b"Start (ns),Duration (ns),Device,Strm,Name\n", data]);
});
