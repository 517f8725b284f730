"""Names the role of a GPU op from its kernel name alone (ordered rules, first hit).

Input: one op name and kind. Output: a role word. Cost: one regex search per rule.
"""
import functools
import re

_RULES = [(role, re.compile(pattern, re.IGNORECASE)) for role, pattern in (
    ("allreduce_norm", r"all_?reduce.*norm|norm.*all_?reduce|allreduce_fusion"),
    ("communication", r"nccl|rccl|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|cross_device_reduce|two_shot"
                      r"|one_shot|ep::(intranode|internode)|deep_?ep"),
    ("attention_reduce", r"paged_attention.*reduce|reduce_segments|attn.*combine|split_?kv_?combine"),
    ("rope", r"rotary|rope"),
    ("kv_write", r"reshape_and_cache|store_kv|set_kv|append_paged|k_set_rows|concat_and_cache"),
    ("attention_metadata", r"prepare_varlen|kv_indices|page_indices"),
    ("linear_attention", r"gated_delta|chunk_scan|selective_scan|fused_recurrent"),
    ("attention", r"attention|attn|fmha|flash_fwd|flash::|mla_decode|batch(prefill|decode)"),
    ("moe_route", r"routing|topk.*softmax|softmax.*topk|moe_?sort|_topk_forward|bitmatrix|moe_align|grouped_topk"
                  r"|topk_?gating"),
    ("moe_finalize", r"finalize|moe_sum"),
    ("experts", r"moe_gemm|matmul_ogs|grouped_gemm|fused_moe|^bmm_"),
    ("sampling", r"argmax|topk|top_k|top_p|multinomial|sampl(?!e_\w*grad)"),
    ("qk_norm", r"qk_?norm"),
    ("norm", r"norm(?!al)|rsqrt|pow_tensor|meanops"),
    ("activation", r"act_and_mul|silu|swiglu|gelu"),
    ("quantise", r"quant"),
    ("splitk_reduce", r"split_?k_?reduce"),
    ("gemm", r"gemm|nvjet|cijk_|mul_mat"),
    ("softmax", r"softmax"),
    ("embedding", r"indexselect|embedding|gather_kernel|get_rows"),
    ("copy", r"^(?!triton_).*(copy|memcpy|concat|catarray)"),
)]


@functools.lru_cache(maxsize=None)
def role_of(name, kind="kernel"):
    """The role of an op; `elementwise` where no rule fits, `memset` for a memory set."""
    if kind == "memset":
        return "memset"
    if kind == "memcpy":
        return "copy"
    for role, pattern in _RULES:
        if role in ("communication", "allreduce_norm") and name.startswith("triton_"):
            continue
        if pattern.search(name):
            return role
    return "elementwise"


def is_dense_gemm(name):
    """True for a dense matrix product: not an expert, attention or split-K reduce kernel."""
    return role_of(name) == "gemm"
