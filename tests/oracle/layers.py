"""Folds the ops of one step into layers and names the role of each op by its place.

Input: ops of one step (launch inside the step), all streams. Output: layer count, pattern,
ops and median time per layer, role times per type, ops before and after the layers.
An anchor is a run of attention ops without a matrix product between. Cost: O(n log n).
"""
from collections import Counter, defaultdict
from statistics import median

from .roles import role_of

ANCHOR = {"attention", "linear_attention"}
PRODUCTS = {"gemm", "experts"}
ENDS_MLP = {"activation", "experts", "moe_finalize"}
DOWN = {"gemm", "experts", "moe_finalize"}
NORMS = {"norm", "allreduce_norm"}


def main_stream(ops):
    """The stream with the most kernel time."""
    time_of = defaultdict(int)
    for op in ops:
        if op.kind == "kernel":
            time_of[op.stream] += op.duration
    return max(time_of, key=lambda s: (time_of[s], str(s))) if time_of else None


def anchors(roles):
    """(first, last) positions of each anchor."""
    found = []
    for index, role in enumerate(roles):
        joins = role in ANCHOR or (role == "attention_reduce" and found)
        if not joins:
            continue
        if found and not any(r in PRODUCTS for r in roles[found[-1][1]:index]):
            found[-1][1] = index
        elif role in ANCHOR:
            found.append([index, index])
    return [tuple(pair) for pair in found]


def cut_after(roles, anchor, stop):
    """Start of the next layer after an anchor, searched before `stop`; None if there is none."""
    first, last = anchor
    ends = [i for i in range(last + 1, stop) if roles[i] in ENDS_MLP]
    if not ends:
        return None
    down = next((i for i in range(ends[-1], stop) if roles[i] in DOWN), None)
    if down is None:
        return None
    return next((i for i in range(down + 1, stop) if roles[i] in NORMS), None)


def bounds(roles):
    """[(start, end)] of the layers, or None where fewer than half of the anchors have a cut."""
    spots = anchors(roles)
    if not spots:
        return None
    stops = [spot[0] for spot in spots[1:]] + [len(roles)]
    cuts = [cut_after(roles, spot, stop) for spot, stop in zip(spots, stops)]
    if sum(cut is not None for cut in cuts) * 2 < len(spots):
        return None
    distances = [spots[i + 1][0] - cut for i, cut in enumerate(cuts[:-1]) if cut is not None]
    start = 0
    if distances:
        wanted = spots[0][0] - median(distances)
        norms = [i for i in range(spots[0][0]) if roles[i] in NORMS]
        start = min(norms, key=lambda i: abs(i - wanted)) if norms else max(int(wanted), 0)
    result = []
    for cut in cuts:
        if cut is None:
            continue
        result.append((start, cut))
        start = cut
    return result


def role_by_place(ops):
    """Roles of one layer's ops: products, norms and split-K reduces are named by their place."""
    roles = [role_of(op.name, op.kind) for op in ops]
    spots = [i for i, role in enumerate(roles) if role in ANCHOR]
    first, last = (spots[0], spots[-1]) if spots else (len(roles), len(roles))
    is_moe = any(role in ("experts", "moe_route") for role in roles)
    after = [i for i, role in enumerate(roles) if role == "gemm" and i > last]
    acts = [i for i, role in enumerate(roles) if role == "activation" and i > last]
    act = acts[-1] if acts else len(roles)
    named, experts, product = list(roles), 0, None
    for i, role in enumerate(roles):
        if role == "gemm":
            if i < first:
                named[i] = "qkv"
            elif i == after[0]:
                named[i] = "o_proj"
            elif is_moe:
                named[i] = "router"
            else:
                named[i] = "gate_up" if i < act or i != after[-1] else "down"
        elif role == "experts":
            experts += 1
            named[i] = "experts_up" if experts == 1 else "experts_down"
        elif role == "splitk_reduce" and product is not None:
            named[i] = product + "+splitk"
        elif role == "norm" and "qkv" in named[:i] and i < first:
            named[i] = "qk_norm"
        if role in PRODUCTS:
            product = named[i]
    return named


def jaccard(left, right):
    """Multiset Jaccard similarity of two Counters."""
    return (left & right).total() / max((left | right).total(), 1)


def types(layers):
    """The type letter of each layer, in order of first appearance, and the pattern."""
    known, letters = [], []
    for ops in layers:
        names = Counter(op.name for op in ops)
        core = Counter(op.name for op in ops if role_of(op.name, op.kind) in ANCHOR | {"experts", "attention_reduce"})
        for letter, (other_core, other_names) in enumerate(known):
            if core == other_core and jaccard(names, other_names) >= 0.75:
                break
        else:
            letter = len(known)
            known.append((core, names))
        letters.append(chr(65 + letter % 26))
    return letters, pattern(letters)


