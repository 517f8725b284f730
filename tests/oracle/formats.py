"""Plain facts of a trace of another profiler than torch.profiler and Nsight Systems, from the raw file.

usage: python3 formats.py FILE...   (the files of one run)

Prints one JSON object: kernels, gpu_ops, union_ns (time with at least one op running, per device, summed), by_name (count
and total of each name, in ns; the tree of Proton has only these), and read_bytes (by name, of the counter FETCH_SIZE of rocprofv3, in KB of 1024 bytes). Slow and obvious; shares no code with the program. Times never pass through floats.
"""
import csv
import gzip
import json
import sqlite3
import sys
from collections import defaultdict
from decimal import Decimal

COPIES = {"HOST_TO_DEVICE": "Memcpy HtoD", "DEVICE_TO_HOST": "Memcpy DtoH", "DEVICE_TO_DEVICE": "Memcpy DtoD"}


def ns(microseconds):
    return int(Decimal(str(microseconds).strip()) * 1000)


def rocprof_csv(paths):
    for path in paths:
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                if "Kernel_Name" in row:
                    start, end = int(row["Start_Timestamp"]), int(row["End_Timestamp"])
                    yield row["Agent_Id"], start, end, row["Kernel_Name"], True
                elif "Direction" in row:
                    name = COPIES[row["Direction"].replace("MEMORY_COPY_", "")]
                    agent = row["Destination_Agent_Id"] if name.endswith("D") else row["Source_Agent_Id"]
                    yield agent, int(row["Start_Timestamp"]), int(row["End_Timestamp"]), name, False


def rocprof_json(trace):
    for tool in trace["rocprofiler-sdk-tool"]:
        names = {symbol["kernel_id"]: symbol["formatted_kernel_name"] for symbol in tool["kernel_symbols"]}
        for record in tool["buffer_records"]["kernel_dispatch"]:
            info = record["dispatch_info"]
            name = names[info["kernel_id"]]
            yield info["agent_id"]["handle"], record["start_timestamp"], record["end_timestamp"], name, True


def read_bytes(paths):
    """Bytes read by name of the kernel; every value is a whole number of bytes."""
    names = defaultdict(Decimal)
    for path in paths:
        if path.endswith("_counter_collection.csv"):
            with open(path, newline="") as file:
                for row in csv.DictReader(file):
                    if row["Counter_Name"] == "FETCH_SIZE":
                        names[row["Kernel_Name"]] += Decimal(row["Counter_Value"]) * 1024
    return {name: int(total) for name, total in names.items()}


def rpd(path):
    base = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    texts = dict(base.execute("SELECT id, string FROM rocpd_string"))
    for gpu, start, end, name, kind in base.execute(
        'SELECT gpuId, start, "end", description_id, opType_id FROM rocpd_op'
    ):
        yield gpu, start, end, texts[name] or texts[kind], texts[kind] == "KernelExecution"


def rpd_chrome(events):
    gpus = {event["pid"] for event in events if event.get("name") == "process_name" and event["args"]["name"].startswith("GPU")}
    for event in events:
        if event.get("ph") == "X" and event["pid"] in gpus:
            start = ns(event["ts"])
            yield event["pid"], start, start + ns(event["dur"]), event["name"], event["args"]["desc"] == "KernelExecution"


def ops(paths):
    first = paths[0]
    if first.endswith(".csv"):
        return rocprof_csv(paths)
    if first.endswith(".rpd") or first.endswith(".sqlite"):
        return rpd(first)
    with gzip.open(first, "rt") if first.endswith(".gz") else open(first) as file:
        trace = json.load(file, parse_float=Decimal)
    return rpd_chrome(trace) if isinstance(trace, list) else rocprof_json(trace)


def proton_tree(frames):
    """Count and total of each kernel: the frames that have a device."""
    names, left = defaultdict(lambda: [0, 0]), list(frames)
    while left:
        frame = left.pop()
        left += frame.get("children", [])
        metrics = frame.get("metrics", {})
        if "device_id" in metrics:
            names[frame["frame"]["name"]][0] += metrics["count"]
            names[frame["frame"]["name"]][1] += metrics["time (ns)"]
    return {"kernels": sum(count for count, _ in names.values()), "by_name": names}


def facts(rows):
    rows = list(rows)
    devices, names = defaultdict(list), defaultdict(lambda: [0, 0])
    for device, start, end, name, _ in rows:
        devices[device].append((start, end))
        names[name][0] += 1
        names[name][1] += end - start
    union = 0
    for spans in devices.values():
        reach = None
        for start, end in sorted(spans):
            union += max(0, end - (start if reach is None else max(start, reach)))
            reach = end if reach is None else max(reach, end)
    return {"gpu_ops": len(rows), "kernels": sum(row[4] for row in rows), "union_ns": union, "by_name": names}


if __name__ == "__main__":
    if sys.argv[1].endswith(".hatchet"):
        with open(sys.argv[1]) as tree:
            print(json.dumps(proton_tree(json.load(tree))))
        sys.exit()
    print(json.dumps({**facts(ops(sys.argv[1:])), "read_bytes": read_bytes(sys.argv[1:])}))
