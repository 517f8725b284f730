//! Sharing a report without a server: a preview, a file to save, or a link that contains the report.

use super::Tools;
use super::tools::text;
use crate::digits::grouped;
use crate::json::{self, from_json};
use crate::report::html::Overview;
use crate::report::redact::{Redacted, Redaction, Redactions, Redactor, redact};
use crate::report::{self, Report, link, zip};
use crate::web::{JsResult, to_js, to_js_error};
use crate::words::capitalize;
use serde::Serialize;
use wasm_bindgen::prelude::*;

/// The options of the sharing panel.
struct ShareRequest {
    /// `html`, `json`, `markdown`, `zip`, `link`.
    format: String,
    /// Ids of redactions.
    redact: Vec<String>,
    /// Leave out the tables that are too long for a link. Absent: only if the link would be too long with them.
    slim: Option<bool>,
}
from_json!(ShareRequest { format, redact; slim });

/// A report as a link.
struct Link {
    report: Report,
    text: String,
    is_slim: bool,
    /// The characters of the link with the long tables, if they are left out because it would be too long.
    whole_characters: Option<usize>,
}

/// A preview of the file or link. All texts are ready to be shown.
#[derive(Serialize)]
struct Preview {
    redactions: Vec<RedactionView>,
    /// Its name and size.
    file: String,
    /// Its contents, one line each.
    contents: Vec<String>,
    fits: bool,
    /// For links: the length, with advice if it is too long.
    length: String,
    /// For links: whether the long tables are left out.
    slim: bool,
}

/// One kind of redaction, and how often the report needs it.
#[derive(Serialize)]
struct RedactionView {
    id: &'static str,
    title: &'static str,
    found: String,
    none: bool,
}

#[wasm_bindgen]
impl Tools {
    /// Describes the file or link, and what can be redacted in it. HTML begins with `strips`, as in [`Tools::export`].
    ///
    /// # Errors
    /// An invalid request or invalid strips.
    pub fn share_preview(&self, request: &str, strips: Vec<String>) -> JsResult<JsValue> {
        let request: ShareRequest = json::read(request).map_err(to_js_error)?;
        let redactions = kinds(&self.redactable()?);
        let (name, _) = file(&request.format);
        if request.format == "link" {
            let link = self.link(&request)?;
            let file = format!("{name}, {} characters", grouped(link.text.len() as u64));
            let (contents, length, fits) = (contents(&link.report, &request.format), link.length(), link.fits());
            return to_js(&Preview { redactions, file, contents, fits, length, slim: link.is_slim });
        }
        let (report, overviews) = self.shared_with_strips(&request, &strips)?;
        let size = bytes(&report, &request.format, &overviews)?.len();
        let file = format!("{name}, {} bytes", grouped(size as u64));
        let contents = contents(&report, &request.format);
        to_js(&Preview { redactions, file, contents, fits: true, length: String::new(), slim: false })
    }

    /// The ids of all redactions.
    pub fn share_redactions(&self) -> Vec<String> {
        Redaction::ALL.iter().map(|redaction| redaction.id().to_owned()).collect()
    }

    /// The bytes of the file to save. HTML begins with `strips`, as in [`Tools::export`].
    ///
    /// # Errors
    /// An invalid request, an unknown format or invalid strips.
    pub fn share_file(&self, request: &str, strips: Vec<String>) -> JsResult<Vec<u8>> {
        let request: ShareRequest = json::read(request).map_err(to_js_error)?;
        let (report, overviews) = self.shared_with_strips(&request, &strips)?;
        bytes(&report, &request.format, &overviews)
    }

    /// The text after `#report=` in the link.
    ///
    /// # Errors
    /// An invalid request, or a report that is too long for a link.
    pub fn share_link(&self, request: &str) -> JsResult<String> {
        let request: ShareRequest = json::read(request).map_err(to_js_error)?;
        let link = self.link(&request)?;
        if link.fits() { Ok(link.text) } else { Err(to_js_error(link.length())) }
    }

    /// The report text in a link.
    ///
    /// # Errors
    /// The link is damaged, too large or contains something else.
    pub fn open_link(&self, text: &str) -> JsResult<String> {
        Ok(link::decode(text).map_err(to_js_error)?.compact())
    }
}

impl Tools {
    /// The values that each redaction would replace. Secrets are counted separately, because with all redactions on, a name
    /// that contains a secret is replaced as a whole.
    fn redactable(&self) -> JsResult<Redacted> {
        let (_, mut found) = redact(&self.report, &Redactions::all());
        let alone = Redactions::of([Redaction::Secrets.id()]).map_err(to_js_error)?;
        let (_, secrets) = redact(&self.report, &alone);
        for kind in &mut found.0 {
            if let Some(alone) = secrets.0.iter().find(|alone| alone.redaction == kind.redaction && alone.count > 0) {
                kind.clone_from(alone);
            }
        }
        Ok(found)
    }

