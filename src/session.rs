//! Applies the user's [`Choices`] to a trace: rules, window, wall time, attribution. For the command line and the page.
//!
//! [`open`] detects the type of an imported file, [`run`] analyses a trace, and [`WindowCache`] keeps intermediate
//! results to make the report of another window of the same trace faster.

#[cfg(test)]
mod blocking_site_tests;
mod chrome_events;
mod chrome_trace;
mod graph_captures;
#[cfg(test)]
mod late_code_tests;
mod named_windows;
mod timeline;
#[cfg(not(target_arch = "wasm32"))]
mod what_if;
mod window;
mod window_cache;
#[cfg(test)]
mod window_cache_tests;

pub use chrome_trace::chrome_trace;
pub use graph_captures::{CAPTURE_DETAILS, CaptureFile, CapturesBeside};
pub use named_windows::{NamedWindow, WindowGroup, named_windows};
pub use timeline::OpenTimeline;
#[cfg(not(target_arch = "wasm32"))]
pub use what_if::{Simulated, check_found, simulate};
pub use window::{overview, strips, text as text_of_window, window, window_in, window_text};
pub use window_cache::WindowCache;

pub use crate::analysis::host::code_search::look_up_code;

use crate::analysis::categories;
use crate::analysis::context::Reused;
use crate::analysis::host::start_up;
use crate::analysis::index::WindowSegments;
use crate::analysis::inference::floor::Parallel;
use crate::analysis::inference::model_config::{ModelConfig, looks_like_model_config};
use crate::analysis::inference::served_model::ServedModel;
use crate::analysis::kernels;
use crate::analysis::kernels::one_kernel::{OneKernel, Sharing};
use crate::analysis::pivot::cells;
use crate::analysis::pivot::cells::{Axis, PivotCells};
use crate::analysis::replay::asked::Asked;
use crate::analysis::results::{Attribution, Notice, Run, Severity, Verdict};
use crate::analysis::section::{Section, TypedSection};
use crate::analysis::sections;
use crate::analysis::structure::stages::stage_of_path;
use crate::analysis::summary::Summary;
use crate::analysis::triage::summary::{TriageSummary, TriageSummaryFigures};
use crate::analysis::triage::{self, ServerArgs, Stage};
use crate::analysis::{self, Groups, add_sections, first_results};
use crate::input::known_formats::{Other, not_read};
use crate::input::{Imported, folder};
use crate::json::from_json;
use crate::ordering;
use crate::report::{Report, foreign, proton_tree};
use crate::rules::signals::{CallKind, Signals};
use crate::rules::{PhaseMap, RuleBook, RuleSet, looks_like_phase_map, looks_like_rules};
use crate::trace::{CODE_IS_BUILT, CallRole, FirstLaunches, JoinedCapture, Ns, Trace, UnrecordedWork, Window};
use crate::{Error, Result};
use std::sync::Arc;

/// The content of an imported file.
#[derive(Debug)]
pub enum Opened {
    /// A trace.
    Trace(Box<Trace>),
    /// A report that gpuprism wrote, or that of another tool, translated.
    Report(Report),
    /// The report of another tool, as text. In the page only the worker for reports contains [`translate`].
    #[cfg(target_arch = "wasm32")]
    Foreign(String),
    /// A rule file, as text.
    Rules(String),
    /// A phase map, as text.
    Phases(String),
    /// The config.json of a model, as text.
    ModelConfig(String),
    /// The arguments of the server that wrote the traces in the same folder, as text.
    Server(String),
}

/// The name of the file with the server arguments that SGLang writes into the folder of its traces.
pub const SERVER_ARGS: &str = "server_args.json";

