"""Classes the idle gaps of a device and blames host functions for those the host caused.

Input: all ops of one device sorted by start, with launches; host calls, Python frames, host ops.
A gap lies between the end of all earlier ops and the start of the next op. "Launched in time"
means that the launch call had returned when the gap began; such an op ends a refill. Output: per class the
count and time, per function the time. Cost: O(n log n) for sorting plus one pass.
"""
import re
from bisect import bisect_right
from collections import defaultdict

PYTHON_FRAME = re.compile(r"\.py\(\d+\): ")
HOST_CAUSED = ("drain", "refill", "host_late", "launch_running")
WAIT_CALL = re.compile(r"(Stream|Device|Event|Context|Ctx)Synchronize")
ASYNC_COPY = re.compile(r"Memcpy.*Async")
REFILL_LAUNCHES = 200
TURNAROUND_NS = 3_000
REPLAY_TURNAROUND_NS = 10_000


def waits(calls, ops):
    """(start, end) of each blocking call: a synchronisation, or a copy call that returned
    after its own copy had ended."""
    copy_end = {op.correlation: op.end for op in ops if op.kind == "memcpy"}
    result = []
    for call in calls:
        if WAIT_CALL.search(call.name):
            result.append((call.start, call.end))
        elif "Memcpy" in call.name and not ASYNC_COPY.search(call.name):
            result.append((call.start, call.end))
        elif "Memcpy" in call.name and copy_end.get(call.correlation, call.end + 1) <= call.end:
            result.append((call.start, call.end))
    return sorted(result, key=lambda pair: pair[1])


def waited(blocking, ends, gap_start, launch_start):
    """True if a blocking call began before the gap and returned in [gap start, launch start]."""
    index = bisect_right(ends, gap_start - 1)
    while index < len(ends) and ends[index] <= launch_start:
        if blocking[index][0] < gap_start:
            return True
        index += 1
    return False


def gaps(ops, calls):
    """Every idle gap of the device: start, end, class and the op that ends it."""
    blocking = waits(calls, ops)
    ends = [pair[1] for pair in blocking]
    result, owner = [], None
    refill, since_drain = False, 0
    for op in ops:
        launch = op.launch
        if owner is not None:
            if launch is not None:
                since_drain += 1
                if launch.end <= owner.end:
                    refill = False
            if op.start > owner.end:
                name = kind_of(op, owner, blocking, ends, refill and since_drain <= REFILL_LAUNCHES)
                if name == "drain":
                    refill, since_drain = True, 0
                result.append({"start": owner.end, "end": op.start, "class": name, "op": op})
        if owner is None or op.end > owner.end:
            owner = op
    return result


def kind_of(op, owner, blocking, ends, refill):
    """Class of the gap between `owner` (ended last) and `op`, first rule that fits."""
    launch, start, length = op.launch, owner.end, op.start - owner.end
    if launch is None:
        return "unknown"
    if op.replay is not None and op.replay == owner.replay:
        return "in_graph"
    if launch.start >= start:
        if waited(blocking, ends, start, launch.start):
            return "drain"
        return "refill" if refill else "host_late"
    if launch.end > start:
        return "launch_running"
    at_replay = op.replay is not None or owner.replay is not None
    if length < TURNAROUND_NS or (at_replay and length < REPLAY_TURNAROUND_NS):
        return "turnaround"
    return "other_wait"


def segments(spans):
    """Non-overlapping (start, end, name) of the innermost span at each moment, in time order."""
    result, stack = [], []

    def emit(start, end, name):
        if end > start:
            result.append((start, end, name))

    now = None
    for span in sorted(spans, key=lambda s: (s.start, -s.end)):
        while stack and stack[-1].end <= span.start:
            top = stack.pop()
            emit(now, top.end, top.name)
            now = max(now, top.end)
        if stack:
            emit(now, span.start, stack[-1].name)
        now = span.start
        stack.append(span)
    while stack:
        top = stack.pop()
        emit(now, top.end, top.name)
        now = max(now, top.end)
    return result


def blame(found, trace):
    """Per function: time, gaps, longest gap part and time per class, of the host-caused gaps."""
    layers = [defaultdict(list), defaultdict(list), defaultdict(list)]
    for frame in trace.frames:
        if PYTHON_FRAME.search(frame.name):
            layers[0][frame.thread].append(frame)
    for span in trace.cpu_ops:
        layers[1][span.thread].append(span)
    for call in trace.calls:
        layers[2][call.thread].append(call)
    cache = {}
    rows = {}
    for gap in found:
        if gap["class"] not in HOST_CAUSED:
            continue
        launch = gap["op"].launch
        host_end = min(gap["end"], launch.end)
        parts = defaultdict(int)
        for name, part in named_time(layers, cache, launch.thread, gap["start"], host_end):
            parts[name] += part
        if gap["end"] > host_end:
            parts["launch latency"] += gap["end"] - max(host_end, gap["start"])
        for name, part in parts.items():
            row = rows.setdefault(name, {"us": 0, "gaps": 0, "longest_us": 0, "classes": defaultdict(int)})
            row["us"] += part
            row["gaps"] += 1
            row["longest_us"] = max(row["longest_us"], part)
            row["classes"][gap["class"]] += part
    for row in rows.values():
        row["us"], row["longest_us"] = row["us"] / 1000, row["longest_us"] / 1000
        row["classes"] = {name: ns / 1000 for name, ns in sorted(row["classes"].items())}
    return dict(sorted(rows.items(), key=lambda item: -item[1]["us"]))


def named_time(layers, cache, thread, start, end):
    """Innermost Python frame; where the thread has none, host op; where there is none, call."""
    if end <= start:
        return
    rest = [(start, end)]
    for depth, spans in enumerate(layers):
        if not spans.get(thread):
            continue
        key = (depth, thread)
        if key not in cache:
            pieces = segments(spans[thread])
            cache[key] = (pieces, [piece[0] for piece in pieces])
        pieces, starts = cache[key]
        left = []
        for low, high in rest:
            now = low
            index = max(bisect_right(starts, low) - 1, 0)
            while index < len(pieces) and pieces[index][0] < high:
                begin, stop = max(pieces[index][0], low), min(pieces[index][1], high)
                if stop > begin:
                    yield pieces[index][2], stop - begin
                    if begin > now:
                        left.append((now, begin))
                    now = stop
                index += 1
            if now < high:
                left.append((now, high))
        rest = left
    for low, high in rest:
        yield "no host event", high - low


def by_class(found):
    """{class: {"n", "us"}} of gaps."""
    rows = {}
    for gap in found:
        row = rows.setdefault(gap["class"], {"n": 0, "us": 0})
        row["n"] += 1
        row["us"] += gap["end"] - gap["start"]
    for row in rows.values():
        row["us"] /= 1000
    return dict(sorted(rows.items()))
