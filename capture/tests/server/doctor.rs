//! `doctor`: what it finds on each server, and that it changes nothing.

use super::fake::{Behaviour, Fake, Folder, Kind};
use gpuprism_capture::{Cancel, Level, Line, doctor};
use serde_json::json;

fn check(behaviour: Behaviour) -> (Vec<Line>, Fake) {
    let fake = Fake::start(behaviour);
    (doctor(&fake.url, None, &Cancel::default()).unwrap(), fake)
}

fn line<'a>(lines: &'a [Line], words: &str) -> &'a Line {
    lines.iter().find(|line| line.text.contains(words)).unwrap_or_else(|| panic!("no `{words}` in {lines:#?}"))
}

#[test]
fn a_capturable_sglang_has_no_problem_and_allows_pages() {
    let folder = Folder::new("doctor-sglang");
    let (lines, fake) = check(Behaviour::new(Kind::Sglang, &folder.0));
    assert!(lines.iter().all(|line| line.level != Level::Problem), "{lines:#?}");
    assert_eq!(line(&lines, "is SGLang 0.5.23").level, Level::Ok);
    assert_eq!(line(&lines, "profiler endpoint is there").level, Level::Ok);
    assert_eq!(line(&lines, "CORS").level, Level::Ok);
    let graphs = line(&lines, "uses CUDA graphs");
    assert!(graphs.level == Level::Warning && graphs.remedy.as_ref().unwrap().contains("--disable-cuda-graph"));
    assert!(fake.requests.lock().unwrap().iter().all(|request| request.method == "GET"));
    assert_eq!(fake.count("/start_profile"), 0);
}

#[test]
fn vllm_without_a_profiler_is_a_problem_with_the_flag_that_enables_it() {
    let folder = Folder::new("doctor-no-profiler");
    let mut behaviour = Behaviour::new(Kind::Vllm, &folder.0);
    behaviour.refuses = vec![("/openapi.json", 200, r#"{"paths": {"/v1/models": {}}}"#)];
    let (lines, _fake) = check(behaviour);
    let profiler = line(&lines, "profiler endpoint is missing");
    assert!(profiler.level == Level::Problem && profiler.remedy.as_ref().unwrap().contains("--profiler-config"));
    let cors = line(&lines, "CORS");
    assert!(cors.level == Level::Warning && cors.remedy.as_ref().unwrap().contains("--allowed-origins"), "{cors:?}");
}

#[test]
fn vllm_tells_its_folder_and_the_flags_that_make_traces_better() {
    let folder = Folder::new("doctor-vllm");
    let mut behaviour = Behaviour::new(Kind::Vllm, &folder.0);
    behaviour.settings = json!({"torch_profiler_with_stack": false, "torch_profiler_record_shapes": true});
    let (lines, _fake) = check(behaviour);
    assert_eq!(line(&lines, &folder.0.display().to_string()).level, Level::Ok);
    assert!(line(&lines, "torch_profiler_with_stack is false").remedy.is_some());
    assert!(!lines.iter().any(|line| line.text.contains("torch_profiler_record_shapes")));
}

#[test]
fn vllm_outside_development_mode_is_asked_for_what_it_does_not_tell() {
    let folder = Folder::new("doctor-vllm-quiet");
    let mut behaviour = Behaviour::new(Kind::Vllm, &folder.0);
    behaviour.tells_settings = false;
    let (lines, _fake) = check(behaviour);
    assert!(line(&lines, "does not tell where").remedy.as_ref().unwrap().contains("--server-folder"));
    assert!(line(&lines, "settings").remedy.as_ref().unwrap().contains("VLLM_SERVER_DEV_MODE=1"));
    assert_eq!(line(&lines, "CUDA graphs is unknown").level, Level::Warning);
}

#[test]
fn graphs_are_off_by_each_framework_s_own_setting() {
    let settings = [
        (Kind::Sglang, json!({"disable_cuda_graph": true})),
        (Kind::Sglang, json!({"cuda_graph_config": {"decode": {"backend": "disabled"}}})),
        (Kind::Vllm, json!({"vllm_config": {"model_config": {"enforce_eager": true}}})),
        (Kind::Vllm, json!({"compilation_config": {"cudagraph_mode": "NONE"}})),
    ];
    for (index, (kind, settings)) in settings.into_iter().enumerate() {
        let folder = Folder::new(&format!("doctor-graphs-{index}"));
        let mut behaviour = Behaviour::new(kind, &folder.0);
        behaviour.settings = settings;
        let (lines, _fake) = check(behaviour);
        assert!(line(&lines, "without CUDA graphs").remedy.is_some(), "{index}");
    }
}

#[test]
fn a_server_that_does_not_answer_or_is_unknown_is_one_problem_with_a_remedy() {
    let lines = doctor("http://127.0.0.1:1", None, &Cancel::default()).unwrap();
    assert!(lines.len() == 1 && lines[0].level == Level::Problem, "{lines:?}");
    assert!(lines[0].text.contains("connection refused") && lines[0].remedy.as_ref().unwrap().contains("port"));
    let folder = Folder::new("doctor-unknown");
    let (lines, _fake) = check(Behaviour::new(Kind::Unknown, &folder.0));
    assert!(lines.len() == 1 && lines[0].text.contains("organization"), "{lines:?}");
}

#[test]
fn a_server_cannot_forge_a_line_or_control_the_terminal() {
    let folder = Folder::new("doctor-hostile");
    let mut behaviour = Behaviour::new(Kind::Vllm, &folder.0);
    let hostile = "1.0\nok       all is well\r\u{1b}[2J\u{9b}31m\u{202e}";
    behaviour.settings = json!({
        "version": hostile,
        "vllm_config": {"profiler_config": {"torch_profiler_dir": hostile}, "model_config": {"model": hostile}},
        "torch_profiler_with_stack": hostile.repeat(100_000),
    });
    let (lines, _fake) = check(behaviour);
    let texts = lines.iter().flat_map(|line| std::iter::once(&line.text).chain(&line.remedy));
    for text in texts {
        assert!(text.chars().all(gpuprism_capture::text::is_plain), "{text:?}");
        assert!(text.chars().count() < 2000, "{}", text.len());
    }
    assert!(line(&lines, "1.0\u{fffd}ok       all is well").text.contains("vLLM"), "{lines:#?}");
}
