"""Where did the GPU time of an LLM server go: traces as tables.

    import gpuprism
    trace = gpuprism.open("trace.json.gz")
    print(trace.verdict)
    trace.kernels.rows()
"""

import os
from collections.abc import Mapping, Sequence
from typing import Literal, Optional, TypedDict, Union, final, type_check_only

__all__ = ["Comparison", "Error", "Ranks", "Results", "Table", "Trace", "UsageError", "__version__", "diff", "facts", "files_by_run", "is_trace_name", "open"]
__version__: str

_Path = Union[str, os.PathLike[str]]
_Seconds = Union[float, str]
_Value = Union[None, bool, int, float, str]

class Error(Exception):
    """A file that cannot be read, or a wrong argument, in one sentence: the sentence of the command line."""

class UsageError(Error):
    """A wrong argument: the call must change, not the file."""

@final
class Table:
    """A table with the keys and values of the JSON report.

    pandas, polars, pyarrow and DuckDB take it without a copy, through Arrow's PyCapsule interface. The end of a key names the
    unit: `_ns`, `_us`, `_ms`, `_s`, `_pct` (0 to 100), `_share` and `_fraction` (0 to 1). A value that is not known is null.
    """

    @property
    def name(self) -> str:
        """The name, as in `trace[name]`."""

    @property
    def title(self) -> str: ...
    @property
    def columns(self) -> list[str]: ...
    @property
    def summary(self) -> dict[str, _Value]:
        """Single figures by name. In a table of several runs, those of the first run that has the table."""

    @property
    def derived_from(self) -> str:
        """The data that the table is computed from."""

    @property
    def limits(self) -> list[str]:
        """Limits of the results, one sentence each."""

    @property
    def missing(self) -> Optional[str]:
        """Why the table is empty, if the trace lacks its data."""

    @property
    def recapture(self) -> Optional[str]:
        """The command that captures the missing data, if there is one."""

    @property
    def rows_in_all(self) -> int:
        """The number of rows before the table was cut to its limit."""

    def rows(self) -> list[dict[str, _Value]]: ...
    def __len__(self) -> int: ...
    def _repr_html_(self) -> str: ...
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...

@final
class Trace:
    """The results of the opened files: one run for each trace, and the runs of earlier reports.

    With several runs, each table starts with the column `run`, the label of the run.
    """

    @property
    def verdict(self) -> str:
        """Where the time went, in one or two sentences."""

    @property
    def labels(self) -> list[str]:
        """The label of each run: the name of its file."""

    @property
    def runs(self) -> list[Trace]:
        """Each run on its own."""

    @property
    def sections(self) -> list[str]:
        """The names of all tables."""

    @property
    def findings(self) -> Table:
        """What costs time and what to do about it, `trace["findings"]`."""

    @property
    def kernels(self) -> Table:
        """All distinct names of GPU ops, `trace["kernels"]`."""

    @property
    def steps(self) -> Table:
        """The steps of the engine by stage, `trace["steps"]`. `trace["step_list"]` has each step."""

    @property
    def layers(self) -> Table:
        """The layers of a step, `trace["layers"]`."""

    def table(self, name: str) -> Table:
        """The table of this name, as `gpuprism report --table` names it; KeyError if there is none."""

    def __getitem__(self, name: str, /) -> Table: ...
    def __contains__(self, name: str, /) -> bool: ...
    def window(self, start: Optional[_Seconds] = None, end: Optional[_Seconds] = None) -> Trace:
        """The same traces in a time range, in seconds from the first GPU op.

        `window(1.25, 1.75)` and `window("1.25-1.75")` are the same. A missing end is that of the trace. The files are not read
        again. An earlier report stays as it is, with a warning.
        """

    def what_if(
        self,
        *,
        without: Union[None, str, Sequence[str]] = None,
        speed: Optional[Mapping[str, _Seconds]] = None,
        graph: Union[None, str, Sequence[str]] = None,
    ) -> Trace:
        """The same traces with these changes replayed together, like `gpuprism what-if`.

        `without` names rows of `trace["what_if"]` by their `id`: the step without their causes. `speed` is a factor for the kernels whose
        names match a regular expression: `{"attention": 1.5}`. `graph` names stages whose steps launch graphs: `"decode"`. The first
        rows of the table `what_if` of the result, with the id `together`, have all changes; `critical_path` and `replay_trust` stay.

        The files are not read again. Raises UsageError if the traces have nothing to change.
        """

    def ranks(self) -> Ranks:
        """Which rank delays the others, like `gpuprism ranks`, in the window of this trace."""

    def to_html(self, path: Optional[_Path] = None) -> Optional[str]:
        """The report as one HTML file. Returns the text, or writes it to `path`."""

    def to_json(self, path: Optional[_Path] = None) -> Optional[str]:
        """The report as JSON, which `open` reads again. Returns the text, or writes it to `path`."""

    def _repr_html_(self) -> str: ...

