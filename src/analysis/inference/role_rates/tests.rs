use crate::analysis::Options;
use crate::analysis::inference::floor::Parallel;
use crate::analysis::inference::model_config::ModelConfig;
use crate::analysis::inference::served_model::ServedModel;
use crate::analysis::section::{Record, Section, Value};
use crate::analysis::testing::{read_json, torch};
use crate::rules::RuleBook;
use crate::trace::testing::TestTrace;
use crate::trace::{MemoryTraffic, Trace};

fn roles(trace: &Trace, config: &str, parallel: Option<Parallel>) -> Section {
    let config = Some(ModelConfig::parse("config.json", config).unwrap());
    let options = Options { model: ServedModel { config, parallel, ..ServedModel::default() }, ..Options::default() };
    let rules = RuleBook::gpuprism_default().unwrap();
    crate::analysis::analyze(trace, rules, &options).sections.remove("layer_roles").unwrap()
}

fn row<'a>(section: &'a Section, kind: &str, role: &str) -> &'a Record {
    let found = section.rows.iter().find(|row| row.text("kind") == kind && row.text("role") == role);
    found.unwrap_or_else(|| panic!("{kind} {role}"))
}

fn config_of(model: &str) -> String {
    read_json("oracles/inference/floor.json")["models"][model]["config"].to_string()
}

/// Operations and bytes of a role by hand, and the time of an independent program.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn rates_of_shared_traces_are_the_work_of_each_role_in_its_median_time() {
    // Trace, model, TB/s of the GPU; kind and role; operations and bytes; time in us.
    type Case = (&'static str, &'static str, f64, &'static str, &'static str, f64, f64, f64);
    let [dense, b300, mi300] =
        ["sglang_qwen3_8b_mi300_decode", "sglang_qwen3_30b_b300_decode", "sglang_qwen3_30b_mi300_decode"];
    let (qwen3_8b, qwen3_30b) = ("qwen3-8b", "qwen3-30b-a3b");
    let cases: [Case; 9] = [
        // 32 tokens; 4,096 x 6,144 weights; 32 x (4,096 + 6,144) activations, and so on.
        (dense, qwen3_8b, 5.3, "A", "qkv", 1_610_612_736.0, 50_987_008.0, 21.231),
        (dense, qwen3_8b, 5.3, "A", "o_proj", 1_073_741_824.0, 34_078_720.0, 16.864),
        (dense, qwen3_8b, 5.3, "A", "gate_up", 6_442_450_944.0, 203_161_600.0, 66.498),
        (dense, qwen3_8b, 5.3, "A", "down", 3_221_225_472.0, 101_711_872.0, 40.499),
        // 32,785 tokens of 2 x 8 x 128 values; 4 x 32 x 128 operations for each.
        (dense, qwen3_8b, 5.3, "A", "attention", 537_149_440.0, 134_811_648.0, 53.919),
        (dense, qwen3_8b, 5.3, "outside", "lm_head", 39_829_110_784.0, 1_254_645_760.0, 396.832),
        (b300, qwen3_30b, 7.7, "A", "qkv", 335_544_320.0, 21_200_896.0, 6.528),
        (b300, qwen3_30b, 7.7, "A", "router", 8_388_608.0, 593_920.0, 3.52),
        (mi300, qwen3_30b, 5.3, "A", "attention", 134_234_112.0, 17_041_408.0, 17.639),
    ];
    for (name, model, tb_per_s, kind, role, flop, bytes, time_us) in cases {
        let (trace, config) = (torch(&format!("{name}.trace.json.gz")), config_of(model));
        let section = roles(&trace, &config, None);
        let row = row(&section, kind, role);
        assert!((row.amount("median_us") - time_us).abs() < 0.001, "{name} {role} {row:?}");
        for (column, expected) in [
            ("tflops", flop / time_us / 1e6),
            ("tb_per_s", bytes / time_us / 1e6),
            ("of_peak_pct", bytes / time_us / 1e4 / tb_per_s),
        ] {
            assert!((row.amount(column) - expected).abs() < 1e-4 * expected, "{name} {role} {column}: {row:?}");
        }
        assert_eq!(row.text("basis"), "role and config");
    }
}

