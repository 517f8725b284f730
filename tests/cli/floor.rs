//! The floor of a step: `--config`, `--weights-gb`, `--tp` and their refusals, on a generated trace of decode steps.

use crate::common::{directory, gpuprism, json_runs, printed};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Two decode steps of 2 and 1 ms on an H100 of a job of this many ranks: batch 4, 1,000 tokens of context.
fn folder(test: &str, ranks: u32) -> PathBuf {
    let folder = directory(test);
    let step = |number: i64, duration: i64| {
        let (start, id) = (number * 5_000, number + 1);
        [
            json!({"ph": "X", "cat": "user_annotation", "name": "step[DECODE bs=4 g_sq=4 g_sk=1000 g_sqsk=1000]", "pid": 1, "tid": 1,
                "ts": start, "dur": 50}),
            json!({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": start + 10,
                "dur": 5, "args": {"correlation": id}}),
            json!({"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": start + 100, "dur": duration,
                "args": {"device": 0, "stream": 7, "correlation": id}}),
        ]
    };
    let events = [step(0, 2_000), step(1, 1_000)].concat();
    let trace = json!({
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}],
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": ranks},
        "traceEvents": events,
    });
    write(&folder, "decode.json", &trace);
    write(&folder, "config.json", &config());
    folder
}

/// 10 layers of 4 x 1,024^2 + 3 x 1,024 x 4,096 weights, and an LM head of 10,000 x 1,024.
fn config() -> Value {
    json!({"model_type": "small", "hidden_size": 1_024, "num_hidden_layers": 10, "num_attention_heads": 8,
        "intermediate_size": 4_096, "vocab_size": 10_000, "torch_dtype": "bfloat16"})
}

const LAYER_BYTES: f64 = 10.0 * 2.0 * (4.0 * 1_024.0 * 1_024.0 + 3.0 * 1_024.0 * 4_096.0);
const LM_HEAD_BYTES: f64 = 2.0 * 10_000.0 * 1_024.0;
/// 1,000 tokens in 10 layers, keys and values of 1,024 numbers of two bytes.
const KV_BYTES: f64 = 1_000.0 * 10.0 * 2.0 * 1_024.0 * 2.0;

fn write(folder: &Path, name: &str, content: &Value) {
    std::fs::write(folder.join(name), content.to_string()).unwrap();
}

fn row(folder: &Path, flags: &[&str]) -> Value {
    let run = json_runs(folder, &[&["decode.json"], flags].concat()).remove(0);
    run["sections"]["step_floor"]["rows"][0].clone()
}

fn assert_close(row: &Value, column: &str, expected: f64) {
    let found = row[column].as_f64().unwrap_or_else(|| panic!("{column} in {row}"));
    assert!((found - expected).abs() < 1e-9 * expected.abs(), "{column}: {found} is not {expected}");
}

#[test]
fn the_floor_is_the_time_to_read_weights_and_cache_once() {
    let folder = folder("floor_config", 1);
    let row = row(&folder, &["--config", "config.json"]);
    let floor_ms = (LAYER_BYTES + LM_HEAD_BYTES + KV_BYTES) / 3.35e12 * 1e3;
    assert_eq!((&row["stage"], &row["bound_by"]), (&json!("decode"), &json!("memory bandwidth")));
    assert_close(&row, "floor_ms", floor_ms);
    assert_close(&row, "floor_uniform_ms", floor_ms);
    assert_close(&row, "measured_ms", 1.0);
    assert_close(&row, "mbu_pct", 100.0 * floor_ms);
    assert_close(&row, "ms_per_token", 0.25);
    assert_close(&row, "weights_gb", (LAYER_BYTES + LM_HEAD_BYTES) / 1e9);
    assert_close(&row, "kv_gb", KV_BYTES / 1e9);
    // Two FLOPs a weight and token, four a head and value of a head for each token of context.
    let flop = 4.0 * (LAYER_BYTES + LM_HEAD_BYTES) + 4.0 * 1_024.0 * 10.0 * 1_000.0;
    assert_close(&row, "mfu_pct", flop_pct(flop));
    assert_eq!(row["confidence"], "proven", "{row}");
    assert!(row["basis"].as_str().unwrap().contains("one rank; batch 4; 4 tokens; context of 1,000 tokens"), "{row}");
}

/// The share of a step of 1 ms at 989 TFLOP/s.
fn flop_pct(flop: f64) -> f64 {
    100.0 * flop / 989e12 * 1e3
}

#[test]
fn flags_replace_what_the_config_says() {
    let folder = folder("floor_flags", 1);
    let halved = row(&folder, &["--config", "config.json", "--tp", "2"]);
    assert_close(&halved, "weights_gb", (LAYER_BYTES + LM_HEAD_BYTES) / 2e9);
    assert_close(&halved, "kv_gb", KV_BYTES / 2e9);
    let given = row(&folder, &["--weights-gb", "1.34"]);
    assert_close(&given, "floor_ms", 0.4);
    assert_eq!(
        (&given["kv_gb"], &given["mfu_pct"], &given["confidence"]),
        (&Value::Null, &Value::Null, &json!("inferred"))
    );
    let both = row(&folder, &["--weights-gb", "1.34", "--config", "config.json"]);
    assert_close(&both, "floor_ms", 0.4 + KV_BYTES / 3.35e9);
}

