"""The package in a program: other threads go on, Ctrl-C is answered, notebooks, types."""

import gzip
import html
import html.parser
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
from conftest import rank_trace

import gpuprism

# Work of this length is interrupted often enough to see that other threads go on.
LONG_S = 0.2


def grown(write, work):
    """Calls `write` with 1,000, 2,000, ... until `work` takes `LONG_S` with this build; returns this number."""
    for doublings in range(12):
        size = 1_000 << doublings
        write(size)
        begin = time.monotonic()
        work()
        if time.monotonic() - begin >= LONG_S:
            break
    return size


@pytest.fixture(scope="session")
def big_file(tmp_path_factory):
    """A trace that takes a while to read, and the number of its kernels: the same short ones over and over."""
    path = tmp_path_factory.mktemp("big") / "big.json"
    event = '{"ph": "X", "cat": "kernel", "name": "k%d", "pid": 0, "tid": 7, "ts": %d, "dur": 3, "args": {"device": 0, "stream": 7}}'

    def write(events):
        with open(path, "w") as file:
            file.write('{"traceEvents": [')
            file.write(",\n".join(event % (number % 50, number * 5) for number in range(events)))
            file.write("]}")

    return path, grown(write, lambda: gpuprism.open(path))


def while_others_run(work):
    """The result of the work, if another thread went on while it was done."""
    times, done = [], threading.Event()

    def tick():
        while not done.is_set():
            times.append(time.monotonic())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    begin = time.monotonic()
    result = work()
    end = time.monotonic()
    done.set()
    thread.join()
    during = [moment for moment in times if begin <= moment <= end]
    longest = max(after - before for before, after in zip([begin, *during], [*during, end]))
    assert len(during) > 20 and longest < (end - begin) / 2, (len(during), longest, end - begin)
    return result


def test_other_threads_go_on_while_a_file_is_read(big_file):
    path, events = big_file
    trace = while_others_run(lambda: gpuprism.open(path))
    assert sum(row["count"] for row in trace.kernels.rows()) == events


@pytest.fixture(scope="session")
def many_names(tmp_path_factory):
    """A trace whose reports are large, and the number of its kernels: each one has a name of its own."""
    path = tmp_path_factory.mktemp("names") / "names.json"
    event = '{"ph": "X", "cat": "kernel", "name": "k%d_%d", "pid": 0, "tid": 7, "ts": %d, "dur": 3, "args": {"device": 0, "stream": 7}}'

    def write(names):
        events = ",\n".join(event % (number, number * 7, number * 5) for number in range(names))
        path.write_text('{"traceEvents": [' + events + "]}")

    return path, grown(write, lambda: gpuprism.open(path))


def test_other_threads_go_on_while_reports_are_written(many_names):
    path, names = many_names
    trace = gpuprism.open([path] * 4)
    assert len(while_others_run(trace.to_json)) > names
    assert while_others_run(trace.to_html).startswith("<!doctype html>")


def test_other_threads_go_on_while_a_notebook_draws(big_file):
    trace = gpuprism.open(big_file[0])
    # The strips of one call take too little time to be seen: several calls are.
    assert while_others_run(lambda: [trace._repr_html_() for _ in range(40)][0]).startswith("<iframe")


def test_other_threads_go_on_while_facts_are_written(big_file, tmp_path):
    path, _ = big_file
    (run,) = while_others_run(lambda: gpuprism.facts(path, tmp_path / "facts"))
    assert (run["path"], run["outcome"], run["reason"]) == (str(path), "written", None)


