//! What a capture can and cannot answer: one check for each kind of data, with the flag or command that changes the capture
//! (`patterns/doctor.json`). Reads the trace's counts and finished sections.
//!
//! A problem makes the trace unfit for a report and a triage; a warning costs some results.

use super::engine::engine;
use super::inference::graph_coverage::GraphCoverage;
use super::inference::step_floor::FloorOfSteps;
use super::notices::launches_without_ops;
use super::results::{Notice, Run, TOTALS_ONLY};
use super::section::TypedSection;
use super::structure::steps::Steps;
use super::trust::{Trust, TrustId};
use crate::json::{self, embedded, from_json};
use crate::trace::{Environment, Format, Pct, ProblemKind, Profiler, Trace, Vendor};
use crate::words::doctor as words;
use crate::words::notices::unrecorded::causes_of_unrecorded_ops;
pub use gpuprism_capture::Level;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// One check of a capture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its name, for scripts: `gpu_work`, `stacks`, ...
    pub id: &'static str,
    /// Its result.
    pub level: Level,
    /// What was found, and what it means.
    pub text: String,
    /// The flag or command that changes the capture; empty if nothing is missing.
    pub remedy: String,
}

/// The remedies of one check, by way of capture.
#[derive(Debug)]
struct Remedies {
    id: String,
    remedies: BTreeMap<String, String>,
}
from_json!(strict Remedies { id, remedies });

#[derive(Debug)]
struct Thresholds {
    min_steps: f64,
    min_replayed_time_pct: f64,
}
from_json!(strict Thresholds { min_steps, min_replayed_time_pct });

#[derive(Debug)]
struct Catalog {
    thresholds: Thresholds,
    checks: Vec<Remedies>,
}
from_json!(Catalog { thresholds, checks });

static CATALOG: LazyLock<Catalog> = LazyLock::new(|| embedded(json::read(include_str!("../../patterns/doctor.json"))));

/// The name in the catalog of the way in which the trace was captured.
fn way_of_capture(trace: &Trace) -> &'static str {
    match (trace.format.profiler(), engine(trace).as_deref()) {
        (Profiler::Nsys, _) => "nsys",
        (Profiler::Rocprof, _) if trace.format == Format::RocprofCsv => "rocprof",
        (Profiler::Rocprof, _) => "rocpd",
        (Profiler::Rpd, _) => "rpd",
        (Profiler::Ascend, _) => "ascend",
        (Profiler::Proton, _) => "proton",
        (Profiler::Xla, _) => "xla",
        (Profiler::Unitrace, _) => "unitrace",
        (Profiler::Torch, _) if trace.vendor() == Vendor::Intel => "xpu",
        (Profiler::Torch, Some("SGLang")) => "sglang",
        (Profiler::Torch, Some("vLLM")) => "vllm",
        (Profiler::Torch, Some("TensorRT-LLM")) => "trtllm",
        (Profiler::Torch, _) => "torch",
    }
}

fn remedy(id: &str, way: &str) -> String {
    let check = CATALOG.checks.iter().find(|check| check.id == id);
    let remedy = check.and_then(|check| check.remedies.get(way).or_else(|| check.remedies.get("any")));
    remedy.cloned().unwrap_or_default()
}

/// The results of one check: `None` if the question does not arise.
type Outcome = Option<(Level, String)>;

fn ok(text: impl Into<String>) -> Outcome {
    Some((Level::Ok, text.into()))
}

fn warning(text: impl Into<String>) -> Outcome {
    Some((Level::Warning, text.into()))
}

fn problem(text: impl Into<String>) -> Outcome {
    Some((Level::Problem, text.into()))
}

