//! The least that one GPU has to do in a step of a model: bytes of weights and KV cache to read, FLOPs to compute. From the
//! dimensions of the model, what the step computes and how the model is divided over GPUs; in constant time.
//!
//! Of a mixture of experts, a step reads at least the experts of one token, and under uniform independent routing
//! `E (1 - (1 - k/E)^T)` of `E` experts, with `k` for each of `T` tokens. Real routing is between the two.
//!
//! Not counted: activations, norms, biases, the embedding of the tokens, the state of linear attention, and writes. So the
//! true traffic is larger.

use super::model_config::{ModelConfig, Weights};
use super::quantization::{Compute, HALF_BITS};
use crate::analysis::dashboard::Preset;
use crate::analysis::structure::stages::{Stage, StepInfo};

/// The router and the LM head are not quantised.
const HALF_BYTES: f64 = HALF_BITS / 8.0;

/// How a model is divided over GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parallel {
    /// GPUs that share each matrix.
    pub tp: u64,
    /// GPUs that share the experts.
    pub ep: u64,
    /// GPUs that share the layers.
    pub pp: u64,
    /// Groups of GPUs with requests of their own. Their tokens meet in the experts.
    pub dp: u64,
}

impl Default for Parallel {
    fn default() -> Self {
        Self { tp: 1, ep: 1, pp: 1, dp: 1 }
    }
}

/// What a step computes, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Load {
    /// Query tokens.
    pub(crate) tokens: Option<f64>,
    /// Requests.
    pub(crate) sequences: Option<f64>,
    /// Tokens of which the LM head computes logits.
    pub(crate) logit_tokens: Option<f64>,
    /// Tokens whose KV cache is read, in all requests. Those of a prefill may be read before they leave the cache of the GPU, so
    /// they do not count.
    pub(crate) context: Option<f64>,
    /// Tokens whose keys and values attention reads, with those of a prefill.
    pub(crate) keys: Option<f64>,
    /// Pairs of a query token and a token that it attends to.
    pub(crate) pairs: Option<f64>,
}

impl Load {
    /// By the annotation of the step.
    pub(crate) fn of(info: &StepInfo) -> Self {
        let (prefill, decode) = (info.context, info.generation);
        let has_sums = prefill.is_some() || decode.is_some();
        let (prefill, decode) = (prefill.unwrap_or_default(), decode.unwrap_or_default());
        let context = prefill.sk.saturating_sub(prefill.sq).saturating_add(decode.sk);
        // Half of the pairs among the query tokens of a prefill are masked.
        let pairs = prefill.sqsk.saturating_sub(prefill.sqsq / 2).saturating_add(decode.sqsk);
        let known = |sum: u64| has_sums.then_some(sum as f64);
        let (tokens, sequences) = (info.tokens.map(|count| count as f64), info.batch_size.map(|count| count as f64));
        Self {
            tokens,
            sequences,
            logit_tokens: if matches!(info.stage, Stage::Decode | Stage::Verify) { tokens } else { sequences },
            context: known(context),
            keys: known(prefill.sk.saturating_add(decode.sk)),
            pairs: known(pairs),
        }
    }
}

/// The least work of one GPU in a step.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Demand {
    /// Bytes of weights with the fewest experts; `None` if the bits of the weights are unknown.
    pub(crate) least_weights: Option<f64>,
    /// The same under uniform routing; `None` also if the number of tokens is unknown.
    pub(crate) uniform_weights: Option<f64>,
    /// Distinct experts of a layer that all ranks read together: least, and under uniform routing.
    pub(crate) experts: [Option<f64>; 2],
    /// Bytes of the KV cache; `None` if the context is unknown.
    pub(crate) kv: Option<f64>,
    /// FLOPs of products with weights of 16 bits; `None` if the number of tokens is unknown.
    pub(crate) half_flop: Option<f64>,
    /// FLOPs of products with narrower weights.
    pub(crate) narrow_flop: Option<f64>,
    /// FLOPs of attention; `None` if the context is unknown.
    pub(crate) attention_flop: Option<f64>,
}

