//! The table of fuse patterns on small traces that must or must not match each pattern, and on real traces with manual labels,
//! which are outside the project in `../shared`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::print_stdout, reason = "tests")]

use crate::{common, testing};
use common::{import_with_code, shared};
use gpuprism::analysis::section::Value;
use gpuprism::analysis::triage::call_sites::{CallSite, CallSites, Resolution};
use gpuprism::analysis::triage::fuse::{self, Confidence, Fusion, Patterns};
use gpuprism::analysis::triage::kernels;
use gpuprism::analysis::triage::roof::Roofs;
use gpuprism::analysis::triage::{Framework, Options, Request, ServerArgs, Stage, View, triage};
use gpuprism::trace::{HostCode, Names, Trace};
use serde::Deserialize;
use std::collections::BTreeMap;
use testing::TestTrace;

const CASES: &str = include_str!("data/fuse_cases.json");
const LABELS: &str = include_str!("data/triage_labels/fuse.json");

/// A pattern with traces that must match it and traces that must not.
#[derive(Deserialize)]
struct Case {
    pattern: String,
    framework: String,
    #[serde(rename = "fires")]
    matching: Vec<Small>,
    #[serde(rename = "silent")]
    near_misses: Vec<Small>,
}

/// A small trace; its ops run one after the other, 10 us each.
#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
struct Small {
    #[serde(default)]
    status: String,
    #[serde(default)]
    why: String,
    #[serde(default)]
    device: String,
    model: Option<String>,
    tp: Option<u64>,
    ops: Vec<SmallOp>,
}

#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
struct SmallOp {
    kernel: String,
    #[serde(default)]
    op: String,
    #[serde(default)]
    function: String,
    #[serde(default = "seven")]
    stream: i64,
}

fn seven() -> i64 {
    7
}

impl SmallOp {
    /// A kernel that matches no pattern.
    fn other_work() -> Self {
        let kernel = "void some::other_work<8>()".to_owned();
        Self { kernel, op: String::new(), function: String::new(), stream: seven() }
    }
}

fn cases() -> Vec<Case> {
    serde_json::from_str(CASES).unwrap()
}

fn framework(name: &str) -> Framework {
    match name {
        "sglang" => Framework::Sglang,
        "vllm" => Framework::Vllm,
        "trtllm" => Framework::TrtLlm,
        "tokenspeed" => Framework::TokenSpeed,
        "none" => Framework::Plain,
        other => panic!("{other}"),
    }
}

impl Small {
    fn trace(&self) -> Trace {
        let mut trace = TestTrace::new();
        trace.in_us().named_device(0, &self.device);
        for (index, op) in (0..).zip(&self.ops) {
            trace.stream(op.stream).kernel(&op.kernel, 11 * index..11 * index + 10);
        }
        trace.finish()
    }

    fn server(&self) -> ServerArgs {
        let mut arguments = serde_json::Map::new();
        arguments.extend(self.model.as_ref().map(|model| ("model_path".to_owned(), model.as_str().into())));
        arguments.extend(self.tp.map(|size| ("tp_size".to_owned(), size.into())));
        ServerArgs(arguments)
    }

    /// The call site of an op; the function follows the file as in a frame.
    fn site(op: &SmallOp) -> CallSite {
        let location = if op.function.is_empty() { String::new() } else { format!("some/where.py:3 {}", op.function) };
        let stack = if location.is_empty() { Vec::new() } else { vec![location.clone()] };
        CallSite { display: location.clone(), location, stack, cpu_op: op.op.clone(), resolution: Resolution::Exact }
    }

