//! The requests of a capture, against those that the original capture script sent when it was recorded.

use super::fake::{Behaviour, Fake, Folder, Kind, Request, capture, options};
use gpuprism_capture::record::{CaptureRecord, Stage, State};
use serde_json::{Value, json};
use std::path::Path;

/// A request as text: method, path and body, with the parts that differ from run to run replaced.
fn line(request: &Request, out: &Path) -> String {
    let mut body = request.body.clone();
    if let Some(folder) = body["output_dir"].as_str() {
        let folder = folder.replace(&out.display().to_string(), "<OUT>");
        let is_time = |part: &&str| part.len() > 8 && part.bytes().all(|byte| byte.is_ascii_digit());
        let parts: Vec<&str> =
            folder.split('/').map(|part| if is_time(&part) { "<UNIX_TIME>" } else { part }).collect();
        body["output_dir"] = parts.join("/").into();
    }
    for key in ["profile_id", "profile_prefix"] {
        if let Some(word) = body[key].as_str() {
            body[key] = word.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned().into();
        }
    }
    format!("{} {} {body}", request.method, request.path)
}

/// The requests that the original did not send: the probe without the profiler.
fn is_unprofiled(request: &Request) -> bool {
    request.body.to_string().contains("unprofiled_probe")
}

fn generate(number: u32, words: usize, tokens: u32) -> String {
    let prompt = format!("profile_probe_{number}{}", " profile".repeat(words - 1));
    let body = json!({
        "text": prompt, "sampling_params": {"sampling_seed": number, "temperature": 0.0, "max_new_tokens": tokens},
        "stream": false,
    });
    format!("POST /generate {body}")
}

fn chat(number: u32, words: usize, tokens: u32) -> String {
    let prompt = format!("profile_probe_{number}{}", " profile".repeat(words - 1));
    let body = json!({
        "model": "served-model", "messages": [{"role": "user", "content": prompt}], "temperature": 0.0,
        "max_tokens": tokens, "stream": false,
    });
    format!("POST /v1/chat/completions {body}")
}

/// The exchange of a probe of both stages: 3 warm-up and 2 profiled prompts of 6 words, then a warm-up of 3 tokens and 32 profiled
/// tokens.
fn both(alive: &str, request: fn(u32, usize, u32) -> String, start: impl Fn(&str) -> Value) -> Vec<String> {
    let post = |path: &str, body: &Value| format!("POST {path} {body}");
    vec![
        format!("GET {alive} null"),
        request(0, 6, 1),
        request(1, 6, 1),
        request(2, 6, 1),
        post("/start_profile", &start("prefill")),
        request(3, 6, 1),
        request(4, 6, 1),
        post("/stop_profile", &Value::Null),
        format!("GET {alive} null"),
        request(0, 2, 3),
        post("/start_profile", &start("decode")),
        request(1, 2, 32),
        post("/stop_profile", &Value::Null),
    ]
}

/// Captures both stages and returns the exchange without the unprofiled probe.
fn exchange(name: &str, kind: Kind) -> (Vec<String>, CaptureRecord, Folder) {
    let folder = Folder::new(name);
    let fake = Fake::start(Behaviour::new(kind, &folder.join("server")));
    let out = folder.join("out");
    let outcome = capture(&options(&fake, out.clone())).unwrap();
    assert_eq!(outcome.missing, None);
    let requests = fake.exchange();
    let kept = requests.iter().filter(|request| !is_unprofiled(request));
    (kept.map(|request| line(request, &out)).collect(), outcome.record, folder)
}

#[test]
fn sglang_gets_the_recorded_requests_with_integers_and_an_id() {
    let (requests, record, folder) = exchange("sglang", Kind::Sglang);
    let start = |stage: &str| {
        json!({
            "output_dir": format!("<OUT>/{stage}/<UNIX_TIME>"), "num_steps": 3, "activities": ["CPU", "GPU"],
            "profile_by_stage": false, "merge_profiles": false, "profile_id": format!("gpuprism-{stage}-"),
        })
    };
    assert_eq!(requests, both("/server_info", generate, start));
    assert_eq!(
        record.captures.iter().map(|capture| capture.stage).collect::<Vec<_>>(),
        [Some(Stage::Prefill), Some(Stage::Decode)]
    );
    assert!(record.captures.iter().all(|capture| capture.state == State::Complete && capture.files.len() == 1));
    let tree = folder.tree("out");
    assert_eq!(tree.len(), 4, "{tree:?}");
    assert!(tree[0] == "capture.json" && tree[1].starts_with("decode/") && tree[2].starts_with("prefill/"), "{tree:?}");
    assert_eq!(tree[3], "server_args.json");
}

#[test]
fn a_vllm_whose_profiler_takes_no_body_gets_the_recorded_requests() {
    let (requests, _, folder) = exchange("old-vllm", Kind::OldVllm);
    assert_eq!(requests, both("/v1/models", chat, |_| Value::Null));
    // Copied, not moved.
    assert_eq!(folder.tree("server").len(), 2);
    assert_eq!(folder.tree("out/prefill").len() + folder.tree("out/decode").len(), 2);
}

#[test]
fn vllm_is_told_the_steps_and_a_prefix_if_its_profiler_takes_a_body() {
    let (requests, record, _folder) = exchange("vllm", Kind::Vllm);
    let start = |stage: &str| json!({"profile_prefix": format!("gpuprism-{stage}-"), "max_iterations": 3});
    assert_eq!(requests, both("/v1/models", chat, start));
    assert_eq!(record.framework_version.as_deref(), Some("0.33.0"));
}