/// 332.6 MB can be read in 43.2 us: 52 experts of 6.3 MB, and the hidden states.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn of_a_mixture_of_experts_the_range_of_experts_that_were_read_is_given_instead_of_a_rate() {
    let name = "sglang_qwen3_30b_b300_decode.trace.json.gz";
    let (trace, config) = (torch(name), config_of("qwen3-30b-a3b"));
    let section = roles(&trace, &config, None);
    let row = row(&section, "A", "experts_up");
    // 16 tokens, 8 experts, 2 x 2,048 x 768 weights.
    assert!((row.amount("tflops") - 805.306_368 / 43.2).abs() < 1e-3, "{row:?}");
    assert_eq!((row.get("tb_per_s"), row.get("of_peak_pct")), (Some(&Value::Null), Some(&Value::Null)));
    assert_eq!(row.text("basis"), "role and config; 8 to 52 of 128 experts read, 6.3 MB each");
}

/// gpt-oss has a window in every second layer: full attention reads 55,086 tokens of 2 x 8 x 64 values, and 64 x 64 values of
/// 32 queries and results.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn layers_with_a_sliding_window_have_no_rate_of_attention() {
    let name = "vllm_mi300_decode_full_graph.trace.json.gz";
    let (trace, config) = (torch(name), config_of("gpt-oss-20b"));
    let section = roles(&trace, &config, None);
    let [sliding, full] = ["A", "B"].map(|kind| row(&section, kind, "attention"));
    assert_eq!((sliding.get("tb_per_s"), full.text("basis")), (Some(&Value::Null), "role and config"));
    assert!(sliding.text("basis").starts_with("sliding window"), "{sliding:?}");
    let bytes = 2.0 * (55_086.0 * 1_024.0 + 2.0 * 32.0 * 4_096.0);
    assert!((full.amount("tb_per_s") - bytes / full.amount("median_us") / 1e6).abs() < 1e-6, "{full:?}");
    assert_eq!(row(&section, "outside", "lm_head").text("basis"), "traced shapes");
}

/// A model of eight ranks, whose traced products are those of the config divided by eight.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn traced_shapes_win_over_the_config() {
    let name = "vllm_b200_eager_prefill.trace.json.gz";
    let (trace, config) = (torch(name), config_of("gpt-oss-120b"));
    let given = roles(&trace, &config, Some(Parallel { tp: 8, ..Parallel::default() }));
    assert_eq!(row(&given, "A", "qkv").text("basis"), "traced shapes");
    // 888 tokens x 4 experts x 2 x 2,880 x 2,880 weights over 8 GPUs.
    let experts = row(&given, "A", "experts_up");
    let tflops = 2.0 * 888.0 * 4.0 * 2.0 * 2_880.0 * 360.0 / experts.amount("median_us") / 1e6;
    assert!((experts.amount("tflops") - tflops).abs() < 1e-3, "{experts:?}");
    assert!(row(&given, "A", "attention").text("basis").contains("lengths of the contexts"));
    let unknown = roles(&trace, &config, None);
    assert!(row(&unknown, "A", "experts_up").text("basis").contains("give --tp"));
    assert_eq!(row(&unknown, "A", "qkv").text("basis"), "traced shapes");
}

const SMALL: &str = r#"{"hidden_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 8, "intermediate_size": 4096,
    "vocab_size": 10000}"#;
const LAYER: [&str; 9] = [
    "rms_norm",
    "gemm_qkv",
    "rope",
    "flash_fwd",
    "gemm_o",
    "add_rms_norm",
    "gemm_gate_up",
    "silu_and_mul",
    "gemm_down",
];

/// Two steps on an H100 with eight layers, whose kernels take `us` each.
fn steps(texts: [&str; 2], us: i64) -> Trace {
    let mut trace = TestTrace::new();
    trace.in_us().named_device(0, "NVIDIA H100 80GB HBM3");
    for (text, at) in texts.iter().zip([0, 100_000]) {
        trace.range(text, at..at + 500).call("cudaGraphLaunch", at + 1..at + 2);
        let mut now = at + 1_000;
        let names = ["embedding"].into_iter().chain(LAYER.repeat(8)).chain(["rms_norm", "gemm_head", "argmax_kernel"]);
        for name in names {
            trace.launches(name, now..now + us);
            now += us;
        }
    }
    trace.finish()
}

