//! What `capture.json` beside a trace says about its capture: the section `capture` of its report.

use super::files::warn;
use super::neighbours::{LEVELS_OF_CAPTURE, Neighbours};
use crate::analysis::section::{Section, Value};
use gpuprism_capture::record::{CaptureRecord, FILE, Graphs, Part, Probe, ProbeTime, Stage, StageCapture};

/// The name of the section.
pub(super) const SECTION: &str = "capture";
/// The section of the capture that lists this trace, in the nearest `capture.json`.
pub(super) fn captured(beside: &Neighbours) -> Option<Section> {
    let file = beside.find(FILE, LEVELS_OF_CAPTURE)?;
    let folder = file.parent()?;
    let record = CaptureRecord::read(folder)
        .inspect_err(|error| warn(&format!("{error}; the report continues without it")))
        .ok()?;
    let name = beside.trace().strip_prefix(folder).ok()?.to_str()?.replace('\\', "/");
    let stage = record.captures.iter().find(|stage| stage.files.iter().any(|file| file.path == name))?;
    Some(section(&record, stage))
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
