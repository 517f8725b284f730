"""Writes a large rocpd database, the default of rocprofv3 (ROCm 7), for measurements. The rows are the same on every run.

usage: python3 rocpd.py OUT.db [MILLIONS]

Writes that many million kernels (default 3), each with the HIP call that launched it, and a marker for every 32 kernels. Tables and
columns are those of rocprofiler-sdk's schema 3, with the GUID in every row. A million takes about 380 MB. No number in it was measured.
"""
import os
import sqlite3
import sys

GUID = "0000a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b"
SUFFIX = "_" + GUID.replace("-", "_")
START_NS = 1_704_161_511_420_000_000
MILLION = 1_000_000
CHUNK = 10_000
PER_MARKER = 32
NAMES = [f"void ck::kernel_gemm_xdl_cshuffle_v3<ck::Gemm_{i}>(ck::Argument)" for i in range(40)]

SCHEMA = """
CREATE TABLE rocpd_metadata_U (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, tag TEXT NOT NULL, value TEXT NOT NULL);
CREATE TABLE rocpd_string_U (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, guid TEXT, string TEXT NOT NULL UNIQUE);
CREATE TABLE rocpd_info_process_U (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, ppid INTEGER, pid INTEGER);
CREATE TABLE rocpd_info_thread_U (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, ppid INTEGER, pid INTEGER, tid INTEGER, name TEXT);
CREATE TABLE rocpd_info_agent_U (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, type TEXT, absolute_index INTEGER,
  logical_index INTEGER, name TEXT, product_name TEXT, extdata TEXT);
CREATE TABLE rocpd_info_kernel_symbol_U (id INTEGER PRIMARY KEY, guid TEXT, kernel_name TEXT, display_name TEXT);
CREATE TABLE rocpd_event_U (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, guid TEXT, category_id INTEGER, stack_id INTEGER,
  parent_stack_id INTEGER, correlation_id INTEGER, call_stack TEXT DEFAULT '{}', line_info TEXT DEFAULT '{}', extdata TEXT DEFAULT '{}');
CREATE TABLE rocpd_region_U (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER,
  start BIGINT NOT NULL, "end" BIGINT NOT NULL, name_id INTEGER NOT NULL, event_id INTEGER, extdata TEXT DEFAULT '{}');
CREATE TABLE rocpd_kernel_dispatch_U (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER,
  agent_id INTEGER, kernel_id INTEGER, dispatch_id INTEGER, queue_id INTEGER, stream_id INTEGER, start BIGINT NOT NULL,
  "end" BIGINT NOT NULL, private_segment_size INTEGER, group_segment_size INTEGER, workgroup_size_x INTEGER, workgroup_size_y INTEGER,
  workgroup_size_z INTEGER, grid_size_x INTEGER, grid_size_y INTEGER, grid_size_z INTEGER, region_name_id INTEGER, event_id INTEGER,
  extdata TEXT DEFAULT '{}');
"""


def fill(base, kernels):
    strings = ["HIP_RUNTIME_API", "hipLaunchKernel", "MARKER_CORE_API", "roctxRangePush", "KERNEL_DISPATCH"]
    base.executemany("INSERT INTO rocpd_string_U VALUES (?, ?, ?)", [(i + 1, GUID, s) for i, s in enumerate(strings)])
    base.execute("INSERT INTO rocpd_info_process_U VALUES (1, ?, 1, 1, 4711)", [GUID])
    base.execute("INSERT INTO rocpd_info_thread_U VALUES (1, ?, 1, 1, 1, 4711, 'python')", [GUID])
    for agent in range(8):
        values = [agent + 1, GUID, 1, 1, "GPU", agent, agent, "gfx942", "AMD Instinct MI300X", '{"cu_count": 304}']
        base.execute("INSERT INTO rocpd_info_agent_U VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
    base.executemany("INSERT INTO rocpd_info_kernel_symbol_U VALUES (?, ?, ?, ?)", [(i + 1, GUID, "_Z.kd", n) for i, n in enumerate(NAMES)])
    event, stack = 0, 0
    for first in range(0, kernels, CHUNK):
        events, regions, dispatches = [], [], []
        for number in range(first, min(first + CHUNK, kernels)):
            start, stack = START_NS + number * 10_000, stack + 1
            if number % PER_MARKER == 0:
                event, stack = event + 1, stack + 1
                events.append((event, GUID, 3, stack - 1, 0, 0))
                regions.append((GUID, 1, 1, 1, start - 9_000, start + PER_MARKER * 10_000 - 9_500, 4, event, '{"message": "layer"}'))
            events.append((event + 1, GUID, 1, stack, 0, 0))
            events.append((event + 2, GUID, 5, stack, 0, 0))
            regions.append((GUID, 1, 1, 1, start - 8_000, start - 5_000, 2, event + 1, "{}"))
            sizes = (0, 65536, 256, 1, 1, 19456, 1, 1, 1)
            agent = number % 8 + 1
            dispatches.append((GUID, 1, 1, 1, agent, number % 40 + 1, number, 1, 1, start, start + 7_000, *sizes, event + 2))
            event += 2
        base.executemany("INSERT INTO rocpd_event_U (id, guid, category_id, stack_id, parent_stack_id, correlation_id) VALUES (?, ?, ?, ?, ?, ?)", events)
        base.executemany('INSERT INTO rocpd_region_U (guid, nid, pid, tid, start, "end", name_id, event_id, extdata) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)', regions)
        base.executemany(
            "INSERT INTO rocpd_kernel_dispatch_U (guid, nid, pid, tid, agent_id, kernel_id, dispatch_id, queue_id, stream_id, start,"
            ' "end", private_segment_size, group_segment_size, workgroup_size_x, workgroup_size_y, workgroup_size_z, grid_size_x,'
            f" grid_size_y, grid_size_z, region_name_id, event_id) VALUES ({', '.join(['?'] * 21)})",
            dispatches,
        )


class Renamed:
    """A database whose tables have the suffix of the process."""

    def __init__(self, base):
        self.base = base

    def execute(self, sql, values=()):
        self.base.execute(sql.replace("_U ", SUFFIX + " "), values)

    def executemany(self, sql, rows):
        self.base.executemany(sql.replace("_U ", SUFFIX + " "), rows)


def main():
    out, kernels = sys.argv[1], int(float(sys.argv[2] if len(sys.argv) > 2 else 3) * MILLION)
    if os.path.exists(out):
        os.remove(out)
    base = sqlite3.connect(out)
    base.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + SCHEMA.replace("_U ", SUFFIX + " "))
    fill(Renamed(base), kernels)
    base.commit()


if __name__ == "__main__":
    main()
