"""Windows, options, comparisons and ranks have the results of the command line, and errors its sentences."""

import json
import warnings

import pytest
from conftest import shared

import gpuprism


def report(command_line, *arguments):
    return command_line("report", "--format", "json", *arguments)


def test_a_window_is_that_of_the_command_line(example, command_line):
    trace = gpuprism.open(example)
    expected = report(command_line, example, "--window", "0.02-0.04")
    windows = [
        trace.window(0.02, 0.04),
        trace.window("0.02-0.04"),
        trace.window("0.02", "0.04"),
        trace.window(0.01, 0.05).window(0.02, 0.04),
        gpuprism.open(example, window="0.02-0.04"),
        gpuprism.open(example, window=(0.02, 0.04)),
    ]
    assert [window.to_json() for window in windows] == [expected] * len(windows)
    assert trace.window(start=0.02).to_json() == report(command_line, example, "--window", "0.02-")
    assert trace.window(end=0.02).to_json() == report(command_line, example, "--window", "-0.02")
    assert trace.to_json() == report(command_line, example), "the trace itself does not change"


def test_changes_are_replayed_as_on_the_command_line(example, command_line):
    trace = gpuprism.open(example)
    ids = [row["id"] for row in trace["what_if"].rows()]
    assert "together" not in ids and len(ids) > 2
    for options, flags in [
        ({"without": ids[0]}, ["--without", ids[0]]),
        ({"without": ids[:2]}, ["--without", ids[0], "--without", ids[1]]),
        ({"speed": {"gemm|nvjet": 1.5}}, ["--speed", "gemm|nvjet=1.5"]),
        ({"without": [ids[0]], "speed": {"nvjet": "2"}}, ["--without", ids[0], "--speed", "nvjet=2"]),
    ]:
        changed = trace.what_if(**options)
        run = json.loads(command_line("what-if", example, *flags, "--format", "json"))["runs"][0]
        assert changed["what_if"].rows()[0]["id"] == "together"
        for name in ("critical_path", "what_if", "replay_trust"):
            assert changed[name].rows() == run["sections"][name]["rows"], (options, name)
    assert trace.what_if().to_json() == trace.to_json(), "no changes, and the trace itself does not change"
    in_window = trace.window(0.02, 0.06).what_if(without=ids[0])["what_if"].rows()
    assert in_window[0]["id"] == "together" and in_window != trace.what_if(without=ids[0])["what_if"].rows()


def test_changes_that_a_trace_does_not_have_are_errors_of_the_command_line(example, command_line):
    trace = gpuprism.open(example)
    for options, flags in [
        ({"without": "nonsense"}, ["--without", "nonsense"]),
        ({"speed": {"nvjet": 0}}, ["--speed", "nvjet=0"]),
        ({"speed": {"(": 2}}, ["--speed", "(=2"]),
        ({"graph": "nonsense"}, ["--graph", "nonsense"]),
    ]:
        with pytest.raises(gpuprism.UsageError) as raised:
            trace.what_if(**options)
        assert f"gpuprism: {raised.value}\n" == command_line("what-if", example, *flags, status=2)


def test_options_are_those_of_the_command_line(example, tmp_path, command_line):
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"mine": {"m": {"nvjet": "my_gemm"}}}))
    phases = tmp_path / "phases.json"
    phases.write_text(json.dumps({"decoding": "DECODE"}))
    for options, flags in [
        ({"seconds": 0.75}, ["--seconds", "0.75"]),
        ({"attribution": "exclusive"}, ["--attribution", "exclusive"]),
        ({"merge_devices": True}, ["--merge-devices"]),
        ({"rules": rules}, ["--rules", rules]),
        ({"rules": [rules], "engine": "gpuprism", "model": "default"}, ["--rules", rules, "--engine", "gpuprism", "--model", "default"]),
        ({"phase_map": phases}, ["--phase-map", phases]),
        ({"weights_gb": 8.03, "tp": 2}, ["--weights-gb", "8.03", "--tp", "2"]),
    ]:
        assert gpuprism.open(example, **options).to_json() == report(command_line, example, *flags), options
    plain = gpuprism.open(example).to_json()
    assert gpuprism.open(example, seconds=0.75).to_json() != plain, "the options do something"
    assert gpuprism.open(example, weights_gb=8.03).to_json() != plain


def test_a_comparison_is_that_of_the_command_line(example, tmp_path, command_line):
    trace = gpuprism.open(example)
    # Windows of whole decode steps; step 0 is the prefill.
    steps = trace["step_list"]
    begins = [(row["start_ns"] - steps.summary["first_op_ns"]) / 1e9 for row in steps.rows()]
    early, late = trace.window(begins[1], begins[6]), trace.window(begins[6], begins[11])
    files = [tmp_path / "early.json", tmp_path / "late.json"]
    early.to_json(files[0])
    late.to_json(files[1])
    saved = gpuprism.diff(*map(gpuprism.open, files))
    assert saved.comparable
    assert saved.to_json() == command_line("diff", *files, "--format", "json")
    assert str(saved) == command_line("diff", *files)
    for name, section in json.loads(saved.to_json())["sections"].items():
        assert saved[name].rows() == section["rows"], name
    of_traces = gpuprism.diff(early, late)
    assert of_traces["compare_kernels"].columns == saved["compare_kernels"].columns
    changes = [[row["delta_ns"] for row in results["compare_kernels"].rows()] for results in (of_traces, saved)]
    assert changes[0] == changes[1], "windows of an open trace are compared like saved reports"


