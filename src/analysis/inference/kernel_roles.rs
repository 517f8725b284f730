//! The role of a GPU op in a transformer layer: by its name (`patterns/layer_roles.json`), and for matrix products by its
//! place in the layer. A name costs one substring search per word of the list until a rule matches.
//!
//! A kernel whose name no rule knows has the role of the CPU op that launched it, if captures of graphs prove which one.

use crate::json::{self, embedded, from_json};
use crate::ordering::VecMap;
use crate::rules::names;
use crate::rules::op_models::{Formula, op_model};
use crate::trace::{CaptureProof, CapturedOp, NameId, Trace};
use std::sync::LazyLock;

/// What a GPU op does in a layer, as far as its name tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NameRole {
    /// All-reduce and normalization in one kernel.
    NormComm,
    /// Communication between GPUs.
    Comm,
    /// Products with the small matrices of adapters of the weights (LoRA).
    Lora,
    /// Combines the partial results of attention.
    AttentionReduce,
    /// Rotary position embedding.
    Rope,
    /// Writes keys and values to the KV cache.
    KvWrite,
    /// Prepares indices for attention.
    Metadata,
    /// Linear attention or a state-space scan.
    LinearAttention,
    /// Attention over keys and values.
    Attention,
    /// Selects experts and sorts tokens.
    MoeRoute,
    /// Combines the results of experts.
    MoeFinalize,
    /// Matrix products of experts.
    Experts,
    /// Samples tokens.
    Sampling,
    /// Normalizes queries and keys.
    QkNorm,
    /// Normalization.
    Norm,
    /// Activation function of the MLP.
    Activation,
    /// Converts to a smaller data type.
    Quant,
    /// Adds the partial sums of a matrix product.
    SplitkReduce,
    /// A matrix product.
    Gemm,
    /// Softmax outside of attention.
    Softmax,
    /// Looks up embeddings.
    Embedding,
    /// Copies or sets memory.
    Copy,
    /// Anything else, mostly elementwise.
    Elementwise,
}
from_json!(NameRole =
    "norm_comm" => NormComm,
    "comm" => Comm,
    "lora" => Lora,
    "attention_reduce" => AttentionReduce,
    "rope" => Rope,
    "kv_write" => KvWrite,
    "metadata" => Metadata,
    "linear_attention" => LinearAttention,
    "attention" => Attention,
    "moe_route" => MoeRoute,
    "moe_finalize" => MoeFinalize,
    "experts" => Experts,
    "sampling" => Sampling,
    "qk_norm" => QkNorm,
    "norm" => Norm,
    "activation" => Activation,
    "quant" => Quant,
    "splitk_reduce" => SplitkReduce,
    "gemm" => Gemm,
    "softmax" => Softmax,
    "embedding" => Embedding,
    "copy" => Copy
);

impl NameRole {
    /// Whether the op is part of attention, linear attention included.
    pub(crate) fn is_attention(self) -> bool {
        matches!(self, Self::Attention | Self::LinearAttention | Self::AttentionReduce)
    }

    /// Whether the op normalizes the hidden state, so that a layer can begin with it.
    pub(crate) fn is_norm(self) -> bool {
        matches!(self, Self::Norm | Self::NormComm)
    }

    fn word(self) -> &'static str {
        match self {
            Self::NormComm => "norm_comm",
            Self::Comm => "comm",
            Self::Lora => "lora",
            Self::AttentionReduce => "attention_reduce",
            Self::Rope => "rope",
            Self::KvWrite => "kv_write",
            Self::Metadata => "metadata",
            Self::LinearAttention => "linear_attention",
            Self::Attention => "attention",
            Self::MoeRoute => "moe_route",
            Self::MoeFinalize => "moe_finalize",
            Self::Experts => "experts",
            Self::Sampling => "sampling",
            Self::QkNorm => "qk_norm",
            Self::Norm => "norm",
            Self::Activation => "activation",
            Self::Quant => "quant",
            Self::SplitkReduce => "splitk",
            Self::Gemm => "gemm",
            Self::Softmax => "softmax",
            Self::Embedding => "embedding",
            Self::Copy => "copy",
            Self::Elementwise => "elementwise",
        }
    }
}

