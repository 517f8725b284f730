//! `gpuprism capture` and `gpuprism doctor` against an imitated server. The cases are in the tests of the crate in `capture/`; here
//! are the command's own: output, exit status, interruption.

// The server has more behaviours than are needed here.
#[allow(dead_code, reason = "shared with the tests of the crate")]
#[path = "../../capture/tests/server/fake.rs"]
mod fake;

use crate::common::{directory, gpuprism};
use fake::{Behaviour, Fake, Kind};
use std::path::Path;

#[test]
fn a_capture_lists_its_traces_and_triage_reads_the_folder() {
    let folder = directory("capture");
    let fake = Fake::start(Behaviour::new(Kind::Sglang, &folder));
    let arguments = ["capture", "--server", &fake.url, "--out", "out", "--workload", "decode", "--steps", "2"];
    let output = gpuprism(&folder, arguments);
    assert_eq!(output.status, 0, "{output:?}");
    let trace = output.stdout.trim();
    assert!(trace.starts_with("out/decode/") && folder.join(trace).is_file(), "{output:?}");
    for phase in ["SGLang 0.5.23", "warm-up", "without the profiler", "starting", "stopping", "waiting", "captured"] {
        assert!(output.stderr.contains(phase), "no `{phase}` in {output:?}");
    }
    let triage = gpuprism(&folder, ["triage", "out"]);
    assert_eq!(triage.status, 0, "{triage:?}");
    assert!(triage.stdout.contains("decode"), "{triage:?}");
}

#[test]
fn wrong_flags_have_status_2_and_a_server_that_is_down_has_status_1() {
    let folder = directory("capture-refusals");
    for (arguments, status, words) in [
        (&["capture"][..], 2, "--server"),
        (&["capture", "--server", "http://127.0.0.1:1"], 2, "--out"),
        (&["capture", "--server", "http://127.0.0.1:1", "--out", "o", "--steps", "0"], 2, "--steps 0"),
        (&["capture", "--server", "http://127.0.0.1:1", "--out", "o"], 1, "connection refused"),
        (&["capture", "--resume", "none"], 1, "none"),
        (&["capture", "--recipe", "triton"], 2, "sglang, vllm, trtllm"),
        (&["doctor"], 2, "FILE"),
    ] {
        let output = gpuprism(&folder, arguments);
        assert_eq!((output.status, output.stdout.as_str()), (status, ""), "{output:?}");
        assert!(output.stderr.contains(words), "no `{words}` in {output:?}");
    }
}

#[test]
fn a_recipe_is_printed() {
    let output = gpuprism(&directory("recipe"), ["capture", "--recipe", "trtllm"]);
    assert_eq!((output.status, output.stderr.as_str()), (0, ""));
    for words in
        ["TLLM_PROFILE_START_STOP", "with_stack=True", "self.dist.rank == 0", "kubectl", "sbatch", "docker run"]
    {
        assert!(output.stdout.contains(words), "{words}");
    }
}

