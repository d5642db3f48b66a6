"""The graphs in Vulkan's blobs, as rows of the tables `delegate_ops` and `delegate_values`.

An op's arguments have no names. Its parameters are the arguments that are not tensors, named by their position. If a
result of the op is one of its inputs, or was produced by an earlier op, the op changes this tensor, and the tensor
doesn't count as an output.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Final

import numpy as np

from etq.errors import FormatError
from etq.ingest.flatbuffers.reader import Buffer, Positions, Tables
from etq.ingest.flatbuffers.unions import members
from etq.ingest.program import delegate_rows
from etq.ingest.program import vulkan_schema as schema
from etq.ingest.program.delegate_rows import OpRows, ValueRows, check_apart, check_few, graph_of

# The most numbers, values and bytes of texts in the arguments of all ops of a graph together.
MOST_ARGUMENTS: Final = 2_000_000
MOST_DIMENSIONS: Final = 16
MOST_BYTES_OF_NAME: Final = 1_000


def add_graph(buffer: Buffer, start: int, size: int, ops: OpRows, values: ValueRows) -> None:
    """Add the graph of a blob, unless the blob has another format of Vulkan, or the graph has unknown kinds of values.

    Raises `FormatError`, naming the byte, for a graph that is damaged or too large.
    """
    graph = graph_of(buffer, start, size, schema.HEADER, schema.IDENTIFIERS, schema.GRAPH, "Vulkan")
    if graph is None:
        return
    found, _ = graph.vector_of_tables("values", schema.VALUE)
    numbers = found.scalar("value_type")
    if ((numbers > 0) & (numbers <= len(schema.KINDS))).all():
        check_few(found, len(values.ids) + len(found), delegate_rows.MOST_VALUES, "values", "Vulkan")
        read = _Values(found, np.array(schema.KINDS, object)[numbers - 1] if len(found) else np.array([], object))
        read.add_tensors(values, start, graph)
        _add_ops(ops, start, graph, read)


class _Values:
    """The values of a graph by their ids: tensors, and other values."""

    def __init__(self, values: Tables, kinds: Any) -> None:
        self._values, self._kinds = values, kinds
        self.count = len(values)
        self.tensors = frozenset(np.flatnonzero(kinds == "VkTensor").tolist())
        self.lists: dict[int, list[int]] = {}
        self.others: dict[int, Any] = {}
        for kind, type in schema.NUMBERS.items():
            found, at = members(values, "value", kinds == kind, type)
            read = found.scalar("value").tolist()
            self.others |= zip(at.tolist(), map(bool, read) if kind == "Bool" else map(_writable, read), strict=True)
        for kind, (type, width) in schema.LISTS.items():
            found, at = members(values, "value", kinds == kind, type)
            listed = _listed(found, "items", width)
            if kind == "ValueList":
                self.lists = dict(zip(at.tolist(), listed, strict=True))
                continue
            change = bool if kind == "BoolList" else _writable
            self.others |= {each: [*map(change, items)] for each, items in zip(at.tolist(), listed, strict=True)}
        found, at = members(values, "value", kinds == "String", schema.STRING)
        self.others |= zip(at.tolist(), _texts(found, "string_val"), strict=True)

    def add_tensors(self, rows: ValueRows, blob: int, graph: Tables) -> None:
        """Add the tensors to the rows of `delegate_values`."""
        tensors, at = members(self._values, "value", self._kinds == "VkTensor", schema.TENSOR)
        sizes = _listed(tensors, "dims", "u32")
        if long := [place for place, each in enumerate(sizes) if len(each) > MOST_DIMENSIONS]:
            raise FormatError(
                tensors.buffer.path,
                f"VkTensor.dims has {len(sizes[long[0]]):,} numbers; tensors have at most {MOST_DIMENSIONS} dimensions",
                int(tensors.positions[long[0]]),
            )
        rows.blobs += repeat(blob, len(tensors))
        rows.ids += at.tolist()
        rows.dtypes += map(_dtype, tensors.scalar("datatype").tolist())
        rows.sizes += sizes
        rows.constants += (tensors.scalar("constant_id") >= 0).tolist()
        for name, into in (("input_ids", rows.inputs), ("output_ids", rows.outputs)):
            named, _ = graph.vector(name, "u32")
            into.extend(np.isin(at, named).tolist())


@dataclass
class _Op:
    """The inputs and outputs of an op."""

    inputs: list[int]
    outputs: list[int]
    parameters: dict[str, Any]


def _add_ops(rows: OpRows, blob: int, graph: Tables, values: _Values) -> None:
    """Add the ops of a graph with these values."""
    calls, _ = graph.vector_of_tables("chain", schema.OPERATOR_CALL)
    check_apart(calls, "Vulkan")
    check_few(graph, len(rows.ops) + len(calls), delegate_rows.MOST_OPS, "ops", "Vulkan")
    names = _texts(calls, "name")
    made: set[int] = set()
    room = MOST_ARGUMENTS
    for index, (name, arguments) in enumerate(zip(names, _listed(calls, "args", "i32"), strict=True)):
        position = int(calls.positions[index])
        _check_known(graph, position, "OperatorCall.args", arguments, values.count)
        room -= sum(_length(values, argument) for argument in arguments)
        if room < 0:
            raise FormatError(
                graph.buffer.path, f"the ops of Vulkan's graph have more than {MOST_ARGUMENTS:,} arguments", position
            )
        op = _op(graph, position, arguments, values)
        op.outputs = [each for each in dict.fromkeys(op.outputs) if each not in made and each not in op.inputs]
        made.update(op.outputs)
        rows.blobs.append(blob)
        rows.indexes.append(index)
        rows.ops.append(name)
        rows.handles.append(None)
        rows.inputs.append(op.inputs)
        rows.outputs.append(op.outputs)
        rows.parameters.append(json.dumps(op.parameters))


def _op(graph: Tables, position: int, arguments: Sequence[int], values: _Values) -> _Op:
    """Return an op from its arguments; the last one is its result."""
    found = _Op([], [], {})
    for place, each in enumerate(arguments):
        into = found.outputs if place == len(arguments) - 1 else found.inputs
        if each in values.tensors:
            into.append(each)
        elif each not in values.lists:
            found.parameters[str(place)] = values.others.get(each)
        else:
            items = values.lists[each]
            _check_known(graph, position, "ValueList.items", items, values.count)
            into += [item for item in items if item in values.tensors]
            if others := [values.others.get(item) for item in items if item not in values.tensors]:
                found.parameters[str(place)] = others
    return found


def _length(values: _Values, value: int) -> int:
    """Return the size of an argument in numbers, values or bytes, and the size of the largest item if it is a list."""
    if value in values.lists:
        return 1 + sum(1 + _size(values.others.get(item)) for item in values.lists[value])
    return 1 + _size(values.others.get(value))


def _size(value: Any) -> int:
    return len(value) if isinstance(value, (list, str)) else 1


def _check_known(tables: Tables, position: int, what: str, named: Sequence[int], count: int) -> None:
    """Raise `FormatError` for a value that the graph doesn't have."""
    unknown = [each for each in named if not 0 <= each < count]
    if unknown:
        raise FormatError(
            tables.buffer.path, f"{what} has {unknown[0]}; Vulkan's graph has {count} values, from 0", position
        )


