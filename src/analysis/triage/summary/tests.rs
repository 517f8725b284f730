use super::super::call_sites::CallSite;
use super::super::overlap::TriageOverlapFigures;
use super::super::serving::Framework;
use super::super::{Options, ServerArgs};
use super::*;
use crate::analysis::section::{Fields, Pct, Section, Value};
use crate::analysis::structure::stages::testing::{arguments, with_view};
use crate::trace::testing::TestTrace;
use crate::trace::{Job, NONE, Trace};

fn summary_of(trace: &Trace, file_stage: Stage, server: &ServerArgs, rows: &[KernelRow]) -> Section {
    with_view(trace, file_stage, server, &Options::default(), |view| {
        table(view, rows, &overlaps(), &Roofs::default()).section()
    })
}

/// An overlap table with idle time in prefill and decode.
fn overlaps() -> Answer<TriageOverlap> {
    let row = |(stage, name, share): (Stage, &str, f64)| TriageOverlapRow {
        stage,
        kernel_name: name.into(),
        unpaused_share_pct: Some(Pct(share)),
        ..TriageOverlapRow::default()
    };
    let rows =
        [(Stage::Prefill, overlap::IDLE, 86.2), (Stage::Decode, "other", 99.0), (Stage::Decode, overlap::IDLE, 6.5)];
    TriageOverlap::answer("").with_rows(rows.map(row))
}

fn summary(trace: &Trace) -> Section {
    summary_of(trace, Stage::All, &ServerArgs::default(), &[])
}

#[test]
fn pauses_are_mentioned_only_if_there_are_some() {
    let figures = TriageOverlapFigures { pauses_ns: Ns(20_000_000), ..TriageOverlapFigures::default() };
    let paused = overlaps().with_figures(figures);
    let trace = TestTrace::new().kernel("k", 0..60).finish();
    let summary = with_view(&trace, Stage::All, &ServerArgs::default(), &Options::default(), |view| {
        table(view, &[], &paused, &Roofs::default()).section()
    });
    assert!(warns(&summary, "Wall time includes the pauses of the devices"), "{:?}", summary.limits);
}

fn warns(section: &Section, words: &str) -> bool {
    section.limits.iter().any(|limit| limit.contains(words))
}

fn figure<'a>(section: &'a Section, name: &str) -> &'a Value {
    section.summary.get(name).unwrap()
}

#[test]
fn each_stage_has_its_times_and_largest_parts() {
    let mut trace = TestTrace::coded();
    trace.device_annotation("step[EXTEND bs=1 toks=9]", 0..100, 1).kernel("k", 0..60).kernel("k", 30..90);
    trace.device_annotation("step[DECODE bs=1]", 100..1000, 2).kernel("k", 100..200).kernel("k", 700..800);
    let rows = [
        KernelRow::for_test(Stage::Prefill, "big", "gemm", 60),
        KernelRow::for_test(Stage::Decode, "void ns::attn<int>(float*)", "attention", 90),
        KernelRow::for_test(Stage::Decode, "mm_a", "gemm", 60),
        KernelRow::for_test(Stage::Decode, "mm_b", "gemm", 50),
    ];
    let section = summary_of(&trace.finish(), Stage::All, &ServerArgs::default(), &rows);
    let row = |stage, [duration_ns, busy_ns, wall_ns]: [i64; 3], text: &str| TriageSummaryRow {
        stage,
        duration_ns: Ns(duration_ns),
        busy_ns: Ns(busy_ns),
        wall_ns: Ns(wall_ns),
        launches: 2,
        dominated_by: Some(text.to_owned()),
    };
    let want = [
        row(
            Stage::Prefill,
            [120, 90, 90],
            "GPU idle 86.2 % of busy and idle time; share of the work: gemm 66.7 %; largest kernel k (66.7 %)",
        ),
        row(
            Stage::Decode,
            [200, 200, 700],
            "gemm 55.0 %, attention 45.0 %; largest kernel k (45.0 %); GPU idle 6.5 % of busy and idle time",
        ),
    ];
    assert_eq!(section.rows.iter().map(TriageSummaryRow::read).collect::<Vec<_>>(), want);
    assert!(warns(&section, "work of other stages in between"));
    assert!(!warns(&section, "pauses"), "there are none");
    assert_eq!(figure(&section, "mode"), &Value::from("single-trace"));
}

