"""Make `tests/captures/expected/xnnpack_graphs.json.gz` again: the graphs in XNNPACK's blobs, by flatc.

    ENV/bin/python -m tests.parity.make_xnnpack_graphs tests/captures    # an environment with executorch, which has flatc

By program, `METHOD/DELEGATE`: the graph as JSON. By `every op`: a graph with each op of the schema, as JSON and as the
bytes (base64) that flatc made of it; its numbers are all different.
"""

from __future__ import annotations

import base64
import gzip
import importlib.resources
import json
import re
import sys
from itertools import count
from pathlib import Path
from typing import Any

from executorch.backends.xnnpack import serialization
from executorch.backends.xnnpack.serialization.xnnpack_graph_serialize import XNNHeader
from executorch.exir._serialize._program import deserialize_pte_binary

from tests.parity.flatc import as_bytes, as_json

SCHEMA = importlib.resources.files(serialization).joinpath("schema.fbs").read_text()


def tables() -> dict[str, list[tuple[str, str]]]:
    """The fields of the schema's tables, with their types."""
    found = {}
    for name, body in re.findall(r"^table (\w+) \{(.*?)^\}", SCHEMA, re.MULTILINE | re.DOTALL):
        fields = re.findall(r"^\s*(\w+)\s*:\s*([\w\[\]]+)", re.sub("//.*", "", body), re.MULTILINE)
        found[name] = [(field, type) for field, type in fields]
    return found


def every_op() -> Any:
    """A graph with each op."""
    [body] = re.findall(r"^union XNodeUnion \{(.*?)^\}", SCHEMA, re.MULTILINE | re.DOTALL)
    number, handle, known, nodes, ids = count(100), count(1), tables(), [], []
    for op, table in re.findall(r"(\w+)(?:\s*:\s*(\w+))?\s*,", body):
        fields: dict[str, Any] = {}
        for field, type in known[table or op]:
            value = next(number)
            fields[field] = [value, next(number)] if type.startswith("[") else value + 0.5 if type == "float" else value
            if field.endswith("_id"):
                ids.append(value)
        nodes.append({"xnode_union_type": op, "xnode_union": fields, "debug_handle": next(handle)})
    values = [
        {
            "xvalue_union_type": "XNNTensorValue",
            "xvalue_union": {"datatype": at % 15, "num_dims": 1, "dims": [at], "id_out": each, "flags": at % 4},
        }
        for at, each in enumerate(ids)
    ]
    return {"version": "0", "xnodes": nodes, "xvalues": values}


def main() -> None:
    folder = Path(sys.argv[1])
    found: dict[str, Any] = {}
    for path in sorted(folder.glob("**/*.pte")):
        program = deserialize_pte_binary(path.read_bytes()).program
        for plan in program.execution_plan:
            for index, delegate in enumerate(plan.delegates):
                if delegate.id == "XnnpackBackend":
                    data = program.backend_delegate_data[delegate.processed.index].data
                    header = XNNHeader.from_bytes(bytes(data[: XNNHeader.EXPECTED_LENGTH]))
                    end = header.flatbuffer_offset + header.flatbuffer_size
                    graph = as_json(SCHEMA, bytes(data[header.flatbuffer_offset : end]))
                    found.setdefault(path.stem, {})[f"{plan.name}/{index}"] = graph
    binary = as_bytes(SCHEMA, every_op())
    found["every op"] = {"binary": base64.b64encode(binary).decode(), "graph": as_json(SCHEMA, binary)}
    text = json.dumps(found, indent=1)
    with open(folder / "expected" / "xnnpack_graphs.json.gz", "wb") as file:
        file.write(gzip.compress(text.encode(), mtime=0))
    print(len(found), "programs", {each: len(graphs) for each, graphs in found.items()})


if __name__ == "__main__":
    main()
