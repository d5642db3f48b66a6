"""Make a large ETRecord quickly: `make_record.py IN OUT NODES` repeats the graphs of a real record until they have so many.

Each copy's nodes and tensors have names of their own, read what the same copy wrote, were made of nodes of the same copy,
and have debug handles of their own, so that nothing is shared but the model's parameters.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

GRAPHS = ("exported_program", "edge_dialect_exported_program/forward")


def make_record(source: Path, target: Path, nodes: int) -> int:
    """Write the large record; returns the bytes of its graphs' JSON."""
    with zipfile.ZipFile(source) as record:
        members = {name: record.read(name) for name in record.namelist()}
    programs = {name: json.loads(members[name]) for name in GRAPHS}
    graphs = [program["graph_module"]["graph"] for program in programs.values()]
    names = {
        name for graph in graphs for node in graph["nodes"] for name in (node["name"], *_output_names(node)) if name
    }
    copies = -(-nodes // sum(len(graph["nodes"]) for graph in graphs))
    for graph in graphs:
        _repeat(graph, copies, names)
    for name, program in programs.items():
        members[name] = json.dumps(program).encode()
    with zipfile.ZipFile(target, "w") as record:
        for name, content in members.items():
            record.writestr(name, content)
    return sum(len(members[name]) for name in GRAPHS)


def _repeat(graph: dict[str, Any], copies: int, names: set[str]) -> None:
    """Repeat a graph's nodes and tensors; of all names, these are each copy's own."""
    # Also the names in JSON within a text, which describes the origin of a node.
    pattern = re.compile(r'(\\?"name\\?": \\?")(' + "|".join(sorted(names, key=len, reverse=True)) + r')(?=\\?")')
    handles = max(int(node["metadata"].get("debug_handle", 0)) for node in graph["nodes"])
    made = {name for node in graph["nodes"] for name in _output_names(node)} & graph["tensor_values"].keys()
    values = {name: graph["tensor_values"][name] for name in made}
    one = json.dumps(graph["nodes"])
    graph["nodes"] = []
    for copy in range(copies):
        for node in json.loads(pattern.sub(rf"\1\2_{copy}", one)):
            if "debug_handle" in node["metadata"]:
                node["metadata"]["debug_handle"] = str(int(node["metadata"]["debug_handle"]) + copy * handles)
            graph["nodes"].append(node)
        graph["tensor_values"].update({f"{name}_{copy}": value for name, value in values.items()})


def _output_names(node: dict[str, Any]) -> list[str]:
    named = [output.get("as_tensor") or {} for output in node["outputs"]]
    listed = [each for output in node["outputs"] for each in output.get("as_tensors") or ()]
    return [each["name"] for each in (*named, *listed) if "name" in each]


if __name__ == "__main__":
    print(make_record(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])), "bytes of JSON")
