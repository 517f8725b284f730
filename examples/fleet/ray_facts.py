"""Writes the facts of many traces with Ray Data, as `gpuprism facts` does on one machine:

    pip install ./python 'ray[data]'
    python3 examples/fleet/ray_facts.py /traces --out /facts --tag commit=1a2b3c
    python3 examples/fleet/ray_facts.py s3://bucket/traces --out s3://bucket/facts

IN and OUT are folders on a disk that all machines of the cluster share, or in an object storage that pyarrow knows (s3://, gs://,
hdfs://). Ray gives each task a processor and memory (--memory-gb), starts machines if the cluster scales, and starts a task again
when its machine or process is gone. The tables are written by the Python package, so a run is written once, whatever is repeated. Nothing
of a trace passes through Ray: a row with the outcome comes back for each run.

A trace that cannot be read is a row of the table `runs` with its reason. So is one that is larger than --max-bytes, and one that failed
in each of three attempts, because its process was killed, mostly for want of memory, or because the storage refused it.
"""

import argparse
import collections
import contextlib
import hashlib
import os
import pathlib
import posixpath
import sys
import tempfile
import time

import pyarrow
import pyarrow.fs
import ray
import ray.data

import gpuprism

# Read with the trace if they lie beside it.
BESIDE = ("capture.json", "server_args.json", "config.json")
# How often a trace is begun before it is given up, because its process ended or the storage failed each time.
ATTEMPTS = 3
# Before a trace is begun again. pyarrow itself has tried again what is worth it, for example a storage that is busy.
PAUSE_S = 1
# A task has several traces if there are more than this for each processor: starting a task takes longer than reading a small trace.
TASKS_PER_PROCESSOR = 100
# What is read from a storage by one request: pyarrow's 1 MiB makes a request, and a wait for its answer, of each.
CHUNK_BYTES = 16 << 20
# The file systems without folders, as pyarrow names them: making one costs requests and leaves an empty object.
WITHOUT_FOLDERS = ("s3", "gcs", "abfs")
# Has the number of the schema of the facts.
SCHEMA_FILE = "facts.json"


def place(uri):
    """The file system and the path in it."""
    if "://" in uri:
        return pyarrow.fs.FileSystem.from_uri(uri)
    return pyarrow.fs.LocalFileSystem(), os.path.abspath(uri)


def is_local(uri):
    return "://" not in uri


def copy_here(system, path, copy):
    local = pyarrow.fs.LocalFileSystem()
    pyarrow.fs.copy_files(path, str(copy), source_filesystem=system, destination_filesystem=local, chunk_size=CHUNK_BYTES)


def copy_there(file, system, path):
    if system.type_name not in WITHOUT_FOLDERS:
        system.create_dir(posixpath.dirname(path), recursive=True)
    pyarrow.fs.copy_files(str(file), path, source_filesystem=pyarrow.fs.LocalFileSystem(), destination_filesystem=system)


def sets(uri):
    """The files of each run: a trace alone, and the tables of one run of rocprofv3 together."""
    system, root = place(uri)
    infos = system.get_file_info(pyarrow.fs.FileSelector(root, recursive=True))
    traces = {info.path: info for info in infos if info.is_file and gpuprism.is_trace_name(info.base_name)}
    found = [[traces[path] for path in paths] for paths in gpuprism.files_by_run(list(traces))]
    # The largest first: the last tasks are short ones, and no machine waits for another.
    found.sort(key=lambda files: -sum(file.size for file in files))
    return [{"paths": [file.path for file in files], "bytes": sum(file.size for file in files)} for files in found]


@contextlib.contextmanager
def local_copies(uri, paths):
    """The files on this machine, with what lies beside them: themselves, or copies that are deleted."""
    if is_local(uri):
        yield paths
        return
    system, _ = place(uri)
    with tempfile.TemporaryDirectory(prefix="gpuprism-") as folder:
        beside = [posixpath.join(posixpath.dirname(paths[0]), name) for name in BESIDE]
        present = [info.path for info in system.get_file_info(beside) if info.is_file]
        for path in [*paths, *present]:
            copy = os.path.join(folder, posixpath.basename(path))
            copy_here(system, path, copy)
            modified = system.get_file_info([path])[0].mtime
            if modified is not None:
                os.utime(copy, (modified.timestamp(),) * 2)
        yield [os.path.join(folder, posixpath.basename(path)) for path in paths]