/// Looks up the code that a GPU waited for if it is a trace. Detects whether a document is a report, a rule file, a phase map,
/// the config of a model or server arguments.
///
/// # Errors
/// The document is none of these, a report of another version or without runs, a phase map with an invalid
/// pattern, or the config of a model that is not supported.
pub fn open(label: &str, imported: Imported) -> Result<Opened> {
    match imported {
        Imported::Trace(mut trace) => {
            find_unrecorded_work(&mut trace);
            if CODE_IS_BUILT {
                look_up_code(&mut trace);
            }
            // Only the page has a timeline, which draws all code.
            if cfg!(not(target_arch = "wasm32")) {
                trace.packed_code = None;
            }
            Ok(Opened::Trace(trace))
        }
        Imported::Document(text) if Report::is_report(&text) => match Report::read(label, &text)? {
            report if report.runs.is_empty() => {
                Err(Error::refused(label, "a gpuprism report that contains no runs: create it again from the trace"))
            }
            report => Ok(Opened::Report(report)),
        },
        Imported::Document(text) if label.ends_with(SERVER_ARGS) => Ok(Opened::Server(text)),
        Imported::Document(text) if looks_like_model_config(&text) => {
            // The page's first module leaves it to the second one, which reads the file again.
            if sections::ARE_COMPILED {
                ModelConfig::parse(label, &text)?;
            }
            Ok(Opened::ModelConfig(text))
        }
        Imported::Document(text) if looks_like_rules(&text) => Ok(Opened::Rules(text)),
        Imported::Document(text) if looks_like_phase_map(&text) => {
            PhaseMap::parse(label, &text).map(|_| Opened::Phases(text))
        }
        #[cfg(target_arch = "wasm32")]
        Imported::Document(text) if is_of_another_tool(&text) => Ok(Opened::Foreign(text)),
        #[cfg(not(target_arch = "wasm32"))]
        Imported::Document(text) if is_of_another_tool(&text) => translate(label, &text).map(Opened::Report),
        Imported::Document(_) => Err(not_read(label, Other::Document)),
    }
}

/// Fills [`Trace::unrecorded_work`], [`Trace::first_launches`] and [`Trace::start_ups`]. Must run before
/// [`look_up_code`], which depends on the idle time.
pub fn find_unrecorded_work(trace: &mut Trace) {
    let signals = Signals::embedded();
    let role = |name: &str| match signals.call(name) {
        CallKind::Launch => CallRole::LaunchesKernel,
        CallKind::GraphLaunch => CallRole::LaunchesGraph,
        CallKind::CopyAsync => CallRole::Copies,
        CallKind::CopyBlocking => CallRole::CopiesAndWaits,
        CallKind::Set => CallRole::Sets,
        CallKind::Synchronize => CallRole::Synchronizes,
        CallKind::BeginCapture => CallRole::BeginsCapture,
        CallKind::EndCapture => CallRole::EndsCapture,
        CallKind::DoesNotBlock | CallKind::Allocation | CallKind::Other => CallRole::Other,
    };
    // Nothing but sections compares the two clocks.
    if CODE_IS_BUILT {
        trace.correct_clock_lag(&role);
    }
    trace.unrecorded_work = UnrecordedWork::of(trace, &role);
    // Only sections mention them.
    if CODE_IS_BUILT {
        trace.first_launches = FirstLaunches::of(trace, &role);
        trace.start_ups = start_up::find(trace).map(Arc::new);
    }
}

/// Whether the text has tables of another tool and no trace, so that [`translate`] reads it.
pub fn is_of_another_tool(text: &str) -> bool {
    proton_tree::is_tree(text) || foreign::is_foreign(text)
}

/// Translates a `report.json` or `nvlink_timeseries.csv` of nsys-llm-explainer, or the tree of Proton, into a report.
///
/// # Errors
/// The text is neither.
pub fn translate(label: &str, text: &str) -> Result<Report> {
    let run = if proton_tree::is_tree(text) { proton_tree::read(label, text)? } else { foreign::read(label, text)? };
    Ok(Report::new(vec![run]))
}

/// A file that the user added: rules, a phase map, the config of a model, server arguments or a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserFile {
    /// The name of the file, for error messages.
    pub file: String,
    /// Its text.
    pub text: String,
}
from_json!(UserFile { file, text });

