"""`examples/fleet/ray_facts.py` on a local Ray of two workers, of which one is killed in the middle.

Ray is large, so its packages have a lock file of their own: `GPUPRISM_RAY=1 cargo xtask python` installs them, too.
"""

import os
import pathlib
import signal
import subprocess
import sys
import time

import duckdb
import pytest

from conftest import ROOT

pytest.importorskip("ray", reason="Ray is not installed: GPUPRISM_RAY=1 cargo xtask python")
pytestmark = pytest.mark.skipif(not pathlib.Path("/proc/self/stat").exists(), reason="the worker to kill is found in /proc")

TRACES = 60
KERNELS = 30_000
ENVIRONMENT = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
SCRIPT = ROOT / "examples" / "fleet" / "ray_facts.py"


def trace(path: pathlib.Path, number: int, kernels: int) -> None:
    """Kernels of which the first one tells the traces apart."""
    event = '{"ph":"X","cat":"kernel","name":"k%d","pid":0,"tid":7,"ts":%d,"dur":%d,"args":{"device":0,"stream":7}}'
    events = [event % (index % 50, index * 100, 3 + number if index == 0 else 3) for index in range(kernels)]
    path.write_text('{"traceEvents":[' + ",".join(events) + "]}")


def descendants(pid: int) -> dict[int, str]:
    """The processes that this process started, and those that they started, with their command lines."""
    parents = {}
    for folder in pathlib.Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    lines = {}
    for child in found:
        try:
            lines[child] = pathlib.Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
    return lines


def rows(out: pathlib.Path, table: str, columns: str) -> list[tuple]:
    files = str(out / f"table={table}" / "*" / "*.parquet")
    query = f"SELECT {columns} FROM read_parquet('{files}', hive_partitioning = true, union_by_name = true) ORDER BY ALL"
    return duckdb.sql(query).fetchall()


def test_everything_arrives_once_although_a_worker_is_killed(tmp_path, command_line):
    source, out = tmp_path / "traces", tmp_path / "facts"
    (source / "more").mkdir(parents=True)
    for number in range(TRACES):
        trace((source / "more" if number % 2 else source) / f"{number}.json", number, KERNELS)
    (source / "damaged.json").write_text("no trace at all")
    trace(source / "large.json", 0, 4 * KERNELS)
    limit = 2 * max(path.stat().st_size for path in source.glob("more/*.json"))
    program = [sys.executable, SCRIPT, source, "--out", out, "--tag", "commit=1a", "--max-bytes", str(limit), "--cpus", "2", "--memory-gb", "0.5"]
    begin = time.monotonic()
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as child:
        killed = None
        while child.poll() is None and killed is None and time.monotonic() < begin + 300:
            written = len(list(out.glob("table=runs/*/facts.parquet")))
            workers = [pid for pid, line in descendants(child.pid).items() if line.startswith("ray::") and "Map" in line]
            if TRACES // 6 <= written < TRACES // 2 and workers:
                killed = workers[0]
                os.kill(killed, signal.SIGKILL)
            time.sleep(0.01)
        printed, errors = child.communicate(timeout=300)
    seconds = time.monotonic() - begin
    assert child.returncode == 0, errors
    assert killed is not None and written < TRACES / 2, "a worker was killed in the middle"
    print(f"{TRACES} traces in {seconds:.1f} s, worker {killed} killed after {written} of them\n{printed}")
    assert "2 failed" in printed

    runs = rows(out, "runs", "status, label, path, reason, tags")
    read = [row for row in runs if row[0] == "ok"]
    assert sorted(row[1] for row in read) == sorted(f"{number}.json" for number in range(TRACES)), "each once"
    assert {row[4] for row in runs} == {'{"commit":"1a"}'}
    failed = {row[1]: (row[2], row[3]) for row in runs if row[0] == "failed"}
    assert failed.keys() == {"damaged.json", "large.json"} and len(runs) == TRACES + 2
    assert failed["damaged.json"][0] == str(source / "damaged.json") and "damaged.json" in failed["damaged.json"][1]
    assert "more than the limit" in failed["large.json"][1]

    # The same tables as the command line writes, for the same files.
    own = tmp_path / "own"
    command_line("facts", source, "--out", own, "--tag", "commit=1a", "--max-bytes", limit, status=1)
    for table, columns in [("runs", "run, status, label, kernels, busy_ns, reason"), ("kernels", "run, name, count, duration_ns")]:
        assert rows(out, table, columns) == rows(own, table, columns), table

    # A second time nothing is read but the failures.
    done = subprocess.run(program, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    assert f"{TRACES + 2} runs: 0 written, {TRACES} already there, 2 failed" in done.stdout
    assert len(rows(out, "runs", "run")) == TRACES + 2


def test_an_object_storage_has_the_same_tables_and_is_not_read_twice(tmp_path, command_line):
    """pyarrow takes folders by URI, too: they are copied as the files of an object storage are."""
    source, out, own = tmp_path / "traces", tmp_path / "facts", tmp_path / "own"
    source.mkdir()
    for number in range(3):
        trace(source / f"{number}.json", number, 10)
    (source / "late.json").write_text("not there yet")
    trace(source / "large.json", 0, 1000)
    program = [sys.executable, SCRIPT, source.as_uri(), "--out", out.as_uri(), "--cpus", "2", "--memory-gb", "0.5", "--max-bytes", "20000"]

    def printed():
        done = subprocess.run(program, capture_output=True, text=True, env=ENVIRONMENT)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "5 runs: 3 written, 0 already there, 2 failed" in printed()
    columns = "run, status, label, kernels"
    command_line("facts", source, "--out", own, "--max-bytes", 20000, status=1)
    found, expected = rows(out, "runs", columns), rows(own, "runs", columns)
    # A failure is known by its path, which is a URI here.
    assert [row for row in found if row[1] == "ok"] == [row for row in expected if row[1] == "ok"] and len(found) == 5
    assert rows(out, "kernels", "*") == rows(own, "kernels", "*")
    paths = {row[0] for row in rows(out, "runs", "path")}
    assert paths == {f"file://{path}" for path in source.iterdir()}
    (source / "large.json").unlink()
    trace(source / "large.json", 7, 20)
    assert "5 runs: 1 written, 3 already there, 1 failed" in printed()
    assert len([row for row in rows(out, "runs", "status") if row[0] == "failed"]) == 1, "the row of the failure is gone"


def test_a_trace_that_ends_its_process_each_time_is_a_row(tmp_path):
    source, out, program = tmp_path / "traces", tmp_path / "facts", tmp_path / "poisoned.py"
    source.mkdir()
    for number, name in enumerate(["a.json", "poison.json", "z.json"]):
        trace(source / name, number, 10)
    call = "        runs = gpuprism.facts("
    poison = "        if 'poison' in paths[0] and not failure: os.kill(os.getpid(), 9)\n"
    text = SCRIPT.read_text(encoding="utf-8")
    assert text.count(call) == 1
    program.write_text(text.replace(call, poison + call), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, program, source, "--out", out, "--cpus", "2", "--memory-gb", "0.5"], capture_output=True, text=True, env=ENVIRONMENT
    )
    assert done.returncode == 0, done.stderr
    assert "3 runs: 2 written, 0 already there, 1 failed" in done.stdout
    assert [row[0] for row in rows(out, "runs", "label") if row] == ["a.json", "poison.json", "z.json"]
    ((label, reason),) = [row for row in rows(out, "runs", "label, reason") if row[1]]
    assert label == "poison.json" and "killed in each of 3 attempts" in reason
