//! `gpuprism scrub`: a copy of a trace that can be shared.

use super::files::StandardError;
use super::{print_error, print_text, printable};
use crate::Result;
use crate::digits::grouped;
use crate::files::scrub;
use std::path::PathBuf;

/// Write a copy of a trace without what is private; reports of both have the same numbers.
///
/// Removes environment variables, command-line arguments, names of hosts and users, paths, secrets, and all words of other texts
/// that are not public. Names of public kernels and frameworks stay.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A trace: JSON, CSV, a Perfetto trace or an XLA profile, gzipped or not, or a SQLite export.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The copy, packed like the trace.
    #[arg(long, value_name = "COPY")]
    out: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let scrubbed = scrub(&args.file, &args.out, &StandardError)?;
    if scrubbed.is_damaged {
        print_error("The file is damaged or cut short: the copy contains the part before the damage.");
    }
    let mut text = format!("Wrote {}\n", args.out.display());
    if scrubbed.removed.is_empty() {
        text += "Nothing private was found.\n";
    }
    for (what, count) in &scrubbed.removed {
        text += &format!("removed  {:>7}  {what}\n", grouped(*count));
    }
    print_text(&printable(&text))
}
