//! `cargo xtask check`: what is checked before each commit, in a few minutes. `cargo xtask test` checks everything.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::command::Run;
use crate::{check, project, setup, wasm};

/// What changed, compared with the branch `main`.
struct Changed(Vec<String>);

impl Changed {
    /// Files that differ from where this branch left `main`, and files that git does not know yet.
    fn since_main() -> Result<Self> {
        let base = Run::new("git merge-base HEAD main").output();
        // Without a branch of this name, what is not committed.
        let base = base.map_or_else(|_| "HEAD".to_owned(), |commit| commit.trim().to_owned());
        let differing = Run::new("git diff --name-only").arg(base).output()?;
        let unknown = Run::new("git ls-files --others --exclude-standard").output()?;
        Ok(Self(differing.lines().chain(unknown.lines()).map(str::to_owned).collect()))
    }

    fn has(&self, is_wanted: impl Fn(&str) -> bool) -> bool {
        self.0.iter().any(|path| is_wanted(path))
    }

    /// Code or data that the compiler reads.
    fn rust(&self) -> bool {
        self.has(|path| {
            path.ends_with(".rs") || path.ends_with(".toml") || path == "Cargo.lock" || path.starts_with("patterns/")
        })
    }

    /// Code that only the page's modules contain.
    fn wasm(&self) -> bool {
        self.has(|path| path.starts_with("src/web/") || path == "Cargo.toml")
    }

    fn page(&self) -> bool {
        self.has(|path| {
            let folders = ["www/", "npm/", "vscode/", "tests/page/", "package", "tsconfig", "eslint"];
            folders.iter().any(|folder| path.starts_with(folder))
        })
    }
}

/// Runs the checks that the changes need.
pub fn run() -> Result<()> {
    let start = Instant::now();
    let changed = Changed::since_main()?;
    step("format", || check::one("format"))?;
    if changed.rust() {
        // The default profile compiles only what changed within a crate.
        step("lints, native", || Run::new("cargo clippy --workspace --all-targets -- -D warnings").run())?;
        step("unit tests", || Run::new("cargo test --quiet --lib").run())?;
    }
    if changed.wasm() {
        step("lints, wasm32", || {
            setup::page()?;
            wasm::lint()
        })?;
    }
    if changed.page() {
        step("types and lints of the page", page)?;
    }
    println!("== all passed in {} s; `cargo xtask test` checks the rest", start.elapsed().as_secs());
    Ok(())
}

fn step(title: &str, check: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("== {title}");
    let start = Instant::now();
    check().with_context(|| format!("the check \"{title}\" failed"))?;
    println!("== {title}: passed in {} s", start.elapsed().as_secs());
    Ok(())
}

/// The scripts import the types that wasm-bindgen writes.
fn page() -> Result<()> {
    setup::node_packages()?;
    if !Path::new(&project::dist()).join("pkg/gpuprism.d.ts").is_file() {
        println!("skipped: `cargo xtask build` has not written the types of the modules yet");
        return Ok(());
    }
    check::page_types_and_lints()
}
