"""Makes an override of TensorRT-LLM's py_executor.py for torch traces: with stacks, from rank 0 alone.

python3 trtllm_override.py OVERRIDE [SOURCE]
writes the override and prints the path of the source, over which the override is to be copied or mounted. Nothing is imported from
TensorRT-LLM, so no GPU is needed.
"""

import importlib.util
import pathlib
import re
import sys

PROFILER = "torch_profiler = torch.profiler.profile("
SWITCH = re.compile(r"(?<![\w.])enable_torch_trace = (?=\S)")


def end_of_brackets(text, start):
    """The position after the bracket that closes the first one at or after `start`."""
    depth = 0
    for at in range(start, len(text)):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(text[at], 0)
        if depth == 0 and text[at] in ")]}":
            return at + 1
    sys.exit("trtllm_override.py: a bracket is not closed")


def with_stacks(text):
    start = text.find(PROFILER)
    if start < 0:
        sys.exit(f"trtllm_override.py: no `{PROFILER}` in the source: this release profiles in another way")
    end = end_of_brackets(text, start)
    call = text[start:end]
    if "with_stack" in call:
        return text
    arguments = call[:-1].rstrip().rstrip(",")
    return f"{text[:start]}{arguments}, with_stack=True){text[end:]}"


def on_rank_0(text):
    match = SWITCH.search(text)
    if match is None:
        sys.exit("trtllm_override.py: no `enable_torch_trace = ` in the source: this release profiles in another way")
    line = text.index("\n", match.end())
    bracket = text.find("(", match.end(), line)
    end = end_of_brackets(text, bracket) if bracket >= 0 else line
    if "self.dist.rank == 0" in text[match.end():text.index("\n", end)]:
        return text
    return f"{text[:end]} and self.dist.rank == 0{text[end:]}"


def installed():
    package = importlib.util.find_spec("tensorrt_llm")
    if package is None or package.origin is None:
        sys.exit("trtllm_override.py: TensorRT-LLM is not installed here: run this in its container")
    return pathlib.Path(package.origin).parent / "_torch" / "pyexecutor" / "py_executor.py"


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    source = pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else installed()
    pathlib.Path(sys.argv[1]).write_text(on_rank_0(with_stacks(source.read_text())))
    print(source)


if __name__ == "__main__":
    main()
