"""Parts of a record that only torch and executorch can read: reference outputs and exported programs."""

from __future__ import annotations

import io
import os
import weakref
import zipfile
from contextlib import ExitStack
from importlib.util import find_spec
from typing import Any, Final

from etq.database.temporary import temporary_folder
from etq.errors import ArgumentTypeError, EtqError
from etq.ingest.memory import read_member

_MEMBER: Final = "reference_outputs"
_FORWARD: Final = "forward"


def reference_outputs(record: str, method: str | None, as_tensors: bool) -> list[list[Any]] | None:
    """Return the outputs that a record expects of a method, one list for each bundled input.

    as_tensors  whether tensors stay torch's; else they become numpy arrays

    None if the record has none, or if torch, which wrote them, is not installed. Nothing but tensors and plain
    values is unpickled. Raises `EtqError` for outputs that hold anything else.
    """
    if find_spec("torch") is None:
        return None
    with zipfile.ZipFile(record) as members:
        if _MEMBER not in members.namelist():
            return None
        content = read_member(members, _MEMBER, record)
    import torch

    try:
        loaded = torch.load(io.BytesIO(content), weights_only=True)
    except Exception as error:
        raise EtqError(f"{record}: {_MEMBER} can't be read: {error}") from error
    outputs = loaded.get(method or _FORWARD) if isinstance(loaded, dict) else None
    return None if outputs is None else [[_given(value, as_tensors) for value in output] for output in outputs]


def _given(value: Any, as_tensors: bool) -> Any:
    if isinstance(value, list | tuple):
        return [_given(each, as_tensors) for each in value]
    if not hasattr(value, "detach"):
        return value
    tensor = value.detach().cpu()
    if as_tensors:
        return tensor
    # numpy has no bfloat16.
    return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()


def exported_program(record: Any, graph: str | None) -> Any:
    """Return the exported program of a record: that of the edge dialect, or of another graph by its name, None if
    missing.

    record  a path, or an ETRecord of executorch

    Raises `EtqError` if executorch is not installed: an ExportedProgram is an object of torch.
    """
    if isinstance(record, str):
        if find_spec("executorch") is None:
            raise EtqError(
                "an ExportedProgram is an object of torch: pip install torch executorch; the tables graphs, op_nodes "
                "and op_edges of the record show its graph without them"
            )
        from etq.torch.reference import parsed_record

        record = parsed_record(record)
    return record.edge_dialect_program if graph is None else record.graph_map.get(graph)


def path_of_record(record: Any, owner: object) -> str:
    """Return the path of a record. An ETRecord object of executorch is saved to a file that exists as long as `owner`.

    Raises `ArgumentTypeError` for anything else.
    """
    if isinstance(record, str | os.PathLike):
        return os.fspath(record)
    if not hasattr(record, "save"):
        raise ArgumentTypeError(f"expected an ETRecord's path or executorch's object, not a {type(record).__name__}")
    stack = ExitStack()
    path = os.path.join(stack.enter_context(temporary_folder()), "given.etrecord")
    weakref.finalize(owner, stack.close)
    record.save(path)
    return path
