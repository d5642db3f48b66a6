"""Values of debug events: tensors (shape, and position in the debug buffer), tensor lists, numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etq.errors import FormatError
from etq.ingest.arrow import as_numpy, lists, numbers, texts
from etq.ingest.etdump.schema import BOOL, DOUBLE, FLOAT, INT, TENSOR, TENSOR_LIST, VALUE, VALUE_KINDS, scalar_type
from etq.ingest.events.event import DebugValues
from etq.ingest.flatbuffers.reader import SCALARS, Positions, Spans, Tables, element_positions

SCHEMA = pa.schema(
    [
        ("value_index", pa.int32()),
        ("kind", pa.string()),
        ("scalar_type", pa.string()),
        ("sizes", pa.list_(pa.int64())),
        ("strides", pa.list_(pa.int64())),
        ("byte_offset", pa.int64()),
        ("number", pa.float64()),
    ]
)


def read_debug_values(debug: Tables, debug_at: Positions) -> DebugValues:
    """Decode the values of debug events; `debug_at` has their places in the slice, at least one."""
    values, owners = debug.tables("debug_entry", VALUE)
    if len(values) != len(debug):
        missing = np.flatnonzero(~debug.present("debug_entry"))
        raise FormatError(debug.buffer.path, "a debug event without its debug_entry", int(debug.positions[missing[0]]))
    output, output_at = values.tables("output", BOOL)
    is_output = np.zeros(len(debug), np.bool_)
    is_output[output_at] = output.scalar("bool_val") != 0

    kind = values.scalar("val").astype(np.int64)
    unknown = np.flatnonzero((kind < 0) | (kind >= len(VALUE_KINDS)))
    if len(unknown):
        raise FormatError(
            debug.buffer.path,
            f"a value of kind {kind[unknown[0]]}; known are 0 to {len(VALUE_KINDS) - 1} ({', '.join(VALUE_KINDS)})",
            int(values.positions[unknown[0]]),
        )
    parts = [
        _tensors(values, np.flatnonzero(kind == VALUE_KINDS.index("tensor"))),
        _tensor_lists(values, np.flatnonzero(kind == VALUE_KINDS.index("tensor_list"))),
    ]
    # A value without a tensor, such as an empty tensor list, also has one row.
    rest = np.setdiff1d(np.arange(len(values)), np.concatenate([place for place, _ in parts]))
    parts.append(_numbers(Tables(values.buffer, VALUE, values.positions[rest]), rest, kind[rest]))
    places = np.concatenate([place for place, _ in parts])
    table = pa.concat_tables([part for _, part in parts])
    order = np.lexsort((as_numpy(table.column("value_index"), np.int32), places))
    if (np.diff(order) < 0).any():  # a first `take` costs 40 ms of imports
        table = table.take(numbers(order))
    return DebugValues(is_output, debug_at[owners[places[order]]], table)


def _table(columns: dict[str, pa.Array]) -> pa.Table:
    return pa.Table.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def _tensors(values: Tables, chosen: Positions) -> tuple[Positions, pa.Table]:
    tensors, owners = Tables(values.buffer, VALUE, values.positions[chosen]).tables("tensor", TENSOR)
    return chosen[owners], _tensor_table(tensors, np.zeros(len(owners), np.int32), "tensor")


def _tensor_lists(values: Tables, chosen: Positions) -> tuple[Positions, pa.Table]:
    lists, owners = Tables(values.buffer, VALUE, values.positions[chosen]).tables("tensor_list", TENSOR_LIST)
    spans = lists.spans("tensors", 4)
    values.buffer.claim(4 * spans.total(), "TensorList.tensors")
    tensors = (
        lists.elements(spans, TENSOR, 0, spans.total()) if spans.total() else Tables(lists.buffer, TENSOR, owners[:0])
    )
    index = np.arange(spans.total()) - np.repeat(np.cumsum(spans.count) - spans.count, spans.count)
    return np.repeat(chosen[owners], spans.count), _tensor_table(tensors, index.astype(np.int32), "tensor_list")


def _tensor_table(tensors: Tables, index: npt.NDArray[np.int32], kind: str) -> pa.Table:
    names = list(map(scalar_type, tensors.scalar("scalar_type").tolist()))
    count = len(tensors)
    return _table(
        {
            "value_index": numbers(index),
            "kind": texts([kind] * count),
            "scalar_type": texts(names),
            "sizes": _integers(tensors, tensors.spans("sizes", 8)),
            "strides": _integers(tensors, tensors.spans("strides", 8)),
            "byte_offset": numbers(tensors.scalar("offset")),
            "number": pa.nulls(count, pa.float64()),
        }
    )


def _integers(tensors: Tables, spans: Spans) -> pa.Array:
    """Return vectors of i64, one list per tensor; an absent vector becomes an empty list, as for a scalar."""
    total = spans.total()
    tensors.buffer.claim(8 * total, "Tensor.sizes and strides")
    places = element_positions(spans, 8, 0, total) if total else spans.start[:0]
    flat = tensors.buffer.gather(places, SCALARS["i64"], "Tensor.sizes or strides")
    return lists(numbers(flat), spans.count)


def _numbers(values: Tables, places: Positions, kind: Positions) -> tuple[Positions, pa.Table]:
    count = len(values)
    number, known = np.zeros(count), np.zeros(count, np.bool_)
    for name, field, type, member in (
        ("int", "int_value", INT, "int_val"),
        ("bool", "bool_value", BOOL, "bool_val"),
        ("float", "float_value", FLOAT, "float_val"),
        ("double", "double_value", DOUBLE, "double_val"),
    ):
        chosen = np.flatnonzero(kind == VALUE_KINDS.index(name))
        tables, owners = Tables(values.buffer, VALUE, values.positions[chosen]).tables(field, type)
        number[chosen[owners]] = tables.scalar(member)
        known[chosen[owners]] = True
    return places, _table(
        {
            "value_index": numbers(np.zeros(count, np.int32)),
            "kind": texts([VALUE_KINDS[code] for code in kind]),
            "scalar_type": pa.nulls(count, pa.string()),
            "sizes": pa.nulls(count, pa.list_(pa.int64())),
            "strides": pa.nulls(count, pa.list_(pa.int64())),
            "byte_offset": pa.nulls(count, pa.int64()),
            "number": numbers(number, ~known),
        }
    )
