"""Make a large ETRecord quickly: `make_record.py IN OUT NODES` repeats the edge graph of a real record.

Each copy's nodes and tensors have names of their own, read what the same copy wrote, and have debug handles of their
own, so that nothing is shared but the model's parameters.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

EDGE_GRAPH = "edge_dialect_exported_program/forward"


def make_record(source: Path, target: Path, nodes: int) -> int:
    """Write the large record; returns the bytes of its graphs' JSON."""
    with zipfile.ZipFile(source) as record:
        members = {name: record.read(name) for name in record.namelist()}
    exported = json.loads(members[EDGE_GRAPH])
    graph = exported["graph_module"]["graph"]
    made = [name for node in graph["nodes"] for name in _output_names(node)]
    pattern = re.compile(r'"name": "(' + "|".join(map(re.escape, sorted(made, key=len, reverse=True))) + r')"')
    handles = max(int(node["metadata"].get("debug_handle", 0)) for node in graph["nodes"])
    one = json.dumps(graph["nodes"])
    values = {name: graph["tensor_values"][name] for name in made if name in graph["tensor_values"]}
    copies = -(-nodes // len(graph["nodes"]))
    repeated: list[dict[str, Any]] = []
    for copy in range(copies):
        for node in json.loads(pattern.sub(rf'"name": "\1_{copy}"', one)):
            if "debug_handle" in node["metadata"]:
                node["metadata"]["debug_handle"] = str(int(node["metadata"]["debug_handle"]) + copy * handles)
            repeated.append(node)
        graph["tensor_values"].update({f"{name}_{copy}": value for name, value in values.items()})
    graph["nodes"] = repeated[:nodes]
    members[EDGE_GRAPH] = json.dumps(exported).encode()
    with zipfile.ZipFile(target, "w") as record:
        for name, content in members.items():
            record.writestr(name, content)
    return len(members[EDGE_GRAPH]) + len(members.get("exported_program", b""))


def _output_names(node: dict[str, Any]) -> list[str]:
    named = [output.get("as_tensor") or {} for output in node["outputs"]]
    listed = [each for output in node["outputs"] for each in output.get("as_tensors") or ()]
    return [each["name"] for each in (*named, *listed) if "name" in each]


if __name__ == "__main__":
    print(make_record(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])), "bytes of JSON")
