//! The page's WebAssembly modules: cargo compiles them, wasm-bindgen binds them, in this process.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use wasm_bindgen_cli_support::Bindgen;
use wasmparser::{Parser, Payload};

use crate::command::Run;
use crate::project;

/// One build of a crate for the page.
pub struct Module {
    pub package: &'static str,
    /// Names the output: `STEM.js` and `STEM_bg.wasm`.
    pub stem: &'static str,
    pub features: &'static [&'static str],
    /// Whether the page fetches it at once; a module that waits for the input that needs it does not count against the
    /// first load.
    pub first_load: bool,
    /// Whether a trace's bytes go through it, which takes SIMD.
    pub reads_bytes: bool,
    /// Whether it holds traces of a million ops and need not be small: built for speed, a window takes half the time.
    pub is_fast: bool,
}

pub const MODULES: &[Module] = &[
    Module {
        package: "gpuprism",
        stem: "gpuprism",
        features: &[],
        first_load: true,
        reads_bytes: true,
        is_fast: false,
    },
    Module {
        package: "gpuprism",
        stem: "gpuprism_sqlite",
        features: &["sqlite"],
        first_load: false,
        reads_bytes: true,
        is_fast: true,
    },
    Module {
        package: "gpuprism",
        stem: "gpuprism_desk",
        features: &["desk"],
        first_load: false,
        reads_bytes: true,
        is_fast: false,
    },
    Module {
        package: "gpuprism-demangle",
        stem: "gpuprism_demangle",
        features: &["module"],
        first_load: false,
        reads_bytes: false,
        is_fast: false,
    },
];

impl Module {
    pub fn wasm_name(&self) -> String {
        format!("{}_bg.wasm", self.stem)
    }

    fn flags(&self) -> Vec<String> {
        let mut flags = vec![format!("--package={}", self.package), format!("--features={}", self.features.join(","))];
        if self.is_fast {
            flags.push(format!("--config=profile.wasm.package.{}.opt-level=3", self.package));
        }
        flags
    }
}

/// Compiles and binds every module into `out`.
pub fn build(out: &Path) -> Result<()> {
    for module in MODULES {
        let compiled = compile(module)?;
        bind(module, &compiled, out)?;
    }
    Ok(())
}

/// Lints the library as every module has it; in the modules' profile, or SQLite compiles a second time.
pub fn lint() -> Result<()> {
    MODULES.iter().try_for_each(|module| {
        cargo("cargo clippy --lib --target wasm32-unknown-unknown --profile wasm")
            .args(module.flags())
            .args(["--", "-D", "warnings"])
            .run()
    })
}

fn compile(module: &Module) -> Result<PathBuf> {
    cargo("cargo build --lib --target wasm32-unknown-unknown --profile wasm").args(module.flags()).run()?;
    let name = format!("{}.wasm", module.package.replace('-', "_"));
    Ok(project::target_dir()?.join("wasm32-unknown-unknown/wasm").join(name))
}

/// A cargo command for wasm32, protected from RUSTFLAGS: they replace the flags of .cargo/config.toml, and SIMD with them.
fn cargo(line: &str) -> Run {
    let mut run = Run::new(line);
    for variable in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"] {
        if std::env::var_os(variable).is_some() {
            eprintln!(
                "warning: {variable} is set and would replace the flags of .cargo/config.toml; \
                 building for wasm32 without it"
            );
            run = run.without_env(variable);
        }
    }
    run
}

fn bind(module: &Module, compiled: &Path, out: &Path) -> Result<()> {
    let mut bindgen = Bindgen::new();
    bindgen
        .input_path(compiled)
        .out_name(module.stem)
        .typescript(false)
        .demangle(false)
        .remove_name_section(true)
        .remove_producers_section(true)
        .web(true)
        .and_then(|bindgen| bindgen.generate(out))
        .with_context(|| format!("wasm-bindgen could not bind {} into {}", compiled.display(), out.display()))
}

/// Fails when a module under `dist` that reads bytes has no SIMD instruction: the event splitter would be ten times slower.
pub fn assert_simd(dist: &Path) -> Result<()> {
    for module in MODULES.iter().filter(|module| module.reads_bytes) {
        let path = dist.join("pkg").join(module.wasm_name());
        let bytes =
            std::fs::read(&path).with_context(|| format!("cannot read {}; run `cargo xtask build`", path.display()))?;
        let count =
            simd_instructions(&bytes).with_context(|| format!("{} is not a WebAssembly module", path.display()))?;
        println!("{}: {count} SIMD instructions", module.wasm_name());
        if count == 0 {
            bail!(
                "{} has no SIMD instruction: `+simd128` of .cargo/config.toml did not reach the compiler. \
                 Another cargo configuration or a FLAGS variable replaces it: look into ~/.cargo/config.toml and \
                 `env | grep FLAGS`",
                path.display()
            );
        }
    }
    Ok(())
}

fn simd_instructions(module: &[u8]) -> Result<usize> {
    // Every SIMD instruction, and nothing else, is encoded behind this byte (core specification, "Vector Instructions").
    const SIMD_PREFIX: u8 = 0xfd;
    let mut count = 0;
    for payload in Parser::new(0).parse_all(module) {
        let Payload::CodeSectionEntry(body) = payload? else {
            continue;
        };
        for instruction in body.get_operators_reader()?.into_iter_with_offsets() {
            let (_, offset) = instruction?;
            count += usize::from(module.get(offset) == Some(&SIMD_PREFIX));
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::simd_instructions;

    /// A module with one function of no arguments and results, whose body is `instructions`.
    fn module(instructions: &[u8]) -> Vec<u8> {
        let body_length = u8::try_from(instructions.len() + 2).unwrap();
        let mut bytes = b"\0asm\x01\0\0\0".to_vec();
        bytes.extend([1, 4, 1, 0x60, 0, 0]); // types: one function () -> ()
        bytes.extend([3, 2, 1, 0]); // functions: one of type 0
        bytes.extend([10, body_length + 2, 1, body_length, 0]); // code: one body, no locals
        bytes.extend(instructions);
        bytes.push(0x0b); // end
        bytes
    }

    #[test]
    fn only_simd_instructions_count() {
        let v128_const = [[0xfd, 0x0c].as_slice(), &[0; 16]].concat();
        let drop = [0x1a];
        let simd = module(&[v128_const.as_slice(), &drop].concat());
        // i32.const 0x7d is the byte 0xfd 0x00 in LEB128: an operand, not a prefix.
        let plain = module(&[0x41, 0xfd, 0x00, 0x1a]);
        assert_eq!(simd_instructions(&simd).unwrap(), 1);
        assert_eq!(simd_instructions(&plain).unwrap(), 0);
        assert!(simd_instructions(b"not a module").is_err());
    }
}
