//! The analysis of one uploaded trace: its report, as JSON or as an archive of the files of `gpuprism explain`.

use super::super::database;
use super::super::files::{self, StandardError};
use super::work::{Form, Work};
use crate::Error;
use crate::input::known_formats;
use crate::json::Json;
use crate::report::zip::{self, Entry};
use crate::report::{Report, explain};
use crate::session::{self, Choices, Opened, UserFile};
use crate::trace::DatabaseInfo;
use gpuprism_server::api::{self, Failure};
use std::path::Path;

/// The files of a report.
struct Files {
    json: String,
    /// `None` for a report of another tool that is not complete enough.
    markdown: Option<String>,
    tables: Vec<(String, String)>,
}

/// The bytes of the answer.
pub(super) fn analyze(work: &Work) -> Result<Vec<u8>, Failure> {
    let files = analyzed(work)?;
    let with_markdown = match work.answer {
        Form::Artifacts => return Ok(archive(files)),
        Form::Json => false,
        Form::JsonWithMarkdown => true,
    };
    let answer = explain::answer(&files.json, with_markdown.then_some(files.markdown));
    answer.map(String::into_bytes).ok_or_else(|| Failure::Analysis("the report is no JSON object".to_owned()))
}

fn archive(files: Files) -> Vec<u8> {
    let report = [("report.json".to_owned(), files.json)].into_iter();
    let markdown = files.markdown.map(|text| ("report.md".to_owned(), text));
    let tables = files.tables.into_iter().map(|(name, text)| (format!("tables/{name}"), text));
    let entry = |(name, text): (String, String)| Entry { name, rows: 0, text };
    zip::zip(&report.chain(markdown).chain(tables).map(entry).collect::<Vec<Entry>>())
}

/// Analyzes a trace. A report of nsys-llm-explainer is returned as it is, as its own server does.
fn analyzed(work: &Work) -> Result<Files, Failure> {
    let path = Path::new(&work.trace);
    // The original's status codes: 400 for a file that is not accepted, 500 for a database that cannot be analyzed.
    let failed = |error: Error| match database::describe(path) {
        Ok(None) => Failure::Input(accepted_formats(&error.to_string())),
        _ => Failure::Analysis(error.to_string()),
    };
    let phase_map = work.phase_map.clone().map(|text| UserFile { file: "phase map".to_owned(), text });
    let choices = Choices { kernel_limit: Some(work.kernel_limit), phase_map, ..Choices::default() };
    match crate::files::open(path, &StandardError) {
        Ok(Opened::Trace(trace)) => {
            let capture = database::describe(path).map_err(failed)?.unwrap_or_default();
            // An error of a choice is one of the form.
            let refused = |error: Error| Failure::Input(error.to_string());
            let report = Report::new(vec![session::run(&trace, &choices).map_err(refused)?]);
            written(&report, &capture).ok_or_else(|| Failure::Analysis("the trace contains no run".to_owned()))
        }
        Ok(Opened::Report(report)) => {
            let files = written(&report, &DatabaseInfo::default());
            let original = original_report(path);
            let files = files.map(|files| Files { json: original.unwrap_or(files.json), ..files });
            files.ok_or_else(|| Failure::Input("the report contains no run".to_owned()))
        }
        Ok(_) => Err(failed(known_formats::no_trace(&files::label(path)))),
        Err(error) => match original_report(path) {
            Some(json) => Ok(Files { json, markdown: None, tables: Vec::new() }),
            None => Err(failed(error)),
        },
    }
}

/// A refusal with the formats that the API accepts.
fn accepted_formats(refusal: &str) -> String {
    let accepted = format!(
        "The API accepts files that end in {}, also gzipped: {}",
        api::SUFFIXES.join(", "),
        known_formats::titles_of(&api::SUFFIXES)
    );
    format!("{refusal}. {accepted}")
}

fn written(report: &Report, capture: &DatabaseInfo) -> Option<Files> {
    let run = report.runs.first()?;
    let (json, markdown) = (explain::json(run, capture), Some(explain::markdown(run)));
    Some(Files { json, markdown, tables: explain::tables(run) })
}

/// The text of a file with the outline of a `report.json` of nsys-llm-explainer, complete or not.
fn original_report(path: &Path) -> Option<String> {
    const MAX_BYTES: u64 = 64 << 20;
    if std::fs::metadata(path).ok()?.len() > MAX_BYTES {
        return None;
    }
    let text = std::fs::read_to_string(path).ok()?;
    let json = Json::parse(&text).ok()?;
    let is_object = |key: &str| matches!(json.get_path(&[key]), Some(Json::Object(_)));
    let is_list = |key: &str| matches!(json.get_path(&[key]), Some(Json::Array(_)));
    let has_outline = is_object("tool") && is_object("metrics") && is_list("findings");
    has_outline.then_some(text)
}
