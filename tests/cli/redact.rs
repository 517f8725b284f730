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

/// Runs the program with `--redact` and checks all that it writes: on both streams, and in the folder `out`, names of files too.
fn check_all_output(folder: &Path, args: &[&str], codes: &[i32]) {
    let out = folder.join("out");
    let _ = std::fs::remove_dir_all(&out);
    std::fs::create_dir(&out).unwrap();
    let output = gpuprism(folder, [args, &["--redact"]].concat());
    let what = format!("{args:?}");
    assert!(codes.contains(&output.status), "{what}: {output:?}");
    private_traces::is_clean(&output.stdout, &format!("the output of {what}"));
    private_traces::is_clean(&output.stderr, &format!("the errors of {what}"));
    let mut wrote = output.stdout.len();
    each_bytes(&out, &mut |path, bytes| {
        let name = path.strip_prefix(&out).unwrap().display().to_string();
        let what = format!("{name} of {what}");
        private_traces::is_clean(&name, &what);
        private_traces::is_clean(&String::from_utf8_lossy(bytes), &what);
        private_traces::is_clean(&unpacked(path), &format!("unpacked {what}"));
        wrote += bytes.len();
    });
    assert!(wrote > 20 || output.status != 0, "{what}: nothing was written: {output:?}");
}

/// All texts of a Parquet or gzipped file; nothing for other files, which are not packed.
fn unpacked(path: &Path) -> String {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let file = std::fs::File::open(path).unwrap();
    match path.extension().and_then(std::ffi::OsStr::to_str) {
        Some("gz") => std::io::read_to_string(flate2::read::GzDecoder::new(file)).unwrap(),
        Some("parquet") => {
            let rows = SerializedFileReader::new(file).unwrap();
            rows.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string() + "\n").collect()
        }
        _ => String::new(),
    }
}

fn each_bytes(folder: &Path, visit: &mut dyn FnMut(&Path, &[u8])) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => each_bytes(&path, visit),
            false => visit(&path, &std::fs::read(&path).unwrap()),
        }
    }
}

/// The commands with `--redact` and the formats of each; `FILE` is the trace.
const COMMANDS: &[&[&str]] = &[
    &["report", "FILE", "--all"],
    &["report", "FILE", "--table", "kernels", "--limit", "0"],
    &["model", "FILE"],
    &["model", "FILE", "--format", "json"],
    &["model", "FILE", "--format", "markdown"],
    &["model", "FILE", "--format", "csv", "--idle"],
    &["what-if", "FILE"],
    &["what-if", "FILE", "--format", "json"],
    &["what-if", "FILE", "--format", "markdown"],
    &["brief", "FILE", "--budget", "100000"],
    &["brief", "FILE", "zorblax.json", "--budget", "100000"],
    &["show", "FILE", "kernels"],
    &["show", "FILE", "stacks"],
    &["rules", "FILE", "--rules", "rules.json", "--engine", "vllm", "--model", "zorblax"],
    &["rules", "FILE", "--format", "json"],
    &["rules", "FILE", "--format", "markdown"],
    &["pivot", "FILE", "--rows", "kernel", "--columns", "category"],
    &["pivot", "FILE", "--rows", "process", "--columns", "device", "--format", "json"],
    &["pivot", "FILE", "--rows", "run", "--columns", "stream", "--format", "csv"],
    &["pivot", "FILE", "--rows", "stage", "--columns", "kernel", "--format", "markdown"],
    &["pivot", "FILE", "--rows", "step", "--columns", "kernel", "--format", "csv"],
    &["diff", "FILE", "zorblax_results.json"],
    &["diff", "FILE", "zorblax_results.json", "--format", "json", "--out", "out/diff.json"],
    &["diff", "FILE", "zorblax_results.json", "--format", "csv"],
    &["diff", "FILE", "zorblax_results.json", "--format", "markdown"],
    &["diff", "FILE", "FILE", "--format", "json"],
    &["facts", "FILE", "--out", "out"],
];

