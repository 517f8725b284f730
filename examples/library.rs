//! Uses gpuprism as a library: opens a trace, prints a table of its report, and computes something that gpuprism does not.
//!
//! `cargo run --release --example library -- TRACE`

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a program")]

use gpuprism::files::{Neighbours, RunSource, Watch, analyze, read_run};
use gpuprism::report::{Report, csv, table, verdict};
use gpuprism::session::Choices;
use gpuprism::trace::{OpKind, Trace};
use std::error::Error;
use std::path::PathBuf;

/// Takes what reading has to say.
struct StandardError;

impl Watch for StandardError {
    fn warn(&self, sentence: &str) {
        eprintln!("warning: {sentence}");
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = PathBuf::from(std::env::args_os().nth(1).ok_or("give the path of a trace")?);

    // Open: any supported format; several files if they are one rocprofv3 run.
    let source = read_run(std::slice::from_ref(&path), "nsys", &StandardError)?;
    let RunSource::Trace(trace) = source else { return Err("an earlier report, not a trace".into()) };

    // Analyze, with the files beside the trace, and print one table as CSV.
    let run = analyze::run(&trace, &Choices::default(), &Neighbours::of(&path, None, &StandardError))?;
    let report = Report::new(vec![run]);
    println!("{}\n", verdict(&report));
    if let Some(table) = table(&report, "categories", None) {
        println!("{}", csv(&table));
    }

    println!("kernels that start while another kernel of their device runs: {}", overlapping_kernels(&trace));
    Ok(())
}

/// An analysis of our own: how many kernels start while another kernel of the same device runs. Ops are sorted by their start; the
/// times are integer nanoseconds.
fn overlapping_kernels(trace: &Trace) -> usize {
    let mut busy_until = vec![None; trace.devices.len()];
    let mut count = 0;
    for op in trace.gpu_ops.iter().filter(|op| op.kind == OpKind::Kernel) {
        let Some(busy_until) = busy_until.get_mut(op.device.0 as usize) else { continue };
        let end = op.start + op.duration;
        count += usize::from(busy_until.is_some_and(|until| op.start < until));
        *busy_until = (*busy_until).max(Some(end));
    }
    count
}
