//! `gpuprism formats`: the formats that can be read, from `patterns/formats.json`.

use super::{print, print_text, printable};
use crate::Result;
use crate::input::known_formats::{Described, KNOWN};

/// List the formats of traces that gpuprism reads: who writes them, what they lack, how to record one.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print a Markdown table.
    #[arg(long)]
    markdown: bool,
}

pub(super) fn run(args: &Args) -> Result<()> {
    if args.markdown { print(&markdown(&KNOWN.formats)) } else { print_text(&printable(&text(&KNOWN.formats))) }
}

fn text(formats: &[Described]) -> String {
    let entry = |format: &Described| {
        let Described { title, files, from, lacks, capture, .. } = format;
        format!("{title}\n  files    {files}\n  from     {from}\n  lacks    {lacks}\n  capture  {capture}\n\n")
            .replace('`', "")
    };
    formats.iter().map(entry).collect()
}

fn markdown(formats: &[Described]) -> String {
    let row = |format: &Described| {
        let cells = [&format.title, &format.files, &format.from, &format.lacks].map(|cell| cell.replace('|', "\\|"));
        format!("| {} |\n", cells.join(" | "))
    };
    let rows: String = formats.iter().map(row).collect();
    format!("| format | files | from | lacks |\n|---|---|---|---|\n{rows}")
}
