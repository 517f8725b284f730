//! The dimensions of a model, from its config.json of Hugging Face, and the number of its weights. Linear in the text.
//!
//! A config that describes other layers than attention, MLP and mixture of experts is refused, because its weights would be
//! counted wrongly. Norms and biases are not counted: they are less than 0.1 % of the weights.

use super::config_fields::{Fields, Read, TEXT_CONFIGS};
use super::model_layers::{self, LayerKind, Layers};
use super::quantization::{self, Quantization};
use crate::json::{self, Json, from_json};
use crate::words::model_config::{Unusable, unusable};
use crate::{Error, Result};
use std::borrow::Cow;
use std::sync::OnceLock;

/// Far above any config.json: lists of modules that are not quantised have some thousand entries.
const MAX_FILE_BYTES: usize = 4 << 20;

/// The dimensions of a model. Counts are whole numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// Size of the hidden state.
    pub(crate) hidden_size: f64,
    /// Number of entries of the vocabulary.
    pub(crate) vocab_size: f64,
    /// Whether LM head and embedding are one matrix.
    pub(crate) is_tied: bool,
    /// The attention of full and sliding layers.
    pub(crate) attention: Attention,
    /// Weights of one layer of linear attention; zero without such layers.
    pub(crate) linear_weights: f64,
    /// Inner size of the MLP of a layer without experts.
    pub(crate) intermediate_size: f64,
    /// Matrices of an MLP: three with a gate, otherwise two.
    pub(crate) mlp_matrices: f64,
    /// The mixture of experts, if the model has one.
    pub(crate) experts: Option<Experts>,
    /// The number of layers of each kind.
    pub(crate) layers: Layers,
    /// The kind of each layer, in order.
    pub(crate) layer_kinds: Vec<LayerKind>,
    /// The bits of weights and KV cache.
    pub(crate) quantization: Quantization,
}

/// The shape of attention.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Attention {
    /// Heads with a KV cache of their own or shared in groups.
    Grouped { heads: f64, kv_heads: f64, head_dim: f64, has_output_gate: bool },
    /// Multi-head latent attention: one compressed KV cache for all heads.
    Latent { heads: f64, q_rank: f64, kv_rank: f64, nope_dim: f64, rope_dim: f64, value_dim: f64 },
}

/// A mixture of experts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Experts {
    /// Experts in each layer.
    pub(crate) count: f64,
    /// Experts that each token uses.
    pub(crate) per_token: f64,
    /// Inner size of one expert.
    pub(crate) intermediate_size: f64,
    /// Inner size of the expert that all tokens use; zero without one.
    pub(crate) shared_size: f64,
}

/// Weights by part, in all layers.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Weights {
    pub(crate) attention: f64,
    pub(crate) dense_mlp: f64,
    pub(crate) router: f64,
    pub(crate) shared_experts: f64,
    /// Of one expert in one layer.
    pub(crate) one_expert: f64,
    pub(crate) experts: f64,
    pub(crate) lm_head: f64,
    /// Zero if the LM head is the same matrix.
    pub(crate) embedding: f64,
}

impl Weights {
    pub(crate) fn total(&self) -> f64 {
        self.attention
            + self.dense_mlp
            + self.router
            + self.shared_experts
            + self.experts
            + self.lm_head
            + self.embedding
    }
}

/// `patterns/model_config.json`.
#[derive(Debug)]
struct Catalog {
    unsupported: Vec<String>,
    ungated_mlp: Vec<String>,
}
from_json!(Catalog { unsupported, ungated_mlp });

fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(|| json::embedded(json::read(quantization::CATALOG_TEXT)))
}

/// Whether the text is a config.json of a model.
pub fn looks_like_model_config(text: &str) -> bool {
    let Some(config) = (text.len() <= MAX_FILE_BYTES).then(|| parse(text).ok()).flatten() else { return false };
    let has = |key: &str| config.get_path(&[key]).is_some();
    has("hidden_size") && has("num_hidden_layers")
        || TEXT_CONFIGS.iter().any(|key| has(key)) && has("model_type")
        || has("architectures") && has("model_type")
}

fn parse(text: &str) -> serde_json::Result<Json<'_>> {
    // Some editors on Windows start a file with a byte order mark.
    Json::parse(text.strip_prefix('\u{feff}').unwrap_or(text))
}

