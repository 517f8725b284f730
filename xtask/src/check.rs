//! All checks of the project. `cargo xtask test` runs them, `cargo xtask test ID` one of them.
//!
//! Each check is a process of its own, whose output goes to `target/check-logs/ID.log` and is printed when it ends. So checks that run
//! at the same time do not mix their output, and [`Counts`] can read the results of the tests from it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::command::{Run, cores, in_parallel};
use crate::counts::Counts;
use crate::program::{PROFILE, Program, cargo, with_lints};
use crate::wasm::Purpose;
use crate::{book, cpu, page, project, python, setup, vscode, wasm};

/// One of the checks.
struct Check {
    id: &'static str,
    title: &'static str,
    /// The checks that write what it reads, or that must not run beside it.
    after: &'static [&'static str],
    run: fn() -> Result<()>,
}

const fn check(
    id: &'static str,
    title: &'static str,
    after: &'static [&'static str],
    run: fn() -> Result<()>,
) -> Check {
    Check { id, title, after, run }
}

/// How many checks run at the same time. Most of them use one core for a part of their time.
const AT_ONCE: usize = 2;

/// All checks. Of those that can start, the first one does.
const CHECKS: &[Check] = &[
    check("format", "format", &[], format),
    check("compile", "lints and compilation of programs and tests", &["format"], compile),
    check("setup", "setup of Node, the browser and Python", &["format"], set_up),
    // Its compiler has a target folder, and so a lock, of its own.
    check("page-build", "lints and build of the page", &["setup"], || page::build(None, Purpose::Check)),
    check("rust", "Rust tests", &["compile"], rust_tests),
    check("builds", "same results of all builds", &["compile", "page-build"], same_results),
    check("python", "Python package", &["compile", "setup"], || python::test_module(&Program::built()?)),
    // Its scripts import the types of `dist/pkg`.
    check("page-types", "types and lints of the page", &["page-build"], page_types_and_lints),
    check("simd", "SIMD in the page's modules", &["page-build"], || wasm::assert_simd(&project::dist())),
    check("oracle", "second computation in Python", &["setup"], oracle),
    check("xtask", "Rust tests of xtask", &["compile"], xtask_tests),
    check("book", "generated chapters and links of the book", &["compile", "page-build"], book::check),
    // Alone: it measures times, and its browsers use all cores.
    check(
        "page",
        "page in the browser",
        &["rust", "builds", "python", "page-types", "simd", "oracle", "xtask", "book"],
        page_tests,
    ),
];

/// If it is set, a test that needs a recorded trace must not be skipped.
const REQUIRE_TRACES: &str = "GPUPRISM_REQUIRE_TRACES";

/// Runs all checks. The first failure ends the run when the checks beside it have ended.
pub fn all() -> Result<()> {
    let start = Instant::now();
    let logs = project::target_dir()?.join("check-logs");
    if logs.exists() {
        fs::remove_dir_all(&logs).with_context(|| format!("cannot empty {}", logs.display()))?;
    }
    fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
    let run = Progress { program: std::env::current_exe()?, logs, state: Mutex::default(), changed: Condvar::new() };
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| run.work());
        }
    });
    let state = run.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    summary(&state.done, start.elapsed().as_secs())
}

/// Runs the check with this id, in this process.
pub fn one(id: &str) -> Result<()> {
    let Some(check) = CHECKS.iter().find(|check| check.id == id) else {
        let ids: Vec<&str> = CHECKS.iter().map(|check| check.id).collect();
        bail!("no check {id}; there are {}", ids.join(", "));
    };
    let outcome = (check.run)().with_context(|| format!("the check \"{}\" failed", check.title));
    cpu::print();
    outcome
}

/// A check that has ended.
struct Done {
    id: &'static str,
    title: &'static str,
    seconds: u64,
    /// Of its processes.
    processor_seconds: Option<u64>,
    counts: Counts,
    failure: Option<anyhow::Error>,
}

/// What the threads that run checks share.
struct Progress {
    program: PathBuf,
    logs: PathBuf,
    state: Mutex<State>,
    /// Signalled when a check has ended.
    changed: Condvar,
}

/// How far the checks are.
#[derive(Default)]
struct State {
    started: BTreeSet<&'static str>,
    done: Vec<Done>,
}

impl State {
    /// The first check that waits for none. None after a failure: what comes now would only delay its message.
    fn next(&mut self) -> Next {
        let has_failed = self.done.iter().any(|check| check.failure.is_some());
        if has_failed || self.started.len() == CHECKS.len() {
            return Next::End;
        }
        let is_done = |id: &&str| self.done.iter().any(|check| check.id == *id);
        let can_start = |check: &&Check| !self.started.contains(check.id) && check.after.iter().all(is_done);
        match CHECKS.iter().find(can_start) {
            Some(check) => {
                self.started.insert(check.id);
                Next::Run(check)
            }
            None => Next::Wait,
        }
    }
}