def _listed(tables: Tables, name: str, type: str) -> list[list[Any]]:
    flat, counts = tables.vector(name, type)
    ends: Positions = np.cumsum(counts)
    numbers = flat.tolist()
    return [numbers[end - count : end] for end, count in zip(ends.tolist(), counts.tolist(), strict=True)]


def _texts(tables: Tables, name: str) -> list[str]:
    """Return the texts of a field, empty where it is absent."""
    spans = tables.spans(name, 1)
    if (long := np.flatnonzero(spans.count > MOST_BYTES_OF_NAME)).size:
        raise FormatError(
            tables.buffer.path,
            f"{tables.type.name}.{name} has {spans.count[long[0]]:,} bytes; etq reads at most {MOST_BYTES_OF_NAME:,}",
            int(tables.positions[long[0]]),
        )
    what = f"{tables.type.name}.{name}"
    places = zip(spans.start.tolist(), spans.count.tolist(), strict=True)
    return [tables.buffer.text(start, count, what) for start, count in places]


def _dtype(number: int) -> str:
    if number == 127:
        return "unset"
    return schema.DTYPES[number] if 0 <= number < len(schema.DTYPES) else f"data type {number}"


def _writable(value: float) -> Any:
    """Return a number as JSON has it: infinities and NaN as texts."""
    return value if isinstance(value, int) or math.isfinite(value) else str(value)
