use super::*;
use crate::analysis::inference::model_config::ModelConfig;
use crate::analysis::inference::served_model::ServedModel;
use crate::analysis::section::{Record, Section, Value};
use crate::analysis::testing::{read_json, torch};
use crate::trace::testing::TestTrace;
use crate::trace::{Argument, Element, OpShape};

/// Traces of the shared oracles whose ops have shapes.
const TRACES: [&str; 8] = [
    "h100_nvl_small.pt",
    "hf_qwen1.5_0.5b_h100",
    "hf_qwen1.5_0.5b_mi300",
    "particle_transformer_a100.pt",
    "sglang_qwen3_8b_mi300_extend",
    "vllm_b200_eager_prefill",
    "vllm_mi300_decode_full_graph",
    "vllm_mi300_piecewise_graph",
];

/// The shape in the words of the oracle: `1x15360x24576x4096`.
fn oracle_shape(row: &Record) -> String {
    let shape = row.text("shape");
    let numbers: Vec<&str> = shape.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty()).collect();
    match numbers.as_slice() {
        [batch, hq, hk, nq, nk, d] if shape.starts_with("batch") => {
            let causal = if shape.ends_with("causal") { " causal" } else { "" };
            format!("b{batch} hq{hq} hk{hk} nq{nq} nk{nk} d{d}{causal}")
        }
        [m, n, k] => format!("1x{m}x{n}x{k}"),
        numbers => numbers.join("x"),
    }
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn products_and_attention_of_shared_traces_agree_with_the_oracle() {
    let mut compared = 0;
    for name in TRACES {
        let oracle = format!("oracles/inference/{}.json", name.trim_end_matches(".pt"));
        let (oracle, trace) = (read_json(&oracle), torch(&format!("{name}.trace.json.gz")));
        let section = op_costs(&Context::new(&trace, 30)).section();
        for expected in oracle["ops"]["rows"].as_array().unwrap() {
            let (op, shape) = (expected["op"].as_str().unwrap(), expected["shape"].as_str().unwrap());
            // The oracle counts the outer of two nested ops twice.
            if name.starts_with("particle") && shape.starts_with("4096x") {
                continue;
            }
            let rows = section.rows.iter().filter(|row| row.text("op") == op && oracle_shape(row) == shape);
            let rows: Vec<&Record> = rows.collect();
            let [row] = rows[..] else { panic!("{name} {op} {shape}: {} rows", rows.len()) };
            for (ours, theirs, tolerance) in [
                ("count", "count", 0.0),
                ("median_us", "median_us", 6e-4),
                ("gflop", "gflop", 6e-7),
                ("mb", "mb", 6e-7),
                ("tflops", "tflop_per_s", 6e-3),
            ] {
                let (ours, theirs) = (row.amount(ours), expected[theirs].as_f64().unwrap());
                assert!(
                    (ours - theirs).abs() <= f64::max(tolerance, theirs * 1e-5),
                    "{name} {op} {shape}: {ours} {theirs}"
                );
            }
            compared += 1;
        }
    }
    assert!(compared >= TRACES.len(), "{compared} rows");
}

/// TraceLens adds an operation for each element of a bias, and the time of memory sets.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn operations_agree_with_trace_lens() {
    let oracle = read_json("oracles/inference/tracelens_ops.json");
    let mut compared = 0;
    for name in TRACES {
        // All but one trace were given to TraceLens.
        let expected = oracle[name.trim_end_matches(".pt")].as_array().cloned().unwrap_or_default();
        let trace = torch(&format!("{name}.trace.json.gz"));
        let section = op_costs(&Context::new(&trace, 30)).section();
        for expected in expected {
            let first = match expected["op"].as_str().unwrap() {
                "aten::mm" => 0,
                "aten::addmm" => 1,
                _ => continue,
            };
            let dims: Vec<Vec<u64>> = serde_json::from_str(expected["dims"].as_str().unwrap()).unwrap();
            let (m, k, n) = (dims[first][0], dims[first][1], dims[first + 1][1]);
            let shape = format!("{m} x {n} x {k}");
            let is_same = |row: &&Record| row.text("op") == expected["op"] && row.text("shape") == shape;
            let row = section.rows.iter().find(is_same).unwrap_or_else(|| panic!("{name} {shape}"));
            let bias = (first as u64 * m * n) as f64 / 1e9;
            let difference = row.amount("gflop") + bias - expected["gflop"].as_f64().unwrap();
            assert!(difference.abs() <= 1e-4, "{name} {shape}: {difference}");
            assert!(row.amount("median_us") <= expected["median_us"].as_f64().unwrap() * 1.02, "{name} {shape}");
            compared += 1;
        }
    }
    assert_eq!(compared, 26, "products in the results of TraceLens");
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn convolutions_agree_with_trace_lens() {
    let oracle = read_json("oracles/inference/tracelens_ops.json");
    let trace = torch("particle_transformer_a100.pt.trace.json.gz");
    let section = op_costs(&Context::new(&trace, 30)).section();
    let expected = oracle["particle_transformer_a100"].as_array().unwrap().iter();
    let expected: Vec<_> = expected.filter(|row| row["op"] == "aten::convolution").collect();
    assert_eq!(expected.len(), 3, "convolutions in the results of TraceLens");
    for expected in expected {
        let (count, gflop) = (expected["count"].as_f64().unwrap(), expected["gflop"].as_f64().unwrap());
        let is_same = |row: &&Record| (row.amount("gflop") - gflop).abs() <= 1e-4 && row.amount("count") == count;
        let rows = section.rows.iter().filter(|row| row.text("op") == "aten::cudnn_convolution");
        assert_eq!(rows.filter(is_same).count(), 1, "{expected}");
    }
}