#[test]
fn doctor_has_status_5_if_a_capture_would_not_work() {
    let folder = directory("doctor");
    let fake = Fake::start(Behaviour::new(Kind::Sglang, &folder));
    let output = gpuprism(&folder, ["doctor", "--server", &fake.url]);
    assert_eq!(output.status, 0, "{output:?}");
    assert!(output.stdout.starts_with("ok ") && output.stdout.contains("\nwarning "), "{output:?}");
    let output = gpuprism(&folder, ["doctor", "--server", "http://127.0.0.1:1"]);
    assert!(output.status == 5 && output.stdout.starts_with("problem "), "{output:?}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_stops_the_server_s_profiler_before_the_program_ends() {
    use std::process::{Command, Stdio};
    use std::sync::atomic::Ordering;
    use std::time::{Duration, Instant};
    let folder = directory("capture-interrupted");
    let mut behaviour = Behaviour::new(Kind::Sglang, Path::new(&folder));
    behaviour.hangs_while_profiling = true;
    let fake = Fake::start(behaviour);
    let mut program = Command::new(env!("CARGO_BIN_EXE_gpuprism"));
    program.args(["capture", "--server", &fake.url, "--out", "out", "--workload", "prefill"]);
    let mut child = program.current_dir(&folder).stderr(Stdio::null()).spawn().unwrap();
    let begin = Instant::now();
    while !fake.is_profiling.load(Ordering::SeqCst) {
        assert!(begin.elapsed() < Duration::from_secs(20), "the profiler never started");
        std::thread::sleep(Duration::from_millis(20));
    }
    // Into the delay after the start, or into a request.
    std::thread::sleep(Duration::from_millis(700));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(!fake.is_profiling.load(Ordering::SeqCst));
    assert_eq!(fake.count("/stop_profile"), 1);
}

#[test]
fn a_report_carries_the_record_of_its_capture_and_diff_says_when_set_ups_differ() {
    let folder = directory("capture-record");
    let mut behaviour = Behaviour::new(Kind::Sglang, &folder);
    for (out, graphs) in [("a", "on"), ("b", "off")] {
        let fake = Fake::start(behaviour);
        let arguments = ["capture", "--server", &fake.url, "--out", out, "--workload", "decode", "--steps", "2"];
        let output = gpuprism(&folder, arguments);
        assert_eq!(output.status, 0, "{output:?}");
        let trace = output.stdout.trim().to_owned();
        // The imitated server always has the same settings.
        let record = folder.join(out).join("capture.json");
        let mut json: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&record).unwrap()).unwrap();
        json["captures"][0]["graphs"] = graphs.into();
        std::fs::write(&record, json.to_string()).unwrap();
        std::fs::copy(folder.join(&trace), folder.join(format!("{out}.json.gz"))).unwrap();
        let report = gpuprism(&folder, ["report", "--format", "json", &trace]);
        let report: serde_json::Value = serde_json::from_str(&report.stdout).unwrap();
        let captured = &report["runs"][0]["sections"]["capture"]["summary"];
        assert_eq!((captured["framework"].as_str(), captured["graphs"].as_str()), (Some("SGLang"), Some(graphs)));
        assert!(captured["unprofiled_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{captured}");
        std::fs::write(folder.join(format!("{out}.path")), trace).unwrap();
        behaviour = Behaviour::new(Kind::Sglang, &folder);
    }
    let path = |out: &str| std::fs::read_to_string(folder.join(format!("{out}.path"))).unwrap();
    let diff = gpuprism(&folder, ["diff", &path("a"), &path("b")]);
    let words = diff.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("different set-ups: CUDA graphs off against on"), "{diff:?}");
    let alone = gpuprism(&folder, ["report", "--format", "json", "a.json.gz"]);
    assert!(!alone.stdout.contains("\"capture\""), "a copy elsewhere is no trace of the capture");
}