impl ModelConfig {
    /// Parses the text of a config.json.
    ///
    /// # Errors
    /// The text is no config.json, lacks a dimension, or describes layers that are not known.
    pub fn parse(file: &str, text: &str) -> Result<Self> {
        Self::read(text).map_err(|why| Error::refused(file, unusable(&why)))
    }

    fn read(text: &str) -> Read<Self> {
        if text.len() > MAX_FILE_BYTES {
            return Err(Unusable::TooLarge);
        }
        let json = parse(text).map_err(|error| Unusable::NotJson(error.to_string()))?;
        if json.members().next().is_none() {
            return Err(Unusable::NotOfModel);
        }
        Fields::of(json).config()
    }

    /// The number of weights by part.
    pub(crate) fn weights(&self) -> Weights {
        let Layers { full, sliding, linear, moe, dense, .. } = self.layers;
        let grouped = self.attention.projections(self.hidden_size).all();
        let attention = (full + sliding) * grouped + linear * self.linear_weights;
        let mlp = |size: f64| self.mlp_weights(size).iter().sum::<f64>();
        let vocabulary = self.vocab_size * self.hidden_size;
        let parts = Weights {
            attention,
            dense_mlp: dense * mlp(self.intermediate_size),
            lm_head: vocabulary,
            embedding: if self.is_tied { 0.0 } else { vocabulary },
            ..Weights::default()
        };
        let Some(experts) = self.experts else { return parts };
        let one_expert = mlp(experts.intermediate_size);
        Weights {
            router: moe * self.hidden_size * experts.count,
            shared_experts: moe * mlp(experts.shared_size),
            one_expert,
            experts: moe * experts.count * one_expert,
            ..parts
        }
    }

    /// The weights of an MLP of this inner size: into it (gate and up projections), and out of it (down projection).
    pub(crate) fn mlp_weights(&self, size: f64) -> [f64; 2] {
        let matrix = self.hidden_size * size;
        [(self.mlp_matrices - 1.0) * matrix, matrix]
    }

    /// The KV cache of one token in one full or sliding layer.
    pub(crate) fn kv_bytes_per_token_and_layer(&self) -> f64 {
        let values = match self.attention {
            Attention::Grouped { kv_heads, head_dim, .. } => 2.0 * kv_heads * head_dim,
            Attention::Latent { kv_rank, rope_dim, .. } => kv_rank + rope_dim,
        };
        values * self.quantization.kv_bits / 8.0
    }
}

/// The weights of the attention of one layer, by projection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Projections {
    /// Of the queries, with an output gate.
    pub(crate) q: f64,
    /// Of keys and values.
    pub(crate) kv: f64,
    /// Of the output.
    pub(crate) output: f64,
}

impl Projections {
    fn all(self) -> f64 {
        self.q + self.kv + self.output
    }
}

impl Attention {
    pub(crate) fn projections(&self, hidden_size: f64) -> Projections {
        match *self {
            Self::Grouped { heads, kv_heads, head_dim, has_output_gate } => {
                let matrix = hidden_size * head_dim * heads;
                Projections {
                    q: if has_output_gate { 2.0 * matrix } else { matrix },
                    kv: 2.0 * hidden_size * head_dim * kv_heads,
                    output: matrix,
                }
            }
            Self::Latent { heads, q_rank, kv_rank, nope_dim, rope_dim, value_dim } => {
                let q_dim = heads * (nope_dim + rope_dim);
                Projections {
                    q: if q_rank > 0.0 { hidden_size * q_rank + q_rank * q_dim } else { hidden_size * q_dim },
                    kv: hidden_size * (kv_rank + rope_dim) + kv_rank * heads * (nope_dim + value_dim),
                    output: heads * value_dim * hidden_size,
                }
            }
        }
    }

    /// The number of parts into which tensor parallelism can divide the KV cache.
    pub(crate) fn kv_parts(&self) -> f64 {
        match self {
            Self::Grouped { kv_heads, .. } => *kv_heads,
            Self::Latent { .. } => 1.0,
        }
    }

    /// FLOPs of one query token and one token that it attends to, in one layer.
    pub(crate) fn flop_per_pair(&self) -> f64 {
        match *self {
            Self::Grouped { heads, head_dim, .. } => 4.0 * heads * head_dim,
            Self::Latent { heads, nope_dim, rope_dim, value_dim, .. } => {
                2.0 * heads * (nope_dim + rope_dim + value_dim)
            }
        }
    }
}

