//! What the command line and the page both do: say what a file is, and analyse a trace with the rules and options chosen.

mod chrome_trace;
mod named_windows;
mod window;
mod window_cache;
#[cfg(test)]
mod window_cache_tests;

pub use chrome_trace::chrome_trace;
pub use named_windows::{NamedWindow, WindowGroup, named_windows};
pub use window::{strips, text as text_of_window, window, window_in, window_text};
pub use window_cache::WindowCache;

use crate::analysis::context::Reused;
use crate::analysis::index::WindowSegments;
use crate::analysis::kernels;
use crate::analysis::kernels::one_kernel::OneKernel;
use crate::analysis::pivot::cells;
use crate::analysis::pivot::cells::{Axis, Cube};
use crate::analysis::results::{Attribution, Notice, Run, Severity};
use crate::analysis::section::Section;
use crate::analysis::structure::stages::stage_of_path;
use crate::analysis::summary::Summary;
use crate::analysis::triage::{self, ServerArgs, Stage};
use crate::analysis::{self, Groups, add_sections, first_results};
use crate::input::{Imported, folder};
use crate::json::from_json;
use crate::report::{Report, foreign};
use crate::rules::{PhaseMap, RuleBook, RuleSet, looks_like_phase_map, looks_like_rules};
use crate::trace::{Ns, Trace, Window};
use crate::{Error, Result};

/// What a file turned out to be.
#[derive(Debug)]
pub enum Opened {
    /// A trace, ready to be analysed.
    Trace(Box<Trace>),
    /// An earlier report, to look at again.
    Report(Report),
    /// A file of another tool, as text: in the page the desk alone can [`translate`] it.
    #[cfg(target_arch = "wasm32")]
    Foreign(String),
    /// A rule file, as text.
    Rules(String),
    /// A phase map, as text.
    Phases(String),
    /// The arguments of the server that wrote the traces beside it, as text.
    Server(String),
}

/// What SGLang calls the file of its arguments beside its traces.
pub const SERVER_ARGS: &str = "server_args.json";

/// Tells reports, rule files and phase maps apart from other JSON.
///
/// # Errors
/// Where the document is none of them, or a report of another version or without runs, or a phase map with a pattern that does not work.
pub fn open(label: &str, imported: Imported) -> Result<Opened> {
    match imported {
        Imported::Trace(trace) => Ok(Opened::Trace(trace)),
        Imported::Document(text) if Report::is_report(&text) => match Report::read(label, &text)? {
            report if report.runs.is_empty() => {
                Err(Error::refused(label, "a gpuprism report that holds no runs: make it again from the trace"))
            }
            report => Ok(Opened::Report(report)),
        },
        Imported::Document(text) if label.ends_with(SERVER_ARGS) => Ok(Opened::Server(text)),
        Imported::Document(text) if looks_like_rules(&text) => Ok(Opened::Rules(text)),
        Imported::Document(text) if looks_like_phase_map(&text) => {
            PhaseMap::parse(label, &text).map(|_| Opened::Phases(text))
        }
        Imported::Document(text) if foreign::is_foreign(&text) => opened_foreign(label, text),
        Imported::Document(_) => Err(Error::refused(
            label,
            "JSON, but no trace: it has no `traceEvents`, and it is neither a report of gpuprism or nsys-llm-explainer, nor a rule \
             file, nor a phase map",
        )),
    }
}

#[cfg(target_arch = "wasm32")]
#[allow(clippy::unnecessary_wraps, reason = "natively it is read, which may fail")]
fn opened_foreign(_: &str, text: String) -> Result<Opened> {
    Ok(Opened::Foreign(text))
}

#[cfg(not(target_arch = "wasm32"))]
#[allow(clippy::needless_pass_by_value, reason = "the page keeps the text")]
fn opened_foreign(label: &str, text: String) -> Result<Opened> {
    translate(label, &text).map(Opened::Report)
}

/// The report that a file of nsys-llm-explainer makes: its report.json, or its series of samples.
///
/// # Errors
/// Where the text is neither.
pub fn translate(label: &str, text: &str) -> Result<Report> {
    Ok(Report::new(vec![foreign::read(label, text)?]))
}

/// A rule file or a phase map that the person adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleFile {
    /// What to call it in errors.
    pub file: String,
    /// Its text.
    pub text: String,
}
from_json!(RuleFile { file, text });

