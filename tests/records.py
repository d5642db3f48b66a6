"""Small ETRecords made by hand: `record(node("aten.relu.default", "y", self=Tensor("x", 2, 3)))`."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

EDGE: Final = "edge_dialect_exported_program"
# torch.export's numbers of element types.
DTYPES: Final = {
    name: number
    for number, name in enumerate(
        ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32", "complex64"], 1
    )
} | {"bool": 12, "bfloat16": 13}


@dataclass(frozen=True)
class Tensor:
    """A value: its name, sizes (None for a symbolic one) and element type."""

    name: str
    sizes: tuple[int | None, ...]
    dtype: str = "float32"


def tensor(name: str, *sizes: int | None, dtype: str = "float32") -> Tensor:
    return Tensor(name, sizes, dtype)


@dataclass(frozen=True)
class Node:
    """A call of an op: its inputs by the names in the op's signature, and its outputs."""

    target: str
    arguments: Mapping[str, Any]
    outputs: tuple[Tensor, ...]
    handle: int = 0


def node(target: str, outputs: Tensor | Sequence[Tensor], handle: int = 0, **arguments: Any) -> Node:
    given = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    return Node(target, arguments, given, handle)


@dataclass(frozen=True)
class Maps:
    """The maps of instructions: their debug handles, and the delegates that they call."""

    handles: Mapping[int, Sequence[int]] = field(default_factory=dict)
    delegates: Mapping[int, Mapping[str, Sequence[int]] | None] = field(default_factory=dict)
    backend: str = "SomeBackend"


def record(*nodes: Node, maps: Maps | None = None) -> bytes:
    """An ETRecord of one edge graph of these nodes, which is called forward."""
    maps = maps or Maps()
    members = {
        "ETRECORD_V0": "",
        f"{EDGE}/forward": json.dumps({"graph_module": {"graph": _graph(nodes)}}),
        "debug_handle_map": json.dumps({"forward": {str(each): list(held) for each, held in maps.handles.items()}}),
        "delegate_map": json.dumps(
            {
                "forward": {
                    str(each): {"name": maps.backend, "delegate_map": delegate_map}
                    for each, delegate_map in maps.delegates.items()
                }
            }
        ),
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


class _Names(dict[Tensor, str]):
    """Unique names of values: a number is appended if another value has the name."""

    def __missing__(self, value: Tensor) -> str:
        taken = sum(1 for each in self if each.name == value.name)
        self[value] = f"{value.name}_{taken}" if taken else value.name
        return self[value]


def _graph(nodes: Sequence[Node]) -> dict[str, Any]:
    names = _Names()
    inputs = []
    written = []
    for each in nodes:
        inputs += [names[value] for value in _tensors(each.arguments.values()) if value not in names]
        written.append(
            {
                "target": f"torch.ops.{each.target}",
                "name": names[each.outputs[0]] if each.outputs else each.target,
                "inputs": [
                    {"name": name, "arg": _argument(value, names)}
                    for name, value in each.arguments.items()
                    if value is not None
                ],
                "outputs": [{"as_tensor": {"name": names[value]}} for value in each.outputs],
                "metadata": {"debug_handle": str(each.handle)},
            }
        )
    return {
        "nodes": written,
        "inputs": [{"as_tensor": {"name": name}} for name in inputs],
        "tensor_values": {name: _described(value) for value, name in names.items()},
    }


def _tensors(arguments: Any) -> list[Tensor]:
    found: list[Tensor] = []
    for value in arguments:
        found += [value] if isinstance(value, Tensor) else []
        found += [each for each in value if isinstance(each, Tensor)] if isinstance(value, list) else []
    return found


def _argument(value: Any, names: _Names) -> dict[str, Any]:
    if isinstance(value, Tensor):
        return {"as_tensor": {"name": names[value]}}
    if isinstance(value, list) and value and isinstance(value[0], Tensor):
        return {"as_tensors": [{"name": names[each]} for each in value]}
    kinds: dict[type, str] = {bool: "as_bool", int: "as_int", float: "as_float", str: "as_string", list: "as_ints"}
    return {kinds[type(value)]: value} if type(value) in kinds else {"as_none": True}


def _described(value: Tensor) -> dict[str, Any]:
    sizes = [{"as_int": size} if size is not None else {"as_expr": {"expr_str": "s0"}} for size in value.sizes]
    return {"dtype": DTYPES[value.dtype], "sizes": sizes, "strides": []}