/// The parts into which a layer is divided.
struct Shares {
    /// The part of the layers on the GPU with the fewest.
    layers: f64,
    /// The part of a matrix.
    matrix: f64,
    /// The part of the experts.
    experts: f64,
    /// The part of the LM head.
    lm_head: f64,
}

impl Shares {
    fn of(parallel: Parallel, layers: f64) -> Self {
        let Parallel { tp, ep, pp, .. } = parallel;
        let matrix = 1.0 / tp.max(1) as f64;
        Self {
            layers: (layers / pp.max(1) as f64).floor() / layers.max(1.0),
            matrix,
            experts: if ep > 1 { 1.0 / ep as f64 } else { matrix },
            // Only the last of several pipeline stages has the LM head.
            lm_head: if pp > 1 { 0.0 } else { matrix },
        }
    }
}

impl Demand {
    /// The demand of a step with this load.
    pub(crate) fn of(config: &ModelConfig, load: Load, parallel: Parallel) -> Self {
        let weights = config.weights();
        let shares = Shares::of(parallel, config.layers.all());
        let experts = distinct_experts(config, load.tokens, parallel);
        let bytes = |experts: Option<f64>| weight_bytes(config, &weights, &shares, experts?);
        let context = |per_pair: f64, tokens: Option<f64>, window_tokens: Option<f64>| {
            let tokens = tokens?;
            let in_window = window_tokens.map_or(tokens, |count| tokens.min(count * config.layers.window));
            Some(shares.layers * per_pair * (config.layers.full * tokens + config.layers.sliding * in_window))
        };
        let kv_parts = config.attention.kv_parts().min(parallel.tp.max(1) as f64);
        let flop = weight_flop(config, &weights, &shares, load, parallel);
        Self {
            least_weights: bytes(experts[0]),
            uniform_weights: bytes(experts[1]),
            experts,
            kv: context(config.kv_bytes_per_token_and_layer() / kv_parts, load.context, load.sequences),
            half_flop: flop.map(|[half, _]| half),
            narrow_flop: flop.map(|[_, narrow]| narrow),
            attention_flop: context(config.attention.flop_per_pair() * shares.matrix, load.pairs, load.tokens),
        }
    }
}

/// Distinct experts of a layer that a step uses: least, and under uniform routing.
fn distinct_experts(config: &ModelConfig, tokens: Option<f64>, parallel: Parallel) -> [Option<f64>; 2] {
    let Some(experts) = config.experts else { return [Some(0.0); 2] };
    let unused = 1.0 - experts.per_token / experts.count;
    let uniform = tokens.map(|tokens| experts.count * (1.0 - unused.powf(tokens * parallel.dp.max(1) as f64)));
    [Some(experts.per_token), uniform]
}

fn weight_bytes(config: &ModelConfig, weights: &Weights, shares: &Shares, experts: f64) -> Option<f64> {
    let quantization = &config.quantization;
    let attention = weights.attention * quantization.attention_bits? / 8.0;
    let mlp = (weights.dense_mlp + weights.shared_experts) * quantization.mlp_bits? / 8.0;
    let of_experts = config.layers.moe * experts * weights.one_expert * quantization.expert_bits? / 8.0;
    let router = weights.router * HALF_BYTES;
    let layers = shares.matrix * (attention + mlp) + router + shares.experts * of_experts;
    Some(shares.layers * layers + shares.lm_head * weights.lm_head * HALF_BYTES)
}