/// All checks of a trace and its run, in the order of the questions.
pub fn checks(trace: &Trace, run: &Run) -> Vec<Check> {
    let way = way_of_capture(trace);
    let outcomes = [
        ("gpu_work", gpu_work(trace, run)),
        ("gpu_records", gpu_records(trace)),
        ("complete_file", complete_file(trace)),
        ("op_times", op_times(trace)),
        ("launches", launches(trace, run)),
        ("steps", steps(run)),
        ("step_count", step_count(run)),
        ("start_of_capture", limit(run, TrustId::UnseenWork)),
        ("recording_holes", limit(run, TrustId::RecordingHoles)),
        ("stacks", stacks(trace)),
        ("shapes", shapes(trace)),
        ("host_speed", limit(run, TrustId::CaptureOverhead)),
        ("profiler_pauses", limit(run, TrustId::ProfilerPauses)),
        ("graph_nodes", graph_nodes(trace, run)),
        ("graph_work", graph_work(trace)),
        ("launched_work", launched_work(trace)),
        ("waits", waits(trace)),
        ("start_up", limit(run, TrustId::FirstLaunches).or_else(|| limit(run, TrustId::StartUp))),
        ("code_of_kernels", code_of_kernels(trace, run)),
        ("ranks", limit(run, TrustId::OneRankOfMany)),
        ("single_rank_file", single_rank_file(trace)),
        ("clocks", limit(run, TrustId::ClockSkew)),
        ("records", limit(run, TrustId::DurationsShifted)),
        ("counter_run", limit(run, TrustId::CounterRun)),
        ("model", model(trace, run)),
        ("environment", environment(trace)),
    ];
    let check = |(id, outcome): (&'static str, Outcome)| {
        let (level, text) = outcome?;
        let remedy = match (level, id) {
            (Level::Ok, _) => String::new(),
            (_, "gpu_records") => causes_of_unrecorded_ops(trace.format, trace.vendor()).to_owned(),
            (_, "gpu_work") if other_events(trace) > 0 => {
                words::either_remedy(&remedy("other_accelerator", way), &remedy(id, way))
            }
            _ => remedy(id, way),
        };
        Some(Check { id, level, text, remedy })
    };
    outcomes.into_iter().filter_map(check).collect()
}

/// The checks of a file with totals of kernels and no events: what is there, and a line for each of its notices.
pub fn checks_of_totals(run: &Run) -> Vec<Check> {
    let text = words::kernels(run.totals.kernels, run.devices.len());
    let work = Check { id: "gpu_work", level: Level::Ok, text, remedy: String::new() };
    let of_notice = |notice: &Notice| Check {
        id: if notice.code == TOTALS_ONLY { TOTALS_ONLY } else { "complete_file" },
        level: Level::Warning,
        text: words::of_notice(&notice.message),
        remedy: notice.advice.clone(),
    };
    [work].into_iter().chain(run.notices.iter().map(of_notice)).collect()
}

/// True unless a check found a problem.
pub fn is_fit(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.level != Level::Problem)
}

/// A row of the section `trust` as a warning.
fn limit(run: &Run, id: TrustId) -> Outcome {
    let row = Trust::rows(&run.sections).into_iter().find(|row| row.id == id)?;
    warning(row.text)
}

fn gpu_work(trace: &Trace, run: &Run) -> Outcome {
    let kernels = run.totals.kernels;
    match (kernels, trace.events.cpu) {
        (0, _) if launches_without_ops(trace) > 0 => None,
        (0, 0) if trace.graph_replays.is_empty() => problem("The file has no GPU kernels and no host events."),
        (0, _) if trace.graph_replays.is_empty() && other_events(trace) > 0 => {
            problem(words::other_accelerator(other_events(trace)))
        }
        (0, events) if trace.graph_replays.is_empty() => problem(words::only_host_events(events, &trace.diagnostics)),
        (0, _) => problem("The file has no GPU kernels: CUDA graphs were recorded as a whole."),
        (kernels, _) => ok(words::kernels(kernels, trace.devices.len())),
    }
}

/// Events of categories that are not read.
fn other_events(trace: &Trace) -> u64 {
    trace.problems.count(ProblemKind::UnknownCategory)
}

/// Whether the profiler recorded the GPU work of launch calls.
fn gpu_records(trace: &Trace) -> Outcome {
    let launches = launches_without_ops(trace);
    (launches > 0).then(|| (Level::Problem, words::no_gpu_records(launches, &trace.diagnostics)))
}

fn complete_file(trace: &Trace) -> Outcome {
    let is_cut = ProblemKind::CUT_SHORT.iter().any(|kind| trace.problems.has(*kind));
    if is_cut {
        return warning(
            "The file is cut short or damaged; only the part before the damage was read, so sums are too small.",
        );
    }
    if trace.problems.has(ProblemKind::EventTooLarge) {
        return warning("An event of the file is too large and was left out.");
    }
    match trace.problems.has(ProblemKind::UnreadableEvent) {
        true => warning("Some events of the file are damaged and were left out."),
        false => ok("The file is complete."),
    }
}

