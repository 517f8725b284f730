"""Finds the steps of a capture and measures them.

Input: a `Trace`. Evidence, first that yields a unit with 8 or more ops: annotation, host frame,
graph launch, sampling tail, periodicity of kernel names. Output: a dictionary with `found_by`,
`confidence` and the steps. An op belongs to the step of its launch. Cost: O(n log n).
"""
import re
from bisect import bisect_right
from collections import defaultdict
from statistics import median

from .layers import anchors, fold
from .roles import role_of
from .trace import union_ns

MIN_OPS = 8
SMALL_COPY_BYTES = 64 * 1024
ANNOTATIONS = (re.compile(r"^execute_(?:\d+_)?context_"), re.compile(r"^step\["), re.compile(r"^ProfilerStep#\d+"))
HOST_FRAME = re.compile(r"gpu_model_runner\.py\(\d+\): execute_model$|scheduler\.py\(\d+\): run_batch$"
                        r"|/model_runner\.py\(\d+\): forward$|^model_runner\.py\(\d+\): forward$"
                        r"|py_executor\.py\(\d+\): _forward_step$|model_engine\.py\(\d+\): forward$")
GROUP = r"\((?:sq)?(\d+)[^)]*\)"
EXECUTE = re.compile(r"^execute_(?:\d+_)?context_(\d+)" + GROUP + r"_generation_(\d+)" + GROUP)
DECODE_NAME = re.compile(r"paged_attention|split_?kv|Combine|reduce_segments|MultiCtasKv|BatchDecode")
PREFILL_NAME = re.compile(r"Batch_?Prefill|Context|varlen")
STEP = re.compile(r"^step\[(\w+)(?: bs=(\d+))?(?: toks=(\d+))?")


def outermost(spans):
    """The spans of one thread that lie in no other of them, in time order."""
    result = []
    for span in sorted(spans, key=lambda s: (s.start, -s.end)):
        if not result or span.start >= result[-1].end:
            result.append(span)
    return result


def units_of_spans(spans, ops):
    """[(span, ops)]: ops launched from a span's start to the start of the next on its thread.

    Ops of a thread without a span of its own belong by time to the span last begun.
    """
    threads = defaultdict(list)
    for span in spans:
        threads[span.thread].append(span)
    threads = {thread: outermost(found) for thread, found in threads.items()}
    everything = sorted((span for found in threads.values() for span in found), key=lambda s: s.start)
    starts = {thread: [span.start for span in found] for thread, found in threads.items()}
    all_starts = [span.start for span in everything]
    members = defaultdict(list)
    for op in ops:
        if op.launch is None:
            continue
        own = op.launch.thread in threads
        found = threads[op.launch.thread] if own else everything
        index = bisect_right(starts[op.launch.thread] if own else all_starts, op.launch.start) - 1
        if index >= 0:
            members[id(found[index])].append(op)
    return [(span, members[id(span)]) for span in everything if members[id(span)]]


def kind_of_annotation(name):
    """(kind, sequences, tokens) that an annotation states."""
    match = EXECUTE.match(name)
    if match:
        context, context_tokens, generation, generation_tokens = map(int, match.groups())
        kind = ("mixed" if generation else "prefill") if context else ("decode" if generation else "idle")
        return kind, context + generation, context_tokens + generation_tokens
    match = STEP.match(name)
    if match:
        mode, batch = match.group(1), int(match.group(2)) if match.group(2) else None
        kind = {"EXTEND": "prefill", "DECODE": "decode", "MIXED": "mixed", "IDLE": "idle",
                "VERIFY": "verify", "TARGET_VERIFY": "verify"}.get(mode, mode.lower())
        tokens = int(match.group(3)) if match.group(3) else (batch if kind == "decode" else None)
        return kind, batch, tokens
    return "iteration", None, None


