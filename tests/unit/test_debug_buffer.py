"""Tensors in a debug buffer: every element type, layouts, and impossible tensors."""

from __future__ import annotations

import itertools
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from etq.errors import FormatError
from etq.ingest.etdump.debug_buffer import tensor_at, with_elements
from etq.ingest.etdump.schema import SCALAR_TYPES

# torch 2.13's value of each byte as float8, of 256 pairs of bytes as bfloat16, of four float16 as complex32:
# torch.frombuffer(…, dtype=torch.uint8).view(dtype).float()
TORCH = json.loads((Path(__file__).parent / "torch_elements.json").read_text())


@pytest.mark.parametrize("name", [name for name in SCALAR_TYPES if name.startswith("float8")])
def test_float8(name: str) -> None:
    expected = np.array([float(value) for value in TORCH[name]], np.float32)
    found = tensor_at(bytes(range(256)), name, [256], [1], 0)
    assert found is not None and found.dtype == np.float32
    np.testing.assert_array_equal(found, expected)
    is_number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[is_number], np.signbit(expected)[is_number])


@pytest.mark.parametrize(
    ("name", "format", "values"),
    [
        *[("uint8", "3B", (0, 7, 255)), ("int8", "3b", (-128, 0, 127)), ("bool", "3?", (True, False, True))],
        *[("int16", "<3h", (-(2**15), 0, 5)), ("int32", "<3i", (-(2**31), 0, 5)), ("int64", "<3q", (-(2**63), 0, 5))],
        *[("uint16", "<3H", (0, 1, 65535)), ("uint32", "<3I", (0, 1, 2**32 - 1)), ("uint64", "<3Q", (0, 1, 2**64 - 1))],
        *[("float16", "<3e", (0.5, -2, 65504)), ("float32", "<3f", (0.5, -2, 1e30)), ("float64", "<3d", (0.1, -2, 0))],
        *[("qint8", "3b", (-128, 0, 127)), ("quint8", "3B", (0, 1, 255)), ("qint32", "<3i", (-5, 0, 5))],
        *[("quint4x2", "3B", (0, 18, 255)), ("bits8", "3B", (0, 18, 255)), ("bits16", "<3H", (0, 18, 65535))],
    ],
)
def test_every_element_type(name: str, format: str, values: tuple[Any, ...]) -> None:
    found = tensor_at(b"\0" * 5 + struct.pack(format, *values), name, [3], [1], 5)
    assert found is not None
    assert found.tolist() == pytest.approx(list(values), rel=1e-3) if name == "float16" else list(values)


@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4), data=st.data(), offset=st.integers(0, 9))
def test_layouts(sizes: list[int], data: st.DataObject, offset: int) -> None:
    """A dense layout with any order of dimensions, element by element by the definition of strides."""
    order = data.draw(st.permutations(range(len(sizes))))
    strides, step = [0] * len(sizes), 1
    for dimension in reversed(order):
        strides[dimension] = step
        step *= sizes[dimension]
    buffer = bytes(offset) + np.arange(step, dtype=np.int16).tobytes()
    found = tensor_at(buffer, "int16", sizes, strides, offset)
    assert found is not None and list(found.shape) == sizes
    for place in itertools.product(*(range(size) for size in sizes)):
        assert found[place] == sum(at * stride for at, stride in zip(place, strides, strict=True))
    assert tensor_at(buffer[:-1], "int16", sizes, strides, offset) is None


@pytest.mark.parametrize(
    ("sizes", "strides", "offset"),
    [
        *[([2, 3], [3, 1], 1), ([2, 3], [3, 1], -1), ([2, -3], [3, 1], 0), ([2, 3], [-3, 1], 0), ([2, 3], [1], 0)],
        *[([2**40], [0], 0), ([2**62, 4], [4, 1], 0), ([2, 3], [2**40, 1], 0), ([1] * 65, [1] * 65, 0)],
        *[([2, 3], [6, 1], 0), ([6], [1], 2**63 - 1), ([0, 2**62, 2**62], [1, 1, 1], 0)],
    ],
)
def test_impossible_values_are_unknown(sizes: list[int], strides: list[int], offset: int) -> None:
    assert tensor_at(bytes(24), "float32", sizes, strides, offset) is None


def test_a_buffer_of_another_run_is_refused() -> None:
    """Its values can't be those of a bool tensor; a buffer of the run itself has 0 and 1 alone."""
    logged = pa.RecordBatch.from_pydict(
        {
            "scalar_type": ["float32", "bool"],
            "sizes": pa.array([[1], [2, 2]], pa.list_(pa.int64())),
            "strides": pa.array([[1], [1, 2]], pa.list_(pa.int64())),
            "byte_offset": pa.array([0, 16], pa.int64()),
        }
    )
    own = struct.pack("<f12x4B", 1.5, 0, 1, 1, 0)
    [part] = with_elements(logged, own, "run.bin")
    assert part.column("elements").to_pylist() == [[1.5], [0, 1, 1, 0]]
    message = (
        "run.bin: the logged bool tensor at byte 16 has the byte 63, which is neither 0 nor 1: the debug buffer is "
    )
    with pytest.raises(FormatError, match=message + "of another run; give the one of this ETDump"):
        list(with_elements(logged, struct.pack("<f12xf", 1.5, 0.5), "run.bin"))