/// One rule of `patterns/layer_roles.json`.
#[derive(Debug)]
struct RoleRule {
    role: NameRole,
    any: Vec<String>,
    all: Vec<String>,
    none: Vec<String>,
    starts: Vec<String>,
}
from_json!(strict RoleRule { role, any, all, none, starts });

#[derive(Debug)]
struct RoleFile {
    rules: Vec<RoleRule>,
    prefill_attention: Vec<String>,
    decode_attention: Vec<String>,
}
from_json!(RoleFile { rules, prefill_attention, decode_attention });

static FILE: LazyLock<RoleFile> =
    LazyLock::new(|| embedded(json::read(include_str!("../../../patterns/layer_roles.json"))));

impl RoleRule {
    fn matches(&self, name: &str) -> bool {
        let contains = |word: &String| name.contains(word.as_str());
        (self.any.is_empty() || self.any.iter().any(contains))
            && self.all.iter().all(contains)
            && !self.none.iter().any(contains)
            && (self.starts.is_empty() || self.starts.iter().any(|word| name.starts_with(word.as_str())))
    }
}

/// The roles of all op names of a trace.
#[derive(Debug)]
pub(crate) struct NameRoles {
    roles: Vec<NameRole>,
    /// Whether `torch.compile` wrote the kernel: its name lists what it fuses, which differs from layer to layer.
    are_compiled: Vec<bool>,
}

impl NameRoles {
    pub(crate) fn of(trace: &Trace) -> Self {
        let mut roles: Vec<NameRole> = trace.names.iter().map(role_of_name).collect();
        for (name, by_op) in roles_by_captures(trace) {
            let role = roles.get_mut(name.0 as usize).filter(|role| **role == NameRole::Elementwise);
            role.into_iter().for_each(|role| *role = by_op);
        }
        let are_compiled = trace.names.iter().map(|name| name.starts_with("triton_")).collect();
        Self { roles, are_compiled }
    }

    /// Whether `torch.compile` wrote the kernels of this name.
    pub(crate) fn is_compiled(&self, name: NameId) -> bool {
        self.are_compiled.get(name.0 as usize) == Some(&true)
    }

    /// Whether only prefill runs an attention kernel of this name.
    pub(crate) fn is_prefill_attention(name: &str) -> bool {
        contains_any(name, &FILE.prefill_attention)
    }

    /// Whether only decode runs an attention kernel of this name.
    pub(crate) fn is_decode_attention(name: &str) -> bool {
        contains_any(name, &FILE.decode_attention)
    }

    /// The role of the ops of this name.
    pub(crate) fn get(&self, name: NameId) -> NameRole {
        self.roles.get(name.0 as usize).copied().unwrap_or(NameRole::Elementwise)
    }
}

/// The role of each kernel name by the CPU ops that launched it in captures of graphs: if all are products, attention or experts
/// and had no other kernel. O(replayed ops).
fn roles_by_captures(trace: &Trace) -> Vec<(NameId, NameRole)> {
    let Some(captured) = &trace.captured_graphs.captured else { return Vec::new() };
    let shape_roles: Vec<Option<NameRole>> = captured.shapes.iter().map(|shape| role_of_cpu_op(&shape.op)).collect();
    // By execution of a CPU op: whether it launched one kernel only.
    let mut kernels: VecMap<u32, u32> = VecMap::new();
    for execution in captured.ops.iter().filter_map(|op| op.execution) {
        kernels.update(execution.number, 0, |count| *count += 1);
    }
    let role = |op: &CapturedOp| {
        let execution = op.execution.filter(|_| op.proof == CaptureProof::Names)?;
        let is_alone = kernels.get(&execution.number) == Some(&1);
        shape_roles.get(execution.shape as usize).copied().flatten().filter(|_| is_alone)
    };
    let roles: Vec<Option<NameRole>> = captured.ops.iter().map(role).collect();
    // By name: its role; `None` if ops of it have none or different ones.
    let mut of_names: VecMap<NameId, Option<NameRole>> = VecMap::new();
    for (row, op) in &trace.captured_graphs.rows {
        let Some(name) = trace.gpu_ops.get(*row as usize).map(|op| op.name) else { continue };
        let role = roles.get(*op as usize).copied().flatten();
        of_names.update(name, role, |known| *known = known.filter(|known| Some(*known) == role));
    }
    of_names.into_vec().into_iter().filter_map(|(name, role)| Some((name, role?))).collect()
}