/// Everything a person can choose about an analysis.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Choices {
    /// What `elapsed_ns` means.
    pub attribution: Attribution,
    /// All devices as one, as gputrc2graph does.
    pub merge_devices: bool,
    /// The engine of the rule set; together with `model`, or neither.
    pub engine: Option<String>,
    /// The model of the rule set.
    pub model: Option<String>,
    /// Wall time of the same work without a profiler, in seconds as decimal text; zero or none: the trace's window.
    pub wall_seconds: Option<String>,
    /// Rule files beside the built-in ones, later ones first in line.
    pub rules: Vec<RuleFile>,
    /// Rows of the table of top kernels.
    pub kernel_limit: Option<usize>,
    /// Leave the explaining sections out: of a large trace the other results can be shown first.
    pub without_sections: bool,
    /// The person's own phases, a JSON object of phase and patterns.
    pub phase_map: Option<RuleFile>,
    /// The part of the trace to look at, as [`window`] reads it; none: all of it.
    pub window: Option<String>,
}
from_json!(strict Choices {
    ; attribution, merge_devices, engine, model, wall_seconds, rules, kernel_limit, without_sections, phase_map, window
});

/// The built-in rule files and the person's.
///
/// # Errors
/// A rule file that cannot be used, named by file, engine, model and rule.
pub fn rule_book(files: &[RuleFile]) -> Result<(RuleBook, Vec<Notice>)> {
    let mut book = RuleBook::embedded();
    let mut notices = Vec::new();
    for RuleFile { file, text } in files {
        let (mut same, mut changed): (Vec<_>, Vec<_>) =
            book.add(file, text)?.into_iter().partition(|duplicate| duplicate.was == duplicate.now);
        if same.len() > MOST_REPEATED {
            let message = format!("{file}: {} rules given again with the same category", same.len());
            notices.push(duplicate_rule(message, same.len() as u64));
        } else {
            changed.append(&mut same);
        }
        notices.extend(changed.iter().map(|duplicate| duplicate_rule(duplicate.to_string(), 1)));
    }
    Ok((book, notices))
}

/// Rules of one file that change nothing and are still named one by one. A whole set that was exported changes no rule.
const MOST_REPEATED: usize = 3;

fn duplicate_rule(message: String, count: u64) -> Notice {
    Notice {
        severity: Severity::Info,
        code: "duplicate_rule".to_owned(),
        message,
        count,
        advice: "The file added last wins.".to_owned(),
    }
}

/// The rule set to use: the one picked, or the only one that the person's files bring, or gpuprism's own.
///
/// # Errors
/// An engine and model that no file has, or one without the other.
pub fn pick_rules(book: &RuleBook, choices: &Choices) -> Result<RuleSet> {
    match (choices.engine.as_deref(), choices.model.as_deref()) {
        (Some(engine), Some(model)) => book.select(engine, model),
        (None, None) => match only_set(&choices.rules)? {
            Some((engine, model)) => book.select(&engine, &model),
            None => book.select("gpuprism", "default"),
        },
        _ => Err(Error::usage(
            "rules",
            "an engine and a model go together: give both `--engine` and `--model`, or neither",
        )),
    }
}

fn only_set(files: &[RuleFile]) -> Result<Option<(String, String)>> {
    let mut sets = own_sets(files)?;
    Ok(if sets.len() == 1 { sets.pop() } else { None })
}

/// Engine and model of every set in the person's own files.
fn own_sets(files: &[RuleFile]) -> Result<Vec<(String, String)>> {
    let mut own = RuleBook::default();
    for RuleFile { file, text } in files {
        own.add(file, text)?;
    }
    Ok(own.sets().map(|(engine, model)| (engine.to_owned(), model.to_owned())).collect())
}

/// Says so where rules were added and none of them is in use.
fn unused_rules(choices: &Choices, rules: &RuleSet) -> Result<Option<Notice>> {
    let sets: Vec<String> =
        own_sets(&choices.rules)?.into_iter().map(|(engine, model)| format!("{engine}/{model}")).collect();
    let unused = !sets.is_empty() && !sets.iter().any(|set| set == rules.label());
    Ok(unused.then(|| Notice {
        severity: Severity::Warning,
        code: "rules_not_in_use".to_owned(),
        message: format!("the rules added are for {}; {} is in use", sets.join(", "), rules.label()),
        count: sets.len() as u64,
        advice: "Pick the engine and the model whose rules you mean.".to_owned(),
    }))
}