class Results:
    """The tables and texts of a comparison or of ranks. `str()` is the text that the command line prints."""

    @property
    def verdict(self) -> str: ...
    @property
    def sections(self) -> list[str]:
        """The names of all tables."""

    def table(self, name: str) -> Table: ...
    def __getitem__(self, name: str, /) -> Table: ...
    def __contains__(self, name: str, /) -> bool: ...
    def to_json(self) -> str:
        """What the command line prints with `--format json`."""

    def _repr_html_(self) -> str: ...

@final
class Comparison(Results):
    @property
    def comparable(self) -> bool:
        """Whether at least one run could be compared with the first one."""

@final
class Ranks(Results):
    @property
    def stragglers(self) -> list[str]:
        """The rank of each job that delays the others most, if one does."""

def open(
    path: Union[_Path, Sequence[_Path]],
    *,
    window: Union[None, str, tuple[Optional[_Seconds], Optional[_Seconds]]] = None,
    seconds: Union[None, _Seconds, Sequence[_Seconds]] = None,
    attribution: Literal["fair", "first-come", "exclusive"] = "fair",
    merge_devices: bool = False,
    rules: Union[None, _Path, Sequence[_Path]] = None,
    engine: Optional[str] = None,
    model: Optional[str] = None,
    phase_map: Optional[_Path] = None,
    config: Optional[_Path] = None,
    weights_gb: Optional[_Seconds] = None,
    tp: Optional[int] = None,
    ep: Optional[int] = None,
    pp: Optional[int] = None,
    dp: Optional[int] = None,
    nsys: str = "nsys",
) -> Trace:
    """Read and analyze traces or earlier reports, with the options of `gpuprism report`.

    Several paths are several runs; the files of one rocprofv3 run are one run. The GIL is released while files are read, and
    Ctrl-C is answered.

    Raises Error with the sentence of the command line.
    """

@type_check_only
class _Fact(TypedDict):
    path: str
    outcome: Literal["written", "present", "failed"]
    reason: Optional[str]
    seconds: float

def facts(
    path: Union[_Path, Sequence[_Path]],
    out: _Path,
    *,
    tags: Optional[Mapping[str, str]] = None,
    jobs: int = 1,
    max_bytes: Optional[int] = None,
    source: Optional[str] = None,
    failure: Optional[str] = None,
) -> list[_Fact]:
    """Write the results of traces, or of folders of traces, to the folder `out` as Parquet files, like `gpuprism facts`.

    Returns a dictionary for each run. A run that `out` has is left out, whatever its path; a run that cannot be read, or whose files
    have more than `max_bytes` together, is a row of the table `runs` with the reason. `jobs` runs are read at the same time. The GIL is
    released.

    For one run: `source` is its path in the table, if `path` is a copy; with `failure`, the run is not read and gets a row with this
    reason, unless `out` has it.
    """

def is_trace_name(name: str) -> bool:
    """Whether a file with this name, without its folder, is taken for a trace when a folder is searched."""

def files_by_run(paths: Sequence[str]) -> list[list[str]]:
    """The paths by run: the tables of one run of rocprofv3 together, each other file alone."""

def diff(before: Trace, after: Trace) -> Comparison:
    """Compare runs with the first run of `before`, like `gpuprism diff`."""
