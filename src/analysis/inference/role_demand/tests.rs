use super::*;

const LAYER: LayerKind = LayerKind { reach: Reach::Full, has_experts: false };
const MOE: LayerKind = LayerKind { reach: Reach::Full, has_experts: true };

/// Hidden size 8, 4 query heads and 2 KV heads of 4 values, MLP of 10, vocabulary of 100.
fn config(more: &str) -> ModelConfig {
    let text = format!(
        r#"{{"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4,
            "intermediate_size": 10, "vocab_size": 100{more}}}"#
    );
    ModelConfig::parse("config.json", &text).unwrap()
}

const EXPERTS: &str = r#", "num_experts": 16, "num_experts_per_tok": 2, "moe_intermediate_size": 6"#;

fn load() -> Load {
    Load { tokens: Some(3.0), logit_tokens: Some(2.0), keys: Some(50.0), pairs: Some(40.0), ..Load::default() }
}

/// The work of a role with one kernel of this name.
fn demand(more: &str, parallel: Parallel, role: &str, layer: LayerKind) -> Option<Demanded> {
    let (config, names) = (config(more), [role.to_owned()]);
    let model = StepModel { config: &config, parallel, load: load() };
    if role == "lm_head" {
        return Some(model.lm_head());
    }
    model.demand(&RoleKernels { role, names: &names, has_experts_down: true }, layer)
}

/// Operations and the least and most bytes on one GPU.
fn work(more: &str, role: &str, layer: LayerKind) -> (f64, [f64; 2]) {
    let demand = demand(more, Parallel::default(), role, layer).unwrap().unwrap();
    (demand.flop.unwrap(), demand.bytes)
}

#[test]
fn a_product_has_two_operations_a_weight_and_token_and_reads_its_operands_once() {
    let both = |bytes: f64| [bytes, bytes];
    // 8 x (16 + 2 x 8) weights; 3 tokens of 8 + 32 values; two bytes each.
    assert_eq!(work("", "qkv", LAYER), (2.0 * 3.0 * 256.0, both(2.0 * (256.0 + 3.0 * 40.0))));
    assert_eq!(work("", "o_proj", LAYER), (2.0 * 3.0 * 128.0, both(2.0 * (128.0 + 3.0 * 24.0))));
    assert_eq!(work("", "gate_up", LAYER), (2.0 * 3.0 * 160.0, both(2.0 * (160.0 + 3.0 * 28.0))));
    assert_eq!(work("", "down", LAYER), (2.0 * 3.0 * 80.0, both(2.0 * (80.0 + 3.0 * 18.0))));
    assert_eq!(work("", "lm_head", LAYER), (2.0 * 2.0 * 800.0, both(2.0 * (800.0 + 2.0 * 108.0))));
    assert_eq!(work(EXPERTS, "router", MOE), (2.0 * 3.0 * 128.0, both(2.0 * (128.0 + 3.0 * 24.0))));
    let narrow = r#", "quantization_config": {"quant_method": "fp8"}"#;
    assert_eq!(work(narrow, "down", LAYER), (2.0 * 3.0 * 80.0, both(80.0 + 2.0 * 3.0 * 18.0)));
}

