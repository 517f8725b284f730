//! What `capture.json` beside a trace says about its capture: the section `capture` of its report.

use super::neighbours::{LEVELS_OF_CAPTURE, Neighbours};
use crate::analysis::captured::{Captured, CapturedFigures};
use crate::analysis::section::{Answer, Ms, TypedSection};
use gpuprism_capture::record::{CaptureRecord, FILE, Graphs, Part, Probe, ProbeTime, Stage, StageCapture};

/// The section of the capture that lists this trace, in the nearest `capture.json`.
pub(crate) fn captured(beside: &Neighbours) -> Option<Answer<Captured>> {
    let file = beside.find(FILE, LEVELS_OF_CAPTURE)?;
    let folder = file.parent()?;
    let record = CaptureRecord::read(folder)
        .inspect_err(|error| beside.warn(&format!("{error}; the report continues without it")))
        .ok()?;
    let name = beside.trace().strip_prefix(folder).ok()?.to_str()?.replace('\\', "/");
    let stage = record.captures.iter().find(|stage| stage.files.iter().any(|file| file.path == name))?;
    Some(answer(&record, stage))
}

fn answer(record: &CaptureRecord, stage: &StageCapture) -> Answer<Captured> {
    let (unprofiled, profiled) = (probe_ms(stage, stage.unprofiled), probe_ms(stage, stage.profiled));
    Captured::answer("capture.json beside the trace")
        .limit("The times of the probe are measured by the client: they contain HTTP, tokenizing and scheduling.")
        .with_figures(CapturedFigures {
            framework: record.framework.title().to_owned(),
            framework_version: record.framework_version.clone(),
            model: record.model.clone(),
            captured_stage: stage.stage.map(|stage| stage.name().to_owned()),
            part: part_words(stage.part).to_owned(),
            graphs: stage.graphs.map(|graphs| graph_words(graphs).to_owned()),
            load: load_words(record, stage),
            unprofiled_ms: unprofiled.map(Ms),
            profiled_ms: profiled.map(Ms),
            profiler_overhead_factor: overhead(unprofiled, profiled),
        })
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
fn load_words(record: &CaptureRecord, stage: &StageCapture) -> String {
    match (&stage.probe, &record.settings.command) {
        (Some(Probe { requests, input_words, output_tokens }), _) => {
            format!("probe of {requests} requests, {input_words} words, {output_tokens} tokens asked for each")
        }
        (None, Some(command)) => command.clone(),
        (None, None) => "own traffic".to_owned(),
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
