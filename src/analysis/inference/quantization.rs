//! The bits of a model's weights and KV cache, from `quantization_config` of its config.json. Where several numbers are
//! possible the smallest counts, because the floor of a step is a lower limit. Linear in the config.

use super::config_fields::{Fields, Read};
use crate::json::{self, Json, from_json};
use std::collections::BTreeSet;
use std::sync::OnceLock;

/// `patterns/model_config.json`.
pub(super) const CATALOG_TEXT: &str = include_str!("../../../patterns/model_config.json");

/// Bits of a weight that is not quantised.
pub(super) const HALF_BITS: f64 = 16.0;

/// Bits of weights and KV cache. Router, LM head and embedding have 16 bits, as all servers keep them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Quantization {
    /// Its name for sentences: `fp8`, `16 bits`.
    pub(crate) name: String,
    /// Bits of the weights of attention; `None` if the method is unknown, as below.
    pub(crate) attention_bits: Option<f64>,
    /// Bits of the weights of MLPs and shared experts.
    pub(crate) mlp_bits: Option<f64>,
    /// Bits of the weights of experts.
    pub(crate) expert_bits: Option<f64>,
    /// Bits of a value in the KV cache.
    pub(crate) kv_bits: f64,
    /// The fastest unit that the weights allow.
    pub(crate) compute: Compute,
}

/// The data type of the fastest matrix products.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compute {
    /// BF16 or FP16.
    Half,
    /// FP8.
    Fp8,
    /// INT8.
    Int8,
    /// FP4.
    Fp4,
}
from_json!(Compute = "half" => Half, "fp8" => Fp8, "int8" => Int8, "fp4" => Fp4);

/// A method whose bits its name tells.
#[derive(Debug)]
struct Method {
    method: String,
    algo: Option<String>,
    weight_bits: f64,
    expert_bits: Option<f64>,
    compute: Compute,
}
from_json!(strict Method { method, weight_bits, compute; algo, expert_bits });

#[derive(Debug)]
struct Methods {
    quantization: Vec<Method>,
}
from_json!(Methods { quantization });

fn methods() -> &'static [Method] {
    static METHODS: OnceLock<Methods> = OnceLock::new();
    &METHODS.get_or_init(|| json::embedded(json::read(CATALOG_TEXT))).quantization
}

/// The quantisation of a config with this number of layers.
pub(super) fn quantization(fields: &Fields, layers: f64) -> Read<Quantization> {
    let found = fields.get("quantization_config").or_else(|| fields.get("compression_config"));
    let Some(config) = found.filter(|config| config.members().next().is_some()) else {
        return Ok(not_quantized(fields));
    };
    let text = |key: &str| config.get_path(&[key]).and_then(Json::text);
    let method = text("quant_method").unwrap_or_default().to_ascii_lowercase();
    let algo = text("quant_algo").unwrap_or_default();
    let named = methods().iter().find(|known| {
        known.method == method && known.algo.as_ref().is_none_or(|known| known.eq_ignore_ascii_case(&algo))
    });
    let (weight_bits, expert_bits, compute) = match named {
        Some(known) => (Some(known.weight_bits), known.expert_bits, known.compute),
        None => stated_bits(config).map_or((None, None, Compute::Half), |(bits, compute)| (Some(bits), None, compute)),
    };
    Ok(Quantization {
        name: if method.is_empty() { "quantised".to_owned() } else { method.chars().take(40).collect() },
        attention_bits: if keeps_attention(config, layers) { weight_bits.map(|_| HALF_BITS) } else { weight_bits },
        mlp_bits: weight_bits,
        expert_bits: expert_bits.or(weight_bits),
        kv_bits: if has_8_bit_cache(config) { 8.0 } else { HALF_BITS },
        compute,
    })
}

