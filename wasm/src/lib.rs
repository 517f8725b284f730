//! The page's WebAssembly modules: exports the interface `gpuprism::web`, which the library defines.
//!
//! A crate of its own, so that a native build of the library links no shared library, which nobody loads.

#[cfg(target_arch = "wasm32")]
pub use gpuprism::web::*;
