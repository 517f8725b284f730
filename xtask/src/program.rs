//! gpuprism as the checks use it: the command line, the examples and the Python module of the profile `checks`.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::command::Run;
use crate::project;
use crate::wasm::Purpose;

/// The profile of all checks. `Cargo.toml` says what distinguishes it.
pub const PROFILE: &str = "checks";

/// All packages but xtask, which is running. Cargo chooses the features of dependencies for the packages of a command: with the same
/// packages each time, it compiles nothing twice.
const PACKAGES: &str = "--workspace --exclude xtask";

/// A command of cargo for all packages, in the profile of the checks.
pub fn cargo(command: &str, flags: &str, purpose: Purpose) -> Run {
    let space = if flags.is_empty() { "" } else { " " };
    let run = Run::new(&format!("cargo {command} {PACKAGES} --profile {PROFILE}{space}{flags}"));
    match purpose {
        Purpose::Publish => run,
        Purpose::Check => with_lints(run),
    }
}

/// Makes clippy the compiler of our own packages. It reports its lints while it compiles, so that no code and no dependency is analysed
/// a second time for lints alone. Each warning is an error.
pub fn with_lints(run: Run) -> Run {
    // As `cargo clippy -- -D warnings` sets them.
    run.quiet_env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver")
        .quiet_env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__")
}

/// The folder of the built programs.
pub struct Program {
    directory: PathBuf,
}

impl Program {
    /// Builds the command line, the examples and the Python module.
    pub fn build(purpose: Purpose) -> Result<Self> {
        cargo("build", "--quiet --lib --bins --examples", purpose).run()?;
        Self::built()
    }

    /// Builds only the program that writes the example trace.
    pub fn with_example(purpose: Purpose) -> Result<Self> {
        cargo("build", "--quiet --example serving_trace", purpose).run()?;
        Self::built()
    }

    /// What another check has built.
    pub fn built() -> Result<Self> {
        Ok(Self { directory: project::target_dir()?.join(PROFILE) })
    }

    /// The programs in the folder of another profile.
    pub fn at(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// The output of `gpuprism` for these arguments, in a terminal so wide that no line is wrapped.
    pub fn gpuprism(&self, arguments: &[&str]) -> Result<String> {
        Run::program(&self.path("gpuprism")).args(arguments).quiet_env("COLUMNS", "10000").output()
    }

    /// Writes the example trace to `path`.
    pub fn write_example(&self, path: &Path) -> Result<()> {
        Run::program(&self.path("examples/serving_trace")).arg(path).output().map(drop)
    }

    /// The output of `examples/declared_sections.rs`.
    pub fn declared_sections(&self) -> Result<String> {
        Run::program(&self.path("examples/declared_sections")).output()
    }

    /// The path of a program by its name, as `gpuprism`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
    }

    /// The folder of the examples.
    pub fn examples(&self) -> PathBuf {
        self.directory.join("examples")
    }

    /// The shared library of the Python module.
    pub fn python_module(&self) -> PathBuf {
        let name = format!("{}gpuprism_python{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
        self.directory.join(name)
    }
}
