"""Make `vulkan_graphs.json.gz` and `xnnpack_graphs.json.gz` of `tests/captures/expected` again: the graphs in delegates'
blobs, by flatc.

    ENV/bin/python -m tests.parity.make_delegate_graphs tests/captures    # with executorch, which has flatc; without a GPU

By program: its bytes (base64) where it is made here, and by `METHOD/DELEGATE` the graph as JSON. By `every kind` (of
Vulkan's values) and `every op` (of XNNPACK's schema): a graph as JSON and as the bytes (base64) that flatc made of it.
"""

from __future__ import annotations

import base64
import importlib.resources
import json
import re
import subprocess
import sys
import tempfile
from itertools import count
from pathlib import Path
from typing import Any

import torch
from executorch.backends.vulkan import serialization as of_vulkan
from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
from executorch.backends.vulkan.serialization.vulkan_graph_serialize import VulkanDelegateHeader
from executorch.backends.xnnpack import serialization as of_xnnpack
from executorch.backends.xnnpack.serialization.xnnpack_graph_serialize import XNNHeader
from executorch.exir import to_edge_transform_and_lower
from torch import nn
from torch.nn import functional

from tests.parity.making import delegates_of, write_json

VULKAN, XNNPACK = (
    importlib.resources.files(each).joinpath("schema.fbs").read_text() for each in (of_vulkan, of_xnnpack)
)
# A graph with each kind of value; the last op has a kind of its own.
KINDS: list[tuple[str, dict[str, Any]]] = [
    ("Null", {}), ("Int", {"int_val": -(2**60)}), ("Double", {"double_val": 0.25}), ("Bool", {"bool_val": True}),
    ("VkTensor", {"datatype": "FLOAT16", "dims": [2, 3], "constant_id": -1}), ("IntList", {"items": [3, -4]}),
    ("DoubleList", {"items": [0.5, 1.5]}), ("BoolList", {"items": [True, False]}), ("ValueList", {"items": [4, 11]}),
    ("String", {"string_val": "mean"}), ("SymInt", {"value": 7}),
    ("VkTensor", {"datatype": "INT64", "dims": [5], "constant_id": 3}),
    ("VkTensor", {"datatype": "UNSET", "dims": [], "constant_id": -1}), ("ValueList", {"items": [1, 10]}),
    ("VkTensor", {"datatype": "BOOL", "dims": [1], "constant_id": -1}), ("ValueList", {"items": [12, 14]}),
]  # fmt: skip
EVERY_KIND = {
    "version": "0",
    "chain": [
        {"node_id": 1, "name": "every", "args": [*range(12), 13, 12]},
        {"node_id": 2, "name": "in_place", "args": [12, 12]},
        {"node_id": 3, "name": "several", "args": [8, 15]},
        {"node_id": 4, "name": "nothing", "args": []},
    ],
    "values": [{"value_type": kind, "value": value} for kind, value in KINDS],
    "input_ids": [4],
    "output_ids": [12, 14],
}


class Convolutions(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.linear = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8, 4)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        found = torch.relu(self.convolution(image)).mean((2, 3))
        return torch.softmax(self.linear(found) * 2.5, -1)


class Lists(nn.Module):  # type: ignore[misc]
    """Ops that take or produce lists of tensors."""

    def forward(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        first, second = torch.cat([one, other, one + 1], 1).split([8, 16], 1)
        return functional.gelu(first).permute(1, 0) @ second[:, 2:10]


def tables() -> dict[str, list[tuple[str, str]]]:
    """The fields of the schema's tables, with their types."""
    found = {}
    for name, body in re.findall(r"^table (\w+) \{(.*?)^\}", XNNPACK, re.MULTILINE | re.DOTALL):
        fields = re.findall(r"^\s*(\w+)\s*:\s*([\w\[\]]+)", re.sub("//.*", "", body), re.MULTILINE)
        found[name] = [(field, type) for field, type in fields]
    return found


def every_op() -> Any:
    """A graph with each op."""
    [body] = re.findall(r"^union XNodeUnion \{(.*?)^\}", XNNPACK, re.MULTILINE | re.DOTALL)
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


def as_json(schema: str, graph: bytes) -> Any:
    """Return a graph as JSON."""
    options = ("--json", "--strict-json", "--defaults-json", "--raw-binary")
    text = _flatc(schema, *options, content=graph, name="schema.bin", made="schema.json").decode()
    return json.loads(re.sub(r": (-?)inf", r": \1Infinity", text))


def as_bytes(schema: str, graph: Any) -> bytes:
    """Return the bytes of a graph that is given as JSON."""
    return _flatc(schema, "-b", content=json.dumps(graph).encode(), name="schema.json", made="schema.bin")


def _flatc(schema: str, *options: str, content: bytes, name: str, made: str) -> bytes:
    """Return the file that flatc makes of a file with this content."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "schema.fbs").write_text(schema)
        (Path(folder) / name).write_bytes(content)
        arguments = ["flatc", *options, "-o", folder, f"{folder}/schema.fbs"]
        subprocess.run([*arguments, *(["--"] if name.endswith("bin") else []), f"{folder}/{name}"], check=True)
        return (Path(folder) / made).read_bytes()


def made(schema: str, graph: Any) -> dict[str, Any]:
    """A graph that is given as JSON, by flatc as bytes and again as JSON."""
    binary = as_bytes(schema, graph)
    return {"binary": base64.b64encode(binary).decode(), "graph": as_json(schema, binary)}


def vulkan_graphs() -> dict[str, Any]:
    torch.manual_seed(0)
    models: dict[str, tuple[Any, Any]] = {
        "convolutions": (Convolutions(), (torch.randn(1, 3, 8, 8),)),
        "lists": (Lists(), (torch.randn(4, 8), torch.randn(4, 8))),
    }
    found: dict[str, Any] = {}
    for name, (model, inputs) in models.items():
        exported = torch.export.export(model.eval(), inputs)
        lowered = to_edge_transform_and_lower(exported, partitioner=[VulkanPartitioner()])
        content = bytes(lowered.to_executorch().buffer)
        graphs = delegates_of(content, "VulkanBackend", VulkanDelegateHeader)
        found[name] = {
            "program": base64.b64encode(content).decode(),
            "graphs": {place: as_json(VULKAN, graph) for place, graph in graphs},
        }
    return found | {"every kind": made(VULKAN, EVERY_KIND)}


def xnnpack_graphs(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in sorted(folder.glob("**/*.pte")):
        for place, graph in delegates_of(path.read_bytes(), "XnnpackBackend", XNNHeader):
            found.setdefault(path.stem, {})[place] = as_json(XNNPACK, graph)
    return found | {"every op": made(XNNPACK, every_op())}


if __name__ == "__main__":
    captures = Path(sys.argv[1])
    write_json(captures / "expected" / "vulkan_graphs.json.gz", vulkan_graphs())
    write_json(captures / "expected" / "xnnpack_graphs.json.gz", xnnpack_graphs(captures))