/// An H100 and a product of 8192^3 that takes this long.
fn product(us: i64) -> Section {
    let mut trace = TestTrace::new();
    let operands: [(&[u64], Element); 2] = [(&[8192, 8192], Element::Bf16), (&[8192, 8192], Element::Bf16)];
    trace.in_us().named_device(0, "NVIDIA H100 80GB HBM3").shaped_op("aten::mm", &operands, 0..10).launch(1..3);
    trace.launches("gemm", 20..20 + us).kernel("other", 20 + us..20 + 2 * us).section(op_costs)
}

#[test]
fn a_row_has_rates_and_the_share_of_the_nearer_limit() {
    let section = product(2_000);
    let row = &section.rows[0];
    // 1099.5 GFLOP and 402.7 MB in 2 ms: 549.8 of 989 TFLOP/s.
    assert_eq!((row.text("op"), row.text("shape"), row.text("dtype")), ("aten::mm", "8192 x 8192 x 8192", "BF16"));
    assert_eq!((row.amount("gflop"), row.amount("mb")), (1_099.511_627_776, 402.653_184));
    assert_eq!((row.text("bound_by"), row.text("kernel"), row.text("basis")), ("arithmetic", "gemm", "shapes"));
    assert!((row.amount("of_peak_pct") - 55.588).abs() < 1e-3 && row.amount("share_of_busy_pct") == 50.0, "{row:?}");
    assert_eq!(section.summary.amount("share_of_busy_pct"), 50.0);
}

#[test]
fn a_rate_above_the_limit_is_shown_and_said_to_be_wrong() {
    let section = product(500);
    let row = &section.rows[0];
    assert!((row.amount("of_peak_pct") - 222.35).abs() < 0.01, "{row:?}");
    assert!(row.text("basis").contains("above the limit"), "{row:?}");
}

#[test]
fn an_unknown_gpu_has_rates_but_no_share() {
    let mut trace = TestTrace::new();
    let operands: [(&[u64], Element); 2] = [(&[8, 4], Element::Bf16), (&[4, 2], Element::Bf16)];
    trace.shaped_op("aten::mm", &operands, 0..10).launch(1..3).launches("gemm", 20..30);
    let section = trace.section(op_costs);
    let row = &section.rows[0];
    assert_eq!((row.get("of_peak_pct"), row.get("bound_by")), (Some(&Value::Null), Some(&Value::Null)));
    assert!(row.amount("tflops") > 0.0 && section.limits.iter().any(|limit| limit.contains("not known")));
}

#[test]
fn without_shapes_the_section_says_how_to_record_them() {
    let missing = TestTrace::new().launch(0..1).launches("gemm", 2..3).section(op_costs).missing.unwrap();
    assert!(
        missing.why.contains("no ops with shapes") && missing.recapture.contains("record_shapes=True"),
        "{missing:?}"
    );
    let mut replay = TestTrace::new();
    let operands: [(&[u64], Element); 2] = [(&[8, 4], Element::Bf16), (&[4, 2], Element::Bf16)];
    replay.shaped_op("aten::mm", &operands, 0..10).call("cudaGraphLaunch", 1..2).launches("gemm", 20..30);
    let missing = replay.section(op_costs).missing.unwrap();
    assert!(missing.why.contains("record an eager step"), "{missing:?}");
}

