use super::*;
use crate::analysis::section::Section;
use crate::analysis::testing::{read_json, rows_of, torch};
use crate::session::look_up_code;
use crate::trace::Trace;
use crate::trace::testing::TestTrace;

/// The kernels of a layer with their durations in us, and the additional time of its attention.
type TestLayer<'a> = (&'a [(&'a str, i64)], i64);

const DENSE: [(&str, i64); 9] = [
    ("rms_norm", 4),
    ("gemm_qkv", 30),
    ("rope", 2),
    ("flash_fwd", 20),
    ("gemm_o", 15),
    ("add_rms_norm", 4),
    ("gemm_gate_up", 60),
    ("silu_and_mul", 5),
    ("gemm_down", 40),
];

/// A decode step with two ops before and two after its layers, 1 us between the ops. `extra_us` is added to each layer's
/// attention.
fn add_step(trace: &mut TestTrace, at: i64, layers: &[TestLayer]) {
    trace.range("step[DECODE bs=4]", at..at + 500).call("cudaGraphLaunch", at + 1..at + 2);
    let mut now = at + 1_000;
    let mut op = |trace: &mut TestTrace, name: &str, length: i64| {
        trace.launches(name, now..now + length);
        now += length + 1;
    };
    op(trace, "kv_indices", 3);
    op(trace, "embedding", 5);
    for (layer, extra_us) in layers {
        for (name, length) in *layer {
            op(trace, name, if *name == "flash_fwd" { length + extra_us } else { *length });
        }
    }
    op(trace, "rms_norm", 4);
    op(trace, "gemm_head", 100);
    op(trace, "argmax_kernel", 10);
}

fn trace_of(steps: &[Vec<TestLayer>]) -> Trace {
    let mut trace = TestTrace::new();
    trace.in_us();
    for (index, layers) in steps.iter().enumerate() {
        add_step(&mut trace, index as i64 * 100_000, layers);
    }
    trace.finish()
}

fn sections_of(trace: &Trace) -> (Section, Section) {
    let context = Context::new(trace, 30);
    (layers(&context).section(), layer_roles(&context).section())
}

#[test]
fn equal_layers_fold_and_all_totals_add_up_to_the_step() {
    let (layers, roles) = sections_of(&trace_of(&[vec![(&DENSE[..], 0); 8]]));
    assert_eq!(
        rows_of(&layers, &["stage", "kind", "count", "pattern", "kernels", "median_us", "equal_layers", "outliers"]),
        ["decode A 8 A8 9 180 8 -"]
    );
    let sum: f64 = roles.rows.iter().map(|row| row.amount("total_ns")).sum();
    // 8 layers of 180 us, 122 us outside, and 1 us before each of the 77 ops but the first, whose sum is 5 + 72 ops.
    assert_eq!(sum, (8.0 * 180.0 + 122.0 + 76.0) * 1e3);
    assert_eq!(layers.summary.amount("step_ns"), sum);
    assert_eq!(layers.summary.amount("layers"), 8.0);
    let gate_up = roles.rows.iter().find(|row| row.text("role") == "gate_up").unwrap();
    assert_eq!((gate_up.amount("median_us"), gate_up.amount("total_ns")), (60.0, 480e3));
    let idle = roles.rows.iter().find(|row| row.text("role") == "idle").unwrap();
    assert_eq!(idle.amount("total_ns"), 72e3, "1 us before each of the 72 ops");
}

#[test]
fn a_slow_layer_is_an_outlier_of_its_kind() {
    let mut step = vec![(&DENSE[..], 0); 8];
    step[5].1 = 80;
    let (layers, _) = sections_of(&trace_of(&[step.clone(), step]));
    assert_eq!(rows_of(&layers, &["kind", "count", "outliers", "steps"]), ["A 8 5 2"]);
}

#[test]
fn two_kinds_of_layers_are_told_apart_by_their_attention_or_experts() {
    let experts = [("rms_norm", 4), ("gemm_qkv", 30), ("flash_fwd", 20), ("gemm_o", 15), ("add_rms_norm", 4)]
        .into_iter()
        .chain([("gemm_router", 3), ("topk_softmax", 3), ("fused_moe", 60), ("fused_moe", 30), ("moe_sum", 4)])
        .collect::<Vec<_>>();
    let mut step = vec![(&experts[..], 0); 10];
    step[..3].fill((&DENSE[..], 0));
    let (layers, roles) = sections_of(&trace_of(&[step]));
    assert_eq!(rows_of(&layers, &["kind", "count", "pattern"]), ["A 7 B3A7", "B 3 B3A7"]);
    let has =
        |kind: &str, role: &str| roles.rows.iter().any(|row| row.text("kind") == kind && row.text("role") == role);
    assert!(has("A", "experts_down") && has("A", "router") && has("B", "down") && !has("B", "router"));
}

#[test]
fn a_step_that_does_not_repeat_has_no_layers() {
    let mut trace = TestTrace::new();
    trace.in_us();
    add_step(&mut trace, 0, &[(&DENSE[..], 0); 4]);
    // As much time outside of the layers as in them.
    let trace = trace.launches("my_own_kernel", 2_000..2_700).finish();
    let (layers, roles) = sections_of(&trace);
    assert!(layers.rows.is_empty() && roles.rows.is_empty());
    assert!(layers.missing.unwrap().why.contains("90 %"));
}

#[test]
fn without_steps_the_section_says_what_to_capture() {
    let section = TestTrace::new().kernel("k", 0..1).section(layers);
    assert!(section.missing.is_some_and(|missing| missing.recapture.contains("record_function")));
}

/// Both captures begin while the GPU executes work that was launched before: 463 and 493 ms. The steps without it are those of
/// the table of steps, whose times are tested on their own.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn work_that_the_trace_does_not_contain_is_no_part_of_the_layers() {
    for (name, step_ms) in [("sglang_qwen3_8b_mi300_decode", 10.498), ("sglang_qwen3_8b_mi300_extend", 494.050)] {
        let trace = torch(&format!("{name}.trace.json.gz"));
        let (layers, roles) = sections_of(&trace);
        assert!((layers.summary.amount("step_ns") / 1e6 - step_ms).abs() < 0.001, "{name} {:?}", layers.summary);
        let share: f64 = roles.rows.iter().map(|row| row.amount("share_of_step_pct")).sum();
        assert!((share - 100.0).abs() < 1e-9, "{name} {share}");
    }
}

/// Numbers of an independent program over the same files: layers, kinds, kernels, equal layers, and the time of each role.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn layers_of_shared_traces_match_an_independent_program() {
    for name in [
        "hf_qwen1.5_0.5b_h100",
        "hf_qwen1.5_0.5b_mi300",
        "sglang_qwen3_30b_b300_decode",
        "sglang_qwen3_30b_mi300_decode",
        "sglang_qwen3_8b_mi300_decode",
        "sglang_qwen3_8b_mi300_extend",
        "vllm_b200_eager_prefill",
        "vllm_mi300_decode_full_graph",
        "vllm_mi300_piecewise_graph",
    ] {
        let expected = read_json(&format!("oracles/inference/{name}.json"));
        let trace = torch(&format!("{name}.trace.json.gz"));
        let expected = &expected["layers"];
        let (layers, roles) = sections_of(&trace);
        assert_eq!(layers.summary.amount("layers"), expected["layers"].as_f64().unwrap(), "{name}");
        assert_eq!(layers.summary.text("pattern"), expected["pattern"].as_str().unwrap(), "{name}");
        let sum: f64 = roles.rows.iter().map(|row| row.amount("total_ns")).sum();
        assert_eq!(sum, layers.summary.amount("step_ns"), "{name}");
        for kind in expected["types"].as_array().unwrap() {
            let label = kind["type"].as_str().unwrap();
            let row = layers.rows.iter().find(|row| row.text("kind") == label).unwrap();
            for (column, key) in [("count", "count"), ("kernels", "ops"), ("equal_layers", "exact")] {
                assert_eq!(row.amount(column), kind[key].as_f64().unwrap(), "{name} {label} {column}");
            }
            for (column, key) in [("median_us", "median_kernel_us"), ("min_us", "min_us"), ("max_us", "max_us")] {
                close(row.amount(column), kind[key].as_f64().unwrap(), name);
            }
            let outliers: Vec<String> = kind["outliers"].as_array().unwrap().iter().map(ToString::to_string).collect();
            assert_eq!(row.text("outliers"), outliers.join(", "), "{name} {label}");
            for (role, time) in kind["roles_us"].as_object().unwrap() {
                // That program counts the up projection as `down`, because it runs after the activation. By their shapes, two of
                // the three products of this MLP are gate and up.
                if name.starts_with("hf_qwen") && (role == "gate_up" || role == "down") {
                    continue;
                }
                let is_row =
                    |row: &&crate::analysis::section::Record| row.text("kind") == label && row.text("role") == role;
                let row = roles.rows.iter().find(is_row).unwrap_or_else(|| panic!("{name} {label} {role}"));
                close(row.amount("median_us"), time.as_f64().unwrap(), role);
            }
        }
        if let Some(lm_head) = expected["lm_head_us"].as_f64() {
            close(layers.summary.amount("lm_head_us"), lm_head, name);
        }
    }
}