def kind_of_kernels(ops):
    """(kind, sequences, tokens) from grids and kernel names, where nothing states them.

    Sequences: first grid number of the argmax. Tokens: first grid number of a norm if a rope or
    KV write has the same one; a single grid may cover several rows or heads a block.
    """
    def rows(*roles):
        return {op.grid[0] for op in ops if op.grid and role_of(op.name, op.kind) in roles}

    sequences = next((op.grid[0] for op in ops if op.grid and "argmax" in op.name.lower()), None)
    agreed = rows("norm") & rows("rope", "kv_write")
    tokens = agreed.pop() if len(agreed) == 1 else None
    if tokens and sequences:
        return ("decode" if tokens == sequences else "prefill"), sequences, tokens
    names = {op.name for op in ops if role_of(op.name, op.kind) in ("attention", "attention_reduce")}
    decode = any(DECODE_NAME.search(name) for name in names)
    prefill = any(PREFILL_NAME.search(name) for name in names)
    kind = "unknown" if decode == prefill else "decode" if decode else "prefill"
    return kind, sequences, tokens


def is_sampling(op):
    return op.kind == "kernel" and role_of(op.name) == "sampling"


def tail_ends(ops):
    """Positions after each sampling tail: the last sampling op before the next attention op or
    dense GEMM, and the copies of at most 64 KiB that follow it at once."""
    result, index = [], 0
    while index < len(ops):
        if not is_sampling(ops[index]):
            index += 1
            continue
        last = probe = index
        while probe < len(ops) and role_of(ops[probe].name, ops[probe].kind) not in ("attention", "gemm", "linear_attention"):
            if is_sampling(ops[probe]):
                last = probe
            probe += 1
        end = last + 1
        while end < len(ops) and ops[end].kind == "memcpy" and (ops[end].bytes or 0) <= SMALL_COPY_BYTES:
            end += 1
        result.append(end)
        index = max(probe, end)
    return result


def cut(ops, ends):
    """Pieces of `ops` that end at the given positions, and the rest."""
    pieces, start = [], 0
    for end in ends:
        pieces.append(ops[start:end])
        start = end
    return pieces, ops[start:]


def by_graph_launch(ops):
    """Steps in which one graph launch holds over half of the kernels between two tails, or,
    without tails, one launch that holds 4 or more layers."""
    launches = defaultdict(list)
    for op in ops:
        if op.replay is not None:
            launches[op.replay].append(op)
    if not launches:
        return None
    ends = tail_ends(ops)
    if ends:
        pieces, _ = cut(ops, ends)
        sizes = [max((sum(op.replay == r for op in piece) for r in {o.replay for o in piece} - {None}), default=0)
                 for piece in pieces]
        if pieces and all(size * 2 > len(piece) for size, piece in zip(sizes, pieces)):
            return pieces, "inferred"
        return None
    whole = [found for found in launches.values() if fold(found)["layers"] >= 4]
    if whole and sum(len(found) for found in whole) * 2 > len(ops):
        return whole, "guess"
    return None


def repeated_unit(ops):
    """(m, uses) of the name that recurs at the longest constant distance, else None.

    A name counts with 3 or more uses, 80 % of their distances (in ops) within 2 % of the median
    m, m at least 8, and first to last use plus one distance covering 80 % of the ops.
    """
    places, best = defaultdict(list), None
    for index, op in enumerate(ops):
        places[op.name].append(index)
    for uses in places.values():
        if len(uses) < 3:
            continue
        distances = [b - a for a, b in zip(uses, uses[1:])]
        m = median(distances)
        near = sum(abs(d - m) <= 0.02 * m for d in distances)
        covers = uses[-1] - uses[0] + m >= 0.8 * len(ops)
        rank = (m, near / len(distances))
        if m >= MIN_OPS and near >= 0.8 * len(distances) and covers and (best is None or rank > best[0]):
            best = rank, uses
    return (best[0][0], best[1]) if best else None