#[test]
fn figures_describe_the_run() {
    let mut trace = TestTrace::new();
    trace.kernel("k", 0..60).builder.trace.job = Some(Box::new(Job { world_size: 8, ..Job::default() }));
    let trace = trace.finish();
    let server =
        arguments(r#"{"model_path": "M", "disable_cuda_graph": true, "attention_backend": "fa3", "tp_size": 2}"#);
    let section = summary_of(&trace, Stage::All, &server, &[]);
    for (name, want) in [
        ("framework", "SGLang"),
        ("model", "M"),
        ("tp_size_from", "server arguments"),
        ("arguments", "disable_cuda_graph=true\nattention_backend=fa3"),
        ("devices", "id 0"),
    ] {
        assert_eq!(figure(&section, name), &Value::from(want));
    }
    assert_eq!((figure(&section, "tp_size"), figure(&section, "role")), (&Value::Int(2), &Value::Null));
    assert!(section.limits.is_empty(), "{:?}", section.limits);
    let server = arguments(r#"{"enforce_eager": true}"#);
    let estimated = summary_of(&trace, Stage::All, &server, &[]);
    assert_eq!(figure(&estimated, "tp_size"), &Value::Int(8));
    assert_eq!(
        figure(&estimated, "tp_size_from").text(),
        Some("an estimate from the world size, which includes other parallelism")
    );
}

#[test]
fn mixed_prefill_and_decode_workers_are_a_warning() {
    let mut trace = TestTrace::coded();
    trace.device_annotation("step[EXTEND bs=1 toks=9]", 0..100, 1).kernel("k", 0..75);
    trace.device_annotation("step[DECODE bs=1]", 100..200, 2).kernel("k", 100..125);
    let trace = trace.finish();
    let server = arguments(r#"{"disaggregation_mode": "prefill"}"#);
    assert!(warns(
        &summary_of(&trace, Stage::All, &server, &[]),
        "a prefill worker, but 25.0 % of the GPU time is decode"
    ));
    assert!(!warns(&summary(&trace), "worker"), "one server may run both");
    let mut two_workers = TestTrace::coded();
    two_workers.device(0).device_annotation("step[EXTEND bs=1 toks=9]", 0..100, 1).kernel("k", 0..75);
    two_workers.device(1).device_annotation("step[DECODE bs=1]", 0..100, 2).kernel("k", 0..75);
    assert!(warns(&summary(&two_workers.finish()), "Device 0 runs only prefill and device 1 only decode"));
}

#[test]
fn merged_ranks_and_uneven_devices_are_warnings() {
    let summary_of_devices = |first: &str, second: &str, end: i64| {
        summary(&TestTrace::new().device(first).kernel("k", 0..100).device(second).kernel("k", 0..end).finish())
    };
    let even = summary_of_devices("[TP00] 0", "[TP01] 1", 80);
    assert!(warns(&even, "2 ranks were merged into this file (TP00, TP01)") && !warns(&even, "Devices differ"));
    assert!(warns(&summary_of_devices("[TP00] 0", "[TP01] 1", 79), "Devices differ: [TP00] 0 is busy"));
    assert!(!warns(&summary_of_devices("[TP00] 0", "[TP00] 1", 100), "merged"), "two devices of one rank");
}

#[test]
fn annotations_that_contradict_the_file_name_are_a_warning() {
    let trace = TestTrace::coded()
        .device_annotation("step[DECODE bs=1]", 0..100, 1)
        .device_annotation("step[EXTEND bs=1 toks=2]", 100..200, 2)
        .device_annotation("step[DRAFT bs=1]", 200..300, 3)
        .kernel("k", 0..100)
        .finish();
    let summary_for = |stage| summary_of(&trace, stage, &ServerArgs::default(), &[]);
    assert!(warns(&summary_for(Stage::Prefill), "the stage extend/prefill, but 1 of 3 annotated steps"));
    assert!(warns(&summary_for(Stage::Decode), "the stage decode, but 1 of 3 annotated steps"));
    assert!(!warns(&summary_for(Stage::All), "The file name indicates"));
}

#[test]
fn graph_replays_are_a_warning_with_advice_for_each_framework() {
    let mut trace = TestTrace::new();
    (0..40).step_by(10).for_each(|start| _ = trace.kernel("k", start..start + 10));
    let trace = trace.finish();
    let site = CallSite { resolution: Resolution::Replay, ..CallSite::default() };
    for (framework, how) in [
        (Framework::Sglang, "--disable-cuda-graph (older releases: also --disable-piecewise-cuda-graph)"),
        (Framework::Vllm, "--enforce-eager"),
        (Framework::TrtLlm, "cuda_graph_config: null"),
        (Framework::Plain, "CUDA graphs turned off"),
    ] {
        let replayed = with_view(&trace, Stage::All, &ServerArgs::default(), &Options::default(), |view| {
            (view.framework, view.call_sites.distinct) = (framework, vec![site.clone()]);
            view.call_sites.by_op = vec![0, 0, 0, NONE];
            table(view, &[], &overlaps(), &Roofs::default()).section()
        });
        assert!(
            warns(&replayed, "75.0 % of the ops are graph replays") && warns(&replayed, how),
            "{:?}",
            replayed.limits
        );
    }
}

#[test]
fn there_is_no_overlap_basis_without_work() {
    assert_eq!(figure(&summary(&TestTrace::new().finish()), "overlap_basis"), &Value::Null);
}

#[test]
fn a_selection_without_a_device_is_a_warning() {
    let trace = TestTrace::new().device("[TP00] 0").kernel("k", 0..100).device("[TP01] 1").kernel("k", 0..80).finish();
    let summary_of_devices = |text: &str| {
        let options = Options { pid_substring: Some(text.to_owned()), ..Options::default() };
        with_view(&trace, Stage::All, &ServerArgs::default(), &options, |view| {
            table(view, &[], &overlaps(), &Roofs::default()).section()
        })
    };
    assert_eq!(
        summary_of_devices("TP02").limits[0],
        r#"No device id contains "TP02"; the trace has [TP00] 0, [TP01] 1."#
    );
    assert_eq!(figure(&summary_of_devices("TP02"), "devices"), &Value::Null);
    assert_eq!(
        (figure(&summary_of_devices("TP01"), "devices"), summary_of_devices("TP01").rows.len()),
        (&Value::from("id [TP01] 1"), 1)
    );
    assert!(!warns(&summary_of_devices("TP01"), "merged"), "one rank is no sum");
}