fn environment(trace: &Trace) -> Outcome {
    let Environment { variables, like_secrets } = trace.environment;
    if variables == 0 {
        return None;
    }
    warning(words::environment(variables, like_secrets))
}

fn op_times(trace: &Trace) -> Outcome {
    let count =
        trace.problems.count(ProblemKind::OpWithoutTime) + trace.problems.count(ProblemKind::ImpossibleDuration);
    if count == 0 {
        return None;
    }
    warning(words::op_times(count))
}

fn launches(trace: &Trace, run: &Run) -> Outcome {
    let ambiguous = trace.problems.count(ProblemKind::AmbiguousLaunch);
    if ambiguous > 0 {
        return warning(words::ambiguous_launches(ambiguous));
    }
    match (run.totals.kernels, trace.calls.len()) {
        (0, _) => None,
        (_, 0) => warning("No launch calls were recorded: the causes of idle time and launch latencies are unknown."),
        (_, calls) => ok(words::calls(calls as u64)),
    }
}

/// The number of steps in the section `steps`, of each device if all have equally many; `None` without GPU work.
fn count_of_steps(run: &Run) -> Option<u64> {
    let of_each = Steps::figures(&run.sections).and_then(|figures| figures.steps_of_each_device.0);
    let all = || Steps::rows(&run.sections).iter().map(|row| row.steps as u64).sum();
    (run.totals.kernels > 0).then(|| of_each.map_or_else(all, |steps| steps as u64))
}

fn steps(run: &Run) -> Outcome {
    let count = count_of_steps(run)?;
    let is = |word: &str| Steps::rows(&run.sections).iter().any(|row| row.found_by == word);
    match count {
        0 => warning("No steps of a server were found: times are of the whole trace and not per step."),
        _ if is("annotation") => ok(words::marked_steps(count)),
        _ => warning(words::inferred_steps(count)),
    }
}

fn step_count(run: &Run) -> Outcome {
    match count_of_steps(run)? {
        0 => None,
        count if (count as f64) < CATALOG.thresholds.min_steps => warning(words::few_steps(count)),
        count => ok(words::steps(count)),
    }
}

fn stacks(trace: &Trace) -> Outcome {
    match (trace.format, trace.events.python_frames) {
        (Format::TorchProfiler, 0) => {
            warning("No Python stacks: neither the triage nor idle time can be traced to code.")
        }
        (Format::TorchProfiler, frames) => ok(words::frames(frames)),
        _ => None,
    }
}

fn shapes(trace: &Trace) -> Outcome {
    match (trace.format, trace.shaped_ops.ops.len()) {
        (Format::TorchProfiler, 0) => warning(
            "No shapes of ops: FLOPs and bytes of kernels, and their distance from the hardware's limit, are unknown.",
        ),
        (Format::TorchProfiler, ops) => ok(words::shapes(ops as u64)),
        _ => None,
    }
}

fn graph_nodes(trace: &Trace, run: &Run) -> Outcome {
    match trace.graph_replays.len() as u64 {
        0 => None,
        replays if run.totals.kernels == 0 => problem(words::whole_graphs(replays, false)),
        replays => warning(words::whole_graphs(replays, true)),
    }
}

fn graph_work(trace: &Trace) -> Outcome {
    let launches = &trace.unrecorded_work.launches;
    if launches.graphs == 0 {
        return None;
    }
    problem(words::lost_graphs(launches.graphs, launches.of_graphs))
}

fn launched_work(trace: &Trace) -> Outcome {
    let launches = &trace.unrecorded_work.launches;
    if launches.kernels == 0 && launches.unfinished > 0 {
        return warning(words::launches_at_end(launches.unfinished, launches.of_kernels));
    }
    if launches.kernels == 0 {
        return None;
    }
    problem(words::lost_launches(launches.kernels + launches.kernels_at_end, launches.of_kernels))
}

fn waits(trace: &Trace) -> Outcome {
    let launches = &trace.unrecorded_work.launches;
    // Lost records explain them, and have a check of their own.
    if launches.graphs + launches.kernels > 0 {
        return None;
    }
    let waits = &trace.unrecorded_work.waits;
    let longest = waits.iter().map(|wait| wait.until.since(wait.last_op_end)).max()?;
    problem(words::long_wait(longest))
}