def id_of(chunks):
    """The id of a run from its bytes, or from its path, as `gpuprism facts` names it."""
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return "r" + digest.hexdigest()[:16]


def bytes_of(path):
    with open(path, "rb") as file:
        yield from iter(lambda: file.read(1 << 20), b"")


def begin_facts(uri):
    """Writes the number of the schema into a new folder of facts. The library refuses a folder with another one."""
    if is_local(uri):
        gpuprism.facts([], os.path.abspath(uri))
        return
    system, root = place(uri)
    path = posixpath.join(root, SCHEMA_FILE)
    with tempfile.TemporaryDirectory(prefix="gpuprism-facts-") as name:
        file = pathlib.Path(name) / SCHEMA_FILE
        is_there = system.get_file_info([path])[0].is_file
        if is_there:
            copy_here(system, path, file)
        gpuprism.facts([], name)
        if not is_there:
            copy_there(file, system, path)


@contextlib.contextmanager
def local_out(uri, files, source):
    """The folder of the facts, or one that is copied there. If the storage has the run of this file, the folder has its row, so that it
    is not read again. The rows of `runs` are copied last: a run without one is written again. A report has several runs, of which the
    first one says that all are there."""
    if is_local(uri):
        yield os.path.abspath(uri)
        return
    system, root = place(uri)
    with tempfile.TemporaryDirectory(prefix="gpuprism-facts-") as name:
        folder, known = pathlib.Path(name), None
        if len(files) == 1 and os.path.isfile(files[0]):
            row = f"table=runs/run={id_of(bytes_of(files[0]))}/facts.parquet"
            if system.get_file_info([posixpath.join(root, row)])[0].is_file:
                known = folder / row
                known.parent.mkdir(parents=True)
                copy_here(system, posixpath.join(root, row), known)
        yield name
        written = [path for path in folder.glob("table=*/*/*") if path != known]
        # The first run has the id of the file, the others a longer one.
        for path in sorted(written, key=lambda path: ("table=runs" in path.parts, -len(path.parent.name))):
            copy_there(path, system, posixpath.join(root, path.relative_to(folder).as_posix()))
        # The rows of earlier failures of the runs that are there now, as the library removes them.
        for path in folder.glob("table=runs/*/facts.parquet"):
            for run in (path.parent.name, f"run={id_of([source.encode()])}"):
                row = posixpath.join(root, "table=runs", run, "failed.parquet")
                if system.get_file_info([row])[0].is_file:
                    system.delete_file(row)


def add(item, options, failure=None):
    """Adds the runs of these files, on any machine. Returns a row with the number of runs by outcome."""
    paths, outcomes, reason = list(item["paths"]), collections.Counter(), ""
    remote = not is_local(options["source"])
    source = f"{options['source'].split('://')[0]}://{paths[0]}" if remote else paths[0]
    too_large = options["max_bytes"] is not None and item["bytes"] > options["max_bytes"]
    with contextlib.ExitStack() as stack:
        if remote and (failure or too_large):
            # Not copied: a file that is not there has a row, too.
            failure = failure or f"{item['bytes']} bytes, more than the limit of {options['max_bytes']}"
            files = paths[:1]
        else:
            files = stack.enter_context(local_copies(options["source"], paths))
        out = stack.enter_context(local_out(options["out"], files, source))
        runs = gpuprism.facts(
            files, out, tags=options["tags"], max_bytes=options["max_bytes"], source=source, failure=failure
        )
    for run in runs:
        outcomes[run["outcome"]] += 1
        reason = run["reason"] or reason
    return {"path": paths[0], "reason": reason, **{name: outcomes[name] for name in ("written", "present", "failed")}}


