//! What goes wrong: one sentence, what to do, and a server that is left as it was found.

use super::fake::{Behaviour, Fake, Folder, Kind, Writes, capture, options};
use gpuprism_capture::{Cancel, Error, Options, Phase, Progress, Traffic, Workload};
use serde_json::json;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A capture of the decode stage that fails. Returns the error and the server.
fn failed(name: &str, kind: Kind, change: impl Fn(&mut Behaviour), set: impl Fn(&mut Options)) -> (Error, Fake) {
    let folder = Folder::new(name);
    let mut behaviour = Behaviour::new(kind, &folder.join("server"));
    change(&mut behaviour);
    let fake = Fake::start(behaviour);
    let mut options = options(&fake, folder.join("out"));
    options.traffic = Traffic::Probe(Workload::Decode);
    set(&mut options);
    let error = capture(&options).unwrap_err();
    assert!(!error.to_string().contains('\n'), "{error}");
    (error, fake)
}

/// The sentence has all of these words.
fn says(error: &Error, words: &[&str]) {
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "no `{word}` in: {text}");
    }
}

fn is_idle(fake: &Fake) -> bool {
    !fake.is_profiling.load(Ordering::SeqCst)
}

#[test]
fn a_server_that_is_down_is_named() {
    let folder = Folder::new("down");
    let error = capture(&Options::new("127.0.0.1:1", folder.join("out"))).unwrap_err();
    says(&error, &["http://127.0.0.1:1", "connection refused", "URL and port"]);
    assert!(!error.is_usage() && !folder.join("out").exists());
}

#[test]
fn an_unknown_server_is_not_assumed_to_be_one_of_the_four() {
    let (error, fake) = failed("unknown", Kind::Unknown, |_| {}, |_| {});
    says(&error, &["not recognised", "organization", "SGLang, vLLM, TensorRT-LLM, TokenSpeed"]);
    assert_eq!(fake.count("/start_profile"), 0);
}

#[test]
fn a_server_with_a_key_asks_for_it() {
    let (error, _fake) = failed("key", Kind::Sglang, |server| server.key = Some("k"), |_| {});
    says(&error, &["HTTP 401", "--api-key"]);
    let refuse = |server: &mut Behaviour| server.refuses = vec![("/start_profile", 403, "{}")];
    let (error, fake) = failed("admin-key", Kind::Sglang, refuse, |_| {});
    says(&error, &["HTTP 403", "--admin-api-key", "--api-key"]);
    assert_eq!(fake.count("/stop_profile"), 0);
}

