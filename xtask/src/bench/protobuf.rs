//! How fast the command line reads large XSpace files and Perfetto traces, which `benches/protobuf_traces.py` writes.

use anyhow::Result;

use super::{Measured, Report, made_once, measure, megabytes, rate, text};
use crate::command::Run;
use std::path::Path;

/// With what the titles of the sections begin.
pub const TITLE: &str = "Protobuf: ";
const MEGABYTES: u32 = 1_000;
const RUNS: usize = 3;
const BYTES_PER_SECOND: f64 = 300e6;

pub fn all(report: &mut Report, program: &Path) -> Result<()> {
    let xspace = "an XSpace of XLA, kernels of 55 bytes and calls of 22";
    let perfetto = "a Perfetto trace of rocprofv3, kernels of 370 bytes and calls of 200";
    for (title, name) in [(xspace, "generated.xplane.pb"), (perfetto, "generated.pftrace")] {
        format(report, program, title, name)?;
    }
    Ok(())
}

fn format(report: &mut Report, program: &Path, title: &str, name: &str) -> Result<()> {
    let file = made_once(name, &|path| {
        Run::new("python3 benches/protobuf_traces.py").arg(path).arg(MEGABYTES.to_string()).run()
    })?;
    let path = text(&file);
    let (mut plain, mut read) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        plain.push(measure(&["cat", &path])?);
        read.push(measure(&[&text(program), "report", &path, "--format", "json"])?);
    }
    let bytes = file.metadata()?.len() as f64;
    let (plain, read) = (Measured::of(&plain), Measured::of(&read));
    report.heading(&format!("{TITLE}{title}, {}; {RUNS} alternating runs", megabytes(bytes)));
    report.fact("`cat FILE`", &plain.times());
    report.fact("`gpuprism report FILE --format json`", &read.times());
    report.at_least("bytes per second, best", bytes / read.best_seconds, BYTES_PER_SECOND, rate);
    report.fact("peak memory of the process", &megabytes(read.peak_bytes));
    Ok(())
}
