//! `--redact`: identifying text is removed from all output; numbers stay the same.

use super::private_traces::{self, TRACES};
use crate::common::{directory, gpuprism, printed, shared};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Writes a trace with many secrets. Every secret contains the word `zorblax`.
fn write_private(test: &str) -> PathBuf {
    let folder = directory(test);
    let kernel = |name: &str, at: i64| {
        json!({"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": at * 100, "dur": 40,
            "args": {"device": 0, "stream": 7, "correlation": at, "External id": at}})
    };
    let launch = |at: i64| {
        json!({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 31_337, "tid": 31_338,
            "ts": at * 100 - 20, "dur": 5, "args": {"correlation": at}})
    };
    let range = |name: &str, from: i64| json!({"ph": "X", "cat": "user_annotation", "name": name, "pid": 31_337, "tid": 31_338, "ts": from, "dur": 250});
    let frame = json!({"ph": "X", "cat": "python_function", "name": "/home/zorblax/serve/zorblax_model.py(12): forward",
        "pid": 31_337, "tid": 31_338, "ts": 70, "dur": 300, "args": {"Python id": 1}});
    let events = json!([
        kernel("void zorblax::secret_attention<float>(float*)", 1),
        kernel("nvjet_tst_128x64_64x8_1x2_h_bz_coopA_NNT", 2),
        kernel("zorblax_gemm_kernel", 3),
        launch(1),
        launch(2),
        launch(3),
        frame,
        range("serve zorblax with hf_zorblaxzorblax12 on gpu-zorblax-17", 75),
        range("step[DECODE bs=16]", 330),
    ]);
    let trace =
        json!({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}], "traceEvents": events});
    std::fs::write(folder.join("zorblax-70b-TP-1-DECODE.trace.json"), trace.to_string()).unwrap();
    let arguments = json!({"model_path": "/models/zorblax-70b", "tp_size": 4, "attention_backend": "flashinfer",
        "quantization": "/home/zorblax/quant.json"});
    std::fs::write(folder.join("server_args.json"), arguments.to_string()).unwrap();
    folder
}

const TRACE: &str = "zorblax-70b-TP-1-DECODE.trace.json";

fn numbers(value: &Value, key: &str, into: &mut Vec<String>) {
    match value {
        Value::Number(number) if key != "pid" => into.push(format!("{key} {number}")),
        Value::Array(list) => list.iter().for_each(|value| numbers(value, key, into)),
        Value::Object(members) => members.iter().for_each(|(key, value)| numbers(value, key, into)),
        _ => {}
    }
}

fn is_clean(text: &str, what: &str) {
    for secret in ["zorblax", "31337", "31338", "70b"] {
        assert!(!text.to_lowercase().contains(secret), "{secret} in {what}: {text}");
    }
}

#[test]
fn no_format_prints_private_text_and_numbers_stay_the_same() {
    let folder = write_private("redact_report");
    for format in ["terminal", "json", "csv", "markdown", "html"] {
        is_clean(&printed(&folder, ["report", TRACE, "--format", format, "--redact"]), format);
    }
    let figures = |args: &[&str]| {
        let mut all = Vec::new();
        let text = printed(&folder, [&["report", TRACE, "--format", "json"], args].concat());
        numbers(&serde_json::from_str(&text).unwrap(), "", &mut all);
        all
    };
    assert!(figures(&["--redact"]) == figures(&[]), "numbers differ");
    let text = printed(&folder, ["report", TRACE, "--format", "json", "--redact"]);
    for kept in ["run 1 TP1 DECODE", "nvjet_tst_128x64_64x8_1x2_h_bz_coopA_NNT", "step[DECODE bs=16]", "NVIDIA H100"] {
        assert!(text.contains(kept), "{kept} is public: {text}");
    }
}

