"""Runs an exported program on its representative inputs, for the reference side of a numeric gap. Needs torch."""

from __future__ import annotations

import io
import json
import os
import re
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final

from etq.errors import EtqError, FormatError, displayed
from etq.ingest.memory import read_member
from etq.torch.exported import run_program
from etq.torch.operators import register_operators

EXPORTED: Final = "exported_program"
EDGE: Final = "edge_dialect_exported_program"
# The method of a graph whose name doesn't contain one.
_FORWARD: Final = "forward"
# Parts that expressions of sizes never have: texts, attributes, and calls other than functions such as Max and
# FloorDiv.
_MORE_THAN_ARITHMETIC: Final = re.compile(
    r"""[^\w\s.,()+\-*/%<>=!&|~^]|__|\.\s*[^\W\d]|\b[^\WA-Z\d]\w*\s*\(|\)\s*\(|\blambda\b""", re.ASCII
)
# How many characters of torch's error are shown.
MOST_SHOWN: Final = 300
NO_TORCH: Final = "running a reference needs torch; install it with: pip install 'etq[torch]'"
NO_EXECUTORCH: Final = (
    "running an edge program needs executorch; install it with: pip install executorch, or use the exported program"
)


def reference_values(path: str | os.PathLike[str], graph: str = EXPORTED) -> dict[str, list[Any]]:
    """Compute the values of each node of an ETRecord's graph for the record's representative inputs.

    Returns the outputs of each node, by node name and in the order of execution: numpy arrays (bfloat16 and float8 as
    float32), ints, floats and bools; None for outputs of other types. From pickled members, only tensors are read.

    graph  `exported_program`, for which torch is enough; or the name of another graph of the record, such as
           `edge_dialect_exported_program` or `edge_after_transform/forward`, for which executorch is needed

    Raises `EtqError` if torch or executorch is missing or can't run the program, and `FormatError` if the record lacks
    the graph or representative inputs.
    """
    try:
        import torch
    except ImportError as error:
        raise EtqError(NO_TORCH) from error
    name = os.fspath(path)
    with _archive(name) as archive:
        inputs = _tensors(archive, name, "representative_inputs")
        steps = _exported(archive, name, inputs) if graph == EXPORTED else _run(_other(archive, name, graph), inputs)
    try:
        with torch.no_grad():
            return dict(steps)
    except Exception as error:
        raise EtqError(
            f"{displayed(name)}: {graph} can't be run by torch {torch.__version__}: {_first_line(error)}"
        ) from error


def _first_line(error: Exception) -> str:
    """Return the first line of an error's text, because torch's errors continue with whole nodes and programs."""
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    return line if len(line) <= MOST_SHOWN else line[:MOST_SHOWN] + " …"


def _archive(path: str) -> zipfile.ZipFile:
    if os.path.exists(path) and not os.path.isfile(path):  # noqa: PTH113 - opening a pipe may wait forever
        raise FormatError(displayed(path), "can't be read: not a regular file")
    try:
        return zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile) as error:
        raise FormatError(displayed(path), f"not an ETRecord: {error}") from error


def _member(archive: zipfile.ZipFile, path: str, name: str) -> bytes:
    try:
        return read_member(archive, name, displayed(path))
    except KeyError as error:
        raise FormatError(displayed(path), f"the ETRecord has no {name}, which a reference needs") from error
    except (OSError, zipfile.BadZipFile, NotImplementedError) as error:
        raise FormatError(displayed(path), f"member {name} is damaged: {error}") from error


def _tensors(archive: zipfile.ZipFile, path: str, name: str) -> Any:
    """Return the content of a member that torch.save wrote: tensors and plain values; other objects are refused,
    never run.
    """
    import torch

    try:
        return torch.load(io.BytesIO(_member(archive, path, name)), weights_only=True)
    except FormatError:
        raise
    except Exception as error:
        raise FormatError(displayed(path), f"member {name} can't be read as tensors: {error}") from error