/// What a thread does next.
enum Next {
    Run(&'static Check),
    /// Until another check has ended.
    Wait,
    End,
}

impl Progress {
    /// Runs checks until none is left or one has failed.
    fn work(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match state.next() {
                Next::Run(check) => {
                    drop(state);
                    let done = self.run(check);
                    state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                    state.done.push(done);
                    self.changed.notify_all();
                }
                Next::Wait => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Next::End => return,
            }
        }
    }

    /// Runs a check and prints its output.
    fn run(&self, &Check { id, title, .. }: &Check) -> Done {
        println!("== {title}: begins");
        let start = Instant::now();
        let log = self.logs.join(format!("{id}.log"));
        let outcome = Run::program(&self.program)
            .args(["test", id])
            .log_to(&log)
            .and_then(Run::run)
            .with_context(|| format!("the check \"{title}\" failed; its output is in {}", log.display()));
        let seconds = start.elapsed().as_secs();
        let text = fs::read(&log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let word = if outcome.is_ok() { "passed" } else { "FAILED" };
        // In one call, so that the outputs of two checks do not mix.
        println!("\n== {title}\n{}\n== {title}: {word} in {seconds} s\n", text.trim_end());
        Done {
            id,
            title,
            seconds,
            processor_seconds: cpu::read(&text),
            counts: Counts::read(&text),
            failure: outcome.err(),
        }
    }
}

/// Prints a line per check, what was skipped, and the sum. An error if a check failed or a needed test was skipped.
fn summary(done: &[Done], seconds: u64) -> Result<()> {
    println!("\n{:>7}  {:>9}  check", "seconds", "processor");
    for check in done {
        let failed = if check.failure.is_some() { ": FAILED" } else { "" };
        let processor = check.processor_seconds.map_or_else(|| "?".to_owned(), |seconds| seconds.to_string());
        println!("{:>7}  {processor:>9}  {}{failed}", check.seconds, check.title);
    }
    let processor: u64 = done.iter().filter_map(|check| check.processor_seconds).sum();
    println!("{seconds:>7}  {processor:>9}  in total\n");
    let mut counts = Counts::default();
    done.iter().for_each(|check| counts.add(&check.counts));
    print!("{counts}");
    if let Some(failure) = done.iter().find_map(|check| check.failure.as_ref()) {
        bail!("{failure:#}");
    }
    let without_traces = counts.skipped_without_traces();
    if without_traces > 0 && std::env::var_os(REQUIRE_TRACES).is_some() {
        bail!("{REQUIRE_TRACES} is set, but {without_traces} tests found no recorded traces");
    }
    Ok(())
}

/// What the other checks need and no compiler writes.
fn set_up() -> Result<()> {
    setup::test()?;
    python::set_up()
}

fn format() -> Result<()> {
    Run::new("cargo fmt --all --check").run()?;
    Run::new("cargo fmt --manifest-path fuzz/Cargo.toml --check").run()
}

/// Everything that the other checks run, so that they only run it, and the times of both are known.
fn compile() -> Result<()> {
    if setup::find_program(Path::new("clippy-driver")).is_none() {
        bail!("clippy is missing: run `rustup component add clippy`");
    }
    cargo("build", "--all-targets", Purpose::Check).run()
}

/// Unit tests, the tests of whole programs, kept inputs of the fuzz targets, and the examples of the documentation. Captures are tested
/// with the HTTP layers of SGLang and vLLM only if GPUPRISM_REAL_SERVERS is set, because their packages are large.
fn rust_tests() -> Result<()> {
    cargo("test", "", Purpose::Check).run()
}

fn xtask_tests() -> Result<()> {
    with_lints(Run::new(&format!("cargo test --package xtask --profile {PROFILE}"))).run()
}

/// Builds the wheel and tests it, with the command line that it is compared with.
pub fn python() -> Result<()> {
    python::test_wheel(&Program::build(Purpose::Publish)?)
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

pub fn page_types_and_lints() -> Result<()> {
    Run::new("node node_modules/typescript/bin/tsc --project tsconfig.json").run()?;
    Run::new("node node_modules/eslint/bin/eslint.js --max-warnings 0 www npm vscode tests/page eslint.config.js").run()
}

/// A test file waits two thirds of its time, for a browser to start or for a state of the page.
const PAGE_TESTS_PER_CORE: usize = 2;

/// Runs several test files at once. On a busy machine a browser may time out, so a file that fails is repeated once, at the end and alone,
/// and named.
fn page_tests() -> Result<()> {
    let (chromium, program) = (setup::chromium()?, Program::built()?.path("gpuprism"));
    vscode::pack(&project::dist(), &vscode::default_file()?)?;
    let failed = Mutex::new(Vec::new());
    in_parallel(&test_files(&project::root().join("tests/page"))?, PAGE_TESTS_PER_CORE * cores(), |file| {
        let (outcome, output) = page_test(file, &chromium, &program)?;
        match outcome {
            Ok(()) => println!("\n{}\n{output}", file.display()),
            Err(failure) => {
                // Not counted: it runs a second time.
                let output: String = output.lines().map(|line| format!("| {line}\n")).collect();
                println!("\n{} failed\n{output}{failure:#}", file.display());
                failed.lock().unwrap_or_else(PoisonError::into_inner).push(file.clone());
            }
        }
        Ok(())
    })?;
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    for file in &failed {
        println!("\n{} failed; running it a second time", file.display());
        let (outcome, output) = page_test(file, &chromium, &program)?;
        println!("{output}");
        outcome.context("it failed a second time")?;
    }
    for file in failed {
        println!("UNSTEADY: {} passed only the second time; see its failure above", file.display());
    }
    Ok(())
}

/// Runs one file. Returns the outcome and the output, which is printed at the end, so that those of several files do not mix.
fn page_test(file: &Path, chromium: &Path, program: &Path) -> Result<(Result<()>, String)> {
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let log = project::target_dir()?.join(format!("page-{name}.log"));
    let outcome = Run::new("node --test")
        .arg(file)
        .env("GPUPRISM_DIST", project::dist())
        .env("GPUPRISM_VSIX", vscode::default_file()?)
        .env("GPUPRISM_BIN", program)
        .env("CHROMIUM", chromium)
        .log_to(&log)?
        .run();
    Ok((outcome, fs::read_to_string(&log).unwrap_or_default()))
}

/// Compares the results of the command line, as the checks build it, and of the page's modules, because an optimiser can make them
/// differ: see `docs/decisions/017-optimiser-fault.md`.
fn same_results() -> Result<()> {
    compare_builds(&Program::built()?, &Program::built()?, 100)
}

/// The same with the release build and the debug build of the command line, and the page in `dist`.
pub fn all_builds() -> Result<()> {
    page::build(None, Purpose::Publish)?;
    for profile in ["dev", "release"] {
        Run::new(&format!("cargo build --profile {profile} --bin gpuprism")).run()?;
    }
    let (debug, release) = (project::target_dir()?.join("debug"), project::target_dir()?.join("release"));
    let checks = Program::build(Purpose::Publish)?;
    compare_builds(&Program::at(debug), &checks, 1_000)?;
    compare_builds(&Program::at(release), &checks, 1_000)
}

/// Compares a program with another one and with the page, on files up to this size. The second one has examples.
fn compare_builds(program: &Program, checks: &Program, max_kilobytes: u32) -> Result<()> {
    Run::new("node tests/page/builds.mjs")
        .args([program.path("gpuprism"), checks.path("gpuprism"), checks.examples(), project::dist()])
        .arg(max_kilobytes.to_string())
        .run()
}

/// Lists the test files, because versions of `node --test` search directories differently.
fn test_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    let is_test = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".test.mjs") || name.ends_with(".test.js")
    };
    let mut files: Vec<_> = paths.into_iter().filter(is_test).collect();
    files.sort();
    if files.is_empty() {
        bail!("{} contains no *.test.mjs or *.test.js", directory.display());
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_can_start_and_the_page_is_tested_alone() {
        let mut state = State::default();
        while let Next::Run(check) = state.next() {
            if check.id == "page" {
                assert_eq!(state.done.len() + 1, CHECKS.len());
            }
            state.done.push(done(check, None));
        }
        assert_eq!(state.done.len(), CHECKS.len());
        assert_eq!(needed("page").len() + 1, CHECKS.len());
    }

    /// The checks that end before this one starts.
    fn needed(id: &str) -> BTreeSet<&'static str> {
        let after = CHECKS.iter().filter(|check| check.id == id).flat_map(|check| check.after);
        after.flat_map(|id| needed(id).into_iter().chain([*id])).collect()
    }

    #[test]
    fn nothing_starts_after_a_failure_or_before_what_it_needs() {
        let mut state = State::default();
        let Next::Run(format) = state.next() else { panic!("format") };
        assert!(matches!(state.next(), Next::Wait), "all others need the format");
        state.done.push(done(format, Some(anyhow::anyhow!("not formatted"))));
        assert!(matches!(state.next(), Next::End));
    }

    fn done(check: &Check, failure: Option<anyhow::Error>) -> Done {
        Done {
            id: check.id,
            title: check.title,
            seconds: 0,
            processor_seconds: None,
            counts: Counts::default(),
            failure,
        }
    }
}
