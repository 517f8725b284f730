#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gpuprism_fuzz::checks::dialects_never_panic::check(data));