#[test]
fn a_missing_profiler_endpoint_is_explained_by_the_flag_that_enables_it() {
    let refuse = |server: &mut Behaviour| server.refuses = vec![("/start_profile", 404, "{}")];
    let (error, fake) = failed("no-endpoint", Kind::Vllm, refuse, |_| {});
    says(&error, &["/start_profile", "404", "--profiler-config", "torch_profiler_dir"]);
    assert_eq!(fake.count("/stop_profile"), 0);
    let (error, _fake) = failed("no-endpoint-trtllm", Kind::Trtllm, refuse, |_| {});
    says(&error, &["--recipe trtllm"]);
    // A server that lists its endpoints is refused before the warm-up.
    let unlisted = |server: &mut Behaviour| server.refuses = vec![("/openapi.json", 200, r#"{"paths": {}}"#)];
    let (error, fake) = failed("unlisted", Kind::Vllm, unlisted, |_| {});
    says(&error, &["--profiler-config"]);
    assert_eq!(fake.count("/v1/chat/completions"), 0);
}

#[test]
fn a_busy_server_is_said_to_be_busy() {
    let refuse = |server: &mut Behaviour| server.refuses = vec![("/generate", 503, "")];
    let (error, fake) = failed("busy", Kind::Sglang, refuse, |_| {});
    says(&error, &["busy", "503", "try again"]);
    assert_eq!(fake.count("/start_profile"), 0);
    let hang = |server: &mut Behaviour| server.hangs = vec!["/generate"];
    let short = |options: &mut Options| options.pacing.probe_request = Duration::from_millis(300);
    let (error, _fake) = failed("hangs", Kind::Sglang, hang, short);
    says(&error, &["did not answer /generate within 0.3 s", "busy"]);
}

#[test]
fn a_profiler_that_runs_already_is_left_running() {
    let folder = Folder::new("already");
    let fake = Fake::start(Behaviour::new(Kind::Sglang, &folder.0));
    fake.is_profiling.store(true, Ordering::SeqCst);
    let mut options = options(&fake, folder.join("out"));
    options.traffic = Traffic::Probe(Workload::Prefill);
    let error = capture(&options).unwrap_err();
    says(&error, &["refused /start_profile", "already runs", "curl -X POST http://127.0.0.1", "SGLANG_PROFILE_V2"]);
    assert!(!is_idle(&fake) && fake.count("/stop_profile") == 0);

    let folder = Folder::new("already-vllm");
    let fake = Fake::start(Behaviour::new(Kind::Vllm, &folder.0));
    fake.is_profiling.store(true, Ordering::SeqCst);
    let error = capture(&super::fake::options(&fake, folder.join("out"))).unwrap_err();
    says(&error, &["refused /start_profile", "409", "already active", "already runs", "curl -X POST http://127.0.0.1"]);
    assert!(!is_idle(&fake) && fake.count("/stop_profile") == 0);
}

#[test]
fn servers_with_another_profiler_are_refused_before_the_warm_up() {
    for (name, settings, words) in [
        ("rust", json!({"frontend": "rust"}), "Rust front end"),
        ("v2", json!({"SGLANG_PROFILE_V2": "1"}), "SGLANG_PROFILE_V2"),
    ] {
        let (error, fake) = failed(name, Kind::Sglang, |server| server.settings = settings.clone(), |_| {});
        says(&error, &[words, "restart"]);
        assert_eq!((fake.count("/generate"), fake.count("/start_profile")), (0, 0));
    }
}

#[test]
fn a_server_that_stops_in_the_middle_is_said_to_have_stopped() {
    // The third request to /generate is the profiled one: warm-up, unprofiled, profiled.
    let (error, fake) = failed("dies", Kind::Sglang, |server| server.dies = Some(("/generate", 3)), |_| {});
    says(&error, &["stopped answering", "/generate", "its log says why", "/stop_profile"]);
    assert_eq!(fake.count("/start_profile"), 1);
}

#[test]
fn the_profiler_is_stopped_if_the_load_fails() {
    let load = |options: &mut Options| options.traffic = Traffic::Command("sleep 0.4; exit 3".to_owned());
    let (error, fake) = failed("failed-load", Kind::Vllm, |_| {}, load);
    says(&error, &["--load: the command failed", "3"]);
    assert!(is_idle(&fake) && fake.count("/stop_profile") == 1);
}

#[test]
fn a_prompt_that_is_too_long_names_the_flag() {
    let refuse = |server: &mut Behaviour| {
        server.refuses = vec![
            ("/v1/chat/completions", 400, r#"{"error": "maximum context length is 2048"}"#),
            ("/v1/completions", 400, "{}"),
        ];
    };
    let (error, _fake) = failed("long", Kind::Vllm, refuse, |_| {});
    says(&error, &["HTTP 400", "maximum context length is 2048", "--prefill-input-len"]);
}

#[test]
fn traces_above_the_limit_are_not_copied() {
    let (error, fake) = failed("large", Kind::Vllm, |_| {}, |options| options.max_bytes = 10);
    says(&error, &["more than --max-bytes 10", "fewer --steps"]);
    assert!(is_idle(&fake));
}

/// Cancels when a phase begins, and captures.
fn cancelled(name: &str, kind: Kind, change: impl Fn(&mut Behaviour), at: Phase) -> (Error, Fake, Duration) {
    let folder = Folder::new(name);
    let mut behaviour = Behaviour::new(kind, &folder.join("server"));
    change(&mut behaviour);
    let fake = Fake::start(behaviour);
    let mut options = options(&fake, folder.join("out"));
    options.traffic = Traffic::Probe(Workload::Decode);
    let cancel = Cancel::default();
    let mut begin = Instant::now();
    let mut progress = |progress: Progress| {
        if progress.phase == at {
            let cancel = cancel.clone();
            begin = Instant::now();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(100));
                cancel.cancel();
            });
        }
    };
    let error = gpuprism_capture::capture(&options, &mut progress, &cancel).unwrap_err();
    assert!(error.is_cancelled(), "{error}");
    (error, fake, begin.elapsed())
}

