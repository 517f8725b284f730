"""Reads GPU ops and calls from an Nsight Systems SQLite export.

Input: the tables of kernels, copies, memory sets, runtime calls and strings; tables that an
export lacks count as empty. A call belongs to an op by (process, correlation id). Cost: O(n log n).
"""
import sqlite3

from .trace import Call, Op, Trace, link


def rows(base, table, columns):
    """Rows of a table with the wanted columns; a column that is missing gives None."""
    known = {row[1] for row in base.execute(f"PRAGMA table_info({table})")}
    if not known:
        return
    wanted = ", ".join(column if column in known else "NULL" for column in columns)
    yield from base.execute(f"SELECT {wanted} FROM {table}")


def process(value):
    """The process part of a global id: bits 24 to 47."""
    return None if value is None else (value >> 24) & 0xFFFFFF


def read(path):
    trace = Trace()
    base = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    names = dict(rows(base, "StringIds", ("id", "value")))
    place = ("start", "end", "deviceId", "streamId", "globalPid", "correlationId")
    for *where, full, short, x, y, z in rows(base, "CUPTI_ACTIVITY_KIND_KERNEL", place + (
            "demangledName", "shortName", "gridX", "gridY", "gridZ")):
        trace.ops.append(op(names.get(full) or names.get(short, "?"), "kernel", where, [x, y, z]))
    for *where, size in rows(base, "CUPTI_ACTIVITY_KIND_MEMCPY", place + ("bytes",)):
        trace.ops.append(op("Memcpy", "memcpy", where, None, size))
    for *where, size in rows(base, "CUPTI_ACTIVITY_KIND_MEMSET", place + ("bytes",)):
        trace.ops.append(op("Memset", "memset", where, None, size))
    for start, end, thread, name, correlation in rows(base, "CUPTI_ACTIVITY_KIND_RUNTIME", (
            "start", "end", "globalTid", "nameId", "correlationId")):
        trace.calls.append(Call(names.get(name, "?").split("_v")[0], (process(thread), thread), start, end,
                                (process(thread), correlation)))
    base.close()
    return link(trace)


def op(name, kind, where, grid, size=None):
    start, end, device, stream, owner, correlation = where
    return Op(name, kind, device, stream, start, end, (process(owner), correlation), grid, size)
