"""Running an exported program from its JSON, node by node, with torch's operators. Needs torch.

torch's own reader, `torch._export.serde`, imports the compiler and sympy, which takes as long as importing torch
itself. It also evaluates the texts of symbolic sizes as Python. Here, sizes are those of the inputs, and a program can
only call registered operators and arithmetic.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, cast

import msgspec

from etq.errors import EtqError
from etq.ingest.etrecord.export_json import DTYPES, Node
from etq.ingest.etrecord.node_names import NodeNames

# First, kinds of arguments that are neither names nor literals. Then, names of torch's constants by torch.export's
# numbers.
_OF_TORCH: Final[Mapping[str, Sequence[str | None]]] = {
    "as_scalar_type": DTYPES,
    "as_memory_format": (None, "contiguous_format", "channels_last", "channels_last_3d", "preserve_format"),
    "as_layout": (*(None, "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "_mkldnn", "strided"),),
    **dict.fromkeys(("as_operator", "as_complex", "as_device"), ()),
}
# The functions on sizes, which aren't operators.
_ON_SIZES: Final = re.compile(
    r"_operator\.(eq|ne|le|ge|lt|gt|neg|pos|add|sub|mul|truediv|floordiv|mod|pow|and_|or_|lshift|rshift)"
    r"|math\.trunc|torch\.sym_(not|int|float|ite|max|min|sqrt)"
)
# Operators that open files.
_REFUSED: Final = ("torch.ops.aten.from_file.",)
_OF_TENSORS: Final = ("as_tensor", "as_tensors", "as_optional_tensors")

Json = Mapping[str, Any]
Values = dict[str, Any]


def run_program(program: Json, tensors: Mapping[str, Any], inputs: Any) -> Iterator[tuple[str, list[Any]]]:
    """Run a program. Yield the name and the outputs of each node; if a node has several outputs, also yield each of
    them by its own name.

    program  the program, as written by torch.export
    tensors  its parameters, buffers and other tensors, by name
    inputs   its arguments: tensors and plain values, nested as its module takes them

    Raises `EtqError` for unsupported parts, and errors of operators unchanged.
    """
    module = program["graph_module"]
    graph = module["graph"]
    values = _given(module["signature"]["input_specs"], graph["inputs"], tensors, inputs)
    for name, node in zip(_names_of(graph["nodes"], values), graph["nodes"], strict=True):
        result = _called(node, values)
        yield name, list(result) if isinstance(result, tuple | list) else [result]
        bound = dict(_bound(node["outputs"], result))
        values.update(bound)
        yield from ((each, [value]) for each, value in bound.items() if each != name)


def _names_of(nodes: Sequence[Json], values: Values) -> list[str]:
    """The names of nodes, derived as in torch if none is stored."""
    shown = [
        {
            "name": node.get("name"),
            "target": node["target"],
            "outputs": [{kind: each[kind] for kind in _OF_TENSORS if kind in each} for each in node["outputs"]],
        }
        for node in nodes
    ]
    return NodeNames([*values]).of(msgspec.convert(shown, list[Node]))


def _given(specs: Sequence[Json], arguments: Sequence[Json], tensors: Mapping[str, Any], inputs: Any) -> Values:
    """Return the values of a program's inputs by name."""
    from torch.utils._pytree import tree_leaves

    leaves = tree_leaves(inputs)
    taken = [kind for [kind] in specs if kind in ("user_input", "constant_input")]
    if len(taken) != len(leaves):
        raise EtqError(f"the program takes {len(taken)} inputs, and the record has {len(leaves)}")
    values: Values = {}
    for spec, argument in zip(specs, arguments, strict=True):
        [(kind, held)] = spec.items()
        if kind == "user_input":
            values.update(_bound([argument], leaves.pop(0)))
        elif kind == "constant_input":
            leaves.pop(0)  # nodes contain the constant itself
        elif kind in ("parameter", "buffer", "tensor_constant"):
            values.update(_bound([argument], tensors[held[f"{kind}_name"]]))
        else:
            raise EtqError(f"an input of the kind {kind} is not supported")
    return values


