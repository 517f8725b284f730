"""Reads one raw trace file into GPU ops, launches, host ops, Python frames and annotations.

Input: torch.profiler JSON (.json, .json.gz; CUDA, ROCm and the 1.9 dialect), rocprofv3 JSON
(.json, .json.gz), a rocprofv3 `*_kernel_trace.csv` with its `*_hip_api_trace.csv` beside it, or
an Nsight Systems SQLite export (see nsys.py).
Output: a `Trace` with times as integers of nanoseconds. The decimal text of microseconds is
read as text, so a time of 13 digits and 3 decimals loses nothing.
Cost: O(n log n) in the events, memory O(n).
"""
import csv
import gzip
import json
import os
from collections import defaultdict
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Decimal

GPU_CATEGORIES = {"kernel": "kernel", "Kernel": "kernel",
                  "gpu_memcpy": "memcpy", "Memcpy": "memcpy",
                  "gpu_memset": "memset", "Memset": "memset"}
RUNTIME_CATEGORIES = {"cuda_runtime", "cuda_driver", "hip_runtime", "hip_driver", "Runtime"}
CPU_CATEGORIES = {"cpu_op", "Operator"}
GRAPH_LAUNCHES = {"cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch"}


def nanoseconds(microseconds):
    """Nanoseconds of a decimal text (or an integer) of microseconds.

    A fourth decimal is rounded half to even; torch writes three at most.
    """
    text = str(microseconds)
    whole, _, fraction = text.partition(".")
    if len(fraction) <= 3 and whole.lstrip("-").isdigit() and (not fraction or fraction.isdigit()):
        sign = -1 if whole.startswith("-") else 1
        return int(whole) * 1000 + sign * int((fraction + "000")[:3])
    return int((Decimal(text) * 1000).to_integral_value(ROUND_HALF_EVEN))


@dataclass(slots=True)
class Call:
    """One runtime or driver call on a host thread."""
    name: str
    thread: tuple
    start: int
    end: int
    correlation: int | None = None

    @property
    def is_graph(self):
        return is_graph_launch(self.name)


@dataclass(slots=True)
class Op:
    """One kernel, copy or memory set on a device."""
    name: str
    kind: str
    device: object
    stream: object
    start: int
    end: int
    correlation: int | None = None
    grid: list | None = None
    bytes: int | None = None
    launch: Call | None = None

    @property
    def duration(self):
        return self.end - self.start

    @property
    def replay(self):
        """The correlation id of the graph launch that ran the op, else None."""
        return self.correlation if self.launch is not None and self.launch.is_graph else None


@dataclass(slots=True)
class Span:
    """A host op, a Python frame or an annotation."""
    name: str
    thread: tuple
    start: int
    end: int
    args: dict = field(default_factory=dict)


@dataclass
class Trace:
    ops: list = field(default_factory=list)
    calls: list = field(default_factory=list)
    cpu_ops: list = field(default_factory=list)
    frames: list = field(default_factory=list)
    annotations: list = field(default_factory=list)
    capability: int | None = None
    device_name: str = ""

    def main_ops(self):
        """Ops of the device with the most op time, sorted by start."""
        time_of = defaultdict(int)
        for op in self.ops:
            time_of[op.device] += op.duration
        if not time_of:
            return []
        device = max(time_of, key=lambda d: (time_of[d], str(d)))
        return [op for op in self.ops if op.device == device]


def is_graph_launch(name):
    return name.split("_ptsz")[0] in GRAPH_LAUNCHES


def link(trace):
    """Sort the ops and give each its launch: the call of the same correlation id."""
    by_correlation = {}
    for call in trace.calls:
        if call.correlation is None:
            continue
        known = by_correlation.get(call.correlation)
        if known is None or (not starts_work(known.name) and starts_work(call.name)):
            by_correlation[call.correlation] = call
    for op in trace.ops:
        op.launch = by_correlation.get(op.correlation)
    trace.ops.sort(key=lambda op: op.start)
    trace.calls.sort(key=lambda call: call.start)
    return trace


def starts_work(name):
    return any(word in name for word in ("Launch", "Memcpy", "Memset"))