/// FLOPs of products with weights of 16 bits, and with narrower ones.
fn weight_flop(
    config: &ModelConfig,
    weights: &Weights,
    shares: &Shares,
    load: Load,
    parallel: Parallel,
) -> Option<[f64; 2]> {
    let tokens = load.tokens?;
    let quantization = &config.quantization;
    let per_token = config.experts.map_or(0.0, |experts| experts.per_token * weights.one_expert * config.layers.moe);
    let mut flop = [0.0; 2];
    let mut add = |bits: Option<f64>, weights: f64, tokens: f64| {
        let [half, narrow] = &mut flop;
        *if bits.is_some_and(|bits| bits < HALF_BITS) { narrow } else { half } += 2.0 * tokens * weights;
    };
    let mlp = weights.dense_mlp + weights.shared_experts;
    let matrix = shares.layers * shares.matrix;
    add(quantization.attention_bits, matrix * weights.attention, tokens);
    add(quantization.mlp_bits, matrix * mlp, tokens);
    add(quantization.expert_bits, shares.layers * shares.experts * per_token, tokens * parallel.dp.max(1) as f64);
    add(None, shares.lm_head * weights.lm_head, load.logit_tokens.unwrap_or(0.0));
    Some(flop)
}

/// The limits of one GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Roof {
    pub(crate) memory_tb_per_s: f64,
    /// Peak of products of 16 bits.
    pub(crate) half_tflops: f64,
    /// Peak of products with narrower weights.
    pub(crate) narrow_tflops: f64,
}

impl Roof {
    /// The limits of a GPU, with the fastest data type that narrow weights allow. An upper limit where the figure of the GPU for
    /// it is not known.
    pub(crate) fn of(preset: &Preset, compute: Compute) -> Self {
        let half = preset.peak_tflops;
        let narrow_tflops = match compute {
            Compute::Half => half,
            Compute::Fp8 => preset.fp8_tflops.unwrap_or(half),
            // INT8 is twice as fast as FP16 also on GPUs without FP8.
            Compute::Int8 => preset.fp8_tflops.unwrap_or(2.0 * half),
            Compute::Fp4 => preset.fp4_tflops.or(preset.fp8_tflops).unwrap_or(half),
        };
        Self { memory_tb_per_s: preset.memory_tb_per_s, half_tflops: half, narrow_tflops }
    }

    /// The least time to read these bytes.
    pub(crate) fn read_ms(&self, bytes: f64) -> f64 {
        bytes / self.memory_tb_per_s / 1e9
    }

    /// The least time for the FLOPs that are known.
    pub(crate) fn compute_ms(&self, demand: &Demand, kv_bits: f64) -> Option<f64> {
        let attention_tflops =
            if kv_bits < HALF_BITS { self.narrow_tflops.max(self.half_tflops) } else { self.half_tflops };
        let attention = demand.attention_flop.unwrap_or(0.0) / attention_tflops;
        let weights = demand.half_flop? / self.half_tflops + demand.narrow_flop? / self.narrow_tflops;
        Some((weights + attention) / 1e9)
    }
}