/// The role of the only kernel of a CPU op.
fn role_of_cpu_op(op: &str) -> Option<NameRole> {
    match op_model(op.as_bytes())?.model {
        Formula::Product => Some(NameRole::Gemm),
        Formula::Attention | Formula::VarlenAttention => Some(NameRole::Attention),
        Formula::Experts | Formula::HiddenExperts | Formula::GroupedProduct => Some(NameRole::Experts),
        Formula::Convolution | Formula::Bytes => None,
    }
}

fn contains_any(name: &str, words: &[String]) -> bool {
    let name = name.to_ascii_lowercase();
    words.iter().any(|word| name.contains(word.as_str()))
}

/// The role of the ops of a name as in the trace.
pub(crate) fn role_of_name(name: &str) -> NameRole {
    role(&names::demangle(name))
}

fn role(demangled: &str) -> NameRole {
    let name = demangled.to_ascii_lowercase();
    FILE.rules.iter().find(|rule| rule.matches(&name)).map_or(NameRole::Elementwise, |rule| rule.role)
}

/// The part of a training step to which a layer belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Direction {
    #[default]
    Forward,
    /// The forward pass again, within the backward pass.
    Recomputed,
    Backward,
}

/// The beginning of the roles in a layer of the backward pass.
pub(crate) const BACKWARD: &str = "backward_";
/// The beginning of the roles in a layer that is computed again.
pub(crate) const RECOMPUTED: &str = "recompute_";
/// The end of the role of a reduction of a matrix product, after the role of the product.
pub(crate) const REDUCTION: &str = "+splitk";

/// The roles of the ops of one layer, in order. A backward pass runs a layer backwards.
pub(crate) fn roles_of_layer(raw: &[NameRole], direction: Direction) -> Vec<String> {
    match direction {
        Direction::Forward => roles_in_layer(raw),
        Direction::Recomputed => roles_in_layer(raw).into_iter().map(|role| [RECOMPUTED, &role].concat()).collect(),
        Direction::Backward => {
            let reversed: Vec<NameRole> = raw.iter().rev().copied().collect();
            roles_in_layer(&reversed).into_iter().rev().map(|role| [BACKWARD, &role].concat()).collect()
        }
    }
}

/// The roles of the ops of one layer, in order. A matrix product before attention computes queries, keys and values; the
/// first one after it is the output projection; later ones select experts, or belong to the MLP, whose last product is the down
/// projection. The reduction of a matrix product has the role of that product with `+splitk`.
pub(crate) fn roles_in_layer(raw: &[NameRole]) -> Vec<String> {
    let is_anchor = |role: &NameRole| matches!(role, NameRole::Attention | NameRole::LinearAttention);
    let anchor = raw.iter().position(is_anchor).unwrap_or(raw.len());
    let is_moe = raw.iter().any(|role| matches!(role, NameRole::Experts | NameRole::MoeRoute));
    let last_product = raw.iter().rposition(|role| *role == NameRole::Gemm);
    let (mut has_qkv, mut has_output, mut experts) = (false, false, 0);
    let mut roles: Vec<String> = Vec::with_capacity(raw.len());
    for (index, role) in raw.iter().enumerate() {
        let place = match role {
            NameRole::Gemm if index < anchor => {
                has_qkv = true;
                "qkv"
            }
            NameRole::Gemm if !has_output => {
                has_output = true;
                "o_proj"
            }
            NameRole::Gemm if is_moe => "router",
            NameRole::Gemm if last_product.is_some_and(|last| index < last) => "gate_up",
            NameRole::Gemm => "down",
            NameRole::Experts => {
                experts += 1;
                if experts == 1 { "experts_up" } else { "experts_down" }
            }
            NameRole::Norm if has_qkv && index < anchor => "qk_norm",
            NameRole::SplitkReduce => match roles.last() {
                Some(last) => {
                    roles.push([last, REDUCTION].concat());
                    continue;
                }
                None => role.word(),
            },
            role => role.word(),
        };
        roles.push(place.to_owned());
    }
    roles
}

