//! The work of one role of a layer, or of the LM head, on one GPU: from the dimensions of the model, its division over GPUs and
//! what the step computes. In constant time.
//!
//! A product with weights has two operations for each weight and token. Bytes are those of the weights, of the inputs and of the
//! results, each once. How many distinct experts a step reads is not known, so their bytes are a range.

use super::floor::{Load, Parallel};
use super::model_config::{Attention, Experts, ModelConfig};
use super::model_layers::{LayerKind, Reach};
use super::quantization::HALF_BITS;

/// Bytes of a value of the hidden state.
const VALUE_BYTES: f64 = HALF_BITS / 8.0;

/// Roles of products with weights in a layer.
const PRODUCTS: [&str; 7] = ["qkv", "o_proj", "gate_up", "down", "router", "experts_up", "experts_down"];

/// Whether a role is a product with the weights of a layer.
pub(super) fn is_product_of_layer(role: &str) -> bool {
    PRODUCTS.contains(&role)
}

/// The work of a role in one layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RoleDemand {
    /// Floating-point operations; `None` for roles that only move data.
    pub(super) flop: Option<f64>,
    /// Whether its operands have fewer than 16 bits, so that it may compute faster.
    pub(super) is_narrow: bool,
    /// The least and the most bytes.
    pub(super) bytes: [f64; 2],
    /// Whether the bytes go over the links between GPUs, not to memory.
    pub(super) is_communication: bool,
    /// The experts that the bytes depend on.
    pub(super) experts: Option<ExpertRange>,
}

/// How many distinct experts of a layer a step may read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ExpertRange {
    pub(super) least: f64,
    pub(super) most: f64,
    /// Experts of the layer.
    pub(super) count: f64,
    /// Bytes of the part of one expert that the role reads.
    pub(super) bytes_each: f64,
}

/// The work of a role, or the reason why it is not known.
pub(super) type Demanded = Result<RoleDemand, &'static str>;

/// The kernels of a role in one layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RoleKernels<'a> {
    pub(super) role: &'a str,
    /// Their names.
    pub(super) names: &'a [String],
    /// Whether the layer has kernels of the role `experts_down`.
    pub(super) has_experts_down: bool,
}

/// A model, its division, and what a step computes.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepModel<'a> {
    pub(super) config: &'a ModelConfig,
    pub(super) parallel: Parallel,
    pub(super) load: Load,
}

/// A product of the hidden states with weights.
struct Product {
    /// Weights on this GPU.
    weights: f64,
    bits: Option<f64>,
    /// Values of a token that it reads and writes.
    values: f64,
}