/// The user's choices for an analysis.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Choices {
    /// How time of overlapping ops is shared out in `elapsed_ns`.
    pub attribution: Attribution,
    /// Whether all devices are analyzed as one, as in gputrc2graph.
    pub merge_devices: bool,
    /// The engine of the rule set. Either both `engine` and `model` are given or neither.
    pub engine: Option<String>,
    /// The model of the rule set.
    pub model: Option<String>,
    /// Wall time of the same work without a profiler, in seconds as decimal text. If zero or not given, the length of
    /// the trace is used.
    pub wall_seconds: Option<String>,
    /// Rule files in addition to the built-in ones. If rules conflict, the file added last wins.
    pub rules: Vec<UserFile>,
    /// The number of rows in the table of top kernels.
    pub kernel_limit: Option<usize>,
    /// Whether to skip the sections. The other results of a large trace are then available sooner.
    pub without_sections: bool,
    /// The user's phases: a JSON object of phase name to patterns.
    pub phase_map: Option<UserFile>,
    /// The model that the traced server runs.
    pub model_config: ModelChoice,
    /// The time range to analyse, in the format of [`window()`]; `None` for the whole trace.
    pub window: Option<String>,
    /// Changes that are replayed together, in the format of [`Asked::parse`].
    pub what_if: Vec<String>,
}
from_json!(strict Choices {
    ; attribution, merge_devices, engine, model, wall_seconds, rules, kernel_limit, without_sections, phase_map,
    model_config, window, what_if
});

/// What the user says about the model that the traced server runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelChoice {
    /// Its config.json.
    pub config: Option<UserFile>,
    /// The weights that one GPU reads in a step, in GB as decimal text.
    pub weights_gb: Option<String>,
    /// GPUs that share each matrix.
    pub tp: Option<u64>,
    /// GPUs that share the experts.
    pub ep: Option<u64>,
    /// GPUs that share the layers.
    pub pp: Option<u64>,
    /// Groups of GPUs with requests of their own.
    pub dp: Option<u64>,
    /// The server arguments found next to the trace. They count if none of the four numbers is given.
    pub server: Option<UserFile>,
}
from_json!(strict ModelChoice { ; config, weights_gb, tp, ep, pp, dp, server });

/// Reads what the user says about the model.
///
/// # Errors
/// The config is not that of a supported model, the size of the weights is not a positive number, or a number of GPUs is zero.
pub fn served_model(choice: &ModelChoice) -> Result<ServedModel> {
    let ModelChoice { config, weights_gb, tp, ep, pp, dp, server } = choice;
    let numbers = [tp, ep, pp, dp];
    if numbers.iter().any(|number| **number == Some(0)) {
        return Err(Error::usage("--tp, --ep, --pp, --dp", "0 GPUs cannot share a model: give 1 or more"));
    }
    let or_one = |number: &Option<u64>| number.unwrap_or(1);
    let given = Parallel { tp: or_one(tp), ep: or_one(ep), pp: or_one(pp), dp: or_one(dp) };
    let given = numbers.iter().any(|number| number.is_some()).then_some(given);
    // The user did not name this file, so an error in it is none of the choices.
    let by_server = server.as_ref().filter(|_| given.is_none()).and_then(|file| Parallel::of_server_args(&file.text));
    Ok(ServedModel {
        config: config.as_ref().map(|file| ModelConfig::parse(&file.file, &file.text)).transpose()?,
        weights_gb: weights_gb.as_deref().map(positive_gb).transpose()?,
        parallel: given.or(by_server),
        is_by_server: by_server.is_some(),
    })
}

fn positive_gb(text: &str) -> Result<f64> {
    let found = text.trim().parse::<f64>().ok().filter(|gb| *gb > 0.0 && *gb < 1e6);
    found.ok_or_else(|| {
        Error::usage(format!("--weights-gb {text}"), "not a size in GB (10^9 bytes): write for example 35.3")
    })
}

/// The built-in rules and those of `files`, with a notice for each rule that is defined twice.
///
/// # Errors
/// A rule file is invalid. The error names file, engine, model and rule.
pub fn rule_book(files: &[UserFile]) -> Result<(RuleBook, Vec<Notice>)> {
    let mut book = RuleBook::embedded();
    let mut notices = Vec::new();
    for UserFile { file, text } in files {
        let (mut same, mut changed): (Vec<_>, Vec<_>) =
            book.add(file, text)?.into_iter().partition(|duplicate| duplicate.was == duplicate.now);
        if same.len() > MAX_SINGLE_NOTICES {
            let message = format!("{file}: {} rules given again with the same category", same.len());
            notices.push(duplicate_rule(message, same.len() as u64));
        } else {
            changed.append(&mut same);
        }
        notices.extend(changed.iter().map(|duplicate| duplicate_rule(duplicate.to_string(), 1)));
    }
    Ok((book, notices))
}

