//! Traces: found by content, complete, copied; or the commands that copy them, and going on afterwards. Pairs with and without
//! CUDA graphs.

use super::fake::{Behaviour, Fake, Folder, Kind, Writes, capture, gzip, options, resume};
use gpuprism_capture::record::{CaptureRecord, Graphs, Part, State, TrafficKind};
use gpuprism_capture::{Options, Outcome, Traffic, Workload};
use serde_json::json;

/// A capture of the prefill stage from a server whose behaviour and options are changed.
fn captured(
    folder: &Folder,
    kind: Kind,
    change: impl Fn(&mut Behaviour),
    set: impl Fn(&mut Options),
) -> (Outcome, Fake, Options) {
    let mut behaviour = Behaviour::new(kind, &folder.join("server"));
    change(&mut behaviour);
    let fake = Fake::start(behaviour);
    let mut options = options(&fake, folder.join("out"));
    options.traffic = Traffic::Probe(Workload::Prefill);
    set(&mut options);
    (capture(&options).unwrap(), fake, options)
}

#[test]
fn only_fresh_traces_are_copied_and_none_is_moved() {
    let folder = Folder::new("fresh");
    let server = folder.join("server");
    std::fs::create_dir_all(server.join("capture_traces")).unwrap();
    let old = gzip(br#"{"traceEvents": [{"ph": "X", "cat": "kernel"}]}"#);
    std::fs::write(server.join("old.pt.trace.json.gz"), &old).unwrap();
    let (outcome, ..) = captured(&folder, Kind::Vllm, |_| {}, |_| {});
    assert_eq!(outcome.missing, None);
    assert_eq!(folder.tree("out/prefill").len(), 1);
    assert!(!folder.tree("out/prefill")[0].contains("old"));
    assert_eq!(folder.tree("server").len(), 2);
    let file = &outcome.record.captures[0].files[0];
    assert_eq!(std::fs::metadata(folder.join("out").join(&file.path)).unwrap().len(), file.bytes);
    // The copy is the whole file, although the server wrote it in two pieces.
    let name = folder.tree("out/prefill")[0].clone();
    assert_eq!(
        std::fs::read(folder.join("out/prefill").join(&name)).unwrap(),
        std::fs::read(server.join(name)).unwrap()
    );
}

#[test]
fn the_traces_of_all_ranks_are_awaited() {
    let folder = Folder::new("ranks");
    let change = |server: &mut Behaviour| {
        server.writes = Writes::Ranks(4);
        server.settings = json!({"tp_size": 2, "pp_size": 2});
    };
    let (outcome, ..) = captured(&folder, Kind::Sglang, change, |_| {});
    assert_eq!(outcome.record.captures[0].files.len(), 4);
    assert!(!outcome.record.notes.iter().any(|note| note.contains("ranks")), "{:?}", outcome.record.notes);
}

#[test]
fn missing_ranks_are_a_note() {
    let folder = Folder::new("missing-ranks");
    let change = |server: &mut Behaviour| server.settings = json!({"tp_size": 2});
    let (outcome, ..) = captured(&folder, Kind::Sglang, change, |_| {});
    assert!(outcome.record.notes.iter().any(|note| note.contains("1 traces, but the server has 2 ranks")));
}

#[test]
fn a_server_that_writes_nothing_is_said_to() {
    let folder = Folder::new("nothing");
    let (outcome, ..) = captured(&folder, Kind::Sglang, |server| server.writes = Writes::Nothing, |_| {});
    let missing = outcome.missing.unwrap();
    for words in ["no trace appeared in", "within 1.5 s", "its log says why", "container", "--resume"] {
        assert!(missing.contains(words), "no `{words}` in: {missing}");
    }
    assert_eq!(outcome.record.captures[0].state, State::AwaitingFiles);
}

#[test]
fn a_front_end_s_trace_alone_is_not_a_capture() {
    let folder = Folder::new("front-end");
    let (outcome, ..) = captured(&folder, Kind::Vllm, |server| server.writes = Writes::FrontEnd, |_| {});
    let missing = outcome.missing.unwrap();
    assert!(missing.contains("without GPU kernels") && missing.contains("async_llm"), "{missing}");
    assert!(folder.tree("out/prefill").is_empty());
}

#[test]
fn a_trace_that_stays_incomplete_is_not_copied() {
    let folder = Folder::new("half");
    let (outcome, ..) = captured(&folder, Kind::Vllm, |server| server.writes = Writes::Half, |_| {});
    let missing = outcome.missing.unwrap();
    assert!(missing.contains("is incomplete and has not grown for 1.5 s"), "{missing}");
    assert!(folder.tree("out/prefill").is_empty());
}

#[test]
fn a_shared_folder_with_another_path_is_found() {
    let folder = Folder::new("shared");
    let here = folder.join("volume");
    std::fs::create_dir_all(&here).unwrap();
    let (outcome, fake, _) = captured(
        &folder,
        Kind::Sglang,
        |server| server.mounted = Some(("/data/traces".to_owned(), folder.join("volume"))),
        |options| {
            options.server_folder = Some("/data/traces".to_owned());
            options.shared_folder = Some(here.clone());
        },
    );
    assert_eq!(outcome.missing, None);
    let start = fake.exchange().into_iter().find(|request| request.path == "/start_profile").unwrap();
    assert!(start.body["output_dir"].as_str().unwrap().starts_with("/data/traces/prefill/"));
    assert_eq!((folder.tree("out/prefill").len(), folder.tree("volume").len()), (1, 1));
}

#[test]
fn traces_in_a_container_are_copied_by_hand_and_the_capture_goes_on() {
    let folder = Folder::new("container");
    let inside = folder.join("inside");
    let (outcome, _fake, options) = captured(
        &folder,
        Kind::Sglang,
        |server| server.mounted = Some(("/tmp/inside".to_owned(), inside.clone())),
        |options| options.server_folder = Some("/tmp/inside".to_owned()),
    );
    let capture = &outcome.record.captures[0];
    let docker = format!("docker cp CONTAINER:{}/. ", capture.server_folder);
    assert!(outcome.next.iter().any(|command| command.starts_with(&docker)), "{:?}", outcome.next);
    assert!(outcome.next.last().unwrap().starts_with("gpuprism capture --resume "), "{:?}", outcome.next);
    // Not copied yet.
    let resumed = Options { server: String::new(), ..options };
    let still = resume(&resumed).unwrap();
    assert!(still.missing.unwrap().contains("no complete trace") && still.next == outcome.next);
    // What `docker cp` does; an older trace lies beside the new one.
    for name in folder.tree("inside") {
        let to = folder.join("out/prefill").join(name.rsplit('/').next().unwrap());
        std::fs::copy(inside.join(name), to).unwrap();
    }
    let old = gzip(br#"{"traceEvents": [{"ph": "X", "cat": "kernel"}]}"#);
    std::fs::write(folder.join("out/prefill/old.trace.json.gz"), old).unwrap();
    let done = resume(&resumed).unwrap();
    assert_eq!(done.missing, None);
    assert!(done.record.is_complete() && done.record.captures[0].files.len() == 1);
    assert!(done.record.captures[0].files[0].path.contains(capture.file_word.as_deref().unwrap()));
    assert_eq!(CaptureRecord::read(&folder.join("out")).unwrap(), done.record);
}

#[test]
fn own_traffic_is_profiled_without_a_request_of_ours() {
    let folder = Folder::new("own");
    let set = |options: &mut Options| {
        options.traffic = Traffic::Own;
        options.seconds = Some(1);
    };
    let (outcome, fake, _) = captured(&folder, Kind::Sglang, |_| {}, set);
    assert_eq!(outcome.missing, None);
    assert_eq!(fake.count("/generate"), 0);
    let capture = &outcome.record.captures[0];
    assert_eq!((capture.stage, capture.unprofiled, outcome.record.settings.traffic), (None, None, TrafficKind::Own));
    let start = capture.start_request.as_ref().unwrap();
    assert_eq!((&start["profile_by_stage"], &start["num_steps"]), (&json!(true), &json!(2)));
}

#[test]
fn a_load_command_runs_while_the_profiler_does_and_is_ended_at_the_limit() {
    let folder = Folder::new("load");
    let marker = folder.join("marker");
    let command = format!("trap 'touch {}; exit' TERM; while true; do sleep 0.05; done", marker.display());
    let set = |options: &mut Options| {
        options.traffic = Traffic::Command(command.clone());
        options.seconds = Some(1);
    };
    let (outcome, ..) = captured(&folder, Kind::Vllm, |_| {}, set);
    assert_eq!(outcome.missing, None);
    assert!(marker.exists());
    assert!(outcome.record.notes.iter().any(|note| note.contains("ended after 1 s (--seconds)")));
    assert_eq!(outcome.record.settings.command.as_deref(), Some(command.as_str()));
}

#[test]
fn a_probe_is_ended_at_the_time_limit_and_its_trace_is_kept() {
    let folder = Folder::new("seconds");
    let change = |server: &mut Behaviour| server.hangs_while_profiling = true;
    let (outcome, fake, _) = captured(&folder, Kind::Sglang, change, |options| options.seconds = Some(1));
    assert_eq!((outcome.missing, fake.count("/stop_profile")), (None, 1));
    assert!(outcome.record.notes.iter().any(|note| note.contains("the probe was ended after 1 s")));
    assert_eq!(outcome.record.captures[0].profiled, None);
}

#[test]
fn the_model_s_config_is_kept_from_the_server_s_folder_or_from_the_user() {
    let folder = Folder::new("config");
    let model = folder.join("model");
    std::fs::create_dir_all(&model).unwrap();
    std::fs::write(model.join("config.json"), r#"{"model_type": "llama"}"#).unwrap();
    let change = |server: &mut Behaviour| server.settings = json!({"model_path": folder.join("model")});
    captured(&folder, Kind::Sglang, change, |_| {});
    let kept = std::fs::read_to_string(folder.join("out/config.json")).unwrap();
    assert!(kept.contains("llama"));
    std::fs::write(folder.join("mine.json"), r#"{"model_type": "mine"}"#).unwrap();
    let set = |options: &mut Options| {
        options.model_config = Some(folder.join("mine.json"));
        options.out = folder.join("out2");
    };
    captured(&folder, Kind::Sglang, change, set);
    assert!(std::fs::read_to_string(folder.join("out2/config.json")).unwrap().contains("mine"));
}

#[test]
fn a_pair_is_captured_from_a_server_that_is_restarted_in_between() {
    let folder = Folder::new("pair");
    let (first, _fake, options) = captured(&folder, Kind::Sglang, |_| {}, |options| options.mapping = true);
    assert_eq!((first.record.captures[0].part, first.record.captures[0].graphs), (Part::Formal, Some(Graphs::On)));
    let launch = "python3 -m sglang.launch_server --model-path served-model --api-key REDACTED";
    assert_eq!(first.next[0], format!("{launch}   # with CUDA graphs"));
    assert_eq!(first.next[1], format!("{launch} --disable-cuda-graph   # without CUDA graphs"));
    assert!(first.next[2].starts_with("gpuprism capture --server http://127.0.0.1"), "{:?}", first.next);
    // The same server again is not the other half.
    let again = resume(&options).unwrap_err().to_string();
    assert!(again.contains("has that half already") && again.contains("restart the server without CUDA graphs"));
    let unnamed = resume(&Options { server: String::new(), ..options.clone() }).unwrap_err().to_string();
    assert!(unnamed.contains("the half without CUDA graphs is missing") && unnamed.contains("--server URL"));
    let mut behaviour = Behaviour::new(Kind::Sglang, &folder.join("server"));
    behaviour.settings = json!({"disable_cuda_graph": true});
    let second = Fake::start(behaviour);
    // Steps and workload are those of the first half, whatever the options say.
    let options = Options { server: second.url.clone(), steps: 77, traffic: Traffic::Own, ..options };
    let outcome = resume(&options).unwrap();
    assert_eq!((outcome.missing, outcome.next), (None, Vec::new()));
    let parts: Vec<Part> = outcome.record.captures.iter().map(|capture| capture.part).collect();
    assert_eq!(parts, [Part::Formal, Part::Mapping]);
    let start = |index: usize| outcome.record.captures[index].start_request.as_ref().unwrap()["num_steps"].clone();
    assert_eq!(start(0), start(1));
    let tree = folder.tree("out");
    for file in ["capture.json", "formal/server_args.json", "mapping/server_args.json"] {
        assert!(tree.contains(&file.to_owned()), "no {file} in {tree:?}");
    }
}

#[test]
fn a_pair_asks_by_name_whether_graphs_are_used() {
    let folder = Folder::new("pair-unknown");
    let fake = Fake::start(Behaviour::new(Kind::Trtllm, &folder.join("server")));
    let mut options = options(&fake, folder.join("out"));
    options.mapping = true;
    let error = capture(&options).unwrap_err();
    assert!(error.is_usage() && error.to_string().contains("--graphs on or --graphs off"), "{error}");
    options.graphs = Some(Graphs::Off);
    options.traffic = Traffic::Probe(Workload::Decode);
    let outcome = capture(&options).unwrap();
    assert_eq!(outcome.record.captures[0].part, Part::Mapping);
    assert!(outcome.next.iter().any(|command| command.contains("cuda_graph_config: null")), "{:?}", outcome.next);
    assert!(outcome.next.last().unwrap().contains("--graphs on --resume"), "{:?}", outcome.next);
}

#[test]
fn a_capture_that_failed_half_way_is_not_called_complete() {
    let folder = Folder::new("half-way");
    let mut behaviour = Behaviour::new(Kind::Vllm, &folder.join("server"));
    // Prefill: 3 warm-up, 2 unprofiled, 2 profiled requests. The next one is the decode stage's.
    behaviour.dies = Some(("/v1/chat/completions", 8));
    let fake = Fake::start(behaviour);
    let options = options(&fake, folder.join("out"));
    capture(&options).unwrap_err();
    let error = resume(&Options { server: String::new(), ..options }).unwrap_err().to_string();
    assert!(error.contains("decode") && error.contains("--workload decode"), "{error}");
}
