"""Starts `gpuprism serve` and sends a trace: some requests one after the other, then from many clients at once. Then as many clients
send requests that are broken, slow, hostile or not allowed, together with good ones. Prints JSON.

usage: load.py PROGRAM TRACE REQUESTS CLIENTS. Linux only: memory and open files of the server are the kernel's own counts.
"""
import collections
import gzip
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

KEY = "benchmark"
ROUNDS = 8
SMALL = json.dumps({"traceEvents": [
    {"ph": "X", "cat": "kernel", "name": "gemm", "ts": ts, "dur": 5, "pid": 0, "tid": 7, "args": {"device": 0, "stream": 7}}
    for ts in range(0, 1000, 10)
]}).encode()


def form(name, contents):
    head = f'--b\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    return head.encode() + contents + b"\r\n--b--\r\n"


def send(address, body, key=KEY, expected=200, content_type="multipart/form-data; boundary=b"):
    """The seconds until the whole answer is there."""
    start = time.perf_counter()
    connection = http.client.HTTPConnection(address, timeout=300)
    connection.request("POST", "/v1/analyze/json", body, {"Content-Type": content_type, "x-api-key": key})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    if answer.status != expected:
        sys.exit(f"the server answered {answer.status} instead of {expected}: {text[:200]}")
    return time.perf_counter() - start


def connect(address, length):
    """A connection that has sent the head of a request."""
    host, port = address.rsplit(":", 1)
    stream = socket.create_connection((host, int(port)), timeout=60)
    stream.sendall(
        f"POST /v1/analyze/json HTTP/1.1\r\nHost: x\r\nx-api-key: {KEY}\r\nConnection: close\r\n"
        f"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: {length}\r\n\r\n".encode()
    )
    return stream


def status(stream):
    answer = http.client.HTTPResponse(stream)
    answer.begin()
    answer.read()
    stream.close()
    return answer.status


def slow_body(address, body):
    small = form("slow.json", SMALL)
    stream = connect(address, len(small))
    for start in range(0, len(small), 256):
        stream.sendall(small[start:start + 256])
        time.sleep(0.02)
    assert status(stream) == 200


def cut_body(address, body):
    stream = connect(address, len(body))
    stream.sendall(body[:len(body) // 2])
    stream.close()


def unread_answer(address, body):
    stream = connect(address, len(body))
    stream.sendall(body)
    time.sleep(0.5)
    stream.close()


def wrong_form(address, body):
    send(address, b"no form at all", expected=400)
    send(address, form("notes.txt", b"text"), expected=400)
    send(address, SMALL, expected=422, content_type="application/json")


def too_large(address, body):
    stream = connect(address, 3 << 30)
    stream.sendall(body[:1000])
    assert status(stream) == 413


def without_key(address, body):
    send(address, form("a.json", SMALL), key="wrong", expected=401)


def damaged_gzip(address, body):
    send(address, form("a.json.gz", gzip.compress(SMALL)[:-20]), expected=400)


FAULTS = [slow_body, cut_body, unread_answer, wrong_form, too_large, without_key, damaged_gzip]


def together(functions):
    """Runs all at once. Ends the program if one of them fails."""
    failed = []

    def run(function):
        try:
            function()
        except BaseException as error:
            failed.append(f"{getattr(function, '__name__', 'request')}: {error!r}")

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        sys.exit("\n".join(failed))


def bomb(address):
    """2 GB of blanks, for which the spool of 1 GB has no room."""
    packed = gzip.compress(b" " * (1 << 20), 9) * 2048
    send(address, form("bomb.json.gz", packed), expected=503)


def memory(process, name):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as text:
        lines = [line for line in text if line.startswith(name)]
    return int(lines[0].split()[1]) * 1024


def open_files(process):
    return len(os.listdir(f"/proc/{process.pid}/fd"))


def spooled(folder):
    """The files of uploads in the spool."""
    return sum(len(files) for path, _, files in os.walk(folder) if "upload-" in path)


def metric(address, name):
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("GET", "/metrics", headers={"x-api-key": KEY})
    lines = connection.getresponse().read().decode().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(name + " ")))


def wait_until_idle(server, address, folder, files):
    """The seconds until no analysis runs, the spool is empty and all connections are closed."""
    start = time.perf_counter()
    while metric(address, "gpuprism_analyses_running") or spooled(folder) or open_files(server) > files:
        if time.perf_counter() - start > 60:
            sys.exit(f"after a minute: {spooled(folder)} files in the spool, {open_files(server)} open files instead of {files}")
        time.sleep(0.05)
    return time.perf_counter() - start


def measure(server, address, spool, body, requests, clients):
    single = [send(address, body) for _ in range(requests)]
    files = open_files(server)
    times = []
    start = time.perf_counter()
    together([lambda: times.append(send(address, body))] * clients)
    seconds = time.perf_counter() - start
    peak = memory(server, "VmHWM:")
    wait_until_idle(server, address, spool, files)

    good, resident = [], []
    sent = collections.Counter()
    for _ in range(ROUNDS):
        mixed = [FAULTS[number % (len(FAULTS) + 1) - 1] if number % (len(FAULTS) + 1) else None for number in range(clients)]
        sent.update(fault.__name__ if fault else "good" for fault in mixed)
        together([
            (lambda fault=fault: fault(address, body)) if fault else (lambda: good.append(send(address, body)))
            for fault in mixed
        ])
        idle = wait_until_idle(server, address, spool, files)
        resident.append(memory(server, "VmRSS:"))
    bomb(address)
    wait_until_idle(server, address, spool, files)
    return {
        "single_seconds": statistics.median(single),
        "requests_per_second": clients / seconds,
        "median_seconds": statistics.median(times),
        "p95_seconds": sorted(times)[int(0.95 * (clients - 1))],
        "peak_bytes": peak,
        "faulty_requests": sum(sent.values()) - sent["good"],
        "good_seconds": statistics.median(good),
        "idle_seconds": idle,
        "peak_bytes_with_faults": memory(server, "VmHWM:"),
        "half_resident_bytes": resident[ROUNDS // 2 - 1],
        "last_resident_bytes": resident[-1],
        "spooled_files": spooled(spool),
        "new_open_files": max(0, open_files(server) - files),
    }


def main(program, trace, requests, clients):
    with open(trace, "rb") as file:
        body = form(os.path.basename(trace), file.read())
    with tempfile.TemporaryDirectory() as spool:
        command = [program, "serve", "--host", "127.0.0.1", "--port", "0", "--spool-gb", "1"]
        environment = {**os.environ, "TMPDIR": spool, "NSYS_API_KEY": KEY}
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as server:
            try:
                address = server.stderr.readline().strip().rsplit("/", 1)[1]
                threading.Thread(target=server.stderr.read, daemon=True).start()
                result = measure(server, address, spool, body, requests, clients)
            finally:
                server.terminate()
                server.wait()
        result["left_files"] = len(os.listdir(spool))
    print(json.dumps(result))


main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
