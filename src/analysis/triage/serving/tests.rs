use super::super::{Options, Stage};
use super::*;
use crate::analysis::structure::stages::testing::arguments;
use crate::trace::testing::TestTrace;
use crate::trace::{Collective, Job};

/// The detected framework of a trace with a path and server arguments.
fn detect(path: &str, json: &str, trace: &Trace, chosen: Option<Framework>) -> Framework {
    let (server, options) = (arguments(json), Options::default());
    framework(&Request {
        trace,
        path,
        file_stage: Stage::All,
        mapping: &[],
        server: &server,
        framework: chosen,
        options: &options,
    })
}

#[test]
fn the_rules_parse_with_distinct_words_and_keys_in_snake_case() {
    let data = Data::embedded();
    assert!(data.frameworks.iter().all(|rules| !rules.without_graphs.is_empty()));
    let keys = [&data.model, &data.tensor_parallel, &data.arguments, &data.layers, &data.heads, &data.head_dim];
    for key in keys.into_iter().flatten().chain(data.roles.iter().map(|role| &role.key)) {
        assert_eq!(*key, key.to_lowercase().replace('-', "_"), "keys must be in snake case");
    }
    let words = data.frameworks.iter().flat_map(|rules| &rules.words);
    assert!(words.into_iter().all(|word| data.framework_in(word).is_some()), "a word names two frameworks");
}

#[test]
fn every_alias_of_a_framework_parses() {
    for (framework, names) in [
        (Framework::Sglang, &["sglang", "sgl", "SGLang"][..]),
        (Framework::Vllm, &["vllm", "vLLM"]),
        (Framework::TrtLlm, &["trtllm", "tllm", "trt", "tensorrt-llm", "tensorrt_llm", "tensorrtllm", "TensorRT-LLM"]),
        (Framework::TokenSpeed, &["tokenspeed", "token-speed", "token_speed", "ts"]),
        (Framework::Plain, &["PyTorch", "transformers"]),
    ] {
        assert!(names.iter().all(|name| Framework::parse(name) == Some(framework)), "{names:?}");
        assert_eq!(Framework::parse(framework.label()), Some(framework));
    }
    assert_eq!(["auto", "", "llama.cpp"].map(Framework::parse), [None; 3]);
}

#[test]
fn the_user_precedes_arguments_then_path_then_trace() {
    let mut trace = TestTrace::new();
    trace.builder.trace.engine_hints.annotations.intern("execute_context_1(8)_generation_0(0)");
    let vllm = trace.finish();
    let sglang = r#"{"model_path": "/models/vllm-test", "schedule_policy": "fcfs", "attention_backend": "trtllm_mla"}"#;
    assert_eq!(detect("tensorrt_llm/x.json", sglang, &vllm, Some(Framework::Plain)), Framework::Plain);
    assert_eq!(detect("tensorrt_llm/x.json", sglang, &vllm, None), Framework::Sglang);
    assert_eq!(detect("tensorrt_llm/x.json", "{}", &vllm, None), Framework::TrtLlm);
    assert_eq!(detect("x.json", "{}", &vllm, None), Framework::Vllm);
    assert_eq!(detect("x.json", "{}", &trace.finish(), None), Framework::Plain, "no evidence of a framework");
}