#[cfg(test)]
mod tests {
    use super::*;
    use NameRole::*;

    #[test]
    fn kernels_of_serving_engines_have_the_role_that_their_source_gives_them() {
        for (name, expected) in [
            ("void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<...>", NormComm),
            ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", Comm),
            ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(...)", Comm),
            ("triton_red_fused_all_reduce_add_mean_mul_pow_rsqrt_1", Norm),
            ("void paged_attention_ll4mi_reduce_kernel<...>", AttentionReduce),
            ("kernel_unified_attention_2d", Attention),
            ("void flash::flash_fwd_splitkv_combine_kernel<...>", AttentionReduce),
            ("void flash::prepare_varlen_num_blocks_kernel<...>", Metadata),
            ("void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, ...>", KvWrite),
            ("bmm_Bfloat16_Bfloat16Bfloat16_Fp32_t128x8x128u2_s6", Experts),
            ("void vllm::moe::topkGatingSoftmax<...topk_softmax>", MoeRoute),
            ("_lora_shrink_kernel", Lora),
            ("_fused_moe_lora_kernel", Lora),
            ("_qkv_lora_b_kernel", Lora),
            ("void cublasLt::splitKreduce_kernel<32, 16, int, float>", SplitkReduce),
            ("nvjet_tst_64x64_64x16_2x1_2cta_v_bz_bias_TNT", Gemm),
            ("Cijk_Alik_Bljk_BBS_BH_Bias_MT16x16x512", Gemm),
            ("void vllm::act_and_mul_kernel<c10::BFloat16, ...>", Activation),
            ("void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add<float>>", Elementwise),
            ("Memcpy DtoD (Device -> Device)", Copy),
        ] {
            assert_eq!(role(name), expected, "{name}");
        }
    }

    #[test]
    fn a_matrix_product_has_the_role_of_its_place() {
        let dense = [Norm, Gemm, Norm, Rope, Attention, Gemm, SplitkReduce, Norm, Gemm, Activation, Gemm];
        assert_eq!(
            roles_in_layer(&dense).join(" "),
            "norm qkv qk_norm rope attention o_proj o_proj+splitk norm gate_up activation down"
        );
        let experts = [Norm, Gemm, Attention, Gemm, Norm, Gemm, SplitkReduce, MoeRoute, Experts, Experts, MoeFinalize];
        assert_eq!(
            roles_in_layer(&experts).join(" "),
            "norm qkv attention o_proj norm router router+splitk moe_route experts_up experts_down moe_finalize"
        );
        // Separate products for gate and up, the second of them after the activation.
        let separate = [Norm, Gemm, Attention, Gemm, Norm, Gemm, Activation, Gemm, Elementwise, Gemm];
        assert_eq!(
            roles_in_layer(&separate).join(" "),
            "norm qkv attention o_proj norm gate_up activation gate_up elementwise down"
        );
        let adapters =
            [Norm, Gemm, Lora, Lora, Attention, Gemm, Lora, Lora, Norm, Gemm, Lora, Lora, Activation, Gemm, Lora, Lora];
        assert_eq!(
            roles_in_layer(&adapters).join(" "),
            "norm qkv lora lora attention o_proj lora lora norm gate_up lora lora activation down lora lora"
        );
        assert_eq!(roles_in_layer(&[SplitkReduce]), ["splitk"]);
    }
}