/// Without the record of its attention, a layer joins the next one. Other steps show that it is there.
#[test]
fn a_single_step_that_lost_the_record_of_an_attention_kernel_has_no_layers() {
    let short: Vec<(&str, i64)> = DENSE.into_iter().filter(|(name, _)| *name != "flash_fwd").collect();
    let whole = vec![(&DENSE[..], 0); 8];
    let mut lost = whole.clone();
    lost[3] = (&short, 0);
    let (found, _) = sections_of(&trace_of(std::slice::from_ref(&lost)));
    assert!(found.missing.is_some(), "{:?}", found.rows);
    let (found, _) = sections_of(&trace_of(&[lost, whole.clone(), whole]));
    assert_eq!(found.summary.text("pattern"), "A8");
}

/// Times of the products with these shapes (8944 x 2816 x 1024 twice, 8944 x 1024 x 2816 once a layer), read from the file by
/// an independent program: `tests/oracle`.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn separate_products_for_gate_and_up_are_no_down_projection() {
    let trace = torch("hf_qwen1.5_0.5b_h100.trace.json.gz");
    let (_, roles) = sections_of(&trace);
    let median = |role: &str| roles.rows.iter().find(|row| row.text("role") == role).unwrap().amount("median_us");
    close(median("gate_up"), 167.1, "gate_up");
    close(median("down"), 75.6, "down");
}

