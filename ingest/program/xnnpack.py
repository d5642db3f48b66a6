"""The graphs in XNNPACK's blobs, as rows of the tables `delegate_ops` and `delegate_values`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etq.errors import FormatError
from etq.ingest.arrow import batch, flags, integers, lists, numbers, texts
from etq.ingest.flatbuffers.reader import REFERENCE, Buffer, Positions, Tables
from etq.ingest.flatbuffers.unions import members, union_kinds
from etq.ingest.program import xnnpack_schema as schema

_NAMES: Final = (None, *schema.OPS)
# More are refused: an op takes 20 bytes in a file, and 0.5 kB or more in memory.
MOST_OPS: Final = 200_000
MOST_VALUES: Final = 1_000_000
# XNNPACK's tensors have at most 6 (XNN_MAX_TENSOR_DIMS). Vectors of ops have a number for each.
MOST_DIMENSIONS: Final = 16


def delegate_graph_rows(buffer: Buffer, blobs: Iterable[tuple[str, int, int]]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the tables `delegate_ops` and `delegate_values` of blobs: (backend, position, size) each.

    Blobs of other backends have no rows, nor have those of other formats of XNNPACK, or with other kinds of values. A
    blob that delegates share is read once.

    Raises `FormatError`, naming the byte, for a graph that is damaged, and for graphs that are too large together.
    """
    ops, values = _Ops(), _Values()
    for backend, start, size in sorted(set(blobs)):
        part = _graph_part(buffer, start, size) if backend == schema.BACKEND else None
        if part is None:
            continue
        at = np.array([part.start], np.int64)
        graph = Tables(part, schema.GRAPH, at + part.gather(at, REFERENCE, "the reference to XNNPACK's graph"))
        found, _ = graph.vector_of_tables("xvalues", schema.VALUE)
        if (found.scalar("xvalue_union_type") < len(schema.VALUE_KINDS)).all():
            ids = values.add(start, found)
            ops.add(start, graph, ids)
    yield "delegate_ops", ops.rows()
    yield "delegate_values", values.rows()


def _graph_part(buffer: Buffer, start: int, size: int) -> Buffer | None:
    """Return the part of the file that is a blob's graph; None if the blob has none."""
    head = buffer.bytes[start : start + min(size, schema.HEADER_LENGTH)].tobytes()
    if head[4:8] in schema.IDENTIFIERS:
        return buffer.part(start, start + size)
    if head[4:8] != schema.HEADER or len(head) < schema.HEADER_LENGTH:
        return None
    at, length = (int.from_bytes(head[place : place + 4], "little") for place in (schema.GRAPH_AT, schema.GRAPH_AT + 4))
    if length < 8 or at + length > size:
        raise FormatError(
            buffer.path,
            f"by its header, XNNPACK's graph has {length} bytes, from byte {at} of its blob of {size} bytes",
            start + schema.GRAPH_AT,
        )
    part = buffer.part(start + at, start + at + length)
    found = part.bytes[part.start + 4 : part.start + 8].tobytes()
    return part if found in schema.IDENTIFIERS else None


