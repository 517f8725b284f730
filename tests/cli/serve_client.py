"""Calls `gpuprism serve` with the requests that the client of nsys-llm-explainer sends, and checks what it returns.

usage: serve_client.py BASE_URL TRACE FOLDER; the server's key is "secret".

The client is not on the Python package index. This file follows the description of its three calls: health, analyze_json and
analyze_artifacts, with the file, the phase map and the options as multipart form data, the key as `x-api-key`, and 300 s to wait.
"""

import sys
import zipfile
from pathlib import Path

import requests

TIMEOUT_S = 300


class Client:
    def __init__(self, base_url, api_key):
        self.base_url = base_url
        self.headers = {"x-api-key": api_key} if api_key else {}

    def health(self):
        answer = requests.get(f"{self.base_url}/healthz", headers=self.headers, timeout=TIMEOUT_S)
        answer.raise_for_status()
        return answer.json()

    def analyze_json(self, trace, phase_map=None, **options):
        return self._post("json", trace, phase_map, options).json()

    def analyze_artifacts(self, trace, out, phase_map=None, **options):
        out.write_bytes(self._post("artifacts", trace, phase_map, options).content)

    def _post(self, path, trace, phase_map, options):
        files = {"file": (trace.name, trace.read_bytes())}
        if phase_map:
            files["phase_map"] = (phase_map.name, phase_map.read_bytes())
        url = f"{self.base_url}/v1/analyze/{path}"
        # Python writes booleans as True and False.
        answer = requests.post(url, files=files, data=options, headers=self.headers, timeout=TIMEOUT_S)
        answer.raise_for_status()
        return answer


def main():
    base_url, trace, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    client = Client(base_url, "secret")
    health = client.health()
    assert health["ok"] is True and health["auth_enabled"] is True, health

    answer = client.analyze_json(trace, kernel_limit=30, include_markdown=True)
    assert set(answer) == {"summary", "report", "markdown"}, set(answer)
    summary = {
        "tool_version", "warnings_count", "findings_count", "severity_counts", "top_kernel", "top_barrier", "top_nccl_op",
    }
    assert set(answer["summary"]) == summary, set(answer["summary"])
    assert set(answer["summary"]["severity_counts"]) == {"high", "medium", "low"}
    top = answer["report"]["metrics"]["top_kernels"]["kernels"][0]
    assert answer["summary"]["top_kernel"]["name"] == top["kernel_name"]
    assert answer["markdown"].startswith("# ")

    phase_map = folder / "phases.json"
    phase_map.write_text('{"all": "re:."}')
    short = client.analyze_json(trace, phase_map, kernel_limit=1, include_markdown=False)
    assert set(short) == {"summary", "report"}, set(short)
    assert len(short["report"]["metrics"]["top_kernels"]["kernels"]) == 1

    archive = folder / "artifacts.zip"
    client.analyze_artifacts(trace, archive, kernel_limit=30)
    with zipfile.ZipFile(archive) as files:
        assert files.testzip() is None
        assert {"report.json", "report.md", "tables/kernels.csv"} <= set(files.namelist())

    for key in [None, "wrong"]:
        try:
            Client(base_url, key).analyze_json(trace)
        except requests.HTTPError as error:
            assert error.response.status_code == 401, error
            assert isinstance(error.response.json()["detail"], str)
        else:
            raise AssertionError(f"the key {key} was accepted")


main()