#[test]
fn attention_reads_the_keys_and_values_of_the_context() {
    // 50 tokens of 2 x 2 x 4 values; 3 queries and results of 16 values. 4 operations a pair, head and value.
    let bytes = 2.0 * (50.0 * 16.0 + 2.0 * 3.0 * 16.0);
    assert_eq!(work("", "attention", LAYER), (4.0 * 40.0 * 16.0, [bytes, bytes]));
    let reach = |reach: Reach, more: &str| demand(more, Parallel::default(), "attention", LayerKind { reach, ..LAYER });
    let why = |found: Option<Demanded>| found.unwrap().unwrap_err();
    assert!(why(reach(Reach::Sliding, r#", "sliding_window": 49"#)).contains("window"));
    assert!(reach(Reach::Sliding, r#", "sliding_window": 50"#).unwrap().is_ok(), "all of the context is in the window");
    assert!(why(reach(Reach::Linear, "")).contains("linear"));
}

#[test]
fn tensor_parallelism_divides_weights_but_not_the_hidden_state() {
    let bytes = |tp: u64, role: &str| {
        demand("", Parallel { tp, ..Parallel::default() }, role, LAYER).unwrap().unwrap().bytes[0]
    };
    assert_eq!(bytes(2, "qkv"), 2.0 * (128.0 + 3.0 * (8.0 + 16.0)));
    // Two KV heads cannot be divided by four: 8 x (4 + 2 x 4) weights.
    assert_eq!(bytes(4, "qkv"), 2.0 * (96.0 + 3.0 * (8.0 + 12.0)));
    assert_eq!(bytes(2, "o_proj"), 2.0 * (64.0 + 3.0 * (8.0 + 8.0)));
}

#[test]
fn the_distinct_experts_of_a_step_are_a_range() {
    // 3 tokens choose 2 of 16 experts: 2 to 6 experts of 2 x 8 x 6 weights each into the MLP, 48 out of it.
    let up = demand(EXPERTS, Parallel::default(), "experts_up", MOE).unwrap().unwrap();
    assert_eq!(up.flop, Some(2.0 * 6.0 * 96.0));
    assert_eq!(up.experts, Some(ExpertRange { least: 2.0, most: 6.0, count: 16.0, bytes_each: 192.0 }));
    assert_eq!(up.bytes, [2.0 * 192.0 + 2.0 * (24.0 + 36.0), 6.0 * 192.0 + 2.0 * 6.0 * (8.0 + 12.0)]);
    let down = demand(EXPERTS, Parallel::default(), "experts_down", MOE).unwrap().unwrap();
    assert_eq!((down.flop, down.experts.unwrap().bytes_each), (Some(2.0 * 6.0 * 48.0), 96.0));
    let divided = |parallel: Parallel| demand(EXPERTS, parallel, "experts_up", MOE).unwrap();
    assert!(divided(Parallel { ep: 2, ..Parallel::default() }).is_err());
    assert_eq!(divided(Parallel { tp: 2, ..Parallel::default() }).unwrap().flop, Some(6.0 * 96.0));
}

#[test]
fn norms_and_all_reduces_move_the_hidden_state() {
    let config = config("");
    let model = StepModel { config: &config, parallel: Parallel { tp: 2, ..Parallel::default() }, load: load() };
    let bytes = |role: &str, names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let found = model.demand(&RoleKernels { role, names: &names, has_experts_down: false }, LAYER);
        found.map(|demand| demand.unwrap().bytes[0])
    };
    // 3 tokens of 8 values of two bytes: read and written once, and with the residual twice.
    assert_eq!(bytes("norm", &["rms_norm", "add_rms_norm"]), Some(6.0 * 48.0));
    assert_eq!(bytes("norm", &["pow_tensor", "MeanOps"]), None, "parts of a norm");
    assert_eq!(bytes("comm", &["ncclDevKernel_AllReduce_Sum", "cross_device_reduce_1stage"]), Some(2.0 * 48.0));
    assert_eq!(bytes("comm", &["ncclDevKernel_ReduceScatter"]), None);
}

#[test]
fn what_the_dimensions_do_not_tell_stays_unknown() {
    let why = |more: &str, role: &str, layer| demand(more, Parallel::default(), role, layer).unwrap().unwrap_err();
    assert!(why(EXPERTS, "down", MOE).contains("the trace has none"));
    assert!(why("", "experts_up", LAYER).contains("the model has none"));
    assert!(why(&format!(r#"{EXPERTS}, "shared_expert_intermediate_size": 6"#), "router", MOE).contains("shared"));
    assert!(why(r#", "quantization_config": {"quant_method": "new"}"#, "qkv", LAYER).contains("quantisation"));
    let latent = r#", "kv_lora_rank": 4, "qk_nope_head_dim": 4, "qk_rope_head_dim": 2, "v_head_dim": 4"#;
    assert!(why(latent, "qkv", LAYER).contains("latent") && why(latent, "attention", LAYER).contains("latent"));
    assert_eq!(demand("", Parallel::default(), "rope", LAYER), None);
    let config = config("");
    let model = StepModel { config: &config, parallel: Parallel::default(), load: Load::default() };
    assert!(model.lm_head().unwrap_err().contains("tokens"));
}
