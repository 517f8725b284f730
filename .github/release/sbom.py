"""Prints the bill of materials of the program as CycloneDX JSON: every crate that is compiled into it, with license and checksum.

Reads what `cargo metadata` and Cargo.lock say; nothing is built and nothing is downloaded that the build does not need.
usage: sbom.py TARGET > gpuprism.cdx.json
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def metadata(target):
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--features", "embed-page", "--filter-platform", target]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)


def checksums():
    """The SHA-256 of each crate from the registry, by name and version."""
    blocks = (ROOT / "Cargo.lock").read_text().split("[[package]]")[1:]
    fields = (dict(re.findall(r'^(\w+) = "(.*)"$', block, re.MULTILINE)) for block in blocks)
    return {(block["name"], block["version"]): block["checksum"] for block in fields if "checksum" in block}


def compiled(graph, root):
    """The ids of the packages that the root needs, other than for its tests."""
    nodes = {node["id"]: node for node in graph["resolve"]["nodes"]}
    found, waiting = set(), [root]
    while waiting:
        package = waiting.pop()
        if package in found:
            continue
        found.add(package)
        for dependency in nodes[package]["deps"]:
            if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"]):
                waiting.append(dependency["pkg"])
    return found


def component(package, sums):
    name, version = package["name"], package["version"]
    entry = {"type": "library", "bom-ref": f"pkg:cargo/{name}@{version}", "name": name, "version": version, "purl": f"pkg:cargo/{name}@{version}"}
    if package["license"]:
        entry["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if (name, version) in sums:
        entry["hashes"] = [{"alg": "SHA-256", "content": sums[name, version]}]
    return entry


def main(target):
    graph, sums = metadata(target), checksums()
    packages = {package["id"]: package for package in graph["packages"]}
    [root] = [package["id"] for package in graph["packages"] if package["name"] == "gpuprism"]
    needed = sorted((packages[id] for id in compiled(graph, root) - {root}), key=lambda package: (package["name"], package["version"]))
    program = component(packages[root], sums) | {"type": "application"}
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": program},
        "components": [component(package, sums) for package in needed],
    }
    json.dump(bill, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main(*sys.argv[1:])
