"""Graph coverage: which ops a graph replay ran, per capture and per step.

Input: GPU ops with their launches, steps (lists of ops). An op is replayed when its launch is
cudaGraphLaunch, hipGraphLaunch or a driver form of them. Cost: O(ops).
"""
from collections import Counter
from statistics import median


def coverage(ops):
    """Counts and times of replayed and eager ops, and the ops per replay."""
    replayed = [op for op in ops if op.replay is not None]
    per_launch = sorted(Counter(op.replay for op in replayed).values())
    time = sum(op.duration for op in ops)
    replayed_time = sum(op.duration for op in replayed)
    result = {
        "launches": len(per_launch),
        "ops": len(ops),
        "replayed_ops": len(replayed),
        "replayed_ops_percent": percent(len(replayed), len(ops)),
        "replayed_time_percent": percent(replayed_time, time),
        "eager_ops": len(ops) - len(replayed),
        "eager_us": (time - replayed_time) / 1000,
        "ops_without_launch": sum(op.launch is None for op in ops),
    }
    if per_launch:
        result["ops_per_launch"] = {"min": per_launch[0], "median": median(per_launch), "max": per_launch[-1]}
    return result


def percent(part, whole):
    return round(100 * part / whole, 3) if whole else 0.0


def by_stage(steps):
    """Coverage of the steps of each kind, launches per step, and steps without any replay."""
    kinds = {}
    for step in steps:
        kinds.setdefault(step["kind"], []).append(step)
    rows = {}
    for kind, members in kinds.items():
        row = coverage([op for step in members for op in step["ops"]])
        launches = [len({op.replay for op in step["ops"]} - {None}) for step in members]
        row["steps"] = len(members)
        row["launches_per_step"] = {"min": min(launches), "median": median(launches), "max": max(launches)}
        row["steps_without_replay"] = [{"sequences": step["sequences"], "tokens": step["tokens"]}
                                       for step, count in zip(members, launches) if count == 0]
        rows[kind] = row
    return rows
