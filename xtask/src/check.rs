//! All checks of the project, the cheapest first. The first failure ends the run and shows its command.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};

use crate::command::{Run, in_parallel};
use crate::{book, fuzz, page, project, python, setup, wasm};

type Check = (&'static str, fn() -> Result<()>);

const CHECKS: &[Check] = &[
    ("format", || {
        Run::new("cargo fmt --all --check").run()?;
        Run::new("cargo fmt --manifest-path fuzz/Cargo.toml --check").run()
    }),
    ("lints, native", || Run::new("cargo clippy --workspace --all-targets -- -D warnings").run()),
    ("lints, wasm32", || {
        setup::page()?;
        wasm::lint()
    }),
    // The unit tests with debug assertions and overflow checks; those of whole programs on the optimised build, which is what ships.
    // Captures are tested with the HTTP layers of SGLang and vLLM only if GPUPRISM_REAL_SERVERS is set, because their packages are
    // large.
    ("Rust unit tests, debug", || Run::new("cargo test --lib").run()),
    ("Rust tests, release", release_tests),
    // In its own profile, so that its dependencies are compiled only once.
    ("Rust tests of xtask", || Run::new("cargo test --package xtask --profile xtask").run()),
    ("second computation in Python", oracle),
    ("documentation", || Run::new("cargo doc --no-deps").env("RUSTDOCFLAGS", "-Dwarnings").run()),
    ("setup of the browser", setup::test),
    // Each uses a single core in the end, and they share no files.
    ("fuzzing, and the page", || at_once([|| fuzz::all(fuzz::Effort::Check), || page::build(None)])),
    // After the page is built: its scripts import the types of `dist/pkg`.
    ("types and lints of the page", page_types_and_lints),
    ("SIMD in the page's modules", || wasm::assert_simd(&project::dist())),
    ("command line", command_line),
    ("generated chapters and links of the book", book::check),
    // The Python package is the last that uses the release build: cargo builds the library with other features for it and replaces
    // `libgpuprism.rlib`. The other one builds in debug.
    ("same results of all builds, and the Python package", || at_once([same_results, python::test])),
    ("page in the browser", page_tests),
];

/// Runs all checks in order.
pub fn all() -> Result<()> {
    for (index, (title, check)) in CHECKS.iter().enumerate() {
        println!("\n== {}/{} {title}", index + 1, CHECKS.len());
        let start = Instant::now();
        check().with_context(|| format!("the check \"{title}\" failed"))?;
        println!("== {title}: passed in {} s", start.elapsed().as_secs());
    }
    println!("\nall {} checks passed", CHECKS.len());
    Ok(())
}

fn at_once(checks: [fn() -> Result<()>; 2]) -> Result<()> {
    in_parallel(&checks, checks.len(), |check| check())
}

/// The tests of whole programs and of the documentation, and the unit tests of the crate with `unsafe` code.
fn release_tests() -> Result<()> {
    Run::new("cargo test --release --test *").run()?;
    Run::new("cargo test --release --doc").run()?;
    Run::new("cargo test --release --package gpuprism-scan --lib").run()
}

fn command_line() -> Result<()> {
    Run::new("cargo build --release --bin gpuprism --examples").run()
}

/// Tests the Python package alone, with the command line that it is compared with.
pub fn python() -> Result<()> {
    command_line()?;
    python::test()
}

/// Tests the Python programs that compute steps, layers and idle blame a second time. A machine without Python skips them.
fn oracle() -> Result<()> {
    match setup::find_program(Path::new("python3")) {
        Some(python) => Run::program(&python).args("-m unittest discover -q -s tests/oracle".split(' ')).run(),
        None => {
            println!("skipped: python3 is not installed");
            Ok(())
        }
    }
}

fn page_types_and_lints() -> Result<()> {
    Run::new("node node_modules/typescript/bin/tsc --project tsconfig.json").run()?;
    Run::new("node node_modules/eslint/bin/eslint.js --max-warnings 0 www npm tests/page eslint.config.js").run()
}

fn page_tests() -> Result<()> {
    Run::new("node tests/page/run.mjs")
        .env("GPUPRISM_DIST", project::dist())
        .env("GPUPRISM_BIN", program("release")?)
        .env("CHROMIUM", setup::chromium()?)
        .run()
}

/// Compares the results of the command line in debug and in release and of the page's modules, because an optimiser can make
/// them differ: see `docs/decisions/017-optimiser-fault.md`.
fn same_results() -> Result<()> {
    // With the examples, the dependencies have the same features as for the unit tests and are not built again.
    Run::new("cargo build --bin gpuprism --examples").run()?;
    Run::new("node tests/page/builds.mjs")
        .args([
            program("debug")?,
            program("release")?,
            project::target_dir()?.join("release/examples"),
            project::dist(),
        ])
        .run()
}

/// The path of the command line as built in this profile.
fn program(profile: &str) -> Result<PathBuf> {
    Ok(project::target_dir()?.join(profile).join(format!("gpuprism{}", std::env::consts::EXE_SUFFIX)))
}
