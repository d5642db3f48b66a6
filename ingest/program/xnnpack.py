"""The graphs in XNNPACK's blobs, as rows of the tables `delegate_ops` and `delegate_values`."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import repeat
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from etq.errors import FormatError
from etq.ingest.flatbuffers.reader import Buffer, Positions, Tables
from etq.ingest.flatbuffers.unions import members, union_kinds
from etq.ingest.program import delegate_rows
from etq.ingest.program import xnnpack_schema as schema
from etq.ingest.program.delegate_rows import OpRows, ValueRows, check_apart, check_few, graph_of

_NAMES: Final = (None, *schema.OPS)
# XNNPACK's tensors have at most 6 dimensions (XNN_MAX_TENSOR_DIMS). Vectors of ops have a number per dimension.
MOST_DIMENSIONS: Final = 16


def add_graph(buffer: Buffer, start: int, size: int, ops: OpRows, values: ValueRows) -> None:
    """Add the graph of a blob, unless it is of another format of XNNPACK, or has other kinds of values.

    Raises `FormatError`, naming the byte, for a graph that is damaged or too large.
    """
    graph = graph_of(buffer, start, size, schema.HEADER, schema.IDENTIFIERS, schema.GRAPH, "XNNPACK")
    if graph is None:
        return
    found, _ = graph.vector_of_tables("xvalues", schema.VALUE)
    if (found.scalar("xvalue_union_type") < len(schema.VALUE_KINDS)).all():
        ids = _add_values(values, start, found)
        _add_ops(ops, start, graph, ids)


def _add_ops(rows: OpRows, blob: int, graph: Tables, ids: npt.NDArray[Any]) -> None:
    """Add the ops of a graph. `ids` are the ids of its values, in ascending order."""
    nodes, _ = graph.vector_of_tables("xnodes", schema.NODE)
    check_apart(nodes, "XNNPACK")
    count = len(nodes)
    check_few(graph, len(rows.ops) + count, delegate_rows.MOST_OPS, "ops", "XNNPACK")
    kinds = nodes.scalar("xnode_union_type").tolist()
    inputs: list[list[int]] = [[] for _ in range(count)]
    outputs: list[list[int]] = [[] for _ in range(count)]
    parameters: list[dict[str, Any]] = [{} for _ in range(count)]
    # An op from a newer schema has only a number.
    for number in sorted({kind for kind in kinds if 0 < kind < len(_NAMES)}):
        op = schema.OPS[str(_NAMES[number])]
        found, at = members(nodes, "xnode_union", np.array(kinds) == number, op.table)
        check_apart(found, "XNNPACK")
        _add_fields(found, op.values(are_outputs=False), ids, [inputs[place] for place in at.tolist()])
        _add_fields(found, op.values(are_outputs=True), ids, [outputs[place] for place in at.tolist()])
        _add_parameters(found, op, [parameters[place] for place in at.tolist()])
    _check_made_once(nodes, outputs)
    ranges, owners = nodes.tables("output_min_max", schema.OUTPUT_MIN_MAX)
    _add_parameters(ranges, schema.Op(schema.OUTPUT_MIN_MAX), [parameters[place] for place in owners.tolist()])
    rows.blobs += repeat(blob, count)
    rows.indexes += range(count)
    rows.ops += [_NAMES[kind] or "none" if kind < len(_NAMES) else f"op {kind}" for kind in kinds]
    handles = nodes.scalar("debug_handle").tolist()
    rows.handles += [handle if 0 < handle < 2**31 and handle != schema.NO_HANDLE else None for handle in handles]
    rows.inputs += inputs
    rows.outputs += outputs
    rows.parameters += map(json.dumps, parameters)


def _add_values(rows: ValueRows, blob: int, values: Tables) -> npt.NDArray[Any]:
    """Add the values of a graph; return their ids in ascending order."""
    check_few(values, len(rows.ids) + len(values), delegate_rows.MOST_VALUES, "values", "XNNPACK")
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
    rows.blobs += repeat(blob, len(tensors))
    rows.ids += ids.tolist()
    rows.dtypes += map(_dtype, tensors.scalar("datatype").tolist())
    rows.sizes += _listed(tensors, "dims")
    rows.constants += (tensors.scalar("constant_buffer_idx") != 0).tolist()
    bits = tensors.scalar("flags")
    rows.inputs += (bits & schema.EXTERNAL_INPUT != 0).tolist()
    rows.outputs += (bits & schema.EXTERNAL_OUTPUT != 0).tolist()
    return ascending


def _check_made_once(nodes: Tables, outputs: Sequence[Sequence[int]]) -> None:
    """Raise `FormatError` for a value that is made twice: in XNNPACK, a value has one producer."""
    made = set()
    for at, each in enumerate(outputs):
        for value in each:
            if value in made:
                raise FormatError(
                    nodes.buffer.path, f"XNNPACK's graph makes the value {value} twice", int(nodes.positions[at])
                )
            made.add(value)


def _add_fields(ops: Tables, names: Sequence[str], ids: npt.NDArray[Any], into: Sequence[list[int]]) -> None:
    """Add the values in these fields of ops to each op's list."""
    for name in names:
        _check_known(ops, name, ids)
        for listed, value in zip(into, ops.scalar(name).tolist(), strict=True):
            if value != schema.NO_VALUE:
                listed.append(value)


def _add_parameters(ops: Tables, op: schema.Op, into: Sequence[dict[str, Any]]) -> None:
    """Add the parameters of ops to each op's object; flags only if one of them is set."""
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


def _dtype(number: int) -> str:
    return schema.DTYPES[number] if 0 <= number < len(schema.DTYPES) else f"data type {number}"


def _writable(values: npt.NDArray[Any]) -> list[Any]:
    """Return numbers in the form that JSON takes: floats with the digits of their own width, infinities and NaN as
    texts.
    """
    if values.dtype.kind != "f":
        return [*map(int, values)]
    return [float(str(value)) if math.isfinite(value) else str(value) for value in values]
