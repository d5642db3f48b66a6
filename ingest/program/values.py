"""The values of a program's methods (EValues), as rows of the table `program_values`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etq.errors import FormatError
from etq.ingest.arrow import batch, flags, integers, lists, numbers, texts
from etq.ingest.dictionary import encode_strings
from etq.ingest.etdump.schema import ELEMENT_BYTES, scalar_type
from etq.ingest.flatbuffers.reader import Positions, Tables
from etq.ingest.flatbuffers.unions import members, union_kinds
from etq.ingest.program import schema
from etq.ingest.program.methods import Methods


def value_rows(methods: Methods) -> pa.RecordBatch:
    """Return the table `program_values`, one row per value, ordered by method."""
    values = methods.values
    kinds = union_kinds(values, "val_type", schema.VALUE_KINDS)
    return batch(
        {
            "method": methods.names_of(methods.value_counts),
            "value_index": numbers(Methods.index_within(methods.value_counts)),
            "kind": texts(kinds.tolist()),
            **_tensor_columns(values, kinds),
            "is_input": flags(methods.are_named(methods.inputs, methods.input_counts, "input")),
            "is_output": flags(methods.are_named(methods.outputs, methods.output_counts, "output")),
            "number": _numbers(values, kinds),
            "text": _strings(values, kinds),
            "items": _items(values, kinds),
        }
    )


@dataclass(frozen=True)
class _Tensors:
    """The t tensors among v values; `at` [t] has their indexes among the values."""

    tables: Tables
    at: Positions
    among: int

    def placed(self, values: Sequence[Any]) -> list[Any]:
        """Return one entry per value: for a tensor, its entry of `values`; for other values, None."""
        placed: list[Any] = [None] * self.among
        for place, value in zip(self.at.tolist(), values, strict=True):
            placed[place] = value
        return placed


def _tensor_columns(values: Tables, kinds: npt.NDArray[Any]) -> dict[str, pa.Array]:
    """Return the columns that only tensors have."""
    tables, at = members(values, "val", kinds == "tensor", schema.TENSOR)
    tensors = _Tensors(tables, at, len(values))
    types = [scalar_type(number) for number in tables.scalar("scalar_type").tolist()]
    sizes, ranks = tables.vector("sizes", "i32")
    dynamisms = [_dynamism(tables, *each) for each in enumerate(tables.scalar("shape_dynamism").tolist())]
    buffer_index = tables.scalar("data_buffer_idx").tolist()
    memory_id, memory_offset = _allocations(tables)
    names, is_external = _extra(tables)
    is_constant = [
        memory is None and (bool(buffer) or external)
        for memory, buffer, external in zip(memory_id, buffer_index, is_external, strict=True)
    ]
    list_counts = np.zeros(len(values), np.int64)
    list_counts[at] = ranks
    return {
        "scalar_type": texts(tensors.placed(types)),
        "sizes": lists(numbers(sizes), list_counts, kinds != "tensor"),
        "size_bytes": integers(tensors.placed(_byte_sizes(types, sizes, ranks)), np.int64),
        "dynamism": texts(tensors.placed(dynamisms)),
        "name": texts(tensors.placed(names)),
        "constant_index": integers(tensors.placed([buffer or None for buffer in buffer_index]), np.int64),
        "memory_id": integers(tensors.placed(memory_id), np.int64),
        "memory_offset": integers(tensors.placed(memory_offset), np.int64),
        "is_constant": flags(np.array([bool(each) for each in tensors.placed(is_constant)], np.bool_)),
        "is_external": flags(np.array([bool(each) for each in tensors.placed(is_external)], np.bool_)),
    }


def _dynamism(tensors: Tables, index: int, number: int) -> str:
    if not 0 <= number < len(schema.DYNAMISMS):
        raise FormatError(
            tensors.buffer.path,
            f"Tensor.shape_dynamism is {number}; known are 0 to {len(schema.DYNAMISMS) - 1}",
            int(tensors.positions[index]),
        )
    return schema.DYNAMISMS[number]


def _byte_sizes(types: Sequence[str], sizes: npt.NDArray[Any], ranks: Positions) -> list[int | None]:
    """Return the tensors' sizes in bytes, None if a type is unknown or the product exceeds any memory."""
    ends = np.cumsum(ranks).tolist()
    found: list[int | None] = []
    for type, rank, end in zip(types, ranks.tolist(), ends, strict=True):
        dimensions = sizes[end - rank : end].tolist()
        # Computed as floats first: the exact product of many dimensions may have thousands of digits.
        about = math.prod(map(float, dimensions))
        possible = type in ELEMENT_BYTES and min(dimensions, default=0) >= 0 and about < 2**58
        found.append(math.prod(dimensions) * ELEMENT_BYTES[type] if possible else None)
    return found