#[test]
fn a_rate_above_the_limit_disproves_the_assumptions_and_is_not_shown() {
    let step = ["step[DECODE bs=4]"; 2];
    let slow = roles(&steps(step, 100), SMALL, None);
    // 3 x 1,024^2 weights in 100 us: 6.3 MB.
    let qkv = 2.0 * (3.0 * 1_024.0 * 1_024.0 + 4.0 * 4.0 * 1_024.0) / 100e6;
    assert!((row(&slow, "A", "qkv").amount("tb_per_s") - qkv).abs() < 1e-9);
    // 16.8 MB in 1 us are five times what an H100 reads.
    let fast = roles(&steps(step, 1), SMALL, None);
    for role in ["qkv", "down", "attention"] {
        let row = row(&fast, "A", role);
        assert!(row.text("basis").contains("of the limit, so one of these is wrong"), "{row:?}");
        assert!(["tflops", "tb_per_s", "of_peak_pct"].iter().all(|column| row.get(column) == Some(&Value::Null)));
    }
}

#[test]
fn a_config_of_another_model_and_steps_of_different_sizes_have_no_rates() {
    let basis = |trace: &Trace, config: &str| row(&roles(trace, config, None), "A", "qkv").text("basis").to_owned();
    let trace = steps(["step[DECODE bs=4]"; 2], 100);
    let other = SMALL.replace("\"num_hidden_layers\": 8", "\"num_hidden_layers\": 9");
    assert_eq!(basis(&trace, &other), "the step has 8 layers, but the config 9 on each GPU");
    let different = steps(["step[DECODE bs=4]", "step[DECODE bs=8]"], 100);
    assert_eq!(basis(&different, SMALL), "the steps compute different numbers of tokens");
    let about_equal = steps(["step[DECODE bs=40]", "step[DECODE bs=42]"], 100);
    assert_eq!(basis(&about_equal, SMALL), "role and config");
    let unknown = steps(["decode"; 2], 100);
    assert_eq!(basis(&unknown, SMALL), "the number of tokens of the step is not known");
}

#[test]
fn without_a_config_there_are_no_rates_and_no_reasons() {
    let trace = steps(["step[DECODE bs=4]"; 2], 100);
    let rules = RuleBook::gpuprism_default().unwrap();
    let sections = crate::analysis::analyze(&trace, rules, &Options::default()).sections;
    let section = &sections["layer_roles"];
    assert!(!section.rows.is_empty());
    assert!(section.rows.iter().all(|row| row.get("basis") == Some(&Value::Null)));
    assert!(section.limits.iter().any(|limit| limit.contains("--config")), "{:?}", section.limits);
}

/// Sets the bytes that the counters of each kernel of this name counted.
fn count(trace: &mut Trace, name: &str, read: Option<u64>, written: Option<u64>) {
    let is_named = |op: &crate::trace::GpuOp| trace.names.get(op.name) == name;
    let rows = trace.gpu_ops.iter().zip(0_u32..).filter(|(op, _)| is_named(op)).map(|(_, row)| row);
    let counted: Vec<_> = rows.map(|row| (row, MemoryTraffic { read, written })).collect();
    trace.memory_traffic.extend(counted);
    trace.memory_traffic.sort_unstable_by_key(|(row, _)| *row);
}

#[test]
fn bytes_by_counters_win_over_those_by_a_model_of_the_work() {
    let mut trace = steps(["step[DECODE bs=4]"; 2], 100);
    count(&mut trace, "gemm_qkv", Some(150_000_000), Some(17_500_000));
    count(&mut trace, "rope", Some(1_000_000), None);
    let section = roles(&trace, SMALL, None);
    // 167.5 MB in 100 us are 1.675 TB/s, half of what an H100 reads.
    let qkv = row(&section, "A", "qkv");
    assert!((qkv.amount("tb_per_s") - 1.675).abs() < 1e-9, "{qkv:?}");
    assert!((qkv.amount("of_peak_pct") - 50.0).abs() < 1e-9, "{qkv:?}");
    assert_eq!(qkv.text("basis"), "role and config; bytes by counters");
    let rope = section.rows.iter().find(|row| row.text("basis").contains("counters 0.01 TB/s are read")).unwrap();
    assert_eq!(rope.get("tb_per_s"), Some(&Value::Null), "reads alone are no total");
    assert_eq!(row(&section, "A", "down").text("basis"), "role and config");
}
