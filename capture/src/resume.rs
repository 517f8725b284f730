//! Goes on with a capture whose traces were copied by hand, or whose other half needs a restarted server.

use crate::capture::{Outcome, absolute, capture_part, copy_commands, recognise};
use crate::collect::{Found, Search, SearchResult, Snapshot};
use crate::http::Client;
use crate::options::{Options, Traffic, Workload};
use crate::progress::{Phase, Progress, Reporter};
use crate::record::{CaptureRecord, Part, Stage, StageCapture, State, TrafficKind};
use crate::stage::trace_files;
use crate::{Cancel, Error, Result};
use std::path::Path;

/// Looks for the traces that a capture awaits. With `options.server` not empty, captures the missing half of a pair. The folder
/// is `options.out`.
pub fn resume(options: &Options, progress: &mut dyn FnMut(Progress), cancel: &Cancel) -> Result<Outcome> {
    let mut reporter = Reporter(progress);
    let mut record = CaptureRecord::read(&options.out)?;
    let out = absolute(&options.out)?;
    let mut missing = None;
    for index in 0..record.captures.len() {
        let Some(capture) = record.captures.get_mut(index).filter(|capture| capture.state == State::AwaitingFiles)
        else {
            continue;
        };
        match find(capture, &out, options, cancel)? {
            Some(note) => missing = missing.or(Some(note)),
            None => reporter.say(Phase::Copy, format!("{}: {} traces", capture.folder, capture.files.len())),
        }
    }
    record.write(&out)?;
    if missing.is_some() {
        let client = Client::new(&record.server, None, cancel)?;
        let next = copy_commands(&record, client.host(), client.is_local(), &options.out);
        return Ok(Outcome { record, missing, next });
    }
    if options.server.is_empty() {
        return complete(record, options, &mut reporter);
    }
    if !record.settings.mapping {
        let why = "the capture is complete and no pair: leave out --server, or capture to another folder with --out";
        return Err(Error::usage(format!("--resume {}: {why}", options.out.display())));
    }
    let options = with_settings(options, &record)?;
    let server = recognise(&options, &mut reporter, cancel)?;
    if server.framework != record.framework {
        let (was, is) = (record.framework.title(), server.facts.title.as_str());
        return Err(Error::failed(format!("the first half is from {was}, and {} is {is}", options.server)));
    }
    capture_part(&options, &server, record, &mut reporter, cancel)
}

/// All traces are here; the other half of a pair may not be.
fn complete(record: CaptureRecord, options: &Options, reporter: &mut Reporter) -> Result<Outcome> {
    let has = |part: Part| record.captures.iter().any(|capture| capture.part == part);
    if record.settings.mapping && !(has(Part::Formal) && has(Part::Mapping)) {
        let half = if has(Part::Formal) { "without" } else { "with" };
        return Err(Error::usage(format!(
            "--resume {}: the half {half} CUDA graphs is missing: restart the server {half} CUDA graphs and add --server URL",
            options.out.display()
        )));
    }
    if let Some(stage) = missing_stage(&record) {
        let stage = stage.name();
        return Err(Error::failed(format!(
            "{}: the capture ended before the {stage} stage: capture that to another folder with --workload {stage}",
            options.out.display()
        )));
    }
    reporter.say(Phase::Done, format!("captured: {}", options.out.display()));
    Ok(Outcome { record, missing: None, next: Vec::new() })
}

/// A stage that an interrupted capture lacks.
fn missing_stage(record: &CaptureRecord) -> Option<Stage> {
    let wanted: &[Stage] = match record.settings.workload? {
        Workload::Prefill => &[Stage::Prefill],
        Workload::Decode => &[Stage::Decode],
        Workload::Both => &[Stage::Prefill, Stage::Decode],
    };
    let parts = record.captures.iter().map(|capture| capture.part);
    let mut pairs = parts.flat_map(|part| wanted.iter().map(move |stage| (part, *stage)));
    let has = |part, stage| record.captures.iter().any(|c| c.part == part && c.stage == Some(stage));
    pairs.find(|(part, stage)| !has(*part, *stage)).map(|(_, stage)| stage)
}

/// Takes the traces that are in the stage's folder. Returns a sentence if there are none.
fn find(capture: &mut StageCapture, out: &Path, options: &Options, cancel: &Cancel) -> Result<Option<String>> {
    let folder = out.join(&capture.folder);
    let search = Search {
        folder: &folder,
        before: &Snapshot::default(),
        ranks: Some(1),
        wait: options.pacing.stable,
        max_bytes: options.max_bytes,
        pacing: &options.pacing,
        cancel,
    };
    let SearchResult::Found { traces, .. } = search.run()? else {
        return Ok(Some(format!(
            "{} has no complete trace with GPU kernels yet: copy the traces there and resume again",
            folder.display()
        )));
    };
    capture.files = trace_files(out, &own(traces, capture.file_word.as_deref()));
    capture.state = State::Complete;
    Ok(None)
}

/// The traces whose names have the word that the server was told, if any has: a copied folder may contain older ones.
fn own(traces: Vec<Found>, word: Option<&str>) -> Vec<Found> {
    let is_own = |trace: &Found| word.is_some_and(|word| trace.path.to_string_lossy().contains(word));
    if traces.iter().any(is_own) { traces.into_iter().filter(is_own).collect() } else { traces }
}

/// The options of the first half, so that both halves are alike.
fn with_settings(options: &Options, record: &CaptureRecord) -> Result<Options> {
    let settings = &record.settings;
    let traffic = match (settings.traffic, settings.workload, &settings.command) {
        (TrafficKind::Probe, Some(workload), _) => Traffic::Probe(workload),
        (TrafficKind::Own, _, _) => Traffic::Own,
        (TrafficKind::Command, _, Some(command)) => Traffic::Command(command.clone()),
        _ => return Err(Error::failed("capture.json names no workload: capture again to another folder")),
    };
    let mut options = options.clone();
    options.mapping = true;
    options.traffic = traffic;
    options.steps = settings.steps;
    options.probe.warmup_steps = settings.warmup_steps;
    for capture in &record.captures {
        let Some(probe) = capture.probe else { continue };
        match capture.stage {
            Some(Stage::Prefill) => {
                options.probe.prefill_input_words = probe.input_words;
                options.probe.prefill_output_tokens = probe.output_tokens;
            }
            Some(Stage::Decode) => {
                options.probe.decode_input_words = probe.input_words;
                options.probe.decode_output_tokens = Some(probe.output_tokens);
                options.probe.requests = probe.requests;
            }
            None => {}
        }
    }
    Ok(options)
}
