"""`gpuprism facts` and the DuckDB queries of `examples/fleet/`: each query runs, and finds what generated runs contain."""

import json
import os
import pathlib
import re

import duckdb
import pytest

from conftest import ROOT

import gpuprism

FLEET = ROOT / "examples" / "fleet"
QUERIES = sorted(path.name for path in FLEET.glob("*.sql") if path.name != "views.sql")


def server(path: pathlib.Path, gemm_us: float, pause_us: float = 40.0) -> pathlib.Path:
    """Four decode steps of eight layers. The host is late before each step, or has no request. One GEMM has a given duration."""
    events, now, call = [], 1000.0, 1
    for _ in range(4):
        start = now
        for name, duration in [("nvjet_tst_64x16", gemm_us), ("flash_fwd_splitkv_kernel", 9.0), ("fused_add_rmsnorm", 3.0)] * 8:
            launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": now - 5, "dur": 2}
            kernel = {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": now, "dur": duration}
            arguments = {"correlation": call}
            events += [launch | {"args": arguments}, kernel | {"args": arguments | {"device": 0, "stream": 7}}]
            now, call = now + duration + 1, call + 1
        step = {"ph": "X", "cat": "user_annotation", "name": "step[DECODE bs=8]", "pid": 9, "tid": 9}
        events.append(step | {"ts": start - 8, "dur": now - start})
        now += pause_us
    device = {"id": 0, "name": "NVIDIA H100 80GB HBM3"}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"deviceProperties": [device], "traceEvents": events}))
    return path


@pytest.fixture(scope="module")
def facts(tmp_path_factory, command_line):
    """Three runs of a commit, three of the next one with a slower GEMM, a job with a slow rank, and a file that is no trace."""
    folder = tmp_path_factory.mktemp("fleet")
    out = folder / "facts"
    for number, (commit, gemm_us) in enumerate([("old", 10.0), ("new", 12.0)]):
        for run in range(3):
            trace = server(folder / commit / f"{run}.json", gemm_us + run / 100)
            os.utime(trace, (1_750_000_000 + 86_400 * number,) * 2)
        command_line("facts", folder / commit, "--out", out, "--tag", f"commit={commit}", "--tag", "host=h1")
    for rank in range(4):
        server(folder / "job" / f"rank{rank}.json", 13.0 if rank == 2 else 10.5 + rank / 1000)
    command_line("facts", folder / "job", "--out", out)
    (folder / "broken.json").write_text("no trace")
    # What can be read is written although a file fails.
    errors = command_line("facts", folder / "broken.json", folder / "job", "--out", out, status=1)
    assert "broken.json: failed: " in errors and errors.count("already there") == 4
    return out


def test_python_writes_the_tables_of_the_command_line(facts, tmp_path):
    source, out = facts.parent, tmp_path / "facts"
    for commit in ("old", "new"):
        runs = gpuprism.facts(source / commit, out, tags={"commit": commit, "host": "h1"}, jobs=2)
        assert [run["outcome"] for run in runs] == ["written"] * 3
    gpuprism.facts([source / "job"], out)
    (failed,) = gpuprism.facts(str(source / "broken.json"), str(out))
    assert failed["outcome"] == "failed" and "broken.json" in failed["reason"]
    (large,) = gpuprism.facts(source / "old" / "0.json", tmp_path / "other", max_bytes=10, source="s3://bucket/0.json")
    assert large["outcome"] == "failed" and "more than the limit of 10" in large["reason"]
    for table in os.listdir(facts):
        files = [f"read_parquet('{folder / table}/*/*.parquet', hive_partitioning = true, union_by_name = true)" for folder in (facts, out)]
        if table != "facts.json":
            own, other = (duckdb.sql(f"SELECT * FROM {file} ORDER BY ALL").fetchall() for file in files)
            assert own == other and own, table
    with pytest.raises(gpuprism.Error, match="no trace in this folder"):
        gpuprism.facts(tmp_path, out)


