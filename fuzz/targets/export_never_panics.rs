#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gpuprism_fuzz::checks::export_never_panics::check(data));