impl Fields<'_> {
    fn config(&self) -> Read<ModelConfig> {
        self.check_supported()?;
        let hidden_size = self.required(&["hidden_size"])?;
        let experts = self.experts()?;
        let (layer_kinds, layers) = model_layers::layers(self, experts.is_some())?;
        let is_ungated = self
            .get("model_type")
            .and_then(Json::text)
            .is_some_and(|kind| catalog().ungated_mlp.iter().any(|ungated| *ungated == kind));
        Ok(ModelConfig {
            hidden_size,
            vocab_size: self.required(&["vocab_size"])?,
            is_tied: self.is_true("tie_word_embeddings"),
            attention: self.attention(hidden_size)?,
            linear_weights: if layers.linear > 0.0 { self.linear_weights(hidden_size)? } else { 0.0 },
            intermediate_size: if layers.dense > 0.0 {
                self.required(&["intermediate_size_mlp", "intermediate_size"])?
            } else {
                0.0
            },
            mlp_matrices: if is_ungated { 2.0 } else { 3.0 },
            experts,
            layers,
            layer_kinds,
            quantization: quantization::quantization(self, layers.all())?,
        })
    }

    fn check_supported(&self) -> Read<()> {
        let is_set = |value: Json| match value {
            Json::Null | Json::Bool(false) => false,
            Json::String(text) => !text.unescaped().is_empty(),
            Json::Array(elements) => !elements.is_empty(),
            value => value.number() != Some(0.0),
        };
        let known = &catalog().unsupported;
        match known.iter().find(|key| self.get(key).is_some_and(is_set)) {
            None => Ok(()),
            Some(key) => Err(Unusable::UncountedLayers(key.clone())),
        }
    }

    fn attention(&self, hidden_size: f64) -> Read<Attention> {
        let heads = self.required(&["num_attention_heads"])?;
        if let Some(kv_rank) = self.count(&["kv_lora_rank"])?.filter(|rank| *rank > 0.0) {
            return Ok(Attention::Latent {
                heads,
                q_rank: self.count(&["q_lora_rank"])?.unwrap_or(0.0),
                kv_rank,
                nope_dim: self.required(&["qk_nope_head_dim"])?,
                rope_dim: self.required(&["qk_rope_head_dim"])?,
                value_dim: self.required(&["v_head_dim"])?,
            });
        }
        // Models whose heads are wider or narrower than the hidden state divided by the heads give `head_dim`.
        let head_dim = self.count(&["head_dim"])?.filter(|size| *size > 0.0);
        let is_qwen3_next = self.get("model_type").and_then(Json::text).as_deref() == Some("qwen3_next");
        Ok(Attention::Grouped {
            heads,
            kv_heads: self.count(&["num_key_value_heads"])?.filter(|heads| *heads > 0.0).unwrap_or(heads),
            head_dim: head_dim.unwrap_or((hidden_size / heads).floor()),
            has_output_gate: self.is_true("attn_output_gate") || is_qwen3_next,
        })
    }

    /// Weights of one gated delta rule: projections to q, k, v, z, b and a, and back.
    fn linear_weights(&self, hidden_size: f64) -> Read<f64> {
        let value_heads = self.required(&["linear_num_value_heads"])?;
        let keys = self.required(&["linear_num_key_heads"])? * self.required(&["linear_key_head_dim"])?;
        let values = value_heads * self.required(&["linear_value_head_dim"])?;
        Ok(hidden_size * (2.0 * keys + 3.0 * values + 2.0 * value_heads))
    }

    fn experts(&self) -> Read<Option<Experts>> {
        let count = self.count(&["num_experts", "n_routed_experts", "num_local_experts"])?.unwrap_or(0.0);
        if count < 1.0 {
            return self.no_experts().map(|()| None);
        }
        let intermediate_size = self.required(&["moe_intermediate_size", "intermediate_size"])?;
        let shared = self.count(&["n_shared_experts", "num_shared_experts"])?.map(|count| count * intermediate_size);
        let shared = match self.count(&["shared_expert_intermediate_size"])? {
            Some(size) => Some(size),
            // Llama 4 has one shared expert, and names the size of its other layers separately.
            None if self.get("intermediate_size_mlp").is_some() => Some(intermediate_size),
            None => shared,
        };
        Ok(Some(Experts {
            count,
            per_token: self.required(&["num_experts_per_tok", "experts_per_token"])?.min(count),
            intermediate_size,
            shared_size: shared.unwrap_or(0.0),
        }))
    }

    /// Checks that nothing speaks of experts, whose names differ between models.
    fn no_experts(&self) -> Read<()> {
        let is_of_experts = |(key, value): &(Cow<str>, Json)| {
            (key.starts_with("moe_") || key.contains("expert")) && value.number().is_some_and(|number| number > 1.0)
        };
        match self.text.members().find(is_of_experts) {
            None => Ok(()),
            Some((key, _)) => Err(Unusable::UncountedExperts(key.into_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#""hidden_size": 8, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 10, "vocab_size": 100"#;

    fn with(more: &str) -> String {
        format!("{{{SMALL}{more}}}")
    }

    fn read(more: &str) -> ModelConfig {
        ModelConfig::parse("config.json", &with(more)).unwrap()
    }

    fn error(text: &str) -> String {
        ModelConfig::parse("config.json", text).unwrap_err().to_string()
    }

    #[test]
    fn the_size_of_a_head_is_derived_only_if_it_is_not_given() {
        let head_dim = |config: ModelConfig| match config.attention {
            Attention::Grouped { head_dim, kv_heads, .. } => (head_dim, kv_heads),
            Attention::Latent { .. } => panic!("grouped"),
        };
        assert_eq!(head_dim(read("")), (4.0, 2.0));
        assert_eq!(head_dim(read(r#", "head_dim": 16, "num_key_value_heads": 1"#)), (16.0, 1.0));
        assert_eq!(head_dim(read(r#", "head_dim": null, "num_key_value_heads": null"#)), (4.0, 2.0));
    }

    #[test]
    fn the_language_model_of_a_multimodal_model_counts() {
        let text =
            format!(r#"{{"model_type": "vl", "hidden_size": 1, "dtype": "float32", "text_config": {{{SMALL}}}}}"#);
        assert_eq!(ModelConfig::parse("c", &text).unwrap(), read(""));
        assert!(looks_like_model_config(&text) && looks_like_model_config(&with("")));
        for other in ["", "{}", "[1]", r#"{"text_config": {}}"#, r#"{"traceEvents": []}"#, r#"{"prefill": "extend"}"#] {
            assert!(!looks_like_model_config(other), "{other}");
        }
    }

    #[test]
    fn layers_with_experts_follow_the_rules_of_their_family() {
        let moe = |more: &str| {
            let config =
                read(&format!(r#", "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 4{more}"#));
            (config.layers.moe, config.layers.dense, config.experts.unwrap().shared_size)
        };
        assert_eq!(moe(""), (4.0, 0.0, 0.0));
        assert_eq!(moe(r#", "first_k_dense_replace": 1, "moe_layer_freq": 1, "n_shared_experts": 2"#), (3.0, 1.0, 8.0));
        assert_eq!(moe(r#", "decoder_sparse_step": 2, "mlp_only_layers": [3]"#), (1.0, 3.0, 0.0));
        assert_eq!(moe(r#", "moe_layer_freq": [0, 1, 1, 1], "shared_expert_intermediate_size": 5"#), (3.0, 1.0, 5.0));
        assert_eq!(moe(r#", "interleave_moe_layer_step": 2, "intermediate_size_mlp": 20"#), (2.0, 2.0, 4.0));
    }

    #[test]
    fn the_bits_of_weights_follow_from_the_quantisation() {
        let bits = |config: &str| {
            let Quantization { attention_bits, mlp_bits, expert_bits, kv_bits, .. } =
                read(&format!(r#", "quantization_config": {config}"#)).quantization;
            (attention_bits, mlp_bits, expert_bits, kv_bits)
        };
        let all = |bits| (Some(bits), Some(bits), Some(bits), 16.0);
        assert_eq!(bits("null"), all(16.0));
        assert_eq!(bits(r#"{"quant_method": "fp8", "weight_block_size": [128, 128]}"#), all(8.0));
        assert_eq!(bits(r#"{"quant_method": "awq", "bits": 4, "group_size": 128}"#), all(4.125));
        assert_eq!(bits(r#"{"quant_method": "gptq", "bits": 8, "group_size": 128}"#), all(8.0));
        assert_eq!(bits(r#"{"quant_method": "mxfp4"}"#), (Some(16.0), Some(16.0), Some(4.25), 16.0));
        let modelopt = r#"{"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "ignore": ["lm_head", "model.layers.*.self_attn*"]}"#;
        assert_eq!(bits(modelopt), (Some(16.0), Some(4.5), Some(4.5), 8.0));
        let groups = |ignore: &str| {
            format!(
                r#"{{"quant_method": "compressed-tensors", "ignore": [{ignore}], "config_groups": {{"group_0": {{"weights": {{"num_bits": 4, "type": "float", "group_size": 16}}, "input_activations": {{"num_bits": 4}}}}}}}}"#
            )
        };
        assert_eq!(bits(&groups(r#""re:.*self_attn.kv_b_proj""#)), all(4.5));
        let each: Vec<String> = (0..4).map(|layer| format!(r#""model.layers.{layer}.self_attn""#)).collect();
        assert_eq!(bits(&groups(&each.join(","))), (Some(16.0), Some(4.5), Some(4.5), 16.0));
        assert_eq!(bits(&groups(&each[1..].join(","))), all(4.5), "one layer is quantised");
        assert_eq!(bits(r#"{"quant_method": "tomorrow"}"#), (None, None, None, 16.0));
    }

    #[test]
    fn an_error_is_one_sentence_with_the_remedy() {
        for (text, expected) in [
            (String::new(), "config.json: not valid JSON"),
            ("[1, 2]".to_owned(), "config.json: not the config.json of a model: give the config.json in the folder"),
            (r#"{"n_embd": 768}"#.to_owned(), "config.json: the config misses `hidden_size`: give the complete"),
            (with(r#", "num_experts": 8"#), "the config misses `num_experts_per_tok`"),
            (with(r#", "moe_num_experts": 64"#), "`moe_num_experts` but not the number of experts under a known name"),
            (with(r#", "mamba_d_state": 128"#), "`mamba_d_state`, of layers whose weights gpuprism does not count"),
            (with(r#", "layer_types": ["full_attention"]"#), "`layer_types` does not list every layer"),
            (with(r#", "layer_types": ["conv", "conv", "conv", "conv"]"#), "kind of layer whose weights"),
            (with(r#", "head_dim": -4"#), "`head_dim` is no plausible whole number"),
            (with(r#", "head_dim": 4.5"#), "`head_dim` is no plausible whole number"),
            (with(r#", "head_dim": "4""#), "`head_dim` is no plausible whole number"),
            (with(r#", "kv_lora_rank": 4"#), "the config misses `qk_nope_head_dim`"),
        ] {
            let error = error(&text);
            assert!(error.contains(expected) && error.contains("give "), "{error}");
        }
    }

    #[test]
    fn a_hostile_config_is_refused_or_has_finite_weights() {
        let hostile =
            ["1e300", "-1", "1e9", "18446744073709551615", "\"8\"", "null", "[]", "{}", "true", "0", "0.5", "1"];
        let keys = [
            "hidden_size",
            "num_hidden_layers",
            "num_attention_heads",
            "vocab_size",
            "num_experts",
            "num_experts_per_tok",
            "sliding_window",
            "sliding_window_pattern",
            "full_attention_interval",
            "moe_layer_freq",
            "decoder_sparse_step",
            "first_k_dense_replace",
            "kv_lora_rank",
            "layer_types",
            "mlp_only_layers",
            "quantization_config",
            "text_config",
        ];
        let mut read = 0;
        for key in keys {
            for value in hostile {
                // The first of two members with the same name counts.
                let text = format!(r#"{{"{key}": {value}, "num_experts": 4, "num_experts_per_tok": 2, {SMALL}}}"#);
                match ModelConfig::parse("c", &text) {
                    Ok(config) => {
                        assert!(config.weights().total().is_finite(), "{text}");
                        read += 1;
                    }
                    Err(error) => assert!(error.to_string().starts_with("c: "), "{text}: {error}"),
                }
            }
        }
        assert!(read > 0);
        assert!(error(&"{\"a\":".repeat(100_000)).contains("not valid JSON"));
        assert!(error(&with(&format!(r#", "x": "{}""#, "y".repeat(MAX_FILE_BYTES)))).contains("4 MiB"));
    }
}