def compacted(facts: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """An archive by the statement in docs/fleet.md, which is a loop of the shell around DuckDB's program."""
    line = next(line for line in (ROOT / "docs" / "fleet.md").read_text(encoding="utf-8").splitlines() if "COPY (SELECT" in line)
    statement = re.search(r'duckdb -c "(.*)"; done', line)[1].replace('\\"', '"')
    for table in facts.glob("table=*"):
        target = folder / "archive" / table.name / "part=2026-01"
        target.mkdir(parents=True)
        own = statement.replace("$table", str(table)).replace("archive/${table##*/}/part=2026-01", str(target))
        assert "$" not in own
        duckdb.sql(own)
    return folder / "archive"


def test_names_of_traces_are_those_of_the_formats():
    names = ["a.json.gz", "x.sqlite", "r.rpd", "1_kernel_trace.csv.gz", "config.json", "notes.txt"]
    assert [gpuprism.is_trace_name(name) for name in names] == [True] * 4 + [False] * 2


def test_files_of_one_run_are_together_and_each_other_file_is_alone():
    paths = ["d/1_hip_api_trace.csv", "d/a.json", "d/1_kernel_trace.csv.gz", "d/2_kernel_trace.csv"]
    assert gpuprism.files_by_run(paths) == [["d/1_kernel_trace.csv.gz", "d/1_hip_api_trace.csv"], ["d/a.json"], ["d/2_kernel_trace.csv"]]


def test_each_run_of_a_folder_elsewhere_has_its_own_path(tmp_path):
    runs = [server(tmp_path / f"{number}.json", 10.0 + number) for number in range(2)]
    gpuprism.facts(runs, tmp_path / "facts", source="s3://bucket/traces/0.json")
    files = f"{tmp_path / 'facts'}/table=runs/*/*.parquet"
    found = duckdb.sql(f"SELECT path, label FROM read_parquet('{files}', hive_partitioning = true) ORDER BY ALL").fetchall()
    assert found == [(f"s3://bucket/traces/{number}.json", f"{number}.json") for number in range(2)]


def test_a_compacted_archive_answers_as_the_folder_does(facts, tmp_path, command_line, monkeypatch):
    archive, answers = compacted(facts, tmp_path), {}
    assert len(list(archive.rglob("*.parquet"))) == len(list(facts.glob("table=*")))
    for folder in (facts, archive):
        monkeypatch.chdir(folder)
        database = duckdb.connect()
        database.execute((FLEET / "views.sql").read_text())
        for query in QUERIES:
            if query != "bandwidth_use.sql":
                found = sorted(map(str, database.sql((FLEET / query).read_text()).fetchall()))
                assert answers.setdefault(query, found) == found, query
    histories = [json.loads(command_line("trend", *folders, "--format", "json")) for folders in ([facts], [archive], [facts, archive])]
    assert histories[0]["series"] and histories[0] == histories[1] == histories[2]


@pytest.fixture
def answer(facts, monkeypatch):
    """The rows of a query, as dictionaries."""
    monkeypatch.chdir(facts)
    database = duckdb.connect()
    database.execute((FLEET / "views.sql").read_text())

    def rows(query: str):
        found = database.sql((FLEET / query).read_text())
        return [dict(zip(found.columns, row)) for row in found.fetchall()]

    return rows


@pytest.mark.parametrize("query", [query for query in QUERIES if query != "bandwidth_use.sql"])
def test_every_query_answers(answer, query):
    assert answer(query), query


def test_a_kernel_that_became_slower_is_found_with_its_cost(answer):
    (row,) = answer("kernel_regression.sql")
    assert (row["kernel"], row["before"], row["after"]) == ("nvjet_tst_64x16", "old", "new")
    # 10.01 us became 12.01 us, in 32 launches of each of three runs.
    assert (row["before_us"], row["after_us"], row["slower_pct"]) == (10.01, 12.01, 20.0)
    assert (float(row["cost_ms"]), row["runs"]) == (0.19, 3)


def test_the_slow_rank_of_a_job_is_found(answer):
    (row,) = answer("slow_ranks.sql")
    assert (row["label"], row["ranks"]) == ("rank2.json", 4)


def rank(path: pathlib.Path, own_us: float, collective_us: float) -> None:
    """Four decode steps: the work of the rank, and a collective that ends when the last rank has come."""
    events, now = [], 1000.0
    for _ in range(4):
        for name, duration in [("nvjet_tst_64x16", own_us), ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", collective_us)]:
            arguments = {"correlation": len(events), "device": 0, "stream": 7}
            events.append({"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": now, "dur": duration, "args": arguments})
            now += duration
        step = {"ph": "X", "cat": "user_annotation", "name": "step[DECODE bs=8]", "pid": 9, "tid": 9}
        events.append(step | {"ts": now - own_us - collective_us, "dur": own_us + collective_us - 1})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"traceEvents": events}))


def test_the_rank_that_comes_last_delays_the_others_though_all_steps_are_equally_long(tmp_path, command_line, monkeypatch):
    for number, own_us in enumerate([100.0, 101.0, 180.0, 102.0]):
        rank(tmp_path / "job" / f"rank{number}.json", own_us, 200.0 - own_us)
    command_line("facts", tmp_path / "job", "--out", tmp_path / "facts")
    monkeypatch.chdir(tmp_path / "facts")
    database = duckdb.connect()
    database.execute((FLEET / "views.sql").read_text().replace("CREATE VIEW graphs", "-- CREATE VIEW graphs"))
    found = database.sql((FLEET / "slow_ranks.sql").read_text())
    (row,) = [dict(zip(found.columns, row)) for row in found.fetchall()]
    assert (row["label"], float(row["others_wait_ms"])) == ("rank2.json", 0.079)


def test_a_host_without_requests_is_not_late(tmp_path, command_line, monkeypatch):
    for host, pause_us in [("busy", 40.0), ("idle", 1e6)]:
        trace = server(tmp_path / f"{host}.json", 10.0, pause_us)
        command_line("facts", trace, "--out", tmp_path / "facts", "--tag", f"host={host}")
    monkeypatch.chdir(tmp_path / "facts")
    database = duckdb.connect()
    database.execute((FLEET / "views.sql").read_text())
    found = database.sql((FLEET / "late_hosts.sql").read_text())
    rows = {row[0]: dict(zip(found.columns, row)) for row in found.fetchall()}
    assert "busy" in rows and rows["busy"]["waiting_pct"] > 10
    assert "idle" not in rows or rows["idle"]["waiting_s"] < 0.001


def test_a_failed_run_is_listed_with_its_reason(answer):
    (row,) = answer("failures.sql")
    assert row["runs"] == 1 and row["example"].endswith("broken.json") and "broken.json" in row["reason"]


def test_times_of_steps_have_a_day_each(answer):
    days = [row for row in answer("step_time.sql") if str(row["day"]).startswith("2025-06")]
    assert [row["runs"] for row in days] == [3, 3] and days[0]["step_ms"] < days[1]["step_ms"]