def _allocations(tensors: Tables) -> tuple[list[int | None], list[int | None]]:
    """Return the planned buffer of each tensor, and the tensor's offset in it in bytes; None for tensors that aren't
    planned.
    """
    found, owners = tensors.tables("allocation_info", schema.ALLOCATION)
    ids: list[int | None] = [None] * len(tensors)
    offsets: list[int | None] = [None] * len(tensors)
    low, high = found.scalar("memory_offset_low").tolist(), found.scalar("memory_offset_high").tolist()
    rows = zip(owners.tolist(), found.scalar("memory_id").tolist(), low, high, found.positions.tolist(), strict=True)
    for owner, memory_id, low_bits, high_bits, at in rows:
        offset = high_bits << 32 | low_bits
        if offset >= 2**63:
            raise FormatError(tensors.buffer.path, f"a tensor is planned at offset {offset}, beyond any memory", at)
        ids[owner], offsets[owner] = memory_id, offset
    return ids, offsets


def _extra(tensors: Tables) -> tuple[list[str | None], list[bool]]:
    """Return the name of each tensor, if it has one, and whether its data is in another file."""
    found, owners = tensors.tables("extra_tensor_info", schema.EXTRA_TENSOR_INFO)
    codes, spelled = encode_strings(
        tensors.buffer, found.spans("fully_qualified_name", 1), "ExtraTensorInfo.fully_qualified_name"
    )
    names: list[str | None] = [None] * len(tensors)
    external = [False] * len(tensors)
    rows = zip(owners.tolist(), codes.tolist(), found.scalar("location").tolist(), strict=True)
    for owner, code, location in rows:
        names[owner], external[owner] = spelled[code] or None, location == schema.EXTERNAL
    return names, external


def _numbers(values: Tables, kinds: npt.NDArray[Any]) -> pa.Array:
    found, known = np.zeros(len(values)), np.zeros(len(values), np.bool_)
    for kind, type, name in (
        ("int", schema.INT, "int_val"),
        ("bool", schema.BOOL, "bool_val"),
        ("double", schema.DOUBLE, "double_val"),
    ):
        tables, at = members(values, "val", kinds == kind, type)
        found[at], known[at] = tables.scalar(name), True
    return numbers(found, ~known)


def _strings(values: Tables, kinds: npt.NDArray[Any]) -> pa.Array:
    tables, at = members(values, "val", kinds == "string", schema.STRING)
    codes, spelled = encode_strings(values.buffer, tables.spans("string_val", 1), "String.string_val")
    found: list[str | None] = [None] * len(values)
    for place, code in zip(at.tolist(), codes.tolist(), strict=True):
        found[place] = spelled[code] or ""
    return texts(found)


def _items(values: Tables, kinds: npt.NDArray[Any]) -> pa.Array:
    """Return the indexes of the values in each list value, null for other values.
    The index of an absent tensor is -1.
    """
    parts, places = [], []
    counts = np.zeros(len(values), np.int64)
    for kind, type in schema.INDEX_LISTS.items():
        tables, at = members(values, "val", kinds == kind, schema.LIST)
        flat, lengths = tables.vector("items", type)
        counts[at] = lengths
        parts.append(flat.astype(np.int64))
        places.append(np.repeat(at, lengths))
    order = np.argsort(np.concatenate(places), kind="stable")
    return lists(numbers(np.concatenate(parts)[order]), counts, ~np.isin(kinds, list(schema.INDEX_LISTS)))
