"""Inputs of the tests, and the command line that they compare the package with.

`cargo xtask python` sets GPUPRISM_BIN (the program) and GPUPRISM_EXAMPLES (the folder of the built examples).
"""

import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = pathlib.Path(os.environ.get("GPUPRISM_SHARED") or ROOT.parent / "shared") / "traces"


def shared(path: str) -> pathlib.Path:
    """A recorded trace. Without their folder the test is skipped; a missing file is an error."""
    if not SHARED.is_dir():
        pytest.skip("no recorded traces")
    file = SHARED / path
    assert file.exists(), f"the recorded traces are incomplete: there is no {file}"
    return file


@pytest.fixture(scope="session")
def command_line():
    """Runs `gpuprism` and returns what it prints; its exit code must be `status`. No line is wrapped: pytest sets `COLUMNS`."""
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}

    def run(*arguments, status=0):
        done = subprocess.run(
            [os.environ["GPUPRISM_BIN"], *map(str, arguments)], capture_output=True, text=True, encoding="utf-8", env=environment
        )
        assert done.returncode == status, done.stderr
        return done.stdout if status == 0 else done.stderr

    return run


@pytest.fixture(scope="session")
def example(tmp_path_factory):
    """The trace of a model server that `examples/serving_trace.rs` writes."""
    path = tmp_path_factory.mktemp("example") / "example.json.gz"
    subprocess.run([pathlib.Path(os.environ["GPUPRISM_EXAMPLES"]) / "serving_trace", path], check=True)
    return path


@pytest.fixture(scope="session")
def export(tmp_path_factory):
    """The Nsight Systems export that `examples/nsys_export.rs` writes."""
    path = tmp_path_factory.mktemp("export") / "export.sqlite"
    subprocess.run([pathlib.Path(os.environ["GPUPRISM_EXAMPLES"]) / "nsys_export", path, "0.002"], check=True)
    return path


def rank_trace(folder: pathlib.Path, rank: int, late_us: int) -> pathlib.Path:
    """A rank that computes until `late_us` and takes part in an all-reduce, which ends at 100 us on every rank."""

    def event(name, start, duration):
        arguments = {"device": 0, "stream": 7}
        return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": start, "dur": duration, "args": arguments}

    events = [event("nvjet_tst_64x8", 0, late_us), event("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", late_us, 100 - late_us)]
    info = {"backend": "nccl", "rank": rank, "world_size": 2}
    path = folder / f"rank{rank}.json"
    path.write_text(json.dumps({"distributedInfo": info, "traceEvents": events}))
    return path


@pytest.fixture
def rank_files(tmp_path):
    return [rank_trace(tmp_path, 0, 30), rank_trace(tmp_path, 1, 90)]