@dataclass
class _Ops:
    """The rows of `delegate_ops`, blob by blob."""

    blobs: list[int] = field(default_factory=list)
    indexes: list[int] = field(default_factory=list)
    ops: list[str] = field(default_factory=list)
    handles: list[int | None] = field(default_factory=list)
    inputs: list[list[int]] = field(default_factory=list)
    outputs: list[list[int]] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)

    def add(self, blob: int, graph: Tables, ids: npt.NDArray[Any]) -> None:
        """Add the ops of a graph, whose values have these ids, in ascending order."""
        nodes, _ = graph.vector_of_tables("xnodes", schema.NODE)
        _check_apart(nodes)
        count = len(nodes)
        _check_few(graph, len(self.ops) + count, MOST_OPS, "ops")
        kinds = nodes.scalar("xnode_union_type").tolist()
        inputs: list[list[int]] = [[] for _ in range(count)]
        outputs: list[list[int]] = [[] for _ in range(count)]
        parameters: list[dict[str, Any]] = [{} for _ in range(count)]
        # An op that a newer schema has only has a number.
        for number in sorted({kind for kind in kinds if 0 < kind < len(_NAMES)}):
            op = schema.OPS[str(_NAMES[number])]
            found, at = members(nodes, "xnode_union", np.array(kinds) == number, op.table)
            _check_apart(found)
            _add_values(found, op.values(are_outputs=False), ids, [inputs[place] for place in at.tolist()])
            _add_values(found, op.values(are_outputs=True), ids, [outputs[place] for place in at.tolist()])
            _add_parameters(found, op, [parameters[place] for place in at.tolist()])
        _check_made_once(nodes, outputs)
        ranges, owners = nodes.tables("output_min_max", schema.OUTPUT_MIN_MAX)
        _add_parameters(ranges, schema.Op(schema.OUTPUT_MIN_MAX), [parameters[place] for place in owners.tolist()])
        self.blobs += repeat(blob, count)
        self.indexes += range(count)
        self.ops += [_NAMES[kind] or "none" if kind < len(_NAMES) else f"op {kind}" for kind in kinds]
        handles = nodes.scalar("debug_handle").tolist()
        self.handles += [handle if 0 < handle < 2**31 and handle != schema.NO_HANDLE else None for handle in handles]
        self.inputs += inputs
        self.outputs += outputs
        self.parameters += map(json.dumps, parameters)

    def rows(self) -> pa.RecordBatch:
        """Return the table."""
        return batch(
            {
                "blob_offset": integers(self.blobs, np.int64),
                "op_index": integers(self.indexes),
                "op": texts(self.ops),
                "debug_handle": integers(self.handles),
                "inputs": _lists(self.inputs),
                "outputs": _lists(self.outputs),
                "parameters": texts(self.parameters),
            }
        )


@dataclass
class _Values:
    """The rows of `delegate_values`, blob by blob."""

    blobs: list[int] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    dtypes: list[str] = field(default_factory=list)
    sizes: list[list[int]] = field(default_factory=list)
    constants: list[bool] = field(default_factory=list)
    flags: list[int] = field(default_factory=list)

    def add(self, blob: int, values: Tables) -> npt.NDArray[Any]:
        """Add the values of a graph; return their ids in ascending order."""
        _check_few(values, len(self.ids) + len(values), MOST_VALUES, "values")
        kinds = union_kinds(values, "xvalue_union_type", schema.VALUE_KINDS)
        plain, at = members(values, "xvalue_union", kinds == "tensor", schema.TENSOR)
        quantized, quantized_at = members(values, "xvalue_union", kinds == "quantized", schema.QUANTIZED_TENSOR)
        within, owners = quantized.tables("tensor_value", schema.TENSOR)
        if len(owners) < len(quantized):
            raise FormatError(
                values.buffer.path,
                "XNNQuantizedTensorValue.tensor_value is missing",
                int(quantized.positions[int(np.setdiff1d(np.arange(len(quantized)), owners)[0])]),
            )
        order = np.argsort(np.concatenate([at, quantized_at]), kind="stable")
        tensors = Tables(values.buffer, schema.TENSOR, np.concatenate([plain.positions, within.positions])[order])
        ids = tensors.scalar("id_out")
        ascending: npt.NDArray[Any] = np.sort(ids)
        if (repeated := ascending[1:][ascending[1:] == ascending[:-1]]).size:
            raise FormatError(
                values.buffer.path,
                f"two values of XNNPACK's graph have the id {repeated[0]}",
                int(tensors.positions[np.flatnonzero(ids == repeated[0])[1]]),
            )
        self.blobs += repeat(blob, len(tensors))
        self.ids += ids.tolist()
        self.dtypes += map(_dtype, tensors.scalar("datatype").tolist())
        self.sizes += _listed(tensors, "dims")
        self.constants += (tensors.scalar("constant_buffer_idx") != 0).tolist()
        self.flags += tensors.scalar("flags").tolist()
        return ascending

    def rows(self) -> pa.RecordBatch:
        """Return the table."""
        bits = np.array(self.flags, np.int64)
        return batch(
            {
                "blob_offset": integers(self.blobs, np.int64),
                "value_id": integers(self.ids, np.int64),
                "dtype": texts(self.dtypes),
                "sizes": _lists(self.sizes),
                "is_constant": flags(np.array(self.constants, np.bool_)),
                "is_input": flags(bits & schema.EXTERNAL_INPUT != 0),
                "is_output": flags(bits & schema.EXTERNAL_OUTPUT != 0),
            }
        )


