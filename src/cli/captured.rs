//! What `capture.json` beside a trace says about its capture: the section `capture` of its report, and the model's config.

use super::files::{read_text, warn};
use crate::analysis::section::{Section, Value};
use crate::session::UserFile;
use gpuprism_capture::record::{CaptureRecord, FILE, Graphs, Part, Probe, ProbeTime, Stage, StageCapture};
use std::path::Path;

/// The name of the section.
pub(super) const SECTION: &str = "capture";
/// A trace lies in the folder of its stage, of its part, or of the capture.
const MAX_LEVELS: usize = 3;

/// What is known about the capture of one trace.
pub(super) struct Captured {
    pub(super) section: Section,
    /// The `config.json` that was copied with the traces.
    pub(super) config: Option<UserFile>,
}

/// The capture that lists this trace, in the nearest `capture.json` of its folder and the folders above it.
pub(super) fn captured(trace: &Path) -> Option<Captured> {
    let folder = trace.parent()?.ancestors().take(MAX_LEVELS).find(|folder| folder.join(FILE).is_file())?;
    let record = match CaptureRecord::read(folder) {
        Ok(record) => record,
        Err(error) => {
            warn(&format!("{error}; the report continues without it"));
            return None;
        }
    };
    let name = trace.strip_prefix(folder).ok()?.to_str()?.replace('\\', "/");
    let stage = record.captures.iter().find(|stage| stage.files.iter().any(|file| file.path == name))?;
    let config = folder.join("config.json");
    let config = config.is_file().then(|| read_text(&config).ok()).flatten();
    Some(Captured { section: section(&record, stage), config })
}

fn section(record: &CaptureRecord, stage: &StageCapture) -> Section {
    let mut section = Section::new("Capture", "capture.json beside the trace", &[])
        .limit("The times of the probe are measured by the client: they contain HTTP, tokenizing and scheduling.");
    let text = |text: &Option<String>| text.as_ref().map_or(Value::Null, |text| text.as_str().into());
    section.figure("framework", record.framework.title());
    section.figure("framework_version", text(&record.framework_version));
    section.figure("model", text(&record.model));
    section.figure("captured_stage", stage.stage.map_or(Value::Null, |stage| stage.name().into()));
    section.figure("part", part_words(stage.part));
    section.figure("graphs", stage.graphs.map_or(Value::Null, |graphs| graph_words(graphs).into()));
    section.figure("load", load_words(record, stage));
    section.figure("unprofiled_ms", probe_time(stage, stage.unprofiled));
    section.figure("profiled_ms", probe_time(stage, stage.profiled));
    section
}

fn part_words(part: Part) -> &'static str {
    match part {
        Part::Single => "single capture",
        Part::Formal => "with graphs, of a pair",
        Part::Mapping => "without graphs, of a pair",
    }
}

fn graph_words(graphs: Graphs) -> &'static str {
    match graphs {
        Graphs::On => "on",
        Graphs::Off => "off",
    }
}

/// `4 requests of 4,096 words, 1 token each`, or who else sent the load.
fn load_words(record: &CaptureRecord, stage: &StageCapture) -> Value {
    match (&stage.probe, &record.settings.command) {
        (Some(Probe { requests, input_words, output_tokens }), _) => {
            let words =
                format!("probe of {requests} requests, {input_words} words, {output_tokens} tokens asked for each");
            words.as_str().into()
        }
        (None, Some(command)) => command.as_str().into(),
        (None, None) => "own traffic".into(),
    }
}

/// The time of a token of a decode probe, or of a request of a prefill probe.
fn probe_time(stage: &StageCapture, time: Option<ProbeTime>) -> Value {
    let Some(time) = time else { return Value::Null };
    let ms = match stage.stage {
        Some(Stage::Decode) => time.ms_per_output_token,
        Some(Stage::Prefill) => Some(time.ms_per_request),
        None => None,
    };
    ms.map_or(Value::Null, Value::Float)
}