/// As [`COMMANDS`], but with the exit codes of other outcomes than success: runs that cannot be compared, no such finding.
const OTHER_CODES: [i32; 3] = [0, 2, 4];

#[test]
fn no_command_writes_a_private_text_to_any_stream_or_file() {
    let folder = directory("redact_commands").join("zorblax");
    std::fs::create_dir_all(&folder).unwrap();
    private_traces::write(&folder);
    for trace in TRACES {
        if trace.ends_with("sqlite") {
            check_all_output(&folder, &["explain", trace, "--print-schema", "--out", "out"], &[0]);
        }
        if trace.ends_with("rpd") {
            for file in ["out/run.json", "out/run.json.gz"] {
                check_all_output(&folder, &["what-if", trace, "--trace", file], &[0]);
            }
        }
        for command in COMMANDS {
            let args: Vec<&str> = command.iter().map(|word| if *word == "FILE" { trace } else { *word }).collect();
            check_all_output(&folder, &args, &OTHER_CODES);
        }
    }
}

/// Writes the trace of a rank of two with a secret in each text; its all-reduce starts at `late` us and ends at 100 us.
fn write_private_rank(folder: &Path, number: u32, late: u32) {
    let event = |cat: &str, name: &str, ts: u32, args: Value| json!({"ph": "X", "cat": cat, "name": name, "pid": "[zorblax-laptop] 0", "tid": 7, "ts": ts, "dur": 100 - ts, "args": args});
    let of_kernel = json!({"device": 0, "stream": 7, "correlation": 1});
    let mut work = event("kernel", "zorblax_gemm_kernel", 0, of_kernel);
    work["dur"] = late.into();
    let group = json!({"device": 0, "stream": 20, "correlation": 2, "Collective name": "allreduce", "In msg nelems": 1024,
        "Out msg nelems": 1024, "Group size": 2, "dtype": "BFloat16", "Process Group Name": "zorblax", "Process Group Description": "zorblax"});
    let reduce =
        event("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", late, group);
    let trace = json!({"schemaVersion": 1, "hostname": "zorblax-laptop", "distributedInfo": {"backend": "nccl", "rank": number, "world_size": 2},
        "traceEvents": [work, reduce]});
    std::fs::write(folder.join(format!("zorblax-TP-{number}-DECODE.trace.json")), trace.to_string()).unwrap();
}

#[test]
fn ranks_have_no_private_text_and_keep_their_numbers() {
    let folder = directory("redact_ranks").join("zorblax");
    let job = folder.join("zorblax job");
    std::fs::create_dir_all(&job).unwrap();
    write_private_rank(&job, 0, 30);
    write_private_rank(&job, 1, 90);
    std::fs::write(job.join("zorblax-alone.json"), "{\"traceEvents\": [{\"name\": \"zorblax\"").unwrap();
    for format in ["text", "json", "markdown"] {
        check_all_output(&folder, &["ranks", "zorblax job", "--format", format], &[0]);
    }
    for table in ["ranks", "rank_collectives", "rank_waits", "rank_files"] {
        check_all_output(
            &folder,
            &["ranks", "zorblax job", "--format", "csv", "--table", table, "--out", "out/ranks.csv"],
            &[0],
        );
    }
    let figures = |args: &[&str]| {
        let mut all = Vec::new();
        let output = gpuprism(&folder, [&["ranks", "zorblax job", "--format", "json"], args].concat());
        numbers(&serde_json::from_str(&output.stdout).unwrap(), "", &mut all);
        all
    };
    assert!(figures(&["--redact"]) == figures(&[]), "numbers differ");
    let text = gpuprism(&folder, ["ranks", "zorblax job", "--redact"]).stdout;
    assert!(text.contains("(private kernel 1 takes 90.0 us"), "{text}");
}