impl StepModel<'_> {
    /// The work of a role in a layer of this kind; `None` for roles without a model of their work.
    pub(super) fn demand(&self, kernels: &RoleKernels, layer: LayerKind) -> Option<Demanded> {
        Some(match kernels.role {
            "qkv" | "o_proj" => self.projection(kernels, layer),
            "attention" => self.attention(layer),
            "gate_up" | "down" if layer.has_experts => Err("the model has experts in this layer, the trace has none"),
            "gate_up" | "down" => self.mlp(kernels),
            "router" => self.router(layer),
            "experts_up" | "experts_down" => self.experts(kernels, layer),
            "norm" => self.norms(kernels.names)?,
            "comm" | "norm_comm" => self.all_reduce(kernels.names)?,
            _ => return None,
        })
    }

    /// The work of the LM head.
    pub(super) fn lm_head(&self) -> Demanded {
        let tokens = self.load.logit_tokens.ok_or("the number of tokens of the step is not known")?;
        let ModelConfig { hidden_size, vocab_size, .. } = *self.config;
        let outputs = vocab_size / self.tp();
        let weights = hidden_size * outputs;
        Product { weights, bits: Some(HALF_BITS), values: hidden_size + outputs }.demand(tokens)
    }

    fn tp(&self) -> f64 {
        self.parallel.tp.max(1) as f64
    }

    fn tokens(&self) -> Result<f64, &'static str> {
        self.load.tokens.ok_or("the number of tokens of the step is not known")
    }

    fn projection(&self, kernels: &RoleKernels, layer: LayerKind) -> Demanded {
        let hidden_size = self.config.hidden_size;
        let Attention::Grouped { heads, kv_heads, head_dim, .. } = self.config.attention else {
            return Err("latent attention: which of its products a kernel computes is not known");
        };
        if layer.reach == Reach::Linear {
            return Err("linear attention: which of its products a kernel computes is not known");
        }
        let parts = self.config.attention.projections(hidden_size);
        let bits = self.config.quantization.attention_bits;
        let product = if kernels.role == "qkv" {
            let weights = parts.q / self.tp() + parts.kv / kv_heads.min(self.tp());
            // Each kernel reads the hidden state.
            let inputs = kernels.names.len() as f64 * hidden_size;
            Product { weights, bits, values: inputs + weights / hidden_size }
        } else {
            Product { weights: parts.output / self.tp(), bits, values: heads * head_dim / self.tp() + hidden_size }
        };
        product.demand(self.tokens()?)
    }

    fn mlp(&self, kernels: &RoleKernels) -> Demanded {
        let ModelConfig { hidden_size, intermediate_size, .. } = *self.config;
        let [up, down] = self.config.mlp_weights(intermediate_size).map(|weights| weights / self.tp());
        let bits = self.config.quantization.mlp_bits;
        let product = if kernels.role == "gate_up" {
            let inputs = kernels.names.len() as f64 * hidden_size;
            Product { weights: up, bits, values: inputs + up / hidden_size }
        } else {
            Product { weights: down, bits, values: down / hidden_size + hidden_size }
        };
        product.demand(self.tokens()?)
    }

    /// The router, which every GPU has as a whole.
    fn router(&self, layer: LayerKind) -> Demanded {
        let experts = self.experts_of(layer)?;
        if experts.shared_size > 0.0 {
            return Err("the layer has shared experts: which product is the router is not known");
        }
        let hidden_size = self.config.hidden_size;
        let weights = hidden_size * experts.count;
        Product { weights, bits: Some(HALF_BITS), values: hidden_size + experts.count }.demand(self.tokens()?)
    }

    fn experts_of(&self, layer: LayerKind) -> Result<Experts, &'static str> {
        let experts = self.config.experts.filter(|_| layer.has_experts);
        experts.ok_or("the trace has experts in this layer, the model has none")
    }

    fn experts(&self, kernels: &RoleKernels, layer: LayerKind) -> Demanded {
        let Experts { count, per_token, intermediate_size, .. } = self.experts_of(layer)?;
        if self.parallel.ep > 1 || self.parallel.dp > 1 {
            return Err("how many tokens use the experts of this GPU is not known with --ep or --dp");
        }
        if kernels.names.len() > 1 {
            return Err("several kernels: which part of the experts each computes is not known");
        }
        let (tokens, hidden_size) = (self.tokens()?, self.config.hidden_size);
        let inner = intermediate_size / self.tp();
        let [up, down] = self.config.mlp_weights(intermediate_size).map(|weights| weights / self.tp());
        let choices = tokens * per_token;
        // Rows of the inputs may be read once for each of their experts, and the activation may be a kernel of its own.
        let (weights, values) = match (kernels.role, kernels.has_experts_down) {
            ("experts_up", true) => {
                (up, [tokens * hidden_size + choices * inner, choices * (hidden_size + up / hidden_size)])
            }
            ("experts_up", false) => (up + down, [2.0 * tokens * hidden_size, 2.0 * choices * (hidden_size + inner)]),
            _ => (down, [choices * inner + tokens * hidden_size, choices * (inner + hidden_size)]),
        };
        let bits = self.config.quantization.expert_bits.ok_or(UNKNOWN_BITS)?;
        let bytes_each = weights * bits / 8.0;
        let range = ExpertRange { least: per_token.min(choices), most: count.min(choices), count, bytes_each };
        let [least, most] = values.map(|values| values * VALUE_BYTES);
        Ok(RoleDemand {
            flop: Some(2.0 * choices * weights),
            is_narrow: bits < HALF_BITS,
            bytes: [least + range.least * bytes_each, most + range.most * bytes_each],
            is_communication: false,
            experts: Some(range),
        })
    }

    fn attention(&self, layer: LayerKind) -> Demanded {
        let Attention::Grouped { heads, head_dim, .. } = self.config.attention else {
            return Err("latent attention: how its kernel multiplies is not known");
        };
        let tokens = self.tokens()?;
        let (keys, pairs) = self.load.keys.zip(self.load.pairs).ok_or("the lengths of the contexts are not known")?;
        match layer.reach {
            Reach::Linear => return Err("linear attention: its work does not follow from the dimensions"),
            Reach::Sliding if keys > self.config.layers.window => {
                return Err("sliding window: which part of each context is in the window is not known");
            }
            Reach::Full | Reach::Sliding => {}
        }
        let kv_parts = self.config.attention.kv_parts().min(self.tp());
        let cache = keys * self.config.kv_bytes_per_token_and_layer() / kv_parts;
        let queries_and_results = 2.0 * tokens * heads * head_dim / self.tp() * VALUE_BYTES;
        let bytes = cache + queries_and_results;
        Ok(RoleDemand {
            flop: Some(pairs * self.config.attention.flop_per_pair() / self.tp()),
            is_narrow: self.config.quantization.kv_bits < HALF_BITS,
            bytes: [bytes, bytes],
            is_communication: false,
            experts: None,
        })
    }

    /// Norms that one kernel computes each; `None` for a norm of several kernels.
    fn norms(&self, names: &[String]) -> Option<Demanded> {
        let lower: Vec<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        if !lower.iter().all(|name| name.contains("norm")) {
            return None;
        }
        // With the addition of the residual, it reads and writes both.
        let states = lower.iter().map(|name| if name.contains("add") { 4.0 } else { 2.0 }).sum::<f64>();
        Some(self.moved(states, false))
    }

    /// All-reduces of the hidden state, alone or with a norm; `None` for other communication.
    fn all_reduce(&self, names: &[String]) -> Option<Demanded> {
        let is_all_reduce = |name: &String| {
            let name = name.to_ascii_lowercase();
            name.contains("reduce") && !name.contains("scatter")
        };
        let Parallel { tp, ep, dp, .. } = self.parallel;
        let is_plain = tp > 1 && ep <= 1 && dp <= 1;
        (is_plain && names.iter().all(is_all_reduce)).then(|| self.moved(names.len() as f64, true))
    }

    /// A role that moves the hidden states of all tokens this often.
    fn moved(&self, states: f64, is_communication: bool) -> Demanded {
        let bytes = states * self.tokens()? * self.config.hidden_size * VALUE_BYTES;
        Ok(RoleDemand { flop: None, is_narrow: false, bytes: [bytes, bytes], is_communication, experts: None })
    }
}

const UNKNOWN_BITS: &str = "the bits of the weights are not known from the quantisation";

impl Product {
    fn demand(self, tokens: f64) -> Demanded {
        let bits = self.bits.ok_or(UNKNOWN_BITS)?;
        let bytes = self.weights * bits / 8.0 + tokens * self.values * VALUE_BYTES;
        Ok(RoleDemand {
            flop: Some(2.0 * tokens * self.weights),
            is_narrow: bits < HALF_BITS,
            bytes: [bytes, bytes],
            is_communication: false,
            experts: None,
        })
    }
}

#[cfg(test)]
mod tests;