    /// The report to share, and its strips, redacted alike.
    fn shared_with_strips(
        &self,
        request: &ShareRequest,
        strips: &[String],
    ) -> JsResult<(Report, Vec<Option<Overview>>)> {
        let overviews = self.overviews(strips)?;
        let (report, mut redactor) = redacted(&self.report, request)?;
        Ok((report, overviews.iter().map(|overview| redactor.redact_also(overview.as_ref()?)).collect()))
    }

    /// The link that is asked for. Unless the request says whether the long tables are in it, they are if they fit.
    fn link(&self, request: &ShareRequest) -> JsResult<Link> {
        let make = |is_slim: bool, whole_characters| {
            let slim = is_slim.then(|| link::slim(&self.report));
            let (report, _) = redacted(slim.as_ref().unwrap_or(&self.report), request)?;
            Ok(Link { text: link::encode(&report), report, is_slim, whole_characters })
        };
        if let Some(is_slim) = request.slim {
            return make(is_slim, None);
        }
        let whole = make(false, None)?;
        if whole.fits() { Ok(whole) } else { make(true, Some(whole.text.len())) }
    }
}

fn redacted(report: &Report, request: &ShareRequest) -> JsResult<(Report, Redactor)> {
    let what = Redactions::of(request.redact.iter().map(String::as_str))
        .map_err(|unknown| to_js_error(format!("unknown redaction `{unknown}`")))?;
    Ok(Redactor::redact(report, &what))
}

fn bytes(report: &Report, format: &str, overviews: &[Option<Overview>]) -> JsResult<Vec<u8>> {
    if format == "zip" { Ok(zip::zip(&zip::tables(report))) } else { Ok(text(report, format, overviews)?.into_bytes()) }
}

/// The file name, and its purpose.
fn file(format: &str) -> (&'static str, &'static str) {
    match format {
        "html" => ("gpuprism-report.html", "One HTML page that works offline"),
        "json" => ("gpuprism-report.json", "Can be opened here again or read by programs"),
        "markdown" => ("gpuprism-report.md", "For issues and chats, with only the first rows of long tables"),
        "zip" => ("gpuprism-tables.zip", "A CSV file for each table, with exact values"),
        _ => ("Link", "The link contains the report after the #, which browsers do not send to servers"),
    }
}

fn kinds(found: &Redacted) -> Vec<RedactionView> {
    const MAX_LETTERS: usize = 48;
    let kinds = found.0.iter().map(|kind| {
        let example = kind.example.lines().next().unwrap_or_default();
        let mut letters = example.chars();
        let mut short: String = letters.by_ref().take(MAX_LETTERS).collect();
        if letters.next().is_some() {
            short.push('\u{2026}');
        }
        let found = match kind.count {
            0 => "none found".to_owned(),
            1 => short,
            count => format!("{}, such as {short}", grouped(count as u64)),
        };
        RedactionView { id: kind.redaction.id(), title: kind.redaction.title(), found, none: kind.count == 0 }
    });
    kinds.collect()
}

/// The contents of the file, one line each: purpose, runs, tables with their numbers of rows, or files.
fn contents(report: &Report, format: &str) -> Vec<String> {
    const MAX_NAMED: usize = 6;
    let runs = report.labels();
    let mut named: Vec<&str> = runs.iter().take(MAX_NAMED).map(String::as_str).collect();
    let more = format!("{} more", runs.len().saturating_sub(MAX_NAMED));
    if runs.len() > MAX_NAMED {
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
        lines.push(capitalize(titles.join(", ")));
    }
    lines
}

fn plural(count: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(count), if count == 1 { "" } else { "s" })
}

impl Link {
    fn fits(&self) -> bool {
        self.text.len() <= link::MAX_CHARACTERS
    }

    /// The length compared with the limit, what was left out because of it, and advice if it is still too long.
    fn length(&self) -> String {
        let [length, limit] = [self.text.len(), link::MAX_CHARACTERS].map(|characters| grouped(characters as u64));
        if !self.fits() {
            let advice = if self.is_slim {
                "Close some files, or save the report as a file instead."
            } else {
                "Leave out the long tables with the box above, or save the report as a file instead."
            };
            return format!(
                "The link would have {length} characters, more than {limit}: chats cut longer links and Windows does not open them. {advice}"
            );
        }
        let left_out = self.whole_characters.map(|whole| {
            format!(". The long tables are left out: with them the link would have {}.", grouped(whole as u64))
        });
        format!("{length} of at most {limit} characters{}", left_out.unwrap_or_default())
    }
}
