#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gpuprism_fuzz::chunks_agree::check(data));
