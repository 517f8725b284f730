"""Serves the HTTP layer of SGLang or vLLM, taken from its wheel, with an engine that needs no GPU and no model.

usage: serve.py sglang|vllm WHEEL FOLDER

The modules in REAL are those of the package: routes, request and answer types, error handlers. Every other module of the package, and
every module that is not installed (torch, ...), is a placeholder, because importing them needs a GPU or gigabytes. The engine writes a
small trace when its profiler stops: for vLLM into FOLDER. Prints the port. Needs fastapi and uvicorn, for SGLang also its small
dependencies.
"""
import gzip
import importlib
import importlib.abc
import importlib.machinery
import json
import os
import socket
import sys
import threading
import time
import types
import typing

REAL = {
    "sglang": {
        "sglang._version",
        "sglang.version",
        "sglang.srt.entrypoints.http_server",
        "sglang.srt.entrypoints.openai.protocol",
        "sglang.srt.lora.lora_registry",
        "sglang.srt.managers.embed_types",
        "sglang.srt.managers.io_struct",
        "sglang.srt.sampling.sampling_params",
        "sglang.srt.utils.auth",
        "sglang.srt.utils.field_validators",
        "sglang.srt.utils.json_response",
        "sglang.srt.utils.msgspec_utils",
    },
    "vllm": {
        "vllm._version",
        "vllm.version",
        "vllm.exceptions",
        "vllm.entrypoints.openai.models.api_router",
        "vllm.entrypoints.serve.dev.server_info.api_router",
        "vllm.entrypoints.serve.engine.protocol",
        "vllm.entrypoints.serve.exception_handling.error_response",
        "vllm.entrypoints.serve.exception_handling.handlers.exception",
        "vllm.entrypoints.serve.exception_handling.handlers.http",
        "vllm.entrypoints.serve.exception_handling.handlers.validation",
        "vllm.entrypoints.serve.exception_handling.handlers.vllm_error",
        "vllm.entrypoints.serve.exception_handling.register",
        "vllm.entrypoints.serve.exception_handling.utils",
        "vllm.entrypoints.serve.instrumentator.basic",
        "vllm.entrypoints.serve.profile.api_router",
    },
}
MODEL = "served-model"


class PlaceholderType(type):
    """A class that serves as type, base class, constant, function and decorator."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = PlaceholderType(name, (Placeholder,), {})
        setattr(cls, name, value)
        return value

    def __call__(cls, *args, **kwargs):
        is_decorator = len(args) == 1 and not kwargs and isinstance(args[0], types.FunctionType)
        return args[0] if is_decorator else cls

    def __or__(cls, other):
        return typing.Any

    __ror__ = __or__

    def __getitem__(cls, key):
        return cls

    def __iter__(cls):
        return iter(())

    def __bool__(cls):
        return False


class Placeholder:
    def __init_subclass__(cls, **kwargs):
        pass

    @classmethod
    def __get_pydantic_core_schema__(cls, source, handler):
        from pydantic_core import core_schema

        return core_schema.any_schema()


class PlaceholderModule(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = PlaceholderType(name, (Placeholder,), {})
        setattr(self, name, value)
        return value


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds placeholders for the modules of the package that are not in REAL (first), or for those that nobody else finds."""

    def __init__(self, package, wheel, first):
        self.package, self.wheel, self.first = package, wheel, first

    def find_spec(self, name, path=None, target=None):
        if self.first:
            wanted = name.split(".")[0] == self.package and name not in REAL[self.package]
        else:
            wanted = self.is_imported_by_the_package()
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if wanted else None

    def is_imported_by_the_package(self):
        """Other packages try optional imports, which must go on failing."""
        frame = sys._getframe(2)
        while frame and "importlib" in frame.f_code.co_filename:
            frame = frame.f_back
        return frame is not None and frame.f_code.co_filename.startswith(self.wheel)

    def create_module(self, spec):
        module = PlaceholderModule(spec.name)
        module.__path__ = [os.path.join(self.wheel, *spec.name.split("."))]
        return module

    def exec_module(self, module):
        pass


def write_trace(folder, name):
    event = {"ph": "X", "cat": "kernel", "name": "k", "ts": 1.0, "dur": 2.0, "pid": 0, "tid": 7}
    os.makedirs(folder, exist_ok=True)
    # The reader looks for `"cat": "kernel"` with one blank, as torch writes it.
    with gzip.open(os.path.join(folder, name), "wt") as file:
        json.dump({"schemaVersion": 1, "traceEvents": [event] * 2000}, file)


