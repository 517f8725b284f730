//! No content of a torch.profiler event list causes a panic on the way to any output.

#![no_main]

mod whole_way;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| whole_way::report(&[b"{\"traceEvents\": [", data]));
