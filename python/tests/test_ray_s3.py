"""`examples/fleet/ray_facts.py` with traces and facts on an S3 server that emulates the protocol, and that fails.

All tests have one Ray: it starts for longer than a test runs.
"""

import importlib.util
import sys

import duckdb
import pyarrow.dataset
import pytest

from conftest import ROOT

ray = pytest.importorskip("ray", reason="Ray is not installed: GPUPRISM_RAY=1 cargo xtask python")
pytest.importorskip("moto", reason="the S3 server moto is not installed: GPUPRISM_RAY=1 cargo xtask python")

import gpuprism
import s3_server

TRACES = 4
KERNELS = 50


def trace(number: int, kernels: int = KERNELS) -> bytes:
    """Kernels of which the first one tells the traces apart."""
    event = '{"ph":"X","cat":"kernel","name":"k%d","pid":0,"tid":7,"ts":%d,"dur":%d,"args":{"device":0,"stream":7}}'
    events = [event % (index % 5, index * 100, 3 + number if index == 0 else 3) for index in range(kernels)]
    return ('{"traceEvents":[' + ",".join(events) + "]}").encode()


@pytest.fixture(scope="module")
def server():
    """The server, and a Ray of two processors whose workers find it as those of a cluster do: by the environment."""
    with s3_server.serve() as storage, pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://{storage.endpoint}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "RAY_USAGE_STATS_ENABLED": "0",
        }.items():
            patch.setenv(name, value)
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="warning")
        try:
            yield storage
        finally:
            ray.shutdown()


@pytest.fixture
def storage(server, request):
    """The server with a bucket for this test."""
    server.bucket = request.node.name.replace("_", "-")[:63].strip("-")
    server.system.create_dir(server.bucket)
    server.front.failures.clear()
    server.requests()
    return server


@pytest.fixture
def script(server, monkeypatch, capsys):
    """Runs `main` of the script as the command line does, and returns what it prints."""
    spec = importlib.util.spec_from_file_location("ray_facts", ROOT / "examples" / "fleet" / "ray_facts.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # The workers get the code of the module, because they cannot import it.
    monkeypatch.setitem(sys.modules, "ray_facts", module)
    ray.cloudpickle.register_pickle_by_value(module)
    monkeypatch.setattr(ray, "init", lambda **options: None)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["ray_facts.py", *arguments, "--memory-gb", "0.5"])
        module.main()
        return capsys.readouterr().out

    run.module = module
    yield run
    ray.cloudpickle.unregister_pickle_by_value(module)


def rows(folder, table, columns, system=None):
    """Rows of a table by DuckDB. It reads S3 with pyarrow, because its own extension for that is a download."""
    files = pyarrow.dataset.dataset(f"{folder}/table={table}", filesystem=system, format="parquet", partitioning="hive")
    return duckdb.from_arrow(files).query("facts", f"SELECT {columns} FROM facts ORDER BY ALL").fetchall()


def test_all_traces_arrive_once_although_the_storage_is_busy(storage, script, tmp_path, command_line):
    bucket, own = storage.bucket, tmp_path / "own"
    files = {f"{'more/' if number % 2 else ''}{number}.json": trace(number) for number in range(TRACES)}
    files |= {"damaged.json": b"no trace at all", "large.json": trace(0, 10 * KERNELS), "more/capture.json": b'{"model":"beside"}'}
    limit = str(2 * len(files["0.json"]))
    for name, data in files.items():
        storage.write(f"{bucket}/traces/{name}", data)
        (tmp_path / "traces" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "traces" / name).write_bytes(data)
    arguments = [f"s3://{bucket}/traces", "--out", f"s3://{bucket}/facts", "--tag", "commit=1a", "--max-bytes", limit]
    storage.front.fail("GET", f"/{bucket}/traces/0.json", s3_server.BUSY, 2)
    storage.front.fail("PUT", f"/{bucket}/facts/facts.json", s3_server.BUSY, 1)
    assert f"{TRACES + 2} runs: {TRACES} written, 0 already there, 2 failed" in script(*arguments)
    assert [left for _, left in storage.front.failures.values()] == [0, 0], "the storage was busy"
    requests = storage.requests()
    assert requests["GET", f"/{bucket}/traces/0.json"] == 3, "twice in vain, and once for all of it"
    made = [path for (method, path), _ in requests.items() if method == "PUT" and path.endswith("/")]
    assert made == [], "no objects for folders"

    # The same as on a disk. A failure is known by its path, which is a URI here.
    command_line("facts", tmp_path / "traces", "--out", own, "--tag", "commit=1a", "--max-bytes", limit, status=1)
    for table, columns in [("runs", "run, label, model, tags, kernels, busy_ns"), ("kernels", "*"), ("devices", "*")]:
        where = " WHERE status = 'ok'" if table == "runs" else ""
        query = f"{columns} FROM facts{where} --"
        assert rows(f"{bucket}/facts", table, query, storage.system) == rows(own, table, query), table
    found = rows(f"{bucket}/facts", "runs", "status, path, reason", storage.system)
    paths = {f"s3://{bucket}/traces/{name}" for name in files if name != "more/capture.json"}
    assert {path for _, path, _ in found} == paths and len(found) == TRACES + 2
    failed = {path.rpartition("/")[2]: reason for status, path, reason in found if status == "failed"}
    assert failed.keys() == {"damaged.json", "large.json"}
    assert "without the header" in failed["damaged.json"] and "more than the limit" in failed["large.json"]
    assert requests["GET", f"/{bucket}/traces/large.json"] == 0, "not even copied"

    before = storage.objects(f"{bucket}/facts")
    storage.requests()
    assert f"{TRACES + 2} runs: 0 written, {TRACES} already there, 2 failed" in script(*arguments)
    written = {path for method, path in storage.requests() if method in ("PUT", "POST", "DELETE")}
    assert len(written) == 2 and all(path.endswith("/failed.parquet") for path in written), "only failures are tried again"
    assert storage.objects(f"{bucket}/facts") == before


