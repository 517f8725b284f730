"""Puts `gpuprism serve` under load: many clients at once, of which some are cut off, slow or hostile.

usage: python3 serve_load.py PROGRAM [SECONDS] [CLIENTS]

Starts PROGRAM serve on a free port of this machine and sends requests for that many seconds (default 600) from that
many clients (default 64). Every right request must get the bytes of a reference answer, or be told to come again (503).
Every wrong one must get its status. Afterwards no analysis runs, the spool is empty, the reference is answered again,
and the server ends with status 0. Prints the answers by kind, and the peak memory of the server and of all its
processes; exits with 1 if anything is not so. Linux, Python 3.9.
"""
import collections
import gzip
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

KERNELS = 2000
ANALYSES = 2
CPU_SECONDS = 10
TIMEOUT_S = 300
MIB = 1 << 20
# The server alone, without the processes of analyses: 1 to 2 MB for each client, and the program itself.
MAX_SERVER_MB = 300
BUSY = {503}
BOUNDARY = b"load"


def trace(kernels, streams=4):
    def kernel(n):
        args = {"device": 0, "stream": n % streams}
        name, thread = f"gemm_{n % 50}", n % streams
        return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": thread, "ts": n * 10, "dur": 7, "args": args}

    return json.dumps({"traceEvents": [kernel(n) for n in range(kernels)]}).encode()


def form(name, contents, after=b""):
    head = b'--%b\r\nContent-Disposition: form-data; name="file"; filename="%b"\r\n\r\n' % (BOUNDARY, name.encode())
    return head + contents + b"\r\n--%b--\r\n" % BOUNDARY + after


def request(body, path="/v1/analyze/json", host=b"Host: x\r\n"):
    head = b"POST %b HTTP/1.1\r\n%bConnection: close\r\nContent-Type: multipart/form-data; boundary=%b\r\n"
    length = b"Content-Length: %d\r\n\r\n" % len(body)
    return head % (path.encode(), host, BOUNDARY) + length + body