#[test]
fn triage_and_explain_are_redacted() {
    let folder = write_private("redact_triage");
    for format in ["terminal", "text", "json", "csv", "markdown"] {
        let text = printed(&folder, ["triage", TRACE, "--format", format, "--redact"]);
        is_clean(&text, format);
        assert!(!text.contains("/models") && !text.contains("quant.json"), "{text}");
    }
    let output = gpuprism(&folder, ["explain", TRACE, "--out", "out", "--redact"]);
    assert_eq!(output.status, 0, "{output:?}");
    is_clean(&output.stdout, "the output of explain");
    each_file(&folder.join("out"), &mut |path, text| {
        is_clean(text, &path.display().to_string().replace("zorblax", ""))
    });
}

fn each_file(folder: &Path, visit: &mut dyn FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => each_file(&path, visit),
            false => visit(&path, &std::fs::read_to_string(&path).unwrap()),
        }
    }
}

/// Whatever the format of the trace and wherever a text stands in it, in the rules or in the names of files.
#[test]
fn no_output_of_any_format_contains_a_private_text() {
    let folder = directory("redact_formats").join("zorblax");
    std::fs::create_dir_all(&folder).unwrap();
    private_traces::write(&folder);
    for trace in TRACES {
        let check = |args: &[&str]| {
            let output = gpuprism(&folder, [&[args[0], trace, "--redact"], &args[1..]].concat());
            assert!(output.status == 0 && output.stdout.len() > 100, "{trace} {args:?}: {output:?}");
            private_traces::is_clean(&output.stdout, &format!("{trace} {args:?}"));
        };
        for format in ["terminal", "json", "csv", "markdown", "html"] {
            check(&["report", "--format", format]);
        }
        check(&["report", "--format", "html", "--rules", "rules.json", "--engine", "vllm", "--model", "zorblax"]);
        check(&["report", "--format", "json", "--rules", "rules.json", "--engine", "vllm", "--model", "zorblax"]);
        if trace.ends_with("rpd") || trace.ends_with("db") {
            continue; // `explain` reads no databases of ROCm's profilers.
        }
        let output = gpuprism(&folder, ["explain", trace, "--redact", "--out", "out", "--phase-map", "phases.json"]);
        assert_eq!(output.status, 0, "{trace}: {output:?}");
        each_file(&folder.join("out"), &mut |path, text| {
            private_traces::is_clean(text, &format!("{trace} {:?}", path.file_name()));
        });
    }
    for format in ["terminal", "text", "csv", "json", "markdown"] {
        let output = gpuprism(&folder, ["triage", TRACES[1], "--redact", "--format", format]);
        assert_eq!(output.status, 0, "{output:?}");
        private_traces::is_clean(&output.stdout, &format!("triage {format}"));
    }
}

#[test]
fn redaction_of_a_report_is_reproducible_and_idempotent() {
    let folder = write_private("redact_again");
    std::fs::write(folder.join("r.json"), printed(&folder, ["report", TRACE, "--format", "json"])).unwrap();
    let direct = printed(&folder, ["report", TRACE, "--format", "json", "--redact"]);
    assert_eq!(printed(&folder, ["report", "r.json", "--format", "json", "--redact"]), direct);
    std::fs::write(folder.join("once.json"), &direct).unwrap();
    assert_eq!(printed(&folder, ["report", "once.json", "--format", "json", "--redact"]), direct);
}

/// Checks only the model name and the numbers of real traces, not every word.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn redacted_real_traces_keep_their_numbers_and_lose_the_model_name() {
    let traces = shared("traces/torch");
    for name in ["sglang_qwen3_30b_b300_decode.trace.json.gz", "hf_qwen1.5_0.5b_h100.trace.json.gz"] {
        let args = ["report", name, "--format", "json"];
        let plain: Value = serde_json::from_str(&gpuprism(&traces, args).stdout).unwrap();
        let text = gpuprism(&traces, [&args[..], &["--redact"]].concat()).stdout;
        let (mut before, mut after) = (Vec::new(), Vec::new());
        numbers(&plain, "", &mut before);
        numbers(&serde_json::from_str(&text).unwrap(), "", &mut after);
        assert!(before == after, "{name}");
        assert!(!text.contains("qwen"), "{name} names the model");
    }
}