    fn view<'a>(
        &self,
        trace: &'a Trace,
        server: &'a ServerArgs,
        options: &'a Options,
        framework: Framework,
    ) -> View<'a> {
        View::new(&Request {
            trace,
            path: "",
            file_stage: Stage::Decode,
            mapping: &[],
            server,
            framework: Some(framework),
            options,
        })
    }

    /// Gives every op its own call site.
    fn set_call_sites(&self, view: &mut View) {
        let by_op = (0..).take(self.ops.len()).collect();
        view.call_sites = CallSites { distinct: self.ops.iter().map(Self::site).collect(), by_op };
    }

    fn fusions_with(&self, framework: Framework, change: impl Fn(&mut View)) -> Vec<Fusion> {
        let (trace, server, options) = (self.trace(), self.server(), Options::default());
        let mut view = self.view(&trace, &server, &options, framework);
        self.set_call_sites(&mut view);
        change(&mut view);
        fuse::matches(&view, &kernels::rows(&view))
    }

    fn fusions(&self, framework: Framework) -> Vec<Fusion> {
        self.fusions_with(framework, |_| ())
    }

    fn status_of(&self, pattern: &str, framework: Framework) -> Option<&'static str> {
        let fusions = self.fusions(framework);
        fusions.iter().find(|fusion| fusion.pattern == pattern).map(|fusion| fusion.status.label())
    }
}

#[test]
fn every_pattern_matches_its_cases_and_no_near_miss() {
    let mut errors = Vec::new();
    let (mut matched, mut rejected) = (0, 0);
    for case in cases() {
        let framework = framework(&case.framework);
        let kernels = |small: &Small| small.ops.iter().map(|op| op.kernel.clone()).collect::<Vec<_>>();
        let failures = errors.len();
        for small in &case.matching {
            let got = small.status_of(&case.pattern, framework);
            if got != Some(&small.status) {
                errors.push(format!("{}: {:?}, not {}: {:?}", case.pattern, got, small.status, kernels(small)));
            }
        }
        matched += usize::from(errors.len() == failures);
        let failures = errors.len();
        for small in &case.near_misses {
            if let Some(got) = small.status_of(&case.pattern, framework) {
                errors.push(format!("{}: {got}, although {}: {:?}", case.pattern, small.why, kernels(small)));
            }
        }
        rejected += usize::from(errors.len() == failures);
    }
    let all = cases().len();
    println!("{matched} of {all} patterns match their cases, {rejected} of {all} match no near miss");
    assert!(errors.is_empty(), "{} errors:\n{}", errors.len(), errors.join("\n"));
}

#[test]
fn every_pattern_has_cases_for_each_form() {
    let cases = cases();
    let patterns = Patterns::embedded().patterns;
    assert_eq!(patterns.len(), cases.len());
    for (pattern, case) in patterns.iter().zip(&cases) {
        assert_eq!(pattern.id, case.pattern);
        let has = |status: &[&str]| case.matching.iter().any(|small| status.contains(&small.status.as_str()));
        assert!(pattern.active.is_empty() || has(&["active"]), "{}", pattern.id);
        assert!(pattern.chains.is_empty() || has(&["split", "in flight"]), "{}", pattern.id);
        assert!(
            case.near_misses.len() >= 2 && case.near_misses.iter().all(|small| !small.why.is_empty()),
            "{}",
            pattern.id
        );
    }
}

#[test]
fn no_pattern_matches_in_another_framework() {
    let patterns = Patterns::embedded().patterns;
    for case in cases() {
        let pattern = patterns.iter().find(|pattern| pattern.id == case.pattern).unwrap();
        let others = ["sglang", "vllm", "trtllm", "tokenspeed", "none"].into_iter();
        for other in others.filter(|other| !pattern.frameworks.contains(&framework(other))) {
            for small in &case.matching {
                assert_eq!(small.status_of(&case.pattern, framework(other)), None, "{} in {other}", case.pattern);
            }
        }
    }
}

