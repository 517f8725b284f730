//! What `capture.json` beside a trace says about its capture: the section `capture` of its report.

use super::neighbours::{LEVELS_OF_CAPTURE, Neighbours};
use crate::analysis::section::{Section, Value};
use gpuprism_capture::record::{CaptureRecord, FILE, Graphs, Part, Probe, ProbeTime, Stage, StageCapture};

/// The name of the section.
pub(crate) const SECTION: &str = "capture";

/// The section of the capture that lists this trace, in the nearest `capture.json`.
pub(crate) fn captured(beside: &Neighbours) -> Option<Section> {
    let file = beside.find(FILE, LEVELS_OF_CAPTURE)?;
    let folder = file.parent()?;
    let record = CaptureRecord::read(folder)
        .inspect_err(|error| beside.warn(&format!("{error}; the report continues without it")))
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
    let (unprofiled, profiled) = (probe_ms(stage, stage.unprofiled), probe_ms(stage, stage.profiled));
    let value = |number: Option<f64>| number.map_or(Value::Null, Value::Float);
    section.figure("unprofiled_ms", value(unprofiled));
    section.figure("profiled_ms", value(profiled));
    section.figure("profiler_overhead_factor", value(overhead(unprofiled, profiled)));
    section
}

/// How many times as long the same requests took with the profiler.
fn overhead(unprofiled_ms: Option<f64>, profiled_ms: Option<f64>) -> Option<f64> {
    let unprofiled_ms = unprofiled_ms.filter(|ms| *ms > 0.0)?;
    profiled_ms.map(|ms| ms / unprofiled_ms)
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
fn probe_ms(stage: &StageCapture, time: Option<ProbeTime>) -> Option<f64> {
    match stage.stage? {
        Stage::Decode => time?.ms_per_output_token,
        Stage::Prefill => Some(time?.ms_per_request),
    }
}

#[cfg(test)]
mod tests {
    use super::overhead;

    #[test]
    fn the_overhead_is_the_ratio_of_two_measured_times_and_unknown_without_one_of_them() {
        assert_eq!(overhead(Some(8.0), Some(12.0)), Some(1.5));
        assert_eq!(overhead(Some(0.0), Some(12.0)), None);
        assert_eq!(overhead(None, Some(12.0)), None);
        assert_eq!(overhead(Some(8.0), None), None);
    }
}