fn code_of_kernels(trace: &Trace, run: &Run) -> Outcome {
    if trace.format != Format::TorchProfiler {
        return None;
    }
    let stages = GraphCoverage::rows(&run.sections);
    let replayed = stages.iter().map(|row| row.replayed_time_pct.0).fold(0.0, f64::max);
    let is_notable = replayed > CATALOG.thresholds.min_replayed_time_pct;
    is_notable.then(|| (Level::Warning, words::code_of_graphs(Pct(replayed))))
}

fn single_rank_file(trace: &Trace) -> Outcome {
    let labelled = trace.processes.iter().filter(|process| process.name.starts_with('[')).count();
    let ranks = labelled.max(trace.merged_ranks());
    (ranks > 1).then(|| (Level::Warning, words::merged_ranks(ranks)))
}

/// Only for programs that may serve a language model: the limit is that of an inference step.
fn model(trace: &Trace, run: &Run) -> Outcome {
    let trains = !trace.training.backward.is_empty() || !trace.training.optimizer.is_empty();
    if trains || !run.categories.iter().any(|category| category.category == "attention") {
        return None;
    }
    let is_missing = run.sections.get(FloorOfSteps::SPEC.name).is_some_and(|section| section.missing.is_some());
    (is_missing && count_of_steps(run)? > 0).then(|| {
        (
            Level::Warning,
            "The model is unknown: the distance of a step from the hardware's limit cannot be computed.".to_owned(),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::testing::{analyze, import, shared};
    use crate::input::Importer;
    use crate::trace::testing::TestTrace;

    fn found(trace: &Trace, level: Level) -> Vec<&'static str> {
        let checks = checks(trace, &analyze(trace));
        checks.iter().filter(|check| check.level == level).map(|check| check.id).collect()
    }

    const WAYS: [&str; 14] = [
        "sglang", "vllm", "trtllm", "torch", "xpu", "xla", "unitrace", "nsys", "rocprof", "rocpd", "rpd", "ascend",
        "proton", "any",
    ];

    #[test]
    fn every_check_has_a_remedy_for_every_way_of_capture() {
        for check in &CATALOG.checks {
            assert!(check.remedies.contains_key("any"), "{}", check.id);
            for way in check.remedies.keys() {
                assert!(WAYS.contains(&way.as_str()), "{way}");
            }
        }
        let trace = TestTrace::new().in_us().launch(0..2).launches("k", 5_000..5_010).finish();
        for check in checks(&trace, &analyze(&trace)) {
            assert_eq!(check.remedy.is_empty(), check.level == Level::Ok, "{check:?}");
        }
    }

    #[test]
    fn a_trace_without_kernels_is_a_problem() {
        let mut trace = TestTrace::new();
        trace.builder.trace.events.cpu = 7;
        let trace = trace.finish();
        assert_eq!(found(&trace, Level::Problem), ["gpu_work"]);
        assert!(!is_fit(&checks(&trace, &analyze(&trace))));
        let diagnostics = vec!["The driver is not supported.".to_owned()];
        let trace = Trace { diagnostics, ..trace };
        let text = checks(&trace, &analyze(&trace)).remove(0).text;
        assert!(text.ends_with("; the profiler itself says: \"The driver is not supported.\"."), "{text}");
    }

    /// Only the CSV tables of rocprofv3 are separate files, of which one can be forgotten.
    #[test]
    fn the_causes_of_unrecorded_ops_are_those_of_the_format() {
        for (format, word) in
            [(Format::Rocpd, "--kernel-trace"), (Format::RocprofV1Db, "/dev/kfd"), (Format::Rpd, "flush()")]
        {
            let launched = TestTrace::new().call("hipLaunchKernel", 0..1).call("hipLaunchKernel", 2..3).finish();
            let launched = Trace { format, ..launched };
            let checks = checks(&launched, &analyze(&launched));
            let texts: String = checks.iter().map(|check| format!("{} {}\n", check.text, check.remedy)).collect();
            assert!(texts.contains(word) && !texts.contains("_trace.csv"), "{format:?} {texts}");
        }
    }

    #[test]
    fn launches_whose_gpu_work_the_profiler_did_not_record_are_a_problem_with_its_causes() {
        let launched = TestTrace::new().call("cudaLaunchKernel", 0..1).call("cudaLaunchKernel", 2..3).finish();
        let checks_of = |trace: &Trace| checks(trace, &analyze(trace));
        let check = checks_of(&launched).into_iter().find(|check| check.id == "gpu_records").unwrap();
        assert!(check.text.contains("no GPU op although kernels were launched (2 launch calls)"), "{}", check.text);
        assert!(check.remedy.contains("another profiler") && check.remedy.contains("WSL2"), "{}", check.remedy);
        assert_eq!(found(&launched, Level::Problem), ["gpu_records"]);
        let mut captured = launched.clone();
        captured.events.graph_captures = 1;
        assert_eq!(found(&captured, Level::Problem), ["gpu_work"], "the launches may only fill a graph");
        let mut cut = launched.clone();
        cut.problems.add(ProblemKind::Truncated, 1, 9);
        assert!(!found(&cut, Level::Problem).contains(&"gpu_records"), "the ops follow in the part that is missing");
        let kernels = TestTrace::new().launch(0..1).launches("k", 5..6).call("cudaLaunchKernel", 900..901).finish();
        let window =
            kernels.within(crate::trace::Window { start: crate::trace::Ns(800), end: crate::trace::Ns(1_000) });
        assert!(checks_of(&window).iter().all(|check| check.id != "gpu_records"), "other times have ops");
    }

    #[test]
    fn ops_without_a_possible_time_or_a_certain_launch_are_a_warning() {
        let text = |trace: &Trace, id: &str| {
            let checks = checks(trace, &analyze(trace));
            checks.into_iter().find(|check| check.id == id).map(|check| (check.level, check.text, check.remedy))
        };
        let mut trace = TestTrace::new();
        trace.in_us().launch(10..12).launches("k", 20..30).launches("lost", 0..0).launches("lost", 0..0);
        let (level, said, remedy) = text(&trace.finish(), "op_times").unwrap();
        assert!(level == Level::Warning && said.starts_with("2 GPU ops have") && !remedy.is_empty(), "{said}");
        let mut trace = TestTrace::new();
        trace.call_with_id("cudaLaunchKernel", 0..1, 7).call_with_id("cudaLaunchKernel", 5..6, 7);
        let trace = trace.launches("k", 10..20).finish();
        let (level, said, _) = text(&trace, "launches").unwrap();
        assert!(level == Level::Warning && said.starts_with("1 GPU op has"), "{said}");
        assert_eq!(text(&trace, "op_times"), None);
    }

    #[test]
    fn graphs_without_recorded_work_are_a_problem() {
        let mut trace = TestTrace::nsys();
        trace.launch(0..1).launches("k", 5..10).call("cudaGraphLaunch", 20..21).launch(40..41).launches("k", 45..50);
        let mut trace = trace.finish();
        crate::session::find_unrecorded_work(&mut trace);
        assert_eq!(found(&trace, Level::Problem), ["graph_work"]);
    }

    #[test]
    fn a_capture_with_all_data_has_no_warning_but_shapes_and_the_model_of_a_transformer() {
        let mut trace = TestTrace::new();
        for step in 0..3 {
            let from = step * 1_000;
            trace.in_us().range("step[DECODE bs=4]", from..from + 900).launch(from..from + 2);
            trace.launches("flash_fwd_kernel", from + 5..from + 998);
        }
        trace.builder.trace.events.python_frames = 9;
        let trace = trace.finish();
        assert_eq!(found(&trace, Level::Warning), ["shapes", "model"]);
        assert_eq!(
            found(&trace, Level::Ok),
            ["gpu_work", "complete_file", "launches", "steps", "step_count", "stacks"]
        );
    }

    /// What is known of these captures from their metadata.
    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn shared_captures_lack_what_their_files_lack() {
        let expected: [(&str, &[&str]); 5] = [
            ("cpu_only.pt", &["gpu_work"]),
            ("sglang_qwen3_30b_b300_decode", &["step_count", "host_speed", "code_of_kernels", "model"]),
            ("train_a100_rank3of8", &["ranks"]),
            ("train_v100_216k_events", &["stacks", "shapes"]),
            ("vllm_mi300_decode_full_graph", &["start_of_capture"]),
        ];
        for (name, lacks) in expected {
            let path = shared(&format!("traces/torch/{name}.trace.json.gz"));
            let trace = import(Importer::new(name), &std::fs::read(path).unwrap());
            let lacking: Vec<&str> =
                [Level::Problem, Level::Warning].into_iter().flat_map(|level| found(&trace, level)).collect();
            for id in lacks {
                assert!(lacking.contains(id), "{name}: {id} is not in {lacking:?}");
            }
        }
    }
}
