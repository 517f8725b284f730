//! Kept inputs of the fuzz targets, and a fixed number of changes of each: every input passes the check of its target.
//!
//! The changes come from a fixed seed and are the same in each run. `cargo xtask fuzz` searches for inputs that reach new code.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::print_stdout, reason = "tests")]

#[path = "../fuzz/checks/mod.rs"]
#[allow(clippy::let_underscore_must_use, unreachable_pub, reason = "the crate of the fuzz targets has it as a library")]
mod checks;

use crate::common::{nsys, repetitions};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// An input that takes longer is a fault: the time must not grow faster than the input.
const MAX_TIME: Duration = Duration::from_secs(10);
/// Longer inputs do not find more.
const MAX_BYTES: usize = 8_192;

/// Text that readers know, which random bytes seldom form.
const WORDS: &[&[u8]] = &[
    b"\"",
    b"\\",
    b"\\u0000",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\n",
    b"\r\n",
    b"\0",
    b"-1",
    b"0",
    b"1e999",
    b"1e-999",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"18446744073709551616",
    b"null",
    b"true",
    b"\xff",
    b"\xe2\x80\xae",
];

/// Numbers that look random and are the same in each run (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, or 0.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).unwrap()
    }

    /// The start and the end of a part of `length` bytes, at most 64 bytes long.
    fn part(&mut self, length: usize) -> (usize, usize) {
        let start = self.below(length);
        (start, start + self.below(64.min(length - start) + 1))
    }
}

/// How many changes of each kept input are checked.
fn changes() -> usize {
    repetitions(40, 100)
}

/// Changes an input in up to four places; `other` is another kept input.
fn changed(input: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        let (start, end) = random.part(bytes.len());
        match random.below(8) {
            0 if !bytes.is_empty() => bytes[start] ^= 1 << random.below(8),
            1 if !bytes.is_empty() => bytes[start] = random.next().to_le_bytes()[0],
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(start..end)),
            4 => {
                let copy = bytes[start..end].to_vec();
                bytes.splice(at..at, copy);
            }
            5 => {
                let (from, to) = random.part(other.len());
                bytes.splice(at..at, other[from..to].iter().copied());
            }
            6 => drop(bytes.splice(at.., other[random.below(other.len() + 1)..].iter().copied())),
            _ => drop(bytes.splice(at..at, WORDS[random.below(WORDS.len())].iter().copied())),
        }
        bytes.truncate(MAX_BYTES);
    }
    bytes
}

/// The kept inputs of a target: seeds, and inputs that showed a fault.
fn kept(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folders = ["seeds", "regressions"].map(|kind| Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz").join(kind));
    let files = folders.iter().filter_map(|folder| std::fs::read_dir(folder.join(target)).ok()).flatten();
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no inputs for {target}");
    paths.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// Checks one input. A failure names the input, and the file that contains it.
fn check(target: &str, check: checks::Check, name: &str, input: &[u8]) {
    let start = Instant::now();
    let passed = catch_unwind(AssertUnwindSafe(|| check(input))).is_ok();
    let time = start.elapsed();
    if passed && time < MAX_TIME {
        return;
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fault-{target}"));
    std::fs::write(&file, input).unwrap();
    panic!(
        "{name}: {} after {time:?}; the input is in {}: after the fix, add it to fuzz/regressions/{target}",
        if passed { "passed" } else { "panicked" },
        file.display()
    );
}

/// Checks each kept input, and so many changes of it.
fn replay(target: &str, changes: usize) {
    let (_, function) = checks::ALL.iter().find(|(name, _)| *name == target).unwrap();
    let inputs = kept(target);
    let mut random = Random(1);
    for (path, input) in &inputs {
        let name = path.display().to_string();
        check(target, *function, &name, input);
        for number in 0..changes {
            let (_, other) = &inputs[random.below(inputs.len())];
            let input = changed(input, other, &mut random);
            check(target, *function, &format!("{name}, change {number}"), &input);
        }
    }
}

#[test]
fn every_target_is_replayed() {
    let source = include_str!("fuzz.rs");
    for (target, _) in checks::ALL {
        assert!(source.contains(&format!("replay(\"{target}\", ")), "{target} has no test");
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fuzz/targets/{target}.rs"));
        assert!(program.is_file(), "{} is missing", program.display());
    }
}

#[test]
fn chunks_agree() {
    replay("chunks_agree", changes());
}

#[test]
fn dialects_never_panic() {
    // Each takes ten times as long as one of another target.
    replay("dialects_never_panic", changes() / 3);
}

#[test]
fn documents_never_panic() {
    replay("documents_never_panic", changes());
}

#[test]
fn export_never_panics() {
    replay("export_never_panics", changes());
}

#[test]
fn rules_never_panic() {
    replay("rules_never_panic", changes());
}

#[test]
fn table_never_panics() {
    replay("table_never_panics", changes());
}

#[test]
fn torch_never_panics() {
    replay("torch_never_panics", changes());
}

#[test]
fn triage_never_panics() {
    // Each takes a hundred times as long as one of another target.
    replay("triage_never_panics", changes() / 3);
}