#[test]
fn nothing_is_faster_than_its_floor() {
    let folder = folder("floor_contradiction", 1);
    let row = row(&folder, &["--weights-gb", "5"]);
    for column in ["floor_ms", "floor_uniform_ms", "mbu_pct", "mfu_pct", "bound_by", "confidence"] {
        assert_eq!(row[column], Value::Null, "{column}");
    }
    assert_close(&row, "measured_ms", 1.0);
    let basis = row["basis"].as_str().unwrap();
    assert!(
        basis.starts_with("no floor: a step took 1.000 ms but would need 1.493 ms, so one of these is wrong"),
        "{basis}"
    );
}

#[test]
fn one_of_several_ranks_has_no_floor_until_the_division_is_given() {
    let folder = folder("floor_ranks", 8);
    let unknown = row(&folder, &["--config", "config.json"]);
    assert_eq!(unknown["floor_ms"], Value::Null);
    assert!(unknown["basis"].as_str().unwrap().contains("give --tp"), "{unknown}");
    assert!(row(&folder, &["--config", "config.json", "--tp", "8"])["floor_ms"].is_number());
    let text = printed(&folder, ["report", "decode.json", "--table", "step_floor"]);
    assert!(text.contains("missing") && text.contains("--config") && text.contains("--weights-gb"), "{text}");
}

/// SGLang writes its arguments next to the traces. The flags win over them.
#[test]
fn the_division_is_read_from_the_server_arguments_next_to_the_trace() {
    let folder = folder("floor_server_args", 8);
    write(&folder, "server_args.json", &json!({"model_path": "small", "tp_size": 8}));
    let found = row(&folder, &["--config", "config.json"]);
    assert_close(&found, "weights_gb", (LAYER_BYTES + LM_HEAD_BYTES) / 8e9);
    assert!(found["basis"].as_str().unwrap().contains("TP 8, EP 1, PP 1 by server_args.json"), "{found}");
    let given = row(&folder, &["--config", "config.json", "--tp", "2"]);
    assert_close(&given, "weights_gb", (LAYER_BYTES + LM_HEAD_BYTES) / 2e9);
    assert!(!given["basis"].as_str().unwrap().contains("server_args"), "{given}");
    // Below the folder of the arguments, as with a folder for each stage.
    std::fs::create_dir_all(folder.join("decode")).unwrap();
    std::fs::copy(folder.join("decode.json"), folder.join("decode/decode.json")).unwrap();
    let run = json_runs(&folder, &["decode/decode.json", "--config", "config.json"]).remove(0);
    assert_eq!(run["sections"]["step_floor"]["rows"][0]["weights_gb"], found["weights_gb"]);
    write(&folder, "server_args.json", &json!({"tp_size": 8, "enable_dp_attention": true}));
    let unknown = row(&folder, &["--config", "config.json"]);
    assert!(unknown["basis"].as_str().unwrap().contains("give --tp"), "{unknown}");
    // The user did not name the file, so one that cannot be read is a warning.
    std::fs::write(folder.join("server_args.json"), "not JSON").unwrap();
    let output = gpuprism(&folder, ["report", "decode.json", "--config", "config.json", "--format", "json"]);
    assert!(output.status == 0 && output.stdout.contains("give --tp"), "{}", output.stderr);
    assert!(output.stderr.contains("server_args.json: not server arguments"), "{}", output.stderr);
}

#[test]
fn a_wrong_model_is_refused_in_one_sentence() {
    let folder = folder("floor_refused", 1);
    write(&folder, "mamba.json", &json!({"hidden_size": 8, "num_hidden_layers": 1, "mamba_d_state": 16}));
    for (flags, status, words) in [
        (&["config.json"][..], 1, "use `--config` for it"),
        (&["decode.json", "--config", "decode.json"], 1, "misses `hidden_size`"),
        (&["decode.json", "--config", "mamba.json"], 1, "`mamba_d_state`, of layers whose weights"),
        (&["decode.json", "--config", "none.json"], 1, "none.json"),
        (&["decode.json", "--weights-gb", "many"], 2, "write for example 35.3"),
        (&["decode.json", "--weights-gb", "0"], 2, "write for example 35.3"),
        (&["decode.json", "--tp", "0"], 2, "give 1 or more"),
    ] {
        let output = gpuprism(&folder, [&["report"], flags].concat());
        assert_eq!((output.status, output.stdout.as_str()), (status, ""), "{flags:?}: {output:?}");
        assert!(output.stderr.contains(words) && output.stderr.lines().count() == 1, "{output:?}");
    }
}