/// The op costs of a shared trace, with a config without windows.
fn costs_with_full_attention(name: &str) -> Section {
    let trace = torch(&format!("{name}.trace.json.gz"));
    let config = r#"{"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8, "vocab_size": 8}"#;
    let config = Some(ModelConfig::parse("config.json", config).unwrap());
    let model = ServedModel { config, ..ServedModel::default() };
    op_costs(&Context::new(&trace, 30).with_model(&model)).section()
}

/// TraceLens takes all layers for full attention, as the config here says.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn attention_over_requests_of_different_lengths_agrees_with_trace_lens() {
    let oracle = read_json("oracles/inference/tracelens_ops.json");
    for (name, op, shape) in [
        ("sglang_qwen3_8b_mi300_extend", "aiter::mha_batch_prefill", "15360 queries, heads 32/8, size 128"),
        ("vllm_mi300_piecewise_graph", "vllm::unified_attention_with_output", "8192 queries, heads 64/8, size 64"),
    ] {
        let section = costs_with_full_attention(name);
        let expected = oracle[name].as_array().unwrap().iter().find(|row| row["op"] == op).unwrap();
        let row = section.rows.iter().find(|row| row.text("op") == op).unwrap();
        assert_eq!((row.text("shape"), row.amount("count")), (shape, expected["count"].as_f64().unwrap()));
        let gflop = expected["gflop"].as_f64().unwrap();
        assert!((row.amount("gflop") - gflop).abs() <= 1e-4, "{row:?}");
        let mb = expected["mib"].as_f64().unwrap() * 1.048_576;
        assert!((row.amount("mb") - mb).abs() <= 1e-3, "{row:?}");
        assert!(row.text("basis").contains("lengths of the requests"), "{row:?}");
    }
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn an_op_whose_cost_is_not_known_has_a_row_with_the_reason() {
    for (name, op, why) in [
        ("vllm_mi300_piecewise_graph", "vllm::unified_attention_with_output", "without --config"),
        ("vllm_b200_eager_prefill", "vllm::moe_forward", "the weights of the experts are no arguments"),
    ] {
        let trace = torch(&format!("{name}.trace.json.gz"));
        let section = op_costs(&Context::new(&trace, 30)).section();
        let row = section.rows.iter().find(|row| row.text("op") == op).unwrap_or_else(|| panic!("{name}"));
        let unknown = ["gflop", "mb", "tflops", "tb_per_s", "of_peak_pct", "bound_by"];
        assert!(unknown.iter().all(|column| row.get(column) == Some(&Value::Null)), "{row:?}");
        assert!(row.text("basis").contains(why) && row.amount("median_us") > 0.0, "{row:?}");
    }
}

/// Two decode steps of 4 requests on contexts of 100 and 300 tokens in all: 2 heads of 8 values, one KV head.
#[test]
fn attention_in_steps_of_different_lengths_is_one_row_with_the_mean() {
    let mut trace = TestTrace::new();
    trace.in_us().named_device(0, "NVIDIA H100 80GB HBM3");
    for (keys, at) in [(100, 0), (300, 1_000)] {
        let step = format!("step[DECODE bs=4 g_sq=4 g_sqsq=4 g_sqsk={keys} g_sk={keys}]");
        let tensor = |lengths: &[u64]| Argument {
            lengths: lengths.to_vec(),
            elements: lengths.iter().product(),
            element: Element::Bf16,
            value: String::new(),
        };
        let mut arguments = vec![tensor(&[4, 2, 8]), tensor(&[64, 1, 8]), tensor(&[64, 1, 8])];
        let value = |text: &str| Argument { value: text.to_owned(), ..Argument::default() };
        arguments.extend((3..24).map(|_| Argument::default()));
        arguments.extend([value("False"), value("-1"), value("-1"), value("0")]);
        let op = OpShape { op: "sgl_kernel::fwd".to_owned(), arguments };
        trace.range(&step, at..at + 50).op_with_arguments(op, at + 5..at + 40).launch(at + 6..at + 7);
        trace.launches("flash_fwd", at + 100..at + 110);
    }
    let section = trace.section(op_costs);
    let [row] = &section.rows[..] else { panic!("{section:?}") };
    // 4 x 2 x 8 operations a pair; 200 keys and 4 queries and results of 2 heads, of 8 values and two bytes.
    assert_eq!((row.text("shape"), row.amount("count")), ("4 queries, heads 2/1, size 8", 2.0));
    assert_eq!((row.amount("gflop"), row.amount("mb")), (200.0 * 64.0 / 1e9, 2.0 * 16.0 * (200.0 + 8.0) / 1e6));
}
