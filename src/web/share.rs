//! Sharing a report without a server: the preview of what would leave, the file to save, the link that carries the report.

use super::desk::{Desk, text};
use super::{Thrown, thrown, to_js};
use crate::capitalised;
use crate::digits::grouped;
use crate::json::{self, from_json};
use crate::report::redact::{Redacted, Redaction, Redactions, redact};
use crate::report::{self, Report, link, zip};
use serde::Serialize;
use wasm_bindgen::prelude::*;

/// What a person chose to share.
struct Wish {
    /// `html`, `json`, `markdown`, `zip`, `link`.
    format: String,
    /// Ids of redactions.
    redact: Vec<String>,
    /// Leave out what a link cannot carry.
    slim: bool,
}
from_json!(Wish { format, redact, slim });

/// What would leave the page; every text is ready to be shown.
#[derive(Serialize)]
struct Preview {
    redactions: Vec<Found>,
    /// Name and size.
    file: String,
    /// A line each.
    holds: Vec<String>,
    fits: bool,
    /// Of a link: how long it is, and what to do where that is too long.
    length: String,
}

/// One kind of what can be replaced, and what the report holds of it.
#[derive(Serialize)]
struct Found {
    id: &'static str,
    title: &'static str,
    found: String,
    none: bool,
}

#[wasm_bindgen]
impl Desk {
    /// What a file or link would hold, and what could be replaced in it.
    ///
    /// # Errors
    /// A wish of another shape.
    pub fn share_preview(&self, wish: &str) -> Thrown<JsValue> {
        let wish: Wish = json::read(wish).map_err(thrown)?;
        let report = self.shared(&wish)?;
        let found = self.found()?;
        let (name, _) = file(&wish.format);
        let (size, fits, length) = if wish.format == "link" {
            let characters = link::encode(&report).len();
            (characters, characters <= link::MAX_CHARACTERS, length_of(characters, wish.slim))
        } else {
            (bytes(&report, &wish.format)?.len(), true, String::new())
        };
        let unit = if wish.format == "link" { "characters" } else { "bytes" };
        let file = format!("{name}, {} {unit}", grouped(size as u64));
        to_js(&Preview { redactions: kinds(&found), file, holds: holds(&report, &wish.format), fits, length })
    }

    /// The ids of all that can be replaced.
    pub fn share_redactions(&self) -> Vec<String> {
        Redaction::ALL.iter().map(|redaction| redaction.id().to_owned()).collect()
    }

    /// The bytes of the file to save.
    ///
    /// # Errors
    /// A wish of another shape, an unknown format.
    pub fn share_file(&self, wish: &str) -> Thrown<Vec<u8>> {
        let wish: Wish = json::read(wish).map_err(thrown)?;
        bytes(&self.shared(&wish)?, &wish.format)
    }

    /// What stands behind `#report=` in the link.
    ///
    /// # Errors
    /// A wish of another shape; a report that is too long for a link.
    pub fn share_link(&self, wish: &str) -> Thrown<String> {
        let wish: Wish = json::read(wish).map_err(thrown)?;
        let text = link::encode(&self.shared(&wish)?);
        if text.len() > link::MAX_CHARACTERS { Err(thrown(length_of(text.len(), wish.slim))) } else { Ok(text) }
    }

    /// The report text that a link carries.
    ///
    /// # Errors
    /// A sentence for a link that is damaged, too large or holds something else.
    pub fn open_link(&self, text: &str) -> Thrown<String> {
        Ok(link::decode(text).map_err(thrown)?.compact())
    }
}

impl Desk {
    /// What each kind would replace. Secrets are counted by themselves: where all is replaced, names go whole, with the secrets
    /// in them.
    fn found(&self) -> Thrown<Redacted> {
        let (_, mut found) = redact(&self.report, &Redactions::all());
        let alone = Redactions::of([Redaction::Secrets.id()]).map_err(thrown)?;
        let (_, secrets) = redact(&self.report, &alone);
        for kind in &mut found.0 {
            if let Some(alone) = secrets.0.iter().find(|alone| alone.redaction == kind.redaction && alone.count > 0) {
                kind.clone_from(alone);
            }
        }
        Ok(found)
    }