/// Seconds as decimal text, exact to the nanosecond; zero means that none were given.
///
/// # Errors
/// What is no number, or below zero.
pub fn wall(seconds: Option<&str>) -> Result<Option<Ns>> {
    const SECONDS: u32 = 9;
    let Some(text) = seconds.map(str::trim).filter(|text| !text.is_empty()) else { return Ok(None) };
    // The original tools' examples write `.35`.
    let whole = if text.starts_with('.') { format!("0{text}") } else { text.to_owned() };
    match Ns::from_decimal(whole.as_bytes(), SECONDS) {
        Some(Ns::ZERO) => Ok(None),
        Some(wall) if wall > Ns::ZERO => Ok(Some(wall)),
        _ => Err(Error::usage(
            format!("wall time `{text}`"),
            "not a number of seconds: write for example 12.5, or 0 for the trace's window",
        )),
    }
}

/// Analyses one trace as chosen.
///
/// # Errors
/// Those of [`rule_book`], [`pick_rules`], [`PhaseMap::parse`], [`wall`] and [`window`].
pub fn run(trace: &Trace, choices: &Choices) -> Result<Run> {
    match part(trace, choices)? {
        Some(part) => run_all(&part, choices),
        None => run_all(trace, choices),
    }
}

/// First results of a trace or window, and what they were made from, until the sections are requested.
#[derive(Debug)]
struct First {
    /// Those of the report with sections.
    choices: Choices,
    part: Option<Trace>,
    run: Run,
    groups: Groups,
}

/// With fewer ops, computing the sections takes less time than drawing the first results would.
const MANY_OPS: usize = 120_000;

/// Are there so many GPU ops in the chosen window that first results should be shown before the sections?
///
/// # Errors
/// Those of [`window`].
pub fn takes_a_while(trace: &Trace, choices: &Choices) -> Result<bool> {
    let ops = picked(trace, choices)?.map_or(trace.gpu_ops.len(), |window| trace.gpu_ops.count_starting_in(window));
    Ok(ops > MANY_OPS)
}

/// The chosen window; none for all of the trace.
///
/// # Errors
/// Those of [`window`].
pub fn picked(trace: &Trace, choices: &Choices) -> Result<Option<Window>> {
    Ok(choices.window.as_deref().map(|text| window(trace, text)).transpose()?.flatten())
}

/// The part of the trace that lies in the chosen window.
fn part(trace: &Trace, choices: &Choices) -> Result<Option<Trace>> {
    Ok(picked(trace, choices)?.map(|picked| trace.within(picked)))
}

/// The chosen window of a trace, as [`chrome_trace`] writes it.
///
/// # Errors
/// Those of [`window`] and [`chrome_trace`].
pub fn slice(trace: &Trace, choices: &Choices) -> Result<String> {
    chrome_trace(part(trace, choices)?.as_ref().unwrap_or(trace))
}

fn run_all(trace: &Trace, choices: &Choices) -> Result<Run> {
    let (mut run, groups) = first_run(trace, choices, None)?;
    let reused = Reused { groups: Some(&groups), ..Reused::default() };
    add_sections(&mut run, trace, &options(trace, choices)?, reused);
    Ok(run)
}

fn first_run(trace: &Trace, choices: &Choices, segments: Option<&WindowSegments<Summary>>) -> Result<(Run, Groups)> {
    let (book, duplicates) = rule_book(&choices.rules)?;
    let rules = pick_rules(&book, choices)?;
    let (mut run, groups) = first_results(trace, &rules, &options(trace, choices)?, segments);
    run.notices.extend(duplicates);
    run.notices.extend(unused_rules(choices, &rules)?);
    run.notices.sort_by_key(|notice| std::cmp::Reverse(notice.severity));
    Ok((run, groups))
}

fn options(trace: &Trace, choices: &Choices) -> Result<analysis::Options> {
    Ok(analysis::Options {
        attribution: choices.attribution,
        merge_devices: choices.merge_devices,
        // A wall time is one of the whole run.
        wall: wall(choices.wall_seconds.as_deref())?.filter(|_| trace.cut.is_none()),
        kernel_limit: choices.kernel_limit.unwrap_or(analysis::Options::KERNEL_LIMIT),
        without_sections: choices.without_sections,
        phase_map: choices.phase_map.as_ref().map(|map| PhaseMap::parse(&map.file, &map.text)).transpose()?,
    })
}

/// The cube of one trace for a pivot with these axes, counted as chosen.
///
/// # Errors
/// Those of [`window`].
pub fn cube(trace: &Trace, choices: &Choices, axes: &[Axis]) -> Result<Cube> {
    let part = part(trace, choices)?;
    Ok(cells::cube(part.as_ref().unwrap_or(trace), choices.attribution, choices.merge_devices, axes))
}