impl ModelConfig {
    /// The KV cache of 1,000 tokens of context on one GPU, in GB.
    pub(crate) fn kv_gb_per_1000_tokens(&self, parallel: Parallel) -> f64 {
        let load = Load { context: Some(1_000.0), ..Load::default() };
        Demand::of(self, load, parallel).kv.unwrap_or(0.0) / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::testing::read_json;
    use serde_json::Value;

    fn config(model: &Value, quantization: Value) -> ModelConfig {
        let mut json = model["config"].clone();
        json["quantization_config"] = quantization;
        ModelConfig::parse("config.json", &json.to_string()).unwrap()
    }

    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn weights_agree_with_an_independent_count_and_with_the_published_totals() {
        let oracle = read_json("oracles/inference/floor.json");
        for (name, model) in oracle["models"].as_object().unwrap() {
            let config = config(model, Value::Null);
            let weights = config.weights();
            let parts = &model["parts"];
            let counted = [
                ("attention", weights.attention),
                ("dense_mlp", weights.dense_mlp),
                ("router", weights.router),
                ("shared_experts", weights.shared_experts),
                ("one_expert", weights.one_expert),
                ("experts", weights.experts),
                ("lm_head", weights.lm_head),
                ("embedding", weights.embedding),
            ];
            for (part, count) in counted {
                // The oracle counts one expert of a model without experts as if it had some.
                if part != "one_expert" || weights.experts > 0.0 {
                    assert_eq!(count, parts[part].as_f64().unwrap(), "{name} {part}");
                }
            }
            assert_eq!(weights.total(), model["total_weights"].as_f64().unwrap(), "{name}");
            let experts = config.experts.map_or(0.0, |experts| experts.per_token * weights.one_expert);
            let active = weights.total() - weights.experts + config.layers.moe * experts;
            assert_eq!(active, model["active_weights_with_embeddings"].as_f64().unwrap(), "{name}");
            let kv = config.kv_bytes_per_token_and_layer() * config.layers.all();
            assert_eq!(kv, model["kv_bytes_per_token_bf16"].as_f64().unwrap(), "{name}");
        }
    }

    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn floors_agree_with_an_independent_program() {
        let oracle = read_json("oracles/inference/floor.json");
        for case in oracle["cases"].as_array().unwrap() {
            let options = &case["options"];
            let quantization = match (options["weight_bits"].as_f64(), options["expert_bits"].as_f64()) {
                (Some(8.0), _) => serde_json::json!({"quant_method": "fp8"}),
                (_, Some(4.25)) => serde_json::json!({"quant_method": "mxfp4"}),
                _ => Value::Null,
            };
            let config = config(&oracle["models"][case["model"].as_str().unwrap()], quantization);
            let count = |key: &str| options[key].as_u64().unwrap_or(1);
            let parallel = Parallel { tp: count("tp"), ep: count("ep"), pp: 1, dp: count("dp") };
            let (batch, context) = (case["batch"].as_f64(), case["sk"].as_f64());
            // The program does not count the FLOPs of attention.
            let load = Load { tokens: batch, sequences: batch, logit_tokens: batch, context, ..Load::default() };
            let demand = Demand::of(&config, load, parallel);
            let roof = Roof {
                memory_tb_per_s: case["bandwidth_tb_per_s"].as_f64().unwrap(),
                half_tflops: case["peak_tflops"].as_f64().unwrap(),
                narrow_tflops: case["peak_tflops"].as_f64().unwrap(),
            };
            let bands = [
                ("least", demand.least_weights, demand.experts[0]),
                ("uniform", demand.uniform_weights, demand.experts[1]),
            ];
            for (band, weights, experts) in bands {
                let (weights, kv) = (weights.unwrap(), demand.kv.unwrap());
                let expected = &case["floor"][band];
                // The expected values are rounded to four digits after the point.
                for (key, ours) in [
                    ("unique_experts", experts.unwrap()),
                    ("weights_gb", weights / 1e9),
                    ("kv_gb", kv / 1e9),
                    ("bytes_ms", roof.read_ms(weights + kv)),
                    ("flop_ms", roof.compute_ms(&demand, 16.0).unwrap()),
                ] {
                    let theirs = expected[key].as_f64().unwrap();
                    let rounding = if key == "unique_experts" { 0.005 } else { 0.000_05 };
                    assert!((ours - theirs).abs() <= 0.001 * theirs + rounding, "{case} {band} {key}: {ours}");
                }
            }
        }
    }

    fn small(more: &str) -> ModelConfig {
        // A layer has 8 x 8 x 4 = 256 weights of attention, 3 x 8 x 10 = 240 of the MLP; the LM head 800.
        let text = format!(
            r#"{{"hidden_size": 8, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 10, "vocab_size": 100{more}}}"#
        );
        ModelConfig::parse("config.json", &text).unwrap()
    }

    #[test]
    fn parallelism_divides_what_a_gpu_reads() {
        let load = Load { tokens: Some(1.0), sequences: Some(1.0), context: Some(10.0), ..Load::default() };
        let bytes = |parallel: Parallel| {
            let demand = Demand::of(&small(""), load, parallel);
            (demand.least_weights.unwrap(), demand.kv.unwrap())
        };
        let one = Parallel::default();
        // 4 layers of 496 weights and the LM head; KV of 2 x 2 heads x 4 values, in two bytes each.
        assert_eq!(bytes(one), ((4.0 * 496.0 + 800.0) * 2.0, 4.0 * 10.0 * 32.0));
        assert_eq!(bytes(Parallel { tp: 2, ..one }), (4.0 * 496.0 + 800.0, 4.0 * 10.0 * 16.0));
        // Two KV heads cannot be divided by four.
        assert_eq!(bytes(Parallel { tp: 4, ..one }), ((4.0 * 496.0 + 800.0) / 2.0, 4.0 * 10.0 * 16.0));
        // One of three pipeline stages has one layer and no LM head.
        assert_eq!(bytes(Parallel { pp: 3, ..one }), (496.0 * 2.0, 10.0 * 32.0));
        assert_eq!(bytes(Parallel { pp: 9, ..one }), (0.0, 0.0), "more stages than layers");
    }

    #[test]
    fn sliding_layers_read_their_window_and_linear_layers_no_cache() {
        let load = Load { sequences: Some(2.0), context: Some(100.0), ..Load::default() };
        let kv = |more: &str| Demand::of(&small(more), load, Parallel::default()).kv.unwrap() / 32.0;
        assert_eq!(kv(""), 400.0);
        assert_eq!(kv(r#", "sliding_window": 5"#), 40.0);
        assert_eq!(kv(r#", "sliding_window": 5, "use_sliding_window": false"#), 400.0);
        assert_eq!(kv(r#", "sliding_window": 5, "sliding_window_pattern": 2"#), 220.0);
        let linear = r#", "full_attention_interval": 4, "linear_num_value_heads": 2, "linear_num_key_heads": 1,
            "linear_key_head_dim": 4, "linear_value_head_dim": 4"#;
        assert_eq!(kv(linear), 100.0);
    }

    #[test]
    fn narrow_weights_compute_at_their_own_peak_and_the_rest_at_that_of_16_bits() {
        let load = Load { tokens: Some(3.0), logit_tokens: Some(2.0), pairs: Some(50.0), ..Load::default() };
        let demand =
            Demand::of(&small(r#", "quantization_config": {"quant_method": "fp8"}"#), load, Parallel::default());
        // Two FLOPs a weight and token; four a pair, head and value of a head, in four layers.
        assert_eq!((demand.narrow_flop, demand.half_flop), (Some(2.0 * 3.0 * 4.0 * 496.0), Some(2.0 * 2.0 * 800.0)));
        assert_eq!(demand.attention_flop, Some(4.0 * 4.0 * 2.0 * 4.0 * 50.0));
        let roof = Roof { memory_tb_per_s: 1.0, half_tflops: 1e-9, narrow_tflops: 2e-9 };
        assert_eq!(roof.compute_ms(&demand, 16.0), Some(11_904.0 / 2.0 + 3_200.0 + 6_400.0));
    }

    #[test]
    fn what_is_unknown_of_a_step_stays_unknown() {
        let experts = r#", "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 4"#;
        let demand = Demand::of(&small(experts), Load::default(), Parallel::default());
        assert!(demand.least_weights.is_some());
        assert_eq!(
            (demand.uniform_weights, demand.kv, demand.half_flop, demand.attention_flop),
            (None, None, None, None)
        );
        let unknown = Demand::of(
            &small(r#", "quantization_config": {"quant_method": "new"}"#),
            Load::default(),
            Parallel::default(),
        );
        assert_eq!(unknown.least_weights, None);
    }
}