/// Weights in the data type of the config. Servers load 32 bits as 16.
fn not_quantized(fields: &Fields) -> Quantization {
    let dtype = fields.get("torch_dtype").or_else(|| fields.get("dtype")).and_then(Json::text).unwrap_or_default();
    let is_8_bit = dtype.contains("float8");
    let bits = if is_8_bit { 8.0 } else { HALF_BITS };
    Quantization {
        name: if is_8_bit { "8 bits" } else { "16 bits" }.to_owned(),
        attention_bits: Some(bits),
        mlp_bits: Some(bits),
        expert_bits: Some(bits),
        kv_bits: HALF_BITS,
        compute: if is_8_bit { Compute::Fp8 } else { Compute::Half },
    }
}

/// The bits that the config states: `bits` and `group_size` (AWQ, GPTQ), or those of its groups (compressed-tensors).
fn stated_bits(config: Json<'_>) -> Option<(f64, Compute)> {
    let number = |json: Json, key: &str| json.get_path(&[key]).and_then(Json::number);
    if let Some(bits) = number(config, "bits").or_else(|| number(config, "w_bit")) {
        let group = number(config, "group_size").or_else(|| number(config, "q_group_size"));
        return with_scales(bits, group, 16.0).map(|bits| (bits, Compute::Half));
    }
    let groups = config.get_path(&["config_groups"])?.members().filter_map(|(_, group)| {
        let weights = group.get_path(&["weights"])?;
        let bits = number(weights, "num_bits")?;
        let is_float = weights.get_path(&["type"]).and_then(Json::text).as_deref() == Some("float");
        let has_narrow_input =
            group.get_path(&["input_activations"]).is_some_and(|input| input.members().next().is_some());
        let compute = match (is_float, bits) {
            _ if !has_narrow_input => Compute::Half,
            (true, 4.0) => Compute::Fp4,
            (true, _) => Compute::Fp8,
            (false, _) => Compute::Int8,
        };
        Some((with_scales(bits, number(weights, "group_size"), if is_float { 8.0 } else { 16.0 })?, compute))
    });
    groups.reduce(|a, b| if b.0 < a.0 { b } else { a })
}

/// Bits of a weight with its part of the scale of its group. A scale of a row or a large block does not count.
fn with_scales(bits: f64, group_size: Option<f64>, scale_bits: f64) -> Option<f64> {
    let group = group_size.filter(|size| (8.0..=1024.0).contains(size) && bits < 8.0);
    (1.0..=16.0).contains(&bits).then(|| bits + group.map_or(0.0, |size| scale_bits / size))
}

fn has_8_bit_cache(config: Json<'_>) -> bool {
    let bits = config.get_path(&["kv_cache_scheme", "num_bits"]).and_then(Json::number);
    let algo = config.get_path(&["kv_cache_quant_algo"]).and_then(Json::text);
    bits == Some(8.0) || algo.is_some_and(|algo| algo.contains('8'))
}

/// Whether the config excludes the whole attention of every layer from quantisation. An exclusion of single projections does
/// not count.
fn keeps_attention(config: Json<'_>, layers: f64) -> bool {
    const LISTS: [&str; 4] = ["modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules"];
    let lists = LISTS.iter().filter_map(|key| config.get_path(&[key]));
    let entries = lists.flat_map(Json::elements).filter_map(Json::text);
    let of_attention = entries.filter(|entry| {
        let after = entry.split_once("self_attn").map(|(_, after)| after);
        after.is_some_and(|after| after.bytes().all(|byte| b".*$".contains(&byte)))
    });
    let (numbered, unnumbered): (Vec<Option<u64>>, Vec<_>) =
        of_attention.map(|module| layer_of(&module)).partition(Option::is_some);
    !unnumbered.is_empty() || numbered.into_iter().collect::<BTreeSet<_>>().len() as f64 >= layers
}

/// The number of the layer in the name of a module: `model.layers.12.self_attn`.
fn layer_of(module: &str) -> Option<u64> {
    module.split('.').find_map(|part| part.parse().ok())
}