/// One kernel in detail, in the chosen window and under the chosen rules.
///
/// # Errors
/// Those of [`rule_book`], [`pick_rules`] and [`window`].
pub fn one_kernel(trace: &Trace, choices: &Choices, name: &str, columns: usize) -> Result<OneKernel> {
    let part = part(trace, choices)?;
    let (book, _) = rule_book(&choices.rules)?;
    let rules = pick_rules(&book, choices)?;
    let mut found = kernels::one_kernel::one_kernel(part.as_ref().unwrap_or(trace), &rules, name, columns);
    if let Some(raw) = &found.raw {
        let rule = book.rule_of(&rules, raw, &found.name);
        let (rule, from) =
            rule.map_or(("no rule fits", ""), |rule| (rule, origin(&choices.rules, rules.label(), rule)));
        let from = if from.is_empty() { rules.label().to_owned() } else { format!("{}, {from}", rules.label()) };
        found.detail.figure("category_rule", rule);
        found.detail.figure("rules", from);
    }
    Ok(found)
}

/// The file that a rule is from: the last of the person's that has it, or what is built in.
fn origin<'a>(files: &'a [RuleFile], label: &str, regex: &str) -> &'a str {
    let has = |file: &&RuleFile| {
        let mut book = RuleBook::default();
        book.add(&file.file, &file.text).is_ok() && book.has_rule(label, regex)
    };
    files.iter().rev().find(has).map_or("built in", |file| &file.file)
}

/// Triages one trace: an ordinary run with the tables of the triage among its sections.
///
/// # Errors
/// Those of [`run`].
pub fn triage(request: &triage::Request, choices: &Choices) -> Result<Run> {
    match part(request.trace, choices)? {
        Some(part) => triage_all(&triage::Request { trace: &part, ..*request }, choices),
        None => triage_all(request, choices),
    }
}

fn triage_all(request: &triage::Request, choices: &Choices) -> Result<Run> {
    let mut run = run_all(request.trace, choices)?;
    run.sections.extend(triage::triage(request));
    if let Some(summary) = run.sections.get_mut("triage_summary") {
        say_mapping(summary, request.mapping);
    }
    Ok(run)
}

fn say_mapping(summary: &mut Section, mapping: &[&Trace]) {
    let labels: Vec<&str> = mapping.iter().map(|trace| trace.label.as_str()).collect();
    if !labels.is_empty() && summary.summary.get("mapping_traces").is_none() {
        summary.figure("mapping_traces", labels.join("\n"));
    }
}

/// A file of a folder, with the stage that its path tells.
pub fn folder_entry(path: &str, bytes: u64, modified: i64) -> folder::Entry {
    folder::Entry { path: path.to_owned(), bytes, modified, stage: stage_place(stage_of_path(path)) }
}

/// A stage as [`folder::Entry`] has it.
pub fn stage_place(stage: Stage) -> Option<u8> {
    let place = Stage::ALL.iter().position(|known| *known == stage && stage != Stage::All);
    place.and_then(|place| u8::try_from(place).ok())
}

/// The stage of a [`folder::Entry`].
pub fn stage_at(place: Option<u8>) -> Stage {
    place.and_then(|place| Stage::ALL.get(usize::from(place)).copied()).unwrap_or(Stage::All)
}

/// Stops where the log of a run says that its work was not done by the framework's own code.
///
/// # Errors
/// A log that tells of a diffusers backend.
pub fn check_run_log(log: &RuleFile) -> Result<()> {
    let Some(words) = folder::diffusers_phrase(&log.text) else { return Ok(()) };
    let why = format!(
        "the log says \"{words}\": a diffusers backend did the work of this run, not the framework's own code, so a \
         triage would name the wrong kernels; run it again on the native backend"
    );
    Err(Error::refused(&log.file, why))
}