def add_again(item, options, failure=None):
    """As `add`, again if the storage fails. After the last attempt the run is a row with what the storage said: a trace that is refused
    must not end the task, which has other traces."""
    for attempt in range(ATTEMPTS):
        time.sleep(attempt * PAUSE_S)
        try:
            return add(item, options, failure)
        except (OSError, pyarrow.ArrowException) as error:
            reason = f"it could not be copied or written in each of {ATTEMPTS} attempts: {error}"
    return add(item, options, failure=reason)


@ray.remote(num_cpus=0)
class Attempts:
    """Counts how often each trace was begun and not ended. Ray starts a task again without end when its process is killed."""

    def __init__(self):
        self.begun = collections.Counter()

    def begin(self, path):
        self.begun[path] += 1
        return self.begun[path]

    def end(self, path):
        del self.begun[path]


def add_counted(item, options, attempts):
    """Adds the runs of these files, unless they ended their process too often."""
    path = item["paths"][0]
    too_often = ray.get(attempts.begin.remote(path)) > ATTEMPTS
    reason = f"its process was killed in each of {ATTEMPTS} attempts: give it more memory"
    row = add_again(item, options, failure=reason if too_often else None)
    ray.get(attempts.end.remote(path))
    return row


def facts(items, options, memory_bytes):
    """The rows of all items. Ray runs as many tasks as there are processors and memory, and starts the next ones when their rows are
    taken."""
    context = ray.data.DataContext.get_current()
    # An exception, for example because not even the row of a failure could be written, is tried again, and must not end the other tasks.
    # What is missing is seen from the rows.
    context.retried_map_errors, context.max_map_retries = True, ATTEMPTS - 1
    context.max_errored_blocks = -1
    attempts = Attempts.remote()
    tasks = max(1, min(len(items), TASKS_PER_PROCESSOR * int(ray.cluster_resources().get("CPU", 1))))
    # Each task gets as many large ones as the others.
    dealt = [{"item": item} for task in range(tasks) for item in items[task::tasks]]
    data = ray.data.from_items(dealt, override_num_blocks=tasks)
    rows = data.map(lambda row: add_counted(row["item"], options, attempts), num_cpus=1, memory=memory_bytes)
    return list(rows.iter_rows())


def tag(text):
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError("give KEY=VALUE, for example commit=1a2b3c")
    return key, value


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("source", metavar="IN", help="the folder of the traces, searched with its subfolders")
    parser.add_argument("--out", required=True, help="the folder of the facts")
    parser.add_argument("--tag", type=tag, action="append", default=[], metavar="KEY=VALUE", help="kept in the column tags")
    parser.add_argument("--max-bytes", type=int, metavar="N", help="larger runs are not read")
    parser.add_argument("--memory-gb", type=float, default=2.0, metavar="N", help="the memory of a task (2)")
    parser.add_argument("--cpus", type=int, metavar="N", help="start Ray on this machine with so many processors")
    arguments = parser.parse_args()
    options = {
        "source": arguments.source,
        "out": arguments.out,
        "tags": dict(arguments.tag),
        "max_bytes": arguments.max_bytes,
    }
    items = sets(arguments.source)
    # Before any trace is read.
    begin_facts(arguments.out)
    ray.init(num_cpus=arguments.cpus, include_dashboard=False, log_to_driver=False, logging_level="warning")
    ray.data.DataContext.get_current().enable_progress_bars = False
    rows = facts(items, options, int(arguments.memory_gb * 1e9))
    done = {row["path"] for row in rows}
    lost = [item["paths"][0] for item in items if item["paths"][0] not in done]
    for row in rows:
        if row["failed"]:
            print(f"{row['path']}: failed: {row['reason']}", file=sys.stderr)
    total = {name: sum(row[name] for row in rows) for name in ("written", "present", "failed")}
    print(f"{sum(total.values())} runs: {total['written']} written, {total['present']} already there, {total['failed']} failed")
    # Their tasks had other traces, too. So there is no row that says that these cannot be read.
    for path in lost:
        print(f"{path}: lost, because its task failed {ATTEMPTS} times: see the log of Ray, and run this again", file=sys.stderr)
    if lost:
        sys.exit(1)


if __name__ == "__main__":
    main()
