#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gpuprism_fuzz::export_never_panics::check(data));