def test_several_threads_may_use_one_trace(example):
    trace = gpuprism.open(example)
    expected, found = trace.window(0.02, 0.04).to_json(), []
    threads = [threading.Thread(target=lambda: found.append(trace.window(0.02, 0.04).to_json())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


@pytest.mark.skipif(os.name == "nt", reason="Windows sends no SIGINT to one process")
def test_ctrl_c_is_answered_while_a_file_is_read(tmp_path):
    # A pipe that never ends: reading it would take forever.
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    program = f"import gpuprism\nprint('begin', flush=True)\ngpuprism.open({str(pipe)!r})"
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "begin\n"
    with open(pipe, "w") as writer:
        writer.write('{"traceEvents": [')
        writer.flush()
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=10)
    assert child.returncode != 0 and "KeyboardInterrupt" in errors


class Frame(html.parser.HTMLParser):
    """The page in a notebook's frame."""

    def __init__(self, text):
        super().__init__()
        self.pages, self.tags = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag == "iframe":
            self.pages.append(dict(attributes)["srcdoc"])


def page(shown):
    frame = Frame(shown._repr_html_())
    assert frame.tags == ["iframe"], "everything from a trace is inside the frame"
    return frame.pages[0]


def test_a_notebook_shows_verdict_bar_and_strips(example):
    trace = gpuprism.open(example)
    text = page(trace)
    assert html.escape(trace.verdict, quote=False).replace("'", "&#39;") in text
    assert text.count("<svg ") == 2 and 'class="strip ' in text and 'class="seg ' in text
    window = 'class="strip-window"'
    assert window not in text and window in page(trace.window(0.02, 0.04))
    assert not re.search(r"(src|href)=", text.replace('xmlns="http://www.w3.org/2000/svg"', "")), "nothing is loaded"
    two = page(gpuprism.open([example, example]))
    assert two.count("<svg ") == 1, "strips are those of one trace"


def test_a_notebook_shows_the_first_rows_of_a_table(example):
    kernels = gpuprism.open(example).kernels
    text = page(kernels)
    assert f"The first 12 of {len(kernels)} rows are shown." in text
    assert text.count("<tr") == 13
    assert kernels.rows()[0]["short_name"] in html.unescape(text)


def test_a_notebook_shows_comparison_and_ranks(example, rank_files):
    trace = gpuprism.open(example)
    same = page(gpuprism.diff(trace, trace))
    assert "takes exactly as long as" in same and 'id="compare_kernels"' in same
    ranks = gpuprism.open(rank_files).ranks()
    assert "Rank 1 delays the others" in page(ranks) and "<svg " in page(ranks)


def test_hostile_names_stay_text(tmp_path):
    hostile = "</script></iframe><img src=x onerror=\"alert('1')\">&amp;\u0001\0"
    event = {"ph": "X", "cat": "kernel", "name": hostile, "pid": 0, "tid": 7, "ts": 0, "dur": 3, "args": {"device": 0, "stream": 7}}
    file = tmp_path / "hostile.json"
    file.write_text(json.dumps({"traceEvents": [event]}))
    trace = gpuprism.open(file)
    for shown in (trace, trace.kernels):
        assert "<img" not in page(shown)
    assert trace.kernels.rows()[0]["name"].startswith("</script>")


def test_the_html_report_is_that_of_the_command_line(example, tmp_path, command_line):
    trace = gpuprism.open(example)
    expected = command_line("report", example, "--format", "html")
    assert trace.to_html() == expected
    assert trace.to_html(tmp_path / "report.html") is None
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == expected
    with pytest.raises(gpuprism.Error, match="/missing/report.html: "):
        trace.to_html("/missing/report.html")


def test_any_kind_of_path_is_accepted(example):
    assert gpuprism.open(str(example)).labels == gpuprism.open(example).labels == ["example.json.gz"]
    plain = example.with_name("plain.json")
    plain.write_bytes(gzip.decompress(example.read_bytes()))
    assert gpuprism.open([str(plain), example]).labels == ["plain.json", "example.json.gz"]


USE = """
import pathlib
import gpuprism

trace: gpuprism.Trace = gpuprism.open("a.json", window=(None, 1.5), seconds=[1.0, "2"], rules=pathlib.Path("r"))
verdict: str = trace.window(0.5).window("1-2").verdict
table: gpuprism.Table = trace["kernels"]
faster: gpuprism.Trace = trace.what_if(without="host", speed={"gemm": 2, "attention": "1.5"}, graph=["decode"])
names: list[str] = table.columns
page: str | None = trace.to_html()
comparison: gpuprism.Comparison = gpuprism.diff(trace, trace)
late: list[str] = gpuprism.open([pathlib.Path("a"), "b"]).ranks().stragglers
missing: str | None = table.missing
reason: str | None = gpuprism.facts("a.json", pathlib.Path("facts"), tags={"commit": "1a"}, max_bytes=10)[0]["reason"]
"""


def test_the_package_has_types(tmp_path):
    (tmp_path / "right.py").write_text(USE)
    (tmp_path / "wrong.py").write_text(USE.replace("names: list[str]", "names: int"))
    check = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache")]
    right = subprocess.run([*check, "right.py"], cwd=tmp_path, capture_output=True, text=True)
    assert right.returncode == 0, right.stdout
    wrong = subprocess.run([*check, "wrong.py"], cwd=tmp_path, capture_output=True, text=True)
    assert wrong.returncode == 1 and "Incompatible types" in wrong.stdout


def test_the_types_name_everything_that_the_package_has(tmp_path):
    # The extension module inside the package has no types of its own; mypy does not know how classes of Rust are laid out.
    (tmp_path / "allowed").write_text("gpuprism.gpuprism\n")
    check = [sys.executable, "-m", "mypy.stubtest", "gpuprism", "--allowlist", "allowed", "--ignore-disjoint-bases"]
    done = subprocess.run(check, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout


def test_the_examples_of_the_documentation_run(example, tmp_path, monkeypatch):
    root = pathlib.Path(__file__).resolve().parents[2]
    (tmp_path / "ranks").mkdir()
    for rank in (0, 1):
        rank_trace(tmp_path / "ranks", rank, 30 + 60 * rank)
    (tmp_path / "trace.json.gz").write_bytes(example.read_bytes())
    monkeypatch.chdir(tmp_path)
    for document in ("docs/python.md", "python/README.md"):
        blocks = re.findall(r"^```python\n(.*?)^```", (root / document).read_text(encoding="utf-8"), re.M | re.S)
        assert blocks, document
        exec(compile("\n".join(blocks), document, "exec"), {})
    section = (root / "README.md").read_text(encoding="utf-8").split("## From Python\n")[1].split("\n## ")[0]
    lines = [line[4:] for line in section.splitlines() if line.startswith("    ") and not line.startswith("    pip ")]
    assert lines
    exec(compile("\n".join(lines), "README.md", "exec"), {})
