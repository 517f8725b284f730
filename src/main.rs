//! The command-line program, implemented in [`gpuprism::cli`]. For wasm, it is only compiled: the library has no `cli` there.

fn main() -> std::process::ExitCode {
    #[cfg(not(target_arch = "wasm32"))]
    return gpuprism::cli::main();
    #[cfg(target_arch = "wasm32")]
    std::process::ExitCode::FAILURE
}