def _called(node: Json, values: Values) -> Any:
    """Call the operator or function of a node, with the values of its arguments."""
    target = node["target"]
    arguments = [(given["name"], _value(given["arg"], values)) for given in node["inputs"]]
    if _ON_SIZES.fullmatch(target):
        return _on_sizes(target)(*(value for _, value in arguments))
    called = _operator(target)
    if target.startswith("torch.ops.higher_order."):
        return called(*(value for name, value in arguments if not name), **{n: v for n, v in arguments if n})
    return called(**dict(arguments))


def _operator(target: str) -> Callable[..., Any]:
    """Return the operator of a name, such as `torch.ops.aten.add.Tensor`. Raises `EtqError` if it isn't one."""
    import torch

    found = torch.ops if target.startswith("torch.ops.") and not target.startswith(_REFUSED) else None
    if target.startswith("torch.ops.higher_order."):
        import torch._higher_order_ops  # this import registers operators
    for part in target.split(".")[2:]:
        found = getattr(found, part, None)
    if not isinstance(found, torch._ops.OperatorBase):
        raise EtqError(f"{target} is not supported")
    return cast("Callable[..., Any]", found)


def _on_sizes(target: str) -> Callable[..., Any]:
    import torch

    module, name = target.split(".")
    function: Callable[..., Any] = getattr({"_operator": operator, "math": math, "torch": torch}[module], name)
    return function


def _value(argument: Json, values: Values) -> Any:
    """Return the value of an argument, which may name other values."""
    [(kind, held)] = argument.items()
    if kind in _OF_TORCH:
        return _of_torch(kind, held)
    if kind == "as_graph":
        return partial(_run_graph, held["graph"], values)
    if kind == "as_string_to_argument":
        return {name: _value(each, values) for name, each in held.items()}
    return None if kind == "as_none" else _plain(held, values, kind)


def _of_torch(kind: str, held: Any) -> Any:
    """Return a constant of torch, an operator, a complex number, or a device. The device is always the CPU, because a
    record's tensors are there.
    """
    import torch

    if kind == "as_operator":
        return _operator(held)
    if kind == "as_complex":
        return complex(held["real"], held["imag"])
    if kind == "as_device":
        return torch.device("cpu")
    names = _OF_TORCH[kind]
    name = names[held] if 0 < held < len(names) else None
    if name is None:
        raise EtqError(f"{kind} {held} is not known")
    return getattr(torch, name)


def _plain(held: Any, values: Values, kind: str) -> Any:
    """Return a literal, a named value, or a list of these."""
    if isinstance(held, list):
        return [_plain(each, values, kind) for each in held]
    if isinstance(held, dict):
        name = held.get("name", held.get("as_name"))
        return _value(held, values) if name is None else values[name]
    # Infinities and NaN are texts in JSON.
    return float(held) if kind.startswith("as_float") else held


def _run_graph(graph: Json, around: Values, *inputs: Any) -> Any:
    """Run a graph that an operator calls, such as a branch."""
    values = {**around, **dict(_bound(graph["inputs"], inputs))}
    for node in graph["nodes"]:
        values.update(_bound(node["outputs"], _called(node, values)))
    outputs = tuple(_value(output, values) for output in graph["outputs"])
    return outputs[0] if graph.get("is_single_tensor_return") else outputs


def _bound(outputs: Sequence[Json], result: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names of results, or of inputs, each with its value."""
    results = result if isinstance(result, tuple | list) else [result]
    if len(outputs) == 1 and isinstance(next(iter(outputs[0].values())), list):
        results = [results]  # a list of tensors is one output
    if not outputs:
        results = []  # the result of an assertion is None
    for output, value in zip(outputs, results, strict=True):
        [held] = output.values()
        if isinstance(held, list):
            yield from ((each["name"], one) for each, one in zip(held, value, strict=True))
        elif isinstance(held, dict) and (name := held.get("name", held.get("as_name"))) is not None:
            yield name, value
