//! `gpuprism triage` and `gpuprism bundle`: file selection in folders, output text, errors.

use crate::cli::example::{op, write_events};
use crate::common::{Output, csv_rows, directory, file_name, files, gpuprism, json_runs, printed, shared};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// The events of a kernel with its Python frame, CPU op and launching call. The kernel runs for `us` on stream 7.
fn launched(id: u32, at_us: u32, kernel: &str, cpu_op: &str, frame: &str, us: u32) -> Vec<String> {
    let host = |category: &str, name: &str, at: u32, dur: u32, args: String| {
        format!(
            r#"{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": 50, "tid": 60, "ts": {at}, "dur": {dur}, "args": {{{args}}}}}"#
        )
    };
    let external = format!(r#""External id": {id}"#);
    vec![
        host("python_function", frame, at_us, 30, format!(r#""Python id": {id}"#)),
        host("cpu_op", cpu_op, at_us + 1, 20, external.clone()),
        host("cuda_runtime", "cudaLaunchKernel", at_us + 2, 5, format!(r#"{external}, "correlation": {id}"#)),
        format!(
            r#"{{"ph": "X", "cat": "kernel", "name": "{kernel}", "pid": 0, "tid": 7, "ts": {}, "dur": {us}, "args": {{{external}, "device": 0, "stream": 7, "correlation": {id}}}}}"#,
            at_us + 10
        ),
    ]
}

/// Writes a trace with a GEMM (three quarters of the time) and a normalization (one quarter).
fn write_work(folder: &Path, name: &str) {
    let frames = [
        "/x/sglang/python/sglang/srt/layers/linear.py(10): apply",
        "/x/sglang/python/sglang/srt/layers/norm.py(20): forward",
    ];
    let mut events = launched(1, 100, "nvjet_tst_64x8", "aten::mm", frames[0], 750);
    events.extend(launched(2, 1000, "rms_norm_kernel", "aten::rms_norm", frames[1], 250));
    std::fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
    write_events(folder, name, &events);
}

/// Writes a trace with only CPU events.
fn write_host_only(folder: &Path, name: &str) {
    write_events(
        folder,
        name,
        &[r#"{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 2}"#.to_owned()],
    );
}

/// Writes a capture of graphs: launches that name kernels, without any kernel that ran.
fn write_capture(folder: &Path, name: &str) {
    let launch = |id: u32| {
        format!(
            r#"{{"ph": "X", "cat": "cuda_runtime", "name": "hipLaunchKernel", "pid": 9, "tid": 9, "ts": {id}, "dur": 1, "args": {{"External id": {id}, "kernel": "nvjet_tst_64x8", "correlation": {id}}}}}"#
        )
    };
    std::fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
    write_events(folder, name, &(1..40).map(launch).collect::<Vec<_>>());
}

/// The runs of a triage as JSON.
fn runs(folder: &Path, args: &[&str]) -> Vec<Value> {
    let text = printed(folder, [&["triage", "--format", "json"], args].concat());
    serde_json::from_str::<Value>(&text).unwrap()["runs"].as_array().unwrap().clone()
}

fn labels(runs: &[Value]) -> Vec<&str> {
    runs.iter().map(|run| run["label"].as_str().unwrap()).collect()
}

/// The mapping traces of the first run.
fn mapping(runs: &[Value]) -> Vec<&str> {
    let text = runs[0]["sections"]["triage_summary"]["summary"]["mapping_traces"].as_str();
    text.map_or(Vec::new(), |text| text.lines().collect())
}

fn skipped_files(run: &Value) -> String {
    let notices = run["notices"].as_array().unwrap().iter().filter(|notice| notice["code"] == "set_aside");
    notices.map(|notice| notice["message"].as_str().unwrap()).collect::<Vec<_>>().join("; ")
}

fn assert_refused(output: &Output, status: i32, words: &[&str]) {
    assert_eq!((output.status, output.stdout.as_str()), (status, ""), "{output:?}");
    assert_eq!(output.stderr.lines().count(), 1, "one line: {output:?}");
    for word in words {
        assert!(output.stderr.contains(word), "{word:?} is not in {}", output.stderr);
    }
}

const HEADS: [(&str, &str); 3] = [
    ("Kernel Table", "| Kernel | Category | GPU time | Share | Launches | Python location (site share) | CPU op |"),
    (
        "Overlap Opportunity Table",
        "| Priority | Verdict | Kernel | Python scope | Formal signal | Dep risk | Recommendation |",
    ),
    (
        "Fuse Opportunity Table",
        "| Pattern | Confidence | Related GPU time | Share | Evidence kernels | Current kernel Python location | Candidate fused Python path | Rationale |",
    ),
];

/// Checks that the header of the table under each heading starts with the columns of the original.
fn assert_original_tables(text: &str) {
    let mut rest = text;
    for (title, head) in HEADS {
        let at = rest.find(&format!("\n{title}\n")).unwrap_or_else(|| panic!("{title} is not in its place: {text}"));
        rest = &rest[at + title.len() + 2..];
        let first = rest.lines().find(|line| line.starts_with('|')).unwrap();
        let original = head.trim_end_matches('|').trim_end();
        assert!(first.starts_with(original), "{title}: {first}");
    }
}

#[test]
fn the_text_starts_like_the_original_and_has_the_same_tables_and_columns() {
    let folder = directory("triage_text");
    write_work(&folder, "work.json");
    let text = printed(&folder, ["triage", "work.json", "--format", "text"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..2], ["Triage View", "Mode: single-trace"]);
    assert!(lines[2].starts_with("Framework: ") && lines[3] == "Input traces: work.json", "{text}");
    assert_original_tables(&text);
    // 750 of 1000 us, and 250.
    for row in [
        "| nvjet_tst_64x8 | gemm | 0.75 ms | 75.0% | 1 | python/sglang/srt/layers/linear.py:10 apply | aten::mm | exact |",
        "| rms_norm_kernel | norm | 0.25 ms | 25.0% | 1 | python/sglang/srt/layers/norm.py:20 forward | aten::rms_norm | exact |",
    ] {
        assert!(lines.contains(&row), "{row}: {text}");
    }
    let barred = printed(&folder, ["triage", "work.json", "--min-share", "25.1", "--format", "text"]);
    assert!(barred.contains("| nvjet_tst_64x8 |") && !barred.contains("\n| rms_norm_kernel |"), "{barred}");
    let limited = printed(&folder, ["triage", "work.json", "--kernel-table-limit", "1", "--format", "text"]);
    assert!(limited.contains("| nvjet_tst_64x8 |") && !limited.contains("\n| rms_norm_kernel |"), "{limited}");
    let marked = printed(&folder, ["triage", "--input", "work.json", "--format", "markdown"]);
    assert!(marked.starts_with("## Triage View\n\n- Mode: single-trace\n"), "{marked}");
    assert!(HEADS.iter().all(|(title, _)| marked.contains(&format!("\n## {title}\n"))), "{marked}");
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn outputs_of_the_original_have_the_same_table_headers() {
    let oracles = shared("oracles/triage");
    for path in crate::common::files(&oracles, ".txt") {
        assert_original_tables(&std::fs::read_to_string(path).unwrap());
    }
}

#[test]
fn with_a_mapping_trace_only_the_formal_trace_is_triaged() {
    let folder = directory("triage_pair");
    write_work(&folder, "eager.json");
    write_work(&folder, "formal.json");
    let pair = ["--mapping-input", "eager.json", "--formal-input", "formal.json"];
    let text = printed(&folder, [&["triage", "--format", "text"], &pair[..]].concat());
    assert!(text.contains("\nMode: mapping-formal\n"), "{text}");
    assert!(text.contains("\nMapping traces: eager.json\nFormal traces: formal.json\n"), "{text}");
    let runs = runs(&folder, &pair);
    assert_eq!((labels(&runs), mapping(&runs)), (vec!["formal.json"], vec!["eager.json"]));
}

#[test]
fn one_trace_per_stage_of_a_folder_is_triaged_and_the_other_files_are_listed() {
    let folder = directory("triage_folder");
    for name in [
        "1757000000-TP-0-EXTEND.trace.json",
        "1757000000-TP-1-EXTEND.trace.json",
        "1757000000-TP-0-DECODE.trace.json",
        "1756000000-TP-0-DECODE.trace.json",
        "merged-1757000000.trace.json",
    ] {
        write_work(&folder, name);
    }
    write_host_only(&folder, "host.async_llm.1757000000000000000.pt.trace.json");
    write_capture(&folder, "capture_traces/rank0.1755.pt.trace.json");
    std::fs::write(folder.join("server.log"), "ready\n").unwrap();
    let runs = runs(&folder, &["."]);
    assert_eq!(labels(&runs), ["1757000000-TP-0-EXTEND.trace.json", "1757000000-TP-0-DECODE.trace.json"]);
    assert_eq!(mapping(&runs), ["capture_traces/rank0.1755.pt.trace.json"]);
    let skipped = skipped_files(&runs[0]);
    for name in ["TP-1-EXTEND", "1756000000-TP-0-DECODE", "merged-", "async_llm", "server.log"] {
        assert!(skipped.contains(name), "{name}: {skipped}");
    }
}

#[test]
fn file_content_takes_precedence_over_file_names() {
    let folder = directory("triage_content");
    write_host_only(&folder, "1757000009-TP-0.json");
    write_work(&folder, "1757000001-TP-0.json");
    write_capture(&folder, "1757000005-TP-0.json");
    std::fs::write(folder.join("1757000010-TP-0.json"), r#"{"benchmark": 1}"#).unwrap();
    let chosen = runs(&folder, &["."]);
    assert_eq!((labels(&chosen), mapping(&chosen)), (vec!["1757000001-TP-0.json"], vec!["1757000005-TP-0.json"]));
    let skipped = skipped_files(&chosen[0]);
    assert!(skipped.contains("1757000009-TP-0.json (no GPU work"), "{skipped}");
    assert!(skipped.contains("1757000010-TP-0.json") && skipped.contains("no `traceEvents`"), "{skipped}");
    // Files given by name are treated in the same way.
    let files = ["1757000001-TP-0.json", "1757000005-TP-0.json", "1757000009-TP-0.json"];
    let named = runs(&folder, &files);
    assert_eq!((labels(&named), mapping(&named)), (vec![files[0]], vec![files[1]]));
    for alone in [files[1], files[2]] {
        assert_eq!(labels(&runs(&folder, &[alone])), [alone], "a single file is triaged whatever it contains");
    }
    let several = runs(&folder, &[files[0], "--input", files[0]]);
    assert_eq!(labels(&several), [files[0], files[0]]);
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn a_real_graph_capture_is_used_as_mapping_trace() {
    let traces = shared("traces/torch");
    let files = ["vllm_mi300_decode_full_graph.trace.json.gz", "vllm_mi300_graph_capture.pt.trace.json.gz"];
    let runs = runs(&traces, &files);
    assert_eq!((labels(&runs), mapping(&runs)), (vec![files[0]], vec![files[1]]));
}

/// Prefill launches one kernel for all products of a layer. Of their operations, the MLP (`forward`) has 3 x 4,096 x 1,024
/// per token and the attention (`attend`) 4 x 1,024 x 1,024: 75 % and 25 %. The times follow within a few percent.
#[test]
fn an_eager_capture_names_each_caller_of_the_kernels_of_a_recorded_decoder() {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/traces");
    let [graph, eager] = ["decoder_graph.json.gz", "decoder_eager.json.gz"];
    let runs = runs(&traces, &["--formal-input", graph, "--mapping-input", eager]);
    assert_eq!((labels(&runs), mapping(&runs)), (vec![graph], vec![eager]));
    let rows = runs[0]["sections"]["triage_kernels"]["rows"].as_array().unwrap();
    let location = |stage: &str, kernel: &str| {
        let is_row = |row: &&Value| row["stage"] == stage && row["kernel_name"].as_str().unwrap().contains(kernel);
        rows.iter().find(is_row).unwrap()["python_location"].as_str().unwrap().to_owned()
    };
    let product = location("extend/prefill", "nvjet_sm90_hsh_256x128");
    let shares: Vec<(&str, f64)> = product
        .lines()
        .map(|line| {
            let (site, share) = line.split_once(" (site share ").unwrap();
            (site, share.trim_end_matches("%)").parse().unwrap())
        })
        .collect();
    let [("capture_torch.py:48 forward", mlp), ("capture_torch.py:53 attend", attention)] = shares[..] else {
        panic!("{product}")
    };
    assert!((mlp - 75.0).abs() < 5.0 && (attention - 25.0).abs() < 5.0, "{product}");
    assert_eq!(location("decode", "layer_norm"), "capture_torch.py:31 norm");
}

#[test]
fn server_arguments_are_read_from_the_flag_the_folder_or_its_parent() {
    let folder = directory("triage_server_args");
    write_work(&folder, "decode/work.json");
    let model = |args: &[&str]| {
        let text = printed(&folder, [&["triage", "--format", "text"], args].concat());
        text.lines().find_map(|line| line.strip_prefix("Model: ")).map(str::to_owned)
    };
    let write = |path: &str, model: &str| {
        std::fs::write(folder.join(path), format!(r#"{{"model_path": "{model}", "tp_size": 2}}"#)).unwrap();
    };
    assert_eq!(model(&["decode/work.json"]), None);
    write("server_args.json", "above");
    write("named.json", "named");
    for input in ["decode/work.json", "decode", "."] {
        assert_eq!(model(&[input]).as_deref(), Some("above"), "{input}");
    }
    write("decode/server_args.json", "beside");
    for input in ["decode/work.json", "decode", "."] {
        assert_eq!(model(&[input]).as_deref(), Some("beside"), "{input}");
        assert_eq!(model(&[input, "--server-args", "named.json"]).as_deref(), Some("named"));
    }
    std::fs::write(folder.join("decode/server_args.json"), "[not json").unwrap();
    let output = gpuprism(&folder, ["triage", "decode"]);
    assert!(
        output.status == 0 && output.stderr.contains("server_args.json") && output.stderr.contains("without it"),
        "{output:?}"
    );
    let named = gpuprism(&folder, ["triage", "decode", "--server-args", "decode/server_args.json"]);
    assert_refused(&named, 1, &["decode/server_args.json", "not server arguments"]);
}

#[test]
fn a_log_of_a_diffusers_run_stops_the_triage() {
    let folder = directory("triage_gate");
    write_work(&folder, "work.json");
    std::fs::write(folder.join("good.log"), "INFO ready\n").unwrap();
    printed(&folder, ["triage", "work.json", "--run-log", "good.log"]);
    for words in ["Falling back to diffusers backend", "Using diffusers backend", "Loaded diffusers pipeline"] {
        std::fs::write(folder.join("run.log"), format!("INFO ready\nWARN {words}: X\n")).unwrap();
        let output = gpuprism(&folder, ["triage", "work.json", "--run-log", "good.log", "--run-log", "run.log"]);
        assert_refused(&output, 1, &["run.log", words, "diffusers backend did the work"]);
    }
    assert_refused(&gpuprism(&folder, ["triage", "work.json", "--run-log", "gone.log"]), 1, &["gone.log"]);
}

#[test]
fn the_json_output_is_a_report_with_the_same_tables() {
    let folder = directory("triage_json");
    write_work(&folder, "work.json");
    let json = printed(&folder, ["triage", "work.json", "--format", "json"]);
    std::fs::write(folder.join("triage.json"), &json).unwrap();
    assert_eq!(printed(&folder, ["report", "triage.json", "--format", "json"]), json);
    let runs = json_runs(&folder, &["triage.json"]);
    let names: Vec<&String> = runs[0]["sections"].as_object().unwrap().keys().collect();
    for table in ["triage_summary", "triage_steps", "triage_kernels", "triage_overlap", "triage_fuse", "triage_catalog"]
    {
        assert!(names.iter().any(|name| *name == table), "{names:?}");
        let csv = printed(&folder, ["report", "triage.json", "--format", "csv", "--table", table]);
        assert_eq!(csv, printed(&folder, ["triage", "work.json", "--format", "csv", "--table", table]), "{table}");
    }
    // The table id for the rows of one stage, as the Markdown report uses it.
    let of_stage =
        |first: &[&str]| printed(&folder, [first, &["--format", "csv", "--table", "triage_kernels@all"]].concat());
    assert!(of_stage(&["triage", "work.json"]).lines().count() > 1);
    assert_eq!(of_stage(&["triage", "work.json"]), of_stage(&["report", "triage.json"]));
    let html = printed(&folder, ["report", "triage.json", "--format", "html"]);
    assert!(html.contains("Kernel table") && html.contains("Fuse patterns"));
}

#[test]
fn csv_prints_the_kernel_table_with_exact_numbers() {
    let folder = directory("triage_csv");
    write_work(&folder, "work.json");
    let csv = printed(&folder, ["triage", "work.json", "--format", "csv"]);
    let rows = csv_rows(&csv);
    assert_eq!(rows[0][..4], ["run", "stage", "kernel_name", "short_kernel_name"]);
    let column = |name: &str| rows[0].iter().position(|column| column == name).unwrap();
    assert_eq!(
        (rows[1][column("kernel_name")].as_str(), rows[1][column("duration_ns")].as_str()),
        ("nvjet_tst_64x8", "750000")
    );
    assert_eq!((rows[1][column("share_pct")].as_str(), rows.len()), ("75", 3));
}

#[test]
fn invalid_flag_combinations_are_usage_errors_of_one_sentence() {
    let folder = directory("triage_usage");
    write_work(&folder, "work.json");
    let cases: &[(&[&str], &str)] = &[
        (&[], "give a trace or a profile folder"),
        (&["--mapping-input", "work.json"], "needs --formal-input"),
        (&["--formal-input", "work.json"], "needs --mapping-input"),
        (&["work.json", "--mapping-input", "work.json", "--formal-input", "work.json"], "cannot be combined"),
        (&["--input", "work.json", "--formal-input", "work.json"], "cannot be combined"),
        (&["work.json", "--framework", "caffe"], "no such framework"),
        (&["work.json", "--model-shape", "32,32"], "32,32,128"),
        (&["work.json", "--model-shape", "32,0,128"], "32,32,128"),
        (&["work.json", "--min-share", "101"], "from 0 to 100"),
        (&["work.json", "--min-share", "NaN"], "from 0 to 100"),
        (&["work.json", "--table", "triage_fuse"], "needs --format csv"),
        (&["work.json", "--format", "csv", "--table", "nonsense"], "triage_kernels, triage_overlap"),
    ];
    for (args, words) in cases {
        assert_refused(&gpuprism(&folder, [&["triage"], *args].concat()), 2, &[words]);
    }
    for framework in ["auto", "sglang", "trt", "tensorrt_llm", "token-speed", "vLLM"] {
        printed(&folder, ["triage", "work.json", "--framework", framework]);
    }
}

#[test]
fn a_folder_or_file_without_a_trace_is_refused_with_its_content() {
    let folder = directory("triage_refused");
    let refused = |args: &[&str], words: &[&str]| {
        assert_refused(&gpuprism(&folder, [&["triage"], args].concat()), 1, words);
    };
    std::fs::create_dir(folder.join("empty")).unwrap();
    refused(&["empty"], &["empty", "no trace to triage"]);
    std::fs::create_dir(folder.join("notes")).unwrap();
    std::fs::write(folder.join("notes/a.txt"), "x").unwrap();
    std::fs::write(folder.join("notes/b.json"), r#"{"n": 1}"#).unwrap();
    refused(&["notes"], &["notes", "no trace to triage", "a.txt", "1 more"]);
    refused(&["gone.json"], &["gone.json"]);
    std::fs::write(folder.join("other.json"), r#"{"n": 1}"#).unwrap();
    refused(&["other.json"], &["other.json", "no `traceEvents`"]);
    std::fs::write(folder.join("table.csv"), crate::cli::example::NSYS_CSV).unwrap();
    refused(&["table.csv"], &["table.csv", "not a torch.profiler trace", "gpuprism report"]);
    write_events(&folder, "work.json", &[op("kernel", "k", 0, 7, 1, 5)]);
    refused(&["--mapping-input", "empty", "--formal-input", "work.json"], &["empty", "no trace"]);
    let json = printed(&folder, ["triage", "work.json", "--format", "json"]);
    std::fs::write(folder.join("earlier.json"), json).unwrap();
    refused(&["earlier.json"], &["earlier report", "gpuprism report"]);
}

#[test]
fn the_output_does_not_depend_on_the_folder_or_on_modification_times() {
    let (first, second) = (directory("triage_bytes_a"), directory("triage_bytes_b"));
    let names = ["1757000000-TP-0.json", "1757000001-TP-0.json", "x-TP-1.json", "sub/y.json"];
    names.iter().for_each(|name| write_work(&first, name));
    // Written in another order, so the modification times differ.
    names.iter().rev().for_each(|name| write_work(&second, name));
    for format in ["text", "markdown", "json", "csv"] {
        let of = |folder: &Path| printed(folder, ["triage", ".", "--format", format]);
        assert_eq!(of(&first), of(&second), "{format}");
    }
}

#[test]
fn a_bundle_contains_the_texts_of_a_folder_and_of_named_files() {
    let folder = directory("triage_bundle");
    write_work(&folder, "work.json");
    for model in ["qwen", "llama"] {
        std::fs::create_dir_all(folder.join("root").join(model)).unwrap();
    }
    std::fs::write(folder.join("server_args.json"), r#"{"model_path": "Qwen/Qwen3-30B"}"#).unwrap();
    let text = printed(&folder, ["triage", "work.json", "--format", "text"]);
    std::fs::write(folder.join("root/qwen/analysis_vllm.txt"), &text).unwrap();
    let marked = printed(&folder, ["triage", "work.json", "--format", "markdown"]);
    std::fs::write(folder.join("root/qwen/analysis_sglang.md"), marked).unwrap();
    std::fs::write(folder.join("root/llama/analysis.txt"), "").unwrap();
    std::fs::write(folder.join("root/llama/notes.txt"), "not this one").unwrap();
    let bundle =
        |more: &[&str]| printed(&folder, [&["bundle", "--analysis-root", "root", "--title", "All"], more].concat());
    let document = bundle(&[]);
    let headings: Vec<&str> = document.lines().filter(|line| line.starts_with('#')).collect();
    let one =
        ["#### Triage View", "#### Kernel Table", "#### Overlap Opportunity Table", "#### Fuse Opportunity Table"];
    assert_eq!(headings[..4], ["# All", "## Contents", "## llama", "### Other"]);
    assert!(document.contains("_Nothing in this file._") && !document.contains("not this one"));
    let own =
        |heading: &&&str| !heading.starts_with("#####") && (one.contains(*heading) || heading.starts_with("### "));
    let qwen: Vec<&&str> = headings[5..].iter().filter(own).collect();
    let want = [&["### SGLang"][..], &one, &["### vLLM"], &one].concat();
    assert_eq!(qwen, want.iter().collect::<Vec<_>>(), "{document}");
    assert!(document.contains("Source: root/qwen/analysis_vllm.txt") && !document.contains("UTC"));
    assert!(!bundle(&["--no-include-toc"]).contains("Contents") && bundle(&["--include-toc"]) == document);
    let named = bundle(&["--analysis-file", "mine=root/qwen/analysis_vllm.txt", "--output", "out.md"]);
    assert_eq!(named, "");
    let written = std::fs::read_to_string(folder.join("out.md")).unwrap();
    assert!(written.contains("Model id: mine\n") && written.starts_with("# All\n"), "{written}");
    let into_root = || {
        bundle(&["--output", "root/analysis_all.md"]);
        std::fs::read_to_string(folder.join("root/analysis_all.md")).unwrap()
    };
    let first = into_root();
    assert_eq!((into_root(), first), (document.clone(), document), "the document does not contain itself");
}

#[test]
fn a_bundle_without_texts_is_refused() {
    let folder = directory("triage_bundle_refused");
    assert_refused(&gpuprism(&folder, ["bundle"]), 2, &["--analysis-root", "--analysis-file"]);
    assert_refused(&gpuprism(&folder, ["bundle", "--analysis-root", "."]), 1, &["no analysis*.txt"]);
    assert_refused(&gpuprism(&folder, ["bundle", "--analysis-root", "gone"]), 1, &["gone"]);
    assert_refused(&gpuprism(&folder, ["bundle", "--analysis-file", "x=gone.txt"]), 1, &["gone.txt"]);
    std::fs::write(folder.join("analysis.json"), "{}").unwrap();
    assert_refused(
        &gpuprism(&folder, ["bundle", "--analysis-file", "analysis.json"]),
        1,
        &["the format text or markdown"],
    );
}

#[test]
fn the_terminal_shows_tables_that_fit_its_width_and_definitions_on_request() {
    let folder = directory("triage_terminal");
    write_work(&folder, "work.json");
    assert_fits_the_terminal(&folder, "work.json");
    let explained = printed(&folder, ["triage", "work.json", "--explain"]);
    assert!(explained.contains("\nDefinitions\n  - "), "{explained}");
    assert_refused(&gpuprism(&folder, ["triage", "work.json", "--explain", "--format", "text"]), 2, &["--explain"]);
}

fn assert_fits_the_terminal(folder: &Path, file: &str) {
    let text = printed(folder, ["triage", file]);
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{file}: {text}");
    assert!(text.contains("Kernels: ") && !text.contains("| ---"), "{file}: {text}");
    assert!(!text.contains("Definitions\n") && text.contains("--explain adds definitions"), "{file}: {text}");
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn the_terminal_shows_tables_of_real_traces_that_fit_its_width() {
    let folder = shared("traces/torch");
    let traces = files(&folder, ".json.gz");
    let of_servers =
        traces.iter().map(|path| file_name(path)).filter(|name| name.contains("decode") || name.contains("vllm"));
    let of_servers: Vec<&str> = of_servers.collect();
    assert!(of_servers.len() >= 7, "{of_servers:?}");
    of_servers.iter().for_each(|name| assert_fits_the_terminal(&folder, name));
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn the_shares_of_a_stage_are_of_its_busy_time_and_equal_those_of_the_report() {
    let traces = shared("traces/torch");
    let path = traces.join("sglang_qwen3_30b_mi300_decode.trace.json.gz");
    let args = ["triage", path.to_str().unwrap(), "--format", "json", "--min-share", "0"];
    let report: Value = serde_json::from_str(&printed(Path::new("."), args)).unwrap();
    let run = &report["runs"][0];
    let rows = run["sections"]["triage_kernels"]["rows"].as_array().unwrap();
    let mut of_stages: BTreeMap<&str, f64> = BTreeMap::new();
    let mut elapsed = 0;
    for row in rows {
        *of_stages.entry(row["stage"].as_str().unwrap()).or_default() += row["elapsed_share_pct"].as_f64().unwrap();
        elapsed += row["elapsed_ns"].as_i64().unwrap();
    }
    for (stage, share) in of_stages {
        assert!((share - 100.0).abs() < 1e-6, "{stage}: {share}");
    }
    assert_eq!(elapsed, run["totals"]["union_ns"].as_i64().unwrap());
}
