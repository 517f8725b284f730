//! How much memory a stranger's file may cost, counted by the allocator. A program of its own, because it replaces the
//! allocator, and one test, because the peak is that of the whole program.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use flate2::Compression;
use flate2::write::GzEncoder;
use gpuprism::input::Importer;
use gpuprism::session;
use peak_alloc::PeakAlloc;
use std::io::Write;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// A document costs at most this many times its text.
const MAX_TIMES: usize = 8;
/// Buffers, batches of events, patterns of the program.
const FIXED_BYTES: usize = 24 << 20;
const TEXT_BYTES: usize = 16 << 20;

/// Opens a file of this text, compressed, and returns the error and the peak of the allocated bytes.
fn open(name: &str, text: &[u8]) -> (Option<String>, usize) {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(text).unwrap();
    let packed = packed.finish().unwrap();
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let mut importer = Importer::new(name);
    let read = packed.chunks(1 << 16).try_for_each(|chunk| importer.feed(chunk));
    let opened = read.and_then(|()| importer.finish()).and_then(|imported| session::open(name, imported));
    (opened.err().map(|error| error.to_string()), ALLOCATOR.peak_usage() - before)
}

fn repeated(begin: &str, unit: &str, end: &str) -> Vec<u8> {
    let count = TEXT_BYTES / unit.len();
    [begin, &unit.repeat(count), unit.trim_end_matches(','), end].concat().into_bytes()
}

#[test]
fn memory_is_bounded_by_what_was_read() {
    // Patterns are parsed at their first use.
    open("first.json", br#"{"schema": "gpuprism-report/1", "runs": [], "top_kernels": {"a": "b"}}"#);
    let report = r#"{"schema":"gpuprism-report/1","runs":["#;
    let foreign = r#"{"tool":{"name":"nsys-llm-explainer"},"x":{"top_kernels":0},"metrics":["#;
    for (name, begin, unit, end) in [
        ("lists", r#"{"a":["#, "[0],", "]}"),
        ("objects", r#"{"a":["#, "{},", "]}"),
        ("numbers", "{\"a\":[", "0,", "]}"),
        ("texts", r#"{"a":["#, r#""","#, "]}"),
        ("members", "{", r#""":0,"#, "}"),
        ("members with lists", r#"{"a":{"#, r#""a":[0],"#, "}}"),
        ("phases", "{", r#""":[],"#, "}"),
        ("rules", r#"{"a":{"b":{"#, r#""a":"b","#, "}}}"),
        ("config", r#"{"hidden_size":1,"num_hidden_layers":1,"layer_types":["#, "0,", "]}"),
        ("runs of a report", report, "{},", "]}"),
        ("numbers instead of runs", report, "0,", "]}"),
        ("report of another tool", foreign, "[0],", "]}"),
    ] {
        let text = repeated(begin, unit, end);
        let (error, peak) = open("report.json", &text);
        assert!(
            peak <= MAX_TIMES * text.len() + FIXED_BYTES,
            "{name}: {} MiB for {} MiB",
            peak >> 20,
            text.len() >> 20
        );
        let is_foreign = begin == foreign;
        assert!(error.is_some() || is_foreign, "{name} is refused in a sentence");
    }
    let event = r#"{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":2,"args":{"device":0,"stream":7}}"#;
    let begin = format!(r#"{{"traceEvents":[{event},{{"a" 1}}"#);
    for (name, begin, unit) in [
        ("spaces after damage", begin.as_str(), " "),
        ("nothing but commas", begin.as_str(), ","),
        ("unreadable scalars", begin.as_str(), "},!"),
    ] {
        let text = repeated(begin, unit, "");
        let (_, peak) = open("trace.json", &text);
        assert!(peak <= FIXED_BYTES, "{name}: {} MiB for {} MiB", peak >> 20, text.len() >> 20);
    }
}