#[test]
fn arguments_of_only_one_framework_identify_it() {
    let plain = TestTrace::new().finish();
    for (json, expected) in [
        (r#"{"moe_tp_size": 2, "disable_cuda_graph": false}"#, Framework::TokenSpeed),
        (r#"{"cuda_graph_config": {"enable_padding": true}}"#, Framework::TrtLlm),
        (r#"{"enforce-eager": true}"#, Framework::Vllm),
        (r#"{"server": {"disable_cuda_graph": false}}"#, Framework::Sglang),
        (r#"{"entry": "python -m vllm.entrypoints"}"#, Framework::Vllm),
        (r#"{"attention_backend": "trtllm_mla"}"#, Framework::Plain),
        (r#"{"tp_size": 4}"#, Framework::Plain),
    ] {
        assert_eq!(detect("", json, &plain, None), expected, "{json}");
    }
}

#[test]
fn the_nearest_name_in_a_path_with_one_framework_decides() {
    let plain = TestTrace::new().finish();
    for (path, expected) in [
        ("vllm/compare/sglang-decode.json", Framework::Sglang),
        ("traces/sglang/sglang_vs_vllm.json", Framework::Sglang),
        ("sglang_vs_vllm/x.json", Framework::Plain),
        ("out\\TRTLLM\\x.json", Framework::TrtLlm),
        ("tensorrt-llm_decode.json", Framework::TrtLlm),
        ("token-speed/x.json", Framework::TokenSpeed),
        ("data/ts/x.json", Framework::Plain),
        ("vllmbench/x.json", Framework::Plain),
    ] {
        assert_eq!(detect(path, "{}", &plain, None), expected, "{path}");
    }
}

#[test]
fn tokenspeed_is_detected_by_its_frames() {
    let mut trace = TestTrace::new();
    trace.builder.trace.engine_hints.python_frames.intern("/opt/python/tokenspeed/runtime/engine.py(9): step");
    assert_eq!(detect("", "{}", &trace.finish(), None), Framework::TokenSpeed);
}

#[test]
fn arguments_are_found_in_the_spelling_and_nesting_of_every_framework() {
    for (json, tp, role) in [
        (r#"{"tp_size": 8, "disaggregation_mode": "null"}"#, Some(8), None),
        (r#"{"tp-size": "4", "disaggregation_mode": "prefill"}"#, Some(4), Some(Role::Prefill)),
        (r#"{"internal_states": [{"tp_size": 2, "disaggregation_mode": "decode"}]}"#, Some(2), Some(Role::Decode)),
        (
            r#"{"parallel_config": {"tensor_parallel_size": 4}, "kv_transfer_config": {"kv_role": "kv_producer"}}"#,
            Some(4),
            Some(Role::Prefill),
        ),
        (
            r#"{"--tensor-parallel-size": 2, "kv_transfer_config": "{\"kv_role\": \"kv_consumer\"}"}"#,
            Some(2),
            Some(Role::Decode),
        ),
        (r#"{"kv_transfer_config": {"kv_role": "kv_both"}}"#, None, None),
        (r#"{"tensor_parallel": 16, "server_role": "CONTEXT"}"#, Some(16), Some(Role::Prefill)),
        (r#"{"mapping": {"tp_size": 8}, "server_role": "generation"}"#, Some(8), Some(Role::Decode)),
        (r#"{"tp_size": 0}"#, None, None),
        (r#"{"tp_size": null, "nested": {"tp_size": 2}}"#, Some(2), None),
    ] {
        let server = arguments(json);
        assert_eq!((server.tp_size(), server.role()), (tp, role), "{json}");
    }
}

#[test]
fn arguments_contain_the_model_its_dimensions_and_relevant_switches() {
    let server = arguments(
        r#"{"model_path": "Qwen/Qwen3-8B", "disable_cuda_graph": false, "quantization": null, "port": 30000,
            "attention_backend": "fa3", "cuda_graph_config": null, "hf_config": {"num_hidden_layers": 36,
            "num_attention_heads": 32, "hidden_size": 4096}}"#,
    );
    assert_eq!(server.model().as_deref(), Some("Qwen/Qwen3-8B"));
    assert_eq!(server.model_shape(), Some(ModelShape { layers: 36, heads: 32, head_dim: 128 }));
    assert_eq!(
        server.relevant_arguments(),
        ["disable_cuda_graph=false", "cuda_graph_config=null", "attention_backend=fa3"]
    );
    let empty = ServerArgs::default();
    assert_eq!(
        (empty.model(), empty.model_shape(), empty.relevant_arguments().len(), empty.role()),
        (None, None, 0, None)
    );
}

/// Size, source and certainty.
fn parallel(json: &str, trace: &Trace) -> Option<(u64, &'static str, bool)> {
    let found = tensor_parallel(&arguments(json), Framework::Vllm, trace)?;
    Some((found.size, found.source, found.is_certain))
}

#[test]
fn the_tensor_parallel_size_has_a_source_and_may_be_an_estimate() {
    let mut trace = TestTrace::new();
    let job = |world_size| Some(Box::new(Job { world_size, ..Job::default() }));
    let collective = |ranks| Collective { ranks: Some(ranks), ..Collective::default() };
    assert_eq!(parallel("{}", &trace.finish()), None);

    trace.builder.trace.job = job(16);
    for ranks in [8, 16, 8, 1, 1, 1] {
        trace.kernel("nccl", 0..10).message(collective(ranks));
    }
    let mut run = trace.finish();
    assert_eq!(parallel(r#"{"tp_size": 4}"#, &run), Some((4, "server arguments", true)));
    assert_eq!(parallel("{}", &run), Some((8, "the most frequent group size of collectives", false)));
    run.collectives.clear();
    assert_eq!(parallel("{}", &run), Some((16, "the world size, which includes other parallelism", false)));
    assert_eq!(tensor_parallel(&ServerArgs::default(), Framework::Plain, &run), None, "ranks may be data-parallel");

    trace.builder.trace.job = job(1);
    assert_eq!(parallel("{}", &trace.finish()), Some((1, "a world size of one", true)));

    for (label, expected) in [
        ("dp0_pp0_tp3_dcp0_ep0_rank3.17.pt.trace.json", Some(4)),
        ("1731-TP-7-DECODE.trace.json.gz", Some(8)),
        ("1731-TP-0.trace.json.gz", None),
        ("http-tps-99.json", None),
    ] {
        assert_eq!(parallel("{}", &trace.label(label).finish()).map(|(size, _, _)| size), expected, "{label}");
    }

    for device in ["[TP00] 0", "[TP01] 0", "[TP01] 1"] {
        trace.device(device).kernel("k", 0..10);
    }
    assert_eq!(parallel("{}", &trace.finish()), Some((2, "labels of merged ranks", true)));
}
