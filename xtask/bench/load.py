"""Starts `gpuprism serve` and sends a trace: some requests one after the other, then from many clients at once. Prints JSON.

usage: load.py PROGRAM TRACE REQUESTS CLIENTS. Peak memory of the server is the kernel's own count (VmHWM; Linux only).
"""
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time


def send(address, body):
    """The seconds until the whole answer is there."""
    start = time.perf_counter()
    connection = http.client.HTTPConnection(address, timeout=300)
    connection.request("POST", "/v1/analyze/json", body, {"Content-Type": "multipart/form-data; boundary=b"})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200:
        sys.exit(f"the server answered {answer.status}: {text[:200]}")
    connection.close()
    return time.perf_counter() - start


def peak_bytes(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
        lines = [line for line in status if line.startswith("VmHWM:")]
    return int(lines[0].split()[1]) * 1024


def main(program, trace, requests, clients):
    name = os.path.basename(trace)
    with open(trace, "rb") as file:
        contents = file.read()
    head = f'--b\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    body = head.encode() + contents + b"\r\n--b--\r\n"
    with tempfile.TemporaryDirectory() as spool:
        command = [program, "serve", "--host", "127.0.0.1", "--port", "0"]
        environment = {**os.environ, "TMPDIR": spool}
        environment.pop("NSYS_API_KEY", None)
        log = subprocess.PIPE
        with subprocess.Popen(command, env=environment, stderr=log, text=True) as server:
            try:
                address = server.stderr.readline().strip().rsplit("/", 1)[1]
                threading.Thread(target=server.stderr.read, daemon=True).start()
                single = [send(address, body) for _ in range(requests)]
                times = []
                threads = [threading.Thread(target=lambda: times.append(send(address, body))) for _ in range(clients)]
                start = time.perf_counter()
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                seconds = time.perf_counter() - start
                if len(times) < clients:
                    sys.exit(f"only {len(times)} of {clients} clients got an answer")
                print(json.dumps({
                    "single_seconds": statistics.median(single),
                    "requests_per_second": clients / seconds,
                    "median_seconds": statistics.median(times),
                    "p95_seconds": sorted(times)[int(0.95 * (clients - 1))],
                    "peak_bytes": peak_bytes(server),
                }))
            finally:
                server.terminate()


main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