def pattern(letters):
    """Run lengths of the shortest repeated unit: A48, (AB)12, (A3B)8."""
    unit = len(letters)
    for length in range(1, len(letters) + 1):
        if len(letters) % length == 0 and letters == letters[:length] * (len(letters) // length):
            unit = length
            break
    runs = []
    for letter in letters[:unit]:
        if runs and runs[-1][0] == letter:
            runs[-1][1] += 1
        else:
            runs.append([letter, 1])
    if len(runs) == 1 and unit <= 1:
        return f"{letters[0]}{len(letters)}" if letters else ""
    text = "".join(letter + (str(count) if count > 1 else "") for letter, count in runs)
    return text if unit == len(letters) else f"({text}){len(letters) // unit}"


def bimodal(groups):
    """True where one name's durations alternate between two separate groups at alternate layers."""
    even, odd = groups[0::2], groups[1::2]
    if len(even) < 3 or len(odd) < 3:
        return False
    return max(even) * 1.25 < min(odd) or max(odd) * 1.25 < min(even)


def fold(step_ops):
    """Layers of one step as plain data; {"layers": 0, "reason": ...} where there are none."""
    stream = main_stream(step_ops)
    ops = [op for op in step_ops if op.stream == stream]
    roles = [role_of(op.name, op.kind) for op in ops]
    cuts = bounds(roles)
    if not cuts:
        return {"layers": 0, "anchors": len(anchors(roles)), "reason": "fewer than half of the anchors have a cut"
                if anchors(roles) else "no attention op"}
    layers = [ops[start:end] for start, end in cuts]
    letters, text = types(layers)
    others = [op for op in step_ops if op.stream != stream]
    head, tail = ops[:cuts[0][0]], ops[cuts[-1][1]:]
    step_ns = sum(op.duration for op in step_ops)
    first_ns, last_ns = ops[cuts[0][0]].start, (tail[0].start if tail else float("inf"))
    attention = [sum(op.duration for op in layer if role_of(op.name, op.kind) in ANCHOR) for layer in layers]
    heads = [op.duration for op in tail if role_of(op.name, op.kind) == "gemm"]
    return {
        "layers": len(layers), "pattern": text, "anchors": len(anchors(roles)),
        "types": [describe(letter, [l for l, x in zip(layers, letters) if x == letter], step_ns)
                  for letter in dict.fromkeys(letters)],
        "prologue_ops": len(head), "prologue_us": sum(op.duration for op in head) / 1000,
        "tail_ops": len(tail), "tail_us": sum(op.duration for op in tail) / 1000,
        "lm_head_us": max(heads) / 1000 if heads else None,
        "ops_of_other_streams_in_layers": sum(first_ns <= op.start < last_ns for op in others),
        "attention_alternates": len(set(letters)) == 1 and bimodal(attention),
        "period_check_percent": period_check(ops, cuts),
    }


def describe(letter, layers, step_ns):
    """Numbers of one layer type: median time, ops, times of its roles, equal layers, outliers."""
    sums = [sum(op.duration for op in layer) for layer in layers]
    typical = median(sums)
    sequences = Counter(tuple(op.name for op in layer) for layer in layers)
    sequence, count = sequences.most_common(1)[0]
    same = [layer for layer in layers if tuple(op.name for op in layer) == sequence]
    positions = [{"role": role, "kernel": op.name, "median_us": median(l[i].duration for l in same) / 1000}
                 for i, (op, role) in enumerate(zip(same[0], role_by_place(same[0])))]
    per_role = defaultdict(float)
    for position in positions:
        per_role[position["role"]] += position["median_us"]
    lengths = Counter(len(layer) for layer in layers)
    return {
        "type": letter, "layers": len(layers), "ops_per_layer": lengths.most_common(1)[0][0],
        "ops_min": min(lengths), "ops_max": max(lengths),
        "median_us": typical / 1000, "first_us": sums[0] / 1000, "last_us": sums[-1] / 1000,
        "sum_of_medians_us": sum(p["median_us"] for p in positions),
        "step_percent": round(100 * sum(sums) / step_ns, 3),
        "layers_with_commonest_sequence": count,
        "outliers": sum(abs(value - typical) > 0.2 * typical for value in sums),
        "roles_us": {role: round(value, 4) for role, value in sorted(per_role.items())},
        "positions": positions,
    }


def period_check(ops, cuts):
    """Share of positions between first and last layer whose name recurs one or two layers later."""
    names = [op.name for op in ops[cuts[0][0]:cuts[-1][1]]]
    sizes = Counter(end - start for start, end in cuts)
    common = [size for size, _ in sizes.most_common(2)]
    best = 0.0
    for period in {common[0], sum(common)}:
        pairs = len(names) - period
        if pairs > 0:
            best = max(best, sum(names[i] == names[i + period] for i in range(pairs)) / pairs)
    return round(100 * best, 2)