/// Reads `server_args.json`.
///
/// # Errors
/// What is no JSON object.
pub fn server_args(file: &RuleFile) -> Result<ServerArgs> {
    let arguments = serde_json::from_str(&file.text);
    arguments.map(ServerArgs).map_err(|error| {
        Error::refused(
            &file.file,
            format!("no arguments of a server, which are a JSON object as in SGLang's server_args.json: {error}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Format, TraceBuilder};

    fn choices(rules: &[&str]) -> Choices {
        let file = |text: &&str| RuleFile { file: "mine.json".into(), text: (*text).into() };
        Choices { rules: rules.iter().map(file).collect(), ..Choices::default() }
    }

    fn run_with(choices: &Choices) -> Result<Run> {
        run(&TraceBuilder::new("t", Format::TorchProfiler).finish(), choices)
    }

    #[test]
    fn the_only_set_a_person_brings_is_used_and_several_wait_to_be_picked() {
        let one = r#"{"mine": {"m": {"k": "x"}}}"#;
        let two = r#"{"mine": {"m": {"k": "x"}, "n": {"k": "y"}}}"#;
        assert_eq!(run_with(&choices(&[])).unwrap().rules, "gpuprism/default");
        assert_eq!(run_with(&choices(&[one])).unwrap().rules, "mine/m");
        let run = run_with(&choices(&[two])).unwrap();
        assert_eq!(run.rules, "gpuprism/default");
        let codes: Vec<&str> = run.notices.iter().map(|notice| notice.code.as_str()).collect();
        assert_eq!(codes, ["no_gpu_events", "rules_not_in_use"]);
        let picked = Choices { engine: Some("mine".into()), model: Some("n".into()), ..choices(&[two]) };
        assert_eq!(run_with(&picked).unwrap().rules, "mine/n");
    }

    /// Two kernels that overlap, a third behind a gap, the call that launched it and the range around that.
    fn small_trace() -> Trace {
        let event = |cat: &str, name: &str, pid: u32, ts: u32, dur: u32| {
            format!(
                r#"{{"ph": "X", "cat": "{cat}", "name": "{name}", "pid": {pid}, "tid": 7, "ts": {ts}, "dur": {dur},
                "args": {{"device": 0, "stream": 7, "correlation": {ts}}}}}"#
            )
        };
        let events = [
            event("kernel", "gemm", 0, 100, 40),
            event("kernel", "rms_norm", 0, 120, 40),
            event("user_annotation", "decode", 1, 198, 20),
            event("cuda_runtime", "cudaLaunchKernel", 1, 200, 3),
            event("kernel", "gemm", 0, 200, 50),
        ];
        let mut importer = crate::input::Importer::new("t.json");
        importer.feed(format!(r#"{{"traceEvents": [{}]}}"#, events.join(",")).as_bytes()).unwrap();
        let Imported::Trace(trace) = importer.finish().unwrap() else { panic!("a trace") };
        *trace
    }

    #[test]
    fn sections_that_come_after_first_results_make_the_same_run() {
        let trace = small_trace();
        let mut cache = WindowCache::default();
        let wanted = Choices { window: Some(window_text(&trace, 0.1, 0.9)), ..Choices::default() };
        let soon = Choices { without_sections: true, ..wanted.clone() };
        let text = |choices: &Choices| Report::new(vec![run(&trace, choices).unwrap()]).compact();
        let others = Choices { attribution: Attribution::Fair, ..wanted.clone() };
        for then in [&wanted, &others] {
            let at_once = cache.report(&trace, &soon).unwrap();
            assert!(cache.first.is_some() && at_once == text(&soon));
            let whole = cache.report(&trace, then).unwrap();
            assert_eq!(whole, text(then));
            assert!(cache.call_ranges.get().is_some() && whole.contains(r#""mapped_kernel_count":1"#));
            assert!(cache.first.is_none(), "the window is dropped after the last report");
        }
    }

    #[test]
    fn a_phase_map_adds_its_sections_and_a_bad_one_is_refused() {
        let with_map = |text: &str| {
            let map = RuleFile { file: "map.json".into(), text: text.into() };
            run_with(&Choices { phase_map: Some(map), ..Choices::default() })
        };
        assert!(!run_with(&Choices::default()).unwrap().sections.contains_key("nvtx_phases"));
        let sections = with_map(r#"{"prefill": "extend"}"#).unwrap().sections;
        assert!(sections.contains_key("nvtx_phases") && sections.contains_key("nvtx_kernel_phases"));
        let error = with_map(r#"{"prefill": "re:("}"#).unwrap_err().to_string();
        assert!(error.contains("map.json: prefill / re:("), "{error}");
    }

    #[test]
    fn an_engine_goes_with_its_model() {
        let half = Choices { engine: Some("sglang".into()), ..Choices::default() };
        assert!(run_with(&half).unwrap_err().is_usage());
        let unknown = Choices { engine: Some("sglang".into()), model: Some("nope".into()), ..Choices::default() };
        let error = run_with(&unknown).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains("llama"), "{error}");
    }

    #[test]
    fn wall_seconds_are_exact_and_zero_means_none() {
        assert_eq!(wall(Some("12.000000001")), Ok(Some(Ns(12_000_000_001))));
        assert_eq!(wall(Some(".35")), Ok(Some(Ns(350_000_000))));
        assert_eq!((wall(Some("0")), wall(Some(" ")), wall(None)), (Ok(None), Ok(None), Ok(None)));
        for bad in ["-1", "fast", "1e400", "NaN"] {
            assert!(wall(Some(bad)).unwrap_err().is_usage(), "{bad}");
        }
    }
}