GOOD = trace(KERNELS)
PACKED = gzip.compress(GOOD)
BOMB = gzip.compress(b" " * (64 * MIB))
REFUSED = {
    "text as a database": (request(form("a.sqlite", b"nothing but text\n")), {400}),
    "no trace": (request(form("a.json", b'{"a": 1}')), {400}),
    "another suffix": (request(form("a.txt", GOOD)), {400}),
    "a cut gzip file": (request(form("a.json.gz", PACKED[: len(PACKED) // 2])), {400}),
    "no form": (request(b"x" * 5000), {400}),
    "bytes after the form": (request(form("a.json", GOOD, b" " * (3 * MIB))), {400}),
    "two hosts": (request(form("a.json", GOOD), host=b"Host: x\r\nHost: y\r\n"), {400}),
    "another host": (request(form("a.json", GOOD), path="http://other/v1/analyze/json"), {400}),
    "a damaged database": (request(form("a.db", b"SQLite format 3\0" + b"\xff" * 5000)), {500}),
    # Whatever these are, they end, and with one of these answers.
    "spaces without end": (request(form("a.json.gz", BOMB)), {200, 400, 413, 500, 504}),
    "many streams": (request(form("a.json", trace(20_000, streams=20_000))), {200, 400, 504}),
    "deep nesting": (request(form("a.json", b'{"traceEvents":' + b"[" * 200_000)), {200, 400, 504}),
    "strings that never end": (request(form("a.json", b'{"traceEvents":[{"name":"' * 20_000)), {200, 400, 504}),
}


class Load:
    def __init__(self, program, folder):
        self.spool = os.path.join(folder, "tmp")
        os.mkdir(self.spool)
        environment = {**os.environ, "TMPDIR": self.spool}
        environment.pop("NSYS_API_KEY", None)
        command = [program, "serve", "--host", "127.0.0.1", "--port", "0"]
        command += ["--max-analyses", str(ANALYSES), "--spool-gb", "1", "--cpu-seconds", str(CPU_SECONDS)]
        self.server = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
        line = self.server.stderr.readline().decode()
        self.address = ("127.0.0.1", int(line.rsplit(":", 1)[1]))
        threading.Thread(target=self.read_log, daemon=True).start()
        self.answers = collections.Counter()
        self.wrong = []
        self.lock = threading.Lock()
        self.peak_mb = self.peak_all_mb = 0
        self.goes_on = True
        self.reference = {}
        for path in ("/v1/analyze/json", "/v1/analyze/artifacts"):
            status, body = self.ask(request(form("good.json", GOOD), path))
            assert status == 200, body
            self.reference[path] = body

    def read_log(self):
        while self.server.stderr.read(MIB):
            pass

    def connect(self):
        return socket.create_connection(self.address, TIMEOUT_S)

    def ask(self, sent, pause_s=0.0):
        """Status and body; status 0 if the server closed the connection before an answer."""
        with self.connect() as connection:
            try:
                if pause_s:
                    step = max(len(sent) // 20, 1)
                    for start in range(0, len(sent), step):
                        connection.sendall(sent[start : start + step])
                        time.sleep(pause_s)
                else:
                    connection.sendall(sent)
            except OSError:
                pass  # Refused before its end: the answer says why.
            return received(connection)

    def metric(self, name):
        _, body = self.ask(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        lines = [line for line in body.decode().splitlines() if line.startswith(name + " ")]
        return int(lines[0].split()[1])

    def count(self, kind, status, is_right, detail=b""):
        with self.lock:
            self.answers[kind, status] += 1
            if not is_right:
                self.wrong.append(f"{kind}: {status} {detail[:200]!r}")

    def right(self, kind, path="/v1/analyze/json", pause_s=0.0, packed=False):
        body = form("good.json.gz", PACKED) if packed else form("good.json", GOOD)
        status, answer = self.ask(request(body, path), pause_s)
        is_right = status in BUSY or (status == 200 and answer == self.reference[path])
        self.count(kind, status, is_right, answer)

    def cut(self, kind, sent, seconds):
        with self.connect() as connection:
            try:
                connection.sendall(sent)
            except OSError:
                pass
            time.sleep(seconds)
        self.count(kind, "-", True)

    def client(self, seed):
        chance = random.Random(seed)
        slow_trace = request(form("slow.json", trace(30_000, streams=30_000)))
        while self.goes_on:
            kind = chance.randrange(10)
            try:
                if kind < 3:
                    self.right("a right request", packed=chance.random() < 0.5)
                elif kind == 3:
                    self.right("an archive", "/v1/analyze/artifacts")
                elif kind == 4:
                    self.right("a slow upload", pause_s=chance.random() / 5)
                elif kind == 5:
                    whole = request(form("good.json", GOOD))
                    self.cut("cut in its upload", whole[: chance.randrange(len(whole))], 0)
                elif kind == 6:
                    self.cut("cut in its analysis", slow_trace, chance.random() * 2)
                elif kind == 7:
                    self.cut("cut with bytes unread", slow_trace + b"x" * chance.randrange(100_000), chance.random())
                else:
                    name = chance.choice(sorted(REFUSED))
                    sent, statuses = REFUSED[name]
                    status, answer = self.ask(sent)
                    # A refused body may be cut off before the client has sent it.
                    self.count(name, status, status in statuses | BUSY | {0}, answer)
            except OSError as error:
                self.count("a connection", type(error).__name__, False, str(error).encode())

    def watch(self):
        while self.goes_on:
            own = resident_mb(self.server.pid)
            workers = sum(resident_mb(child) for child in children(self.server.pid))
            self.peak_mb, self.peak_all_mb = max(self.peak_mb, own), max(self.peak_all_mb, own + workers)
            time.sleep(0.02)

    def run(self, seconds, clients):
        threads = [threading.Thread(target=self.client, args=(seed,)) for seed in range(clients)]
        threads.append(threading.Thread(target=self.watch))
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        self.goes_on = False
        for thread in threads:
            thread.join()

    def finish(self):
        """Seconds until all places were free, and what is not as promised."""
        start, promised = time.monotonic(), []
        while (self.metric("gpuprism_analyses_running"), self.metric("gpuprism_analyses_waiting")) != (0, 0):
            if time.monotonic() - start > TIMEOUT_S:
                promised.append("an analysis still runs")
                break
            time.sleep(0.05)
        seconds = time.monotonic() - start
        if children(self.server.pid):
            promised.append("a process of an analysis is left")
        found = [name for _, folders, files in os.walk(self.spool) for name in folders + files]
        left = [name for name in found if name != "lock" and not name.startswith("gpuprism-spool-")]
        if left or self.metric("gpuprism_spool_bytes"):
            promised.append(f"the spool has {left}")
        for path, body in self.reference.items():
            if self.ask(request(form("good.json", GOOD), path)) != (200, body):
                promised.append(f"{path} answers otherwise than before")
        self.server.send_signal(signal.SIGTERM)
        if self.server.wait(TIMEOUT_S) != 0:
            promised.append(f"the server ended with {self.server.returncode}")
        if os.listdir(self.spool):
            promised.append(f"the server left {os.listdir(self.spool)}")
        return seconds, promised


def received(connection):
    parts = []
    try:
        while part := connection.recv(MIB):
            parts.append(part)
    except ConnectionError:
        pass
    head, _, body = b"".join(parts).partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    return (int(words[1]), body) if len(words) > 2 else (0, b"")


def resident_mb(process):
    try:
        with open(f"/proc/{process}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB
    except (OSError, IndexError):
        return 0


def children(process):
    found = []
    try:
        for task in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{task}/children") as file:
                found += file.read().split()
    except OSError:
        pass
    return found


def main():
    program = sys.argv[1]
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 600
    clients = int(sys.argv[3]) if len(sys.argv) > 3 else 64
    with tempfile.TemporaryDirectory() as folder:
        load = Load(os.path.abspath(program), folder)
        load.run(seconds, clients)
        free_s, broken = load.finish()
    for (kind, status), count in sorted(load.answers.items(), key=str):
        print(f"{count:8} {status!s:>5}  {kind}")
    print(f"{sum(load.answers.values())} requests of {clients} clients in {seconds:.0f} s")
    print(f"peak memory: {load.peak_mb:.0f} MB of the server, {load.peak_all_mb:.0f} MB with its analyses")
    print(f"all places free {free_s:.1f} s after the last request")
    if load.peak_mb > MAX_SERVER_MB:
        broken.append(f"the server needs more than {MAX_SERVER_MB} MB")
    broken += load.wrong[:20]
    for line in broken:
        print(f"wrong: {line}")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
