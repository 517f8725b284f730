"""Runs a command with its output thrown away; prints wall seconds, seconds of user processor time, the peak memory of the process
and its exit code as JSON. A process that a signal ends is an error.

Peak memory is the kernel's own count (ru_maxrss). It cannot fall below that of this interpreter, about 10 MB.
"""
import json
import os
import sys
import time


def main(command):
    discard = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    start = time.perf_counter()
    process = os.posix_spawnp(command[0], command, os.environ, file_actions=discard)
    _, status, usage = os.wait4(process, 0)
    seconds = time.perf_counter() - start
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        sys.exit(f"ended by signal {-code}: {' '.join(command)}")
    unit = 1 if sys.platform == "darwin" else 1024
    figures = {"seconds": seconds, "user_seconds": usage.ru_utime, "peak_bytes": usage.ru_maxrss * unit, "exit_code": code}
    print(json.dumps(figures))


main(sys.argv[1:])
