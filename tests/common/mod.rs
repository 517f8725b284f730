//! Helpers for tests of the program: run it, create folders, parse its output.

#![allow(dead_code, reason = "each test crate uses only some of the helpers")]

pub(crate) mod mcp;
pub(crate) mod nsys;

use gpuprism::input::{Imported, Importer};
use gpuprism::trace::{Ns, Trace};
use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How often a test that draws random inputs repeats: fewer times in the checks of a pull request than once a week, when
/// `GPUPRISM_THOROUGH` is set.
pub(crate) fn repetitions<T>(in_checks: T, weekly: T) -> T {
    if std::env::var_os("GPUPRISM_THOROUGH").is_some() { weekly } else { in_checks }
}

/// The exit code and the output of a run of the program.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the program in `directory` until it ends.
pub(crate) fn gpuprism<A: AsRef<OsStr>>(directory: &Path, args: impl IntoIterator<Item = A>) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_gpuprism"))
        .args(args)
        .current_dir(directory)
        // Lines fit a terminal of this width.
        .env_remove("COLUMNS")
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Output { status: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Runs the program, which must succeed without output on standard error, and returns its standard output.
pub(crate) fn printed<A: AsRef<OsStr>>(directory: &Path, args: impl IntoIterator<Item = A>) -> String {
    let output = gpuprism(directory, args);
    assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{output:?}");
    output.stdout
}

/// The runs that `gpuprism report --format json` prints.
pub(crate) fn json_runs(directory: &Path, args: &[&str]) -> Vec<Value> {
    let report: Value =
        serde_json::from_str(&printed(directory, [&["report", "--format", "json"], args].concat())).unwrap();
    report["runs"].as_array().unwrap().clone()
}

/// Creates an empty folder for one test.
pub(crate) fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if path.exists() {
        std::fs::remove_dir_all(&path).unwrap();
    }
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// A file or folder of recorded traces or reference results, which must exist: tests that read one are ignored where there are
/// no recorded traces (`build.rs`).
pub(crate) fn shared(path: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared").join(path);
    assert!(path.exists(), "the recorded traces are incomplete: there is no {}", path.display());
    path
}

/// Reads a trace without its code.
pub(crate) fn import(path: &Path) -> Trace {
    read_trace(Importer::new(file_name(path)), path)
}

/// Reads a trace with its code: CPU ops, Python frames and annotations.
pub(crate) fn import_with_code(path: &Path) -> Trace {
    read_trace(Importer::with_code(file_name(path)), path)
}

fn read_trace(mut importer: Importer, path: &Path) -> Trace {
    importer.feed(&std::fs::read(path).unwrap()).unwrap();
    let Imported::Trace(trace) = importer.finish().unwrap() else { panic!("{} is no trace", path.display()) };
    *trace
}

/// The files of a folder whose names end with `end`, sorted by name; there must be some.
pub(crate) fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries.filter(|path| file_name(path).ends_with(end)).collect();
    files.sort();
    assert!(!files.is_empty(), "no {end} in {}", folder.display());
    files
}

pub(crate) fn file_name(path: &Path) -> &str {
    path.file_name().and_then(OsStr::to_str).unwrap()
}

pub(crate) fn read_json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Parses CSV as in RFC 4180.
pub(crate) fn csv_rows(text: &str) -> Vec<Vec<String>> {
    let mut rows = vec![vec![String::new()]];
    let (mut quoted, mut characters) = (false, text.chars().peekable());
    while let Some(character) = characters.next() {
        let row = rows.last_mut().unwrap();
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                row.last_mut().unwrap().push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(String::new()),
            '\n' if !quoted => rows.push(vec![String::new()]),
            other => row.last_mut().unwrap().push(other),
        }
    }
    assert!(!quoted && rows.pop() == Some(vec![String::new()]), "the last line ends: {text}");
    rows
}

/// Converts decimal seconds to nanoseconds.
pub(crate) fn seconds_to_ns(seconds: &str) -> i64 {
    let (whole, part) = seconds.split_once('.').unwrap();
    assert!(part.len() <= 9, "more than nine decimals: {seconds}");
    whole.parse::<i64>().unwrap() * 1_000_000_000 + format!("{part:0<9}").parse::<i64>().unwrap()
}

/// The facts of a file of `../shared` by the separate program for formats.
pub(crate) fn reference_facts(path: &Path) -> Value {
    let script = shared("tools/reference_formats.py");
    let output = Command::new("python3").arg(script).arg(path).args(["--names", "0"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The time in which at least one of these spans goes on, in nanoseconds.
pub(crate) fn union(mut spans: Vec<(Ns, Ns)>) -> i64 {
    spans.sort_unstable();
    let (mut total, mut reach) = (0, Ns(i64::MIN));
    for (start, end) in spans {
        total += (end.0 - start.0.max(reach.0)).max(0);
        reach = reach.max(end);
    }
    total
}
