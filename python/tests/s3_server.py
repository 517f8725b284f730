"""An S3 server on this machine, which keeps its objects in memory and fails when told to. It emulates the protocol: moto, not AWS."""

import collections
import contextlib
import logging
import threading

import pyarrow.fs
from moto.server import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

# What S3 answers when it has too much to do, and when somebody may not read an object.
BUSY = ("503 Slow Down", "SlowDown")
DENIED = ("403 Forbidden", "AccessDenied")


class Failing:
    """Passes requests to the server. The ones of `failures` get their answer instead, as often as it says."""

    def __init__(self, server):
        self.server = server
        self.requests = []
        # By method and path: the answer and how many requests still get it.
        self.failures = {}
        self.lock = threading.Lock()

    def fail(self, method, path, answer, times):
        self.failures[method, path] = (answer, times)

    def answer_instead(self, request):
        with self.lock:
            self.requests.append(request)
            answer, left = self.failures.get(request, (None, 0))
            if left > 0:
                self.failures[request] = (answer, left - 1)
            return answer if left > 0 else None

    def __call__(self, environ, start_response):
        method = environ["REQUEST_METHOD"]
        answer = self.answer_instead((method, environ["PATH_INFO"]))
        if answer is None:
            return self.server(environ, start_response)
        status, code = answer
        body = b"" if method == "HEAD" else f"<Error><Code>{code}</Code></Error>".encode()
        start_response(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
        return [body]


class Storage:
    """A bucket and what the tests ask of it."""

    def __init__(self, endpoint, front):
        self.endpoint, self.front = endpoint, front
        self.system = pyarrow.fs.S3FileSystem(endpoint_override=endpoint, scheme="http", allow_bucket_creation=True)

    def write(self, path, data):
        with self.system.open_output_stream(path) as file:
            file.write(data)

    def objects(self, folder):
        """The size of each object by its key."""
        found = self.system.get_file_info(pyarrow.fs.FileSelector(folder, recursive=True))
        return {info.path: info.size for info in found if info.is_file}

    def requests(self):
        """How many requests there were since the last question, by method and path."""
        with self.front.lock:
            counted = collections.Counter(self.front.requests)
            self.front.requests.clear()
        return counted


@contextlib.contextmanager
def serve():
    """A server with a free port, until the end of the block."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    front = Failing(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, front, threaded=True, request_handler=MotoRequestHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Storage(f"127.0.0.1:{server.server_port}", front)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
