"""The values of a reference run, arrays by node name, as rows of `runs` and `debug_values`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etq.ingest.arrow import batch, flags, integers, lists, numbers, texts
from etq.ingest.etdump.debug_buffer import bytes_hash, doubles

# The outputs of a node: arrays and numbers; None for outputs that are neither.
Outputs = Sequence["npt.NDArray[Any] | np.generic | float | None"]


def read_reference(values: Mapping[str, Outputs], graph: str, method: str) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Return one run of a graph as rows without `capture_id`; those of `debug_values` also have a column `elements`.

    values  the outputs of each node by its name, in the order of execution
    graph   the graph's stage, as in the table `graphs`; also the name of the run
    method  the graph's method
    """
    yield (
        "runs",
        batch(
            {
                "run_index": integers([0]),
                "dump_index": integers([0]),
                "name": texts([graph]),
                "method": texts([method]),
                "block_index": integers([0]),
                "block_run": integers([0]),
                "iteration": integers([0]),
            }
        ),
    )
    listed = [
        (node, name, position, value)
        for node, (name, outputs) in enumerate(values.items())
        for position, value in enumerate(outputs)
    ]
    if listed:
        yield "debug_values", _value_rows(listed)


def hash_of(values: Mapping[str, Outputs], graph: str, record_sha256: str) -> str:
    """Return a hash of a reference's content: names, types, sizes and bytes."""
    digest = sha256(f"{record_sha256} {graph}".encode())
    for name, outputs in values.items():
        for value in outputs:
            array = _array(value)
            shown = repr(value) if array is None else f"{array.dtype} {array.shape}"
            digest.update(f"\n{name}\0{shown}\0".encode())
            if array is not None:
                digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _array(value: Any) -> npt.NDArray[Any] | None:
    return np.asarray(value) if isinstance(value, np.ndarray | np.generic) else None


def _value_rows(listed: list[tuple[int, str, int, Any]]) -> pa.RecordBatch:
    nodes, names, positions, values = zip(*listed, strict=True)
    arrays = [_array(value) for value in values]
    plain = [value if isinstance(value, bool | int | float) else None for value in values]
    return batch(
        {
            "run_index": integers([0] * len(listed)),
            "event_index": integers(nodes),
            "value_index": integers(positions),
            "chain_index": integers([0] * len(listed), np.int64),
            "name": texts(names),
            "is_output": flags(np.zeros(len(listed), np.bool_)),
            "kind": texts([_kind(array, number) for array, number in zip(arrays, plain, strict=True)]),
            "scalar_type": texts([None if array is None else str(array.dtype) for array in arrays]),
            "sizes": _sizes([None if array is None else array.shape for array in arrays]),
            "number": numbers(
                np.array([float(each or 0) for each in plain]), np.array([each is None for each in plain])
            ),
            "elements": _elements(arrays),
            "sha256": texts([None if array is None else bytes_hash(array) for array in arrays]),
        }
    )


def _kind(array: npt.NDArray[Any] | None, number: bool | float | None) -> str:
    if array is not None:
        return "tensor"
    if number is None:
        return "null"
    return "bool" if isinstance(number, bool) else "int" if isinstance(number, int) else "double"


def _sizes(shapes: list[tuple[int, ...] | None]) -> pa.Array:
    flat = np.array([size for shape in shapes for size in shape or ()], np.int64)
    counts = np.array([len(shape or ()) for shape in shapes], np.int64)
    return lists(numbers(flat), counts, np.array([shape is None for shape in shapes]))


def _elements(arrays: Sequence[npt.NDArray[Any] | None]) -> pa.Array:
    flat = [np.zeros(0) if array is None else doubles(array) for array in arrays]
    counts = np.array([each.size for each in flat], np.int64)
    return lists(numbers(np.concatenate(flat)), counts, np.array([array is None for array in arrays]))
