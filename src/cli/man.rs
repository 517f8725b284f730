//! `gpuprism man`: the manual pages.

use super::print_text;
use crate::{Error, Result};
use std::path::PathBuf;

/// Write the manual pages, one per command, to a folder.
///
/// `man -l DIR/gpuprism-report.1` shows one of them.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The folder; created if it does not exist.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let place = args.folder.display().to_string();
    let failed = |error: std::io::Error| Error::io(&place, &error);
    std::fs::create_dir_all(&args.folder).map_err(failed)?;
    clap_mangen::generate_to(super::command(), &args.folder).map_err(failed)?;
    print_text(&format!("Wrote the manual pages to {}\n", crate::report::format::clean(&place)))
}
