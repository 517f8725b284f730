"""Finds kernels that do not fit the hardware, by name, order and compute capability.

Input: ops of one device sorted by start, the capability (90 for 9.0; None if unknown), and
whether the device is AMD's. Output: count and time per test, share of kernel time. Cost: O(ops).
"""
import re

from .roles import role_of

OLD = re.compile(r"sm(70|75|80|86)(?!\d)|cutlass_(75|80)_|(volta|turing|ampere)_", re.IGNORECASE)
SM90 = re.compile(r"sm90(?!\d)", re.IGNORECASE)
ALIGN1 = re.compile(r"aligna?1(?!\d)")
FP32 = re.compile(r"ffma|sgemm|simt|f32f32_f32f32_f32", re.IGNORECASE)
OTHER_TYPE = re.compile(r"[dzi]gemm|fp16|half|bfloat16", re.IGNORECASE)
FLASH2 = re.compile(r"flash_fwd_kernel|flash_fwd_splitkv|pytorch_flash::")
FLASH3 = re.compile(r"FlashAttnFwdSm90|flash::compute_attn_ws")
SPLITK = re.compile(r"splitKreduce|split_k_kernel|_splitK_")
SPLITK_REDUCE = re.compile(r"splitKreduce|split_k_kernel")
SOFTMAX = re.compile(r"softmax_warp_forward|cunn_SoftMax|scaled_\w*softmax", re.IGNORECASE)
LOG_SOFTMAX = re.compile(r"LogSoftMax|log_softmax", re.IGNORECASE)
WARP_SOFTMAX = re.compile(r"softmax_warp_forward<(?:[^<>,]+,\s*){4}\s*(true|\(bool\)1)")
WINDOW = 8


def is_product(op):
    """A dense or grouped matrix product."""
    return op.kind == "kernel" and role_of(op.name) in ("gemm", "experts")


def is_softmax(name):
    """A softmax that attention may use: a log-softmax belongs to a loss."""
    return bool(SOFTMAX.search(name)) and not LOG_SOFTMAX.search(name) and not WARP_SOFTMAX.search(name)


def unfused_attention(kernels):
    """[(product, softmax, product)] positions: each product within 8 kernels of the softmax.

    A top-k between softmax and product is routing, not attention. Fewer than three say nothing.
    """
    result = []
    for index, op in enumerate(kernels):
        if not is_softmax(op.name):
            continue
        before = next((i for i in range(index - 1, max(index - WINDOW - 1, -1), -1) if is_product(kernels[i])), None)
        after = next((i for i in range(index + 1, min(index + WINDOW + 1, len(kernels))) if is_product(kernels[i])), None)
        if before is None or after is None:
            continue
        if any("topk" in kernels[i].name.lower() for i in range(index + 1, after)):
            continue
        result.append((before, index, after))
    return result if len(result) >= 3 else []


def find(ops, capability, amd=False):
    """{test: {"n", "us", "percent"}}; a test without a hit is left out."""
    kernels = [op for op in ops if op.kind == "kernel"]
    total = sum(op.duration for op in kernels)
    cc = 0 if amd or capability is None else capability
    tests = {
        "old_gemm": lambda op: cc >= 90 and is_product(op) and OLD.search(op.name),
        "sm90_gemm": lambda op: cc >= 100 and is_product(op) and SM90.search(op.name),
        "align1": lambda op: ALIGN1.search(op.name),
        "fp32_cuda_cores": lambda op: is_product(op) and FP32.search(op.name) and not OTHER_TYPE.search(op.name),
        "flash_attention_2": lambda op: cc >= 90 and FLASH2.search(op.name) and not FLASH3.search(op.name),
        "split_k": lambda op: SPLITK.search(op.name),
        "split_k_reduce": lambda op: SPLITK_REDUCE.search(op.name),
    }
    rows = {}
    for name, test in tests.items():
        hits = [op.duration for op in kernels if test(op)]
        if hits:
            rows[name] = row(len(hits), sum(hits), total)
    found = unfused_attention(kernels)
    if found:
        spots = {i for triple in found for i in triple}
        rows["unfused_attention"] = row(len(found), sum(kernels[i].duration for i in spots), total)
        rows["unfused_attention"]["softmax_us"] = sum(kernels[i].duration for _, i, _ in found) / 1000
    return rows


def row(count, time_ns, total_ns):
    return {"n": count, "us": time_ns / 1000, "percent": round(100 * time_ns / total_ns, 3) if total_ns else 0.0}
