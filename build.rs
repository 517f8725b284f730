//! Sets `cfg(recorded_traces)` if the folder of recorded traces lies beside the repository. Tests that read them are ignored
//! without it, so that the summary of `cargo test` counts them. Only tests use the cfg: the library is the same with and
//! without it.
//!
//! For the library, also writes the words that gpuprism itself can say, which redaction keeps (`build/own_words.rs`), and the patterns that
//! the page's first module contains, without the text that describes them.

#![allow(clippy::print_stdout, reason = "how a build script talks to cargo")]

#[path = "build/own_words.rs"]
mod own_words;
#[path = "src/report/redact/words.rs"]
mod words;

use std::error::Error;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rustc-check-cfg=cfg(recorded_traces)");
    // Other packages of the workspace use this script, too.
    let package = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?);
    let repository = package.ancestors().find(|folder| folder.join("Cargo.lock").is_file()).unwrap_or(&package);
    // Relative to the package, this path would be missing in the others, and cargo would compile them in every build.
    println!("cargo::rerun-if-changed={}", repository.join("build.rs").display());
    if std::env::var("CARGO_PKG_NAME")? == "gpuprism" {
        write_own_words(&package)?;
        write_first_patterns(&package)?;
    }
    let traces = repository.join("../shared/traces");
    // Cargo would run the script and compile the package in every build if it watched a missing folder. Therefore a test checks
    // that the cfg is up to date.
    if traces.is_dir() {
        println!("cargo::rerun-if-changed={}", traces.display());
        println!("cargo::rustc-cfg=recorded_traces");
    }
    Ok(())
}

/// The patterns that the page loads when it opens.
const FIRST_PATTERNS: [&str; 4] = ["palette.json", "source_links.json", "step_frames.json", "waiting_code.json"];

/// Copies them without the line `"about": "...",`.
fn write_first_patterns(package: &Path) -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    for name in FIRST_PATTERNS {
        let text = std::fs::read_to_string(package.join("patterns").join(name))?;
        let lines = text.lines().filter(|line| !line.starts_with("  \"about\": "));
        std::fs::write(out.join(name), lines.collect::<Vec<_>>().join("\n"))?;
    }
    Ok(())
}

fn write_own_words(package: &Path) -> Result<(), Box<dyn Error>> {
    for watched in ["build", "src", "capture/src", "patterns"] {
        println!("cargo::rerun-if-changed={}", package.join(watched).display());
    }
    let out = PathBuf::from(std::env::var("OUT_DIR")?).join("own_words.txt");
    std::fs::write(out, own_words::of(package)?)?;
    Ok(())
}
