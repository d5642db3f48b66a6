"""Make `tests/captures/expected/vulkan_graphs.json.gz` again: programs with Vulkan's blobs, and their graphs by flatc.

    ENV/bin/python -m tests.parity.make_vulkan_graphs tests/captures    # an environment with executorch; no GPU is needed

By program: its bytes (base64), and by `METHOD/DELEGATE` the graph as JSON. By `every kind`: a graph with each kind of
value, as JSON and as the bytes (base64) that flatc made of it.
"""

from __future__ import annotations

import base64
import gzip
import importlib.resources
import json
import sys
from pathlib import Path
from typing import Any

import torch
from executorch.backends.vulkan import serialization
from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
from executorch.backends.vulkan.serialization.vulkan_graph_serialize import VulkanDelegateHeader
from executorch.exir import to_edge_transform_and_lower
from executorch.exir._serialize._program import deserialize_pte_binary
from torch import nn
from torch.nn import functional

from tests.parity.flatc import as_bytes, as_json

SCHEMA = importlib.resources.files(serialization).joinpath("schema.fbs").read_text()
# A graph with each kind of value; the last op has a kind of its own.
KINDS: list[tuple[str, dict[str, Any]]] = [
    ("Null", {}),
    ("Int", {"int_val": -(2**60)}),
    ("Double", {"double_val": 0.25}),
    ("Bool", {"bool_val": True}),
    ("VkTensor", {"datatype": "FLOAT16", "dims": [2, 3], "constant_id": -1}),
    ("IntList", {"items": [3, -4]}),
    ("DoubleList", {"items": [0.5, 1.5]}),
    ("BoolList", {"items": [True, False]}),
    ("ValueList", {"items": [4, 11]}),
    ("String", {"string_val": "mean"}),
    ("SymInt", {"value": 7}),
    ("VkTensor", {"datatype": "INT64", "dims": [5], "constant_id": 3}),
    ("VkTensor", {"datatype": "UNSET", "dims": [], "constant_id": -1}),
    ("ValueList", {"items": [1, 10]}),
    ("VkTensor", {"datatype": "BOOL", "dims": [1], "constant_id": -1}),
    ("ValueList", {"items": [12, 14]}),
]
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


def main() -> None:
    found: dict[str, Any] = {}
    torch.manual_seed(0)
    models: dict[str, tuple[Any, Any]] = {
        "convolutions": (Convolutions(), (torch.randn(1, 3, 8, 8),)),
        "lists": (Lists(), (torch.randn(4, 8), torch.randn(4, 8))),
    }
    for name, (model, inputs) in models.items():
        lowered = to_edge_transform_and_lower(
            torch.export.export(model.eval(), inputs), partitioner=[VulkanPartitioner()]
        )
        content = bytes(lowered.to_executorch().buffer)
        program, graphs = deserialize_pte_binary(content).program, {}
        for plan in program.execution_plan:
            for index, delegate in enumerate(plan.delegates):
                data = bytes(program.backend_delegate_data[delegate.processed.index].data)
                header = VulkanDelegateHeader.from_bytes(data[: VulkanDelegateHeader.EXPECTED_LENGTH])
                end = header.flatbuffer_offset + header.flatbuffer_size
                graphs[f"{plan.name}/{index}"] = as_json(SCHEMA, data[header.flatbuffer_offset : end])
        found[name] = {"program": base64.b64encode(content).decode(), "graphs": graphs}
    binary = as_bytes(SCHEMA, EVERY_KIND)
    found["every kind"] = {"binary": base64.b64encode(binary).decode(), "graph": as_json(SCHEMA, binary)}
    with open(Path(sys.argv[1]) / "expected" / "vulkan_graphs.json.gz", "wb") as file:
        file.write(gzip.compress(json.dumps(found, indent=1).encode(), mtime=0))
    print({name: [*each.get("graphs", ())] for name, each in found.items()})


if __name__ == "__main__":
    main()