/// If a file repeats more rules than this without a change, one notice counts them all. An exported rule set repeats
/// all its rules.
const MAX_SINGLE_NOTICES: usize = 3;

fn duplicate_rule(message: String, count: u64) -> Notice {
    Notice { count, ..Notice::new(Severity::Info, "duplicate_rule", message, "The file added last takes precedence.") }
}

/// Returns the chosen rule set. If none was chosen: the set in the user's files if they contain exactly one, otherwise
/// the default set of gpuprism.
///
/// # Errors
/// No file has a set of this engine and model, or only one of the two is given.
pub fn pick_rules(book: &RuleBook, choices: &Choices) -> Result<RuleSet> {
    match (choices.engine.as_deref(), choices.model.as_deref()) {
        (Some(engine), Some(model)) => book.select(engine, model),
        (None, None) => match user_sets(&choices.rules)?.as_slice() {
            [(engine, model)] => book.select(engine, model),
            _ => book.select("gpuprism", "default"),
        },
        _ => Err(Error::usage(
            "rules",
            "an engine and a model go together: give both `--engine` and `--model`, or neither",
        )),
    }
}

/// Engine and model of all sets in the user's files.
fn user_sets(files: &[UserFile]) -> Result<Vec<(String, String)>> {
    let mut own = RuleBook::default();
    for UserFile { file, text } in files {
        own.add(file, text)?;
    }
    Ok(own.sets().map(|(engine, model)| (engine.to_owned(), model.to_owned())).collect())
}

/// A notice if the user added rules but the rule set in use is not one of them.
fn unused_rules(choices: &Choices, rules: &RuleSet) -> Result<Option<Notice>> {
    let sets: Vec<String> =
        user_sets(&choices.rules)?.into_iter().map(|(engine, model)| format!("{engine}/{model}")).collect();
    if sets.is_empty() || sets.iter().any(|set| set == rules.label()) {
        return Ok(None);
    }
    let message = format!("the rules added are for {}; {} is in use", sets.join(", "), rules.label());
    let advice = "Choose the engine and the model whose rules apply.";
    let notice = Notice::new(Severity::Warning, "rules_not_in_use", message, advice);
    Ok(Some(Notice { count: sets.len() as u64, ..notice }))
}

/// Parses a wall time in seconds, exact to the nanosecond. `None` for zero and empty text.
///
/// # Errors
/// The text is not a number, or the number is negative.
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

/// Analyses one trace with these choices.
///
/// # Errors
/// Those of [`rule_book`], [`pick_rules`], [`PhaseMap::parse`], [`wall`] and [`window()`].
pub fn run(trace: &Trace, choices: &Choices) -> Result<Run> {
    match part(trace, choices)? {
        Some(part) => run_all(&part, choices),
        None => run_all(trace, choices),
    }
}

/// The first results of a trace or window and their inputs, kept until the sections are requested.
#[derive(Debug)]
struct First {
    /// The choices with which the sections will be requested.
    choices: Choices,
    part: Option<Trace>,
    run: Run,
    groups: Groups,
}

/// With fewer ops, computing the sections takes less time than drawing the first results.
const MANY_OPS: usize = 120_000;

/// Whether the chosen window has so many GPU ops that first results should be shown before the sections.
///
/// # Errors
/// Those of [`window()`].
pub fn takes_a_while(trace: &Trace, choices: &Choices) -> Result<bool> {
    let ops = picked(trace, choices)?.map_or(trace.gpu_ops.len(), |window| trace.gpu_ops.count_starting_in(window));
    Ok(ops > MANY_OPS)
}

/// The chosen window; `None` for the whole trace.
///
/// # Errors
/// Those of [`window()`].
pub fn picked(trace: &Trace, choices: &Choices) -> Result<Option<Window>> {
    Ok(choices.window.as_deref().map(|text| window(trace, text)).transpose()?.flatten())
}

/// The part of the trace in the chosen window; `None` for the whole trace.
fn part(trace: &Trace, choices: &Choices) -> Result<Option<Trace>> {
    let Some(picked) = picked(trace, choices)? else { return Ok(None) };
    // The window shares the evidence of the whole trace.
    categories::evidence(trace);
    Ok(Some(trace.within(picked)))
}

