//! Builds the page's WebAssembly modules: cargo compiles them and wasm-bindgen, as a library, writes the JavaScript glue.
//!
//! The crate is built twice:
//!
//! | module | cargo feature | contents | gzipped | loaded |
//! |---|---|---|---|---|
//! | `gpuprism` | none | reads traces and reports, computes the first results, shows all tables, bars and strips | 422 KB | when the page opens |
//! | `gpuprism_full` | `full` | everything that the native build has: also sections, SQLite, triage, comparison, exports, a kernel in detail | 2.3 MB | after the first results of a trace |
//!
//! | worker | module | instances | started by |
//! |---|---|---|---|
//! | `render-worker.js` | `gpuprism` | one | the page, when it opens |
//! | `worker.js` | `gpuprism` for the first results of a small file, `gpuprism_full` | one per file; one with sections, then one with the triage, replace it | a file; the triage tab |
//! | `tools-worker.js` | `gpuprism_full` | up to three | exports, comparison, sharing, rules, reports of other tools, a dropped folder; the ranks tab; the pivot tab, if its axes are changed |
//!
//! `docs/decisions/016-page-weight.md` has the measurements.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use wasm_bindgen_cli_support::Bindgen;
use wasmparser::{Parser, Payload};

use crate::command::Run;
use crate::program::with_lints;
use crate::project;

/// One build of the crate for the page.
pub struct Module {
    /// The name of the output files: `STEM.js` and `STEM_bg.wasm`.
    pub stem: &'static str,
    features: &'static [&'static str],
    /// True if the page loads the module when it opens, so that it counts towards the first load.
    pub is_first_load: bool,
    /// Optimised for speed, not for size. Cutting a window out of a large trace takes half the time.
    is_fast: bool,
}

/// What a build of the modules is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// For users, with all optimisations.
    Publish,
    /// For the checks. The module that is optimised for speed has the same functions and compiles in less time.
    Check,
}

pub const MODULES: &[Module] = &[
    Module { stem: "gpuprism", features: &[], is_first_load: true, is_fast: false },
    Module { stem: "gpuprism_full", features: &["full"], is_first_load: false, is_fast: true },
];

impl Module {
    pub fn wasm_name(&self) -> String {
        format!("{}_bg.wasm", self.stem)
    }

    /// The target, profile and features of the crate.
    fn flags(&self, purpose: Purpose) -> Vec<String> {
        let flags = "--lib --package=gpuprism --target=wasm32-unknown-unknown --profile=wasm --no-default-features";
        let mut flags: Vec<String> = flags.split(' ').map(str::to_owned).collect();
        flags.push(format!("--features={}", self.features.join(",")));
        if self.is_fast {
            let level = match purpose {
                Purpose::Publish => 3,
                Purpose::Check => 1,
            };
            flags.push(format!("--config=profile.wasm.package.gpuprism.opt-level={level}"));
        }
        flags
    }
}

/// Builds every module into `out`.
pub fn build(out: &Path, purpose: Purpose) -> Result<()> {
    for module in MODULES {
        let compiled = compile(module, purpose)?;
        bind(module, &compiled, out)?;
    }
    Ok(())
}

/// Builds the module of this name into `out`.
pub fn build_one(stem: &str, out: &Path) -> Result<()> {
    let module = MODULES.iter().find(|module| module.stem == stem).with_context(|| format!("no module {stem}"))?;
    bind(module, &compile(module, Purpose::Publish)?, out)
}

/// Runs clippy on the library as each module is built. It uses the profile of the modules, so that SQLite is compiled only once.
pub fn lint() -> Result<()> {
    MODULES.iter().try_for_each(|module| {
        cargo("cargo clippy").args(module.flags(Purpose::Check)).args(["--", "-D", "warnings"]).run()
    })
}

/// Compiles the library as a shared library and not as a Rust library, too: then the compiler generates code only for what the exports
/// of `src/web` reach, which saves most in the first module.
fn compile(module: &Module, purpose: Purpose) -> Result<PathBuf> {
    let run = cargo("cargo rustc --crate-type=cdylib").args(module.flags(purpose));
    match purpose {
        Purpose::Publish => run.run()?,
        // Clippy's compiler optimises less, so it would write a larger module.
        Purpose::Check if module.is_first_load => run.args(["--", "-Dwarnings"]).run()?,
        Purpose::Check => with_lints(run).run()?,
    }
    Ok(project::target_dir()?.join("wasm32-unknown-unknown/wasm/gpuprism.wasm"))
}

/// A cargo command for wasm32 without RUSTFLAGS, which would replace the flags of .cargo/config.toml and so disable SIMD.
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
        .typescript(true)
        .demangle(false)
        .remove_name_section(true)
        .remove_producers_section(true)
        .web(true)
        .and_then(|bindgen| bindgen.generate(out))
        .with_context(|| format!("wasm-bindgen could not bind {} into {}", compiled.display(), out.display()))
}

/// Fails if a module in `dist` contains no SIMD instructions: the event splitter would be ten times slower.
pub fn assert_simd(dist: &Path) -> Result<()> {
    for module in MODULES {
        let path = dist.join("pkg").join(module.wasm_name());
        let bytes =
            std::fs::read(&path).with_context(|| format!("cannot read {}; run `cargo xtask build`", path.display()))?;
        let count =
            simd_instructions(&bytes).with_context(|| format!("{} is not a WebAssembly module", path.display()))?;
        println!("{}: {count} SIMD instructions", module.wasm_name());
        if count == 0 {
            bail!(
                "{} contains no SIMD instructions: the compiler did not get `+simd128` from .cargo/config.toml. \
                 Another cargo configuration or a FLAGS variable overrides it: check ~/.cargo/config.toml and \
                 `env | grep FLAGS`",
                path.display()
            );
        }
    }
    Ok(())
}

fn simd_instructions(module: &[u8]) -> Result<usize> {
    // The opcode prefix of all SIMD instructions and of no others (core specification, "Vector Instructions").
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

    /// A module with one function, without parameters and results, whose body is `instructions`.
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
    fn simd_instructions_are_counted_without_operands() {
        let v128_const = [[0xfd, 0x0c].as_slice(), &[0; 16]].concat();
        let drop = [0x1a];
        let simd = module(&[v128_const.as_slice(), &drop].concat());
        // i32.const 0x7d: LEB128 encodes the operand as 0xfd 0x00, which is no prefix.
        let plain = module(&[0x41, 0xfd, 0x00, 0x1a]);
        assert_eq!(simd_instructions(&simd).unwrap(), 1);
        assert_eq!(simd_instructions(&plain).unwrap(), 0);
        assert!(simd_instructions(b"not a module").is_err());
    }
}
