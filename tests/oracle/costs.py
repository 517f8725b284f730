"""FLOPs, bytes and achieved rates of matrix products from recorded shapes.

Input: host ops with `Input Dims` and `Input type`, GPU ops with launches. A kernel belongs to the
innermost op with a cost model that is open on the launching thread at the launch. Time of an op is
the union of its kernels (memory sets and copies left out). Cost: O(n log n).
"""
from collections import defaultdict
from statistics import median

from .trace import union_ns

# Argument numbers of A and B, and whether B is stored as [N, K].
MODELS = {
    "aten::mm": (0, 1, False), "aten::bmm": (0, 1, False), "aten::_scaled_mm": (0, 1, False),
    "trtllm::cublas_scaled_mm": (0, 1, False),
    "aten::addmm": (1, 2, False), "aten::baddbmm": (1, 2, False),
    "aten::linear": (0, 1, True), "torch::linear": (0, 1, True),
    "vllm::rocm_unquantized_gemm": (0, 1, True), "aiter::gemm_a16w16": (0, 1, True),
}
# Ops with a cost model of bytes alone: their kernels are not the product's.
OTHER_MODELS = {"aten::copy_", "aten::fill_", "aten::zero_", "aten::clone", "aten::_to_copy",
                "aten::_flash_attention_forward", "aten::_scaled_dot_product_flash_attention",
                "aten::_scaled_dot_product_efficient_attention", "aten::_scaled_dot_product_cudnn_attention"}
WIDTHS = {"double": 8, "float": 4, "c10::Half": 2, "c10::BFloat16": 2, "c10::Float8_e4m3fn": 1,
          "c10::Float8_e4m3fnuz": 1, "c10::Float8_e5m2": 1, "c10::Float8_e5m2fnuz": 1,
          "signed char": 1, "unsigned char": 1, "int": 4, "long int": 8, "long": 8}


def product_shape(op):
    """(batch, M, N, K, types) of a matrix product, or None where the shapes do not tell."""
    model = MODELS.get(op.name)
    dims, types = op.args.get("Input Dims"), op.args.get("Input type")
    if model is None or not dims or not types or len(dims) <= max(model[:2]):
        return None
    left, right, transposed = dims[model[0]], dims[model[1]], model[2]
    if len(left) < 2 or len(right) < 2 or not all(isinstance(n, int) for n in left + right):
        return None
    if transposed:
        rows = 1
        for size in left[:-1]:
            rows *= size
        batch, m, k, n = 1, rows, left[-1], right[0]
    else:
        batch = left[0] if len(left) == 3 else 1
        m, k, n = left[-2], left[-1], right[-1]
        if right[-2] != k:
            return None
    return batch, m, n, k, (types[model[0]], types[model[1]])


def flop(batch, m, n, k):
    """A multiply-add counts as 2; the bias of addmm is left out."""
    return 2 * batch * m * n * k


def bytes_moved(batch, m, n, k, types):
    """A and B read once, C written once in A's type (2 bytes where A has 1 byte)."""
    left, right = (WIDTHS.get(name) for name in types)
    if left is None or right is None:
        return None
    return batch * (m * k * left + k * n * right + m * n * max(left, 2))


def owners(cpu_ops, ops):
    """{index of cpu op: [kernels]} by the innermost op with a cost model open at the launch."""
    modelled = defaultdict(list)
    for index, op in enumerate(cpu_ops):
        if op.name in MODELS or op.name in OTHER_MODELS:
            modelled[op.thread].append((op.start, -op.end, index))
    launches = defaultdict(list)
    for op in ops:
        if op.launch is not None and op.kind == "kernel" and op.replay is None:
            launches[op.launch.thread].append(op)
    result = defaultdict(list)
    for thread, found in launches.items():
        spans, position, stack = sorted(modelled[thread]), 0, []
        for op in sorted(found, key=lambda o: o.launch.start):
            now = op.launch.start
            while position < len(spans) and spans[position][0] <= now:
                while stack and cpu_ops[stack[-1]].end <= spans[position][0]:
                    stack.pop()
                stack.append(spans[position][2])
                position += 1
            while stack and cpu_ops[stack[-1]].end <= now:
                stack.pop()
            if stack:
                result[stack[-1]].append(op)
    return result


def table(trace):
    """Rows per (op, batch, M, N, K, types): count, median time, TFLOP/s, TB/s."""
    groups = defaultdict(list)
    for index, kernels in owners(trace.cpu_ops, trace.main_ops()).items():
        shape = product_shape(trace.cpu_ops[index])
        if shape is not None:
            groups[(trace.cpu_ops[index].name,) + shape].append(union_ns((k.start, k.end) for k in kernels))
    rows = []
    for (name, batch, m, n, k, types), times in groups.items():
        work, traffic, typical = flop(batch, m, n, k), bytes_moved(batch, m, n, k, types), median(times)
        rows.append({
            "op": name, "batch": batch, "m": m, "n": n, "k": k, "types": list(types), "count": len(times),
            "median_us": typical / 1000, "total_us": sum(times) / 1000, "gflop": work / 1e9,
            "mb": traffic / 1e6 if traffic is not None else None,
            "tflop_per_s": work / typical / 1000 if typical else None,
            "tb_per_s": traffic / typical / 1000 if typical and traffic is not None else None,
        })
    return sorted(rows, key=lambda row: (-row["total_us"], row["op"], row["m"], row["n"], row["k"]))
