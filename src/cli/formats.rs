//! `gpuprism formats`: the formats that can be read, from `patterns/formats.json`.

use super::{print, printable};
use crate::Result;
use crate::json::{self, embedded, from_json};

/// List the formats of traces that gpuprism reads: who writes them, what they lack, how to record one.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print a Markdown table.
    #[arg(long)]
    markdown: bool,
}

#[derive(Debug)]
struct Formats {
    formats: Vec<Described>,
}
from_json!(Formats { formats });

/// One format.
#[derive(Debug)]
struct Described {
    #[cfg_attr(not(test), allow(dead_code, reason = "a test compares it with the names of the formats"))]
    id: String,
    title: String,
    files: String,
    from: String,
    lacks: String,
    capture: String,
}
from_json!(strict Described { id, title, files, from, lacks, capture });

pub(super) fn run(args: &Args) -> Result<()> {
    let formats: Formats = embedded(json::read(include_str!("../../patterns/formats.json")));
    print(&if args.markdown { markdown(&formats.formats) } else { printable(&text(&formats.formats)) })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Format;

    #[test]
    fn every_format_is_described_under_its_own_name_and_title() {
        let formats: Formats = embedded(json::read(include_str!("../../patterns/formats.json")));
        let described: Vec<(String, &str)> =
            formats.formats.iter().map(|format| (format.id.clone(), format.title.as_str())).collect();
        let name = |format: Format| serde_json::to_value(format).unwrap().as_str().unwrap().to_owned();
        let known: Vec<(String, &str)> = Format::ALL.iter().map(|format| (name(*format), format.title())).collect();
        assert_eq!(described, known);
    }
}
