//! The fuse-pattern table against small traces on which each pattern must or must not show, and against what a person says
//! of real traces, which lie outside the project in `../shared`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::print_stdout, reason = "tests")]

mod common;

use common::shared;
use gpuprism::analysis::section::Value;
use gpuprism::analysis::triage::call_sites::{CallSite, CallSites, Resolution};
use gpuprism::analysis::triage::fuse::{self, Confidence, Fusion, Patterns};
use gpuprism::analysis::triage::kernels;
use gpuprism::analysis::triage::{Framework, Options, Request, ServerArgs, Stage, View, triage};
use gpuprism::input::{Imported, Importer};
use gpuprism::trace::{Code, Format, GpuOp, Names, Ns, OpKind, Trace, TraceBuilder};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

const CASES: &str = include_str!("data/fuse_cases.json");
const LABELS: &str = include_str!("data/triage_labels/fuse.json");

/// A pattern with traces on which it must show and traces on which it must not.
#[derive(Deserialize)]
struct Case {
    pattern: String,
    framework: String,
    fires: Vec<Small>,
    silent: Vec<Small>,
}

/// A small trace; its ops follow one another, 10 us each.
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
    /// Work that no pattern knows.
    fn work() -> Self {
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
        let mut builder = TraceBuilder::new("small", Format::TorchProfiler);
        let device = builder.device("0", &self.device);
        let process = builder.process(1, "python");
        for (at, op) in (0_i64..).zip(&self.ops) {
            let kind = if op.kernel.starts_with("Memset") { OpKind::Set } else { OpKind::Kernel };
            let name = builder.trace.names.intern(&op.kernel);
            let (start, duration) = (Ns(at * 11_000), Ns(10_000));
            builder.trace.gpu_ops.push(GpuOp { start, duration, name, device, stream: op.stream, process, kind }, None);
        }
        builder.finish()
    }

    fn server(&self) -> ServerArgs {
        let mut arguments = serde_json::Map::new();
        arguments.extend(self.model.as_ref().map(|model| ("model_path".to_owned(), model.as_str().into())));
        arguments.extend(self.tp.map(|size| ("tp_size".to_owned(), size.into())));
        ServerArgs(arguments)
    }

    /// The function stands where a frame has it: after the place.
    fn site(op: &SmallOp) -> CallSite {
        let location = if op.function.is_empty() { String::new() } else { format!("some/where.py:3 {}", op.function) };
        let stack = if location.is_empty() { Vec::new() } else { vec![location.clone()] };
        CallSite { display: location.clone(), location, stack, cpu_op: op.op.clone(), resolution: Resolution::Exact }
    }

    fn view<'a>(&self, trace: &'a Trace, server: &'a ServerArgs, options: &'a Options, of: Framework) -> View<'a> {
        View::new(&Request {
            trace,
            path: "",
            file_stage: Stage::Decode,
            mapping: &[],
            server,
            framework: Some(of),
            options,
        })
    }

    /// Every op has a place in the code of its own.
    fn place(&self, view: &mut View) {
        let of_op = (0..).take(self.ops.len()).collect();
        view.call_sites = CallSites { distinct: self.ops.iter().map(Self::site).collect(), by_op: of_op };
    }

    fn fusions_of(&self, framework: Framework, change: impl Fn(&mut View)) -> Vec<Fusion> {
        let (trace, server, options) = (self.trace(), self.server(), Options::default());
        let mut view = self.view(&trace, &server, &options, framework);
        self.place(&mut view);
        change(&mut view);
        fuse::matches(&view, &kernels::rows(&view))
    }

    fn fusions(&self, framework: Framework) -> Vec<Fusion> {
        self.fusions_of(framework, |_| ())
    }

    fn status_of(&self, pattern: &str, framework: Framework) -> Option<&'static str> {
        let fusions = self.fusions(framework);
        fusions.iter().find(|fusion| fusion.pattern == pattern).map(|fusion| fusion.status.label())
    }
}

