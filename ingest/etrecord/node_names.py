"""Derives names of nodes for records that only have names of values, as executorch before 1.0 writes them.

Source: `deserialize_node` in `torch/_export/serde/serialize.py` of PyTorch 2.8 names a node after its result if it has
a single one. `_Namespace.create_name` in `torch/fx/graph.py` names other nodes after the op, with a number if the name
is taken.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Final

from etq.ingest.etrecord.export_json import Node
from etq.ingest.etrecord.node_texts import op_type

_NOT_IN_NAMES: Final = re.compile("[^0-9a-zA-Z_]+")
_CAPITALS: Final = re.compile("(?<=[a-z])([A-Z])")


class NodeNames:
    """Names the nodes of one graph, in their order."""

    def __init__(self, inputs: list[str]) -> None:
        """`inputs` are the names of the graph's inputs, which no node may have."""
        self._taken = set(inputs)
        self._numbers = defaultdict[str, int](int)

    def of(self, nodes: list[Node]) -> list[str]:
        """Return the names of the next nodes: the stored name, or a derived name if none is stored."""
        names = [node.name for node in nodes]
        return [self._name(node) for node in nodes] if None in names else [name or "" for name in names]

    def _name(self, node: Node) -> str:
        results = [name for output in node.outputs for name in output.names()]
        has_single = len(node.outputs) == 1 and node.outputs[0].as_tensor is not None
        name = node.name or (results[0] if has_single else self._made(node.target))
        self._taken.update((name, *results))
        return name

    def _made(self, target: str) -> str:
        name = made = _base(target)
        while name in self._taken:
            self._numbers[made] += 1
            name = f"{made}_{self._numbers[made]}"
        return name


def _base(target: str) -> str:
    """Return the `__name__` of a target's object, as a valid part of a Python name.

    In the edge dialect only, the name of an op contains the namespace: `aten_topk_default`; otherwise it is
    `topk_default`.
    """
    name = op_type(target)
    if target.startswith("torch.ops."):
        name = name.split(".", 1)[-1]
    return _CAPITALS.sub(r"_\1", _NOT_IN_NAMES.sub("_", name)).lower() or "_unnamed"