#[test]
fn a_chain_needs_one_stream_and_no_work_between_its_parts() {
    for case in cases() {
        let framework = framework(&case.framework);
        let chains = case.matching.iter().filter(|small| small.status != "active" && small.ops.len() > 1);
        for small in chains {
            let mut separate = small.clone();
            (20..).zip(&mut separate.ops).for_each(|(stream, op)| op.stream = stream);
            assert_eq!(separate.status_of(&case.pattern, framework), None, "{} on several streams", case.pattern);
            let mut unknown = small.clone();
            unknown.ops.iter_mut().for_each(|op| op.stream = -1);
            assert_eq!(unknown.status_of(&case.pattern, framework), None, "{} without a stream", case.pattern);
            let mut between = small.clone();
            between.ops = small.ops.iter().flat_map(|op| [op.clone(), SmallOp::other_work()]).collect();
            assert_eq!(between.status_of(&case.pattern, framework), None, "{} with work between", case.pattern);
        }
    }
}

#[test]
fn words_in_the_wrong_field_do_not_match() {
    for case in cases() {
        let framework = framework(&case.framework);
        for small in case.matching.iter().filter(|small| small.status == "active") {
            let mut moved = small.clone();
            for op in &mut moved.ops {
                let kernel = std::mem::replace(&mut op.kernel, "void some::other_work<8>()".to_owned());
                op.function = format!("{kernel}.py:1 {}", op.op.replace("::", "_"));
                op.op = "aten::empty".to_owned();
            }
            let got = moved.status_of(&case.pattern, framework);
            assert_eq!(got, None, "{}: {:?}", case.pattern, moved.ops[0].function);
        }
    }
}

/// A launch may take part in several patterns.
#[test]
fn only_launches_that_take_part_are_counted() {
    let (mut small, framework) = rope_and_store();
    let (rope, store, work) = (small.ops[0].clone(), small.ops[1].clone(), SmallOp::other_work());
    // Two pairs, a single store and a single rope: four of eight launches take part.
    small.ops = [&rope, &store, &work, &store, &work, &rope, &store, &rope].map(Clone::clone).to_vec();
    let fusions = small.fusions(framework);
    assert_eq!(fusions.len(), 1, "{fusions:?}");
    let fusion = &fusions[0];
    assert_eq!((fusion.launches, fusion.duration_ns, fusion.share_pct), (4, 40_000, 50.0));
    assert_eq!(fusion.evidence.len(), 2);
    assert!(fusion.evidence.iter().all(|line| line.ends_with("(25.0%)")), "{:?}", fusion.evidence);
}

#[test]
fn fused_and_split_launches_of_one_pattern_are_two_findings() {
    let case = case("fused-rope-kv-cache-store");
    let with_status = |status: &str| case.matching.iter().find(|small| small.status == status).unwrap().clone();
    let mut small = with_status("active");
    small.ops.extend([with_status("split").ops, with_status("split").ops].concat());
    let fusions = small.fusions(Framework::Sglang);
    let found: Vec<_> = fusions.iter().map(|fusion| (fusion.status.label(), fusion.launches)).collect();
    assert_eq!(found, [("split", 4), ("active", 1)]);
}

#[test]
fn a_chain_must_start_and_end_in_the_same_stage() {
    let (mut small, framework) = rope_and_store();
    small.ops = [small.ops.clone(), small.ops.clone()].concat();
    let stages = [Stage::Prefill, Stage::Decode, Stage::Decode, Stage::Decode];
    let fusions = small.fusions_with(framework, |view| view.stages = stages.map(Some).to_vec());
    let found: Vec<_> = fusions.iter().map(|fusion| (fusion.stage, fusion.launches)).collect();
    assert_eq!(found, [(Stage::Decode, 2)]);
}

/// One of four possible starts is enough for `likely`, one of five is not.
#[test]
fn a_split_of_few_launches_is_only_possible() {
    let (mut small, framework) = rope_and_store();
    let (rope, work) = (small.ops[0].clone(), SmallOp::other_work());
    for (more, confidence) in [(3, Confidence::Likely), (1, Confidence::Possible)] {
        for _ in 0..more {
            small.ops.extend([rope.clone(), work.clone()]);
        }
        let fusions = small.fusions(framework);
        assert_eq!(fusions.iter().map(|fusion| fusion.confidence).collect::<Vec<_>>(), [confidence]);
    }
}