#[test]
fn tensorrt_llm_gets_the_recorded_requests_with_folder_activities_and_steps() {
    let (requests, _, _folder) = exchange("trtllm", Kind::Trtllm);
    let start = |stage: &str| json!({"output_dir": format!("<OUT>/{stage}/<UNIX_TIME>"), "num_steps": 3, "activities": ["CPU", "GPU"]});
    assert_eq!(requests, both("/v1/models", chat, start));
}

#[test]
fn tokenspeed_gets_the_recorded_requests_with_a_folder_per_stage() {
    let (requests, _, _folder) = exchange("tokenspeed", Kind::Tokenspeed);
    let start = |stage: &str| {
        json!({
            "output_dir": format!("<OUT>/{stage}/<UNIX_TIME>"), "activities": ["CPU", "GPU"], "with_stack": true,
            "record_shapes": false, "profile_id": format!("gpuprism-{stage}-"),
        })
    };
    assert_eq!(requests, both("/v1/models", chat, start));
}

/// Compares with the recording itself: everything but the body that starts the profiler is equal.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn the_requests_are_those_of_the_recording() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/spec/data/golden/live_capture_http.json");
    let recording: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let kinds =
        [("sglang", Kind::Sglang), ("vllm", Kind::OldVllm), ("trtllm", Kind::Trtllm), ("tokenspeed", Kind::Tokenspeed)];
    for (name, kind) in kinds {
        let events = recording[format!("{name}/both")]["events"].as_array().unwrap();
        let event = |event: &Value| {
            let (method, path) = (event["m"].as_str()?, event["path"].as_str()?);
            let body = if path == "/start_profile" { Value::Null } else { event["body"].clone() };
            Some(format!("{method} {path} {body}"))
        };
        let recorded: Vec<String> = events.iter().filter_map(event).collect();
        let (requests, ..) = exchange(&format!("recording-{name}"), kind);
        let without_body = |line: String| match line.strip_prefix("POST /start_profile ") {
            Some(_) => "POST /start_profile null".to_owned(),
            None => line,
        };
        assert_eq!(requests.into_iter().map(without_body).collect::<Vec<_>>(), recorded, "{name}");
    }
}

#[test]
fn the_unprofiled_probe_is_the_profiled_one_with_other_first_words() {
    let folder = Folder::new("unprofiled");
    let fake = Fake::start(Behaviour::new(Kind::Sglang, &folder.join("server")));
    let outcome = capture(&options(&fake, folder.join("out"))).unwrap();
    let exchange = fake.exchange();
    let start = exchange.iter().position(|request| request.path == "/start_profile").unwrap();
    let unprofiled: Vec<&Request> = exchange[..start].iter().filter(|request| is_unprofiled(request)).collect();
    assert_eq!(unprofiled.len(), 2);
    for (request, profiled) in unprofiled.iter().zip(&exchange[start + 1..]) {
        let words = |request: &Request| request.body["text"].as_str().unwrap().split(' ').skip(1).count();
        assert_eq!(words(request), words(profiled));
        assert_eq!(request.body["sampling_params"]["max_new_tokens"], 1);
    }
    let [prefill, decode] = &outcome.record.captures[..] else { panic!("two stages") };
    let time = prefill.unprofiled.unwrap();
    assert_eq!((time.requests, time.output_tokens), (2, Some(2)));
    assert!(prefill.profiled.is_some());
    assert_eq!(decode.unprofiled.unwrap().output_tokens, Some(32));
    // Only 3 of the 32 tokens are profiled, so the time of the request says nothing about the profiler.
    assert_eq!(decode.profiled, None);
}

#[test]
fn capture_json_reads_back_and_contains_no_key() {
    let folder = Folder::new("record");
    let mut behaviour = Behaviour::new(Kind::Sglang, &folder.join("server"));
    behaviour.key = Some("secret-3");
    let fake = Fake::start(behaviour);
    let mut options = options(&fake, folder.join("out"));
    options.api_key = Some("secret-3".to_owned());
    let outcome = capture(&options).unwrap();
    assert_eq!(CaptureRecord::read(&folder.join("out")).unwrap(), outcome.record);
    let files = ["capture.json", "server_args.json"].map(|name| std::fs::read_to_string(folder.join("out").join(name)));
    for text in files {
        let text = text.unwrap();
        assert!(!text.contains("secret-"), "{text}");
    }
    assert!(fake.requests.lock().unwrap().iter().all(|request| request.authorization.is_some()));
}

#[test]
fn another_version_of_capture_json_is_refused_by_name() {
    let error = CaptureRecord::parse(r#"{"schema": "gpuprism-capture/2"}"#).unwrap_err();
    assert!(error.contains("gpuprism-capture/2") && error.contains("gpuprism-capture/1"), "{error}");
    assert!(CaptureRecord::parse("{}").unwrap_err().contains("no `schema`"));
}

/// The names of all members, at any depth, except those within a request.
fn names(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                found.push(name.clone());
                if name != "start_request" {
                    names(value, found);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| names(item, found)),
        _ => {}
    }
}

#[test]
fn the_book_describes_every_field_of_capture_json() {
    let (_, record, _folder) = exchange("book", Kind::Sglang);
    let book = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/capture.md")).unwrap();
    let mut found = Vec::new();
    names(&serde_json::to_value(&record).unwrap(), &mut found);
    assert!(found.len() > 30, "{found:?}");
    let missing: Vec<&String> = found.iter().filter(|name| !book.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "not in docs/capture.md: {missing:?}");
}