def _exported(archive: zipfile.ZipFile, path: str, inputs: Any) -> Iterator[tuple[str, list[Any]]]:
    """Return a function that runs the exported program and yields as `_run` does."""
    written = _member(archive, path, EXPORTED)
    try:
        program = json.loads(written)
    except (ValueError, RecursionError) as error:
        raise FormatError(displayed(path), f"member {EXPORTED}: {error}") from error
    register_operators(written, path, EXPORTED)
    state, constants = (_tensors(archive, path, f"{EXPORTED}_{part}") for part in ("state_dict", "constants"))
    ran = run_program(program, {**constants, **state}, inputs)
    # Later nodes may write into a tensor, so its current values are copied.
    return ((name, [*map(_plain, values)]) for name, values in ran)


def _other(archive: zipfile.ZipFile, path: str, graph: str) -> Any:
    """Return a graph that executorch reads, by its name: that of the edge program, or a graph of `graph_map`."""
    written = graph if "/" in graph else f"{graph}/{_FORWARD}"
    members = [each for each in (graph, written) if each in archive.namelist()]
    if not members:
        raise FormatError(displayed(path), f"the ETRecord has no {graph}, which a reference needs")
    for member in members:
        register_operators(_member(archive, path, member), path, graph)
    try:
        record = parsed_record(path)
        stage, _, method = written.partition("/")
        program = record.edge_dialect_program if stage == EDGE else record.graph_map[written]
        # If there are several methods, the edge programs are a dict.
        return (program[method] if isinstance(program, dict) else program).module()
    except EtqError:
        raise
    except Exception as error:
        raise EtqError(f"{displayed(path)}: executorch can't build {graph}: {_first_line(error)}") from error


def parsed_record(path: str) -> Any:
    """Return executorch's object of a record.

    Raises `EtqError` without executorch, and executorch's errors unchanged. Raises `FormatError` if a size in the
    record is more than arithmetic, because executorch would evaluate it as Python.
    """
    try:
        from executorch.devtools.etrecord import parse_etrecord
    except ImportError as error:
        raise EtqError(NO_EXECUTORCH) from error
    with _archive(path) as archive:
        for name in archive.namelist():
            # Other members are not JSON.
            with suppress(ValueError, RecursionError):
                json.loads(_member(archive, path, name), object_hook=partial(_check_sizes, path))
    return parse_etrecord(path)


def _check_sizes(path: str, part: dict[str, Any]) -> dict[str, Any]:
    """Raise `FormatError` if an object of JSON, or JSON in its texts, has a size that is more than arithmetic."""
    size = part.get("expr_str", "")
    if not isinstance(size, str) or _MORE_THAN_ARITHMETIC.search(size):
        raise FormatError(displayed(path), f"the size {displayed(str(size))} is more than arithmetic")
    for text in part.values():
        if isinstance(text, str) and text.lstrip().startswith("{"):
            with suppress(ValueError, RecursionError):
                json.loads(text, object_hook=partial(_check_sizes, path))
    return part


def _run(module: Any, inputs: Any) -> Iterator[tuple[str, list[Any]]]:
    """Run a graph module node by node; yield the name and the outputs of each call."""
    import torch

    class Recorder(torch.fx.Interpreter):  # type: ignore[misc]
        def run_node(self, n: Any) -> Any:
            result = super().run_node(n)
            if n.op == "call_function":
                values = result if isinstance(result, tuple | list) else [result]
                # Later nodes may write into a tensor, so its current values are copied.
                outputs.append((n.name, [_plain(value) for value in values]))
            return result

    outputs: list[tuple[str, list[Any]]] = []
    Recorder(module).run(inputs)
    yield from outputs


def _plain(value: Any) -> Any:
    import torch

    if not isinstance(value, torch.Tensor):
        return value if isinstance(value, bool | int | float) else None
    tensor = value.detach().cpu().contiguous()
    if tensor.dtype == torch.bfloat16 or (tensor.dtype.itemsize == 1 and tensor.dtype.is_floating_point):
        tensor = tensor.float()
    return tensor.numpy().copy()