def _check_apart(tables: Tables) -> None:
    """Raise `FormatError` for ops that share a table: a small hostile file could claim many."""
    ascending = np.sort(tables.positions)
    if (shared := ascending[1:][ascending[1:] == ascending[:-1]]).size:
        raise FormatError(tables.buffer.path, f"two ops of XNNPACK's graph share a {tables.type.name}", int(shared[0]))


def _check_few(tables: Tables, number: int, most: int, what: str) -> None:
    """Raise `FormatError` for more ops or values than are read."""
    if number > most:
        raise FormatError(
            tables.buffer.path,
            f"XNNPACK's graphs have {number:,} {what} up to this one; etq reads at most {most:,} of a program",
            int(tables.positions[0]),
        )


def _check_made_once(nodes: Tables, outputs: Sequence[Sequence[int]]) -> None:
    """Raise `FormatError` for a value that is made twice: XNNPACK knows one op that makes it, its producer."""
    made = set()
    for at, each in enumerate(outputs):
        for value in each:
            if value in made:
                raise FormatError(
                    nodes.buffer.path, f"XNNPACK's graph makes the value {value} twice", int(nodes.positions[at])
                )
            made.add(value)


def _add_values(ops: Tables, names: Sequence[str], ids: npt.NDArray[Any], into: Sequence[list[int]]) -> None:
    """Add the values in these fields of ops to the list of each."""
    for name in names:
        _check_known(ops, name, ids)
        for listed, value in zip(into, ops.scalar(name).tolist(), strict=True):
            if value != schema.NO_VALUE:
                listed.append(value)


def _add_parameters(ops: Tables, op: schema.Op, into: Sequence[dict[str, Any]]) -> None:
    """Add the parameters of ops to the object of each; flags only where some are set."""
    for name in op.vectors:
        for parameters, listed in zip(into, _listed(ops, name), strict=True):
            parameters[name] = listed
    for name in op.parameters():
        for parameters, value in zip(into, _writable(ops.scalar(name)), strict=True):
            if value or name != "flags":
                parameters[name] = value


def _check_known(tables: Tables, name: str, ids: npt.NDArray[Any]) -> None:
    """Raise `FormatError` for a field with a value that the graph doesn't have."""
    named = tables.scalar(name)
    unknown = ~np.isin(named, ids) & (named != schema.NO_VALUE)
    if unknown.any():
        first = int(np.flatnonzero(unknown)[0])
        raise FormatError(
            tables.buffer.path,
            f"{tables.type.name}.{name} is {named[first]}; XNNPACK's graph has {len(ids)} values, none of that id",
            int(tables.positions[first]),
        )


def _listed(tables: Tables, name: str) -> list[list[int]]:
    flat, counts = tables.vector(name, "u32")
    if (long := np.flatnonzero(counts > MOST_DIMENSIONS)).size:
        raise FormatError(
            tables.buffer.path,
            f"{tables.type.name}.{name} has {counts[long[0]]:,} numbers; "
            f"tensors have at most {MOST_DIMENSIONS} dimensions",
            int(tables.positions[long[0]]),
        )
    ends: Positions = np.cumsum(counts)
    numbers = flat.tolist()
    return [numbers[end - count : end] for end, count in zip(ends.tolist(), counts.tolist(), strict=True)]


def _lists(listed: Sequence[Sequence[int]]) -> pa.Array:
    counts = np.array([len(each) for each in listed], np.int64)
    return lists(numbers(np.array([value for each in listed for value in each], np.int64)), counts)


def _dtype(number: int) -> str:
    return schema.DTYPES[number] if 0 <= number < len(schema.DTYPES) else f"data type {number}"


def _writable(values: npt.NDArray[Any]) -> list[Any]:
    """Return numbers as JSON has them: floats with their own digits, infinities and NaN as texts."""
    if values.dtype.kind != "f":
        return [*map(int, values)]
    return [float(str(value)) if math.isfinite(value) else str(value) for value in values]