#[test]
fn findings_below_the_minimum_share_are_counted_but_not_shown() {
    let (mut small, framework) = rope_and_store();
    small.ops.extend(vec![SmallOp::other_work(); 398]);
    for (min_share_pct, rows, hidden) in [(0.5, 1, 0), (0.6, 0, 1)] {
        let options = Options { min_share_pct, ..Options::default() };
        let (trace, server) = (small.trace(), small.server());
        let mut view = small.view(&trace, &server, &options, framework);
        small.set_call_sites(&mut view);
        let section = fuse::section(&view, &fuse::matches(&view, &kernels::rows(&view)), &Roofs::default());
        assert_eq!((section.rows.len(), section.summary.get("under_the_bar")), (rows, Some(&Value::Int(hidden))));
    }
}

/// Without server arguments, the model file in the stacks gives the model, and HIP calls give the hardware.
#[test]
fn the_model_is_detected_from_frames_and_the_hardware_from_calls() {
    let case = case("vllm-origin-gpt-oss-router-gemm");
    let small = case.matching.iter().find(|small| small.status == "not applicable").unwrap();
    let silent = Small { model: None, device: String::new(), ..small.clone() };
    let framework = framework(&case.framework);
    assert_eq!(silent.status_of(&case.pattern, framework), None, "the model is unknown");
    let mut trace = silent.trace();
    let mut code = HostCode::default();
    code.frames.names.intern("vllm/model_executor/models/gpt_oss.py(130): forward");
    trace.code = Some(Box::new(code));
    for (call, status) in [("hipLaunchKernel", "not applicable"), ("cudaLaunchKernel", "split")] {
        trace.calls.names = Names::default();
        trace.calls.names.intern(call);
        let (server, options) = (silent.server(), Options::default());
        let mut view = silent.view(&trace, &server, &options, framework);
        silent.set_call_sites(&mut view);
        let fusions = fuse::matches(&view, &kernels::rows(&view));
        let found = fusions.iter().find(|fusion| fusion.pattern == case.pattern).unwrap();
        assert_eq!(found.status.label(), status, "{call}");
    }
}

/// Traces of training, vision and communication match no pattern of a framework, whichever is assumed.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn runs_without_serving_match_no_pattern_of_a_framework() {
    let traces = shared("traces/torch");
    let names = [
        "resnet50_v100_torch1.9.pt.trace.json.gz",
        "nccl_metadata_a100.trace.json.gz",
        "particle_transformer_a100.pt.trace.json.gz",
        "h100_nvl_small.pt.trace.json.gz",
    ];
    for name in names {
        let trace = import_with_code(&traces.join(name));
        for framework in ["sglang", "vllm", "trtllm", "tokenspeed"] {
            let mut found = found(&trace, framework, None, Stage::All);
            found.retain(|(pattern, ..)| pattern != "unfused-attention");
            assert!(found.is_empty(), "{name} as {framework}: {found:?}");
        }
    }
}

fn case(pattern: &str) -> Case {
    cases().into_iter().find(|case| case.pattern == pattern).unwrap()
}

fn rope_and_store() -> (Small, Framework) {
    let case = case("fused-rope-kv-cache-store");
    (case.matching.into_iter().find(|small| small.status == "split").unwrap(), Framework::Sglang)
}

