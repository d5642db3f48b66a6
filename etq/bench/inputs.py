"""Inputs of a program's method: random inputs of the method's shapes and types, or the inputs in a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from etq.errors import EtqError
from etq.ingest.program.reader import read_program
from etq.storage.sources import source_of

# numpy's types, by the types of tensors. numpy has no bfloat16, so the upper halves of float32 are written.
_TYPES: Final = {
    **{name: np.dtype(name).type for name in ("float16", "float32", "float64", "int8", "int16", "int32", "int64")},
    **{name: np.dtype(name).type for name in ("uint8", "uint16", "uint32", "uint64", "bool")},
    "bfloat16": np.uint16,
}


@dataclass(frozen=True)
class Input:
    """An input of a method. A tensor has a type, sizes and a file with its elements; any other input has a value."""

    kind: str  # tensor, int, double, bool, string or none
    scalar_type: str | None = None
    sizes: tuple[int, ...] = ()
    path: str | None = None
    value: Any = None


def method_of(program: str, method: str | None) -> str:
    """Return the method to measure: the named one, otherwise `forward`, otherwise the program's first.

    Raises `EtqError` for a method that the program lacks, and `FormatError` for a file that isn't a program.
    """
    methods = [row["method"] for row in _tables(program)["methods"]]
    if method is not None and method not in methods:
        raise EtqError(f"{program}: no method {method!r}; it has {', '.join(methods)}")
    if not methods:
        raise EtqError(f"{program}: has no methods to measure")
    return method or ("forward" if "forward" in methods else methods[0])


def random_inputs(program: str, method: str, seed: int, folder: str) -> list[Input]:
    """Write random inputs of a method into files of a folder, and return all inputs in order.

    Floats are normally distributed. Integers are 0 or 1, because these are valid indexes of every embedding table. A
    seed gives the same inputs each time. Raises `EtqError` for an unsupported type of tensors.
    """
    generator = np.random.default_rng(seed)
    made = []
    for place, wanted in enumerate(_wanted(program, method)):
        if wanted.kind != "tensor":
            made.append(wanted)
            continue
        kind = _type_of(program, place, wanted)
        numbers: npt.NDArray[Any]
        if wanted.scalar_type == "bfloat16":
            numbers = generator.standard_normal(wanted.sizes, np.float32).view(np.uint32) >> 16
        elif np.issubdtype(kind, np.floating):
            numbers = generator.standard_normal(wanted.sizes)
        else:
            numbers = generator.integers(0, 2, wanted.sizes)
        made.append(_written(wanted, np.asarray(numbers).astype(kind), folder, place))
    return made


def inputs_of_file(program: str, method: str, path: str, folder: str) -> list[Input]:
    """Write the arrays of a file as the input tensors of a method, in order, and return all inputs.

    path  .npz by numpy.savez, or .pt by torch.save with a tensor or a list of tensors, for which torch is needed

    Raises `EtqError` for a file that can't be read, and for arrays whose number, types or sizes differ from the inputs.
    """
    wanted = _wanted(program, method)
    arrays = _arrays_of(path)
    tensors = [place for place, each in enumerate(wanted) if each.kind == "tensor"]
    if len(arrays) != len(tensors):
        raise EtqError(f"{path}: {len(arrays)} arrays; method {method} of {program} takes {len(tensors)} tensors")
    made = list(wanted)
    for array, place in zip(arrays, tensors, strict=True):
        kind = np.dtype(_type_of(program, place, wanted[place]))
        sizes = wanted[place].sizes
        if array.dtype != kind:
            raise EtqError(f"{path}: array {place + 1} has type {array.dtype}; the input has {kind}")
        # A program states the largest sizes. An input of dynamic shape may be smaller.
        if array.ndim != len(sizes) or any(size > most for size, most in zip(array.shape, sizes, strict=True)):
            raise EtqError(f"{path}: array {place + 1} has shape {list(array.shape)}; the input has {list(sizes)}")
        given = Input("tensor", wanted[place].scalar_type, tuple(array.shape))
        made[place] = _written(given, array, folder, place)
    return made


@cache
def _tables(program: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of a program's methods and of their values."""
    source = source_of(program)
    needed = ("methods", "program_values")
    return {table: rows.to_pylist() for table, rows in read_program(source.content, program) if table in needed}


def _wanted(program: str, method: str) -> list[Input]:
    """The inputs of a method, without elements of tensors; numbers have a value of their type."""
    tables = _tables(program)
    values = {row["value_index"]: row for row in tables["program_values"] if row["method"] == method}
    [places] = [row["inputs"] for row in tables["methods"] if row["method"] == method]
    numbers = {"int": 1, "double": 1.0, "bool": True}
    return [
        Input(value["kind"], value["scalar_type"], tuple(value["sizes"] or ()), value=numbers.get(value["kind"]))
        for value in (values[place] for place in places)
    ]


def _type_of(program: str, place: int, wanted: Input) -> type[Any]:
    kind = _TYPES.get(wanted.scalar_type or "")
    if kind is None:
        raise EtqError(f"{program}: input {place + 1} is of type {wanted.scalar_type}, which etq can't make")
    return kind


def _written(wanted: Input, elements: npt.NDArray[Any], folder: str, place: int) -> Input:
    path = os.path.join(folder, f"input-{place}.bin")
    Path(path).write_bytes(np.ascontiguousarray(elements).tobytes())
    return Input("tensor", wanted.scalar_type, wanted.sizes, path)


def _arrays_of(path: str) -> Sequence[npt.NDArray[Any]]:
    if path.endswith((".pt", ".pth")):
        return _arrays_of_torch(path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            return [archive[name] for name in archive.files]
    except (OSError, ValueError, EOFError, AttributeError) as error:
        what = error.strerror if isinstance(error, OSError) and error.strerror else "not a file of numpy.savez"
        raise EtqError(f"{path}: {what.lower()}") from None


def _arrays_of_torch(path: str) -> Sequence[npt.NDArray[Any]]:
    try:
        import torch
    except ImportError:
        raise EtqError(f"{path}: can only be read with torch; install it, or write inputs with numpy.savez") from None
    try:
        content = torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:  # torch raises many kinds of errors: of its unpickler, of zip files, of tensors
        raise EtqError(f"{path}: can't be read: {str(error).splitlines()[0]}") from None
    tensors = [content] if isinstance(content, torch.Tensor) else content
    if not isinstance(tensors, list | tuple) or not all(isinstance(tensor, torch.Tensor) for tensor in tensors):
        raise EtqError(f"{path}: expected a tensor or a list of tensors")
    return [
        (tensor.view(torch.uint16) if tensor.dtype == torch.bfloat16 else tensor).detach().contiguous().numpy()
        for tensor in tensors
    ]