/// Exports the chosen window of a trace with [`chrome_trace()`].
///
/// # Errors
/// Those of [`window()`] and [`chrome_trace()`].
pub fn slice(trace: &Trace, choices: &Choices) -> Result<Vec<u8>> {
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
    ordering::sort_by_key(&mut run.notices, |notice| std::cmp::Reverse(notice.severity));
    Ok((run, groups))
}

fn options(trace: &Trace, choices: &Choices) -> Result<analysis::Options> {
    Ok(analysis::Options {
        attribution: choices.attribution,
        merge_devices: choices.merge_devices,
        // The wall time is that of the whole trace.
        wall: wall(choices.wall_seconds.as_deref())?.filter(|_| trace.cut.is_none()),
        kernel_limit: choices.kernel_limit,
        without_sections: choices.without_sections,
        phase_map: choices.phase_map.as_ref().map(|map| PhaseMap::parse(&map.file, &map.text)).transpose()?,
        model: if sections::ARE_COMPILED { served_model(&choices.model_config)? } else { ServedModel::default() },
        asked: if sections::ARE_COMPILED { asked(choices)? } else { Vec::new() },
    })
}

fn asked(choices: &Choices) -> Result<Vec<Asked>> {
    choices.what_if.iter().map(|text| Asked::parse(text)).collect()
}

/// The cells of one trace for a pivot with these axes, within the chosen window and with the chosen attribution.
///
/// # Errors
/// Those of [`window()`].
pub fn pivot_cells(trace: &Trace, choices: &Choices, axes: &[Axis]) -> Result<PivotCells> {
    let part = part(trace, choices)?;
    Ok(cells::pivot_cells(part.as_ref().unwrap_or(trace), choices.attribution, choices.merge_devices, axes))
}

/// The details of one kernel in the chosen window, with the category rule that matched it.
///
/// # Errors
/// Those of [`rule_book`], [`pick_rules`] and [`window()`].
pub fn one_kernel(trace: &Trace, choices: &Choices, name: &str, columns: usize) -> Result<OneKernel> {
    let part = part(trace, choices)?;
    let (book, _) = rule_book(&choices.rules)?;
    let rules = pick_rules(&book, choices)?;
    let sharing = Sharing { attribution: choices.attribution, merge_devices: choices.merge_devices };
    let trace = part.as_ref().unwrap_or(trace);
    let mut found = kernels::one_kernel::one_kernel(trace, &rules, sharing, name, columns);
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

/// The last of the user's files that contains the rule, or `built in`.
fn origin<'a>(files: &'a [UserFile], label: &str, regex: &str) -> &'a str {
    let has = |file: &&UserFile| {
        let mut book = RuleBook::default();
        book.add(&file.file, &file.text).is_ok() && book.has_rule(label, regex)
    };
    files.iter().rev().find(has).map_or("built in", |file| &file.file)
}

/// Triages one trace: a run that also has the sections of the triage.
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
    if choices.without_sections {
        // The verdict of `report` is read from the other sections; one without them would differ from it.
        run.verdict = Verdict::default();
    }
    run.sections.extend(triage::triage(request));
    if let Some(summary) = run.sections.get_mut(TriageSummary::SPEC.name) {
        add_mapping_labels(summary, request);
    }
    Ok(run)
}

fn add_mapping_labels(summary: &mut Section, request: &triage::Request) {
    let mut labels: Vec<&str> = request.mapping.iter().map(|trace| trace.label.as_str()).collect();
    let captures = request.trace.captured_graphs.outcome().into_iter().flat_map(|outcome| &outcome.joined);
    for JoinedCapture { file, .. } in captures {
        if !labels.contains(&file.as_str()) {
            labels.push(file);
        }
    }
    let key = TriageSummaryFigures::mapping_traces;
    if !labels.is_empty() && summary.summary.get(key).is_none() {
        summary.figure(key, labels.join("\n"));
    }
}

/// A file of a folder, with the stage detected from its path.
pub fn folder_entry(path: &str, bytes: u64, modified: i64) -> folder::Entry {
    folder::Entry { path: path.to_owned(), bytes, modified, stage: stage_index(stage_of_path(path)) }
}

/// The value of [`folder::Entry::stage`] for a stage; `None` for [`Stage::All`].
pub fn stage_index(stage: Stage) -> Option<u8> {
    let index = Stage::ALL.iter().position(|known| *known == stage && stage != Stage::All);
    index.and_then(|index| u8::try_from(index).ok())
}

