//! Stages and steps of real traces. The expected values were computed from the annotations, calls and ops of the traces by
//! an independent script that shares no code with the project.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::print_stdout, reason = "tests")]

use crate::common;
use gpuprism::analysis::section::{Record, Section, Value};
use gpuprism::analysis::structure::stages;
use gpuprism::analysis::triage::{Options, Request, ServerArgs, Stage, triage};
use gpuprism::trace::Trace;
use std::collections::BTreeMap;

/// Expected values of a trace with one step.
struct Expected {
    file: &'static str,
    framework: &'static str,
    stage: &'static str,
    batch_size: i64,
    tokens: i64,
    /// From the first to the last op launched within the `execute_` annotation on the host, without the time from the end
    /// of a launch to the start of its op if that is more than 1 ms and nothing else ran. Found in the raw events.
    step_us: f64,
    busy_pct: f64,
    /// Number of GPU ops in the trace.
    ops: i64,
}

const ONE_STEP: [Expected; 7] = [
    Expected {
        file: "sglang_qwen3_30b_b300_decode",
        framework: "SGLang",
        stage: "decode",
        batch_size: 16,
        tokens: 16,
        step_us: 7505.109,
        busy_pct: 71.75496,
        ops: 718,
    },
    Expected {
        file: "sglang_qwen3_30b_mi300_decode",
        framework: "SGLang",
        stage: "decode",
        batch_size: 16,
        tokens: 16,
        step_us: 12357.830,
        busy_pct: 85.92490,
        ops: 805,
    },
    Expected {
        file: "sglang_qwen3_8b_mi300_decode",
        framework: "SGLang",
        stage: "decode",
        batch_size: 32,
        tokens: 32,
        step_us: 10498.186,
        busy_pct: 93.09160,
        ops: 558,
    },
    Expected {
        file: "sglang_qwen3_8b_mi300_extend",
        framework: "SGLang",
        stage: "extend/prefill",
        batch_size: 15,
        tokens: 15360,
        step_us: 494_049.766,
        busy_pct: 99.74843,
        ops: 534,
    },
    Expected {
        file: "vllm_b200_eager_prefill",
        framework: "vLLM",
        stage: "extend/prefill",
        batch_size: 1,
        tokens: 888,
        step_us: 84487.178,
        busy_pct: 13.72573,
        ops: 929,
    },
    Expected {
        file: "vllm_mi300_decode_full_graph",
        framework: "vLLM",
        stage: "decode",
        batch_size: 32,
        tokens: 32,
        step_us: 10743.181,
        busy_pct: 99.76289,
        ops: 434,
    },
    Expected {
        file: "vllm_mi300_piecewise_graph",
        framework: "vLLM",
        stage: "mixed",
        batch_size: 46,
        tokens: 8192,
        step_us: 156_466.417,
        busy_pct: 99.75674,
        ops: 423,
    },
];

/// Reads a trace with its code.
fn read(name: &str) -> Trace {
    let folder = common::shared("traces/torch");
    let path = [".trace.json.gz", ".pt.trace.json.gz"].map(|end| folder.join(format!("{name}{end}")));
    common::import_with_code(path.iter().find(|path| path.exists()).unwrap_or(&path[0]))
}

fn tables(trace: &Trace, file_stage: Stage, options: &Options) -> BTreeMap<String, Section> {
    let server = ServerArgs::default();
    triage(&Request { trace, path: "", file_stage, mapping: &[], server: &server, framework: None, options })
}