def sglang():
    server = importlib.import_module("sglang.srt.entrypoints.http_server")

    class TokenizerManager:
        served_model_name = MODEL
        model_config = types.SimpleNamespace(context_len=4096)
        server_args = None
        startup_time = 0.0
        profile = None

        async def get_internal_state(self):
            return [{}]

        # As the real ones: what the scheduler refuses is a RuntimeError.
        async def start_profile(self, request):
            if self.profile:
                raise RuntimeError("Profiling is already in progress. Call /stop_profile first.")
            self.profile = request

        async def stop_profile(self):
            if not self.profile:
                raise RuntimeError("Profiling is not in progress. Call /start_profile first.")
            write_trace(self.profile.output_dir, f"{self.profile.profile_id}-TP-0.trace.json.gz")
            self.profile = None

        async def generate_request(self, request, raw_request):
            tokens = (request.sampling_params or {}).get("max_new_tokens", 1)
            yield {"text": "x", "meta_info": {"completion_tokens": tokens}}

    settings = {"model_path": MODEL, "tp_size": 1, "pp_size": 1, "disable_cuda_graph": False, "tokenizer_path": MODEL, "api_key": "key"}
    server.build_server_info = lambda arguments, scheduler: {**settings, "launch_command": "sglang serve"}
    server.redact_watermark_secrets = lambda value: value
    server.generate_contract_error = lambda body: None
    state = types.SimpleNamespace(tokenizer_manager=TokenizerManager(), scheduler_info={})
    server.set_global_state(state)
    # Routers from modules that are placeholders.
    routes = server.app.router.routes
    routes[:] = [route for route in routes if not isinstance(getattr(route, "original_router", None), PlaceholderType)]
    return server.app


def vllm(folder):
    import fastapi

    models = importlib.import_module("vllm.entrypoints.openai.models.api_router")
    protocol = importlib.import_module("vllm.entrypoints.serve.engine.protocol")
    server_info = importlib.import_module("vllm.entrypoints.serve.dev.server_info.api_router")
    basic = importlib.import_module("vllm.entrypoints.serve.instrumentator.basic")
    profile = importlib.import_module("vllm.entrypoints.serve.profile.api_router")
    register = importlib.import_module("vllm.entrypoints.serve.exception_handling.register")
    exceptions = importlib.import_module("vllm.exceptions")

    class ProfilerConfig:
        profiler = "torch"

    class Models:
        async def show_available_models(self):
            return protocol.ModelList(data=[protocol.ModelCard(id=MODEL, root=MODEL, max_model_len=4096)])

    class Engine:
        overrides = None

        # As AsyncLLM with one client.
        async def start_profile(self, **overrides):
            if self.overrides is not None:
                raise exceptions.ProfilerAlreadyActiveError()
            self.overrides = overrides

        async def stop_profile(self):
            overrides, self.overrides = self.overrides, None
            if overrides is not None:
                prefix = overrides.get("profile_prefix", "rank0")
                write_trace(folder, f"{prefix}.{time.time_ns()}.pt.trace.json.gz")

    app = fastapi.FastAPI()
    app.state.args = types.SimpleNamespace(profiler_config=ProfilerConfig(), log_error_stack=False)
    app.state.engine_client = Engine()
    app.state.openai_serving_models = Models()
    app.state.vllm_config = {
        "model_config": {"enforce_eager": False},
        "parallel_config": {"tensor_parallel_size": 1, "pipeline_parallel_size": 1},
        "profiler_config": {"torch_profiler_dir": folder, "torch_profiler_with_stack": True},
    }
    server_info._get_vllm_env_vars = dict
    server_info._get_system_env_info_cached = dict
    profile.ProfilerConfig = ProfilerConfig
    profile.attach_router(app)
    server_info.attach_router(app)
    models.attach_router(app)
    app.include_router(basic.router)
    register.init_exception_handler(app)

    # Load only: the real route needs the whole engine.
    @app.post("/v1/chat/completions")
    @app.post("/v1/completions")
    async def completions(body: dict):
        return {"choices": [], "usage": {"completion_tokens": body.get("max_tokens", 1)}}

    return app


def end_with_parent():
    sys.stdin.read()
    os._exit(0)


def main(package, wheel, folder):
    sys.path.insert(0, wheel)
    sys.meta_path.insert(0, Finder(package, wheel, first=True))
    sys.meta_path.append(Finder(package, wheel, first=False))
    app = sglang() if package == "sglang" else vllm(folder)
    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    threading.Thread(target=end_with_parent, daemon=True).start()
    uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    main(*sys.argv[1:])