#[test]
fn triage_says_how_a_trace_was_captured() {
    let folder = directory("capture-triage");
    let fake = Fake::start(Behaviour::new(Kind::Sglang, &folder));
    let arguments = ["capture", "--server", &fake.url, "--out", "out", "--workload", "decode", "--steps", "2"];
    assert_eq!(gpuprism(&folder, arguments).status, 0);
    for format in ["terminal", "text", "markdown"] {
        let output = gpuprism(&folder, ["triage", "--format", format, "out"]);
        let words = output.stdout.split_whitespace().collect::<Vec<_>>().join(" ").replace('\\', "");
        for fact in ["SGLang", "0.5.23", "served-model", "decode", "Graphs: on", "probe of 1 requests"] {
            assert!(words.contains(fact), "{format}: no `{fact}` in {output:?}");
        }
    }
    let json = gpuprism(&folder, ["triage", "--format", "json", "out"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    let captured = &json["runs"][0]["sections"]["capture"]["summary"];
    assert_eq!(captured["framework_version"].as_str(), Some("0.5.23"));
}

#[test]
fn the_tool_capture_exists_only_if_it_is_allowed_and_answers_with_files_and_the_first_brief() {
    use crate::common::mcp::Server;
    use serde_json::json;
    let folder = directory("capture-mcp");
    let fake = Fake::start(Behaviour::new(Kind::Sglang, &folder));
    let arguments = json!({"server": fake.url, "workload": "decode", "steps": 2});
    let mut closed = Server::start(&folder);
    assert!(!closed.request("tools/list", &json!({})).to_string().contains("\"capture\""));
    assert!(closed.call("capture", arguments.clone()).unwrap_err().contains("no tool of this server"));
    assert_eq!(fake.paths(), Vec::<String>::new(), "nothing was sent");

    let mut server = Server::start_with(&folder, &["--allow-capture"]);
    let tools = server.request("tools/list", &json!({}))["tools"].clone();
    let tool = tools.as_array().unwrap().iter().find(|tool| tool["name"] == "capture").unwrap().clone();
    assert_eq!(tool["annotations"]["readOnlyHint"], false, "a client can ask before the call");
    let answer = server.call("capture", arguments).unwrap();
    let line = answer.lines().find(|line| line.starts_with("- captures/capture-1/decode/")).unwrap();
    let trace = line.trim_start_matches("- ").split(',').next().unwrap();
    assert!(folder.join(trace).is_file(), "{answer}");
    let brief = server.call("brief", json!({"files": [trace]})).unwrap();
    assert!(answer.ends_with(&brief), "{answer}");
    for (arguments, words) in [
        (json!({"server": "http://127.0.0.1:1"}), "connection refused"),
        (json!({"server": fake.url, "steps": 0}), "at least one step"),
        (json!({"server": fake.url, "steps": 100_000}), "at most 1000"),
        (json!({"server": fake.url, "out": "/tmp"}), "the tool's schema lists"),
    ] {
        let error = server.call("capture", arguments).unwrap_err();
        assert!(error.contains(words) && !error.contains('\n'), "{error}");
    }
    assert!(!folder.join("captures/capture-2").exists(), "failed captures leave no folder");
    assert_eq!(server.close(), 0);
}

#[test]
fn a_client_that_leaves_during_a_capture_leaves_no_profiler_running() {
    use crate::common::mcp::Server;
    use serde_json::json;
    use std::sync::atomic::Ordering;
    use std::time::{Duration, Instant};
    let folder = directory("capture-mcp-left");
    let mut behaviour = Behaviour::new(Kind::Sglang, &folder);
    behaviour.hangs_while_profiling = true;
    let fake = Fake::start(behaviour);
    let mut server = Server::start_with(&folder, &["--allow-capture"]);
    let call = json!({"name": "capture", "arguments": {"server": fake.url, "workload": "prefill"}});
    server.send(&json!({"jsonrpc": "2.0", "id": 100, "method": "tools/call", "params": call}));
    let begin = Instant::now();
    while !fake.is_profiling.load(Ordering::SeqCst) {
        assert!(begin.elapsed() < Duration::from_secs(20), "the profiler never started");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(server.close(), 0);
    assert!(!fake.is_profiling.load(Ordering::SeqCst));
    assert_eq!(fake.count("/stop_profile"), 1);
}

/// A pair has the config in the folder of each half, between the traces and `capture.json`.
#[test]
fn the_config_of_a_pair_gives_its_reports_a_floor_and_a_broken_one_only_a_warning() {
    let folder = directory("capture-pair-config");
    let config = r#"{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 100,
        "torch_dtype": "bfloat16", "tie_word_embeddings": false}"#;
    std::fs::write(folder.join("model.json"), config).unwrap();
    let fake = Fake::start(Behaviour::new(Kind::Sglang, &folder));
    let arguments = ["capture", "--server", &fake.url, "--out", "out", "--workload", "decode", "--steps", "2"];
    let output =
        gpuprism(&folder, [&arguments[..], &["--mapping", "--graphs", "on", "--config", "model.json"]].concat());
    assert_eq!(output.status, 0, "{output:?}");
    let trace = output.stdout.lines().next().unwrap().trim().to_owned();
    assert!(trace.starts_with("out/formal/decode/"), "{output:?}");
    let used = |output: &crate::common::Output| {
        let report: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        let sections = &report["runs"][0]["sections"];
        assert_eq!(sections["capture"]["summary"]["part"].as_str(), Some("with graphs, of a pair"), "{output:?}");
        sections["layer_roles"].to_string() + &sections["step_floor"].to_string()
    };
    let with_config = gpuprism(&folder, ["report", "--format", "json", &trace]);
    assert_eq!((with_config.status, with_config.stderr.as_str()), (0, ""), "{with_config:?}");
    let given = gpuprism(&folder, ["report", "--format", "json", "--config", "model.json", &trace]);
    assert_eq!(used(&with_config), used(&given));
    // In the folder of the stage, the program finds the same files.
    let stage = folder.join(&trace).parent().unwrap().to_owned();
    let name = trace.rsplit('/').next().unwrap();
    assert_eq!(gpuprism(&stage, ["report", "--format", "json", name]).stdout, with_config.stdout);
    std::fs::write(folder.join("out/formal/config.json"), "{\"hidden_size\": 1}").unwrap();
    let broken = gpuprism(&folder, ["report", "--format", "json", &trace]);
    assert!(broken.status == 0 && broken.stderr.contains("the report continues without it"), "{broken:?}");
}
