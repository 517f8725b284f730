//! The command-line program, implemented in [`gpuprism::cli`]. On wasm it does nothing: the library has no `cli` there.

fn main() -> std::process::ExitCode {
    #[cfg(not(target_arch = "wasm32"))]
    return gpuprism::cli::main();
    #[cfg(target_arch = "wasm32")]
    std::process::ExitCode::FAILURE
}
