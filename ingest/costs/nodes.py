"""The cost of a node of a record: a call of an op whose arguments and outputs are all known, except for symbolic
sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from etq.ingest.costs.arguments import Argument, Arguments, Inputs
from etq.ingest.costs.call import Call
from etq.ingest.costs.formulas import Formula, formulas
from etq.ingest.costs.numbers import MOST_OPERATIONS, UNKNOWN, Sizes, known, number_in, product, total, whole
from etq.ingest.costs.operations import operations_of

# Bytes of an element by torch's name of its type.
_BYTES: Final = {
    **dict.fromkeys(("bool", "uint8", "int8", "float8_e5m2", "float8_e4m3fn"), 1),
    **dict.fromkeys(("int16", "uint16", "float16", "bfloat16"), 2),
    **dict.fromkeys(("int32", "float32", "complex32"), 4),
    **dict.fromkeys(("int64", "float64", "complex64"), 8),
    "complex128": 16,
}
# The factor of a product, by the names of arguments.
_FACTORS: Final = ("mat1", "batch1", "mat", "input", "self")
# Ops with an argument that states whether they are transposed.
_EITHER_WAY: Final = ("aten.convolution", "aten._convolution")
# What is read or written is only known at run time.
_CHOSEN: Final = ("scattered", "looked up", "targets", "least")


class Value(NamedTuple):
    """A value of a graph: its sizes by dimension, None for a symbolic size, and its type. Both are None for anything
    but a tensor.
    """

    sizes: tuple[int | None, ...] | None
    dtype: str | None

    @property
    def known_sizes(self) -> Sizes:
        """The sizes as numbers; some may be unknown."""
        return None if self.sizes is None else [UNKNOWN if each is None else float(each) for each in self.sizes]

    @property
    def bytes(self) -> float:
        """Its bytes in memory; none for anything but a tensor."""
        if self.sizes is None and self.dtype is None:
            return 0
        return product(self.known_sizes) * _BYTES.get(self.dtype or "", UNKNOWN)

    @property
    def is_symbolic(self) -> bool:
        """Whether a size is symbolic."""
        return self.sizes is not None and None in self.sizes

    @property
    def text(self) -> str:
        """Its sizes as text: [2, 3], with NULL for a symbolic one."""
        return f"[{', '.join('NULL' if each is None else str(each) for each in self.sizes or ())}]"


class Taken(NamedTuple):
    """An argument of a node: its position and name, its value or its literal as JSON, and the value's number.

    A value with the same number as another is read only once.
    """

    position: int
    name: str
    value: Value | None
    literal: str | None
    number: int


class NodeCost(NamedTuple):
    """The cost of a node: columns of the table `costed_nodes`, whose comments explain them. None is unknown."""

    moves: str | None
    flops: int | None
    bytes_read: int | None
    bytes_written: int | None
    formula: str | None
    reason: str | None
    input_shapes: str | None
    output_shape: str | None


class _NodeCall(Call):
    """A node as a call. The main argument is the first; for a product, it is the factor with the name that `_FACTORS`
    gives.
    """

    def __init__(self, formula: Formula, taken: Sequence[Taken], outputs: Sequence[Value]) -> None:
        arguments = Arguments(formula.op, Inputs([], None, None, None))
        given = [_argument(each) for each in taken]
        arguments.named = {each.name or str(each.place): each for each in reversed(given)}
        if "key_cache" in arguments.named:
            arguments.named["key"] = arguments.named["key_cache"]
        arguments.tensors = [each for each, one in zip(given, taken, strict=True) if one.value is not None]
        first = next((each for each in given if each.place == 0), Argument())
        arguments.main = first
        if formula.counts == "product":
            arguments.main = next((arguments[name] for name in _FACTORS if name in arguments.named), Argument())
        super().__init__(formula.op, formula, arguments)
        self._first = first
        self.output_sizes = outputs[0].known_sizes if outputs else None

    @property
    def input_elements(self) -> float:
        """The number of elements of the first argument."""
        return self._first.elements


def _argument(taken: Taken) -> Argument:
    value = Value(None, None) if taken.value is None else taken.value
    found = Argument(taken.position, 0, taken.name, value.known_sizes, None, _text(taken.literal))
    found.bytes = _BYTES.get(value.dtype or "", UNKNOWN)
    return found


def _text(literal: str | None) -> str | None:
    """Return a literal as text; JSON strings are unquoted. None for a string that looks like a number but isn't one."""
    if literal is None or not literal.startswith('"'):
        return literal
    text = str(msgspec.json.decode(literal))
    return text if not known(number_in(text)) else None


