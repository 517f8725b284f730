"""Every table of the package has the names, rows and values of `gpuprism report --format json`."""

import json

import duckdb
import pandas
import polars
import pyarrow
import pytest
from conftest import shared

import gpuprism

RECORDED = [
    "torch/sglang_qwen3_8b_mi300_decode.trace.json.gz",
    "torch/hf_qwen1.5_0.5b_h100.trace.json.gz",
    "torch/vllm_mi300_piecewise_graph.trace.json.gz",
    "torch/nccl_metadata_a100.trace.json.gz",
    "torch/cpu_only.pt.trace.json.gz",
    "nsys/h100_nvfuser_s3.16.sqlite",
    "nsys/titan_rtx_nvtx_only.sqlite",
    "rocm/rpd_matmul.rpd",
    "rocm/rocprofv3_prefill_kernel_trace.csv",
]
LISTS = ["kernels", "categories", "devices", "notices"]


@pytest.fixture(params=["example", "export", *RECORDED])
def file(request):
    if request.param in ("example", "export"):
        return request.getfixturevalue(request.param)
    return shared(request.param)


def table_name(section):
    """The section `kernels` is the table `top_kernels`: `kernels` is the list of all op names."""
    return "top_kernels" if section == "kernels" else section


def test_every_section_equals_that_of_the_command_line(file, command_line):
    text = command_line("report", file, "--format", "json")
    run = json.loads(text)["runs"][0]
    trace = gpuprism.open(file)
    assert trace.to_json() == text
    expected = {table_name(name): section["rows"] for name, section in run["sections"].items()}
    expected |= {name: run[name] for name in LISTS}
    assert sorted(trace.sections) == sorted(expected)
    for name, rows in expected.items():
        table = trace[name]
        assert table.rows() == rows, name
        assert len(table) == len(rows)
        if rows:
            assert table.columns == list(rows[0]), name
    for name, section in run["sections"].items():
        table = trace[table_name(name)]
        assert (table.title, table.columns, table.limits) == (section["title"], section["columns"], section["limits"])
        assert (table.summary, table.rows_in_all) == (section["summary"], section["rows_in_all"])
        missing = section["missing"]
        assert table.missing == (missing and missing["why"])
        assert (table.recapture or "") == (missing["recapture"] if missing else "")


def test_arrow_has_the_same_values_and_one_type_per_column(file):
    trace = gpuprism.open(file)
    for name in trace.sections:
        table = trace[name]
        arrow = pyarrow.table(table)
        assert arrow.schema == pyarrow.schema(table)
        assert arrow.column_names == table.columns
        for column in table.columns:
            values = [row[column] for row in table.rows()]
            kinds = {type(value) for value in values if value is not None}
            kind, found = arrow.schema.field(column).type, arrow[column].to_pylist()
            if str in kinds:
                assert kind == pyarrow.string(), (name, column)
                assert [value is None for value in found] == [value is None for value in values]
                assert [value for value in found if value is not None] == [
                    value if isinstance(value, str) else text_of(value) for value in values if value is not None
                ]
                continue
            assert found == values, (name, column)
            if kinds == {int}:
                assert kind == pyarrow.int64(), (name, column)
            elif kinds == {bool}:
                assert kind == pyarrow.bool_(), (name, column)
            elif kinds:
                assert kinds <= {int, float} and kind == pyarrow.float64(), (name, column)
            elif column.endswith("_ns"):
                assert kind == pyarrow.int64(), (name, column)
            elif column.endswith(("_us", "_ms", "_pct", "_share", "_fraction")):
                assert kind == pyarrow.float64(), (name, column)


def text_of(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_pandas_polars_pyarrow_and_duckdb_take_a_table(example):
    kernels = gpuprism.open(example).kernels
    rows = kernels.rows()
    assert pyarrow.table(kernels).to_pylist() == rows
    assert polars.DataFrame(kernels).to_dicts() == rows
    assert pandas.DataFrame.from_arrow(kernels).to_dict("records") == rows
    found = duckdb.sql("select category, sum(duration_ns)::bigint from kernels group by category").fetchall()
    sums = {}
    for row in rows:
        sums[row["category"]] = sums.get(row["category"], 0) + row["duration_ns"]
    assert dict(found) == sums


def test_unknown_values_are_nulls_and_numbers_stay_numbers(example):
    steps = gpuprism.open(example).steps
    frame = polars.DataFrame(steps)
    assert frame.schema["steps"] == polars.Int64 and frame.schema["median_ns"] == polars.Float64
    assert frame.schema["stage"] == polars.String
    for column in steps.columns:
        assert frame[column].null_count() == sum(row[column] is None for row in steps.rows()), column


def test_an_empty_table_keeps_its_columns(example):
    trace = gpuprism.open(example)
    empty = [name for name in trace.sections if len(trace[name]) == 0 and trace[name].columns]
    assert empty, "the example lacks something"
    for name in empty:
        assert pyarrow.table(trace[name]).column_names == trace[name].columns
        assert pyarrow.table(trace[name]).num_rows == 0


def test_several_runs_are_told_apart_by_the_column_run(example, export, command_line):
    both = gpuprism.open([example, export])
    assert both.to_json() == command_line("report", example, export, "--format", "json")
    assert both.labels == ["example.json.gz", "export.sqlite"]
    one, other = both.runs
    assert one.to_json() == gpuprism.open(example).to_json()
    for name in ("kernels", "findings", "nccl_ops"):
        rows = [{"run": label, **row} for label, run in zip(both.labels, (one, other)) for row in run[name].rows()]
        assert both[name].rows() == rows
        assert pyarrow.table(both[name]).column_names[0] == "run"


def test_the_files_of_one_rocprof_run_are_one_run(command_line):
    files = [shared("rocm/rocprofv3_prefill_kernel_trace.csv"), shared("rocm/rocprofv3_prefill_hip_api_trace.csv")]
    trace = gpuprism.open(files)
    assert len(trace.labels) == 1
    assert trace.to_json() == command_line("report", *files, "--format", "json")


def test_the_shortcuts_are_tables_of_the_same_name(example):
    trace = gpuprism.open(example)
    for name in ("findings", "kernels", "steps", "layers"):
        assert getattr(trace, name).rows() == trace[name].rows() == trace.table(name).rows()
        assert name in trace
    assert "nonsense" not in trace
    with pytest.raises(KeyError, match="nonsense: no such table; the tables are kernels, "):
        trace["nonsense"]