def test_runs_without_common_work_are_not_comparable(example, tmp_path, command_line):
    trace = gpuprism.open(example)
    # Step 0 is the only prefill.
    steps = trace["step_list"]
    first_decode = (steps.rows()[1]["start_ns"] - steps.summary["first_op_ns"]) / 1e9
    saved = tmp_path / "prefill.json"
    trace.window(0, first_decode).to_json(saved)
    comparison = gpuprism.diff(trace, gpuprism.open(saved))
    assert not comparison.comparable and "cannot be compared" in comparison.verdict
    # The program prints the reasons as errors and exits with 4.
    reason = command_line("diff", example, saved, status=4).removeprefix("gpuprism: ").strip()
    assert reason in comparison.verdict


def test_ranks_are_those_of_the_command_line(rank_files, command_line):
    ranks = gpuprism.open(rank_files).ranks()
    assert ranks.to_json() == command_line("ranks", *rank_files, "--format", "json")
    assert str(ranks) == command_line("ranks", *rank_files)
    # By hand: rank 0 waits from 30 us to 90 us of its 70 us in the all-reduce.
    assert ranks.stragglers == ["rank 1"]
    assert [row["wait_ns"] for row in ranks["rank_waits"].rows()] == [60_000, 0]
    in_window = gpuprism.open(rank_files, window="0.00004-0.00008").ranks()
    assert in_window.to_json() == command_line("ranks", *rank_files, "--window", "0.00004-0.00008", "--format", "json")


def test_ranks_of_a_recorded_job_are_those_of_the_command_line(command_line):
    folder = shared("torch/dlrm_v100_8ranks")
    files = sorted(folder.glob("*.gz"))
    assert gpuprism.open(files).ranks().to_json() == command_line("ranks", *files, "--format", "json")


def test_errors_have_the_sentences_of_the_command_line(example, tmp_path, command_line):
    broken, rules = tmp_path / "broken.json", tmp_path / "rules.json"
    broken.write_text('{"something": 1}')
    rules.write_text('{"mine": {"m": {"nvjet": "my_gemm"}}}')
    for kind, files, options, flags in [
        (gpuprism.Error, "/missing/trace.json", {}, []),
        (gpuprism.Error, broken, {}, []),
        (gpuprism.Error, rules, {}, []),
        (gpuprism.Error, tmp_path, {}, []),
        (gpuprism.Error, example, {"rules": broken}, ["--rules", broken]),
        (gpuprism.UsageError, example, {"window": "7-8"}, ["--window", "7-8"]),
        (gpuprism.UsageError, example, {"window": "nonsense"}, ["--window", "nonsense"]),
        (gpuprism.UsageError, example, {"seconds": "-1"}, ["--seconds", "-1"]),
        (gpuprism.UsageError, [example, example], {"seconds": [1, 2, 3]}, ["--seconds", "1", "--seconds", "2", "--seconds", "3"]),
        (gpuprism.UsageError, example, {"engine": "sglang", "model": "x"}, ["--engine", "sglang", "--model", "x"]),
        (gpuprism.UsageError, example, {"weights_gb": 0}, ["--weights-gb", "0"]),
    ]:
        with pytest.raises(kind) as raised:
            gpuprism.open(files, **options)
        assert type(raised.value) is kind and isinstance(raised.value, gpuprism.Error)
        files = files if isinstance(files, list) else [files]
        status = 2 if kind is gpuprism.UsageError else 1
        assert f"gpuprism: {raised.value}\n" == command_line("report", *files, *flags, status=status)
    with pytest.raises(gpuprism.UsageError) as raised, pytest.warns(UserWarning, match="no other rank of its job is open"):
        gpuprism.open(example).ranks()
    assert f"gpuprism: {raised.value}\n" in command_line("ranks", example, status=2)
    with pytest.raises(gpuprism.UsageError, match="no file given"):
        gpuprism.open([])


def test_a_saved_report_opens_again_and_has_no_windows(example, tmp_path):
    trace = gpuprism.open(example)
    saved = tmp_path / "saved.json"
    trace.to_json(saved)
    again = gpuprism.open(saved)
    assert again.to_json() == trace.to_json() == saved.read_text(encoding="utf-8")
    with pytest.warns(UserWarning, match="saved.json: an earlier report; the analysis options apply only to traces"):
        assert again.window(0.02, 0.04).to_json() == trace.to_json()
    with pytest.raises(gpuprism.Error, match="a report, which contains no individual collective calls"):
        again.ranks()


def test_reading_a_trace_prints_nothing_and_warns_of_nothing(example, capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gpuprism.open(example)
    assert capfd.readouterr() == ("", "")