def cost_of_node(op_type: str, taken: Sequence[Taken], outputs: Sequence[Value]) -> NodeCost:
    """Return the cost of a node by its op type, such as aten.addmm.default, its arguments and outputs."""
    op = ".".join(op_type.split(".")[:2])
    formula = formulas().of_ops.get(op)
    values = [each.value for each in taken if each.value is not None]
    shapes = [each.text for each in values if each.sizes is not None]
    texts = " ".join(shapes) or None, outputs[0].text if outputs and outputs[0].sizes is not None else None
    if formula is None:
        is_outer = op.startswith("higher_order.")
        why = f"{op} calls nested graphs, whose nodes have their costs" if is_outer else f"no formula for {op}"
        return NodeCost(None, None, None, None, None, why, *texts)
    operations = _operations(formula, taken, outputs)
    read, written = (whole(total(each)) for each in _moved(formula.moves, taken, outputs))
    if read is None or written is None:
        read = written = None
    is_symbolic = any(each.is_symbolic for each in (*values, *outputs))
    reasons = _reasons(formula.moves, operations, whole(operations), read, is_symbolic)
    reason = next((why for is_why, why in reasons if is_why), None)
    return NodeCost(formula.moves, whole(operations), read, written, formula.text, reason, *texts)


def _operations(formula: Formula, taken: Sequence[Taken], outputs: Sequence[Value]) -> float:
    call = _NodeCall(formula, taken, outputs)
    is_unwritten = formula.op in _EITHER_WAY and call.truth("transposed") is None
    return UNKNOWN if is_unwritten else operations_of(call)


def _moved(moves: str, taken: Sequence[Taken], outputs: Sequence[Value]) -> tuple[list[float], list[float]]:
    """Return the bytes of each value that is read, and of each value that is written. A value that a node takes twice
    is read once.
    """
    distinct = {each.number: each for each in reversed(taken) if each.value is not None}
    given = [each.bytes for each in outputs]
    first = [each.value.bytes for each in distinct.values() if each.position == 0 and each.value is not None]
    read, written = [UNKNOWN], [UNKNOWN]
    if moves in ("nothing", "made"):
        read = []
    elif moves == "update":
        read = first
    elif moves in ("all", "chosen"):
        read = [
            total(given) if moves == "chosen" and each.position == 0 else each.value.bytes
            for each in distinct.values()
            if each.value is not None
        ]
    if moves == "nothing":
        written = []
    elif moves == "update":
        written = [first[0] if first else UNKNOWN for _ in outputs]
    elif moves in ("all", "chosen", "made"):
        written = given
    return read, written


def _reasons(
    moves: str, operations: float, flops: int | None, read: int | None, is_symbolic: bool
) -> Iterator[tuple[bool, str]]:
    """Yield reasons why a cost is unknown. With each comes whether it applies; the first that applies is used."""
    yield is_symbolic and read is None, "sizes are known only at run time"
    is_cache = moves == "cache"
    yield is_cache and flops is None, "the used part of its cache is known only at run time"
    yield is_cache, "bytes: the part of its cache that is read is unknown"
    yield flops is None and operations > MOST_OPERATIONS, "too many to be true"
    yield flops is None, "a value that the formula needs is not in the record"
    yield moves == "depends", "bytes: it may copy, or return a view"
    yield moves in _CHOSEN, "bytes: which elements it reads or writes is known only at run time"
    yield read is None, "bytes: sizes or types are not in the record"