def test_a_trace_that_the_storage_refuses_does_not_take_others_with_it(storage, script, monkeypatch):
    bucket = storage.bucket
    for number, name in enumerate(["a", "denied", "late", "z"]):
        storage.write(f"{bucket}/traces/{name}.json", trace(number))
    # Both options are in the URI: the server, and to write a small object by one request.
    options = f"?endpoint_override={storage.endpoint}&scheme=http&allow_delayed_open=true"
    arguments = [f"s3://{bucket}/traces{options}", "--out", f"s3://{bucket}/facts{options}"]
    # One task has all traces.
    monkeypatch.setattr(script.module, "TASKS_PER_PROCESSOR", 0.5)
    monkeypatch.setattr(script.module, "PAUSE_S", 0.1)
    storage.front.fail("HEAD", f"/{bucket}/traces/late.json", s3_server.DENIED, 1)
    storage.front.fail("HEAD", f"/{bucket}/traces/denied.json", s3_server.DENIED, 1000)
    assert "4 runs: 3 written, 0 already there, 1 failed" in script(*arguments)
    (failed,) = rows(f"{bucket}/facts", "runs", "label, reason FROM facts WHERE status = 'failed' --", storage.system)
    assert failed[0] == "denied.json" and "in each of 3 attempts" in failed[1] and "ACCESS_DENIED" in failed[1]
    uploads = [path for method, path in storage.requests() if method == "POST" and "/facts/" in path]
    assert uploads == [], "each object by one request"

    storage.front.failures.clear()
    assert "4 runs: 1 written, 3 already there, 0 failed" in script(*arguments)
    found = rows(f"{bucket}/facts", "runs", "label, status", storage.system)
    assert found == [(f"{name}.json", "ok") for name in ("a", "denied", "late", "z")], "the row of the failure is gone"


def test_the_row_that_says_that_all_runs_of_a_report_are_there_comes_last(storage, script, tmp_path, command_line):
    bucket, files = storage.bucket, [tmp_path / f"{number}.json" for number in range(3)]
    for number, file in enumerate(files):
        file.write_bytes(trace(number))
    report = command_line("report", *files, "--format", "json")
    storage.write(f"{bucket}/traces/report.json", report.encode())
    assert "1 runs: 1 written" in script(f"s3://{bucket}/traces", "--out", f"s3://{bucket}/facts")
    written = [path.split("/")[-3:-1] for method, path in storage.requests() if method == "PUT"]
    assert [table for table, _ in written[-3:]] == ["table=runs"] * 3
    assert len(written[-1][1]) < len(written[-2][1]) == len(written[-3][1]), "the other runs have a number"
    assert "1 runs: 0 written, 1 already there" in script(f"s3://{bucket}/traces", "--out", f"s3://{bucket}/facts")


def test_traces_whose_task_failed_are_named_and_no_row_says_that_they_cannot_be_read(storage, script, monkeypatch):
    bucket = storage.bucket
    storage.write(f"{bucket}/traces/a.json", trace(0))
    # Every call is an exception that the script does not expect.
    monkeypatch.delattr(script.module, "add")
    with pytest.raises(SystemExit, match="1"):
        script(f"s3://{bucket}/traces", "--out", f"s3://{bucket}/facts")
    assert list(storage.objects(f"{bucket}/facts")) == [f"{bucket}/facts/facts.json"]


def test_facts_of_another_version_are_refused_before_a_trace_is_read(storage, script):
    bucket = storage.bucket
    storage.write(f"{bucket}/traces/a.json", trace(0))
    storage.write(f"{bucket}/facts/facts.json", b'{"schema":99}')
    with pytest.raises(gpuprism.Error, match="another version"):
        script(f"s3://{bucket}/traces", "--out", f"s3://{bucket}/facts")
    assert list(storage.objects(f"{bucket}/facts")) == [f"{bucket}/facts/facts.json"]