/// The manual labels of a real trace.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Label {
    trace: String,
    framework: String,
    stage: String,
    model: Option<String>,
    /// Correct findings.
    #[serde(rename = "shows")]
    correct: Vec<LabelledFinding>,
    /// Wrong or redundant findings: pattern and reason.
    #[serde(rename = "not")]
    wrong: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LabelledFinding {
    pattern: String,
    status: String,
    /// Counted by an independent program.
    launches: u64,
    /// Sum of their durations.
    duration_us: f64,
    /// Share of the sum of all durations.
    share_pct: f64,
    why: String,
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn findings_of_real_traces_are_exactly_the_labelled_ones() {
    let traces = shared("traces/torch");
    let labels: Vec<Label> = serde_json::from_str(LABELS).unwrap();
    let (mut correct, mut wrong) = (0, Vec::new());
    let mut missing = Vec::new();
    for label in &labels {
        let trace = import_with_code(&traces.join(&label.trace));
        let stage = Stage::ALL.into_iter().find(|stage| stage.label() == label.stage).unwrap();
        let mut found = found(&trace, &label.framework, label.model.as_deref(), stage);
        for shown in &label.correct {
            assert!(!shown.why.is_empty());
            let index =
                found.iter().position(|(pattern, status, _)| (pattern, status) == (&shown.pattern, &shown.status));
            let Some(index) = index else {
                missing.push(format!("{}: {} {}", label.trace, shown.pattern, shown.status));
                continue;
            };
            let (_, _, row) = found.remove(index);
            correct += 1;
            let number = |column: &str| row[column].number().unwrap();
            assert!((number("related_ns") / 1e3 - shown.duration_us).abs() < 0.5, "{}: {row:?}", label.trace);
            assert!((number("share_pct") - shown.share_pct).abs() < 0.01, "{}: {row:?}", label.trace);
            let text = row["rationale"].text().unwrap();
            assert!(text.contains(&format!(" {} launches", shown.launches)), "{}: {text}", label.trace);
        }
        let why = |pattern: &String| label.wrong.get(pattern).map_or("not labelled", String::as_str);
        wrong.extend(
            found.iter().map(|(pattern, status, _)| format!("{}: {pattern} {status}: {}", label.trace, why(pattern))),
        );
    }
    let (labelled, reported) = (correct + missing.len(), correct + wrong.len());
    println!("{} traces: precision {correct} of {reported}, recall {correct} of {labelled}", labels.len());
    assert!(missing.is_empty() && wrong.is_empty(), "missing:\n{}\nwrong:\n{}", missing.join("\n"), wrong.join("\n"));
}

#[test]
fn labels_refer_to_known_patterns_and_distinct_traces() {
    let labels: Vec<Label> = serde_json::from_str(LABELS).unwrap();
    let patterns = Patterns::embedded().patterns;
    for (index, label) in labels.iter().enumerate() {
        assert!(!labels[..index].iter().any(|other| other.trace == label.trace), "{}", label.trace);
        let named = label.correct.iter().map(|shown| &shown.pattern).chain(label.wrong.keys());
        for id in named {
            assert!(patterns.iter().any(|pattern| pattern.id == *id), "{id}");
        }
    }
}

/// A row of the table by column.
type Row = BTreeMap<String, Value>;

/// Pattern, status and row of each finding in the table.
fn found(trace: &Trace, framework_name: &str, model: Option<&str>, file_stage: Stage) -> Vec<(String, String, Row)> {
    let mut server = ServerArgs::default();
    server.0.extend(model.map(|model| ("model_path".to_owned(), model.into())));
    let framework = Some(framework(framework_name));
    let options = Options::default();
    let request = Request { trace, path: "", file_stage, mapping: &[], server: &server, framework, options: &options };
    let section = triage(&request).remove("triage_fuse").unwrap();
    let patterns = Patterns::embedded().patterns;
    let row = |record: &gpuprism::analysis::section::Record| {
        let row: Row = record.0.iter().map(|(key, value)| (key.to_string(), value.clone())).collect();
        let name = row["pattern"].text().unwrap();
        let pattern = patterns.iter().find(|pattern| pattern.name == name).unwrap();
        (pattern.id.clone(), row["status"].text().unwrap().to_owned(), row)
    };
    section.rows.iter().map(row).collect()
}