def read(path):
    """The trace in `path`; ValueError where the content is none of the known ones."""
    if path.endswith(".csv"):
        return read_rocprof_csv(path)
    if path.endswith(".sqlite"):
        from . import nsys
        return nsys.read(path)
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8", errors="replace") as file:
        content = json.load(file, parse_float=str)
    if isinstance(content, dict) and "rocprofiler-sdk-tool" in content:
        return read_rocprof_json(content)
    events = content.get("traceEvents") if isinstance(content, dict) else content
    if not isinstance(events, list):
        raise ValueError(f"{path}: neither torch.profiler nor rocprofv3")
    properties = content.get("deviceProperties") or [] if isinstance(content, dict) else []
    return read_torch(events, properties)


def read_torch(events, properties=()):
    """A trace from torch.profiler events (times as text or integers of microseconds)."""
    trace = Trace()
    for event in events:
        if event.get("ph") != "X" or "ts" not in event:
            continue
        category, args = event.get("cat"), event.get("args") or {}
        start = nanoseconds(event["ts"])
        end = start + nanoseconds(event.get("dur", 0))
        name, thread = event.get("name", ""), (event.get("pid"), event.get("tid"))
        if category in GPU_CATEGORIES:
            trace.ops.append(Op(name, GPU_CATEGORIES[category], args.get("device", event.get("pid")),
                                args.get("stream", event.get("tid")), start, end,
                                args.get("correlation"), args.get("grid"), args.get("bytes")))
        elif category in RUNTIME_CATEGORIES:
            trace.calls.append(Call(name, thread, start, end, args.get("correlation")))
        elif category in CPU_CATEGORIES:
            trace.cpu_ops.append(Span(name, thread, start, end, args))
        elif category == "python_function":
            trace.frames.append(Span(name, thread, start, end))
        elif category == "user_annotation":
            trace.annotations.append(Span(name, thread, start, end))
    used = {op.device for op in trace.ops}
    for device in properties:
        if device.get("id") in used or len(properties) == 1:
            if "computeMajor" in device:
                trace.capability = 10 * device["computeMajor"] + device["computeMinor"]
            trace.device_name = device.get("name", "")
    return link(trace)


def read_rocprof_csv(path):
    """A trace from rocprofv3 CSV files: kernels, and graph launches if they were recorded."""
    trace = Trace()
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            grid = [int(row[f"Grid_Size_{axis}"]) // max(int(row[f"Workgroup_Size_{axis}"]), 1) for axis in "XYZ"]
            trace.ops.append(Op(row["Kernel_Name"], "kernel", row["Agent_Id"],
                                row.get("Stream_Id") or row["Queue_Id"], int(row["Start_Timestamp"]),
                                int(row["End_Timestamp"]), int(row["Correlation_Id"]), grid))
    api = path.replace("_kernel_trace.csv", "_hip_api_trace.csv")
    if api != path and os.path.exists(api):
        with open(api, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                thread = (int(row["Process_Id"]), int(row["Thread_Id"]))
                trace.calls.append(Call(row["Function"], thread, int(row["Start_Timestamp"]),
                                        int(row["End_Timestamp"]), int(row["Correlation_Id"])))
    return link(trace)


def read_rocprof_json(content):
    """A trace from rocprofv3's JSON: kernels and memory copies; launches are not needed here."""
    trace = Trace()
    for process in content["rocprofiler-sdk-tool"]:
        names = {symbol["kernel_id"]: symbol.get("formatted_kernel_name") or symbol.get("kernel_name", "")
                 for symbol in process["kernel_symbols"]}
        records = process["buffer_records"]
        for row in records.get("kernel_dispatch", []):
            info = row["dispatch_info"]
            trace.ops.append(Op(names.get(info["kernel_id"], "?"), "kernel", info["agent_id"]["handle"],
                                info["queue_id"]["handle"], row["start_timestamp"], row["end_timestamp"],
                                row["correlation_id"]["internal"]))
        for row in records.get("memory_copy", []):
            trace.ops.append(Op("memory copy", "memcpy", row["dst_agent_id"]["handle"], "copy",
                                row["start_timestamp"], row["end_timestamp"],
                                row["correlation_id"]["internal"]))
    return link(trace)


def union_ns(spans):
    """Length of the union of (start, end) pairs."""
    total, last = 0, None
    for start, end in sorted(spans):
        if last is None or start > last:
            total, last = total + end - start, end
        elif end > last:
            total, last = total + end - last, end
    return total