#[test]
fn every_pattern_shows_where_it_must_and_is_silent_on_near_misses() {
    let mut wrong = Vec::new();
    let (mut fired, mut silent) = (0, 0);
    for case in cases() {
        let framework = framework(&case.framework);
        let kernels = |small: &Small| small.ops.iter().map(|op| op.kernel.clone()).collect::<Vec<_>>();
        let failures = wrong.len();
        for small in &case.fires {
            let got = small.status_of(&case.pattern, framework);
            if got != Some(&small.status) {
                wrong.push(format!("{}: {:?}, not {}: {:?}", case.pattern, got, small.status, kernels(small)));
            }
        }
        fired += usize::from(wrong.len() == failures);
        let failures = wrong.len();
        for small in &case.silent {
            if let Some(got) = small.status_of(&case.pattern, framework) {
                wrong.push(format!("{}: {got}, although {}: {:?}", case.pattern, small.why, kernels(small)));
            }
        }
        silent += usize::from(wrong.len() == failures);
    }
    println!("{fired} of 47 patterns show where they must, {silent} of 47 are silent on near misses");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_pattern_has_a_case_for_each_form_that_it_can_have() {
    let cases = cases();
    let patterns = Patterns::embedded().patterns;
    assert_eq!(patterns.len(), cases.len());
    for (pattern, case) in patterns.iter().zip(&cases) {
        assert_eq!(pattern.id, case.pattern);
        let has = |status: &[&str]| case.fires.iter().any(|small| status.contains(&small.status.as_str()));
        assert!(has(&["active"]), "{}", pattern.id);
        assert!(pattern.chains.is_empty() || has(&["split", "in flight"]), "{}", pattern.id);
        assert!(case.silent.len() >= 2 && case.silent.iter().all(|small| !small.why.is_empty()), "{}", pattern.id);
    }
}

#[test]
fn no_pattern_shows_in_another_framework() {
    for case in cases() {
        for other in
            ["sglang", "vllm", "trtllm", "tokenspeed", "none"].into_iter().filter(|other| *other != case.framework)
        {
            for small in &case.fires {
                assert_eq!(small.status_of(&case.pattern, framework(other)), None, "{} in {other}", case.pattern);
            }
        }
    }
}

#[test]
fn a_chain_is_one_only_on_one_stream_and_without_work_between_its_parts() {
    for case in cases() {
        let framework = framework(&case.framework);
        let chains = case.fires.iter().filter(|small| small.status != "active" && small.ops.len() > 1);
        for small in chains {
            let mut apart = small.clone();
            (20..).zip(&mut apart.ops).for_each(|(stream, op)| op.stream = stream);
            assert_eq!(apart.status_of(&case.pattern, framework), None, "{} over streams", case.pattern);
            let mut unknown = small.clone();
            unknown.ops.iter_mut().for_each(|op| op.stream = -1);
            assert_eq!(unknown.status_of(&case.pattern, framework), None, "{} without a stream", case.pattern);
            let mut between = small.clone();
            between.ops = small.ops.iter().flat_map(|op| [op.clone(), SmallOp::work()]).collect();
            assert_eq!(between.status_of(&case.pattern, framework), None, "{} with work between", case.pattern);
        }
    }
}

#[test]
fn words_in_the_wrong_field_say_nothing() {
    for case in cases() {
        let framework = framework(&case.framework);
        for small in case.fires.iter().filter(|small| small.status == "active") {
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

/// Only launches that take part are counted, and one launch may serve several patterns.
#[test]
fn time_is_that_of_the_launches_that_take_part() {
    let (mut small, framework) = rope_and_store();
    let (rope, store, work) = (small.ops[0].clone(), small.ops[1].clone(), SmallOp::work());
    // Two pairs, a store alone and a rope alone; of eight launches four take part.
    small.ops = [&rope, &store, &work, &store, &work, &rope, &store, &rope].map(Clone::clone).to_vec();
    let fusions = small.fusions(framework);
    assert_eq!(fusions.len(), 1, "{fusions:?}");
    let fusion = &fusions[0];
    assert_eq!((fusion.launches, fusion.duration_ns, fusion.share_pct), (4, 40_000, 50.0));
    assert_eq!(fusion.evidence.len(), 2);
    assert!(fusion.evidence.iter().all(|line| line.ends_with("(25.0%)")), "{:?}", fusion.evidence);
}

/// A fused form and a split one of the same pattern are told apart, with their own counts.
#[test]
fn fused_and_split_launches_of_one_pattern_are_two_findings() {
    let case = case("fused-rope-kv-cache-store");
    let of = |status: &str| case.fires.iter().find(|small| small.status == status).unwrap().clone();
    let mut small = of("active");
    small.ops.extend([of("split").ops, of("split").ops].concat());
    let fusions = small.fusions(Framework::Sglang);
    let found: Vec<_> = fusions.iter().map(|fusion| (fusion.status.label(), fusion.launches)).collect();
    assert_eq!(found, [("split", 4), ("active", 1)]);
}

/// A chain that ends in another stage than it began is none.
#[test]
fn a_chain_lies_in_one_stage() {
    let (mut small, framework) = rope_and_store();
    small.ops = [small.ops.clone(), small.ops.clone()].concat();
    let stages = [Stage::Prefill, Stage::Decode, Stage::Decode, Stage::Decode];
    let fusions = small.fusions_of(framework, |view| view.stages = stages.map(Some).to_vec());
    let found: Vec<_> = fusions.iter().map(|fusion| (fusion.stage, fusion.launches)).collect();
    assert_eq!(found, [(Stage::Decode, 2)]);
}

/// One beginning of five is not most of them, one of four is enough.
#[test]
fn a_split_that_few_launches_show_is_only_possible() {
    let (mut small, framework) = rope_and_store();
    let (rope, work) = (small.ops[0].clone(), SmallOp::work());
    for (more, confidence) in [(3, Confidence::Likely), (1, Confidence::Possible)] {
        for _ in 0..more {
            small.ops.extend([rope.clone(), work.clone()]);
        }
        let fusions = small.fusions(framework);
        assert_eq!(fusions.iter().map(|fusion| fusion.confidence).collect::<Vec<_>>(), [confidence]);
    }
}

/// What is under the person's bar is counted, not shown.
#[test]
fn findings_under_the_bar_are_counted() {
    let (mut small, framework) = rope_and_store();
    small.ops.extend(vec![SmallOp::work(); 398]);
    for (bar, rows, hidden) in [(0.5, 1, 0), (0.6, 0, 1)] {
        let options = Options { min_share_pct: bar, ..Options::default() };
        let (trace, server) = (small.trace(), small.server());
        let mut view = small.view(&trace, &server, &options, framework);
        small.place(&mut view);
        let section = fuse::section(&view, &fuse::matches(&view, &kernels::rows(&view)));
        assert_eq!((section.rows.len(), section.summary.get("under_the_bar")), (rows, Some(&Value::Int(hidden))));
    }
}

/// Without server arguments the model file on the stacks tells the model, and HIP calls tell the hardware.
#[test]
fn frames_tell_the_model_and_calls_the_hardware() {
    let case = case("vllm-origin-gpt-oss-router-gemm");
    let small = case.fires.iter().find(|small| small.status == "not applicable").unwrap();
    let silent = Small { model: None, device: String::new(), ..small.clone() };
    let framework = framework(&case.framework);
    assert_eq!(silent.status_of(&case.pattern, framework), None, "nothing tells the model");
    let mut trace = silent.trace();
    let mut code = Code::default();
    code.frames.names.intern("vllm/model_executor/models/gpt_oss.py(130): forward");
    trace.code = Some(Box::new(code));
    for (call, status) in [("hipLaunchKernel", "not applicable"), ("cudaLaunchKernel", "split")] {
        trace.calls.names = Names::default();
        trace.calls.names.intern(call);
        let (server, options) = (silent.server(), Options::default());
        let mut view = silent.view(&trace, &server, &options, framework);
        silent.place(&mut view);
        let fusions = fuse::matches(&view, &kernels::rows(&view));
        let found = fusions.iter().find(|fusion| fusion.pattern == case.pattern).unwrap();
        assert_eq!(found.status.label(), status, "{call}");
    }
}

/// Training, vision and communication: none of it is serving, whatever framework one takes it for.
#[test]
fn runs_that_serve_no_model_show_no_pattern() {
    let Some(traces) = shared("traces/torch") else { return };
    let names = [
        "train_a100_rank3of8.trace.json.gz",
        "resnet50_v100_torch1.9.pt.trace.json.gz",
        "nccl_metadata_a100.trace.json.gz",
        "particle_transformer_a100.pt.trace.json.gz",
        "h100_nvl_small.pt.trace.json.gz",
    ];
    for name in names {
        let trace = import(&traces.join(name));
        for framework in ["sglang", "vllm", "trtllm", "tokenspeed"] {
            let found = found(&trace, framework, None, Stage::All);
            assert!(found.is_empty(), "{name} as {framework}: {found:?}");
        }
    }
}

fn case(pattern: &str) -> Case {
    cases().into_iter().find(|case| case.pattern == pattern).unwrap()
}

fn rope_and_store() -> (Small, Framework) {
    let case = case("fused-rope-kv-cache-store");
    (case.fires.into_iter().find(|small| small.status == "split").unwrap(), Framework::Sglang)
}

/// What a person says of a real trace.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Label {
    trace: String,
    framework: String,
    stage: String,
    model: Option<String>,
    /// Findings that are true.
    shows: Vec<Shown>,
    /// Findings that would be false, or say what another says better: pattern and why.
    not: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shown {
    pattern: String,
    status: String,
    /// As counted in the trace by another program.
    launches: u64,
    /// Sum of their durations.
    duration_us: f64,
    /// Of the sum of all durations.
    share_pct: f64,
    why: String,
}

#[test]
fn real_traces_show_what_a_person_says_of_them() {
    let Some(traces) = shared("traces/torch") else { return };
    let labels: Vec<Label> = serde_json::from_str(LABELS).unwrap();
    let (mut right, mut wrong) = (0, Vec::new());
    let mut missing = Vec::new();
    for label in &labels {
        let trace = import(&traces.join(&label.trace));
        let stage = Stage::ALL.into_iter().find(|stage| stage.label() == label.stage).unwrap();
        let mut found = found(&trace, &label.framework, label.model.as_deref(), stage);
        for shown in &label.shows {
            assert!(!shown.why.is_empty());
            let place =
                found.iter().position(|(pattern, status, _)| (pattern, status) == (&shown.pattern, &shown.status));
            let Some(place) = place else {
                missing.push(format!("{}: {} {}", label.trace, shown.pattern, shown.status));
                continue;
            };
            let (_, _, row) = found.remove(place);
            right += 1;
            let number = |column: &str| row[column].number().unwrap();
            assert!((number("related_ns") / 1e3 - shown.duration_us).abs() < 0.5, "{}: {row:?}", label.trace);
            assert!((number("share_pct") - shown.share_pct).abs() < 0.01, "{}: {row:?}", label.trace);
            let text = row["rationale"].text().unwrap();
            assert!(text.contains(&format!(" {} launches", shown.launches)), "{}: {text}", label.trace);
        }
        let why = |pattern: &String| label.not.get(pattern).map_or("not labelled", String::as_str);
        wrong.extend(
            found.iter().map(|(pattern, status, _)| format!("{}: {pattern} {status}: {}", label.trace, why(pattern))),
        );
    }
    let (all, printed) = (right + missing.len(), right + wrong.len());
    println!("{} traces: precision {right} of {printed}, recall {right} of {all}", labels.len());
    assert!(missing.is_empty() && wrong.is_empty(), "missing:\n{}\nwrong:\n{}", missing.join("\n"), wrong.join("\n"));
}

#[test]
fn labels_name_known_patterns_and_each_trace_once() {
    let labels: Vec<Label> = serde_json::from_str(LABELS).unwrap();
    let patterns = Patterns::embedded().patterns;
    for (at, label) in labels.iter().enumerate() {
        assert!(!labels[..at].iter().any(|other| other.trace == label.trace), "{}", label.trace);
        let named = label.shows.iter().map(|shown| &shown.pattern).chain(label.not.keys());
        for id in named {
            assert!(patterns.iter().any(|pattern| pattern.id == *id), "{id}");
        }
    }
}

fn import(path: &Path) -> Trace {
    let mut importer = Importer::with_code("real");
    importer.feed(&std::fs::read(path).unwrap()).unwrap();
    match importer.finish().unwrap() {
        Imported::Trace(trace) => *trace,
        other => panic!("{other:?}"),
    }
}

/// A row of the table by column.
type Row = BTreeMap<String, Value>;

/// Pattern, status and row of everything that the table shows.
fn found(trace: &Trace, of: &str, model: Option<&str>, file_stage: Stage) -> Vec<(String, String, Row)> {
    let mut server = ServerArgs::default();
    server.0.extend(model.map(|model| ("model_path".to_owned(), model.into())));
    let framework = Some(framework(of));
    let options = Options::default();
    let request = Request { trace, path: "", file_stage, mapping: &[], server: &server, framework, options: &options };
    let section = triage(&request).remove("triage_fuse").unwrap();
    let patterns = Patterns::embedded().patterns;
    let row = |record: &gpuprism::analysis::section::Record| {
        let row: Row = record.0.iter().cloned().collect();
        let name = row["pattern"].text().unwrap();
        let pattern = patterns.iter().find(|pattern| pattern.name == name).unwrap();
        (pattern.id.clone(), row["status"].text().unwrap().to_owned(), row)
    };
    section.rows.iter().map(row).collect()
}