    fn shared(&self, wish: &Wish) -> Thrown<Report> {
        let what = Redactions::of(wish.redact.iter().map(String::as_str))
            .map_err(|unknown| thrown(format!("no redaction `{unknown}`")))?;
        let slim = if wish.slim { link::slim(&self.report) } else { self.report.clone() };
        Ok(redact(&slim, &what).0)
    }
}

fn bytes(report: &Report, format: &str) -> Thrown<Vec<u8>> {
    if format == "zip" { Ok(zip::zip(&zip::tables(report))) } else { Ok(text(report, format)?.into_bytes()) }
}

/// Name of the file, and what it is for.
fn file(format: &str) -> (&'static str, &'static str) {
    match format {
        "html" => ("gpuprism-report.html", "One page that opens from a disk and asks no network"),
        "json" => ("gpuprism-report.json", "Opens here again, and for programs"),
        "markdown" => ("gpuprism-report.md", "For issues and chats; of long tables the first rows"),
        "zip" => ("gpuprism-tables.zip", "A CSV file for each table, with exact values"),
        _ => ("Link", "The report stands in the address itself, behind the # that browsers send to no server"),
    }
}

fn kinds(found: &Redacted) -> Vec<Found> {
    const MOST_LETTERS: usize = 48;
    let kinds = found.0.iter().map(|kind| {
        let example = kind.example.lines().next().unwrap_or_default();
        let mut letters = example.chars();
        let mut short: String = letters.by_ref().take(MOST_LETTERS).collect();
        if letters.next().is_some() {
            short.push('\u{2026}');
        }
        let found = match kind.count {
            0 => "none found".to_owned(),
            1 => short,
            count => format!("{}, such as {short}", grouped(count as u64)),
        };
        Found { id: kind.redaction.id(), title: kind.redaction.title(), found, none: kind.count == 0 }
    });
    kinds.collect()
}

/// What the file holds, a line each: what it is for, runs, tables with their rows or files.
fn holds(report: &Report, format: &str) -> Vec<String> {
    const NAMED: usize = 6;
    let runs = report.labels();
    let mut named: Vec<&str> = runs.iter().take(NAMED).map(String::as_str).collect();
    let more = format!("{} more", runs.len().saturating_sub(NAMED));
    if runs.len() > NAMED {
        named.push(&more);
    }
    let entries = zip::tables(report);
    let rows = entries.iter().fold(0_u64, |rows, entry| rows.saturating_add(entry.rows as u64));
    let notices: usize = report.runs.iter().map(|run| run.notices.len()).sum();
    let mut lines = vec![
        file(format).1.to_owned(),
        format!("{}: {}", plural(runs.len() as u64, "run"), named.join(", ")),
        format!("{} with {}", plural(entries.len() as u64, "table"), plural(rows, "row")),
        plural(notices as u64, "notice"),
    ];
    if format == "zip" {
        let files: Vec<String> =
            entries.iter().map(|entry| format!("{} ({})", entry.name, plural(entry.rows as u64, "row"))).collect();
        lines.push(files.join(", "));
    } else {
        let titles: Vec<String> = report::groups(report).into_iter().map(|group| group.title).collect();
        lines.push(capitalised(titles.join(", ")));
    }
    lines
}

fn plural(count: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// How long the link's report is beside what is allowed, and what to do.
fn length_of(characters: usize, slim: bool) -> String {
    let (length, most) = (grouped(characters as u64), grouped(link::MAX_CHARACTERS as u64));
    if characters <= link::MAX_CHARACTERS {
        return format!("{length} of at most {most} characters");
    }
    let advice = if slim {
        "Close some files, or save the report as a file instead."
    } else {
        "Leave out the long tables with the box below, or save the report as a file instead."
    };
    format!(
        "The report needs {length} characters and a link takes {most}: longer ones are cut by chats and refused by Windows. {advice}"
    )
}