/// The inverse of [`stage_index`].
pub fn stage_with_index(index: Option<u8>) -> Stage {
    index.and_then(|index| Stage::ALL.get(usize::from(index)).copied()).unwrap_or(Stage::All)
}

/// Checks the log of a run: the triage applies only to work of the framework's own code.
///
/// # Errors
/// The log contains a phrase of a diffusers backend.
pub fn check_run_log(log: &UserFile) -> Result<()> {
    let Some(words) = folder::diffusers_phrase(&log.text) else { return Ok(()) };
    let why = format!(
        "the log says \"{words}\": a diffusers backend did the work of this run, not the framework's own code, so a \
         triage would name the wrong kernels; run it again on the native backend"
    );
    Err(Error::refused(&log.file, why))
}

/// Parses a `server_args.json`.
///
/// # Errors
/// The text is not a JSON object.
pub fn server_args(file: &UserFile) -> Result<ServerArgs> {
    /// Real ones have some thousands of bytes. They are kept as a tree, which may cost many times its text.
    const MAX_BYTES: usize = 1 << 20;
    if file.text.len() > MAX_BYTES {
        return Err(Error::refused(&file.file, "larger than 1 MiB, the limit for server arguments"));
    }
    let arguments = serde_json::from_str(&file.text);
    arguments.map(ServerArgs).map_err(|error| {
        Error::refused(
            &file.file,
            format!("not server arguments: expected a JSON object like SGLang's server_args.json: {error}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::testing::TestTrace;

    fn choices(rules: &[&str]) -> Choices {
        let file = |text: &&str| UserFile { file: "mine.json".into(), text: (*text).into() };
        Choices { rules: rules.iter().map(file).collect(), ..Choices::default() }
    }

    fn run_with(choices: &Choices) -> Result<Run> {
        run(&TestTrace::new().finish(), choices)
    }

    #[test]
    fn a_single_added_rule_set_is_used_and_one_of_several_must_be_chosen() {
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

    /// Two overlapping kernels, then a gap and a third kernel with its launch call and the range around the call.
    fn small_trace() -> Trace {
        let mut trace = TestTrace::new();
        trace.in_us().kernel("gemm", 100..140).kernel("rms_norm", 120..160);
        trace.range("decode", 198..218).launch(200..203).launches("gemm", 200..250).finish()
    }

    #[test]
    fn first_results_followed_by_sections_equal_a_run_at_once() {
        let trace = small_trace();
        let mut cache = WindowCache::default();
        let with_sections = Choices { window: Some(window_text(&trace, 0.1, 0.9)), ..Choices::default() };
        let without_sections = Choices { without_sections: true, ..with_sections.clone() };
        let text = |choices: &Choices| Report::new(vec![run(&trace, choices).unwrap()]).compact();
        let other_choices = Choices { attribution: Attribution::Fair, ..with_sections.clone() };
        for next in [&with_sections, &other_choices] {
            let first_results = cache.report(&trace, &without_sections).unwrap();
            assert!(cache.first.is_some() && first_results == text(&without_sections));
            let complete = cache.report(&trace, next).unwrap();
            assert_eq!(complete, text(next));
            assert!(cache.call_ranges.get().is_some() && complete.contains(r#""mapped_kernel_count":1"#));
            assert!(cache.first.is_none(), "the window is dropped after the last report");
        }
    }

    #[test]
    fn a_phase_map_adds_its_sections_and_an_invalid_one_is_refused() {
        let with_map = |text: &str| {
            let map = UserFile { file: "map.json".into(), text: text.into() };
            run_with(&Choices { phase_map: Some(map), ..Choices::default() })
        };
        assert!(!run_with(&Choices::default()).unwrap().sections.contains_key("nvtx_phases"));
        let sections = with_map(r#"{"prefill": "extend"}"#).unwrap().sections;
        assert!(sections.contains_key("nvtx_phases") && sections.contains_key("nvtx_kernel_phases"));
        let error = with_map(r#"{"prefill": "re:("}"#).unwrap_err().to_string();
        assert!(error.contains("map.json: prefill / re:("), "{error}");
    }

    #[test]
    fn an_engine_without_model_and_an_unknown_model_are_usage_errors() {
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