fn only_row(section: &Section) -> &Record {
    assert_eq!(section.rows.len(), 1, "{section:?}");
    &section.rows[0]
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn each_trace_has_the_stage_batch_size_and_tokens_of_its_annotations() {
    for expected in ONE_STEP {
        let trace = read(expected.file);
        let tables = tables(&trace, Stage::All, &Options::default());
        let get = |key: &str| only_row(&tables["triage_steps"]).get(key).unwrap().clone();
        let cells = ["stage", "steps", "batch_size", "tokens"].map(get);
        let row = [expected.stage.into(), Value::Int(1), expected.batch_size.into(), expected.tokens.into()];
        assert_eq!(cells, row, "{}", expected.file);
        for (key, value, tolerance) in
            [("median_us", expected.step_us, 0.003), ("gpu_busy_pct", expected.busy_pct, 0.001)]
        {
            let found = get(key).number().unwrap();
            assert!((found - value).abs() < tolerance, "{}: {key} is {found}, expected {value}", expected.file);
        }
        let summary = &tables["triage_summary"];
        let row = only_row(summary);
        assert_eq!(row.get("stage"), Some(&expected.stage.into()), "{}", expected.file);
        assert_eq!(row.get("launches"), Some(&expected.ops.into()), "every op belongs to the step: {}", expected.file);
        assert_eq!(summary.summary.get("framework"), Some(&expected.framework.into()), "{}", expected.file);
    }
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn file_names_with_a_stage_agree_with_the_annotations() {
    let mut named = 0;
    for expected in ONE_STEP {
        let trace = read(expected.file);
        let by_name = stages::stage_of_path(&trace.label);
        if by_name != Stage::All {
            assert_eq!(by_name.label(), expected.stage, "{}", expected.file);
            assert_eq!(stages::count_stage_conflicts(&stages::steps(&trace), by_name), (0, 1), "{}", expected.file);
            named += 1;
        }
    }
    assert_eq!(named, 6, "all but the mixed one");
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn a_file_name_that_contradicts_the_annotations_causes_a_warning() {
    let trace = read("vllm_mi300_decode_full_graph");
    let tables = tables(&trace, Stage::Prefill, &Options::default());
    let is_warning = |limit: &String| limit.contains("1 of 1 annotated steps have another stage");
    assert!(tables["triage_summary"].limits.iter().any(is_warning));
    assert_eq!(
        only_row(&tables["triage_summary"]).get("stage"),
        Some(&"extend/prefill".into()),
        "the file name decides"
    );
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn attention_work_is_computed_from_the_sums_in_the_annotation() {
    let trace = read("vllm_mi300_piecewise_graph");
    let model_shape = serde_json::from_str(r#"{"layers": 1, "heads": 1, "head_dim": 1000}"#).unwrap();
    let tables = tables(&trace, Stage::All, &Options { model_shape, ..Options::default() });
    let gflop = only_row(&tables["triage_steps"]).get("attention_gflop").unwrap().number().unwrap();
    // 7671310 pairs minus half of 7475785 among new tokens, plus 34489 of generation: 3967906.5 pairs of 4000 FLOP.
    assert!((gflop - 15.871_626).abs() < 1e-9, "{gflop}");
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn traces_without_a_serving_engine_have_profiler_steps_or_none_and_no_stage() {
    for (file, steps) in [
        ("hf_qwen1.5_0.5b_h100", 1),
        ("hf_qwen1.5_0.5b_mi300", 1),
        ("train_v100_216k_events", 5),
        ("nccl_metadata_a100", 3),
        ("h100_nvl_small", 1),
        ("particle_transformer_a100", 0),
        ("vllm_mi300_graph_capture", 0),
    ] {
        let trace = read(file);
        assert_eq!(stages::steps(&trace).len(), steps, "{file}");
        let tables = tables(&trace, Stage::All, &Options::default());
        assert_eq!(only_row(&tables["triage_summary"]).get("stage"), Some(&"all".into()), "{file}");
        assert_eq!(tables["triage_steps"].missing.is_some(), steps == 0, "{file}");
    }
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn without_arguments_the_tensor_parallel_size_is_estimated_by_the_world_size() {
    for (file, expected) in [
        ("vllm_b200_eager_prefill", Value::Int(8)),
        ("sglang_qwen3_8b_mi300_decode", Value::Int(1)),
        ("hf_qwen1.5_0.5b_h100", Value::Null),
        ("nccl_metadata_a100", Value::Null),
    ] {
        let trace = read(file);
        let tables = tables(&trace, Stage::All, &Options::default());
        assert_eq!(tables["triage_summary"].summary.get("tp_size"), Some(&expected), "{file}");
    }
}
