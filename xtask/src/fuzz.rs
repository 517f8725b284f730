//! Fuzzing with the stable compiler: LLVM's coverage pass is asked for by flags, libFuzzer comes with the crate
//! `libfuzzer-sys`. Each target of `fuzz/` runs on its seeds and past crashes first, then on its own inventions.

use std::path::{Path, PathBuf};
use std::{fs, iter};

use anyhow::{Context, Result, bail};

use crate::command::Run;
use crate::{project, setup};

/// What cargo-fuzz passes with no sanitizer, which is all that needs a nightly compiler.
const FLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
    "-Cdebug-assertions",
    "--cfg=fuzzing",
];

/// Builds every target and runs each for so many seconds.
pub fn all(seconds: u32) -> Result<()> {
    setup::fuzz()?;
    let fuzz = project::root().join("fuzz");
    let manifest = fuzz.join("Cargo.toml");
    if !manifest.is_file() {
        bail!("fuzz/Cargo.toml is missing: restore it with `git checkout fuzz`");
    }
    let targets = targets(&manifest)?;
    let programs = build(&fuzz, &manifest)?;
    for target in &targets {
        run(&fuzz, &programs, target, seconds)?;
    }
    Ok(())
}

fn targets(manifest: &Path) -> Result<Vec<String>> {
    let metadata = project::metadata(manifest)?;
    let targets = metadata["packages"][0]["targets"].as_array();
    let names = targets.into_iter().flatten();
    let binaries = names.filter(|target| target["kind"][0] == "bin");
    let names: Vec<_> = binaries.filter_map(|target| target["name"].as_str()).map(str::to_owned).collect();
    if names.is_empty() {
        bail!("{} has no [[bin]]: there is nothing to fuzz", manifest.display());
    }
    Ok(names)
}

/// The directory of the built programs.
fn build(fuzz: &Path, manifest: &Path) -> Result<PathBuf> {
    let host = project::host()?;
    let target_dir = fuzz.join("target");
    // With a target triple the flags stay away from build scripts, which could not link with them.
    Run::new("cargo build --quiet --release --bins --target")
        .arg(&host)
        .arg("--manifest-path")
        .arg(manifest)
        .arg("--target-dir")
        .arg(&target_dir)
        .without_env("RUSTFLAGS")
        .quiet_env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f"))
        .run()
        .context("the fuzz targets do not build; `cargo xtask fuzz` builds them again with the flags of coverage")?;
    Ok(target_dir.join(host).join("release"))
}

fn run(fuzz: &Path, programs: &Path, target: &str, seconds: u32) -> Result<()> {
    let corpus = fuzz.join("corpus").join(target);
    let artifacts = fuzz.join("artifacts").join(target);
    for directory in [&corpus, &artifacts] {
        fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    }
    let given = ["seeds", "regressions"].map(|kind| fuzz.join(kind).join(target));
    let log = fuzz.join("target").join(format!("{target}.log"));
    let outcome = Run::program(&programs.join(target))
        .args([
            format!("-max_total_time={seconds}"),
            "-rss_limit_mb=2048".to_owned(),
            "-timeout=10".to_owned(),
            // The trailing separator makes it a directory.
            format!("-artifact_prefix={}", artifacts.join("").display()),
        ])
        .args(iter::once(&corpus).chain(given.iter().filter(|directory| directory.is_dir())))
        .log_to(&log)?
        .run();
    let text = fs::read(&log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    if outcome.is_err() {
        let from = text.lines().count().saturating_sub(40);
        for line in text.lines().skip(from) {
            eprintln!("{line}");
        }
        return outcome.with_context(|| {
            format!(
                "the fuzz target {target} failed (once mended, the input named above belongs in \
                 fuzz/regressions/{target}/)"
            )
        });
    }
    let done = text.lines().rfind(|line| line.contains("DONE"));
    println!("{target}: {}", done.unwrap_or("done").replace('\t', " "));
    Ok(())
}
