#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gpuprism_fuzz::checks::documents_never_panic::check(data));
