//! Fuzzing with the stable compiler: flags enable LLVM's coverage pass, and the crate `libfuzzer-sys` contains libFuzzer.
//!
//! Each target in `fuzz/` runs on its seeds and past crashes first, then on generated inputs. `tests/fuzz.rs` replays the former without
//! libFuzzer.

use std::path::{Path, PathBuf};
use std::{fs, iter};

use anyhow::{Context, Result, bail};

use crate::command::{Run, cores, in_parallel};
use crate::{project, setup};

/// The flags of cargo-fuzz without a sanitizer. Only sanitizers need a nightly compiler.
const FLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cdebug-assertions",
    "--cfg=fuzzing",
];

/// Builds and runs all targets.
pub fn all(seconds: u64) -> Result<()> {
    setup::fuzz()?;
    let fuzz = project::root().join("fuzz");
    let manifest = fuzz.join("Cargo.toml");
    if !manifest.is_file() {
        bail!("fuzz/Cargo.toml is missing: restore it with `git checkout fuzz`");
    }
    let targets = targets(&manifest)?;
    let programs = build(&fuzz, &manifest)?;
    // The targets are independent, and each uses one core.
    in_parallel(&targets, cores(), |target| run(&fuzz, &programs, target, seconds))
}

fn targets(manifest: &Path) -> Result<Vec<String>> {
    let metadata = project::metadata(manifest)?;
    let targets = metadata["packages"][0]["targets"].as_array();
    let names = targets.into_iter().flatten();
    let binaries = names.filter(|target| target["kind"][0] == "bin");
    let names: Vec<_> = binaries.filter_map(|target| target["name"].as_str()).map(str::to_owned).collect();
    if names.is_empty() {
        bail!("{} has no [[bin]] to fuzz", manifest.display());
    }
    Ok(names)
}

/// Builds all targets and returns the directory of the programs.
fn build(fuzz: &Path, manifest: &Path) -> Result<PathBuf> {
    let host = project::host()?;
    let target_dir = fuzz.join("target");
    // With a target triple, the flags do not apply to build scripts, which would not link with them.
    Run::new("cargo build --quiet --release --bins --target")
        .arg(&host)
        .arg("--manifest-path")
        .arg(manifest)
        .arg("--target-dir")
        .arg(&target_dir)
        .without_env("RUSTFLAGS")
        .quiet_env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f"))
        .run()
        .context("the fuzz targets do not build; repeat the build with `cargo xtask fuzz`")?;
    Ok(target_dir.join(host).join("release"))
}

fn run(fuzz: &Path, programs: &Path, target: &str, seconds: u64) -> Result<()> {
    // Inputs that reach new code are kept for the next run.
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
            // The trailing separator makes the prefix a directory.
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
                "the fuzz target {target} failed (after the fix, add the input named above to \
                 fuzz/regressions/{target}/)"
            )
        });
    }
    let done = text.lines().rfind(|line| line.contains("DONE"));
    println!("{target}: {}", done.unwrap_or("done").replace('\t', " "));
    Ok(())
}