/// Within 0.1 us or 0.1 %.
fn close(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() <= (expected * 1e-3).max(0.1), "{what}: {found} instead of {expected}");
}

/// Four layers: `fmha_cutlassF` and `fmha_cutlassB` run 20 times each in 5 steps. The embedding, the LM head, the loss and the optimizer
/// are in no layer.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn the_four_layers_of_a_recorded_training_fold_forward_and_backward() {
    let mut trace = torch("../../more/torch/gpt_training_rtx3060_graphs.trace.json.gz");
    look_up_code(&mut trace);
    let context = Context::new(&trace, 30);
    let found = layers(&context).section();
    assert_eq!(rows_of(&found, &["count", "pattern"]), ["4 A4B4", "4 A4B4"], "{:?}", found.missing);
    assert_eq!(found.summary.number("layers"), Some(4.0));
    let roles = layer_roles(&context).section();
    let of = |role: &str| roles.rows.iter().filter(|row| row.words("role") == role).count();
    assert_eq!((of("attention"), of("backward_attention"), of("gate_up"), of("backward_gate_up")), (1, 1, 1, 1));
    let sum: f64 = roles.rows.iter().map(|row| row.amount("total_ns")).sum();
    assert_eq!(sum, found.summary.amount("step_ns"), "the parts add up to the step");
}