def periodic(ops):
    """Verdict on a repeated unit: steps, blocks of layers, or unknown; None if nothing repeats."""
    unit = repeated_unit(ops)
    if unit is None:
        return None
    m, uses = unit
    result = {"unit_ops": m, "units": len(uses), "uses": uses}
    folded = fold(ops)
    layers = folded["anchors"] if folded["layers"] else 0
    if layers >= len(ops) // m > 0 and m < 16 * len(ops) / layers:
        return result | {"unit": "block of layers"}
    piece = ops[uses[1]:uses[2]]
    signs = any(is_sampling(op) or "multi_tensor_apply" in op.name
                or (op.kind == "memcpy" and "DtoH" in op.name) for op in piece)
    attention = len(anchors([role_of(op.name, op.kind) for op in piece]))
    return result | {"unit": "step" if signs or attention >= 4 else "unknown"}


def find(trace, drop=()):
    """Steps of the main device; evidence named in `drop` is not used."""
    ops = trace.main_ops()
    if "annotation" not in drop:
        for pattern in ANNOTATIONS:
            units = units_of_spans([s for s in trace.annotations if pattern.match(s.name)], ops)
            if any(len(members) >= MIN_OPS for _, members in units):
                found = [kind_of_annotation(span.name) + (members,) for span, members in units]
                return report("annotation", "proven", found, trace)
    if "host_frame" not in drop:
        units = units_of_spans([s for s in trace.frames if HOST_FRAME.search(s.name)], ops)
        if any(len(members) >= MIN_OPS for _, members in units):
            return report("host_frame", "proven", [kind_of_kernels(m) + (m,) for _, m in units], trace)
    found = by_graph_launch(ops)
    if found and any(len(piece) >= MIN_OPS for piece in found[0]):
        return report("graph_launch", found[1], [kind_of_kernels(piece) + (piece,) for piece in found[0]], trace)
    pieces, _ = cut(ops, tail_ends(ops))
    if len(pieces) >= 1 and any(len(piece) >= MIN_OPS for piece in pieces) and fold(ops)["layers"]:
        return report("sampling_tail", "inferred", [kind_of_kernels(piece) + (piece,) for piece in pieces], trace)
    result = {"found_by": None, "confidence": None, "steps": []}
    verdict = periodic(ops)
    if verdict is None:
        return result
    uses = verdict.pop("uses")
    if verdict["unit"] == "step":
        pieces, rest = cut(ops, uses[1:])
        found = [kind_of_kernels(piece) + (piece,) for piece in pieces + [rest]]
        result = report("periodicity", "inferred", found, trace)
    return result | {"period": verdict}


def report(found_by, confidence, found, trace):
    """Measures of each step: wall, span, busy, kernels, graph launches."""
    found = [unit for unit in found if unit[3]]
    found.sort(key=lambda unit: min(op.start for op in unit[3]))
    steps = []
    for index, (kind, sequences, tokens, ops) in enumerate(found):
        first, last = min(op.start for op in ops), max(op.end for op in ops)
        later = min(op.start for op in found[index + 1][3]) if index + 1 < len(found) else last
        steps.append({
            "kind": kind, "sequences": sequences, "tokens": tokens, "ops": ops,
            "op_count": len(ops), "kernels": sum(op.kind == "kernel" for op in ops),
            "wall_us": (later - first) / 1000, "span_us": (last - first) / 1000,
            "busy_us": union_ns((op.start, op.end) for op in ops) / 1000,
            "graph_launches": len({op.replay for op in ops} - {None}),
            "start_ns": first, "end_ns": last,
        })
    walls = [step["wall_us"] for step in steps]
    usable = walls[:-1] if len(walls) >= 3 else walls
    return {"found_by": found_by, "confidence": confidence, "steps": steps,
            "median_wall_us": median(usable) if len(walls) > 1 else None,
            "without_launch": sum(op.launch is None for op in trace.main_ops())}
