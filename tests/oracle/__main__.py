"""Prints one JSON object per trace with all numbers of this package.

usage: python3 -m tests.oracle FILE...   (from the repository root)
       python3 tests/oracle FILE...
Cost: reading the file dominates; about a second for 200,000 events.
"""
import json
import os
import sys

if not __package__:
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    __package__ = "oracle"
    import oracle  # noqa: F401  the package that the relative imports below refer to

from . import blame, costs, graphs, layers, steps, trace, unsuited  # noqa: E402


def analyse(path, drop=()):
    """Every number of one trace file as plain data."""
    data = trace.read(path)
    ops = data.main_ops()
    found = steps.find(data, drop)
    idle = blame.gaps(ops, data.calls)
    owner = {id(op): index for index, step in enumerate(found["steps"]) for op in step["ops"]}
    for index, step in enumerate(found["steps"]):
        step["idle_by_class"] = blame.by_class([g for g in idle if owner.get(id(g["op"])) == index])
    folded = [layers.fold(step["ops"]) for step in found["steps"]] or ([layers.fold(ops)] if ops else [])
    amd = any("hip" in call.name for call in data.calls) or "AMD" in data.device_name
    return {
        "file": os.path.basename(path), "device": data.device_name, "capability": data.capability,
        "steps": {key: value for key, value in found.items() if key != "steps"}
        | {"count": len(found["steps"]),
           "list": [{k: v for k, v in step.items() if k != "ops"} for step in found["steps"]]},
        "layers": folded[:1] if len({json.dumps(f.get("pattern")) for f in folded}) == 1 else folded,
        "gaps": blame.by_class(idle), "blame": blame.blame(idle, data),
        "graphs": graphs.coverage(ops), "graphs_by_stage": graphs.by_stage(found["steps"]),
        "unsuited": unsuited.find(ops, data.capability, amd),
        "unsuited_all_devices": all_devices(data, amd),
        "costs": costs.table(data),
    }


def all_devices(data, amd):
    """Hits of the unsuited tests summed over the devices of the capture."""
    totals = {}
    for device in {op.device for op in data.ops}:
        for name, row in unsuited.find([op for op in data.ops if op.device == device], data.capability, amd).items():
            total = totals.setdefault(name, {"n": 0, "us": 0})
            total["n"] += row["n"]
            total["us"] += row["us"]
    return totals


def main(paths):
    if not paths:
        sys.exit(__doc__)
    for path in paths:
        print(json.dumps(analyse(path), indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