#[test]
fn no_message_names_a_file_though_all_words_of_its_name_are_public() {
    let folder = directory("redact_names");
    let name = "host-secret-17_trace.json";
    super::example::write_torch(&folder, name);
    let commands: [&[&str]; 5] = [
        &["ranks", name],
        &["ranks", "."],
        &["facts", name, "--out", "out"],
        &["report", "host-secret-18_trace.json"],
        &["triage", "host-secret-19_trace.json"],
    ];
    for command in commands {
        let output = gpuprism(&folder, [command, &["--redact"]].concat());
        let all = [output.stdout.as_str(), output.stderr.as_str()].concat();
        assert!(!all.is_empty() && !all.contains("host-secret"), "{command:?}: {output:?}");
    }
}

#[test]
#[cfg(feature = "facts")]
fn facts_and_their_history_have_no_private_text() {
    let folder = directory("redact_facts").join("zorblax");
    let (job, broken) = (folder.join("zorblax job"), folder.join("zorblax-broken.json"));
    std::fs::create_dir_all(&job).unwrap();
    private_traces::write(&folder);
    write_private_rank(&job, 0, 30);
    write_private_rank(&job, 1, 90);
    std::fs::write(&broken, "zorblax").unwrap();
    check_all_output(&folder, &["facts", ".", "--out", "out"], &[1]);
    for (index, us) in (0..7).zip([500, 502, 499, 501, 503, 498, 600]) {
        let (name, date) = (format!("zorblax-{index}.json"), format!("date=2026-01-0{}", index + 1));
        super::trend::trace(&folder, &name, us);
        let tags = ["--tag", "model=Zorblax", "--tag", "commit=zorblax", "--tag", &date];
        assert_eq!(gpuprism(&folder, [&["facts", &name, "--out", "plain"], &tags[..]].concat()).status, 0);
    }
    let text = gpuprism(&folder, ["trend", "plain", "--redact", "--format", "json"]).stdout;
    assert!(text.contains("model 1 on NVIDIA H100 80GB HBM3, SGLang, decode: slower since 2026-01-07"), "{text}");
    for format in ["text", "json", "csv", "markdown"] {
        check_all_output(&folder, &["trend", "plain", "--format", format], &[3]);
        check_all_output(&folder, &["trend", "plain", "--format", format, "--out", "out/trend"], &[3]);
    }
}

#[test]
fn no_command_changes_a_number() {
    let folder = directory("redact_numbers").join("zorblax");
    std::fs::create_dir_all(&folder).unwrap();
    private_traces::write(&folder);
    let commands: [&[&str]; 6] = [
        &["model", "zorblax.json"],
        &["what-if", "zorblax.rpd"],
        &["rules", "zorblax.json"],
        &["pivot", "zorblax.json", "--rows", "kernel", "--columns", "stream"],
        &["diff", "zorblax.json", "zorblax_results.json"],
        &["diff", "zorblax.sqlite", "zorblax.json", "--baseline", "zorblax.sqlite"],
    ];
    for command in commands {
        let figures = |more: &[&str]| {
            let output = gpuprism(&folder, [command, &["--format", "json"], more].concat());
            let mut all = Vec::new();
            numbers(&serde_json::from_str(&output.stdout).unwrap(), "", &mut all);
            all
        };
        let plain = figures(&[]);
        assert!(!plain.is_empty() && figures(&["--redact"]) == plain, "{command:?}");
    }
}

#[test]
fn an_error_has_no_private_text_either() {
    let folder = directory("redact_errors").join("zorblax");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("zorblax.json"), "zorblax").unwrap();
    for command in ["report", "model", "what-if", "brief", "pivot", "rules", "diff", "ranks", "triage", "explain"] {
        let out: &[&str] = if command == "explain" { &["--out", "out"] } else { &[] };
        check_all_output(&folder, &[&[command, "zorblax.json"], out].concat(), &[1, 2]);
        check_all_output(&folder, &[&[command, "/home/zorblax/none.json"], out].concat(), &[1, 2]);
    }
    check_all_output(&folder, &["show", "zorblax.json", "kernels"], &[1]);
    check_all_output(&folder, &["trend", "/home/zorblax/facts"], &[1]);
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
