//! Documents that come with traces never cause a panic: reports, rules, phase maps, configs of models, server arguments and run logs.
//!
//! The input is the text of a document. A report that is read renders in every output.

use super::whole_way::render;
use gpuprism::input::Imported;
use gpuprism::rules::PhaseMap;
use gpuprism::session::{Opened, UserFile, check_run_log, open, server_args};

/// Checks one input.
pub fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data).into_owned();
    let file = UserFile { file: "fuzz.json".to_owned(), text: text.clone() };
    let _ = server_args(&file);
    let _ = check_run_log(&file);
    if let Ok(phases) = PhaseMap::parse(&file.file, &text) {
        phases.phase_of(&text);
    }
    if let Ok(Opened::Report(report)) = open(&file.file, Imported::Document(text)) {
        render(report.runs);
    }
}