#[test]
fn an_interruption_stops_the_profiler_without_waiting_for_the_request() {
    let (_, fake, time) =
        cancelled("cancel-load", Kind::Sglang, |server| server.hangs_while_profiling = true, Phase::Load);
    assert!(is_idle(&fake) && fake.count("/stop_profile") == 1);
    assert!(time < Duration::from_secs(5), "{time:?}");
}

#[test]
fn an_interruption_before_the_profiler_leaves_it_alone() {
    let (_, fake, time) =
        cancelled("cancel-warm-up", Kind::Sglang, |server| server.hangs = vec!["/generate"], Phase::WarmUp);
    assert_eq!((fake.count("/start_profile"), fake.count("/stop_profile")), (0, 0));
    assert!(time < Duration::from_secs(5), "{time:?}");
}

#[test]
fn an_interruption_of_the_start_request_stops_what_may_have_started() {
    let (_, fake, _) =
        cancelled("cancel-start", Kind::Sglang, |server| server.hangs = vec!["/start_profile"], Phase::Start);
    assert_eq!((fake.count("/start_profile"), fake.count("/stop_profile")), (1, 1));
}

#[test]
fn an_interruption_while_traces_are_awaited_ends_the_wait() {
    let (_, fake, time) = cancelled("cancel-wait", Kind::Sglang, |server| server.writes = Writes::Nothing, Phase::Wait);
    assert!(is_idle(&fake) && time < Duration::from_secs(1), "{time:?}");
}

#[test]
fn wrong_options_are_refused_before_a_request() {
    let folder = Folder::new("usage");
    let fake = Fake::start(Behaviour::new(Kind::Vllm, &folder.0));
    let wrong = |set: &dyn Fn(&mut Options)| {
        let mut options = options(&fake, folder.join("out"));
        set(&mut options);
        let error = capture(&options).unwrap_err();
        assert!(error.is_usage(), "{error}");
        error
    };
    wrong(&|options| options.steps = 0);
    wrong(&|options| options.seconds = Some(0));
    wrong(&|options| options.probe.requests = 0);
    says(&wrong(&|options| options.model_config = Some("none.json".into())), &["none.json", "no such file"]);
    assert_eq!(fake.paths().len(), 0);
    std::fs::create_dir_all(folder.join("used")).unwrap();
    std::fs::write(folder.join("used/capture.json"), "{}").unwrap();
    let used = folder.join("used");
    says(&wrong(&|options| options.out = used.clone()), &["has a capture already", "--resume"]);
}

#[test]
fn a_server_that_does_not_tell_its_folder_is_asked_for_before_the_warm_up() {
    let (error, fake) = failed("folder", Kind::Vllm, |server| server.tells_settings = false, |_| {});
    assert!(error.is_usage());
    says(&error, &["--server-folder", "torch_profiler_dir"]);
    assert_eq!((fake.count("/v1/chat/completions"), fake.count("/start_profile")), (0, 0));
}

#[test]
fn a_load_that_ends_too_early_is_an_error_before_the_profiler_starts() {
    let early = |options: &mut Options| options.traffic = Traffic::Command("true".to_owned());
    let (error, fake) = failed("early", Kind::Sglang, |_| {}, early);
    says(&error, &["ended before the profiler started", "lasts longer"]);
    assert_eq!(fake.count("/start_profile"), 0);
}

#[test]
fn no_capture_leaves_partial_copies() {
    let folder = Folder::new("partial");
    let fake = Fake::start(Behaviour::new(Kind::Vllm, &folder.join("server")));
    capture(&options(&fake, folder.join("out"))).unwrap();
    let is_part = |path: &String| Path::new(path).extension().is_some_and(|extension| extension == "part");
    assert!(!folder.tree("out").iter().any(is_part));
}
